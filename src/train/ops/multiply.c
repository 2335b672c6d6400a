/* The product of two values; the second may be one number a channel. */
#include "train/math/elementwise.h"
#include "train/memory/memory.h"
#include "train/ops/ops.h"

static bool is_spread(const comet_model *m, const op *o)
{
    return input_layout(m, o) != m->values[o->inputs[1]].layout;
}

/* Factors by channel are small; the other factor is taken in parts of the batch. */
comet_status multiply_prepare(comet_model *m, op *o)
{
    const layout *part;
    set_output_layout(m, o, input_layout(m, o));
    return is_spread(m, o) ? backward_parts(m, o, &o->n_parts, &part) : COMET_OK;
}

static multiply_spec multiply_spec_of(const comet_model *m, const op *o)
{
    const layout *a = input_layout(m, o);
    uint64_t dims[5] = {0, 0, 1, 1};
    multiply_spec s = {.type = layout_type(a), .spread = is_spread(m, o)};
    layout_dims(a, dims);
    s.order = layout_describe(a, &s.block);
    s.batch = dims[0];
    s.channels = (dims[1] + s.block - 1) / s.block * s.block;
    s.plane = dims[2] * dims[3];
    return s;
}

comet_status multiply_run_forward(comet_model *m, op *o, run_mode mode)
{
    (void)mode;
    const multiply_spec s = multiply_spec_of(m, o);
    multiply_forward(&s, value_data(m, o->inputs[0]), value_data(m, o->inputs[1]), value_data(m, o->output));
    return COMET_OK;
}

/* NULL stays NULL. */
static void *part_or_null(const comet_model *m, const op *o, uint32_t v, void *whole, uint32_t part)
{
    return whole ? part_of(m, o, v, whole, part) : NULL;
}

comet_status multiply_run_backward(comet_model *m, op *o)
{
    multiply_spec s = multiply_spec_of(m, o);
    const uint32_t a = o->inputs[0], b = o->inputs[1];
    void *diff = arena_at(&m->arena, o->buffers.diff), *factor = value_data_backward(m, b);
    void *da = arena_at(&m->arena, o->buffers.deliveries[0].write), *db = arena_at(&m->arena, o->buffers.deliveries[1].write);
    if (o->n_parts == 0)
        multiply_backward(&s, value_data_backward(m, a), factor, diff, da, db);
    s.batch /= (o->n_parts > 0 ? o->n_parts : 1);
    for (uint32_t k = 0; k < o->n_parts; k++) {
        TRY(saved_take_input(m, o, (saved_part){k, o->n_parts}));
        multiply_backward(&s, value_data_backward(m, a), part_of(m, o, b, factor, k), part_of(m, o, o->output, diff, k),
                          part_or_null(m, o, a, da, k), part_or_null(m, o, b, db, k));
    }
    return COMET_OK;
}
