/*
 * What the tests share: random numbers, data classes, encode and decode with checks, memory with guards, hooks that count and
 * fail. Everything here is deterministic and takes nothing from the math library that could differ between machines, so that
 * generated tensors are the same everywhere.
 */
#ifndef COMET_TESTS_TESTING_H
#define COMET_TESTS_TESTING_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "comet/codec.h"

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

/* ---- random numbers ---- */

typedef struct test_rng {
    uint64_t state;
} test_rng;

uint64_t rng_next(test_rng *r);
uint64_t rng_below(test_rng *r, uint64_t n); /* n >= 1 */
bool rng_chance(test_rng *r, unsigned one_in);
double rng_unit(test_rng *r);   /* [0, 1) */
double rng_normal(test_rng *r); /* mean 0, variance 1, nearly normal */

/* ---- tensors and their contents ---- */

enum data_class {
    DATA_RELU,       /* half zeros, smooth elsewhere */
    DATA_SPARSE,     /* nearly all zeros of either sign */
    DATA_SMOOTH,     /* waves and a little noise */
    DATA_RAMP,       /* a slope with noise: what a linear fit is for */
    DATA_WALK_RIGHT, /* random walks along the lines, one line like no other */
    DATA_WALK_DOWN,  /* random walks along the columns */
    DATA_SEPARABLE,  /* a random number of the line plus one of the column */
    DATA_PLANES,     /* rough planes, each much like the one before */
    DATA_CONSTANT,
    DATA_NOISE,
    DATA_SPIKES,    /* small noise, one in a hundred a million times larger */
    DATA_NONFINITE, /* smooth, one in sixteen NaN, Inf, -0 or subnormal */
    DATA_TINY,      /* about the smallest numbers of the type */
    DATA_HUGE,      /* about the largest */
    DATA_LOGNORMAL,
    DATA_BITS, /* any bit pattern */
    N_DATA_CLASSES
};
const char *data_class_name(enum data_class c);

/* Fails the test where the description is refused. */
comet_tensor tensor_of(comet_dtype dtype, comet_layout layout, uint32_t n_dims, const uint64_t *dims);
comet_tensor tensor_1d(comet_dtype dtype, uint64_t n);
uint64_t elements_of(const comet_tensor *t);
size_t bytes_of(const comet_tensor *t);

/* One element: a value rounded to the type, or a bit pattern cut to its width. */
void set_element(comet_dtype dtype, void *x, uint64_t i, double v);
void set_bits(comet_dtype dtype, void *x, uint64_t i, uint64_t bits);

void fill_tensor(test_rng *r, enum data_class c, const comet_tensor *t, void *x);

/* malloc'd and filled. */
void *make_data(uint64_t seed, enum data_class c, const comet_tensor *t);

/* ---- calling the codec ---- */

/* Absolute bound unless changed afterwards. */
comet_params params_of(comet_level level, double bound);

typedef struct blob {
    uint8_t *data; /* malloc'd with exactly `bytes` bytes, so that a sanitizer sees every read too far */
    size_t bytes;
} blob;

/* Fail the test where a call fails. encoder and decoder may be NULL for the one-shot calls, stats and info too. */
blob encode(comet_encoder *encoder, const comet_tensor *t, const comet_params *p, const void *x, comet_stats *stats);
void *decode(comet_decoder *decoder, blob frame);
comet_frame_info info_of(blob frame);
comet_encoder *new_encoder(const comet_hooks *hooks, size_t n_threads);
comet_decoder *new_decoder(const comet_hooks *hooks, size_t n_threads);

/* Decodes and holds the result to what the frame promises about x; returns the decoded tensor, malloc'd. */
void *decode_and_check(comet_decoder *decoder, blob frame, const void *x);

/* encode, decode_and_check, free. Returns the frame's bytes. */
size_t check_round_trip(const comet_tensor *t, const comet_params *p, const void *x);

bool blobs_equal(blob a, blob b);

/* ---- assertions ---- */

void check_status(comet_status status, comet_status expected, const char *call, const char *file, int line);

/* The status is as expected; for failures, also that there is a sentence about it. */
#define assert_status(call, expected) check_status((call), (expected), #call, __FILE__, __LINE__)
#define assert_ok(call) assert_status(call, COMET_OK)

/* A message and failure. */
#define fail_because(...) (print_error(__VA_ARGS__), print_error("\n"), fail())
#define assert_within(x, least, most)                                                          \
    do {                                                                                       \
        const double x_ = (x);                                                                 \
        if (!(x_ >= (least) && x_ <= (most)))                                                  \
            fail_because("%s = %g, not in [%g, %g]", #x, x_, (double)(least), (double)(most)); \
    } while (0)
#define assert_near(a, b, tolerance) check_near((a), (b), (tolerance), #a, __FILE__, __LINE__)
void check_near(double a, double b, double tolerance, const char *what, const char *file, int line);

/* ---- memory ---- */

void *need_malloc(size_t bytes); /* fails the test instead of returning NULL; 0 bytes give a pointer too */

/* Pages with an inaccessible one after them. */
typedef struct guarded {
    uint8_t *end; /* what lies here must not be touched */
    void *map;
    size_t map_bytes;
} guarded;

guarded guarded_make(size_t most_bytes);
void guarded_free(guarded *g);
/* The last `bytes` bytes before the guard. */
static inline uint8_t *guarded_tail(const guarded *g, size_t bytes)
{
    return g->end - bytes;
}

/* Until the end of the running test a crash ends the program, after a call of `report` if that is not NULL. cmocka would catch
 * it and go on, only to hang in a context whose task never came back. */
void crash_for_good(void (*report)(void));

/* ---- hooks ---- */

/* Counts, fills what it gives with garbage, notes wrong releases, and fails from call number fail_from on (1 is the first; 0
 * never), once or for good. */
typedef struct test_allocator {
    size_t n_calls, n_live, live_bytes;
    size_t fail_from;
    bool once;
    bool guarded; /* every piece ends at an inaccessible page, as nearly as its alignment lets it */
    bool misused;
    uint8_t garbage;
    struct {
        void *memory;
        size_t bytes;
    } live[64];
} test_allocator;

/* Hooks that lend the allocator (NULL: none). */
comet_hooks hooks_with(test_allocator *a);

/* A parallel-for that runs every task on the calling thread, the last one first. */
comet_parallel parallel_reversed(void);

/* Every family this machine and build can run, up to the cap in force, best last; returns how many. */
size_t usable_isas(comet_isa isas[4]);

/* A number from the environment, or `otherwise`. */
uint64_t environment_number(const char *name, uint64_t otherwise);

/* ---- files ---- */

void write_file(const char *folder, const char *name, const void *data, size_t bytes);
blob read_file(const char *folder, const char *name);

#endif
