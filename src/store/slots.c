/* The store and its slots: create, declare, policies, drop, accounts. Put and take are in put_take.c. */
#include "store/slots.h"

#include <math.h>
#include <string.h>

#include "base/bytes.h"
#include "base/describe.h"
#include "base/float_env.h"
#include "base/status.h"

#define MAX_INDEX_BITS 7

void comet_slot_spec_init(comet_slot_spec *spec)
{
    *spec = (comet_slot_spec){.size = sizeof *spec};
}

void comet_slot_policy_init(comet_slot_policy *policy)
{
    *policy = (comet_slot_policy){.size = sizeof *policy};
}

void comet_store_params_init(comet_store_params *params)
{
    *params = (comet_store_params){.size = sizeof *params};
}

void comet_slot_report_init(comet_slot_report *report)
{
    *report = (comet_slot_report){.size = sizeof *report};
}

void comet_store_totals_init(comet_store_totals *totals)
{
    *totals = (comet_store_totals){.size = sizeof *totals};
}

/* ---- the store ---- */

comet_status comet_store_create(comet_store **out, const comet_store_params *params)
{
    if (!out || !params)
        return comet_fail(COMET_ERROR_ARGUMENT, "comet_store_create: null pointer");
    if (params->size != sizeof *params)
        return comet_fail(COMET_ERROR_ARGUMENT, "the parameters were not filled by comet_store_params_init (size %zu)",
                          params->size);
    TRY(context_check_hooks(params->hooks));
    comet_allocator allocator = comet_allocator_of(params->hooks);
    comet_store *s = comet_allocate(&allocator, sizeof *s);
    if (!s)
        return COMET_ERROR_MEMORY;
    *s = (comet_store){.checksums = params->checksums};
    comet_status status = context_open(&s->context, params->hooks, params->n_workers, "store");
    if (status == COMET_OK) {
        status = spill_open(&s->spill, &allocator, params->spill_folder);
        if (status != COMET_OK)
            context_close(&s->context);
    }
    if (status != COMET_OK) {
        comet_release(&allocator, s, sizeof *s);
        return status;
    }
    heap_open(&s->heap);
    *out = s;
    return COMET_OK;
}

static size_t slot_bytes(uint64_t n_tiles)
{
    return sizeof(store_slot) + (size_t)n_tiles * sizeof(store_tile);
}

void comet_store_destroy(comet_store *s)
{
    if (!s)
        return;
    comet_allocator allocator = s->context.allocator;
    for (uint32_t i = 0; i < s->n_slots; i++)
        comet_release(&allocator, s->slots[i], slot_bytes(s->slots[i]->n_tiles));
    comet_release(&allocator, s->slots, s->capacity * sizeof *s->slots);
    comet_buffer_free(&allocator, &s->sums);
    comet_buffer_free(&allocator, &s->padded);
    spill_close(&s->spill, &allocator);
    heap_close(&s->heap);
    context_close(&s->context);
    comet_release(&allocator, s, sizeof *s);
}

comet_status comet_store_lend(comet_store *s, void *memory, uint64_t bytes)
{
    if (!s || (!memory && bytes))
        return comet_fail(COMET_ERROR_ARGUMENT, "comet_store_lend: null pointer");
    for (uint32_t i = 0; i < s->n_slots; i++)
        if (s->slots[i]->state != SLOT_EMPTY)
            return comet_fail(COMET_ERROR_ARGUMENT, "memory can only be lent between steps; %s is held",
                              store_slot_name(s->slots[i]));
    heap_lend(&s->heap, memory, bytes);
    return COMET_OK;
}

/* ---- slots ---- */

const char *store_slot_name(const store_slot *slot)
{
    return slot->spec.layer ? slot->spec.layer : "a slot without a name";
}

store_slot *store_find(const comet_store *s, comet_slot slot)
{
    if (s && slot < s->n_slots)
        return s->slots[slot];
    comet_fail(COMET_ERROR_ARGUMENT,
               s ? "there is no slot %u: the activation store has %u slots" : "the activation store is null", slot,
               s ? s->n_slots : 0);
    return NULL;
}

size_t store_tile_bytes(const store_slot *slot, uint64_t k)
{
    uint64_t tile = slot->tile_elements * slot->element;
    return (size_t)min_u64(tile, slot->spec.bytes - k * tile);
}

