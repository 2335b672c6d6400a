/*
 * The parts of a fast payload: kinds, values, maps, wide bytes backwards. Values are written and read in place, tile by tile;
 * maps and wide bytes are collected aside and follow when all values are written, because only then their places are known.
 */
#ifndef COMET_CODEC_BLOCKS_H
#define COMET_CODEC_BLOCKS_H

#include "codec/kernels/kernels.h"

/* Bytes of the buffer in which maps and wide bytes of n_blocks blocks are collected. */
size_t blocks_aside_bytes(size_t n_blocks);

/* Begins n_blocks blocks at `out`. */
block_writer blocks_write_begin(uint8_t *out, uint8_t *aside, size_t n_blocks);

/* Adds what was collected after the values. Returns the end, after which WRITE_SLACK bytes may be overwritten. */
uint8_t *blocks_write_end(const block_writer *w, const uint8_t *aside, size_t n_blocks);

/* Finds the parts of n_blocks blocks that lie at [start, end). False if there is no room for them, or if the half byte after an
 * odd number of kinds is not 0. READ_SLACK bytes after the end are readable. */
bool blocks_read_begin(const uint8_t *start, const uint8_t *end, size_t n_blocks, block_reader *in);

/* Was everything read? */
static inline bool blocks_read_finished(const block_reader *in)
{
    return in->values == in->values_end;
}

#endif
