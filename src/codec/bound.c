/* Relative bounds, the search for a ratio, and estimates from a sample. */
#include <math.h>

#include "base/float_env.h"
#include "base/status.h"
#include "codec/elements.h"
#include "codec/encoder.h"

#define LARGEST_BOUND 0x1p1020 /* keeps every step of a search finite */

enum { SEARCH_STEPS = 24 };

/* Encodes an eighth of the chunks, at least 2 and at most 8, spread evenly, and scales up. */
comet_status encoder_predict(comet_encoder *encoder, const chunk_plan *plan, const comet_params *params, const void *src,
                             double eb, double *frame_bytes)
{
    chunk_plan p = *plan;
    encoder_set_bound(&p, params, eb);
    workspace *ws = &encoder->context.workers[0];
    comet_status status = workspace_reserve_encoder(ws, &encoder->context.allocator, &p);
    if (status != COMET_OK)
        return status;
    uint64_t n = p.shape.n_elements, n_chunks = ceil_div_u64(n, p.chunk_elements);
    uint64_t n_sampled = min_u64(n_chunks, min_u64(n_chunks / 8 > 2 ? n_chunks / 8 : 2, 8));
    double bytes = 0, elements = 0, sum;
    chunk_stats stats;
    chunk_stats_init(&stats);
    for (uint64_t i = 0; i < n_sampled; i++) {
        uint64_t k = i * n_chunks / n_sampled, first = k * p.chunk_elements, length = min_u64(p.chunk_elements, n - first);
        const uint8_t *x = (const uint8_t *)src + first * comet_dtype_bytes(p.dtype);
        chunk_payload part = chunk_encode(&p, ws, k, x, (size_t)length, &stats, &sum);
        bytes += (double)part.bytes;
        elements += (double)length;
    }
    *frame_bytes = elements > 0 ? bytes / elements * (double)n : 0;
    return COMET_OK;
}

/* Bisection on the logarithm of the bound: frames shrink as the bound grows, nearly always. */
static comet_status search_ratio(comet_encoder *encoder, const chunk_plan *plan, const comet_params *params, const void *src,
                                 double *eb)
{
    summary s = elements_summary(plan->dtype, src, plan->shape.n_elements);
    double largest = s.min <= s.max ? fmax(fabs(s.min), fabs(s.max)) : 0;
    double target = (double)plan->shape.n_elements * (double)comet_dtype_bytes(plan->dtype) / params->bound, bytes;
    if (largest == 0) { /* nothing but zeros and non-finite values: the bound does not matter */
        *eb = 1;
        return COMET_OK;
    }
    comet_status lossless = encoder_predict(encoder, plan, params, src, 0, &bytes);
    if (lossless != COMET_OK || (bytes <= target && !params->dither)) {
        *eb = 0;
        return lossless;
    }
    double low = largest * 0x1p-24, high = fmin(largest * 1.001, LARGEST_BOUND);
    for (int i = 0; i < SEARCH_STEPS && high / low > 1.002; i++) {
        double middle = sqrt(low) * sqrt(high);
        comet_status status = encoder_predict(encoder, plan, params, src, middle, &bytes);
        if (status != COMET_OK)
            return status;
        if (bytes <= target)
            high = middle;
        else
            low = middle;
    }
    *eb = high;
    return COMET_OK;
}

comet_status encoder_resolve_bound(comet_encoder *encoder, const chunk_plan *plan, const comet_params *params, const void *src,
                                   double *eb)
{
    uint64_t n = plan->shape.n_elements;
    *eb = 0;
    if (params->bound == 0)
        return COMET_OK;
    switch (params->bound_mode) {
    case COMET_BOUND_ABSOLUTE: *eb = params->bound; break;
    case COMET_BOUND_LOSSLESS: break;
    case COMET_BOUND_STDDEV: *eb = params->bound * elements_stddev(plan->dtype, src, n); break;
    case COMET_BOUND_RANGE: {
        summary s = elements_summary(plan->dtype, src, n);
        *eb = s.min <= s.max ? params->bound * (s.max - s.min) : 0;
        break;
    }
    case COMET_BOUND_RATIO: return n ? search_ratio(encoder, plan, params, src, eb) : COMET_OK;
    }
    if (!isfinite(*eb))
        return comet_fail(COMET_ERROR_ARGUMENT, "the values are so large that the bound relative to them is infinite");
    return COMET_OK;
}

comet_status comet_encoder_estimate(comet_encoder *encoder, const comet_tensor *tensor, const comet_params *params,
                                    const void *src, uint64_t *frame_bytes, double *eb)
{
    chunk_plan plan;
    double bound, bytes = 0;
    comet_status status = encoder_plan(encoder, tensor, params, src, &plan);
    if (status != COMET_OK)
        return status;
    fenv_t host;
    float_env_enter(&host);
    status = encoder_resolve_bound(encoder, &plan, params, src, &bound);
    if (status == COMET_OK && frame_bytes && plan.shape.n_elements)
        status = encoder_predict(encoder, &plan, params, src, bound, &bytes);
    float_env_leave(&host);
    if (status != COMET_OK)
        return status;
    uint64_t n_chunks = ceil_div_u64(plan.shape.n_elements, plan.chunk_elements);
    if (frame_bytes)
        *frame_bytes = (uint64_t)bytes + frame_prefix_bytes(tensor->n_dims, n_chunks);
    if (eb) {
        encoder_set_bound(&plan, params, bound);
        *eb = plan.lossless ? 0 : bound;
    }
    return COMET_OK;
}
