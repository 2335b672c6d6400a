/*
 * The activation store: what forward puts and backward takes.
 *
 * A slot stands for one tensor of a step. It is declared once with its layer, class and exactness, put in forward, taken in
 * backward as often as it is read, then dropped. How a slot is held is its policy: raw where it lies, or as independently coded
 * tiles in the store's own memory, so that the owner may reuse the raw buffer at once. Tiles are whole chunks of the codec in
 * memory order; producers and consumers that work tile by tile in their own threads never need a whole raw copy.
 *
 *   create     comet_store_create, comet_store_declare, comet_store_set_policy
 *   whole      comet_store_put, comet_store_take, comet_store_drop, comet_store_clear
 *   by tiles   comet_store_tiling, comet_store_put_begin, _put_tile, _put_end, comet_store_take_tile,
 *              comet_store_take_tile_any, comet_store_prefetch
 *   account    comet_store_describe, comet_store_describe_slot
 *
 * Lossy copies are for backward alone. The bytes held depend on the data and the policy only, never on threads. A store is used
 * by one thread at a time, except for the tile calls, which different workers may make at once.
 */
#ifndef COMET_STORE_H
#define COMET_STORE_H

#include <stdbool.h>

#include "comet/codec.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a tensor is to its layer. */
typedef enum comet_slot_class {
    COMET_SLOT_CONV_INPUT = 0, /* convolution and linear inputs */
    COMET_SLOT_NORM_INPUT,
    COMET_SLOT_ACTIVATION, /* outputs or inputs that an activation, a product or LRN needs again */
    COMET_SLOT_INDEX,      /* pooling: which element was the largest */
    COMET_SLOT_OTHER,      /* workspaces of a library: bytes of no known meaning */
    COMET_N_SLOT_CLASSES
} comet_slot_class;

/* How exactly it must come back. */
typedef enum comet_exactness {
    COMET_EXACT = 0, /* bit for bit */
    COMET_SUPPORT,   /* values within the bound; zeros and signs are those of the original */
    COMET_LOSSY,     /* values within the bound; zeros stay zeros */
} comet_exactness;

typedef enum comet_policy {
    COMET_POLICY_RAW = 0,  /* stays where it is; the owner keeps that memory until the drop */
    COMET_POLICY_LOSSLESS, /* coded, bit for bit */
    COMET_POLICY_BOUNDED,  /* coded with an absolute bound; not for COMET_EXACT */
    COMET_POLICY_PACKED,   /* small integers in few bits: for slots with index_bits */
} comet_policy;

typedef uint32_t comet_slot;
#define COMET_NO_SLOT UINT32_MAX

typedef struct comet_slot_spec {
    size_t size;
    const char *layer; /* kept, not copied */
    comet_slot_class class_;
    comet_exactness exactness;
    comet_tensor tensor; /* f32, f16 or bf16; for indices and workspaces n_dims 1 and the bytes rounded up to whole elements */
    uint64_t bytes;      /* of the raw tensor; for floats of any size those of `tensor` */
    uint32_t index_bits; /* 1 to 7: the bytes hold integers below 2^index_bits; 0: they do not */
    uint64_t floor,
        ceiling; /* lent memory that it may use begins and ends here, see comet_store_lend; ceiling 0: it uses none */
} comet_slot_spec;

COMET_API void comet_slot_spec_init(comet_slot_spec *spec);

/* How a slot is held from its next put on. */
typedef struct comet_slot_policy {
    size_t size;
    comet_policy policy;
    double eb; /* BOUNDED: absolute; 0 or too small for the type means lossless. May be infinite: signs alone are kept */
    bool of_deviation; /* eb is a multiple of the tensor's standard deviation, found in one more pass at comet_store_put */
    comet_level level; /* FAST or DENSE */
    bool dither;       /* not for SUPPORT */
    uint64_t dither_seed;
    bool spill; /* coded tiles go to the spill file instead of memory */
} comet_slot_policy;

COMET_API void comet_slot_policy_init(comet_slot_policy *policy);

typedef struct comet_store comet_store;

typedef struct comet_store_params {
    size_t size;
    const comet_hooks *hooks; /* NULL: our own */
    size_t n_workers;         /* tasks at once; 0: one per core */
    bool checksums;           /* of every tile, checked when it is taken: COMET_ERROR_CORRUPT instead of a wrong gradient */
    const char *spill_folder; /* for slots that spill; NULL: none may. The file has no name once it is open */
} comet_store_params;

COMET_API void comet_store_params_init(comet_store_params *params);
COMET_API comet_status comet_store_create(comet_store **store, const comet_store_params *params);
COMET_API void comet_store_destroy(comet_store *store);

/* Lends memory of the caller to the store, which uses it before its own: from its first byte on, for each slot between its
 * floor and its ceiling. It must be readable to its end and outlive the store. To be called between steps only. Floor and
 * ceiling are set in the spec of a slot or by comet_store_set_place. */
COMET_API comet_status comet_store_lend(comet_store *store, void *memory, uint64_t bytes);
COMET_API comet_status comet_store_set_place(comet_store *store, comet_slot slot, uint64_t floor, uint64_t ceiling);

