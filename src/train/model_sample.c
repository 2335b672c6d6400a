/* Samples of convolutions' inputs; see model_sample.h. */
#include "train/model_sample.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "train/model_assess.h"
#include "train/parallel.h"
#include "train/reduce.h"

#define SAMPLE_BYTES ((uint64_t)2 << 20) /* of one convolution's, but at least one image's */
#define SAMPLE_IMAGES 16
#define SAMPLE_CHANNELS 16
#define LARGEST 32767.0F                /* in units of a sample */
#define TURN_BYTES ((uint64_t)18 << 20) /* of samples that are kept at once, but at least one convolution's */

/* ---- create ---- */

/* Channels that follow one another lie together in planes and blocks, some of which make a sample. All of them where they do
 * not, or where not all meet the same weights. */
static sampler choose_sample(const comet_model *m, const op *o)
{
    const layout *l = input_layout(m, o);
    uint64_t dims[5] = {0}, block = 1;
    const layout_order order = layout_describe(l, &block);
    layout_dims(l, dims);
    sampler s = {.channels = dims[1], .n_choices = 1};
    if ((order == ORDER_PLANAR || order == ORDER_BLOCKED) && o->layer->groups == 1 && dims[1] % SAMPLE_CHANNELS == 0 &&
        SAMPLE_CHANNELS % block == 0) {
        s.channels = SAMPLE_CHANNELS;
        s.n_choices = dims[1] / SAMPLE_CHANNELS;
    }
    s.n = image_floats(m, o->inputs[0]) / s.n_choices;
    const uint64_t n_images = max_u64(SAMPLE_BYTES / (s.n * sizeof *s.x), 1);
    s.n_images = (uint32_t)min_u64(m->params.batch / o->n_parts, min_u64(SAMPLE_IMAGES, n_images));
    return s;
}

static comet_status make_kernels(comet_model *m, const op *o, sampler *s)
{
    if (o->own_depthwise)
        return COMET_OK;
    TRY(conv_sample_kernel(m, o, s->n_images, s->channels, &s->gradient));
    if (!o->folded)
        return COMET_OK;
    const layout *rows;
    const uint64_t dims[4] = {m->parameters[o->weight].dims[0], s->channels, 1, 1};
    TRY(layout_plain(m->backend, 4, dims, &rows));
    return kernel_reorder(m->backend, kernel_layout(s->gradient, ARG_DIFF_WEIGHTS), rows, &s->to_plain);
}

/* Work: the error, what the kernel makes of it, that row by row, the scratchpad. */
static uint64_t error_floats(const op *o)
{
    return o->sampler->n_images * o->sampler->n;
}

static uint64_t made_floats(const comet_model *m, const op *o)
{
    const sampler *s = o->sampler;
    return (s->gradient ? layout_bytes(kernel_layout(s->gradient, ARG_DIFF_WEIGHTS)) : op_gradient_bytes(m, o)) / sizeof(float);
}

static uint64_t plain_floats(const op *o)
{
    return o->sampler->to_plain ? layout_bytes(kernel_layout(o->sampler->to_plain, ARG_DST)) / sizeof(float) : 0;
}

static uint64_t work_bytes(const comet_model *m, const op *o)
{
    const sampler *s = o->sampler;
    const uint64_t floats = padded_floats(error_floats(o)) + padded_floats(made_floats(m, o)) + padded_floats(plain_floats(o));
    const uint64_t of_gradient = s->gradient ? kernel_scratch_bytes(s->gradient) : 0;
    return floats * sizeof(float) + max_u64(of_gradient, s->to_plain ? kernel_scratch_bytes(s->to_plain) : 0);
}

/* The turn that is filled last, or the next one where that would be too much. */
static void take_turn(comet_model *m, const op *o, uint64_t *filled)
{
    sampler *s = o->sampler;
    const uint64_t bytes =
        padded_floats((error_floats(o) + 1) / 2) * sizeof(float); /* 16 bits each, and aligned as floats are */
    if (m->samples.n_turns == 0 || *filled + bytes > TURN_BYTES) {
        m->samples.n_turns++;
        *filled = 0;
    }
    s->turn = m->samples.n_turns - 1;
    s->offset = *filled;
    *filled += bytes;
    m->samples.bytes = max_u64(m->samples.bytes, *filled);
    m->samples.work_bytes = max_u64(m->samples.work_bytes, work_bytes(m, o));
}

/* A convolution that backward runs, with an input that is stored with errors; images are not. */
static bool is_measured(const comet_model *m, const op *o)
{
    const uint32_t input = o->inputs[0];
    return o->layer->op == COMET_OP_CONV && o->n_parts > 0 && m->values[o->output].needs_gradient &&
           m->values[input].producer != NONE && slot_may_be_lossy(m, value_slot(m, input));
}

comet_status sample_find(comet_model *m)
{
    uint64_t filled = 0;
    for (uint32_t i = 0; model_is_lossy(m) && i < m->n_ops; i++) {
        op *o = &m->ops[i];
        if (!is_measured(m, o))
            continue;
        o->sampler = malloc(sizeof *o->sampler);
        if (!o->sampler)
            return comet_fail(COMET_ERROR_MEMORY, "no memory to measure errors");
        *o->sampler = choose_sample(m, o);
        TRY(make_kernels(m, o, o->sampler));
        take_turn(m, o, &filled);
    }
    return COMET_OK;
}

