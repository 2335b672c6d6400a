/* Blocks of values, and a chart's SVG; see chart.h. Lines are polylines in a box of WIDTH x HEIGHT that stretches to the page.
 */
#include "report/chart.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    WIDTH = 1000,
    HEIGHT = 240,
    LABEL_HEIGHT = 15,
    MAX_END_LABELS = HEIGHT / LABEL_HEIGHT,
    MOST_DOTS = 200,
    MOST_TICKS = 20,
    END_LABEL_LENGTH = 20
};
enum { NARROW_PLOT = 260, LETTER_WIDTH = 7, GROUP_LENGTH = 24 }; /* pixels and letters */

/* ---- blocks ---- */

bool block_begin(block *b, const char *name, size_t n)
{
    *b = (block){.name = name, .n = n, .x = malloc((n > 0 ? n : 1) * sizeof(double))};
    for (size_t i = 0; b->x && i < n; i++)
        b->x[i] = NAN;
    return b->x != NULL;
}

double *block_column(block *b, const char *name, quantity what)
{
    double *values = b->n_columns < MAX_COLUMNS ? malloc((b->n > 0 ? b->n : 1) * sizeof *values) : NULL;
    if (!values)
        return NULL;
    for (size_t i = 0; i < b->n; i++)
        values[i] = NAN;
    b->columns[b->n_columns++] = (value_column){name, what, values};
    return values;
}

bool block_label(block *b, const char *name)
{
    b->labels = calloc(b->n > 0 ? b->n : 1, sizeof *b->labels);
    b->label_name = name;
    return b->labels != NULL;
}

void block_free(block *b)
{
    for (size_t i = 0; i < b->n_columns; i++)
        free(b->columns[i].values);
    free(b->x);
    free(b->labels);
    *b = (block){0};
}

block *chart_block(chart *c)
{
    return c->n_blocks < MAX_BLOCKS ? &c->blocks[c->n_blocks++] : NULL;
}

void chart_free(chart *c)
{
    for (size_t i = 0; i < c->n_blocks; i++)
        block_free(&c->blocks[i]);
}

void chart_series(chart *c, size_t b, size_t column, mark how, const char *colour, const char *name, ...)
{
    if (c->n_series == MAX_SERIES)
        return;
    series *s = &c->series[c->n_series++];
    *s = (series){.block = b, .column = column, .mark = how, .colour = colour};
    va_list arguments;
    va_start(arguments, name);
    vsnprintf(s->name, sizeof s->name, name, arguments);
    va_end(arguments);
}

/* ---- what is to be drawn ---- */

static const double *values_of(const chart *c, const series *s)
{
    return c->blocks[s->block].columns[s->column].values;
}

void chart_range(const chart *c, double *low, double *high)
{
    *low = *high = NAN;
    for (size_t i = 0; i < c->n_series; i++) {
        const series *s = &c->series[i];
        const double *values = values_of(c, s);
        for (size_t row = 0; s->mark != MARK_STACK && row < c->blocks[s->block].n; row++) {
            *low = fmin(*low, values[row]);
            *high = fmax(*high, values[row]);
        }
    }
}

bool chart_has_values(const chart *c)
{
    for (size_t i = 0; i < c->n_series; i++)
        for (size_t row = 0; row < c->blocks[c->series[i].block].n; row++)
            if (!isnan(values_of(c, &c->series[i])[row]))
                return true;
    return false;
}

/* The sum of the first `n` stacked series in a row of their block; what is not known counts as 0. */
static double stack_sum(const chart *c, size_t n, size_t row)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        if (c->series[i].mark == MARK_STACK && !isnan(values_of(c, &c->series[i])[row]))
            sum += values_of(c, &c->series[i])[row];
    return sum;
}

double chart_stack_height(const chart *c)
{
    double height = 0;
    for (size_t i = 0; i < c->n_series; i++)
        for (size_t row = 0; c->series[i].mark == MARK_STACK && row < c->blocks[c->series[i].block].n; row++)
            height = fmax(height, stack_sum(c, c->n_series, row));
    return height;
}

/* ---- places ---- */

