/*
 * Which steps are assessed. The gap between assessments grows while bounds and errors are steady and shrinks where they are
 * not; adapt.h has the rules.
 */
#include "adapt/state.h"
#include "base/bytes.h"

/* The gap is halved where a bound moved by the factor JUMP or more, and doubled only where none moved by more than DRIFT. */
static const double JUMP = 2, DRIFT = 1.25;
/* The gap is halved where a measured error is above ERROR_HIGH times the one that its limit aims at, and doubled only where
 * none is above ERROR_LOW. */
static const double ERROR_HIGH = 1.35, ERROR_LOW = 1.22;
/* The gap grows from 1 to window / MIN_GAP_DIVISOR at the start of a run, and does not fall below that later. */
static const uint32_t MIN_GAP_DIVISOR = 100;
/* The gap is at most steps so far / AGE_DIVISOR: early in training a net may change suddenly. */
static const uint64_t AGE_DIVISOR = 8;
/* An assessment collects half of the steps of the gap before it, at least MIN_COLLECTED (all of a shorter gap) and at most
 * MAX_COLLECTED: late in training few images make most of a batch's gradient, and means over few steps tell little. */
static const uint64_t MIN_COLLECTED = 10, MAX_COLLECTED = 20;

bool adapt_due(const adapt *a, uint64_t step)
{
    return step >= a->first;
}

bool adapt_complete(const adapt *a, uint64_t step)
{
    return step >= a->next;
}

/* The largest quotient of measured sigma and the one aimed at in the last assessment; NaN: nothing was measured. */
static double largest_error(const adapt *a)
{
    double largest = NAN;
    for (uint32_t i = 0; i < a->n_consumers; i++) {
        const double error = sqrt(a->consumers[i].measured / a->consumers[i].allowed) / a->consumers[i].aim;
        if (isfinite(error))
            largest = fmax(largest, error);
    }
    return largest;
}

void adapt_plan_next(adapt *a, uint64_t step, double moved)
{
    const uint64_t least = max_u64(a->params.window / MIN_GAP_DIVISOR, 1),
                   most = max_u64(min_u64(a->params.window, step / AGE_DIVISOR), least);
    const double largest = largest_error(a);
    if (a->gap < least)
        a->gap = moved >= JUMP ? a->gap : min_u64(2 * a->gap, least);
    else if (moved >= JUMP || largest > ERROR_HIGH)
        a->gap = max_u64(a->gap / 2, least);
    else if (moved <= DRIFT && !(largest > ERROR_LOW))
        a->gap = min_u64(2 * a->gap, most);
    a->next = step + a->gap;
    a->first = a->next + 1 - max_u64(min_u64(a->gap, MIN_COLLECTED), min_u64(a->gap / 2, MAX_COLLECTED));
}

void adapt_plan_restart(adapt *a, uint64_t step)
{
    a->first = a->next = step + 1;
    a->gap = 1;
}
