/* See step_clock.h. */
#include "train/graph/step_clock.h"

#include <math.h>

#include "comet/base.h"

void step_clock_begin(step_clock *c, step_part part)
{
    c->since = comet_seconds();
    c->now = part;
    step_clock_mark(c, part);
}

static void change(step_clock *c, step_part part)
{
    const double now = comet_seconds();
    c->seconds[c->now] += now - c->since;
    c->since = now;
    c->now = part;
}

step_part step_clock_switch(step_clock *c, step_part part)
{
    const step_part before = c->now;
    if (before != STEP_IDLE && before != part)
        change(c, part);
    return before;
}

void step_clock_end(step_clock *c)
{
    step_clock_switch(c, STEP_IDLE);
}

void step_clock_mark(step_clock *c, step_part part)
{
    c->before[part] = c->seconds[part];
}

void step_clock_move(step_clock *c, step_part part, step_part coding, double seconds)
{
    const double moved = fmin(fmax(seconds - c->coded[coding], 0), c->seconds[part] - c->before[part]);
    c->coded[coding] = seconds;
    c->seconds[part] -= moved;
    c->seconds[coding] += moved;
}
