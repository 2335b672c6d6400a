/*
 * Put and take. A whole put or take shares out its tiles among the threads of the pool; otherwise it is the same as one by
 * tiles. A worker encodes a tile in its own workspace, claims a place of the coded size and copies the result there. Buffers
 * are allocated before, by the calling thread.
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/bytes.h"
#include "base/checksum.h"
#include "base/convert.h"
#include "base/float_env.h"
#include "base/status.h"
#include "base/work_parts.h"
#include "store/slots.h"

/* Outputs of this many bytes and more are written past the caches, which they would not fit anyway. */
#define STREAM_BYTES ((uint64_t)8 << 20)

/* ---- buffers ---- */

/* A reservation that fails may have freed buffers that held slots need. That is remembered, and recover_buffers reserves them
 * again. */
static comet_status reserve(comet_store *s, const tile_coding *coding)
{
    for (size_t i = 0; i < s->context.n_workers; i++) {
        comet_status status = tile_reserve(coding, &s->context.allocator, &s->context.workers[i]);
        if (status != COMET_OK) {
            s->buffers_lost = true;
            return status;
        }
    }
    return COMET_OK;
}

static comet_status recover_buffers(comet_store *s)
{
    for (uint32_t i = 0; s->buffers_lost && i < s->n_slots; i++)
        if (s->slots[i]->state != SLOT_EMPTY && s->slots[i]->policy.policy != COMET_POLICY_RAW)
            TRY(reserve(s, &s->slots[i]->coding));
    s->buffers_lost = false;
    return COMET_OK;
}

/* ---- one tile ---- */

static void add_time(atomic_uint_fast64_t *ns, double since)
{
    atomic_fetch_add(ns, (uint_fast64_t)((comet_seconds() - since) * 1e9));
}

static comet_status keep(comet_store *s, store_slot *slot, store_tile *tile, const chunk_payload *p)
{
    if (slot->policy.spill) {
        TRY(spill_write(&s->spill, p->data, p->bytes, &tile->offset, &slot->spill_mark));
    } else {
        tile->place = heap_claim(&s->heap, p->bytes, &(heap_range){slot->spec.floor, slot->spec.ceiling}, &slot->marks);
        if (!tile->place)
            return COMET_ERROR_MEMORY;
        memcpy(tile->place, p->data, p->bytes);
    }
    tile->bytes = (uint32_t)p->bytes;
    tile->checksum = s->checksums ? (uint32_t)comet_checksum(p->data, p->bytes) : 0;
    tile->is_put = true;
    return COMET_OK;
}

static comet_status put_tile(comet_store *s, store_slot *slot, uint64_t k, size_t worker, const void *x, size_t bytes)
{
    double since = comet_seconds();
    chunk_payload payload;
    store_tile *tile = &slot->tiles[k];
    TRY(tile_encode(&slot->coding, &s->context.workers[worker], k, x, bytes, &payload, &tile->figures));
    TRY(keep(s, slot, tile, &payload));
    add_time(&slot->ns_put, since);
    return COMET_OK;
}

/* The payload of a tile, read from the spill file if the tile is there. */
static comet_status fetch(comet_store *s, const store_slot *slot, const store_tile *tile, workspace *ws, chunk_payload *p)
{
    *p = (chunk_payload){tile->place, tile->bytes};
    if (!tile->place) {
        uint8_t *copy = ws->out.data;
        TRY(spill_read(&s->spill, tile->offset, copy, tile->bytes));
        memset(copy + tile->bytes, 0, READ_SLACK);
        p->data = copy;
    }
    if (s->checksums && (uint32_t)comet_checksum(p->data, p->bytes) != tile->checksum)
        return comet_fail(COMET_ERROR_CORRUPT, "tile %llu of %s does not match its checksum: it was damaged while it was held",
                          (unsigned long long)(tile - slot->tiles), store_slot_name(slot));
    return COMET_OK;
}

static comet_status take_tile(comet_store *s, store_slot *slot, uint64_t k, size_t worker, void *x, size_t bytes, bool stream)
{
    double since = comet_seconds();
    workspace *ws = &s->context.workers[worker];
    chunk_payload payload;
    TRY(fetch(s, slot, &slot->tiles[k], ws, &payload));
    TRY(tile_decode(&slot->coding, ws, k, payload, x, bytes, stream));
    add_time(&slot->ns_take, since);
    return COMET_OK;
}

/* ---- all tiles, by the pool ---- */

static void fail_slot(store_slot *slot, comet_status status)
{
    int ok = COMET_OK;
    if (atomic_compare_exchange_strong(&slot->status, &ok, (int)status)) {
        strncpy(slot->error, comet_last_error(), sizeof slot->error - 1);
        slot->error[sizeof slot->error - 1] = 0;
    }
}

