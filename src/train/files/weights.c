/* Models in safetensors files; see weights.h and comet/train.h. */
#include "train/files/weights.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/status.h"
#include "train/files/onnx_file.h"
#include "train/files/tensor_file.h"
#include "train/files/torch_file.h"
#include "train/graph/ranks.h"
#include "train/graph/saving.h"

static const char statistic_suffix[] = ".running_var", counter_suffix[] = ".num_batches_tracked";

/* ---- names ---- */

const char *weights_plain_name(const char *name)
{
    static const char *const prefixes[] = {"module.", "_orig_mod."};
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++)
        if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0) {
            name += strlen(prefixes[i]);
            i = SIZE_MAX; /* from the first again */
        }
    return name;
}

const safetensors_tensor *weights_find(const safetensors_file *file, const char *name)
{
    const safetensors_tensor *t = safetensors_find(file, name);
    for (size_t i = 0; !t && (t = safetensors_at(file, i)); i++) {
        if (strcmp(weights_plain_name(t->name), name) == 0)
            return t;
        t = NULL;
    }
    return t;
}

/* ---- the list ---- */

static bool ends_with(const char *text, const char *suffix)
{
    const size_t n = strlen(text), m = strlen(suffix);
    return n >= m && strcmp(text + n - m, suffix) == 0;
}

static bool belongs(comet_tensor_kind kind, bool optimiser)
{
    if (kind == COMET_TENSOR_MOMENTUM || kind == COMET_TENSOR_SECOND_MOMENT)
        return optimiser;
    return kind != COMET_TENSOR_GRADIENT;
}

static const char *prefix_of(comet_tensor_kind kind)
{
    if (kind == COMET_TENSOR_MOMENTUM)
        return WEIGHTS_OPTIMISER_PREFIX "momentum.";
    return kind == COMET_TENSOR_SECOND_MOMENT ? WEIGHTS_OPTIMISER_PREFIX "second." : "";
}

static void append(weights_list *list, size_t index, const comet_tensor_info *info)
{
    weights_item *item = &list->items[list->n++];
    *item = (weights_item){.index = index, .info = *info};
    snprintf(item->name, sizeof item->name, "%s%s", prefix_of(info->kind), info->name);
}

static void append_counter(weights_list *list, const comet_tensor_info *variance)
{
    weights_item *item = &list->items[list->n++];
    *item = (weights_item){.index = SIZE_MAX, .info = {.kind = COMET_TENSOR_STATISTIC, .n_elements = 1}};
    const int stem = (int)(strlen(variance->name) - strlen(statistic_suffix));
    snprintf(item->name, sizeof item->name, "%.*s%s", stem, variance->name, counter_suffix);
}

comet_status weights_list_make(weights_list *list, const comet_model *model, bool optimiser)
{
    const size_t n = comet_model_n_tensors(model);
    comet_status status = COMET_OK;
    *list =
        (weights_list){.model = model, .items = calloc(2 * n + 1, sizeof *list->items), .hidden = model_hides_momentum(model)};
    if (!list->items)
        return comet_fail(COMET_ERROR_MEMORY, "out of memory: could not allocate a list of %zu tensors", n);
    for (size_t i = 0; i < n && status == COMET_OK; i++) {
        comet_tensor_info info = {.size = sizeof info};
        status = comet_model_describe_tensor(model, i, &info);
        if (status != COMET_OK || !belongs(info.kind, optimiser))
            continue;
        append(list, i, &info);
        if (info.kind == COMET_TENSOR_STATISTIC && ends_with(info.name, statistic_suffix))
            append_counter(list, &info);
    }
    if (status != COMET_OK)
        weights_list_free(list);
    return status;
}

void weights_list_free(weights_list *list)
{
    free(list->items);
    *list = (weights_list){0};
}

/* ---- saving ---- */

