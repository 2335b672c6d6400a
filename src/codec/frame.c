/*
 * Header layout, little-endian, in bytes:
 *
 *   0  "COMT"                 16  eb, f64                  48  chunks, u64
 *   4  version, u16           24  dither seed, u64         56  bytes of the frame, u64
 *   6  header bytes, u16      32  elements, u64            64  dims, u64 each
 *   8  dtype, layout,         40  chunk elements, u64          then XXH64 of all that
 *      n_dims, flags, level, profile, two zeros
 *
 * The index follows: for each chunk its bytes, u32, and the low half of its XXH64 (0 without FLAG_CHECKSUM), then XXH64 of the
 * entries.
 */
#include "codec/frame.h"

#include <math.h>

#include "base/checksum.h"
#include "base/describe.h"
#include "base/status.h"

static const uint8_t magic[4] = {'C', 'O', 'M', 'T'};

void frame_write_fields(const frame_header *h, uint8_t *f)
{
    size_t header = (size_t)frame_header_bytes(h->tensor.n_dims);
    memset(f, 0, header);
    memcpy(f, magic, sizeof magic);
    store_u16(f + 4, FRAME_VERSION);
    store_u16(f + 6, (uint16_t)header);
    f[8] = (uint8_t)h->tensor.dtype;
    f[9] = (uint8_t)h->tensor.layout;
    f[10] = (uint8_t)h->tensor.n_dims;
    f[11] = h->flags;
    f[12] = (uint8_t)h->level;
    f[13] = (uint8_t)h->profile;
    memcpy(f + 16, &h->eb, 8);
    store_u64(f + 24, h->seed);
    store_u64(f + 32, h->shape.n_elements);
    store_u64(f + 40, h->chunk_elements);
    store_u64(f + 48, h->n_chunks);
    store_u64(f + 56, h->frame_bytes);
    for (uint32_t i = 0; i < h->tensor.n_dims; i++)
        store_u64(f + HEADER_FIXED_BYTES + 8 * i, h->tensor.dims[i]);
}

void frame_write_header(const frame_header *h, uint8_t *f)
{
    size_t header = (size_t)frame_header_bytes(h->tensor.n_dims), entries = (size_t)h->n_chunks * INDEX_ENTRY_BYTES;
    frame_write_fields(h, f);
    store_u64(f + header - CHECKSUM_BYTES, comet_checksum(f, header - CHECKSUM_BYTES));
    store_u64(f + header + entries, comet_checksum(f + header, entries));
}

static comet_status corrupt(const char *what)
{
    return comet_fail(COMET_ERROR_CORRUPT, "not a valid frame: %s", what);
}

/* Magic, version, length and checksum. */
static comet_status check_envelope(const uint8_t *f, size_t bytes)
{
    if (bytes < HEADER_FIXED_BYTES)
        return comet_fail(COMET_ERROR_CORRUPT, "not a valid frame: %zu bytes are fewer than a header", bytes);
    if (memcmp(f, magic, sizeof magic) != 0)
        return corrupt("it does not begin with COMT");
    if (load_u16(f + 4) == 1 || load_u16(f + 4) == 2)
        return comet_fail(COMET_ERROR_UNSUPPORTED,
                          "frame format version %u is from before the first release; this library reads version %d: compress "
                          "the tensor again",
                          load_u16(f + 4), FRAME_VERSION);
    if (load_u16(f + 4) != FRAME_VERSION)
        return comet_fail(COMET_ERROR_UNSUPPORTED, "frame format version %u; this library reads version %d", load_u16(f + 4),
                          FRAME_VERSION);
    size_t header = load_u16(f + 6);
    if (f[10] < 1 || f[10] > COMET_MAX_DIMS || header != frame_header_bytes(f[10]))
        return corrupt("the header's length does not fit its dimensions");
    if (bytes < header)
        return comet_fail(COMET_ERROR_CORRUPT, "not a valid frame: %zu bytes, but the header alone has %zu", bytes, header);
    if (load_u64(f + header - CHECKSUM_BYTES) != comet_checksum(f, header - CHECKSUM_BYTES))
        return corrupt("the header's checksum does not match");
    return COMET_OK;
}

