/*
 * comet demo train: a small residual net on Fashion-MNIST, once with raw and once with compressed activations, each by `comet
 * train` in a process of its own, and a table of both.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size_text.h"
#include "kit/child.h"
#include "kit/json_out.h"
#include "kit/text.h"
#include "train/compression_args.h"
#include "train/train_setup.h"
#include "verbs.h"

enum { IMAGE = 28, RAW = 0, COMPRESSED = 1, N_RUNS = 2 };

typedef struct demo_args {
    uint64_t batch, steps, seed, n_threads;
    const char *data;
    mode_arg mode;
    bool json;
} demo_args;

#define AT(field) offsetof(demo_args, field)
static const option options[] = {
    {0, "steps", "N", set_count, AT(steps), "updates of each run (default 300)"},
    {0, "batch", "N", set_count, AT(batch), "images in a step (default 256)"},
    {0, "compress", "HOW", set_mode, AT(mode), "compression of the second run: lossless, fast, dense or auto (default auto)"},
    {0, "data", "SPEC", set_text, AT(data), "data as for train (default fashion, or synthetic where that is not installed)"},
    {0, "seed", "N", set_u64, AT(seed), "seed of weights, order and augmentation (default 0)"},
    OPTION_THREADS(demo_args, "threads that compute (default 0: one per core)"),
    OPTION_JSON(demo_args, "the result of each run as a JSON object (default: a table)"),
};

/* Fashion-MNIST where it is installed. */
static const char *pick_data(void)
{
    comet_dataset_params params;
    comet_dataset *data = NULL;
    comet_dataset_params_init(&params);
    params.split = COMET_SPLIT_TEST;
    const comet_status status = comet_dataset_open(&data, "fashion", &params);
    comet_dataset_close(data);
    if (status == COMET_OK)
        return "fashion";
    say("%s; made-up images are used instead", comet_last_error());
    return "synthetic";
}

static bool takes_any_size(const char *data)
{
    return strcmp(data, "synthetic") == 0 || strncmp(data, "folder:", strlen("folder:")) == 0;
}

static cli_exit train(const demo_args *args, comet_compress_mode mode, char **text)
{
    command c = {.n = 0};
    command_word(&c, "comet");
    command_word(&c, "train");
    command_text(&c, "--model", "resnet20");
    command_text(&c, "--data", args->data);
    if (takes_any_size(args->data))
        command_number(&c, "--image", IMAGE);
    command_number(&c, "--batch", args->batch);
    command_number(&c, "--max-steps", args->steps);
    command_number(&c, "--seed", args->seed);
    command_number(&c, "--threads", args->n_threads);
    command_text(&c, "--compress", mode_name(mode));
    command_word(&c, "--json");
    return command_run(&c, mode_name(mode), text);
}

/* ---- the table ---- */

static void print_size_row(const char *name, const cJSON *const runs[N_RUNS], const char *key)
{
    char text[N_RUNS][SIZE_TEXT_BYTES];
    const double raw = json_number(runs[RAW], key), compressed = json_number(runs[COMPRESSED], key);
    printf("%-20s %12s %12s %9.1f x less\n", name, comet_size_text((uint64_t)raw, text[0]),
           comet_size_text((uint64_t)compressed, text[1]), raw / compressed);
}

