#include "store/store.h"

#include <stdlib.h>

#include "base/status.h"

typedef struct slot_state {
    store_spec spec;
    void *data; /* NULL: nothing is held */
} slot_state;

struct store {
    slot_state *slots;
    uint32_t n_slots, capacity;
    uint64_t held_bytes, peak_bytes;
};

comet_status store_create(store **out)
{
    store *s = calloc(1, sizeof *s);
    if (!s)
        return comet_fail(COMET_ERROR_MEMORY, "no memory for the activation store");
    *out = s;
    return COMET_OK;
}

void store_destroy(store *s)
{
    if (s)
        free(s->slots);
    free(s);
}

comet_status store_declare(store *s, const store_spec *spec, store_slot *slot)
{
    if (s->n_slots == s->capacity) {
        const uint32_t capacity = s->capacity ? 2 * s->capacity : 64;
        slot_state *larger = realloc(s->slots, capacity * sizeof *larger);
        if (!larger)
            return comet_fail(COMET_ERROR_MEMORY, "no memory for %u slots of the activation store", capacity);
        s->slots = larger;
        s->capacity = capacity;
    }
    s->slots[s->n_slots] = (slot_state){.spec = *spec};
    *slot = s->n_slots++;
    return COMET_OK;
}

uint32_t store_n_slots(const store *s)
{
    return s->n_slots;
}

const store_spec *store_slot_spec(const store *s, store_slot slot)
{
    return slot < s->n_slots ? &s->slots[slot].spec : NULL;
}

comet_status store_put(store *s, store_slot slot, void *data)
{
    if (slot >= s->n_slots || !data || s->slots[slot].data)
        return comet_fail(COMET_ERROR_ARGUMENT, "slot %u of the activation store cannot be put now", slot);
    slot_state *state = &s->slots[slot];
    state->data = data;
    s->held_bytes += state->spec.bytes;
    if (s->held_bytes > s->peak_bytes)
        s->peak_bytes = s->held_bytes;
    return COMET_OK;
}

comet_status store_take(store *s, store_slot slot, void **data)
{
    if (slot >= s->n_slots || !s->slots[slot].data)
        return comet_fail(COMET_ERROR_ARGUMENT, "slot %u of the activation store holds nothing", slot);
    *data = s->slots[slot].data;
    return COMET_OK;
}

comet_status store_drop(store *s, store_slot slot)
{
    if (slot >= s->n_slots || !s->slots[slot].data)
        return comet_fail(COMET_ERROR_ARGUMENT, "slot %u of the activation store holds nothing", slot);
    slot_state *state = &s->slots[slot];
    state->data = NULL;
    s->held_bytes -= state->spec.bytes;
    return COMET_OK;
}

void store_clear(store *s)
{
    for (store_slot i = 0; i < s->n_slots; i++)
        if (s->slots[i].data)
            store_drop(s, i);
}

uint64_t store_peak_bytes(const store *s)
{
    return s->peak_bytes;
}
