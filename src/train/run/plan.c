/*
 * From a net to a model whose memory is planned but not allocated: one step after another, in this order.
 */
#include "train/run/plan.h"

#include <stdlib.h>

#include "train/assess/assess.h"
#include "train/assess/sample.h"
#include "train/backend/parallel.h"
#include "train/graph/conv_choices.h"
#include "train/graph/groups.h"
#include "train/graph/ranks.h"
#include "train/memory/memory.h"
#include "train/ops/folded.h"
#include "train/run/build.h"
#include "train/run/precision.h"
#include "train/update/shards.h"

#define MAX_ELEMENTS 0x1p34 /* of one tensor: 64 GiB */

comet_status model_check_params(const comet_net *net, const comet_model_params *p)
{
    if (!net || !p || p->size != sizeof *p || p->optimiser.size != sizeof p->optimiser)
        return comet_fail(COMET_ERROR_ARGUMENT, "a model needs a net, and parameters filled by comet_model_params_init");
    if (p->batch == 0 || p->batch > 65536)
        return comet_fail(COMET_ERROR_ARGUMENT, "a batch of %u images; it must be 1 to 65536", p->batch);
    if (!(p->label_smoothing >= 0 && p->label_smoothing < 1))
        return comet_fail(COMET_ERROR_ARGUMENT, "label smoothing %g; it must be at least 0 and below 1", p->label_smoothing);
    const comet_optimiser *o = &p->optimiser;
    if (!(o->momentum >= 0 && o->momentum < 1) || !(o->weight_decay >= 0) || !(o->clip_norm >= 0))
        return comet_fail(COMET_ERROR_ARGUMENT, "momentum %g must be in [0, 1), weight decay %g and clipping %g not negative",
                          o->momentum, o->weight_decay, o->clip_norm);
    if ((unsigned)o->state > COMET_STATE_CODED)
        return comet_fail(COMET_ERROR_ARGUMENT, "format %d of the optimiser's state; it must be 0 to %d", (int)o->state,
                          COMET_STATE_CODED);
    const comet_compression *c = &p->compression;
    if (c->size != sizeof *c || (unsigned)c->mode > COMET_COMPRESS_AUTO || !(c->overhead >= 0) || !(c->planned_ratio >= 0))
        return comet_fail(
            COMET_ERROR_ARGUMENT,
            "compression must be filled by comet_compression_init; its mode %d, overhead %g or planned ratio %g is "
            "out of range",
            (int)c->mode, c->overhead, c->planned_ratio);
    if ((unsigned)p->convolutions > COMET_CONVOLUTIONS_DIRECT)
        return comet_fail(COMET_ERROR_ARGUMENT, "convolutions %d; it must be 0 to %d", (int)p->convolutions,
                          COMET_CONVOLUTIONS_DIRECT);
    if ((unsigned)p->precision > COMET_PRECISION_AUTO)
        return comet_fail(COMET_ERROR_ARGUMENT, "precision %d; it must be 0 to %d", (int)p->precision, COMET_PRECISION_AUTO);
    if (p->convolution_choices)
        TRY(conv_choices_check(net, p->convolution_choices));
    TRY(groups_check_texts(p));
    if (p->fused_update && c->spill_folder)
        return comet_fail(COMET_ERROR_ARGUMENT,
                          "fused updates do not go with spilling: a disk may fail half way through a step");
    if (p->fused_update && (p->accumulate > 1 || o->clip_norm > 0))
        return comet_fail(COMET_ERROR_ARGUMENT, "fused updates do not go with accumulation (%u) or clipping (%g)",
                          p->accumulate, (double)o->clip_norm);
    return COMET_OK;
}

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

/* Frozen parameters lie after all others in the block of weights. */
static void place_frozen(comet_model *m)
{
    for (uint32_t i = 0; i < m->n_parameters; i++)
        if (m->parameters[i].frozen)
            m->parameters[i].offset += m->n_learnt;
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
    if (model_ranks(m) == 1)
        m->params.ranks = NULL;
    m->params.n_threads = (uint32_t)parallel_set_threads(params->n_threads);
    TRY(copy_net(net, &m->net));
    TRY(backend_create(&m->backend));
    TRY(precision_settle(params, &m->type));
    TRY(create_store(m));
    TRY(graph_build(m));
    TRY(groups_check(m));
    place_frozen(m);
    if (!params->inference)
        TRY(plan_backward(m));
    TRY(lower(m));
    m->n_state = m->n_learnt;
    TRY(exchange_plan(m));
    m->move_state = exchange_shards(m) ? shards_move : NULL;
    TRY(memory_plan(m));
    exchange_count(m);
    return params->inference ? COMET_OK : assess_create(m);
}

void plan_destroy(comet_model *m)
{
    exchange_release(m);
    assess_destroy(m);
    sample_destroy(m);
    for (uint32_t i = 0; i < m->n_ops; i++)
        op_destroy(&m->ops[i]);
    free(m->trace.points);
    free(m->ops);
    free(m->values);
    free(m->parameters);
    comet_store_destroy(m->store);
    backend_destroy(m->backend);
    comet_net_destroy(m->net);
}
