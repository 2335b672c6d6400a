/*
 * A run on several ranks: what they agree on between steps. Rank 0 writes checkpoints and reads them; the others take its state
 * over at the start, and hand it their parts of the optimiser's state where that is shared out.
 */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/status.h"
#include "base/threads.h"
#include "train/assess/state.h"
#include "train/graph/ranks.h"
#include "train/run/trainer_private.h"
#include "train/update/shards.h"

/* Numbers that go round beside one of each rank. */
enum { N_JOINT = 3 };

static comet_ranks_figures figures_of(const trainer *t)
{
    comet_ranks_figures figures = {.size = sizeof figures};
    if (!t->ranks || t->ranks->describe(t->ranks->self, &figures) != COMET_OK)
        return (comet_ranks_figures){.size = sizeof figures};
    return figures;
}

comet_status trainer_ranks_begin(trainer *t)
{
    const comet_ranks *r = t->p->model.ranks;
    t->ranks = r && r->n_ranks > 1 ? r : NULL;
    if (!t->ranks)
        return COMET_OK;
    const comet_ranks_figures before = figures_of(t);
    t->sent_before = before.bytes_sent;
    t->plain_before = before.bytes_plain;
    t->votes = calloc(N_JOINT + 2 * (size_t)r->n_ranks, sizeof *t->votes);
    t->rank_waited = calloc(r->n_ranks, sizeof *t->rank_waited);
    t->rank_trained = calloc(r->n_ranks, sizeof *t->rank_trained);
    t->rank_peaks = calloc(r->n_ranks, sizeof *t->rank_peaks);
    if (!t->votes || !t->rank_waited || !t->rank_trained || !t->rank_peaks)
        return comet_fail(COMET_ERROR_MEMORY, "out of memory: could not allocate figures of %u ranks", r->n_ranks);
    return COMET_OK;
}

void trainer_ranks_end(trainer *t)
{
    trainer_mark(t, COMET_RANK_START);
    free(t->votes);
    free(t->rank_waited);
    free(t->rank_trained);
    free(t->rank_peaks);
}

void trainer_mark(const trainer *t, comet_rank_phase phase)
{
    if (t->ranks && t->ranks->mark)
        t->ranks->mark(t->ranks->self, t->n_images > 0 ? phase : COMET_RANK_START);
}

/* ---- agreement ---- */

static double seconds_waited(const trainer *t)
{
    return figures_of(t).seconds_waited;
}

void trainer_mark_wait(trainer *t)
{
    t->step_began = comet_seconds();
    t->wait_mark = seconds_waited(t);
}

/* Saving and evaluating are no steps: rank 0 alone writes files, and the others wait for it. */
comet_status trainer_agree(trainer *t)
{
    const comet_ranks *r = t->ranks;
    if (!r)
        return COMET_OK;
    const uint32_t n = 1 + 2 * r->n_ranks;
    if (t->step_began > 0) {
        t->step_waited += seconds_waited(t) - t->wait_mark;
        t->steps_seconds += comet_seconds() - t->step_began;
    }
    t->step_began = 0;
    memset(t->votes, 0, n * sizeof *t->votes);
    t->votes[0] = t->p->stop && *t->p->stop;
    t->votes[1 + r->rank] = t->step_waited;
    t->votes[1 + r->n_ranks + r->rank] = t->steps_seconds;
    TRY(r->sum(r->self, t->votes, n));
    t->stop_agreed |= t->votes[0] > 0;
    memcpy(t->rank_trained, t->votes + 1 + r->n_ranks, r->n_ranks * sizeof *t->rank_trained);
    memcpy(t->rank_waited, t->votes + 1, r->n_ranks * sizeof *t->rank_waited);
    return COMET_OK;
}

