#include "training.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- nets ---- */

static comet_net *net_of_bytes(const char *text, size_t bytes)
{
    comet_net *net = NULL;
    if (comet_net_read(&net, "text", text, bytes) != COMET_OK)
        fail_because("%s", comet_last_error());
    return net;
}

comet_net *net_of(const char *text)
{
    return net_of_bytes(text, strlen(text));
}

/* Where the next net begins, or NULL. */
static const char *next_net(const char *text)
{
    const char *found = strstr(text, "\nnet ");
    return found ? found + 1 : NULL;
}

comet_net *operator_net(size_t index)
{
    blob file = read_file(COMET_TESTS_DIR "/train", "operators.nets");
    char *text = need_malloc(file.bytes + 1);
    memcpy(text, file.data, file.bytes);
    text[file.bytes] = 0;
    const char *net = next_net(text);
    for (size_t i = 0; net && i < index; i++)
        net = next_net(net);
    const char *end = net ? next_net(net) : NULL;
    comet_net *result = net ? net_of_bytes(net, end ? (size_t)(end - net) : strlen(net)) : NULL;
    free(file.data);
    free(text);
    return result;
}

comet_net *operator_net_named(const char *name)
{
    comet_net *net;
    for (size_t i = 0; (net = operator_net(i)) != NULL; i++) {
        if (strcmp(comet_net_name(net), name) == 0)
            return net;
        comet_net_destroy(net);
    }
    fail_because("operators.nets has no net %s", name);
    return NULL;
}

void for_operator_nets(void (*check)(const comet_net *net))
{
    comet_net *net;
    for (size_t i = 0; (net = operator_net(i)) != NULL; i++) {
        check(net);
        comet_net_destroy(net);
    }
}

bool has_layer(const comet_net *net, comet_op op)
{
    for (uint32_t v = 1; v < comet_net_n_values(net); v++)
        if (comet_net_layer(net, v)->op == op)
            return true;
    return false;
}

comet_dataset *data_for(const comet_net *net, uint64_t n_images)
{
    const comet_shape in = comet_net_shape(net, 0);
    comet_dataset_params p;
    comet_dataset *data = NULL;
    comet_dataset_params_init(&p);
    p.image = in.height;
    p.channels = in.channels;
    p.classes = 4;
    p.n_images = n_images;
    assert_ok(comet_dataset_open(&data, "synthetic", &p));
    return data;
}

comet_train_params run_on(const comet_net *net, comet_dataset *data, uint32_t batch)
{
    comet_train_params p;
    comet_train_params_init(&p);
    p.net = net;
    p.train_data = data;
    p.model.batch = batch;
    p.model.n_threads = 1;
    return p;
}

comet_net *net_without_dropout(const comet_net *net)
{
    const comet_shape in = comet_net_shape(net, 0);
    comet_net *copy = NULL;
    assert_ok(comet_net_create(&copy, comet_net_name(net), in.channels, in.height, in.width));
    for (uint32_t v = 1; v < comet_net_n_values(net); v++) {
        comet_layer layer = *comet_net_layer(net, v);
        if (layer.op == COMET_OP_DROPOUT)
            layer.p = 0;
        assert_ok(comet_net_add(copy, &layer, NULL));
    }
    return copy;
}

/* ---- numbers by formula ---- */

static char salt[64];

void formula_salt(const char *text)
{
    snprintf(salt, sizeof salt, "%s", text);
}

static double residual_scale = 1;

void formula_residual(double scale)
{
    residual_scale = scale;
}

/* FNV-1a, going on from h. */
static uint32_t hash_text(uint32_t h, const char *text)
{
    for (; *text; text++)
        h = (h ^ (unsigned char)*text) * 16777619u;
    return h;
}

static uint32_t hash_name(const char *name)
{
    return hash_text(hash_text(2166136261u, salt), name);
}

/* Wellons' lowbias32. */
static uint32_t hash_number(uint32_t x)
{
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    x ^= x >> 16;
    return x;
}

/* The product of two 24-bit numbers is exact in double, so that compilers that fuse it with the sum change nothing. */
void formula_fill(const char *name, double offset, double bound, uint64_t n, float *x)
{
    const uint32_t seed = hash_name(name);
    const double scale = (double)(float)(bound / 8388608);
    for (uint64_t i = 0; i < n; i++) {
        const int32_t k = (int32_t)(hash_number((uint32_t)i + seed) >> 8) - 8388608;
        x[i] = (float)(offset + k * scale);
    }
}

void formula_labels(const char *name, uint32_t classes, uint32_t n, uint32_t *labels)
{
    const uint32_t seed = hash_name(name);
    for (uint32_t i = 0; i < n; i++)
        labels[i] = hash_number(i + seed) % classes;
}

uint64_t formula_position(const char *name, uint32_t i, uint64_t n)
{
    return hash_number(i + hash_text(2166136261u, name)) % n;
}

static bool ends_in(const char *name, const char *suffix)
{
    const size_t n = strlen(name), k = strlen(suffix);
    return n >= k && strcmp(name + n - k, suffix) == 0;
}

static void formula_tensor(comet_model *model, size_t index, const comet_tensor_info *info)
{
    float *x = need_malloc(info->n_elements * sizeof *x);
    const double scale = ends_in(info->name, ".bn3.weight") ? residual_scale : 1;
    if (info->n_dims > 1)
        formula_fill(info->name, 0, sqrt(6 / ((double)info->n_elements / (double)info->dims[0])), info->n_elements, x);
    else if (info->kind == COMET_TENSOR_STATISTIC)
        formula_fill(info->name, ends_in(info->name, "_var") ? 1 : 0, 0, info->n_elements, x);
    else
        formula_fill(info->name, ends_in(info->name, ".weight") ? scale : 0, 0.125 * scale, info->n_elements, x);
    assert_ok(comet_model_tensor_write(model, index, x));
    free(x);
}

