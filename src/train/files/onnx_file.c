/*
 * See onnx_file.h. Everything but the weights is put together in memory; then they follow one at a time, so that a file needs
 * memory for its largest tensor.
 */
#include "train/files/onnx_file.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/atomic_file.h"
#include "base/status.h"
#include "train/files/onnx_graph.h"

/* Field numbers in onnx.proto. */
enum {
    MODEL_IR_VERSION = 1,
    MODEL_PRODUCER = 2,
    MODEL_PRODUCER_VERSION = 3,
    MODEL_GRAPH = 7,
    MODEL_OPSET = 8,
    MODEL_METADATA = 14
};
enum { OPSET_VERSION = 2, ENTRY_KEY = 1, ENTRY_VALUE = 2 };
enum { IR_VERSION = 7 };
static const uint64_t max_bytes = INT32_MAX; /* of a message of protocol buffers */

typedef struct weight {
    size_t index; /* of the model's tensor */
    comet_tensor_info info;
    protobuf header; /* all of its message but the elements, with what comes before it in the graph */
} weight;

typedef struct onnx_job {
    const comet_model *model;
    const char *path;
    weight *weights;
    size_t n_weights;
    uint64_t largest;            /* elements of a tensor */
    protobuf begin, values, end; /* of the file: up to the weights, and after them */
} onnx_job;

static comet_status out_of_memory(const onnx_job *job)
{
    return comet_fail(COMET_ERROR_MEMORY, "out of memory while writing %s", job->path);
}

/* ---- the weights ---- */

/* The message of a tensor of 2^31 elements would be too long; the sizes of smaller ones fit. */
static void put_header(weight *w)
{
    protobuf t = {0};
    const uint64_t raw = w->info.n_elements * sizeof(float);
    for (uint32_t i = 0; i < w->info.n_dims; i++)
        protobuf_put_int(&t, ONNX_TENSOR_DIMS, (int64_t)w->info.dims[i]);
    protobuf_put_int(&t, ONNX_TENSOR_TYPE, ONNX_FLOAT);
    protobuf_put_text(&t, ONNX_TENSOR_NAME, w->info.name);
    protobuf_put_length(&t, ONNX_TENSOR_RAW, raw);
    protobuf_put_length(&w->header, ONNX_GRAPH_INITIALIZER, t.bytes + raw);
    protobuf_append(&w->header, &t);
    protobuf_free(&t);
}

static comet_status collect_weights(onnx_job *job)
{
    const size_t n = comet_model_n_tensors(job->model);
    job->weights = calloc(n + 1, sizeof *job->weights);
    if (!job->weights)
        return out_of_memory(job);
    for (size_t i = 0; i < n; i++) {
        weight *w = &job->weights[job->n_weights];
        comet_tensor_info_init(&w->info);
        TRY(comet_model_describe_tensor(job->model, i, &w->info));
        if (w->info.kind != COMET_TENSOR_WEIGHT && w->info.kind != COMET_TENSOR_STATISTIC)
            continue;
        w->index = i;
        job->largest = w->info.n_elements > job->largest ? w->info.n_elements : job->largest;
        put_header(w);
        job->n_weights++;
        if (w->header.failed)
            return out_of_memory(job);
    }
    return COMET_OK;
}

static comet_status write_weight(const onnx_job *job, const weight *w, float *elements, atomic_file *file)
{
    TRY(comet_model_tensor_read(job->model, w->index, elements));
    for (uint64_t i = 0; i < w->info.n_elements; i++)
        if (!isfinite(elements[i]))
            return comet_fail(COMET_ERROR_DIVERGED, "element %" PRIu64 " of %s is not finite", i, w->info.name);
    TRY(atomic_file_write(file, w->header.data, w->header.bytes));
    return atomic_file_write(file, elements, (size_t)w->info.n_elements * sizeof *elements);
}

/* ---- the file around them ---- */