static void print_table(const cJSON *const runs[N_RUNS])
{
    char full[SIZE_TEXT_BYTES], data[SIZE_TEXT_BYTES];
    const double top1[N_RUNS] = {json_number(runs[RAW], "top1"), json_number(runs[COMPRESSED], "top1")};
    const double speed[N_RUNS] = {json_number(runs[RAW], "images_per_s"), json_number(runs[COMPRESSED], "images_per_s")};
    const double reference = json_number(runs[COMPRESSED], "saved_reference_bytes");
    const double ratio[N_RUNS] = {reference / json_number(runs[RAW], "saved_bytes"),
                                  reference / json_number(runs[COMPRESSED], "saved_bytes")};
    printf("\n%-20s %12s %12s\n", "", "raw", "compressed");
    printf("%-20s %10.2f %% %10.2f %% %+9.2f points\n", "accuracy", 100 * top1[0], 100 * top1[1], 100 * (top1[1] - top1[0]));
    print_size_row("peak memory", runs, "peak_rss_bytes");
    print_size_row("activation memory", runs, "saved_bytes");
    printf("%-20s %10.1f x %10.1f x\n", "  ratio", ratio[RAW], ratio[COMPRESSED]);
    printf("%-20s %12.0f %12.0f %9.2f of raw\n", "images per second", speed[0], speed[1], speed[1] / speed[0]);
    printf("\nActivation memory is what a step keeps until backward needs it, at its peak in the first steps; ratio is how\n"
           "much less that is than the %s of a program that keeps everything. The same seed and images both times; the\n"
           "accuracy of so short a run differs by a point or so from seed to seed, raw and compressed (--seed). Peak memory\n"
           "is that of the whole process: program, data (%s) and all.\n",
           comet_size_text((uint64_t)reference, full),
           comet_size_text((uint64_t)json_number(runs[COMPRESSED], "data_bytes"), data));
}

static void print_begin(const demo_args *args)
{
    const bool fashion = strcmp(args->data, "fashion") == 0;
    char shown[PRINTABLE_BYTES];
    printf("A residual net of 20 layers (resnet20) learns %s, %" PRIu64 " steps of %" PRIu64 " images, twice.\n",
           fashion ? "Fashion-MNIST" : text_printable(args->data, shown, sizeof shown), args->steps, args->batch);
}

/* One run; *end becomes the JSON object of its result. */
static cli_exit one_run(const demo_args *args, size_t index, cJSON **end)
{
    static const char *const names[N_RUNS] = {"activations kept as they are", "activations kept compressed"};
    char *text = NULL;
    if (!args->json)
        printf("%zu of %d: %s ...\n", index + 1, N_RUNS, names[index]);
    cli_exit code = train(args, index == RAW ? COMET_COMPRESS_OFF : args->mode.value, &text);
    if (code != CLI_OK)
        return code;
    if (args->json)
        fputs(text, stdout);
    *end = cJSON_Parse(text);
    if (!*end)
        code = fail(CLI_FAILED, "could not parse the result of a run: %.60s", text);
    else if (!args->json)
        printf("        %.0f s, accuracy %.2f %%\n", json_number(*end, "seconds"), 100 * json_number(*end, "top1"));
    free(text);
    return code;
}

static cli_exit run(const void *given, char **operands, size_t n_operands)
{
    demo_args args = *(const demo_args *)given;
    cJSON *ends[N_RUNS] = {NULL, NULL};
    cli_exit code = CLI_OK;
    (void)operands, (void)n_operands;
    if (args.mode.value == COMET_COMPRESS_OFF)
        return fail(CLI_USAGE, "--compress off: the first run is uncompressed already; choose how to compress the second");
    if (!args.data)
        args.data = pick_data();
    if (!args.json)
        print_begin(&args);
    for (size_t i = 0; i < N_RUNS && code == CLI_OK; i++)
        code = one_run(&args, i, &ends[i]);
    if (code == CLI_OK && !args.json)
        print_table((const cJSON *const *)(const void *)ends);
    for (size_t i = 0; i < N_RUNS; i++)
        cJSON_Delete(ends[i]);
    return code;
}

const verb verb_demo_train = {
    .name = "demo train",
    .summary = "Train a small net twice, raw and compressed, and compare",
    .computes = true,
    .usage = "[--steps N] [--batch N] [--compress HOW] [--data SPEC] [-j N] [--json]",
    .details = "Takes about four minutes on two cores, and 400 MB of memory. The runs are 'comet train' with the options\n"
               "given here; nothing is written.\n",
    .examples = "  comet demo\n"
                "  comet demo train --compress dense\n"
                "  comet demo train --data synthetic --steps 50 --json\n",
    .operands = (const char *const[]){NULL},
    .options = options,
    .n_options = N_ITEMS(options),
    .defaults = &(const demo_args){.batch = 256, .steps = 300, .mode = {false, COMET_COMPRESS_AUTO}},
    .args_bytes = sizeof(demo_args),
    .run = run,
};
