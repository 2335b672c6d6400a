/* comet bench codec: ratio, speed and error on files, beside memcpy and other codecs. */
#include <stdio.h>
#include <string.h>

#include "bench/bench_print.h"
#include "kit/progress.h"
#include "kit/text.h"
#include "tensor/rearrange.h"
#include "verbs.h"

enum { MAX_BOUNDS = 16, PEER_ROUNDS = 3 };

typedef struct bound_list {
    size_t n;
    bound items[MAX_BOUNDS];
} bound_list;

typedef struct bench_args {
    bound_list bounds;
    comet_level level;
    comet_layout layout;
    comet_profile profile;
    dims_arg dims;
    dtype_arg dtype;
    uint64_t n_threads, min_mb, repeat;
    double seconds;
    const char *device;
    bool json, peers, keep_support, dither;
} bench_args;

/* One bound, or several separated by commas; an option that is repeated adds to the list. */
static bool set_bounds(void *target, const char *text, reason *why)
{
    bound_list *list = target;
    for (const char *at = text; at; list->n++) {
        char one[sizeof list->items[0].text];
        if (list->n == MAX_BOUNDS || !text_take_item(&at, one, sizeof one))
            return reason_set(why, "more than %d bounds, or a bound that is too long", MAX_BOUNDS);
        if (!bound_parse(one, &list->items[list->n], why))
            return false;
    }
    return true;
}

#define AT(field) offsetof(bench_args, field)
static const option options[] = {
    {'e', "error", "BOUND", set_bounds, AT(bounds),
     "bounds as for compress, several separated by commas\n"
     "(default 0.1std)"},
    OPTION_LEVEL(bench_args),
    OPTION_PROFILE(bench_args),
    OPTION_THREADS(bench_args, "threads of our codec (default 1; 0: one per core)"),
    {0, "keep-support", NULL, set_flag, AT(keep_support), "our codec keeps zeros and non-zeros, as compress --keep-support"},
    {0, "dither", NULL, set_flag, AT(dither), "our codec dithers, as compress --dither"},
    {0, "device", "NAME", set_text, AT(device),
     "our codec on a device, opencl:0 or cuda:0: level fast or dense,\n"
     "profile device, tensor and frame in its memory (doctor --gpu lists devices)"},
    {0, "min-mb", "M", set_megabytes, AT(min_mb),
     "repeat a tensor along its slowest dimension until it has M MiB, so\n"
     "that it does not fit the cache (default 0: do not repeat)"},
    {0, "layout", "LAYOUT", set_layout, AT(layout),
     "layout of the input, nchw, nhwc, nChw8c or nChw16c, converted before\n"
     "the clock starts (default nchw)"},
    {0, "peers", NULL, set_flag, AT(peers),
     "add rows for zfp (2-D, accuracy mode), zstd (level 1) and memcpy, each\n"
     "on one thread and at most 3 rounds, if the build found them"},
    {0, "repeat", "N", set_repeat, AT(repeat), "least number of rounds; the best time counts (default 5)"},
    {0, "seconds", "S", set_seconds, AT(seconds), "run more rounds until S seconds have passed (default 1)"},
    OPTION_DIMS(bench_args, "dims of raw files"),
    OPTION_DTYPE(bench_args, "type of raw files (default f32); bf16 for '<u2' in a .npy"),
    OPTION_JSON(bench_args, "one JSON object for each row (default: a table)"),
};

/* What runs in one invocation: the codecs, and a total for each and for memcpy. */
typedef struct session {
    const bench_args *args;
    bench_entry entries[BENCH_MAX_ENTRIES];
    size_t n_entries;
    bench_row totals[BENCH_MAX_ENTRIES + 1]; /* as the entries, then memcpy's */
    int file_width;
    uint64_t n_done;   /* files times bounds */
    bool head_printed; /* printed before the first row, so that an error comes without a table's head */
    bool broken;       /* our codec broke its bound somewhere */
    bool differs;      /* a device's frame is not the CPU's */
} session;

static void add_entry(session *s, const contender *codec, size_t max_rounds)
{
    if (codec)
        s->entries[s->n_entries++] = (bench_entry){.codec = codec, .level = s->args->level, .max_rounds = max_rounds};
}

static void begin_session(session *s, const bench_args *args, char **files, size_t n_files)
{
    *s = (session){.args = args, .file_width = 5};
    add_entry(s, args->device ? &contender_device : &contender_comet, 0);
    if (args->peers) {
        add_entry(s, contender_zfp(), PEER_ROUNDS);
        add_entry(s, contender_zstd(), PEER_ROUNDS);
    }
    for (size_t i = 0; i < n_files; i++) {
        const int width = (int)strlen(bench_file_name(files[i]));
        s->file_width = width > s->file_width ? width : s->file_width;
    }
}

static cli_exit print_row(session *s, const bench_row *row)
{
    progress_hide();
    if (s->args->json)
        return bench_print_json(row, s->args->peers, s->args->bounds.n > 1);
    if (!s->head_printed)
        bench_print_head(s->file_width);
    s->head_printed = true;
    bench_print_row(row, s->file_width);
    return CLI_OK;
}

static bench_row *total_of(session *s, const char *codec)
{
    size_t i = 0;
    while (i < s->n_entries && strcmp(s->entries[i].codec->name, codec) != 0)
        i++;
    return &s->totals[i];
}

