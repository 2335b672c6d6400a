/*
 * comet bench train: speed and memory of training on made-up images.
 *
 * Each batch size and way to compress is measured by a process of its own, this program started again with --in-process, so
 * that its peak resident set is its own. They run one after the other, or with --turns all at once and step by step in turns,
 * so that other work on the machine slows all of them alike. Every measurement is a JSON object; tables are printed from these.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/size_text.h"
#include "comet/base.h"
#include "kit/child.h"
#include "kit/json_out.h"
#include "kit/number.h"
#include "kit/text.h"
#include "kit/turns.h"
#include "train/bench_batches.h"
#include "train/bench_lists.h"
#include "train/compression_args.h"
#include "train/convolutions.h"
#include "train/figures.h"
#include "train/optimiser_args.h"
#include "train/precision_args.h"
#include "train/train_ranks.h"
#include "train/train_setup.h"
#include "train/train_tables.h"
#include "verbs.h"

enum { MAX_STEPS = 10000, DISTINCT_BATCHES = 8 };
/* Assessments before bounds may be held still: bounds begin narrow and double at each assessment. */
enum { CLIMBED = 3 };

typedef struct bench_args {
    net_args net;
    compression_args compression;
    uint64_t image, steps, warm, n_threads, seed;
    double rate;
    batch_list batches;
    mode_list modes;
    convolutions_list convolutions;
    precision_args precision;
    ranks_args ranks;
    optimiser_args optimiser;
    bool json, in_process, turns, assess, table, no_recompute;
} bench_args;

static bool set_warm(void *target, const char *text, reason *why)
{
    return number_u64(text, 0, MAX_STEPS, target, why);
}

static bool set_steps(void *target, const char *text, reason *why)
{
    return number_u64(text, 1, MAX_STEPS, target, why);
}

#define AT(field) offsetof(bench_args, field)
static const option options[] = {
    OPTION_MODEL(bench_args),
    OPTION_NET(bench_args),
    {0, "classes", "N", set_count, AT(net.classes), "classes of a built-in net (default: the net's own)"},
    {0, "image", "N", set_count, AT(image), "pixels on each side (default: the net's own)"},
    {0, "batch", "LIST", set_batches, AT(batches), "batch sizes separated by commas (default 32)"},
    {0, "compress", "LIST", set_modes, AT(modes),
     "list of off, lossless, fast, dense and auto, separated by commas (default off)"},
    OPTION_OPTIMISER(bench_args),
    OPTION_STATE(bench_args),
    OPTION_NOISE(bench_args),
    OPTION_SIGMA(bench_args),
    OPTION_OVERHEAD(bench_args),
    OPTION_CHECKSUMS(bench_args),
    {0, "steps", "N", set_steps, AT(steps), "measured steps (default 8)"},
    {0, "warm", "N", set_warm, AT(warm), "steps before the measured ones, in which bounds settle (default 8)"},
    {0, "assess", NULL, set_flag, AT(assess),
     "assess bounds also in measured steps, as at the start of a run (default: keep them)"},
    {0, "rate", "R", set_positive, AT(rate), "learning rate (default 1e-3, at which no built-in net diverges)"},
    OPTION_THREADS(bench_args, "threads (default 0: one per core)"),
    {0, "seed", "N", set_u64, AT(seed), "seed of weights and images (default 0)"},
    OPTION_PRECISION(bench_args),
    {0, "convolutions", "LIST", set_convolutions_list, AT(convolutions),
     "list of rule, timed and direct, separated by commas (default rule)"},
    {0, "no-recompute", NULL, set_flag, AT(no_recompute),
     "keep tensors that backward could compute again: faster without compression, more memory"},
    {0, "table", NULL, set_flag, AT(table), "print the memory table, too, on stderr"},
    {0, "turns", NULL, set_flag, AT(turns),
     "run all rows at once, step by step in turns: a fair comparison where other work runs"},
    OPTION_SYNC_BN(bench_args),
    OPTION_SHARD(bench_args),
    OPTION_WIRE(bench_args),
    OPTION_REDUCE(bench_args),
    {0, "in-process", NULL, set_flag, AT(in_process), "measure in this process (default: a fresh one for each row)"},
    OPTION_JSON(bench_args, "one JSON object for each row (default: a table)"),
};

