/*
 * Ranks that train one model, each on its share of every batch, against one rank with the whole batch: the same weights,
 * optimiser's state, running statistics and scores within rounding, and the same bits on all ranks.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/status.h"
#include "team.h"
#include "tiny_net.h"
#include "train/update/exchange.h"

enum { MOST_RANKS = 4 };

#define PLAIN_NET                          \
    "net plain\n"                          \
    "input 3 8 8\n"                        \
    "conv1 = conv out=8 kernel=3 pad=1\n"  \
    "relu1 = relu\n"                       \
    "drop = dropout p=0.2\n"               \
    "conv2 = conv out=16 kernel=3 pad=1\n" \
    "relu2 = relu\n"                       \
    "avg = global_avg_pool\n"              \
    "flat = flatten\n"                     \
    "fc1 = linear out=40\n"                \
    "relu3 = relu\n"                       \
    "fc2 = linear out=4\n"

/* ---- against one rank ---- */

static void check_scores(const char *what, const team_job *job, const team_outcome *a, const team_outcome *b)
{
    for (uint32_t i = 0; i < job->n_steps; i++) {
        const comet_scores *x = &a->scores[i], *y = &b->scores[i];
        assert_int_equal(x->n_valid, job->params.batch);
        if (x->n_valid != y->n_valid || x->n_top1 != y->n_top1 || x->n_top5 != y->n_top5 ||
            !(fabs(x->loss - y->loss) <= 1e-5 * (1 + fabs(y->loss))))
            fail_because("%s: step %u: loss %.9g, %u of %u; one rank: %.9g, %u of %u", what, i, x->loss, x->n_top1, x->n_valid,
                         y->loss, y->n_top1, y->n_valid);
    }
}

/* All that the ranks have is the same. */
static void check_ranks_agree(const char *what, const team_job *job, const team_outcome *all, uint32_t n_ranks)
{
    for (uint32_t r = 1; r < n_ranks; r++) {
        for (int kind = 0; kind < TEAM_KINDS; kind++)
            if (!team_same_bits(&all[r], &all[0], kind))
                fail_because("%s: tensors of kind %d differ between ranks 0 and %u of %u", what, kind, r, n_ranks);
        for (uint32_t i = 0; i < job->n_steps; i++)
            if (memcmp(&all[r].scores[i], &all[0].scores[i], sizeof all[r].scores[i]) != 0)
                fail_because("%s: scores of step %u differ between ranks 0 and %u of %u", what, i, r, n_ranks);
    }
}

static void check_close(const char *what, const team_outcome *a, const team_outcome *alone, double tolerance)
{
    for (int kind = 0; kind < TEAM_KINDS; kind++) {
        const double distance = a->n_kept[kind] > 0 ? team_distance(a, alone, kind) : 0;
        if (!(distance <= tolerance))
            fail_because("%s: tensors of kind %d are %g away from those of one rank", what, kind, distance);
    }
}

/* With the optimiser's state shared out, weights have the same bits. */
static void check_shards(const char *what, const team_job *job, uint32_t n_ranks, const team_outcome *whole)
{
    team_job sharded = *job;
    sharded.params.shard_optimiser = true;
    team_outcome *all = team_run(&sharded, n_ranks);
    check_ranks_agree(what, &sharded, all, n_ranks);
    if (!team_same_bits(&all[0], whole, COMET_TENSOR_WEIGHT) || !team_same_bits(&all[0], whole, COMET_TENSOR_STATISTIC))
        fail_because("%s: %u ranks that share out the optimiser's state have other weights", what, n_ranks);
    free(all);
}

static team_outcome *train_alone(const team_job *job)
{
    team_job alone = *job;
    alone.alone = true;
    return team_run(&alone, 1);
}

/* `tolerance` 0: one rank's numbers are others. */
static void check_job(const char *what, const team_job *job, double tolerance)
{
    team_outcome *alone = train_alone(job);
    assert_true(isfinite(norm_of(alone->n_kept[0], alone->kept[0])));
    for (uint32_t n = 1; n <= MOST_RANKS; n++) {
        team_outcome *all = team_run(job, n);
        check_ranks_agree(what, job, all, n);
        if (tolerance > 0) {
            check_scores(what, job, &all[0], alone);
            check_close(what, &all[0], alone, n == 1 ? 0 : tolerance);
        }
        check_shards(what, job, n, &all[0]);
        free(all);
    }
    free(alone);
}

