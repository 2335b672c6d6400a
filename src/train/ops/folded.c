/* Batch norms folded into the backward pass of the convolution before them; see folded.h. */
#include "train/ops/folded.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "train/backend/accumulate.h"
#include "train/math/channel_sums.h"
#include "train/memory/memory.h"

#define MIN_POSITIONS 4 /* for each channel out: products of matrices, in^2 out, should be small beside sums over positions */
/* The most of in^2 / out: the cost of these products a position, relative to passes over its channels. ResNet-50, batch 32,
 * level fast: at 64 (256 to 1024) folding takes 5 ms longer a layer than not folding, at 32 about as long;
 * docs/performance.md. */
#define MOST_PRODUCTS 40

/* What the coefficients of a channel are computed from. */
typedef struct folded_sums {
    double product, input, diff; /* rows of W times rows of Q; W S; D */
} folded_sums;

/* ---- which ---- */

static uint32_t count_reading_ops(const comet_model *m, uint32_t v)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < m->n_ops; i++)
        for (uint32_t j = 0; j < m->ops[i].n_inputs; j++)
            n += m->ops[i].inputs[j] == v;
    return n;
}

static bool is_pointwise(const comet_layer *l)
{
    bool unit = l->groups == 1 && !l->bias;
    for (int i = 0; i < 2; i++)
        unit = unit && l->kernel[i] == 1 && l->stride[i] == 1 && l->padding[i] == 0;
    return unit;
}

/* This does not depend on the level, so that results do not. */
static bool is_worth_it(const comet_model *m, const op *conv)
{
    uint64_t in[5], out[5];
    layout_dims(m->values[conv->inputs[0]].layout, in);
    layout_dims(m->values[conv->output].layout, out);
    return in[1] % 16 == 0 && out[1] % 16 == 0 && 2 * in[1] <= out[1] && in[1] * in[1] <= MOST_PRODUCTS * out[1] &&
           out[0] * out[2] * out[3] >= MIN_POSITIONS * out[1];
}

/* Nobody but the batch norm reads the convolution's output, and nobody the batch norm's in backward. */
static bool may_fold(const comet_model *m, const op *norm)
{
    const value *z = &m->values[norm->inputs[0]], *y = &m->values[norm->output];
    if (!batch_norm_of(norm) || !is_trained(m, norm->weight) || !is_trained(m, norm->bias) || norm->relu || y->saved ||
        !y->needs_gradient || z->saved || z->producer == NONE)
        return false;
    const op *conv = &m->ops[z->producer];
    if (conv->layer->op != COMET_OP_CONV || !conv->backward_data || !conv->backward_weights || conv->relu)
        return false;
    const value *a = &m->values[conv->inputs[0]];
    return is_pointwise(conv->layer) && a->saved && a->needs_gradient && (a->derived || a->exactness != COMET_EXACT) &&
           count_reading_ops(m, norm->inputs[0]) == 1 && is_worth_it(m, conv);
}

/* ---- kernels ---- */

enum { N_FOLDED_KERNELS = 8 };

static kernel *kernel_at(const folded *f, int i)
{
    kernel *const kernels[N_FOLDED_KERNELS] = {
        f->gram,          f->add_input,           f->weights_to_plain, f->products_to_plain,
        f->gram_to_plain, f->gradient_from_plain, f->data_from_plain,  f->input_from_plain};
    return kernels[i];
}

static void destroy_folded(folded *f)
{
    if (!f)
        return;
    for (int i = 0; i < N_FOLDED_KERNELS; i++)
        kernel_destroy(kernel_at(f, i));
    free(f);
}

static comet_status make_reorders(comet_model *m, const op *o, folded *f)
{
    const uint64_t out_in[4] = {f->out, f->in, 1, 1}, in_in[4] = {f->in, f->in, 1, 1};
    const layout *rows, *square, *kept = m->parameters[o->weight].layout;
    backend *b = m->backend;
    TRY(layout_plain(b, 4, out_in, &rows));
    TRY(layout_plain(b, 4, in_in, &square));
    TRY(kernel_reorder(b, kept, rows, &f->weights_to_plain));
    TRY(kernel_reorder(b, kernel_layout(o->backward_weights, ARG_DIFF_WEIGHTS), rows, &f->products_to_plain));
    TRY(kernel_reorder(b, kernel_layout(f->gram, ARG_DIFF_WEIGHTS), square, &f->gram_to_plain));
    TRY(kernel_reorder(b, rows, kept, &f->gradient_from_plain));
    TRY(kernel_reorder(b, rows, kernel_layout(o->backward_data, ARG_WEIGHTS), &f->data_from_plain));
    return kernel_reorder(b, square, kernel_layout(f->add_input, ARG_WEIGHTS), &f->input_from_plain);
}

