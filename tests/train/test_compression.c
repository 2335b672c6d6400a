/* Training with saved activations compressed: lossless is the same run, forward is exact, errors are what was promised. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "describing.h"
#include "train/assess/assess.h"
#include "training.h"

static comet_model_params compress_params(uint32_t batch, comet_compress_mode mode)
{
    comet_model_params p = trial_params(batch);
    p.compression.mode = mode;
    p.n_threads = 2;
    return p;
}

/* Loss of each step, and hashes of weights and of the last gradients. */
typedef struct outcome {
    double losses[8];
    uint64_t weights, gradients;
} outcome;

/* FNV over all tensors of a kind. */
static uint64_t hash_tensors(const comet_model *model, comet_tensor_kind kind)
{
    uint64_t hash = 14695981039346656037u;
    for (size_t i = 0; i < comet_model_n_tensors(model); i++) {
        comet_tensor_info info = {.size = sizeof info};
        assert_int_equal(comet_model_describe_tensor(model, i, &info), COMET_OK);
        if (info.kind != kind)
            continue;
        float *x = tensor_read(model, i, NULL);
        for (uint64_t k = 0; k < info.n_elements; k++) {
            uint32_t bits;
            memcpy(&bits, &x[k], sizeof bits);
            hash = (hash ^ bits) * 1099511628211u;
        }
        free(x);
    }
    return hash;
}

static outcome train(const comet_net *net, const comet_model_params *params, uint32_t n_steps)
{
    outcome o = {0};
    trial t = trial_make(net, params);
    for (uint32_t i = 0; i < n_steps; i++) {
        trial_batch(&t, i);
        o.losses[i] = trial_gradients(&t, i);
        o.gradients = i + 1 == n_steps ? hash_tensors(t.model, COMET_TENSOR_GRADIENT) : 0;
        assert_int_equal(comet_model_update(t.model, 0.01, i), COMET_OK);
    }
    o.weights = hash_tensors(t.model, COMET_TENSOR_WEIGHT);
    trial_free(&t);
    return o;
}

static void assert_same(const char *name, const outcome *a, const outcome *b)
{
    if (memcmp(a, b, sizeof *a) != 0)
        fail_msg("%s: the two runs differ: loss %.17g and %.17g", name, a->losses[0], b->losses[0]);
}

static comet_model_params params_in(comet_precision precision, uint32_t batch, comet_compress_mode mode)
{
    comet_model_params p = compress_params(batch, mode);
    p.precision = precision;
    p.force_precision = true;
    return p;
}

static comet_net *zoo_net(const char *name, uint32_t image)
{
    comet_net *net = NULL;
    assert_int_equal(comet_net_zoo(&net, name, 0, image, 10), COMET_OK);
    return net;
}

/* Room to keep values decoded goes to those that are decoded again: not where all but one convolution is the relu that made
 * them, which has signs. */
static void test_what_is_kept_decoded(void **state)
{
    (void)state;
    uint32_t n_kept = 0, n_single = 0;
    comet_net *net = zoo_net("resnet20", 32);
    const comet_model_params params = compress_params(32, COMET_COMPRESS_DENSE);
    comet_model *m = NULL;
    assert_int_equal(comet_model_create(&m, net, &params), COMET_OK);
    for (uint32_t v = 0; v < m->n_values; v++) {
        const value *x = &m->values[v];
        n_kept += x->whole != NO_BUFFER;
        n_single += x->signs != NO_BUFFER && x->n_backward == 2;
        assert_false(x->signs != NO_BUFFER && x->n_backward == 2 && x->whole != NO_BUFFER);
    }
    assert_true(n_kept > 0 && n_single > 0);
    comet_model_destroy(m);
    comet_net_destroy(net);
}

