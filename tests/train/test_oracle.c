/*
 * PyTorch is the oracle: files of tests/train/golden/torch (tools/make_train_golden.py) hold the losses of some steps, and
 * norms and samples of every gradient and running statistic of the first. The engine must find the same from the same weights
 * and images.
 *
 *   test_oracle              the stored files
 *   test_oracle FOLDER       the files there (tests/train/live_oracle makes some with fresh weights)
 *
 * Files made with --autocast are for the engine in bf16, which may be about as far from torch's doubles as torch's autocast.
 */
#include "training.h"

#include <cjson/cJSON.h>
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Relative: of a loss, and of a tensor's norm. */
static const double LOSS_TOLERANCE = 1e-3, TENSOR_TOLERANCE = 1e-3;
/* Where rounding flips a relu, torch's own floats are up to 1e-2 from its doubles. No stored case is like that; with fresh
 * weights one may be, and gradients may then be four times as far as they, losses after updates with such gradients half as
 * far. */
static const double STORED_FLOAT_ERROR = 2e-4, TIMES_FLOAT_ERROR = 4, SHARE_OF_FLOAT_ERROR = 0.5;
/* Winograd rounds a little more than direct convolution does (6e-7 of an output), and kernels for other CPUs than those the
 * cases were chosen on in another order; where that flips relus and maxima in a deep net, gradients of the layers before show
 * it. Losses do not. */
static const double FLIPPED_TENSOR_TOLERANCE = 3e-2;
/* In bf16: both round at other places, and what is sampled scatters, most of all where the maximum of a window becomes
 * another's. */
static const double BF16_TOLERANCE = 3e-2, TIMES_AUTOCAST_ERROR = 2, TIMES_WITH_MAXIMA = 4;
/* Gradients that are zero but for rounding are measured by all gradients together. */
static const double NEGLIGIBLE = 1e-4;

static const char *folder = COMET_TESTS_DIR "/train/golden/torch";
static bool stored = true; /* `folder` is that one */

typedef struct oracle_case {
    const cJSON *json;
    const char *name;
    trial t;
    bool winograd, autocast;
    double total; /* norm of all gradients */
    double worst_loss, worst_tensor;
} oracle_case;

static const cJSON *field(const cJSON *object, const char *key)
{
    const cJSON *found = cJSON_GetObjectItemCaseSensitive(object, key);
    if (!found)
        fail_because("a golden file has no %s", key);
    return found;
}

static double number(const oracle_case *c, const char *key)
{
    return field(c->json, key)->valuedouble;
}

/* ---- setting up ---- */

static comet_net *net_of_case(const oracle_case *c)
{
    comet_net *net = NULL, *plain;
    if (number(c, "image") == 0)
        net = operator_net_named(c->name);
    else
        assert_ok(comet_net_zoo(&net, c->name, 0, (uint32_t)number(c, "image"), 0));
    plain = net_without_dropout(net);
    comet_net_destroy(net);
    return plain;
}

static oracle_case case_begin(const cJSON *json, bool winograd)
{
    oracle_case c = {.json = json, .name = field(json, "net")->valuestring, .winograd = winograd};
    c.autocast = cJSON_HasObjectItem(json, "autocast");
    comet_model_params p = trial_params((uint32_t)number(&c, "batch"));
    p.n_threads = 2;
    p.convolutions = winograd ? COMET_CONVOLUTIONS_RULE : COMET_CONVOLUTIONS_DIRECT;
    p.precision = c.autocast ? COMET_PRECISION_BF16 : COMET_PRECISION_F32;
    p.force_precision = true;
    p.label_smoothing = (float)number(&c, "label_smoothing");
    p.optimiser.momentum = (float)number(&c, "momentum");
    p.optimiser.weight_decay = (float)number(&c, "weight_decay");
    const cJSON *freeze = cJSON_GetObjectItemCaseSensitive(json, "freeze");
    p.freeze = freeze ? freeze->valuestring : NULL;
    p.rates = freeze && field(json, "rates")->valuestring[0] != '\0' ? field(json, "rates")->valuestring : NULL;
    formula_salt(field(json, "salt")->valuestring);
    formula_residual(cJSON_HasObjectItem(json, "residual") ? number(&c, "residual") : 1);
    comet_net *net = net_of_case(&c);
    c.t = trial_make(net, &p);
    comet_net_destroy(net);
    return c;
}