void sample_destroy(sampler *s)
{
    if (!s)
        return;
    kernel_destroy(s->gradient);
    kernel_destroy(s->to_plain);
    free(s);
}

/* ---- use ---- */

/* Work on images [begin, end) of a sample. */
typedef struct image_job {
    sampler *s;
    const float *tensor; /* from the first sampled channel on */
    float *error;
    int32_t largest[SAMPLE_IMAGES]; /* magnitudes as bits, which are in order of size, with what is not finite at the end */
} image_job;

static void find_largest(void *arg, size_t begin, size_t end)
{
    image_job *j = arg;
    const sampler *s = j->s;
    for (size_t i = begin; i < end; i++) {
        const float *x = j->tensor + i * s->n * s->n_choices;
        int32_t largest = 0;
        for (uint64_t k = 0; k < s->n; k++) {
            int32_t bits;
            memcpy(&bits, &x[k], sizeof bits);
            bits &= INT32_MAX;
            largest = bits > largest ? bits : largest;
        }
        j->largest[i] = largest;
    }
}

static void keep_images(void *arg, size_t begin, size_t end)
{
    const image_job *j = arg;
    const sampler *s = j->s;
    const float per_unit = 1 / s->unit;
    for (size_t i = begin; i < end; i++) {
        const float *x = j->tensor + i * s->n * s->n_choices;
        int16_t *kept = s->x + i * s->n;
        for (uint64_t k = 0; k < s->n; k++) {
            const float scaled = x[k] * per_unit;
            kept[k] = (int16_t)(scaled >= 0 ? scaled + 0.5F : scaled - 0.5F);
        }
    }
}

static void subtract_images(void *arg, size_t begin, size_t end)
{
    const image_job *j = arg;
    const sampler *s = j->s;
    for (size_t i = begin; i < end; i++) {
        const float *stored = j->tensor + i * s->n * s->n_choices;
        const int16_t *kept = s->x + i * s->n;
        float *error = j->error + i * s->n;
        for (uint64_t k = 0; k < s->n; k++)
            error[k] = stored[k] - s->unit * (float)kept[k];
    }
}

void sample_keep(const comet_model *m, const op *o, uint64_t round, void *samples)
{
    sampler *s = o->sampler;
    s->first = round % s->n_choices * s->n;
    image_job j = {.s = s, .tensor = (const float *)value_data(m, o->inputs[0]) + s->first};
    int32_t bits = 0;
    float largest;
    parallel_for(s->n_images, 1, find_largest, &j);
    for (uint32_t i = 0; i < s->n_images; i++)
        bits = j.largest[i] > bits ? j.largest[i] : bits;
    memcpy(&largest, &bits, sizeof largest);
    s->unit = largest / LARGEST;
    if (!isfinite(s->unit) || !isfinite(1 / s->unit)) /* nothing to measure in zeros, or beside what is not finite */
        return;
    s->x = (int16_t *)samples + s->offset / sizeof *s->x;
    parallel_for(s->n_images, 1, keep_images, &j);
}

double sample_compare(const comet_model *m, const op *o, float *work)
{
    sampler *s = o->sampler;
    image_job j = {.s = s, .tensor = (const float *)value_data_backward(m, o->inputs[0]) + s->first, .error = work};
    uint64_t dims[5], n_nonzero = 0;
    layout_dims(input_layout(m, o), dims);
    parallel_for(s->n_images, 1, subtract_images, &j);
    for (uint32_t i = 0; i < s->n_images; i++)
        n_nonzero += count_nonzero(s->n, j.tensor + i * s->n * s->n_choices);
    return (double)n_nonzero / (double)(s->n_images * s->channels * dims[2] * dims[3]);
}

static comet_status run_kernels(const op *o, float *error, float *diff, float *made, float *plain, void *scratch)
{
    const sampler *s = o->sampler;
    const kernel_args args = {
        .at = {[ARG_SRC] = error, [ARG_DIFF_DST] = diff, [ARG_DIFF_WEIGHTS] = made, [ARG_SCRATCH] = scratch}};
    const kernel_args move = {.at = {[ARG_SRC] = made, [ARG_DST] = plain, [ARG_SCRATCH] = scratch}};
    TRY(kernel_run(s->gradient, &args));
    return s->to_plain ? kernel_run(s->to_plain, &move) : COMET_OK;
}

comet_status sample_gradient(comet_model *m, const op *o, float *work, const float **gradient, uint64_t *n)
{
    const sampler *s = o->sampler;
    float *diff = arena_at(&m->arena, o->diff), *made = work + padded_floats(error_floats(o));
    float *plain = made + padded_floats(made_floats(m, o)), *scratch = plain + padded_floats(plain_floats(o));
    *gradient = s->to_plain ? plain : made;
    *n = s->to_plain ? plain_floats(o) : made_floats(m, o);
    if (s->gradient)
        return run_kernels(o, work, diff, made, plain, scratch);
    depthwise_gradient(m, o, s->n_images, work, diff, made);
    return COMET_OK;
}
