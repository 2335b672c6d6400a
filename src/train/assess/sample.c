/* Samples of convolutions' inputs; see sample.h. */
#include "train/assess/sample.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/memory.h"
#include "train/assess/assess.h"
#include "train/backend/element.h"
#include "train/backend/parallel.h"
#include "train/math/reduce.h"
#include "train/ops/ops.h"

#define SAMPLE_BYTES ((uint64_t)4 << 20) /* of one convolution's sample, but at least one image */
#define SAMPLE_IMAGES 32
#define SAMPLE_CHANNELS 16
#define BOUND_UNITS 64.0F              /* units of a sample in a bound: two roundings then add 1/8192 to the variance */
#define FINEST (1.0 / 8192)            /* the least bound, in deviations of the tensor, whose errors are measured */
#define SHIFT 12582912.0F              /* 1.5 * 2^23: floats above it are whole numbers */
#define TURN_BYTES ((uint64_t)8 << 20) /* of samples that are kept in one step, but at least one convolution's */

/* ---- create ---- */

/* In planar and blocked layouts neighbouring channels lie together, and some of them make a sample. In other layouts, and with
 * groups, a sample has all channels. */
static sampler choose_sample(const comet_model *m, const op *o)
{
    const layout *l = input_layout(m, o);
    uint64_t dims[5] = {0}, block = 1;
    const layout_order order = layout_describe(l, &block);
    layout_dims(l, dims);
    sampler s = {.type = layout_type(l), .channels = dims[1], .n_choices = 1};
    if ((order == ORDER_PLANAR || order == ORDER_BLOCKED) && o->layer->groups == 1 && dims[1] % SAMPLE_CHANNELS == 0 &&
        SAMPLE_CHANNELS % block == 0) {
        s.channels = SAMPLE_CHANNELS;
        s.n_choices = dims[1] / SAMPLE_CHANNELS;
    }
    s.n = image_elements(m, o->inputs[0]) / s.n_choices;
    const uint64_t n_images = max_u64(SAMPLE_BYTES / (s.n * sizeof *s.x), 1);
    s.n_images = (uint32_t)min_u64(m->params.batch, min_u64(SAMPLE_IMAGES, n_images));
    return s;
}

static comet_status make_kernels(comet_model *m, const op *o, sampler *s)
{
    if (weighted_of(o)->own_depthwise)
        return COMET_OK;
    TRY(conv_sample_kernel(m, o, s->n_images, s->channels, &s->gradient));
    if (o->folds == NONE)
        return COMET_OK;
    const layout *rows;
    const uint64_t dims[4] = {m->parameters[o->weight].dims[0], s->channels, 1, 1};
    TRY(layout_plain(m->backend, 4, dims, &rows));
    return kernel_reorder(m->backend, kernel_layout(s->gradient, ARG_DIFF_WEIGHTS), rows, &s->to_plain);
}

/* Work memory holds the error, the gradient that the kernel makes of it, that gradient row by row, and the scratchpad. */
static uint64_t error_elements(const sampler *s)
{
    return s->n_images * s->n;
}

static uint64_t error_bytes(const sampler *s)
{
    return padded_bytes(error_elements(s) * comet_dtype_bytes(s->type));
}

static uint64_t made_floats(const comet_model *m, const op *o)
{
    const sampler *s = sampler_of(m, o);
    return (s->gradient ? layout_bytes(kernel_layout(s->gradient, ARG_DIFF_WEIGHTS)) : weighted_gradient_bytes(m, o)) /
           sizeof(float);
}

static uint64_t plain_floats(const sampler *s)
{
    return s->to_plain ? layout_bytes(kernel_layout(s->to_plain, ARG_DST)) / sizeof(float) : 0;
}

static uint64_t work_bytes(const comet_model *m, const op *o)
{
    const sampler *s = sampler_of(m, o);
    const uint64_t floats = padded_floats(made_floats(m, o)) + padded_floats(plain_floats(s));
    const uint64_t of_gradient = s->gradient ? kernel_scratch_bytes(s->gradient) : 0;
    return error_bytes(s) + floats * sizeof(float) + max_u64(of_gradient, s->to_plain ? kernel_scratch_bytes(s->to_plain) : 0);
}

