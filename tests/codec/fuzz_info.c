/* Arbitrary bytes as a frame's header, as they are and with the checksum mended. */
#include <stdlib.h>

#include "fuzz/frame_repair.h"

static void check(bool condition)
{
    if (!condition)
        abort();
}

static void read_info(const uint8_t *data, size_t size)
{
    comet_frame_info info;
    comet_frame_info_init(&info);
    comet_status status = comet_frame_describe(data, size, &info);
    if (status != COMET_OK) {
        check(status == COMET_ERROR_CORRUPT || status == COMET_ERROR_UNSUPPORTED);
        check(comet_last_error()[0] != 0);
        return;
    }
    uint64_t n = 0;
    check(comet_tensor_elements(&info.tensor, &n) == COMET_OK && n == info.n_elements);
    check(info.tensor_bytes == n * comet_dtype_bytes(info.tensor.dtype));
    check(info.n_chunks == ceil_div_u64(n, info.chunk_elements));
    check(info.header_bytes <= info.frame_bytes && info.frame_bytes <= PTRDIFF_MAX);
    check(info.eb >= 0 && (info.eb == 0) == (info.lossless != 0));
    check(!info.dither || (!info.keep_support && !info.lossless));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    read_info(data, size);
    uint8_t *copy = malloc(size + !size);
    if (!copy)
        return 0;
    memcpy(copy, data, size);
    repair_header(copy, size);
    read_info(copy, size);
    free(copy);
    return 0;
}
