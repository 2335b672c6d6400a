/*
 * Ranks that train one model when something goes wrong on one of them, and what their memory is planned as.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/status.h"
#include "team.h"
#include "tiny_net.h"
#include "train/assess/state.h"

enum { N_STEPS = 4, BAD_STEP = 2, BAD_RANK = 1 };

/* A net without batch norm, whose statistics a bad image would spoil. */
#define PLAIN_NET                         \
    "net plain\n"                         \
    "input 3 8 8\n"                       \
    "conv1 = conv out=8 kernel=3 pad=1\n" \
    "relu1 = relu\n"                      \
    "conv2 = conv out=8 kernel=3 pad=1\n" \
    "relu2 = relu\n"                      \
    "flat = flatten\n"                    \
    "fc = linear out=4\n"

/* ---- a loss that is not finite ---- */

typedef struct steps_seen {
    double loss[N_STEPS];
    uint64_t weights[N_STEPS + 1], statistics[N_STEPS], bounds[N_STEPS]; /* hashes; weights: before the steps, too */
} steps_seen;

static uint64_t hash_bounds(const comet_model *m)
{
    const size_t n = model_state_n(m);
    double *numbers = need_malloc(n * sizeof *numbers);
    uint64_t hash = 1;
    model_state_export(m, numbers);
    for (size_t i = 0; i < n; i++) {
        uint64_t bits;
        memcpy(&bits, &numbers[i], sizeof bits);
        hash = (hash ^ bits) * 0x9e3779b97f4a7c15u;
    }
    free(numbers);
    return hash;
}

static comet_status meet_a_bad_image(const comet_ranks *ranks, void *arg, void *result)
{
    const team_job *job = arg;
    const comet_model_params p = team_params(job, ranks);
    steps_seen *seen = result;
    trial t = trial_make(job->net, &p);
    seen->weights[0] = team_hash(t.model, COMET_TENSOR_WEIGHT);
    for (uint32_t i = 0; i < N_STEPS; i++) {
        comet_scores scores;
        trial_share(&t, ranks, i);
        if (i == BAD_STEP && ranks->rank == BAD_RANK)
            t.images[5] = NAN;
        TRY(comet_model_step(t.model, t.images, t.labels, i, job->rate, &scores));
        seen->loss[i] = scores.loss;
        seen->weights[i + 1] = team_hash(t.model, COMET_TENSOR_WEIGHT);
        seen->statistics[i] = team_hash(t.model, COMET_TENSOR_STATISTIC);
        seen->bounds[i] = hash_bounds(t.model);
    }
    trial_free(&t);
    return COMET_OK;
}

/* No update on any rank, and the same weights and bounds on all before and after. Where there are batch norms, their statistics
 * are spoilt from then on, as those of one rank are: steps stay bad, on all ranks. */
static void check_bad_image(const char *what, team_job *job, uint32_t n_ranks, bool norms)
{
    steps_seen seen[3];
    fake_ranks_run(n_ranks, meet_a_bad_image, job, sizeof *seen, seen, NULL);
    for (uint32_t r = 0; r < n_ranks; r++)
        for (uint32_t i = 0; i < N_STEPS; i++) {
            const bool bad = norms ? i >= BAD_STEP : i == BAD_STEP;
            if (isnan(seen[r].loss[i]) != bad)
                fail_because("%s: the loss of rank %u is %g in step %u", what, r, seen[r].loss[i], i);
            if ((seen[r].weights[i + 1] == seen[r].weights[i]) != bad)
                fail_because("%s: an update of rank %u in step %u", what, r, i);
            if (seen[r].weights[i + 1] != seen[0].weights[i + 1] || seen[r].bounds[i] != seen[0].bounds[i] ||
                (seen[r].statistics[i] != seen[0].statistics[i] && !bad))
                fail_because("%s: ranks 0 and %u differ after step %u", what, r, i);
        }
}

