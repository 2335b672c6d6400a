/*
 * Ranks that share the statistics of their batch norms compute what one rank with all images computes, within rounding:
 * outputs, running statistics, what errors of stored tensors do, and the gradients, which the test itself sums over ranks.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/status.h"
#include "describing.h"
#include "fake_ranks.h"
#include "train/ops/ops.h"
#include "training.h"

enum { MOST_TENSORS = 64, MOST_FLOATS = 1 << 17, MOST_NORMS = 16 };

/* What ranks compute: so many batches of `batch` images in all, added up. */
typedef struct job {
    const comet_net *net;
    comet_compress_mode mode;
    uint32_t batch, accumulate;
    bool alone; /* with statistics of a rank's own images */
    bool no_recompute;
    const char *freeze;
} job;

/* What one rank computed. */
typedef struct outcome {
    double loss; /* mean */
    uint64_t n_outputs, n_statistics, n_tensors, n_gradients[MOST_TENSORS];
    float outputs[MOST_FLOATS], statistics[MOST_FLOATS], gradients[MOST_FLOATS];
    uint32_t n_norms, n_folded;
    norm_harm harm[MOST_NORMS]; /* of the last batch */
    unsigned orders;            /* a bit for each layout_order of a batch norm's input */
} outcome;

/* ---- in a rank ---- */

static bool needs_norm(void *self, const comet_model *m)
{
    return true;
}

static void norm_done(void *self, comet_model *m, const op *o, const norm_harm *harm)
{
    outcome *out = self;
    assert_true(out->n_norms < MOST_NORMS);
    out->harm[out->n_norms++] = *harm;
}

/* Reductions leave gradients as they are: the test sums them itself. */
static comet_status begin_nothing(void *self, comet_reduction kind, uint64_t key, float *data, size_t n, uint32_t *number)
{
    *number = 0;
    return COMET_OK;
}

static bool is_done(void *self, uint32_t number)
{
    return true;
}

static comet_status end_nothing(void *self, uint32_t number)
{
    return COMET_OK;
}

static comet_ranks without_reductions(const comet_ranks *ranks)
{
    comet_ranks r = *ranks;
    r.reduce_begin = begin_nothing;
    r.reduce_is_done = is_done;
    r.reduce_end = end_nothing;
    return r;
}

static comet_model_params params_of_job(const job *j, const comet_ranks *ranks)
{
    comet_model_params p = trial_params(j->batch / ranks->n_ranks);
    p.compression.mode = j->mode;
    p.compression.noise = 1e-12; /* bounds of 1e-6 deviations: results are the raw ones but for rounding */
    p.accumulate = j->accumulate;
    p.no_recompute = j->no_recompute;
    p.freeze = j->freeze;
    p.ranks = ranks->n_ranks > 1 ? ranks : NULL;
    p.sync_batch_norm = ranks->n_ranks > 1 && !j->alone;
    return p;
}

static void keep_floats(const float *x, uint64_t n, float *to, uint64_t *count)
{
    assert_true(*count + n <= MOST_FLOATS);
    memcpy(to + *count, x, n * sizeof *x);
    *count += n;
}

static void keep_tensors(const comet_model *m, outcome *out)
{
    uint64_t n_floats = 0;
    for (size_t i = 0; i < comet_model_n_tensors(m); i++) {
        comet_tensor_info info;
        float *x = tensor_read(m, i, &info);
        if (info.kind == COMET_TENSOR_STATISTIC)
            keep_floats(x, info.n_elements, out->statistics, &out->n_statistics);
        if (info.kind == COMET_TENSOR_GRADIENT) {
            assert_true(out->n_tensors < MOST_TENSORS);
            out->n_gradients[out->n_tensors++] = info.n_elements;
            keep_floats(x, info.n_elements, out->gradients, &n_floats);
        }
        free(x);
    }
}

static void keep_layouts(const comet_model *m, outcome *out)
{
    comet_saved_line line = {.size = sizeof line};
    uint64_t block;
    for (uint32_t i = 0; i < m->n_ops; i++)
        if (batch_norm_of(&m->ops[i]))
            out->orders |= 1u << layout_describe(m->values[m->ops[i].inputs[0]].layout, &block);
    for (size_t i = 0; comet_model_describe_saved(m, i, &line) == COMET_OK; i++)
        out->n_folded += line.recomputed && strcmp(line.what, "bn input") == 0;
}

