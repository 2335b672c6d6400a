/* comet plan: the memory that training would need, for ways to compress and batches, and what fits a budget. Several ranks:
 * plan_ranks.c; GPUs: plan_gpu.c. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/size_text.h"
#include "kit/json_out.h"
#include "kit/progress.h"
#include "train/plan_args.h"
#include "train/plan_gpu.h"
#include "train/plan_peak.h"
#include "train/plan_place.h"
#include "train/plan_ranks.h"
#include "train/train_budget.h"
#include "verbs.h"

#define AT(field) offsetof(plan_args, field)
static const option options[] = {
    OPTION_MODEL(plan_args),
    OPTION_NET(plan_args),
    {0, "classes", "N", set_count, AT(net.classes), "classes of a built-in net (default: the net's own)"},
    {0, "image", "N", set_count, AT(image), "pixels on each side (default: the net's own)"},
    {0, "channels", "N", set_count, AT(channels), "channels of a built-in net's images (default: the net's own)"},
    {0, "batch", "N", set_count, AT(batch), "only this batch, with its parts (default: 8 to 256; --peak, --ranks of each: 32)"},
    {0, "peak", NULL, set_flag, AT(peak), "the moment with the highest memory, and every buffer in memory then"},
    {0, "ranks", "N|table", set_ranks, AT(several.ranks),
     "how fast N ranks train, or 1 to 1024 nodes (default: memory of one process)"},
    {0, "link", "RATE", set_link_rate, AT(several.link), "of each node, 100Gbit, 1Gbit/s ... (default 10Gbit)"},
    {0, "latency", "TIME", set_duration, AT(several.latency), "of a message between nodes, 5us, 0.2ms ... (default 50us)"},
    {0, "mpi", "NAME", set_mpi, AT(several.mpi),
     "whose memory counts: openmpi or mpich (default: the first that this build has)"},
    {0, "ranks-per-node", "N", set_count, AT(several.per_node), "that share a node and its link (default 1)"},
    {0, "step-time", "TIME", set_duration, AT(several.step_time), "of a rank alone (default: measured here)"},
    {0, "compress", "MODE", set_mode, AT(compression.mode),
     "with --peak, --ranks: off, fast, dense, auto or lossless (default auto)"},
    {0, "compress-gradients", "HOW", set_gradients, AT(several.wire_bytes),
     "as sent: off (floats), bf16, or 8x for 8 times smaller (default off)"},
    {0, "sync-bn", NULL, set_flag, AT(several.sync_bn), "with --ranks: batch norms take the statistics of all ranks"},
    {0, "shard-optimiser", NULL, set_flag, AT(several.shard_optimiser),
     "with --ranks: each holds its part of the optimiser's state"},
    {0, "place", "MACHINE", set_text, AT(place),
     "where --ranks N of -j threads do best: a file, here, hwloc's FILE.xml or synthetic:TEXT"},
    {0, "gpu", "NAME", set_text, AT(gpu), "how fast the codec is on a100, v100, t4 ... by a model; nothing is measured"},
    {0, "memory", "SIZE", set_bytes, AT(memory), "also the largest batch within 4G, 512MiB, 4GB ... (default: none)"},
    OPTION_OPTIMISER(plan_args),
    OPTION_STATE(plan_args),
    OPTION_FREEZE(plan_args),
    OPTION_NOISE(plan_args),
    OPTION_SIGMA(plan_args),
    OPTION_OVERHEAD(plan_args),
    OPTION_THREADS(plan_args, "threads (default 0: one per core)"),
    OPTION_QUEUE(plan_args),
    {0, "convolutions", "HOW", set_convolutions, AT(convolutions),
     "rule, timed (room for whatever a trial chooses) or direct, as for train (default rule)"},
    OPTION_PRECISION(plan_args),
    {0, "no-recompute", NULL, set_flag, AT(no_recompute), "keep tensors that backward could compute again"},
    OPTION_JSON(plan_args, "one JSON object for each forecast or prediction (default: tables)"),
};

/* Printed in the order of `shown`. */
static const comet_compress_mode asked[] = {COMET_COMPRESS_FAST, COMET_COMPRESS_DENSE, COMET_COMPRESS_AUTO, COMET_COMPRESS_OFF};
static const comet_compress_mode shown[] = {COMET_COMPRESS_OFF, COMET_COMPRESS_FAST, COMET_COMPRESS_DENSE, COMET_COMPRESS_AUTO};
static const uint32_t usual_batches[] = {8, 16, 32, 64, 128, 256};
enum { N_SHOWN = N_ITEMS(shown), MAX_BATCHES = N_ITEMS(usual_batches), N_MODES = COMET_COMPRESS_AUTO + 1 };

