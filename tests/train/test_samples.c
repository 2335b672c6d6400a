/* Samples by which errors of gradients are measured: against the whole kernel, on a tensor that is zero but for the sample. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "train/assess/assess.h"
#include "train/assess/sample.h"
#include "train/math/reduce.h"
#include "train/ops/ops.h"
#include "train/run/plan.h"
#include "training.h"

/* Convolutions of all kinds, each after a relu so that its input is stored: channels in blocks and others, strides, groups,
 * depthwise, with a bias, and one that is folded with its batch norm. */
static const char *const kinds =
    "net kinds\ninput 3 20 20\nc = conv out=48 kernel=3 pad=1\nr = relu\nblocks = conv out=32 kernel=3 pad=1\nr2 = relu\n"
    "stride = conv out=24 kernel=3 stride=2 pad=1 bias=no\nr3 = relu\nodd = conv out=32 kernel=1\nr4 = relu\n"
    "groups = conv out=32 kernel=3 pad=1 groups=2\nr5 = relu\ndepthwise = conv out=32 kernel=3 pad=1 groups=32 bias=no\n"
    "n = batch_norm\nr6 = relu\nfolded = conv out=64 kernel=1 bias=no\nn7 = batch_norm\n"
    "short = conv r6 out=64 kernel=1\ns = add n7 short\nr8 = relu\nt = conv out=16 kernel=3 pad=1\n"
    "p = global_avg_pool\nflat = flatten\nfc = linear out=4\n";

static trial lossy_trial_of(const char *text, uint32_t batch)
{
    comet_net *net = net_of(text);
    comet_model_params p = trial_params(batch);
    p.compression.mode = COMET_COMPRESS_FAST;
    p.n_threads = 2;
    trial t = trial_make(net, &p);
    comet_net_destroy(net);
    return t;
}

static trial lossy_trial(uint32_t batch)
{
    return lossy_trial_of(kinds, batch);
}

static void *aligned(size_t bytes)
{
    const comet_allocator allocator = comet_allocator_of(NULL);
    void *memory = comet_allocate(&allocator, bytes);
    assert_non_null(memory);
    memset(memory, 0, bytes);
    return memory;
}

static void release(void *memory, size_t bytes)
{
    const comet_allocator allocator = comet_allocator_of(NULL);
    comet_release(&allocator, memory, bytes);
}

/* Blocks of channels, the last of which may be filled up. */
typedef struct channel_blocks {
    uint64_t channels, block, n_blocks, area; /* block 0: there are none */
} channel_blocks;

static channel_blocks blocks_of(const layout *l)
{
    uint64_t dims[5], block;
    layout_dims(l, dims);
    if (layout_describe(l, &block) != ORDER_BLOCKED)
        return (channel_blocks){0};
    return (channel_blocks){dims[1], block, (dims[1] + block - 1) / block, dims[2] * dims[3]};
}

/* Is element i of a tensor one of those that fill up a block? */
static bool is_padding(const channel_blocks *b, uint64_t i)
{
    return b->block > 0 && i / (b->area * b->block) % b->n_blocks * b->block + i % b->block >= b->channels;
}

static void fill(test_rng *r, const layout *l, uint64_t n, float *x)
{
    const channel_blocks blocks = blocks_of(l);
    for (uint64_t i = 0; i < n; i++)
        x[i] = is_padding(&blocks, i) ? 0 : (float)rng_normal(r);
}

/* The bound that inputs are stored within. */
static const double BOUND = 0.2;

static void set_bound(comet_model *m, const op *o, double eb, bool of_deviation)
{
    comet_slot_policy p;
    comet_slot_policy_init(&p);
    p.policy = COMET_POLICY_BOUNDED;
    p.eb = eb;
    p.of_deviation = of_deviation;
    assert_ok(comet_store_set_policy(m->store, value_slot(m, o->inputs[0]), &p));
}

