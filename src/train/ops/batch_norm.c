/*
 * Batch normalisation of a model: statistics, output and what is stored in forward; sums and gradient in backward. All of it
 * goes tile by tile of the store, so that coded tensors need not be whole in memory: forward normalises in place while it
 * codes; backward decodes every tile for each pass, or once where there is room for all of them.
 *
 * Where ranks share their statistics, sums over a rank's images become sums over all ranks' images before a mean is taken of
 * them. Only the gradients of scale and shift stay sums over the rank's own images, as gradients of all parameters do until
 * ranks exchange them.
 *
 * A batch norm whose scale and shift are frozen is a fixed function: it normalises with the running statistics, in training
 * too, and these do not move. Its backward multiplies by scale / sd, which needs nothing of forward, so that it stores nothing
 * but the sign mask of a fused relu, as other layers do.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "train/backend/element.h"
#include "train/math/tile_run.h"
#include "train/memory/memory.h"
#include "train/ops/ops.h"

/* Coefficients by lanes, in this order in a scratch block. */
enum {
    MEAN, /* apply */
    SCALE,
    SHIFT,
    CODE_SCALE,
    CODE_SHIFT,
    FROM, /* read what is stored */
    HAT_SCALE,
    MASK_FROM,
    MASK_SCALE,
    MASK_SHIFT,
    OUT_FROM,
    OUT_SCALE,
    OUT_SHIFT,
    GAIN, /* gradient */
    SLOPE,
    OFFSET,
    N_COEFFICIENTS
};

#define DEFERRED_PIECE 2048 /* elements: they and their addends stay in the first-level cache */
enum { NORM_MEANS = 3 };    /* the first of the NORM_SUMS, those of which backward takes means */
#define GAMMA_FLOOR 0.1     /* of the root mean square of gamma: channels with a smaller gamma are stored at that scale */

/* A batch norm while it runs, in memory of its own within the arena. */
typedef struct norm_run {
    comet_model *m;
    const op *o;
    const batch_norm *norm;
    const norm_shape *s;
    comet_slot slot;
    bool lossy; /* what is stored is w, not z */
    uint64_t n_tiles, tile, segments;
    float *lanes[N_COEFFICIENTS], *channel;
    double *sums;   /* segments of all tiles, or NULL */
    void *rooms;    /* a tile for each worker */
    void *whole;    /* norm_whole, or NULL */
    double *folded; /* NORM_SUMS by channel */
    double *all;    /* NORM_MEANS by channel, of all ranks whose statistics are used; `folded` where that is one */
    norm_apply_coefficients apply;
    norm_stored_coefficients stored;
    norm_gradient_coefficients gradient;
    const void *in, *dy;
    void *out;
    uint64_t out_first;  /* element that `out` begins with */
    bool puts, observes; /* forward stores; backward reports what errors do */
} norm_run;

static float *statistic(const comet_model *m, uint32_t index)
{
    return m->statistics + m->parameters[index].offset;
}

/* ---- scratch ---- */

static void tiles_of(const op *o, uint64_t *n_tiles, uint64_t *tile)
{
    const norm_shape *s = &batch_norm_of(o)->shape;
    *tile = o->own.tile > 0 ? o->own.tile : max_u64(TILE / s->period, 1) * s->period;
    *n_tiles = (s->n_elements + *tile - 1) / *tile;
}

