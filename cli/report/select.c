/* Which lines a chart shows; see select.h. */
#include "report/select.h"

#include <math.h>

static void keep_extremes(const double *values, size_t first, size_t end, bool *kept)
{
    size_t low = end, high = end;
    for (size_t i = first; i < end; i++) {
        if (isnan(values[i]))
            continue;
        low = low == end || values[i] < values[low] ? i : low;
        high = high == end || values[i] > values[high] ? i : high;
    }
    if (low < end)
        kept[low] = kept[high] = true;
}

void select_lines(size_t n, const double *const *keys, size_t n_keys, size_t n_parts, bool *kept)
{
    const size_t most = n_parts * (2 * n_keys + 1);
    for (size_t i = 0; i < n; i++)
        kept[i] = n <= most || i == 0;
    if (n <= most)
        return;
    for (size_t part = 0; part < n_parts; part++) {
        const size_t first = n * part / n_parts, end = n * (part + 1) / n_parts;
        kept[end - 1] = true;
        for (size_t k = 0; k < n_keys; k++)
            keep_extremes(keys[k], first, end, kept);
    }
}
