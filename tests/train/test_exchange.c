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
        if (!team_same_scores(&all[r], &all[0], job->n_steps))
            fail_because("%s: scores differ between ranks 0 and %u of %u", what, r, n_ranks);
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
static void check_shards(const char *what, const team_job *job, uint32_t n_ranks, const team_outcome *sharded,
                         const team_outcome *whole)
{
    check_ranks_agree(what, job, sharded, n_ranks);
    if (!team_same_bits(sharded, whole, COMET_TENSOR_WEIGHT) || !team_same_bits(sharded, whole, COMET_TENSOR_STATISTIC))
        fail_because("%s: %u ranks that share out the optimiser's state have other weights", what, n_ranks);
}

/* ---- jobs ---- */

enum { MOST_CASES = 20 };

typedef struct case_list {
    size_t n;
    const char *names[MOST_CASES];
    team_job jobs[MOST_CASES];
} case_list;

static void add_case(case_list *l, const char *name, const team_job *job)
{
    assert_true(l->n < MOST_CASES);
    l->names[l->n] = name;
    l->jobs[l->n++] = *job;
}

/* n_ranks ranks, with the optimiser's state on each of them and shared out. */
static void check_cases_with(const case_list *l, uint32_t n_ranks, const team_outcome *alone, double tolerance)
{
    team_job sharded[MOST_CASES];
    for (size_t i = 0; i < l->n; i++) {
        sharded[i] = l->jobs[i];
        sharded[i].params.shard_optimiser = true;
    }
    team_outcome *whole = team_run_all(l->jobs, l->n, n_ranks), *parts = team_run_all(sharded, l->n, n_ranks);
    for (size_t i = 0; i < l->n; i++) {
        const team_outcome *all = &whole[i * n_ranks];
        check_ranks_agree(l->names[i], &l->jobs[i], all, n_ranks);
        if (tolerance > 0) {
            check_scores(l->names[i], &l->jobs[i], all, &alone[i]);
            check_close(l->names[i], all, &alone[i], n_ranks == 1 ? 0 : tolerance);
        }
        check_shards(l->names[i], &sharded[i], n_ranks, &parts[i * n_ranks], all);
    }
    free(whole);
    free(parts);
}

/* `tolerance` 0: one rank's numbers are others. */
static void check_cases(const case_list *l, double tolerance)
{
    team_job jobs[MOST_CASES];
    for (size_t i = 0; i < l->n; i++) {
        jobs[i] = l->jobs[i];
        jobs[i].alone = true;
    }
    team_outcome *alone = team_run_all(jobs, l->n, 1);
    for (uint32_t n = 1; n <= MOST_RANKS; n++)
        check_cases_with(l, n, alone, tolerance);
    free(alone);
}

static team_job plain_job(const comet_net *net)
{
    team_job job = team_job_of(net);
    job.bucket_floats = 256;
    job.n_rooms = 3;
    return job;
}

/* A job, with fused updates as well. */
static void add_both(case_list *l, const char *name, const char *fused_name, team_job job)
{
    add_case(l, name, &job);
    job.params.fused_update = true;
    job.apart = false;
    add_case(l, fused_name, &job);
}

static void optimisers_agree(void **state)
{
    comet_net *net = net_of(PLAIN_NET);
    case_list l = {0};
    team_job job = plain_job(net);
    add_both(&l, "sgd", "sgd, fused", job);
    job.apart = true;
    job.params.optimiser.nesterov = true;
    add_both(&l, "nesterov, apart", "nesterov, fused", job);
    job.params.optimiser.nesterov = false;
    job.params.optimiser.momentum = 0;
    add_both(&l, "no momentum", "no momentum, fused", job);
    comet_optimiser_init(&job.params.optimiser, COMET_OPTIMISER_ADAMW);
    job.params.optimiser.eps = 1e-3; /* gradients that are all rounding would move weights as far as others */
    job.rate = 0.01;
    add_both(&l, "adamw", "adamw, fused", job);
    check_cases(&l, 1e-5);
    comet_net_destroy(net);
}

