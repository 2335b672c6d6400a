/*
 * From a net to a model whose memory is planned but not allocated: one step after another, in this order.
 */
#include "train/run/plan.h"

#include <stdlib.h>

#include "train/assess/assess.h"
#include "train/assess/sample.h"
#include "train/backend/parallel.h"
#include "train/memory/memory.h"
#include "train/ops/folded.h"
#include "train/run/build.h"

#define MAX_ELEMENTS 0x1p34 /* of one tensor: 64 GiB */

static comet_status copy_net(const comet_net *net, comet_net **copy)
{
    const comet_shape in = comet_net_shape(net, 0);
    TRY(comet_net_create(copy, comet_net_name(net), in.channels, in.height, in.width));
    for (uint32_t v = 1; v < comet_net_n_values(net); v++)
        TRY(comet_net_add(*copy, comet_net_layer(net, v), NULL));
    return COMET_OK;
}

/* Sizes beyond any machine are refused before oneDNN computes with them. */
static comet_status check_sizes(const comet_net *net, uint32_t batch)
{
    for (uint32_t v = 0; v < comet_net_n_values(net); v++) {
        const comet_shape s = comet_net_shape(net, v);
        const double elements = (double)batch * s.channels * s.height * s.width;
        if (elements > MAX_ELEMENTS)
            return comet_fail(COMET_ERROR_MEMORY, "%s: a batch of %u makes %.3g elements there, %.0f GiB; take a smaller batch",
                              comet_net_layer(net, v)->name, batch, elements, elements * sizeof(float) / 0x1p30);
    }
    return COMET_OK;
}

static comet_status create_store(comet_model *m)
{
    const comet_compression *c = &m->params.compression;
    comet_hooks hooks;
    comet_store_params params;
    comet_hooks_init(&hooks);
    hooks.parallel.run = parallel_run;
    comet_store_params_init(&params);
    params.hooks = &hooks;
    params.n_workers = m->params.n_threads;
    params.checksums = c->checksums;
    params.spill_folder = c->spill_folder;
    m->coded = !m->params.inference && c->mode != COMET_COMPRESS_OFF;
    return comet_store_create(&m->store, &params);
}

/* Which tensors backward needs, and how they are stored. */
static comet_status plan_backward(comet_model *m)
{
    graph_mark(m);
    TRY(folded_find(m));
    TRY(saved_declare(m));
    return sample_find(m);
}

comet_status plan_model(comet_model *m, const comet_net *net, const comet_model_params *params)
{
    TRY(check_sizes(net, params->batch));
    m->params = *params;
    if (m->params.accumulate == 0)
        m->params.accumulate = 1;
    m->params.n_threads = (uint32_t)parallel_set_threads(params->n_threads);
    TRY(copy_net(net, &m->net));
    TRY(backend_create(&m->backend));
    TRY(create_store(m));
    TRY(graph_build(m));
    if (!params->inference)
        TRY(plan_backward(m));
    TRY(lower(m));
    TRY(memory_plan(m));
    return params->inference ? COMET_OK : assess_create(m);
}

void plan_destroy(comet_model *m)
{
    assess_destroy(m);
    sample_destroy(m);
    for (uint32_t i = 0; i < m->n_ops; i++)
        op_destroy(&m->ops[i]);
    free(m->ops);
    free(m->values);
    free(m->parameters);
    comet_store_destroy(m->store);
    backend_destroy(m->backend);
    comet_net_destroy(m->net);
}
