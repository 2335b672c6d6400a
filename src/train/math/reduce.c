/* See reduce.h. */
#include "train/math/reduce.h"

#include <math.h>

#include "base/isa_pick.h"
#include "train/backend/element.h"
#include "train/backend/parallel.h"
#include "train/math/optimiser_state_loops.h"

enum { BLOCK = 4096, LANES = 8 }; /* elements */
enum { GROUP = 512, GRAIN = 4 };  /* blocks at once, blocks that make a thread worth it */

/* One sum or two of a block. */
typedef struct sums {
    double one, two;
} sums;

ISA_INLINED double add_lanes(const double *lanes)
{
    double sum = 0;
    for (size_t k = 0; k < LANES; k++)
        sum += lanes[k];
    return sum;
}

/* Eight lanes, so that the loop runs in vectors; their order is fixed. */
ISA_INLINED sums squares_of_block(comet_dtype type, const void *x, size_t n)
{
    double lanes[LANES] = {0};
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (size_t k = 0; k < LANES; k++)
            lanes[k] += (double)element_get(type, x, i + k) * (double)element_get(type, x, i + k);
    for (; i < n; i++)
        lanes[0] += (double)element_get(type, x, i) * (double)element_get(type, x, i);
    return (sums){add_lanes(lanes), 0};
}

ISA_INLINED sums nonzero_of_block(comet_dtype type, const void *x, size_t n)
{
    int32_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += element_get(type, x, i) != 0;
    return (sums){count, 0};
}

ISA_INLINED sums not_finite_of_block(comet_dtype type, const void *x, size_t n)
{
    int32_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += !isfinite(element_get(type, x, i));
    return (sums){count, 0};
}

/* Sums over a tile, added to lanes. */
ISA_INLINED void add_momentum(const momentum_terms *t, size_t first, size_t n, double *squares, double *sizes)
{
    float room[STATE_TILE];
    const float *g = t->gradient + first, *w = t->weights + first, *m = state_open(t->momentum, first, n, room);
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
}

ISA_INLINED sums momentum_of_block(const void *arrays, size_t first, size_t n)
{
    double squares[LANES] = {0}, sizes[LANES] = {0};
    for (size_t at = 0; at < n; at += STATE_TILE)
        add_momentum(arrays, first + at, n - at < STATE_TILE ? n - at : STATE_TILE, squares, sizes);
    return (sums){add_lanes(squares), add_lanes(sizes)};
}

/* ---- blocks, by instruction set: the same operations in the same order, and so the same bits ---- */

typedef enum kind { SQUARES, NONZERO, NOT_FINITE, MOMENTUM } kind;

typedef struct job {
    kind what;
    comet_dtype type; /* of the array; those of MOMENTUM are f32 */
    const void *arrays;
    size_t first, n;
    sums *results; /* one a block */
} job;

ISA_INLINED sums reduce_block(const job *j, comet_dtype type, size_t first, size_t n)
{
    if (j->what == MOMENTUM)
        return momentum_of_block(j->arrays, first, n);
    const void *x = elements_from(type, j->arrays, first);
    return j->what == SQUARES   ? squares_of_block(type, x, n)
           : j->what == NONZERO ? nonzero_of_block(type, x, n)
                                : not_finite_of_block(type, x, n);
}

ISA_INLINED void reduce_blocks(const job *j, size_t begin, size_t end)
{
    for (size_t b = begin; b < end; b++) {
        const size_t at = b * BLOCK, left = j->n - at, first = j->first + at, n = left < BLOCK ? left : BLOCK;
        j->results[b] = j->type == COMET_DTYPE_BF16 ? reduce_block(j, COMET_DTYPE_BF16, first, n)
                                                    : reduce_block(j, COMET_DTYPE_F32, first, n);
    }
}

ISA_VARIANTS(blocks, (void *arg, size_t begin, size_t end), reduce_blocks(arg, begin, end))

static sums reduce(comet_dtype type, size_t n, const void *arrays, kind what)
{
    enum { GROUP_ELEMENTS = GROUP * BLOCK };
    sums results[GROUP], total = {0, 0};
    for (size_t first = 0; first < n; first += GROUP_ELEMENTS) {
        const size_t left = n - first, here = left < GROUP_ELEMENTS ? left : GROUP_ELEMENTS;
        const size_t n_blocks = (here + BLOCK - 1) / BLOCK;
        job j = {.what = what, .type = type, .arrays = arrays, .first = first, .n = here, .results = results};
        parallel_for(n_blocks, GRAIN, ISA_PICK(blocks), &j);
        for (size_t b = 0; b < n_blocks; b++) {
            total.one += results[b].one;
            total.two += results[b].two;
        }
    }
    return total;
}

double sum_of_squares(comet_dtype type, size_t n, const void *x)
{
    return reduce(type, n, x, SQUARES).one;
}

uint64_t count_nonzero(comet_dtype type, size_t n, const void *x)
{
    return (uint64_t)reduce(type, n, x, NONZERO).one;
}

bool all_finite(comet_dtype type, size_t n, const void *x)
{
    return reduce(type, n, x, NOT_FINITE).one == 0;
}

double momentum_distance(size_t n, const momentum_terms *terms, double *size)
{
    const sums total = reduce(COMET_DTYPE_F32, n, terms, MOMENTUM);
    *size = total.two;
    return total.one;
}
