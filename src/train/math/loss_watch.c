/* Whether a run learns at all; see loss_watch.h. */
#include "train/math/loss_watch.h"

#include <math.h>

loss_watch loss_watch_begin(void)
{
    return (loss_watch){.start = NAN, .mean = NAN, .lowest = NAN};
}

void loss_watch_add(loss_watch *watch, uint64_t step, double loss)
{
    if (step == 0)
        watch->mean = 0;
    const bool starts = step < LOSS_WATCH_STEPS;
    watch->mean += (loss - watch->mean) / (starts ? (double)(step + 1) : LOSS_WATCH_STEPS);
    if (step + 1 == LOSS_WATCH_STEPS)
        watch->start = watch->mean;
    if (!starts)
        watch->lowest = fmin(watch->lowest, watch->mean); /* fmin passes over NaN */
}

bool loss_watch_never_fell(const loss_watch *watch, uint64_t n_steps)
{
    return n_steps >= LOSS_WATCH_MIN_STEPS && watch->lowest >= watch->start;
}

bool loss_watch_only_guesses(const loss_watch *watch, uint64_t n_steps, uint32_t n_classes)
{
    return n_steps >= LOSS_WATCH_MIN_STEPS && watch->lowest >= log(n_classes);
}
