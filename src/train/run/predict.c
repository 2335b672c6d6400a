/*
 * Classes of pictures; see comet/predict.h.
 *
 * Two batches take turns: threads fill one while the other is computed and handed out. Threads live as long as a batch, since
 * starting one costs far less than decoding a picture. The main thread lists what a batch holds before they start, so that they
 * share nothing but the number of the next image.
 */
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/describe.h"
#include "base/status.h"
#include "comet/predict.h"
#include "comet/train.h"
#include "train/data/image_file.h"
#include "train/data/storage.h"
#include "train/files/tensor_file.h"

enum { MAX_LOADERS = 256, SENTENCE_BYTES = 512, N_SLOTS = 2, DEFAULT_BATCH = 32 };

/* An image of a batch. Files with several images are shared by their items. */
typedef struct item {
    size_t file;
    uint64_t row;
    image_file *from; /* NULL: it could not be opened */
    bool last_of_file;
    comet_status status;
    char error[SENTENCE_BYTES];
} item;

typedef struct slot {
    item *items;
    float *images;
    uint32_t n;
} slot;

/* Memory of a decoding thread. */
typedef struct worker {
    pthread_t thread;
    struct batch_work *work;
    scratch memory;
    comet_buffer colours;
} worker;

typedef struct batch_work {
    const comet_predictor *predictor;
    slot *slot;
    atomic_uint next;
    uint32_t n_started;
} batch_work;

struct comet_predictor {
    comet_model *model;
    preparation input;
    char **names;
    uint32_t n_names, n_classes;
    comet_predictor_params params;
    size_t image_floats;
    slot slots[N_SLOTS];
    uint32_t *labels; /* zeros: evaluation asks for labels */
    float *probabilities;
    worker *workers; /* n_workers threads and the caller */
    uint32_t n_workers;
};

void comet_predictor_params_init(comet_predictor_params *params)
{
    *params = (comet_predictor_params){.size = sizeof *params, .batch = DEFAULT_BATCH};
}

/* ---- creating ---- */

static comet_status net_of(const char *weights, const comet_net *given, comet_net **own, const comet_net **net)
{
    char *text = NULL;
    *net = given;
    if (given)
        return COMET_OK;
    comet_status status = comet_weights_net(weights, &text);
    if (status == COMET_OK)
        status = comet_net_read(own, weights, text, strlen(text));
    comet_text_free(text);
    *net = *own;
    return status;
}

static comet_status read_input(comet_predictor *p, const char *weights, comet_shape in)
{
    safetensors_file *file = NULL;
    comet_status status = tensor_file_open(&file, weights);
    if (status == COMET_OK)
        status = preparation_parse(&p->input, weights, safetensors_metadata(file, "input"), in.channels, in.height, in.width);
    safetensors_close(file);
    return status;
}

static comet_status make_model(comet_predictor *p, const comet_net *net, const char *weights)
{
    comet_model_params params;
    comet_model_params_init(&params);
    params.batch = p->params.batch;
    params.n_threads = p->params.n_threads;
    params.inference = true;
    const uint64_t queue = (uint64_t)N_SLOTS * p->params.batch * p->image_floats * sizeof(float);
    comet_status status = comet_model_check_memory(net, &params, queue);
    if (status == COMET_OK)
        status = comet_model_create(&p->model, net, &params);
    return status == COMET_OK ? comet_weights_load(p->model, weights) : status;
}

static comet_status take_memory(comet_predictor *p)
{
    const uint32_t batch = p->params.batch;
    bool ok = true;
    for (int i = 0; i < N_SLOTS; i++) {
        p->slots[i].items = storage_new(batch, sizeof *p->slots[i].items);
        p->slots[i].images = storage_new((uint64_t)batch * p->image_floats, sizeof(float));
        ok = ok && p->slots[i].items && p->slots[i].images;
    }
    p->labels = storage_new(batch, sizeof *p->labels);
    p->probabilities = storage_new(p->n_classes, sizeof *p->probabilities);
    p->n_workers = loader_threads(p->params.loader_threads);
    p->workers = storage_new((uint64_t)p->n_workers + 1, sizeof *p->workers);
    return ok && p->labels && p->probabilities && p->workers ? COMET_OK : COMET_ERROR_MEMORY;
}

static comet_status check_params(const comet_predictor_params *params)
{
    if (params->size != sizeof *params)
        return comet_fail(COMET_ERROR_ARGUMENT,
                          "comet_predictor_params has size %zu, not %zu: call comet_predictor_params_init", params->size,
                          sizeof *params);
    if (params->batch == 0 || params->loader_threads > MAX_LOADERS)
        return comet_fail(COMET_ERROR_ARGUMENT,
                          "a batch of %u and %u threads that decode were asked for; at least 1 and at most %d are possible",
                          params->batch, params->loader_threads, MAX_LOADERS);
    return COMET_OK;
}

