/* Greedy: tensors in the order of bytes saved for each second more; one that does not fit the budget is skipped. */
#include "adapt/levels.h"

#include <math.h>

/* Bytes that dense saves for each second that it costs more; INFINITY where it costs no time, 0 where it saves nothing. */
static double saving_rate(const level_choice *c)
{
    const double saved = c->bytes[0] - c->bytes[1], cost = c->seconds[1] - c->seconds[0];
    if (!(saved > 0) || !isfinite(saved) || !isfinite(cost))
        return 0;
    return cost > 0 ? saved / cost : INFINITY;
}

/* The tensor after `last` in falling order of saving_rate, by index among equals; n: there is none. last == n: the first. */
static size_t next_by_rate(const level_choice *choices, size_t n, size_t last)
{
    const double ceiling = last < n ? saving_rate(&choices[last]) : INFINITY;
    size_t best = n;
    double best_rate = 0;
    for (size_t i = 0; i < n; i++) {
        const double rate = saving_rate(&choices[i]);
        const bool left = last == n || rate < ceiling || (rate == ceiling && i > last);
        if (left && rate > best_rate) {
            best = i;
            best_rate = rate;
        }
    }
    return best;
}

double levels_choose(level_choice *choices, size_t n, double budget)
{
    double seconds = 0;
    for (size_t i = 0; i < n; i++) {
        choices[i].dense = false;
        seconds += choices[i].seconds[0];
    }
    for (size_t i = next_by_rate(choices, n, n); i < n; i = next_by_rate(choices, n, i)) {
        const double with = seconds + (choices[i].seconds[1] - choices[i].seconds[0]);
        if (with <= budget || with <= seconds) {
            choices[i].dense = true;
            seconds = with;
        }
    }
    return seconds;
}