static double place_x(const chart *c, double x)
{
    const double wide = c->x.high - c->x.low;
    return wide > 0 ? fmin(fmax((x - c->x.low) / wide, 0), 1) * WIDTH : 0;
}

/* NAN where a logarithmic axis has no place for it. */
static double place_y(const scale *s, double y)
{
    if (isnan(y) || (s->logarithmic && y <= 0))
        return NAN;
    const double share = s->logarithmic ? log(y / s->low) / log(s->high / s->low) : (y - s->low) / (s->high - s->low);
    return HEIGHT * (1 - fmin(fmax(share, 0), 1));
}

/* One decimal, and none where it is 0. */
static char *place_text(double place, char text[24])
{
    const double tenths = round(place * 10);
    snprintf(text, 24, fmod(tenths, 10) == 0 ? "%.0f" : "%.1f", tenths / 10 + 0.0);
    return text;
}

static void put_point(page *p, char command, double x, double y)
{
    char first[24], second[24];
    page_format(p, "%c%s %s", command, place_text(x, first), place_text(y, second));
}

/* ---- axes ---- */

/* The i-th tick, and how many there are: few, whatever the numbers. */
static double tick_at(const scale *s, size_t i)
{
    if (s->logarithmic)
        return s->low * pow(10, s->step * (double)i);
    return (ceil(s->low / s->step - 1e-9) + (double)i) * s->step;
}

static size_t count_ticks(const scale *s)
{
    size_t n = 0;
    while (n < MOST_TICKS && tick_at(s, n) <= s->high + (s->high - s->low) * 1e-6)
        n++;
    return n;
}

/* Number of decimals that tell ticks apart. */
static int decimals_of(const scale *s)
{
    int n = 0;
    for (double step = s->step / s->unit; n < 6 && fabs(step - round(step)) > 1e-6 * step; n++)
        step *= 10;
    return n;
}

static char *tick_text(const scale *s, double tick, char text[HUMAN_BYTES])
{
    const double value = tick / s->unit;
    if (s->logarithmic)
        snprintf(text, HUMAN_BYTES, "%.4g", value);
    else if (fabs(value) >= 1e7 || (value != 0 && fabs(s->step / s->unit) < 1e-4))
        snprintf(text, HUMAN_BYTES, "%.3g", value);
    else if (decimals_of(s) == 0)
        human(COUNT, fabs(value) < 0.5 ? 0 : value, text);
    else
        snprintf(text, HUMAN_BYTES, "%.*f", decimals_of(s), value + 0.0);
    return text;
}

static void draw_y_axis(const chart *c, page *p)
{
    char text[HUMAN_BYTES], place[24];
    for (size_t i = 0; i < count_ticks(&c->y); i++) {
        const double tick = tick_at(&c->y, i);
        place_text(place_y(&c->y, tick), place);
        page_format(p, "<line class=\"grid\" x2=\"100%%\" y1=\"%s\" y2=\"%s\"/><text class=\"ty\" x=\"-7\" y=\"%s\">%s</text>",
                    place, place, place, tick_text(&c->y, tick, text));
    }
    page_put(p, "<text class=\"unit\" x=\"-46\" y=\"-14\">");
    page_put(p, c->y_name);
    if (c->y.unit_name[0] != '\0')
        page_format(p, ", %s", c->y.unit_name);
    page_put(p, "</text>\n");
}

/* "forward" and "backward" below, and a line where one ends. */
static void draw_turn(const chart *c, page *p)
{
    char turn[24], left[24], right[24];
    const double at = place_x(c, c->x_turn - 0.5) / 10;
    page_format(p, "<line class=\"turn\" x1=\"%s%%\" x2=\"%s%%\" y2=\"%d\"/>", place_text(at, turn), turn, HEIGHT);
    page_format(p,
                "<text class=\"tx\" x=\"%s%%\" y=\"%d\">forward</text><text class=\"tx\" x=\"%s%%\" y=\"%d\">backward</text>",
                place_text(at / 2, left), HEIGHT + 18, place_text((100 + at) / 2, right), HEIGHT + 18);
}

/* The part of a layer's name before its first point: "layer1" of "layer1.0.conv1". */
static size_t group_length(const char *label)
{
    return strcspn(label, ".:");
}

