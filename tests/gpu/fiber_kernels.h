/* Tables of kernels in plain C, and who runs them. */
#ifndef COMET_TESTS_GPU_FIBER_KERNELS_H
#define COMET_TESTS_GPU_FIBER_KERNELS_H

#include "gpu/backend.h"

typedef void (*fiber_kernel)(uint8_t *x, uint8_t *frame, uint8_t *work, uint8_t *result, const gpu_job job);

enum fiber_order { FIBERS_FORWARD, FIBERS_BACKWARD, FIBERS_SHUFFLED, N_FIBER_ORDERS };
enum fiber_build { FIBERS_PLAIN, FIBERS_WARP32, FIBERS_WARP64, FIBERS_LOTS, FIBERS_WATCHED, N_FIBER_BUILDS };

/* How kernels run from now on, and what went wrong since the last fibers_begin. */
typedef struct fiber_run {
    enum fiber_build build;
    enum fiber_order order;
    uint64_t seed; /* of FIBERS_SHUFFLED */
} fiber_run;

void fibers_begin(const fiber_run *run);
/* NULL, or a sentence on the first conflict, stray access or diverging barrier. */
const char *fibers_complaint(void);
void fibers_complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The back end; memory is malloc's. Its only device is number 0. */
extern const gpu_backend fiber_backend;

/* ---- watch.c ---- */

void watch_group_begins(void);
void watch_epoch(void);
void watch_atomic(const void *p, size_t bytes);
/* The buffers that a launch may touch. */
void watch_buffer_clear(void);
void watch_buffer(const void *p, size_t bytes);
void watch_stacks(const void *p, size_t bytes);
/* Accesses seen so far: to show that the watch is awake. */
uint64_t watch_accesses(void);

#endif