/* ---- one measurement ---- */

typedef struct setting {
    uint64_t batch; /* of all ranks */
    comet_compress_mode mode;
    comet_convolutions convolutions;
} setting;

static size_t n_settings(const bench_args *args)
{
    return args->modes.n * args->convolutions.n;
}

static setting setting_at(const bench_args *args, uint64_t batch, size_t index)
{
    return (setting){batch, args->modes.items[index / args->convolutions.n],
                     args->convolutions.items[index % args->convolutions.n]};
}

typedef struct measurement {
    double *seconds; /* one for each measured step */
    double total, codec_seconds;
    double loss;
    comet_memory memory;
    comet_precision precision;
    comet_compression_figures compression;
    comet_ranks_figures ranks; /* of the measured steps */
    double alone;              /* images/s of one rank alone with its share of the batch */
} measurement;

/* The library computes no gradients of a loss that is not finite, so the measurement ends. */
static cli_exit fail_diverged(comet_model *model, const float *images, double loss, uint64_t step)
{
    const char *layer = comet_model_first_bad(model, images, step);
    return fail(CLI_FAILED, "the loss is %f, not finite, at step %" PRIu64 ", first in %s%s", loss, step + 1,
                layer ? "layer " : "the loss itself", layer ? layer : "");
}

static cli_exit one_step(comet_model *model, bench_batches *batches, uint64_t step, double rate, measurement *m)
{
    comet_scores scores = {0};
    const comet_status status = comet_model_step(model, batches->images, batches->labels, step, rate, &scores);
    m->loss = scores.loss;
    if (status == COMET_OK && !isfinite(m->loss))
        return fail_diverged(model, batches->images, m->loss, step);
    return status == COMET_OK ? CLI_OK : fail_status(status, NULL);
}

static comet_ranks_figures ranks_figures(const comet_ranks *r)
{
    comet_ranks_figures figures = {.size = sizeof figures};
    if (r)
        r->describe(r->self, &figures);
    return figures;
}

/* What was added since `then`. */
static comet_ranks_figures ranks_since(const comet_ranks *r, const comet_ranks_figures *then)
{
    comet_ranks_figures now = ranks_figures(r);
    now.bytes_sent -= then->bytes_sent;
    now.bytes_plain -= then->bytes_plain;
    now.seconds_waited -= then->seconds_waited;
    now.seconds_moving -= then->seconds_moving;
    return now;
}

/* The time to read a batch is not measured. */
static cli_exit run_steps(const bench_args *args, const comet_ranks *ranks, comet_model *model, bench_batches *batches,
                          measurement *m)
{
    comet_ranks_figures then = ranks_figures(ranks);
    cli_exit code = CLI_OK;
    double coded_before = 0;
    for (uint64_t i = 0; i < args->warm + args->steps && code == CLI_OK; i++) {
        if (i == args->warm) {
            coded_before = compression_of(model).codec_seconds;
            then = ranks_figures(ranks);
        }
        if (i >= args->warm && compression_of(model).n_assessments >= CLIMBED)
            comet_model_hold_bounds(model, !args->assess);
        if (args->turns)
            turn_take();
        code = bench_batches_load(batches, i);
        const double began = comet_seconds();
        if (code == CLI_OK)
            code = one_step(model, batches, i, args->rate, m);
        const double seconds = comet_seconds() - began;
        if (args->turns)
            turn_pass();
        if (i < args->warm)
            continue;
        m->seconds[i - args->warm] = seconds;
        m->total += seconds;
    }
    m->memory = memory_of(model);
    m->precision = comet_model_precision(model);
    m->compression = compression_of(model);
    m->codec_seconds = m->compression.codec_seconds - coded_before;
    m->ranks = ranks_since(ranks, &then);
    return code;
}

