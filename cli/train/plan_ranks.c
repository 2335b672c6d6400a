/* Predictions for several ranks; see plan_ranks.h. */
#include "train/plan_ranks.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/threads.h"
#include "comet/dist.h"
#include "comet/scaling.h"
#include "kit/json_out.h"
#include "kit/number.h"
#include "kit/progress.h"
#include "kit/text.h"
#include "train/step_trial.h"
#include "train/train_budget.h"

enum { USUAL_BATCH = 32, TRIAL_STEPS = 3, MAX_RANKS = 65536, MOST_NODES = 1024 };
/* What the table is about. */
static const double table_links[] = {1.25e9, 12.5e9, 50e9};
enum { N_LINKS = N_ITEMS(table_links) };
static const double usual_link = 1.25e9, usual_latency = 50e-6;
/* Gradients have this share of a link's rate: the rest is headers, and moments in which the next message has not been asked for
 * yet. Measured between namespaces at 0.3 and 1 Gbit/s. */
static const double usable_share = 0.8;
/* What an MPI takes itself with two ranks, in libraries and in memory that it shares. Measured: Open MPI 4.1.4, MPICH 4.0.2
 * with UCX. */
typedef struct mpi_kind {
    const char *name;
    uint64_t bytes;
} mpi_kind;
static const mpi_kind mpi_kinds[] = {{"openmpi", 7 << 20}, {"mpich", 70 << 20}};
/* What forward has of a step whose time is given; the rest is backward, by multiply-adds; the update is in backward. */
static const double forward_share = 1.0 / 3;

/* ---- options ---- */

bool set_ranks(void *target, const char *text, reason *why)
{
    ranks_arg *ranks = target;
    *ranks = (ranks_arg){.given = true, .table = strcmp(text, "table") == 0};
    if (ranks->table || number_u64(text, 1, MAX_RANKS, &ranks->n, why))
        return true;
    const reason number = *why;
    return reason_set(why, "%.200s; nor is it 'table'", number.text);
}

static const mpi_kind *find_mpi(const char *name)
{
    for (size_t i = 0; i < N_ITEMS(mpi_kinds); i++)
        if (strcmp(name, mpi_kinds[i].name) == 0)
            return &mpi_kinds[i];
    return NULL;
}

bool set_mpi(void *target, const char *text, reason *why)
{
    const mpi_kind *found = find_mpi(text);
    *(const mpi_kind **)target = found;
    return found || reason_set(why, "'%.60s' is neither openmpi nor mpich", text);
}

/* What is not known is taken for the larger. */
static const mpi_kind *mpi_of(const plan_args *args)
{
    comet_dist_module_info info = {.size = sizeof info};
    if (args->several.mpi)
        return args->several.mpi;
    const mpi_kind *found = comet_dist_module(0, &info) ? find_mpi(info.name) : NULL;
    return found ? found : &mpi_kinds[N_ITEMS(mpi_kinds) - 1];
}

bool set_link_rate(void *target, const char *text, reason *why)
{
    return number_rate(text, target, why);
}

bool set_duration(void *target, const char *text, reason *why)
{
    return number_seconds(text, target, why);
}

bool set_gradients(void *target, const char *text, reason *why)
{
    char digits[24];
    const size_t length = strlen(text);
    double smaller = strcmp(text, "off") == 0 ? 1 : strcmp(text, "bf16") == 0 ? 2 : 0;
    if (!(smaller > 0)) {
        if (length < 2 || length > sizeof digits || text[length - 1] != 'x')
            return reason_set(why, "'%.60s' is neither off nor bf16, nor how many times smaller, such as 8x", text);
        memcpy(digits, text, length - 1);
        digits[length - 1] = '\0';
        if (!number_double(digits, 1, 1000, &smaller, why))
            return false;
    }
    *(double *)target = 4 / smaller;
    return true;
}

cli_exit plan_ranks_check(const plan_args *args)
{
    const plan_ranks_args *r = &args->several;
    if (args->place)
        return args->net.model || args->net.file || r->link >= 0 || r->latency >= 0 || r->step_time >= 0
                   ? fail(CLI_USAGE,
                          "--place takes a machine, --ranks N, --ranks-per-node and -j; it is about no net and no link")
                   : CLI_OK;
    if (!r->ranks.given) {
        if ((r->per_node == 0 && r->link < 0 && r->latency < 0 && r->step_time < 0 && !r->mpi && !r->sync_bn &&
             !r->shard_optimiser && r->wire_bytes == 4 && (args->peak || !args->compression.mode.given)))
            return CLI_OK;
        return fail(CLI_USAGE,
                    "--link, --latency, --mpi, --ranks-per-node, --step-time, --compress, --compress-gradients, --sync-bn and "
                    "--shard-optimiser are for --ranks N or --ranks table; --compress is for --peak, too");
    }
    if (r->ranks.table && r->link >= 0)
        return fail(CLI_USAGE, "--ranks table is for links of 10, 100 and 400 Gbit/s; --link needs --ranks N");
    if (!r->ranks.table && r->per_node > 0 && r->ranks.n % r->per_node != 0 && r->ranks.n > r->per_node)
        return fail(CLI_USAGE, "%" PRIu64 " ranks cannot be spread with %" PRIu64 " on each node", r->ranks.n, r->per_node);
    if (args->memory > 0)
        return fail(CLI_USAGE, "--memory is for a plan of one process; --ranks is not");
    return CLI_OK;
}