/* The names of groups that have room even on a phone, where a plot is NARROW_PLOT pixels wide; ticks part the groups. */
static void draw_groups(const chart *c, page *p)
{
    const block *b = &c->blocks[0];
    char place[24], name[GROUP_LENGTH + 1];
    for (size_t first = 0, end; first < b->n; first = end) {
        const size_t length = group_length(b->labels[first]);
        for (end = first + 1; end < b->n; end++)
            if (group_length(b->labels[end]) != length || strncmp(b->labels[end], b->labels[first], length) != 0)
                break;
        if (first > 0)
            page_format(p, "<line class=\"tick\" x1=\"%s%%\" x2=\"%s%%\" y1=\"%d\" y2=\"%d\"/>",
                        place_text(place_x(c, (double)first) / 10, place), place, HEIGHT, HEIGHT + 6);
        if (length > GROUP_LENGTH || (double)(end - first) / (double)b->n * NARROW_PLOT < (double)(length * LETTER_WIDTH + 4))
            continue;
        snprintf(name, sizeof name, "%.*s", (int)length, b->labels[first]);
        page_format(p, "<text class=\"tx\" x=\"%s%%\" y=\"%d\">", place_text(place_x(c, (double)(first + end) / 2) / 10, place),
                    HEIGHT + 18);
        page_escape(p, name);
        page_put(p, "</text>");
    }
}

static void draw_x_axis(const chart *c, page *p)
{
    char text[HUMAN_BYTES], second[HUMAN_BYTES], place[24];
    const scale *s = &c->x;
    if (c->x_turn > 0)
        draw_turn(c, p);
    if (c->has_groups)
        draw_groups(c, p);
    for (size_t i = 0; c->has_x_ticks && i < count_ticks(s); i++) {
        const double tick = tick_at(s, i);
        place_text(place_x(c, tick) / 10, place);
        page_format(p,
                    "<line class=\"tick\" x1=\"%s%%\" x2=\"%s%%\" y1=\"%d\" y2=\"%d\"/><text class=\"tx\" x=\"%s%%\" "
                    "y=\"%d\">%s</text>",
                    place, place, HEIGHT, HEIGHT + 4, place, HEIGHT + 18, tick_text(s, tick, text));
        if (c->x_second)
            page_format(p, "<text class=\"tx second\" x=\"%s%%\" y=\"%d\">%s</text>", place, HEIGHT + 33,
                        human(COUNT, tick * c->x_factor, second));
    }
    page_format(p, "<line class=\"axis\" x2=\"100%%\" y1=\"%d\" y2=\"%d\"/>", HEIGHT, HEIGHT);
    page_format(p, "<text class=\"tx name\" x=\"50%%\" y=\"%d\">%s", HEIGHT + (c->x_second ? 52 : 38), c->x_name);
    if (c->x_second)
        page_format(p, " (%s below)", c->x_second);
    page_put(p, "</text>\n");
}

static void draw_band(const chart *c, page *p)
{
    char top[24], high[24];
    if (!(c->band_low < c->band_high))
        return;
    const double y = place_y(&c->y, c->band_high), bottom = place_y(&c->y, c->band_low);
    page_format(p, "<rect class=\"band\" width=\"100%%\" y=\"%s\" height=\"%s\"/>", place_text(y, top),
                place_text(bottom - y, high));
}

/* ---- marks ---- */

/* What a mark says where the pointer rests on it. */
static void put_title(const chart *c, const series *s, size_t row, page *p)
{
    const block *b = &c->blocks[s->block];
    char text[HUMAN_BYTES];
    page_put(p, "<title>");
    if (b->labels)
        page_escape(p, b->labels[row]);
    else
        page_format(p, "%s %s", c->x_name, human(c->x_what, b->x[row], text));
    page_put(p, ": ");
    page_escape(p, s->name);
    page_format(p, " %s</title>", human(b->columns[s->column].what, values_of(c, s)[row], text));
}

