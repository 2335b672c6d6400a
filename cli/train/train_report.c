/* What a run shows; see train_report.h. */
#include "train/train_report.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/size_text.h"
#include "kit/progress.h"
#include "train/compression_args.h"
#include "train/figures.h"
#include "train/train_setup.h"

enum { N_LARGEST = 5, SHOWN_STEPS = 50 };

/* ---- the memory table ---- */

static void print_bytes(FILE *out, const char *what, uint64_t bytes)
{
    char text[SIZE_TEXT_BYTES];
    fprintf(out, "  %-38s %12s\n", what, comet_size_text(bytes, text));
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

void memory_table_print(FILE *out, const comet_model *model)
{
    const comet_memory m = memory_of(model);
    comet_saved_line top[N_LARGEST];
    size_t n_lines = 0;
    const size_t n_top = largest_lines(model, top, &n_lines);
    char text[SIZE_TEXT_BYTES], label[COMET_MAX_LAYER_NAME + 64];
    const bool coded = compression_of(model).mode != COMET_COMPRESS_OFF;
    fprintf(out, "memory for batch %" PRIu32 "\n", comet_model_batch(model));
    print_bytes(out, "weights", m.weights);
    print_bytes(out, m.gradients > 0 ? "gradients" : "gradients, used as soon as they are ready", m.gradients);
    print_bytes(out, "optimiser", m.optimiser);
    print_bytes(out, coded ? "saved activations, coded" : "saved activations", m.saved);
    for (size_t i = 0; i < n_top; i++) {
        snprintf(label, sizeof label, "  %.60s, %s%s", top[i].layer, top[i].what, coded ? ", raw" : "");
        print_bytes(out, label, top[i].bytes);
    }
    if (n_lines > n_top)
        fprintf(out, "    and %zu more\n", n_lines - n_top);
    print_bytes(out, "transients", m.transient);
    print_bytes(out, "  scratchpads, at their largest", m.scratch);
    if (m.assessing > 0)
        print_bytes(out, "assessments", m.assessing);
    print_bytes(out, "total", m.total); /* at the peak: coded tensors and transients have their maxima at different times */
    if (coded)
        fprintf(out, "  (coded activations, transients and assessments share memory: the total is less than the sum)\n");
    fprintf(out, "  (all tensors that backward reads, uncompressed: %s)\n", comet_size_text(m.saved_reference, text));
}

void train_report_note(train_report *r, const char *sentence)
{
    train_log_note(&r->log, sentence);
    say("%s", sentence);
}

/* ---- lines to read ---- */

static void show_progress(train_report *r, const comet_train_event *e)
{
    char peak[SIZE_TEXT_BYTES], saved[40] = "";
    const comet_compression_figures compression = compression_of(e->model);
    const uint64_t done = e->step - r->first_step;
    const double share = 1 / (double)(++r->n_shown < SHOWN_STEPS ? r->n_shown : SHOWN_STEPS);
    r->loss += share * (e->train_loss - r->loss);
    r->top1 += share * (e->train_top1 - r->top1);
    const double left = done > 0 ? e->seconds / (double)done * (double)(e->n_steps - e->step) : 0;
    if (compression.mode != COMET_COMPRESS_OFF && !isnan(compression.ratio))
        snprintf(saved, sizeof saved, "  saved %.1f x", compression.ratio);
    progress_text("epoch %" PRIu64 "/%" PRIu64 "  step %" PRIu64 "/%" PRIu64
                  "  loss %.4f  top-1 %.1f %%  %.4g images/s  peak %s%s  %d:%02d left",
                  e->epoch + 1, e->n_epochs, e->step, e->n_steps, r->loss, 100 * r->top1, e->images_per_s,
                  comet_size_text(e->peak_rss_bytes, peak), saved, (int)(left / 60), (int)fmod(left, 60));
}

/* The last line may belong to an epoch that was not finished. */
static void show_epoch(train_report *r, const comet_train_event *e)
{
    progress_hide();
    if (e->epoch > r->n_epochs_shown)
        printf("epoch %" PRIu64 "/%" PRIu64, e->epoch, e->n_epochs);
    else
        printf("step %" PRIu64, e->step);
    r->n_epochs_shown = e->epoch;
    printf("  train loss %.4f top-1 %6.2f %%", e->train_loss, 100 * e->train_top1);
    if (!isnan(e->test_top1))
        printf("  test loss %.4f top-1 %6.2f %% top-5 %6.2f %%", e->test_loss, 100 * e->test_top1, 100 * e->test_top5);
    if (e->images_per_s > 0)
        printf("  %.4g images/s", e->images_per_s);
    printf("  %.0f s\n", e->seconds);
    fflush(stdout);
}

/* "saved activations 169 MiB instead of 2.70 GiB (16.0 x at the run's peak, 21.2 x in the last step), compression dense; coding
 * took 3.1 % of the time" */
static void show_compression(const comet_train_event *e)
{
    char saved[SIZE_TEXT_BYTES], reference[SIZE_TEXT_BYTES];
    const comet_memory memory = memory_of(e->model);
    const comet_compression_figures c = compression_of(e->model);
    const double share = codec_share(&c, e->train_seconds);
    const uint64_t held = memory.saved + c.spilled_bytes;
    printf("saved activations %s instead of %s", comet_size_text(memory.saved, saved),
           comet_size_text(memory.saved_reference, reference));
    if (held > 0) {
        printf(" (%.1f x", (double)memory.saved_reference / (double)held);
        if (c.n_assessments > 0 && !isnan(c.ratio))
            printf(" at the run's peak, %.1f x in the last step", c.ratio);
        printf("%s)", c.spilled_bytes > 0 ? ", disk included" : "");
    }
    printf(", compression %s", mode_name(c.mode));
    if (c.codec_seconds > 0 && !isnan(share))
        printf("; coding took %.1f %% of the time", 100 * share);
    if (c.spilled_bytes > 0)
        printf("; %s were spilled", comet_size_text(c.spilled_bytes, saved));
    putchar('\n');
}

/* Memory and time of the run. */
static void show_costs(const comet_train_event *e)
{
    char peak[SIZE_TEXT_BYTES], planned[SIZE_TEXT_BYTES], data[SIZE_TEXT_BYTES], code[SIZE_TEXT_BYTES], rest[SIZE_TEXT_BYTES];
    const comet_memory memory = memory_of(e->model);
    const uint64_t program = comet_program_rss(), known = memory.total + e->data_bytes + program;
    printf("peak memory %s: %s planned for the model, %s data, %s program and libraries, %s other\n",
           comet_size_text(e->peak_rss_bytes, peak), comet_size_text(memory.total, planned),
           comet_size_text(e->data_bytes, data), comet_size_text(program, code),
           comet_size_text(e->peak_rss_bytes > known ? e->peak_rss_bytes - known : 0, rest));
    show_compression(e);
    if (e->images_per_s > 0)
        printf("%.4g images/s, limited by %s (%.1f %% of the time was spent waiting for data)\n", e->images_per_s,
               e->wait_share > 0.03 ? "the loader" : "computing", 100 * e->wait_share);
}

static void show_end(const train_report *r, const comet_train_event *e)
{
    progress_hide();
    if (!isnan(e->best_top1))
        printf("best top-1 %.2f %%\n", 100 * e->best_top1);
    if (e->step > r->first_step)
        show_costs(e);
    if (e->n_skipped > 0)
        printf("%" PRIu64 " broken image%s skipped\n", e->n_skipped, e->n_skipped == 1 ? " was" : "s were");
    if (e->n_test_skipped > 0)
        printf("%" PRIu64 " broken test image%s skipped\n", e->n_test_skipped, e->n_test_skipped == 1 ? " was" : "s were");
    fflush(stdout);
}

/* ---- events ---- */

static void on_start(train_report *r, const comet_train_event *e)
{
    r->n_epochs_shown = e->epoch;
    r->first_step = e->step;
    if (r->json || e->finished)
        return;
    memory_table_print(stdout, e->model);
    fflush(stdout);
}

static void on_end(train_report *r, const comet_train_event *e)
{
    progress_hide();
    if (r->json) {
        json j = train_log_end(e);
        json_print(&j);
    } else {
        show_end(r, e);
    }
}

void train_report_event(void *user, const comet_train_event *e)
{
    train_report *r = user;
    train_log_event(&r->log, e);
    switch (e->kind) {
    case COMET_EVENT_START: on_start(r, e); break;
    case COMET_EVENT_STEP: show_progress(r, e); break;
    case COMET_EVENT_EPOCH:
        if (!r->json)
            show_epoch(r, e);
        break;
    case COMET_EVENT_CHECKPOINT:
        if (!e->checkpoint_ok)
            say("the checkpoint of step %" PRIu64
                " was not written: %s; training continues, and the checkpoint before it is intact",
                e->step, e->text);
        break;
    case COMET_EVENT_NOTE: say("%s", e->text); break;
    case COMET_EVENT_END: on_end(r, e); break;
    case COMET_EVENT_RATE:
        progress_text("looking for a rate  step %" PRIu64 "/%" PRIu64 "  rate %.3g  loss %.4f", e->step, e->n_steps, e->rate,
                      e->train_loss);
        break;
    case COMET_EVENT_ASSESS:
    case COMET_EVENT_TEST:
    case COMET_EVENT_TIMELINE: break;
    }
}