static comet_status fill(comet_predictor *p, const char *weights, const comet_net *net)
{
    const comet_shape in = comet_net_shape(net, 0), out = comet_net_shape(net, comet_net_n_values(net) - 1);
    if (out.height != 1 || out.width != 1)
        return comet_fail(COMET_ERROR_UNSUPPORTED, "net %s gives %u x %u x %u scores, not one for each class",
                          comet_net_name(net), out.channels, out.height, out.width);
    p->n_classes = out.channels;
    p->image_floats = (size_t)in.channels * in.height * in.width;
    comet_status status = read_input(p, weights, in);
    if (status == COMET_OK)
        status = comet_weights_class_names(weights, &p->names, &p->n_names);
    if (status == COMET_OK)
        status = make_model(p, net, weights);
    return status == COMET_OK ? take_memory(p) : status;
}

comet_status comet_predictor_create(comet_predictor **predictor, const char *weights, const comet_predictor_params *params)
{
    comet_net *own = NULL;
    const comet_net *net = NULL;
    if (!predictor || !weights || !params)
        return comet_fail(COMET_ERROR_ARGUMENT, "comet_predictor_create was given a null pointer");
    TRY(check_params(params));
    TRY(net_of(weights, params->net, &own, &net));
    comet_predictor *p = storage_new(1, sizeof *p);
    comet_status status = COMET_ERROR_MEMORY;
    if (p) {
        p->params = *params;
        p->params.net = NULL;
        status = fill(p, weights, net);
    }
    comet_net_destroy(own);
    if (status == COMET_OK)
        *predictor = p;
    else
        comet_predictor_destroy(p);
    return status;
}

void comet_predictor_destroy(comet_predictor *p)
{
    const comet_allocator allocator = comet_allocator_of(NULL);
    if (!p)
        return;
    for (int i = 0; i < N_SLOTS; i++) {
        free(p->slots[i].items);
        free(p->slots[i].images);
    }
    for (uint32_t i = 0; p->workers && i <= p->n_workers; i++) {
        scratch_free(&p->workers[i].memory);
        comet_buffer_free(&allocator, &p->workers[i].colours);
    }
    free(p->workers);
    free(p->labels);
    free(p->probabilities);
    comet_class_names_free(p->names);
    preparation_free(&p->input);
    comet_model_destroy(p->model);
    free(p);
}

uint32_t comet_predictor_n_classes(const comet_predictor *predictor)
{
    return predictor->n_classes;
}

const char *comet_predictor_class(const comet_predictor *predictor, uint32_t label)
{
    return label < predictor->n_names && label < predictor->n_classes ? predictor->names[label] : NULL;
}

/* ---- decoding ---- */

static void keep_failure(item *i, comet_status status)
{
    i->status = status;
    snprintf(i->error, sizeof i->error, "%s", comet_last_error());
}

static void *decode(void *arg)
{
    worker *w = arg;
    const comet_predictor *p = w->work->predictor;
    slot *s = w->work->slot;
    uint32_t i;
    while ((i = atomic_fetch_add_explicit(&w->work->next, 1, memory_order_relaxed)) < s->n) {
        item *at = &s->items[i];
        float *image = s->images + (size_t)i * p->image_floats;
        if (!at->from)
            continue;
        const comet_status status = image_file_read(at->from, at->row, &p->input, &w->memory, &w->colours, image);
        if (status == COMET_OK)
            continue;
        keep_failure(at, status);
        memset(image, 0, p->image_floats * sizeof *image);
    }
    return NULL;
}

