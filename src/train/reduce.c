/* See reduce.h. */
#include "train/reduce.h"

#include <math.h>

#include "train/parallel.h"

enum { BLOCK = 4096, LANES = 8 }; /* elements */
enum { GROUP = 512, GRAIN = 4 };  /* blocks at once, blocks that make a thread worth it */

/* Of n elements from `first` on: one sum or two. */
typedef struct sums {
    double one, two;
} sums;
typedef sums block_fn(const void *arrays, size_t first, size_t n);

typedef struct job {
    const void *arrays;
    size_t first, n;
    block_fn *each;
    sums *results; /* one a block */
} job;

static void reduce_blocks(void *arg, size_t begin, size_t end)
{
    const job *j = arg;
    for (size_t b = begin; b < end; b++) {
        const size_t at = b * BLOCK, left = j->n - at;
        j->results[b] = j->each(j->arrays, j->first + at, left < BLOCK ? left : BLOCK);
    }
}

static sums reduce(size_t n, const void *arrays, block_fn *each)
{
    enum { GROUP_ELEMENTS = GROUP * BLOCK };
    sums results[GROUP], total = {0, 0};
    for (size_t first = 0; first < n; first += GROUP_ELEMENTS) {
        const size_t left = n - first, here = left < GROUP_ELEMENTS ? left : GROUP_ELEMENTS;
        const size_t n_blocks = (here + BLOCK - 1) / BLOCK;
        job j = {.arrays = arrays, .first = first, .n = here, .each = each, .results = results};
        parallel_for(n_blocks, GRAIN, reduce_blocks, &j);
        for (size_t b = 0; b < n_blocks; b++) {
            total.one += results[b].one;
            total.two += results[b].two;
        }
    }
    return total;
}

static double add_lanes(const double *lanes)
{
    double sum = 0;
    for (size_t k = 0; k < LANES; k++)
        sum += lanes[k];
    return sum;
}

/* Eight lanes, so that the loop runs in vectors; their order is fixed. */
static sums squares_of_block(const void *arrays, size_t first, size_t n)
{
    const float *x = (const float *)arrays + first;
    double lanes[LANES] = {0};
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (size_t k = 0; k < LANES; k++)
            lanes[k] += (double)x[i + k] * (double)x[i + k];
    for (; i < n; i++)
        lanes[0] += (double)x[i] * (double)x[i];
    return (sums){add_lanes(lanes), 0};
}

static sums nonzero_of_block(const void *arrays, size_t first, size_t n)
{
    const float *x = (const float *)arrays + first;
    int32_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += x[i] != 0;
    return (sums){count, 0};
}

static sums not_finite_of_block(const void *arrays, size_t first, size_t n)
{
    const float *x = (const float *)arrays + first;
    int32_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += !isfinite(x[i]);
    return (sums){count, 0};
}

static sums momentum_of_block(const void *arrays, size_t first, size_t n)
{
    const momentum_terms *t = arrays;
    const float *g = t->gradient + first, *w = t->weights + first, *m = t->momentum + first;
    double squares[LANES] = {0}, sizes[LANES] = {0};
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (size_t k = 0; k < LANES; k++) {
            const double d = (double)g[i + k] + t->decay * (double)w[i + k] - t->to_mean * (double)m[i + k];
            squares[k] += d * d;
            sizes[k] += fabs((double)m[i + k]);
        }
    for (; i < n; i++) {
        const double d = (double)g[i] + t->decay * (double)w[i] - t->to_mean * (double)m[i];
        squares[0] += d * d;
        sizes[0] += fabs((double)m[i]);
    }
    return (sums){add_lanes(squares), add_lanes(sizes)};
}

double sum_of_squares(size_t n, const float *x)
{
    return reduce(n, x, squares_of_block).one;
}

uint64_t count_nonzero(size_t n, const float *x)
{
    return (uint64_t)reduce(n, x, nonzero_of_block).one;
}

bool all_finite(size_t n, const float *x)
{
    return reduce(n, x, not_finite_of_block).one == 0;
}

double momentum_distance(size_t n, const momentum_terms *terms, double *size)
{
    const sums total = reduce(n, terms, momentum_of_block);
    *size = total.two;
    return total.one;
}