typedef struct plan_table {
    const comet_net *net;
    comet_budget *budget;
    uint32_t batches[MAX_BATCHES];
    size_t n_batches;
    comet_forecast cells[MAX_BATCHES][N_MODES];
    uint32_t largest[N_MODES]; /* within the budget; 0: none */
} plan_table;

static cli_exit fill_mode(const plan_args *args, comet_compress_mode mode, plan_table *t)
{
    comet_status status = COMET_OK;
    for (size_t i = 0; i < t->n_batches && status == COMET_OK; i++) {
        comet_forecast_init(&t->cells[i][mode]);
        status = comet_budget_forecast(t->budget, mode, t->batches[i], &t->cells[i][mode]);
    }
    if (status == COMET_OK && args->memory > 0)
        status = comet_budget_largest_batch(t->budget, mode, args->memory, &t->largest[mode]);
    return status == COMET_OK ? CLI_OK : fail_status(status, comet_net_name(t->net));
}

static void fill_batches(const plan_args *args, plan_table *t)
{
    t->n_batches = args->batch > 0 ? 1 : MAX_BATCHES;
    for (size_t i = 0; i < t->n_batches; i++)
        t->batches[i] = args->batch > 0 ? (uint32_t)args->batch : usual_batches[i];
}

/* ---- tables ---- */

static void print_modes(const char *first)
{
    printf("%-26s", first);
    for (size_t i = 0; i < N_SHOWN; i++)
        printf(" %10s", mode_name(shown[i]));
    putchar('\n');
}

static void print_sizes(const char *name, const uint64_t bytes[N_SHOWN])
{
    char text[SIZE_TEXT_BYTES];
    printf("%-26s", name);
    for (size_t i = 0; i < N_SHOWN; i++)
        printf(" %10s", comet_size_text(bytes[i], text));
    putchar('\n');
}

/* 1 where nothing is saved. */
static double shown_ratio(double ratio)
{
    return isnan(ratio) ? 1 : ratio;
}

static void print_ratios(const plan_table *t)
{
    printf("%-26s", "saved, times smaller");
    for (size_t i = 0; i < N_SHOWN; i++)
        printf(" %9.1fx", shown_ratio(t->cells[0][shown[i]].ratio));
    printf("\n%-26s", "  once bounds are known");
    for (size_t i = 0; i < N_SHOWN; i++)
        printf(" %9.1fx", shown_ratio(t->cells[0][shown[i]].ratio_later));
    putchar('\n');
}

#define PRINT_PART(name, field)              \
    do {                                     \
        uint64_t bytes[N_SHOWN];             \
        for (size_t k = 0; k < N_SHOWN; k++) \
            bytes[k] = row[shown[k]].field;  \
        print_sizes(name, bytes);            \
    } while (0)

static void print_parts(const comet_forecast row[N_MODES])
{
    PRINT_PART("  weights", model.weights);
    PRINT_PART("  gradients", model.gradients);
    PRINT_PART("  optimiser", model.optimiser);
    PRINT_PART("  saved activations", model.saved);
    PRINT_PART("    the same, raw", model.saved_raw);
    PRINT_PART("    where all is kept", model.saved_reference);
    PRINT_PART("  transients", model.transient);
    PRINT_PART("  queues of images", data);
    PRINT_PART("  program and libraries", program);
}

static bool is_capped(const plan_table *t)
{
    for (size_t i = 0; i < N_SHOWN; i++)
        if (t->largest[shown[i]] == COMET_BUDGET_LARGEST_TRIED)
            return true;
    return false;
}