/* Prints the rows of one file and adds them up; memcpy's row only with --peers. */
static cli_exit take_rows(session *s, const bench_row *rows, size_t n_rows)
{
    cli_exit code = CLI_OK;
    for (size_t i = 0; i < n_rows && code == CLI_OK; i++) {
        if (!s->args->peers && i > 0)
            break;
        s->broken = s->broken || (i == 0 && !rows[i].bound_ok);
        s->differs = s->differs || (rows[i].device && !rows[i].same_bytes);
        bench_add(total_of(s, rows[i].codec), &rows[i]);
        code = print_row(s, &rows[i]);
    }
    return code;
}

/* Loads a file, resolves its bound on the tensor as it is, then repeats it and changes its layout as the options say. */
static cli_exit prepare(const bench_args *args, const char *file, const bound *b, loaded_tensor *input, double *eb)
{
    const tensor_request request = {.layout = COMET_LAYOUT_PLANAR, .dims = args->dims, .dtype = args->dtype};
    comet_params params;
    cli_exit code = tensor_load(file, &request, input);
    if (code != CLI_OK)
        return code;
    comet_params_init(&params);
    params.bound_mode = b->mode;
    params.bound = b->value;
    params.level = args->level;
    code = bench_resolve(input, &params, file, eb);
    if (code == CLI_OK)
        code = tensor_tile(input, (size_t)args->min_mb << 20);
    if (code == CLI_OK)
        code = tensor_rearrange(input, args->layout);
    return code;
}

static cli_exit bench_file(session *s, const char *file, const bound *b)
{
    const bench_args *args = s->args;
    loaded_tensor input = {.memory = NULL};
    bench_row rows[BENCH_MAX_ENTRIES + 1];
    size_t n_rows = 0;
    double eb = 0;
    cli_exit code = prepare(args, file, b, &input, &eb);
    if (code == CLI_OK) {
        const bench_job job = {.file = file,
                               .bound = b->text,
                               .input = &input,
                               .eb = eb,
                               .profile = args->profile,
                               .keep_support = args->keep_support,
                               .dither = args->dither,
                               .n_threads = (size_t)args->n_threads,
                               .device = args->device,
                               .repeat = (size_t)args->repeat,
                               .seconds = args->seconds,
                               .entries = s->entries,
                               .n_entries = s->n_entries};
        code = bench_measure(&job, rows, &n_rows);
    }
    if (code == CLI_OK)
        code = take_rows(s, rows, n_rows);
    tensor_free(&input);
    return code;
}

/* A table has them in the order of the rows of a file; JSON in reverse, so that our own codec comes last. */
static cli_exit print_totals(session *s)
{
    const size_t n = N_ITEMS(s->totals);
    cli_exit code = CLI_OK;
    for (size_t i = 0; i < n && code == CLI_OK; i++) {
        const bench_row *total = &s->totals[s->args->json ? n - 1 - i : i];
        if (total->total)
            code = print_row(s, total);
    }
    return code;
}

/* All files at one bound, then the totals. */
static cli_exit bench_bound(session *s, char **files, size_t n_files, const bound *b)
{
    cli_exit code = CLI_OK;
    memset(s->totals, 0, sizeof s->totals);
    for (size_t i = 0; i < n_files && code == CLI_OK; i++) {
        progress_update(s->n_done++);
        code = bench_file(s, files[i], b);
    }
    return code == CLI_OK ? print_totals(s) : code;
}

static cli_exit run(const void *given, char **operands, size_t n_operands)
{
    bench_args args = *(const bench_args *)given;
    reason why;
    session s;
    cli_exit code = CLI_OK;
    if (args.bounds.n == 0)
        set_bounds(&args.bounds, "0.1std", &why);
    begin_session(&s, &args, operands, n_operands);
    progress_begin("benchmark", args.bounds.n * n_operands);
    for (size_t i = 0; i < args.bounds.n && code == CLI_OK; i++)
        code = bench_bound(&s, operands, n_operands, &args.bounds.items[i]);
    progress_end();
    if (code == CLI_OK && s.broken)
        return fail(CLI_BOUND_BROKEN, "bound violated: the error of an element is larger than its bound");
    if (code == CLI_OK && s.differs)
        return fail(CLI_FAILED, "%s: a frame differs from the one that the CPU makes", args.device);
    return code;
}

const verb verb_bench_codec = {
    .name = "bench codec",
    .summary = "Measure ratio, speed and error on files",
    .usage = "FILE... [-e BOUND] [-l LEVEL] [-j N] [options]",
    .details = "Prints a row for each file and a total. The bound is made absolute on the tensor as it is in the file\n"
               "before the clock starts. GB/s are uncompressed bytes / 1e9 / seconds, the best of several rounds;\n"
               "memcpy copies the same bytes in the same rounds. Ratio and bytes are those of the repeated\n"
               "tensor. FILE may be gen:relu:N,C,H,W, gen:bn:... or gen:noise:..., a made-up tensor.\n",
    .examples = "  comet bench codec acts.npy -e 0.1std -l dense -j 1 --json\n"
                "  comet bench codec *.npy -e 0.02std,0.1std,0.3std --min-mb 64 --peers\n"
                "  comet bench codec gen:relu:8,64,56,56 --layout nChw16c -j 2\n",
    .operands = (const char *const[]){"FILE", NULL},
    .more_operands = true,
    .options = options,
    .n_options = N_ITEMS(options),
    .defaults = &(const bench_args){.n_threads = 1, .repeat = 5, .seconds = 1},
    .args_bytes = sizeof(bench_args),
    .run = run,
};
