/*
 * The gains that a model reports to its adaptive bound, against the errors that stored tensors make in its own gradients: the
 * same batches once with exact and once with compressed activations. Forward is exact in both, so that the gradients differ by
 * what backward read from the store. docs/theory.md has the formulas.
 */
#include "train/assess/assess.h"
#include "train/ops/ops.h"
#include "training.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { N_BATCHES = 60, BATCH = 8 };

/* The gradient that is passed on to an op, as it was when the op's weights got theirs; and what the batch norm after the op
 * says of it. */
typedef struct passed {
    const op *to;
    uint64_t n;
    float *gradient;
    norm_harm harm;
} passed;

static bool needs_norm(void *self, const comet_model *m)
{
    (void)self, (void)m;
    return true;
}

static void keep_harm(void *self, comet_model *m, const op *o, const norm_harm *harm)
{
    (void)m, (void)o;
    ((passed *)self)->harm = *harm;
}

static comet_status keep_passed(void *self, comet_model *m, const op *o, uint32_t part)
{
    passed *p = self;
    if (o == p->to && part + 1 == o->n_parts)
        memcpy(p->gradient, arena_at(&m->arena, o->buffers.diff), p->n * sizeof(float));
    return COMET_OK;
}

static const op *op_named(const comet_model *m, const char *name)
{
    for (uint32_t i = 0; i < m->n_ops; i++)
        if (strcmp(m->ops[i].layer->name, name) == 0)
            return &m->ops[i];
    fail_because("there is no op %s", name);
    return NULL;
}

static double squared_distance(uint64_t n, const float *a, const float *b)
{
    double sum = 0;
    for (uint64_t i = 0; i < n; i++)
        sum += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
    return sum;
}

static double energy_of(const passed *p)
{
    double sum = 0;
    for (uint64_t i = 0; i < p->n; i++)
        sum += (double)p->gradient[i] * (double)p->gradient[i];
    return sum;
}

/* A model, and the gradients that are passed on to its first convolution. */
typedef struct side {
    trial t;
    passed to_first;
} side;

/* Scales that differ: a gain that forgets them, or squares them once too often, is far off. */
static void spread_scales(comet_model *m, const op *norm)
{
    float *gamma = learnt(m, m->weights, norm->weight);
    for (uint64_t c = 0; c < m->parameters[norm->weight].n; c++)
        gamma[c] = (c % 2 ? -1.0f : 1.0f) * (0.4f + 0.05f * (float)(c % 11));
}

static void side_open(side *s, const comet_net *net, comet_compress_mode mode)
{
    comet_model_params p = trial_params(BATCH);
    p.compression.mode = mode;
    s->t = trial_make(net, &p);
    comet_model *m = s->t.model;
    const op *first = op_named(m, "first");
    s->to_first = (passed){.to = first, .n = BATCH * image_elements(m, first->output)};
    s->to_first.gradient = need_malloc(s->to_first.n * sizeof(float));
    const listener l = {.self = &s->to_first, .part_done = keep_passed, .needs_norm = needs_norm, .norm_done = keep_harm};
    assert_ok(observer_add(&m->observer, &l));
    spread_scales(m, op_named(m, "norm"));
}

static void side_close(side *s)
{
    trial_free(&s->t);
    free(s->to_first.gradient);
}

/* Sums over batches: what the errors did, and what the gains say that they do. */
typedef struct sums {
    double scale, scale_predicted;     /* of the batch norm's scale: squared errors */
    double passed, passed_predicted;   /* of the gradient that it passes on, relative to its energy */
    double weights, weights_predicted; /* of the weights of the convolution after it */
} sums;

static double weight_error(const side *exact, const side *lossy, const char *name)
{
    const op *o = op_named(exact->t.model, name), *other = op_named(lossy->t.model, name);
    return squared_distance(exact->t.model->parameters[o->weight].n, gradient_at(exact->t.model, o, o->weight),
                            gradient_at(lossy->t.model, other, other->weight));
}

