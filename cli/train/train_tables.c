/* See train_tables.h. */
#include "train/train_tables.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/size_text.h"
#include "base/threads.h"
#include "kit/text.h"
#include "train/compression_args.h"
#include "train/figures.h"
#include "train/net_size.h"
#include "train/train_setup.h"

enum { N_LARGEST = 5, N_PARTS = 4 };

/* ---- the run ---- */

static const char *plural(uint64_t n)
{
    return n == 1 ? "" : "s";
}

static void print_data(FILE *out, const train_log *log)
{
    const comet_train_params *p = log->params;
    const comet_dataset_info train = info_of(p->train_data);
    char shown[PRINTABLE_BYTES], test[64] = "none to test";
    if (p->test_data)
        snprintf(test, sizeof test, "%" PRIu64 " to test", info_of(p->test_data).n_images);
    fprintf(out, "data       %s: %" PRIu64 " images to train on, %s, %" PRIu32 " classes\n",
            text_printable(log->data, shown, sizeof shown), train.n_images, test, train.n_classes);
}

static void print_optimiser(FILE *out, const comet_train_params *p)
{
    const comet_optimiser *o = &p->model.optimiser;
    fprintf(out, "optimiser  %s", comet_optimiser_name(o->kind));
    if (o->kind == COMET_OPTIMISER_SGD)
        fprintf(out, ", momentum %g%s", (double)o->momentum, o->nesterov ? " (Nesterov's)" : "");
    fprintf(out, ", weight decay %g", (double)o->weight_decay);
    if (o->clip_norm > 0)
        fprintf(out, ", clipped at %g", (double)o->clip_norm);
    if (o->state != COMET_STATE_F32)
        fprintf(out, ", state %s", comet_state_format_name(o->state));
    fprintf(out, "\nrate       %.6g at most, schedule %s", p->schedule.rate, comet_schedule_name(p->schedule.kind));
    if (p->schedule.warmup_epochs > 0)
        fprintf(out, ", %.3g epochs of warm-up", p->schedule.warmup_epochs);
    fputc('\n', out);
}

static void print_groups(FILE *out, const comet_model_params *m)
{
    char shown[PRINTABLE_BYTES];
    if (m->freeze)
        fprintf(out, "frozen     %s\n", text_printable(m->freeze, shown, sizeof shown));
    if (m->rates)
        fprintf(out, "rates      %s\n", text_printable(m->rates, shown, sizeof shown));
}

static void print_places(FILE *out, const train_log *log)
{
    char shown[PRINTABLE_BYTES];
    if (log->params->out)
        fprintf(out, "saved to   %s\n", text_printable(log->params->out, shown, sizeof shown));
    else
        fputs("saved to   nothing is kept: --out DIR keeps weights and checkpoints\n", out);
    if (log->file)
        fprintf(out, "log        %s\n", text_printable(log->path, shown, sizeof shown));
}

/* "ranks      4 of 32 images each, 2 on this machine, batch norm over all ranks", and what else they share. */
static void print_ranks(FILE *out, const train_log *log)
{
    const comet_model_params *m = &log->params->model;
    const comet_ranks *r = m->ranks;
    if (!r)
        return;
    fprintf(out, "ranks      %" PRIu32 " of %" PRIu32 " images each, %" PRIu32 " on this machine", r->n_ranks, m->batch,
            r->n_on_node);
    if (m->sync_batch_norm)
        fputs(", batch norm over all ranks", out);
    if (m->shard_optimiser)
        fputs(", optimiser shared out", out);
    if (log->ranks->wire != COMET_WIRE_F32)
        fprintf(out, ", gradients travel as %s", wire_name(log->ranks->wire));
    if (log->ranks->reduce_with_mpi)
        fputs(", summed by MPI", out);
    fputc('\n', out);
}

void run_table_print(FILE *out, const train_log *log, const comet_train_event *e)
{
    const comet_train_params *p = log->params;
    const comet_net *net = comet_model_net(e->model);
    const comet_shape in = comet_net_shape(net, 0);
    const uint64_t threads = p->model.n_threads > 0 ? p->model.n_threads : comet_cores();
    char shown[PRINTABLE_BYTES], count[COUNT_TEXT_BYTES], accumulated[64] = "";
    if (p->model.accumulate > 1)
        snprintf(accumulated, sizeof accumulated, " x %" PRIu32 " accumulated", p->model.accumulate);
    fprintf(out, "net        %s: %s parameters, images of %" PRIu32 " x %" PRIu32 " x %" PRIu32 "\n",
            text_printable(comet_net_name(net), shown, sizeof shown), count_text(whole_size(net).parameters, count),
            in.channels, in.height, in.width);
    print_data(out, log);
    fprintf(out, "length     %" PRIu64 " epoch%s, %" PRIu64 " updates of %" PRIu64 "%s images\n", e->n_epochs,
            plural(e->n_epochs), e->n_steps, batch_of_all(&p->model), accumulated);
    print_optimiser(out, p);
    print_groups(out, &p->model);
    fprintf(out, "computes   %s, %" PRIu64 " thread%s, compression %s\n",
            comet_model_precision(e->model) == COMET_PRECISION_BF16 ? "bfloat16" : "float32", threads, plural(threads),
            mode_name(p->model.compression.mode));
    print_ranks(out, log);
    print_places(out, log);
}

