/*
 * Bounds of ranks that train one model: the same bits on all of them in every step, from observations of all of them; and the
 * noise of a gradient as the ranks' own gradients give it.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "adapt/adapt.h"
#include "base/status.h"
#include "team.h"
#include "tiny_net.h"
#include "train/assess/assess.h"
#include "train/assess/state.h"
#include "train/ops/ops.h"

enum { MOST_CONSUMERS = 8, MOST_TENSORS = 16, MOST_WEIGHTS = 2048 };

#define PLAIN_NET                          \
    "net plain\n"                          \
    "input 3 8 8\n"                        \
    "conv1 = conv out=8 kernel=3 pad=1\n"  \
    "relu1 = relu\n"                       \
    "conv2 = conv out=8 kernel=3 pad=1\n"  \
    "relu2 = relu\n"                       \
    "conv3 = conv out=16 kernel=3 pad=1\n" \
    "relu3 = relu\n"                       \
    "avg = global_avg_pool\n"              \
    "flat = flatten\n"                     \
    "fc = linear out=4\n"

/* A weight tensor whose gradient is computed from what is stored, in the last step that was collected. */
typedef struct weights_seen {
    uint64_t n;
    double noise, mean_momentum; /* as observed */
    double momentum_before;      /* mean |momentum| by the block of states, where this rank has all of it */
    float gradient[MOST_WEIGHTS];
} weights_seen;

/* What a rank knows of its bounds. */
typedef struct knowledge {
    uint64_t state[TEAM_STEPS], bounds[TEAM_STEPS]; /* hashes after each step: of the numbers, of bounds it stored with */
    uint64_t n_assessed[TEAM_STEPS], n_withdrawals;
    double eb[MOST_TENSORS]; /* in the end */
    uint32_t n_consumers;
    weights_seen seen[MOST_CONSUMERS];
} knowledge;

/* ---- in a rank ---- */

static weights_seen *seen_of(knowledge *k, const comet_model *m, const op *o)
{
    const uint32_t consumer = m->assessment->ops[o->index].consumer;
    if (consumer == NONE || batch_norm_of(o))
        return NULL;
    assert_true(consumer < MOST_CONSUMERS && m->parameters[o->weight].n <= MOST_WEIGHTS);
    return &k->seen[consumer];
}

/* This rank's gradient, before it meets those of others. */
static comet_status keep_gradient(void *self, comet_model *m, const op *o)
{
    weights_seen *w = seen_of(self, m, o);
    if (!w)
        return COMET_OK;
    w->n = m->parameters[o->weight].n;
    memcpy(w->gradient, gradient_at(m, o, o->weight), w->n * sizeof(float));
    return COMET_OK;
}

static double mean_magnitude(const float *x, uint64_t n)
{
    double sum = 0;
    for (uint64_t i = 0; i < n; i++)
        sum += fabs((double)x[i]);
    return sum / (double)n;
}

static void keep_momentum(void *self, comet_model *m, double loss)
{
    for (uint32_t i = 0; i < m->n_ops; i++) {
        weights_seen *w = seen_of(self, m, &m->ops[i]);
        if (w && !m->params.shard_optimiser)
            w->momentum_before =
                mean_magnitude(learnt(m, m->momentum.data, m->ops[i].weight), m->parameters[m->ops[i].weight].n);
    }
}

static void listen(trial *t, void *own)
{
    const listener l = {.self = own, .loss_known = keep_momentum, .gradient_ready = keep_gradient};
    assert_ok(observer_add(&t->model->observer, &l));
}

static uint64_t hash_doubles(const double *x, size_t n)
{
    uint64_t h = 1;
    for (size_t i = 0; i < n; i++) {
        uint64_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        h = (h ^ bits) * 0x9e3779b97f4a7c15u;
        h ^= h >> 29;
    }
    return h;
}

static uint64_t hash_state(const comet_model *m)
{
    const size_t n = model_state_n(m);
    double *numbers = need_malloc(n * sizeof *numbers);
    model_state_export(m, numbers);
    const uint64_t hash = hash_doubles(numbers, n);
    free(numbers);
    return hash;
}

/* What the figures say of the last batch. */
static uint64_t hash_bounds(const comet_model *m)
{
    comet_assessment_line line = {.size = sizeof line};
    double eb[2 * MOST_TENSORS];
    size_t n = 0;
    for (size_t i = 0; comet_model_describe_assessment(m, i, &line) == COMET_OK; i++) {
        assert_true(n + 2 <= COUNT_OF(eb));
        eb[n++] = line.eb;
        eb[n++] = line.eb_cut;
    }
    return hash_doubles(eb, n);
}

