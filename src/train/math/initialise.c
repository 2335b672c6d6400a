/* Initial weights; see initialise.h. */
#include "train/math/initialise.h"

#include <math.h>
#include <string.h>

#include "base/random.h"
#include "train/backend/parallel.h"

enum { BLOCK = 4096 }; /* elements that share a run of random numbers */

typedef struct fill_job {
    uint64_t seed;
    uint32_t parameter;
    bool normal;
    double scale; /* standard deviation, or half the width */
    size_t n;
    float *x;
} fill_job;

static void fill_blocks(void *arg, size_t begin, size_t end)
{
    const fill_job *j = arg;
    for (size_t b = begin; b < end; b++) {
        comet_random r = comet_random_start(j->seed, COMET_STREAM_INIT, j->parameter, (uint32_t)b);
        const size_t first = b * BLOCK, last = j->n - first < BLOCK ? j->n : first + BLOCK;
        for (size_t i = first; i < last; i++)
            j->x[i] = (float)(j->scale * (j->normal ? comet_random_normal(&r) : 2 * comet_random_uniform(&r) - 1));
    }
}

static void fill(fill_job j)
{
    parallel_for((j.n + BLOCK - 1) / BLOCK, 1, fill_blocks, &j);
}

static double one_over_root(uint64_t fan)
{
    return 1 / sqrt((double)(fan > 0 ? fan : 1));
}

void initialise_weight(uint64_t seed, uint32_t parameter, comet_init init, uint64_t fan_in, uint64_t fan_out, size_t n,
                       float *weights)
{
    fill_job j = {.seed = seed, .parameter = parameter, .n = n};
    j.x = weights;
    switch (init) {
    case COMET_INIT_DEFAULT: j.scale = one_over_root(fan_in); break;
    case COMET_INIT_HE_FAN_OUT: j.normal = true, j.scale = sqrt(2) * one_over_root(fan_out); break;
    case COMET_INIT_NORMAL_001: j.normal = true, j.scale = 0.01; break;
    case COMET_INIT_UNIFORM_FAN_OUT: j.scale = one_over_root(fan_out); break;
    }
    fill(j);
}

void initialise_bias(uint64_t seed, uint32_t parameter, comet_init init, uint64_t fan_in, size_t n, float *biases)
{
    if (init == COMET_INIT_DEFAULT)
        fill((fill_job){.seed = seed, .parameter = parameter, .n = n, .x = biases, .scale = one_over_root(fan_in)});
    else
        memset(biases, 0, n * sizeof *biases);
}
