/* Looking at frames and checking them, without a session. */
#include <string.h>

#include "base/status.h"
#include "comet_native.h"

int comet_native_describe(const void *frame, size_t bytes, comet_native_frame *info)
{
    comet_frame_info found;
    if (!info || info->size != sizeof *info)
        return comet_fail(COMET_ERROR_ARGUMENT, "a description of %zu bytes is needed", sizeof *info);
    comet_frame_info_init(&found);
    TRY(comet_frame_describe(frame, bytes, &found));
    *info = (comet_native_frame){.size = sizeof *info,
                                 .version = found.version,
                                 .dtype = (uint32_t)found.tensor.dtype,
                                 .layout = (uint32_t)found.tensor.layout,
                                 .n_dims = found.tensor.n_dims,
                                 .eb = found.eb,
                                 .lossless = found.lossless,
                                 .keep_support = found.keep_support,
                                 .dither = found.dither,
                                 .checksum = found.content_checksum,
                                 .dither_seed = found.dither_seed,
                                 .level = (uint64_t)found.level,
                                 .profile = (uint64_t)found.profile,
                                 .n_elements = found.n_elements,
                                 .tensor_bytes = found.tensor_bytes,
                                 .frame_bytes = found.frame_bytes,
                                 .chunk_elements = found.chunk_elements,
                                 .n_chunks = found.n_chunks,
                                 .header_bytes = found.header_bytes};
    memcpy(info->dims, found.tensor.dims, sizeof info->dims);
    return COMET_OK;
}

int comet_native_compare(uint32_t dtype, uint64_t n_elements, const void *original, const void *decoded, double eb,
                         comet_native_comparison *comparison)
{
    comet_comparison found;
    if (!comparison || comparison->size != sizeof *comparison)
        return comet_fail(COMET_ERROR_ARGUMENT, "a comparison of %zu bytes is needed", sizeof *comparison);
    comet_comparison_init(&found);
    TRY(comet_compare((comet_dtype)dtype, n_elements, original, decoded, eb, &found));
    *comparison = (comet_native_comparison){.size = sizeof *comparison,
                                            .n_elements = found.n_elements,
                                            .max_error = found.max_error,
                                            .rmse = found.rmse,
                                            .psnr = found.psnr,
                                            .n_violations = found.n_violations,
                                            .first_violation = found.first_violation,
                                            .n_zeros = found.n_zeros,
                                            .n_zeros_kept = found.n_zeros_kept,
                                            .n_support_lost = found.n_support_lost};
    return COMET_OK;
}
