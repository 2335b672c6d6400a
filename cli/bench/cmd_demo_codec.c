/* comet demo codec: two made-up tensors at several bounds, beside memcpy and zfp, in well under a minute. */
#include <stdio.h>
#include <string.h>

#include "bench/bench_print.h"
#include "kit/progress.h"
#include "tensor/fieldgen.h"
#include "verbs.h"

typedef struct demo_args {
    uint64_t n_threads, megabytes;
    bool json;
} demo_args;

static const option options[] = {
    OPTION_THREADS(demo_args, "threads of our codec (default 1; 0: one per core)"),
    {0, "mb", "M", set_demo_size, offsetof(demo_args, megabytes), "size of each tensor in MB, 1 to 4096 (default 64)"},
    OPTION_JSON(demo_args, "one JSON object for each row (default: a table)"),
};

enum { FAST, DENSE, ZFP, MEMCPY, N_CONTENDERS, ROUNDS = 5, FILE_WIDTH = 5 };
static const char *const demo_bounds[] = {"0.02std", "0.1std", "0.3std"};
enum { N_BOUNDS = 3, TOLD_BOUND = 1 }; /* the last sentences are about 0.1std */

typedef struct demo {
    const demo_args *args;
    bench_entry entries[3];
    size_t n_entries;
    bench_row told[N_CONTENDERS]; /* totals at TOLD_BOUND */
    bench_row all;                /* of our own rows */
} demo;

static size_t contender_of(const bench_row *row)
{
    if (strcmp(row->codec, "comet") == 0)
        return strcmp(row->level, "fast") == 0 ? FAST : DENSE;
    return strcmp(row->codec, "zfp") == 0 ? ZFP : MEMCPY;
}

static cli_exit take_row(demo *d, const bench_row *row, size_t bound_index)
{
    const size_t who = contender_of(row);
    if (bound_index == TOLD_BOUND)
        bench_add(&d->told[who], row);
    if (who == FAST || who == DENSE)
        bench_add(&d->all, row);
    progress_hide();
    if (d->args->json)
        return bench_print_json(row, true, true);
    bench_print_row(row, FILE_WIDTH);
    return CLI_OK;
}

static cli_exit measure(demo *d, const char *name, const loaded_tensor *input, size_t bound_index)
{
    bound b;
    reason why;
    comet_params params;
    bench_row rows[BENCH_MAX_ENTRIES + 1];
    size_t n_rows = 0;
    bench_job job = {.file = name,
                     .bound = demo_bounds[bound_index],
                     .input = input,
                     .n_threads = (size_t)d->args->n_threads,
                     .repeat = ROUNDS,
                     .entries = d->entries,
                     .n_entries = d->n_entries};
    bound_parse(demo_bounds[bound_index], &b, &why);
    comet_params_init(&params);
    params.bound_mode = b.mode;
    params.bound = b.value;
    cli_exit code = bench_resolve(input, &params, name, &job.eb);
    if (code == CLI_OK)
        code = bench_measure(&job, rows, &n_rows);
    for (size_t i = 0; i < n_rows && code == CLI_OK; i++)
        code = take_row(d, &rows[i], bound_index);
    return code;
}

static cli_exit show_kind(demo *d, field_kind kind, const char *name, uint64_t n_done)
{
    const uint64_t image_bytes = 64 * 56 * 56 * sizeof(float);
    const uint64_t n_images = (d->args->megabytes * 1000000 + image_bytes - 1) / image_bytes;
    const field_spec spec = {.kind = kind, .dims = {.n = 4, .items = {n_images, 64, 56, 56}}, .seed = 1};
    loaded_tensor input = {.memory = NULL};
    cli_exit code = field_make(&spec, "demo", &input);
    for (size_t i = 0; i < N_BOUNDS && code == CLI_OK; i++) {
        progress_update(n_done + i);
        code = measure(d, name, &input, i);
        if (code == CLI_OK && !d->args->json)
            puts("");
    }
    tensor_free(&input);
    return code;
}

static double faster(const bench_row *a, const bench_row *b, bool compressing)
{
    return compressing ? b->compress_seconds / a->compress_seconds : b->decompress_seconds / a->decompress_seconds;
}

/* Two sentences that sum the table up. */
static void conclude(const demo *d)
{
    const bench_row *fast = &d->told[FAST], *dense = &d->told[DENSE], *copy = &d->told[MEMCPY];
    const bench_row *other = d->told[ZFP].total ? &d->told[ZFP] : copy;
    printf("At a tenth of the standard deviation, fast made the two tensors %.1f times smaller at %.2f (compress) and %.2f\n"
           "(decompress) of memcpy's speed, and dense %.1f times smaller at %.1f and %.1f times the speed of %s (%.1f times "
           "smaller).\n",
           bench_ratio(fast), faster(fast, copy, true), faster(fast, copy, false), bench_ratio(dense),
           faster(dense, other, true), faster(dense, other, false), other->codec, bench_ratio(other));
    printf("%s came back within its bound, the furthest at %.4f of it, and %s zero came back as zero.\n",
           d->all.bound_ok ? "Every element" : "NOT every element", d->all.max_share,
           d->all.zeros_kept ? "every" : "NOT every");
}

static cli_exit run(const void *given, char **operands, size_t n_operands)
{
    demo d = {.args = given, .n_entries = 2};
    (void)operands;
    (void)n_operands;
    d.entries[0] = (bench_entry){.codec = &contender_comet, .level = COMET_LEVEL_FAST};
    d.entries[1] = (bench_entry){.codec = &contender_comet, .level = COMET_LEVEL_DENSE};
    if (contender_zfp())
        d.entries[d.n_entries++] = (bench_entry){.codec = contender_zfp(), .max_rounds = 1};
    if (!d.args->json) {
        printf("Two made-up tensors of %llu MB: relu as after a ReLU, bn as before a batch norm.\n\n",
               (unsigned long long)d.args->megabytes);
        bench_print_head(FILE_WIDTH);
    }
    progress_begin("demo", 2 * N_BOUNDS);
    cli_exit code = show_kind(&d, FIELD_RELU, "relu", 0);
    if (code == CLI_OK)
        code = show_kind(&d, FIELD_BN, "bn", N_BOUNDS);
    progress_end();
    if (code == CLI_OK && !d.args->json)
        conclude(&d);
    if (code == CLI_OK && !d.all.bound_ok)
        code = fail(CLI_BOUND_BROKEN, "bound violated: the error of an element is larger than its bound");
    return code;
}

const verb verb_demo_codec = {
    .name = "demo codec",
    .summary = "Compress made-up activations at several bounds, beside memcpy and zfp",
    .usage = "[-j N] [--mb M] [--json]",
    .details = "Takes less than a minute and about 400 MB of memory. zfp runs once for each bound, on one thread.\n",
    .examples = "  comet demo codec\n"
                "  comet demo codec -j 2\n"
                "  comet demo codec --json\n",
    .operands = (const char *const[]){NULL},
    .options = options,
    .n_options = N_ITEMS(options),
    .defaults = &(const demo_args){.n_threads = 1, .megabytes = 64},
    .args_bytes = sizeof(demo_args),
    .run = run,
};
