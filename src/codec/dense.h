/*
 * Level dense: codes modelled in lanes and coded by 64 interleaved rANS states with one table a context.
 *
 * Layout: bytes of the tables and of the escapes (u32 each), the tables, the escapes, the 64 states (u32 each) that decoding
 * begins with, and the 16-bit words they draw on, to the end.
 */
#ifndef COMET_CODEC_DENSE_H
#define COMET_CODEC_DENSE_H

#include "codec/chunk.h"

/* Two lengths, the states, and tables of at most 4 bytes a symbol. */
#define DENSE_FIXED_BYTES ((size_t)8 + LANES * 4 + N_CONTEXTS * (N_SYMBOLS + 1) * 4)

/* Each symbol draws at most one word; 64 bytes more are written below them. */
static inline size_t dense_words_room(size_t cells)
{
    return 2 * cells + 64;
}

/* At most one escape a cell, and what a kernel may write after them. */
static inline size_t dense_escapes_room(size_t cells)
{
    return (cells + 32) * sizeof(uint32_t);
}

/* Appends the codes at `codes` to out; returns the new end, or NULL if that would be `most` bytes or more. */
uint8_t *dense_encode(const codec_kernels *k, workspace *ws, enum code_width width, enum predictor predictor, bool identity,
                      const lanes *l, const void *codes, uint8_t *out, size_t most);

/* The same for the cells of a wave, which the caller has filled from step 0 at dense_wave_cells, after dense_wave_begin. */
uint8_t *dense_encode_wave(const codec_kernels *k, workspace *ws, enum code_width width, enum predictor predictor,
                           const wave_shape *w, uint8_t *out, size_t most);
void *dense_wave_cells(const workspace *ws, enum code_width width);
void dense_wave_begin(workspace *ws, enum code_width width);

/* Fills `codes` (l->n of them) from exactly `bytes` bytes. */
bool dense_decode(const codec_kernels *k, workspace *ws, enum code_width width, enum predictor predictor, bool identity,
                  const lanes *l, const uint8_t *in, size_t bytes, void *codes);
bool dense_decode_wave(const codec_kernels *k, workspace *ws, enum code_width width, enum predictor predictor,
                       const wave_shape *w, const uint8_t *in, size_t bytes, void *codes);

#endif