static team_job plain_job(void)
{
    team_job job = team_job_of(net_of(PLAIN_NET));
    job.bucket_floats = 256;
    job.n_rooms = 3;
    return job;
}

static void end_job(const team_job *job)
{
    comet_net_destroy((comet_net *)(uintptr_t)job->net);
}

static void sgd_agrees(void **state)
{
    team_job job = plain_job();
    check_job("sgd", &job, 1e-5);
    job.apart = true;
    job.params.optimiser.nesterov = true;
    check_job("nesterov, apart", &job, 1e-5);
    job.params.optimiser.momentum = 0;
    check_job("no momentum", &job, 1e-5);
    end_job(&job);
}

static void fused_updates_agree(void **state)
{
    team_job job = plain_job();
    job.params.fused_update = true;
    check_job("fused", &job, 1e-5);
    job.params.optimiser.momentum = 0;
    check_job("fused, no momentum", &job, 1e-5);
    end_job(&job);
}

/* eps: gradients that are all rounding would move weights as far as others. */
static void adamw_agrees(void **state)
{
    team_job job = plain_job();
    comet_optimiser_init(&job.params.optimiser, COMET_OPTIMISER_ADAMW);
    job.params.optimiser.eps = 1e-3;
    job.rate = 0.01;
    check_job("adamw", &job, 1e-5);
    job.params.fused_update = true;
    check_job("adamw, fused", &job, 1e-5);
    end_job(&job);
}

static void clipped_gradients_agree(void **state)
{
    team_job job = plain_job();
    job.params.optimiser.clip_norm = 0.1f;
    check_job("clipped", &job, 1e-5);
    team_outcome *clipped = train_alone(&job);
    job.params.optimiser.clip_norm = 0;
    team_outcome *whole = train_alone(&job);
    assert_true(team_distance(clipped, whole, COMET_TENSOR_MOMENTUM) > 0.1);
    free(clipped);
    free(whole);
    end_job(&job);
}

static void accumulated_batches_agree(void **state)
{
    team_job job = plain_job();
    job.params.accumulate = 2;
    check_job("accumulate 2", &job, 1e-5);
    job.params.optimiser.clip_norm = 0.1f;
    check_job("accumulate 2, clipped", &job, 1e-5);
    end_job(&job);
}

static void groups_agree(void **state)
{
    team_job job = plain_job();
    job.params.freeze = "conv1,fc1.bias";
    check_job("frozen", &job, 1e-5);
    job.params.rates = "fc2=3x,conv2.bias=0.001";
    job.params.rate_base = job.rate;
    check_job("frozen, rates", &job, 1e-5);
    job.params.fused_update = true;
    check_job("frozen, rates, fused", &job, 1e-5);
    end_job(&job);
}

/* Bias alone, weight alone, one layer alone. */
static void few_trained_parameters_agree(void **state)
{
    static const char *const freeze[] = {"*,!fc2.bias", "*,!conv2.weight", "*,!conv1.weight,!fc2.bias"};
    team_job job = plain_job();
    for (size_t i = 0; i < COUNT_OF(freeze); i++) {
        job.params.freeze = freeze[i];
        check_job(freeze[i], &job, 1e-5);
    }
    end_job(&job);
}

/* ---- batch norm ---- */

/* Each rank normalises by its own images: other numbers than one rank's, but the same on all ranks. */
static void local_batch_norms_agree(void **state)
{
    team_job job = team_job_of(net_of(TINY_NET));
    job.bucket_floats = 256;
    job.n_rooms = 2;
    check_job("local batch norm", &job, 0);
    job.params.fused_update = true;
    check_job("local batch norm, fused", &job, 0);
    job.params.fused_update = false;
    job.params.accumulate = 2;
    check_job("local batch norm, accumulate 2", &job, 0);
    end_job(&job);
}