/* A new slot, held raw. */
COMET_API comet_status comet_store_declare(comet_store *store, const comet_slot_spec *spec, comet_slot *slot);
COMET_API uint32_t comet_store_n_slots(const comet_store *store);
/* NULL where there is no such slot. */
COMET_API const comet_slot_spec *comet_store_slot_spec(const comet_store *store, comet_slot slot);
COMET_API const comet_slot_policy *comet_store_slot_policy(const comet_store *store, comet_slot slot);
/* Must not be called while the slot holds a tensor. COMET_ERROR_ARGUMENT where policy and exactness do not go together. */
COMET_API comet_status comet_store_set_policy(comet_store *store, comet_slot slot, const comet_slot_policy *policy);

/* Call when forward is done with `data`. Putting twice without a drop, or taking what was not put, is COMET_ERROR_ARGUMENT. */
COMET_API comet_status comet_store_put(comet_store *store, comet_slot slot, void *data);
/* Sets *data to the tensor, where it was put (RAW) or decoded into `room`, which has space for its raw bytes. May be called any
 * number of times. */
COMET_API comet_status comet_store_take(comet_store *store, comet_slot slot, void *room, void **data);
COMET_API comet_status comet_store_drop(comet_store *store, comet_slot slot);
/* Drops all that is held. */
COMET_API void comet_store_clear(comet_store *store);

/* ---- by tiles; the elements of tile k are [k * tile_elements, ...) in memory order ---- */

/* Sets the number of tiles of a slot, and of elements in each tile but the last. COMET_ERROR_ARGUMENT if there is no such
 * slot. */
COMET_API comet_status comet_store_tiling(const comet_store *store, comet_slot slot, uint64_t *n_tiles,
                                          uint64_t *tile_elements);
/* The same for a slot that `spec` describes, declared or not. COMET_ERROR_ARGUMENT where it could not be declared. */
COMET_API comet_status comet_store_spec_tiling(const comet_slot_spec *spec, uint64_t *n_tiles, uint64_t *tile_elements);

/* Between begin and end all tiles are put, in any order, each by one worker in [0, n_workers). The policy must be LOSSLESS, or
 * BOUNDED without of_deviation. A failed put_tile is reported by put_end. */
COMET_API comet_status comet_store_put_begin(comet_store *store, comet_slot slot);
COMET_API comet_status comet_store_put_tile(comet_store *store, comet_slot slot, uint64_t tile, size_t worker, const void *x);
COMET_API comet_status comet_store_put_end(comet_store *store, comet_slot slot);

/* Sets *x to tile k, where it lies (RAW) or decoded into `room`, which has space for tile_elements floats. */
COMET_API comet_status comet_store_take_tile(comet_store *store, comet_slot slot, uint64_t tile, size_t worker, float *room,
                                             const float **x);
/* The same for slots of any element type; comet_store_take_tile refuses those that are not f32. */
COMET_API comet_status comet_store_take_tile_any(comet_store *store, comet_slot slot, uint64_t tile, size_t worker, void *room,
                                                 const void **x);
/* A hint, which changes no result: after the next tile that it puts or takes, `worker` will access `memory`. While that tile is
 * coded, as many elements as it has are fetched from there into the caches, at level fast with AVX-512. They are not read: the
 * memory may end earlier. NULL: no hint. A hint holds for one tile. Called by the thread that works as `worker`; a worker that
 * does not exist is ignored. */
COMET_API void comet_store_prefetch(comet_store *store, size_t worker, const void *memory);

/* ---- accounting ---- */

/* One slot, as of its last put. */
typedef struct comet_slot_report {
    size_t size;
    uint64_t bytes_raw, bytes_held; /* held: coded tiles; raw bytes where it is raw */
    bool spilled;
    double eb; /* in force; 0: exact */
    comet_level level;
    uint64_t n_chunks_raw, n_chunks_fast, n_chunks_dense;
    uint32_t predictor; /* most chunks' predictor: 0 none, 1 left, 2 up, 3 Lorenzo, 4 median, 5 linear */
    uint64_t n_elements, n_nonzero, n_nonfinite;
    double sum_of_squares, min, max;  /* of finite elements, those of plateaus accurate to eb / 32; RAW, PACKED: 0 */
    uint64_t n_puts, n_takes;         /* since creation; a whole take and one of all tiles count the same */
    double seconds_put, seconds_take; /* since creation, summed over all workers */
} comet_slot_report;

COMET_API void comet_slot_report_init(comet_slot_report *report);
/* COMET_ERROR_ARGUMENT where there is no such slot. */
COMET_API comet_status comet_store_describe_slot(const comet_store *store, comet_slot slot, comet_slot_report *report);

/* All slots together. */
typedef struct comet_store_totals {
    size_t size;
    uint64_t held, peak;                          /* bytes now, and the most since creation; raw and coded, but not spilled */
    uint64_t peak_by_class[COMET_N_SLOT_CLASSES]; /* at the moment of the peak */
    uint64_t raw_by_class[COMET_N_SLOT_CLASSES];  /* raw bytes of what was held then */
    uint64_t own_bytes;                           /* memory the store has taken from the system for coded tiles */
    uint64_t spilled, spilled_peak;               /* bytes in the spill file */
    double seconds_put, seconds_take;             /* summed over all workers */
    uint64_t own_used;                            /* of own_bytes, as far as tiles ever reached: the rest was never touched */
} comet_store_totals;

COMET_API void comet_store_totals_init(comet_store_totals *totals);
COMET_API comet_status comet_store_describe(const comet_store *store, comet_store_totals *totals);

#ifdef __cplusplus
}
#endif

#endif
