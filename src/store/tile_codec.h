/*
 * One tile: elements in, coded bytes out, and back. A tile is a chunk of the codec without a frame around it, or a run of bytes
 * packed to few bits. Behind a chunk with a bound stand its plateaus, if it has any (plateau.h), and their bytes. Everything
 * works in a workspace reserved beforehand, on any thread.
 */
#ifndef COMET_STORE_TILE_CODEC_H
#define COMET_STORE_TILE_CODEC_H

#include "codec/chunk.h"

/* Elements of a tile, the same for every policy. */
uint64_t tiles_elements(const geometry *g);

/* How the tiles of a slot are coded, from its put to its drop. */
typedef struct tile_coding {
    chunk_plan plan;
    uint32_t packed_bits; /* 0: chunks */
    float reach;          /* of plateaus; 0: none are looked for */
} tile_coding;

/* What the values of a tile were and how it was coded. */
typedef struct tile_figures {
    uint8_t mode, predictor;
    uint64_t n_nonzero, n_nonfinite;
    double sum_of_squares, min, max; /* +Inf and -Inf where no element is finite */
} tile_figures;

/* An absolute bound, 0 for lossless, INFINITY for signs alone. False if nothing is left of the bound: lossless. */
bool tile_coding_set_bound(tile_coding *c, double eb, enum quantiser_mode mode);

/* Room for encoding and decoding, and for a payload read from elsewhere in ws->out. */
comet_status tile_reserve(const tile_coding *c, const comet_allocator *allocator, workspace *ws);

/* Encodes `bytes` bytes at x, the tile number k; the payload lies in ws->out. COMET_ERROR_ARGUMENT where a byte does not fit
 * the bits it is to be packed to. */
comet_status tile_encode(const tile_coding *c, workspace *ws, uint64_t k, const void *x, size_t bytes, chunk_payload *payload,
                         tile_figures *figures);

/* Decodes a payload, with READ_SLACK readable bytes behind it. */
comet_status tile_decode(const tile_coding *c, workspace *ws, uint64_t k, chunk_payload payload, void *x, size_t bytes,
                         bool stream);

#endif