static void test_lossless_is_off(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint32_t image, batch;
    } cases[] = {{"alexnet", 224, 2},        {"vgg16", 224, 1},   {"resnet18", 48, 3}, {"resnet50", 48, 2},
                 {"efficientnet_b0", 48, 3}, {"resnet20", 32, 4}, {"resnet32", 32, 3}, {"cnn28", 28, 5}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        comet_net *net = zoo_net(cases[i].name, cases[i].image);
        const uint32_t n_steps = cases[i].image > 100 ? 1 : 2;
        for (comet_precision precision = COMET_PRECISION_F32; precision <= coarsest_precision(); precision++) {
            const comet_model_params off = params_in(precision, cases[i].batch, COMET_COMPRESS_OFF),
                                     lossless = params_in(precision, cases[i].batch, COMET_COMPRESS_LOSSLESS);
            outcome a = train(net, &off, n_steps), b = train(net, &lossless, n_steps);
            assert_same(cases[i].name, &a, &b);
        }
        comet_net_destroy(net);
    }
}

static void test_lossless_is_off_for_operators(void **state)
{
    (void)state;
    comet_net *net;
    for (size_t i = 0; (net = operator_net(i)) != NULL; i++) {
        for (comet_precision precision = COMET_PRECISION_F32; precision <= coarsest_precision(); precision++) {
            comet_model_params off = params_in(precision, 3, COMET_COMPRESS_OFF),
                               lossless = params_in(precision, 3, COMET_COMPRESS_LOSSLESS);
            off.accumulate = lossless.accumulate = 1;
            outcome a = train(net, &off, 2), b = train(net, &lossless, 2);
            assert_same(comet_net_name(net), &a, &b);
        }
        comet_net_destroy(net);
    }
}

/* A batch norm's input that is read again after it, last by an op that could work in place. */
static void test_input_of_norm_is_kept(void **state)
{
    (void)state;
    comet_net *net = net_of("net preact\ninput 3 8 8\nc = conv out=16 kernel=3 pad=1\nb = batch_norm\nr = relu\n"
                            "d = conv out=16 kernel=3 pad=1\ns = add c d\nb2 = batch_norm s\nr2 = relu\n"
                            "e = conv out=16 kernel=3 pad=1\nt = add s e\nr3 = relu\np = global_avg_pool\nflat = flatten\n"
                            "drop = dropout p=0\nn = batch_norm\nfc = linear out=4\n");
    const comet_model_params off = compress_params(5, COMET_COMPRESS_OFF),
                             lossless = compress_params(5, COMET_COMPRESS_LOSSLESS);
    outcome a = train(net, &off, 3), b = train(net, &lossless, 3);
    assert_same("preact", &a, &b);
    comet_net_destroy(net);
}

/* Whatever is stored, the first forward gives the same scores; gradients differ by little at the narrow bounds of the start. */
static void test_forward_is_exact(void **state)
{
    (void)state;
    comet_net *net = zoo_net("resnet20", 32);
    float *raw = NULL;
    double raw_loss = 0;
    for (comet_compress_mode mode = COMET_COMPRESS_OFF; mode <= COMET_COMPRESS_AUTO; mode++) {
        const comet_model_params p = compress_params(8, mode);
        trial t = trial_make(net, &p);
        uint64_t n;
        const double loss = trial_gradients(&t, 0);
        float *gradients = tensors_read(t.model, COMET_TENSOR_GRADIENT, &n);
        if (!raw) {
            raw = gradients;
            raw_loss = loss;
            trial_free(&t);
            continue;
        }
        assert_true(loss == raw_loss);
        const double distance = relative_distance(n, gradients, raw);
        if (mode == COMET_COMPRESS_LOSSLESS ? distance != 0 : !(distance > 0 && distance < 0.1))
            fail_msg("mode %d: gradients are off by %g of their size", (int)mode, distance);
        free(gradients);
        trial_free(&t);
    }
    free(raw);
    comet_net_destroy(net);
}

/* ---- backward by parts of the batch ---- */

/* An input of more than 32 MB, that is taken in two parts, of convolutions with and without bias and groups; two of them read
 * it. */
