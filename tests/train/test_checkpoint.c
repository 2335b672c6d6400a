/* Checkpoints and weights files of real models: everything comes back, damage is found, other nets are refused by name. */
#include "testing.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/temporary.h"
#include "comet/train.h"
#include "train/assess/state.h"
#include "train/files/checkpoint.h"
#include "train/files/weights.h"

#include "describing.h"
#include "tiny_net.h"

static char folder[256], path[320];

static int set_up(void **state)
{
    const char *base = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/comet-checkpoint.XXXXXX", base ? base : "/tmp");
    return mkdtemp(folder) ? 0 : 1;
}

static const char *in_folder(const char *name)
{
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static int empty(void **state)
{
    checkpoint_clear(folder);
    unlink(in_folder("w.safetensors"));
    unlink(in_folder("e.safetensors"));
    return 0;
}

static int tear_down(void **state)
{
    empty(state);
    unlink(in_folder(".lock"));
    return rmdir(folder);
}

static comet_model_params model_params(uint64_t seed, comet_optimiser_kind kind)
{
    comet_model_params params;
    comet_model_params_init(&params);
    params.batch = 4;
    params.n_threads = 1;
    params.seed = seed;
    comet_optimiser_init(&params.optimiser, kind);
    return params;
}

static comet_model *model_with(const char *text, const comet_model_params *params)
{
    comet_net *net = NULL;
    comet_model *model = NULL;
    assert_ok(comet_net_read(&net, "text", text, strlen(text)));
    assert_ok(comet_model_create(&model, net, params));
    comet_net_destroy(net);
    return model;
}

static comet_model *model_of(const char *text, uint64_t seed, comet_optimiser_kind kind)
{
    const comet_model_params params = model_params(seed, kind);
    return model_with(text, &params);
}

/* One step, so that statistics and optimiser are no longer what they began as. */
static void step(comet_model *model, uint64_t n)
{
    float images[4 * 3 * 8 * 8];
    static const uint32_t labels[4] = {0, 1, 2, 3};
    comet_scores scores;
    test_rng r = {n + 1};
    for (size_t i = 0; i < COUNT_OF(images); i++)
        images[i] = (float)rng_normal(&r);
    assert_ok(comet_model_gradients(model, images, labels, n, &scores));
    assert_ok(comet_model_update(model, 0.1, n));
}

static float *tensor(const comet_model *model, size_t index, comet_tensor_info *info)
{
    assert_ok(comet_model_describe_tensor(model, index, info));
    float *x = need_malloc((size_t)info->n_elements * sizeof *x);
    assert_ok(comet_model_tensor_read(model, index, x));
    return x;
}

static void check_same(const comet_model *a, const comet_model *b, bool optimiser)
{
    assert_int_equal(comet_model_n_tensors(a), comet_model_n_tensors(b));
    for (size_t i = 0; i < comet_model_n_tensors(a); i++) {
        comet_tensor_info info = {.size = sizeof info};
        float *x = tensor(a, i, &info), *y = tensor(b, i, &info);
        const bool derived = info.kind != COMET_TENSOR_WEIGHT && info.kind != COMET_TENSOR_STATISTIC;
        if (info.kind != COMET_TENSOR_GRADIENT && (optimiser || !derived) &&
            memcmp(x, y, (size_t)info.n_elements * sizeof *x) != 0)
            fail_because("%s (kind %d) differs", info.name, (int)info.kind);
        free(x);
        free(y);
    }
}

static checkpoint_state some_state(void)
{
    checkpoint_state s = {.step = 7, .epoch = 2, .batch_in_epoch = 3, .loss_sum = 1.0 / 3, .n_images = 12, .n_top1 = 5};
    s.test_loss = s.test_top1 = NAN;
    s.test_top5 = 0.7;
    s.best_top1 = -1;
    s.settings.seed = UINT64_MAX - 1;
    s.settings.net = 0x8000000000000001u;
    s.settings.rate = 0.1;
    s.settings.batch = 4;
    return s;
}

static void test_round_trip(void **state)
{
    for (int kind = 0; kind < 2; kind++) {
        comet_model *a = model_of(TINY_NET, 1, (comet_optimiser_kind)kind);
        comet_model *b = model_of(TINY_NET, 1, (comet_optimiser_kind)kind); /* the seed also chooses dropout's masks */
        checkpoint_state saved = some_state(), loaded;
        checkpoint_found found = CHECKPOINT_NONE;
        char changed[CHECKPOINT_CHANGED_BYTES];
        memset(&loaded, 0, sizeof loaded);
        step(a, 0);
        step(a, 1);
        step(b, 9);
        assert_ok(checkpoint_load(folder, b, &saved.settings, &loaded, &found, changed));
        assert_int_equal(found, CHECKPOINT_NONE);
        assert_ok(checkpoint_save(folder, a, &saved, NULL));
        assert_ok(checkpoint_load(folder, b, &saved.settings, &loaded, &found, changed));
        assert_int_equal(found, CHECKPOINT_LAST);
        assert_string_equal(changed, "");
        assert_memory_equal(&saved.loss_sum, &loaded.loss_sum, sizeof(double));
        assert_int_equal(loaded.step, 7);
        assert_true(isnan(loaded.test_loss) && loaded.test_top5 == 0.7 && loaded.best_top1 == -1);
        assert_true(loaded.settings.seed == UINT64_MAX - 1);
        check_same(a, b, true);
        step(a, 2);
        step(b, 2);
        check_same(a, b, true);
        comet_model_destroy(a);
        comet_model_destroy(b);
        empty(state);
    }
}

/* Where a run is, down to the epochs since its best, is what it was. All fields have 8 bytes: what is forgotten stays 0. */
static void test_every_figure_comes_back(void **state)
{
    comet_model *model = model_of(TINY_NET, 1, COMET_OPTIMISER_SGD);
    checkpoint_state saved = some_state(), loaded = {0};
    checkpoint_found found = CHECKPOINT_NONE;
    char changed[CHECKPOINT_CHANGED_BYTES];
    saved.test_loss = 1.25;
    saved.test_top1 = 0.375;
    saved.best_top1 = 0.4375;
    saved.n_worse = 6;
    saved.tested_step = 4;
    saved.watch = (loss_watch){.start = 2.3, .mean = 1.7, .lowest = 1.6};
    assert_ok(checkpoint_save(folder, model, &saved, NULL));
    assert_ok(checkpoint_load(folder, model, &saved.settings, &loaded, &found, changed));
    assert_int_equal(found, CHECKPOINT_LAST);
    assert_int_equal(loaded.n_worse, 6);
    assert_memory_equal(&loaded, &saved, offsetof(checkpoint_state, settings));
    comet_model_destroy(model);
    empty(state);
}

/* ---- adaptive bounds ---- */

static comet_model_params bounded_params(comet_optimiser_kind kind, float momentum)
{
    comet_model_params params = model_params(1, kind);
    params.optimiser.momentum = momentum;
    params.compression.mode = COMET_COMPRESS_FAST;
    return params;
}

/* Loads into a model that has seen other steps, so that whatever is not restored shows. */
static comet_model *load_into_other(const comet_model_params *params, const checkpoint_settings *settings, char *changed)
{
    comet_model *model = model_with(TINY_NET, params);
    checkpoint_state loaded;
    checkpoint_found found = CHECKPOINT_NONE;
    for (uint64_t i = 0; i < 3; i++)
        step(model, 50 + i);
    assert_ok(checkpoint_load(folder, model, settings, &loaded, &found, changed));
    assert_int_equal(found, CHECKPOINT_LAST);
    return model;
}

static void check_same_state(const comet_model *a, const comet_model *b)
{
    const size_t n = model_state_n(a);
    double *x = need_malloc(n * sizeof *x), *y = need_malloc(n * sizeof *y);
    assert_int_equal(n, model_state_n(b));
    model_state_export(a, x);
    model_state_export(b, y);
    assert_memory_equal(x, y, n * sizeof *x);
    free(x);
    free(y);
}

/* Every step from 1 on is collected, some assess: a run that is interrupted before, between, in and after them ends with the
 * same bits. */
static void check_bounds_resume(const comet_model_params *params)
{
    enum { STEPS = 18 };
    comet_model *whole = model_with(TINY_NET, params);
    for (uint64_t i = 0; i < STEPS; i++)
        step(whole, i);
    assert_true(compression_of(whole).n_assessments >= 4);
    for (uint64_t k = 0; k < STEPS; k++) {
        const checkpoint_state s = some_state();
        char changed[CHECKPOINT_CHANGED_BYTES];
        comet_model *a = model_with(TINY_NET, params);
        for (uint64_t i = 0; i < k; i++)
            step(a, i);
        assert_ok(checkpoint_save(folder, a, &s, NULL));
        comet_model *b = load_into_other(params, &s.settings, changed);
        assert_string_equal(changed, "");
        check_same_state(a, b);
        for (uint64_t i = k; i < STEPS; i++)
            step(b, i);
        check_same(whole, b, true);
        assert_int_equal(compression_of(whole).n_assessments, compression_of(b).n_assessments);
        comet_model_destroy(b);
        comet_model_destroy(a);
    }
    comet_model_destroy(whole);
}

static void test_bounds_resume(void **state)
{
    const comet_model_params momentum = bounded_params(COMET_OPTIMISER_SGD, 0.9f),
                             hidden = bounded_params(COMET_OPTIMISER_SGD, 0), adamw = bounded_params(COMET_OPTIMISER_ADAMW, 0);
    comet_model_params sigma = momentum;
    sigma.compression.sigma = 0.01;
    check_bounds_resume(&momentum);
    check_bounds_resume(&hidden);
    check_bounds_resume(&adamw);
    check_bounds_resume(&sigma);
}

/* Gradients that came to nothing leave no trace. */
static void test_go_back(void **state)
{
    comet_model_params params = bounded_params(COMET_OPTIMISER_SGD, 0.9f);
    params.compression.spill_folder = folder;
    comet_model *a = model_with(TINY_NET, &params), *b = model_with(TINY_NET, &params);
    float images[4 * 3 * 8 * 8];
    static const uint32_t labels[4] = {3, 3, 3, 3};
    comet_scores scores;
    for (size_t i = 0; i < COUNT_OF(images); i++)
        images[i] = (float)(i % 7);
    for (uint64_t i = 0; i < 10; i++) {
        assert_ok(model_keep(b));
        assert_ok(comet_model_gradients(b, images, labels, i, &scores));
        assert_ok(model_go_back(b));
        check_same_state(a, b);
        check_same(a, b, true);
        step(a, i);
        step(b, i);
        check_same(a, b, true);
    }
    comet_model_destroy(a);
    comet_model_destroy(b);
}

/* Without momentum, the one that bounds need must not move the weights. */
static void test_hidden_momentum(void **state)
{
    comet_model_params hidden = bounded_params(COMET_OPTIMISER_SGD, 0), plain = hidden;
    plain.compression.mode = COMET_COMPRESS_OFF;
    comet_model *a = model_with(TINY_NET, &hidden), *b = model_with(TINY_NET, &plain);
    const comet_memory with = memory_of(a), without = memory_of(b);
    assert_true(with.optimiser > 0 && with.optimiser == with.gradients && without.optimiser == 0);
    assert_true(comet_model_n_tensors(a) > comet_model_n_tensors(b));
    comet_tensor_info info = {.size = sizeof info};
    float *before = tensor(a, 0, &info), *after;
    step(a, 0);
    after = tensor(a, 0, &info);
    const size_t n = (size_t)info.n_elements;
    for (size_t i = 0; i < comet_model_n_tensors(a); i++) {
        assert_ok(comet_model_describe_tensor(a, i, &info));
        if (info.kind != COMET_TENSOR_MOMENTUM || strcmp(info.name, "conv1.weight") != 0)
            continue;
        float *momentum = tensor(a, i, &info);
        for (size_t j = 0; j < n; j++)
            if (!(fabsf(before[j] - 0.1f * momentum[j] - after[j]) < 1e-6f)) /* the first step of either is the same */
                fail_because("weight %zu moved from %g to %g, momentum %g", j, before[j], after[j], momentum[j]);
        free(momentum);
    }
    free(before);
    free(after);
    comet_model_destroy(a);
    comet_model_destroy(b);
}

/* Bounds of another rule, or none: new ones, and the user is told. */
static void test_other_bounds(void **state)
{
    const checkpoint_state s = some_state();
    comet_model_params off = model_params(1, COMET_OPTIMISER_SGD), fast = off, dense, noisy, hidden;
    char changed[CHECKPOINT_CHANGED_BYTES];
    fast.compression.mode = COMET_COMPRESS_FAST;
    dense = noisy = hidden = fast;
    dense.compression.mode = COMET_COMPRESS_DENSE;
    noisy.compression.noise = 0.1;
    off.optimiser.momentum = hidden.optimiser.momentum = 0;
    comet_model *a = model_with(TINY_NET, &fast), *b = model_with(TINY_NET, &off);
    for (uint64_t i = 0; i < 3; i++)
        step(a, i);
    const struct {
        const comet_model *from;
        const comet_model_params *to;
        const char *changed;
    } cases[] = {{a, &fast, ""}, {a, &dense, ""}, {a, &off, ""}, {a, &noisy, "bounds"}, {b, &hidden, "bounds"}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        assert_ok(checkpoint_save(folder, cases[i].from, &s, NULL));
        comet_model *c = load_into_other(cases[i].to, &s.settings, changed);
        if (strcmp(changed, cases[i].changed) != 0)
            fail_because("case %zu: '%s' changed", i, changed);
        if (cases[i].changed[0] != '\0')
            assert_int_equal(compression_of(c).n_assessments, 0);
        step(c, 3);
        comet_model_destroy(c);
    }
    comet_model_destroy(a);
    comet_model_destroy(b);
}

/* Writes a checkpoint of `model` again with other bounds. */
static void save_with_bounds(const comet_model *model, const char *bounds)
{
    safetensors_file *file = NULL;
    weights_list list;
    assert_ok(safetensors_open(&file, in_folder("previous.safetensors")));
    const safetensors_pair metadata[] = {{"comet", safetensors_metadata(file, "comet")}, {"bounds", bounds}};
    assert_ok(weights_list_make(&list, model, true));
    assert_ok(weights_list_save(&list, in_folder("last.safetensors"), NULL, metadata, 2));
    weights_list_free(&list);
    safetensors_close(file);
}

static void test_bad_bounds(void **state)
{
    static const char *const corrupt[] = {"", " ", "1 2 x", "1  2", "1 2 ", "nan", "1 inf", "0x", "1,2", "1e999"},
                             *const strange[] = {"1", "1 2 3", "-1 -1 -1 -1 -1 -1 -1 -1"};
    const comet_model_params fast = bounded_params(COMET_OPTIMISER_SGD, 0.9f);
    comet_model *model = model_with(TINY_NET, &fast);
    checkpoint_state s = some_state(), loaded;
    checkpoint_found found;
    char changed[CHECKPOINT_CHANGED_BYTES];
    assert_ok(checkpoint_save(folder, model, &s, NULL));
    assert_ok(checkpoint_save(folder, model, &s, NULL));
    for (size_t i = 0; i < COUNT_OF(corrupt); i++) {
        save_with_bounds(model, corrupt[i]);
        assert_status(checkpoint_load(folder, model, &s.settings, &loaded, &found, changed), COMET_ERROR_CORRUPT);
        assert_non_null(strstr(comet_last_error(), "of its bounds cannot be read"));
    }
    for (size_t i = 0; i < COUNT_OF(strange); i++) {
        save_with_bounds(model, strange[i]);
        assert_ok(checkpoint_load(folder, model, &s.settings, &loaded, &found, changed));
        assert_string_equal(changed, "bounds");
        step(model, i);
    }
    comet_model_destroy(model);
}

/* Any number that makes no sense is refused, and the model stays as it was. */
static void test_import_refuses(void **state)
{
    const comet_model_params fast = bounded_params(COMET_OPTIMISER_SGD, 0.9f);
    comet_model *model = model_with(TINY_NET, &fast);
    for (uint64_t i = 0; i < 3; i++)
        step(model, i);
    const size_t n = model_state_n(model);
    double *good = need_malloc(n * sizeof *good), *bad = need_malloc(n * sizeof *bad), *after = need_malloc(n * sizeof *after);
    model_state_export(model, good);
    for (size_t i = 0; i < n; i++) {
        memcpy(bad, good, n * sizeof *bad);
        bad[i] = -7;
        assert_status(model_state_import(model, bad, n), COMET_ERROR_CORRUPT);
        bad[i] = NAN;
        assert_status(model_state_import(model, bad, n), COMET_ERROR_CORRUPT);
    }
    assert_status(model_state_import(model, good, n - 1), COMET_ERROR_CORRUPT);
    assert_status(model_state_import(model, good, 0), COMET_ERROR_CORRUPT);
    model_state_export(model, after);
    assert_memory_equal(good, after, n * sizeof *good);
    assert_ok(model_state_import(model, good, n));
    free(good);
    free(bad);
    free(after);
    comet_model_destroy(model);
}

static void test_falls_back(void **state)
{
    comet_model *model = model_of(TINY_NET, 1, COMET_OPTIMISER_SGD);
    checkpoint_state s = some_state(), loaded;
    checkpoint_found found;
    char changed[CHECKPOINT_CHANGED_BYTES];
    assert_ok(checkpoint_save(folder, model, &s, NULL));
    s.step = 8;
    assert_ok(checkpoint_save(folder, model, &s, NULL));
    blob last = read_file(folder, "last.safetensors");
    for (size_t bytes = 0; bytes < last.bytes; bytes += last.bytes / 7) {
        write_file(folder, "last.safetensors", last.data, bytes);
        assert_ok(checkpoint_load(folder, model, &s.settings, &loaded, &found, changed));
        assert_int_equal(found, CHECKPOINT_PREVIOUS);
        assert_int_equal(loaded.step, 7);
        assert_non_null(strstr(comet_last_error(), "last.safetensors"));
        assert_int_not_equal(access(in_folder("last.safetensors"), F_OK), 0); /* set aside */
    }
    /* Saving again keeps the good previous one. */
    assert_ok(checkpoint_save(folder, model, &s, NULL));
    assert_int_equal(unlink(in_folder("last.safetensors")), 0);
    assert_ok(checkpoint_load(folder, model, &s.settings, &loaded, &found, changed));
    assert_int_equal(loaded.step, 7);
    write_file(folder, "previous.safetensors", last.data, 10);
    assert_status(checkpoint_load(folder, model, &s.settings, &loaded, &found, changed), COMET_ERROR_CORRUPT);
    free(last.data);
    comet_model_destroy(model);
}

static void test_other_net_or_settings(void **state)
{
    comet_model *a = model_of(TINY_NET, 1, COMET_OPTIMISER_SGD), *b = model_of(OTHER_NET, 1, COMET_OPTIMISER_SGD);
    const checkpoint_state s = some_state();
    checkpoint_state loaded;
    checkpoint_settings expected = s.settings;
    checkpoint_found found;
    char changed[CHECKPOINT_CHANGED_BYTES];
    assert_ok(checkpoint_save(folder, a, &s, NULL));
    assert_status(checkpoint_load(folder, b, &expected, &loaded, &found, changed), COMET_ERROR_CORRUPT);
    assert_non_null(strstr(comet_last_error(), "conv2.weight is 16 x 8 x 3 x 3 there, 12 x 8 x 3 x 3"));
    expected.batch = 5;
    assert_status(checkpoint_load(folder, a, &expected, &loaded, &found, changed), COMET_ERROR_CORRUPT);
    assert_non_null(strstr(comet_last_error(), "batch was 4 and is now 5"));
    expected = s.settings;
    expected.rate = 0.2;
    expected.seed = 3;
    assert_ok(checkpoint_load(folder, a, &expected, &loaded, &found, changed));
    assert_string_equal(changed, "seed, rate");
    comet_model_destroy(a);
    comet_model_destroy(b);
}

static void test_not_finite(void **state)
{
    comet_model *model = model_of(TINY_NET, 1, COMET_OPTIMISER_SGD);
    const checkpoint_state s = some_state();
    comet_tensor_info info = {.size = sizeof info};
    assert_ok(checkpoint_save(folder, model, &s, NULL));
    const blob before = read_file(folder, "last.safetensors");
    float *x = tensor(model, 0, &info);
    x[3] = NAN;
    assert_ok(comet_model_tensor_write(model, 0, x));
    assert_status(checkpoint_save(folder, model, &s, NULL), COMET_ERROR_DIVERGED);
    assert_non_null(strstr(comet_last_error(), "element 3 of conv1.weight"));
    const blob after = read_file(folder, "last.safetensors");
    assert_true(blobs_equal(before, after));
    free(x);
    free(before.data);
    free(after.data);
    comet_model_destroy(model);
}

static void test_lock(void **state)
{
    int lock = -1, status = 0;
    assert_ok(checkpoint_lock(folder, &lock));
    const pid_t child = fork();
    if (child == 0)
        _exit(checkpoint_lock(folder, &lock) == COMET_ERROR_IO ? 0 : 1);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    checkpoint_unlock(lock);
    assert_ok(checkpoint_lock(folder, &lock));
    checkpoint_unlock(lock);
}

/* Weights of a net with another number of classes are refused in such words, and say for how many they are. */
static void check_other_classes(const char *weights)
{
    char *text = NULL, *number = NULL;
    comet_net *tiny = NULL;
    assert_ok(comet_net_read(&tiny, "text", TINY_NET, strlen(TINY_NET)));
    const comet_layer *last = comet_net_layer(tiny, comet_net_n_values(tiny) - 1);
    uint64_t classes = 0;
    assert_ok(comet_weights_classes(weights, tiny, &classes));
    assert_int_equal(classes, last->out_channels);
    assert_status(comet_weights_classes("/nonexistent", tiny, &classes), COMET_ERROR_IO);
    assert_ok(comet_net_write(tiny, &text));
    number = strrchr(text, '=') + 1;
    *number = (char)(*number == '9' ? '1' : *number + 1);
    comet_model *other = model_of(text, 1, COMET_OPTIMISER_SGD);
    assert_status(comet_weights_load(other, weights), COMET_ERROR_CORRUPT);
    assert_non_null(strstr(comet_last_error(), " classes, this net for "));
    assert_ok(comet_weights_classes(weights, comet_model_net(other), &classes));
    assert_int_equal(classes, last->out_channels);
    comet_model_destroy(other);
    comet_net_destroy(tiny);
    comet_text_free(text);
}

/* Whoever locks the folder removes what a killed run was writing, also of files that it does not write itself. */
static void test_lock_removes_temporaries(void **state)
{
    static const char *const names[] = {"last.safetensors", "previous.safetensors", "best.safetensors", "state.json"};
    int lock = -1;
    write_file(folder, ".comet-notes.tmp", (const uint8_t *)"x", 1);
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        char *name = NULL;
        close(comet_temporary_open(in_folder(names[i]), &name)); /* closed, it is as if its writer were gone */
        assert_ok(checkpoint_lock(folder, &lock));
        checkpoint_unlock(lock);
        assert_int_not_equal(access(name, F_OK), 0);
        free(name);
    }
    assert_int_equal(unlink(in_folder(".comet-notes.tmp")), 0);
}