/* A line of one point would not be seen. */
static bool is_single(const chart *c, const series *s)
{
    size_t n = 0;
    for (size_t row = 0; row < c->blocks[s->block].n; row++)
        n += !isnan(place_y(&c->y, values_of(c, s)[row]));
    return n == 1;
}

static void draw_line(const chart *c, const series *s, page *p)
{
    const block *b = &c->blocks[s->block];
    bool inside = false;
    page_format(p, "<path class=\"%s %s\" d=\"",
                s->mark == MARK_FAINT    ? "faint"
                : s->mark == MARK_DASHED ? "dashed"
                                         : "line",
                s->colour);
    for (size_t row = 0; row < b->n; row++) {
        const double y = place_y(&c->y, values_of(c, s)[row]);
        if (!isnan(y))
            put_point(p, inside ? 'L' : 'M', place_x(c, b->x[row]), y);
        inside = !isnan(y);
    }
    page_put(p, "\"/>\n");
}

/* An area from 0 to the sum of the series up to this one; those before it are drawn over it later. */
static void draw_area(const chart *c, size_t index, page *p)
{
    const series *s = &c->series[index];
    const block *b = &c->blocks[s->block];
    if (b->n == 0)
        return;
    page_format(p, "<path class=\"area %s\" d=\"", s->colour);
    put_point(p, 'M', b->n == 1 ? 0 : place_x(c, b->x[0]), HEIGHT);
    if (b->n == 1) /* one step is all so far: its height, from the left */
        put_point(p, 'L', 0, place_y(&c->y, stack_sum(c, index + 1, 0)));
    for (size_t row = 0; row < b->n; row++)
        put_point(p, 'L', place_x(c, b->x[row]), place_y(&c->y, stack_sum(c, index + 1, row)));
    put_point(p, 'L', place_x(c, b->x[b->n - 1]), HEIGHT);
    page_put(p, "Z\"/>\n");
}

/* A bar that others are drawn over is wider. */
static void draw_bars(const chart *c, size_t index, page *p)
{
    const series *s = &c->series[index];
    const block *b = &c->blocks[s->block];
    char x[24], y[24], wide[24], high[24];
    bool is_covered = false;
    for (size_t i = index + 1; i < c->n_series; i++)
        is_covered = is_covered || c->series[i].mark == MARK_BARS;
    const double width = (double)WIDTH / (double)b->n * (is_covered ? 0.86 : index > 0 ? 0.5 : 0.7);
    for (size_t row = 0; row < b->n; row++) {
        const double top = place_y(&c->y, values_of(c, s)[row]);
        if (isnan(top))
            continue;
        page_format(p, "<rect class=\"bar %s\" x=\"%s\" y=\"%s\" width=\"%s\" height=\"%s\">", s->colour,
                    place_text(place_x(c, b->x[row]) - width / 2, x), place_text(top, y), place_text(width, wide),
                    place_text(HEIGHT - top, high));
        put_title(c, s, row, p);
        page_put(p, "</rect>\n");
    }
}

/* Circles stay round because they are outside of the box that stretches. */
static void draw_dots(const chart *c, const series *s, page *p)
{
    const block *b = &c->blocks[s->block];
    char x[24], y[24];
    const size_t every = b->labels || b->n <= MOST_DOTS ? 1 : b->n / MOST_DOTS + 1;
    for (size_t row = 0; row < b->n; row += every) {
        const double place = place_y(&c->y, values_of(c, s)[row]);
        if (isnan(place))
            continue;
        page_format(p, "<circle class=\"dot %s\" cx=\"%s%%\" cy=\"%s\" r=\"%s\">", s->colour,
                    place_text(place_x(c, b->x[row]) / 10, x), place_text(place, y), b->n > 60 ? "2" : "3");
        put_title(c, s, row, p);
        page_put(p, "</circle>\n");
    }
}

