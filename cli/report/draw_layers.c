/* By layer: the bound, how much smaller its tensor became, and whether the error that it makes in gradients is as planned. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/sections.h"

static const double BAND_LOW = 0.5, BAND_HIGH = 1.2; /* docs/theory.md, section 3 */

/* Is an earlier line about the same tensor? Its bytes count once. */
static bool is_first_of_tensor(const run *r, size_t at)
{
    for (size_t i = 0; i < at; i++)
        if (r->consumers[i].tensor == r->consumers[at].tensor)
            return false;
    return true;
}

/* A block with a row for each consumer, or only for the first of each tensor, and a column for each field. */
static bool fill(const run *r, const field_column *fields, size_t n_fields, bool once, chart *c)
{
    block *b = chart_block(c);
    size_t row = 0;
    if (!block_begin(b, r->name, r->n_consumers) || !block_label(b, "layer"))
        return false;
    for (size_t f = 0; f < n_fields; f++)
        if (!block_column(b, fields[f].name, fields[f].what))
            return false;
    for (size_t i = 0; i < r->n_consumers; i++) {
        if (once && !is_first_of_tensor(r, i))
            continue;
        for (size_t f = 0; f < n_fields; f++)
            b->columns[f].values[row] = r->consumers[i].field[fields[f].field];
        b->x[row] = (double)row + 0.5;
        b->labels[row++] = r->consumers[i].layer;
    }
    b->n = row;
    c->x.high = (double)row;
    return true;
}

typedef struct layer_chart {
    const char *id, *title, *caption, *y_name;
    field_column fields[2];
    size_t n_fields;
    bool once, is_log, has_band;
    mark how;
} layer_chart;

static const layer_chart charts[] = {
    {"bytes",
     "Bytes by layer",
     "Each tensor once, at the layer that reads it first.",
     "bytes",
     {{A_RAW, "raw", BYTES, NULL}, {A_STORED, "stored", BYTES, NULL}},
     2,
     true,
     false,
     false,
     MARK_BARS},
    {"ratios",
     "Times smaller by layer",
     "Raw bytes of a tensor divided by its stored bytes.",
     "times smaller",
     {{A_RATIO, "times smaller", TIMES, NULL}},
     1,
     true,
     false,
     false,
     MARK_BARS},
    {"bounds",
     "Bounds by layer",
     "The largest error of an element that is allowed.",
     "bound",
     {{A_EB, "bound", PLAIN, NULL}},
     1,
     false,
     true,
     false,
     MARK_DOTS},
    {"errors",
     "Measured error against target, by layer",
     "Error of a layer's weight gradient, divided by the error that is allowed. The band is where it should be: 0.5 to 1.2.",
     "measured / target",
     {{A_SIGMA_RATIO, "measured / target", PLAIN, NULL}},
     1,
     false,
     false,
     true,
     MARK_DOTS},
};

static bool draw_one(const runs *all, size_t index, const layer_chart *k, page *p)
{
    const run *r = &all->items[index];
    char id[32];
    snprintf(id, sizeof id, "%s-%zu", k->id, index + 1);
    chart c = {.id = id, .title = k->title, .caption = k->caption, .y_name = k->y_name, .y_what = k->fields[0].what};
    c.x_name = "layers in the order of the net";
    c.only_run = all->n > 1 ? r->name : NULL;
    c.has_groups = true;
    c.x = (scale){.low = 0, .high = (double)r->n_consumers, .step = 1, .unit = 1, .unit_name = ""};
    const bool ok = fill(r, k->fields, k->n_fields, k->once, &c);
    c.blocks[0].part = k->fields[k->n_fields - 1].name;
    for (size_t f = 0; ok && f < k->n_fields; f++)
        chart_series(&c, 0, f, k->how, k->n_fields > 1 && f == 0 ? "m-raw" : "m-saved", "%s",
                     k->n_fields > 1 ? k->fields[f].name : "");
    if (k->has_band && chart_has_values(&c)) {
        double low, high;
        chart_range(&c, &low, &high);
        c.y = scale_of(PLAIN, 0, fmax(high, 1.5), true, false);
        c.band_low = BAND_LOW, c.band_high = BAND_HIGH;
    }
    return draw_lines_chart(&c, !k->is_log, k->is_log, p);
}