/* ---- what is known of one rank ---- */

typedef struct one_rank {
    const plan_args *args;
    const comet_net *net;
    comet_compress_mode mode;
    uint32_t batch, per_node;
    step_times times;
    comet_timeline_layer *layers;
    size_t n_layers;
    double gradient_bytes;
    comet_forecast forecast;
} one_rank;

static comet_model_params params_of(const one_rank *o)
{
    comet_model_params params = plan_model_params(o->args);
    const uint32_t cores = (uint32_t)comet_cores(), share = cores / o->per_node;
    params.batch = o->batch;
    compression_fill(&o->args->compression, o->mode, &params.compression);
    if (params.n_threads == 0 && o->per_node > 1)
        params.n_threads = share > 0 ? share : 1;
    return params;
}

/* The peak of a rank alone. */
static cli_exit forecast_memory(one_rank *o)
{
    comet_budget *budget = NULL;
    comet_budget_params params;
    comet_budget_params_init(&params);
    params.net = o->net;
    params.model = params_of(o);
    params.queue = (uint32_t)o->args->queue;
    params.sampling = budget_show_sampling;
    comet_forecast_init(&o->forecast);
    comet_status status = comet_budget_create(&budget, &params);
    if (status == COMET_OK)
        status = comet_budget_forecast(budget, o->mode, o->batch, &o->forecast);
    progress_hide();
    comet_budget_destroy(budget);
    return status == COMET_OK ? CLI_OK : fail_status(status, comet_net_name(o->net));
}

/* Other ranks of a node, as many as this machine has cores for. */
static uint32_t ranks_beside(const one_rank *o, uint32_t n_threads)
{
    const uint32_t cores = (uint32_t)comet_cores(), fit = n_threads > 0 ? cores / n_threads : 1;
    const uint32_t n = o->args->several.ranks.table || o->args->several.ranks.n > o->per_node
                           ? o->per_node
                           : (uint32_t)o->args->several.ranks.n;
    const uint32_t together = n < fit ? n : fit;
    return together > 0 ? together - 1 : 0;
}

static cli_exit find_times(one_rank *o)
{
    const double given = o->args->several.step_time;
    if (given < 0) {
        const comet_model_params params = params_of(o);
        return step_trial(o->net, &params, TRIAL_STEPS, ranks_beside(o, params.n_threads), &o->times);
    }
    if (!(given > 0))
        return fail(CLI_USAGE, "--step-time is 0: a step takes some time");
    o->times = (step_times){.forward = given * forward_share, .backward = given * (1 - forward_share)};
    return CLI_OK;
}

static cli_exit find_timeline(one_rank *o)
{
    const size_t n = comet_net_n_values(o->net);
    o->layers = calloc(n, sizeof *o->layers);
    if (!o->layers)
        return fail_memory(n * sizeof *o->layers);
    const comet_status status = comet_timeline_of_net(o->net, o->layers, &o->n_layers);
    if (status != COMET_OK)
        return fail_status(status, NULL);
    for (size_t i = 0; i < o->n_layers; i++) {
        o->layers[i].seconds *= o->times.backward;
        o->gradient_bytes += 4.0 * (double)o->layers[i].parameters;
    }
    return CLI_OK;
}

static cli_exit know_one_rank(const plan_args *args, const comet_net *net, one_rank *o)
{
    *o = (one_rank){.args = args,
                    .net = net,
                    .mode = args->compression.mode.value,
                    .batch = args->batch > 0 ? (uint32_t)args->batch : USUAL_BATCH,
                    .per_node = args->several.per_node > 0 ? (uint32_t)args->several.per_node : 1};
    cli_exit code = forecast_memory(o);
    if (code == CLI_OK)
        code = find_times(o);
    return code == CLI_OK ? find_timeline(o) : code;
}

/* ---- predictions ---- */

typedef struct prediction {
    uint32_t n_ranks, n_on_node;
    double link, latency;
    comet_scaling scaling;
    double images_per_s;
    uint64_t peak;
} prediction;