typedef struct run run;
typedef comet_status tile_fn(run *r, uint64_t k, size_t worker);

struct run {
    comet_store *store;
    store_slot *slot;
    tile_fn *each;
    uint8_t *data;
    bool stream;
    work_parts tiles;
};

static void work(void *arg, size_t worker)
{
    run *r = arg;
    uint64_t k;
    while (atomic_load(&r->slot->status) == COMET_OK && work_parts_next(&r->tiles, worker, &k)) {
        comet_status status = r->each(r, k, worker);
        if (status != COMET_OK)
            fail_slot(r->slot, status);
    }
}

static comet_status run_tiles(comet_store *s, store_slot *slot, tile_fn *each, void *data, bool stream)
{
    run r = {.store = s, .slot = slot, .each = each, .data = data, .stream = stream};
    size_t n_workers = (size_t)min_u64(s->context.n_workers, slot->n_tiles);
    work_parts_init(&r.tiles, 0, slot->n_tiles, n_workers);
    atomic_store(&slot->status, COMET_OK);
    if (n_workers)
        comet_pool_run(s->context.pool, n_workers, work, &r);
    comet_status status = (comet_status)atomic_load(&slot->status);
    return status == COMET_OK ? COMET_OK : comet_fail(status, "%s: %s", store_slot_name(slot), slot->error);
}

/* A tile that ends within an element is coded from a copy padded with zeros, except where bytes are packed. */
static bool must_pad(const store_slot *slot, size_t bytes)
{
    return bytes % slot->element != 0 && !slot->coding.packed_bits;
}

static size_t padded(const store_slot *slot, size_t bytes)
{
    return (size_t)ceil_div_u64(bytes, slot->element) * slot->element;
}

static comet_status put_of_run(run *r, uint64_t k, size_t worker)
{
    size_t bytes = store_tile_bytes(r->slot, k);
    const uint8_t *x = r->data + k * r->slot->tile_elements * r->slot->element;
    if (!must_pad(r->slot, bytes))
        return put_tile(r->store, r->slot, k, worker, x, bytes);
    uint8_t *copy = r->store->padded.data;
    memset(copy + bytes, 0, padded(r->slot, bytes) - bytes);
    memcpy(copy, x, bytes);
    return put_tile(r->store, r->slot, k, worker, copy, padded(r->slot, bytes));
}

static comet_status take_of_run(run *r, uint64_t k, size_t worker)
{
    size_t bytes = store_tile_bytes(r->slot, k);
    uint8_t *x = r->data + k * r->slot->tile_elements * r->slot->element;
    if (!must_pad(r->slot, bytes))
        return take_tile(r->store, r->slot, k, worker, x, bytes, r->stream);
    uint8_t *copy = r->store->padded.data;
    TRY(take_tile(r->store, r->slot, k, worker, copy, padded(r->slot, bytes), false));
    memcpy(x, copy, bytes);
    return COMET_OK;
}

static comet_status reserve_padded(comet_store *s, const store_slot *slot)
{
    if (slot->n_tiles == 0 || !must_pad(slot, store_tile_bytes(slot, slot->n_tiles - 1)))
        return COMET_OK;
    return comet_buffer_reserve(&s->context.allocator, &s->padded, (size_t)slot->tile_elements * slot->element);
}

/* ---- the standard deviation ---- */

typedef struct tile_moments {
    double sum, squares;
    uint64_t n;
} tile_moments;

enum { PARTS = 16 };

static inline float element_at(comet_dtype dtype, const void *x, size_t i)
{
    return dtype == COMET_DTYPE_F32    ? ((const float *)x)[i]
           : dtype == COMET_DTYPE_BF16 ? float_of_bf16(((const uint16_t *)x)[i])
                                       : float_of_f16(((const uint16_t *)x)[i]);
}

/* PARTS interleaved sums, so that compilers can use vectors and the order of additions is fixed. Squares of floats are exact in
 * double. */
static inline tile_moments moments_of_type(comet_dtype dtype, const void *x, size_t n)
{
    double sum[PARTS] = {0}, squares[PARTS] = {0};
    uint64_t count[PARTS] = {0};
    size_t i = 0;
    for (; i + PARTS <= n; i += PARTS)
        for (size_t p = 0; p < PARTS; p++) {
            float e = element_at(dtype, x, i + p);
            bool finite = fabsf(e) <= FLT_MAX;
            double v = finite ? (double)e : 0;
            sum[p] += v;
            squares[p] += v * v;
            count[p] += finite;
        }
    tile_moments m = {0};
    for (; i < n; i++) {
        float e = element_at(dtype, x, i);
        bool finite = fabsf(e) <= FLT_MAX;
        double v = finite ? (double)e : 0;
        m = (tile_moments){m.sum + v, m.squares + v * v, m.n + finite};
    }
    for (int p = 0; p < PARTS; p++)
        m = (tile_moments){m.sum + sum[p], m.squares + squares[p], m.n + count[p]};
    return m;
}

