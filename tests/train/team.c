#include "team.h"

#include <stdlib.h>

#include "base/status.h"
#include "train/graph/graph.h"
#include "train/update/exchange.h"

team_job team_job_of(const comet_net *net)
{
    return (team_job){.net = net, .params = trial_params(12), .n_steps = 4, .rate = 0.05};
}

/* ---- in a rank ---- */

comet_model_params team_params(const team_job *job, const comet_ranks *ranks)
{
    comet_model_params p = job->params;
    p.batch /= ranks->n_ranks;
    p.ranks = job->alone ? NULL : ranks;
    return p;
}

static comet_status take_step(const team_job *job, trial *t, const comet_ranks *ranks, uint64_t step, comet_scores *scores)
{
    const uint32_t n_batches = job->params.accumulate > 1 ? job->params.accumulate : 1;
    for (uint32_t k = 0; k < n_batches; k++) {
        trial_share(t, job->rows_of ? job->rows_of : ranks, step * n_batches + k);
        if (job->apart || n_batches > 1)
            TRY(comet_model_gradients(t->model, t->images, t->labels, step, scores));
        else
            return comet_model_step(t->model, t->images, t->labels, step, job->rate, scores);
    }
    return comet_model_update(t->model, job->rate, step);
}

static uint64_t hash_floats(uint64_t h, const float *x, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        h = (h ^ bits) * 0x9e3779b97f4a7c15u;
        h ^= h >> 29;
    }
    return h;
}

/* At most 2048 floats of a tensor. */
static void keep_floats(team_outcome *out, comet_tensor_kind kind, const float *x, uint64_t n)
{
    const uint64_t stride = n / 2048 + 1;
    for (uint64_t i = 0; i < n; i += stride) {
        assert_true(out->n_kept[kind] < TEAM_FLOATS);
        out->kept[kind][out->n_kept[kind]++] = x[i];
    }
}

static bool can_be_read(const comet_model *m, comet_tensor_kind kind)
{
    return kind < COMET_TENSOR_MOMENTUM || (kind != COMET_TENSOR_GRADIENT && !exchange_shards(m));
}

static void look_at_tensors(const comet_model *m, bool last, team_outcome *out)
{
    for (size_t i = 0; i < comet_model_n_tensors(m); i++) {
        comet_tensor_info info = {.size = sizeof info};
        assert_ok(comet_model_describe_tensor(m, i, &info));
        if (!can_be_read(m, info.kind))
            continue;
        float *x = tensor_read(m, i, NULL);
        out->bits[info.kind] = hash_floats(out->bits[info.kind], x, info.n_elements);
        if (last)
            keep_floats(out, info.kind, x, info.n_elements);
        free(x);
    }
}

static comet_status train(const team_job *job, const comet_ranks *ranks, team_outcome *out, void *own)
{
    const comet_model_params p = team_params(job, ranks);
    const bool usual = job->bucket_floats == 0;
    exchange_limit(usual ? UINT64_MAX : job->bucket_floats, usual ? UINT32_MAX : job->n_rooms);
    out->planned.size = out->memory.size = sizeof out->memory;
    TRY(comet_model_plan(job->net, &p, &out->planned));
    trial t = trial_make(job->net, &p);
    if (job->prepare)
        job->prepare(&t, own);
    assert_true(job->n_steps <= TEAM_STEPS);
    for (uint32_t i = 0; i < job->n_steps; i++) {
        TRY(take_step(job, &t, ranks, i, &out->scores[i]));
        look_at_tensors(t.model, i + 1 == job->n_steps, out);
        if (job->after_step)
            job->after_step(&t, i, own);
    }
    out->n_buckets = t.model->exchange ? exchange_buckets(t.model)->n_buckets : 0;
    TRY(comet_model_describe_memory(t.model, &out->memory));
    trial_free(&t);
    return COMET_OK;
}

typedef struct job_list {
    const team_job *jobs;
    size_t n, own_bytes;
} job_list;

static size_t stride_of(const job_list *list)
{
    return sizeof(team_outcome) + list->own_bytes;
}

static comet_status train_all(const comet_ranks *ranks, void *arg, void *result)
{
    const job_list *list = arg;
    for (size_t i = 0; i < list->n; i++) {
        team_outcome *out = (team_outcome *)(void *)((uint8_t *)result + i * stride_of(list));
        TRY(train(&list->jobs[i], ranks, out, out + 1));
    }
    return COMET_OK;
}

/* ---- in the test ---- */

static team_outcome *run(job_list list, uint32_t n_ranks, void *own)
{
    const size_t stride = stride_of(&list);
    team_outcome *all = need_malloc(n_ranks * list.n * sizeof *all);
    uint8_t *results = need_malloc(n_ranks * list.n * stride);
    for (size_t i = 0; i < list.n; i++)
        assert_int_equal(list.jobs[i].params.batch % n_ranks, 0);
    fake_ranks_run(n_ranks, train_all, &list, list.n * stride, results, NULL);
    for (size_t i = 0; i < list.n; i++)
        for (uint32_t r = 0; r < n_ranks; r++) {
            const uint8_t *from = results + (r * list.n + i) * stride;
            memcpy(&all[i * n_ranks + r], from, sizeof *all);
            if (list.own_bytes > 0)
                memcpy((uint8_t *)own + (i * n_ranks + r) * list.own_bytes, from + sizeof *all, list.own_bytes);
        }
    free(results);
    return all;
}

team_outcome *team_run(const team_job *job, uint32_t n_ranks, size_t own_bytes, void *own)
{
    return run((job_list){job, 1, own_bytes}, n_ranks, own);
}

team_outcome *team_run_all(const team_job *jobs, size_t n_jobs, uint32_t n_ranks)
{
    return run((job_list){jobs, n_jobs, 0}, n_ranks, NULL);
}

uint64_t team_hash(const comet_model *m, comet_tensor_kind kind)
{
    team_outcome *out = need_malloc(sizeof *out);
    *out = (team_outcome){0};
    look_at_tensors(m, false, out);
    const uint64_t hash = out->bits[kind];
    free(out);
    return hash;
}

bool team_same_bits(const team_outcome *a, const team_outcome *b, int kind)
{
    return a->bits[kind] == b->bits[kind] && a->n_kept[kind] == b->n_kept[kind];
}

double team_distance(const team_outcome *a, const team_outcome *b, int kind)
{
    assert_int_equal(a->n_kept[kind], b->n_kept[kind]);
    return relative_distance(a->n_kept[kind], a->kept[kind], b->kept[kind]);
}

bool team_same_scores(const team_outcome *a, const team_outcome *b, uint32_t n_steps)
{
    for (uint32_t i = 0; i < n_steps; i++) {
        const comet_scores *x = &a->scores[i], *y = &b->scores[i];
        if (memcmp(&x->loss, &y->loss, sizeof x->loss) != 0 || x->n_valid != y->n_valid || x->n_top1 != y->n_top1 ||
            x->n_top5 != y->n_top5)
            return false;
    }
    return true;
}