static comet_status describe_item(void *user, size_t index, safetensors_tensor *t)
{
    const weights_list *list = user;
    const weights_item *item = &list->items[index];
    t->name = item->name;
    t->dtype = item->index == SIZE_MAX ? SAFETENSORS_I64 : SAFETENSORS_F32;
    t->n_dims = item->info.n_dims;
    for (uint32_t i = 0; i < t->n_dims; i++)
        t->dims[i] = item->info.dims[i];
    return COMET_OK;
}

/* `x` are the elements from `first` on. */
static comet_status check_finite(const char *name, const float *x, uint64_t first, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        if (!isfinite(x[i]))
            return comet_fail(COMET_ERROR_DIVERGED, "element %" PRIu64 " of %s is not finite", first + i, name);
    return COMET_OK;
}

static comet_status fill_item(void *user, size_t index, uint64_t first, uint64_t n, void *elements)
{
    const weights_list *list = user;
    const weights_item *item = &list->items[index];
    if (item->index == SIZE_MAX) {
        memset(elements, 0, 8);
        return COMET_OK;
    }
    ranks_mark(list->model); /* other ranks wait while this one writes */
    const comet_status status = model_tensor_read_part(list->model, item->index, first, n, elements);
    if (status != COMET_OK || !list->finite_only)
        return status;
    return check_finite(item->name, elements, first, n);
}

comet_status weights_list_save(weights_list *list, const char *path, const char *keep, const safetensors_pair *metadata,
                               size_t n_metadata)
{
    const safetensors_source source = {.user = list,
                                       .n_tensors = list->n,
                                       .describe = describe_item,
                                       .fill = fill_item,
                                       .metadata = metadata,
                                       .n_metadata = n_metadata};
    return safetensors_save(path, keep, &source);
}

/* What a file says beside its tensors and is the same in a copy of its weights; `n` pairs are there already. */
enum { MAX_KEPT = 3 };
static size_t keep_metadata(const safetensors_file *file, safetensors_pair *pairs, size_t n)
{
    static const char *const kept[MAX_KEPT] = {"net", "classes", "input"};
    for (size_t i = 0; i < MAX_KEPT; i++) {
        const char *text = safetensors_metadata(file, kept[i]);
        bool there = text == NULL;
        for (size_t k = 0; k < n; k++)
            there = there || strcmp(pairs[k].key, kept[i]) == 0;
        if (!there)
            pairs[n++] = (safetensors_pair){kept[i], text};
    }
    return n;
}

/* `like` may be NULL. */
static comet_status save_weights(const comet_model *model, const char *path, const safetensors_file *like)
{
    weights_list list;
    char *net = NULL;
    comet_status status = weights_list_make(&list, model, false);
    if (status == COMET_OK)
        status = comet_net_write(comet_model_net(model), &net);
    if (status == COMET_OK) {
        safetensors_pair metadata[2 + MAX_KEPT] = {{"format", "pt"}, {"net", net}};
        status = weights_list_save(&list, path, NULL, metadata, like ? keep_metadata(like, metadata, 2) : 2);
    }
    comet_text_free(net);
    weights_list_free(&list);
    return status;
}

comet_status comet_weights_save(const comet_model *model, const char *path)
{
    return save_weights(model, path, NULL);
}

comet_status comet_weights_save_like(const comet_model *model, const char *path, const char *like)
{
    safetensors_file *file = NULL;
    comet_status status = tensor_file_open(&file, like);
    if (status == COMET_OK)
        status = save_weights(model, path, file);
    safetensors_close(file);
    return status;
}

/* ---- loading ---- */

static bool same_shape(const comet_tensor_info *info, const safetensors_tensor *t)
{
    return info->n_dims == t->n_dims && memcmp(info->dims, t->dims, info->n_dims * sizeof *info->dims) == 0;
}

