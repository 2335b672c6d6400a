/* Inside the activation store: slots and their tiles. For the store's own files, and for tests that spoil what is held. */
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
    uint64_t n_tiles, tile_elements;
    slot_state state;
    void *raw; /* RAW, while held */
    tile_coding coding;
    double eb; /* in force; 0: exact */
    heap_marks marks;
    uint64_t spill_mark;
    comet_slot_report last; /* of the last put; counts and times stand below */
    uint64_t n_puts, n_whole_takes;
    atomic_uint_fast64_t n_tiles_taken;
    atomic_uint_fast64_t ns_put, ns_take;
    atomic_int status; /* of the run at work: the first failure, */
    char error[256];   /* and its sentence */
    store_tile tiles[];
} store_slot;

struct comet_store {
    context context;
    store_slot **slots;
    uint32_t n_slots, capacity;
    bool checksums;
    bool starved; /* a reservation failed and took buffers with it that held slots need */
    heap heap;
    spill spill;
    comet_buffer sums;   /* for standard deviations: a moment a tile */
    comet_buffer padded; /* the last tile of slots that are no whole floats */
    uint64_t held, held_by_class[COMET_N_SLOT_CLASSES], raw_by_class[COMET_N_SLOT_CLASSES];
    uint64_t spilled;
    comet_store_totals peaks; /* only what is about peaks */
};

/* NULL, with the failure recorded, where there is no such slot or no store. */
store_slot *store_find(const comet_store *store, comet_slot slot);

/* For sentences. */
const char *store_slot_name(const store_slot *slot);

/* Bytes of tile k: those of its floats, fewer at the tensor's end. */
size_t store_tile_bytes(const store_slot *slot, uint64_t k);

/* The slot holds what its tiles, or slot->raw, say: counts it, sets its state and report. */
void store_count_put(comet_store *store, store_slot *slot);
/* Takes back what the slot holds, from the counts if it was counted, and frees its tiles. */
void store_release(comet_store *store, store_slot *slot);

#endif