/* Input and what is stored of it, beside the sample's part of the error. */
typedef struct stored_input {
    uint64_t image, n;
    float *x, *stored, *error; /* error: zero outside the sample */
} stored_input;

/* An element within the bound of what it was, or a zero where that is within it too. */
static float stored_as(test_rng *r, float x)
{
    const float e = (float)BOUND * (float)(2 * rng_unit(r) - 1);
    return x == 0 || (fabsf(x) <= (float)BOUND && rng_chance(r, 4)) ? 0 : x + e;
}

static stored_input make_input(comet_model *m, const op *o, test_rng *r)
{
    const uint64_t image = image_elements(m, o->inputs[0]), n = m->params.batch * image;
    stored_input in = {
        .image = image, .n = n, .x = value_data(m, o->inputs[0]), .stored = aligned(n * 4), .error = aligned(n * 4)};
    fill(r, m->values[o->inputs[0]].layout, n, in.x);
    in.x[n / 2] = 1e6F * in.x[n / 2]; /* stored exactly, as outliers are */
    for (uint64_t i = 0; i < n; i++)
        in.stored[i] = i == n / 2 ? in.x[i] : stored_as(r, in.x[i]);
    return in;
}

/* Every part of the batch, as it is taken. */
static void compare_parts(comet_model *m, const op *o, const stored_input *in, float *work)
{
    for (uint32_t k = 0; k < o->n_parts; k++) {
        m->values[o->inputs[0]].taken = in->stored + k * (in->n / o->n_parts);
        sample_compare(m, o, k, work);
    }
}

/* Energy of the sample's gradient by the whole kernel, part by part. */
static double whole_energy(comet_model *m, op *o, const stored_input *in)
{
    const uint64_t bytes = weighted_gradient_bytes(m, o), bias_bytes = 4096;
    float *sum = aligned(bytes), *part = aligned(bytes), *bias = o->bias == NONE ? NULL : aligned(bias_bytes);
    for (uint32_t k = 0; k < o->n_parts; k++) {
        m->values[o->inputs[0]].taken = in->error + k * (in->n / o->n_parts);
        assert_int_equal(weighted_part_of_weights(m, o, k, part, bias), COMET_OK);
        for (uint64_t i = 0; i < bytes / sizeof *sum; i++)
            sum[i] += part[i];
    }
    const double energy = sum_of_squares(COMET_DTYPE_F32, bytes / sizeof *sum, sum);
    release(sum, bytes);
    release(part, bytes);
    if (bias)
        release(bias, bias_bytes);
    return energy;
}

/* While the input is there: its place may be that of others later. */
static void note_errors(const sampler *s, stored_input *in)
{
    for (uint64_t i = 0; i < s->n_images; i++)
        for (uint64_t at = i * in->image + s->first; at < i * in->image + s->first + s->n; at++)
            in->error[at] = in->stored[at] - in->x[at];
}

/* The errors, to half a unit twice, and the share of non-zeros. */
static void check_errors(const comet_model *m, const op *o, const stored_input *in, const float *work)
{
    const sampler *s = sampler_of(m, o);
    const channel_blocks blocks = blocks_of(m->values[o->inputs[0]].layout);
    uint64_t n_nonzero = 0, n_padding = 0;
    for (uint64_t i = 0; i < s->n_images; i++)
        for (uint64_t k = 0; k < s->n; k++) {
            const uint64_t at = i * in->image + s->first + k;
            assert_near((double)work[i * s->n + k], (double)in->error[at], 1.01 * (double)s->unit);
            n_nonzero += in->stored[at] != 0;
            n_padding += is_padding(&blocks, at);
        }
    assert_near(sample_nonzero(m, o), (double)n_nonzero / (double)(s->n_images * s->n - n_padding), 1e-12);
}

