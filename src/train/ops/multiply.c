/* The product of two values; the second may be one number a channel. */
#include "train/math/elementwise.h"
#include "train/ops/ops.h"

comet_status multiply_prepare(comet_model *m, op *o)
{
    set_output_layout(m, o, input_layout(m, o));
    return COMET_OK;
}

static multiply_spec multiply_spec_of(const comet_model *m, const op *o)
{
    const layout *a = input_layout(m, o), *b = m->values[o->inputs[1]].layout;
    uint64_t dims[5] = {0, 0, 1, 1};
    multiply_spec s = {.type = layout_type(a), .spread = a != b};
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

comet_status multiply_run_backward(comet_model *m, op *o)
{
    const multiply_spec s = multiply_spec_of(m, o);
    multiply_backward(&s, value_data_backward(m, o->inputs[0]), value_data_backward(m, o->inputs[1]),
                      arena_at(&m->arena, o->buffers.diff), arena_at(&m->arena, o->buffers.deliveries[0].write),
                      arena_at(&m->arena, o->buffers.deliveries[1].write));
    return COMET_OK;
}