static comet_net *large_net(uint32_t pixels, uint32_t channels, bool norm)
{
    char text[600];
    snprintf(text, sizeof text,
             "net large\ninput 3 %u %u\nc = conv out=%u kernel=3 pad=1\n%sr = relu\n"
             "a = conv r out=16 kernel=1\nb = conv r out=%u kernel=3 pad=1 groups=%u bias=no\nd = conv out=16 kernel=1\n"
             "s = add a d\ne = relu\np = global_avg_pool\nflat = flatten\nfc = linear out=4\n",
             pixels, pixels, channels, norm ? "n = batch_norm\n" : "", channels, channels);
    return net_of(text);
}

/* The gradient of a batch in parts is that of its halves, which are too small for parts. oneDNN sums gradients of biases in
 * float: those of a and d, of 130,000 elements, differ by 4e-4. */
static void test_parts_add_up(void **state)
{
    (void)state;
    comet_net *net = large_net(128, 64, false);
    comet_model_params whole = compress_params(8, COMET_COMPRESS_OFF), halves = compress_params(4, COMET_COMPRESS_OFF);
    halves.accumulate = 2;
    trial t = trial_make(net, &whole), h = trial_make(net, &halves);
    comet_scores scores;
    uint64_t n, n_halves;
    trial_gradients(&t, 0);
    for (uint64_t i = 0; i < 2; i++)
        assert_int_equal(comet_model_gradients(h.model, t.images + i * t.n_images / 2, t.labels + 4 * i, 0, &scores), COMET_OK);
    float *a = tensors_read(t.model, COMET_TENSOR_GRADIENT, &n), *b = tensors_read(h.model, COMET_TENSOR_GRADIENT, &n_halves);
    assert_int_equal(n, n_halves);
    assert_true(norm_of(n, b) > 0 && relative_distance(n, a, b) < 1e-4);
    free(a);
    free(b);
    trial_free(&t);
    trial_free(&h);
    comet_net_destroy(net);
}

/* However they are held, and however often they are decoded; with tiles that end where parts do, and others. */
static void test_parts_of_coded_inputs(void **state)
{
    (void)state;
    for (int norm = 0; norm < 2; norm++) {
        comet_net *net = norm ? large_net(56, 256, true) : large_net(128, 64, false);
        outcome o[COMET_COMPRESS_DENSE + 1];
        for (comet_compress_mode mode = COMET_COMPRESS_OFF; mode <= COMET_COMPRESS_DENSE; mode++) {
            const comet_model_params p = compress_params(norm ? 12 : 8, mode);
            o[mode] = train(net, &p, 3);
        }
        assert_same("lossless", &o[COMET_COMPRESS_OFF], &o[COMET_COMPRESS_LOSSLESS]);
        assert_same("dense", &o[COMET_COMPRESS_FAST], &o[COMET_COMPRESS_DENSE]);
        assert_true(o[COMET_COMPRESS_FAST].losses[0] == o[COMET_COMPRESS_OFF].losses[0]);
        assert_true(o[COMET_COMPRESS_FAST].gradients != o[COMET_COMPRESS_OFF].gradients);
        comet_net_destroy(net);
    }
}

/* Bounds adapt, the error of every convolution's gradient stays near its target, and memory shrinks. */
static void check_bounds_adapt(comet_precision precision)
{
    enum { STEPS = 90 };
    comet_net *net = zoo_net("resnet20", 32);
    const comet_model_params p = params_in(precision, 16, COMET_COMPRESS_DENSE);
    trial t = trial_make(net, &p);
    comet_assessment_line line = {.size = sizeof line};
    for (uint32_t i = 0; i < STEPS; i++) {
        trial_batch(&t, i);
        assert_true(isfinite(trial_gradients(&t, i)));
        assert_int_equal(comet_model_update(t.model, 0.01, i), COMET_OK);
    }
    const comet_compression_figures f = compression_of(t.model);
    assert_true(f.n_assessments >= 4);
    const double size = precision == COMET_PRECISION_BF16 ? 0.5 : 1; /* of what is raw; as many bits an element */
    assert_true(f.ratio > 8 * size && f.conv_ratio > 6 * size);
    assert_true(f.sigma_ratio_min > 0.5 && f.sigma_ratio_max < 1.2);
    assert_true(f.codec_seconds > 0 && f.n_nonfinite == 0 && f.spilled_bytes == 0);
    size_t n = 0, n_measured = 0;
    for (; comet_model_describe_assessment(t.model, n, &line) == COMET_OK; n++) {
        assert_true(line.eb > 0 && line.sigma_target > 0 && line.bytes > 0 && line.bytes < line.bytes_raw);
        n_measured += isfinite(line.sigma_measured);
    }
    assert_true(n > 30 && n_measured >= 18);
    trial_free(&t);
    comet_net_destroy(net);
}

