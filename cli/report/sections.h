/* The sections of the page. Each draws what the runs have, and says what they lack. */
#ifndef COMET_CLI_SECTIONS_H
#define COMET_CLI_SECTIONS_H

#include "kit/options.h"
#include "report/chart.h"
#include "report/run.h"

enum { MAX_RUNS = 16 };

/* The runs, and what their charts share. */
typedef struct runs {
    run *items;
    size_t n;
    bool by_epoch;    /* the x axis counts epochs; else updates */
    bool same_epochs; /* all have as many updates in an epoch */
    size_t n_parts;   /* of a run: select_lines */
} runs;

runs runs_of(run *items, size_t n);

/* The place of a line on the x axis, and the last one of all runs. */
double runs_x(const runs *all, const run *r, const run_line *line);
double runs_last_x(const runs *all);

/* Sets the x axis of a chart over steps. */
void runs_axis(const runs *all, chart *c);

/* A class of the style sheet for the i-th run. */
const char *run_colour(size_t i);

/* Adds a block with the lines of a run that a chart shows, and columns for `fields`; `names` and `kinds` are theirs. The first
 * n_keys of the fields keep their extremes. Returns the block's place in the chart, or MAX_BLOCKS without lines. */
typedef struct field_column {
    size_t field;
    const char *name;
    quantity what;
    const double *values; /* in place of a field: one for each line; or NULL */
} field_column;
size_t add_lines(const runs *all, const run *r, const run_lines *lines, const field_column *fields, size_t n_fields,
                 size_t n_keys, chart *c);

/* The column of the first field in such a block. */
size_t first_field(const runs *all);

/* Draws the chart where it has values; returns whether it has. The scale is set by the values unless the chart has one, and the
 * chart is freed. */
bool draw_lines_chart(chart *c, bool from_zero, bool may_be_log, page *p);

/* Draws a chart with a line for each run: a field of its steps. */
bool draw_steps_chart(const runs *all, const field_column *field, chart *c, page *p);

/* The most that was saved for backward: in a framework that keeps everything, raw here, stored; and stored in the last step. */
typedef struct saved_figures {
    double reference, raw, stored, last;
} saved_figures;
saved_figures saved_of(const run *r);

/* Says what logs of an older version, or of a run that has just begun, do not have. */
void put_missing(page *p, const char *sentence);

/* Opens a grid of charts: three in a row where one run has three of them. */
void begin_grid(const runs *all, bool of_three, page *p);

void draw_head(const runs *all, const char *title, page *p); /* title: HTML */
void draw_curves(const runs *all, page *p);
void draw_memory(const runs *all, page *p);
void draw_within_step(const runs *all, page *p);
void draw_layers(const runs *all, page *p);
void draw_time(const runs *all, page *p);
void draw_messages(const runs *all, page *p);

#endif
