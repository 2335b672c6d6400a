/* The state that decides future steps, as numbers, and the return from a step that failed; see state.h. */
#include "train/assess/state.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "train/assess/assess.h"

#define EXACT_WHOLE 9007199254740992.0 /* whole numbers up to here are exact in a double */

enum { STATE_VERSION = 4, N_STATE_HEAD = 9 };

/* ---- for checkpoints ---- */

/* Levels are not part of it: they depend on the clock, and any level gives the same values. */
size_t model_state_n(const comet_model *m)
{
    return m->assessment ? N_STATE_HEAD + 2 * comet_store_n_slots(m->store) + adapt_n_numbers(m->assessment->adapt) : 0;
}

static void state_head(const comet_model *m, double head[N_STATE_HEAD])
{
    const comet_compression *c = &m->params.compression;
    const assessment *a = m->assessment;
    const double numbers[N_STATE_HEAD] = {STATE_VERSION,
                                          c->sigma > 0 ? ADAPT_SIGMA : ADAPT_NOISE,
                                          c->sigma > 0 ? c->sigma : c->noise,
                                          comet_store_n_slots(m->store),
                                          (double)a->n_assessments,
                                          (double)a->n_collected,
                                          (double)a->n_updates,
                                          a->loss_mean,
                                          a->loss_spread};
    memcpy(head, numbers, sizeof numbers);
}

void model_state_export(const comet_model *m, double *numbers)
{
    const assessment *a = m->assessment;
    if (!a)
        return;
    const size_t n_slots = comet_store_n_slots(m->store);
    state_head(m, numbers);
    memcpy(numbers + N_STATE_HEAD, a->deviations, n_slots * sizeof *numbers);
    memcpy(numbers + N_STATE_HEAD + n_slots, a->coarse, n_slots * sizeof *numbers);
    adapt_export(a->adapt, numbers + N_STATE_HEAD + 2 * n_slots);
}

static bool is_size(double x)
{
    return isfinite(x) && x >= 0;
}

static bool is_count(double x)
{
    return x >= 0 && x <= EXACT_WHOLE && x == floor(x);
}

/* The first four numbers say which model the state belongs to, and must be those of this one. */
static bool state_fits(const comet_model *m, const double *x, size_t n)
{
    double ours[N_STATE_HEAD];
    if (n == 0 || n != model_state_n(m))
        return false;
    state_head(m, ours);
    bool fits = is_count(x[4]) && is_count(x[5]) && is_count(x[6]) && is_size(x[7]) && is_size(x[8]);
    for (size_t i = 0; i < 4; i++)
        fits = fits && x[i] == ours[i];
    for (size_t i = 0; i < 2 * (size_t)comet_store_n_slots(m->store); i++)
        fits = fits && is_size(x[N_STATE_HEAD + i]);
    return fits;
}

comet_status model_state_import(comet_model *m, const double *numbers, size_t n)
{
    assessment *a = m->assessment;
    if (!state_fits(m, numbers, n))
        return comet_fail(COMET_ERROR_CORRUPT, "%zu numbers are not the state of this model's bounds, which has %zu", n,
                          model_state_n(m));
    const size_t n_slots = comet_store_n_slots(m->store), n_before = N_STATE_HEAD + 2 * n_slots;
    TRY(adapt_import(a->adapt, numbers + n_before, n - n_before));
    a->n_assessments = (uint64_t)numbers[4];
    a->n_collected = (uint64_t)numbers[5];
    a->n_updates = (uint64_t)numbers[6];
    a->loss_mean = numbers[7];
    a->loss_spread = numbers[8];
    memcpy(a->deviations, numbers + N_STATE_HEAD, n_slots * sizeof *numbers);
    memcpy(a->coarse, numbers + N_STATE_HEAD + n_slots, n_slots * sizeof *numbers);
    return COMET_OK;
}

comet_status model_state_restart(comet_model *m)
{
    if (!m->assessment)
        return COMET_OK;
    assess_destroy(m);
    if (model_hides_momentum(m))
        memset(m->momentum.data, 0, state_bytes(m->momentum.format, m->n_state));
    return assess_create(m);
}

/* ---- back to before a step ---- */

comet_status model_keep(comet_model *m)
{
    const size_t n = model_state_n(m);
    if (!memory_keeps_steps(m))
        return COMET_OK;
    if (!m->kept_state)
        m->kept_state = calloc(n + 1, sizeof *m->kept_state);
    if (!m->kept_state)
        return comet_fail(COMET_ERROR_MEMORY, "out of memory: could not allocate a copy of the bounds before a step");
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
