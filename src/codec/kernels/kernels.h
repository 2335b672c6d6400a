/*
 * The codec's inner loops: one table of functions for each kernel family.
 *
 * Every family gives the same results bit for bit; the reference is plain C. Families share the generic bodies in this folder
 * and replace the loops that matter by hand-written ones. The stages, in the order of compression:
 *
 *   quantise   elements -> integer codes, a bit for each element that the codes cannot hold within the bound
 *   predict    codes -> non-negative residuals (zigzag), in memory order
 *   pack       residuals -> blocks of 64 in as few bits as they take (level fast)
 *   model_row  codes in lanes -> symbols conditioned on neighbours (level dense)
 *   entropy    symbols -> 64 interleaved rANS states
 *
 * Decompression runs unpack/unpredict or decode_row, then dequantise. Level fast can do all at once, tile by tile.
 */
#ifndef COMET_CODEC_KERNELS_H
#define COMET_CODEC_KERNELS_H

#include <stdbool.h>

#include "codec/bits.h"
#include "codec/kernels/linear_kernels.h"
#include "codec/kernels/quantiser_type.h"
#include "comet/codec.h"

#define N_DTYPES 4
#define BLOCK 64               /* elements a block: one 64-bit mask */
#define QUANT_TILE 4096        /* the most elements of a quantise call; it fixes the order of summation */
#define SUM_LANES 16           /* partial sums of squares; they fix the order of summation, too */
#define WRITE_SLACK 64         /* bytes after what is packed that may be overwritten */
#define STEP_SKIP 128          /* outlier steps from here on skip this many elements for each they exceed 127 by */
#define CODE16_LIMIT 8191      /* |code| in 16 bits: sums of four still fit */
#define CODE32_LIMIT (1 << 28) /* |code| in 32 bits: sums of four still fit */

/* Code widths, as an index into the tables: 2, 4 and 8 bytes. */
enum code_width { CODES16, CODES32, CODES64, N_CODE_WIDTHS };
static inline size_t code_bytes(enum code_width width)
{
    return (size_t)2 << width;
}

/* Code i of 16 or 32 bits. */
static inline int64_t code_at(enum code_width width, const void *codes, ptrdiff_t i)
{
    return width == CODES16 ? ((const int16_t *)codes)[i] : ((const int32_t *)codes)[i];
}

enum predictor {
    PREDICT_NONE = 0,
    PREDICT_LEFT = 1,    /* the same channel's left neighbour */
    PREDICT_UP = 2,      /* the neighbour above (fast only) */
    PREDICT_LORENZO = 3, /* left + up - up-left */
    PREDICT_MEDIAN = 4,  /* median of left, up and left + up - up-left (dense only) */
    PREDICT_LINEAR = 5,  /* a plane fitted to 16 x 16 tiles, subtracted beforehand; then as NONE */
    PREDICT_WAVE = 6,    /* as MEDIAN, with lanes in a wave (dense only); see wave.h */
    PREDICT_VOLUME = 7,  /* the plane before plus the median of the changes since; with lanes in a wave (dense only) */
    N_PREDICTORS
};

/* Moments of the elements seen, accumulated in a fixed order. */
typedef struct moments {
    double sum_of_squares[SUM_LANES];
    double min, max;
    uint64_t n_nonzero;
} moments;

/* Elements [0, n) of a tile (n <= QUANT_TILE), whose first has index `first` in its chunk, to codes. Bit i % 64 of failed[i /
 * 64] is set, and codes[i] is 0, where the code would not come back within the bound. Moments of a tile with non-finite
 * elements are undefined, but squares of 16-bit elements then are not finite either. `codes` has room for n rounded up to
 * BLOCK; the rest is filled with 0. */
typedef void quantise_fn(const quantiser *q, const void *x, size_t n, uint32_t first, void *codes, uint64_t *failed,
                         moments *m);

/* The inverse; a BLOCK of codes after n rounded up to BLOCK is readable. stream: write around the caches where that pays; a
 * fence by the caller makes such writes visible to others. */
typedef void dequantise_fn(const quantiser *q, const void *codes, size_t n, uint32_t first, void *x, bool stream);

/* Distances to neighbours in a chunk that lies in memory order. */
typedef struct strides {
    size_t left, up;
} strides;

/* residuals[k] = map(codes[k] - prediction) for k in [0, n). codes[-(left + up + BLOCK)] onwards must be readable (0 before the
 * chunk). identity: codes are known to be non-negative and the predictor is NONE, so the map is the identity; else zigzag. */