const comet_layer *weights_classifier(const comet_net *net)
{
    const uint32_t n = comet_net_n_values(net);
    const comet_shape out = comet_net_shape(net, n - 1);
    for (uint32_t v = n; v-- > 0;) {
        const comet_layer *layer = comet_net_layer(net, v);
        if (layer->op == COMET_OP_LINEAR || layer->op == COMET_OP_CONV)
            return layer->out_channels == out.channels ? layer : NULL;
    }
    return NULL;
}

/* Layers' names have dots too. */
bool weights_is_of_layer(const char *name, const comet_layer *layer)
{
    const size_t n = layer ? strlen(layer->name) : 0;
    return n > 0 && strncmp(name, layer->name, n) == 0 && (strcmp(name + n, ".weight") == 0 || strcmp(name + n, ".bias") == 0);
}

/* The failure names both shapes, and says so where only the number of classes differs. */
static comet_status refuse_shape(const weights_list *list, const weights_item *item, const safetensors_tensor *t,
                                 const char *path)
{
    char ours[SAFETENSORS_SHAPE_BYTES], theirs[SAFETENSORS_SHAPE_BYTES];
    const comet_tensor_info *info = &item->info;
    safetensors_shape_text(info->n_dims, info->dims, ours);
    safetensors_shape_text(t->n_dims, t->dims, theirs);
    if (weights_is_of_layer(item->name, weights_classifier(comet_model_net(list->model))) && info->n_dims == t->n_dims &&
        memcmp(info->dims + 1, t->dims + 1, (info->n_dims - 1) * sizeof *info->dims) == 0)
        return comet_fail(COMET_ERROR_CORRUPT,
                          "%s: it is for %" PRIu64 " classes, this net for %" PRIu64 ": %s is %s there, %s in this net", path,
                          t->dims[0], info->dims[0], item->name, theirs, ours);
    return comet_fail(COMET_ERROR_CORRUPT, "%s: it is of another net: %s is %s there, %s in this net", path, item->name, theirs,
                      ours);
}

comet_status weights_match_item(const weights_list *list, const weights_item *item, const safetensors_tensor *t,
                                const char *path)
{
    if (item->index == SIZE_MAX || (!t && list->hidden && item->info.kind == COMET_TENSOR_MOMENTUM))
        return COMET_OK;
    if (!t && prefix_of(item->info.kind)[0] != '\0')
        return comet_fail(COMET_ERROR_CORRUPT, "%s: it has no %s: it is of another optimiser", path, item->name);
    if (!t)
        return comet_fail(COMET_ERROR_CORRUPT, "%s: it is of another net: it has no %s, which this net needs", path,
                          item->name);
    if (t->dtype == SAFETENSORS_OTHER)
        return comet_fail(COMET_ERROR_UNSUPPORTED, "%s: %s is of a type that cannot be read as floats", path, item->name);
    return same_shape(&item->info, t) ? COMET_OK : refuse_shape(list, item, t, path);
}

static bool has_optimiser(const weights_list *list)
{
    for (size_t i = 0; i < list->n; i++)
        if (list->items[i].info.kind == COMET_TENSOR_MOMENTUM)
            return true;
    return false;
}

/* Where two tensors have the same plain name, only one is read. */
bool weights_is_expected(const weights_list *list, const safetensors_file *file, const safetensors_tensor *t)
{
    const char *plain = weights_plain_name(t->name);
    if (ends_with(plain, counter_suffix))
        return true;
    if (strncmp(plain, WEIGHTS_OPTIMISER_PREFIX, strlen(WEIGHTS_OPTIMISER_PREFIX)) == 0 && !has_optimiser(list))
        return true;
    for (size_t i = 0; i < list->n; i++)
        if (strcmp(list->items[i].name, t->name) == 0 ||
            (strcmp(list->items[i].name, plain) == 0 && weights_find(file, plain) == t))
            return true;
    return false;
}

