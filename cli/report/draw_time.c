/* Speed, and the time of a step by part. */
#include <math.h>
#include <stdio.h>

#include "report/sections.h"

static const struct part {
    step_field field;
    const char *name, *colour;
} parts[] = {
    {S_FORWARD, "forward", "t-forward"}, {S_BACKWARD, "backward", "t-backward"}, {S_UPDATE, "update", "t-update"},
    {S_ENCODE, "encode", "t-encode"},    {S_DECODE, "decode", "t-decode"},       {S_ASSESS, "assess", "t-assess"},
    {S_WAIT, "wait for data", "t-wait"},
};
enum { N_PARTS = N_ITEMS(parts) };

/* Each line has the mean since the line before it, so it counts for as many steps. NaN where no line has it. */
static double mean_time(const run *r, step_field field)
{
    double sum = 0, weight = 0, before = 0;
    for (size_t i = 0; i < r->steps.n; i++) {
        const double steps = r->steps.items[i].step - before, value = r->steps.items[i].field[field];
        before = r->steps.items[i].step;
        if (!isnan(value) && steps > 0) {
            sum += value * steps;
            weight += steps;
        }
    }
    return weight > 0 ? sum / weight : NAN;
}

static double whole_step(const run *r)
{
    double sum = 0;
    for (size_t k = 0; k < N_PARTS; k++) {
        const double mean = mean_time(r, parts[k].field);
        sum += isnan(mean) ? 0 : mean;
    }
    return sum;
}

/* A bar of a run's mean step, its parts one after another. */
static void put_bar(const runs *all, const run *r, double most, page *p)
{
    char text[HUMAN_BYTES];
    double at = 0;
    page_put(p, "<tr><th scope=\"row\">");
    page_escape(p, all->n > 1 ? r->name : "a step");
    page_put(p, "</th><td class=\"bar-cell\"><svg height=\"22\" aria-hidden=\"true\">");
    for (size_t k = 0; k < N_PARTS; k++) {
        const double mean = mean_time(r, parts[k].field), width = isnan(mean) ? 0 : 100 * mean / most;
        if (width > 0)
            page_format(p, "<rect class=\"bar %s\" x=\"%.2f%%\" width=\"%.2f%%\" height=\"22\"><title>%s %s</title></rect>",
                        parts[k].colour, at, width, parts[k].name, human(SECONDS, mean, text));
        at += width;
    }
    page_format(p, "</svg></td><td>%s</td></tr>\n", human(SECONDS, whole_step(r), text));
}

/* A row for each part, a column for each run; the colours are those of the bars. */
static void put_parts_table(const runs *all, page *p)
{
    char text[HUMAN_BYTES], share[HUMAN_BYTES];
    page_put(p, "<div class=\"scroll\" tabindex=\"0\"><table><thead><tr><th scope=\"col\">part</th>");
    for (size_t i = 0; i < all->n; i++) {
        page_put(p, "<th scope=\"col\">");
        page_escape(p, all->n > 1 ? all->items[i].name : "mean");
        page_put(p, "</th><th scope=\"col\">share</th>");
    }
    page_put(p, "</tr></thead><tbody>\n");
    for (size_t k = 0; k < N_PARTS; k++) {
        page_format(p, "<tr><th scope=\"row\"><i class=\"swatch %s\"></i>%s</th>", parts[k].colour, parts[k].name);
        for (size_t i = 0; i < all->n; i++) {
            const double mean = mean_time(&all->items[i], parts[k].field);
            page_format(p, "<td>%s</td><td>%s</td>", human(SECONDS, mean, text),
                        human(SHARE, mean / whole_step(&all->items[i]), share));
        }
        page_put(p, "</tr>\n");
    }
    page_put(p, "</tbody></table></div>\n");
}

static bool draw_parts(const runs *all, page *p)
{
    double most = 0;
    for (size_t i = 0; i < all->n; i++)
        most = fmax(most, whole_step(&all->items[i]));
    if (most <= 0)
        return false;
    page_put(p, "<figure class=\"chart\" id=\"parts\"><figcaption><h3>Time of a step by part</h3><p>Means over the run. The "
                "parts do not overlap: "
                "forward is without encode, backward without decode.</p></figcaption>\n");
    page_put(p, "<table class=\"bars short\">");
    for (size_t i = 0; i < all->n; i++)
        if (whole_step(&all->items[i]) > 0)
            put_bar(all, &all->items[i], most, p);
    page_put(p, "</table>\n");
    put_parts_table(all, p);
    page_put(p, "</figure>\n");
    return true;
}

static void draw_over_steps(const runs *all, size_t index, page *p)
{
    const run *r = &all->items[index];
    field_column fields[N_PARTS];
    char id[32];
    snprintf(id, sizeof id, "time-%zu", index + 1);
    chart c = {.id = id, .title = "Time of a step over the run", .y_name = "time", .y_what = SECONDS};
    c.only_run = all->n > 1 ? r->name : NULL;
    runs_axis(all, &c);
    for (size_t k = 0; k < N_PARTS; k++)
        fields[k] = (field_column){parts[k].field, parts[k].name, SECONDS, NULL};
    const size_t b = whole_step(r) > 0 ? add_lines(all, r, &r->steps, fields, N_PARTS, 2, &c) : MAX_BLOCKS;
    for (size_t k = 0; k < N_PARTS && b < MAX_BLOCKS; k++)
        chart_series(&c, b, first_field(all) + k, MARK_STACK, parts[k].colour, "%s", parts[k].name);
    draw_lines_chart(&c, true, false, p);
}

static bool draw_speed(const runs *all, page *p)
{
    chart c = {.id = "speed", .title = "Speed of training", .y_name = "images per second", .y_what = SPEED};
    const field_column field = {S_SPEED, "images per second", SPEED, NULL};
    return draw_steps_chart(all, &field, &c, p);
}

void draw_time(const runs *all, page *p)
{
    page_put(p, "<section aria-labelledby=\"s-time\"><h2 id=\"s-time\">Time</h2>\n");
    begin_grid(all, true, p);
    const bool any = draw_parts(all, p);
    draw_speed(all, p);
    for (size_t i = 0; i < all->n && any; i++)
        draw_over_steps(all, i, p);
    page_put(p, "</div>\n");
    if (!any)
        put_missing(p, "The time of a step by part is not in the log: logs of version 2 have it, once a step is done.");
    page_put(p, "</section>\n");
}
