/*
 * Random numbers from a counter (Philox 4x32, 10 rounds; Salmon et al., SC 2011): a pure function of a key, a stream and an
 * index. There is no state to save, and the bits are the same on any number of threads.
 */
#ifndef COMET_BASE_RANDOM_H
#define COMET_BASE_RANDOM_H

#include <stddef.h>
#include <stdint.h>

/* Streams keep the users of one seed apart. */
typedef enum comet_stream {
    COMET_STREAM_INIT = 1,    /* weights; low bits: the parameter */
    COMET_STREAM_ORDER = 2,   /* order of images; low bits: the epoch */
    COMET_STREAM_AUGMENT = 3, /* crops and flips; low bits: the epoch */
    COMET_STREAM_DROPOUT = 4, /* low bits: the layer */
    COMET_STREAM_SYNTHETIC = 5,
    COMET_STREAM_SPLIT = 6, /* which images are held out */
} comet_stream;

/* Four independent 32-bit numbers for (seed, stream, part, index). */
void comet_random_block(uint64_t seed, comet_stream stream, uint64_t part, uint64_t index, uint32_t out[4]);

/* A sequence: the blocks of (seed, stream, part) from index `first` << 32 on. */
typedef struct comet_random {
    uint64_t seed, part, index;
    comet_stream stream;
    uint32_t block[4];
    unsigned n_left;
    double spare; /* the second of a pair of normal numbers */
    int has_spare;
} comet_random;

comet_random comet_random_start(uint64_t seed, comet_stream stream, uint64_t part, uint32_t first);
uint32_t comet_random_u32(comet_random *r);
double comet_random_uniform(comet_random *r);             /* in [0, 1), 53 bits */
double comet_random_normal(comet_random *r);              /* mean 0, variance 1 */
uint64_t comet_random_below(comet_random *r, uint64_t n); /* uniform in [0, n), n > 0, without bias */

#endif
