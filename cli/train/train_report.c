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

enum { N_LARGEST = 5, LOGGED_STEPS = 50 };

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

void json_add_memory(json *j, const comet_memory *m)
{
    json_add_u64(j, "weights_bytes", m->weights);
    json_add_u64(j, "saved_reference_bytes", m->saved_reference);
    json_add_u64(j, "saved_bytes", m->saved);
    json_add_u64(j, "transient_bytes", m->transient);
    json_add_u64(j, "gradients_bytes", m->gradients);
    json_add_u64(j, "optimiser_bytes", m->optimiser);
    json_add_u64(j, "scratch_bytes", m->scratch);
    json_add_u64(j, "assessing_bytes", m->assessing);
    json_add_u64(j, "program_bytes", comet_program_rss());
    json_add_u64(j, "planned_bytes", m->total);
}

void json_add_compression(json *j, const comet_compression_figures *c, double train_seconds)
{
    json_add_text(j, "compress", mode_name(c->mode));
    json_add_double(j, "ratio", c->ratio);
    json_add_double(j, "conv_ratio", c->conv_ratio);
    json_add_double(j, "codec_seconds", c->codec_seconds);
    json_add_double(j, "codec_share", codec_share(c, train_seconds));
    json_add_double(j, "sigma_ratio_min", c->sigma_ratio_min);
    json_add_double(j, "sigma_ratio_max", c->sigma_ratio_max);
    json_add_u64(j, "spilled_bytes", c->spilled_bytes);
    json_add_u64(j, "assessments", c->n_assessments);
    json_add_u64(j, "nonfinite_values", c->n_nonfinite);
}

double codec_share(const comet_compression_figures *c, double train_seconds)
{
    return train_seconds > 0 ? c->codec_seconds / train_seconds : NAN;
}

/* ---- the log ---- */

static void log_line(train_report *r, json *j)
{
    if (r->log && json_write(j, r->log) == CLI_OK && fflush(r->log) == 0)
        return;
    if (!r->log)
        cJSON_Delete(j->root);
    else if (!r->log_failed)
        say("%s: could not write the log; training continues", r->log_path);
    r->log_failed = r->log != NULL;
}

static json log_begin(const char *name, const comet_train_event *e)
{
    json j = json_begin();
    json_add_text(&j, "event", name);
    json_add_u64(&j, "step", e->step);
    json_add_u64(&j, "epoch", e->epoch);
    json_add_double(&j, "seconds", e->seconds);
    return j;
}

/* The memory table and the results of compression. */
static void add_model(json *j, const comet_train_event *e)
{
    const comet_memory memory = memory_of(e->model);
    const comet_compression_figures compression = compression_of(e->model);
    json_add_memory(j, &memory);
    json_add_compression(j, &compression, e->train_seconds);
}

static void log_start(train_report *r, const comet_train_event *e)
{
    const comet_memory memory = memory_of(e->model);
    json j = log_begin("start", e);
    json_add_text(&j, "compress", mode_name(compression_of(e->model).mode));
    json_add_text(&j, "net", comet_net_name(comet_model_net(e->model)));
    json_add_text(&j, "data", r->data);
    json_add_u64(&j, "seed", r->seed);
    json_add_u64(&j, "threads", r->n_threads);
    json_add_double(&j, "rate", r->rate);
    json_add_text(&j, "convolutions", comet_convolutions_name(r->convolutions));
    if (r->convolutions == COMET_CONVOLUTIONS_TIMED)
        json_add_text(&j, "convolution_choices", r->convolution_choices);
    json_add_u64(&j, "batch", comet_model_batch(e->model));
    json_add_u64(&j, "n_steps", e->n_steps);
    json_add_u64(&j, "n_epochs", e->n_epochs);
    json_add_memory(&j, &memory);
    log_line(r, &j);
}

static void log_step(train_report *r, const comet_train_event *e)
{
    json j = log_begin("step", e);
    json_add_double(&j, "rate", e->rate);
    json_add_double(&j, "train_loss", e->train_loss);
    json_add_double(&j, "train_top1", e->train_top1);
    json_add_double(&j, "images_per_s", e->images_per_s);
    log_line(r, &j);
}

static void log_epoch(train_report *r, const comet_train_event *e)
{
    json j = log_begin("epoch", e);
    json_add_double(&j, "rate", e->rate);
    json_add_double(&j, "train_loss", e->train_loss);
    json_add_double(&j, "train_top1", e->train_top1);
    json_add_double(&j, "loss", e->test_loss);
    json_add_double(&j, "top1", e->test_top1);
    json_add_double(&j, "top5", e->test_top5);
    json_add_double(&j, "best_top1", e->best_top1);
    json_add_double(&j, "images_per_s", e->images_per_s);
    json_add_double(&j, "wait_share", e->wait_share);
    json_add_u64(&j, "peak_rss_bytes", e->peak_rss_bytes);
    add_model(&j, e);
    log_line(r, &j);
}