static comet_model_params model_params(const bench_args *args, setting s)
{
    comet_model_params params;
    comet_model_params_init(&params);
    params.batch = (uint32_t)s.batch;
    params.n_threads = (uint32_t)args->n_threads;
    params.seed = args->seed;
    params.convolutions = s.convolutions;
    precision_fill(&args->precision, &params);
    params.no_recompute = args->no_recompute;
    params.fused_update = true;
    params.sync_batch_norm = args->ranks.sync_batch_norm;
    params.shard_optimiser = args->ranks.shard_optimiser;
    optimiser_fill(&args->optimiser, &params.optimiser);
    compression_fill(&args->compression, s.mode, &params.compression);
    return params;
}

/* A trial is not measured, and in turns it disturbs no step of the others. */
static cli_exit choose_convolutions(const bench_args *args, const comet_net *net, comet_model_params *params, char **choices)
{
    char text[CONVOLUTIONS_TEXT_BYTES];
    if (args->turns)
        turn_take();
    const cli_exit code = convolutions_settle(net, params, choices, text);
    if (args->turns)
        turn_pass();
    if (text[0] != '\0')
        say("%s", text);
    return code;
}

/* s.batch is this rank's share. */
static cli_exit measure(const bench_args *args, const comet_ranks *ranks, const comet_net *net, setting s, measurement *m)
{
    comet_model_params params = model_params(args, s);
    params.ranks = ranks;
    char *choices = NULL;
    const uint64_t n_steps = args->warm + args->steps;
    bench_batches batches = {0};
    comet_model *model = NULL;
    comet_status status = COMET_OK;
    cli_exit code = choose_convolutions(args, net, &params, &choices);
    if (code == CLI_OK && (status = comet_model_check_memory(net, &params, 0)) != COMET_OK)
        code = fail_status(status, comet_net_name(net));
    if (code == CLI_OK)
        code = bench_batches_make(net, params.batch, n_steps < DISTINCT_BATCHES ? n_steps : DISTINCT_BATCHES,
                                  args->seed + (ranks ? ranks->rank : 0), &batches);
    if (code == CLI_OK && (status = comet_model_create(&model, net, &params)) != COMET_OK)
        code = fail_status(status, comet_net_name(net));
    if (code == CLI_OK && args->table && (!ranks || ranks->rank == 0))
        memory_table_print(stderr, model);
    if (code == CLI_OK)
        code = run_steps(args, ranks, model, &batches, m);
    comet_model_destroy(model);
    bench_batches_free(&batches);
    free(choices);
    return code;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_of(const bench_args *args, measurement *m)
{
    const size_t n = (size_t)args->steps;
    qsort(m->seconds, n, sizeof *m->seconds, by_value);
    return (m->seconds[(n - 1) / 2] + m->seconds[n / 2]) / 2;
}

/* Scaling is against one rank alone on this machine, while the others rest. Hidden: of the time in which gradients moved, what
 * nobody waited for. */
static void add_ranks(json *j, const bench_args *args, const comet_ranks *r, const measurement *m, double images_per_s)
{
    const comet_ranks_figures *f = &m->ranks;
    json_add_u64(j, "ranks", r->n_ranks);
    json_add_double(j, "one_rank_images_per_s", m->alone);
    json_add_double(j, "scaling", images_per_s / m->alone / r->n_ranks);
    json_add_double(j, "waited_share", f->seconds_waited / m->total);
    json_add_double(j, "hidden_share", f->seconds_moving > 0 ? fmax(1 - f->seconds_waited / f->seconds_moving, 0) : NAN);
    json_add_double(j, "sent_bytes_per_step", (double)f->bytes_sent / (double)args->steps);
    json_add_double(j, "plain_bytes_per_step", (double)f->bytes_plain / (double)args->steps);
}

static json describe(const bench_args *args, const comet_net *net, const comet_ranks *ranks, setting s, measurement *m)
{
    const double median = median_of(args, m), best = m->seconds[0], b = (double)s.batch;
    json j = json_begin();
    json_add_text(&j, "net", comet_net_name(net));
    json_add_u64(&j, "image", comet_net_shape(net, 0).height);
    json_add_u64(&j, "batch", s.batch);
    json_add_u64(&j, "steps", args->steps);
    json_add_u64(&j, "warm", args->warm);
    json_add_bool(&j, "assess", args->assess);
    json_add_text(&j, "convolutions", comet_convolutions_name(s.convolutions));
    json_add_text(&j, "precision", comet_precision_name(m->precision));
    json_add_u64(&j, "threads", args->n_threads > 0 ? args->n_threads : (uint64_t)sysconf(_SC_NPROCESSORS_ONLN));
    json_add_double(&j, "images_per_s", b / median);
    json_add_double(&j, "best_images_per_s", b / best);
    if (ranks)
        add_ranks(&j, args, ranks, m, b / median);
    json_add_double(&j, "step_seconds", median);
    json_add_double(&j, "loss", m->loss);
    json_add_u64(&j, "peak_rss_bytes", comet_peak_rss());
    json_add_u64(&j, "peak_address_bytes", comet_peak_address_space());
    json_add_memory(&j, &m->memory);
    m->compression.codec_seconds = m->codec_seconds;
    json_add_compression(&j, &m->compression, m->total);
    return j;
}

static cli_exit text_of(json *j, char **text)
{
    *text = j->failed ? NULL : cJSON_PrintUnformatted(j->root);
    cJSON_Delete(j->root);
    return *text ? CLI_OK : fail(CLI_NO_MEMORY, "out of memory: could not write JSON");
}

static cli_exit measure_here(const bench_args *args, setting s, char **text)
{
    comet_net *net = NULL;
    measurement m = {0};
    cli_exit code = net_open(&args->net, 0, (uint32_t)args->image, &net);
    if (code != CLI_OK)
        return code;
    m.seconds = calloc((size_t)args->steps, sizeof *m.seconds);
    if (!m.seconds) {
        comet_net_destroy(net);
        return fail_memory((size_t)args->steps * sizeof *m.seconds);
    }
    code = measure(args, NULL, net, s, &m);
    if (code == CLI_OK) {
        json j = describe(args, net, NULL, s, &m);
        code = text_of(&j, text);
    }
    free(m.seconds);
    comet_net_destroy(net);
    return code;
}

/* ---- in a process of its own ---- */

static void command_of(const bench_args *args, setting s, command *c)
{
    const compression_args *compression = &args->compression;
    *c = (command){.n = 0};
    command_word(c, "comet");
    command_word(c, "bench");
    command_word(c, "train");
    command_word(c, "--in-process");
    command_word(c, "--json");
    command_text(c, "--model", args->net.model);
    command_text(c, "--net", args->net.file);
    if (args->net.classes > 0)
        command_number(c, "--classes", args->net.classes);
    if (args->image > 0)
        command_number(c, "--image", args->image);
    command_number(c, "--batch", s.batch);
    command_text(c, "--optimiser", comet_optimiser_name(args->optimiser.kind));
    command_text(c, "--optimiser-state", comet_state_format_name(args->optimiser.state));
    command_text(c, "--compress", mode_name(s.mode));
    command_share(c, "--noise", compression->noise);
    command_share(c, "--sigma", compression->sigma);
    command_share(c, "--overhead", compression->overhead);
    command_flag(c, "--checksums", compression->checksums);
    command_number(c, "--steps", args->steps);
    command_number(c, "--warm", args->warm);
    command_flag(c, "--assess", args->assess);
    command_share(c, "--rate", args->rate);
    command_number(c, "--threads", args->n_threads);
    command_number(c, "--seed", args->seed);
    command_text(c, "--convolutions", comet_convolutions_name(s.convolutions));
    command_text(c, "--precision", precision_text(&args->precision));
    command_flag(c, "--no-recompute", args->no_recompute);
    command_flag(c, "--table", args->table);
    command_flag(c, "--turns", args->turns);
}

enum { WHAT_BYTES = 64 };

static const char *what_of(setting s, char text[WHAT_BYTES])
{
    snprintf(text, WHAT_BYTES, "batch %" PRIu64 ", %s, convolutions %s", s.batch, mode_name(s.mode),
             comet_convolutions_name(s.convolutions));
    return text;
}

static cli_exit measure_apart(const bench_args *args, setting s, char **text)
{
    command c;
    char what[WHAT_BYTES];
    command_of(args, s, &c);
    return command_run(&c, what_of(s, what), text);
}

/* ---- rows ---- */

static void print_head(void)
{
    printf("%-16s %5s %8s %8s %9s %9s %7s %9s %6s %9s %9s %6s %6s %7s %8s\n", "net", "batch", "compress", "convolve",
           "images/s", "best", "vs off", "peak", "less", "planned", "saved", "ratio", "conv", "coding", "loss");
}

/* A number in the given format, or a dash for NaN. */
static const char *cell(char text[24], const char *format, double value)
{
    if (isnan(value))
        return "-";
    snprintf(text, 24, format, value); /* NOLINT: the formats are ours */
    return text;
}

static void print_row(const cJSON *row)
{
    char t[6][24], s[3][SIZE_TEXT_BYTES], speed[2][SPEED_BYTES];
    const cJSON *net = cJSON_GetObjectItemCaseSensitive(row, "net"), *mode = cJSON_GetObjectItemCaseSensitive(row, "compress");
    const cJSON *ways = cJSON_GetObjectItemCaseSensitive(row, "convolutions");
    printf("%-16s %5.0f %8s %8s %9s %9s %7s %9s %6s %9s %9s %6s %6s %7s %8.4f\n", cJSON_IsString(net) ? net->valuestring : "?",
           json_number(row, "batch"), cJSON_IsString(mode) ? mode->valuestring : "?",
           cJSON_IsString(ways) ? ways->valuestring : "?", text_speed(json_number(row, "images_per_s"), speed[0]),
           text_speed(json_number(row, "best_images_per_s"), speed[1]), cell(t[0], "%.3f", json_number(row, "speed_of_off")),
           comet_size_text((uint64_t)json_number(row, "peak_rss_bytes"), s[0]),
           cell(t[1], "%.2fx", json_number(row, "peak_times_less")),
           comet_size_text((uint64_t)json_number(row, "planned_bytes"), s[1]),
           comet_size_text((uint64_t)json_number(row, "saved_bytes"), s[2]), cell(t[2], "%.1f", json_number(row, "ratio")),
           cell(t[3], "%.1f", json_number(row, "conv_ratio")), cell(t[4], "%.1f %%", 100 * json_number(row, "codec_share")),
           json_number(row, "loss"));
}

/* Compares with the row of the same batch with --compress off, if there is one. */
static void compare(cJSON *row, const cJSON *off)
{
    if (!off)
        return;
    cJSON_AddNumberToObject(row, "speed_of_off", json_number(row, "images_per_s") / json_number(off, "images_per_s"));
    cJSON_AddNumberToObject(row, "peak_times_less", json_number(off, "peak_rss_bytes") / json_number(row, "peak_rss_bytes"));
}

static cli_exit show(const bench_args *args, const char *text, cJSON **off, comet_compress_mode mode)
{
    cJSON *row = cJSON_Parse(text);
    if (!row)
        return fail(CLI_FAILED, "could not parse a measurement: %.60s", text);
    compare(row, *off);
    if (mode == COMET_COMPRESS_OFF && !*off)
        *off = cJSON_Duplicate(row, true);
    if (args->json) {
        json j = {.root = row};
        return json_print(&j);
    }
    print_row(row);
    cJSON_Delete(row);
    return CLI_OK;
}

static cli_exit bench_one_by_one(const bench_args *args, uint64_t batch)
{
    cJSON *off = NULL;
    cli_exit code = CLI_OK;
    for (size_t i = 0; i < n_settings(args) && code == CLI_OK; i++) {
        const setting s = setting_at(args, batch, i);
        char *text = NULL;
        code = args->in_process ? measure_here(args, s, &text) : measure_apart(args, s, &text);
        if (code == CLI_OK)
            code = show(args, text, &off, s.mode);
        free(text);
    }
    cJSON_Delete(off);
    return code;
}

/* *n counts those that were started, also after a failure. */
static cli_exit start_all(const bench_args *args, uint64_t batch, running *all, size_t *n)
{
    turn_ring ring;
    cli_exit code = turns_open(&ring, n_settings(args)) ? CLI_OK : fail_errno(CLI_FAILED, errno, "taking turns");
    for (*n = 0; *n < n_settings(args) && code == CLI_OK; *n += code == CLI_OK) {
        const setting s = setting_at(args, batch, *n);
        command c;
        char what[WHAT_BYTES];
        command_of(args, s, &c);
        code = command_start(&c, what_of(s, what), &ring, *n, &all[*n]);
    }
    turns_begin(&ring);
    return code;
}

/* Waits for all; the first failure counts. */
static cli_exit bench_in_turns(const bench_args *args, uint64_t batch)
{
    running all[MAX_MODES];
    cJSON *off = NULL;
    size_t n;
    cli_exit code = start_all(args, batch, all, &n);
    for (size_t i = 0; i < n; i++) {
        const setting s = setting_at(args, batch, i);
        char *text = NULL, what[WHAT_BYTES];
        const cli_exit ended = command_end(&all[i], what_of(s, what), &text);
        if (code == CLI_OK)
            code = ended == CLI_OK ? show(args, text, &off, s.mode) : ended;
        free(text);
    }
    cJSON_Delete(off);
    return code;
}

/* ---- under an MPI launcher ---- */

static void print_ranks(const cJSON *row)
{
    char sent[SIZE_TEXT_BYTES], alone[SPEED_BYTES];
    printf("  %.0f ranks: %.2f times one rank (%s images/s); %.1f %% of the time waited, %.0f %% of transfers hidden, "
           "%s sent a step\n",
           json_number(row, "ranks"), json_number(row, "scaling") * json_number(row, "ranks"),
           text_speed(json_number(row, "one_rank_images_per_s"), alone), 100 * json_number(row, "waited_share"),
           100 * json_number(row, "hidden_share"), comet_size_text((uint64_t)json_number(row, "sent_bytes_per_step"), sent));
}

/* Rank 0 alone with its share, while the others wait for the sum, then all together. */
static cli_exit measure_together(const bench_args *args, train_ranks *ranks, const comet_net *net, setting s, measurement *m)
{
    uint32_t share;
    double here = 0;
    cli_exit code = ranks_share_batch(ranks, s.batch, true, &share);
    const setting own = {share, s.mode, s.convolutions};
    if (code == CLI_OK && ranks_is_first(ranks)) {
        code = measure(args, NULL, net, own, m);
        here = share / median_of(args, m);
    }
    const comet_status status = code == CLI_OK ? ranks->table.sum(ranks->table.self, &here, 1) : COMET_OK;
    if (status != COMET_OK)
        return fail_status(status, NULL);
    *m = (measurement){.seconds = m->seconds, .alone = here};
    return code == CLI_OK ? measure(args, &ranks->table, net, own, m) : code;
}

static cli_exit bench_together(const bench_args *args, train_ranks *ranks, const comet_net *net, setting s, cJSON **off)
{
    measurement m = {.seconds = calloc((size_t)args->steps, sizeof *m.seconds)};
    char *text = NULL;
    if (!m.seconds)
        return fail_memory((size_t)args->steps * sizeof *m.seconds);
    cli_exit code = measure_together(args, ranks, net, s, &m);
    if (code == CLI_OK && ranks_is_first(ranks)) {
        json j = describe(args, net, &ranks->table, s, &m);
        code = text_of(&j, &text);
    }
    if (text && code == CLI_OK)
        code = show(args, text, off, s.mode);
    if (text && code == CLI_OK && !args->json) {
        cJSON *row = cJSON_Parse(text);
        print_ranks(row);
        cJSON_Delete(row);
    }
    free(text);
    free(m.seconds);
    return code;
}

/* All rows in this process, so that only the peak of the first is its own. */
static cli_exit bench_ranks(bench_args *args, train_ranks *ranks, const comet_net *net)
{
    cli_exit code = args->turns ? fail(CLI_USAGE, "--turns does not go with ranks") : CLI_OK;
    for (size_t i = 0; i < args->convolutions.n && code == CLI_OK; i++)
        if (args->convolutions.items[i] == COMET_CONVOLUTIONS_TIMED)
            code = fail(CLI_USAGE, "--convolutions timed does not go with ranks, whose trials would differ");
    if (code == CLI_OK)
        code = ranks_check_alike(ranks, NULL, NULL);
    if (args->n_threads == 0)
        args->n_threads = ranks_threads(ranks);
    if (code == CLI_OK && ranks_is_first(ranks) && !args->json)
        print_head();
    for (uint32_t i = 0; i < args->batches.n && code == CLI_OK; i++) {
        cJSON *off = NULL;
        for (size_t k = 0; k < n_settings(args) && code == CLI_OK; k++)
            code = bench_together(args, ranks, net, setting_at(args, args->batches.items[i], k), &off);
        cJSON_Delete(off);
    }
    return code;
}

static cli_exit bench_alone(const bench_args *args)
{
    cli_exit code = CLI_OK;
    if (!args->json)
        print_head();
    for (uint32_t i = 0; i < args->batches.n && code == CLI_OK; i++)
        code = args->turns && !args->in_process ? bench_in_turns(args, args->batches.items[i])
                                                : bench_one_by_one(args, args->batches.items[i]);
    return code;
}

static cli_exit run(const void *given, char **operands, size_t n_operands)
{
    bench_args args = *(const bench_args *)given;
    comet_net *net = NULL;
    train_ranks ranks = {0};
    (void)operands, (void)n_operands;
    cli_exit code = compression_check_rule(&args.compression);
    if (code == CLI_OK)
        code = ranks_join(&ranks, &args.ranks);
    if (code == CLI_OK)
        code = net_open(&args.net, 0, (uint32_t)args.image, &net); /* reports a wrong net once */
    if (args.convolutions.n == 0)
        args.convolutions = (convolutions_list){.n = 1, .items = {COMET_CONVOLUTIONS_RULE}};
    if (args.batches.n == 0)
        args.batches = (batch_list){.n = 1, .items = {32}};
    if (args.modes.n == 0)
        args.modes = (mode_list){.n = 1, .items = {COMET_COMPRESS_OFF}};
    if (code == CLI_OK && n_settings(&args) > MAX_MODES)
        code = fail(CLI_USAGE, "--compress and --convolutions make %zu rows; at most %d are measured", n_settings(&args),
                    MAX_MODES);
    if (code == CLI_OK)
        code = ranks.together ? bench_ranks(&args, &ranks, net) : bench_alone(&args);
    comet_net_destroy(net);
    return ranks_leave(&ranks, code);
}

const verb verb_bench_train = {
    .name = "bench train",
    .summary = "Measure speed and memory of training",
    .computes = true,
    .usage = "--model NAME | --net FILE [--image N] [--batch LIST] [--compress LIST] [options]",
    .details =
        "Trains on a few batches of made-up images. images/s is that of the median step, best that of the fastest; peak\n"
        "is the largest resident set of the process that measured, planned what the model itself accounts for. ratio is\n"
        "that of all saved activations, conv that of convolution inputs; coding is its share of the time. Where off is in\n"
        "the list it is measured first, and the others are compared with it. On a machine with other work compare with\n"
        "--turns, if all of them fit into memory together.\n",
    .examples = "  comet bench train --model resnet50 --image 224 --batch 32 --steps 4 --json\n"
                "  mpirun -n 2 comet bench train --model resnet18 --image 224\n"
                "  comet bench train --model resnet18 --batch 8,16,32 -j 2\n"
                "  comet bench train --model resnet50 --image 224 --compress off,fast,dense,auto\n"
                "  comet bench train --model resnet50 --image 224 --compress off,fast --warm 9 --steps 16 --turns\n"
                "  comet bench train --net mynet.txt --batch 64 --table\n",
    .operands = (const char *const[]){NULL},
    .options = options,
    .n_options = N_ITEMS(options),
    .defaults =
        &(const bench_args){
            .steps = 8, .warm = 8, .rate = 1e-3, .optimiser = OPTIMISER_DEFAULTS, .compression = COMPRESSION_DEFAULTS},
    .args_bytes = sizeof(bench_args),
    .run = run,
};
