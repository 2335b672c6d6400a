/*
 * Who was taken for whom: counts by true class and predicted class, and the tables of comet eval that are made of them.
 *
 * The predicted class is the one with the highest score, the first of several; that is how top-1 counts too, so that the
 * diagonal adds up to it.
 */
#ifndef COMET_CLI_CLASS_TABLE_H
#define COMET_CLI_CLASS_TABLE_H

#include "comet/train.h"
#include "kit/json_out.h"

enum { MATRIX_MOST_SHOWN = 20 }; /* classes of a matrix that is printed to read */

typedef struct class_table {
    uint32_t n_true, n_predicted; /* classes of the data, outputs of the net: never fewer */
    uint64_t *counts;             /* n_true x n_predicted */
    char **names;                 /* of n_predicted classes: of the data or else of the weights; NULL where neither says */
} class_table;

/* Zero counts. The names are copied from `data`, else from the weights at `path`. Where both have names and they differ, a note
 * says so: scores then mean nothing. */
cli_exit class_table_make(class_table *t, const comet_dataset *data, const char *path, uint32_t n_outputs);
void class_table_free(class_table *t);

/* Counts the valid rows of a batch whose scores `outputs` has. */
void class_table_count(class_table *t, const comet_batch *batch, const float *outputs);

/* A row for each class: images, top-1, the class it was most often taken for. */
void class_table_print(const class_table *t, FILE *out);
void class_table_csv(const class_table *t, FILE *out);
void class_table_json(const class_table *t, json *j);

/* All counts: a line for each true class. */
void matrix_print(const class_table *t, FILE *out);
void matrix_csv(const class_table *t, FILE *out);
void matrix_json(const class_table *t, json *j);

#endif
