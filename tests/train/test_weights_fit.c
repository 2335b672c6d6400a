/* Weights onto a net that they do not fit altogether: another number of classes, parts of other nets, names with prefixes. */
#include "training.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "data_files.h"
#include "train/files/weights.h"

#include "tiny_net.h"

#define NET_OF(classes)                           \
    "net tiny\n"                                  \
    "input 3 8 8\n"                               \
    "conv1 = conv out=8 kernel=3 pad=1 bias=no\n" \
    "bn1 = batch_norm\n"                          \
    "relu1 = relu\n"                              \
    "avg = global_avg_pool\n"                     \
    "flat = flatten\n"                            \
    "fc = linear out=" classes "\n"
#define WIDER                                                                                            \
    "net tiny\ninput 3 8 8\nconv1 = conv out=8 kernel=3 pad=1 bias=no\nbn1 = batch_norm\nrelu1 = relu\n" \
    "conv2 = conv out=12 kernel=1\navg = global_avg_pool\nflat = flatten\nfc = linear out=4\n"

static comet_model *model_of(const char *text, uint64_t seed)
{
    comet_net *net = net_of(text);
    comet_model *model = NULL;
    comet_model_params params = trial_params(2);
    params.seed = seed;
    assert_ok(comet_model_create(&model, net, &params));
    comet_net_destroy(net);
    return model;
}

static bool tensors_equal(const comet_model *a, const comet_model *b, comet_tensor_kind kind, const char *name)
{
    comet_tensor_info info = {.size = sizeof info};
    float *x = tensor_read(a, tensor_index(a, kind, name), &info), *y = tensor_read(b, tensor_index(b, kind, name), NULL);
    const bool equal = memcmp(x, y, (size_t)info.n_elements * sizeof *x) == 0;
    free(x);
    free(y);
    return equal;
}

/* ---- files with other names ---- */

typedef struct renaming {
    safetensors_file *from;
    size_t n;
    const char *const *prefixes; /* one of them before each name, in turns */
    size_t n_prefixes;
    float *first; /* replaces the first element of the first tensor, or NULL */
    char name[256];
} renaming;

static comet_status describe_renamed(void *user, size_t index, safetensors_tensor *t)
{
    renaming *r = user;
    *t = *safetensors_at(r->from, index);
    snprintf(r->name, sizeof r->name, "%s%s", r->prefixes[index % r->n_prefixes], t->name);
    t->name = r->name;
    return COMET_OK;
}

static comet_status fill_renamed(void *user, size_t index, uint64_t first, uint64_t n, void *elements)
{
    renaming *r = user;
    const comet_status status = safetensors_read_part(r->from, safetensors_at(r->from, index), first, n, elements);
    if (index == 0 && first == 0 && r->first)
        memcpy(elements, r->first, sizeof *r->first);
    return status;
}

static void save_renamed(const char *from, const char *to, const char *const *prefixes, size_t n_prefixes, float *first)
{
    renaming r = {.prefixes = prefixes, .n_prefixes = n_prefixes, .first = first};
    assert_ok(safetensors_open(&r.from, from));
    while (safetensors_at(r.from, r.n))
        r.n++;
    const safetensors_source source = {.user = &r, .n_tensors = r.n, .describe = describe_renamed, .fill = fill_renamed};
    assert_ok(safetensors_save(to, NULL, &source));
    safetensors_close(r.from);
}

/* ---- tests ---- */

static void test_plain_names(void **state)
{
    assert_string_equal(weights_plain_name("conv1.weight"), "conv1.weight");
    assert_string_equal(weights_plain_name("module.conv1.weight"), "conv1.weight");
    assert_string_equal(weights_plain_name("_orig_mod.module.conv1.weight"), "conv1.weight");
    assert_string_equal(weights_plain_name("module._orig_mod.module.fc.bias"), "fc.bias");
    assert_string_equal(weights_plain_name("submodule.fc.bias"), "submodule.fc.bias");
    assert_string_equal(weights_plain_name("module."), "");
}