static comet_status check_spec(const comet_slot_spec *spec, geometry *shape)
{
    if (spec->size != sizeof *spec)
        return comet_fail(COMET_ERROR_ARGUMENT, "the slot was not filled by comet_slot_spec_init (size %zu)", spec->size);
    TRY(geometry_make(&spec->tensor, shape));
    if ((unsigned)spec->class_ >= COMET_N_SLOT_CLASSES || (unsigned)spec->exactness > COMET_LOSSY)
        return comet_fail(COMET_ERROR_ARGUMENT, "unknown class %d or exactness %d", (int)spec->class_, (int)spec->exactness);
    if (spec->tensor.dtype == COMET_DTYPE_F64)
        return comet_fail(COMET_ERROR_ARGUMENT, "slots hold f32, f16 and bf16, not f64");
    const size_t element = comet_dtype_bytes(spec->tensor.dtype);
    if (ceil_div_u64(spec->bytes, element) != shape->n_elements)
        return comet_fail(COMET_ERROR_ARGUMENT, "a slot of %llu bytes cannot hold a tensor of %llu elements of %zu bytes",
                          (unsigned long long)spec->bytes, (unsigned long long)shape->n_elements, element);
    if (spec->index_bits > MAX_INDEX_BITS)
        return comet_fail(COMET_ERROR_ARGUMENT, "indices have 1 to %d bits, got %u", MAX_INDEX_BITS, spec->index_bits);
    if ((spec->index_bits || spec->bytes % element) && spec->exactness != COMET_EXACT)
        return comet_fail(COMET_ERROR_ARGUMENT, "a slot whose bytes are no whole elements must be exact");
    return COMET_OK;
}

static comet_status grow(comet_store *s)
{
    if (s->n_slots < s->capacity)
        return COMET_OK;
    uint32_t capacity = s->capacity ? 2 * s->capacity : 64;
    store_slot **larger = comet_allocate(&s->context.allocator, capacity * sizeof(store_slot *));
    if (!larger)
        return COMET_ERROR_MEMORY;
    if (s->n_slots)
        memcpy(larger, s->slots, s->n_slots * sizeof *larger);
    comet_release(&s->context.allocator, s->slots, s->capacity * sizeof *s->slots);
    s->slots = larger;
    s->capacity = capacity;
    return COMET_OK;
}

comet_status comet_store_declare(comet_store *s, const comet_slot_spec *spec, comet_slot *out)
{
    if (!s || !spec || !out)
        return comet_fail(COMET_ERROR_ARGUMENT, "comet_store_declare: null pointer");
    geometry shape;
    TRY(check_spec(spec, &shape));
    TRY(grow(s));
    uint64_t elements = tiles_elements(&shape), n_tiles = ceil_div_u64(shape.n_elements, elements);
    store_slot *slot = comet_allocate(&s->context.allocator, slot_bytes(n_tiles));
    if (!slot)
        return COMET_ERROR_MEMORY;
    memset(slot, 0, slot_bytes(n_tiles));
    slot->spec = *spec;
    slot->shape = shape;
    slot->element = comet_dtype_bytes(spec->tensor.dtype);
    slot->tile_elements = elements;
    slot->n_tiles = n_tiles;
    comet_slot_policy_init(&slot->policy);
    comet_slot_report_init(&slot->last);
    s->slots[s->n_slots] = slot;
    *out = s->n_slots++;
    return COMET_OK;
}

uint32_t comet_store_n_slots(const comet_store *s)
{
    return s ? s->n_slots : 0;
}

const comet_slot_spec *comet_store_slot_spec(const comet_store *s, comet_slot slot)
{
    return s && slot < s->n_slots ? &s->slots[slot]->spec : NULL;
}

const comet_slot_policy *comet_store_slot_policy(const comet_store *s, comet_slot slot)
{
    return s && slot < s->n_slots ? &s->slots[slot]->policy : NULL;
}

comet_status comet_store_tiling(const comet_store *s, comet_slot which, uint64_t *n_tiles, uint64_t *tile_elements)
{
    const store_slot *slot = store_find(s, which);
    if (!slot || !n_tiles || !tile_elements)
        return slot ? comet_fail(COMET_ERROR_ARGUMENT, "comet_store_tiling: null pointer") : COMET_ERROR_ARGUMENT;
    *n_tiles = slot->n_tiles;
    *tile_elements = slot->tile_elements;
    return COMET_OK;
}

comet_status comet_store_spec_tiling(const comet_slot_spec *spec, uint64_t *n_tiles, uint64_t *tile_elements)
{
    geometry shape;
    if (!spec || !n_tiles || !tile_elements)
        return comet_fail(COMET_ERROR_ARGUMENT, "comet_store_spec_tiling: null pointer");
    TRY(check_spec(spec, &shape));
    *tile_elements = tiles_elements(&shape);
    *n_tiles = ceil_div_u64(shape.n_elements, *tile_elements);
    return COMET_OK;
}

static comet_status check_empty(const store_slot *slot)
{
    return slot->state == SLOT_EMPTY
               ? COMET_OK
               : comet_fail(COMET_ERROR_ARGUMENT, "%s holds a tensor; drop it first", store_slot_name(slot));
}

