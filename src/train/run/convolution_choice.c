/*
 * Which implementation of each pass of the 3 x 3 convolutions is the fastest on this machine?
 *
 * A model is planned but not allocated; its convolutions are run one by one on made-up numbers, with tensors as they lie in the
 * model and with its threads. The rule by shape stands unless the other way is clearly faster. What is left is a text: a model
 * that is given this text computes the same bits each time.
 */
#include "train/run/convolution_choice.h"

#include <stdlib.h>
#include <string.h>

#include "base/describe.h"
#include "base/status.h"
#include "train/graph/conv_choices.h"
#include "train/run/plan.h"

#define TRIAL_SECONDS 3.0 /* of all timed runs, or two of each candidate */
#define CLEARLY 0.97      /* of the time of what the rule says */

/* ---- the search ---- */

typedef struct search {
    comet_model *m;
    conv_timer *timer;
    void *user;
    double share; /* of the time, of each pass */
    bool *has;    /* by op: has it a choice, and which is it? */
    conv_ways *ways;
    comet_convolution_choice found;
} search;

static uint32_t first_like(const comet_model *m, uint32_t index)
{
    for (uint32_t i = 0; i < index; i++)
        if (conv_trial_suits(&m->ops[i]) && conv_trial_same(m, &m->ops[i], &m->ops[index]))
            return i;
    return index;
}

static uint32_t count_shapes(const comet_model *m)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < m->n_ops; i++)
        n += conv_trial_suits(&m->ops[i]) && first_like(m, i) == i;
    return n;
}

static const kernel *kernel_of(const op *o, kernel_pass pass)
{
    return pass == PASS_FORWARD ? o->forward : pass == PASS_BACKWARD_DATA ? o->backward_data : o->backward_weights;
}

static conv_way other_way(conv_way way)
{
    return way == CONV_WINOGRAD ? CONV_DIRECT : CONV_WINOGRAD;
}

static conv_way by_rule(const op *o, kernel_pass pass)
{
    const kernel *k = kernel_of(o, pass);
    return k && kernel_is_winograd(k) ? CONV_WINOGRAD : CONV_DIRECT;
}

static double seconds_by(const conv_times *t, conv_way way)
{
    return t->seconds[way == CONV_WINOGRAD ? CANDIDATE_WINOGRAD : CANDIDATE_DIRECT];
}

static comet_status choose_pass(search *s, uint32_t index, kernel_pass pass)
{
    const op *o = &s->m->ops[index];
    const conv_way rule = by_rule(o, pass), other = other_way(rule);
    conv_times times = {.choice = false};
    s->ways[index].of[pass] = rule;
    if (!kernel_of(o, pass))
        return COMET_OK;
    TRY(s->timer(s->user, s->m, o, pass, s->share, &times));
    if (!times.choice)
        return COMET_OK;
    s->has[index] = true;
    if (seconds_by(&times, other) < CLEARLY * seconds_by(&times, rule))
        s->ways[index].of[pass] = other;
    return COMET_OK;
}

static comet_status choose_op(search *s, uint32_t index)
{
    const uint32_t like = first_like(s->m, index);
    for (int pass = 0; like == index && pass < N_PASSES; pass++)
        TRY(choose_pass(s, index, (kernel_pass)pass));
    s->has[index] = s->has[like];
    s->ways[index] = s->ways[like];
    return COMET_OK;
}

/* Counts an op's passes, and adds its ways to the text. */
static size_t report_op(search *s, uint32_t index, size_t length)
{
    const op *o = &s->m->ops[index];
    for (int pass = 0; pass < N_PASSES; pass++) {
        const conv_way way = s->ways[index].of[pass];
        if (!kernel_of(o, (kernel_pass)pass))
            continue;
        s->found.n_passes++;
        s->found.n_winograd += way == CONV_WINOGRAD;
        s->found.n_unlike_rule += way != by_rule(o, (kernel_pass)pass);
    }
    return conv_choices_add(s->found.choices, length, o->layer->name, s->ways[index]);
}

static comet_status search_model(search *s)
{
    const comet_model *m = s->m;
    const uint32_t n_shapes = count_shapes(m);
    size_t length = 0;
    s->share = n_shapes > 0 ? 1.0 / (n_shapes * N_PASSES) : 0;
    s->has = calloc(m->n_ops, sizeof *s->has);
    s->ways = calloc(m->n_ops, sizeof *s->ways);
    s->found.choices = calloc(m->n_ops + 1, COMET_MAX_LAYER_NAME + CONV_ITEM_BYTES);
    if (!s->has || !s->ways || !s->found.choices)
        return comet_fail(COMET_ERROR_MEMORY, "out of memory: could not allocate the choices of %u layers", m->n_ops);
    for (uint32_t i = 0; i < m->n_ops; i++) {
        if (!conv_trial_suits(&m->ops[i]))
            continue;
        TRY(choose_op(s, i));
        if (s->has[i])
            length = report_op(s, i, length);
    }
    return COMET_OK;
}

comet_status convolution_choice_search(const comet_net *net, const comet_model_params *params, conv_timer *timer, void *user,
                                       comet_convolution_choice *choice)
{
    comet_model_params ruled = *params;
    ruled.convolutions = COMET_CONVOLUTIONS_RULE;
    search s = {.m = calloc(1, sizeof(comet_model)), .timer = timer, .user = user, .found = {.size = sizeof s.found}};
    if (!s.m)
        return comet_fail(COMET_ERROR_MEMORY, "no memory for a model");
    const double began = comet_seconds();
    comet_status status = plan_model(s.m, net, &ruled);
    if (status == COMET_OK)
        status = search_model(&s);
    s.found.seconds = comet_seconds() - began;
    if (status == COMET_OK)
        status = GIVE(comet_convolution_choice, choice, &s.found);
    if (status != COMET_OK)
        free(s.found.choices);
    free(s.has);
    free(s.ways);
    comet_model_destroy(s.m);
    return status;
}

/* ---- by the clock ---- */

static comet_status time_candidates(void *user, comet_model *m, const op *o, kernel_pass pass, double share, conv_times *times)
{
    (void)user;
    return conv_trial_time(m, o, pass, share * TRIAL_SECONDS, times);
}

void comet_convolution_choice_init(comet_convolution_choice *choice)
{
    *choice = (comet_convolution_choice){.size = sizeof *choice};
}

comet_status comet_convolutions_choose(const comet_net *net, const comet_model_params *params, comet_convolution_choice *choice)
{
    TRY(CHECK_SIZE(comet_convolution_choice, choice));
    TRY(model_check_params(net, params));
    return convolution_choice_search(net, params, time_candidates, NULL, choice);
}