comet_status weights_list_match(const weights_list *list, const safetensors_file *file, const char *path)
{
    comet_status status = COMET_OK;
    for (size_t i = 0; i < list->n && status == COMET_OK; i++)
        status = weights_match_item(list, &list->items[i], weights_find(file, list->items[i].name), path);
    const safetensors_tensor *t = NULL;
    for (size_t i = 0; status == COMET_OK && (t = safetensors_at(file, i)); i++)
        if (!weights_is_expected(list, file, t))
            status = comet_fail(COMET_ERROR_CORRUPT, "%s: it is of another net: this net has no %.120s", path, t->name);
    return status;
}

/* Elements that are read at once. */
static const uint64_t part = SAFETENSORS_PIECE / sizeof(float);

static float *allocate_part(void)
{
    float *elements = malloc(SAFETENSORS_PIECE);
    if (!elements)
        comet_fail(COMET_ERROR_MEMORY, "out of memory: could not allocate %zu bytes for reading weights", SAFETENSORS_PIECE);
    return elements;
}

static comet_status load_item(const weights_item *item, comet_model *model, safetensors_file *file, float *elements)
{
    const safetensors_tensor *t = weights_find(file, item->name);
    const uint64_t n = item->index == SIZE_MAX ? 0 : item->info.n_elements;
    for (uint64_t first = 0; first < n; first += part) {
        const uint64_t here = min_u64(n - first, part);
        if (t)
            TRY(safetensors_read_part_f32(file, t, first, here, elements));
        else
            memset(elements, 0, (size_t)here * sizeof *elements);
        TRY(model_tensor_write_part(model, item->index, first, here, elements));
    }
    return COMET_OK;
}

comet_status weights_list_load(const weights_list *list, comet_model *model, safetensors_file *file)
{
    float *elements = allocate_part();
    comet_status status = elements ? COMET_OK : COMET_ERROR_MEMORY;
    for (size_t i = 0; i < list->n && status == COMET_OK; i++)
        status = load_item(&list->items[i], model, file, elements);
    free(elements);
    return status;
}

comet_status weights_open_verified(safetensors_file **file, const char *path)
{
    comet_status status = tensor_file_open(file, path);
    if (status == COMET_OK && (status = safetensors_verify(*file)) != COMET_OK) {
        safetensors_close(*file);
        *file = NULL;
    }
    return status;
}

static comet_status check_part(const safetensors_file *file, const safetensors_tensor *t, uint64_t first, float *elements,
                               const char *path)
{
    char why[256];
    const uint64_t here = min_u64(t->n_elements - first, part);
    TRY(safetensors_read_part_f32(file, t, first, here, elements));
    if (check_finite(t->name, elements, first, here) == COMET_OK)
        return COMET_OK;
    snprintf(why, sizeof why, "%s", comet_last_error());
    return comet_fail(COMET_ERROR_CORRUPT, "%s: %s: the file is damaged, or of a run that diverged; take an earlier one", path,
                      why);
}

comet_status weights_check_finite(const safetensors_file *file, const safetensors_tensor *t, const char *path)
{
    float *elements = allocate_part();
    comet_status status = elements ? COMET_OK : COMET_ERROR_MEMORY;
    for (uint64_t first = 0; first < t->n_elements && status == COMET_OK; first += part)
        status = check_part(file, t, first, elements, path);
    free(elements);
    return status;
}

comet_status comet_weights_net(const char *path, char **text)
{
    safetensors_file *file = NULL;
    comet_status status = tensor_file_open(&file, path);
    if (status != COMET_OK)
        return status;
    const char *net = safetensors_metadata(file, "net");
    if (!net) {
        status = comet_fail(COMET_ERROR_UNSUPPORTED, "%s: it does not say which net it belongs to", path);
    } else {
        const size_t bytes = strlen(net) + 1;
        char *copy = malloc(bytes);
        if (copy)
            *text = memcpy(copy, net, bytes);
        else
            status = comet_fail(COMET_ERROR_MEMORY, "out of memory: could not allocate the net of %s", path);
    }
    safetensors_close(file);
    return status;
}