/* Adds the sample to the last turn, or to a new one where that would be too large. */
static void take_turn(comet_model *m, const op *o, uint64_t *filled)
{
    sampler *s = sampler_of(m, o);
    const uint64_t bytes = ceil_div_u64(error_elements(s), COMET_ALIGNMENT) * COMET_ALIGNMENT; /* a byte each */
    if (m->samples.n_turns == 0 || *filled + bytes > TURN_BYTES) {
        m->samples.n_turns++;
        *filled = 0;
    }
    s->turn = m->samples.n_turns - 1;
    s->offset = *filled;
    *filled += bytes;
    m->samples.bytes = max_u64(m->samples.bytes, *filled);
    m->samples.work_bytes[o->index] = work_bytes(m, o);
}

/* Does backward run this convolution on an input that is stored with errors? The net's own input is not. */
static bool is_measured(const comet_model *m, const op *o)
{
    const uint32_t input = o->inputs[0];
    return o->layer->op == COMET_OP_CONV && o->type->keeps_input && o->n_parts > 0 && m->values[o->output].needs_gradient &&
           m->values[input].producer != NONE && slot_may_be_lossy(m, value_slot(m, input));
}

static comet_status make_sampler(comet_model *m, const op *o, uint64_t *filled)
{
    sampler *s = m->samples.samplers[o->index] = malloc(sizeof *s);
    if (!s)
        return comet_fail(COMET_ERROR_MEMORY, "out of memory: could not allocate a sampler for %s", o->layer->name);
    *s = choose_sample(m, o);
    TRY(make_kernels(m, o, s));
    take_turn(m, o, filled);
    return COMET_OK;
}

comet_status sample_find(comet_model *m)
{
    uint64_t filled = 0;
    if (!model_is_lossy(m))
        return COMET_OK;
    m->samples.samplers = calloc(m->n_ops, sizeof(sampler *));
    m->samples.work_bytes = calloc(m->n_ops, sizeof *m->samples.work_bytes);
    if (!m->samples.samplers || !m->samples.work_bytes)
        return comet_fail(COMET_ERROR_MEMORY, "out of memory: could not allocate samplers for %u ops", m->n_ops);
    for (uint32_t i = 0; i < m->n_ops; i++)
        if (is_measured(m, &m->ops[i]))
            TRY(make_sampler(m, &m->ops[i], &filled));
    return COMET_OK;
}

void sample_destroy(comet_model *m)
{
    for (uint32_t i = 0; m->samples.samplers && i < m->n_ops; i++) {
        sampler *s = m->samples.samplers[i];
        kernel_destroy(s ? s->gradient : NULL);
        kernel_destroy(s ? s->to_plain : NULL);
        free(s);
    }
    free(m->samples.samplers);
    free(m->samples.work_bytes);
}

/* ---- use ---- */

/* Work on images [begin, end) of a sample, or of a part of it. */
typedef struct image_job {
    const sampler *s;
    const void *tensor; /* from the first sampled channel on */
    uint8_t *kept;
    void *error;
} image_job;

/* Rounds to the nearest unit, modulo 256: the last bits of a float after adding SHIFT. For an element that is not finite or
 * beyond 2^16 bounds any result will do, as long as equal elements give equal results: such elements are stored exactly, unless
 * bounds are finer than FINEST. */
static uint8_t wrapped(float x, float per_unit)
{
    const float shifted = x * per_unit + SHIFT;
    uint32_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    return (uint8_t)bits;
}

ISA_INLINED void keep_images_of(comet_dtype type, const image_job *j, size_t begin, size_t end)
{
    const sampler *s = j->s;
    const uint64_t n = s->n;
    const float per_unit = 1 / s->unit;
    for (size_t i = begin; i < end; i++) {
        const void *restrict x = elements_from(type, j->tensor, i * n * s->n_choices);
        uint8_t *restrict kept = j->kept + i * n;
        for (uint64_t k = 0; k < n; k++)
            kept[k] = wrapped(element_get(type, x, k), per_unit);
    }
}

static void keep_images(void *arg, size_t begin, size_t end)
{
    const image_job *j = arg;
    if (j->s->type == COMET_DTYPE_BF16)
        keep_images_of(COMET_DTYPE_BF16, j, begin, end);
    else
        keep_images_of(COMET_DTYPE_F32, j, begin, end);
}

