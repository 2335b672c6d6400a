/*
 * The Comet codec: tensors compressed with a strict error bound.
 *
 *   describe     comet_tensor_init, comet_tensor_elements, comet_tensor_bytes, comet_params_init
 *   one shot     comet_compress_bound, comet_compress, comet_decompress
 *   contexts     comet_encoder_*, comet_decoder_*: the same without per-call allocation, with threads
 *   look inside  comet_frame_describe, comet_decoder_run_chunks
 *   predict      comet_encoder_estimate
 *   check        comet_compare
 *
 * The promise: every element x comes back as x' with |x - x'| <= eb in real arithmetic, or bit for bit (NaN, Inf and whatever
 * the quantiser cannot hold). Zeros come back as zeros unless dither is on. A frame's bytes depend on the tensor and the
 * parameters only, never on the thread count, the instruction set or the compiler. docs/format.md describes them.
 *
 * Threads: functions without a context may be called from any thread; a context serves one call at a time.
 */
#ifndef COMET_CODEC_H
#define COMET_CODEC_H

#include <stdbool.h>

#include "comet/base.h"

#ifdef __cplusplus
extern "C" {
#endif

#define COMET_MAX_DIMS 8

typedef enum comet_dtype {
    COMET_DTYPE_F32 = 0,
    COMET_DTYPE_F16 = 1, /* IEEE binary16 */
    COMET_DTYPE_BF16 = 2,
    COMET_DTYPE_F64 = 3,
} comet_dtype;

/* Where elements lie in memory. Dims are always given in the order (..., C, H, W), whatever the layout. */
typedef enum comet_layout {
    COMET_LAYOUT_PLANAR = 0,        /* ... C H W: row-major as given (NCHW) */
    COMET_LAYOUT_CHANNELS_LAST = 1, /* ... H W C (NHWC); needs at least 3 dims */
    COMET_LAYOUT_BLOCKED8 = 2,      /* ... C/8 H W 8c (nChw8c), C rounded up to a multiple of 8 in memory; at least 3 dims */
    COMET_LAYOUT_BLOCKED16 = 3,     /* ... C/16 H W 16c (nChw16c), C rounded up to a multiple of 16; at least 3 dims */
} comet_layout;

typedef enum comet_bound_mode {
    COMET_BOUND_ABSOLUTE = 0, /* eb = bound; bound 0 is lossless */
    COMET_BOUND_RANGE = 1,    /* eb = bound * (max - min) over the finite elements */
    COMET_BOUND_STDDEV = 2,   /* eb = bound * standard deviation of the finite elements */
    COMET_BOUND_LOSSLESS = 3, /* bit for bit; bound is ignored */
    COMET_BOUND_RATIO = 4,    /* the smallest eb found whose frame is at least bound times smaller than the tensor */
} comet_bound_mode;

typedef enum comet_level {
    COMET_LEVEL_FAST = 0,  /* packed bits, at about the speed of memcpy */
    COMET_LEVEL_DENSE = 1, /* context-conditioned entropy coding */
    COMET_LEVEL_AUTO = 2,  /* one of the two for each chunk, see min_ratio */
} comet_level;

/* What a frame is made for. */
typedef enum comet_profile {
    COMET_PROFILE_HOST = 0,   /* large chunks: the smallest frames, a chunk for a thread of a CPU */
    COMET_PROFILE_DEVICE = 1, /* small pieces, each for a work-group of a GPU; any decoder reads them. Not with level AUTO */
} comet_profile;

/* Shape, type and layout of a tensor. Fill with comet_tensor_init; set layout afterwards if it is not planar. */
typedef struct comet_tensor {
    size_t size;
    comet_dtype dtype;
    comet_layout layout;
    uint32_t n_dims;               /* 1 to COMET_MAX_DIMS */
    uint64_t dims[COMET_MAX_DIMS]; /* slowest first; 0 makes an empty tensor */
} comet_tensor;

/* Fills *tensor: planar, with the given dims. Returns COMET_ERROR_ARGUMENT for a bad dtype, n_dims or null pointer,
 * COMET_ERROR_OVERFLOW if the byte count does not fit. */
COMET_API comet_status comet_tensor_init(comet_tensor *tensor, comet_dtype dtype, uint32_t n_dims, const uint64_t *dims);

/* Elements in memory, padding channels of blocked layouts included. */
COMET_API comet_status comet_tensor_elements(const comet_tensor *tensor, uint64_t *n_elements);

/* Bytes in memory: elements times the size of one. */
COMET_API comet_status comet_tensor_bytes(const comet_tensor *tensor, size_t *bytes);

/* Bytes of one element; 0 for an unknown dtype. */
COMET_API size_t comet_dtype_bytes(comet_dtype dtype);

/* The value of element `index`, in memory order, of an array; exact, whatever the dtype. Any thread. */
COMET_API double comet_element_value(comet_dtype dtype, const void *array, uint64_t index);

/* Channels that lie side by side in memory: 8 or 16 for blocked layouts, else 1. Any thread. */
COMET_API uint64_t comet_layout_block(comet_layout layout);

/* How to compress. Fill with comet_params_init: absolute bound 0 (lossless), level fast, no options. */
typedef struct comet_params {
    size_t size;
    comet_bound_mode bound_mode;
    double bound; /* finite, >= 0 (RATIO: >= 1) */
    comet_level level;
    double min_ratio; /* AUTO: a chunk is coded fast where fast reaches this ratio, else dense where that is smaller. 0: a chunk
                         is coded dense where a sample predicts that this saves a fifth or more; with BOUND_RATIO, 0
                         means the target ratio. */
    bool keep_support; /* x' is zero exactly where x is zero, and has the sign of x elsewhere */
    bool dither;       /* subtractive dither: error uniform and independent of x; zeros do not stay zeros. Not together with
                         keep_support or a lossless bound. */
    uint64_t dither_seed;
    bool content_checksum; /* a checksum of every chunk, checked by the decoder */
    comet_profile profile;
    uint64_t chunk_elements; /* 0: chosen by profile, level and shape; else 64 to 2^24, for a device to 8192 or, dense, 2^18 */
} comet_params;

COMET_API void comet_params_init(comet_params *params);

/* The result of one compression. Figures of the tensor describe its original values. */
typedef struct comet_stats {
    size_t size;
    double eb; /* the absolute bound in force; 0 for lossless */
    uint64_t bytes_in, bytes_out;
    double ratio; /* bytes_in / bytes_out */
    uint64_t n_elements;
    uint64_t n_nonzero;    /* elements that are not +-0 (non-finite ones included) */
    uint64_t n_nonfinite;  /* NaN and Inf */
    double sum_of_squares; /* of the finite elements */
    double min, max;       /* of the finite elements; both 0 if there is none */
    uint64_t n_outliers;   /* elements stored bit for bit beside the quantised ones */
    uint64_t n_chunks, n_chunks_raw, n_chunks_fast, n_chunks_dense;
    double seconds_bound;    /* resolving a relative bound or searching for a ratio */
    double seconds_quantise; /* this and the next two are sums over threads; level fast quantises while it codes */
    double seconds_predict;
    double seconds_code;
    double seconds_total; /* by the wall clock */
} comet_stats;

COMET_API void comet_stats_init(comet_stats *stats);

/* Sets *bytes to a length that no frame of this tensor with these parameters exceeds. */
COMET_API comet_status comet_compress_bound(const comet_tensor *tensor, const comet_params *params, size_t *bytes);

/* Compresses src into dst with a context of its own and one thread. src must be aligned to its element size. On success
 * *frame_bytes is the frame's length; on failure it is unchanged and the contents of dst are undefined. COMET_ERROR_CAPACITY if
 * the frame does not fit dst_capacity bytes. */
COMET_API comet_status comet_compress(const comet_tensor *tensor, const comet_params *params, const void *src, void *dst,
                                      size_t dst_capacity, size_t *frame_bytes);

/* Decompresses a whole frame into dst, which has room for dst_capacity bytes and is aligned to the element size. On success
 * *bytes is what was written; on failure part of dst may have been overwritten. Truncated frames and frames with impossible
 * contents give COMET_ERROR_CORRUPT; damage that leaves a valid frame is noticed only where the frame has content checksums. */
COMET_API comet_status comet_decompress(const void *frame, size_t frame_bytes, void *dst, size_t dst_capacity, size_t *bytes);

/* ---- reusable contexts ---- */

typedef struct comet_encoder comet_encoder;
typedef struct comet_decoder comet_decoder;

/* n_threads: 0 means one per core. hooks may be NULL. With a parallel hook, n_threads is the number of tasks handed to it. */
COMET_API comet_status comet_encoder_create(comet_encoder **encoder, const comet_hooks *hooks, size_t n_threads);
COMET_API void comet_encoder_destroy(comet_encoder *encoder);

/* Does the same as comet_compress. Allocates only while the context's buffers grow: a second call with the same tensor
 * description and parameters allocates nothing. stats may be NULL. */
COMET_API comet_status comet_encoder_run(comet_encoder *encoder, const comet_tensor *tensor, const comet_params *params,
                                         const void *src, void *dst, size_t dst_capacity, size_t *frame_bytes,
                                         comet_stats *stats);

/* Predicts, from a sample of the tensor, the frame's length and the absolute bound that comet_encoder_run would use; either
 * pointer may be NULL. Relative bounds still read the whole tensor once. */
COMET_API comet_status comet_encoder_estimate(comet_encoder *encoder, const comet_tensor *tensor, const comet_params *params,
                                              const void *src, uint64_t *frame_bytes, double *eb);

COMET_API comet_status comet_decoder_create(comet_decoder **decoder, const comet_hooks *hooks, size_t n_threads);
COMET_API void comet_decoder_destroy(comet_decoder *decoder);

/* Does the same as comet_decompress, with the context's threads and buffers. */
COMET_API comet_status comet_decoder_run(comet_decoder *decoder, const void *frame, size_t frame_bytes, void *dst,
                                         size_t dst_capacity, size_t *bytes);

/* Decompresses n_chunks chunks from first_chunk on, into dst: elements [first_chunk * chunk_elements, ...) of the tensor in
 * memory order. Chunk numbers out of range give COMET_ERROR_ARGUMENT. */
COMET_API comet_status comet_decoder_run_chunks(comet_decoder *decoder, const void *frame, size_t frame_bytes,
                                                uint64_t first_chunk, uint64_t n_chunks, void *dst, size_t dst_capacity,
                                                size_t *bytes);

/* ---- looking at frames ---- */

typedef struct comet_frame_info {
    size_t size;
    uint32_t version; /* of the format */
    comet_tensor tensor;
    double eb; /* absolute; 0 for lossless */
    bool lossless, keep_support, dither, content_checksum;
    uint64_t dither_seed;
    comet_level level; /* the one that was asked for */
    comet_profile profile;
    uint64_t n_elements;
    uint64_t tensor_bytes;
    uint64_t frame_bytes;
    uint64_t chunk_elements; /* the last chunk may hold fewer */
    uint64_t n_chunks;
    uint64_t header_bytes; /* header and index, before the first chunk */
} comet_frame_info;

COMET_API void comet_frame_info_init(comet_frame_info *info);

/* Reads the header of a frame, of which the first `bytes` bytes are given and which may come from an untrusted source; the
 * chunks may be missing. Checks the header's checksum and every field's range. Allocates nothing. */
COMET_API comet_status comet_frame_describe(const void *frame, size_t bytes, comet_frame_info *info);

/* ---- checking ---- */

/* How far a decoded tensor is from its original. */
typedef struct comet_comparison {
    size_t size;
    uint64_t n_elements;
    double max_error; /* over pairs of finite elements */
    double rmse;
    double psnr;              /* dB, of the original's range; infinite if rmse is 0 */
    uint64_t n_violations;    /* |x - x'| > eb, or a non-finite x that did not come back bit for bit; eb 0: any bit differs */
    uint64_t first_violation; /* index in memory order; n_elements if there is none */
    uint64_t n_zeros;         /* zeros in the original */
    uint64_t n_zeros_kept;    /* those of them that are zeros in the decoded tensor */
    uint64_t n_support_lost;  /* non-zeros that became zero */
} comet_comparison;

COMET_API void comet_comparison_init(comet_comparison *comparison);

/* Compares n_elements elements in exact arithmetic (differences of f64 are rounded in the checking direction). */
COMET_API comet_status comet_compare(comet_dtype dtype, uint64_t n_elements, const void *original, const void *decoded,
                                     double eb, comet_comparison *comparison);

#ifdef __cplusplus
}
#endif

#endif