static comet_status make_kernels(comet_model *m, const op *o, folded *f)
{
    const layout *input = kernel_layout(o->backward_data, ARG_DIFF_SRC);
    uint64_t dims[5];
    layout_dims(input, dims);
    conv_spec s = {.batch = dims[0],
                   .in = {dims[1], dims[2], dims[3]},
                   .out = {dims[1], dims[2], dims[3]},
                   .kernel = {1, 1},
                   .stride = {1, 1},
                   .dilation = {1, 1},
                   .groups = 1,
                   .bias = true,
                   .adds = true,
                   .type = layout_type(input)};
    TRY(kernel_conv_forward(m->backend, &s, input, &f->add_input));
    s.adds = s.bias = false;
    TRY(kernel_conv_backward_weights(m->backend, &s, f->add_input, &f->gram));
    return make_reorders(m, o, f);
}

/* Are the kernels fast, and do they take tensors as they lie? */
static bool kernels_suit(const op *o, const folded *f)
{
    const layout *input = kernel_layout(o->backward_data, ARG_DIFF_SRC);
    uint64_t block;
    return layout_describe(input, &block) != ORDER_OTHER && !kernel_is_slow(f->gram) && !kernel_is_slow(f->add_input) &&
           kernel_layout(f->add_input, ARG_SRC) == input && kernel_layout(f->add_input, ARG_DST) == input &&
           kernel_layout(f->gram, ARG_SRC) == input && kernel_layout(f->gram, ARG_DIFF_DST) == input;
}

/* ---- memory ---- */

static uint64_t padded_layout(const kernel *k, kernel_arg arg)
{
    return padded_floats(ceil_div_u64(layout_bytes(kernel_layout(k, arg)), sizeof(float)));
}

static uint64_t sums_scratch_bytes(const comet_model *m, const op *o)
{
    const norm_shape *input = &folded_of(o)->input, *output = &batch_norm_of(&m->ops[o->folds])->shape;
    const channel_sums_spec of_input = {.shape = input, .n = input->n_elements};
    const channel_sums_spec of_output = {.shape = output, .n = output->n_elements};
    return max_u64(channel_sums_bytes(&of_input), channel_sums_bytes(&of_output));
}

static uint64_t block_floats(const comet_model *m, const op *o, folded_block block)
{
    const folded *f = folded_of(o);
    switch (block) {
    case FOLDED_SUMS:
    case FOLDED_PART: return padded_layout(o->backward_weights, ARG_DIFF_WEIGHTS) + padded_layout(f->gram, ARG_DIFF_WEIGHTS);
    case FOLDED_WEIGHTS:
    case FOLDED_PRODUCTS:
    case FOLDED_OTHER: return padded_floats(f->out * f->in);
    case FOLDED_GRAM:
    case FOLDED_MIX: return padded_floats(f->in * f->in);
    case FOLDED_KEPT: return m->params.accumulate > 1 ? padded_floats(m->parameters[o->weight].n) : 0;
    case FOLDED_DATA_WEIGHTS: return padded_layout(o->backward_data, ARG_WEIGHTS);
    case FOLDED_INPUT_WEIGHTS: return padded_layout(f->add_input, ARG_WEIGHTS);
    case FOLDED_INPUT_BIAS: return padded_floats(f->in);
    case FOLDED_DIFF_SUMS: return padded_floats(4 * f->out);
    case FOLDED_INPUT_SUMS: return padded_floats(4 * f->in);
    case FOLDED_PART_SUMS: return padded_floats(4 * max_u64(f->in, f->out));
    case FOLDED_ALL_SUMS: return norm_ranks(m) > 1 ? padded_floats(f->out * sizeof(folded_sums) / sizeof(float)) : 0;
    case FOLDED_SCRATCH: return padded_floats(sums_scratch_bytes(m, o) / sizeof(float));
    default: return padded_floats(f->out);
    }
}

