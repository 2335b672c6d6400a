/* The line that moves while a run goes on: parts that fit the terminal. */
#ifndef COMET_CLI_TRAIN_LINE_H
#define COMET_CLI_TRAIN_LINE_H

#include "comet/train.h"

enum { LINE_STEPS = 50 /* the line's loss and accuracy are means over the last so many updates of this process */ };

typedef struct train_line {
    uint64_t first_step;                          /* of this process */
    uint64_t n;                                   /* updates seen */
    double losses[LINE_STEPS], top1s[LINE_STEPS]; /* of the last of them, in turns */
} train_line;

/* After an update. */
void train_line_step(train_line *line, const comet_train_event *event);
/* While the test part is scored. */
void train_line_test(const comet_train_event *event);

#endif
