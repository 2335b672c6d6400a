/* Option setters; see setters.h. */
#include "kit/setters.h"

#include <inttypes.h>

#include "base/threads.h"
#include "kit/number.h"

bool set_flag(void *target, const char *text, reason *why)
{
    (void)text;
    (void)why;
    *(bool *)target = true;
    return true;
}

bool clear_flag(void *target, const char *text, reason *why)
{
    (void)text;
    (void)why;
    *(bool *)target = false;
    return true;
}

bool set_text(void *target, const char *text, reason *why)
{
    if (text[0] == '\0')
        return reason_set(why, "the value is empty");
    *(const char **)target = text;
    return true;
}

bool set_bound(void *target, const char *text, reason *why)
{
    return bound_parse(text, target, why);
}
bool set_level(void *target, const char *text, reason *why)
{
    return level_parse(text, target, why);
}
bool set_layout(void *target, const char *text, reason *why)
{
    return layout_parse(text, target, why);
}

bool set_profile(void *target, const char *text, reason *why)
{
    return profile_parse(text, target, why);
}

bool set_dtype(void *target, const char *text, reason *why)
{
    dtype_arg *dtype = target;
    dtype->given = dtype_parse(text, &dtype->value, why);
    return dtype->given;
}

bool set_dims(void *target, const char *text, reason *why)
{
    dims_arg *dims = target;
    return number_list(text, dims->items, COMET_MAX_DIMS, &dims->n, why);
}

/* 64 at least on any machine: results depend on the number of threads, and may have to be repeated on a smaller one. */
bool set_threads(void *target, const char *text, reason *why)
{
    const size_t cores = comet_cores(), most = cores > 16 ? 4 * cores : 64;
    uint64_t n = 0;
    if (!number_u64(text, 0, UINT64_MAX, &n, why))
        return false;
    if (n > most)
        return reason_set(why, "%" PRIu64 " threads are too many for %zu core%s; give 0 to %zu (0: one per core)", n, cores,
                          cores == 1 ? "" : "s", most);
    *(uint64_t *)target = n;
    return true;
}
bool set_chunk(void *target, const char *text, reason *why)
{
    return number_u64(text, 64, 1 << 24, target, why);
}
bool set_repeat(void *target, const char *text, reason *why)
{
    return number_u64(text, 1, 10000, target, why);
}
bool set_megabytes(void *target, const char *text, reason *why)
{
    return number_u64(text, 0, 1 << 20, target, why);
}
bool set_demo_size(void *target, const char *text, reason *why)
{
    return number_u64(text, 1, 4096, target, why);
}
bool set_ratio(void *target, const char *text, reason *why)
{
    return number_double(text, 0, 1e6, target, why);
}
bool set_seconds(void *target, const char *text, reason *why)
{
    return number_double(text, 0, 3600, target, why);
}

bool set_seed(void *target, const char *text, reason *why)
{
    seed_arg *seed = target;
    seed->given = true;
    return !text || number_u64(text, 0, UINT64_MAX, &seed->value, why);
}

bool set_range(void *target, const char *text, reason *why)
{
    range_arg *range = target;
    uint64_t items[2];
    uint32_t n = 0;
    if (!number_list(text, items, 2, &n, why))
        return false;
    if (n != 2)
        return reason_set(why, "'%.60s' is not two numbers, FIRST,COUNT", text);
    if (items[1] == 0)
        return reason_set(why, "'%.60s' names no chunk: COUNT must be at least 1", text);
    *range = (range_arg){.given = true, .first = items[0], .count = items[1]};
    return true;
}