float *folded_at(const comet_model *m, const op *o, folded_block block)
{
    float *at = arena_at(&m->arena, o->buffers.work);
    for (int i = 0; i < (int)block; i++)
        at += block_floats(m, o, (folded_block)i);
    return at;
}

double *folded_sums_at(const comet_model *m, const op *o, folded_block block)
{
    return (double *)(void *)folded_at(m, o, block);
}

static comet_status folded_declare_backward(comet_model *m, op *o, uint32_t weights, uint32_t data)
{
    const folded *f = folded_of(o);
    uint64_t floats = 0;
    for (int i = 0; i < N_FOLDED_BLOCKS; i++)
        floats += block_floats(m, o, (folded_block)i);
    TRY(arena_declare(&m->arena, floats * sizeof(float), weights, &o->buffers.work));
    arena_extend(&m->arena, o->buffers.work, data);
    if (f->summed_by != NONE && m->ops[f->summed_by].buffers.mask_sums != NO_BUFFER)
        arena_extend(&m->arena, m->ops[f->summed_by].buffers.mask_sums, weights);
    if (o->buffers.rooms[0] != NO_BUFFER)
        arena_extend(&m->arena, o->buffers.rooms[0], data);
    if (o->buffers.scratch_weights != NO_BUFFER)
        arena_extend(&m->arena, o->buffers.scratch_weights, data);
    return COMET_OK;
}

static uint64_t folded_scratch_bytes(const comet_model *m, const op *o, op_phase phase)
{
    uint64_t bytes = weighted_scratch_bytes(m, o, phase);
    for (int i = 0; phase == PHASE_WEIGHTS && i < N_FOLDED_KERNELS; i++)
        bytes = max_u64(bytes, kernel_scratch_bytes(kernel_at(folded_of(o), i)));
    return bytes;
}

/* ---- sums ---- */

/* The matrix A lies after Q in a block of sums. */
static float *gram_in(const comet_model *m, const op *o, folded_block block)
{
    return folded_at(m, o, block) + padded_layout(o->backward_weights, ARG_DIFF_WEIGHTS);
}

static comet_status run_gram(comet_model *m, op *o, float *gram)
{
    void *a = value_data_backward(m, o->inputs[0]);
    const kernel_args args = {.at = {[ARG_SRC] = a,
                                     [ARG_DIFF_DST] = a,
                                     [ARG_DIFF_WEIGHTS] = gram,
                                     [ARG_SCRATCH] = arena_at(&m->arena, o->buffers.scratch_weights)}};
    return kernel_run(folded_of(o)->gram, &args);
}

/* Sums a over a part of the batch; sum_diff sums dy over the whole. oneDNN would sum in float, which is too inexact for
 * differences. */
static comet_status sum_input(comet_model *m, const op *o, folded_block to)
{
    const folded *f = folded_of(o);
    const channel_sums_spec spec = {.shape = &f->input, .n = f->input.n_elements / o->n_parts};
    return channel_sums_of(&spec, value_data_backward(m, o->inputs[0]), m->params.n_threads, folded_at(m, o, FOLDED_SCRATCH),
                           folded_sums_at(m, o, to));
}

static comet_status sum_diff(comet_model *m, const op *o)
{
    const folded *f = folded_of(o);
    const norm_shape *s = &batch_norm_of(&m->ops[o->folds])->shape;
    const double *summed = f->summed_by == NONE ? NULL : arena_at(&m->arena, m->ops[f->summed_by].buffers.mask_sums);
    const channel_sums_spec spec = {.shape = s, .n = s->n_elements};
    if (!summed)
        return channel_sums_of(&spec, arena_at(&m->arena, o->buffers.diff), m->params.n_threads,
                               folded_at(m, o, FOLDED_SCRATCH), folded_sums_at(m, o, FOLDED_DIFF_SUMS));
    memcpy(folded_sums_at(m, o, FOLDED_DIFF_SUMS), summed, 2 * s->channels * sizeof *summed);
    return COMET_OK;
}

static void add_part(const comet_model *m, const op *o)
{
    const double *part = folded_sums_at(m, o, FOLDED_PART_SUMS);
    double *sums = folded_sums_at(m, o, FOLDED_INPUT_SUMS);
    add_to(block_floats(m, o, FOLDED_SUMS), folded_at(m, o, FOLDED_PART), folded_at(m, o, FOLDED_SUMS));
    for (uint64_t i = 0; i < 2 * folded_of(o)->in; i++)
        sums[i] += part[i];
}

