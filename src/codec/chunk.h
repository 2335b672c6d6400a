/*
 * One chunk: elements in, payload out, and back. Everything here works in a workspace reserved beforehand and allocates
 * nothing, so that it can run on any thread.
 *
 * Payload: mode, code width, predictor and flags, a byte each. In a raw chunk the elements follow. In others follow the count
 * and the bytes of the outliers (u32 each), the planes of a linear fit if there is one, the codes as the mode codes them, and
 * the outliers.
 */
#ifndef COMET_CODEC_CHUNK_H
#define COMET_CODEC_CHUNK_H

#include "base/memory.h"
#include "codec/frame.h"
#include "codec/quantiser.h"

#define CHUNK_HEADER_BYTES ((size_t)4)
#define CODED_HEADER_BYTES ((size_t)12)
#define READ_SLACK ((size_t)192) /* bytes after a payload that decoding kernels may read */

/* What all chunks of a frame have in common. */
typedef struct chunk_plan {
    const codec_kernels *kernels;
    comet_dtype dtype;
    geometry shape;
    uint64_t chunk_elements;
    bool lossless;
    quantiser quantiser; /* its key is set for each chunk */
    uint64_t seed;
    comet_level level;
    comet_profile profile;
    double min_ratio; /* of level AUTO; 0 for its default */
    bool waves;       /* the encoder may choose lanes in a wave, which take more memory */
} chunk_plan;

/* Buffers of one thread. */
typedef struct workspace {
    comet_buffer codes;     /* with zeros in front, see codes_of */
    comet_buffer failed;    /* a bit an element */
    comet_buffer residuals; /* a tile */
    comet_buffer cells;     /* two rows, or a wave */
    comet_buffer aside;     /* maps and wide bytes of level fast: blocks.h */
    comet_buffer symbols;
    comet_buffer words;   /* of the entropy coder, then the escapes */
    comet_buffer table;   /* for decoding symbols */
    comet_buffer out;     /* the encoder's payload, or the decoder's copy of one */
    comet_buffer changed; /* the store's: a tile with its plateaus replaced, and their record */
    const void *prefetch; /* as many elements as the chunk has, to be fetched into the caches while it is coded; or NULL */
} workspace;

typedef struct chunk_stats {
    double min, max; /* of finite elements; +Inf and -Inf as long as there is none */
    uint64_t n_nonzero, n_nonfinite, n_outliers;
    uint64_t n_chunks[N_CHUNK_MODES];
    double seconds_quantise, seconds_predict, seconds_code;
} chunk_stats;

/* An encoded chunk. */
typedef struct chunk_payload {
    const uint8_t *data; /* NULL: none */
    size_t bytes;
} chunk_payload;

/* What a decoder's workspace must be able to hold. */
typedef struct chunk_needs {
    bool codes, dense, waves, parts;
    enum code_width width;
    size_t copy_bytes; /* payloads that end too near the frame's end are copied */
} chunk_needs;

comet_status workspace_reserve_encoder(workspace *ws, const comet_allocator *allocator, const chunk_plan *plan);
comet_status workspace_reserve_decoder(workspace *ws, const comet_allocator *allocator, const chunk_plan *plan,
                                       const chunk_needs *needs);
void workspace_free(workspace *ws, const comet_allocator *allocator);

/* The first of the chunk's codes; a line, a position and a block of zeros lie before it. */
void *codes_of(const workspace *ws, const chunk_plan *plan, enum code_width width);

/* Tiles of a chunk can use the same place one after another, which then stays in the first-level cache, if the codes that lie
 * between a tile and its neighbours above are carried over. Returns the number of codes to carry, or 0 where there are so many
 * that it does not pay. */
size_t codes_carried(const chunk_plan *plan);

/* Returns a length that no payload of n elements exceeds. */
static inline size_t chunk_bound(size_t n, size_t element)
{
    return CHUNK_HEADER_BYTES + n * element;
}

void chunk_stats_init(chunk_stats *stats);

/* Encodes chunk number `index`, n elements at x; the payload lies in ws->out. Adds to *stats; *sum_of_squares is that of this
 * chunk, for the caller to add up in the order of chunks. */
chunk_payload chunk_encode(const chunk_plan *plan, workspace *ws, uint64_t index, const void *x, size_t n, chunk_stats *stats,
                           double *sum_of_squares);

/* Adds to *needs the buffers that decoding this payload takes. */
void chunk_examine(const uint8_t *payload, size_t bytes, chunk_needs *needs);

/* Decodes a payload; READ_SLACK bytes after it must be readable. */
comet_status chunk_decode(const chunk_plan *plan, workspace *ws, uint64_t index, const uint8_t *payload, size_t bytes, void *x,
                          size_t n, bool stream);

#endif