static comet_status check_fields(const frame_header *h, const uint8_t *f)
{
    bool lossless = h->flags & FLAG_LOSSLESS;
    if (h->flags & ~FLAGS_KNOWN || f[12] > COMET_LEVEL_AUTO || f[13] > COMET_PROFILE_DEVICE || f[14] || f[15])
        return comet_fail(COMET_ERROR_UNSUPPORTED, "the frame uses options that this library does not know");
    if (h->profile == COMET_PROFILE_DEVICE && h->level == COMET_LEVEL_AUTO)
        return corrupt("its level does not go with its profile");
    if (!isfinite(h->eb) || h->eb < 0 || (h->eb == 0) != lossless)
        return corrupt("the error bound is out of range");
    if (h->flags & FLAG_DITHER && h->flags & (FLAG_LOSSLESS | FLAG_SUPPORT))
        return corrupt("dither does not go with its other options");
    if (load_u64(f + 32) != h->shape.n_elements)
        return corrupt("the element count does not fit the dimensions");
    if (h->chunk_elements < MIN_CHUNK_ELEMENTS || h->chunk_elements > geometry_most_elements(h->level, h->profile))
        return corrupt("the chunk size is out of range");
    if (h->n_chunks != ceil_div_u64(h->shape.n_elements, h->chunk_elements))
        return corrupt("the chunk count does not fit the element count");
    if (h->frame_bytes > PTRDIFF_MAX || h->frame_bytes < frame_prefix_bytes(h->tensor.n_dims, h->n_chunks) + h->n_chunks)
        return corrupt("the frame's length does not fit its chunk count");
    return COMET_OK;
}

comet_status frame_read_header(const uint8_t *f, size_t bytes, frame_header *h)
{
    comet_status status = check_envelope(f, bytes);
    if (status != COMET_OK)
        return status;
    *h = (frame_header){
        .tensor = {.size = sizeof h->tensor, .dtype = (comet_dtype)f[8], .layout = (comet_layout)f[9], .n_dims = f[10]},
        .flags = f[11],
        .level = (comet_level)f[12],
        .profile = (comet_profile)f[13],
        .seed = load_u64(f + 24),
        .chunk_elements = load_u64(f + 40),
        .n_chunks = load_u64(f + 48),
        .frame_bytes = load_u64(f + 56)};
    memcpy(&h->eb, f + 16, 8);
    for (uint32_t i = 0; i < h->tensor.n_dims; i++)
        h->tensor.dims[i] = load_u64(f + HEADER_FIXED_BYTES + 8 * i);
    if (geometry_make(&h->tensor, &h->shape) != COMET_OK)
        return corrupt("the tensor it describes is not possible");
    return check_fields(h, f);
}

comet_status frame_check_index(const frame_header *h, const uint8_t *f, size_t bytes)
{
    if (bytes < h->frame_bytes)
        return comet_fail(COMET_ERROR_CORRUPT, "the frame is cut short: %zu bytes of %llu", bytes,
                          (unsigned long long)h->frame_bytes);
    size_t header = (size_t)frame_header_bytes(h->tensor.n_dims), entries = (size_t)h->n_chunks * INDEX_ENTRY_BYTES;
    if (load_u64(f + header + entries) != comet_checksum(f + header, entries))
        return corrupt("the index's checksum does not match");
    uint64_t end = frame_prefix_bytes(h->tensor.n_dims, h->n_chunks);
    for (uint64_t k = 0; k < h->n_chunks; k++)
        end += frame_chunk_bytes(h, f, k);
    if (end != h->frame_bytes)
        return corrupt("the chunks do not fill the frame");
    return COMET_OK;
}

void comet_frame_info_init(comet_frame_info *info)
{
    *info = (comet_frame_info){.size = sizeof *info};
}

comet_status comet_frame_describe(const void *frame, size_t bytes, comet_frame_info *info)
{
    if (!frame || !info)
        return comet_fail(COMET_ERROR_ARGUMENT, "comet_frame_describe: null pointer");
    TRY(CHECK_SIZE(comet_frame_info, info));
    frame_header h;
    TRY(frame_read_header(frame, bytes, &h));
    const comet_frame_info found = {.version = FRAME_VERSION,
                                    .tensor = h.tensor,
                                    .eb = h.eb,
                                    .lossless = (h.flags & FLAG_LOSSLESS) != 0,
                                    .keep_support = (h.flags & FLAG_SUPPORT) != 0,
                                    .dither = (h.flags & FLAG_DITHER) != 0,
                                    .content_checksum = (h.flags & FLAG_CHECKSUM) != 0,
                                    .dither_seed = h.seed,
                                    .level = h.level,
                                    .profile = h.profile,
                                    .n_elements = h.shape.n_elements,
                                    .tensor_bytes = h.shape.n_elements * comet_dtype_bytes(h.tensor.dtype),
                                    .frame_bytes = h.frame_bytes,
                                    .chunk_elements = h.chunk_elements,
                                    .n_chunks = h.n_chunks,
                                    .header_bytes = frame_prefix_bytes(h.tensor.n_dims, h.n_chunks)};
    return GIVE(comet_frame_info, info, &found);
}
