/*
 * What every Comet library shares: statuses, host hooks, instruction sets, the machine's clock and memory.
 *
 *   comet_status          result of every fallible call
 *   comet_last_error      the sentence of the last failure on this thread
 *   comet_hooks           allocator, parallel-for and log that a host may lend
 *   comet_isa             which kernels run, and the cap on them
 *   comet_seconds         a steady clock
 *   comet_memory_*_limit  what this process may still use; comet_peak_rss what it has used
 *
 * The libraries never exit, abort or print. Results are written through out pointers, on success only. A struct that may grow
 * begins with its size, which the struct's init function sets. A program may set it itself to what sizeof says: the library
 * then writes no field beyond it, so that a program built with an older header has the fields that it knows.
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

/* ---- the machine ---- */

/* Seconds on a steady clock, which never goes back; only differences mean something. Any thread. */
COMET_API double comet_seconds(void);

/* `bytes` are left to this process, which has `used` others of the same kind. name, what sets the limit: "free memory",
 * "control group", "ulimit -v" or "ulimit -d". UINT64_MAX bytes and "none" where nothing is known or limited. */
typedef struct comet_memory_limit {
    size_t size;
    uint64_t bytes, used;
    const char *name; /* a constant */
} comet_memory_limit;

COMET_API void comet_memory_limit_init(comet_memory_limit *limit);

/* Memory that this process can still touch: the least of what the machine has available and what its control groups leave.
 * Reads files of the kernel, in a fraction of a millisecond. COMET_ERROR_ARGUMENT unless *limit was initialised. Any thread. */
COMET_API comet_status comet_memory_resident_limit(comet_memory_limit *limit);

/* Addresses that this process can still map under its own limits. What is mapped counts, touched or not: a thread's stack is 8
 * MiB, and malloc takes 64 MiB for each thread unless its M_ARENA_MAX is 1. Fails as the above. Any thread. */
COMET_API comet_status comet_memory_address_limit(comet_memory_limit *limit);

/* The least of both, in bytes; UINT64_MAX where nothing is known. Any thread. */
COMET_API uint64_t comet_memory_available(void);

/* Resident set of this process now, in bytes; 0: not known. Any thread. */
COMET_API uint64_t comet_rss(void);
/* Largest resident set of this process so far, in bytes, as the kernel counts it. Any thread. */
COMET_API uint64_t comet_peak_rss(void);
/* Largest address space of this process so far, in bytes, of which comet_memory_address_limit is the rest; 0: not known. */
COMET_API uint64_t comet_peak_address_space(void);
/* What is resident of the program and its libraries at this moment, in bytes; mapped data is not in it. The kernel looks at all
 * pages for it: milliseconds. Any thread. */
COMET_API uint64_t comet_program_rss(void);

#ifdef __cplusplus
}
#endif

#endif
