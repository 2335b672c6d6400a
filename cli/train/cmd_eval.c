/* comet eval: scores of weights on the test part of the data. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "comet/base.h"
#include "kit/file_io.h"
#include "kit/json_out.h"
#include "kit/out_stream.h"
#include "kit/progress.h"
#include "kit/text.h"
#include "train/class_table.h"
#include "train/figures.h"
#include "train/precision_args.h"
#include "train/train_setup.h"
#include "verbs.h"

typedef struct eval_args {
    net_args net;
    data_args data;
    precision_args precision;
    uint64_t batch, n_threads, loader_threads;
    bool last, train_part, json, per_class, confusion, force;
    const char *output;
} eval_args;

#define AT(field) offsetof(eval_args, field)
static const option options[] = {
    OPTION_DATA(eval_args),
    OPTION_IMAGE(eval_args),
    OPTION_IMAGES(eval_args),
    OPTION_STRICT(eval_args),
    {0, "train-part", NULL, set_flag, AT(train_part), "score the training part, without augmentation (default: the test part)"},
    {0, "per-class", NULL, set_flag, AT(per_class), "for each class: images, top-1, and what it was most often taken for"},
    {0, "confusion", NULL, set_flag, AT(confusion), "the confusion matrix: how often each class was taken for each other"},
    OPTION_OUTPUT(eval_args, "write the table or the matrix to FILE as CSV, or everything with --json"),
    OPTION_FORCE(eval_args),
    {0, "last", NULL, set_flag, AT(last), "take the last checkpoint of a run folder (default: the best)"},
    OPTION_MODEL(eval_args),
    OPTION_NET(eval_args),
    OPTION_CLASSES(eval_args),
    {0, "batch", "N", set_count, AT(batch), "images at a time (default 64)"},
    OPTION_PRECISION(eval_args),
    OPTION_THREADS(eval_args, "threads that compute (default 0: one per core)"),
    {0, "loader-threads", "N", set_threads, AT(loader_threads),
     "threads that decode images (default 0: one per core, at most 4)"},
    OPTION_JSON(eval_args, "print one JSON object (default: lines to read)"),
};

typedef struct totals {
    uint64_t n, n_top1, n_top5;
    double loss, seconds;
} totals;

static void show_progress(const totals *t, uint64_t n_images, double seconds)
{
    const double speed = (double)t->n / seconds, left = (double)(n_images - t->n) / speed;
    char text[SPEED_BYTES];
    progress_text("evaluating %" PRIu64 "/%" PRIu64 "  top-1 %.2f %%  %s images/s  %d:%02d left", t->n, n_images,
                  100 * (double)t->n_top1 / (double)t->n, text_speed(speed, text), (int)(left / 60), (int)fmod(left, 60));
}

static comet_status score_all(comet_model *model, comet_loader *loader, uint64_t n_images, totals *t, class_table *table)
{
    const double began = comet_seconds();
    comet_status status = COMET_OK;
    while (status == COMET_OK) {
        comet_batch batch;
        comet_scores scores = {0};
        bool end = false;
        status = comet_loader_next(loader, &batch, &end);
        if (status != COMET_OK || end)
            break;
        status = comet_model_evaluate(model, batch.images, batch.labels, batch.n_valid, &scores);
        if (status == COMET_OK && table->counts)
            class_table_count(table, &batch, comet_model_outputs(model));
        comet_loader_release(loader, &batch);
        if (status != COMET_OK)
            break;
        t->loss += scores.loss * scores.n_valid;
        t->n += scores.n_valid;
        t->n_top1 += scores.n_top1;
        t->n_top5 += scores.n_top5;
        show_progress(t, n_images, comet_seconds() - began);
    }
    progress_hide();
    t->seconds = comet_seconds() - began;
    return status;
}

/* The table or the matrix as CSV. */
static cli_exit write_csv(const eval_args *args, const class_table *table)
{
    out_stream out;
    const cli_exit code = out_open(&out, args->output, args->force);
    if (code != CLI_OK)
        return code;
    (args->per_class ? class_table_csv : matrix_csv)(table, out.stream);
    return out_close(&out, CLI_OK);
}