typedef void predict_fn(enum predictor predictor, bool identity, const void *codes, size_t n, strides s, void *residuals);
/* In place: residuals (already mapped back) at codes[0, n) become codes, given the codes before them. n is a multiple of BLOCK;
 * one more BLOCK after them may be read and overwritten. */
typedef void unpredict_fn(enum predictor predictor, void *codes, size_t n, strides s);

/* Where packed blocks go: 4-bit kinds, low half first, and the ends of the other parts, after which WRITE_SLACK bytes may be
 * overwritten. */
typedef struct block_writer {
    uint8_t *kinds, *values, *maps, *wides;
} block_writer;

/* Appends n_blocks blocks of residuals, the first of which is block first_block of the chunk. */
typedef void pack_fn(const void *residuals, size_t n_blocks, size_t first_block, block_writer *out);
/* Bits that pack would use, kinds included. */
typedef uint64_t pack_cost_fn(const void *residuals, size_t n_blocks);
/* Packed blocks that are being read: block_reader_begin in block.h. READ_SLACK bytes after the end of the values are readable,
 * and there is a map and a wide byte for each block that has one. Wide bytes come from before `wides`, backwards. */
typedef struct block_reader {
    const uint8_t *kinds, *values, *values_end, *maps, *wides;
} block_reader;

/* The inverse, with the map undone. False if the values run out or do not fit the code. */
typedef bool unpack_fn(size_t first_block, size_t n_blocks, bool identity, block_reader *in, void *codes);

/* A tile to quantise, predict and pack in one call, and where the results go. */
typedef struct tile_job {
    const quantiser *quantiser;
    const void *x;
    size_t n;       /* elements, at most QUANT_TILE */
    uint32_t first; /* the first one's index in the chunk, a multiple of BLOCK */
    void *codes;    /* as for quantise and predict */
    uint64_t *failed;
    moments *moments;
    enum predictor predictor;
    bool identity;
    strides strides;
    void *residuals;      /* room for a tile */
    block_writer *out;    /* moved on */
    const void *prefetch; /* a hint: n elements that are needed next, to be fetched into the caches meanwhile; or NULL */
} tile_job;

/* Does the same as quantise, predict and pack one after the other, for 16-bit codes. Returns the number of elements that
 * failed. */
typedef uint64_t encode_tile_fn(const tile_job *job);

/* The outlier section: steps to the failed ones of n elements, then these elements. Returns its end; WRITE_SLACK bytes more
 * may be overwritten. */
typedef uint8_t *write_outliers_fn(const void *x, size_t element_bytes, const uint64_t *failed, size_t n, uint8_t *out);

/* A packed tile, and where it goes. */
typedef struct packed_tile {
    const quantiser *quantiser;
    block_reader *in; /* moved on */
    size_t n;         /* elements, at most QUANT_TILE */
    uint32_t first;   /* the first one's index in the chunk, a multiple of BLOCK */
    enum predictor predictor;
    bool identity;
    strides strides;
    void *codes; /* as for unpredict; afterwards it has the codes that later tiles are predicted from */
    void *x;
    bool stream;          /* as for dequantise */
    const void *prefetch; /* as for tile_job */
} packed_tile;

/* Does the same as unpack, unpredict and dequantise one after the other, for 16-bit codes. False if the bytes run out. */
typedef bool decode_tile_fn(const packed_tile *tile);

/* ---- dense ---- */

#define LANES 64      /* interleaved entropy coder states */
#define N_OUTLOOKS 24 /* 6 levels of local gradient x 4 levels of predicted magnitude */
#define N_CONTEXTS 16 /* kinds of outlook that have their own frequencies */
#define N_SYMBOLS 16  /* ranges of residuals; up to 16 - PROB_BITS raw bits of the state tell which one of a range */
#define ESCAPE 15     /* the symbol of residuals from ESCAPE_LEAST on, which are stored separately */
#define ESCAPE_LEAST 168
#define PROB_BITS 10
#define PROB_SCALE (1u << PROB_BITS)
#define STATE_MIN (1u << 16)

/* Where cells (codes rearranged so that a lane is a channel or a band of lines) come from. See docs/format.md. */
typedef struct lanes {
    size_t n;        /* elements in the chunk */
    size_t channels; /* interleaved in memory */
    size_t columns;  /* positions in a line */
    size_t bands;    /* the chunk's lines are cut into this many bands of `rows` lines */
    size_t rows;
    size_t width;  /* lanes a position: bands x channels rounded up to LANES */
    size_t period; /* rows after which the row above counts as zero */
} lanes;