comet_status trainer_collect(trainer *t)
{
    const comet_ranks *r = t->ranks;
    if (!r)
        return COMET_OK;
    const comet_ranks_figures figures = figures_of(t);
    const double here = (double)trainer_loaded(t).n_skipped;
    memset(t->votes, 0, (N_JOINT + r->n_ranks) * sizeof *t->votes);
    t->votes[0] = here;
    t->votes[1] = (double)(figures.bytes_sent - t->sent_before);
    t->votes[2] = (double)(figures.bytes_plain - t->plain_before);
    t->votes[N_JOINT + r->rank] = (double)comet_peak_rss();
    TRY(r->sum(r->self, t->votes, N_JOINT + r->n_ranks));
    t->n_skipped_elsewhere = (uint64_t)(t->votes[0] - here);
    t->sent_bytes = (uint64_t)t->votes[1];
    t->plain_bytes = (uint64_t)t->votes[2];
    for (uint32_t i = 0; i < r->n_ranks; i++)
        t->rank_peaks[i] = (uint64_t)t->votes[N_JOINT + i];
    return COMET_OK;
}

/* ---- the state ---- */

static comet_status broadcast_block(const trainer *t, float *block, uint64_t n)
{
    return block && n > 0 ? t->ranks->broadcast(t->ranks->self, block, n * sizeof *block) : COMET_OK;
}

static comet_status broadcast_state(const trainer *t, const state_block *s, uint64_t n)
{
    return s->data && n > 0 ? t->ranks->broadcast(t->ranks->self, s->data, state_bytes(s->format, n)) : COMET_OK;
}

static comet_status broadcast_bounds(const trainer *t)
{
    const size_t n = model_state_n(t->model);
    double *numbers = calloc(n + 1, sizeof *numbers);
    if (!numbers)
        return comet_fail(COMET_ERROR_MEMORY, "out of memory: could not allocate %zu numbers of bounds", n);
    model_state_export(t->model, numbers);
    comet_status status = n > 0 ? t->ranks->broadcast(t->ranks->self, numbers, n * sizeof *numbers) : COMET_OK;
    if (status == COMET_OK && n > 0 && t->ranks->rank > 0)
        status = model_state_import(t->model, numbers, n);
    free(numbers);
    return status;
}

static comet_status broadcast_model(const trainer *t)
{
    const comet_model *m = t->model;
    TRY(broadcast_block(t, m->weights, m->n_learnt + m->n_frozen));
    TRY(broadcast_block(t, m->statistics, m->n_statistics));
    if (!m->move_state) {
        TRY(broadcast_state(t, &m->momentum, m->n_state));
        TRY(broadcast_state(t, &m->second_moment, m->n_state));
    }
    return broadcast_bounds(t);
}

comet_status trainer_take_over(trainer *t)
{
    struct {
        checkpoint_state state;
        uint64_t saved_step;
        bool saved;
    } run = {t->state, t->saved_step, t->saved};
    if (!t->ranks)
        return COMET_OK;
    const checkpoint_settings ours = t->state.settings;
    TRY(t->ranks->broadcast(t->ranks->self, &run, sizeof run));
    if (run.state.settings.net != ours.net || run.state.settings.data != ours.data)
        return comet_fail(COMET_ERROR_ARGUMENT, "rank %u has %s than rank 0", t->ranks->rank,
                          run.state.settings.net != ours.net ? "another net" : "other training data");
    if (t->ranks->rank > 0) {
        t->state = run.state;
        t->state.log = NULL;
        t->saved_step = run.saved_step;
        t->saved = run.saved;
    }
    return broadcast_model(t);
}

/* ---- files ---- */

bool trainer_has_files(const trainer *t)
{
    return t->p->out && !(t->ranks && t->ranks->rank > 0);
}

comet_status trainer_lend_state(const trainer *t)
{
    return t->ranks && t->ranks->rank > 0 ? shards_serve(t->model) : COMET_OK;
}

comet_status trainer_return_state(const trainer *t)
{
    return t->ranks && t->ranks->rank == 0 ? shards_release(t->model) : COMET_OK;
}
