/*
 * Steps of several ranks: with statistics over all ranks they follow the steps of one rank with all images; weights are the
 * same bits on all ranks, in every run, and whether the optimiser's state is shared out or not.
 */
#include <math.h>
#include <stdlib.h>

#include "base/status.h"
#include "fake_ranks.h"
#include "tiny_net.h"
#include "training.h"

enum { N_STEPS = 50, GLOBAL_BATCH = 8, MOST_FLOATS = 1 << 13 };

/* 5.0 million weights: more buckets than there are rooms for. */
static const char large_net[] = "net large\ninput 3 8 8\nc = conv out=16 kernel=3 pad=1 bias=no\nn = batch_norm\nr = relu\n"
                                "flat = flatten\nfc1 = linear out=2048\nr1 = relu\nfc2 = linear out=1024\nr2 = relu\n"
                                "fc3 = linear out=800\nr3 = relu\nfc = linear out=4\n";

typedef struct job {
    bool large; /* a large net, for a few steps; else TINY_NET, N_STEPS */
    comet_compress_mode mode;
    comet_optimiser_kind kind;
    uint32_t accumulate;
    double clip;
    comet_state_format state;
    bool fused, shard, own_statistics;
} job;

/* What one rank ends with. */
typedef struct outcome {
    double losses[N_STEPS];
    uint64_t hash; /* of all weights and statistics */
    uint64_t n_weights, n_statistics;
    float weights[MOST_FLOATS], statistics[MOST_FLOATS]; /* as many as there is room for, spread evenly */
} outcome;

/* ---- in a rank ---- */

static comet_model_params params_of_job(const job *j, const comet_ranks *ranks)
{
    comet_model_params p = trial_params(GLOBAL_BATCH / ranks->n_ranks);
    p.compression.mode = j->mode;
    p.optimiser.kind = j->kind;
    p.optimiser.clip_norm = (float)j->clip;
    p.optimiser.state = j->state;
    p.accumulate = j->accumulate;
    p.fused_update = j->fused;
    p.ranks = ranks;
    p.sync_batch_norm = !j->own_statistics;
    p.shard_optimiser = j->shard;
    return p;
}

static comet_status step(trial *t, const job *j, const comet_ranks *ranks, uint64_t number, double *loss)
{
    const double rate = j->kind == COMET_OPTIMISER_ADAMW ? 0.001 : 0.01;
    comet_scores scores;
    for (uint32_t k = 0; k < j->accumulate; k++) {
        trial_share(t, ranks, number * j->accumulate + k);
        if (j->fused)
            TRY(comet_model_step(t->model, t->images, t->labels, number, rate, &scores));
        else
            TRY(comet_model_gradients(t->model, t->images, t->labels, number, &scores));
    }
    *loss = scores.loss;
    return j->fused ? COMET_OK : comet_model_update(t->model, rate, number);
}

static void keep(const comet_model *m, comet_tensor_kind kind, outcome *out, uint64_t *n, float *to)
{
    uint64_t n_all;
    float *x = tensors_read(m, kind, &n_all);
    const uint64_t stride = n_all / MOST_FLOATS + 1;
    for (uint64_t i = 0; i < n_all; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        out->hash = (out->hash ^ bits) * 0x100000001b3u;
        if (i % stride == 0)
            to[(*n)++] = x[i];
    }
    free(x);
}

static comet_status train(const comet_ranks *ranks, void *arg, void *result)
{
    const job *j = arg;
    outcome *out = result;
    comet_net *net = net_of(j->large ? large_net : TINY_NET);
    const comet_model_params p = params_of_job(j, ranks);
    trial t = trial_make(net, &p);
    for (uint64_t i = 0; i < (j->large ? 4 : N_STEPS); i++)
        TRY(step(&t, j, ranks, i, &out->losses[i]));
    keep(t.model, COMET_TENSOR_WEIGHT, out, &out->n_weights, out->weights);
    keep(t.model, COMET_TENSOR_STATISTIC, out, &out->n_statistics, out->statistics);
    trial_free(&t);
    comet_net_destroy(net);
    return COMET_OK;
}

/* ---- comparing ---- */

static outcome *run(const job *j, uint32_t n_ranks)
{
    outcome *all = need_malloc(n_ranks * sizeof *all);
    fake_ranks_run(n_ranks, train, (void *)(uintptr_t)j, sizeof *all, all, NULL);
    for (uint32_t r = 1; r < n_ranks; r++)
        assert_memory_equal(&all[r], &all[0], sizeof *all);
    for (size_t i = 0; i < N_STEPS; i++)
        assert_true(isfinite(all->losses[i]));
    return all;
}

typedef struct distances {
    double losses, weights, statistics;
} distances;

