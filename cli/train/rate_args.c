/* Learning rate and schedule; see rate_args.h. */
#include "train/rate_args.h"

#include <string.h>

#include "train/train_setup.h"

static const named schedules[] = {{"constant", COMET_SCHEDULE_CONSTANT},
                                  {"step", COMET_SCHEDULE_STEP},
                                  {"cosine", COMET_SCHEDULE_COSINE},
                                  {"onecycle", COMET_SCHEDULE_ONECYCLE},
                                  {NULL, 0}};

bool set_schedule(void *target, const char *text, reason *why)
{
    int value = 0;
    if (!named_find(schedules, "schedule", "constant, step, cosine or onecycle", text, &value, why))
        return false;
    *(comet_schedule_kind *)target = (comet_schedule_kind)value;
    return true;
}

bool set_rate(void *target, const char *text, reason *why)
{
    rate_arg *rate = target;
    rate->find = strcmp(text, "find") == 0;
    rate->value = -1;
    if (rate->find || set_positive(&rate->value, text, why))
        return true;
    const reason number = *why;
    return reason_set(why, "%.200s, nor 'find'", number.text);
}
