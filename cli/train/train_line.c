/* See train_line.h. */
#include "train/train_line.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/size_text.h"
#include "kit/progress.h"
#include "kit/text.h"
#include "train/figures.h"

enum { N_PARTS = 8, PART_BYTES = 48 };

/* A part of the line. What comes first in `rank` is dropped last where the terminal is narrow. */
typedef struct part {
    char text[PART_BYTES];
    int rank;
    bool shown;
} part;

typedef struct parts {
    size_t n;
    part items[N_PARTS];
} parts;

static void add(parts *p, int rank, const char *format, ...) __attribute__((format(printf, 3, 4)));

static void add(parts *p, int rank, const char *format, ...)
{
    part *item = &p->items[p->n++];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(item->text, sizeof item->text, format, arguments);
    va_end(arguments);
    item->rank = rank;
    item->shown = false;
}

static void show(parts *p)
{
    char line[N_PARTS * (PART_BYTES + 2)] = "";
    const size_t width = progress_width();
    size_t used = 0, at = 0;
    for (int rank = 0; rank < N_PARTS; rank++)
        for (size_t i = 0; i < p->n; i++) {
            const size_t bytes = strlen(p->items[i].text) + (used > 0 ? 2 : 0);
            if (p->items[i].rank != rank || (used > 0 && used + bytes > width))
                continue;
            p->items[i].shown = true;
            used += bytes;
        }
    for (size_t i = 0; i < p->n; i++)
        if (p->items[i].shown)
            at += (size_t)snprintf(line + at, sizeof line - at, "%s%s", at > 0 ? "  " : "", p->items[i].text);
    progress_text("%s", line);
}

/* "0:12", "2:05:00" */
static const char *duration(double seconds, char text[PART_BYTES])
{
    const uint64_t s = seconds > 0 && seconds < 1e9 ? (uint64_t)seconds : 0;
    if (s >= 3600)
        snprintf(text, PART_BYTES, "%" PRIu64 ":%02" PRIu64 ":%02" PRIu64, s / 3600, s / 60 % 60, s % 60);
    else
        snprintf(text, PART_BYTES, "%" PRIu64 ":%02" PRIu64, s / 60, s % 60);
    return text;
}

static double mean(const double *values, uint64_t n)
{
    double sum = 0;
    for (uint64_t i = 0; i < n; i++)
        sum += values[i];
    return sum / (double)n;
}

void train_line_step(train_line *line, const comet_train_event *e)
{
    char text[PART_BYTES], speed[SPEED_BYTES];
    parts p = {.n = 0};
    const comet_compression_figures compression = compression_of(e->model);
    line->losses[line->n % LINE_STEPS] = e->train_loss;
    line->top1s[line->n % LINE_STEPS] = e->train_top1;
    line->n++;
    const uint64_t n = line->n < LINE_STEPS ? line->n : LINE_STEPS, done = e->step - line->first_step;
    const double left = done > 0 ? e->process_seconds / (double)done * (double)(e->n_steps - e->step) : 0;
    add(&p, 0, "epoch %" PRIu64 "/%" PRIu64, e->epoch + 1, e->n_epochs);
    add(&p, 4, "step %" PRIu64 "/%" PRIu64, e->step, e->n_steps);
    add(&p, 1, "mean loss %.4f", mean(line->losses, n));
    add(&p, 5, "top-1 %.1f %%", 100 * mean(line->top1s, n));
    add(&p, 3, "%s images/s", text_speed(e->images_per_s, speed));
    add(&p, 6, "peak %s", comet_size_text(e->peak_rss_bytes, text));
    if (compression.mode != COMET_COMPRESS_OFF && !isnan(compression.ratio))
        add(&p, 7, "saved %.1f x", compression.ratio);
    add(&p, 2, "%s left", duration(left, text));
    show(&p);
}

void train_line_test(const comet_train_event *e)
{
    parts p = {.n = 0};
    if (e->n_tested <= comet_model_batch(e->model))
        progress_hide(); /* the first batch is shown at once */
    add(&p, 1, "epoch %" PRIu64 "/%" PRIu64, e->epoch + 1 < e->n_epochs ? e->epoch + 1 : e->n_epochs, e->n_epochs);
    add(&p, 0, "evaluating %" PRIu64 "/%" PRIu64 " images", e->n_tested, e->n_to_test);
    show(&p);
}
