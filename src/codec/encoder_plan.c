/* Plans an encoding before it runs: checks parameters, chooses geometry and quantiser; see encoder.h. */
#include <math.h>

#include "base/status.h"
#include "codec/encoder.h"

void comet_params_init(comet_params *params)
{
    *params = (comet_params){.size = sizeof *params};
}

comet_status encoder_check_params(const comet_params *p)
{
    if (!p)
        return comet_fail(COMET_ERROR_ARGUMENT, "the parameters are null");
    if (p->size != sizeof *p)
        return comet_fail(COMET_ERROR_ARGUMENT, "the parameters were not filled by comet_params_init (size %zu)", p->size);
    if ((unsigned)p->bound_mode > COMET_BOUND_RATIO || (unsigned)p->level > COMET_LEVEL_AUTO)
        return comet_fail(COMET_ERROR_ARGUMENT, "unknown bound mode %d or level %d", (int)p->bound_mode, (int)p->level);
    if (p->bound_mode != COMET_BOUND_LOSSLESS && (!isfinite(p->bound) || p->bound < 0))
        return comet_fail(COMET_ERROR_ARGUMENT, "the bound must be finite and not negative, got %g", p->bound);
    if (p->bound_mode == COMET_BOUND_RATIO && p->bound < 1)
        return comet_fail(COMET_ERROR_ARGUMENT, "the target ratio must be at least 1, got %g", p->bound);
    if (!isfinite(p->min_ratio) || p->min_ratio < 0)
        return comet_fail(COMET_ERROR_ARGUMENT, "min_ratio must be finite and not negative, got %g", p->min_ratio);
    if (p->dither && p->keep_support)
        return comet_fail(COMET_ERROR_ARGUMENT, "dither and keep_support exclude each other: dither moves zeros");
    if (p->dither && (p->bound_mode == COMET_BOUND_LOSSLESS || p->bound == 0))
        return comet_fail(COMET_ERROR_ARGUMENT, "dither needs a bound above 0");
    if ((unsigned)p->profile > COMET_PROFILE_DEVICE)
        return comet_fail(COMET_ERROR_ARGUMENT, "unknown profile %d", (int)p->profile);
    if (p->profile == COMET_PROFILE_DEVICE && p->level == COMET_LEVEL_AUTO)
        return comet_fail(COMET_ERROR_ARGUMENT, "profile device has levels fast and dense, not auto");
    uint64_t most = geometry_most_elements(p->level, p->profile);
    if (p->chunk_elements && (p->chunk_elements < MIN_CHUNK_ELEMENTS || p->chunk_elements > most))
        return comet_fail(COMET_ERROR_ARGUMENT, "chunks hold %llu to %llu elements%s, got %llu",
                          (unsigned long long)MIN_CHUNK_ELEMENTS, (unsigned long long)most,
                          p->profile == COMET_PROFILE_DEVICE ? " at this level of profile device" : "",
                          (unsigned long long)p->chunk_elements);
    return COMET_OK;
}

comet_status encoder_plan(const comet_encoder *encoder, const comet_tensor *tensor, const comet_params *params, const void *src,
                          chunk_plan *plan)
{
    if (!encoder)
        return comet_fail(COMET_ERROR_ARGUMENT, "the encoder is null");
    comet_status status = encoder_check_params(params);
    *plan = (chunk_plan){.kernels = encoder->context.kernels};
    if (status == COMET_OK)
        status = geometry_make(tensor, &plan->shape);
    if (status != COMET_OK)
        return status;
    plan->dtype = tensor->dtype;
    plan->level = params->level;
    plan->profile = params->profile;
    plan->seed = params->dither ? params->dither_seed : 0;
    plan->min_ratio = params->min_ratio;
    if (params->bound_mode == COMET_BOUND_RATIO && params->min_ratio == 0)
        plan->min_ratio = params->bound;
    plan->chunk_elements =
        params->chunk_elements ? params->chunk_elements : geometry_chunk_elements(&plan->shape, params->level, params->profile);
    plan->waves = params->level != COMET_LEVEL_FAST && params->profile == COMET_PROFILE_HOST;
    if (!src && plan->shape.n_elements)
        return comet_fail(COMET_ERROR_ARGUMENT, "the source is null");
    if ((uintptr_t)src % comet_dtype_bytes(tensor->dtype))
        return comet_fail(COMET_ERROR_ARGUMENT, "the source is not aligned to its element size, %zu bytes",
                          comet_dtype_bytes(tensor->dtype));
    return COMET_OK;
}

void encoder_set_bound(chunk_plan *plan, const comet_params *params, double eb)
{
    enum quantiser_mode mode = params->dither ? QUANTISE_DITHER : params->keep_support ? QUANTISE_SUPPORT : QUANTISE_PLAIN;
    plan->lossless = !quantiser_make(plan->dtype, eb, mode, &plan->quantiser);
}

frame_header encoder_header(const chunk_plan *plan, const comet_tensor *tensor, const comet_params *params, double eb)
{
    frame_header h = {.tensor = *tensor,
                      .shape = plan->shape,
                      .level = params->level,
                      .profile = params->profile,
                      .eb = plan->lossless ? 0 : eb};
    h.flags = (uint8_t)((plan->lossless ? FLAG_LOSSLESS : 0) | (params->keep_support ? FLAG_SUPPORT : 0) |
                        (params->dither && !plan->lossless ? FLAG_DITHER : 0) | (params->content_checksum ? FLAG_CHECKSUM : 0));
    h.seed = h.flags & FLAG_DITHER ? params->dither_seed : 0;
    h.chunk_elements = plan->chunk_elements;
    h.n_chunks = ceil_div_u64(plan->shape.n_elements, plan->chunk_elements);
    return h;
}
