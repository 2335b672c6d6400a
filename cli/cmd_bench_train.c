/*
 * comet bench train: speed and memory of training on tensors made in memory.
 *
 * Each batch size is measured by a process of its own, this program started again with --in-process, so that its peak resident
 * set belongs to nothing else.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "json_out.h"
#include "number.h"
#include "stopwatch.h"
#include "train_report.h"
#include "train_setup.h"
#include "verbs.h"

enum { MAX_BATCHES = 16, MAX_STEPS = 10000, MAX_WORDS = 24, WORD_BYTES = 32 };
static const double bench_rate = 1e-3; /* small: the loss stays finite whatever the net */

typedef struct batch_list {
    uint32_t n;
    uint64_t items[MAX_BATCHES];
} batch_list;

typedef struct bench_args {
    net_args net;
    uint64_t image, steps, n_threads, seed;
    batch_list batches;
    bool json, in_process, table, no_winograd, no_recompute;
} bench_args;

static bool set_batches(void *target, const char *text, reason *why)
{
    batch_list *list = target;
    if (!number_list(text, list->items, MAX_BATCHES, &list->n, why))
        return false;
    for (uint32_t i = 0; i < list->n; i++)
        if (list->items[i] == 0 || list->items[i] > 1 << 20)
            return reason_set(why, "a batch is from 1 to 2^20");
    return true;
}

static bool set_steps(void *target, const char *text, reason *why)
{
    return number_u64(text, 1, MAX_STEPS, target, why);
}

#define AT(field) offsetof(bench_args, field)
static const option options[] = {
    OPTION_MODEL(bench_args),
    OPTION_NET(bench_args),
    {0, "classes", "N", set_count, AT(net.classes), "outputs of a built-in net (default: the net's own)"},
    {0, "image", "N", set_count, AT(image), "pixels a side (default: the net's own)"},
    {0, "batch", "LIST", set_batches, AT(batches), "batch sizes separated by commas (default 32)"},
    {0, "steps", "N", set_steps, AT(steps), "steps on the clock, after one that is not (default 8)"},
    OPTION_THREADS(bench_args, "threads (default 0: one per core)"),
    {0, "seed", "N", set_u64, AT(seed), "of weights and images (default 0)"},
    {0, "no-winograd", NULL, set_flag, AT(no_winograd), "direct convolution only"},
    {0, "no-recompute", NULL, set_flag, AT(no_recompute), "keep what backward could compute again: faster, more memory"},
    {0, "table", NULL, set_flag, AT(table), "also print the memory table"},
    {0, "in-process", NULL, set_flag, AT(in_process), "measure in this process (default: a fresh one for each batch)"},
    OPTION_JSON(bench_args, "one JSON object a batch (default: a table)"),
};

/* ---- one measurement ---- */

typedef struct measurement {
    float *images;
    uint32_t *labels;
    double *seconds; /* one a step */
    double loss;
} measurement;