static void test_bounds_adapt(void **state)
{
    (void)state;
    check_bounds_adapt(COMET_PRECISION_F32);
    if (coarsest_precision() == COMET_PRECISION_BF16)
        check_bounds_adapt(COMET_PRECISION_BF16);
}

/* Bounds that are held are not assessed, and are again once they are released. */
static void test_bounds_held(void **state)
{
    (void)state;
    comet_net *net = zoo_net("resnet20", 32);
    comet_model_params p = compress_params(4, COMET_COMPRESS_FAST);
    trial t = trial_make(net, &p);
    uint32_t step = 0;
    uint64_t n[3];
    for (int phase = 0; phase < 3; phase++) {
        comet_model_hold_bounds(t.model, phase == 1);
        for (uint32_t end = step + 5; step < end; step++) {
            trial_batch(&t, step);
            assert_true(isfinite(trial_gradients(&t, step)));
            assert_int_equal(comet_model_update(t.model, 0.001, step), COMET_OK);
        }
        n[phase] = compression_of(t.model).n_assessments;
    }
    assert_true(n[0] == 2 && n[1] == 2 && n[2] > 2);
    trial_free(&t);
    comet_net_destroy(net);
}

static double gradient_norm(const comet_model *model, const char *layer, const char *what)
{
    char name[32];
    comet_tensor_info info = {.size = sizeof info};
    snprintf(name, sizeof name, "%s.%s", layer, what);
    float *x = tensor_read(model, tensor_index(model, COMET_TENSOR_GRADIENT, name), &info);
    const double norm = norm_of(info.n_elements, x);
    free(x);
    return norm;
}

/* What a batch norm passes on has no mean in any channel, however wide the bound: a bias before it has no gradient. */
static void test_no_mean_is_passed_on(void **state)
{
    (void)state;
    comet_net *net = net_of("net biased\ninput 3 16 16\nc = conv out=16 kernel=3 pad=1\nb = batch_norm\nr = relu\n"
                            "d = conv out=16 kernel=3 pad=1\nb2 = batch_norm\nr2 = relu\n"
                            "e = conv out=16 kernel=3 pad=1\nb3 = batch_norm\ns = add b3 r\nr3 = relu\n"
                            "p = global_avg_pool\nflat = flatten\nfc = linear out=4\n");
    static const char *const convolutions[] = {"c", "d", "e"};
    comet_model_params p = compress_params(32, COMET_COMPRESS_FAST);
    p.compression.noise = 1;
    trial t = trial_make(net, &p);
    for (uint32_t i = 0; i < 12; i++) {
        trial_batch(&t, i);
        trial_gradients(&t, i);
        assert_int_equal(comet_model_update(t.model, 0.05, i), COMET_OK);
    }
    trial_batch(&t, 12);
    trial_gradients(&t, 12);
    assert_true(compression_of(t.model).ratio > 10);
    for (size_t i = 0; i < 3; i++)
        assert_true(gradient_norm(t.model, convolutions[i], "bias") < 1e-4 * gradient_norm(t.model, convolutions[i], "weight"));
    trial_free(&t);
    comet_net_destroy(net);
}

static void trial_step(trial *t, uint32_t step)
{
    trial_gradients(t, step);
    assert_int_equal(comet_model_update(t->model, 0.001, step), COMET_OK);
}

static void trial_steps(trial *t, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        trial_step(t, i);
}