static void draw_stretched(const chart *c, page *p)
{
    page_format(p,
                "<svg viewBox=\"0 0 %d %d\" width=\"100%%\" height=\"%d\" preserveAspectRatio=\"none\" overflow=\"visible\">\n",
                WIDTH, HEIGHT, HEIGHT);
    for (size_t i = c->n_series; i-- > 0;)
        if (c->series[i].mark == MARK_STACK)
            draw_area(c, i, p);
    for (size_t i = 0; i < c->n_series; i++) {
        const series *s = &c->series[i];
        if (s->mark == MARK_BARS)
            draw_bars(c, i, p);
        else if (s->mark != MARK_STACK && !(s->mark == MARK_DOTS && c->blocks[s->block].labels))
            draw_line(c, s, p);
    }
    page_put(p, "</svg>\n");
}

/* ---- names of the series ---- */

typedef struct end_label {
    double y;
    size_t series;
} end_label;

static int compare_ends(const void *a, const void *b)
{
    const double first = ((const end_label *)a)->y, second = ((const end_label *)b)->y;
    return (first > second) - (first < second);
}

/* Where the series ends on the right, NAN where it has no values. A stacked one has the middle of its area. */
static double end_of(const chart *c, size_t index)
{
    const series *s = &c->series[index];
    const block *b = &c->blocks[s->block];
    if (s->mark == MARK_STACK)
        return b->n == 0 ? NAN : place_y(&c->y, (stack_sum(c, index, b->n - 1) + stack_sum(c, index + 1, b->n - 1)) / 2);
    for (size_t row = b->n; row-- > 0;)
        if (!isnan(values_of(c, s)[row]))
            return place_y(&c->y, values_of(c, s)[row]);
    return NAN;
}

static bool is_named(const series *s)
{
    return s->name[0] != '\0';
}

/* Do the series end on the right, so that names can stand there? */
static bool has_end_labels(const chart *c)
{
    size_t n = 0;
    for (size_t i = 0; i < c->n_series; i++) {
        n += is_named(&c->series[i]);
        if (c->series[i].mark == MARK_BARS || c->blocks[c->series[i].block].labels ||
            strlen(c->series[i].name) > END_LABEL_LENGTH)
            return false;
    }
    return n > 0 && n <= MAX_END_LABELS;
}

static size_t longest_name(const chart *c)
{
    size_t longest = 0;
    for (size_t i = 0; i < c->n_series; i++)
        longest = strlen(c->series[i].name) > longest ? strlen(c->series[i].name) : longest;
    return longest;
}

/* Names at least a line apart: each moves down below the one before it, then up from the bottom. */
static void draw_end_labels(const chart *c, page *p)
{
    end_label ends[MAX_SERIES];
    size_t n = 0;
    char text[24];
    for (size_t i = 0; i < c->n_series; i++)
        if (is_named(&c->series[i]) && !isnan(end_of(c, i)))
            ends[n++] = (end_label){end_of(c, i), i};
    qsort(ends, n, sizeof ends[0], compare_ends);
    for (size_t i = 1; i < n; i++)
        ends[i].y = fmax(ends[i].y, ends[i - 1].y + LABEL_HEIGHT);
    double below = HEIGHT;
    for (size_t i = n; i-- > 0; below -= LABEL_HEIGHT)
        ends[i].y = below = fmin(ends[i].y, below);
    page_put(p, "<g class=\"ends\">");
    for (size_t i = 0; i < n; i++) {
        const series *s = &c->series[ends[i].series];
        place_text(ends[i].y, text);
        page_format(
            p, "<svg x=\"100%%\" y=\"%s\" overflow=\"visible\"><path class=\"%s %s\" d=\"M6 0H18\"/><text x=\"23\" y=\"4\">",
            text,
            s->mark == MARK_STACK    ? "patch"
            : s->mark == MARK_DASHED ? "dashed"
                                     : "line",
            s->colour);
        page_escape(p, s->name);
        page_put(p, "</text></svg>");
    }
    page_put(p, "</g>\n");
}

static void draw_legend(const chart *c, page *p)
{
    size_t n = 0;
    for (size_t i = 0; i < c->n_series; i++)
        n += is_named(&c->series[i]);
    if (n == 0)
        return;
    page_format(p, "<ul class=\"legend%s\">", has_end_labels(c) ? " twice" : "");
    for (size_t i = 0; i < c->n_series; i++) {
        const series *s = &c->series[i];
        if (!is_named(s))
            continue;
        page_format(p,
                    "<li><svg class=\"key\" width=\"18\" height=\"10\" aria-hidden=\"true\"><path class=\"%s %s\" d=\"M1 "
                    "5H17\"/></svg>",
                    s->mark == MARK_STACK || s->mark == MARK_BARS ? "patch"
                    : s->mark == MARK_DASHED                      ? "dashed"
                                                                  : "line",
                    s->colour);
        page_escape(p, s->name);
        page_put(p, "</li>");
    }
    page_put(p, "</ul>\n");
}

