/* One build of the kernels; CODE_BITS, KERNELS, WARP and COMET_WATCHED come from the build. */
#include "gpu/fibers.h"

/* The order is that of their use. */
/* clang-format off */
#include "gpu/kernels/language.h"
#include "gpu/kernels/job.h"
#include "gpu/kernels/values.h"
#include "gpu/kernels/blocks.h"
#include "gpu/kernels/decode_kernel.h"
#include "gpu/kernels/parts_kernel.h"
#include "gpu/kernels/choice.h"
#include "gpu/kernels/encode_kernel.h"
#include "gpu/kernels/parts_model_kernel.h"
#include "gpu/kernels/parts_encode_kernel.h"
#include "gpu/kernels/frame_kernel.h"
/* clang-format on */

#include "gpu/fiber_kernels.h"

const fiber_kernel KERNELS[N_GPU_KERNELS] = {
#if CODE_BITS == 16
    [GPU_PLACE] = place,
    [GPU_COMPACT] = compact,
    [GPU_OPEN_FRAME] = open_frame,
    [GPU_CHECK_INDEX] = check_index,
    [GPU_SUMMARISE] = summarise,
    [GPU_TOTAL] = total,
    [GPU_RESET_ARENA] = reset_arena,
    [GPU_ENCODE16] = encode_16,
    [GPU_DECODE16] = decode_16,
    [GPU_DECODE_PARTS16] = decode_parts_16,
    [GPU_PUT_OUTLIERS] = put_outliers,
    [GPU_QUANTISE_PARTS16] = quantise_parts_16,
    [GPU_SAMPLE_PARTS16] = sample_parts_16,
    [GPU_CHOOSE_PARTS] = choose_parts,
    [GPU_MODEL_PARTS16] = model_parts_16,
    [GPU_TABULATE_PARTS] = tabulate_parts,
    [GPU_CODE_PARTS16] = code_parts_16,
    [GPU_SIZE_PARTS] = size_parts,
    [GPU_WRITE_PARTS16] = write_parts_16,
    [GPU_WRITE_MISFITS] = write_misfits,
#else
    [GPU_ENCODE32] = encode_32,
    [GPU_DECODE32] = decode_32,
    [GPU_DECODE_PARTS32] = decode_parts_32,
    [GPU_QUANTISE_PARTS32] = quantise_parts_32,
    [GPU_SAMPLE_PARTS32] = sample_parts_32,
    [GPU_MODEL_PARTS32] = model_parts_32,
    [GPU_CODE_PARTS32] = code_parts_32,
    [GPU_WRITE_PARTS32] = write_parts_32,
#endif
};
