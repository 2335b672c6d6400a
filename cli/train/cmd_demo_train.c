/*
 * comet demo train: a small residual net on Fashion-MNIST, once with raw and once with compressed activations, and a table of
 * both; then two steps of a large net within 1 GiB, with the largest batch that fits raw and compressed. Every run is `comet
 * train` in a process of its own. The logs of the first two stay in a folder, with a page of them.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/size_text.h"
#include "base/threads.h"
#include "kit/child.h"
#include "kit/json_out.h"
#include "kit/text.h"
#include "train/compression_args.h"
#include "train/train_setup.h"
#include "verbs.h"

enum { IMAGE = 28, RAW = 0, COMPRESSED = 1, N_RUNS = 2, PATH_BYTES = 4096 };

/* The large net. Its images are made up, and few, since the test part is scored after the steps. */
enum { LARGE_IMAGE = 224, LARGE_IMAGES = 160, LARGE_STEPS = 2 };
/* The demo is to end within five minutes. At the speeds of docs/performance.md the large net takes about a quarter of the time
 * of the runs before; the share is cautious. */
static const double MOST_SECONDS = 300, LARGE_SHARE = 0.4;

typedef struct demo_args {
    uint64_t batch, steps, seed, n_threads;
    const char *data, *out;
    mode_arg mode;
    uint64_t memory;
    bool no_large, json;
} demo_args;

