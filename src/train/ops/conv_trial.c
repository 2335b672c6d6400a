/*
 * Timed runs of convolutions; see conv_trial.h.
 *
 * All passes of a convolution read and write tensors of three shapes: its source, its destination and its weights. One block of
 * memory has one tensor of each, which stands for the gradients, too, and scratch.
 */
#include "train/ops/conv_trial.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/memory.h"
#include "train/ops/ops.h"

enum { LEAST_ROUNDS = 2, MOST_ROUNDS = 20 };
#define PRODUCTS_PER_SECOND 16e9 /* of direct convolution: six runs fit, on two cores */

bool conv_trial_suits(const op *o)
{
    const comet_layer *l = o->layer;
    return l->op == COMET_OP_CONV && o->weight != NONE && l->groups == 1 && l->kernel[0] == 3 && l->kernel[1] == 3 &&
           l->stride[0] == 1 && l->stride[1] == 1;
}

bool conv_trial_same(const comet_model *m, const op *a, const op *b)
{
    const comet_layer *x = a->layer, *y = b->layer;
    return input_layout(m, a) == input_layout(m, b) && m->values[a->output].layout == m->values[b->output].layout &&
           memcmp(x->padding, y->padding, sizeof x->padding) == 0 &&
           memcmp(x->dilation, y->dilation, sizeof x->dilation) == 0 && x->bias == y->bias && a->relu == b->relu &&
           !a->backward_data == !b->backward_data && !a->backward_weights == !b->backward_weights; /* frozen ones have fewer */
}

/* ---- what is run ---- */

/* At least one image for each thread, unless the pass itself has fewer. */
static uint64_t trial_images(const comet_model *m, const conv_spec *s, double seconds)
{
    const double products = 9.0 * (double)(s->in[0] * s->out[0]) * (double)(s->out[1] * s->out[2]);
    return min_u64(s->batch, max_u64(m->params.n_threads, (uint64_t)(seconds * PRODUCTS_PER_SECOND / products)));
}

typedef struct contest {
    conv_candidates candidates;
    kernel_pass pass;
    void *memory;
    uint64_t bytes;
    kernel_args args; /* of a pass */
    void *reordered;  /* weights in another layout */
} contest;

/* Numbers of about the same size everywhere: time could depend on zeros and subnormal ones. */
static void fill(uint64_t n, float *x)
{
    for (uint64_t i = 0; i < n; i++)
        x[i] = (float)((i * 2654435761U >> 16) % 251) / 128 - 1;
}

/* Hands out a part of the block, or counts its bytes where there is no block yet. */
static void *take(contest *c, uint64_t bytes)
{
    char *at = c->memory ? (char *)c->memory + c->bytes : NULL;
    c->bytes += padded_floats(ceil_div_u64(bytes, sizeof(float))) * sizeof(float);
    return at;
}

static void place(contest *c)
{
    const conv_candidates *both = &c->candidates;
    uint64_t weights = 0;
    for (int i = 0; i < N_CANDIDATES; i++) {
        const kernel *reorder = both->by[i].reorder;
        weights = max_u64(weights, layout_bytes(conv_weights_layout(both->by[i].pass, c->pass)));
        weights = max_u64(weights, reorder ? layout_bytes(kernel_layout(reorder, ARG_DST)) : 0);
    }
    uint64_t dims[5];
    layout_dims(both->dst, dims);
    void **at = c->args.at;
    c->bytes = 0;
    at[ARG_SRC] = at[ARG_DIFF_SRC] = take(c, layout_bytes(both->src));
    at[ARG_DST] = at[ARG_DIFF_DST] = take(c, layout_bytes(both->dst));
    at[ARG_WEIGHTS] = at[ARG_DIFF_WEIGHTS] = take(c, weights);
    at[ARG_BIAS] = at[ARG_DIFF_BIAS] = take(c, dims[1] * sizeof(float));
    c->reordered = take(c, weights);
    at[ARG_SCRATCH] = take(c, conv_candidates_scratch_bytes(both));
}

/* Candidates for the images of the pass, to see whether it has a choice, then for those of the trial. */
static comet_status make_candidates(comet_model *m, const op *o, double seconds, contest *c)
{
    conv_spec s = conv_pass_spec(m, o, c->pass);
    TRY(conv_candidates_make(m->backend, &s, input_layout(m, o), c->pass, &c->candidates));
    const uint64_t n_images = trial_images(m, &s, seconds);
    if (!c->candidates.choice || n_images == s.batch)
        return COMET_OK;
    conv_candidates_free(&c->candidates);
    s.batch = n_images;
    return conv_candidates_make(m->backend, &s, input_layout(m, o), c->pass, &c->candidates);
}

static comet_status open_contest(comet_model *m, const op *o, kernel_pass pass, double seconds, contest *c)
{
    const comet_allocator allocator = comet_allocator_of(NULL);
    *c = (contest){.pass = pass};
    TRY(make_candidates(m, o, seconds, c));
    if (!c->candidates.choice)
        return COMET_OK;
    place(c);
    c->memory = comet_allocate(&allocator, c->bytes);
    if (!c->memory)
        return COMET_ERROR_MEMORY;
    fill(c->bytes / sizeof(float), c->memory);
    place(c);
    return COMET_OK;
}

static void close_contest(contest *c)
{
    const comet_allocator allocator = comet_allocator_of(NULL);
    if (c->memory)
        comet_release(&allocator, c->memory, c->bytes);
    conv_candidates_free(&c->candidates);
}

/* ---- runs ---- */

static comet_status run_candidate(const contest *c, const conv_candidate *candidate)
{
    TRY(kernel_run(candidate->pass, &c->args));
    if (!candidate->reorder)
        return COMET_OK;
    const kernel_args move = {
        .at = {[ARG_SRC] = c->args.at[ARG_WEIGHTS], [ARG_DST] = c->reordered, [ARG_SCRATCH] = c->args.at[ARG_SCRATCH]}};
    return kernel_run(candidate->reorder, &move);
}

/* In turns, so that a slow moment of the machine meets both. The first round touches memory and is not counted. */
static comet_status run_in_turns(const contest *c, double seconds, conv_times *times)
{
    const double began = comet_seconds();
    for (int round = 0; round <= LEAST_ROUNDS || (round <= MOST_ROUNDS && comet_seconds() - began < seconds); round++)
        for (int i = 0; i < N_CANDIDATES; i++) {
            const double before = comet_seconds();
            TRY(run_candidate(c, &c->candidates.by[i]));
            const double took = comet_seconds() - before;
            times->seconds[i] = round <= 1 ? took : fmin(times->seconds[i], took);
        }
    return COMET_OK;
}

comet_status conv_trial_time(comet_model *m, const op *o, kernel_pass pass, double seconds, conv_times *times)
{
    contest c;
    *times = (conv_times){.choice = false};
    comet_status status = open_contest(m, o, pass, seconds, &c);
    if (status == COMET_OK && c.candidates.choice) {
        status = run_in_turns(&c, seconds, times);
        times->choice = status == COMET_OK;
    }
    close_contest(&c);
    return status;
}