static cli_exit write_json(const eval_args *args, json *j)
{
    out_stream out;
    cli_exit code = out_open(&out, args->output, args->force);
    if (code != CLI_OK) {
        cJSON_Delete(j->root);
        return code;
    }
    code = json_write(j, out.stream);
    return out_close(&out, code);
}

static cli_exit print_totals(const eval_args *args, const char *path, const totals *t, const comet_loader_stats *stats,
                             const class_table *table)
{
    const double n = t->n > 0 ? (double)t->n : 1;
    char shown[PRINTABLE_BYTES], speed[SPEED_BYTES];
    if (!args->json) {
        printf("weights   %s\nimages    %" PRIu64 "\nloss      %.6f\ntop-1     %.2f %%\ntop-5     %.2f %%\nimages/s  %s\n",
               text_printable(path, shown, sizeof shown), t->n, t->loss / n, 100 * (double)t->n_top1 / n,
               100 * (double)t->n_top5 / n, text_speed(n / t->seconds, speed));
        if (stats->n_skipped > 0)
            printf("skipped   %" PRIu64 " broken images\n", stats->n_skipped);
        if (args->output)
            return write_csv(args, table);
        if (args->per_class)
            class_table_print(table, stdout);
        if (args->confusion)
            matrix_print(table, stdout);
        return CLI_OK;
    }
    json j = json_begin();
    json_add_text(&j, "weights", path);
    json_add_u64(&j, "images", t->n);
    json_add_double(&j, "loss", t->loss / n);
    json_add_double(&j, "top1", (double)t->n_top1 / n);
    json_add_double(&j, "top5", (double)t->n_top5 / n);
    json_add_double(&j, "images_per_s", n / t->seconds);
    json_add_u64(&j, "skipped_images", stats->n_skipped);
    json_add_u64(&j, "peak_rss_bytes", comet_peak_rss());
    if (args->per_class)
        class_table_json(table, &j);
    if (args->confusion)
        matrix_json(table, &j);
    return write_json(args, &j);
}

/* With a loss that is not finite the other scores mean nothing. */
static cli_exit check_loss(const char *path, const totals *t)
{
    if (isfinite(t->loss))
        return CLI_OK;
    return fail(CLI_FAILED,
                "the loss is not finite, though all weights in %s are: sums overflow on this data; is it data like that of "
                "training, and is the net the one of the weights?",
                path);
}

static cli_exit finish(const eval_args *args, const char *path, const totals *t, const comet_loader *loader,
                       const class_table *table)
{
    const comet_loader_stats stats = stats_of(loader);
    if (stats.n_skipped > 0)
        say("%" PRIu64 " broken image%s skipped, the next readable one was scored instead; the first: %s", stats.n_skipped,
            stats.n_skipped == 1 ? "" : "s", stats.first_skipped);
    const cli_exit code = print_totals(args, path, t, &stats, table);
    return code == CLI_OK ? check_loss(path, t) : code;
}

static comet_status make_model(const eval_args *args, const comet_net *net, const char *path, comet_model **model)
{
    comet_model_params params;
    comet_model_params_init(&params);
    params.batch = (uint32_t)args->batch;
    params.n_threads = (uint32_t)args->n_threads;
    params.inference = true;
    precision_fill(&args->precision, &params);
    comet_status status = comet_model_check_memory(net, &params, 0);
    if (status == COMET_OK)
        status = comet_model_create(model, net, &params);
    if (status == COMET_OK)
        status = comet_weights_load(*model, path);
    return status;
}

static cli_exit evaluate(const eval_args *args, const comet_net *net, comet_dataset *data, const char *path, class_table *table)
{
    comet_model *model = NULL;
    comet_loader *loader = NULL;
    comet_loader_params params;
    totals t = {0};
    comet_status status = make_model(args, net, path, &model);
    if (status != COMET_OK) {
        const cli_exit code = fail_weights(status, path, &args->net, net);
        comet_model_destroy(model);
        return code;
    }
    comet_loader_params_init(&params);
    params.batch = (uint32_t)args->batch;
    params.n_threads = (uint32_t)args->loader_threads;
    status = comet_loader_create(&loader, data, &params);
    if (status == COMET_OK)
        status = score_all(model, loader, info_of(data).n_images, &t, table);
    cli_exit code = status == COMET_OK ? CLI_OK : fail_status(status, NULL);
    if (code == CLI_OK)
        code = finish(args, path, &t, loader, table);
    comet_loader_destroy(loader);
    comet_model_destroy(model);
    return code;
}

