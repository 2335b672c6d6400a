/*
 * The activation store: what forward puts and backward takes.
 *
 * A slot stands for one tensor of a step. Forward puts it when its last forward reader is done; backward takes it before its
 * first backward reader and drops it after the last. The store counts what is held. Policy: raw, the bytes stay
 * where forward left them, and the owner keeps that memory until the drop. One thread at a time.
 */
#ifndef COMET_STORE_STORE_H
#define COMET_STORE_STORE_H

#include <stdbool.h>

#include "comet/base.h"

/* What a tensor is to its layer. */
typedef enum store_class {
    STORE_CONV_INPUT, /* convolution and linear inputs */
    STORE_NORM_INPUT,
    STORE_ACTIVATION, /* outputs or inputs that an activation needs again */
    STORE_INDEX,      /* pooling: which element was the largest */
    STORE_MASK,       /* relu: which elements passed */
    STORE_N_CLASSES,
} store_class;

/* How exactly it must come back. */
typedef enum store_exactness {
    STORE_EXACT,   /* bit for bit */
    STORE_SUPPORT, /* zeros must stay zeros and nothing else become zero; values may be a little off */
    STORE_LOSSY,   /* values may be a little off */
} store_exactness;

typedef struct store store;
typedef uint32_t store_slot;
#define STORE_NO_SLOT UINT32_MAX

typedef struct store_spec {
    const char *layer; /* kept, not copied */
    store_class class_;
    store_exactness exactness;
    uint64_t bytes;
} store_spec;

comet_status store_create(store **s);
void store_destroy(store *s);

comet_status store_declare(store *s, const store_spec *spec, store_slot *slot);
uint32_t store_n_slots(const store *s);
const store_spec *store_slot_spec(const store *s, store_slot slot);

/* Forward is done with `data`. Putting twice without a drop, or taking what was not put, is COMET_ERROR_ARGUMENT. */
comet_status store_put(store *s, store_slot slot, void *data);
comet_status store_take(store *s, store_slot slot, void **data);
comet_status store_drop(store *s, store_slot slot);
/* Drops all that is held: a step that did not reach backward. */
void store_clear(store *s);

/* Most bytes held at once since creation. */
uint64_t store_peak_bytes(const store *s);

#endif