comet_status comet_store_set_place(comet_store *s, comet_slot which, uint64_t floor, uint64_t ceiling)
{
    store_slot *slot = store_find(s, which);
    if (!slot)
        return COMET_ERROR_ARGUMENT;
    TRY(check_empty(slot));
    slot->spec.floor = floor;
    slot->spec.ceiling = ceiling;
    return COMET_OK;
}

static comet_status check_bounded(const store_slot *slot, const comet_slot_policy *p)
{
    const char *name = store_slot_name(slot);
    if (slot->spec.exactness == COMET_EXACT)
        return comet_fail(COMET_ERROR_ARGUMENT, "%s is exact; it cannot be held with a bound", name);
    if (!(p->eb >= 0))
        return comet_fail(COMET_ERROR_ARGUMENT, "the bound of %s must not be negative, got %g", name, p->eb);
    if (p->dither && slot->spec.exactness == COMET_SUPPORT)
        return comet_fail(COMET_ERROR_ARGUMENT, "dither would move the zeros of %s, which must be kept", name);
    if (p->dither && isinf(p->eb))
        return comet_fail(COMET_ERROR_ARGUMENT, "dither needs a finite bound; that of %s is infinite", name);
    return COMET_OK;
}

static comet_status check_policy(const comet_store *s, const store_slot *slot, const comet_slot_policy *p)
{
    const char *name = store_slot_name(slot);
    if (p->size != sizeof *p)
        return comet_fail(COMET_ERROR_ARGUMENT, "the policy was not filled by comet_slot_policy_init (size %zu)", p->size);
    if ((unsigned)p->policy > COMET_POLICY_PACKED || (unsigned)p->level > COMET_LEVEL_DENSE)
        return comet_fail(COMET_ERROR_ARGUMENT, "unknown policy %d or level %d for %s", (int)p->policy, (int)p->level, name);
    if (p->policy == COMET_POLICY_PACKED && !slot->spec.index_bits)
        return comet_fail(COMET_ERROR_ARGUMENT, "%s holds no indices to pack", name);
    if (p->spill && p->policy == COMET_POLICY_RAW)
        return comet_fail(COMET_ERROR_ARGUMENT, "%s is held raw; only coded slots can be spilled", name);
    if (p->spill && !s->spill.folder)
        return comet_fail(COMET_ERROR_ARGUMENT, "%s cannot be spilled: the store has no spill folder", name);
    return p->policy == COMET_POLICY_BOUNDED ? check_bounded(slot, p) : COMET_OK;
}

comet_status comet_store_set_policy(comet_store *s, comet_slot which, const comet_slot_policy *policy)
{
    store_slot *slot = store_find(s, which);
    if (!slot || !policy)
        return slot ? comet_fail(COMET_ERROR_ARGUMENT, "comet_store_set_policy: null pointer") : COMET_ERROR_ARGUMENT;
    TRY(check_empty(slot));
    TRY(check_policy(s, slot, policy));
    slot->policy = *policy;
    return COMET_OK;
}

/* ---- counting ---- */

/* Adds up the figures of the tiles in their order, so that sums do not depend on which worker encoded which tile. */
static void sum_figures(const store_slot *slot, comet_slot_report *r)
{
    uint64_t predictors[N_PREDICTORS] = {0}, modes[3] = {0};
    double low = INFINITY, high = -INFINITY;
    fenv_t host;
    float_env_enter(&host);
    for (uint64_t k = 0; k < slot->n_tiles; k++) {
        const tile_figures *f = &slot->tiles[k].figures;
        modes[f->mode]++;
        predictors[f->predictor] += f->mode != CHUNK_RAW;
        r->n_nonzero += f->n_nonzero;
        r->n_nonfinite += f->n_nonfinite;
        r->sum_of_squares += f->sum_of_squares;
        low = f->min < low ? f->min : low;
        high = f->max > high ? f->max : high;
    }
    float_env_leave(&host);
    r->min = low <= high ? low + 0.0 : 0; /* -0 becomes 0 */
    r->max = low <= high ? high + 0.0 : 0;
    r->n_chunks_raw = modes[CHUNK_RAW];
    r->n_chunks_fast = modes[CHUNK_FAST];
    r->n_chunks_dense = modes[CHUNK_DENSE];
    for (uint32_t p = 1; p < N_PREDICTORS; p++)
        r->predictor = predictors[p] > predictors[r->predictor] ? p : r->predictor;
}

static uint64_t bytes_of_tiles(const store_slot *slot)
{
    uint64_t bytes = 0;
    for (uint64_t k = 0; k < slot->n_tiles; k++)
        bytes += slot->tiles[k].bytes;
    return bytes;
}