static void test_weights_files(void **state)
{
    comet_model *a = model_of(TINY_NET, 1, COMET_OPTIMISER_SGD), *b = model_of(TINY_NET, 2, COMET_OPTIMISER_ADAMW);
    comet_model *other = model_of(OTHER_NET, 1, COMET_OPTIMISER_SGD);
    const checkpoint_state s = some_state();
    char *text = NULL, weights[320], exported[320];
    snprintf(weights, sizeof weights, "%s", in_folder("w.safetensors"));
    snprintf(exported, sizeof exported, "%s", in_folder("e.safetensors"));
    step(a, 0);
    assert_ok(comet_weights_save(a, weights));
    assert_ok(comet_weights_net(weights, &text));
    assert_non_null(strstr(text, "conv2"));
    comet_text_free(text);
    comet_model *c = model_of(TINY_NET, 3, COMET_OPTIMISER_SGD);
    assert_ok(comet_weights_load(c, weights));
    check_same(a, c, false);
    assert_ok(checkpoint_save(folder, a, &s, NULL)); /* a checkpoint is a weights file too */
    assert_ok(comet_weights_load(b, in_folder("last.safetensors")));
    assert_ok(comet_weights_export(in_folder("last.safetensors"), exported));
    const blob x = read_file(folder, "w.safetensors"), y = read_file(folder, "e.safetensors");
    assert_true(blobs_equal(x, y));
    assert_status(comet_weights_load(other, weights), COMET_ERROR_CORRUPT);
    assert_status(comet_weights_load(a, "/nonexistent"), COMET_ERROR_IO);
    check_other_classes(weights);
    free(x.data);
    free(y.data);
    comet_model_destroy(other);
    comet_model_destroy(c);
    comet_model_destroy(b);
    comet_model_destroy(a);
}

