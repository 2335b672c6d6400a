/* What the charts of several runs share; see sections.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/sections.h"
#include "report/select.h"

enum { MOST_PARTS = 100, LEAST_PARTS = 20 };

const char *run_colour(size_t i)
{
    static const char *const colours[] = {"c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7"};
    return colours[i % N_ITEMS(colours)];
}

/* Epochs of a run, whole or not; NaN where the log does not tell. */
static double epochs_of(const run *r)
{
    const run_line *step = run_last(&r->steps), *epoch = run_last(&r->epochs);
    return (step ? step->step : epoch ? epoch->step : 0) / run_steps_per_epoch(r);
}

runs runs_of(run *items, size_t n)
{
    runs all = {.items = items, .n = n, .same_epochs = true};
    double first = NAN;
    for (size_t i = 0; i < n; i++) {
        const double steps = run_steps_per_epoch(&items[i]);
        all.by_epoch = all.by_epoch || epochs_of(&items[i]) >= 2;
        all.same_epochs = all.same_epochs && (isnan(steps) || isnan(first) || steps == first);
        first = isnan(first) ? steps : first;
    }
    for (size_t i = 0; i < n; i++) /* where one run has no epochs, all are shown by step */
        all.by_epoch = all.by_epoch && (items[i].steps.n + items[i].epochs.n == 0 || !isnan(run_steps_per_epoch(&items[i])));
    all.n_parts = MOST_PARTS / (n > 0 ? n : 1);
    all.n_parts = all.n_parts > LEAST_PARTS ? all.n_parts : LEAST_PARTS;
    return all;
}

double runs_x(const runs *all, const run *r, const run_line *line)
{
    return all->by_epoch ? line->step / run_steps_per_epoch(r) : line->step;
}

double runs_last_x(const runs *all)
{
    double last = 0;
    for (size_t i = 0; i < all->n; i++) {
        const run *r = &all->items[i];
        const run_lines *const lines[] = {&r->steps, &r->epochs};
        for (size_t k = 0; k < 2; k++)
            if (lines[k]->n > 0)
                last = fmax(last, runs_x(all, r, run_last(lines[k])));
    }
    return last;
}

void runs_axis(const runs *all, chart *c)
{
    const double last = runs_last_x(all);
    c->x = scale_of(all->by_epoch ? PLAIN : COUNT, 0, last > 0 ? last : 1, true, false);
    c->x.high = last > 0 ? last : 1;
    c->x_name = all->by_epoch ? "epoch" : "step";
    c->x_what = all->by_epoch ? PLAIN : COUNT;
    c->has_x_ticks = true;
    for (size_t i = 0; i < all->n && all->by_epoch && all->same_epochs; i++) {
        const double steps = run_steps_per_epoch(&all->items[i]);
        if (!isnan(steps)) {
            c->x_second = "steps";
            c->x_factor = steps;
        }
    }
}

/* ---- blocks ---- */

static double value_of(const run_lines *lines, const field_column *f, size_t i)
{
    return f->values ? f->values[i] : lines->items[i].field[f->field];
}

/* Marks the lines to show; returns their number, 0 without memory. */
static size_t choose(const run_lines *lines, const field_column *fields, size_t n_keys, size_t n_parts, bool *kept)
{
    double *keys[MAX_COLUMNS] = {NULL};
    size_t n = 0;
    bool ok = true;
    for (size_t k = 0; k < n_keys; k++) {
        keys[k] = malloc(lines->n * sizeof(double));
        ok = ok && keys[k];
        for (size_t i = 0; keys[k] && i < lines->n; i++)
            keys[k][i] = value_of(lines, &fields[k], i);
    }
    if (ok)
        select_lines(lines->n, (const double *const *)(const void *)keys, n_keys, n_parts, kept);
    for (size_t i = 0; ok && i < lines->n; i++)
        n += kept[i];
    for (size_t k = 0; k < n_keys; k++)
        free(keys[k]);
    return n;
}

static bool fill(const runs *all, const run *r, const run_lines *lines, const field_column *fields, size_t n_fields,
                 const bool *kept, block *b)
{
    double *steps = all->by_epoch ? block_column(b, "step", COUNT) : NULL, *columns[MAX_COLUMNS] = {NULL};
    if (all->by_epoch && !steps)
        return false;
    for (size_t f = 0; f < n_fields; f++)
        if (!(columns[f] = block_column(b, fields[f].name, fields[f].what)))
            return false;
    for (size_t i = 0, row = 0; i < lines->n; i++) {
        if (!kept[i])
            continue;
        b->x[row] = runs_x(all, r, &lines->items[i]);
        if (steps)
            steps[row] = lines->items[i].step;
        for (size_t f = 0; f < n_fields; f++)
            columns[f][row] = value_of(lines, &fields[f], i);
        row++;
    }
    return true;
}

size_t add_lines(const runs *all, const run *r, const run_lines *lines, const field_column *fields, size_t n_fields,
                 size_t n_keys, chart *c)
{
    bool *kept = lines->n > 0 ? malloc(lines->n) : NULL;
    const size_t n = kept ? choose(lines, fields, n_keys, all->n_parts, kept) : 0;
    block *b = n > 0 ? chart_block(c) : NULL;
    bool ok = b && block_begin(b, r->name, n) && fill(all, r, lines, fields, n_fields, kept, b);
    free(kept);
    return ok ? (size_t)(b - c->blocks) : MAX_BLOCKS;
}

size_t first_field(const runs *all)
{
    return all->by_epoch ? 1 : 0;
}

bool draw_lines_chart(chart *c, bool from_zero, bool may_be_log, page *p)
{
    double low, high;
    const bool any = chart_has_values(c);
    if (any) {
        chart_range(c, &low, &high);
        const double stack = chart_stack_height(c);
        if (stack > 0)
            low = 0, high = fmax(isnan(high) ? 0 : high, stack);
        c->y = c->y.high > 0 ? c->y : scale_of(c->y_what, low, high, from_zero, may_be_log);
        chart_draw(c, p);
    }
    chart_free(c);
    return any;
}

bool draw_steps_chart(const runs *all, const field_column *field, chart *c, page *p)
{
    runs_axis(all, c);
    for (size_t i = 0; i < all->n; i++) {
        const run *r = &all->items[i];
        const size_t b = add_lines(all, r, &r->steps, field, 1, 1, c);
        if (b < MAX_BLOCKS)
            chart_series(c, b, first_field(all), MARK_LINE, run_colour(i), "%.60s", all->n == 1 ? "" : r->name);
    }
    return draw_lines_chart(c, true, false, p);
}

void put_missing(page *p, const char *sentence)
{
    page_format(p, "<p class=\"missing\">%s</p>\n", sentence);
}

void begin_grid(const runs *all, bool of_three, page *p)
{
    page_put(p, of_three && all->n == 1 ? "<div class=\"grid three\">\n" : "<div class=\"grid\">\n");
}
