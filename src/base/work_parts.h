/*
 * Hands out work piece by piece. Each worker first gets the pieces of a part of its own, the same part in every pass, so that
 * what it touched in one pass over a tensor is in its caches in the next. Then it gets pieces that other workers have left.
 */
#ifndef COMET_BASE_WORK_PARTS_H
#define COMET_BASE_WORK_PARTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MAX_WORK_PARTS = 64 }; /* more workers than that share them */

typedef struct work_part {
    _Alignas(64) atomic_uint_fast64_t next;
    uint64_t end;
} work_part;

typedef struct work_parts {
    size_t n;
    work_part parts[MAX_WORK_PARTS];
} work_parts;

/* Pieces [first, end) in parts of about equal size, one after the other. */
void work_parts_init(work_parts *w, uint64_t first, uint64_t end, size_t n_workers);

/* The next piece for this worker; false where all have been given out. */
bool work_parts_next(work_parts *w, size_t worker, uint64_t *piece);

#endif