/* ---- the memory table ---- */

static void print_bytes(FILE *out, const char *what, uint64_t bytes)
{
    char text[SIZE_TEXT_BYTES];
    fprintf(out, "  %-42s %12s\n", what, comet_size_text(bytes, text));
}

/* Keeps the N_LARGEST lines of tensors that are held, largest first. */
static size_t largest_lines(const comet_model *model, comet_saved_line top[N_LARGEST], size_t *n_lines)
{
    comet_saved_line line = {.size = sizeof line};
    size_t n = 0;
    *n_lines = 0;
    for (size_t i = 0; comet_model_describe_saved(model, i, &line) == COMET_OK; i++) {
        if (line.recomputed)
            continue;
        ++*n_lines;
        size_t at = n < N_LARGEST ? n++ : N_LARGEST;
        for (; at > 0 && top[at - 1].bytes < line.bytes; at--)
            if (at < N_LARGEST)
                top[at] = top[at - 1];
        if (at < N_LARGEST)
            top[at] = line;
    }
    return n;
}

/* The same tensors three times: of a framework, raw, and as they are held. */
static void print_saved(FILE *out, const comet_model *model, const comet_memory *m, bool coded)
{
    comet_saved_line top[N_LARGEST];
    size_t n_lines = 0;
    const size_t n_top = largest_lines(model, top, &n_lines);
    char label[COMET_MAX_LAYER_NAME + 64];
    print_bytes(out, coded ? "saved activations, compressed (a forecast)" : "saved activations, raw", m->saved);
    print_bytes(out, "  a framework that keeps everything holds", m->saved_reference);
    if (coded)
        print_bytes(out, "  raw here, the largest of them:", m->saved_raw);
    for (size_t i = 0; i < n_top; i++) {
        snprintf(label, sizeof label, "    %.60s, %s", top[i].layer, top[i].what);
        print_bytes(out, label, top[i].bytes);
    }
    if (n_lines > n_top)
        fprintf(out, "      and %zu more\n", n_lines - n_top);
}

void memory_table_print(FILE *out, const comet_model *model)
{
    const comet_memory m = memory_of(model);
    const bool coded = compression_of(model).mode != COMET_COMPRESS_OFF;
    fprintf(out, "memory for batch %" PRIu32 "\n", comet_model_batch(model));
    print_bytes(out, "weights", m.weights);
    print_bytes(out, m.gradients > 0 ? "gradients" : "gradients, used as soon as they are ready", m.gradients);
    print_bytes(out, "optimiser", m.optimiser);
    print_saved(out, model, &m, coded);
    print_bytes(out, "transients", m.transient);
    print_bytes(out, "  scratchpads, at their largest", m.scratch);
    if (m.assessing > 0)
        print_bytes(out, "assessments", m.assessing);
    if (m.messages > 0)
        print_bytes(out, "messages between ranks", m.messages);
    print_bytes(out, "total", m.total); /* at the peak: coded tensors and transients have their maxima at different times */
    if (coded)
        fprintf(out, "  (what is compressed, transients and assessments share memory: the total is less than the sum)\n");
}

/* ---- the end ---- */

/* A unit in which sizes of a sum are printed, so that what is printed adds up, too. */
typedef struct unit {
    double bytes;
    int decimals;
    const char *name;
} unit;

static unit unit_for(uint64_t sum)
{
    const double mib = (double)sum / (1 << 20);
    if (mib >= 10000)
        return (unit){1 << 30, 2, "GiB"};
    return (unit){1 << 20, mib >= 100 ? 0 : 1, "MiB"};
}

/* In steps of what is printed. */
static int64_t in_units(uint64_t bytes, const unit *u)
{
    return llround((double)bytes / u->bytes * (u->decimals == 2 ? 100 : u->decimals == 1 ? 10 : 1));
}

static void print_units(FILE *out, int64_t n, const unit *u)
{
    fprintf(out, "%.*f %s", u->decimals, (double)n / (u->decimals == 2 ? 100 : u->decimals == 1 ? 10 : 1), u->name);
}

/* "peak memory 187 MiB: 149 MiB model, 12 MiB data, 15 MiB program and libraries, 11 MiB other". Where parts of what was
 * planned were never touched they are more than the peak: then the largest part is what is left of it. */
