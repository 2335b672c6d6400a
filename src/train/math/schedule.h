/* Learning rates; see comet/train.h and schedule.c. */
#ifndef COMET_TRAIN_MATH_SCHEDULE_H
#define COMET_TRAIN_MATH_SCHEDULE_H

#include "comet/train.h"

/* COMET_ERROR_ARGUMENT, with the field and its range, where comet_schedule_rate would not give finite rates of at least 0.
 * Fields of other kinds of schedule are not looked at. */
comet_status schedule_check(const comet_schedule *s);

#endif
