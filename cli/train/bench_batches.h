/*
 * Batches for measuring: a handful of made-up ones, so that gradients differ from step to step as they do in training. They
 * are in an unnamed temporary file, with one batch at a time in memory, so that the peak is that of the model.
 */
#ifndef COMET_CLI_BENCH_BATCHES_H
#define COMET_CLI_BENCH_BATCHES_H

#include <stdio.h>

#include "comet/train.h"
#include "kit/say.h"

typedef struct bench_batches {
    FILE *file;
    uint64_t n, n_elements; /* number of batches; floats in one image batch */
    uint32_t n_images;      /* of one */
    float *images;
    uint32_t *labels;
} bench_batches;

/* `n` batches of `batch` images that `net` takes: the data set "synthetic", or noise where it has none of that shape. */
cli_exit bench_batches_make(const comet_net *net, uint32_t batch, uint64_t n, uint64_t seed, bench_batches *batches);

/* Reads batch `step` mod n into images and labels. */
cli_exit bench_batches_load(bench_batches *batches, uint64_t step);

void bench_batches_free(bench_batches *batches);

#endif
