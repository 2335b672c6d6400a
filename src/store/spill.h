/* Coded tiles on disk: a file without a name that vanishes with the process. A stack like the heap; failures name the folder.
 */
#ifndef COMET_STORE_SPILL_H
#define COMET_STORE_SPILL_H

#include <pthread.h>

#include "base/memory.h"

typedef struct spill {
    pthread_mutex_t lock;
    int fd;
    char *folder; /* NULL: there is no spill file, and nothing below may be called but spill_close */
    size_t folder_bytes;
    uint64_t used;
} spill;

/* folder NULL: no file. */
comet_status spill_open(spill *s, const comet_allocator *allocator, const char *folder);
void spill_close(spill *s, const comet_allocator *allocator);

/* Appends; *offset is where it lies, *mark is raised to its end. Any thread. */
comet_status spill_write(spill *s, const void *data, size_t bytes, uint64_t *offset, uint64_t *mark);
/* Any thread. */
comet_status spill_read(const spill *s, uint64_t offset, void *data, size_t bytes);

/* What was written so far may leave the page cache, which else counts against a container's memory. */
void spill_let_go(const spill *s);

/* Frees all above the mark. */
void spill_rewind(spill *s, uint64_t mark);

#endif
