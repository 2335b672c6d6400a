#include "train/math/elementwise.h"

#include <string.h>

#include "base/bytes.h"
#include "base/random.h"
#include "train/backend/parallel.h"

enum { GRAIN = 4096, WIDE = SIGNS_A_WORD };

typedef struct dropout_work {
    const dropout_spec *spec;
    const void *x;
    void *y;
    uint64_t first; /* position of the first element */
} dropout_work;

typedef struct multiply_work {
    const multiply_spec *spec;
    const void *a, *b, *dy;
    void *y, *da, *db;
} multiply_work;

/* A spread product walks over groups in which the factor is constant along the rows and varies along the columns: planar, one
 * channel (columns 1); channels last, an image; blocked, a block of channels. */
static uint64_t group_columns(const multiply_spec *s)
{
    return s->order == ORDER_PLANAR ? 1 : s->order == ORDER_CHANNELS_LAST ? s->channels : s->block;
}

static uint64_t n_groups(const multiply_spec *s)
{
    return s->batch * s->channels / group_columns(s);
}

#define LOOP_FILE "train/math/elementwise_loops.h"
#include "train/backend/element_variants.h"

void dropout_apply(const dropout_spec *spec, const void *x, void *y)
{
    const uint64_t first = spec->first_row * (spec->n / spec->rows);
    dropout_work w = {spec, x, y, first};
    if (spec->p <= 0) {
        if (x != y)
            memcpy(y, x, spec->n * comet_dtype_bytes(spec->type));
    } else if (spec->per_sample) {
        parallel_for(spec->rows, 1, ELEMENT_PICK(dropout_rows, spec->type), &w);
    } else {
        parallel_for((first % 4 + spec->n + 3) / 4, GRAIN / 4, ELEMENT_PICK(dropout_elements, spec->type), &w);
    }
}

void multiply_forward(const multiply_spec *s, const void *a, const void *b, void *y)
{
    multiply_work w = {.spec = s, .a = a, .b = b, .y = y};
    if (s->spread)
        parallel_for(n_groups(s), 1, ELEMENT_PICK(spread_forward, s->type), &w);
    else
        parallel_for(s->batch * s->channels * s->plane, GRAIN, ELEMENT_PICK(flat_forward, s->type), &w);
}

void multiply_backward(const multiply_spec *s, const void *a, const void *b, const void *dy, void *da, void *db)
{
    multiply_work w = {.spec = s, .a = a, .b = b, .dy = dy, .da = da, .db = db};
    if (s->spread)
        parallel_for(n_groups(s), 1, ELEMENT_PICK(spread_backward, s->type), &w);
    else
        parallel_for(s->batch * s->channels * s->plane, GRAIN, ELEMENT_PICK(flat_backward, s->type), &w);
}

void relu_backward(comet_dtype type, uint64_t n, const void *y, const void *dy, void *dx)
{
    ELEMENT_PICK(pass, type)(n, y, dy, dx);
}

void relu_backward_mask(comet_dtype type, uint64_t n, const uint16_t *signs, const void *dy, void *dx)
{
    ELEMENT_PICK(pass_set, type)(n, signs, dy, dx);
}

void sum_of(comet_dtype type, uint64_t n, const void *a, const void *b, bool relu, void *y)
{
    ELEMENT_PICK(sum, type)(n, a, b, relu, y);
}

void signs_of(comet_dtype type, uint64_t n, const void *x, uint16_t *signs)
{
    ELEMENT_PICK(signs, type)(n, x, signs);
}
