/*
 * How a tensor lies in memory, reduced to what the codec needs: positions in a line, channels interleaved at each position,
 * lines in a plane. docs/format.md, "Geometry", is the contract; the decoder derives the same from the header.
 */
#ifndef COMET_CODEC_GEOMETRY_H
#define COMET_CODEC_GEOMETRY_H

#include "codec/kernels/wave.h"

#define MIN_CHUNK_ELEMENTS ((uint64_t)64)
#define MAX_CHUNK_ELEMENTS ((uint64_t)1 << 24)

typedef struct geometry {
    uint64_t n_elements; /* in memory */
    size_t channels;     /* interleaved: the distance to the left neighbour */
    size_t columns;      /* positions in a line */
    size_t line;         /* channels * columns: the distance to the neighbour above */
    uint64_t lines;      /* in a plane */
} geometry;

/* Checks the tensor description. */
comet_status geometry_make(const comet_tensor *tensor, geometry *g);

/* The chunk size that is used where the caller gives none. */
uint64_t geometry_chunk_elements(const geometry *g, comet_level level, comet_profile profile);

/* The most elements that a chunk may have. */
uint64_t geometry_most_elements(comet_level level, comet_profile profile);

#define PART_MOST ((size_t)12544) /* 112 x 112, so four planes of 56 x 56, 16 of 28 x 28, a quarter of 224 x 224 */

/* Elements of a part, in chunks that are coded in parts: whole planes where they fit, else equal parts of a plane. */
size_t geometry_part_elements(const geometry *g);

/* The lanes of a chunk of n elements in a frame whose chunks hold chunk_elements. */
lanes geometry_lanes(const geometry *g, uint64_t chunk_elements, size_t n);

/* The wave of a chunk of n elements; false if it does not suit the chunk. */
bool geometry_wave(const geometry *g, size_t n, wave_shape *w);

/* Room for the two rows of cells that dense coding keeps, in cells: each has two positions of padding on either side. */
static inline size_t lanes_row_cells(const lanes *l)
{
    return (l->columns + 4) * l->width;
}

#endif