/* Before the work: what could not be written, and what nobody would read. */
static cli_exit check_args(const eval_args *args)
{
    if (args->output && !args->json && args->per_class == args->confusion)
        return fail(CLI_USAGE, args->per_class
                                   ? "-o writes one table as CSV: give --per-class or --confusion, or --json for both"
                                   : "-o needs --per-class, --confusion or --json");
    return args->output ? file_check_output(args->output, args->force) : CLI_OK;
}

static cli_exit check_matrix(const eval_args *args, const comet_dataset *data, uint32_t n_outputs)
{
    const uint32_t n = info_of(data).n_classes > n_outputs ? info_of(data).n_classes : n_outputs;
    if (!args->confusion || args->json || args->output || n <= MATRIX_MOST_SHOWN)
        return CLI_OK;
    return fail(CLI_USAGE, "a matrix of %" PRIu32 " classes is too wide to read (%d at most); give -o FILE for CSV, or --json",
                n, MATRIX_MOST_SHOWN);
}

/* Weights of 1000 classes may be scored on data of three, but the labels are then seldom the net's. */
static void say_other_classes(const comet_dataset *data, uint32_t n_outputs)
{
    const uint32_t n = info_of(data).n_classes;
    if (n < n_outputs)
        say("the net tells %" PRIu32 " classes apart, the data has %" PRIu32 ": they are taken for the net's first ones",
            n_outputs, n);
}

static cli_exit run(const void *given, char **operands, size_t n_operands)
{
    const eval_args *args = given;
    char path[4096];
    class_table table = {0};
    comet_net *net = NULL;
    comet_dataset *data = NULL;
    (void)n_operands;
    const bool named_net = args->net.model || args->net.file;
    cli_exit code = check_args(args);
    if (code == CLI_OK)
        code = weights_path(operands[0], args->last, path, sizeof path);
    if (code == CLI_OK)
        code = named_net ? net_open(&args->net, 0, (uint32_t)args->data.image, &net) : net_of_weights(path, &net);
    if (code == CLI_OK) {
        const uint32_t classes = comet_net_shape(net, comet_net_n_values(net) - 1).channels;
        code = data_open(&args->data, net, classes, args->train_part ? COMET_SPLIT_TRAIN : COMET_SPLIT_TEST, &data);
    }
    if (code == CLI_OK) {
        const comet_status status = comet_model_check_data(net, data, args->train_part ? "training" : "test");
        code = status == COMET_OK ? CLI_OK : fail_status(status, NULL);
    }
    if (code == CLI_OK) {
        const uint32_t n_outputs = comet_net_shape(net, comet_net_n_values(net) - 1).channels;
        code = check_matrix(args, data, n_outputs);
        if (code == CLI_OK)
            say_other_classes(data, n_outputs);
        if (code == CLI_OK && (args->per_class || args->confusion))
            code = class_table_make(&table, data, path, n_outputs);
    }
    if (code == CLI_OK)
        code = evaluate(args, net, data, path, &table);
    class_table_free(&table);
    comet_dataset_close(data);
    comet_net_destroy(net);
    return code;
}

const verb verb_eval = {
    .name = "eval",
    .summary = "Score weights on data",
    .computes = true,
    .usage = "RUN|WEIGHTS --data SPEC [options]",
    .details = "RUN is a folder that 'comet train --out' wrote, WEIGHTS a safetensors file. Files that comet wrote\n"
               "name their net; for others give --model or --net.\n",
    .examples = "  comet eval runs/a --data cifar10:DIR\n"
                "  comet eval weights.safetensors --data fashion --json\n"
                "  comet eval runs/a --data folder:DIR --per-class --confusion\n"
                "  comet eval resnet18.safetensors --model resnet18 --data folder:DIR --batch 32\n",
    .operands = (const char *const[]){"RUN or WEIGHTS, what to score,", NULL},
    .options = options,
    .n_options = N_ITEMS(options),
    .defaults = &(const eval_args){.batch = 64},
    .args_bytes = sizeof(eval_args),
    .run = run,
};
