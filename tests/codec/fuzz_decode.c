/* Arbitrary bytes as a frame: as they are, with checksums mended, and with lengths mended too, so that damage gets through to
 * the chunks. Where two decoders, one with the reference's kernels, accept the same bytes they agree, unless codes are out of
 * the range that an encoder keeps to; so that is not asked for. */
#include <stdlib.h>

#include "fuzz/frame_repair.h"

enum { MOST_BYTES = 1 << 24 };

static comet_decoder *decoder_of(comet_isa cap)
{
    comet_decoder *decoder = NULL;
    comet_isa_set_cap(cap);
    if (comet_decoder_create(&decoder, NULL, 1) != COMET_OK)
        abort();
    return decoder;
}

static void decode(comet_decoder *decoder, const uint8_t *data, size_t size)
{
    comet_frame_info info;
    comet_frame_info_init(&info);
    if (comet_frame_describe(data, size, &info) != COMET_OK || info.tensor_bytes > MOST_BYTES)
        return;
    size_t room = (size_t)info.tensor_bytes, bytes = 1;
    void *y = malloc(room + !room);
    comet_status status = y ? comet_decoder_run(decoder, data, size, y, room, &bytes) : COMET_ERROR_CORRUPT;
    if (status == COMET_OK ? bytes != room : status != COMET_ERROR_CORRUPT && status != COMET_ERROR_UNSUPPORTED)
        abort();
    free(y);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static comet_decoder *decoders[2];
    if (!decoders[0]) {
        decoders[0] = decoder_of(COMET_ISA_REFERENCE);
        decoders[1] = decoder_of(comet_isa_best());
    }
    uint8_t *copy = malloc(size + !size);
    if (!copy)
        return 0;
    memcpy(copy, data, size);
    decode(decoders[0], copy, size);
    repair_checksums(copy, size);
    for (int i = 0; i < 2; i++)
        decode(decoders[i], copy, size);
    repair_lengths(copy, size);
    for (int i = 0; i < 2; i++)
        decode(decoders[i], copy, size);
    free(copy);
    return 0;
}