static void bad_image_stops_the_step_everywhere(void **state)
{
    comet_net *plain = net_of(PLAIN_NET), *norm = net_of(TINY_NET);
    team_job job = team_job_of(plain);
    job.rate = 0.01;
    check_bad_image("plain", &job, 2, false);
    job.params.fused_update = true;
    check_bad_image("fused", &job, 3, false);
    job.params.shard_optimiser = true;
    job.params.compression.mode = COMET_COMPRESS_FAST;
    check_bad_image("fast", &job, 2, false);
    job.params.fused_update = job.params.shard_optimiser = false;
    job.params.compression.mode = COMET_COMPRESS_OFF;
    job.net = norm;
    check_bad_image("batch norm", &job, 2, true);
    comet_net_destroy(plain);
    comet_net_destroy(norm);
}

/* ---- a rank that fails ---- */

static comet_status wrong_label(const comet_ranks *ranks, void *arg, void *result)
{
    const team_job *job = arg;
    const comet_model_params p = team_params(job, ranks);
    trial t = trial_make(job->net, &p);
    comet_status status = COMET_OK;
    for (uint32_t i = 0; i < N_STEPS && status == COMET_OK; i++) {
        comet_scores scores;
        trial_share(&t, ranks, i);
        if (i == BAD_STEP && ranks->rank == BAD_RANK)
            t.labels[0] = 99;
        status = comet_model_step(t.model, t.images, t.labels, i, job->rate, &scores);
    }
    trial_free(&t);
    return status;
}

static void wrong_label_ends_all_ranks(void **state)
{
    comet_net *net = net_of(TINY_NET);
    team_job job = team_job_of(net);
    comet_status statuses[3];
    fake_ranks_run(3, wrong_label, &job, 0, NULL, statuses);
    for (uint32_t r = 0; r < 3; r++)
        assert_int_equal(statuses[r], r == BAD_RANK ? COMET_ERROR_ARGUMENT : COMET_ERROR_IO);
    comet_net_destroy(net);
}

/* A transport whose calls fail on one rank from number `n_left` on. */
typedef struct failing_ranks {
    comet_ranks table;
    const comet_ranks *real;
    int n_left;
} failing_ranks;

static bool fails_now(failing_ranks *f)
{
    return f->real->rank == BAD_RANK && f->n_left-- <= 0;
}

static comet_status failing_sum(void *self, double *values, size_t n)
{
    failing_ranks *f = self;
    return fails_now(f) ? comet_fail(COMET_ERROR_IO, "rank %d does not sum", BAD_RANK) : f->real->sum(f->real->self, values, n);
}

static comet_status failing_begin(void *self, comet_reduction kind, uint64_t key, float *data, size_t n, uint32_t *number)
{
    failing_ranks *f = self;
    return fails_now(f) ? comet_fail(COMET_ERROR_IO, "rank %d does not begin", BAD_RANK)
                        : f->real->reduce_begin(f->real->self, kind, key, data, n, number);
}

static bool failing_is_done(void *self, uint32_t number)
{
    failing_ranks *f = self;
    return f->real->reduce_is_done(f->real->self, number);
}

static comet_status failing_end(void *self, uint32_t number)
{
    failing_ranks *f = self;
    return fails_now(f) ? comet_fail(COMET_ERROR_IO, "rank %d does not end", BAD_RANK)
                        : f->real->reduce_end(f->real->self, number);
}

typedef struct failing_job {
    team_job job;
    int n_left;
} failing_job;

/* Steps until one fails; the model can be destroyed then. */
static comet_status fail_half_way(const comet_ranks *ranks, void *arg, void *result)
{
    const failing_job *j = arg;
    failing_ranks f = {.table = *ranks, .real = ranks, .n_left = j->n_left};
    f.table.self = &f;
    f.table.sum = failing_sum;
    f.table.reduce_begin = failing_begin;
    f.table.reduce_is_done = failing_is_done;
    f.table.reduce_end = failing_end;
    const comet_model_params p = team_params(&j->job, &f.table);
    trial t = trial_make(j->job.net, &p);
    comet_status status = COMET_OK;
    for (uint32_t i = 0; i < 100 && status == COMET_OK; i++) {
        comet_scores scores;
        status = comet_model_step(t.model, t.images, t.labels, i, j->job.rate, &scores);
    }
    trial_free(&t);
    return status;
}

