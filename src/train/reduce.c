/* See reduce.h. */
#include "train/reduce.h"

#include <math.h>

#include "train/parallel.h"

enum { BLOCK = 4096, LANES = 8, GROUP = 512, GRAIN = 4 }; /* elements, blocks at once, blocks that make a thread worth it */

typedef double block_fn(const float *x, size_t n);

typedef struct job {
    const float *x;
    size_t n;
    block_fn *each;
    double *sums; /* one a block */
} job;

static void reduce_blocks(void *arg, size_t begin, size_t end)
{
    const job *j = arg;
    for (size_t b = begin; b < end; b++) {
        const size_t first = b * BLOCK, left = j->n - first;
        j->sums[b] = j->each(j->x + first, left < BLOCK ? left : BLOCK);
    }
}

static double reduce(size_t n, const float *x, block_fn *each)
{
    enum { GROUP_ELEMENTS = GROUP * BLOCK };
    double sums[GROUP], total = 0;
    for (size_t first = 0; first < n; first += GROUP_ELEMENTS) {
        const size_t left = n - first, here = left < GROUP_ELEMENTS ? left : GROUP_ELEMENTS;
        const size_t n_blocks = (here + BLOCK - 1) / BLOCK;
        job j = {.x = x + first, .n = here, .each = each, .sums = sums};
        parallel_for(n_blocks, GRAIN, reduce_blocks, &j);
        for (size_t b = 0; b < n_blocks; b++)
            total += sums[b];
    }
    return total;
}

/* Eight lanes, so that the loop runs in vectors; their order is fixed. */
static double squares_of_block(const float *x, size_t n)
{
    double lanes[LANES] = {0}, sum = 0;
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (size_t k = 0; k < LANES; k++)
            lanes[k] += (double)x[i + k] * (double)x[i + k];
    for (; i < n; i++)
        lanes[0] += (double)x[i] * (double)x[i];
    for (size_t k = 0; k < LANES; k++)
        sum += lanes[k];
    return sum;
}

static double nonzero_of_block(const float *x, size_t n)
{
    int32_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += x[i] != 0;
    return count;
}

static double not_finite_of_block(const float *x, size_t n)
{
    int32_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += !isfinite(x[i]);
    return count;
}

double sum_of_squares(size_t n, const float *x)
{
    return reduce(n, x, squares_of_block);
}

uint64_t count_nonzero(size_t n, const float *x)
{
    return (uint64_t)reduce(n, x, nonzero_of_block);
}

bool all_finite(size_t n, const float *x)
{
    return reduce(n, x, not_finite_of_block) == 0;
}