/* cells[column * width + lane] = codes of row `row`; 0 where there is no element. A BLOCK of codes after n is readable. */
typedef void gather_row_fn(const lanes *g, const void *codes, size_t row, void *cells);
typedef void scatter_row_fn(const lanes *g, const void *cells, size_t row, void *codes);

/* Symbols (raw bits << 8 | context << 4 | symbol) of one row of cells, given the row above; both have one position of padding
 * on either side, already filled. identity: residuals are not zigzagged (predictor NONE). Residuals of symbol ESCAPE are
 * appended to `escapes`, less ESCAPE_LEAST; after them there must be room for 32. Returns their end. */
typedef uint32_t *model_row_fn(enum predictor predictor, bool identity, const void *above, const void *row, size_t columns,
                               size_t width, uint16_t *symbols, uint32_t *escapes);

/* Frequencies in the forms that decoders look symbols up in. */
typedef struct symbol_tables {
    uint16_t start[N_CONTEXTS][N_SYMBOLS + 1]; /* the sum of the frequencies before a symbol */
    uint8_t symbol[N_CONTEXTS][PROB_SCALE];    /* context << 4 | symbol, by slot */
    uint32_t entry[N_CONTEXTS * N_SYMBOLS];    /* by context << 4 | symbol */
    /* Starts for a search in two steps, as start << 4 | symbol: of symbols 4, 8 and 12 by outlook, then of the three symbols
     * after that by bits: context (high half), 3 - symbol / 4, context (low half), two bits each. */
    uint16_t quarter[3][32], within[3][64];
} symbol_tables;

typedef struct entropy_reader {
    uint32_t state[LANES];
    const uint8_t *words, *end; /* 16-bit words; the 128 bytes from `end` on are readable */
    const symbol_tables *tables;
    bit_reader escapes;
    unsigned escape_order;
} entropy_reader;

/* The inverse of model_row and of the entropy coder: fills `row`. False if the words or escapes run out. */
typedef bool decode_row_fn(enum predictor predictor, bool identity, const void *above, void *row, size_t columns, size_t width,
                           entropy_reader *in);

/* What the entropy coder needs of a symbol in a context. */
static inline uint32_t coder_entry(uint32_t start, uint32_t frequency, uint32_t raw_bits)
{
    return raw_bits << 28 | start << 16 | frequency;
}

/* Codes n symbols (a multiple of LANES) backwards into the words that end at `end`; returns the first. `entries` are by context
 * and symbol. Needs room for n words and 64 bytes before them. */
typedef uint8_t *entropy_encode_fn(const uint16_t *symbols, size_t n, const uint32_t entries[N_CONTEXTS * N_SYMBOLS],
                                   uint8_t *end, uint32_t state[LANES]);

typedef struct codec_kernels {
    comet_isa isa;
    quantise_fn *quantise[2][N_DTYPES]; /* by code width and dtype */
    dequantise_fn *dequantise[2][N_DTYPES];
    predict_fn *predict[N_CODE_WIDTHS];
    unpredict_fn *unpredict[N_CODE_WIDTHS];
    pack_fn *pack[N_CODE_WIDTHS];
    pack_cost_fn *pack_cost[N_CODE_WIDTHS];
    unpack_fn *unpack[N_CODE_WIDTHS];
    encode_tile_fn *encode_tile[N_DTYPES];
    decode_tile_fn *decode_tile[N_DTYPES];
    write_outliers_fn *write_outliers;
    linear_sums_fn *linear_sums[2];
    linear_subtract_fn *linear_subtract[2];
    linear_add_fn *linear_add[2];
    gather_row_fn *gather_row[2];
    scatter_row_fn *scatter_row[2];
    model_row_fn *model_row[2];
    decode_row_fn *decode_row[2];
    entropy_encode_fn *entropy_encode;
} codec_kernels;

/* The families; which of them a build holds, COMET_HAVE_AVX2, _AVX512 and _NEON say. */
extern const codec_kernels codec_kernels_reference, codec_kernels_avx2, codec_kernels_avx512, codec_kernels_neon;

/* The family for new contexts: comet_isa_active's, or the best below it that this build holds. */
const codec_kernels *codec_kernels_pick(void);

#endif