static void fill_report(store_slot *slot)
{
    const comet_slot_policy *p = &slot->policy;
    bool raw = p->policy == COMET_POLICY_RAW;
    comet_slot_report r = {.size = sizeof r,
                           .bytes_raw = slot->spec.bytes,
                           .bytes_held = raw ? slot->spec.bytes : bytes_of_tiles(slot),
                           .spilled = p->spill,
                           .eb = slot->eb,
                           .level = p->level,
                           .n_elements = slot->shape.n_elements};
    if (p->policy == COMET_POLICY_LOSSLESS || p->policy == COMET_POLICY_BOUNDED)
        sum_figures(slot, &r);
    slot->last = r;
}

static void note_peak(comet_store *s)
{
    if (s->spilled > s->peaks.spilled_peak)
        s->peaks.spilled_peak = s->spilled;
    if (s->held <= s->peaks.peak)
        return;
    s->peaks.peak = s->held;
    memcpy(s->peaks.peak_by_class, s->held_by_class, sizeof s->held_by_class);
    memcpy(s->peaks.raw_by_class, s->raw_by_class, sizeof s->raw_by_class);
}

void store_count_put(comet_store *s, store_slot *slot)
{
    fill_report(slot);
    slot->state = SLOT_HELD;
    slot->n_puts++;
    if (slot->last.spilled) {
        s->spilled += slot->last.bytes_held;
    } else {
        s->held += slot->last.bytes_held;
        s->held_by_class[slot->spec.class_] += slot->last.bytes_held;
        s->raw_by_class[slot->spec.class_] += slot->spec.bytes;
    }
    note_peak(s);
}

static void uncount(comet_store *s, const store_slot *slot)
{
    if (slot->last.spilled) {
        s->spilled -= slot->last.bytes_held;
        return;
    }
    s->held -= slot->last.bytes_held;
    s->held_by_class[slot->spec.class_] -= slot->last.bytes_held;
    s->raw_by_class[slot->spec.class_] -= slot->spec.bytes;
}

/* Frees memory above everything that is still held. */
static void rewind_memory(comet_store *s)
{
    heap_marks marks = {0, 0};
    uint64_t spill_mark = 0;
    for (uint32_t i = 0; i < s->n_slots; i++) {
        const store_slot *slot = s->slots[i];
        if (slot->state == SLOT_EMPTY)
            continue;
        marks.lent = max_u64(marks.lent, slot->marks.lent);
        marks.own = max_u64(marks.own, slot->marks.own);
        spill_mark = max_u64(spill_mark, slot->spill_mark);
    }
    heap_rewind(&s->heap, marks);
    spill_rewind(&s->spill, spill_mark);
}

void store_release(comet_store *s, store_slot *slot)
{
    if (slot->state == SLOT_HELD)
        uncount(s, slot);
    slot->state = SLOT_EMPTY;
    slot->raw = NULL;
    rewind_memory(s);
}

comet_status comet_store_drop(comet_store *s, comet_slot which)
{
    store_slot *slot = store_find(s, which);
    if (!slot)
        return COMET_ERROR_ARGUMENT;
    if (slot->state != SLOT_HELD)
        return comet_fail(COMET_ERROR_ARGUMENT, "%s holds nothing to drop", store_slot_name(slot));
    store_release(s, slot);
    return COMET_OK;
}

void comet_store_clear(comet_store *s)
{
    for (uint32_t i = 0; s && i < s->n_slots; i++)
        if (s->slots[i]->state != SLOT_EMPTY)
            store_release(s, s->slots[i]);
}

/* ---- reports ---- */

static double seconds_of(const atomic_uint_fast64_t *ns)
{
    return 1e-9 * (double)atomic_load(ns);
}

comet_status comet_store_describe_slot(const comet_store *s, comet_slot which, comet_slot_report *report)
{
    const store_slot *slot = store_find(s, which);
    if (!slot)
        return COMET_ERROR_ARGUMENT;
    uint64_t by_tiles = slot->n_tiles ? atomic_load(&slot->n_tiles_taken) / slot->n_tiles : 0;
    comet_slot_report r = slot->last;
    r.n_puts = slot->n_puts;
    r.n_takes = slot->n_whole_takes + by_tiles;
    r.seconds_put = seconds_of(&slot->ns_put);
    r.seconds_take = seconds_of(&slot->ns_take);
    return GIVE(comet_slot_report, report, &r);
}

comet_status comet_store_describe(const comet_store *s, comet_store_totals *totals)
{
    if (!s)
        return comet_fail(COMET_ERROR_ARGUMENT, "comet_store_describe was given a null pointer");
    comet_store_totals t = s->peaks;
    t.held = s->held;
    t.own_bytes = s->heap.own_bytes;
    t.own_used = s->heap.own_used;
    t.spilled = s->spilled;
    for (uint32_t i = 0; i < s->n_slots; i++) {
        t.seconds_put += seconds_of(&s->slots[i]->ns_put);
        t.seconds_take += seconds_of(&s->slots[i]->ns_take);
    }
    return GIVE(comet_store_totals, totals, &t);
}
