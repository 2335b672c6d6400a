/* See train_ranks.h. */
#include "train/train_ranks.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/threads.h"
#include "kit/config.h"
#include "train/figures.h"
#include "train/train_setup.h"

static const named wires[] = {{"off", COMET_WIRE_F32}, {"bf16", COMET_WIRE_BF16}, {"codec", COMET_WIRE_CODED}, {NULL, 0}};

const char *wire_name(comet_wire wire)
{
    const named *found = wires;
    while (found->name && found->value != (int)wire)
        found++;
    return found->name;
}

bool set_wire(void *target, const char *text, reason *why)
{
    int value = 0;
    if (!named_find(wires, "way for gradients", "off, bf16 or codec", text, &value, why))
        return false;
    *(comet_wire *)target = (comet_wire)value;
    return true;
}

bool set_reduce(void *target, const char *text, reason *why)
{
    static const named ways[] = {{"ordered", 0}, {"mpi", 1}, {NULL, 0}};
    int value = 0;
    if (!named_find(ways, "order of sums", "ordered or mpi", text, &value, why))
        return false;
    *(bool *)target = value == 1;
    return true;
}

/* ---- joining and leaving ---- */

/* The job ends because of another rank, or of the launcher. */
static void ending(void *user, const char *sentence, bool speak)
{
    (void)user;
    if (speak)
        complain("%s", sentence);
}

/* What is alike on all ranks is said by rank 0 alone. */
static void introduce(const comet_launch *launch)
{
    char name[64];
    snprintf(name, sizeof name, "rank %" PRIu32, launch->rank);
    if (launch->rank > 0)
        say_set_follower(name);
}

/* Somebody may have forgotten mpirun. */
static void note_no_ranks(const ranks_args *args)
{
    const char *given = args->sync_batch_norm          ? "--sync-bn"
                        : args->shard_optimiser        ? "--shard-optimiser"
                        : args->wire != COMET_WIRE_F32 ? "--compress-gradients"
                        : args->reduce_with_mpi        ? "--reduce mpi"
                                                       : NULL;
    if (given)
        say("%s is for several ranks and changes nothing: no mpirun started this one", given);
}

cli_exit ranks_join(train_ranks *r, const ranks_args *args)
{
    comet_launch launch = {.size = sizeof launch};
    comet_dist_params params;
    comet_status status = comet_dist_launched(&launch);
    if (status != COMET_OK)
        return fail_status(status, NULL);
    if (launch.launcher == COMET_LAUNCHER_NONE) {
        note_no_ranks(args);
        return CLI_OK;
    }
    introduce(&launch);
    if (args->reduce_with_mpi && args->wire != COMET_WIRE_F32)
        return fail(CLI_USAGE, "--reduce mpi sums floats; it does not go with --compress-gradients");
    comet_dist_params_init(&params);
    params.wire = args->wire;
    params.reduce_with_mpi = args->reduce_with_mpi;
    params.ending = ending;
    status = comet_dist_start(&params, &r->table);
    if (status != COMET_OK)
        return fail_status(status, NULL);
    r->together = true;
    return CLI_OK;
}

static bool is_end_by_signal(cli_exit code)
{
    return code > 128;
}

cli_exit ranks_leave(train_ranks *r, cli_exit code)
{
    if (!r->together)
        return code;
    if (code == CLI_OK || is_end_by_signal(code)) {
        const comet_status status = comet_dist_end(&r->table);
        return status == COMET_OK ? code : fail_status(status, NULL);
    }
    comet_dist_fail(&r->table, comet_last_error());
    return code;
}

/* ---- agreement ---- */

/* Options that may differ from rank to rank. */
static const char *const own_options[] = {"config", "json", "quiet", "log", "threads", NULL};

static void add_line(char **text, size_t *n, const char *name, const char *value)
{
    const size_t more = strlen(name) + strlen(value) + 8;
    char *grown = *text ? realloc(*text, *n + more) : NULL;
    if (!grown) {
        free(*text);
        *text = NULL;
        return;
    }
    *text = grown;
    *n += (size_t)snprintf(grown + *n, more, "%s: %s\n", name, value);
}

static void add_hash(char **text, size_t *n, const char *what, const char *part, uint64_t hash)
{
    char name[64], value[32];
    snprintf(name, sizeof name, "%s of %s data", what, part);
    snprintf(value, sizeof value, "(fingerprint %016" PRIx64 ")", hash);
    add_line(text, n, name, value);
}

static comet_status add_data(char **text, size_t *n, const char *part, const comet_dataset *data)
{
    char name[64], value[160];
    comet_dataset_print print;
    comet_dataset_print_init(&print);
    if (!data)
        return COMET_OK;
    const comet_status status = comet_dataset_fingerprint(data, &print);
    const comet_dataset_info i = info_of(data);
    snprintf(name, sizeof name, "%s data", part);
    snprintf(value, sizeof value, "%" PRIu64 " images of %" PRIu32 " x %" PRIu32 " x %" PRIu32 ", %" PRIu32 " classes",
             i.n_images, i.channels, i.height, i.width, i.n_classes);
    add_line(text, n, name, value);
    add_hash(text, n, "kind and classes", part, print.names);
    add_hash(text, n, "labels", part, print.labels);
    add_hash(text, n, "images", part, print.images);
    return status;
}