/* Are all tensors with a bound at that level? Their clocks must have begun with put number n_puts. */
static bool all_at_level(const trial *t, comet_level level, uint64_t n_puts)
{
    const assessment *a = t->model->assessment;
    size_t n = 0;
    for (comet_slot s = 0; s < comet_store_n_slots(t->model->store); s++) {
        comet_slot_report r;
        comet_slot_report_init(&r);
        assert_int_equal(comet_store_describe_slot(t->model->store, s, &r), COMET_OK);
        if (!(r.eb > 0) || isinf(r.eb))
            continue;
        n++;
        if (r.level != level || a->clocks[s].n_puts != n_puts || !(a->clocks[s].seconds > 0))
            return false;
    }
    return n > 10;
}

/* Steps up to the next assessment's last. */
static void next_assessment(trial *t, uint32_t *step)
{
    const uint64_t n = compression_of(t->model).n_assessments;
    for (int i = 0; i < 20 && compression_of(t->model).n_assessments == n; i++)
        trial_step(t, (*step)++);
    assert_true(compression_of(t->model).n_assessments == n + 1);
}

/* Mode auto goes by the time that is allowed: none of it makes all tensors fast, plenty all dense. What coding takes is counted
 * anew from each change of level, since it is that of one level. */
static void test_auto_levels(void **state)
{
    (void)state;
    comet_net *net = zoo_net("resnet20", 32);
    comet_model_params p = compress_params(8, COMET_COMPRESS_AUTO);
    p.compression.overhead = 0;
    trial t = trial_make(net, &p);
    uint32_t step = 0;
    next_assessment(&t, &step);
    next_assessment(&t, &step);
    const uint32_t fast_from = step;
    trial_step(&t, step++);
    assert_true(all_at_level(&t, COMET_LEVEL_FAST, fast_from));
    next_assessment(&t, &step);
    trial_step(&t, step++);
    assert_true(all_at_level(&t, COMET_LEVEL_FAST, fast_from)); /* chosen again, not changed */
    t.model->params.compression.overhead = 1e6;
    next_assessment(&t, &step);
    const uint32_t dense_from = step;
    trial_step(&t, step++);
    assert_true(all_at_level(&t, COMET_LEVEL_DENSE, dense_from));
    trial_free(&t);
    comet_net_destroy(net);
}

/* Consumers without weights have lines too: what SiLU and the products of squeeze-and-excitation read. */
static void test_lines_of_passes(void **state)
{
    (void)state;
    comet_net *net = zoo_net("efficientnet_b0", 32);
    const comet_model_params p = compress_params(2, COMET_COMPRESS_FAST);
    trial t = trial_make(net, &p);
    trial_steps(&t, 2);
    comet_assessment_line line = {.size = sizeof line};
    size_t n_silu = 0, n_factors = 0;
    for (size_t i = 0; comet_model_describe_assessment(t.model, i, &line) == COMET_OK; i++) {
        const bool silu = strcmp(line.what, "silu input") == 0, factor = strcmp(line.what, "factor") == 0;
        n_silu += silu;
        n_factors += factor;
        assert_true(line.layer && line.level && (!(silu || factor) || (isnan(line.sigma_target) && line.bytes_raw > 0)));
    }
    assert_true(n_silu > 10 && n_factors > 10);
    trial_free(&t);
    comet_net_destroy(net);
}

/* Losses of small batches that differ by much withdraw no bounds; a loss far above all of them does. */
static void test_spikes(void **state)
{
    (void)state;
    comet_net *net = zoo_net("cnn28", 28);
    const comet_model_params p = compress_params(8, COMET_COMPRESS_FAST);
    trial t = trial_make(net, &p);
    trial_steps(&t, 3);
    const adapt *a = t.model->assessment->adapt;
    assert_true(adapt_eb(a, 0) > 0);
    for (uint32_t i = 0; i < 200; i++)
        tell_loss_known(t.model, i % 2 ? 0.4 : 1.6);
    tell_loss_known(t.model, 3.5);
    assert_true(adapt_eb(a, 0) > 0 && compression_of(t.model).n_withdrawals == 0);
    tell_loss_known(t.model, 6);
    assert_true(adapt_eb(a, 0) == 0 && compression_of(t.model).n_withdrawals == 1);
    trial_free(&t);
    comet_net_destroy(net);
}

