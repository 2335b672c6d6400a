/* comet predict: classes of pictures, by trained weights. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "comet/predict.h"
#include "kit/csv.h"
#include "kit/json_out.h"
#include "kit/out_stream.h"
#include "kit/progress.h"
#include "train/picture_list.h"
#include "train/train_setup.h"
#include "verbs.h"

typedef struct predict_args {
    net_args net;
    uint64_t image, batch, top, n_threads, loader_threads; /* image: of a built-in net, 0: its own */
    const char *output;
    bool force, last, strict, json;
} predict_args;

#define AT(field) offsetof(predict_args, field)
static const option options[] = {
    {0, "top", "N", set_count, AT(top), "the N most probable classes of each picture (default 1)"},
    OPTION_OUTPUT(predict_args, "write to FILE (default: standard output)"),
    OPTION_FORCE(predict_args),
    OPTION_JSON(predict_args, "write one JSON object a picture and line (default: CSV)"),
    {0, "strict", NULL, set_flag, AT(strict), "stop at a picture that cannot be read (default: name and skip it)"},
    {0, "last", NULL, set_flag, AT(last), "take the last checkpoint of a run folder (default: the best)"},
    OPTION_MODEL(predict_args),
    OPTION_NET(predict_args),
    OPTION_CLASSES(predict_args),
    {0, "image", "N", set_count, AT(image), "pixels on each side of a built-in net's images (default: the net's)"},
    {0, "batch", "N", set_count, AT(batch), "pictures at a time (default 32)"},
    OPTION_THREADS(predict_args, "threads that compute (default 0: one per core)"),
    {0, "loader-threads", "N", set_threads, AT(loader_threads),
     "threads that decode pictures (default 0: one per core, at most 4)"},
};

/* The run of the verb. */
typedef struct job {
    const predict_args *args;
    const comet_predictor *predictor;
    FILE *out;
    uint32_t *best; /* labels, the most probable first */
    uint32_t n_best;
    uint64_t n_done, n_broken, n_files;
    cli_exit code;
} job;

/* Fills j->best. Of equal probabilities the smaller label comes first. */
static void choose_best(const job *j, const float *probabilities)
{
    const uint32_t n_classes = comet_predictor_n_classes(j->predictor);
    uint32_t n = 0;
    for (uint32_t c = 0; c < n_classes; c++) {
        uint32_t at = n < j->n_best ? n++ : n;
        for (; at > 0 && probabilities[c] > probabilities[j->best[at - 1]]; at--)
            if (at < n)
                j->best[at] = j->best[at - 1];
        if (at < n)
            j->best[at] = c;
    }
}

/* Six digits: more are noise. */
static double rounded(float probability)
{
    char text[32];
    snprintf(text, sizeof text, "%.6g", (double)probability);
    return strtod(text, NULL);
}

/* ---- CSV ---- */

static void write_csv(const job *j, const comet_prediction *p)
{
    for (uint32_t i = 0; i < j->n_best; i++) {
        const char *name = comet_predictor_class(j->predictor, j->best[i]);
        char path[4200];
        snprintf(path, sizeof path, p->is_array ? "%s[%" PRIu64 "]" : "%s", p->path, p->row);
        csv_text(j->out, path);
        fputc(',', j->out);
        if (name)
            csv_text(j->out, name);
        else
            fprintf(j->out, "%" PRIu32, j->best[i]);
        fprintf(j->out, ",%.6g\n", (double)p->probabilities[j->best[i]]);
    }
}

/* ---- JSON ---- */

static void add_class(const job *j, const comet_prediction *p, uint32_t label, json *to)
{
    json_add_text(to, "class", comet_predictor_class(j->predictor, label));
    json_add_u64(to, "label", label);
    json_add_double(to, "probability", rounded(p->probabilities[label]));
}

static void add_top(const job *j, const comet_prediction *p, json *to)
{
    cJSON *list = cJSON_CreateArray();
    for (uint32_t i = 0; i < j->n_best && list; i++) {
        json one = json_begin();
        add_class(j, p, j->best[i], &one);
        to->failed = to->failed || one.failed || !cJSON_AddItemToArray(list, one.root);
    }
    json_add_item(to, "top", list);
}

static cli_exit write_json(const job *j, const comet_prediction *p)
{
    json line = json_begin();
    json_add_text(&line, "file", p->path);
    if (p->is_array)
        json_add_u64(&line, "row", p->row);
    if (p->probabilities) {
        add_class(j, p, j->best[0], &line);
        if (j->args->top > 1)
            add_top(j, p, &line);
    } else {
        json_add_text(&line, "error", p->error);
    }
    return json_write(&line, j->out);
}

/* ---- the run ---- */

