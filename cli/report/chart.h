/*
 * Charts as SVG in a <figure>, each with its numbers as a table.
 *
 * The plot has a fixed height in pixels and the width of the page: x is in per cent of the width, and lines are drawn in an SVG
 * inside it that stretches. So text has the same size on a phone and on paper, and places in y can be computed here.
 * The script shows the rows of the tables at the pointer; their attribute data-x is the place in the plot, from 0 to 1000.
 */
#ifndef COMET_CLI_CHART_H
#define COMET_CLI_CHART_H

#include <stdbool.h>
#include <stddef.h>

#include "report/human.h"
#include "report/page.h"

enum { MAX_COLUMNS = 12, MAX_SERIES = 40, MAX_BLOCKS = 2 * 16, SERIES_NAME_BYTES = 64 };

/* Values of one kind by row. */
typedef struct value_column {
    const char *name;
    quantity what;
    double *values;
} value_column;

/* Rows that share their places on the x axis: a run's steps, its epochs, or its layers. */
typedef struct block {
    const char *name; /* heads its table; from outside */
    const char *part; /* after the name, or NULL */
    size_t n;
    double *x;
    const char **labels; /* NULL, or a text for each row, from outside; `label_name` heads them */
    const char *label_name;
    value_column columns[MAX_COLUMNS];
    size_t n_columns;
} block;

/* A block of n rows; columns are added empty. Values are NaN. Returns false without memory. */
bool block_begin(block *b, const char *name, size_t n);
double *block_column(block *b, const char *name, quantity what); /* NULL without memory or room */
bool block_label(block *b, const char *name);
void block_free(block *b);

typedef enum mark {
    MARK_LINE,
    MARK_FAINT,  /* a thin pale line: single values under their mean */
    MARK_DASHED, /* a dashed line */
    MARK_DOTS,   /* a line with a dot at each value, or dots alone where rows have labels */
    MARK_STACK,  /* an area on top of those before it */
    MARK_BARS,   /* a bar from 0 for each row */
} mark;

typedef struct series {
    char name[SERIES_NAME_BYTES]; /* in the legend; from outside, cut where it does not fit; "" for none */
    size_t block, column;
    mark mark;
    const char *colour; /* a class of the style sheet */
} series;

typedef struct scale {
    double low, high, step;
    bool logarithmic;
    double unit;       /* what a tick of 1 stands for, in the values' unit */
    char unit_name[8]; /* "MiB", or "" */
} scale;

typedef struct chart {
    const char *id, *title; /* not from outside */
    const char *caption;    /* HTML, or NULL; not from outside */
    const char *x_name, *y_name;
    const char *x_second; /* what a second line of ticks on the x axis shows, x times x_factor; NULL for none */
    double x_factor;
    quantity x_what, y_what;
    scale x, y;
    double band_low, band_high; /* shaded where band_low < band_high */
    bool has_x_ticks;
    double x_turn;        /* where forward ends and backward begins, in place of ticks; 0 for none */
    bool has_groups;      /* names of groups of the first block's rows in place of ticks: what its labels have before a point */
    const char *only_run; /* the run that it shows alone, from outside, or NULL */
    block blocks[MAX_BLOCKS];
    size_t n_blocks;
    series series[MAX_SERIES];
    size_t n_series;
} chart;

/* The smallest round range around the values; logarithmic where `may_be_log` and they span two decades. From 0 where from_zero.
 */
scale scale_of(quantity what, double low, double high, bool from_zero, bool may_be_log);

/* Adds a series; does nothing where the chart is full. */
void chart_series(chart *c, size_t b, size_t column, mark how, const char *colour, const char *name, ...) SAY_FORMAT(6, 7);

/* The next empty block, NULL where the chart is full. */
block *chart_block(chart *c);

/* The range of all series but stacks; NaN where there are no values. */
void chart_range(const chart *c, double *low, double *high);

/* The largest sum of the stacked series of one row. */
double chart_stack_height(const chart *c);

/* Has any series a value? */
bool chart_has_values(const chart *c);

void chart_draw(const chart *c, page *p);
void chart_free(chart *c);

/* The rows of the blocks as tables, as they are in <details>. */
void chart_table(const block *b, const chart *c, page *p);

#endif
