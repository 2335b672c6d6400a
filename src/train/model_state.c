/* The way back from a step that failed; see model_state.h. */
#include "train/model_state.h"

#include <stdlib.h>
#include <string.h>

#include "train/model_internal.h"

bool model_keeps_steps(const comet_model *m)
{
    return m->coded && m->params.compression.spill_folder;
}

comet_status model_keep(comet_model *m)
{
    const size_t n = model_state_n(m);
    if (!model_keeps_steps(m))
        return COMET_OK;
    if (!m->kept_state)
        m->kept_state = calloc(n + 1, sizeof *m->kept_state);
    if (!m->kept_state)
        return comet_fail(COMET_ERROR_MEMORY, "no memory for the bounds before a step");
    model_state_export(m, m->kept_state);
    if (m->n_statistics > 0)
        memcpy(m->kept_statistics, m->statistics, m->n_statistics * sizeof *m->statistics);
    return COMET_OK;
}

comet_status model_go_back(comet_model *m)
{
    if (!m->kept_state)
        return COMET_OK;
    m->n_accumulated = 0;
    if (m->n_statistics > 0)
        memcpy(m->statistics, m->kept_statistics, m->n_statistics * sizeof *m->statistics);
    return m->assessment ? model_state_import(m, m->kept_state, model_state_n(m)) : COMET_OK;
}
