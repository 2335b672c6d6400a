/* The frame's header and index: written by the encoder, checked field by field by every reader. docs/format.md. */
#ifndef COMET_CODEC_FRAME_H
#define COMET_CODEC_FRAME_H

#include "codec/geometry.h"

#define FRAME_VERSION 3
#define HEADER_FIXED_BYTES ((size_t)64)
#define CHECKSUM_BYTES ((size_t)8)
#define INDEX_ENTRY_BYTES ((size_t)8)

enum frame_flag { FLAG_LOSSLESS = 1, FLAG_SUPPORT = 2, FLAG_DITHER = 4, FLAG_CHECKSUM = 8, FLAGS_KNOWN = 15 };

enum chunk_mode { CHUNK_RAW = 0, CHUNK_FAST = 1, CHUNK_DENSE = 2, CHUNK_PARTS = 3, N_CHUNK_MODES };
enum chunk_flag { CHUNK_IDENTITY = 1, CHUNK_NONZERO = 2 };

typedef struct frame_header {
    comet_tensor tensor;
    geometry shape;
    uint8_t flags;
    comet_level level;
    comet_profile profile;
    double eb;
    uint64_t seed;
    uint64_t chunk_elements, n_chunks;
    uint64_t frame_bytes;
} frame_header;

/* Bytes before the first chunk. */
static inline uint64_t frame_header_bytes(uint32_t n_dims)
{
    return HEADER_FIXED_BYTES + 8 * (uint64_t)n_dims + CHECKSUM_BYTES;
}

static inline uint64_t frame_index_bytes(uint64_t n_chunks)
{
    return n_chunks * INDEX_ENTRY_BYTES + CHECKSUM_BYTES;
}

static inline uint64_t frame_prefix_bytes(uint32_t n_dims, uint64_t n_chunks)
{
    return frame_header_bytes(n_dims) + frame_index_bytes(n_chunks);
}

/* Elements of chunk k. */
static inline size_t frame_chunk_length(const frame_header *h, uint64_t k)
{
    return (size_t)min_u64(h->chunk_elements, h->shape.n_elements - k * h->chunk_elements);
}

/* Writes the header's fields; its checksum stays 0. */
void frame_write_fields(const frame_header *h, uint8_t *frame);

/* Writes the header, and the index's checksum after the entries, which must be in place. */
void frame_write_header(const frame_header *h, uint8_t *frame);

/* Reads and checks the header; the index and the chunks need not be there. */
comet_status frame_read_header(const uint8_t *frame, size_t bytes, frame_header *h);

/* Checks, for a whole frame, the length, the index's checksum and that the chunks fill the frame exactly. */
comet_status frame_check_index(const frame_header *h, const uint8_t *frame, size_t bytes);

static inline uint8_t *frame_index_entry(const frame_header *h, uint8_t *frame, uint64_t k)
{
    return frame + frame_header_bytes(h->tensor.n_dims) + k * INDEX_ENTRY_BYTES;
}

static inline uint32_t frame_chunk_bytes(const frame_header *h, const uint8_t *frame, uint64_t k)
{
    return load_u32(frame + frame_header_bytes(h->tensor.n_dims) + k * INDEX_ENTRY_BYTES);
}

static inline uint32_t frame_chunk_checksum(const frame_header *h, const uint8_t *frame, uint64_t k)
{
    return load_u32(frame + frame_header_bytes(h->tensor.n_dims) + k * INDEX_ENTRY_BYTES + 4);
}

#endif