/* A line for each tensor and consumer whose bound was assessed. */
static void log_assessment(train_report *r, const comet_train_event *e)
{
    comet_assessment_line line = {.size = sizeof line};
    for (size_t i = 0; r->log && comet_model_describe_assessment(e->model, i, &line) == COMET_OK; i++) {
        json j = log_begin("assess", e);
        json_add_text(&j, "layer", line.layer);
        json_add_text(&j, "what", line.what);
        json_add_double(&j, "eb", line.eb);
        json_add_double(&j, "eb_cut", line.eb_cut);
        json_add_double(&j, "R", line.nonzero);
        json_add_double(&j, "sigma_target", line.sigma_target);
        json_add_double(&j, "sigma_measured", line.sigma_measured);
        if (isnan(line.sigma_measured))
            json_add_null(&j, "at_limit");
        else
            json_add_bool(&j, "at_limit", line.at_limit);
        json_add_double(&j, "sigma_ratio", line.sigma_ratio);
        json_add_text(&j, "level", line.level);
        json_add_text(&j, "predictor", line.predictor);
        json_add_double(&j, "ratio", line.bytes > 0 ? (double)line.bytes_raw / (double)line.bytes : NAN);
        json_add_u64(&j, "bytes", line.bytes);
        log_line(r, &j);
    }
}

static void log_text(train_report *r, const char *name, const comet_train_event *e)
{
    json j = log_begin(name, e);
    if (e->kind == COMET_EVENT_CHECKPOINT)
        json_add_bool(&j, "ok", e->checkpoint_ok);
    json_add_text(&j, "text", e->text);
    log_line(r, &j);
}

static void log_rate(train_report *r, const comet_train_event *e)
{
    json j = json_begin();
    json_add_text(&j, "event", "rate");
    json_add_u64(&j, "step", e->step);
    json_add_double(&j, "rate", e->rate);
    json_add_double(&j, "train_loss", e->train_loss);
    log_line(r, &j);
}

static json end_object(const comet_train_event *e)
{
    json j = json_begin();
    json_add_text(&j, "event", "end");
    json_add_double(&j, "top1", e->test_top1);
    json_add_double(&j, "top5", e->test_top5);
    json_add_double(&j, "loss", isnan(e->test_top1) ? e->train_loss : e->test_loss);
    json_add_double(&j, "images_per_s", e->images_per_s);
    json_add_u64(&j, "epochs", e->epoch);
    json_add_double(&j, "seconds", e->seconds);
    json_add_u64(&j, "peak_rss_bytes", e->peak_rss_bytes);
    add_model(&j, e);
    json_add_u64(&j, "steps", e->step);
    json_add_double(&j, "train_loss", e->train_loss);
    json_add_double(&j, "train_top1", e->train_top1);
    json_add_double(&j, "best_top1", e->best_top1);
    json_add_double(&j, "wait_share", e->wait_share);
    json_add_u64(&j, "skipped_images", e->n_skipped);
    json_add_u64(&j, "skipped_test_images", e->n_test_skipped);
    json_add_double(&j, "start_loss", e->start_loss);
    json_add_double(&j, "lowest_loss", e->lowest_loss);
    json_add_u64(&j, "data_bytes", e->data_bytes);
    return j;
}

static void log_sentence(train_report *r, const char *event, const char *sentence)
{
    json j = json_begin();
    json_add_text(&j, "event", event);
    json_add_text(&j, "text", sentence);
    log_line(r, &j);
}

void train_report_note(train_report *r, const char *sentence)
{
    log_sentence(r, "note", sentence);
    say("%s", sentence);
}

void train_report_failure(train_report *r, const char *sentence)
{
    log_sentence(r, "error", sentence);
}

/* ---- lines to read ---- */

static void show_progress(train_report *r, const comet_train_event *e)
{
    char peak[SIZE_TEXT_BYTES], saved[40] = "";
    const comet_compression_figures compression = compression_of(e->model);
    const uint64_t done = e->step - r->first_step;
    const double share = 1 / (double)(++r->n_shown < LOGGED_STEPS ? r->n_shown : LOGGED_STEPS);
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
    const uint64_t steps = e->n_epochs > 0 ? e->n_steps / e->n_epochs : e->n_steps;
    r->n_epochs_shown = e->epoch;
    r->first_step = e->step;
    r->log_every = steps > LOGGED_STEPS ? steps / LOGGED_STEPS : 1;
    log_start(r, e);
    if (r->json || e->finished)
        return;
    memory_table_print(stdout, e->model);
    fflush(stdout);
}

static void on_end(train_report *r, const comet_train_event *e)
{
    progress_hide();
    json j = end_object(e);
    log_line(r, &j);
    if (r->json) {
        j = end_object(e);
        json_print(&j);
    } else {
        show_end(r, e);
    }
}

void train_report_event(void *user, const comet_train_event *e)
{
    train_report *r = user;
    switch (e->kind) {
    case COMET_EVENT_START: on_start(r, e); break;
    case COMET_EVENT_STEP:
        if (e->step % r->log_every == 0)
            log_step(r, e);
        show_progress(r, e);
        break;
    case COMET_EVENT_EPOCH:
        log_epoch(r, e);
        if (!r->json)
            show_epoch(r, e);
        break;
    case COMET_EVENT_ASSESS: log_assessment(r, e); break;
    case COMET_EVENT_CHECKPOINT:
        log_text(r, "checkpoint", e);
        if (!e->checkpoint_ok)
            say("the checkpoint of step %" PRIu64
                " was not written: %s; training continues, and the checkpoint before it is intact",
                e->step, e->text);
        break;
    case COMET_EVENT_NOTE:
        log_text(r, "note", e);
        say("%s", e->text);
        break;
    case COMET_EVENT_END: on_end(r, e); break;
    case COMET_EVENT_RATE:
        log_rate(r, e);
        progress_text("looking for a rate  step %" PRIu64 "/%" PRIu64 "  rate %.3g  loss %.4f", e->step, e->n_steps, e->rate,
                      e->train_loss);
        break;
    }
}