/* One round of channels: x is kept, then stored with errors. Returns where in an image the sample was. */
static uint64_t check_round(comet_model *m, op *o, uint64_t round, test_rng *r)
{
    sampler *s = sampler_of(m, o);
    stored_input in = make_input(m, o, r);
    float *samples = aligned(m->samples.bytes), *work = aligned(m->samples.work_bytes[o->index]);
    const float *gradient;
    uint64_t n_gradient;
    s->x = NULL;
    set_bound(m, o, BOUND, false);
    sample_keep(m, o, round, samples);
    assert_non_null(s->x);
    note_errors(s, &in);
    assert_int_equal(s->n_images, m->params.batch < 32 ? m->params.batch : 32);
    assert_true(s->first + s->n <= in.image);
    fill(r, m->values[o->output].layout, m->params.batch * image_elements(m, o->output), arena_at(&m->arena, o->buffers.diff));
    compare_parts(m, o, &in, work);
    check_errors(m, o, &in, work);
    assert_int_equal(sample_gradient(m, o, work, &gradient, &n_gradient), COMET_OK);
    const double sampled = sum_of_squares(COMET_DTYPE_F32, n_gradient, gradient), whole = whole_energy(m, o, &in);
    assert_near(sampled, whole, 5e-3 * whole);
    release(in.stored, in.n * sizeof *in.stored);
    release(in.error, in.n * sizeof *in.error);
    release(samples, m->samples.bytes);
    release(work, m->samples.work_bytes[o->index]);
    return s->first;
}

/* Every channel has its round. */
static void check_model(uint32_t batch)
{
    trial t = lossy_trial(batch);
    comet_model *m = t.model;
    test_rng r = {batch};
    uint32_t n = 0, n_of_channels = 0, n_folded = 0;
    for (uint32_t i = 0; i < m->n_ops; i++) {
        op *o = &m->ops[i];
        if (!sampler_of(m, o))
            continue;
        const sampler *s = sampler_of(m, o);
        for (uint64_t round = 0; round < s->n_choices + 1; round++)
            assert_int_equal(check_round(m, o, round, &r), round % s->n_choices * s->n);
        assert_int_equal(s->n_choices * s->n, image_elements(m, o->inputs[0]));
        assert_true(s->turn < m->samples.n_turns && s->offset + s->n_images * s->n * sizeof *s->x <= m->samples.bytes);
        n++;
        n_of_channels += s->n_choices > 1;
        n_folded += s->to_plain != NULL;
    }
    assert_int_equal(n, 8);
    assert_true(n_of_channels >= 3);
    assert_int_equal(n_folded, batch > 2); /* not for so few positions */
    trial_free(&t);
}

static void test_samples(void **state)
{
    (void)state;
    check_model(1);
    check_model(4);
    check_model(20);
}

/* Inputs that backward takes in parts: of all images but those beyond the sample's. */
static void test_parts(void **state)
{
    (void)state;
    trial t = lossy_trial_of("net parts\ninput 3 64 64\nc = conv out=64 kernel=3 pad=1\nn = batch_norm\nr = relu\n"
                             "plain = conv out=16 kernel=3 pad=1\nfolded = conv r out=128 kernel=1 bias=no\nn2 = batch_norm\n"
                             "wide = conv plain out=128 kernel=1\ns = add n2 wide\nr2 = relu\np = global_avg_pool\n"
                             "flat = flatten\nfc = linear out=4\n",
                             48);
    comet_model *m = t.model;
    test_rng r = {48};
    uint32_t n_in_parts = 0, n_folded = 0;
    for (uint32_t i = 0; i < m->n_ops; i++) {
        op *o = &m->ops[i];
        if (!sampler_of(m, o))
            continue;
        check_round(m, o, 1, &r);
        n_in_parts += o->n_parts > 1;
        n_folded += o->n_parts > 1 && o->folds != NONE;
    }
    assert_true(n_in_parts > n_folded && n_folded > 0);
    trial_free(&t);
}