static void print_tables(const plan_args *args, const plan_table *t)
{
    char name[32], size[SIZE_TEXT_BYTES];
    const comet_shape in = comet_net_shape(t->net, 0);
    printf("%s, images of %" PRIu32 " x %" PRIu32 " x %" PRIu32 "\n", comet_net_name(t->net), in.channels, in.height, in.width);
    print_modes("peak memory");
    for (size_t i = 0; i < t->n_batches; i++) {
        const comet_forecast *row = t->cells[i];
        snprintf(name, sizeof name, "batch %" PRIu32, t->batches[i]);
        PRINT_PART(name, peak);
        if (t->n_batches == 1)
            print_parts(row);
    }
    print_ratios(t);
    if (args->memory == 0)
        return;
    snprintf(name, sizeof name, "largest batch in %s", comet_size_text(args->memory, size));
    printf("%-26s", name);
    for (size_t i = 0; i < N_SHOWN; i++)
        if (t->largest[shown[i]] > 0)
            printf(" %10" PRIu32, t->largest[shown[i]]);
        else
            printf(" %10s", "none");
    putchar('\n');
    if (is_capped(t))
        printf("(%d is the largest batch that is tried)\n", COMET_BUDGET_LARGEST_TRIED);
}

/* ---- JSON ---- */

static json begin_object(const plan_table *t, comet_compress_mode mode)
{
    json j = json_begin();
    json_add_text(&j, "net", comet_net_name(t->net));
    json_add_u64(&j, "image", comet_net_shape(t->net, 0).height);
    json_add_text(&j, "compress", mode_name(mode));
    return j;
}

static cli_exit print_cell(const plan_table *t, size_t index, comet_compress_mode mode)
{
    const comet_forecast *c = &t->cells[index][mode];
    json j = begin_object(t, mode);
    json_add_u64(&j, "batch", t->batches[index]);
    json_add_u64(&j, "peak_bytes", c->peak);
    json_add_u64(&j, "weights_bytes", c->model.weights);
    json_add_u64(&j, "gradients_bytes", c->model.gradients);
    json_add_u64(&j, "optimiser_bytes", c->model.optimiser);
    json_add_u64(&j, "saved_bytes", c->model.saved);
    json_add_u64(&j, "saved_raw_bytes", c->model.saved_raw);
    json_add_u64(&j, "saved_reference_bytes", c->model.saved_reference);
    json_add_u64(&j, "transient_bytes", c->model.transient);
    json_add_u64(&j, "data_bytes", c->data);
    json_add_u64(&j, "program_bytes", c->program);
    json_add_double(&j, "ratio", c->ratio);
    json_add_double(&j, "ratio_later", c->ratio_later);
    return json_print(&j);
}

static cli_exit print_objects(const plan_args *args, const plan_table *t)
{
    cli_exit code = CLI_OK;
    for (size_t i = 0; i < t->n_batches; i++)
        for (size_t k = 0; k < N_SHOWN && code == CLI_OK; k++)
            code = print_cell(t, i, shown[k]);
    for (size_t k = 0; k < N_SHOWN && code == CLI_OK && args->memory > 0; k++) {
        json j = begin_object(t, shown[k]);
        json_add_u64(&j, "memory_bytes", args->memory);
        json_add_u64(&j, "largest_batch", t->largest[shown[k]]);
        code = json_print(&j);
    }
    return code;
}

/* ---- the verb ---- */

comet_model_params plan_model_params(const plan_args *args)
{
    comet_model_params params;
    comet_model_params_init(&params);
    params.n_threads = (uint32_t)args->n_threads;
    params.convolutions = args->convolutions.value;
    params.no_recompute = args->no_recompute;
    precision_fill(&args->precision, &params);
    params.fused_update = true;
    params.freeze = args->groups.freeze[0] != '\0' ? args->groups.freeze : NULL;
    optimiser_fill(&args->optimiser, &params.optimiser);
    compression_fill(&args->compression, COMET_COMPRESS_OFF, &params.compression);
    return params;
}

comet_status plan_budget(const plan_args *args, const comet_net *net, comet_budget **budget)
{
    comet_budget_params params;
    comet_budget_params_init(&params);
    params.net = net;
    params.model = plan_model_params(args);
    params.queue = (uint32_t)args->queue;
    params.sampling = budget_show_sampling;
    return comet_budget_create(budget, &params);
}