static void test_describe(void **state)
{
    comet_model *a = model_of(TINY_NET, 1, COMET_OPTIMISER_ADAMW);
    checkpoint_state s = some_state();
    comet_checkpoint_info info;
    comet_checkpoint_info_init(&info);
    assert_status(comet_checkpoint_describe(folder, &info), COMET_ERROR_IO);
    s.settings.optimiser = COMET_OPTIMISER_ADAMW;
    s.settings.accumulate = 3;
    s.settings.compress = 1;
    s.settings.noise = 0.01;
    assert_ok(checkpoint_save(folder, a, &s, NULL));
    assert_ok(comet_checkpoint_describe(folder, &info));
    assert_true(info.step == 7 && info.epoch == 2 && info.batch_in_epoch == 3 && info.batch == 4 && info.accumulate == 3);
    assert_true(info.seed == UINT64_MAX - 1 && info.optimiser == COMET_OPTIMISER_ADAMW && info.rate == 0.1);
    assert_true(info.lossy && info.noise == 0.01 && info.sigma == 0 && isnan(info.best_top1) && !info.previous);
    assert_string_equal(info.net, "tiny");
    s.step = 8;
    s.best_top1 = 0.25;
    assert_ok(checkpoint_save(folder, a, &s, NULL));
    assert_int_equal(truncate(in_folder("last.safetensors"), 100), 0);
    assert_ok(comet_checkpoint_describe(folder, &info));
    assert_true(info.previous && info.step == 7 && isnan(info.best_top1));
    info.size = 0;
    assert_status(comet_checkpoint_describe(folder, &info), COMET_ERROR_ARGUMENT);
    comet_model_destroy(a);
}