/* ---- comparing ---- */

static double share(double error, double of)
{
    return error == 0 ? 0 : error / of;
}

/* Largest relative error of the norm and of the samples, as root of their mean square. */
static double tensor_error(const oracle_case *c, const char *name, uint64_t n, const float *x, const cJSON *golden)
{
    const cJSON *samples = field(golden, "samples"), *sample;
    const double norm = field(golden, "norm")->valuedouble, scale = fmax(norm, NEGLIGIBLE * c->total);
    const uint64_t n_samples = (uint64_t)cJSON_GetArraySize(samples);
    double sum = 0;
    uint32_t i = 0;
    cJSON_ArrayForEach(sample, samples)
    {
        const double error = (double)x[n > n_samples ? formula_position(name, i, n) : i] - sample->valuedouble;
        sum += error * error;
        i++;
    }
    return fmax(share(fabs(norm_of(n, x) - norm), scale), share(sqrt(sum / (double)n_samples), scale / sqrt((double)n)));
}

static void check_tensor(oracle_case *c, comet_tensor_kind kind, const cJSON *golden)
{
    comet_tensor_info info = {.size = sizeof info};
    float *x = tensor_read(c->t.model, tensor_index(c->t.model, kind, golden->string), &info);
    const double error = tensor_error(c, golden->string, info.n_elements, x, golden);
    c->worst_tensor = fmax(c->worst_tensor, error);
    const bool deep = number(c, "image") > 0, /* of the zoo */
        may_flip = c->winograd || (deep && kind == COMET_TENSOR_GRADIENT && comet_isa_active() != COMET_ISA_AVX512);
    const double times = !c->autocast                                                ? TIMES_FLOAT_ERROR
                         : has_layer(comet_model_net(c->t.model), COMET_OP_MAX_POOL) ? TIMES_WITH_MAXIMA
                                                                                     : TIMES_AUTOCAST_ERROR;
    const double allowed = c->autocast ? BF16_TOLERANCE : may_flip ? FLIPPED_TENSOR_TOLERANCE : TENSOR_TOLERANCE;
    if (!(error <= fmax(allowed, times * number(c, "float_error"))))
        fail_because("%s: %s of %s is %g of its norm from torch's", c->name,
                     kind == COMET_TENSOR_GRADIENT ? "gradient" : "statistic", golden->string, error);
    free(x);
}

static size_t count_kind(const comet_model *model, comet_tensor_kind kind)
{
    size_t n = 0;
    for (size_t i = 0; i < comet_model_n_tensors(model); i++) {
        comet_tensor_info info = {.size = sizeof info};
        assert_ok(comet_model_describe_tensor(model, i, &info));
        n += info.kind == kind;
    }
    return n;
}

static void check_tensors(oracle_case *c, comet_tensor_kind kind, const char *key)
{
    const cJSON *all = field(c->json, key), *golden;
    assert_int_equal(cJSON_GetArraySize(all), count_kind(c->t.model, kind));
    cJSON_ArrayForEach(golden, all) check_tensor(c, kind, golden);
}

static void check_first_step(oracle_case *c)
{
    const cJSON *golden;
    double sum = 0;
    cJSON_ArrayForEach(golden, field(c->json, "gradients")) sum += pow(field(golden, "norm")->valuedouble, 2);
    c->total = sqrt(sum);
    check_tensors(c, COMET_TENSOR_GRADIENT, "gradients");
    check_tensors(c, COMET_TENSOR_STATISTIC, "statistics");
}