static void print_peak(FILE *out, const comet_train_event *e)
{
    static const char *const names[N_PARTS] = {"model", "data", "program and libraries", "other"};
    const comet_memory memory = memory_of(e->model);
    const unit u = unit_for(e->peak_rss_bytes);
    const int64_t peak = in_units(e->peak_rss_bytes, &u);
    int64_t parts[N_PARTS] = {in_units(memory.total, &u), in_units(e->data_bytes, &u), in_units(comet_program_rss(), &u), 0};
    const int64_t planned = parts[0], rest = peak - parts[0] - parts[1] - parts[2];
    const int largest = parts[0] >= parts[1] ? 0 : 1;
    parts[rest >= 0 ? N_PARTS - 1 : largest] += rest;
    fputs("peak memory ", out);
    print_units(out, peak, &u);
    for (int i = 0; i < N_PARTS; i++) {
        fputs(i == 0 ? ": " : ", ", out);
        print_units(out, parts[i], &u);
        fprintf(out, " %s", names[i]);
        if (i == 0 && parts[0] != planned) {
            fputs(" (", out);
            print_units(out, planned, &u);
            fputs(" planned)", out);
        }
    }
    fputc('\n', out);
}

/* "saved activations 634 MiB in a framework that keeps everything, 441 MiB raw here, 70 MiB compressed (9.1 x less)" and a line
 * about the way to compress. */
static void print_saved_sizes(FILE *out, const comet_train_event *e)
{
    char saved[SIZE_TEXT_BYTES], raw[SIZE_TEXT_BYTES], reference[SIZE_TEXT_BYTES];
    const comet_memory m = memory_of(e->model);
    const comet_compression_figures c = compression_of(e->model);
    const uint64_t held = m.saved + c.spilled_bytes;
    fprintf(out, "saved activations %s in a framework that keeps everything, %s raw here",
            comet_size_text(m.saved_reference, reference), comet_size_text(m.saved_raw, raw));
    if (c.mode == COMET_COMPRESS_OFF) {
        fputs(", compression off\n", out);
        return;
    }
    fprintf(out, ", %s compressed", comet_size_text(m.saved, saved));
    if (c.spilled_bytes > 0)
        fprintf(out, " and %s on disk", comet_size_text(c.spilled_bytes, saved));
    fputc('\n', out);
    const double share = codec_share(&c, e->train_seconds);
    fprintf(out, "compression %s", mode_name(c.mode));
    if (held > 0)
        fprintf(out, ": %.1f x less than everything at the run's peak", (double)m.saved_reference / (double)held);
    if (held > 0 && c.n_assessments > 0 && !isnan(c.ratio))
        fprintf(out, ", %.1f x in the last step", c.ratio);
    if (c.codec_seconds > 0 && !isnan(share))
        fprintf(out, "; coding took %.1f %% of the time", 100 * share);
    fputc('\n', out);
}

/* "ranks sent 12.3 MiB, 49.2 MiB as floats (4.0 x less)" */
static void print_exchange(FILE *out, const comet_train_event *e)
{
    char sent[SIZE_TEXT_BYTES], plain[SIZE_TEXT_BYTES];
    if (e->exchange_sent_bytes == 0)
        return;
    fprintf(out, "ranks sent %s", comet_size_text(e->exchange_sent_bytes, sent));
    if (e->exchange_plain_bytes != e->exchange_sent_bytes)
        fprintf(out, ", %s as floats (%.1f x less)", comet_size_text(e->exchange_plain_bytes, plain),
                (double)e->exchange_plain_bytes / (double)e->exchange_sent_bytes);
    fputc('\n', out);
}

/* The peak and the waiting of each rank, and what they exchanged. */
static void print_rank_figures(FILE *out, const comet_train_event *e)
{
    for (uint32_t i = 0; e->rank_peaks && i < e->n_ranks; i++) {
        char peak[SIZE_TEXT_BYTES];
        fprintf(out, "%s%s", i == 0 ? "peaks of ranks " : ", ", comet_size_text(e->rank_peaks[i], peak));
    }
    for (uint32_t i = 0; e->rank_waited && i < e->n_ranks; i++)
        fprintf(out, "%s%.1f", i == 0 ? "\nwaited for other ranks " : ", ",
                e->rank_trained[i] > 0 ? 100 * e->rank_waited[i] / e->rank_trained[i] : 0);
    if (e->n_ranks > 1)
        fputs(" % of the time\n", out);
    print_exchange(out, e);
}

void cost_table_print(FILE *out, const comet_train_event *e)
{
    char speed[SPEED_BYTES];
    print_peak(out, e);
    print_rank_figures(out, e);
    print_saved_sizes(out, e);
    if (e->images_per_s > 0)
        fprintf(out, "%s images/s, limited by %s (%.1f %% of the time was spent waiting for data)\n",
                text_speed(e->images_per_s, speed), e->wait_share > 0.03 ? "the loader" : "computing", 100 * e->wait_share);
}