static void look(trial *t, uint64_t step, void *own)
{
    const comet_model *m = t->model;
    const assessment *a = m->assessment;
    knowledge *k = own;
    k->state[step] = hash_state(m);
    k->bounds[step] = hash_bounds(m);
    k->n_assessed[step] = adapt_n_assessed(a->adapt);
    k->n_withdrawals = a->n_withdrawals;
    k->n_consumers = adapt_n_consumers(a->adapt);
    for (uint32_t i = 0; i < k->n_consumers; i++)
        k->eb[adapt_consumer_tensor(a->adapt, i)] = adapt_eb(a->adapt, adapt_consumer_tensor(a->adapt, i));
    for (uint32_t i = 0; i < m->n_ops; i++) {
        weights_seen *w = seen_of(k, m, &m->ops[i]);
        if (!w)
            continue;
        w->noise = a->seen[a->ops[i].consumer].gradient_noise;
        w->mean_momentum = a->seen[a->ops[i].consumer].mean_momentum;
    }
}

/* ---- jobs ---- */

static team_job job_of(const comet_net *net, comet_compress_mode mode)
{
    team_job job = team_job_of(net);
    job.params.compression.mode = mode;
    job.rate = 0.01;
    job.bucket_floats = 256;
    job.n_rooms = 3;
    job.prepare = listen;
    job.after_step = look;
    return job;
}

/* malloc'd, one for each rank. */
static knowledge *train(const team_job *job, uint32_t n_ranks)
{
    knowledge *k = need_malloc(n_ranks * sizeof *k);
    free(team_run(job, n_ranks, sizeof *k, k));
    return k;
}

/* ---- the same bits ---- */

/* Until bounds are known, they are relative to what each rank stores. */
static void check_agree(const char *what, const team_job *job, uint32_t n_ranks)
{
    knowledge *k = train(job, n_ranks);
    assert_true(k->n_assessed[job->n_steps - 1] > 2);
    for (uint32_t r = 1; r < n_ranks; r++)
        for (uint32_t i = 0; i < job->n_steps; i++) {
            if (k[r].state[i] != k[0].state[i])
                fail_because("%s: numbers of bounds differ between ranks 0 and %u after step %u", what, r, i);
            if (i > 0 && k[0].n_assessed[i - 1] > 0 && k[r].bounds[i] != k[0].bounds[i])
                fail_because("%s: ranks 0 and %u stored with other bounds in step %u", what, r, i);
        }
    free(k);
}

static void bounds_are_the_same_on_all_ranks(void **state)
{
    comet_net *plain = net_of(PLAIN_NET), *norm = net_of(TINY_NET);
    team_job job = job_of(plain, COMET_COMPRESS_FAST);
    job.n_steps = 12;
    check_agree("fast", &job, 2);
    job.net = norm;
    check_agree("batch norm", &job, 3);
    job.params.compression.mode = COMET_COMPRESS_AUTO;
    job.params.fused_update = job.params.shard_optimiser = true;
    check_agree("auto, fused, shared out", &job, 2);
    job.params.optimiser.momentum = 0;
    job.params.compression.sigma = 0.01;
    check_agree("sigma, hidden momentum, shared out", &job, 3);
    comet_net_destroy(plain);
    comet_net_destroy(norm);
}

static void bounds_are_the_same_in_accumulated_batches(void **state)
{
    comet_net *net = net_of(PLAIN_NET);
    team_job job = job_of(net, COMET_COMPRESS_FAST);
    job.n_steps = 12;
    job.params.accumulate = 2;
    job.params.compression.noise = 1; /* so that deviations limit bounds */
    check_agree("accumulated", &job, 2);
    comet_net_destroy(net);
}

/* ---- the noise of a gradient ---- */

/* The variance of the mean of the ranks' own gradients, each of which is its gradient here times the number of ranks. */
static double variance_of_mean(const knowledge *k, uint32_t consumer, uint32_t n_ranks)
{
    double sum = 0;
    for (uint64_t i = 0; i < k->seen[consumer].n; i++) {
        double mean = 0;
        for (uint32_t r = 0; r < n_ranks; r++)
            mean += (double)k[r].seen[consumer].gradient[i];
        for (uint32_t r = 0; r < n_ranks; r++) {
            const double d = n_ranks * (double)k[r].seen[consumer].gradient[i] - mean;
            sum += d * d;
        }
    }
    return sum / n_ranks / (n_ranks - 1);
}

