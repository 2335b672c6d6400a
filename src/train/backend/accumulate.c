#include "train/backend/accumulate.h"

#include "train/backend/parallel.h"

enum { GRAIN = 4096 };

typedef struct add_work {
    const float *x;
    float *y;
} add_work;

static void add_part(void *arg, size_t begin, size_t end)
{
    const add_work *w = arg;
    for (size_t i = begin; i < end; i++)
        w->y[i] += w->x[i];
}

void add_to(uint64_t n, const float *x, float *y)
{
    add_work w = {x, y};
    parallel_for(n, GRAIN, add_part, &w);
}
