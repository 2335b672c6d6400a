/* See optimiser_args.h. */
#include "train/optimiser_args.h"

#include "kit/enum_names.h"

static const named optimisers[] = {{"sgd", COMET_OPTIMISER_SGD}, {"adamw", COMET_OPTIMISER_ADAMW}, {NULL, 0}};
static const named formats[] = {{"f32", COMET_STATE_F32}, {"bf16", COMET_STATE_BF16}, {"coded", COMET_STATE_CODED}, {NULL, 0}};

bool set_optimiser(void *target, const char *text, reason *why)
{
    int value = 0;
    if (!named_find(optimisers, "optimiser", "sgd or adamw", text, &value, why))
        return false;
    *(comet_optimiser_kind *)target = (comet_optimiser_kind)value;
    return true;
}

bool set_state_format(void *target, const char *text, reason *why)
{
    int value = 0;
    if (!named_find(formats, "format", "f32, bf16 or coded", text, &value, why))
        return false;
    *(comet_state_format *)target = (comet_state_format)value;
    return true;
}

cli_exit optimiser_check_args(const optimiser_args *args)
{
    if (args->nesterov && (args->kind == COMET_OPTIMISER_ADAMW || args->momentum == 0))
        return fail(CLI_USAGE, "--nesterov is for sgd with momentum");
    if (args->momentum >= 0 && args->kind == COMET_OPTIMISER_ADAMW)
        return fail(CLI_USAGE, "--momentum is for sgd");
    return CLI_OK;
}

void optimiser_fill(const optimiser_args *args, comet_optimiser *optimiser)
{
    comet_optimiser_init(optimiser, args->kind);
    optimiser->state = args->state;
    optimiser->nesterov = args->nesterov;
    optimiser->clip_norm = (float)args->clip;
    if (args->momentum >= 0)
        optimiser->momentum = (float)args->momentum;
    if (args->weight_decay >= 0)
        optimiser->weight_decay = (float)args->weight_decay;
}