static comet_status add_up(comet_model *m, op *o)
{
    for (uint32_t k = 0; k < o->n_parts; k++) {
        const folded_block to = k == 0 ? FOLDED_SUMS : FOLDED_PART;
        TRY(saved_take_input(m, o, (saved_part){k, o->n_parts}));
        TRY(weighted_part_of_weights(m, o, k, folded_at(m, o, to), NULL));
        TRY(run_gram(m, o, gram_in(m, o, to)));
        TRY(sum_input(m, o, k == 0 ? FOLDED_INPUT_SUMS : FOLDED_PART_SUMS));
        if (k > 0)
            add_part(m, o);
        TRY(tell_folded_part_done(m, o, k));
    }
    return sum_diff(m, o);
}

static comet_status move(comet_model *m, const op *o, kernel *k, void *from, void *to)
{
    const kernel_args args = {
        .at = {[ARG_SRC] = from, [ARG_DST] = to, [ARG_SCRATCH] = arena_at(&m->arena, o->buffers.scratch_weights)}};
    return kernel_run(k, &args);
}

static comet_status move_to_plain(comet_model *m, const op *o)
{
    const folded *f = folded_of(o);
    TRY(move(m, o, f->weights_to_plain, learnt(m, m->weights, o->weight), folded_at(m, o, FOLDED_WEIGHTS)));
    TRY(move(m, o, f->products_to_plain, folded_at(m, o, FOLDED_SUMS), folded_at(m, o, FOLDED_PRODUCTS)));
    return move(m, o, f->gram_to_plain, gram_in(m, o, FOLDED_SUMS), folded_at(m, o, FOLDED_GRAM));
}

/* ---- gradients ---- */

/* Summed over this rank's positions. */
static folded_sums own_sums(const comet_model *m, const op *o, uint64_t c)
{
    const uint64_t in = folded_of(o)->in;
    const double *inputs = folded_sums_at(m, o, FOLDED_INPUT_SUMS);
    const float *weights = folded_at(m, o, FOLDED_WEIGHTS) + c * in, *products = folded_at(m, o, FOLDED_PRODUCTS) + c * in;
    folded_sums s = {.diff = folded_sums_at(m, o, FOLDED_DIFF_SUMS)[c]};
    for (uint64_t i = 0; i < in; i++) {
        s.product += (double)weights[i] * (double)products[i];
        s.input += (double)weights[i] * inputs[i];
    }
    return s;
}

static folded_sums *all_sums_at(const comet_model *m, const op *o)
{
    return (folded_sums *)(void *)folded_at(m, o, FOLDED_ALL_SUMS);
}

static comet_status sum_over_ranks(const comet_model *m, const op *o)
{
    folded_sums *all = all_sums_at(m, o);
    if (norm_ranks(m) == 1)
        return COMET_OK;
    for (uint64_t c = 0; c < folded_of(o)->out; c++)
        all[c] = own_sums(m, o, c);
    return sum_over_norm_ranks(m, &all->product, folded_of(o)->out * sizeof *all / sizeof(double));
}

/* Computes the gradients of scale and shift, and from them the coefficients of the other gradients, by channel. The mean is
 * that of what is stored, not the one of forward: errors after a relu have a mean, which must cancel. */
static void find_coefficients(comet_model *m, const op *o)
{
    const folded *f = folded_of(o);
    const op *norm = &m->ops[o->folds];
    const bool adds = m->n_accumulated > 0;
    const double count = f->count * norm_ranks(m);
    float *gain = folded_at(m, o, FOLDED_GAIN), *slope = folded_at(m, o, FOLDED_SLOPE);
    float *shift = folded_at(m, o, FOLDED_SHIFT), *mean_diff = folded_at(m, o, FOLDED_MEAN);
    float *d_gamma = gradient_at(m, norm, norm->weight), *d_beta = gradient_at(m, norm, norm->bias);
    for (uint64_t c = 0; c < f->out; c++) {
        const folded_sums own = own_sums(m, o, c), all = norm_ranks(m) > 1 ? all_sums_at(m, o)[c] : own;
        const double mean = all.input / count, r = inverse_deviation(m, norm, c);
        const double g = (double)learnt(m, m->weights, norm->weight)[c] * r;
        const double q = g * r * (r * (all.product - mean * all.diff)) / count;
        gain[c] = (float)g;
        slope[c] = (float)q;
        shift[c] = (float)(q * mean - g * all.diff / count);
        mean_diff[c] = (float)(all.diff / count);
        d_gamma[c] = (float)(r * (own.product - mean * own.diff)) + (adds ? d_gamma[c] : 0);
        d_beta[c] = (float)own.diff + (adds ? d_beta[c] : 0);
    }
}