/* Buffers of messages; a gradient of fewer than 2 bytes is coded, and leaves a float over. */
static cli_exit message_bytes(const one_rank *o, uint32_t n_ranks, uint64_t *bytes)
{
    const double wire_bytes = o->args->several.wire_bytes;
    const bool coded = wire_bytes < 4 && !(fabs(wire_bytes - 2) < 1e-9);
    comet_dist_params params;
    comet_dist_params_init(&params);
    params.wire = coded ? COMET_WIRE_CODED : wire_bytes < 4 ? COMET_WIRE_BF16 : COMET_WIRE_F32;
    const comet_status status = comet_dist_message_bytes(&params, n_ranks, bytes);
    *bytes += coded ? (uint64_t)o->gradient_bytes : 0;
    return status == COMET_OK ? CLI_OK : fail_status(status, NULL);
}

/* Beside what a rank alone needs: buckets, messages and MPI; less what the others hold of the optimiser. */
static cli_exit find_peak(const one_rank *o, prediction *p)
{
    const uint64_t state = o->forecast.model.optimiser;
    uint64_t messages = 0;
    p->peak = o->forecast.peak;
    if (p->n_ranks == 1)
        return CLI_OK;
    const cli_exit code = message_bytes(o, p->n_ranks, &messages);
    p->peak += p->scaling.bucket_bytes + messages + mpi_of(o->args)->bytes;
    p->peak -= o->args->several.shard_optimiser ? state - state / p->n_ranks : 0;
    return code;
}

static cli_exit predict(const one_rank *o, uint32_t n_ranks, double link, prediction *p)
{
    const plan_ranks_args *given = &o->args->several;
    comet_scaling_params params;
    comet_scaling_params_init(&params);
    *p = (prediction){.n_ranks = n_ranks,
                      .n_on_node = n_ranks < o->per_node ? n_ranks : o->per_node,
                      .link = link,
                      .latency = given->latency >= 0 ? given->latency : usual_latency};
    params.layers = o->layers;
    params.n_layers = o->n_layers;
    params.forward = o->times.forward;
    params.update = o->times.update;
    params.n_ranks = n_ranks;
    params.n_on_node = p->n_on_node;
    params.link = usable_share * link;
    params.latency = p->latency;
    params.wire_bytes = given->wire_bytes;
    params.sync_batch_norm = given->sync_bn;
    params.shard_optimiser = given->shard_optimiser;
    comet_scaling_init(&p->scaling);
    const comet_status status = comet_scaling_predict(&params, &p->scaling);
    if (status != COMET_OK)
        return fail_status(status, NULL);
    p->images_per_s = (double)n_ranks * o->batch / p->scaling.step;
    return find_peak(o, p);
}

/* ---- what is printed ---- */

static cli_exit print_object(const one_rank *o, const prediction *p)
{
    json j = json_begin();
    json_add_text(&j, "net", comet_net_name(o->net));
    json_add_u64(&j, "image", comet_net_shape(o->net, 0).height);
    json_add_text(&j, "compress", mode_name(o->mode));
    json_add_u64(&j, "batch_per_rank", o->batch);
    json_add_u64(&j, "ranks", p->n_ranks);
    json_add_u64(&j, "ranks_per_node", p->n_on_node);
    json_add_double(&j, "link_bits_per_s", 8 * p->link);
    json_add_double(&j, "latency_s", p->latency);
    json_add_bool(&j, "step_measured", o->args->several.step_time < 0);
    json_add_double(&j, "alone_s", p->scaling.alone);
    json_add_double(&j, "step_s", p->scaling.step);
    json_add_double(&j, "images_per_s", p->images_per_s);
    json_add_double(&j, "efficiency", p->scaling.efficiency);
    json_add_u64(&j, "sent_bytes", p->scaling.bytes_sent);
    json_add_u64(&j, "buckets", p->scaling.n_buckets);
    json_add_double(&j, "moving_s", p->scaling.moving);
    json_add_double(&j, "waited_s", p->scaling.waited);
    json_add_double(&j, "hidden_share", p->scaling.hidden);
    json_add_text(&j, "mpi", mpi_of(o->args)->name);
    json_add_u64(&j, "peak_bytes", p->peak);
    return json_print(&j);
}

static const char *size_of(double bytes, char text[SIZE_TEXT_BYTES])
{
    return comet_size_text((uint64_t)bytes, text);
}

