/*
 * Codes in parts: level dense for GPUs. A chunk is cut into parts that are decoded independently of one another, by 32 lanes
 * each, with tables that they share. docs/format.md, "Codes in parts", is the contract. This is the plain path of a CPU.
 *
 * Within a part the planes lie in tiles, side by side up to 64 columns; lane k codes lines k, k + 32, ... and runs two columns
 * after lane k - 1, so that a cell's neighbours are always known. States have 12 bits, and draw single bits from one stream.
 */
#ifndef COMET_CODEC_PARTS_H
#define COMET_CODEC_PARTS_H

#include "codec/chunk.h"

#define PART_LANES 32
#define PART_STATE_BITS 12
#define PART_STATE_MIN (1u << PART_STATE_BITS)

/* The predictors that parts may have. */
static inline bool parts_have(enum predictor predictor)
{
    return predictor != PREDICT_UP && predictor != PREDICT_LINEAR && predictor <= PREDICT_WAVE;
}

/* A cell in the order of coding. */
enum part_edge { EDGE_TOP = 1, EDGE_LEFT = 2, EDGE_SECOND = 4, EDGE_RIGHT = 8, EDGE_STEP_END = 16 };
typedef struct part_cell {
    uint16_t element; /* of the part */
    uint8_t lane, edges;
} part_cell;

/* The cells of parts of n elements, and the distances in memory to their neighbours. */
typedef struct part_map {
    size_t n;
    ptrdiff_t left, up;
    const part_cell *cells;
} part_map;

/* Fills `cells`, n of them. */
part_map part_map_make(const geometry *g, size_t n, part_cell *cells);

/* What is expected of a cell: its context, a prediction, and whether the residual's sign is turned round. */
typedef struct part_outlook {
    int64_t prediction;
    unsigned context;
    bool turned;
} part_outlook;

part_outlook part_look(const part_map *map, part_cell cell, enum code_width width, enum predictor predictor, const void *codes);

/* The maps of a chunk's parts: one for all but the last, one for the last. */
typedef struct part_maps {
    size_t part_elements, n_parts;
    part_map whole, last;
} part_maps;

/* Fills the maps for a chunk of n elements. `cells` has room for twice PART_MOST. */
part_maps part_maps_make(const geometry *g, size_t part_elements, size_t n, part_cell *cells);

static inline const part_map *part_map_of(const part_maps *maps, size_t part)
{
    return part + 1 < maps->n_parts ? &maps->whole : &maps->last;
}

/* Bytes that encoding needs in ws->words and ws->symbols for a chunk of n elements. */
size_t parts_words_room(size_t n);
size_t parts_symbols_room(size_t n);
/* Bytes that decoding needs in ws->words. */
size_t parts_cells_room(void);

/* Chooses the predictor of n codes. Uses ws->symbols and ws->words. */
enum predictor parts_choose(const workspace *ws, const geometry *g, enum code_width width, const void *codes, size_t n,
                            bool *identity);

/* Appends the codes to out; returns the new end, or NULL if that would be `most` bytes or more. */
uint8_t *parts_encode(const workspace *ws, const geometry *g, enum code_width width, enum predictor predictor, bool identity,
                      const void *codes, size_t n, uint8_t *out, size_t most);

/* Fills n codes from exactly `bytes` bytes. */
bool parts_decode(const workspace *ws, const geometry *g, enum code_width width, enum predictor predictor, bool identity,
                  const uint8_t *in, size_t bytes, void *codes, size_t n);

#endif