/* dW = g Q - q (W A) + k S^T, in place of Q. */
static comet_status find_weights_gradient(comet_model *m, op *o)
{
    const folded *f = folded_of(o);
    const double *inputs = folded_sums_at(m, o, FOLDED_INPUT_SUMS);
    float *d = folded_at(m, o, FOLDED_PRODUCTS), *other = folded_at(m, o, FOLDED_OTHER);
    const float *gain = folded_at(m, o, FOLDED_GAIN), *slope = folded_at(m, o, FOLDED_SLOPE);
    const float *shift = folded_at(m, o, FOLDED_SHIFT);
    const product_spec product = {.rows = f->out, .columns = f->in, .inner = f->in};
    TRY(backend_multiply(&product, folded_at(m, o, FOLDED_WEIGHTS), folded_at(m, o, FOLDED_GRAM), other));
    for (uint64_t c = 0; c < f->out; c++)
        for (uint64_t i = 0; i < f->in; i++)
            d[c * f->in + i] = gain[c] * d[c * f->in + i] - slope[c] * other[c * f->in + i] + shift[c] * (float)inputs[i];
    const bool adds = m->n_accumulated > 0;
    float *weight = gradient_at(m, o, o->weight), *there = adds ? folded_at(m, o, FOLDED_KEPT) : weight;
    TRY(move(m, o, f->gradient_from_plain, d, there));
    if (adds)
        add_to(m->parameters[o->weight].n, there, weight);
    return COMET_OK;
}

/* FOLDED_OTHER = rows of W, each times its factor. */
static float *scaled_weights(const comet_model *m, const op *o, folded_block factors, float sign)
{
    const folded *f = folded_of(o);
    const float *weights = folded_at(m, o, FOLDED_WEIGHTS), *factor = folded_at(m, o, factors);
    float *other = folded_at(m, o, FOLDED_OTHER);
    for (uint64_t c = 0; c < f->out; c++)
        for (uint64_t i = 0; i < f->in; i++)
            other[c * f->in + i] = sign * factor[c] * weights[c * f->in + i];
    return other;
}

/* Computes what the gradient of the input needs: - W^T q W, W^T k and g W. */
static comet_status find_input_weights(comet_model *m, op *o)
{
    const folded *f = folded_of(o);
    const float *weights = folded_at(m, o, FOLDED_WEIGHTS), *shift = folded_at(m, o, FOLDED_SHIFT);
    float *bias = folded_at(m, o, FOLDED_INPUT_BIAS), *mix = folded_at(m, o, FOLDED_MIX);
    const product_spec product = {.rows = f->in, .columns = f->in, .inner = f->out, .transposed = true};
    TRY(backend_multiply(&product, weights, scaled_weights(m, o, FOLDED_SLOPE, -1), mix));
    TRY(move(m, o, f->input_from_plain, mix, folded_at(m, o, FOLDED_INPUT_WEIGHTS)));
    memset(bias, 0, f->in * sizeof *bias);
    for (uint64_t c = 0; c < f->out; c++)
        for (uint64_t i = 0; i < f->in; i++)
            bias[i] += shift[c] * weights[c * f->in + i];
    return move(m, o, f->data_from_plain, scaled_weights(m, o, FOLDED_GAIN, 1), folded_at(m, o, FOLDED_DATA_WEIGHTS));
}

static comet_status add_input_part(comet_model *m, const op *o, void *gradient)
{
    const kernel_args args = {.at = {[ARG_SRC] = value_data_backward(m, o->inputs[0]),
                                     [ARG_WEIGHTS] = folded_at(m, o, FOLDED_INPUT_WEIGHTS),
                                     [ARG_BIAS] = folded_at(m, o, FOLDED_INPUT_BIAS),
                                     [ARG_DST] = gradient,
                                     [ARG_SCRATCH] = arena_at(&m->arena, o->buffers.scratch_weights)}};
    return kernel_run(folded_of(o)->add_input, &args);
}

