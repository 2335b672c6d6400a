/* Results of ReLU without their values: one bit an element says where they are positive, and backward computes the values again
 * from the arrays that they follow from, channel by channel:
 *
 *     y = max(tiny, scale x + shift + add)  where the bit is set,  0 elsewhere
 *
 * tiny is the smallest normal number, so zeros and signs are exact whatever the errors of x and add. A NaN stays one. All is
 * computed in f32. */
#include <float.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "base/convert.h"
#include "base/status.h"
#include "bits.h"
#include "blocks.h"

/* ---- elements as f32 ---- */

static float tiny_of(uint32_t dtype)
{
    return dtype == COMET_DTYPE_F16 ? 0x1p-14F : FLT_MIN;
}

static size_t bytes_of(uint32_t dtype)
{
    return dtype == COMET_DTYPE_F32 ? 4 : 2;
}

/* Elements [first, first + n) of an array: where they are, if they are f32, else in the buffer. */
static const float *load(const void *array, uint32_t dtype, uint64_t first, unsigned n, float *buffer)
{
    if (dtype == COMET_DTYPE_F32)
        return (const float *)array + first;
    const uint16_t *x = (const uint16_t *)array + first;
    if (dtype == COMET_DTYPE_BF16)
        for (unsigned k = 0; k < n; k++)
            buffer[k] = float_of_bf16(x[k]);
    else
        for (unsigned k = 0; k < n; k++)
            buffer[k] = float_of_f16(x[k]);
    return buffer;
}

static void store(void *array, uint32_t dtype, uint64_t first, unsigned n, const float *y)
{
    uint16_t *out = (uint16_t *)array + first;
    if (dtype == COMET_DTYPE_F32)
        memcpy((float *)array + first, y, n * sizeof *y);
    else if (dtype == COMET_DTYPE_BF16)
        for (unsigned k = 0; k < n; k++)
            out[k] = bf16_of_float(y[k]);
    else
        for (unsigned k = 0; k < n; k++)
            out[k] = f16_of_float(y[k]);
}

static comet_status check_floats(const void *array, uint32_t dtype, uint64_t n_elements)
{
    if (dtype != COMET_DTYPE_F32 && dtype != COMET_DTYPE_F16 && dtype != COMET_DTYPE_BF16)
        return comet_fail(COMET_ERROR_ARGUMENT, "results of ReLU of type %u are not computed again: f32, f16 and bf16 are",
                          dtype);
    return array_check(array, (uint32_t)bytes_of(dtype), n_elements);
}

/* ---- signs ---- */

typedef struct signs_packing {
    const void *src;
    uint32_t dtype;
    uint64_t *words;
    atomic_ullong n_positive;
} signs_packing;

static void pack_part(void *arg, uint64_t first, uint64_t n)
{
    signs_packing *p = arg;
    uint64_t *words = p->words + first / GROUP;
    unsigned long long n_positive = 0;
    for (uint64_t done = 0; done < n; done += GROUP) {
        const unsigned m = n - done < GROUP ? (unsigned)(n - done) : GROUP;
        float buffer[GROUP];
        uint8_t flags[GROUP] = {0};
        const float *x = load(p->src, p->dtype, first + done, m, buffer);
        for (unsigned k = 0; k < m; k++)
            flags[k] = (uint8_t) !(x[k] <= 0);
        *words = word_of_flags(flags);
        n_positive += (unsigned)__builtin_popcountll(*words++);
    }
    atomic_fetch_add_explicit(&p->n_positive, n_positive, memory_order_relaxed);
}

int comet_native_pack_positive(comet_native_session *session, uint32_t dtype, const void *src, uint64_t n_elements,
                               comet_native_block **out, uint64_t *n_positive)
{
    if (!session || !out || !n_positive)
        return comet_fail(COMET_ERROR_ARGUMENT, "a session and places for the results are needed");
    TRY(check_floats(src, dtype, n_elements));
    comet_native_block *block = NULL;
    TRY(block_create(session, BLOCK_TWO, 8 * ((n_elements + GROUP - 1) / GROUP), n_elements, &block));
    block->element_bytes = 1;
    block->bits = 1;
    block->values[1] = 1;
    signs_packing p = {.src = src, .dtype = dtype, .words = block_payload(block)};
    array_run(session, n_elements, pack_part, &p);
    *n_positive = atomic_load(&p.n_positive);
    *out = block;
    return COMET_OK;
}