static tile_moments moments_of(comet_dtype dtype, const void *x, size_t n)
{
    switch (dtype) {
    case COMET_DTYPE_F16: return moments_of_type(COMET_DTYPE_F16, x, n);
    case COMET_DTYPE_BF16: return moments_of_type(COMET_DTYPE_BF16, x, n);
    default: return moments_of_type(COMET_DTYPE_F32, x, n);
    }
}

static comet_status moments_of_run(run *r, uint64_t k, size_t worker)
{
    (void)worker;
    double since = comet_seconds();
    fenv_t host;
    float_env_enter(&host);
    const store_slot *slot = r->slot;
    const uint8_t *x = r->data + k * slot->tile_elements * slot->element;
    ((tile_moments *)r->store->sums.data)[k] =
        moments_of(slot->spec.tensor.dtype, x, store_tile_bytes(slot, k) / slot->element);
    float_env_leave(&host);
    add_time(&r->slot->ns_put, since);
    return COMET_OK;
}

/* The standard deviation of the finite elements; 0 if there is none. One pass is enough: squares of floats need 48 of a
 * double's 53 bits, so that cancellation in the difference is too small to matter for a bound. */
static double deviation_of(const tile_moments *m, uint64_t n_tiles)
{
    tile_moments all = {0};
    for (uint64_t k = 0; k < n_tiles; k++)
        all = (tile_moments){all.sum + m[k].sum, all.squares + m[k].squares, all.n + m[k].n};
    double n = all.n ? (double)all.n : 1, mean = all.sum / n, variance = all.squares / n - mean * mean;
    return variance > 0 ? sqrt(variance) : 0;
}

/* Turns *eb, a multiple of the standard deviation of the data, into an absolute bound. */
static comet_status make_absolute(comet_store *s, store_slot *slot, void *data, double *eb)
{
    fenv_t host;
    TRY(comet_buffer_reserve(&s->context.allocator, &s->sums, (size_t)slot->n_tiles * sizeof(tile_moments)));
    TRY(run_tiles(s, slot, moments_of_run, data, false));
    float_env_enter(&host);
    *eb *= deviation_of(s->sums.data, slot->n_tiles);
    float_env_leave(&host);
    return COMET_OK;
}

/* ---- putting ---- */

static comet_status begin(comet_store *s, store_slot *slot, double eb)
{
    const comet_slot_policy *p = &slot->policy;
    enum quantiser_mode mode = p->dither                               ? QUANTISE_DITHER
                               : slot->spec.exactness == COMET_SUPPORT ? QUANTISE_SUPPORT
                                                                       : QUANTISE_PLAIN;
    bool bounded = p->policy == COMET_POLICY_BOUNDED;
    slot->coding = (tile_coding){.plan = {.kernels = s->context.kernels,
                                          .dtype = slot->spec.tensor.dtype,
                                          .shape = slot->shape,
                                          .chunk_elements = slot->tile_elements,
                                          .seed = p->dither ? p->dither_seed : 0,
                                          .level = p->level},
                                 .packed_bits = p->policy == COMET_POLICY_PACKED ? slot->spec.index_bits : 0};
    slot->eb = tile_coding_set_bound(&slot->coding, bounded ? eb : 0, mode) ? eb : 0;
    slot->marks = (heap_marks){0, 0};
    slot->spill_mark = 0;
    TRY(recover_buffers(s));
    TRY(reserve_padded(s, slot));
    TRY(reserve(s, &slot->coding));
    for (uint64_t k = 0; k < slot->n_tiles; k++)
        slot->tiles[k] = (store_tile){0};
    atomic_store(&slot->status, COMET_OK);
    slot->state = SLOT_PUTTING;
    return COMET_OK;
}

static comet_status end(comet_store *s, store_slot *slot, comet_status status)
{
    if (status != COMET_OK) {
        store_release(s, slot);
        return status;
    }
    store_count_put(s, slot);
    if (slot->policy.spill)
        spill_drop_cache(&s->spill);
    return COMET_OK;
}

static comet_status check_may_put(const store_slot *slot)
{
    if (slot->state == SLOT_EMPTY)
        return COMET_OK;
    return comet_fail(COMET_ERROR_ARGUMENT, "%s is put again before it was dropped", store_slot_name(slot));
}