static void print_one_rank(const one_rank *o)
{
    char size[SIZE_TEXT_BYTES], speed[SPEED_BYTES];
    const comet_shape in = comet_net_shape(o->net, 0);
    const step_times *t = &o->times;
    const double alone = t->forward + t->backward + t->update;
    printf("%s, images of %" PRIu32 " x %" PRIu32 " x %" PRIu32 ", %" PRIu32 " a rank, compression %s, %s of gradients\n",
           comet_net_name(o->net), in.channels, in.height, in.width, o->batch, mode_name(o->mode),
           size_of(o->gradient_bytes, size));
    printf("a rank alone: %.3f s a step, %s images/s ", alone, text_speed(o->batch / alone, speed));
    if (o->args->several.step_time < 0)
        printf("(measured: forward %.3f s, backward %.3f s, update %.3f s)\n", t->forward, t->backward, t->update);
    else
        printf("(given)\n");
}

static void print_prediction(const one_rank *o, const prediction *p)
{
    char size[SIZE_TEXT_BYTES], speed[SPEED_BYTES];
    const comet_scaling *s = &p->scaling;
    printf("%" PRIu32 " ranks, %" PRIu32 " on a node, %.6g Gbit/s, %.6g us\n", p->n_ranks, p->n_on_node, p->link * 8e-9,
           p->latency * 1e6);
    printf("%-26s %10.3f s\n", "step", s->step);
    printf("%-26s %10s\n", "images/s", text_speed(p->images_per_s, speed));
    printf("%-26s %10.3f\n", "efficiency", s->efficiency);
    printf("%-26s %12s\n", "sent by a rank, a step", comet_size_text(s->bytes_sent, size));
    printf("%-26s %10.3f s in %" PRIu32 " buckets\n", "gradients are moving", s->moving, s->n_buckets);
    printf("%-26s %10.3f s\n", "a rank waits", s->waited);
    printf("%-26s %10.1f %%\n", "hidden of the transfer", 100 * s->hidden);
    printf("%-26s %12s", "peak memory of a rank", comet_size_text(p->peak, size));
    if (p->n_ranks > 1)
        printf(" with %s", mpi_of(o->args)->name);
    putchar('\n');
}

static void print_table_head(void)
{
    printf("%21s %21s", "", "");
    for (size_t k = 0; k < N_LINKS; k++)
        printf("   %6g Gbit/s %13s", table_links[k] * 8e-9, "");
    printf("\n%5s %7s %10s %10s", "nodes", "ranks", "sent", "peak");
    for (size_t k = 0; k < N_LINKS; k++)
        printf("   %8s %8s %8s", "s a step", "images/s", "hidden");
    putchar('\n');
}

static void print_row(uint32_t n_nodes, const prediction row[N_LINKS])
{
    char sent[SIZE_TEXT_BYTES], peak[SIZE_TEXT_BYTES], speed[SPEED_BYTES];
    uint64_t most = 0;
    for (size_t k = 0; k < N_LINKS; k++)
        most = row[k].peak > most ? row[k].peak : most;
    printf("%5" PRIu32 " %7" PRIu32 " %10s %10s", n_nodes, row[0].n_ranks, comet_size_text(row[0].scaling.bytes_sent, sent),
           comet_size_text(most, peak));
    for (size_t k = 0; k < N_LINKS; k++)
        printf("   %8.3f %8s %6.1f %%", row[k].scaling.step, text_speed(row[k].images_per_s, speed),
               100 * row[k].scaling.hidden);
    putchar('\n');
}

static cli_exit plan_table(const one_rank *o)
{
    cli_exit code = CLI_OK;
    if (!o->args->json)
        print_table_head();
    for (uint32_t n = 1; n <= MOST_NODES && code == CLI_OK; n *= 2) {
        prediction row[N_LINKS];
        for (size_t k = 0; k < N_LINKS && code == CLI_OK; k++) {
            code = predict(o, n * o->per_node, table_links[k], &row[k]);
            if (code == CLI_OK && o->args->json)
                code = print_object(o, &row[k]);
        }
        if (code == CLI_OK && !o->args->json)
            print_row(n, row);
    }
    return code;
}

static cli_exit plan_one(const one_rank *o)
{
    const plan_ranks_args *given = &o->args->several;
    prediction p;
    const cli_exit code = predict(o, (uint32_t)given->ranks.n, given->link >= 0 ? given->link : usual_link, &p);
    if (code != CLI_OK)
        return code;
    if (o->args->json)
        return print_object(o, &p);
    print_prediction(o, &p);
    return CLI_OK;
}

cli_exit plan_ranks(const plan_args *args, const comet_net *net)
{
    one_rank o;
    cli_exit code = know_one_rank(args, net, &o);
    if (code == CLI_OK && !args->json)
        print_one_rank(&o);
    if (code == CLI_OK)
        code = args->several.ranks.table ? plan_table(&o) : plan_one(&o);
    free(o.layers);
    return code;
}