/* The error of a gradient as it is predicted, for a bound of 1, over that as it is measured, of the convolution `name`. */
static double predicted_over_measured(trial *t, const char *name)
{
    comet_model *m = t->model;
    const op *o = NULL;
    for (uint32_t i = 0; i < m->n_ops; i++)
        if (strcmp(m->ops[i].layer->name, name) == 0)
            o = &m->ops[i];
    assert_non_null(o);
    const uint32_t consumer = m->assessment->ops[o->index].consumer;
    assert_true(consumer != NONE);
    const adapt *a = m->assessment->adapt;
    double predicted = 0;
    for (uint64_t step = 0; step < 4; step++) { /* assessed after steps 2, with predictions alone, and 4 */
        trial_batch(t, step);
        assert_true(isfinite(trial_gradients(t, step)));
        assert_ok(comet_model_update(m, 0, step));
        if (step == 1)
            predicted = adapt_consumer_state(a, consumer).sigma_predicted / adapt_eb(a, adapt_consumer_tensor(a, consumer));
    }
    return predicted / (adapt_consumer_state(a, consumer).sigma_measured / slot_eb(m, value_slot(m, o->inputs[0])));
}

/* Most of a kernel's taps lie on padding where images are small, and meet no errors: predictions know. */
static void test_small_images(void **state)
{
    static const char *const convs[] = {"conv out=32 kernel=5 pad=2", "conv out=32 kernel=3 pad=2 dilation=2",
                                        "conv out=32 kernel=7 pad=3 stride=2", "conv out=32 kernel=1"};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(convs); i++) {
        char text[400];
        snprintf(text, sizeof text,
                 "net small\ninput 3 2 2\nc = conv out=32 kernel=3 pad=1\nr = relu\nmeasured = %s\nr2 = relu\n"
                 "p = global_avg_pool\nflat = flatten\nfc = linear out=10\n",
                 convs[i]);
        trial t = lossy_trial_of(text, 64);
        const double quotient = predicted_over_measured(&t, "measured");
        print_message("%s on 2 x 2: predicted error %.2f of the measured one\n", convs[i], quotient);
        assert_true(quotient > 0.8 && quotient < 1.25);
        trial_free(&t);
    }
}

/* More than is kept at once: in turns, within which no sample lies on another. */
static void test_turns(void **state)
{
    (void)state;
    char text[1000] = "net deep\ninput 3 96 96\nc = conv out=48 kernel=3 pad=1\n";
    size_t n = strlen(text);
    for (int i = 0; i < 14; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "r%d = relu\nc%d = conv out=48 kernel=3 pad=1\n", i, i);
    snprintf(text + n, sizeof text - n, "p = global_avg_pool\nflat = flatten\nfc = linear out=4\n");
    trial t = lossy_trial_of(text, 16);
    const comet_model *m = t.model;
    enum { TURNS = 5 };
    assert_int_equal(m->samples.n_turns, TURNS);
    uint64_t end[TURNS] = {0};
    for (uint32_t i = 0; i < m->n_ops; i++) {
        const sampler *s = sampler_of(m, &m->ops[i]);
        if (!s)
            continue;
        assert_true(s->turn < TURNS && s->offset >= end[s->turn] && s->offset % 64 == 0);
        end[s->turn] = s->offset + s->n_images * s->n * sizeof *s->x;
        assert_true(end[s->turn] <= m->samples.bytes);
    }
    assert_true(end[0] > end[TURNS - 1] && end[TURNS - 1] > 0 && m->samples.bytes <= (uint64_t)8 << 20);
    trial_free(&t);
}

/* Samples have their place while they are in use, and transients have it before and after: ResNet-18 needs it for the tensors
 * around its max pool. */
