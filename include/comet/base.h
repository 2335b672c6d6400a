/*
 * What every Comet library shares: statuses, host hooks, instruction sets.
 *
 *   comet_status          result of every fallible call
 *   comet_last_error      the sentence behind the last failure on this thread
 *   comet_hooks           allocator, parallel-for and log that a host may lend
 *   comet_isa             which kernels run, and the cap on them
 *
 * The libraries never exit, abort or print. Results are written through out pointers, on success only.
 */
#ifndef COMET_BASE_H
#define COMET_BASE_H

#include <stddef.h>
#include <stdint.h>

#include "comet/version.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum comet_status {
    COMET_OK = 0,
    COMET_ERROR_ARGUMENT = 1,    /* a parameter is out of range, null or misaligned */
    COMET_ERROR_OVERFLOW = 2,    /* sizes whose product does not fit 64 bits (or this machine's size_t) */
    COMET_ERROR_MEMORY = 3,      /* the allocator gave nothing */
    COMET_ERROR_CAPACITY = 4,    /* the destination is too small */
    COMET_ERROR_CORRUPT = 5,     /* a frame or file that is truncated, damaged or not what it should be */
    COMET_ERROR_UNSUPPORTED = 6, /* a later format version, or a feature this build lacks */
    COMET_ERROR_UNREACHABLE = 7, /* no bound reaches the target ratio */
    COMET_ERROR_IO = 8,          /* a file cannot be opened, read or written */
    COMET_ERROR_DIVERGED = 9,    /* the loss of a training run is no longer finite */
} comet_status;

/* A short constant name such as "COMET_ERROR_CORRUPT"; "unknown status" for any other value. Any thread. */
COMET_API const char *comet_status_name(comet_status status);

/* The sentence, with the numbers in it, that describes the last failure on the calling thread; "" if there was none.
 * Valid until the next failing call on this thread. */
COMET_API const char *comet_last_error(void);

/* Memory for everything a context keeps. `alloc` returns `bytes` bytes aligned to `alignment` (a power of two, at most
 * 4096), or NULL; `release` gets the same `bytes` back. Both may be called from the thread that uses the context. */
typedef struct comet_allocator {
    void *(*alloc)(void *user, size_t bytes, size_t alignment);
    void (*release)(void *user, void *memory, size_t bytes);
    void *user;
} comet_allocator;

/* A host's parallel-for: calls task(arg, i) once for each i in [0, n_tasks) and returns when all are done. It may run them on
 * any threads, in any order, one after another if it likes. */
typedef struct comet_parallel {
    void (*run)(void *user, size_t n_tasks, void (*task)(void *arg, size_t index), void *arg);
    void *user;
} comet_parallel;

/* Receives one line without newline, rarely (at context creation). */
typedef struct comet_log {
    void (*line)(void *user, const char *text);
    void *user;
} comet_log;

/* Hooks of a context. Fill with comet_hooks_init, then set what you lend; members left zero mean our own: malloc, a small
 * thread pool per context, silence. Copied at creation. */
typedef struct comet_hooks {
    size_t size;
    comet_allocator allocator;
    comet_parallel parallel;
    comet_log log;
} comet_hooks;

COMET_API void comet_hooks_init(comet_hooks *hooks);

/* Kernel families, in increasing order of preference. All give the same bytes. */
typedef enum comet_isa {
    COMET_ISA_REFERENCE = 0, /* plain C */
    COMET_ISA_NEON = 1,      /* AArch64 */
    COMET_ISA_AVX2 = 2,      /* AVX2, BMI2, F16C, FMA */
    COMET_ISA_AVX512 = 3,    /* AVX-512 F, BW, DQ, VL, VBMI, VBMI2, GFNI (Ice Lake, Zen 4 and later) */
} comet_isa;

/* "reference", "neon", "avx2" or "avx512". */
COMET_API const char *comet_isa_name(comet_isa isa);

/* The best family that this build holds and this CPU and operating system can run. Any thread. */
COMET_API comet_isa comet_isa_best(void);

/* The family that contexts created from now on will use: the best one at or below the cap. Any thread. */
COMET_API comet_isa comet_isa_active(void);

/* Caps the family for contexts created from now on; a cap above the best is lowered to it. Returns the family now active. The
 * cap starts from the environment variable COMET_MAX_ISA (a name as above), read once. Any thread. */
COMET_API comet_isa comet_isa_set_cap(comet_isa cap);

#ifdef __cplusplus
}
#endif

#endif
