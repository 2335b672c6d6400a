/* See bench_lists.h. */
#include "train/bench_lists.h"

#include <string.h>

#include "kit/number.h"
#include "kit/text.h"
#include "train/compression_args.h"
#include "train/convolutions.h"

bool set_batches(void *target, const char *text, reason *why)
{
    batch_list *list = target;
    if (!number_list(text, list->items, MAX_BATCHES, &list->n, why))
        return false;
    for (uint32_t i = 0; i < list->n; i++)
        if (list->items[i] == 0 || list->items[i] > 1 << 20)
            return reason_set(why, "a batch has 1 to 2^20 images");
    return true;
}

/* "off,fast,dense". Off is moved to the front, so that the others can be compared with it. */
bool set_modes(void *target, const char *text, reason *why)
{
    mode_list list = {.n = 0};
    for (const char *at = text; at;) {
        char one[24];
        comet_compress_mode mode;
        if (list.n == MAX_MODES || !text_take_item(&at, one, sizeof one))
            return reason_set(why, "'%.60s' is not a list of off, lossless, fast, dense and auto", text);
        if (!mode_parse(one, &mode, why))
            return false;
        const size_t place = mode == COMET_COMPRESS_OFF ? 0 : list.n;
        memmove(&list.items[place + 1], &list.items[place], (list.n - place) * sizeof mode);
        list.items[place] = mode;
        list.n++;
    }
    *(mode_list *)target = list;
    return true;
}

bool set_convolutions_list(void *target, const char *text, reason *why)
{
    convolutions_list list = {.n = 0};
    for (const char *at = text; at; list.n++) {
        char one[24];
        if (list.n == MAX_MODES || !text_take_item(&at, one, sizeof one))
            return reason_set(why, "'%.60s' is not a list of rule, timed and direct", text);
        if (!convolutions_parse(one, &list.items[list.n], why))
            return false;
    }
    *(convolutions_list *)target = list;
    return true;
}
