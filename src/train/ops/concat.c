/* Values one after another along channels. */
#include <stdlib.h>

#include "base/bytes.h"
#include "train/ops/ops.h"

typedef struct concat {
    kernel *pieces[COMET_MAX_INPUTS]; /* gradients of the inputs */
} concat;

comet_status concat_prepare(comet_model *m, op *o)
{
    const layout *sources[COMET_MAX_INPUTS];
    uint64_t dims[5], first = 0;
    concat *c = calloc(1, sizeof *c);
    if (!c)
        return comet_fail(COMET_ERROR_MEMORY, "out of memory: could not allocate the state of %s", o->layer->name);
    o->state = c;
    for (uint32_t i = 0; i < o->n_inputs; i++)
        sources[i] = m->values[o->inputs[i]].layout;
    TRY(kernel_concat(m->backend, o->n_inputs, sources, &o->forward));
    set_output_layout(m, o, kernel_layout(o->forward, ARG_DST));
    for (uint32_t i = 0; i < o->n_inputs && !m->params.inference; i++) {
        TRY(kernel_take_channels(m->backend, kernel_layout(o->forward, ARG_DST), first, sources[i], &c->pieces[i]));
        layout_dims(sources[i], dims);
        first += dims[1];
    }
    return COMET_OK;
}

void concat_destroy(op *o)
{
    concat *c = o->state;
    for (uint32_t i = 0; c && i < COMET_MAX_INPUTS; i++)
        kernel_destroy(c->pieces[i]);
    free(c);
}

uint64_t concat_scratch_bytes(const comet_model *m, const op *o, op_phase phase)
{
    const concat *c = o->state;
    uint64_t bytes = 0;
    (void)m;
    for (uint32_t i = 0; phase == PHASE_DATA && i < o->n_inputs; i++)
        bytes = max_u64(bytes, c->pieces[i] ? kernel_scratch_bytes(c->pieces[i]) : 0);
    return bytes;
}

comet_status concat_forward(comet_model *m, op *o, run_mode mode)
{
    (void)mode;
    kernel_args args = {
        .at = {[ARG_DST] = value_data(m, o->output), [ARG_SCRATCH] = arena_at(&m->arena, o->buffers.scratch_forward)}};
    for (uint32_t i = 0; i < o->n_inputs; i++)
        args.at[ARG_MULTIPLE + i] = value_data(m, o->inputs[i]);
    return kernel_run(o->forward, &args);
}

comet_status concat_backward(comet_model *m, op *o)
{
    const concat *c = o->state;
    for (uint32_t i = 0; i < o->n_inputs; i++) {
        const kernel_args args = {.at = {[ARG_SRC] = arena_at(&m->arena, o->buffers.diff),
                                         [ARG_DST] = arena_at(&m->arena, o->buffers.deliveries[i].write),
                                         [ARG_SCRATCH] = arena_at(&m->arena, o->buffers.scratch_backward)}};
        if (needs_gradient_of(m, o, i))
            TRY(kernel_run(c->pieces[i], &args));
    }
    return COMET_OK;
}
