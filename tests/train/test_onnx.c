/*
 * Nets as ONNX files.
 *
 *   test_onnx                  what the writer refuses, and that it leaves nothing half done
 *   test_onnx --list           names of the built-in nets
 *   test_onnx FOLDER SALT NET[:IMAGE]...
 *                              for tests/train/onnx_files: NET.onnx with weights and running statistics by formula; NET.images
 * and NET.scores, raw floats of a batch of 3. "operators" are all of operators.nets, "special" is one with unusual names and
 * dropouts
 */
#include "training.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* Means about 0 and variances about 1, so that they matter; those of formula_weights are 0 and 1. */
static void fill_statistics(comet_model *model)
{
    for (size_t i = 0; i < comet_model_n_tensors(model); i++) {
        comet_tensor_info info = {.size = sizeof info};
        assert_ok(comet_model_describe_tensor(model, i, &info));
        if (info.kind != COMET_TENSOR_STATISTIC)
            continue;
        float *x = need_malloc(info.n_elements * sizeof *x);
        const bool variance = strstr(info.name, ".running_var") != NULL;
        formula_fill(info.name, variance ? 1 : 0, variance ? 0.5 : 0.2, info.n_elements, x);
        assert_ok(comet_model_tensor_write(model, i, x));
        free(x);
    }
}

static trial evaluated(const comet_net *net)
{
    comet_model_params params = trial_params(3);
    params.inference = true;
    trial t = trial_make(net, &params);
    fill_statistics(t.model);
    return t;
}

/* ---- files for tests/train/onnx_files ---- */

static void write_floats(const char *folder, const char *name, const char *ending, const float *x, uint64_t n)
{
    char file[160];
    snprintf(file, sizeof file, "%s%s", name, ending);
    write_file(folder, file, (const uint8_t *)x, (size_t)n * sizeof *x);
}

static void write_case(const char *folder, const comet_net *net)
{
    trial t = evaluated(net);
    char path[4096];
    comet_scores scores;
    snprintf(path, sizeof path, "%s/%s.onnx", folder, comet_net_name(net));
    if (comet_weights_save_onnx(t.model, NULL, path) != COMET_OK)
        fail_because("%s: %s", comet_net_name(net), comet_last_error());
    assert_ok(comet_model_evaluate(t.model, t.images, t.labels, t.batch, &scores));
    write_floats(folder, comet_net_name(net), ".images", t.images, t.n_images);
    write_floats(folder, comet_net_name(net), ".scores", comet_model_outputs(t.model), (uint64_t)t.batch * t.classes);
    trial_free(&t);
}

static const char *given_folder;

static void write_operator_net(const comet_net *net)
{
    write_case(given_folder, net);
}

/* Dropout first and last, and names that those of the graph could meet. */
static const char special_text[] =
    "net special\ninput 3 8 8\nfirst = dropout\nscores = conv out=4 kernel=3\nscores.weight = relu\n"
    "flat = flatten\nfc = linear out=10 bias=no\nlast = dropout\n";

static void write_special_net(void)
{
    comet_net *net = net_of(special_text);
    write_case(given_folder, net);
    comet_net_destroy(net);
}

/* "resnet18:64" */
static void write_zoo_net(const char *word)
{
    char name[COMET_MAX_LAYER_NAME];
    comet_net *net = NULL;
    const char *colon = strchr(word, ':');
    snprintf(name, sizeof name, "%.*s", colon ? (int)(colon - word) : (int)strlen(word), word);
    assert_ok(comet_net_zoo(&net, name, 0, colon ? (uint32_t)strtoul(colon + 1, NULL, 10) : 0, 10));
    write_case(given_folder, net);
    comet_net_destroy(net);
}

/* ---- tests ---- */

static char folder[256];

static int set_up(void **state)
{
    const char *base = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/comet-onnx.XXXXXX", base ? base : "/tmp");
    return mkdtemp(folder) ? 0 : 1;
}

static int tear_down(void **state)
{
    return rmdir(folder); /* nothing is left in it */
}

static const char net_text[] = "net small\ninput 3 8 8\nc = conv out=4 kernel=3\nb = batch_norm\nflat = flatten\n"
                               "fc = linear out=5\n";

static void test_all_or_nothing(void **state)
{
    char path[300], into_nothing[300];
    comet_net *net = net_of(net_text);
    trial t = evaluated(net);
    snprintf(path, sizeof path, "%s/a.onnx", folder);
    snprintf(into_nothing, sizeof into_nothing, "%s/none/a.onnx", folder);
    assert_status(comet_weights_save_onnx(t.model, NULL, into_nothing), COMET_ERROR_IO);
    assert_status(comet_weights_save_onnx(t.model, into_nothing, path), COMET_ERROR_IO); /* the metadata's file is not there */
    assert_int_equal(access(path, F_OK), -1);
    comet_tensor_info info;
    const size_t bias = tensor_index(t.model, COMET_TENSOR_WEIGHT, "fc.bias");
    float *x = tensor_read(t.model, bias, &info);
    x[2] = NAN;
    assert_ok(comet_model_tensor_write(t.model, bias, x));
    assert_status(comet_weights_save_onnx(t.model, NULL, path), COMET_ERROR_DIVERGED);
    assert_string_equal(comet_last_error(), "element 2 of fc.bias is not finite");
    assert_int_equal(access(path, F_OK), -1);
    x[2] = 0;
    assert_ok(comet_model_tensor_write(t.model, bias, x));
    assert_ok(comet_weights_save_onnx(t.model, NULL, path));
    const blob first = read_file(folder, "a.onnx");
    assert_ok(comet_weights_save_onnx(t.model, NULL, path));
    const blob second = read_file(folder, "a.onnx");
    assert_true(blobs_equal(first, second));
    free(first.data);
    free(second.data);
    free(x);
    unlink(path);
    trial_free(&t);
    comet_net_destroy(net);
}

int main(int n_words, char **words)
{
    if (n_words == 2 && strcmp(words[1], "--list") == 0) {
        for (size_t i = 0; comet_zoo_name(i); i++)
            puts(comet_zoo_name(i));
        return 0;
    }
    if (n_words > 2) {
        given_folder = words[1];
        formula_salt(words[2]);
        for (int i = 3; i < n_words; i++)
            if (strcmp(words[i], "operators") == 0)
                for_operator_nets(write_operator_net);
            else if (strcmp(words[i], "special") == 0)
                write_special_net();
            else
                write_zoo_net(words[i]);
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_or_nothing),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
