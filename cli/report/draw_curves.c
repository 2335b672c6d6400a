/* Loss, accuracy and learning rate of the runs, in charts that they share. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "report/sections.h"

enum { LEAST_WINDOW = 5, WINDOW_SHARE = 60 }; /* a mean fades over a sixtieth of the run */

/* A mean of the values so far in which older ones fade; the first ones count in full. NULL without memory. */
static double *fading_mean(const run_lines *lines, size_t field)
{
    double *means = malloc((lines->n > 0 ? lines->n : 1) * sizeof *means);
    const double window = fmax(LEAST_WINDOW, (double)lines->n / WINDOW_SHARE);
    double sum = 0, weight = 0;
    for (size_t i = 0; means && i < lines->n; i++) {
        const double value = lines->items[i].field[field];
        if (!isnan(value)) {
            sum = sum * (1 - 1 / window) + value;
            weight = weight * (1 - 1 / window) + 1;
        }
        means[i] = weight > 0 && !isnan(value) ? sum / weight : NAN;
    }
    return means;
}

typedef struct curve {
    step_field in_step;
    epoch_field in_test;
    quantity what;
    const char *id, *title, *y_name, *value_name;
    bool may_be_log;
} curve;

/* With one run the two kinds of curves have colours; with several each run has. */
static void add_run(const runs *all, size_t index, const curve *k, chart *c)
{
    const run *r = &all->items[index];
    const bool alone = all->n == 1;
    const char *colour = run_colour(index);
    double *mean = fading_mean(&r->steps, k->in_step);
    const field_column train[] = {{k->in_step, k->value_name, k->what, NULL}, {0, "fading mean", k->what, mean}};
    const field_column test[] = {{k->in_test, k->value_name, k->what, NULL}};
    size_t b = mean ? add_lines(all, r, &r->steps, train, 2, 2, c) : MAX_BLOCKS;
    if (b < MAX_BLOCKS) {
        if (alone)
            chart_series(c, b, first_field(all), MARK_FAINT, colour, "%s", "");
        chart_series(c, b, first_field(all) + 1, alone ? MARK_LINE : MARK_DASHED, colour, "%.44s%s", alone ? "" : r->name,
                     alone ? "train" : ", train");
        c->blocks[b].part = "training images, by step";
    }
    free(mean);
    if (isnan(run_largest(&r->epochs, k->in_test)))
        return;
    b = add_lines(all, r, &r->epochs, test, 1, 1, c);
    if (b == MAX_BLOCKS)
        return;
    chart_series(c, b, first_field(all), MARK_DOTS, alone ? "c1" : colour, "%.44s%s", alone ? "" : r->name,
                 alone ? "test" : ", test");
    c->blocks[b].part = "test images, after each epoch";
}

static bool draw_curve(const runs *all, const curve *k, page *p)
{
    chart c = {.id = k->id, .title = k->title, .y_name = k->y_name, .y_what = k->what};
    c.caption = all->n == 1 ? "Thin: single batches. Thick: their fading mean. Dots: the test images after each epoch."
                            : "Dashed: batches of training images, a fading mean. Dots: the test images after each epoch.";
    runs_axis(all, &c);
    for (size_t i = 0; i < all->n; i++)
        add_run(all, i, k, &c);
    return draw_lines_chart(&c, k->what == SHARE, k->may_be_log, p);
}

static bool draw_rate(const runs *all, page *p)
{
    chart c = {.id = "rate", .title = "Learning rate", .y_name = "rate", .y_what = PLAIN};
    const field_column field = {S_RATE, "rate", PLAIN, NULL};
    return draw_steps_chart(all, &field, &c, p);
}

void draw_curves(const runs *all, page *p)
{
    static const curve loss = {S_LOSS, E_LOSS, PLAIN, "loss", "Loss", "loss", "loss", true};
    static const curve accuracy = {S_TOP1, E_TOP1, SHARE, "accuracy", "Accuracy", "top-1", "top-1", false};
    page_put(p, "<section aria-labelledby=\"s-curves\"><h2 id=\"s-curves\">Learning</h2>\n");
    page_put(p, "<div class=\"grid three\">\n");
    bool any = draw_curve(all, &loss, p);
    any = draw_curve(all, &accuracy, p) || any;
    any = draw_rate(all, p) || any;
    page_put(p, "</div>\n");
    if (!any)
        put_missing(p, "No steps yet: the log has no line of a step or an epoch.");
    page_put(p, "</section>\n");
}
