/* How 3 x 3 convolutions are computed: the option of the training verbs, and the trial. */
#ifndef COMET_CLI_CONVOLUTIONS_H
#define COMET_CLI_CONVOLUTIONS_H

#include "comet/train.h"
#include "kit/setters.h"

typedef struct convolutions_arg {
    bool given;
    comet_convolutions value;
} convolutions_arg;

bool convolutions_parse(const char *text, comet_convolutions *value, reason *why);
bool set_convolutions(void *target, const char *text, reason *why); /* convolutions_arg */

enum { CONVOLUTIONS_TEXT_BYTES = 160 };

/* Where a model is to have timed convolutions and no choices are known yet, chooses in a process of its own, so that the memory
 * of the trial is free again. *choices is then malloc'd and in *params, and `text` has a line for the user; else *choices stays
 * as it is, and `text` is "". */
cli_exit convolutions_settle(const comet_net *net, comet_model_params *params, char **choices,
                             char text[CONVOLUTIONS_TEXT_BYTES]);

#endif
