/*
 * The codec of one tile: elements in, coded bytes out, and back. A tile is a chunk of the codec without a frame around it, or a
 * run of bytes packed to few bits. A chunk with a bound is followed by the record of its plateaus (plateau.h), empty if it has
 * none, and the record's length. All functions work in a workspace that was reserved before, on any thread.
 */
#ifndef COMET_STORE_TILE_CODEC_H
#define COMET_STORE_TILE_CODEC_H

#include "codec/chunk.h"

/* The number of elements of a tile, the same for every policy. */
uint64_t tiles_elements(const geometry *g);

/* How the tiles of a slot are coded, from its put to its drop. */
typedef struct tile_coding {
    chunk_plan plan;
    uint32_t packed_bits; /* 0: chunks */
    float reach;          /* how far an element may be from its plateau; 0: no plateaus are looked for, as in 16-bit types */
} tile_coding;

/* Statistics of a tile's values, and how it was coded. */
typedef struct tile_figures {
    uint8_t mode, predictor;
    uint64_t n_nonzero, n_nonfinite;
    double sum_of_squares, min, max; /* +Inf and -Inf where no element is finite */
} tile_figures;

/* Sets an absolute bound for the plan's element type: 0 for lossless, INFINITY for signs alone. False if the bound is too small
 * for that type: lossless then. */
bool tile_coding_set_bound(tile_coding *c, double eb, enum quantiser_mode mode);

/* Reserves the buffers for encoding and decoding, with ws->out large enough for a payload read from the spill file. */
comet_status tile_reserve(const tile_coding *c, const comet_allocator *allocator, workspace *ws);

/* Encodes tile k, `bytes` bytes at x; the payload lies in ws->out. COMET_ERROR_ARGUMENT where a byte to be packed does not fit
 * its bits. */
comet_status tile_encode(const tile_coding *c, workspace *ws, uint64_t k, const void *x, size_t bytes, chunk_payload *payload,
                         tile_figures *figures);

/* Decodes a payload, which READ_SLACK readable bytes must follow. */
comet_status tile_decode(const tile_coding *c, workspace *ws, uint64_t k, chunk_payload payload, void *x, size_t bytes,
                         bool stream);

#endif