/* Statistics are means over ranks: of one step, by hand. */
static void running_statistics_are_means(void **state)
{
    team_job job = team_job_of(net_of(TINY_NET));
    job.n_steps = 1;
    team_outcome *all = team_run(&job, 2);
    float mean[TEAM_FLOATS] = {0};
    const uint64_t n = all[0].n_kept[COMET_TENSOR_STATISTIC];
    assert_int_equal(n, 16);
    for (uint32_t r = 0; r < 2; r++) {
        team_job half = job;
        half.params.batch = 6;
        half.alone = true;
        half.n_batch = 12;
        half.first_row = 6 * r;
        team_outcome *own = team_run(&half, 1);
        for (uint64_t i = 0; i < n; i++)
            mean[i] += own->kept[COMET_TENSOR_STATISTIC][i] / 2;
        free(own);
    }
    assert_true(relative_distance(n, all[0].kept[COMET_TENSOR_STATISTIC], mean) < 1e-6);
    free(all);
    end_job(&job);
}

/* ---- the same again ---- */

static void runs_repeat(void **state)
{
    team_job job = team_job_of(net_of(TINY_NET));
    job.bucket_floats = 256;
    job.n_rooms = 3;
    job.params.fused_update = true;
    for (int shards = 0; shards < 2; shards++) {
        job.params.shard_optimiser = shards;
        team_outcome *a = team_run(&job, 3), *b = team_run(&job, 3);
        for (int kind = 0; kind < TEAM_KINDS; kind++)
            assert_true(team_same_bits(a, b, kind));
        assert_memory_equal(a->scores, b->scores, sizeof a->scores);
        free(a);
        free(b);
    }
    end_job(&job);
}

/* ---- buckets and rooms ---- */

/* How gradients are cut does not matter: with one room, more rooms than buckets, and all in one bucket. */
static void cuts_do_not_matter(void **state)
{
    static const struct {
        uint64_t floats;
        uint32_t n_rooms;
    } cuts[] = {{16, 8}, {64, 1}, {64, 2}, {208, 8}, {1024, 5}};
    team_job job = plain_job();
    job.bucket_floats = 0;
    for (int k = 0; k < 4; k++) {
        job.params.fused_update = k % 2;
        job.params.shard_optimiser = k / 2;
        team_outcome *whole = team_run(&job, 3);
        assert_int_equal(whole->n_buckets, 1);
        for (size_t i = 0; i < COUNT_OF(cuts); i++) {
            team_job cut = job;
            cut.bucket_floats = cuts[i].floats;
            cut.n_rooms = cuts[i].n_rooms;
            team_outcome *all = team_run(&cut, 3);
            check_ranks_agree("cut", &cut, all, 3);
            assert_true(all->n_buckets > 2);
            if (cuts[i].floats <= 64)
                assert_true(all->n_buckets > 8);
            check_close("cut", all, whole,
                        1e-6); /* floats of another segment are summed up by another rank, in the same order */
            free(all);
        }
        free(whole);
    }
    end_job(&job);
}

/* A layer larger than a bucket of the usual size, and others. */
static void large_layers_agree(void **state)
{
    team_job job = team_job_of(net_of("net large\n"
                                      "input 8 5 5\n"
                                      "flat = flatten\n"
                                      "fc1 = linear out=2000\n"
                                      "relu1 = relu\n"
                                      "fc2 = linear out=2000\n"
                                      "relu2 = relu\n"
                                      "fc3 = linear out=4\n"));
    job.n_steps = 2;
    job.params.fused_update = true;
    team_outcome *alone = train_alone(&job), *all = team_run(&job, 2);
    assert_true(all->n_buckets > 8);
    check_ranks_agree("large", &job, all, 2);
    check_scores("large", &job, all, alone);
    check_close("large", all, alone, 1e-5);
    check_shards("large", &job, 2, all);
    free(alone);
    free(all);
    end_job(&job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sgd_agrees),
        cmocka_unit_test(fused_updates_agree),
        cmocka_unit_test(adamw_agrees),
        cmocka_unit_test(clipped_gradients_agree),
        cmocka_unit_test(accumulated_batches_agree),
        cmocka_unit_test(groups_agree),
        cmocka_unit_test(few_trained_parameters_agree),
        cmocka_unit_test(local_batch_norms_agree),
        cmocka_unit_test(running_statistics_are_means),
        cmocka_unit_test(runs_repeat),
        cmocka_unit_test(cuts_do_not_matter),
        cmocka_unit_test(large_layers_agree),
    };
    return cmocka_run_group_tests_name("exchange", tests, NULL, NULL);
}