static comet_status compute(const comet_ranks *all, void *arg, void *result)
{
    const job *j = arg;
    const comet_ranks ranks = without_reductions(all);
    const comet_model_params p = params_of_job(j, &ranks);
    outcome *out = result;
    trial t = trial_make(j->net, &p);
    const listener l = {.self = out, .needs_norm = needs_norm, .norm_done = norm_done};
    TRY(observer_add(&t.model->observer, &l));
    for (uint32_t k = 0; k < j->accumulate; k++) {
        out->n_norms = 0;
        trial_share(&t, &ranks, k);
        out->loss = trial_gradients(&t, 3);
    }
    keep_floats(comet_model_outputs(t.model), (uint64_t)t.batch * t.classes, out->outputs, &out->n_outputs);
    keep_tensors(t.model, out);
    keep_layouts(t.model, out);
    trial_free(&t);
    return COMET_OK;
}

/* ---- comparing ---- */

static outcome *run(const job *j, uint32_t n_ranks)
{
    outcome *all = need_malloc(n_ranks * sizeof *all);
    fake_ranks_run(n_ranks, compute, (void *)(uintptr_t)j, sizeof *all, all, NULL);
    return all;
}

/* What ranks have together, in the first one's place. */
static void join(outcome *all, uint32_t n_ranks)
{
    outcome *first = &all[0];
    for (uint32_t r = 1; r < n_ranks; r++) {
        first->loss += all[r].loss;
        keep_floats(all[r].outputs, all[r].n_outputs, first->outputs, &first->n_outputs);
        for (size_t i = 0; i < MOST_FLOATS; i++)
            first->gradients[i] += all[r].gradients[i];
        assert_int_equal(first->n_norms, all[r].n_norms);
        for (uint32_t i = 0; i < first->n_norms; i++) {
            norm_harm *h = &first->harm[i];
            const norm_harm *more = &all[r].harm[i];
            *h = (norm_harm){h->scale + more->scale, h->passed + more->passed, h->cut + more->cut, h->energy + more->energy};
        }
    }
    first->loss /= n_ranks;
}

/* The largest relative distance of any tensor's gradient; one that is rounding alone does not count. */
static double farthest(const outcome *a, const outcome *b)
{
    const float *x = a->gradients, *y = b->gradients;
    const double size = norm_of(MOST_FLOATS, y);
    double most = 0;
    assert_int_equal(a->n_tensors, b->n_tensors);
    for (uint64_t i = 0; i < b->n_tensors; i++) {
        const uint64_t n = b->n_gradients[i];
        assert_int_equal(a->n_gradients[i], n);
        assert_true(isfinite(norm_of(n, x)));
        if (norm_of(n, y) > 1e-6 * size)
            most = fmax(most, relative_distance(n, x, y));
        x += n;
        y += n;
    }
    return most;
}

static double harm_distance(const outcome *a, const outcome *b)
{
    double most = 0;
    assert_int_equal(a->n_norms, b->n_norms);
    for (uint32_t i = 0; i < b->n_norms; i++) {
        const norm_harm *x = &a->harm[i], *y = &b->harm[i];
        assert_true(y->scale > 0 && y->passed > 0 && isfinite(x->scale + x->passed + x->cut + x->energy));
        most = fmax(most, fabs(x->scale - y->scale) / y->scale);
        most = fmax(most, fabs(x->passed - y->passed) / y->passed);
        most = fmax(most, fabs(x->cut - y->cut) / y->passed);
        most = fmax(most, fabs(x->energy - y->energy) / y->energy);
    }
    return most;
}

typedef struct distances {
    double loss, outputs, statistics, gradients, harm;
} distances;

static distances compare(const outcome *ranks, const outcome *one)
{
    assert_int_equal(ranks->n_outputs, one->n_outputs);
    assert_int_equal(ranks->n_statistics, one->n_statistics);
    return (distances){.loss = fabs(ranks->loss - one->loss),
                       .outputs = relative_distance(one->n_outputs, ranks->outputs, one->outputs),
                       .statistics = relative_distance(one->n_statistics, ranks->statistics, one->statistics),
                       .gradients = farthest(ranks, one),
                       .harm = harm_distance(ranks, one)};
}

/* Statistics must be the same bits on all ranks. */
static void check_same_statistics(const outcome *all, uint32_t n_ranks)
{
    for (uint32_t r = 1; r < n_ranks; r++)
        assert_memory_equal(all[r].statistics, all[0].statistics, all[0].n_statistics * sizeof(float));
}

static void check_against_one(const job *j, uint32_t n_ranks, const outcome *one)
{
    outcome *all = run(j, n_ranks);
    check_same_statistics(all, n_ranks);
    join(all, n_ranks);
    const distances d = compare(all, one);
    const bool near = d.loss < 1e-6 && d.outputs < 1e-6 && d.statistics < 1e-6 && d.gradients < 2e-5 && d.harm < 1e-4;
    if (!near)
        fail_because("%s, mode %d, %u ranks: loss to %.1e, outputs %.1e, statistics %.1e, gradients %.1e, errors %.1e",
                     comet_net_name(j->net), (int)j->mode, n_ranks, d.loss, d.outputs, d.statistics, d.gradients, d.harm);
    free(all);
}