static comet_status folded_backward(comet_model *m, op *o)
{
    TRY(add_up(m, o));
    TRY(move_to_plain(m, o));
    TRY(sum_over_ranks(m, o));
    find_coefficients(m, o);
    TRY(find_weights_gradient(m, o));
    TRY(tell_folded_done(m, o));
    TRY(find_input_weights(m, o));
    for (uint32_t k = 0; k < o->n_parts; k++) {
        if (o->n_parts > 1)
            TRY(saved_take_input(m, o, (saved_part){k, o->n_parts}));
        void *gradient;
        TRY(weighted_part_of_data(m, o, folded_at(m, o, FOLDED_DATA_WEIGHTS), k, &gradient));
        TRY(add_input_part(m, o, gradient));
        TRY(weighted_deliver_part(m, o, k));
    }
    return COMET_OK;
}

/* ---- folding ---- */

static void folded_conv_destroy(op *o)
{
    if (o->state)
        destroy_folded(weighted_of(o)->folded);
    weighted_destroy(o);
}

/* A convolution that makes the gradients of the batch norm after it, too. */
static const op_type op_type_folded_conv = {.name = "conv",
                                            .prepare = conv_prepare,
                                            .destroy = folded_conv_destroy,
                                            .forward = weighted_forward,
                                            .backward = folded_backward,
                                            .input_layout = conv_input_layout,
                                            .scratch_bytes = folded_scratch_bytes,
                                            .declare_forward = weighted_declare_forward,
                                            .declare_backward = folded_declare_backward,
                                            .keeps_input = true,
                                            .kept_as = "conv input",
                                            .kept_class = COMET_SLOT_CONV_INPUT,
                                            .exactness = COMET_LOSSY,
                                            .takes_relu = true};

const folded *folded_of(const op *o)
{
    return o->type == &op_type_folded_conv ? weighted_of(o)->folded : NULL;
}

/* If only one op reads the batch norm's output, that op can sum up its gradient, where that passes a relu, and compute the
 * output. */
static void share_with_reader(comet_model *m, op *norm, folded *f)
{
    const value *y = &m->values[norm->output];
    if (count_reading_ops(m, norm->output) != 1)
        return;
    op *reader = &m->ops[y->last_reader];
    if (reader->mask.used && reader->type->passes_gradient) {
        reader->mask.sums = true;
        reader->mask.shape = norm_shape_of(y->layout, false);
        f->summed_by = reader->index;
    }
    if (reader->type->puts_output)
        batch_norm_of(norm)->deferred_to = reader->index;
}

static comet_status fold(comet_model *m, op *norm)
{
    op *conv = &m->ops[m->values[norm->inputs[0]].producer];
    uint64_t dims[5];
    layout_dims(m->values[conv->output].layout, dims);
    folded *f = calloc(1, sizeof *f);
    if (!f)
        return comet_fail(COMET_ERROR_MEMORY, "out of memory: could not allocate the state of %s", norm->layer->name);
    *f = (folded){.summed_by = NONE,
                  .in = comet_net_shape(m->net, conv->layer->inputs[0]).channels,
                  .out = dims[1],
                  .count = (double)dims[0] * (double)(dims[2] * dims[3]),
                  .input = norm_shape_of(m->values[conv->inputs[0]].layout, false)};
    const comet_status status = make_kernels(m, conv, f);
    if (status != COMET_OK || !kernels_suit(conv, f)) { /* the model works without folding, too */
        destroy_folded(f);
        return status == COMET_ERROR_MEMORY ? status : COMET_OK;
    }
    share_with_reader(m, norm, f);
    weighted_of(conv)->folded = f;
    conv->type = &op_type_folded_conv;
    conv->folds = norm->index;
    norm->backward_by = conv->index;
    return COMET_OK;
}

comet_status folded_find(comet_model *m)
{
    for (uint32_t i = 0; model_is_lossy(m) && !m->params.no_recompute && i < m->n_ops; i++)
        if (may_fold(m, &m->ops[i]))
            TRY(fold(m, &m->ops[i]));
    return COMET_OK;
}