static void add_batch(side *exact, side *lossy, uint64_t number, sums *s)
{
    trial_batch(&exact->t, number);
    trial_batch(&lossy->t, number);
    assert_true(trial_gradients(&exact->t, 1) == trial_gradients(&lossy->t, 1));
    const comet_model *m = lossy->t.model;
    const assessment *a = m->assessment;
    const op *norm = op_named(m, "norm"), *second = op_named(m, "second");
    assert_true(a->ops[norm->index].consumer != NONE && a->ops[second->index].consumer != NONE);
    const adapt_observation *scale = &a->seen[a->ops[norm->index].consumer], *pass = &a->seen[a->ops[norm->index].pass];
    const adapt_observation *weights = &a->seen[a->ops[second->index].consumer];
    const double eb = slot_eb(m, norm->own.slot);
    assert_true(a->due && eb > 0 && scale->eb == eb && pass->eb == eb && weights->eb == eb);
    const float *was = exact->to_first.gradient;
    const double energy = energy_of(&exact->to_first);
    s->scale += weight_error(exact, lossy, "norm");
    s->scale_predicted += scale->gain * eb * eb;
    s->passed += squared_distance(exact->to_first.n, lossy->to_first.gradient, was) / energy;
    s->passed_predicted += pass->gain * eb * eb;
    s->weights += weight_error(exact, lossy, "second");
    s->weights_predicted += weights->gain * eb * eb;
}

/* Without a pooling layer, gradients differ from position to position in sign: gains are for those, since errors of alike
 * gradients add up. */
static void check_net(const char *input, const char *after)
{
    char text[400];
    snprintf(text, sizeof text,
             "net gains\ninput %s\nfirst = conv out=32 kernel=3 pad=1 bias=no\nnorm = batch_norm\nr = relu\n%s\n"
             "flat = flatten\nfc = linear out=4\n",
             input, after);
    comet_net *net = net_of(text);
    side exact, lossy;
    side_open(&exact, net, COMET_COMPRESS_OFF);
    side_open(&lossy, net, COMET_COMPRESS_FAST);
    sums s = {0};
    for (uint64_t number = 0; number < N_BATCHES; number++)
        add_batch(&exact, &lossy, number, &s);
    const double scale = s.scale / s.scale_predicted, pass = s.passed / s.passed_predicted,
                 weights = s.weights / s.weights_predicted;
    print_message("%s: errors / predicted: scale %.3f, passed on %.3f, weights %.3f\n", after, scale, pass, weights);
    assert_within(scale, 0.9, 1.1);
    assert_within(pass, 0.9, 1.1);
    assert_within(weights, 0.9, 1.1);
    side_close(&exact);
    side_close(&lossy);
    comet_net_destroy(net);
}

static void test_batch_norm_and_convolution(void **state)
{
    (void)state;
    check_net("3 16 16", "second = conv out=24 kernel=3 pad=1 bias=no\nr2 = relu");
    check_net("3 16 16", "second = conv out=24 kernel=5 stride=2 pad=2 bias=no\nr2 = relu");
    check_net("3 16 16", "second = conv out=32 kernel=3 pad=1 groups=2 bias=no\nr2 = relu");
    /* A fifth of the taps lies on the padding of a side that is shorter than the other. */
    check_net("3 32 8", "second = conv out=24 kernel=1x7 pad=0x3 bias=no\nr2 = relu");
    check_net("3 8 32", "second = conv out=24 kernel=7x1 pad=3x0 bias=no\nr2 = relu");
}

/* The energy that is passed on, which errors are compared with, where gradients are alike: a batch norm takes off their mean
 * and their product with its output, which are much of them then. */
static void test_energy_passed_on(void **state)
{
    (void)state;
    comet_net *net = net_of("net alike\ninput 3 16 16\nfirst = conv out=32 kernel=3 pad=1 bias=no\nnorm = batch_norm\n"
                            "p = global_avg_pool\nflat = flatten\nfc = linear out=4\n");
    side lossy;
    side_open(&lossy, net, COMET_COMPRESS_FAST);
    for (uint64_t number = 0; number < 5; number++) {
        trial_batch(&lossy.t, number);
        trial_gradients(&lossy.t, 1);
        const double energy = energy_of(&lossy.to_first);
        assert_near(lossy.to_first.harm.energy, energy, 0.01 * energy);
    }
    side_close(&lossy);
    comet_net_destroy(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_batch_norm_and_convolution),
        cmocka_unit_test(test_energy_passed_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