static comet_status check_memory(const store_slot *slot, const void *memory, const char *what)
{
    bool bytes = slot->policy.policy == COMET_POLICY_PACKED || slot->policy.policy == COMET_POLICY_RAW;
    if (!memory && slot->n_tiles)
        return comet_fail(COMET_ERROR_ARGUMENT, "%s for %s is null", what, store_slot_name(slot));
    if (!bytes && (uintptr_t)memory % slot->element)
        return comet_fail(COMET_ERROR_ARGUMENT, "%s for %s is not aligned to its %zu-byte elements", what,
                          store_slot_name(slot), slot->element);
    return COMET_OK;
}

comet_status comet_store_put(comet_store *s, comet_slot which, void *data)
{
    store_slot *slot = store_find(s, which);
    if (!slot)
        return COMET_ERROR_ARGUMENT;
    TRY(check_may_put(slot));
    TRY(check_memory(slot, data, "the data"));
    const comet_slot_policy *p = &slot->policy;
    if (p->policy == COMET_POLICY_RAW) {
        slot->raw = data;
        slot->eb = 0;
        store_count_put(s, slot);
        return COMET_OK;
    }
    double eb = p->eb;
    if (p->policy == COMET_POLICY_BOUNDED && p->of_deviation && isfinite(eb))
        TRY(make_absolute(s, slot, data, &eb));
    TRY(begin(s, slot, eb));
    return end(s, slot, run_tiles(s, slot, put_of_run, data, false));
}

/* ---- taking ---- */

static comet_status check_held(const store_slot *slot)
{
    if (slot->state == SLOT_HELD)
        return COMET_OK;
    return comet_fail(COMET_ERROR_ARGUMENT, "%s is taken, but holds nothing", store_slot_name(slot));
}

comet_status comet_store_take(comet_store *s, comet_slot which, void *room, void **data)
{
    store_slot *slot = store_find(s, which);
    if (!slot || !data)
        return slot ? comet_fail(COMET_ERROR_ARGUMENT, "comet_store_take: null pointer") : COMET_ERROR_ARGUMENT;
    TRY(check_held(slot));
    if (slot->policy.policy == COMET_POLICY_RAW) {
        *data = slot->raw;
    } else {
        TRY(check_memory(slot, room, "the room"));
        TRY(recover_buffers(s));
        TRY(reserve_padded(s, slot));
        TRY(run_tiles(s, slot, take_of_run, room, slot->spec.bytes >= STREAM_BYTES));
        *data = room;
    }
    slot->n_whole_takes++;
    return COMET_OK;
}

/* ---- by tiles ---- */

static comet_status check_tile(const comet_store *s, const store_slot *slot, uint64_t k, size_t worker)
{
    if (k >= slot->n_tiles || worker >= s->context.n_workers)
        return comet_fail(COMET_ERROR_ARGUMENT, "tile %llu by worker %zu: %s has %llu tiles and the store %zu workers",
                          (unsigned long long)k, worker, store_slot_name(slot), (unsigned long long)slot->n_tiles,
                          s->context.n_workers);
    return COMET_OK;
}

static comet_status check_by_tiles(const store_slot *slot)
{
    if (slot->spec.bytes % slot->element || slot->policy.policy == COMET_POLICY_PACKED)
        return comet_fail(COMET_ERROR_ARGUMENT, "%s holds bytes, which can be put and taken as a whole only",
                          store_slot_name(slot));
    return COMET_OK;
}

void comet_store_prefetch(comet_store *s, size_t worker, const void *memory)
{
    if (s && worker < s->context.n_workers)
        s->context.workers[worker].prefetch = memory;
}

comet_status comet_store_put_begin(comet_store *s, comet_slot which)
{
    store_slot *slot = store_find(s, which);
    if (!slot)
        return COMET_ERROR_ARGUMENT;
    TRY(check_may_put(slot));
    TRY(check_by_tiles(slot));
    const comet_slot_policy *p = &slot->policy;
    if (p->policy == COMET_POLICY_RAW || (p->policy == COMET_POLICY_BOUNDED && p->of_deviation && isfinite(p->eb)))
        return comet_fail(COMET_ERROR_ARGUMENT, "%s is held %s and cannot be put by tiles", store_slot_name(slot),
                          p->of_deviation ? "with a bound relative to its deviation" : "raw");
    return begin(s, slot, p->eb);
}