/* Blocks and draws do not depend on who holds what. */
static void coded_state_is_shared_out(void **state)
{
    comet_net *net = net_of(PLAIN_NET);
    case_list l = {0};
    team_job job = plain_job(net);
    job.params.optimiser.state = COMET_STATE_CODED;
    add_both(&l, "sgd, coded", "sgd, coded, fused", job);
    job.apart = true;
    comet_optimiser_init(&job.params.optimiser, COMET_OPTIMISER_ADAMW);
    job.params.optimiser.state = COMET_STATE_CODED;
    job.rate = 0.01;
    add_both(&l, "adamw, coded", "adamw, coded, fused", job);
    job.params.optimiser.state = COMET_STATE_BF16;
    add_both(&l, "adamw, bf16", "adamw, bf16, fused", job);
    check_cases(&l, 0);
    comet_net_destroy(net);
}

static void clipped_and_accumulated_gradients_agree(void **state)
{
    comet_net *net = net_of(PLAIN_NET);
    case_list l = {0};
    team_job job = plain_job(net);
    job.params.optimiser.clip_norm = 0.1f;
    add_case(&l, "clipped", &job);
    job.params.accumulate = 2;
    add_case(&l, "clipped, accumulated", &job);
    job.params.optimiser.clip_norm = 0;
    add_case(&l, "accumulated", &job);
    check_cases(&l, 1e-5);
    team_outcome *all = team_run_all(l.jobs, l.n, 2);
    assert_true(team_distance(&all[2], &all[4], COMET_TENSOR_MOMENTUM) > 0.1); /* clipping does something */
    free(all);
    comet_net_destroy(net);
}

static void groups_agree(void **state)
{
    comet_net *net = net_of(PLAIN_NET);
    case_list l = {0};
    team_job job = plain_job(net);
    job.params.freeze = "conv1,fc1.bias";
    add_both(&l, "frozen", "frozen, fused", job);
    job.params.rates = "fc2=3x,conv2.bias=0.001";
    job.params.rate_base = job.rate;
    add_both(&l, "frozen, rates", "frozen, rates, fused", job);
    job.params.rates = NULL;
    job.params.freeze = "*,!fc2.bias";
    add_both(&l, "one bias", "one bias, fused", job);
    job.params.freeze = "*,!conv2.weight";
    add_both(&l, "one weight", "one weight, fused", job);
    job.params.freeze = "*,!conv1.weight,!fc2.bias";
    add_both(&l, "two", "two, fused", job);
    check_cases(&l, 1e-5);
    comet_net_destroy(net);
}

/* ---- batch norm ---- */

/* Each rank normalises by its own images: other numbers than one rank's, but the same on all ranks. */
static void local_batch_norms_agree(void **state)
{
    comet_net *net = net_of(TINY_NET);
    case_list l = {0};
    team_job job = plain_job(net);
    job.n_rooms = 2;
    add_both(&l, "local batch norm", "local batch norm, fused", job);
    job.params.accumulate = 2;
    add_case(&l, "local batch norm, accumulated", &job);
    check_cases(&l, 0);
    comet_net_destroy(net);
}

/* With statistics over all ranks they compute what one rank does. */
static void joint_batch_norms_agree(void **state)
{
    comet_net *net = net_of(TINY_NET);
    case_list l = {0};
    team_job job = plain_job(net);
    job.params.sync_batch_norm = true;
    job.rate = 0.01;
    add_both(&l, "joint batch norm", "joint batch norm, fused", job);
    job.params.accumulate = 2;
    add_case(&l, "joint batch norm, accumulated", &job);
    check_cases(&l, 1e-5);
    comet_net_destroy(net);
}

/* Statistics are means over ranks: of one step, by hand. */
static void running_statistics_are_means(void **state)
{
    comet_net *net = net_of(TINY_NET);
    team_job job = team_job_of(net);
    job.n_steps = 1;
    team_outcome *all = team_run(&job, 2, 0, NULL);
    float mean[TEAM_FLOATS] = {0};
    const uint64_t n = all[0].n_kept[COMET_TENSOR_STATISTIC];
    assert_int_equal(n, 16);
    for (uint32_t r = 0; r < 2; r++) {
        const comet_ranks rows = {.rank = r, .n_ranks = 2};
        team_job half = job;
        half.params.batch = 6;
        half.alone = true;
        half.rows_of = &rows;
        team_outcome *own = team_run(&half, 1, 0, NULL);
        for (uint64_t i = 0; i < n; i++)
            mean[i] += own->kept[COMET_TENSOR_STATISTIC][i] / 2;
        free(own);
    }
    assert_true(relative_distance(n, all[0].kept[COMET_TENSOR_STATISTIC], mean) < 1e-6);
    free(all);
    comet_net_destroy(net);
}

