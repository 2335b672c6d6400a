/* In what numbers a model computes: the options of the training verbs. */
#ifndef COMET_CLI_PRECISION_ARGS_H
#define COMET_CLI_PRECISION_ARGS_H

#include "comet/model.h"
#include "kit/setters.h"

typedef struct precision_args {
    bool given, force;
    comet_precision value;
} precision_args;

bool set_precision(void *target, const char *text, reason *why); /* precision_args */

#define OPTION_PRECISION(type)                                                                    \
    {                                                                                             \
        0, "precision", "HOW", set_precision, offsetof(type, precision),                          \
            "f32, bf16, bf16-forced (also emulated) or auto: bf16 where it is fast (default f32)" \
    }

/* As the option has it. */
const char *precision_text(const precision_args *args);
void precision_fill(const precision_args *args, comet_model_params *model);
/* The same for a run that goes on, which keeps its precision unless another was given. */
void precision_keep(const precision_args *args, comet_precision earlier, comet_model_params *model);

#endif
