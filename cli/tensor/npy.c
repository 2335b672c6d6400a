/* Element types of .npy files; see npy.h. */
#include "tensor/npy.h"

#include <string.h>

static const struct {
    const char *descr;
    comet_dtype dtype;
} types[] = {{"<f4", COMET_DTYPE_F32}, {"<f2", COMET_DTYPE_F16}, {"<u2", COMET_DTYPE_BF16}, {"<f8", COMET_DTYPE_F64}};
enum { N_TYPES = sizeof types / sizeof types[0] };

bool npy_dtype(const char *descr, bool bf16, comet_dtype *dtype, reason *why)
{
    for (size_t i = 0; i < N_TYPES; i++) {
        if (strcmp(types[i].descr, descr) == 0 && (types[i].dtype != COMET_DTYPE_BF16 || bf16)) {
            *dtype = types[i].dtype;
            return true;
        }
        if (descr[0] == '>' && strcmp(types[i].descr + 1, descr + 1) == 0)
            return reason_set(why, "it is big-endian ('%s'); save a.astype('%s') instead", descr, types[i].descr);
    }
    if (strcmp(descr, "<u2") == 0)
        return reason_set(why, "its elements are '<u2'; if they are bfloat16 bits, say so with -t bf16");
    return reason_set(why, "its elements are '%s'; only '<f4', '<f2', '<f8' and, with -t bf16, '<u2' can be compressed", descr);
}

const char *npy_descr(comet_dtype dtype)
{
    const char *descr = types[0].descr;
    for (size_t i = 0; i < N_TYPES; i++)
        if (types[i].dtype == dtype)
            descr = types[i].descr;
    return descr;
}