/* ---- the same again ---- */

static void runs_repeat(void **state)
{
    comet_net *net = net_of(TINY_NET);
    team_job jobs[2];
    jobs[0] = plain_job(net);
    jobs[0].params.fused_update = true;
    jobs[1] = jobs[0];
    jobs[1].params.shard_optimiser = true;
    team_outcome *a = team_run_all(jobs, 2, 3), *b = team_run_all(jobs, 2, 3);
    for (size_t i = 0; i < 6; i++) {
        for (int kind = 0; kind < TEAM_KINDS; kind++)
            assert_true(team_same_bits(&a[i], &b[i], kind));
        assert_true(team_same_scores(&a[i], &b[i], TEAM_STEPS));
    }
    free(a);
    free(b);
    comet_net_destroy(net);
}

/* ---- buckets and rooms ---- */

/* How gradients are cut does not matter: sums are in the order of the ranks. With one room, more rooms than buckets, and all in
 * one bucket. */
static void cuts_do_not_matter(void **state)
{
    static const struct {
        uint64_t floats;
        uint32_t n_rooms;
    } cuts[] = {{0, 0}, {16, 8}, {64, 1}, {64, 2}, {208, 8}, {1024, 5}};
    enum { N_CUTS = COUNT_OF(cuts), N_RANKS = 3 };
    comet_net *net = net_of(PLAIN_NET);
    team_job jobs[4 * N_CUTS];
    for (int i = 0; i < 4 * N_CUTS; i++) {
        jobs[i] = team_job_of(net);
        jobs[i].n_steps = 2;
        jobs[i].params.fused_update = i / N_CUTS % 2;
        jobs[i].params.shard_optimiser = i / N_CUTS / 2;
        jobs[i].bucket_floats = cuts[i % N_CUTS].floats;
        jobs[i].n_rooms = cuts[i % N_CUTS].n_rooms;
    }
    team_outcome *all = team_run_all(jobs, 4 * N_CUTS, N_RANKS);
    for (int i = 0; i < 4 * N_CUTS; i++) {
        check_ranks_agree("cut", &jobs[i], &all[i * N_RANKS], N_RANKS);
        assert_true(team_same_bits(&all[i * N_RANKS], &all[0], COMET_TENSOR_WEIGHT));
        assert_true(i % N_CUTS == 0 ? all[i * N_RANKS].n_buckets == 1 : all[i * N_RANKS].n_buckets > 2);
        assert_true(all[i * N_RANKS].n_buckets > 8 || jobs[i].bucket_floats == 0 || jobs[i].bucket_floats > 64);
    }
    free(all);
    comet_net_destroy(net);
}

/* A layer larger than a bucket of the usual size, and others. */
static void large_layers_agree(void **state)
{
    comet_net *net = net_of("net large\n"
                            "input 8 5 5\n"
                            "flat = flatten\n"
                            "fc1 = linear out=2000\n"
                            "relu1 = relu\n"
                            "fc2 = linear out=2000\n"
                            "relu2 = relu\n"
                            "fc3 = linear out=4\n");
    team_job job = team_job_of(net);
    job.n_steps = 2;
    job.params.fused_update = true;
    team_job alone = job, sharded = job;
    alone.alone = true;
    sharded.params.shard_optimiser = true;
    team_outcome *one = team_run(&alone, 1, 0, NULL), *two = team_run(&job, 2, 0, NULL),
                 *parts = team_run(&sharded, 2, 0, NULL);
    assert_true(two->n_buckets > 8);
    check_ranks_agree("large", &job, two, 2);
    check_scores("large", &job, two, one);
    check_close("large", two, one, 1e-5);
    check_shards("large", &job, 2, parts, two);
    free(one);
    free(two);
    free(parts);
    comet_net_destroy(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(optimisers_agree),
        cmocka_unit_test(coded_state_is_shared_out),
        cmocka_unit_test(clipped_and_accumulated_gradients_agree),
        cmocka_unit_test(groups_agree),
        cmocka_unit_test(local_batch_norms_agree),
        cmocka_unit_test(joint_batch_norms_agree),
        cmocka_unit_test(running_statistics_are_means),
        cmocka_unit_test(runs_repeat),
        cmocka_unit_test(cuts_do_not_matter),
        cmocka_unit_test(large_layers_agree),
    };
    return cmocka_run_group_tests_name("exchange", tests, NULL, NULL);
}
