/* Memory over the steps by class, and what is saved for backward: stored, raw here, and in a framework that keeps everything.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "report/sections.h"

/* Classes from the bottom of the stack to its top; the rest is what the process has beyond these. */
static const struct memory_class {
    step_field field;
    const char *name, *colour;
} classes[] = {
    {S_WEIGHTS, "weights", "m-weights"},         {S_GRADIENTS, "gradients", "m-gradients"},
    {S_OPTIMISER, "optimiser", "m-optimiser"},   {S_SAVED, "saved for backward", "m-saved"},
    {S_TRANSIENT, "transients", "m-transients"}, {S_DATA, "data", "m-data"},
    {S_PROGRAM, "program", "m-program"},
};
enum { N_CLASSES = N_ITEMS(classes) };

/* What the process has beyond the classes, NULL without memory. */
static double *rest_of(const run_lines *lines)
{
    double *rest = malloc((lines->n > 0 ? lines->n : 1) * sizeof *rest);
    for (size_t i = 0; rest && i < lines->n; i++) {
        rest[i] = lines->items[i].field[S_RSS];
        for (size_t k = 0; k < N_CLASSES; k++) {
            const double bytes = lines->items[i].field[classes[k].field];
            rest[i] -= isnan(bytes) ? 0 : bytes;
        }
        rest[i] = isnan(rest[i]) ? NAN : fmax(rest[i], 0);
    }
    return rest;
}

static void add_stack(const runs *all, const run *r, chart *c)
{
    double *rest = rest_of(&r->steps);
    field_column fields[N_CLASSES + 2] = {{S_RSS, "whole process", BYTES, NULL}, {S_SAVED, classes[3].name, BYTES, NULL}};
    size_t places[N_CLASSES], n = 2;
    for (size_t k = 0; k < N_CLASSES; k++) {
        places[k] = classes[k].field == S_SAVED ? 1 : n++;
        fields[places[k]] = (field_column){classes[k].field, classes[k].name, BYTES, NULL};
    }
    fields[n] = (field_column){0, "rest", BYTES, rest};
    const size_t b = rest ? add_lines(all, r, &r->steps, fields, n + 1, 2, c) : MAX_BLOCKS;
    const size_t first = first_field(all);
    for (size_t k = 0; k < N_CLASSES && b < MAX_BLOCKS; k++)
        if (!isnan(run_largest(&r->steps, classes[k].field)))
            chart_series(c, b, first + places[k], MARK_STACK, classes[k].colour, "%s", classes[k].name);
    if (b < MAX_BLOCKS && !isnan(run_largest(&r->steps, S_RSS))) {
        chart_series(c, b, first + n, MARK_STACK, "m-rest", "rest");
        chart_series(c, b, first, MARK_LINE, "m-rss", "whole process");
    }
    free(rest);
}

/* Runs side by side have the same scale. */
static double tallest(const runs *all)
{
    double most = 0;
    for (size_t i = 0; i < all->n; i++)
        for (size_t k = 0; k < all->items[i].steps.n; k++) {
            const double *field = all->items[i].steps.items[k].field;
            double sum = 0;
            for (size_t m = 0; m < N_CLASSES; m++)
                sum += isnan(field[classes[m].field]) ? 0 : field[classes[m].field];
            most = fmax(most, fmax(sum, field[S_RSS]));
        }
    return most;
}

static bool draw_stacks(const runs *all, page *p)
{
    bool any = false;
    const double most = tallest(all);
    for (size_t i = 0; i < all->n && most > 0; i++) {
        char id[32];
        snprintf(id, sizeof id, "memory-%zu", i + 1);
        chart c = {.id = id, .title = "Memory by class", .y_name = "memory", .y_what = BYTES};
        c.only_run = all->n > 1 ? all->items[i].name : NULL;
        c.caption = "What the process holds, at each step that was logged.";
        c.y = scale_of(BYTES, 0, most, true, false);
        runs_axis(all, &c);
        add_stack(all, &all->items[i], &c);
        any = draw_lines_chart(&c, true, false, p) || any;
    }
    return any;
}

static bool draw_ratio(const runs *all, page *p)
{
    chart c = {.id = "ratio", .title = "Times less saved for backward", .y_name = "times less", .y_what = TIMES};
    const field_column field = {S_RATIO, "times less", TIMES, NULL};
    c.caption = "What a framework that keeps everything would hold, divided by what this run held.";
    return draw_steps_chart(all, &field, &c, p);
}

/* ---- raw against compressed ---- */

saved_figures saved_of(const run *r)
{
    static const step_field fields[] = {S_SAVED_REFERENCE, S_SAVED_RAW, S_SAVED};
    static const char *const keys[] = {"saved_reference_bytes", "saved_raw_bytes", "saved_bytes"};
    double *values[3];
    saved_figures s = {.last = NAN};
    values[0] = &s.reference, values[1] = &s.raw, values[2] = &s.stored;
    for (size_t i = 0; i < 3; i++) {
        *values[i] = fmax(run_number(r->end, keys[i]), run_largest(&r->steps, fields[i]));
        if (isnan(*values[i]))
            *values[i] = run_number(r->start, keys[i]);
    }
    if (run_last(&r->steps))
        s.last = run_last(&r->steps)->field[S_SAVED];
    return s;
}

static void put_bar(page *p, const char *name, double bytes, double most, const char *colour)
{
    char text[HUMAN_BYTES];
    if (isnan(bytes))
        return;
    page_format(
        p,
        "<tr><th scope=\"row\">%s</th><td class=\"bar-cell\"><svg height=\"16\" aria-hidden=\"true\"><rect class=\"bar %s\" "
        "width=\"%.2f%%\" height=\"16\"/></svg></td><td>%s</td></tr>\n",
        name, colour, most > 0 ? 100 * bytes / most : 0, human(BYTES, bytes, text));
}

static void draw_saved(const runs *all, page *p)
{
    double most = 0;
    for (size_t i = 0; i < all->n; i++)
        most = fmax(most, saved_of(&all->items[i]).reference);
    if (most <= 0)
        return;
    page_put(p, "<figure class=\"chart\" id=\"saved\"><figcaption><h3>Saved for backward: raw against stored</h3><p>The most "
                "held at once, of "
                "the tensors that a step keeps until backward has read them.</p></figcaption>\n");
    for (size_t i = 0; i < all->n; i++) {
        const saved_figures s = saved_of(&all->items[i]);
        page_put(p, "<table class=\"bars\">");
        if (all->n > 1) {
            page_put(p, "<caption>");
            page_escape(p, all->items[i].name);
            page_put(p, "</caption>");
        }
        put_bar(p, "a framework that keeps everything", s.reference, most, "m-reference");
        put_bar(p, "raw here", s.raw, most, "m-raw");
        put_bar(p, "stored", s.stored, most, "m-saved");
        put_bar(p, "stored, in the last step", s.last, most, "m-saved");
        page_put(p, "</table>\n");
    }
    page_put(p, "</figure>\n");
}

void draw_memory(const runs *all, page *p)
{
    page_put(p, "<section aria-labelledby=\"s-memory\"><h2 id=\"s-memory\">Memory over the run</h2>\n");
    begin_grid(all, true, p);
    const bool any = draw_stacks(all, p);
    draw_saved(all, p);
    draw_ratio(all, p);
    page_put(p, "</div>\n");
    if (!any)
        put_missing(p, "Memory by step is not in the log: logs of version 2 have it, once a step is done.");
    page_put(p, "</section>\n");
}