/* Values that are not finite are counted with the first layer that saved some, and withdraw bounds. */
static void test_nonfinite_values(void **state)
{
    (void)state;
    comet_net *net = zoo_net("cnn28", 28);
    const comet_model_params p = compress_params(8, COMET_COMPRESS_FAST);
    trial t = trial_make(net, &p);
    comet_store *store = t.model->store;
    trial_steps(&t, 3);
    assert_true(compression_of(t.model).nonfinite_layer == NULL);
    trial_gradients(&t, 3);
    comet_slot slot = 0;
    while (!(slot_eb(t.model, slot) > 0))
        slot++;
    const comet_slot_spec *spec = comet_store_slot_spec(store, slot);
    float *x = need_malloc(spec->bytes);
    for (size_t i = 0; i < spec->bytes / sizeof *x; i++)
        x[i] = i < 2 ? NAN : 1;
    comet_store_clear(store);
    assert_int_equal(comet_store_put(store, slot, x), COMET_OK);
    assert_int_equal(comet_model_update(t.model, 0.001, 3), COMET_OK);
    const comet_compression_figures f = compression_of(t.model);
    assert_true(f.n_nonfinite == 2 && f.n_withdrawals == 1 && strcmp(f.nonfinite_layer, spec->layer) == 0);
    assert_true(adapt_eb(t.model->assessment->adapt, 0) == 0);
    trial_step(&t, 4);
    assert_true(compression_of(t.model).n_nonfinite == 0);
    free(x);
    trial_free(&t);
    comet_net_destroy(net);
}

/* Memory and disk, checksums or not, either level, decoded once or again for each reader: the same bits. */
static void test_same_bits(void **state)
{
    (void)state;
    comet_net *net = zoo_net("resnet20", 32);
    comet_model_params p = compress_params(6, COMET_COMPRESS_FAST);
    outcome a = train(net, &p, 4);
    p.compression.spill_folder = "/tmp";
    p.compression.spill_above = 100000;
    p.compression.checksums = true;
    outcome b = train(net, &p, 4);
    assert_same("spilled", &a, &b);
    p = compress_params(6, COMET_COMPRESS_DENSE);
    outcome c = train(net, &p, 4);
    assert_same("dense", &a, &c);
    comet_net_destroy(net);
}

/* A gradient used at once is the same gradient. */
static void test_fused_update(void **state)
{
    (void)state;
    comet_net *net = zoo_net("resnet20", 32);
    for (comet_compress_mode mode = COMET_COMPRESS_OFF; mode <= COMET_COMPRESS_FAST; mode++)
        for (int kind = 0; kind < 3; kind++) {
            uint64_t hash[2];
            for (int fused = 0; fused < 2; fused++) {
                comet_model_params p = compress_params(6, mode);
                comet_optimiser_init(&p.optimiser, kind == 0 ? COMET_OPTIMISER_ADAMW : COMET_OPTIMISER_SGD);
                if (kind == 2)
                    p.optimiser.momentum = 0;
                p.fused_update = fused != 0;
                trial t = trial_make(net, &p);
                for (uint32_t i = 0; i < 5; i++) {
                    comet_scores scores;
                    trial_batch(&t, i);
                    assert_int_equal(comet_model_step(t.model, t.images, t.labels, i, 0.01, &scores), COMET_OK);
                }
                hash[fused] = hash_tensors(t.model, COMET_TENSOR_WEIGHT);
                trial_free(&t);
            }
            assert_true(hash[0] == hash[1]);
        }
    comet_net_destroy(net);
}

/* Values that are not finite are held as they are; the loss tells. */
static void test_nan_survives(void **state)
{
    (void)state;
    comet_net *net = zoo_net("cnn28", 28);
    comet_model_params p = compress_params(4, COMET_COMPRESS_DENSE);
    trial t = trial_make(net, &p);
    t.images[5] = NAN;
    assert_true(isnan(trial_gradients(&t, 0)));
    assert_non_null(comet_model_first_bad(t.model, t.images, 0));
    trial_free(&t);
    comet_net_destroy(net);
}

