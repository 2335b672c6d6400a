/* Checkpoints and weights files of real models: everything comes back, damage is found, other nets are refused by name. */
#include "testing.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "comet/train.h"
#include "train/checkpoint.h"

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

static comet_model *model_of(const char *text, uint64_t seed, comet_optimiser_kind kind)
{
    comet_net *net = NULL;
    comet_model *model = NULL;
    comet_model_params params;
    comet_model_params_init(&params);
    params.batch = 4;
    params.n_threads = 1;
    params.seed = seed;
    comet_optimiser_init(&params.optimiser, kind);
    assert_ok(comet_net_read(&net, "text", text, strlen(text)));
    assert_ok(comet_model_create(&model, net, &params));
    comet_net_destroy(net);
    return model;
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
    assert_ok(comet_model_tensor_info(model, index, info));
    float *x = need_malloc((size_t)info->n_elements * sizeof *x);
    assert_ok(comet_model_tensor_read(model, index, x));
    return x;
}

static void check_same(const comet_model *a, const comet_model *b, bool optimiser)
{
    assert_int_equal(comet_model_n_tensors(a), comet_model_n_tensors(b));
    for (size_t i = 0; i < comet_model_n_tensors(a); i++) {
        comet_tensor_info info;
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
        assert_ok(checkpoint_save(folder, a, &saved));
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

static void test_falls_back(void **state)
{
    comet_model *model = model_of(TINY_NET, 1, COMET_OPTIMISER_SGD);
    checkpoint_state s = some_state(), loaded;
    checkpoint_found found;
    char changed[CHECKPOINT_CHANGED_BYTES];
    assert_ok(checkpoint_save(folder, model, &s));
    s.step = 8;
    assert_ok(checkpoint_save(folder, model, &s));
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
    assert_ok(checkpoint_save(folder, model, &s));
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
    assert_ok(checkpoint_save(folder, a, &s));
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
    comet_tensor_info info;
    assert_ok(checkpoint_save(folder, model, &s));
    const blob before = read_file(folder, "last.safetensors");
    float *x = tensor(model, 0, &info);
    x[3] = NAN;
    assert_ok(comet_model_tensor_write(model, 0, x));
    assert_status(checkpoint_save(folder, model, &s), COMET_ERROR_DIVERGED);
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
    assert_ok(checkpoint_save(folder, a, &s)); /* a checkpoint is a weights file too */
    assert_ok(comet_weights_load(b, in_folder("last.safetensors")));
    assert_ok(comet_weights_export(in_folder("last.safetensors"), exported));
    const blob x = read_file(folder, "w.safetensors"), y = read_file(folder, "e.safetensors");
    assert_true(blobs_equal(x, y));
    assert_status(comet_weights_load(other, weights), COMET_ERROR_CORRUPT);
    assert_status(comet_weights_load(a, "/nonexistent"), COMET_ERROR_IO);
    free(x.data);
    free(y.data);
    comet_model_destroy(other);
    comet_model_destroy(c);
    comet_model_destroy(b);
    comet_model_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_round_trip, empty),
        cmocka_unit_test_teardown(test_falls_back, empty),
        cmocka_unit_test_teardown(test_other_net_or_settings, empty),
        cmocka_unit_test_teardown(test_not_finite, empty),
        cmocka_unit_test_teardown(test_lock, empty),
        cmocka_unit_test_teardown(test_weights_files, empty),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