static void failing_transport_ends_all_ranks(void **state)
{
    comet_net *net = net_of(TINY_NET);
    failing_job j = {.job = team_job_of(net)};
    comet_status statuses[3];
    for (int i = 0; i < 8; i++) {
        j.n_left = 2 * i; /* the first step of this net makes up to 8 such calls */
        j.job.params.shard_optimiser = i % 2;
        j.job.params.fused_update = i / 2 % 2;
        fake_ranks_run(3, fail_half_way, &j, 0, NULL, statuses);
        for (uint32_t r = 0; r < 3; r++)
            assert_int_equal(statuses[r], COMET_ERROR_IO);
    }
    comet_net_destroy(net);
}

/* ---- memory ---- */

static void check_planned(const team_outcome *o)
{
    assert_int_equal(o->planned.weights, o->memory.weights);
    assert_int_equal(o->planned.gradients, o->memory.gradients);
    assert_int_equal(o->planned.optimiser, o->memory.optimiser);
    assert_int_equal(o->planned.total, o->memory.total);
}

/* One rank with a rank's share of the batch. */
static comet_memory memory_alone(const team_job *job, uint32_t n_ranks)
{
    team_job alone = *job;
    alone.alone = true;
    alone.params.batch /= n_ranks;
    alone.params.shard_optimiser = false;
    team_outcome *o = team_run(&alone, 1, 0, NULL);
    const comet_memory memory = o->memory;
    free(o);
    return memory;
}

/* `n_states`: floats that the optimiser keeps for each weight. */
static void check_memory(const team_job *job, uint32_t n_ranks, uint32_t n_states, uint64_t n_statistics)
{
    const comet_memory alone = memory_alone(job, n_ranks);
    team_outcome *all = team_run(job, n_ranks, 0, NULL);
    const uint64_t rooms = (job->n_rooms * job->bucket_floats + n_statistics) * sizeof(float);
    uint64_t optimiser = 0;
    for (uint32_t r = 0; r < n_ranks; r++) {
        const comet_memory *m = &all[r].memory;
        check_planned(&all[r]);
        assert_true(all[r].n_buckets > job->n_rooms);
        assert_int_equal(m->gradients, alone.gradients + rooms);
        assert_int_equal(m->total + alone.optimiser, alone.total + rooms + m->optimiser);
        assert_true(m->optimiser <= alone.optimiser / n_ranks + n_states * all[r].n_buckets * 16 * sizeof(float) ||
                    !job->params.shard_optimiser);
        optimiser += m->optimiser;
    }
    assert_int_equal(optimiser, job->params.shard_optimiser ? alone.optimiser : n_ranks * alone.optimiser);
    if (n_statistics == 0)
        assert_int_equal(alone.optimiser, n_states * alone.weights);
    free(all);
}

static void memory_counts_rooms_and_shares(void **state)
{
    comet_net *plain = net_of(PLAIN_NET), *norm = net_of(TINY_NET);
    team_job job = team_job_of(plain);
    job.n_steps = 1;
    job.bucket_floats = 256; /* a large parameter fills one */
    job.n_rooms = 3;
    check_memory(&job, 2, 1, 0);
    job.params.shard_optimiser = true;
    check_memory(&job, 2, 1, 0);
    comet_optimiser_init(&job.params.optimiser, COMET_OPTIMISER_ADAMW);
    check_memory(&job, 4, 2, 0);
    job.params.fused_update = true;
    job.net = norm;
    check_memory(&job, 3, 2, 16);
    comet_net_destroy(plain);
    comet_net_destroy(norm);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_image_stops_the_step_everywhere),
        cmocka_unit_test(wrong_label_ends_all_ranks),
        cmocka_unit_test(failing_transport_ends_all_ranks),
        cmocka_unit_test(memory_counts_rooms_and_shares),
    };
    return cmocka_run_group_tests_name("exchange_faults", tests, NULL, NULL);
}
