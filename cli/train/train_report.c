/* What a run shows; see train_report.h. */
#include "train/train_report.h"

#include <inttypes.h>
#include <math.h>

#include "kit/progress.h"
#include "kit/text.h"
#include "train/train_setup.h"
#include "train/train_tables.h"

void train_report_note(train_report *r, const char *sentence)
{
    train_log_note(&r->log, sentence);
    say("%s", sentence);
}

/* ---- lines to read ---- */

/* The last line may belong to an epoch that was not finished. */
static void show_epoch(train_report *r, const comet_train_event *e)
{
    char speed[SPEED_BYTES];
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
        printf("  %s images/s", text_speed(e->images_per_s, speed));
    printf("  %.0f s\n", e->seconds);
    fflush(stdout);
}

static void show_end(const train_report *r, const comet_train_event *e)
{
    progress_hide();
    if (!isnan(e->best_top1))
        printf("best top-1 %.2f %%\n", 100 * e->best_top1);
    if (e->step > r->line.first_step)
        cost_table_print(stdout, e);
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
    r->line.first_step = e->step;
    if (r->json || e->finished || say_is_quiet())
        return;
    run_table_print(stdout, &r->log, e);
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

static bool has_checkpoint(const char *folder)
{
    char path[4096];
    return file_in_folder(folder, "last.safetensors", path, sizeof path);
}

void train_report_event(void *user, const comet_train_event *e)
{
    train_report *r = user;
    train_log_event(&r->log, e);
    switch (e->kind) {
    case COMET_EVENT_START: on_start(r, e); break;
    case COMET_EVENT_STEP: train_line_step(&r->line, e); break;
    case COMET_EVENT_EPOCH:
        if (!r->json && !say_is_quiet())
            show_epoch(r, e);
        break;
    case COMET_EVENT_CHECKPOINT:
        if (!e->checkpoint_ok)
            say("the checkpoint of step %" PRIu64 " was not written: %s; training continues, %s", e->step, e->text,
                has_checkpoint(r->log.params->out) ? "and the checkpoint before it is intact" : "without a checkpoint so far");
        break;
    case COMET_EVENT_NOTE: say("%s", e->text); break;
    case COMET_EVENT_END: on_end(r, e); break;
    case COMET_EVENT_RATE:
        progress_text("looking for a rate  step %" PRIu64 "/%" PRIu64 "  rate %.3g  loss %.4f", e->step, e->n_steps, e->rate,
                      e->train_loss);
        break;
    case COMET_EVENT_TEST: train_line_test(e); break;
    case COMET_EVENT_ASSESS:
    case COMET_EVENT_TIMELINE: break;
    }
}