static void show_progress(const job *j)
{
    if (j->n_done % 16 == 0)
        progress_text("predicting %" PRIu64 "/%" PRIu64, j->n_done, j->n_files > j->n_done ? j->n_files : j->n_done);
}

static comet_status take(void *user, const comet_prediction *p)
{
    job *j = user;
    j->n_done++;
    show_progress(j);
    if (p->probabilities) {
        choose_best(j, p->probabilities);
    } else {
        j->n_broken++;
        complain("skipped: %s", p->error);
    }
    if (j->args->json)
        j->code = write_json(j, p);
    else if (p->probabilities)
        write_csv(j, p);
    if (j->code == CLI_OK && ferror(j->out))
        j->code = fail(CLI_FAILED, "%s: could not be written", j->args->output ? j->args->output : "standard output");
    return j->code == CLI_OK ? COMET_OK : COMET_ERROR_IO;
}

static cli_exit predict(const predict_args *args, comet_predictor *predictor, const picture_list *list)
{
    out_stream out;
    job j = {.args = args, .predictor = predictor, .n_files = list->n};
    const uint32_t n_classes = comet_predictor_n_classes(predictor);
    j.n_best = args->top < n_classes ? (uint32_t)args->top : n_classes;
    j.best = calloc(j.n_best, sizeof *j.best);
    if (!j.best)
        return fail_memory(j.n_best * sizeof *j.best);
    cli_exit code = out_open(&out, args->output, args->force);
    if (code == CLI_OK) {
        j.out = out.stream;
        if (!args->json)
            fputs("file,class,probability\n", j.out);
        const comet_status status = comet_predict(predictor, (const char *const *)list->paths, list->n, take, &j);
        progress_hide();
        code = j.code != CLI_OK ? j.code : status != COMET_OK ? fail_status(status, NULL) : CLI_OK;
        if (code == CLI_OK && j.n_broken > 0 && j.n_broken == j.n_done)
            code = fail(CLI_BAD_INPUT, "none of the pictures can be read");
        code = out_close(&out, code);
    }
    free(j.best);
    return code;
}

static cli_exit open_net(const predict_args *args, const char *path, comet_net **net)
{
    return args->net.model || args->net.file ? net_open(&args->net, 0, (uint32_t)args->image, net) : net_of_weights(path, net);
}

static cli_exit run(const void *given, char **operands, size_t n_operands)
{
    const predict_args *args = given;
    char path[4096];
    picture_list list = {0};
    comet_net *net = NULL;
    comet_predictor *predictor = NULL;
    comet_predictor_params params;
    cli_exit code = weights_path(operands[0], args->last, path, sizeof path);
    for (size_t i = 1; i < n_operands && code == CLI_OK; i++)
        code = picture_list_add(&list, operands[i]);
    if (code == CLI_OK)
        code = open_net(args, path, &net);
    if (code == CLI_OK) {
        comet_predictor_params_init(&params);
        params.net = net;
        params.batch = (uint32_t)args->batch;
        params.n_threads = (uint32_t)args->n_threads;
        params.loader_threads = (uint32_t)args->loader_threads;
        params.strict = args->strict;
        const comet_status status = comet_predictor_create(&predictor, path, &params);
        code = status == COMET_OK ? CLI_OK : fail_weights(status, path, &args->net, net);
    }
    if (code == CLI_OK)
        code = predict(args, predictor, &list);
    comet_predictor_destroy(predictor);
    comet_net_destroy(net);
    picture_list_free(&list);
    return code;
}

const verb verb_predict = {
    .name = "predict",
    .summary = "Tell the classes of pictures",
    .computes = true,
    .usage = "RUN|WEIGHTS PATH... [options]",
    .details = "RUN is a folder that 'comet train --out' wrote, WEIGHTS a safetensors file. PATH is a JPEG or PNG picture, a\n"
               "folder (its pictures and those of the folders in it), or a .npy array of images. Prints 'file,class,\n"
               "probability', the most probable class first. Pictures are prepared as those of the test part in training.\n"
               "Pictures that cannot be read are named and skipped; if none can be read, the exit code is 3.\n",
    .examples = "  comet predict runs/a photo.jpg\n"
                "  comet predict runs/a new/ --top 3 -o classes.csv\n"
                "  comet predict weights.safetensors new/ --json\n"
                "  comet predict resnet18.safetensors new/ --model resnet18\n",
    .operands =
        (const char *const[]){"RUN or WEIGHTS, what to predict with,", "PATH, a picture or a folder of pictures,", NULL},
    .more_operands = true,
    .options = options,
    .n_options = N_ITEMS(options),
    .defaults = &(const predict_args){.batch = 32, .top = 1},
    .args_bytes = sizeof(predict_args),
    .run = run,
};