/* ---- values ---- */

typedef struct computing {
    const comet_native_affine *affine;
    const uint64_t *words; /* null: every element is computed */
    const void *x, *add;   /* add: null for none */
    void *y;
    float tiny;
} computing;

/* scale and shift of 64 elements in turn, which are those of one channel or of several. */
typedef struct coefficients {
    const float *scale, *shift;
    uint64_t filled; /* the channel that the buffers are full of; n_channels: none */
    float buffers[2][GROUP];
} coefficients;

static void coefficients_at(coefficients *c, const comet_native_affine *a, uint64_t first, unsigned n)
{
    const uint64_t row = first / a->n_inner, channel = row % a->n_channels;
    const bool one_channel = first + n <= (row + 1) * a->n_inner;
    if (a->n_inner == 1 && channel + n <= a->n_channels) {
        c->scale = a->scale + channel;
        c->shift = a->shift + channel;
        return;
    }
    if (one_channel && c->filled == channel)
        return;
    uint64_t at = channel, left = (row + 1) * a->n_inner - first;
    for (unsigned k = 0; k < GROUP; k++, left--) {
        if (left == 0) {
            at = at + 1 == a->n_channels ? 0 : at + 1;
            left = a->n_inner;
        }
        c->buffers[0][k] = a->scale[at];
        c->buffers[1][k] = a->shift[at];
    }
    c->filled = one_channel && n == GROUP ? channel : a->n_channels;
    c->scale = c->buffers[0];
    c->shift = c->buffers[1];
}

static void rectify_group(float *y, uint64_t word, float tiny)
{
    uint8_t flags[GROUP];
    flags_of_word(word, flags);
    for (unsigned k = 0; k < GROUP; k++) {
        const float positive = y[k] < tiny ? tiny : y[k];
        y[k] = flags[k] ? positive : 0;
    }
}

static void compute_part(void *arg, uint64_t first, uint64_t n)
{
    const computing *p = arg;
    const comet_native_affine *a = p->affine;
    coefficients c = {.filled = a->n_channels};
    for (const uint64_t end = first + n; first < end; first += GROUP) {
        const unsigned m = end - first < GROUP ? (unsigned)(end - first) : GROUP;
        float xs[GROUP], adds[GROUP], y[GROUP] = {0};
        const float *x = load(p->x, a->dtype, first, m, xs);
        coefficients_at(&c, a, first, m);
        for (unsigned k = 0; k < m; k++)
            y[k] = c.scale[k] * x[k] + c.shift[k]; /* NOLINT(clang-analyzer-core.NullDereference): coefficients_at sets both */
        if (p->add) {
            const float *add = load(p->add, a->dtype, first, m, adds);
            for (unsigned k = 0; k < m; k++)
                y[k] += add[k];
        }
        if (p->words)
            rectify_group(y, p->words[first / GROUP], p->tiny);
        store(p->y, a->dtype, first, m, y);
    }
}

static bool is_signs(const comet_native_block *block, uint64_t n)
{
    return block->kind == BLOCK_TWO && block->element_bytes == 1 && block->bits == 1 && block->raw_bytes == n &&
           block->values[0] == 0 && block->values[1] == 1;
}

int comet_native_compute(comet_native_session *session, const comet_native_affine *affine, const comet_native_block *signs,
                         const void *x, const void *add, void *y)
{
    if (!session || !affine || affine->size != sizeof *affine || !affine->scale || !affine->shift)
        return comet_fail(COMET_ERROR_ARGUMENT, "a session and coefficients of %zu bytes are needed", sizeof *affine);
    uint64_t n = 0;
    if (__builtin_mul_overflow(affine->n_outer, affine->n_channels, &n) || __builtin_mul_overflow(n, affine->n_inner, &n))
        return comet_fail(COMET_ERROR_OVERFLOW, "the array has too many elements");
    TRY(check_floats(x, affine->dtype, n));
    TRY(check_floats(y, affine->dtype, n));
    if (add)
        TRY(check_floats(add, affine->dtype, n));
    if (signs && !is_signs(signs, n))
        return comet_fail(COMET_ERROR_ARGUMENT, "the block has no signs of %llu elements", (unsigned long long)n);
    computing p = {affine, signs ? block_payload_const(signs) : NULL, x, add, y, tiny_of(affine->dtype)};
    array_run(session, n, compute_part, &p);
    return COMET_OK;
}