void formula_weights(comet_model *model)
{
    for (size_t i = 0; i < comet_model_n_tensors(model); i++) {
        comet_tensor_info info = {.size = sizeof info};
        assert_ok(comet_model_describe_tensor(model, i, &info));
        if (info.kind == COMET_TENSOR_WEIGHT || info.kind == COMET_TENSOR_STATISTIC)
            formula_tensor(model, i, &info);
    }
}

/* ---- a model and its batch ---- */

comet_model_params trial_params(uint32_t batch)
{
    comet_model_params p;
    comet_model_params_init(&p);
    p.batch = batch;
    p.n_threads = 1; /* threads that wait for each other take most of the time on a busy machine */
    p.seed = 7;
    return p;
}

comet_precision coarsest_precision(void)
{
    comet_net *net = operator_net_named("conv_plain");
    comet_model_params p = trial_params(3);
    comet_memory memory;
    comet_memory_init(&memory);
    p.precision = COMET_PRECISION_BF16;
    p.force_precision = true;
    const comet_status status = comet_model_plan(net, &p, &memory);
    comet_net_destroy(net);
    return status == COMET_OK ? COMET_PRECISION_BF16 : COMET_PRECISION_F32;
}

trial trial_make(const comet_net *net, const comet_model_params *params)
{
    const comet_model_params usual = trial_params(3), *p = params ? params : &usual;
    const comet_shape in = comet_net_shape(net, 0), out = comet_net_shape(net, comet_net_n_values(net) - 1);
    trial t = {.batch = p->batch,
               .classes = out.channels * out.height * out.width,
               .n_images = (uint64_t)p->batch * in.channels * in.height * in.width};
    if (comet_model_create(&t.model, net, p) != COMET_OK)
        fail_because("%s: %s", comet_net_name(net), comet_last_error());
    t.images = need_malloc(t.n_images * sizeof *t.images);
    t.labels = need_malloc(t.batch * sizeof *t.labels);
    formula_weights(t.model);
    trial_batch(&t, 0);
    return t;
}

void trial_free(trial *t)
{
    comet_model_destroy(t->model);
    free(t->images);
    free(t->labels);
}

/* Images of variance 1. */
void trial_batch(trial *t, uint64_t number)
{
    char name[32];
    snprintf(name, sizeof name, "images.%llu", (unsigned long long)number);
    formula_fill(name, 0, sqrt(3), t->n_images, t->images);
    snprintf(name, sizeof name, "labels.%llu", (unsigned long long)number);
    formula_labels(name, t->classes, t->batch, t->labels);
}

void trial_share(trial *t, const comet_ranks *ranks, uint64_t number)
{
    trial all = {.batch = t->batch * ranks->n_ranks, .n_images = t->n_images * ranks->n_ranks, .classes = t->classes};
    all.images = need_malloc(all.n_images * sizeof *all.images);
    all.labels = need_malloc(all.batch * sizeof *all.labels);
    trial_batch(&all, number);
    memcpy(t->images, all.images + ranks->rank * t->n_images, t->n_images * sizeof *t->images);
    memcpy(t->labels, all.labels + ranks->rank * t->batch, t->batch * sizeof *t->labels);
    trial_free(&all);
}

double trial_gradients(trial *t, uint64_t step)
{
    comet_scores scores;
    if (comet_model_gradients(t->model, t->images, t->labels, step, &scores) != COMET_OK)
        fail_because("%s: %s", comet_net_name(comet_model_net(t->model)), comet_last_error());
    return scores.loss;
}

/* ---- tensors ---- */

size_t tensor_index(const comet_model *model, comet_tensor_kind kind, const char *name)
{
    for (size_t i = 0; i < comet_model_n_tensors(model); i++) {
        comet_tensor_info info = {.size = sizeof info};
        assert_ok(comet_model_describe_tensor(model, i, &info));
        if (info.kind == kind && strcmp(info.name, name) == 0)
            return i;
    }
    fail_because("no tensor %s of kind %d", name, (int)kind);
    return 0;
}

float *tensor_read(const comet_model *model, size_t index, comet_tensor_info *info)
{
    comet_tensor_info found = {.size = sizeof found};
    assert_ok(comet_model_describe_tensor(model, index, &found));
    float *x = need_malloc(found.n_elements * sizeof *x);
    assert_ok(comet_model_tensor_read(model, index, x));
    if (info)
        *info = found;
    return x;
}

float *tensors_read(const comet_model *model, comet_tensor_kind kind, uint64_t *n)
{
    float *all = NULL;
    *n = 0;
    for (size_t i = 0; i < comet_model_n_tensors(model); i++) {
        comet_tensor_info info = {.size = sizeof info};
        assert_ok(comet_model_describe_tensor(model, i, &info));
        if (info.kind != kind)
            continue;
        float *larger = realloc(all, (*n + info.n_elements) * sizeof *larger);
        assert_non_null(larger);
        all = larger;
        assert_ok(comet_model_tensor_read(model, i, all + *n));
        *n += info.n_elements;
    }
    return all;
}

double norm_of(uint64_t n, const float *x)
{
    double sum = 0;
    for (uint64_t i = 0; i < n; i++)
        sum += (double)x[i] * x[i];
    return sqrt(sum);
}

double relative_distance(uint64_t n, const float *a, const float *b)
{
    double sum = 0;
    for (uint64_t i = 0; i < n; i++)
        sum += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
    const double scale = norm_of(n, b);
    return sum == 0 ? 0 : sqrt(sum) / (scale > 0 ? scale : 1);
}
