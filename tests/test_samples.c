/* Samples by which errors of gradients are measured: against the whole kernel, on a tensor that is zero but for the sample. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "train/model_sample.h"
#include "train/reduce.h"
#include "training.h"

/* Convolutions of all kinds, each behind a relu so that its input is stored: channels in blocks and others, strides, groups,
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

/* Is element i of a tensor one of those that fill up a block of channels? */
static bool is_padding(const layout *l, uint64_t i)
{
    uint64_t dims[5], block;
    layout_dims(l, dims);
    if (layout_describe(l, &block) != ORDER_BLOCKED)
        return false;
    const uint64_t n_blocks = (dims[1] + block - 1) / block, area = dims[2] * dims[3];
    return i / (area * block) % n_blocks * block + i % block >= dims[1];
}

static void fill(test_rng *r, const layout *l, uint64_t n, float *x)
{
    for (uint64_t i = 0; i < n; i++)
        x[i] = is_padding(l, i) ? 0 : (float)rng_normal(r);
}

/* Energy of the gradient that the op's own kernel makes of `error`, which is zero outside the sample. */
static double whole_energy(comet_model *m, op *o, float *error)
{
    const uint64_t bytes = op_gradient_bytes(m, o), bias_bytes = 4096;
    float *gradient = aligned(bytes), *bias = o->bias == NONE ? NULL : aligned(bias_bytes);
    m->values[o->inputs[0]].taken = error;
    assert_int_equal(op_run_backward_weights(m, o, 0, gradient, bias), COMET_OK);
    const double energy = sum_of_squares(bytes / sizeof(float), gradient);
    release(gradient, bytes);
    if (bias)
        release(bias, bias_bytes);
    return energy;
}

/* One round of channels: x is kept, then stored with errors. Returns where in an image the sample was. */
static uint64_t check_round(comet_model *m, op *o, uint64_t round, test_rng *r)
{
    sampler *s = o->sampler;
    const uint64_t image = image_floats(m, o->inputs[0]), n = m->params.batch / o->n_parts * image;
    float *x = value_data(m, o->inputs[0]), *stored = aligned(n * sizeof *x), *error = aligned(n * sizeof *x);
    float *samples = aligned(m->samples.bytes), *work = aligned(m->samples.work_bytes);
    const float *gradient;
    uint64_t n_gradient, n_nonzero = 0, n_padding = 0;
    fill(r, m->values[o->inputs[0]].layout, n, x);
    for (uint64_t i = 0; i < n; i++)
        stored[i] = x[i] == 0 || rng_chance(r, 4) ? 0 : x[i] + 0.2F * (float)(2 * rng_unit(r) - 1);
    s->x = NULL;
    sample_keep(m, o, round, samples);
    assert_non_null(s->x);
    assert_true(s->n_images >= 1 && s->n_images <= m->params.batch / o->n_parts && s->first + s->n <= image);
    for (uint64_t i = 0; i < s->n_images; i++)
        for (uint64_t k = s->first; k < s->first + s->n; k++) {
            error[i * image + k] = stored[i * image + k] - x[i * image + k];
            n_nonzero += stored[i * image + k] != 0;
            n_padding += is_padding(m->values[o->inputs[0]].layout, i * image + k);
        }
    fill(r, m->values[o->output].layout, m->params.batch * image_floats(m, o->output), arena_at(&m->arena, o->diff));
    m->values[o->inputs[0]].taken = stored;
    assert_near(sample_compare(m, o, work), (double)n_nonzero / (double)(s->n_images * s->n - n_padding), 1e-12);
    for (uint64_t i = 0; i < s->n_images * s->n; i++)
        assert_near((double)work[i], (double)error[i / s->n * image + s->first + i % s->n], 0.51 * (double)s->unit);
    assert_int_equal(sample_gradient(m, o, work, &gradient, &n_gradient), COMET_OK);
    const double sampled = sum_of_squares(n_gradient, gradient), whole = whole_energy(m, o, error);
    assert_near(sampled, whole, 2e-3 * whole);
    release(stored, n * sizeof *x);
    release(error, n * sizeof *x);
    release(samples, m->samples.bytes);
    release(work, m->samples.work_bytes);
    return s->first;
}

/* Every channel has its round. */
static void check_model(uint32_t batch)
{
    trial t = lossy_trial(batch);
    comet_model *m = t.model;
    test_rng r = {batch};
    uint32_t n = 0, n_in_part = 0, n_folded = 0;
    for (uint32_t i = 0; i < m->n_ops; i++) {
        op *o = &m->ops[i];
        if (!o->sampler)
            continue;
        const sampler *s = o->sampler;
        for (uint64_t round = 0; round < s->n_choices + 1; round++)
            assert_int_equal(check_round(m, o, round, &r), round % s->n_choices * s->n);
        assert_int_equal(s->n_choices * s->n, image_floats(m, o->inputs[0]));
        assert_true(s->turn < m->samples.n_turns && s->offset + s->n_images * s->n * sizeof *s->x <= m->samples.bytes);
        n++;
        n_in_part += s->n_choices > 1;
        n_folded += s->to_plain != NULL;
    }
    assert_int_equal(n, 8);
    assert_true(n_in_part >= 3);
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
    assert_int_equal(m->samples.n_turns, 2);
    uint64_t end[2] = {0, 0};
    for (uint32_t i = 0; i < m->n_ops; i++) {
        const sampler *s = m->ops[i].sampler;
        if (!s)
            continue;
        assert_true(s->turn < 2 && s->offset >= end[s->turn] && s->offset % 64 == 0);
        end[s->turn] = s->offset + s->n_images * s->n * sizeof *s->x;
        assert_true(end[s->turn] <= m->samples.bytes);
    }
    assert_true(end[0] > end[1] && end[1] > 0 && m->samples.bytes <= (uint64_t)18 << 20);
    trial_free(&t);
}

/* Nothing is kept of zeros, nor beside what is not finite. */
static void test_nothing_to_measure(void **state)
{
    static const float bad[] = {0, INFINITY, -INFINITY, NAN};
    (void)state;
    trial t = lossy_trial(2);
    comet_model *m = t.model;
    for (uint32_t i = 0; i < m->n_ops; i++) {
        const op *o = &m->ops[i];
        if (!o->sampler)
            continue;
        sampler *s = o->sampler;
        float *x = value_data(m, o->inputs[0]), *samples = aligned(m->samples.bytes);
        for (size_t k = 0; k < COUNT_OF(bad); k++) {
            for (uint64_t j = 0; j < 2 * image_floats(m, o->inputs[0]); j++)
                x[j] = k == 0 ? 0 : 1;
            x[s->n - 1] = bad[k];
            s->x = NULL;
            sample_keep(m, o, 0, samples);
            assert_null(s->x);
        }
        release(samples, m->samples.bytes);
    }
    trial_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_samples),
        cmocka_unit_test(test_turns),
        cmocka_unit_test(test_nothing_to_measure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