/* ---- tables ---- */

void chart_table(const block *b, const chart *c, page *p)
{
    char text[HUMAN_BYTES], place[24];
    page_put(p, "<div class=\"scroll\" tabindex=\"0\"><table><caption><span>");
    page_escape(p, b->name);
    if (b->part)
        page_format(p, ": %s", b->part);
    page_format(p, "</span></caption><thead><tr><th scope=\"col\">%s</th>", b->labels ? b->label_name : c->x_name);
    for (size_t i = 0; i < b->n_columns; i++)
        page_format(p, "<th scope=\"col\">%s</th>", b->columns[i].name);
    page_put(p, "</tr></thead><tbody>\n");
    for (size_t row = 0; row < b->n; row++) {
        page_format(p, "<tr data-x=\"%s\"><th scope=\"row\">", place_text(place_x(c, b->x[row]), place));
        if (b->labels)
            page_escape(p, b->labels[row]);
        else
            page_put(p, human(c->x_what, b->x[row], text));
        page_put(p, "</th>");
        for (size_t i = 0; i < b->n_columns; i++)
            page_format(p, "<td>%s</td>", human(b->columns[i].what, b->columns[i].values[row], text));
        page_put(p, "</tr>\n");
    }
    page_put(p, "</tbody></table></div>\n");
}

static void draw_tables(const chart *c, page *p)
{
    page_put(p, "<details><summary>The numbers of this chart</summary>\n");
    for (size_t i = 0; i < c->n_blocks; i++)
        if (c->blocks[i].n > 0)
            chart_table(&c->blocks[i], c, p);
    page_put(p, "</details>\n");
}

/* ---- the figure ---- */

static void draw_svg(const chart *c, page *p)
{
    page_format(
        p,
        "<svg class=\"plot\" role=\"img\" height=\"%d\" data-low=\"%.9g\" data-high=\"%.9g\" data-log=\"%d\" aria-label=\"%s",
        HEIGHT, c->y.low, c->y.high, c->y.logarithmic, c->title);
    if (c->only_run) {
        page_put(p, " of ");
        page_escape(p, c->only_run);
    }
    page_format(p, ": %s by %s; the numbers are in the table below\">\n", c->y_name, c->x_name);
    draw_band(c, p);
    draw_y_axis(c, p);
    draw_x_axis(c, p);
    draw_stretched(c, p);
    for (size_t i = 0; i < c->n_series; i++)
        if (c->series[i].mark == MARK_DOTS || (c->series[i].mark < MARK_DOTS && is_single(c, &c->series[i])))
            draw_dots(c, &c->series[i], p);
    if (has_end_labels(c))
        draw_end_labels(c, p);
    page_put(p, "</svg>\n");
}

void chart_draw(const chart *c, page *p)
{
    page_format(p, "<figure class=\"chart\" id=\"%s\"><figcaption><h3>%s", c->id, c->title);
    if (c->only_run) {
        page_put(p, " <span class=\"of\">");
        page_escape(p, c->only_run);
        page_put(p, "</span>");
    }
    page_put(p, "</h3>");
    if (c->caption)
        page_format(p, "<p>%s</p>", c->caption);
    page_put(p, "</figcaption>\n");
    draw_legend(c, p);
    page_format(p, "<div class=\"box%s%s\"", c->x_second ? " two" : "", has_end_labels(c) ? " named" : "");
    page_format(p, has_end_labels(c) ? " style=\"--ends:%zupx\">" : ">", longest_name(c) * LETTER_WIDTH + 30);
    draw_svg(c, p);
    page_put(p, "</div>\n");
    draw_tables(c, p);
    page_put(p, "</figure>\n");
}
