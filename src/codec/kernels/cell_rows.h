/* Rows of cells of 16-bit codes, moved in registers of 128 bits; the AVX2 and AVX-512 families share these loops. */
#ifndef COMET_CODEC_CELL_ROWS_H
#define COMET_CODEC_CELL_ROWS_H

#include <immintrin.h>

#include "codec/kernels/generic.h"

/* Columns i of eight rows of eight become row i. */
static inline void transpose8(__m128i r[8])
{
    __m128i a[8], b[8];
    for (int i = 0; i < 4; i++) {
        a[i] = _mm_unpacklo_epi16(r[i], r[i + 4]);
        a[i + 4] = _mm_unpackhi_epi16(r[i], r[i + 4]);
    }
    for (int half = 0; half < 8; half += 4)
        for (int i = 0; i < 2; i++) {
            b[half + i] = _mm_unpacklo_epi16(a[half + i], a[half + i + 2]);
            b[half + i + 2] = _mm_unpackhi_epi16(a[half + i], a[half + i + 2]);
        }
    for (int i = 0; i < 8; i += 2) {
        r[i] = _mm_unpacklo_epi16(b[i], b[i + 1]);
        r[i + 1] = _mm_unpackhi_epi16(b[i], b[i + 1]);
    }
}

/* True if the row's lines are each whole or missing altogether, as all but the chunk's last are. */
static inline bool lines_whole(const lanes *g, size_t row)
{
    size_t line = g->columns * g->channels, last = g->n / line;
    return g->n % line == 0 || last % g->rows != row;
}

/* The next tile's first column; the last tile of a row overlaps the one before if there is one. */
static inline size_t next_tile(size_t x, size_t columns)
{
    return x + 8 < columns && x + 16 > columns ? columns - 8 : x + 8;
}

static inline void gather_planar(const lanes *g, const int16_t *codes, size_t row, int16_t *cells)
{
    size_t tile_columns = g->columns < 8 ? g->columns : 8;
    for (size_t lane = 0; lane < LANES; lane += 8)
        for (size_t x = 0; x < g->columns; x = next_tile(x, g->columns)) {
            __m128i r[8];
            for (size_t k = 0; k < 8; k++) {
                size_t first = ((lane + k) * g->rows + row) * g->columns;
                r[k] = first < g->n ? _mm_loadu_si128((const __m128i *)(codes + first + x)) : _mm_setzero_si128();
            }
            transpose8(r);
            for (size_t k = 0; k < tile_columns; k++)
                _mm_storeu_si128((__m128i *)(cells + (x + k) * LANES + lane), r[k]);
        }
}

/* The first `columns` of eight codes: in two overlapping halves where there are fewer (4 to 7). */
static inline void store_codes(int16_t *codes, __m128i v, size_t columns)
{
    if (columns >= 8) {
        _mm_storeu_si128((__m128i *)codes, v);
        return;
    }
    uint64_t low = (uint64_t)_mm_cvtsi128_si64(v), high = (uint64_t)_mm_extract_epi64(v, 1);
    size_t skipped = columns - 4;
    store_u64(codes, low);
    store_u64(codes + skipped, skipped ? low >> (16 * skipped) | high << (64 - 16 * skipped) : low);
}

static inline void scatter_planar(const lanes *g, const int16_t *cells, size_t row, int16_t *codes)
{
    size_t tile_columns = g->columns < 8 ? g->columns : 8;
    for (size_t lane = 0; lane < LANES; lane += 8)
        for (size_t x = 0; x < g->columns; x = next_tile(x, g->columns)) {
            __m128i r[8];
            for (size_t k = 0; k < 8; k++)
                r[k] = _mm_loadu_si128((const __m128i *)(cells + (x + (k < tile_columns ? k : 0)) * LANES + lane));
            transpose8(r);
            for (size_t k = 0; k < 8; k++) {
                size_t first = ((lane + k) * g->rows + row) * g->columns;
                if (first < g->n)
                    store_codes(codes + first + x, r[k], tile_columns);
            }
        }
}

/* Rows that can be moved in registers: whole lines, of channels in eights, or of one channel and at least four columns. */
static inline bool row_suits(const lanes *g, size_t row)
{
    if (!lines_whole(g, row))
        return false;
    return g->channels == 1 ? g->columns >= 4 : g->channels % 8 == 0 && g->width == g->bands * g->channels;
}

static inline void gather_row_16_moved(const lanes *g, const void *codes, size_t row, void *cells)
{
    const int16_t *q = codes;
    int16_t *c = cells;
    if (!row_suits(g, row)) {
        gather_row_16_generic(g, codes, row, cells);
        return;
    }
    if (g->channels == 1) {
        gather_planar(g, q, row, c);
        return;
    }
    size_t line = g->columns * g->channels;
    for (size_t b = 0; b < g->bands; b++) {
        size_t first = (b * g->rows + row) * line;
        for (size_t x = 0; x < g->columns; x++)
            for (size_t k = 0; k < g->channels; k += 8) {
                __m128i v =
                    first < g->n ? _mm_loadu_si128((const __m128i *)(q + first + x * g->channels + k)) : _mm_setzero_si128();
                _mm_storeu_si128((__m128i *)(c + x * g->width + b * g->channels + k), v);
            }
    }
}

static inline void scatter_row_16_moved(const lanes *g, const void *cells, size_t row, void *codes)
{
    const int16_t *c = cells;
    int16_t *q = codes;
    if (!row_suits(g, row)) {
        scatter_row_16_generic(g, cells, row, codes);
        return;
    }
    if (g->channels == 1) {
        scatter_planar(g, c, row, q);
        return;
    }
    size_t line = g->columns * g->channels;
    for (size_t b = 0; b < g->bands; b++) {
        size_t first = (b * g->rows + row) * line;
        for (size_t x = 0; first < g->n && x < g->columns; x++)
            for (size_t k = 0; k < g->channels; k += 8)
                _mm_storeu_si128((__m128i *)(q + first + x * g->channels + k),
                                 _mm_loadu_si128((const __m128i *)(c + x * g->width + b * g->channels + k)));
    }
}

#endif