static void check_noise(const team_job *job, uint32_t n_ranks)
{
    knowledge *k = train(job, n_ranks);
    int n_seen = 0;
    for (uint32_t c = 0; c < k->n_consumers; c++) {
        const weights_seen *w = &k->seen[c];
        if (w->n == 0)
            continue;
        n_seen++;
        assert_true(w->noise > 0);
        assert_near(w->noise, variance_of_mean(k, c, n_ranks), 1e-5 * w->noise);
        assert_true(w->mean_momentum > 0);
        if (!job->params.shard_optimiser)
            assert_near(w->mean_momentum, w->momentum_before, 1e-6 * w->momentum_before);
    }
    assert_true(n_seen >= 3);
    free(k);
}

static void noise_is_that_between_ranks(void **state)
{
    comet_net *net = net_of(PLAIN_NET);
    team_job job = job_of(net, COMET_COMPRESS_FAST);
    job.n_steps = 3; /* every one of the first steps is collected */
    check_noise(&job, 2);
    check_noise(&job, 4);
    job.params.fused_update = true;
    job.params.optimiser.momentum = 0;
    check_noise(&job, 3);
    job.params.shard_optimiser = true;
    check_noise(&job, 3);
    comet_net_destroy(net);
}

static void shared_out_momentum_has_the_same_mean(void **state)
{
    comet_net *net = net_of(PLAIN_NET);
    for (int i = 0; i < 4; i++) {
        team_job job = job_of(net, COMET_COMPRESS_FAST);
        job.n_steps = 3;
        job.params.optimiser.momentum = i % 2 ? 0 : 0.9f; /* or hidden */
        job.params.optimiser.state = i / 2 ? COMET_STATE_CODED : COMET_STATE_F32;
        knowledge *whole = train(&job, 3);
        job.params.shard_optimiser = true;
        knowledge *parts = train(&job, 3);
        for (uint32_t c = 0; c < whole->n_consumers; c++)
            assert_near(parts->seen[c].mean_momentum, whole->seen[c].mean_momentum, 1e-6 * whole->seen[c].mean_momentum);
        free(whole);
        free(parts);
    }
    comet_net_destroy(net);
}

/* ---- against one rank ---- */

static void bounds_are_near_those_of_one_rank(void **state)
{
    comet_net *net = net_of(PLAIN_NET);
    team_job job = job_of(net, COMET_COMPRESS_FAST);
    job.n_steps = 60;
    team_job alone = job;
    alone.alone = true;
    knowledge *one = train(&alone, 1);
    for (uint32_t n = 2; n <= 4; n += 2) {
        knowledge *k = train(&job, n);
        int n_bounds = 0;
        assert_int_equal(k->n_withdrawals, one->n_withdrawals);
        for (int i = 0; i < MOST_TENSORS; i++) {
            if (!(one->eb[i] > 0) || isinf(one->eb[i]))
                continue;
            n_bounds++;
            if (!(k->eb[i] > one->eb[i] / 2 && k->eb[i] < one->eb[i] * 2))
                fail_because("bound %d of %u ranks is %g, of one %g", i, n, k->eb[i], one->eb[i]);
        }
        assert_true(n_bounds >= 3);
        free(k);
    }
    free(one);
    comet_net_destroy(net);
}

static void lossless_is_the_same_run(void **state)
{
    comet_net *net = net_of(TINY_NET);
    team_job jobs[2] = {team_job_of(net), team_job_of(net)};
    jobs[1].params.compression.mode = COMET_COMPRESS_LOSSLESS;
    team_outcome *all = team_run_all(jobs, 2, 2);
    for (int kind = 0; kind < TEAM_KINDS; kind++)
        assert_true(team_same_bits(&all[0], &all[2], kind));
    assert_true(team_same_scores(&all[0], &all[2], TEAM_STEPS));
    free(all);
    comet_net_destroy(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bounds_are_the_same_on_all_ranks),  cmocka_unit_test(bounds_are_the_same_in_accumulated_batches),
        cmocka_unit_test(noise_is_that_between_ranks),       cmocka_unit_test(shared_out_momentum_has_the_same_mean),
        cmocka_unit_test(bounds_are_near_those_of_one_rank), cmocka_unit_test(lossless_is_the_same_run),
    };
    return cmocka_run_group_tests_name("join", tests, NULL, NULL);
}