/* Off last, so that it has the program of the others' steps. */
static cli_exit fill_table(const plan_args *args, plan_table *t)
{
    const comet_status status = plan_budget(args, t->net, &t->budget);
    cli_exit code = status == COMET_OK ? CLI_OK : fail_status(status, NULL);
    for (size_t i = 0; i < N_ITEMS(asked) && code == CLI_OK; i++)
        code = fill_mode(args, asked[i], t);
    progress_hide();
    comet_budget_destroy(t->budget);
    return code;
}

static cli_exit plan_memory(const plan_args *args, const comet_net *net)
{
    plan_table t = {.net = net};
    fill_batches(args, &t);
    const cli_exit code = fill_table(args, &t);
    if (code == CLI_OK && args->json)
        return print_objects(args, &t);
    if (code == CLI_OK)
        print_tables(args, &t);
    return code;
}

/* What is computed for a GPU is about one tensor of a known size. */
static cli_exit check_gpu(const plan_args *args)
{
    const bool of_net = args->net.model || args->net.file || args->batch > 0 || args->memory > 0 || args->peak;
    if (args->gpu && (of_net || args->place || args->several.ranks.given))
        return fail(CLI_USAGE, "--gpu is about the codec alone: it does not go with --model, --net, --batch, --memory, --peak, "
                               "--place and --ranks");
    return CLI_OK;
}

static cli_exit run(const void *given, char **operands, size_t n_operands)
{
    const plan_args *args = given;
    comet_net *net = NULL;
    (void)operands, (void)n_operands;
    cli_exit code = compression_check_rule(&args->compression);
    if (code == CLI_OK)
        code = check_gpu(args);
    if (code == CLI_OK)
        code = plan_ranks_check(args);
    if (code == CLI_OK)
        code = plan_peak_check(args);
    if (code == CLI_OK && args->place)
        return plan_place(args);
    if (code == CLI_OK && args->gpu)
        return plan_gpu(args->gpu, args->json);
    if (code == CLI_OK)
        code = net_open(&args->net, (uint32_t)args->channels, (uint32_t)args->image, &net);
    if (code == CLI_OK)
        code = args->several.ranks.given ? plan_ranks(args, net) : args->peak ? plan_peak(args, net) : plan_memory(args, net);
    comet_net_destroy(net);
    return code;
}

const verb verb_plan = {
    .name = "plan",
    .summary = "Predict the memory that training needs, the batch that fits, and how several ranks train",
    .computes = true,
    .usage = "--model NAME | --net FILE | --gpu NAME [--image N] [--memory SIZE] [--batch N] [options]",
    .details =
        "Takes a few steps of a batch of 4 made-up images with each way to compress and extends what they needed to other\n"
        "batches. The largest batch is a multiple of 8 up to 4096 that leaves 5 % of --memory free; none where not even 8\n"
        "fits (0 in JSON). Data sets held in memory come on top; so do queues of float images (npy of floats, synthetic), "
        "which\n"
        "take four times as much as those of bytes, which are counted.\n"
        "With --ranks it times a few steps of one rank and predicts those of several that train together, each with a batch\n"
        "of its own ('comet help distributed' has the model).\n",
    .examples = "  comet plan --model resnet50 --image 224 --memory 4GiB\n"
                "  comet plan --model resnet18 --batch 64\n"
                "  comet plan --model resnet50 --batch 32 --peak --compress fast\n"
                "  comet plan --net mynet.txt --memory 512MiB --json\n"
                "  comet plan --model resnet50 --ranks 64 --link 100Gbit --latency 5us\n"
                "  comet plan --place cluster.txt --ranks 16 -j 8\n"
                "  comet plan --gpu a100\n",
    .operands = (const char *const[]){NULL},
    .options = options,
    .n_options = N_ITEMS(options),
    .defaults = &(const plan_args){.optimiser = OPTIMISER_DEFAULTS,
                                   .compression = COMPRESSION_DEFAULTS,
                                   .several = {.link = -1, .latency = -1, .step_time = -1, .wire_bytes = 4}},
    .args_bytes = sizeof(plan_args),
    .run = run,
};