static void test_all_fits(void **state)
{
    const char *file = text_of("%s/w.safetensors", (char *)*state);
    comet_model *a = model_of(NET_OF("4"), 1), *b = model_of(NET_OF("4"), 2);
    comet_weights_fit fit;
    comet_weights_fit_init(&fit);
    assert_ok(comet_weights_save(a, file));
    assert_ok(comet_weights_load_fitting(b, file, COMET_WEIGHTS_NEW_HEAD, &fit));
    assert_true(fit.n_tensors == 7 && fit.n_loaded == 7 && fit.n_new == 0 && fit.n_left_out == 0);
    assert_true(fit.classes == 4 && fit.classes_in_file == 4);
    assert_true(strncmp(fit.summary, "loaded 7 of 7 tensors from ", 27) == 0 && !strchr(fit.summary, ';'));
    assert_string_equal(fit.list, "");
    assert_true(tensors_equal(a, b, COMET_TENSOR_WEIGHT, "fc.weight"));
    comet_weights_fit_free(&fit);
    fit.size = 0;
    assert_status(comet_weights_load_fitting(b, file, COMET_WEIGHTS_NEW_HEAD, &fit), COMET_ERROR_ARGUMENT);
    assert_status(comet_weights_load_fitting(b, file, (comet_weights_rule)7, NULL), COMET_ERROR_ARGUMENT);
    comet_model_destroy(a);
    comet_model_destroy(b);
}

/* The head is that of a new model of the same seed, everything else that of the file. */
static void test_new_head(void **state)
{
    const char *file = text_of("%s/w.safetensors", (char *)*state);
    comet_model *a = model_of(NET_OF("4"), 1), *b = model_of(NET_OF("6"), 2), *fresh = model_of(NET_OF("6"), 2);
    comet_weights_fit fit;
    comet_weights_fit_init(&fit);
    assert_ok(comet_weights_save(a, file));
    assert_status(comet_weights_load(b, file), COMET_ERROR_CORRUPT);
    assert_true(tensors_equal(b, fresh, COMET_TENSOR_WEIGHT, "conv1.weight"));
    assert_ok(comet_weights_load_fitting(b, file, COMET_WEIGHTS_NEW_HEAD, &fit));
    assert_true(fit.n_loaded == 5 && fit.n_new == 2 && fit.n_left_out == 0 && fit.classes == 6 && fit.classes_in_file == 4);
    assert_non_null(strstr(fit.summary, "loaded 5 of 7 tensors from "));
    assert_non_null(strstr(fit.summary, "; begin anew: fc.weight, fc.bias (6 classes, the file has 4)"));
    assert_string_equal(fit.list, "begins anew: fc.weight, 6 x 8; in the file it is 4 x 8\n"
                                  "begins anew: fc.bias, 6; in the file it is 4\n");
    static const char *const taken[] = {"conv1.weight", "bn1.weight", "bn1.bias"};
    for (size_t i = 0; i < COUNT_OF(taken); i++)
        assert_true(tensors_equal(a, b, COMET_TENSOR_WEIGHT, taken[i]));
    assert_true(tensors_equal(b, fresh, COMET_TENSOR_WEIGHT, "fc.weight"));
    assert_true(tensors_equal(b, fresh, COMET_TENSOR_WEIGHT, "fc.bias"));
    comet_weights_fit_free(&fit);
    comet_model_destroy(a);
    comet_model_destroy(b);
    comet_model_destroy(fresh);
}