comet_status comet_weights_classes(const char *path, const comet_net *net, uint64_t *classes)
{
    char name[COMET_MAX_LAYER_NAME + sizeof ".weight"];
    safetensors_file *file = NULL;
    comet_status status = tensor_file_open(&file, path);
    if (status != COMET_OK)
        return status;
    const comet_layer *layer = weights_classifier(net);
    snprintf(name, sizeof name, "%s.weight", layer ? layer->name : "");
    const safetensors_tensor *t = weights_find(file, name);
    if (t && t->n_dims > 0)
        *classes = t->dims[0];
    else
        status = comet_fail(COMET_ERROR_CORRUPT, "%s: it does not say how many classes it is for: it has no %s", path, name);
    safetensors_close(file);
    return status;
}

/* ---- from one file to another ---- */

typedef struct export_job {
    safetensors_file *file;
    const safetensors_tensor **tensors;
    size_t n;
} export_job;

static comet_status describe_export(void *user, size_t index, safetensors_tensor *t)
{
    const export_job *job = user;
    *t = *job->tensors[index];
    return COMET_OK;
}

static comet_status fill_export(void *user, size_t index, uint64_t first, uint64_t n, void *elements)
{
    const export_job *job = user;
    return safetensors_read_part(job->file, job->tensors[index], first, n, elements);
}

static comet_status choose_exports(export_job *job, const char *path)
{
    const safetensors_tensor *t = NULL;
    size_t n = 0;
    while (safetensors_at(job->file, n))
        n++;
    job->tensors = calloc(n + 1, sizeof(const safetensors_tensor *));
    if (!job->tensors)
        return comet_fail(COMET_ERROR_MEMORY, "out of memory: could not allocate a list of %zu tensors", n);
    for (size_t i = 0; (t = safetensors_at(job->file, i)); i++) {
        if (strncmp(t->name, WEIGHTS_OPTIMISER_PREFIX, strlen(WEIGHTS_OPTIMISER_PREFIX)) == 0)
            continue;
        if (t->dtype == SAFETENSORS_OTHER)
            return comet_fail(COMET_ERROR_UNSUPPORTED, "%s: '%.120s' is not of a type that weights have", path, t->name);
        job->tensors[job->n++] = t;
    }
    return COMET_OK;
}

comet_status comet_weights_export(const char *checkpoint, const char *path)
{
    export_job job = {0};
    comet_status status = weights_open_verified(&job.file, checkpoint);
    if (status == COMET_OK)
        status = choose_exports(&job, checkpoint);
    if (status == COMET_OK) {
        safetensors_pair metadata[1 + MAX_KEPT] = {{"format", "pt"}};
        const size_t n_metadata = keep_metadata(job.file, metadata, 1);
        const safetensors_source source = {.user = &job,
                                           .n_tensors = job.n,
                                           .describe = describe_export,
                                           .fill = fill_export,
                                           .metadata = metadata,
                                           .n_metadata = n_metadata};
        status = ends_with(path, ".pt") ? torch_file_save(path, &source) : safetensors_save(path, NULL, &source);
    }
    free(job.tensors);
    safetensors_close(job.file);
    return status;
}

comet_status comet_weights_save_onnx(const comet_model *model, const char *from, const char *path)
{
    static const char *const keys[][2] = {{"comet.classes", "classes"}, {"comet.input", "input"}};
    safetensors_pair metadata[sizeof keys / sizeof *keys];
    safetensors_file *file = NULL;
    size_t n = 0;
    if (from)
        TRY(tensor_file_open(&file, from));
    for (size_t i = 0; file && i < sizeof keys / sizeof *keys; i++) {
        const char *text = safetensors_metadata(file, keys[i][1]);
        if (text)
            metadata[n++] = (safetensors_pair){keys[i][0], text};
    }
    const comet_status status = onnx_file_save(model, path, metadata, n);
    safetensors_close(file);
    return status;
}