static void check_case(const cJSON *json, bool winograd)
{
    oracle_case c = case_begin(json, winograd);
    const cJSON *golden;
    if (stored && !(number(&c, "float_error") <= STORED_FLOAT_ERROR))
        fail_because("%s: torch's floats are %g from its doubles; store another case", c.name, number(&c, "float_error"));
    uint64_t step = 0;
    cJSON_ArrayForEach(golden, field(json, "losses"))
    {
        trial_batch(&c.t, step);
        const double loss = trial_gradients(&c.t, step), error = fabs(loss - golden->valuedouble) / golden->valuedouble;
        c.worst_loss = fmax(c.worst_loss, error);
        if (step == 0)
            check_first_step(&c);
        if (!(error <= fmax(c.autocast ? BF16_TOLERANCE : LOSS_TOLERANCE, SHARE_OF_FLOAT_ERROR * number(&c, "float_error"))))
            fail_because("%s: loss %.7g in step %d, torch has %.7g", c.name, loss, (int)step, golden->valuedouble);
        assert_ok(comet_model_update(c.t.model, number(&c, "rate"), step));
        step++;
    }
    assert_int_equal(step, (int)number(&c, "steps"));
    print_message("%s, %s: losses to %.1e, tensors to %.1e\n", c.name, winograd ? "winograd" : "direct", c.worst_loss,
                  c.worst_tensor);
    trial_free(&c.t);
    formula_salt("");
    formula_residual(1);
}

/* ---- files ---- */

static void test_file(void **state)
{
    blob file = read_file(folder, *state);
    cJSON *json = cJSON_ParseWithLength((const char *)file.data, file.bytes);
    const cJSON *one;
    assert_non_null(json);
    cJSON_ArrayForEach(one, field(json, "cases"))
    {
        check_case(one, false);
        check_case(one, true);
    }
    cJSON_Delete(json);
    free(file.data);
}

static int is_json(const struct dirent *entry)
{
    const size_t n = strlen(entry->d_name);
    return n > 5 && strcmp(entry->d_name + n - 5, ".json") == 0;
}

/* Every net of the zoo has a file, and so have the operators. */
static void test_complete(void **state)
{
    for (size_t i = 0; comet_zoo_name(i); i++) {
        char name[64];
        snprintf(name, sizeof name, "%s.json", comet_zoo_name(i));
        blob file = read_file(folder, name);
        free(file.data);
    }
    blob file = read_file(folder, "operators.json");
    cJSON *json = cJSON_ParseWithLength((const char *)file.data, file.bytes);
    comet_net *net;
    int n = 0;
    for (; (net = operator_net((size_t)n)) != NULL; n++)
        comet_net_destroy(net);
    assert_int_equal(cJSON_GetArraySize(field(json, "cases")), n);
    cJSON_Delete(json);
    free(file.data);
}

int main(int argc, char **argv)
{
    enum { MOST_FILES = 64 };
    static struct CMUnitTest tests[MOST_FILES + 1];
    struct dirent **entries = NULL;
    if (argc > 1) {
        folder = argv[1];
        stored = false;
    }
    const int n_files = scandir(folder, &entries, is_json, alphasort);
    if (n_files <= 0 || n_files > MOST_FILES) {
        fprintf(stderr, "test_oracle: no files in %s\n", folder);
        return 2;
    }
    for (int i = 0; i < n_files; i++)
        tests[i] = (struct CMUnitTest){.name = entries[i]->d_name, .test_func = test_file, .initial_state = entries[i]->d_name};
    tests[n_files] = (struct CMUnitTest)cmocka_unit_test(test_complete);
    const int failed = _cmocka_run_group_tests("oracle", tests, (size_t)n_files + (argc == 1), NULL, NULL);
    for (int i = 0; i < n_files; i++)
        free(entries[i]);
    free(entries);
    return failed;
}
