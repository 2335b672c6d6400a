/* Dropout, by element or by sample. */
#include "train/math/elementwise.h"
#include "train/ops/ops.h"

comet_status dropout_prepare(comet_model *m, op *o)
{
    set_output_layout(m, o, input_layout(m, o));
    return COMET_OK;
}

static dropout_spec dropout_spec_of(const comet_model *m, const op *o, bool active)
{
    return (dropout_spec){.type = layout_type(input_layout(m, o)),
                          .seed = m->params.seed,
                          .step = m->step * m->params.accumulate + m->n_accumulated,
                          .layer = o->output, /* its number in the net: ops are more or fewer with the layouts */
                          .p = active ? o->layer->p : 0,
                          .per_sample = o->layer->per_sample,
                          .rows = m->params.batch,
                          .first_row = first_row_of_rank(m),
                          .n = layout_elements(input_layout(m, o))};
}

comet_status dropout_run_forward(comet_model *m, op *o, run_mode mode)
{
    const dropout_spec s = dropout_spec_of(m, o, mode != RUN_EVALUATE);
    dropout_apply(&s, value_data(m, o->inputs[0]), value_data(m, o->output));
    return COMET_OK;
}

comet_status dropout_run_backward(comet_model *m, op *o)
{
    const dropout_spec s = dropout_spec_of(m, o, true);
    dropout_apply(&s, arena_at(&m->arena, o->buffers.diff), arena_at(&m->arena, o->buffers.deliveries[0].write));
    return COMET_OK;
}
