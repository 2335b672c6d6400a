/* When assessments happen. */
#include "adapt/state.h"
#include "base/bytes.h"

/* A bound that moves by JUMP between assessments calls for more of them, one by less than DRIFT for fewer. */
static const double JUMP = 2, DRIFT = 1.25;
/* So does a measured error above this part of sigma*; only where all are below FRESH do bounds last long enough. */
static const double WORN = 1.05, FRESH = 0.95;
/* At their closest, once the first few are over, assessments are this part of the window apart. */
static const uint32_t CLOSE = 100;
/* A gap is at most this part of the steps so far: a net that has barely begun may change at once. */
static const uint64_t YOUNG = 8;
/* An assessment collects over the gap before it, at most FEW steps, or half of a long one, at most so many: late in training
 * few images of a batch make most of its gradient, and means over few steps tell little. */
static const uint64_t FEW = 10, MOST_COLLECTED = 20;

bool adapt_due(const adapt *a, uint64_t step)
{
    return step >= a->first;
}

bool adapt_complete(const adapt *a, uint64_t step)
{
    return step >= a->next;
}

/* A part of the window, at least a step. */
static uint64_t window_part(const adapt *a, uint32_t divisor)
{
    return max_u64(a->params.window / divisor, 1);
}

/* Measured to target in the assessment just made; NaN: nothing was measured. */
static double largest_error(const adapt *a)
{
    double largest = NAN;
    for (uint32_t i = 0; i < a->n_consumers; i++) {
        const double error = sqrt(a->consumers[i].measured / a->consumers[i].allowed);
        if (isfinite(error))
            largest = fmax(largest, error);
    }
    return largest;
}

/* From 1 up to CLOSE while nothing jumps; then up to the window, or what a run's age allows, while nothing moves and errors
 * stay as they should. */
void adapt_plan_next(adapt *a, uint64_t step, double moved)
{
    const uint64_t close = window_part(a, CLOSE), most = max_u64(min_u64(a->params.window, step / YOUNG), close);
    const double largest = largest_error(a);
    if (a->gap < close)
        a->gap = moved >= JUMP ? a->gap : min_u64(2 * a->gap, close);
    else if (moved >= JUMP || largest > WORN)
        a->gap = max_u64(a->gap / 2, close);
    else if (moved <= DRIFT && !(largest > FRESH))
        a->gap = min_u64(2 * a->gap, most);
    a->next = step + a->gap;
    a->first = a->next + 1 - max_u64(min_u64(a->gap, FEW), min_u64(a->gap / 2, MOST_COLLECTED));
}

void adapt_plan_restart(adapt *a, uint64_t step)
{
    a->first = a->next = step + 1;
    a->gap = 1;
}