/* ---- the table ---- */

static void put_cell(page *p, quantity what, double value)
{
    char text[HUMAN_BYTES];
    page_format(p, "<td>%s</td>", human(what, value, text));
}

static void put_text_cell(page *p, const char *text)
{
    page_put(p, "<td>");
    page_escape(p, text);
    page_put(p, "</td>");
}

static void put_row(const run *r, size_t at, page *p)
{
    const run_consumer *c = &r->consumers[at];
    const double ratio = c->field[A_SIGMA_RATIO];
    page_put(p, "<tr><th scope=\"row\">");
    page_escape(p, c->layer);
    page_put(p, "</th>");
    put_text_cell(p, c->what);
    put_cell(p, PLAIN, c->field[A_EB]);
    put_cell(p, TIMES, c->field[A_RATIO]);
    put_cell(p, BYTES, c->field[A_STORED]);
    put_cell(p, BYTES, c->field[A_RAW]);
    put_cell(p, PLAIN, c->field[A_TARGET]);
    put_cell(p, PLAIN, c->field[A_MEASURED]);
    char text[HUMAN_BYTES];
    const bool outside = ratio > BAND_HIGH || (ratio < BAND_LOW && c->at_limit);
    page_format(p, "<td%s>%s</td>", outside ? " class=\"outside\"" : "", human(PLAIN, ratio, text));
    put_text_cell(p, c->level);
    put_text_cell(p, c->predictor);
    page_put(p, is_first_of_tensor(r, at) ? "<td></td></tr>\n" : "<td>same tensor as above</td></tr>\n");
}

static void put_table(const runs *all, const run *r, page *p)
{
    static const char *const names[] = {"layer",     "reads",   "bound",    "times smaller",      "stored",
                                        "raw",       "allowed", "measured", "measured / allowed", "level",
                                        "predictor", ""};
    double last = NAN;
    for (size_t i = 0; i < r->n_consumers; i++)
        last = fmax(last, r->consumers[i].step);
    char text[HUMAN_BYTES];
    page_put(p, "<div class=\"scroll tall\" tabindex=\"0\"><table class=\"layers\"><caption><span>");
    if (all->n > 1) {
        page_escape(p, r->name);
        page_put(p, ": ");
    }
    page_format(p,
                "each layer as last assessed, at step %s or before; errors are those of its weight "
                "gradient</span></caption><thead><tr>",
                human(COUNT, last, text));
    for (size_t i = 0; i < N_ITEMS(names); i++)
        page_format(p, "<th scope=\"col\">%s</th>", names[i]);
    page_put(p, "</tr></thead><tbody>\n");
    for (size_t i = 0; i < r->n_consumers; i++)
        put_row(r, i, p);
    page_put(p, "</tbody></table></div>\n");
}

void draw_layers(const runs *all, page *p)
{
    bool any = false;
    page_put(p, "<section aria-labelledby=\"s-layers\"><h2 id=\"s-layers\">By layer</h2>\n");
    for (size_t i = 0; i < all->n; i++) {
        const run *r = &all->items[i];
        if (r->n_consumers == 0)
            continue;
        any = true;
        begin_grid(all, false, p);
        for (size_t k = 0; k < N_ITEMS(charts); k++)
            draw_one(all, i, &charts[k], p);
        page_put(p, "</div>\n");
        put_table(all, r, p);
    }
    if (!any)
        put_missing(p, "No layer has been assessed: the run is uncompressed, or the log ends before its first assessment.");
    page_put(p, "</section>\n");
}
