/*
 * Ranks that train one model hold the same bounds, so what decides them is joined: sums and means over ranks in place of what
 * each rank saw of its own images.
 *
 * The noise of a gradient comes from the ranks themselves. Rank r's gradient h_r has the scale 1 / ranks, so that the gradient
 * of the whole batch is the sum G, and the variance of G is estimated without any assumption about earlier steps by ranks /
 * (ranks - 1) * (sum of ||h_r||^2 - ||G||^2 / ranks)
 * ||G||^2 is counted by segments, each on one rank.
 */
#include <math.h>
#include <stdlib.h>

#include "train/assess/assess.h"
#include "train/graph/ranks.h"
#include "train/math/reduce.h"
#include "train/ops/ops.h"

/* For a consumer that has weights: ||h||^2 here, and of this rank's segments of the sum ||G||^2 and the mean |momentum|. */
typedef struct joint_gradient {
    double here, sum, momentum;
} joint_gradient;

struct joint {
    joint_gradient *gradients; /* by consumer */
    double *numbers;           /* on their way */
};

/* What goes round. */
enum { N_CONSUMER_NUMBERS = 6, N_SLOT_NUMBERS = 2 };

comet_status join_create(comet_model *m)
{
    assessment *a = m->assessment;
    const size_t n_consumers = adapt_n_consumers(a->adapt), n_slots = comet_store_n_slots(m->store);
    struct joint *j = a->joint = calloc(1, sizeof *j);
    if (j) {
        j->gradients = calloc(n_consumers + 1, sizeof *j->gradients);
        j->numbers = calloc(1 + n_slots * N_SLOT_NUMBERS + n_consumers * N_CONSUMER_NUMBERS, sizeof *j->numbers);
    }
    return j && j->gradients && j->numbers
               ? COMET_OK
               : comet_fail(COMET_ERROR_MEMORY, "out of memory: could not allocate what ranks tell each other of %zu consumers",
                            n_consumers);
}

void join_destroy(assessment *a)
{
    if (!a->joint)
        return;
    free(a->joint->gradients);
    free(a->joint->numbers);
    free(a->joint);
}

comet_status join_gradient_ready(void *self, comet_model *m, const op *o)
{
    assessment *a = self;
    const uint32_t consumer = a->ops[o->index].consumer;
    if (a->due && consumer != NONE && is_trained(m, o->weight))
        a->joint->gradients[consumer] =
            (joint_gradient){.here = sum_of_squares(COMET_DTYPE_F32, m->parameters[o->weight].n, gradient_at(m, o, o->weight))};
    return COMET_OK;
}

void join_gradient_used(assessment *a, uint32_t consumer, const gradient_part *part, double momentum_scale)
{
    joint_gradient *g = &a->joint->gradients[consumer];
    if (part->own_n == 0)
        return;
    const float *gradient = part->gradient + (part->own_first - part->first);
    const momentum_terms terms = {
        .gradient = gradient, .weights = gradient, .momentum = state_at(part->momentum, part->own_first - part->state_first)};
    double size;
    g->sum += momentum_distance(part->own_n, &terms, &size);
    g->momentum += size * momentum_scale;
}

/* Writes numbers and returns where the next go; reads them in the same order. */
static double *put_consumer(const assessment *a, uint32_t i, double *at)
{
    const adapt_observation *seen = &a->seen[i];
    const joint_gradient *g = &a->joint->gradients[i];
    const double numbers[N_CONSUMER_NUMBERS] = {seen->gain, seen->measured, seen->eb * seen->eb, g->here, g->sum, g->momentum};
    for (int k = 0; k < N_CONSUMER_NUMBERS; k++)
        *at++ = numbers[k];
    return at;
}

/* Errors of a parameter consumer add up over ranks; what a pass-on consumer lets in is relative, so the mean counts. */
static const double *take_consumer(const comet_model *m, uint32_t i, const double *at)
{
    const assessment *a = m->assessment;
    const double n = model_ranks(m);
    const bool adds = adapt_is_parameter(a->adapt, i);
    adapt_observation *seen = &a->seen[i];
    seen->gain = adds ? at[0] : at[0] / n;
    seen->measured = at[1];
    seen->eb = sqrt(at[2] / n);
    if (adds) {
        seen->gradient_noise = fmax(n / (n - 1) * (at[3] - at[4] / n), 0);
        seen->mean_momentum = at[5];
    }
    return at + N_CONSUMER_NUMBERS;
}

static double *put_slots(const comet_model *m, double *at)
{
    const assessment *a = m->assessment;
    for (comet_slot s = 0; s < comet_store_n_slots(m->store); s++) {
        *at++ = a->deviations[s] * a->deviations[s];
        *at++ = a->cut_gains[s];
    }
    return at;
}

static const double *take_slots(const comet_model *m, const double *at)
{
    assessment *a = m->assessment;
    for (comet_slot s = 0; s < comet_store_n_slots(m->store); s++, at += N_SLOT_NUMBERS) {
        a->deviations[s] = sqrt(at[0] / model_ranks(m));
        a->cut_gains[s] = at[1] / model_ranks(m);
    }
    return at;
}

comet_status join_observations(comet_model *m)
{
    assessment *a = m->assessment;
    const uint32_t n_consumers = a->due ? adapt_n_consumers(a->adapt) : 0;
    double *numbers = a->joint->numbers, *end = put_slots(m, numbers + 1);
    numbers[0] = (double)a->n_nonfinite;
    for (uint32_t i = 0; i < n_consumers; i++)
        end = put_consumer(a, i, end);
    TRY(ranks_sum(m, numbers, (size_t)(end - numbers)));
    const double *at = take_slots(m, numbers + 1);
    a->n_nonfinite = (uint64_t)numbers[0];
    for (uint32_t i = 0; i < n_consumers; i++)
        at = take_consumer(m, i, at);
    return COMET_OK;
}
