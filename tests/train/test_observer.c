/* Listeners of a model's steps: who is told what, in which order, and what a failure does. */
#include <string.h>

#include "train/graph/graph.h"
#include "training.h"

enum { MAX_SEEN = 64 };

typedef struct seen {
    const struct seen *before; /* listener that must have been told first, or NULL */
    uint32_t n_begun, n_losses, n_ready, n_used, n_updates, n_parts;
    uint32_t ready[MAX_SEEN]; /* ops, in the order of the calls */
    double sums[MAX_SEEN];    /* of their weights' gradients then */
    uint64_t step;
    double loss;
    bool fails;
} seen;

static double sum_of_gradient(const comet_model *m, const op *o)
{
    const float *g = gradient_at(m, o, o->weight);
    double sum = 0;
    for (uint64_t i = 0; i < m->parameters[o->weight].n; i++)
        sum += (double)g[i];
    return sum;
}

static comet_status step_begins(void *self, comet_model *m)
{
    seen *s = self;
    s->n_begun++;
    s->step = m->step;
    return COMET_OK;
}

static comet_status part_done(void *self, comet_model *m, const op *o, uint32_t part)
{
    (void)m, (void)o, (void)part;
    ((seen *)self)->n_parts++;
    return COMET_OK;
}

static void loss_known(void *self, comet_model *m, double loss)
{
    seen *s = self;
    (void)m;
    s->n_losses++;
    s->loss = loss;
}

static comet_status gradient_ready(void *self, comet_model *m, const op *o)
{
    seen *s = self;
    assert_true(s->n_ready < MAX_SEEN);
    assert_true(!s->before || s->before->n_ready == s->n_ready + 1);
    s->sums[s->n_ready] = sum_of_gradient(m, o);
    s->ready[s->n_ready++] = o->index;
    return s->fails ? comet_fail(COMET_ERROR_IO, "the listener failed at %s", o->layer->name) : COMET_OK;
}

static void gradient_used(void *self, comet_model *m, const gradient_part *part, uint64_t step)
{
    seen *s = self;
    assert_int_equal(step, s->step);
    assert_true(part->first == 0 && part->n == m->parameters[part->parameter].n && part->own_n == part->n);
    s->n_used += part->parameter == part->op->weight;
}

static comet_status update_done(void *self, comet_model *m, uint64_t step)
{
    (void)m, (void)step;
    ((seen *)self)->n_updates++;
    return COMET_OK;
}

static listener listener_of(seen *s)
{
    return (listener){.self = s,
                      .step_begins = step_begins,
                      .part_done = part_done,
                      .loss_known = loss_known,
                      .gradient_ready = gradient_ready,
                      .gradient_used = gradient_used,
                      .update_done = update_done};
}

/* The last convolution is one whose batch norm is folded into it, where tensors are stored with errors. */
static trial make_trial(comet_compress_mode mode)
{
    comet_net *net = net_of("net told\ninput 3 16 16\nc = conv out=16 kernel=3 pad=1 bias=no\nn = batch_norm\nr = relu\n"
                            "e = conv out=64 kernel=1 bias=no\nne = batch_norm\np = global_avg_pool\nflat = flatten\n"
                            "fc = linear out=4\n");
    comet_model_params p = trial_params(4);
    p.compression.mode = mode;
    trial t = trial_make(net, &p);
    comet_net_destroy(net);
    return t;
}

static uint32_t count_with_weights(const comet_model *m)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < m->n_ops; i++)
        n += m->ops[i].weight != NONE;
    return n;
}

static void check_told(const comet_model *m, const seen *s)
{
    assert_int_equal(s->n_begun, 1);
    assert_int_equal(s->n_losses, 1);
    assert_int_equal(s->n_ready, count_with_weights(m));
    for (uint32_t i = 0; i < s->n_ready; i++) {
        const op *o = &m->ops[s->ready[i]];
        assert_true(i == 0 || m->ops[s->ready[i - 1]].backward_by >= o->backward_by); /* backward goes down */
        for (uint32_t k = 0; k < i; k++)
            assert_int_not_equal(s->ready[k], s->ready[i]);
        assert_true(s->sums[i] == sum_of_gradient(m, o));
    }
}

/* Every op with weights is told once when its gradient has its final bits, to all listeners in order. */
static void check_step(comet_compress_mode mode, uint32_t n_folded, uint32_t n_parts)
{
    trial t = make_trial(mode);
    seen first = {0}, second = {.before = &first};
    const listener a = listener_of(&first), b = listener_of(&second);
    assert_ok(observer_add(&t.model->observer, &a));
    assert_ok(observer_add(&t.model->observer, &b));
    const double loss = trial_gradients(&t, 7);
    check_told(t.model, &first);
    check_told(t.model, &second);
    assert_true(first.loss == loss && first.step == 7 && first.n_parts == n_parts && first.n_used == 0);
    uint32_t n = 0;
    for (uint32_t i = 0; i < t.model->n_ops; i++)
        n += t.model->ops[i].folds != NONE;
    assert_int_equal(n, n_folded);
    assert_ok(comet_model_update(t.model, 0.01, 7));
    assert_int_equal(first.n_used, first.n_ready);
    assert_int_equal(second.n_updates, 1);
    trial_free(&t);
}

static void test_step(void **state)
{
    (void)state;
    check_step(COMET_COMPRESS_OFF, 0, 3);
    check_step(COMET_COMPRESS_FAST, 1, 2); /* the folded convolution has calls of its own */
}

/* A listener that fails ends the step with its sentence; one that is removed is not told. */
static void test_failure_and_removal(void **state)
{
    (void)state;
    trial t = make_trial(COMET_COMPRESS_OFF);
    comet_scores scores;
    seen first = {.fails = true}, second = {0};
    const listener a = listener_of(&first), b = listener_of(&second);
    assert_ok(observer_add(&t.model->observer, &a));
    assert_ok(observer_add(&t.model->observer, &b));
    assert_int_equal(comet_model_gradients(t.model, t.images, t.labels, 0, &scores), COMET_ERROR_IO);
    assert_non_null(strstr(comet_last_error(), "the listener failed at fc"));
    assert_int_equal(first.n_ready, 1);
    assert_int_equal(second.n_ready, 0);
    observer_remove(&t.model->observer, &first);
    trial_gradients(&t, 1);
    assert_int_equal(first.n_begun, 1);
    assert_int_equal(second.n_begun, 2);
    assert_int_equal(second.n_ready, count_with_weights(t.model));
    trial_free(&t);
}

static void test_too_many(void **state)
{
    (void)state;
    observer o = {.n_listeners = 0};
    seen s = {0};
    const listener l = listener_of(&s);
    for (int i = 0; i < MAX_LISTENERS; i++)
        assert_ok(observer_add(&o, &l));
    assert_int_equal(observer_add(&o, &l), COMET_ERROR_ARGUMENT);
    observer_remove(&o, &s);
    assert_int_equal(o.n_listeners, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_step), cmocka_unit_test(test_failure_and_removal),
                                       cmocka_unit_test(test_too_many)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
