/* Makes damaged frames pass the checksums of header and index, so that the damage reaches the code that runs after those
 * checks. Shared by the fuzz targets and the tests. */
#ifndef COMET_TESTS_FRAME_REPAIR_H
#define COMET_TESTS_FRAME_REPAIR_H

#include "base/checksum.h"
#include "codec/frame.h"

enum { FRAME_AT_N_DIMS = 10, FRAME_AT_FRAME_BYTES = 56 };

/* The header's checksum. Does nothing where the header does not lie whole in `bytes` bytes. */
static inline void repair_header(uint8_t *f, size_t bytes)
{
    if (bytes < HEADER_FIXED_BYTES || f[FRAME_AT_N_DIMS] < 1 || f[FRAME_AT_N_DIMS] > COMET_MAX_DIMS)
        return;
    size_t header = (size_t)frame_header_bytes(f[FRAME_AT_N_DIMS]);
    if (bytes >= header)
        store_u64(f + header - CHECKSUM_BYTES, comet_checksum(f, header - CHECKSUM_BYTES));
}

/* Whether header and index lie whole in `bytes` bytes; *header is then filled. */
static inline bool repair_possible(const uint8_t *f, size_t bytes, frame_header *header)
{
    return frame_read_header(f, bytes, header) == COMET_OK &&
           frame_prefix_bytes(header->tensor.n_dims, header->n_chunks) <= bytes;
}

/* The content checksums, if the frame has them, and the index's. */
static inline void repair_index(uint8_t *f, size_t bytes)
{
    frame_header h;
    if (!repair_possible(f, bytes, &h))
        return;
    uint64_t at = frame_prefix_bytes(h.tensor.n_dims, h.n_chunks);
    for (uint64_t k = 0; k < h.n_chunks; k++) {
        size_t chunk = frame_chunk_bytes(&h, f, k);
        if (h.flags & FLAG_CHECKSUM && chunk <= bytes - at)
            store_u32(frame_index_entry(&h, f, k) + 4, (uint32_t)comet_checksum(f + at, chunk));
        at += chunk <= bytes - at ? chunk : 0;
    }
    uint8_t *index = frame_index_entry(&h, f, 0);
    size_t entries = (size_t)h.n_chunks * INDEX_ENTRY_BYTES;
    store_u64(index + entries, comet_checksum(index, entries));
}

/* Both. */
static inline void repair_checksums(uint8_t *f, size_t bytes)
{
    repair_header(f, bytes);
    repair_index(f, bytes);
}

/* Repairs both, makes the frame's length that of the bytes and lets chunks fill it: those that do not fit are cut, the last
 * gets the rest. */
static inline void repair_lengths(uint8_t *f, size_t bytes)
{
    frame_header h;
    if (bytes < HEADER_FIXED_BYTES)
        return;
    store_u64(f + FRAME_AT_FRAME_BYTES, bytes);
    repair_header(f, bytes);
    if (!repair_possible(f, bytes, &h))
        return;
    uint64_t left = bytes - frame_prefix_bytes(h.tensor.n_dims, h.n_chunks);
    for (uint64_t k = 0; k < h.n_chunks; k++) {
        uint64_t chunk = k + 1 == h.n_chunks ? left : min_u64(frame_chunk_bytes(&h, f, k), left);
        store_u32(frame_index_entry(&h, f, k), (uint32_t)chunk);
        left -= chunk;
    }
    repair_index(f, bytes);
}

#endif