ISA_INLINED void subtract_images_of(comet_dtype type, const image_job *j, size_t begin, size_t end)
{
    const sampler *s = j->s;
    const uint64_t n = s->n;
    const float unit = s->unit, per_unit = 1 / unit;
    for (size_t i = begin; i < end; i++) {
        const void *restrict stored = elements_from(type, j->tensor, i * n * s->n_choices);
        const uint8_t *restrict kept = j->kept + i * n;
        void *restrict error = elements_at(type, j->error, i * n);
        for (uint64_t k = 0; k < n; k++) {
            const int8_t apart = (int8_t)(wrapped(element_get(type, stored, k), per_unit) - kept[k]); /* modulo 256 */
            element_put(type, error, k, unit * (float)apart);
        }
    }
}

static void subtract_images(void *arg, size_t begin, size_t end)
{
    const image_job *j = arg;
    if (j->s->type == COMET_DTYPE_BF16)
        subtract_images_of(COMET_DTYPE_BF16, j, begin, end);
    else
        subtract_images_of(COMET_DTYPE_F32, j, begin, end);
}

void sample_keep(const comet_model *m, const op *o, uint64_t round, void *samples)
{
    sampler *s = sampler_of(m, o);
    const comet_slot slot = value_slot(m, o->inputs[0]);
    const comet_slot_policy *p = comet_store_slot_policy(m->store, slot);
    const float unit = (float)p->eb / BOUND_UNITS;
    if (p->of_deviation || !isfinite(unit) || !isfinite(1 / unit) || p->eb < FINEST * m->assessment->deviations[slot])
        return;
    s->unit = unit;
    s->first = round % s->n_choices * s->n;
    s->n_nonzero = 0;
    s->x = (uint8_t *)samples + s->offset;
    image_job j = {.s = s, .tensor = elements_from(s->type, value_data(m, o->inputs[0]), s->first), .kept = s->x};
    parallel_for(s->n_images, 1, keep_images, &j);
}

void sample_compare(const comet_model *m, const op *o, uint32_t part, void *work)
{
    sampler *s = sampler_of(m, o);
    const uint64_t in_part = m->params.batch / o->n_parts, before = part * in_part;
    if (before >= s->n_images)
        return;
    const uint64_t n_images = min_u64(s->n_images - before, in_part);
    image_job j = {.s = s,
                   .tensor = elements_from(s->type, value_data_backward(m, o->inputs[0]), s->first),
                   .kept = s->x + before * s->n,
                   .error = elements_at(s->type, work, before * s->n)};
    parallel_for(n_images, 1, subtract_images, &j);
    for (uint64_t i = 0; i < n_images; i++)
        s->n_nonzero += count_nonzero(s->type, s->n, elements_from(s->type, j.tensor, i * s->n * s->n_choices));
}

double sample_nonzero(const comet_model *m, const op *o)
{
    const sampler *s = sampler_of(m, o);
    uint64_t dims[5];
    layout_dims(input_layout(m, o), dims);
    return (double)s->n_nonzero / (double)(s->n_images * s->channels * dims[2] * dims[3]);
}

static comet_status run_kernels(const sampler *s, void *error, void *diff, float *made, float *plain, void *scratch)
{
    const kernel_args args = {
        .at = {[ARG_SRC] = error, [ARG_DIFF_DST] = diff, [ARG_DIFF_WEIGHTS] = made, [ARG_SCRATCH] = scratch}};
    const kernel_args move = {.at = {[ARG_SRC] = made, [ARG_DST] = plain, [ARG_SCRATCH] = scratch}};
    TRY(kernel_run(s->gradient, &args));
    return s->to_plain ? kernel_run(s->to_plain, &move) : COMET_OK;
}

comet_status sample_gradient(comet_model *m, const op *o, void *work, const float **gradient, uint64_t *n)
{
    const sampler *s = sampler_of(m, o);
    void *diff = arena_at(&m->arena, o->buffers.diff);
    float *made = (float *)(void *)((uint8_t *)work + error_bytes(s));
    float *plain = made + padded_floats(made_floats(m, o)), *scratch = plain + padded_floats(plain_floats(s));
    *gradient = s->to_plain ? plain : made;
    *n = s->to_plain ? plain_floats(s) : made_floats(m, o);
    if (s->gradient)
        return run_kernels(s, work, diff, made, plain, scratch);
    depthwise_gradient(m, o, s->n_images, work, diff, made);
    return COMET_OK;
}