/* A resumed run computes convolutions as the file says, so numbers that mean nothing are refused. */
static void test_unknown_convolutions(void **state)
{
    static const uint64_t unknown[] = {COMET_CONVOLUTIONS_DIRECT + 1, UINT64_C(1) << 32, UINT64_MAX};
    comet_model *a = model_of(TINY_NET, 1, COMET_OPTIMISER_SGD);
    checkpoint_state s = some_state();
    comet_checkpoint_info info;
    comet_checkpoint_info_init(&info);
    s.settings.convolutions = COMET_CONVOLUTIONS_DIRECT;
    assert_ok(checkpoint_save(folder, a, &s, NULL));
    assert_ok(comet_checkpoint_describe(folder, &info));
    assert_int_equal(info.convolutions, COMET_CONVOLUTIONS_DIRECT);
    for (size_t i = 0; i < COUNT_OF(unknown); i++) {
        s.settings.convolutions = unknown[i];
        assert_ok(checkpoint_save(folder, a, &s, NULL));
        assert_status(comet_checkpoint_describe(folder, &info), COMET_ERROR_CORRUPT);
        assert_non_null(strstr(comet_last_error(), "no valid 'convolutions'"));
    }
    comet_model_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_round_trip, empty),
        cmocka_unit_test_teardown(test_every_figure_comes_back, empty),
        cmocka_unit_test_teardown(test_bounds_resume, empty),
        cmocka_unit_test_teardown(test_go_back, empty),
        cmocka_unit_test_teardown(test_hidden_momentum, empty),
        cmocka_unit_test_teardown(test_other_bounds, empty),
        cmocka_unit_test_teardown(test_bad_bounds, empty),
        cmocka_unit_test_teardown(test_import_refuses, empty),
        cmocka_unit_test_teardown(test_falls_back, empty),
        cmocka_unit_test_teardown(test_other_net_or_settings, empty),
        cmocka_unit_test_teardown(test_not_finite, empty),
        cmocka_unit_test_teardown(test_lock, empty),
        cmocka_unit_test_teardown(test_lock_removes_temporaries, empty),
        cmocka_unit_test_teardown(test_weights_files, empty),
        cmocka_unit_test_teardown(test_describe, empty),
        cmocka_unit_test_teardown(test_unknown_convolutions, empty),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