static uint64_t mix(uint64_t *state)
{
    uint64_t z = *state += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

/* Uniform with variance 1, as normalised images have. */
static void fill_images(float *images, size_t n, uint64_t seed)
{
    for (size_t i = 0; i < n; i++)
        images[i] = (float)((double)(mix(&seed) >> 11) * 0x1p-53 - 0.5) * 3.4641016f;
}

static bool measurement_make(measurement *m, const comet_net *net, const comet_model_params *params, uint64_t n_steps)
{
    const comet_shape in = comet_net_shape(net, 0), out = comet_net_shape(net, comet_net_n_values(net) - 1);
    const size_t n = (size_t)params->batch * in.channels * in.height * in.width;
    m->images = malloc(n * sizeof *m->images);
    m->labels = malloc((size_t)params->batch * sizeof *m->labels);
    m->seconds = malloc((size_t)n_steps * sizeof *m->seconds);
    if (!m->images || !m->labels || !m->seconds)
        return false;
    fill_images(m->images, n, params->seed);
    for (uint32_t i = 0; i < params->batch; i++)
        m->labels[i] = i % out.channels;
    return true;
}

static void measurement_free(measurement *m)
{
    free(m->seconds);
    free(m->labels);
    free(m->images);
}

/* There is no update without gradients, and none are computed of a loss that is not finite. */
static cli_exit fail_diverged(comet_model *model, const measurement *m, uint64_t step)
{
    const char *layer = comet_model_first_bad(model, m->images, step);
    return fail(CLI_FAILED, "the loss is %f, not finite, at step %" PRIu64 ", first in %s%s", m->loss, step + 1,
                layer ? "layer " : "the loss itself", layer ? layer : "");
}

static cli_exit run_steps(comet_model *model, uint64_t n_steps, measurement *m)
{
    for (uint64_t i = 0; i <= n_steps; i++) {
        comet_scores scores = {0};
        const double began = stopwatch_now();
        comet_status status = comet_model_gradients(model, m->images, m->labels, i, &scores);
        m->loss = scores.loss;
        if (status == COMET_OK && !isfinite(m->loss))
            return fail_diverged(model, m, i);
        if (status == COMET_OK)
            status = comet_model_update(model, bench_rate, i);
        if (status != COMET_OK)
            return fail_status(status, comet_net_name(comet_model_net(model)));
        if (i > 0)
            m->seconds[i - 1] = stopwatch_now() - began;
    }
    return CLI_OK;
}

static comet_model_params params_of(const bench_args *args, uint64_t batch)
{
    comet_model_params params;
    comet_model_params_init(&params);
    params.batch = (uint32_t)batch;
    params.n_threads = (uint32_t)args->n_threads;
    params.seed = args->seed;
    params.no_winograd = args->no_winograd;
    params.no_recompute = args->no_recompute;
    return params;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print_head(void)
{
    printf("%-18s %6s %12s %12s %12s %12s %12s %10s\n", "net", "batch", "images/s", "best", "peak", "planned", "saved", "loss");
}

static cli_exit print_measurement(const bench_args *args, const comet_model *model, measurement *m)
{
    const comet_net *net = comet_model_net(model);
    const comet_memory memory = comet_model_memory(model);
    const uint64_t batch = comet_model_batch(model);
    const size_t n = (size_t)args->steps;
    qsort(m->seconds, n, sizeof *m->seconds, by_value);
    const double median = (m->seconds[(n - 1) / 2] + m->seconds[n / 2]) / 2, best = m->seconds[0], b = (double)batch;
    const uint64_t peak = comet_peak_rss();
    if (!args->json) {
        char text[3][SIZE_TEXT_BYTES];
        printf("%-18s %6" PRIu64 " %12.4g %12.4g %12s %12s %12s %10.4f\n", comet_net_name(net), batch, b / median, b / best,
               size_text(peak, text[0]), size_text(memory.total, text[1]), size_text(memory.saved, text[2]), m->loss);
        return CLI_OK;
    }
    const comet_shape in = comet_net_shape(net, 0);
    json j = json_begin();
    json_add_text(&j, "net", comet_net_name(net));
    json_add_u64(&j, "image", in.height);
    json_add_u64(&j, "batch", batch);
    json_add_u64(&j, "steps", args->steps);
    json_add_u64(&j, "threads", args->n_threads > 0 ? args->n_threads : (uint64_t)sysconf(_SC_NPROCESSORS_ONLN));
    json_add_double(&j, "images_per_s", b / median);
    json_add_double(&j, "best_images_per_s", b / best);
    json_add_double(&j, "step_seconds", median);
    json_add_double(&j, "loss", m->loss);
    json_add_u64(&j, "peak_rss_bytes", peak);
    json_add_memory(&j, &memory);
    return json_print(&j);
}

/* Whether all of it fits, the images too, is asked before any of it is allocated. */
static cli_exit measure(const bench_args *args, const comet_net *net, const comet_model_params *params)
{
    const comet_shape in = comet_net_shape(net, 0);
    const uint64_t image_bytes = (uint64_t)in.channels * in.height * in.width * sizeof(float);
    measurement m = {0};
    comet_model *model = NULL;
    comet_status status = comet_model_check_memory(net, params, image_bytes);
    if (status == COMET_OK)
        status = comet_model_create(&model, net, params);
    if (status != COMET_OK)
        return fail_status(status, comet_net_name(net));
    if (args->table)
        memory_table_print(args->json ? stderr : stdout, model);
    cli_exit code = CLI_OK;
    if (!measurement_make(&m, net, params, args->steps))
        code = fail_memory((size_t)image_bytes * params->batch);
    else if ((code = run_steps(model, args->steps, &m)) == CLI_OK)
        code = print_measurement(args, model, &m);
    measurement_free(&m);
    comet_model_destroy(model);
    return code;
}

static cli_exit bench_here(const bench_args *args, uint64_t batch)
{
    comet_net *net = NULL;
    const comet_model_params params = params_of(args, batch);
    cli_exit code = net_open(&args->net, 0, (uint32_t)args->image, &net);
    if (code == CLI_OK)
        code = measure(args, net, &params);
    comet_net_destroy(net);
    return code;
}

/* ---- a process for each batch ---- */

typedef struct command {
    const char *words[MAX_WORDS];
    char numbers[MAX_WORDS][WORD_BYTES];
    size_t n;
} command;

static void add_word(command *c, const char *word)
{
    c->words[c->n++] = word;
}

static void add_text(command *c, const char *name, const char *value)
{
    if (!value)
        return;
    add_word(c, name);
    add_word(c, value);
}

static void add_number(command *c, const char *name, uint64_t value)
{
    add_word(c, name);
    snprintf(c->numbers[c->n], WORD_BYTES, "%" PRIu64, value);
    add_word(c, c->numbers[c->n]);
}

static void add_flag(command *c, const char *name, bool on)
{
    if (on)
        add_word(c, name);
}

static void command_of(const bench_args *args, uint64_t batch, command *c)
{
    *c = (command){.n = 0};
    add_word(c, "comet");
    add_word(c, "bench");
    add_word(c, "train");
    add_word(c, "--in-process");
    add_text(c, "--model", args->net.model);
    add_text(c, "--net", args->net.file);
    if (args->net.classes > 0)
        add_number(c, "--classes", args->net.classes);
    if (args->image > 0)
        add_number(c, "--image", args->image);
    add_number(c, "--batch", batch);
    add_number(c, "--steps", args->steps);
    add_number(c, "--threads", args->n_threads);
    add_number(c, "--seed", args->seed);
    add_flag(c, "--no-winograd", args->no_winograd);
    add_flag(c, "--no-recompute", args->no_recompute);
    add_flag(c, "--table", args->table);
    add_flag(c, "--json", args->json);
}

static cli_exit bench_apart(const bench_args *args, uint64_t batch)
{
    command c;
    int status = 0;
    command_of(args, batch, &c);
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        execv("/proc/self/exe", (char *const *)(void *)c.words);
        _exit(CLI_FAILED);
    }
    if (child < 0 || waitpid(child, &status, 0) != child)
        return fail(CLI_FAILED, "no process could be started for batch %" PRIu64, batch);
    if (WIFEXITED(status))
        return (cli_exit)WEXITSTATUS(status); /* it said why */
    return fail(CLI_FAILED, "batch %" PRIu64 " was ended by signal %d%s", batch, WTERMSIG(status),
                WTERMSIG(status) == 9 ? ": out of memory?" : "");
}

static cli_exit run(const void *given, char **operands, size_t n_operands)
{
    bench_args args = *(const bench_args *)given;
    comet_net *net = NULL;
    (void)operands, (void)n_operands;
    cli_exit code = net_open(&args.net, 0, (uint32_t)args.image, &net); /* says what is wrong with it once */
    comet_net_destroy(net);
    if (args.batches.n == 0)
        args.batches = (batch_list){.n = 1, .items = {32}};
    if (code == CLI_OK && !args.json && !args.in_process)
        print_head();
    for (uint32_t i = 0; i < args.batches.n && code == CLI_OK; i++)
        code = args.in_process ? bench_here(&args, args.batches.items[i]) : bench_apart(&args, args.batches.items[i]);
    return code;
}

const verb verb_bench_train = {
    .name = "bench train",
    .summary = "Measure speed and memory of training",
    .usage = "--model NAME | --net FILE [--image N] [--batch LIST] [--steps N] [options]",
    .details = "Trains on tensors made in memory. images/s is that of the median step, best that of the fastest; peak is the\n"
               "largest resident set of the process that measured, planned what the model itself accounts for.\n",
    .examples = "  comet bench train --model resnet50 --image 224 --batch 32 --steps 4 --json\n"
                "  comet bench train --model resnet18 --batch 8,16,32 -j 2\n"
                "  comet bench train --net mynet.txt --batch 64 --table\n",
    .operands = (const char *const[]){NULL},
    .options = options,
    .n_options = N_ITEMS(options),
    .defaults = &(const bench_args){.steps = 8},
    .args_bytes = sizeof(bench_args),
    .run = run,
};