static void test_place(void **state)
{
    (void)state;
    comet_net *net = NULL;
    assert_ok(comet_net_zoo(&net, "resnet18", 0, 224, 10));
    comet_model_params p = trial_params(32);
    p.compression.mode = COMET_COMPRESS_FAST;
    p.fused_update = true;
    comet_model *m = calloc(1, sizeof *m);
    assert_non_null(m);
    assert_ok(plan_model(m, net, &p));
    const arena *a = &m->arena;
    const uint64_t end = m->samples.at + memory_sample_bytes(m), region = a->bytes + a->below;
    const uint32_t n = moments_of(m), first = m->samples.first, last = m->samples.last;
    assert_true(first > 0 && first < m->n_ops && last > m->n_ops && last < n - 1);
    for (uint32_t i = 0; i < m->n_ops; i++)
        assert_true(!sampler_of(m, &m->ops[i]) || (i >= first && moment_backward(m, &m->ops[i], 1) <= last));
    assert_true(end + arena_height(a, first, last) <= region);
    assert_true(memory_sample_bytes(m) < m->samples.bytes + COMET_ALIGNMENT); /* what measuring takes does not last */
    for (uint32_t i = 0; i < m->n_ops; i++) {
        const buffer_id work = m->ops[i].buffers.sample_work;
        const uint32_t moment = moment_backward(m, &m->ops[i], 0);
        assert_true((work != NO_BUFFER) == (sampler_of(m, &m->ops[i]) != NULL));
        assert_true(work == NO_BUFFER || (a->buffers[work].first == moment && a->buffers[work].last == moment));
    }
    assert_true(end + arena_height(a, 0, first - 1) > region);
    assert_true(end + arena_height(a, last + 1, n - 1) > region);
    comet_model_destroy(m); /* its memory was never taken */
    comet_net_destroy(net);
}

/* Nothing is kept where nothing is stored with errors, or it is not known with which. */
static void test_nothing_to_measure(void **state)
{
    (void)state;
    trial t = lossy_trial(2);
    comet_model *m = t.model;
    for (uint32_t i = 0; i < m->n_ops; i++) {
        const op *o = &m->ops[i];
        if (!sampler_of(m, o))
            continue;
        float *samples = aligned(m->samples.bytes);
        sampler_of(m, o)->x = NULL;
        set_bound(m, o, BOUND, true);
        sample_keep(m, o, 0, samples);
        assert_null(sampler_of(m, o)->x);
        set_bound(m, o, 1e-44, false);
        sample_keep(m, o, 0, samples);
        assert_null(sampler_of(m, o)->x);
        release(samples, m->samples.bytes);
    }
    trial_free(&t);
}

/* What is not finite does not spoil the rest. */
static void test_nonfinite(void **state)
{
    static const float bad[] = {INFINITY, -INFINITY, NAN, 3e38F};
    (void)state;
    trial t = lossy_trial(2);
    comet_model *m = t.model;
    test_rng r = {9};
    for (uint32_t i = 0; i < m->n_ops; i++) {
        const op *o = &m->ops[i];
        if (!sampler_of(m, o))
            continue;
        stored_input in = make_input(m, o, &r);
        float *samples = aligned(m->samples.bytes), *work = aligned(m->samples.work_bytes[o->index]);
        for (size_t k = 0; k < COUNT_OF(bad); k++)
            in.x[k] = in.stored[k] = bad[k];
        set_bound(m, o, BOUND, false);
        sample_keep(m, o, 0, samples);
        compare_parts(m, o, &in, work);
        for (uint64_t k = 0; k < sampler_of(m, o)->n; k++)
            assert_near((double)work[k], k < COUNT_OF(bad) ? 0 : (double)(in.stored[k] - in.x[k]),
                        1.01 * (double)sampler_of(m, o)->unit);
        release(in.stored, in.n * sizeof *in.stored);
        release(in.error, in.n * sizeof *in.error);
        release(samples, m->samples.bytes);
        release(work, m->samples.work_bytes[o->index]);
    }
    trial_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_samples),   cmocka_unit_test(test_parts), cmocka_unit_test(test_small_images),
        cmocka_unit_test(test_turns),     cmocka_unit_test(test_place), cmocka_unit_test(test_nothing_to_measure),
        cmocka_unit_test(test_nonfinite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
