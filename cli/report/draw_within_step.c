/* Memory within one step: it rises layer by layer in forward and falls in backward. */
#include <math.h>
#include <stdio.h>

#include "report/sections.h"

static bool fill_labels(const run_timeline *t, block *b)
{
    if (!block_label(b, "layer"))
        return false;
    for (size_t i = 0; i < t->n; i++)
        b->labels[i] = t->points[i].layer ? t->points[i].layer : "";
    return true;
}

/* The first step is stored nearly exactly; where its points are the same ones, it is a further column. */
static bool fill(const run *r, const run_timeline *t, block *b)
{
    const run_timeline *first = &r->timelines[0];
    const bool has_first = first != t && first->n == t->n;
    double *columns[4] = {NULL};
    static const char *const names[] = {"stored", "raw here", "a framework that keeps everything", "stored in the first step"};
    for (size_t k = 0; k < 3 + (size_t)has_first; k++)
        if (!(columns[k] = block_column(b, names[k], BYTES)))
            return false;
    for (size_t i = 0; i < t->n; i++) {
        b->x[i] = (double)i;
        columns[0][i] = t->points[i].stored;
        columns[1][i] = t->points[i].raw;
        columns[2][i] = t->points[i].reference;
        if (columns[3])
            columns[3][i] = first->points[i].stored;
    }
    return true;
}

static double most_of(const block *b, size_t column)
{
    double most = NAN;
    for (size_t i = 0; column < b->n_columns && i < b->n; i++)
        most = fmax(most, b->columns[column].values[i]);
    return most;
}

/* Where backward begins, as a share of the points. */
static double turn_of(const run_timeline *t)
{
    for (size_t i = 0; i < t->n; i++)
        if (t->points[i].backward)
            return (double)i;
    return (double)t->n;
}

static void add_series(chart *c)
{
    static const struct {
        mark how;
        const char *colour, *name;
    } kinds[] = {
        {MARK_LINE, "m-saved", "stored"},
        {MARK_LINE, "m-raw", "raw here"},
        {MARK_LINE, "m-reference", "a framework that keeps everything"},
        {MARK_DASHED, "m-saved", "stored in the first step"},
    };
    static const size_t order[] = {2, 1, 3, 0};
    char text[HUMAN_BYTES];
    for (size_t i = 0; i < N_ITEMS(order); i++) {
        const size_t k = order[i];
        const double most = most_of(&c->blocks[0], k);
        if (!isnan(most))
            chart_series(c, 0, k, kinds[k].how, kinds[k].colour, "%s: %s", kinds[k].name, human(BYTES, most, text));
    }
}

static bool draw_step(const runs *all, size_t index, double most, page *p)
{
    const run *r = &all->items[index];
    const run_timeline *t = &r->timelines[r->n_timelines - 1];
    char id[32], title[80], step[HUMAN_BYTES];
    snprintf(id, sizeof id, "step-%zu", index + 1);
    snprintf(title, sizeof title, "Memory within step %s", human(COUNT, t->step, step));
    chart c = {.id = id,
               .title = title,
               .caption =
                   "What is kept for backward after each layer, forward and then back; the figures are the most held at once.",
               .y_name = "kept",
               .y_what = BYTES,
               .x_name = "layers in order of time"};
    c.only_run = all->n > 1 ? r->name : NULL;
    c.x = (scale){.low = 0, .high = t->n > 1 ? (double)(t->n - 1) : 1, .step = 1, .unit = 1, .unit_name = ""};
    c.x_turn = turn_of(t);
    c.y = scale_of(BYTES, 0, most, true, false);
    block *b = chart_block(&c);
    const bool ok = block_begin(b, r->name, t->n) && fill_labels(t, b) && fill(r, t, b);
    b->part = "kept for backward after each layer";
    if (ok)
        add_series(&c);
    return draw_lines_chart(&c, true, false, p);
}

void draw_within_step(const runs *all, page *p)
{
    double most = 0;
    bool any = false;
    page_put(p, "<section aria-labelledby=\"s-step\"><h2 id=\"s-step\">Memory within a step</h2>\n");
    begin_grid(all, false, p);
    for (size_t i = 0; i < all->n; i++)
        for (size_t k = 0; k < all->items[i].n_timelines; k++)
            for (size_t n = 0; n < all->items[i].timelines[k].n; n++) {
                const run_point *point = &all->items[i].timelines[k].points[n];
                most = fmax(most, fmax(point->stored, fmax(point->raw, point->reference)));
            }
    for (size_t i = 0; i < all->n; i++)
        if (all->items[i].n_timelines > 0)
            any = draw_step(all, i, most, p) || any;
    page_put(p, "</div>\n");
    if (!any)
        put_missing(p, "Memory within a step is not in the log: logs of version 2 have it, once the first step is done.");
    page_put(p, "</section>\n");
}
