/* Slots and their tiles, inside the activation store. For the store's own files, and for tests that damage what is held. */
#ifndef COMET_STORE_SLOTS_H
#define COMET_STORE_SLOTS_H

#include <stdatomic.h>

#include "codec/context.h"
#include "comet/store.h"
#include "store/heap.h"
#include "store/spill.h"
#include "store/tile_codec.h"

/* A coded tile. */
typedef struct store_tile {
    uint8_t *place;  /* NULL: in the spill file, or not put */
    uint64_t offset; /* in the spill file */
    uint32_t bytes;
    uint32_t checksum; /* 0 without */
    bool is_put;
    tile_figures figures;
} store_tile;

typedef enum slot_state { SLOT_EMPTY, SLOT_PUTTING, SLOT_HELD } slot_state;

typedef struct store_slot {
    comet_slot_spec spec;
    comet_slot_policy policy;
    geometry shape;
    size_t element; /* bytes */
    uint64_t n_tiles, tile_elements;
    slot_state state;
    void *raw; /* where the tensor lies, while held by policy RAW */
    tile_coding coding;
    double eb;              /* bound of the last put; 0: exact */
    heap_marks marks;       /* how far its tiles reach in memory, */
    uint64_t spill_mark;    /* and in the spill file */
    comet_slot_report last; /* of the last put, without counts and times, which are below */
    uint64_t n_puts, n_whole_takes;
    atomic_uint_fast64_t n_tiles_taken;
    atomic_uint_fast64_t ns_put, ns_take;
    atomic_int status; /* the first failure of the put or take that runs, */
    char error[256];   /* and its sentence */
    store_tile tiles[];
} store_slot;

struct comet_store {
    context context;
    store_slot **slots;
    uint32_t n_slots, capacity;
    bool checksums;
    bool buffers_lost; /* a reservation failed and freed buffers that held slots need */
    heap heap;
    spill spill;
    comet_buffer sums;   /* for standard deviations: moments of each tile */
    comet_buffer padded; /* a copy of the last tile, for slots whose bytes are no whole elements */
    uint64_t held, held_by_class[COMET_N_SLOT_CLASSES], raw_by_class[COMET_N_SLOT_CLASSES];
    uint64_t spilled;
    comet_store_totals peaks; /* only its fields about peaks are used */
};

/* The slot; NULL, with the failure recorded, where there is no such slot or no store. */
store_slot *store_find(const comet_store *store, comet_slot slot);

/* The slot's name for sentences. */
const char *store_slot_name(const store_slot *slot);

/* The bytes of tile k; the last tile may have fewer than the others. */
size_t store_tile_bytes(const store_slot *slot, uint64_t k);

/* Call when all tiles, or slot->raw, are in place: the slot is held from now on, counted and reported. */
void store_count_put(comet_store *store, store_slot *slot);
/* Empties the slot: frees its tiles, and no longer counts it if it was counted. */
void store_release(comet_store *store, store_slot *slot);

#endif