static uint64_t rounded(uint64_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

static uint64_t all_sums_bytes(const comet_model *m, const norm_shape *s)
{
    return norm_ranks(m) > 1 ? rounded(NORM_MEANS * s->channels * sizeof(double)) : 0;
}

/* What begin_run lays out. */
static uint64_t run_bytes(const comet_model *m, const op *o)
{
    const norm_shape *s = &batch_norm_of(o)->shape;
    uint64_t n_tiles, tile;
    tiles_of(o, &n_tiles, &tile);
    return rounded(N_COEFFICIENTS * norm_lanes(s) * sizeof(float)) + rounded(s->channels * sizeof(float)) +
           rounded(NORM_SUMS * s->channels * sizeof(double)) + all_sums_bytes(m, s) +
           rounded(n_tiles * norm_segments(s, tile) * NORM_SUMS * s->width * sizeof(double)) +
           m->params.n_threads * rounded(tile * comet_dtype_bytes(s->type));
}

/* A batch norm that is folded into a convolution has no backward of its own. */
uint64_t norm_scratch_bytes(const comet_model *m, const op *o, op_phase phase)
{
    if (phase == PHASE_WEIGHTS || (phase == PHASE_DATA && o->own.slot == COMET_NO_SLOT))
        return 0;
    return run_bytes(m, o);
}

static void *carve(uint8_t **at, uint64_t bytes)
{
    void *piece = *at;
    *at += rounded(bytes);
    return piece;
}

static bool is_lossy(const comet_model *m, const op *o)
{
    const comet_slot_policy *p = o->own.slot == COMET_NO_SLOT ? NULL : comet_store_slot_policy(m->store, o->own.slot);
    return p && p->policy == COMET_POLICY_BOUNDED && p->eb > 0;
}

static void begin_run(norm_run *r, comet_model *m, const op *o, void *scratch)
{
    uint8_t *at = scratch;
    const batch_norm *norm = batch_norm_of(o);
    *r = (norm_run){.m = m, .o = o, .norm = norm, .s = &norm->shape, .slot = o->own.slot, .lossy = is_lossy(m, o)};
    tiles_of(o, &r->n_tiles, &r->tile);
    r->segments = norm_segments(r->s, r->tile);
    for (int i = 0; i < N_COEFFICIENTS; i++)
        r->lanes[i] = (float *)(void *)at + (uint64_t)i * norm_lanes(r->s);
    carve(&at, N_COEFFICIENTS * norm_lanes(r->s) * sizeof(float));
    r->channel = carve(&at, r->s->channels * sizeof(float));
    r->folded = carve(&at, NORM_SUMS * r->s->channels * sizeof(double));
    r->all = norm_ranks(m) > 1 ? carve(&at, all_sums_bytes(m, r->s)) : r->folded;
    r->sums = carve(&at, r->n_tiles * r->segments * NORM_SUMS * r->s->width * sizeof(double));
    r->rooms = carve(&at, 0);
    r->whole = arena_at(&m->arena, o->own.whole);
    r->apply = (norm_apply_coefficients){r->lanes[MEAN],       r->lanes[SCALE],      r->lanes[SHIFT],
                                         r->lanes[CODE_SCALE], r->lanes[CODE_SHIFT], norm->coarse};
    r->stored = (norm_stored_coefficients){.mask_from = r->lossy ? NULL : r->lanes[MASK_FROM],
                                           .mask_scale = r->lanes[MASK_SCALE],
                                           .mask_shift = r->lanes[MASK_SHIFT],
                                           .from = r->lanes[FROM],
                                           .scale = r->lanes[HAT_SCALE],
                                           .out_from = r->lanes[OUT_FROM],
                                           .out_scale = r->lanes[OUT_SCALE],
                                           .out_shift = r->lanes[OUT_SHIFT],
                                           .coarse = norm->coarse};
    r->gradient = (norm_gradient_coefficients){r->lanes[GAIN], r->lanes[SLOPE], r->lanes[OFFSET]};
}

/* ---- coefficients ---- */

/* A channel's numbers. */
typedef struct channel_norm {
    float mean, inverse; /* 1 / sd */
    float gamma, beta;
    float code_gamma, code_beta; /* as stored */
} channel_norm;

static float gamma_floor(const norm_run *r, const float *gamma)
{
    double squares = 0;
    for (uint64_t c = 0; c < r->s->channels; c++)
        squares += (double)gamma[c] * (double)gamma[c];
    return squares > 0 ? (float)(GAMMA_FLOOR * sqrt(squares / (double)r->s->channels)) : 1;
}

static channel_norm channel_of(const norm_run *r, uint64_t c, const float *mean, const float *variance, float floor)
{
    channel_norm n = {.mean = mean[c], .gamma = learnt(r->m, r->m->weights, r->o->weight)[c]};
    n.inverse = 1 / sqrtf(variance[c] + r->o->layer->eps);
    n.beta = learnt(r->m, r->m->weights, r->o->bias)[c];
    norm_code(n.gamma, n.beta, floor, &n.code_gamma, &n.code_beta);
    return n;
}

/* The coefficient of one kind for one channel. */
static float coefficient(const norm_run *r, const channel_norm *n, int kind)
{
    const float sign = r->s->relu ? -1 : 1; /* of w as it is stored */
    const bool w = r->lossy;
    switch (kind) {
    case MEAN: return n->mean;
    case SCALE: return n->gamma * n->inverse;
    case SHIFT: return n->beta;
    case CODE_SCALE: return sign * n->code_gamma * n->inverse;
    case CODE_SHIFT: return sign * n->code_beta;
    case FROM: return w ? sign * n->code_beta : n->mean;
    case HAT_SCALE: return w ? sign / n->code_gamma : n->inverse;
    case MASK_FROM: return n->mean;
    case MASK_SCALE: return n->gamma * n->inverse;
    case MASK_SHIFT: return n->beta;
    case OUT_FROM: return w ? sign * n->code_beta : n->mean;
    case OUT_SCALE: return w ? sign * n->gamma / n->code_gamma : n->gamma * n->inverse;
    default: return n->beta;
    }
}

static void set_coefficients(const norm_run *r, int first, int end, const float *mean, const float *variance)
{
    const float floor = gamma_floor(r, learnt(r->m, r->m->weights, r->o->weight));
    for (int kind = first; kind < end; kind++) {
        if (r->lossy && kind >= MASK_FROM && kind <= MASK_SHIFT) /* by the sign */
            continue;
        for (uint64_t c = 0; c < r->s->channels; c++) {
            const channel_norm n = channel_of(r, c, mean, variance, floor);
            r->channel[c] = coefficient(r, &n, kind);
        }
        norm_spread(r->s, r->channel, r->lanes[kind]);
    }
}

/* ---- tiles in parallel ---- */

typedef comet_status tile_fn(norm_run *r, uint64_t tile, size_t worker, uint64_t first, uint64_t n);

typedef struct tile_job {
    norm_run *r;
    tile_fn *each;
} tile_job;

static comet_status one_tile(void *arg, uint64_t tile, size_t worker)
{
    const tile_job *job = arg;
    const uint64_t first = tile * job->r->tile;
    return job->each(job->r, tile, worker, first, min_u64(job->r->tile, job->r->s->n_elements - first));
}

static comet_status for_tiles_of(norm_run *r, uint64_t first, uint64_t end, tile_fn *each)
{
    tile_job job = {r, each};
    return tile_run(r->m->params.n_threads, first, end, one_tile, &job, r->o->layer->name);
}

static comet_status for_tiles(norm_run *r, tile_fn *each)
{
    return for_tiles_of(r, 0, r->n_tiles, each);
}

static uint64_t room_elements(const norm_run *r)
{
    const size_t element = comet_dtype_bytes(r->s->type);
    return rounded(r->tile * element) / element;
}

static void *room_of(const norm_run *r, size_t worker)
{
    return elements_at(r->s->type, r->rooms, worker * room_elements(r));
}

/* Where element `first` of an array of the batch norm lies. */
static const void *from(const norm_run *r, const void *x, uint64_t first)
{
    return elements_from(r->s->type, x, first);
}

static void *out_at(const norm_run *r, uint64_t first)
{
    return elements_at(r->s->type, r->out, first - r->out_first);
}

static double *segments_of(const norm_run *r, uint64_t tile)
{
    return r->sums + tile * r->segments * NORM_SUMS * r->s->width;
}

/* Adds up all sums by channel, tile after tile. */
static void fold_tiles(const norm_run *r)
{
    memset(r->folded, 0, NORM_SUMS * r->s->channels * sizeof *r->folded);
    for (uint64_t k = 0; k < r->n_tiles; k++) {
        const uint64_t first = k * r->tile;
        norm_fold(r->s, first, min_u64(r->tile, r->s->n_elements - first), segments_of(r, k), NORM_SUMS, r->folded);
    }
}

/* ---- forward ---- */

static comet_status moments_tile(norm_run *r, uint64_t tile, size_t worker, uint64_t first, uint64_t n)
{
    (void)worker;
    norm_sum_moments(r->s, from(r, r->in, first), first, n, r->lanes[MEAN], segments_of(r, tile));
    return COMET_OK;
}

/* Elements of a channel in this rank's batch. */
static double count_of(const norm_run *r)
{
    uint64_t dims[5] = {1, 1, 1, 1};
    const uint32_t n_dims = layout_dims(r->m->values[r->o->inputs[0]].layout, dims);
    return (double)dims[0] * (n_dims == 4 ? (double)(dims[2] * dims[3]) : 1);
}

/* Those that means are taken of. */
static double count_of_all(const norm_run *r)
{
    return count_of(r) * norm_ranks(r->m);
}

/* Differences from the running mean, which is close and the same on all ranks, are summed, so that no precision is lost where
 * the mean is large. */
static comet_status batch_statistics(norm_run *r, float *mean, float *variance)
{
    const float *near = statistic(r->m, r->norm->mean);
    const double count = count_of_all(r);
    norm_spread(r->s, near, r->lanes[MEAN]);
    TRY(for_tiles(r, moments_tile));
    fold_tiles(r);
    TRY(sum_over_norm_ranks(r->m, r->folded, 2 * r->s->channels));
    for (uint64_t c = 0; c < r->s->channels; c++) {
        const double shifted = r->folded[c] / count, square = r->folded[r->s->channels + c] / count;
        mean[c] = (float)((double)near[c] + shifted);
        variance[c] = (float)fmax(square - shifted * shifted, 0);
        if (isnan(square))
            variance[c] = NAN;
    }
    return COMET_OK;
}

/* running = (1 - momentum) running + momentum batch, with the unbiased variance, as torch does. */
static void move_statistics(const norm_run *r)
{
    const comet_model *m = r->m;
    const batch_norm *b = r->norm;
    const double n = count_of_all(r), unbiased = n > 1 ? n / (n - 1) : 1, share = r->o->layer->momentum;
    float *mean = statistic(m, b->mean), *variance = statistic(m, b->variance);
    const float *batch_mean = m->statistics + b->batch_mean, *batch_variance = m->statistics + b->batch_variance;
    for (uint64_t c = 0; c < r->s->channels; c++) {
        mean[c] = (float)((1 - share) * mean[c] + share * batch_mean[c]);
        variance[c] = (float)((1 - share) * variance[c] + share * unbiased * batch_variance[c]);
    }
}

/* The input is stored before it is overwritten. */
static comet_status apply_tile(norm_run *r, uint64_t tile, size_t worker, uint64_t first, uint64_t n)
{
    const void *in = from(r, r->in, first);
    void *w = r->puts && r->lossy ? room_of(r, worker) : NULL;
    if (r->puts && !r->lossy)
        TRY(comet_store_put_tile(r->m->store, r->slot, tile, worker, in));
    norm_apply(r->s, in, first, n, &r->apply, out_at(r, first), w);
    if (w && tile + 1 < r->n_tiles)
        comet_store_prefetch(r->m->store, worker, from(r, r->in, first + n));
    return w ? comet_store_put_tile(r->m->store, r->slot, tile, worker, w) : COMET_OK;
}

static comet_status apply_and_put(norm_run *r, bool trains)
{
    comet_store *store = r->m->store;
    const bool puts = trains && r->slot != COMET_NO_SLOT;
    const bool raw = puts && comet_store_slot_policy(store, r->slot)->policy == COMET_POLICY_RAW;
    r->puts = puts && !raw;
    if (raw)
        TRY(comet_store_put(store, r->slot, value_data(r->m, r->o->inputs[0])));
    if (r->puts)
        TRY(comet_store_put_begin(store, r->slot));
    TRY(for_tiles(r, apply_tile));
    return r->puts ? comet_store_put_end(store, r->slot) : COMET_OK;
}

deferred_norm deferred_norm_of(comet_model *m, const op *o)
{
    norm_run r;
    begin_run(&r, m, o, arena_at(&m->arena, o->buffers.scratch_forward));
    return (deferred_norm){.shape = r.s,
                           .apply = r.apply,
                           .in = value_data(m, o->inputs[0]),
                           .rooms = r.rooms,
                           .room = room_elements(&r),
                           .piece = min_u64(r.tile, max_u64(DEFERRED_PIECE / r.s->period, 1) * r.s->period)};
}

const void *deferred_norm_apply(const deferred_norm *d, uint64_t first, uint64_t n, size_t worker)
{
    const comet_dtype type = d->shape->type;
    void *y = elements_at(type, d->rooms, worker * d->room);
    norm_apply(d->shape, elements_from(type, d->in, first), first, n, &d->apply, y, NULL);
    return y;
}

comet_status norm_run_forward(comet_model *m, op *o, run_mode mode)
{
    const batch_norm *b = batch_norm_of(o);
    norm_run r;
    begin_run(&r, m, o, arena_at(&m->arena, o->buffers.scratch_forward));
    float *mean = statistic(m, b->mean), *variance = statistic(m, b->variance);
    r.in = value_data(m, o->inputs[0]);
    r.out = value_data(m, o->output);
    if (mode != RUN_EVALUATE && !b->frozen) {
        mean = m->statistics + b->batch_mean;
        variance = m->statistics + b->batch_variance;
    }
    if (mode != RUN_EVALUATE && (!b->frozen || m->calibrates))
        TRY(batch_statistics(&r, mean, variance));
    set_coefficients(&r, MEAN, FROM, mean, variance);
    if (m->dump && mode == RUN_TRAIN && r.slot != COMET_NO_SLOT)
        TRY(dump_tensor(m, o->layer->name, "bn input", m->values[o->inputs[0]].layout, r.in));
    if (b->deferred_to == NONE)
        TRY(apply_and_put(&r, mode == RUN_TRAIN));
    if (mode == RUN_TRAIN && !b->frozen)
        move_statistics(&r);
    return COMET_OK;
}

/* ---- backward ---- */

/* `next` is what this worker accesses after the tile, as many elements: see comet_store_prefetch. */
static comet_status take_tile(const norm_run *r, uint64_t tile, size_t worker, uint64_t first, const void *next, const void **v)
{
    void *room = r->whole ? elements_at(r->s->type, r->whole, first) : room_of(r, worker);
    *v = room;
    if (r->o->own.decoded)
        return COMET_OK;
    comet_store_prefetch(r->m->store, worker, next);
    return comet_store_take_tile_any(r->m->store, r->slot, tile, worker, room, v);
}

static comet_status output_tile(norm_run *r, uint64_t tile, size_t worker, uint64_t first, uint64_t n)
{
    void *out = out_at(r, first);
    const void *v;
    TRY(take_tile(r, tile, worker, first, out, &v));
    norm_output(r->s, v, first, n, &r->stored, out);
    return COMET_OK;
}

comet_status norm_derive(comet_model *m, op *o, uint64_t first_tile, uint64_t end_tile, void *y, void *scratch)
{
    const batch_norm *b = batch_norm_of(o);
    norm_run r;
    begin_run(&r, m, o, scratch);
    r.out = y;
    r.out_first = first_tile * r.tile;
    set_coefficients(&r, FROM, GAIN, m->statistics + b->batch_mean, m->statistics + b->batch_variance);
    return for_tiles_of(&r, first_tile, end_tile, output_tile);
}

static comet_status sums_tile(norm_run *r, uint64_t tile, size_t worker, uint64_t first, uint64_t n)
{
    const void *v, *dy = from(r, r->dy, first);
    TRY(take_tile(r, tile, worker, first, dy, &v));
    norm_sum_gradients(r->s, v, dy, first, n, &r->stored, r->observes, segments_of(r, tile));
    return COMET_OK;
}

static comet_status gradient_tile(norm_run *r, uint64_t tile, size_t worker, uint64_t first, uint64_t n)
{
    const void *v, *dy = from(r, r->dy, first);
    TRY(take_tile(r, tile, worker, first, dy, &v));
    norm_gradient(r->s, v, dy, first, n, &r->stored, &r->gradient, out_at(r, first));
    return COMET_OK;
}

/* Sums d, d xhat, xhat as it is stored, and d^2 where that is observed. */
static comet_status sum_gradients(norm_run *r)
{
    TRY(for_tiles(r, sums_tile));
    fold_tiles(r);
    if (r->all == r->folded)
        return COMET_OK;
    memcpy(r->all, r->folded, NORM_MEANS * r->s->channels * sizeof *r->all);
    return sum_over_norm_ranks(r->m, r->all, NORM_MEANS * r->s->channels);
}

/* What an error in this rank's stored tensor does, see docs/theory.md. Summed over ranks that is what errors of all do. */
static void observe(const norm_run *r)
{
    const comet_model *m = r->m;
    const uint64_t channels = r->s->channels;
    const double count = count_of(r), count_all = count_of_all(r);
    const float *mean = m->statistics + r->norm->batch_mean, *variance = m->statistics + r->norm->batch_variance;
    const float floor = gamma_floor(r, learnt(m, m->weights, r->o->weight));
    norm_harm harm = {0};
    for (uint64_t c = 0; c < channels; c++) {
        const channel_norm n = channel_of(r, c, mean, variance, floor);
        const double squares = r->folded[3 * channels + c], g2 = (double)n.code_gamma * (double)n.code_gamma;
        const double k = (double)n.gamma * (double)n.inverse, average = r->all[c] / count_all;
        const float s = (float)(r->all[channels + c] / count_all); /* in float: bounds depend on these bits */
        const double s2 = (double)s * (double)s;
        harm.scale += squares / g2;
        harm.passed += k * k * (count * s2 + squares / count_all) / g2;
        harm.cut += k * k * count * s2 / g2;
        harm.energy += k * k * (squares - count * (average * average + s2));
    }
    tell_norm_done(r->m, r->o, &harm);
}

/* Errors of what is stored have a mean, which differs between channels: values that the relu cut off lie nearer to its
 * threshold than the middle of a quantisation step does. The mean is subtracted from xhat, so that the gradient that is passed
 * on has no mean, as without errors: summed over all positions, a mean would count for far more than errors that differ from
 * element to element. The sum of d xhat does not change, since d is 0 where the relu cut off. */
static void set_gradient(const norm_run *r)
{
    const comet_model *m = r->m;
    const uint64_t channels = r->s->channels;
    const double count = count_of_all(r);
    for (int kind = GAIN; kind <= OFFSET; kind++) {
        for (uint64_t c = 0; c < channels; c++) {
            const double gamma = (double)learnt(m, m->weights, r->o->weight)[c];
            const double gain = gamma * inverse_deviation(m, r->o, c), s = r->all[channels + c] / count;
            const double mean = r->lossy ? r->all[2 * channels + c] / count : 0; /* of xhat */
            r->channel[c] = (float)(kind == GAIN ? gain : kind == OFFSET ? gain * (s * mean - r->all[c] / count) : -gain * s);
        }
        norm_spread(r->s, r->channel, r->lanes[kind]);
    }
    for (uint64_t l = 0; l < norm_lanes(r->s); l++)
        r->lanes[SLOPE][l] *= r->lanes[HAT_SCALE][l];
}

/* Writes sums by channel to a parameter's gradient, or adds them to what is there; NULL: it is frozen. */
static void keep_gradient(const norm_run *r, const double *sums, float *gradient)
{
    for (uint64_t c = 0; gradient && c < r->s->channels; c++)
        gradient[c] = (float)sums[c] + (r->m->n_accumulated > 0 ? gradient[c] : 0);
}

comet_status norm_run_backward(comet_model *m, op *o)
{
    const batch_norm *b = batch_norm_of(o);
    norm_run r;
    begin_run(&r, m, o, arena_at(&m->arena, o->buffers.scratch_backward));
    set_coefficients(&r, FROM, GAIN, m->statistics + b->batch_mean, m->statistics + b->batch_variance);
    r.dy = arena_at(&m->arena, o->buffers.diff);
    r.out = arena_at(&m->arena, o->buffers.deliveries[0].write);
    r.observes = r.lossy && anyone_needs_norm(m);
    TRY(sum_gradients(&r));
    saved_own_taken(o, true);
    if (r.observes)
        observe(&r);
    keep_gradient(&r, r.folded + r.s->channels, gradient_at(m, o, o->weight));
    keep_gradient(&r, r.folded, gradient_at(m, o, o->bias));
    if (!needs_gradient_of(m, o, 0)) /* it is the first layer that is trained */
        return COMET_OK;
    set_gradient(&r);
    return for_tiles(&r, gradient_tile);
}

/* ---- frozen ---- */

static comet_status scale_tile(norm_run *r, uint64_t tile, size_t worker, uint64_t first, uint64_t n)
{
    (void)tile, (void)worker;
    norm_apply(r->s, from(r, r->dy, first), first, n, &r->apply, out_at(r, first), NULL);
    return COMET_OK;
}

/* dx = dy gamma / sd, with the running variance. */
static comet_status frozen_norm_backward(comet_model *m, op *o)
{
    const batch_norm *b = batch_norm_of(o);
    const float *gamma = learnt(m, m->weights, o->weight), *variance = statistic(m, b->variance);
    norm_shape linear = b->shape;
    norm_run r;
    linear.relu = false; /* dy is that after the mask */
    begin_run(&r, m, o, arena_at(&m->arena, o->buffers.scratch_backward));
    r.s = &linear;
    r.dy = arena_at(&m->arena, o->buffers.diff);
    r.out = arena_at(&m->arena, o->buffers.deliveries[0].write);
    memset(r.lanes[MEAN], 0, norm_lanes(r.s) * sizeof *r.lanes[MEAN]);
    memset(r.lanes[SHIFT], 0, norm_lanes(r.s) * sizeof *r.lanes[SHIFT]);
    for (uint64_t c = 0; c < r.s->channels; c++)
        r.channel[c] = gamma[c] / sqrtf(variance[c] + o->layer->eps);
    norm_spread(r.s, r.channel, r.lanes[SCALE]);
    return for_tiles(&r, scale_tile);
}

static uint64_t frozen_norm_scratch_bytes(const comet_model *m, const op *o, op_phase phase)
{
    return phase == PHASE_FORWARD || phase == PHASE_DATA ? run_bytes(m, o) : 0;
}

static const op_type op_type_frozen_norm = {.name = "batch norm",
                                            .prepare = norm_prepare,
                                            .destroy = norm_destroy,
                                            .forward = norm_run_forward,
                                            .backward = frozen_norm_backward,
                                            .input_layout = norm_input_layout,
                                            .scratch_bytes = frozen_norm_scratch_bytes,
                                            .in_place = true,
                                            .backward_in_place = true,
                                            .takes_relu = true};

static void freeze_norm(comet_model *m, op *o)
{
    batch_norm *b = batch_norm_of(o);
    b->frozen = !m->params.inference && !op_learns(m, o);
    if (!b->frozen)
        return;
    o->type = &op_type_frozen_norm;
    o->mask.used = o->relu;
}

/* ---- preparation ---- */

static comet_status norm_parameters(comet_model *m, op *o, uint64_t channels)
{
    batch_norm *b = batch_norm_of(o);
    parameter scale = named_parameter(o, "weight"), shift = named_parameter(o, "bias");
    parameter mean = named_parameter(o, "running_mean"), variance = named_parameter(o, "running_var");
    scale.filled = shift.filled = mean.filled = variance.filled = true;
    scale.fill = variance.fill = 1;
    mean.learnt = variance.learnt = false;
    TRY(graph_add_vector(m, &scale, channels, &o->weight));
    TRY(graph_add_vector(m, &shift, channels, &o->bias));
    TRY(graph_add_vector(m, &mean, channels, &b->mean));
    TRY(graph_add_vector(m, &variance, channels, &b->variance));
    const uint64_t padded = (channels + 15) / 16 * 16;
    b->batch_mean = m->n_statistics;
    b->batch_variance = m->n_statistics + padded;
    m->n_statistics += 2 * padded;
    return COMET_OK;
}

comet_status norm_prepare(comet_model *m, op *o)
{
    const layout *data = m->values[o->inputs[0]].layout;
    const uint64_t channels = comet_net_shape(m->net, o->layer->inputs[0]).channels;
    m->values[o->output].layout = data;
    batch_norm *b = o->state = malloc(sizeof *b);
    if (!b)
        return comet_fail(COMET_ERROR_MEMORY, "out of memory: could not allocate the state of %s", o->layer->name);
    *b = (batch_norm){.mean = NONE, .variance = NONE, .coarse = 1, .deferred_to = NONE};
    b->shape = norm_shape_of(data, o->relu);
    if (b->shape.channels != channels)
        return comet_fail(COMET_ERROR_UNSUPPORTED, "%s: the layout of its %llu channels is not supported", o->layer->name,
                          (unsigned long long)channels);
    TRY(norm_parameters(m, o, channels));
    freeze_norm(m, o);
    return COMET_OK;
}

batch_norm *batch_norm_of(const op *o)
{
    return o->type->prepare == norm_prepare ? o->state : NULL;
}

void norm_destroy(op *o)
{
    free(o->state);
}

/* A batch norm needs a layout with channels. */
comet_status norm_input_layout(comet_model *m, const comet_layer *layer, bool relu, const layout *input, const layout **needed)
{
    uint64_t block;
    (void)layer, (void)relu;
    *needed = input;
    return layout_describe(input, &block) != ORDER_OTHER ? COMET_OK : graph_plain_like(m, input, needed);
}

/* ---- memory ---- */

/* The signs of what is stored are the mask of the fused relu. A batch norm that is folded into a convolution has no slot, but
 * the same tiles. */
comet_status norm_declare_own(comet_model *m, op *o)
{
    const norm_shape *s = &batch_norm_of(o)->shape;
    uint64_t n_tiles;
    const comet_slot_spec spec = saved_spec(o->layer->name, COMET_SLOT_NORM_INPUT, o->relu ? COMET_SUPPORT : COMET_LOSSY,
                                            m->values[o->inputs[0]].layout);
    TRY(comet_store_spec_tiling(&spec, &n_tiles, &o->own.tile));
    if (n_tiles > 1 && o->own.tile % s->period != 0) /* rows are so long that tiles would end within one */
        return comet_fail(COMET_ERROR_UNSUPPORTED, "%s: batch normalisation of %llu channels without planes is too wide",
                          o->layer->name, (unsigned long long)s->channels);
    if (o->backward_by != o->index)
        return COMET_OK;
    m->values[o->inputs[0]].norm_input = true;
    return comet_store_declare(m->store, &spec, &o->own.slot);
}

/* A batch norm is deferred only if its input lies in the buffer of its output and the addition takes whole rows. Its input and
 * coefficients then stay until the addition has run. */
comet_status norm_declare_forward(comet_model *m, op *o)
{
    batch_norm *b = batch_norm_of(o);
    if (b->deferred_to == NONE)
        return COMET_OK;
    if (m->values[o->inputs[0]].buffer == m->values[o->output].buffer &&
        saved_made_tile(m, m->ops[b->deferred_to].output) % b->shape.period == 0)
        arena_extend(&m->arena, o->buffers.scratch_forward, b->deferred_to);
    else
        b->deferred_to = NONE;
    return COMET_OK;
}