/* Workers may not allocate, so that a tile call cannot recover buffers. */
static comet_status check_buffers(const comet_store *s)
{
    if (!s->buffers_lost)
        return COMET_OK;
    return comet_fail(COMET_ERROR_MEMORY,
                      "out of memory: the put of another slot failed and freed buffers that this one needs");
}

static comet_status check_put_tile(const comet_store *s, const store_slot *slot, uint64_t k, size_t worker, const void *x)
{
    TRY(check_tile(s, slot, k, worker));
    TRY(check_memory(slot, x, "a tile"));
    if (slot->tiles[k].is_put)
        return comet_fail(COMET_ERROR_ARGUMENT, "tile %llu of %s is put twice", (unsigned long long)k, store_slot_name(slot));
    return check_buffers(s);
}

static comet_status put_one(comet_store *s, comet_slot which, uint64_t tile, size_t worker, const void *x)
{
    store_slot *slot = store_find(s, which);
    if (!slot)
        return COMET_ERROR_ARGUMENT;
    if (slot->state != SLOT_PUTTING)
        return comet_fail(COMET_ERROR_ARGUMENT, "a tile of %s is put without comet_store_put_begin", store_slot_name(slot));
    comet_status status = check_put_tile(s, slot, tile, worker, x);
    if (status == COMET_OK)
        status = put_tile(s, slot, tile, worker, x, store_tile_bytes(slot, tile));
    if (status != COMET_OK)
        fail_slot(slot, status);
    return status;
}

/* The hint of comet_store_prefetch holds for this tile alone, also where the put fails. */
comet_status comet_store_put_tile(comet_store *s, comet_slot which, uint64_t tile, size_t worker, const void *x)
{
    const comet_status status = put_one(s, which, tile, worker, x);
    comet_store_prefetch(s, worker, NULL);
    return status;
}

comet_status comet_store_put_end(comet_store *s, comet_slot which)
{
    store_slot *slot = store_find(s, which);
    if (!slot)
        return COMET_ERROR_ARGUMENT;
    if (slot->state != SLOT_PUTTING)
        return comet_fail(COMET_ERROR_ARGUMENT, "comet_store_put_end for %s without comet_store_put_begin",
                          store_slot_name(slot));
    comet_status status = (comet_status)atomic_load(&slot->status);
    if (status != COMET_OK)
        comet_fail(status, "%s: %s", store_slot_name(slot), slot->error);
    for (uint64_t k = 0; status == COMET_OK && k < slot->n_tiles; k++)
        if (!slot->tiles[k].is_put)
            status =
                comet_fail(COMET_ERROR_ARGUMENT, "tile %llu of %s was not put", (unsigned long long)k, store_slot_name(slot));
    return end(s, slot, status);
}

static comet_status take_one(comet_store *s, comet_slot which, uint64_t tile, size_t worker, void *room, const void **x)
{
    store_slot *slot = store_find(s, which);
    if (!slot || !x)
        return slot ? comet_fail(COMET_ERROR_ARGUMENT, "comet_store_take_tile: null pointer") : COMET_ERROR_ARGUMENT;
    TRY(check_held(slot));
    TRY(check_by_tiles(slot));
    TRY(check_tile(s, slot, tile, worker));
    if (slot->policy.policy == COMET_POLICY_RAW) {
        *x = (const uint8_t *)slot->raw + tile * slot->tile_elements * slot->element;
    } else {
        TRY(check_memory(slot, room, "the room"));
        TRY(check_buffers(s));
        TRY(take_tile(s, slot, tile, worker, room, store_tile_bytes(slot, tile), false));
        *x = room;
    }
    atomic_fetch_add(&slot->n_tiles_taken, 1);
    return COMET_OK;
}

comet_status comet_store_take_tile_any(comet_store *s, comet_slot which, uint64_t tile, size_t worker, void *room,
                                       const void **x)
{
    const comet_status status = take_one(s, which, tile, worker, room, x);
    comet_store_prefetch(s, worker, NULL);
    return status;
}

comet_status comet_store_take_tile(comet_store *s, comet_slot which, uint64_t tile, size_t worker, float *room, const float **x)
{
    const void *any = NULL;
    const comet_slot_spec *spec = comet_store_slot_spec(s, which);
    comet_status status = COMET_OK;
    if (spec && spec->tensor.dtype != COMET_DTYPE_F32)
        status = comet_fail(COMET_ERROR_ARGUMENT, "%s does not hold floats: its tiles are taken by comet_store_take_tile_any",
                            spec->layer ? spec->layer : "a slot without a name");
    if (status == COMET_OK)
        status = take_one(s, which, tile, worker, room, x ? &any : NULL);
    comet_store_prefetch(s, worker, NULL);
    if (status == COMET_OK)
        *x = any;
    return status;
}