#define AT(field) offsetof(demo_args, field)
static const option options[] = {
    {0, "steps", "N", set_count, AT(steps), "updates of each run (default 300)"},
    {0, "batch", "N", set_count, AT(batch), "images in a step (default 256)"},
    {0, "compress", "HOW", set_mode, AT(mode), "compression of the second run: lossless, fast, dense or auto (default auto)"},
    {0, "data", "SPEC", set_text, AT(data), "data as for train (default fashion, or synthetic where that is not installed)"},
    {0, "out", "DIR", set_text, AT(out), "folder for the logs and the page of both runs, made if missing (default comet-demo)"},
    {0, "memory", "SIZE", set_bytes, AT(memory), "budget of the large net (default 1GiB)"},
    {0, "no-large", NULL, set_flag, AT(no_large), "leave out the large net"},
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

/* The log of a run in the folder; "" where there is no folder. */
static void log_path(const demo_args *args, size_t index, char path[PATH_BYTES])
{
    static const char *const names[N_RUNS] = {"raw.jsonl", "compressed.jsonl"};
    path[0] = '\0';
    if (args->out)
        snprintf(path, PATH_BYTES, "%s/%s", args->out, names[index]);
}

static cli_exit train(const demo_args *args, size_t index, char **text)
{
    const comet_compress_mode mode = index == RAW ? COMET_COMPRESS_OFF : args->mode.value;
    char log[PATH_BYTES];
    command c = {.n = 0};
    log_path(args, index, log);
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
    command_text(&c, "--log", log[0] != '\0' ? log : NULL);
    command_flag(&c, "--force", log[0] != '\0');
    command_word(&c, "--json");
    return command_run(&c, mode_name(mode), text);
}

/* A few steps of a large net with the largest batch within the budget. */
static cli_exit train_large(const demo_args *args, size_t index, char **text)
{
    const comet_compress_mode mode = index == RAW ? COMET_COMPRESS_OFF : args->mode.value;
    char memory[32];
    command c = {.n = 0};
    snprintf(memory, sizeof memory, "%" PRIu64 "B", args->memory);
    command_word(&c, "comet");
    command_word(&c, "train");
    command_text(&c, "--model", "resnet50");
    command_text(&c, "--data", "synthetic");
    command_number(&c, "--image", LARGE_IMAGE);
    command_number(&c, "--images", LARGE_IMAGES);
    command_text(&c, "--memory", memory);
    command_text(&c, "--batch", "auto");
    command_text(&c, "--queue", "1");
    command_number(&c, "--max-steps", LARGE_STEPS);
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

/* The JSON object of a run's result. */
static cli_exit take_end(const demo_args *args, char *text, cJSON **end)
{
    if (args->json)
        fputs(text, stdout);
    *end = cJSON_Parse(text);
    const cli_exit code = *end ? CLI_OK : fail(CLI_FAILED, "could not parse the result of a run: %.60s", text);
    free(text);
    return code;
}

/* One run; *end becomes the JSON object of its result. */
static cli_exit one_run(const demo_args *args, size_t index, cJSON **end)
{
    static const char *const names[N_RUNS] = {"activations kept as they are", "activations kept compressed"};
    char *text = NULL;
    if (!args->json)
        printf("%zu of %d: %s ...\n", index + 1, N_RUNS, names[index]);
    cli_exit code = train(args, index, &text);
    if (code == CLI_OK)
        code = take_end(args, text, end);
    if (code == CLI_OK && !args->json)
        printf("        %.0f s, accuracy %.2f %%\n", json_number(*end, "seconds"), 100 * json_number(*end, "top1"));
    return code;
}

/* ---- the folder ---- */

/* Without a folder the demo runs all the same. */
static void make_folder(demo_args *args)
{
    const bool given = args->out != NULL;
    if (!given)
        args->out = "comet-demo";
    if (mkdir(args->out, 0777) == 0 || errno == EEXIST)
        return;
    say("%s could not be made (%s); the logs of the runs are not kept", args->out, strerror(errno));
    args->out = NULL;
}

/* Makes the page of both runs, and says where it and the logs are. */
static cli_exit show_page(const demo_args *args)
{
    char raw[PATH_BYTES], compressed[PATH_BYTES], page[PATH_BYTES];
    char *text = NULL;
    command c = {.n = 0};
    if (!args->out)
        return CLI_OK;
    log_path(args, RAW, raw);
    log_path(args, COMPRESSED, compressed);
    snprintf(page, sizeof page, "%s/report.html", args->out);
    command_word(&c, "comet");
    command_word(&c, "report");
    command_word(&c, raw);
    command_word(&c, compressed);
    command_text(&c, "--output", page);
    command_word(&c, "--force");
    command_text(&c, "--title", "The demo: resnet20 raw and compressed");
    const cli_exit code = command_run(&c, "comet report", &text);
    free(text);
    if (code == CLI_OK && !args->json)
        printf("\nThe logs of both runs: %s and %s\nA page with both to open in a browser: %s\n", raw, compressed, page);
    return code;
}

/* ---- the large net ---- */

/* Is there a raw batch at all, or was the run compressed so that eight images fit? */
static bool ran_as_asked(size_t index, const cJSON *end)
{
    const cJSON *mode = cJSON_GetObjectItem(end, "compress");
    return index != RAW || (cJSON_IsString(mode) && strcmp(mode->valuestring, mode_name(COMET_COMPRESS_OFF)) == 0);
}

static void print_large(const cJSON *const runs[N_RUNS])
{
    char batch[N_RUNS][32], peak[N_RUNS][SIZE_TEXT_BYTES];
    double n[N_RUNS];
    for (size_t i = 0; i < N_RUNS; i++) {
        const bool fits = ran_as_asked(i, runs[i]);
        n[i] = fits ? json_number(runs[i], "batch") : 0;
        snprintf(batch[i], sizeof batch[i], fits ? "%.0f" : "below 8", n[i]);
        comet_size_text((uint64_t)json_number(runs[i], "peak_rss_bytes"), peak[i]);
        if (!fits)
            snprintf(peak[i], sizeof peak[i], "-");
    }
    printf("\n%-20s %12s %12s\n", "ResNet-50, 224 px", "raw", "compressed");
    printf("%-20s %12s %12s", "largest batch", batch[RAW], batch[COMPRESSED]);
    if (n[RAW] > 0)
        printf(" %9.1f x as large", n[COMPRESSED] / n[RAW]);
    printf("\n%-20s %12s %12s\n", "measured peak", peak[RAW], peak[COMPRESSED]);
}

/* What raw training cannot do. */
static cli_exit show_large(const demo_args *args)
{
    cJSON *ends[N_RUNS] = {NULL, NULL};
    char size[SIZE_TEXT_BYTES];
    cli_exit code = CLI_OK;
    if (!args->json)
        printf("\nResNet-50 on images of %d x %d in %s: %d steps with the largest batch that fits ...\n", LARGE_IMAGE,
               LARGE_IMAGE, comet_size_text(args->memory, size), LARGE_STEPS);
    fflush(stdout);
    for (size_t i = 0; i < N_RUNS && code == CLI_OK; i++) {
        char *text = NULL;
        code = train_large(args, i, &text);
        if (code == CLI_OK)
            code = take_end(args, text, &ends[i]);
    }
    if (code == CLI_OK && !args->json)
        print_large((const cJSON *const *)(const void *)ends);
    for (size_t i = 0; i < N_RUNS; i++)
        cJSON_Delete(ends[i]);
    return code;
}

/* Is there time for the large net? */
static bool has_time(const demo_args *args, double seconds)
{
    const double further = LARGE_SHARE * seconds;
    if (args->no_large)
        return false;
    if (seconds + further <= MOST_SECONDS)
        return true;
    say("ResNet-50 is left out, which would take this machine about %.0f minutes more: comet train --model resnet50 --data "
        "synthetic --image %d --images %d --memory 1GiB --batch auto --max-steps %d",
        ceil(further / 60), LARGE_IMAGE, LARGE_IMAGES, LARGE_STEPS);
    return false;
}

static cli_exit run(const void *given, char **operands, size_t n_operands)
{
    demo_args args = *(const demo_args *)given;
    cJSON *ends[N_RUNS] = {NULL, NULL};
    const double began = comet_seconds();
    cli_exit code = CLI_OK;
    (void)operands, (void)n_operands;
    if (args.mode.value == COMET_COMPRESS_OFF)
        return fail(CLI_USAGE, "--compress off: the first run is uncompressed already; choose how to compress the second");
    if (!args.data)
        args.data = pick_data();
    make_folder(&args);
    if (!args.json)
        print_begin(&args);
    for (size_t i = 0; i < N_RUNS && code == CLI_OK; i++)
        code = one_run(&args, i, &ends[i]);
    if (code == CLI_OK && !args.json)
        print_table((const cJSON *const *)(const void *)ends);
    for (size_t i = 0; i < N_RUNS; i++)
        cJSON_Delete(ends[i]);
    if (code == CLI_OK && has_time(&args, comet_seconds() - began))
        code = show_large(&args);
    if (code == CLI_OK)
        code = show_page(&args);
    return code;
}

const verb verb_demo_train = {
    .name = "demo train",
    .summary = "Train a small net twice, raw and compressed, and compare",
    .computes = true,
    .usage = "[--steps N] [--batch N] [--compress HOW] [--data SPEC] [--out DIR] [-j N] [--json]",
    .details =
        "Then two steps of ResNet-50 within 1 GiB, with the largest batch that fits raw and compressed. Takes about four\n"
        "minutes on two cores, and 1 GiB of memory; where it would take more than five, the large net is left out. The\n"
        "runs are 'comet train' with the options given here; their logs and a page of both (comet report) are in --out.\n",
    .examples = "  comet demo\n"
                "  comet demo train --compress dense\n"
                "  comet demo train --data synthetic --steps 50 --json\n",
    .operands = (const char *const[]){NULL},
    .options = options,
    .n_options = N_ITEMS(options),
    .defaults = &(const demo_args){.batch = 256, .steps = 300, .memory = 1u << 30, .mode = {false, COMET_COMPRESS_AUTO}},
    .args_bytes = sizeof(demo_args),
    .run = run,
};