/* Tensors that are stored within bounds, of the last step: those in units of their deviation, and those coded dense. */
typedef struct bounded {
    uint32_t n, n_start, n_dense;
} bounded;

static bounded count_bounded(const comet_model *m)
{
    bounded b = {0};
    for (comet_slot s = 0; s < comet_store_n_slots(m->store); s++) {
        const comet_slot_policy *p = comet_store_slot_policy(m->store, s);
        if (p->policy != COMET_POLICY_BOUNDED || !isfinite(p->eb))
            continue;
        b.n++;
        b.n_dense += p->level == COMET_LEVEL_DENSE;
        b.n_start += p->of_deviation;
        if (p->of_deviation)
            assert_near(p->eb, 0.1, 1e-12);
    }
    return b;
}

/* Bounds of every tensor; each is at most twice what it was. */
static void check_climb(const comet_model *m, double *last)
{
    for (comet_slot s = 0; s < comet_store_n_slots(m->store); s++) {
        const double eb = slot_eb(m, s);
        if (last[s] > 0 && isfinite(eb))
            assert_true(eb <= 2.2 * last[s]); /* and what deviations change by */
        last[s] = isfinite(eb) ? eb : 0;
    }
}

static double gradients_of(trial *t, uint64_t step)
{
    trial_batch(t, step);
    return trial_gradients(t, step);
}

/* Near-lossless and dense at the start, then bounds climb; and again after a loss that is not finite. */
static void test_start_and_retreat(void **state)
{
    (void)state;
    comet_net *net =
        net_of("net start\ninput 3 16 16\nc = conv out=16 kernel=3 pad=1\nr = relu\nc2 = conv out=16 kernel=3 pad=1\n"
               "r2 = relu\nc3 = conv out=16 kernel=3 pad=1\np = global_avg_pool\nflat = flatten\nfc = linear out=4\n");
    const comet_model_params p = compress_params(8, COMET_COMPRESS_FAST);
    trial t = trial_make(net, &p);
    comet_model *m = t.model;
    double last[64] = {0};
    uint64_t step = 0;
    assert_true(comet_store_n_slots(m->store) <= COUNT_OF(last));
    for (int round = 0; round < 2; round++) {
        for (uint64_t end = step + 8; step < end; step++) {
            const uint64_t n_assessed = adapt_n_assessed(m->assessment->adapt);
            assert_true(isfinite(gradients_of(&t, step)));
            const bounded b = count_bounded(m);
            assert_true(b.n >= 2 && b.n_start == (n_assessed == 0 ? b.n : 0) && b.n_dense == (n_assessed < 2 ? b.n : 0));
            check_climb(m, last);
            assert_ok(comet_model_update(m, 1e-3, step));
        }
        assert_true(adapt_n_assessed(m->assessment->adapt) >= 2);
        trial_batch(&t, step);
        t.images[5] = NAN;
        assert_false(isfinite(trial_gradients(&t, step++)));
        assert_int_equal(adapt_n_assessed(m->assessment->adapt), 0);
        memset(last, 0, sizeof last);
    }
    trial_free(&t);
    comet_net_destroy(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_start_and_retreat),
        cmocka_unit_test(test_what_is_kept_decoded),
        cmocka_unit_test(test_lossless_is_off),
        cmocka_unit_test(test_lossless_is_off_for_operators),
        cmocka_unit_test(test_forward_is_exact),
        cmocka_unit_test(test_parts_add_up),
        cmocka_unit_test(test_parts_of_coded_inputs),
        cmocka_unit_test(test_bounds_adapt),
        cmocka_unit_test(test_bounds_held),
        cmocka_unit_test(test_lines_of_passes),
        cmocka_unit_test(test_auto_levels),
        cmocka_unit_test(test_spikes),
        cmocka_unit_test(test_nonfinite_values),
        cmocka_unit_test(test_input_of_norm_is_kept),
        cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_fused_update),
        cmocka_unit_test(test_nan_survives),
        cmocka_unit_test(test_no_mean_is_passed_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