/* Signals are left to the host's threads. What no thread could be started for is decoded by finish_batch. */
static void start_batch(comet_predictor *p, batch_work *work, slot *s)
{
    sigset_t all, before;
    work->predictor = p;
    work->slot = s;
    work->n_started = 0;
    atomic_store(&work->next, 0);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (uint32_t i = 0; i < p->n_workers && i < s->n; i++) {
        p->workers[i].work = work;
        if (pthread_create(&p->workers[i].thread, NULL, decode, &p->workers[i]) != 0)
            break;
        work->n_started++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* The caller has nothing better to do than to help. */
static void finish_batch(comet_predictor *p, batch_work *work)
{
    worker *own = &p->workers[p->n_workers];
    own->work = work;
    decode(own);
    for (uint32_t i = 0; i < work->n_started; i++)
        pthread_join(p->workers[i].thread, NULL);
}

/* ---- from files to batches ---- */

typedef struct cursor {
    const char *const *files;
    size_t n_files, file;
    image_file *open;
    uint64_t row;
} cursor;

/* The next image; a file that cannot be opened is one that has failed. */
static comet_status next_item(const comet_predictor *p, cursor *c, item *next)
{
    *next = (item){.file = c->file};
    if (!c->open) {
        const comet_status status = image_file_open(&c->open, c->files[c->file], &p->input);
        if (status == COMET_ERROR_MEMORY)
            return status;
        if (status != COMET_OK) {
            keep_failure(next, status);
            c->file++;
            return COMET_OK;
        }
        c->row = 0;
    }
    next->from = c->open;
    next->row = c->row++;
    next->last_of_file = c->row == image_file_rows(c->open);
    if (next->last_of_file) {
        c->open = NULL;
        c->file++;
    }
    return COMET_OK;
}

static comet_status list_batch(const comet_predictor *p, cursor *c, slot *s)
{
    comet_status status = COMET_OK;
    s->n = 0;
    while (s->n < p->params.batch && c->file < c->n_files && status == COMET_OK) {
        status = next_item(p, c, &s->items[s->n]);
        s->n += status == COMET_OK;
    }
    return status;
}

static void close_files(slot *s)
{
    for (uint32_t i = 0; i < s->n; i++)
        if (s->items[i].last_of_file)
            image_file_close(s->items[i].from);
    s->n = 0;
}

/* ---- from batches to predictions ---- */

/* False where a score is not finite. */
static bool softmax(const float *scores, uint32_t n, float *probabilities)
{
    double largest = -INFINITY, sum = 0;
    for (uint32_t c = 0; c < n; c++) {
        if (!isfinite(scores[c]))
            return false;
        largest = fmax(largest, (double)scores[c]);
    }
    for (uint32_t c = 0; c < n; c++)
        sum += exp(scores[c] - largest);
    for (uint32_t c = 0; c < n; c++)
        probabilities[c] = (float)(exp(scores[c] - largest) / sum);
    return true;
}

/* One image of a batch that has been computed. */
static comet_status give(comet_predictor *p, const cursor *c, const item *i, const float *scores,
                         comet_prediction_function found, void *user)
{
    comet_prediction prediction = {.size = sizeof prediction,
                                   .file = i->file,
                                   .path = c->files[i->file],
                                   .is_array = i->from && image_file_is_array(i->from),
                                   .row = i->row,
                                   .status = i->status};
    if (i->status == COMET_ERROR_MEMORY || (i->status != COMET_OK && p->params.strict))
        return comet_fail(i->status, "%s", i->error);
    if (i->status != COMET_OK)
        prediction.error = i->error;
    else if (softmax(scores, p->n_classes, p->probabilities))
        prediction.probabilities = p->probabilities;
    else
        return comet_fail(
            COMET_ERROR_DIVERGED,
            "%s: its scores are not finite, though all weights are: sums overflow on this image; is it like those "
            "of training?",
            prediction.path);
    return found(user, &prediction);
}

static comet_status compute(comet_predictor *p, const cursor *c, const slot *s, comet_prediction_function found, void *user)
{
    comet_scores ignored;
    comet_status status = comet_model_evaluate(p->model, s->images, p->labels, s->n, &ignored);
    const float *scores = comet_model_outputs(p->model);
    for (uint32_t i = 0; i < s->n && status == COMET_OK; i++)
        status = give(p, c, &s->items[i], scores + (size_t)i * p->n_classes, found, user);
    return status;
}

comet_status comet_predict(comet_predictor *p, const char *const *files, size_t n_files, comet_prediction_function found,
                           void *user)
{
    cursor c = {.files = files, .n_files = n_files};
    batch_work work;
    if (!p || (!files && n_files > 0) || !found)
        return comet_fail(COMET_ERROR_ARGUMENT, "comet_predict was given a null pointer");
    slot *now = &p->slots[0], *next = &p->slots[1];
    comet_status status = list_batch(p, &c, now);
    if (status == COMET_OK && now->n > 0)
        start_batch(p, &work, now);
    while (status == COMET_OK && now->n > 0) {
        finish_batch(p, &work);
        status = list_batch(p, &c, next);
        const bool more = status == COMET_OK && next->n > 0;
        if (more)
            start_batch(p, &work, next);
        if (status == COMET_OK)
            status = compute(p, &c, now, found, user);
        if (more && status != COMET_OK) /* its threads use the files that are closed below */
            finish_batch(p, &work);
        close_files(now);
        slot *swap = now;
        now = next;
        next = swap;
    }
    close_files(now);
    close_files(next);
    if (c.open) /* cut off in the middle of an array */
        image_file_close(c.open);
    return status;
}
