/* The precision in which a model computes; see precision.h. */
#include "train/run/precision.h"

#include "base/status.h"
#include "train/backend/backend.h"
#include "train/graph/graph.h"

const char *comet_precision_name(comet_precision precision)
{
    static const char *const names[] = {"f32", "bf16", "auto"};
    return (unsigned)precision < sizeof names / sizeof names[0] ? names[precision] : "unknown";
}

comet_precision comet_model_precision(const comet_model *model)
{
    return model && model->type == COMET_DTYPE_BF16 ? COMET_PRECISION_BF16 : COMET_PRECISION_F32;
}

comet_status precision_settle(const comet_model_params *params, comet_dtype *type)
{
    const bool fast = backend_multiplies_bf16();
    const bool bf16 = params->precision == COMET_PRECISION_BF16 || (params->precision == COMET_PRECISION_AUTO && fast);
    *type = bf16 ? COMET_DTYPE_BF16 : COMET_DTYPE_F32;
    if (!bf16 || fast || params->force_precision)
        return COMET_OK;
    return comet_fail(COMET_ERROR_UNSUPPORTED,
                      "precision bf16 needs the instructions AVX512_BF16 or AMX, which this machine does not offer (or a limit "
                      "such as COMET_MAX_ISA keeps from use): oneDNN would emulate them, and convolutions take longer than in "
                      "f32; use f32 or auto, or force it");
}
