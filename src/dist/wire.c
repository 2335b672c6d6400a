/*
 * The formats of comet_wire. A coded frame has an absolute bound of sqrt(3 * share) standard deviations, so that its error,
 * uniform within the bound, has `share` of the variance of the floats. What the frame leaves over is added the next time (error
 * feedback), so that no part of a gradient is lost, only late.
 */
#include "dist/wire.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/convert.h"
#include "base/isa_pick.h"
#include "base/status.h"

/* The same operations as bf16_of_float, without branches, so that compilers make vectors of them. */
ISA_INLINED void to_bf16_of(const float *restrict values, uint16_t *restrict out, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = bf16_of_float(values[i]);
}
ISA_VARIANTS(to_bf16, (const float *restrict values, uint16_t *restrict out, size_t n), to_bf16_of(values, out, n))

ISA_INLINED void from_bf16_of(const uint16_t *restrict in, float *restrict values, size_t n)
{
    for (size_t i = 0; i < n; i++)
        values[i] = float_of_bf16(in[i]);
}
ISA_VARIANTS(from_bf16, (const uint16_t *restrict in, float *restrict values, size_t n), from_bf16_of(in, values, n))

bool wire_is_coded(const wire *w)
{
    return w->format == COMET_WIRE_CODED || w->format == COMET_WIRE_CODED_FAST;
}

comet_status wire_create(wire *w, comet_wire format, double coded_share, size_t most)
{
    *w = (wire){.format = format, .most = most};
    if (!wire_is_coded(w))
        return COMET_OK;
    if (!(coded_share > 0 && coded_share <= 1))
        return comet_fail(COMET_ERROR_ARGUMENT,
                          "the error of coded gradients is %g of their variance; it must be more than 0 and at "
                          "most 1",
                          coded_share);
    comet_params_init(&w->coding);
    w->coding.bound_mode = COMET_BOUND_STDDEV;
    w->coding.bound = sqrt(3 * coded_share);
    w->coding.level = format == COMET_WIRE_CODED ? COMET_LEVEL_DENSE : COMET_LEVEL_FAST;
    w->wanted = malloc(2 * most * sizeof *w->wanted);
    if (!w->wanted)
        return comet_fail(COMET_ERROR_MEMORY, "could not allocate %zu bytes to code gradients in",
                          2 * most * sizeof *w->wanted);
    w->came = w->wanted + most;
    TRY(comet_encoder_create(&w->encoder, NULL, 1));
    return comet_decoder_create(&w->decoder, NULL, 1);
}

void wire_destroy(wire *w)
{
    comet_encoder_destroy(w->encoder);
    comet_decoder_destroy(w->decoder);
    free(w->wanted);
    *w = (wire){0};
}

uint64_t wire_memory(const wire *w)
{
    return wire_is_coded(w) ? 2 * (uint64_t)w->most * sizeof *w->wanted : 0;
}

static comet_status describe(size_t n, comet_tensor *tensor)
{
    return comet_tensor_init(tensor, COMET_DTYPE_F32, 1, (const uint64_t[]){n});
}

size_t wire_most_bytes(const wire *w, size_t n)
{
    comet_tensor tensor;
    size_t bytes = 0;
    if (w->format == COMET_WIRE_BF16)
        return n * sizeof(uint16_t);
    if (wire_is_coded(w) && describe(n, &tensor) == COMET_OK && comet_compress_bound(&tensor, &w->coding, &bytes) == COMET_OK)
        return bytes;
    return n * sizeof(float);
}

/* What is left over of a value that is not finite is nothing: such values are coded bit for bit. */
static void keep_left(const float *wanted, const float *came, float *left, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const float rest = wanted[i] - came[i];
        left[i] = isfinite(rest) ? rest : 0;
    }
}

static comet_status encode_coded(wire *w, const float *values, float *left, size_t n, void *out, size_t *bytes, float *came)
{
    comet_tensor tensor;
    size_t back = 0;
    TRY(describe(n, &tensor));
    for (size_t i = 0; i < n; i++)
        w->wanted[i] = values[i] + left[i];
    TRY(comet_encoder_run(w->encoder, &tensor, &w->coding, w->wanted, out, wire_most_bytes(w, n), bytes, NULL));
    TRY(comet_decoder_run(w->decoder, out, *bytes, w->came, n * sizeof(float), &back));
    keep_left(w->wanted, w->came, left, n);
    if (came)
        memcpy(came, w->came, n * sizeof *came);
    return COMET_OK;
}

comet_status wire_encode(wire *w, const float *values, float *left, size_t n, void *out, size_t *bytes, float *came)
{
    if (wire_is_coded(w))
        return encode_coded(w, values, left, n, out, bytes, came);
    ISA_PICK(to_bf16)(values, out, n);
    if (came)
        ISA_PICK(from_bf16)(out, came, n);
    *bytes = n * sizeof(uint16_t);
    return COMET_OK;
}

comet_status wire_decode(wire *w, const void *in, size_t bytes, float *values, size_t n)
{
    size_t came = bytes / sizeof(uint16_t) * sizeof(float);
    if (wire_is_coded(w))
        TRY(comet_decoder_run(w->decoder, in, bytes, values, n * sizeof *values, &came));
    else if (came == n * sizeof *values)
        ISA_PICK(from_bf16)(in, values, n);
    if (came != n * sizeof *values)
        return comet_fail(COMET_ERROR_CORRUPT, "a message of %zu bytes holds %zu floats instead of %zu", bytes,
                          came / sizeof *values, n);
    return COMET_OK;
}
