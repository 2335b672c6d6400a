/* In what numbers a model computes; see precision_args.h. */
#include "train/precision_args.h"

bool set_precision(void *target, const char *text, reason *why)
{
    enum { FORCED = COMET_PRECISION_AUTO + 1 };
    static const named all[] = {{"f32", COMET_PRECISION_F32},
                                {"bf16", COMET_PRECISION_BF16},
                                {"bf16-forced", FORCED},
                                {"auto", COMET_PRECISION_AUTO},
                                {NULL, 0}};
    precision_args *args = target;
    int found = 0;
    args->given = named_find(all, "precision", "f32, bf16, bf16-forced or auto", text, &found, why);
    args->force = found == FORCED;
    args->value = args->force ? COMET_PRECISION_BF16 : (comet_precision)found;
    return args->given;
}

const char *precision_text(const precision_args *args)
{
    return args->force ? "bf16-forced" : comet_precision_name(args->value);
}

void precision_fill(const precision_args *args, comet_model_params *model)
{
    model->precision = args->value;
    model->force_precision = args->force;
}

void precision_keep(const precision_args *args, comet_precision earlier, comet_model_params *model)
{
    if (!args->given)
        model->precision = earlier;
}