static void add_options(char **text, size_t *n)
{
    json j = json_begin();
    config_add_settings(&j, own_options);
    for (const cJSON *item = j.failed ? NULL : j.root->child; item; item = item->next) {
        char name[128];
        char *value = cJSON_PrintUnformatted(item);
        snprintf(name, sizeof name, "--%s", item->string);
        add_line(text, n, name, value ? value : "?");
        cJSON_free(value);
    }
    cJSON_Delete(j.root);
}

cli_exit ranks_check_alike(train_ranks *r, const comet_dataset *train, const comet_dataset *test)
{
    size_t n = 0;
    if (!r->together)
        return CLI_OK;
    char *text = calloc(1, 1);
    add_line(&text, &n, "version", comet_version());
    add_line(&text, &n, "oneDNN", comet_dnnl_version());
    add_line(&text, &n, "instruction set", comet_isa_name(comet_isa_active()));
    add_options(&text, &n);
    comet_status status = add_data(&text, &n, "training", train);
    if (status == COMET_OK)
        status = add_data(&text, &n, "test", test);
    if (!text)
        return fail_memory(n);
    if (status == COMET_OK)
        status = comet_dist_agree(&r->table, text);
    free(text);
    return status == COMET_OK ? CLI_OK : fail_status(status, NULL);
}

cli_exit ranks_take_first(train_ranks *r, void *data, size_t bytes)
{
    if (!r->together || bytes == 0)
        return CLI_OK;
    const comet_status status = r->table.broadcast(r->table.self, data, bytes);
    return status == COMET_OK ? CLI_OK : fail_status(status, NULL);
}

cli_exit ranks_take_first_text(train_ranks *r, char **text)
{
    uint64_t bytes = *text ? strlen(*text) + 1 : 0;
    cli_exit code = ranks_take_first(r, &bytes, sizeof bytes);
    if (code != CLI_OK || ranks_is_first(r))
        return code == CLI_OK ? ranks_take_first(r, *text, bytes) : code;
    comet_text_free(*text);
    *text = bytes > 0 ? malloc(bytes) : NULL;
    if (bytes > 0 && !*text)
        return fail_memory(bytes);
    return ranks_take_first(r, *text, bytes);
}

/* ---- shares ---- */

cli_exit ranks_share_batch(const train_ranks *r, uint64_t batch, bool given, uint32_t *share)
{
    const uint64_t n = ranks_count(r), rest = batch % n;
    if (batch < n && given)
        return fail(CLI_USAGE, "--batch %" PRIu64 " is of all ranks together, and there are %" PRIu64 " of them", batch, n);
    if (rest != 0 && given)
        return fail(CLI_USAGE,
                    "--batch %" PRIu64 " is of all ranks together and cannot be shared out evenly among %" PRIu64 "; %" PRIu64
                    " and %" PRIu64 " can",
                    batch, n, batch - rest, batch - rest + n);
    *share = (uint32_t)((batch + n - 1) / n);
    return CLI_OK;
}

/* What comet_budget_settle chooses. */
enum { N_CHOSEN = 6 };

static void put_choice(const comet_model_params *m, double *numbers)
{
    const comet_compression *c = &m->compression;
    const double chosen[N_CHOSEN] = {
        m->batch, (double)c->mode, c->planned_ratio, (double)c->spill_above, c->spill_folder != NULL, m->fused_update};
    memcpy(numbers, chosen, sizeof chosen);
}

/* All ranks were given the same folder to spill to, so only whether it is used can differ. */
static void take_choice(comet_model_params *m, const double *numbers, const char *spill_folder)
{
    comet_compression *c = &m->compression;
    m->batch = (uint32_t)numbers[0];
    c->mode = (comet_compress_mode)(int)numbers[1];
    c->planned_ratio = numbers[2];
    c->spill_above = (uint64_t)numbers[3];
    c->spill_folder = numbers[4] > 0 ? spill_folder : NULL;
    m->fused_update = numbers[5] > 0;
}

/* Does `a` need less memory than `b`? */
static bool needs_less(const double *a, const double *b)
{
    return a[0] != b[0] ? a[0] < b[0] : a[4] != b[4] ? a[4] > b[4] : a[4] > 0 && a[3] < b[3];
}

cli_exit ranks_least_batch(train_ranks *r, comet_model_params *model, const char *spill_folder, uint32_t *chosen_by)
{
    const uint32_t n = ranks_count(r);
    uint32_t least = 0;
    if (!r->together)
        return CLI_OK;
    double *all = calloc(n, N_CHOSEN * sizeof *all);
    if (!all)
        return fail_memory(n * N_CHOSEN * sizeof *all);
    put_choice(model, all + (size_t)N_CHOSEN * r->table.rank);
    const comet_status status = r->table.sum(r->table.self, all, (size_t)N_CHOSEN * n);
    for (uint32_t i = 1; i < n; i++)
        least = needs_less(all + (size_t)N_CHOSEN * i, all + (size_t)N_CHOSEN * least) ? i : least;
    if (status == COMET_OK)
        take_choice(model, all + (size_t)N_CHOSEN * least, spill_folder);
    *chosen_by = least;
    free(all);
    return status == COMET_OK ? CLI_OK : fail_status(status, NULL);
}

uint32_t ranks_threads(const train_ranks *r)
{
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    const uint64_t share = cores > 0 ? (uint64_t)cores / r->table.n_on_node : 1, mine = comet_cores();
    return (uint32_t)(share < 1 ? 1 : share < mine ? share : mine);
}
