/*
 * Elements of a tensor in any layout of oneDNN, a range of them at a time, without a copy of the others.
 *
 * Where an element lies is a sum over the dimensions, each term of which depends on one index: for every dimension a table has
 * the terms of its indices. The spatial dimensions of weights are taken as one, so that runs are not shorter than need be.
 */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "train/backend/dnnl_kernel.h"

enum { MAX_AXES = 5, SPATIAL = 2 };

/* Dimensions, slowest first, without those of one index. */
typedef struct walk {
    int n_axes;
    uint64_t size[MAX_AXES], at[MAX_AXES]; /* indices, and where it is */
    uint64_t *offset[MAX_AXES];            /* floats, by index */
    uint64_t *tables;
} walk;

/* What index `i` of dimension `d` adds to the place of an element. */
static uint64_t offset_of(const md_blocks *b, int d, uint64_t i)
{
    uint64_t offset = 0, stride = 1;
    for (int k = b->n_inner; k-- > 0; stride *= (uint64_t)b->sizes[k])
        if (b->dims[k] == d) {
            offset += i % (uint64_t)b->sizes[k] * stride;
            i /= (uint64_t)b->sizes[k];
        }
    return offset + i * (uint64_t)b->strides[d];
}

/* Dimensions [first, end) as one axis; returns the place after its table. */
static uint64_t *add_axis(walk *w, const layout *l, const md_blocks *b, int first, int end, uint64_t *table)
{
    uint64_t size = 1;
    for (int d = first; d < end; d++)
        size *= (uint64_t)l->dims[d];
    for (uint64_t i = 0; i < size; i++) {
        uint64_t rest = i;
        table[i] = 0;
        for (int d = end; d-- > first; rest /= (uint64_t)l->dims[d])
            table[i] += offset_of(b, d, rest % (uint64_t)l->dims[d]);
    }
    w->size[w->n_axes] = size;
    w->offset[w->n_axes++] = table;
    return table + size;
}

static comet_status walk_make(walk *w, const layout *l)
{
    md_blocks blocks;
    const int n = l->n_dims >= SPATIAL + 2 ? l->n_dims - SPATIAL : l->n_dims; /* axes of their own */
    uint64_t entries = n < l->n_dims ? (uint64_t)(l->dims[n] * l->dims[n + 1]) : 1;
    TRY_DNNL(md_blocking(l->md, &blocks), "looking into a layout of its own");
    for (int d = 0; d < n; d++)
        entries += (uint64_t)l->dims[d];
    *w = (walk){.tables = malloc(entries * sizeof *w->tables)};
    if (!w->tables)
        return comet_fail(COMET_ERROR_MEMORY, "out of memory: could not allocate a table of %zu indices", (size_t)entries);
    uint64_t *rest = w->tables;
    for (int d = 0; d < n; d++)
        if (l->dims[d] > 1)
            rest = add_axis(w, l, &blocks, d, d + 1, rest);
    if (n < l->n_dims || w->n_axes == 0)
        add_axis(w, l, &blocks, n < l->n_dims ? n : 0, l->n_dims, rest);
    return COMET_OK;
}

/* Goes to element `first`. */
static void walk_start(walk *w, uint64_t first)
{
    for (int a = w->n_axes; a-- > 0; first /= w->size[a])
        w->at[a] = first % w->size[a];
}

/* Elements that follow one another in the last axis. */
typedef struct run {
    uint64_t n, base;       /* of them; what they have in common of their places */
    const uint64_t *offset; /* the rest of each place */
} run;

static void step(walk *w)
{
    for (int a = w->n_axes - 1; a-- > 0;) {
        if (++w->at[a] < w->size[a])
            return;
        w->at[a] = 0;
    }
}

/* The next run, of at most `most` elements. */
static run next_run(walk *w, uint64_t most)
{
    const int last = w->n_axes - 1;
    run r = {.n = min_u64(most, w->size[last] - w->at[last]), .offset = w->offset[last] + w->at[last]};
    for (int a = 0; a < last; a++)
        r.base += w->offset[a][w->at[a]];
    w->at[last] += r.n;
    if (w->at[last] == w->size[last]) {
        w->at[last] = 0;
        step(w);
    }
    return r;
}

static bool is_plain(const layout *l)
{
    uint64_t block;
    return layout_describe(l, &block) == ORDER_PLANAR;
}

comet_status layout_gather(const layout *l, const float *data, uint64_t first, uint64_t n, float *plain)
{
    walk w;
    if (is_plain(l)) {
        memcpy(plain, data + first, (size_t)n * sizeof *plain);
        return COMET_OK;
    }
    TRY(walk_make(&w, l));
    walk_start(&w, first);
    for (run r; n > 0; n -= r.n, plain += r.n) {
        r = next_run(&w, n);
        for (uint64_t i = 0; i < r.n; i++)
            plain[i] = data[r.base + r.offset[i]];
    }
    free(w.tables);
    return COMET_OK;
}

comet_status layout_scatter(const layout *l, float *data, uint64_t first, uint64_t n, const float *plain)
{
    walk w;
    if (is_plain(l)) {
        memcpy(data + first, plain, (size_t)n * sizeof *plain);
        return COMET_OK;
    }
    TRY(walk_make(&w, l));
    if (first == 0)
        memset(data, 0, (size_t)layout_bytes(l));
    walk_start(&w, first);
    for (run r; n > 0; n -= r.n, plain += r.n) {
        r = next_run(&w, n);
        for (uint64_t i = 0; i < r.n; i++)
            data[r.base + r.offset[i]] = plain[i];
    }
    free(w.tables);
    return COMET_OK;
}
