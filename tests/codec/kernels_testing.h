/*
 * What the tests of kernels share: the families to compare, memory that ends at an inaccessible page, and made-up inputs.
 */
#ifndef COMET_TESTS_KERNELS_TESTING_H
#define COMET_TESTS_KERNELS_TESTING_H

#include "testing.h"

#include "codec/chunk.h"
#include "codec/dense.h"
#include "codec/quantiser.h"

static const codec_kernels *const reference = &codec_kernels_reference;

/* All families compiled in, the reference among them: it is run through the same checks. */
static const codec_kernels *const families[] = {
    &codec_kernels_reference,
#ifdef COMET_HAVE_NEON
    &codec_kernels_neon,
#endif
#ifdef COMET_HAVE_AVX2
    &codec_kernels_avx2,
#endif
#ifdef COMET_HAVE_AVX512
    &codec_kernels_avx512,
#endif
};

/* The cap of COMET_MAX_ISA allows it. */
bool usable(const codec_kernels *k);

#define FOR_EACH_FAMILY(k)                                            \
    for (size_t family_ = 0; family_ < COUNT_OF(families); family_++) \
        for (const codec_kernels *k = families[family_]; k && usable(k); k = NULL)

/* Memory that ends at a guard: one piece for the input, one for each result. */
enum { ROOM = 1 << 20 };
extern guarded input, output, expected;

/* Setup and teardown of the group: make and free that memory. */
int make_room(void **state);
int free_room(void **state);

/* The last bytes of both outputs, filled alike with garbage. */
void outputs_of(size_t bytes, uint8_t **a, uint8_t **b);
/* Equal, and nothing was written just before. */
void check_outputs(const uint8_t *a, const uint8_t *b, size_t bytes, const codec_kernels *k, const char *what, size_t n);

enum { MOST_BLOCKS = QUANT_TILE / BLOCK };

typedef struct quantise_case {
    comet_dtype dtype;
    enum code_width width;
    quantiser q;
    size_t n;
    uint32_t first;
} quantise_case;

/* Any type, width, mode and bound. */
quantise_case quantise_case_of(test_rng *r, size_t n);
bool all_finite(comet_dtype dtype, const void *x, size_t n);
/* The sign of a zero extreme may differ: the caller takes it off. */
void check_moments(const moments *a, const moments *b, const codec_kernels *k);
/* Any codes: those that no encoder makes reach a kernel from damaged frames. */
void fill_codes(test_rng *r, enum code_width width, size_t n, void *codes);
/* Kernels may read a block of codes more than the blocks that hold n. */
size_t readable_codes(size_t n);
/* Blocks of every width and share of zeros. */
void fill_residuals(test_rng *r, enum code_width width, size_t n, void *z);
strides random_strides(test_rng *r);

#endif
