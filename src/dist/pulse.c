/* See pulse.h. */
#include "dist/pulse.h"

static const double asleep_seconds = 2, times_longest = 10;

/* By phase, in hung_seconds. SAME is no phase. */
static const double phase_factors[PULSE_PHASES] = {[COMET_RANK_START] = 80, [COMET_RANK_STEP] = 1, [COMET_RANK_FILES] = 8};

void pulse_begin(pulse *p, double hung_seconds)
{
    *p = (pulse){.hung_seconds = hung_seconds, .phase = COMET_RANK_START, .phase_seen = COMET_RANK_START};
}

void pulse_mark(pulse *p, comet_rank_phase phase)
{
    if (phase != COMET_RANK_SAME)
        atomic_store_explicit(&p->phase, phase, memory_order_relaxed);
    atomic_fetch_add_explicit(&p->n_marks, 1, memory_order_release);
}

static double patience_of(const pulse *p)
{
    const double least = p->hung_seconds * phase_factors[p->phase_seen], usual = times_longest * p->longest[p->phase_seen];
    return least > usual ? least : usual;
}

/* A moment has ended. */
static void begin_moment(pulse *p, uint64_t n_marks)
{
    if (p->idle > p->longest[p->phase_seen])
        p->longest[p->phase_seen] = p->idle;
    p->idle = 0;
    p->n_seen = n_marks;
    p->phase_seen = atomic_load_explicit(&p->phase, memory_order_relaxed);
}

pulse_report pulse_tick(pulse *p, double now, double waited)
{
    const uint64_t n_marks = atomic_load_explicit(&p->n_marks, memory_order_acquire);
    const double passed = p->last_tick > 0 ? now - p->last_tick : 0;
    p->last_tick = now;
    if (passed < asleep_seconds)
        p->idle += passed;
    if (n_marks != p->n_seen || waited > 0)
        begin_moment(p, n_marks);
    return (pulse_report){.idle = p->idle, .patience = patience_of(p), .waited = waited};
}
