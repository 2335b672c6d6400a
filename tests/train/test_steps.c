/* Figures of steps: what is held raw and by a framework, within a step and between; where the time of a step goes. */
#include <stdlib.h>

#include "describing.h"
#include "training.h"

enum { BATCH = 8, CLASSES = 4, SIDE = 32 };

typedef struct setting {
    comet_net *net;
    comet_model *model;
    float *images;
    uint32_t labels[BATCH];
} setting;

static comet_model_params settings_of(comet_compress_mode mode, bool fused)
{
    comet_model_params p;
    comet_model_params_init(&p);
    p.batch = BATCH;
    p.n_threads = 1;
    p.fused_update = fused;
    p.compression.mode = mode;
    return p;
}

static void open_model(setting *s, const char *name, comet_compress_mode mode, bool fused)
{
    const comet_model_params p = settings_of(mode, fused);
    const size_t n = (size_t)BATCH * 3 * SIDE * SIDE;
    assert_ok(comet_net_zoo(&s->net, name, 3, SIDE, CLASSES));
    assert_ok(comet_model_create(&s->model, s->net, &p));
    s->images = need_malloc(n * sizeof *s->images);
    for (size_t i = 0; i < n; i++)
        s->images[i] = (float)(int)(i * 2654435761u % 1000) / 500 - 1;
    for (uint32_t i = 0; i < BATCH; i++)
        s->labels[i] = i % CLASSES;
}

static void close_model(setting *s)
{
    comet_model_destroy(s->model);
    comet_net_destroy(s->net);
    free(s->images);
}

static void step(setting *s, uint64_t number)
{
    comet_scores scores;
    assert_ok(comet_model_step(s->model, s->images, s->labels, number, 0.01, &scores));
}

/* What a compressed model would hold raw is what one without compression does hold, except for batch norms that it folds. */
static void test_raw_is_that_of_off(void **state)
{
    static const struct {
        const char *name;
        uint32_t side;
        bool folds;
    } nets[] = {
        {"resnet18", 64, false}, {"resnet50", 64, true}, {"resnet20", 32, false}, {"cnn28", 28, false}, {"vgg16", 224, false}};
    for (size_t i = 0; i < COUNT_OF(nets); i++) {
        static const comet_compress_mode modes[] = {COMET_COMPRESS_OFF, COMET_COMPRESS_LOSSLESS, COMET_COMPRESS_DENSE};
        comet_net *net = NULL;
        comet_memory m[COUNT_OF(modes)];
        assert_ok(comet_net_zoo(&net, nets[i].name, nets[i].side == 28 ? 1 : 3, nets[i].side, CLASSES));
        for (size_t k = 0; k < COUNT_OF(modes); k++) {
            const comet_model_params p = settings_of(modes[k], true);
            comet_memory_init(&m[k]);
            assert_ok(comet_model_plan(net, &p, &m[k]));
            assert_int_equal(m[k].saved_reference, m[0].saved_reference);
            assert_true(m[k].saved_raw <= m[k].saved_reference && (m[k].saved < m[k].saved_raw) == (k > 0));
        }
        assert_int_equal(m[0].saved, m[0].saved_raw);
        assert_int_equal(m[1].saved_raw, m[0].saved_raw);
        assert_true((m[2].saved_raw < m[0].saved_raw) == nets[i].folds);
        comet_net_destroy(net);
    }
}

/* The store of a model without compression counts the same bytes, tensor by tensor. */
static void test_raw_is_what_is_held(void **state)
{
    setting s;
    comet_trace_point point = {.size = sizeof point};
    open_model(&s, "resnet20", COMET_COMPRESS_OFF, true);
    assert_ok(comet_model_trace(s.model));
    step(&s, 0);
    size_t n = 0;
    for (; comet_model_describe_trace(s.model, n, &point) == COMET_OK; n++)
        assert_int_equal(point.saved, point.saved_raw);
    assert_true(n > 40);
    assert_int_equal(steps_of(s.model).saved, memory_of(s.model).saved_raw);
    close_model(&s);
}

static void check_trace(const comet_model *model)
{
    comet_trace_point point = {.size = sizeof point};
    uint64_t raw = 0, reference = 0, saved = 0;
    bool backward = false;
    size_t n = 0;
    for (; comet_model_describe_trace(model, n, &point) == COMET_OK; n++) {
        assert_true(point.backward || !backward); /* forward first */
        assert_true(point.saved <= point.saved_raw && point.saved_raw <= point.saved_reference);
        backward = point.backward;
        raw = point.saved_raw > raw ? point.saved_raw : raw;
        reference = point.saved_reference > reference ? point.saved_reference : reference;
        saved = point.saved > saved ? point.saved : saved;
    }
    assert_true(n > 0 && backward);
    assert_int_equal(point.saved, 0);
    assert_int_equal(point.saved_raw, 0);
    assert_int_equal(point.saved_reference, 0);
    const comet_memory memory = memory_of(model);
    assert_int_equal(raw, memory.saved_raw);
    assert_int_equal(reference, memory.saved_reference);
    assert_int_equal(saved, steps_of(model).saved);
}

static void test_trace(void **state)
{
    static const char *const names[] = {"resnet20", "resnet50", "efficientnet_b0"};
    comet_trace_point point = {.size = sizeof point};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        setting s;
        open_model(&s, names[i], COMET_COMPRESS_AUTO, true);
        assert_status(comet_model_describe_trace(s.model, 0, &point), COMET_ERROR_ARGUMENT); /* none was asked for */
        assert_ok(comet_model_trace(s.model));
        step(&s, 0);
        check_trace(s.model);
        step(&s, 1); /* is not recorded */
        assert_ok(comet_model_describe_trace(s.model, 0, &point));
        close_model(&s);
    }
    assert_status(comet_model_trace(NULL), COMET_ERROR_ARGUMENT);
}

/* Parts of the time are all there, and no more than the time that went by. */
static void check_times(comet_compress_mode mode, bool fused)
{
    setting s;
    open_model(&s, "resnet20", mode, fused);
    const double began = comet_seconds();
    for (uint64_t i = 0; i < 6; i++)
        step(&s, i);
    const double passed = comet_seconds() - began;
    const comet_step_figures f = steps_of(s.model);
    const bool coded = mode != COMET_COMPRESS_OFF, lossy = mode >= COMET_COMPRESS_FAST;
    const double sum = f.forward + f.backward + f.update + f.encode + f.decode + f.assess;
    assert_int_equal(f.n_passes, 6);
    assert_true(f.forward > 0 && f.backward > 0 && f.update > 0);
    assert_true((f.encode > 0) == coded && (f.decode > 0) == coded && (f.assess > 0) == lossy);
    assert_true(sum <= passed && sum > 0.9 * passed);
    comet_scores scores;
    assert_ok(comet_model_evaluate(s.model, s.images, s.labels, BATCH, &scores));
    const comet_step_figures after = steps_of(s.model);
    assert_true(after.forward == f.forward && after.n_passes == f.n_passes); /* evaluation is not training */
    close_model(&s);
}

static void test_times(void **state)
{
    check_times(COMET_COMPRESS_OFF, true);
    check_times(COMET_COMPRESS_LOSSLESS, false);
    check_times(COMET_COMPRESS_AUTO, true);
    check_times(COMET_COMPRESS_AUTO, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_raw_is_that_of_off),
        cmocka_unit_test(test_raw_is_what_is_held),
        cmocka_unit_test(test_trace),
        cmocka_unit_test(test_times),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
