/*
 * What the Python packages call through ctypes: the codec, a pool of compressed blocks and the adaptive bound, in plain C
 * types.
 *
 *   session   comet_native_create, comet_native_destroy: threads, contexts and a pool of blocks
 *   blocks    comet_native_encode, comet_native_pack_*, comet_native_decode, comet_native_free: tensors kept by the library
 *   relu      comet_native_pack_positive, comet_native_compute: results of ReLU as signs, and computed again from other arrays
 *   frames    comet_native_compress, comet_native_decompress, comet_native_describe, comet_native_compare: whole frames
 *   adaptive  comet_native_adapt_*: bounds from what errors do to gradients, src/adapt/adapt.h
 *
 * Every fallible function returns a comet_status; comet_native_last_error has the sentence of the calling thread's last
 * failure. Results are written on success only. Structs that may grow begin with their size, which the caller sets to sizeof.
 *
 * Threads: a session may be used from several threads at once. An adaptive bound serves one call at a time.
 */
#ifndef COMET_NATIVE_H
#define COMET_NATIVE_H

#include "comet/codec.h"

COMET_API const char *comet_native_version(void);
COMET_API const char *comet_native_last_error(void);

/* ---- sessions ---- */

typedef struct comet_native_session comet_native_session;

/* Whose threads work for a session. */
enum {
    COMET_NATIVE_OWN_THREADS = 0,
    COMET_NATIVE_TORCH = 1, /* entry: torch_parallel_for of libtorch_cpu, version 2.10 or later */
    COMET_NATIVE_GOMP = 2,  /* entry: GOMP_parallel of libgomp */
};

/* n_threads: 0 means one per core. entry must be null for our own threads. */
COMET_API int comet_native_create(comet_native_session **out, uint32_t n_threads, int how, void *entry);
/* Frees all blocks of the session, too. In a process forked from the session's own it does nothing, as the threads are absent.
 */
COMET_API void comet_native_destroy(comet_native_session *session);

/* Bytes of the pool of blocks, and of the buffer that frames are encoded into. */
typedef struct comet_native_figures {
    size_t size;
    uint64_t bytes_used, bytes_reserved; /* used: blocks with their headers; reserved: mapped for blocks */
    uint64_t peak_used, peak_reserved;
    uint64_t n_blocks;
    uint64_t bytes_scratch; /* of the buffer, what may be resident at present */
} comet_native_figures;

COMET_API int comet_native_memory(comet_native_session *session, comet_native_figures *figures);

/* ---- jobs: how to encode a tensor, and what came of it ---- */

typedef struct comet_native_job {
    size_t size;
    uint32_t dtype, layout; /* comet_dtype, comet_layout */
    uint32_t n_dims;
    uint32_t bound_mode; /* comet_bound_mode */
    uint64_t dims[COMET_MAX_DIMS];
    double bound;
    uint32_t level; /* comet_level */
    uint32_t keep_support, dither, checksum;
    uint64_t dither_seed;
    double min_ratio;        /* as in comet_params */
    uint64_t chunk_elements; /* 0: chosen by level and shape */
    uint64_t profile;        /* comet_profile */
    /* Written by a successful encode; figures describe the original values. */
    double eb;
    uint64_t bytes_raw, bytes_coded;
    uint64_t bytes_block; /* what the block takes in the pool; 0 of a frame in the caller's memory */
    uint64_t n_nonzero, n_nonfinite;
    double sum_of_squares, min, max;
    double seconds; /* by the wall clock */
} comet_native_job;

/* Bytes of the tensor in memory, and a length that no frame of it exceeds. Either pointer may be null. */
COMET_API int comet_native_sizes(const comet_native_job *job, size_t *tensor_bytes, size_t *frame_bytes);

/* ---- blocks ---- */

typedef struct comet_native_block comet_native_block;

/* Encodes a tensor into a block of the session's pool. src has the bytes that comet_native_sizes says. */
COMET_API int comet_native_encode(comet_native_session *session, comet_native_job *job, const void *src,
                                  comet_native_block **out);

/* Stores an array of at most two distinct bit patterns exactly, one bit an element. Elements have 1, 2, 4 or 8 bytes. With more
 * patterns *out becomes null, and the call succeeds. */
COMET_API int comet_native_pack_two(comet_native_session *session, const void *src, uint32_t element_bytes, uint64_t n_elements,
                                    comet_native_block **out);

/* Stores integers exactly, as offsets from the least in as few bits as the range needs. Where that saves nothing *out becomes
 * null, and the call succeeds. */
COMET_API int comet_native_pack_integers(comet_native_session *session, const void *src, uint32_t element_bytes, int is_signed,
                                         uint64_t n_elements, comet_native_block **out);

/* Indices of 2-D max pooling, [n_outer][n_rows][n_columns][n_inner]: each numbers a place of a plane that is `width` wide,
 * within the window of its row and column. kernel, stride, padding and dilation are those of rows, then of columns. */
typedef struct comet_native_windows {
    size_t size;
    uint64_t n_outer, n_rows, n_columns, n_inner, width;
    uint32_t kernel[2], stride[2], padding[2], dilation[2];
} comet_native_windows;

/* Stores indices exactly, in as few bits as a window has places for: 4 for 3 x 3. Where one is outside its window, or a window
 * has more than 256 places, *out becomes null, and the call succeeds. */
COMET_API int comet_native_pack_windows(comet_native_session *session, const comet_native_windows *windows,
                                        const int64_t *indices, comet_native_block **out);

/* ---- results of ReLU: signs, and values that follow from other arrays ---- */

/* Stores where an array of f32, f16 or bf16 is not <= 0, one bit an element, as a block of bytes 0 and 1. A NaN counts as
 * positive, as it does for PyTorch's gradient. */