static distances compare(const outcome *a, const outcome *b)
{
    distances d = {.weights = relative_distance(b->n_weights, a->weights, b->weights),
                   .statistics = relative_distance(b->n_statistics, a->statistics, b->statistics)};
    assert_true(a->n_weights == b->n_weights && a->n_statistics == b->n_statistics && b->n_weights > 0);
    for (size_t i = 0; i < N_STEPS; i++)
        d.losses = fmax(d.losses, fabs(a->losses[i] - b->losses[i]));
    return d;
}

static void check_follows_one(const job *j)
{
    outcome *one = run(j, 1);
    for (uint32_t n_ranks = 2; n_ranks <= 4; n_ranks += 2) {
        outcome *all = run(j, n_ranks);
        const distances d = compare(all, one);
        if (!(d.losses < 1e-4 && d.weights < 1e-4 && d.statistics < 1e-4))
            fail_because(
                "mode %d, optimiser %d, fused %d, shared out %d, large %d, %u batches, %u ranks: losses to %.1e, weights "
                "%.1e, statistics %.1e",
                (int)j->mode, (int)j->kind, j->fused, j->shard, j->large, j->accumulate, n_ranks, d.losses, d.weights,
                d.statistics);
        free(all);
    }
    free(one);
}

/* ---- tests ---- */

static const job plain = {.accumulate = 1};

static void steps_follow_those_of_one_rank(void **state)
{
    const job jobs[] = {
        plain,
        {.accumulate = 1, .fused = true},
        {.accumulate = 2},
        {.accumulate = 1, .clip = 0.5},
        {.accumulate = 1, .clip = 0.5, .shard = true},
        {.accumulate = 1, .mode = COMET_COMPRESS_LOSSLESS},
        {.accumulate = 1, .kind = COMET_OPTIMISER_ADAMW},
        {.accumulate = 2, .kind = COMET_OPTIMISER_ADAMW, .shard = true},
        {.accumulate = 1, .large = true},
        {.accumulate = 1, .large = true, .fused = true, .shard = true},
    };
    for (size_t i = 0; i < COUNT_OF(jobs); i++)
        check_follows_one(&jobs[i]);
}

static void check_same_bits(const job *a, const job *b)
{
    for (uint32_t n_ranks = 2; n_ranks <= 4; n_ranks += 2) {
        outcome *first = run(a, n_ranks), *second = run(b, n_ranks);
        assert_memory_equal(first, second, sizeof *first);
        free(first);
        free(second);
    }
}

/* Under lossy compression too, whose bounds all ranks agree on. */
static void every_run_has_the_same_bits(void **state)
{
    const job jobs[] = {plain,
                        {.accumulate = 1, .own_statistics = true},
                        {.accumulate = 1, .mode = COMET_COMPRESS_FAST},
                        {.accumulate = 1, .mode = COMET_COMPRESS_DENSE, .own_statistics = true}};
    for (size_t i = 0; i < COUNT_OF(jobs); i++)
        check_same_bits(&jobs[i], &jobs[i]);
}

static void sharing_out_the_optimiser_changes_no_bit(void **state)
{
    const job jobs[] = {plain,
                        {.accumulate = 1, .fused = true},
                        {.accumulate = 2, .own_statistics = true},
                        {.accumulate = 1, .kind = COMET_OPTIMISER_ADAMW},
                        {.accumulate = 1, .fused = true, .kind = COMET_OPTIMISER_ADAMW},
                        {.accumulate = 1, .large = true},
                        {.accumulate = 1, .large = true, .fused = true},
                        {.accumulate = 1, .state = COMET_STATE_CODED},
                        {.accumulate = 1, .state = COMET_STATE_CODED, .clip = 0.5, .kind = COMET_OPTIMISER_ADAMW},
                        {.accumulate = 1, .state = COMET_STATE_BF16, .fused = true, .kind = COMET_OPTIMISER_ADAMW},
                        {.accumulate = 1, .state = COMET_STATE_CODED, .mode = COMET_COMPRESS_FAST},
                        {.accumulate = 1, .state = COMET_STATE_CODED, .large = true, .fused = true}};
    for (size_t i = 0; i < COUNT_OF(jobs); i++) {
        job shared = jobs[i];
        shared.shard = true;
        check_same_bits(&jobs[i], &shared);
    }
}

/* Own statistics train too, but are not those of all images. */
static void own_statistics_differ(void **state)
{
    const job own = {.accumulate = 1, .own_statistics = true};
    outcome *one = run(&plain, 1), *two = run(&own, 2);
    const distances d = compare(two, one);
    assert_true(d.losses > 1e-3 && d.weights > 1e-3 && d.losses < 1);
    free(one);
    free(two);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_follow_those_of_one_rank),
        cmocka_unit_test(every_run_has_the_same_bits),
        cmocka_unit_test(sharing_out_the_optimiser_changes_no_bit),
        cmocka_unit_test(own_statistics_differ),
    };
    return cmocka_run_group_tests_name("ranks train", tests, NULL, NULL);
}