/* One rank, then two and four with the same images. Gives the layouts of batch norms. */
static unsigned check_ranks(const job *j)
{
    outcome *one = run(j, 1);
    const unsigned orders = one->orders;
    for (uint32_t n_ranks = 2; n_ranks <= 4; n_ranks += 2)
        check_against_one(j, n_ranks, one);
    free(one);
    return orders;
}

/* ---- tests ---- */

static const comet_compress_mode modes[] = {COMET_COMPRESS_OFF, COMET_COMPRESS_LOSSLESS, COMET_COMPRESS_FAST,
                                            COMET_COMPRESS_DENSE};

static void operators_agree(void **state)
{
    unsigned orders = 0;
    comet_net *net;
    for (size_t i = 0; (net = operator_net(i)) != NULL; i++) {
        for (size_t k = 0; k < COUNT_OF(modes) && (has_layer(net, COMET_OP_BATCH_NORM) || has_layer(net, COMET_OP_DROPOUT));
             k++) {
            const job j = {.net = net, .mode = modes[k], .batch = 4, .accumulate = 1};
            orders |= check_ranks(&j);
        }
        comet_net_destroy(net);
    }
    assert_true(orders & 1u << ORDER_PLANAR && orders & 1u << ORDER_BLOCKED);
}

/* The end of a bottleneck, whose batch norms ne and nd are folded into their convolutions under lossy compression; the sums for
 * ne come with the relu's mask. */
static comet_net *bottleneck(void)
{
    return net_of("net bottleneck\ninput 3 16 16\nc = conv out=16 kernel=3 pad=1 bias=no\nn = batch_norm\nr = relu\n"
                  "e = conv out=64 kernel=1 bias=no\nne = batch_norm\nd = conv r out=64 kernel=1 bias=no\nnd = batch_norm\n"
                  "s = add ne nd\nt = relu\nf = conv out=16 kernel=3 pad=1\np = global_avg_pool\nflat = flatten\n"
                  "fc = linear out=4\n");
}

static void folded_batch_norms_agree(void **state)
{
    comet_net *net = bottleneck();
    for (size_t k = 0; k < COUNT_OF(modes); k++)
        for (uint32_t accumulate = 1; accumulate <= 2; accumulate++) {
            const job j = {.net = net, .mode = modes[k], .batch = 8, .accumulate = accumulate};
            outcome *two = run(&j, 2);
            assert_int_equal(two[0].n_folded, modes[k] >= COMET_COMPRESS_FAST ? 2 : 0);
            free(two);
            check_ranks(&j);
        }
    comet_net_destroy(net);
}

/* All outputs of batch norms kept; and some batch norms frozen, which use running statistics and ask nobody. */
static void other_settings_agree(void **state)
{
    comet_net *net = bottleneck();
    for (size_t k = 0; k < COUNT_OF(modes); k++) {
        job j = {.net = net, .mode = modes[k], .batch = 8, .accumulate = 1, .no_recompute = true};
        check_ranks(&j);
        j.no_recompute = false;
        j.freeze = "n.*,ne.*";
        check_ranks(&j);
    }
    comet_net_destroy(net);
}

/* With statistics of its own a rank computes what it would compute without others, bit for bit: half the gradients of a model
 * on its images alone, since the mean over all images is half of theirs. And that is not what all images together give. */
static void own_statistics_are_as_without_ranks(void **state)
{
    comet_net *net = bottleneck();
    for (size_t k = 0; k < COUNT_OF(modes); k++) {
        const job j = {.net = net, .mode = modes[k], .batch = 8, .accumulate = 1, .alone = true};
        const job half = {.net = net, .mode = modes[k], .batch = 4, .accumulate = 1};
        outcome *all = run(&j, 2), *one = run(&j, 1), *own = run(&half, 1);
        assert_memory_equal(all[0].outputs, own->outputs, own->n_outputs * sizeof(float));
        for (size_t i = 0; modes[k] <= COMET_COMPRESS_LOSSLESS && i < MOST_FLOATS; i++)
            assert_true(2 * all[0].gradients[i] == own->gradients[i]);
        join(all, 2);
        const distances d = compare(all, one);
        assert_true(d.outputs > 1e-3 && d.gradients > 1e-3);
        free(all);
        free(one);
        free(own);
    }
    comet_net_destroy(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operators_agree),
        cmocka_unit_test(folded_batch_norms_agree),
        cmocka_unit_test(other_settings_agree),
        cmocka_unit_test(own_statistics_are_as_without_ranks),
    };
    return cmocka_run_group_tests_name("sync norm", tests, NULL, NULL);
}