/* Other nets are refused with a word about the way; with that, what fits is taken. */
static void test_partial(void **state)
{
    const char *file = text_of("%s/w.safetensors", (char *)*state);
    comet_model *a = model_of(WIDER, 1), *b = model_of(TINY_NET, 2), *narrow = model_of(NET_OF("4"), 3);
    comet_weights_fit fit;
    comet_weights_fit_init(&fit);
    assert_ok(comet_weights_save(a, file));
    assert_status(comet_weights_load_fitting(b, file, COMET_WEIGHTS_NEW_HEAD, NULL), COMET_ERROR_CORRUPT);
    assert_non_null(strstr(comet_last_error(), "another net: conv2.weight is 12 x 8 x 1 x 1 there, 16 x 8 x 3 x 3 in this net; "
                                               "partial loading takes what fits"));
    assert_false(tensors_equal(a, b, COMET_TENSOR_WEIGHT, "conv1.weight"));
    assert_status(comet_weights_load_fitting(narrow, file, COMET_WEIGHTS_NEW_HEAD, NULL), COMET_ERROR_CORRUPT);
    assert_non_null(strstr(comet_last_error(), "fc.weight is 4 x 12 there, 4 x 8 in this net"));
    assert_ok(comet_weights_load_fitting(b, file, COMET_WEIGHTS_PARTIAL, &fit));
    assert_true(fit.n_tensors == 9 && fit.n_loaded == 5 && fit.n_new == 4 && fit.n_left_out == 0);
    assert_true(tensors_equal(a, b, COMET_TENSOR_WEIGHT, "conv1.weight"));
    comet_weights_fit_free(&fit);
    assert_ok(comet_weights_load_fitting(narrow, file, COMET_WEIGHTS_PARTIAL, &fit));
    assert_true(fit.n_loaded == 5 && fit.n_new == 2 && fit.n_left_out == 2);
    assert_non_null(strstr(fit.summary, "; begin anew: fc.weight, fc.bias; left out: conv2.weight, conv2.bias"));
    assert_non_null(strstr(fit.list, "left out: conv2.bias, 12; the net has none\n"));
    comet_weights_fit_free(&fit);
    comet_model *none = model_of("net none\ninput 3 8 8\nf = flatten\nhead = linear out=4\n", 1);
    assert_status(comet_weights_load_fitting(none, file, COMET_WEIGHTS_PARTIAL, NULL), COMET_ERROR_CORRUPT);
    assert_non_null(strstr(comet_last_error(), "none of its tensors fits the net none"));
    comet_model_destroy(none);
    comet_model_destroy(narrow);
    comet_model_destroy(a);
    comet_model_destroy(b);
}

/* What DDP and torch.compile put before names does not matter; a tensor that is there twice is not read twice. */
static void test_prefixes(void **state)
{
    static const char *const mixed[] = {"module.", "_orig_mod.", "module._orig_mod.", ""}, *const wrong[] = {"modul."};
    const char *file = text_of("%s/w.safetensors", (char *)*state), *other = text_of("%s/o.safetensors", (char *)*state);
    comet_model *a = model_of(NET_OF("4"), 1), *b = model_of(NET_OF("4"), 2);
    uint64_t classes = 0;
    assert_ok(comet_weights_save(a, file));
    save_renamed(file, other, mixed, COUNT_OF(mixed), NULL);
    comet_net *net = net_of(NET_OF("4"));
    assert_ok(comet_weights_classes(other, net, &classes));
    assert_int_equal(classes, 4);
    comet_net_destroy(net);
    assert_ok(comet_weights_load(b, other));
    assert_true(tensors_equal(a, b, COMET_TENSOR_WEIGHT, "conv1.weight"));
    assert_true(tensors_equal(a, b, COMET_TENSOR_WEIGHT, "fc.bias"));
    assert_true(tensors_equal(a, b, COMET_TENSOR_STATISTIC, "bn1.running_var"));
    save_renamed(file, other, wrong, 1, NULL);
    assert_status(comet_weights_load(b, other), COMET_ERROR_CORRUPT);
    comet_model_destroy(a);
    comet_model_destroy(b);
}

/* A weight that is not finite is named, and nothing is loaded; in what is not loaded it does not matter. */
static void test_not_finite(void **state)
{
    static const char *const same[] = {"module."};
    const char *file = text_of("%s/w.safetensors", (char *)*state), *other = text_of("%s/o.safetensors", (char *)*state);
    comet_model *a = model_of(NET_OF("4"), 1), *b = model_of(NET_OF("6"), 2), *fresh = model_of(NET_OF("6"), 2);
    float bad[] = {INFINITY, -INFINITY, NAN};
    assert_ok(comet_weights_save(a, file));
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        save_renamed(file, other, same, 1, &bad[i]);
        assert_status(comet_weights_load_fitting(b, other, (comet_weights_rule)(1 + i % 2), NULL), COMET_ERROR_CORRUPT);
        assert_non_null(strstr(comet_last_error(), "element 0 of module.conv1.weight is not finite"));
        assert_true(tensors_equal(b, fresh, COMET_TENSOR_STATISTIC, "bn1.running_var"));
    }
    comet_model_destroy(a);
    comet_model_destroy(b);
    comet_model_destroy(fresh);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain_names), IN_FOLDER(test_all_fits),   IN_FOLDER(test_new_head), IN_FOLDER(test_partial),
        IN_FOLDER(test_prefixes),           IN_FOLDER(test_not_finite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