static void put_entry(protobuf *p, const char *key, const char *text)
{
    protobuf entry = {0};
    protobuf_put_text(&entry, ENTRY_KEY, key);
    protobuf_put_text(&entry, ENTRY_VALUE, text);
    protobuf_put_message(p, MODEL_METADATA, &entry);
}

static void put_versions(protobuf *p)
{
    protobuf opset = {0};
    protobuf_put_int(p, MODEL_IR_VERSION, IR_VERSION);
    protobuf_put_text(p, MODEL_PRODUCER, "comet");
    protobuf_put_text(p, MODEL_PRODUCER_VERSION, COMET_VERSION_STRING);
    protobuf_put_int(&opset, OPSET_VERSION, ONNX_OPSET);
    protobuf_put_message(p, MODEL_OPSET, &opset);
}

/* All that is not weights, and the length of the graph, which comes before it. */
static comet_status make_frame(onnx_job *job, const safetensors_pair *metadata, size_t n_metadata)
{
    const comet_net *net = comet_model_net(job->model);
    protobuf nodes = {0};
    char *text = NULL;
    TRY(comet_net_write(net, &text));
    onnx_graph_put_nodes(&nodes, net);
    onnx_graph_put_values(&job->values, net);
    uint64_t graph = nodes.bytes + job->values.bytes;
    for (size_t i = 0; i < job->n_weights; i++)
        graph += job->weights[i].header.bytes + job->weights[i].info.n_elements * sizeof(float);
    put_versions(&job->begin);
    protobuf_put_length(&job->begin, MODEL_GRAPH, graph);
    protobuf_append(&job->begin, &nodes);
    put_entry(&job->end, "comet.net", text);
    for (size_t i = 0; i < n_metadata; i++)
        put_entry(&job->end, metadata[i].key, metadata[i].text);
    protobuf_free(&nodes);
    comet_text_free(text);
    if (job->begin.failed || job->values.failed || job->end.failed)
        return out_of_memory(job);
    if (graph + job->end.bytes + job->begin.bytes > max_bytes)
        return comet_fail(COMET_ERROR_UNSUPPORTED, "%s: it would have %" PRIu64 " bytes; an ONNX file has less than 2 GiB",
                          job->path, graph);
    return COMET_OK;
}

static comet_status write_file(const onnx_job *job)
{
    atomic_file file = {.fd = -1};
    float *elements = malloc((size_t)job->largest * sizeof *elements + 1);
    if (!elements)
        return comet_fail(COMET_ERROR_MEMORY, "out of memory: could not allocate %" PRIu64 " elements of the largest tensor",
                          job->largest);
    comet_status status = atomic_file_begin(&file, job->path);
    if (status == COMET_OK)
        status = atomic_file_write(&file, job->begin.data, job->begin.bytes);
    for (size_t i = 0; i < job->n_weights && status == COMET_OK; i++)
        status = write_weight(job, &job->weights[i], elements, &file);
    if (status == COMET_OK)
        status = atomic_file_write(&file, job->values.data, job->values.bytes);
    if (status == COMET_OK)
        status = atomic_file_write(&file, job->end.data, job->end.bytes);
    if (status == COMET_OK)
        status = atomic_file_commit(&file, NULL);
    atomic_file_abandon(&file);
    free(elements);
    return status;
}

comet_status onnx_file_save(const comet_model *model, const char *path, const safetensors_pair *metadata, size_t n_metadata)
{
    onnx_job job = {.model = model, .path = path};
    comet_status status = collect_weights(&job);
    if (status == COMET_OK)
        status = make_frame(&job, metadata, n_metadata);
    if (status == COMET_OK)
        status = write_file(&job);
    for (size_t i = 0; job.weights && i < job.n_weights; i++)
        protobuf_free(&job.weights[i].header);
    free(job.weights);
    protobuf_free(&job.begin);
    protobuf_free(&job.values);
    protobuf_free(&job.end);
    return status;
}