COMET_API int comet_native_pack_positive(comet_native_session *session, uint32_t dtype, const void *src, uint64_t n_elements,
                                         comet_native_block **out, uint64_t *n_positive);

/* Arrays [n_outer][n_channels][n_inner], and a factor and a summand for each channel. */
typedef struct comet_native_affine {
    size_t size;
    uint32_t dtype; /* comet_dtype: f32, f16 or bf16 */
    uint64_t n_outer, n_channels, n_inner;
    const float *scale, *shift;
} comet_native_affine;

/* y = scale x + shift + add; add may be null, and y may be x or add. With signs, a block of comet_native_pack_positive, y is 0
 * where that array was not positive, and no less than the smallest normal number elsewhere. */
COMET_API int comet_native_compute(comet_native_session *session, const comet_native_affine *affine,
                                   const comet_native_block *signs, const void *x, const void *add, void *y);

/* Decodes a block of any kind; dst_bytes must be what comet_native_raw_bytes says, and dst aligned to the element. */
COMET_API int comet_native_decode(comet_native_session *session, const comet_native_block *block, void *dst, size_t dst_bytes);

/* Gives a block back; null is allowed. */
COMET_API void comet_native_free(comet_native_session *session, comet_native_block *block);

/* Bytes of the array that the block holds, and bytes that the block takes in the pool. */
COMET_API uint64_t comet_native_raw_bytes(const comet_native_block *block);
COMET_API uint64_t comet_native_block_bytes(const comet_native_block *block);

/* ---- frames ---- */

COMET_API int comet_native_compress(comet_native_session *session, comet_native_job *job, const void *src, void *dst,
                                    size_t capacity, size_t *frame_bytes);
COMET_API int comet_native_decompress(comet_native_session *session, const void *frame, size_t frame_bytes, void *dst,
                                      size_t capacity, size_t *bytes);

typedef struct comet_native_frame {
    size_t size;
    uint32_t version;
    uint32_t dtype, layout, n_dims;
    uint64_t dims[COMET_MAX_DIMS];
    double eb;
    uint32_t lossless, keep_support, dither, checksum;
    uint64_t dither_seed;
    uint64_t level, profile;
    uint64_t n_elements, tensor_bytes, frame_bytes, chunk_elements, n_chunks, header_bytes;
} comet_native_frame;

COMET_API int comet_native_describe(const void *frame, size_t bytes, comet_native_frame *info);

typedef struct comet_native_comparison {
    size_t size;
    uint64_t n_elements;
    double max_error, rmse, psnr;
    uint64_t n_violations, first_violation, n_zeros, n_zeros_kept, n_support_lost;
} comet_native_comparison;

COMET_API int comet_native_compare(uint32_t dtype, uint64_t n_elements, const void *original, const void *decoded, double eb,
                                   comet_native_comparison *comparison);

/* ---- the adaptive bound: each function as the one of adapt.h, with checked numbers and copied names ---- */

typedef struct comet_native_adapt comet_native_adapt;

/* rule: 0 noise, 1 sigma. */
COMET_API int comet_native_adapt_create(comet_native_adapt **out, int rule, double share, uint32_t window, int best_fit);
COMET_API void comet_native_adapt_destroy(comet_native_adapt *a);
COMET_API int comet_native_adapt_add_tensor(comet_native_adapt *a, const char *name, uint64_t n_elements, uint32_t *tensor);
COMET_API int comet_native_adapt_add_parameter(comet_native_adapt *a, uint32_t tensor, const char *name, uint64_t n_weights,
                                               uint32_t *consumer);
COMET_API int comet_native_adapt_add_pass(comet_native_adapt *a, uint32_t tensor, const char *name, uint32_t *consumer);
COMET_API int comet_native_adapt_due(const comet_native_adapt *a, uint64_t step);
COMET_API int comet_native_adapt_complete(const comet_native_adapt *a, uint64_t step);
COMET_API int comet_native_adapt_observe(comet_native_adapt *a, uint32_t consumer, double gain, double gradient_noise,
                                         double mean_momentum, double measured, double eb);
COMET_API void comet_native_adapt_assess(comet_native_adapt *a, uint64_t step);
COMET_API void comet_native_adapt_retreat(comet_native_adapt *a, uint64_t step);
COMET_API void comet_native_adapt_restart(comet_native_adapt *a, uint64_t step);
COMET_API uint64_t comet_native_adapt_n_assessed(const comet_native_adapt *a);
/* NaN for a number that is no tensor's or consumer's. */
COMET_API double comet_native_adapt_eb(const comet_native_adapt *a, uint32_t tensor);
COMET_API double comet_native_adapt_pass_left(const comet_native_adapt *a, uint32_t consumer);

typedef struct comet_native_consumer {
    size_t size;
    double sigma_target, sigma_predicted, sigma_measured, share, sigma_ratio; /* NaN where unknown */
    uint32_t limits, at_limit, is_parameter, tensor;
} comet_native_consumer;

COMET_API int comet_native_adapt_consumer(const comet_native_adapt *a, uint32_t consumer, comet_native_consumer *state);
COMET_API uint32_t comet_native_adapt_n_consumers(const comet_native_adapt *a);
COMET_API void comet_native_adapt_sigma_ratios(const comet_native_adapt *a, double *least, double *most);
/* The variance of a mini-batch gradient, adapt_noise of adapt.h. */
COMET_API double comet_native_adapt_noise(double squared_distance, double beta, uint64_t n_steps);
COMET_API uint64_t comet_native_adapt_n_numbers(const comet_native_adapt *a);
COMET_API int comet_native_adapt_export(const comet_native_adapt *a, double *numbers, uint64_t n);
COMET_API int comet_native_adapt_import(comet_native_adapt *a, const double *numbers, uint64_t n);

#endif
