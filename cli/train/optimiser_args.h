/* The options for the optimiser that the training verbs share. */
#ifndef COMET_CLI_OPTIMISER_ARGS_H
#define COMET_CLI_OPTIMISER_ARGS_H

#include "comet/train.h"
#include "kit/setters.h"

/* Initialise with OPTIMISER_DEFAULTS. */
typedef struct optimiser_args {
    comet_optimiser_kind kind;
    comet_state_format state;
    double momentum, weight_decay; /* negative: not given */
    double clip;
    bool nesterov;
} optimiser_args;

#define OPTIMISER_DEFAULTS                                                                        \
    {                                                                                             \
        .kind = COMET_OPTIMISER_SGD, .state = COMET_STATE_F32, .momentum = -1, .weight_decay = -1 \
    }

bool set_optimiser(void *target, const char *text, reason *why);    /* comet_optimiser_kind */
bool set_state_format(void *target, const char *text, reason *why); /* comet_state_format */

#define OPTION_OPTIMISER(type)                                                                              \
    {                                                                                                       \
        0, "optimiser", "NAME", set_optimiser, offsetof(type, optimiser.kind), "sgd or adamw (default sgd)" \
    }
#define OPTION_STATE(type)                                                                     \
    {                                                                                          \
        0, "optimiser-state", "HOW", set_state_format, offsetof(type, optimiser.state),        \
            "hold momenta as f32, bf16 or coded, in 4, 2 or 1.06 bytes a weight (default f32)" \
    }

/* Refuses options that exclude one another. */
cli_exit optimiser_check_args(const optimiser_args *args);

/* The library's defaults, changed by the options. */
void optimiser_fill(const optimiser_args *args, comet_optimiser *optimiser);

#endif
