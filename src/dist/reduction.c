/*
 * Rank j adds up segment j. Segments are cut in pieces, and piece k of every segment moves together:
 *
 *   scatter   each rank sends its piece k of segment j to rank j, and receives piece k of its own segment from all
 *   sum       the owner adds them up in the order of the ranks, its own at its place
 *   gather    each owner sends the sum to all others
 *
 * A reduction of kind SEGMENT ends after the sum, one of kind GATHER begins after it. A few pieces of a few reductions are
 * under way at once. Tags hold number and piece, so that pieces may overtake one another. Nothing depends on the order of
 * arrival.
 *
 * Where floats are coded, the error of coding is kept under the key of the reduction and added the next time. A rank keeps the
 * error of what it sends to owners at the places of their segments, and that of its own sum at the places of its own segment:
 * one float for each float that is reduced.
 */
#include "dist/reduction.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "dist/sum.h"

enum {
    N_LANES = 2,              /* reductions that move at once */
    N_SLOTS = 2,              /* pieces of each */
    PIECE_FLOATS = 512 << 10, /* of all segments together */
    PIECE_MOST = 128 << 10,   /* of one segment */
    PIECE_LEAST = 4 << 10,
    TAG_NUMBERS = 2 * COMET_RANKS_MAX_REDUCTIONS,
    TAG_PIECES = 64,
};
_Static_assert(TAG_REDUCTION + TAG_NUMBERS * TAG_PIECES * 2 <= TRANSPORT_MOST_TAG, "tags");

typedef enum phase { PHASE_FREE = 0, PHASE_SCATTER, PHASE_GATHER } phase;

/* Between this rank and one other. */
typedef struct way {
    int send, receive;
    size_t arrived;          /* bytes */
    unsigned char *out, *in; /* wire formats; `in` in any case */
} way;

typedef struct slot {
    phase phase;
    size_t piece;
    way *ways;     /* n_ranks */
    float *floats; /* decoded: n_ranks pieces */
} slot;

typedef struct lane {
    bool taken;
    slot slots[N_SLOTS];
} lane;

typedef struct leftover {
    struct leftover *next;
    uint64_t key;
    size_t n;
    float values[];
} leftover;

struct reducer {
    reducer_settings settings;
    wire wire;
    size_t piece, way_bytes;
    lane lanes[N_LANES];
    const float **parts; /* n_ranks */
    leftover *leftovers;
    void *memory;
    _Atomic uint64_t bytes_sent, bytes_plain;
};

/* ---- buffers ---- */

static size_t piece_floats(uint32_t n_ranks)
{
    const size_t even = (size_t)PIECE_FLOATS / n_ranks;
    return even > PIECE_MOST    ? PIECE_MOST
           : even < PIECE_LEAST ? PIECE_LEAST
                                : even / COMET_RANKS_ALIGNMENT * COMET_RANKS_ALIGNMENT;
}

/* Floats decoded from all ranks, and a message to each of them; plain floats need neither. */
static size_t decoded_bytes(const reducer *r)
{
    return r->wire.format == COMET_WIRE_F32 ? 0 : r->settings.n_ranks * r->piece * sizeof(float);
}

static size_t out_bytes(const reducer *r)
{
    return r->wire.format == COMET_WIRE_F32 ? 0 : r->way_bytes;
}

static size_t slot_memory(const reducer *r)
{
    return r->settings.n_ranks * (r->way_bytes + out_bytes(r)) + decoded_bytes(r);
}

uint64_t reducer_memory(const reducer *r)
{
    return (uint64_t)N_LANES * N_SLOTS * (slot_memory(r) + r->settings.n_ranks * sizeof(way)) + wire_memory(&r->wire);
}

uint32_t reducer_kept_per_float(const reducer *r)
{
    return wire_is_coded(&r->wire) ? sizeof(float) : 0;
}

/* Gives each slot its part of one allocation. */
static comet_status share_out(reducer *r)
{
    const size_t n = r->settings.n_ranks, decoded = decoded_bytes(r), out = out_bytes(r), slot_bytes = slot_memory(r);
    r->memory = malloc(N_LANES * N_SLOTS * slot_bytes + N_LANES * N_SLOTS * n * sizeof(way));
    r->parts = malloc(n * sizeof *r->parts);
    if (!r->memory || !r->parts)
        return comet_fail(COMET_ERROR_MEMORY, "could not allocate %zu bytes for messages", N_LANES * N_SLOTS * slot_bytes);
    unsigned char *bytes = r->memory;
    way *ways = (way *)(void *)(bytes + N_LANES * N_SLOTS * slot_bytes);
    for (size_t s = 0; s < (size_t)N_LANES * N_SLOTS; s++) {
        slot *to = &r->lanes[s / N_SLOTS].slots[s % N_SLOTS];
        to->floats = (float *)(void *)bytes;
        bytes += decoded;
        to->ways = ways + s * n;
        for (size_t i = 0; i < n; i++, bytes += r->way_bytes + out)
            to->ways[i] = (way){.send = TRANSPORT_NONE, .receive = TRANSPORT_NONE, .in = bytes, .out = bytes + r->way_bytes};
    }
    return COMET_OK;
}

static comet_status size_up(reducer *r)
{
    r->piece = piece_floats(r->settings.n_ranks);
    TRY(wire_create(&r->wire, r->settings.wire, r->settings.coded_share, r->piece));
    const size_t most = wire_most_bytes(&r->wire, r->piece), plain = r->piece * sizeof(float);
    r->way_bytes = ((most > plain ? most : plain) + 63) / 64 * 64;
    return COMET_OK;
}

static comet_status fill(reducer *r)
{
    TRY(size_up(r));
    return share_out(r);
}

comet_status reducer_plan(const reducer_settings *settings, uint64_t *bytes)
{
    reducer r = {.settings = *settings};
    const comet_status status = size_up(&r);
    *bytes = reducer_memory(&r);
    wire_destroy(&r.wire);
    return status;
}

comet_status reducer_create(reducer **out, const reducer_settings *settings)
{
    reducer *r = calloc(1, sizeof *r);
    if (!r)
        return comet_fail(COMET_ERROR_MEMORY, "could not allocate %zu bytes for reductions", sizeof *r);
    r->settings = *settings;
    const comet_status status = fill(r);
    if (status == COMET_OK)
        *out = r;
    else
        reducer_destroy(r);
    return status;
}

void reducer_destroy(reducer *r)
{
    if (!r)
        return;
    while (r->leftovers) {
        leftover *next = r->leftovers->next;
        free(r->leftovers);
        r->leftovers = next;
    }
    wire_destroy(&r->wire);
    free(r->memory);
    free(r->parts);
    free(r);
}

void reducer_bytes(const reducer *r, uint64_t *sent, uint64_t *plain)
{
    *sent = atomic_load(&r->bytes_sent);
    *plain = atomic_load(&r->bytes_plain);
}

static comet_status find_leftover(reducer *r, uint64_t key, size_t n, float **values)
{
    leftover *found = r->leftovers;
    while (found && found->key != key)
        found = found->next;
    if (!found) {
        found = calloc(1, sizeof *found + n * sizeof *found->values);
        if (!found)
            return comet_fail(COMET_ERROR_MEMORY, "could not allocate %zu bytes for what coding gradients leaves over",
                              n * sizeof(float));
        *found = (leftover){.next = r->leftovers, .key = key, .n = n};
        r->leftovers = found;
    }
    if (found->n != n)
        return comet_fail(COMET_ERROR_ARGUMENT, "reduction key %llu has %zu floats now and had %zu before",
                          (unsigned long long)key, n, found->n);
    *values = found->values;
    return COMET_OK;
}

/* ---- a piece ---- */

/* Floats [first, first + count) of the data are piece `piece` of the segment of `rank`. */
static size_t find_piece(const reduction *w, uint32_t rank, size_t piece, size_t *first)
{
    size_t count;
    comet_ranks_segment(w->n, w->shared->settings.n_ranks, rank, first, &count);
    const size_t at = piece * w->shared->piece;
    *first += at;
    return at >= count ? 0 : count - at < w->shared->piece ? count - at : w->shared->piece;
}

static int tag_of(const reduction *w, size_t piece, phase p)
{
    return (int)(TAG_REDUCTION + (w->number % TAG_NUMBERS * TAG_PIECES + piece % TAG_PIECES) * 2 + (p == PHASE_GATHER));
}

/* Weights, which are gathered, and running statistics are never coded. */
static bool is_plain(const reduction *w)
{
    return w->shared->wire.format == COMET_WIRE_F32 || w->kind == COMET_REDUCE_GATHER || w->kind == COMET_REDUCE_EXACT;
}

static comet_status send_bytes(reduction *w, transport *t, slot *s, uint32_t to, const void *data, size_t bytes, size_t n)
{
    atomic_fetch_add(&w->shared->bytes_sent, bytes);
    atomic_fetch_add(&w->shared->bytes_plain, n * sizeof(float));
    return t->send(t, to, tag_of(w, s->piece, s->phase), data, bytes, &s->ways[to].send) ? COMET_OK : transport_failed(t);
}

static comet_status receive_bytes(reduction *w, transport *t, slot *s, uint32_t from, void *data, size_t bytes)
{
    return t->receive(t, from, tag_of(w, s->piece, s->phase), data, bytes, &s->ways[from].receive) ? COMET_OK
                                                                                                   : transport_failed(t);
}

static float *left_at(const reduction *w, size_t first)
{
    return w->left ? w->left + first : NULL;
}

static comet_status start_scatter(reduction *w, transport *t, slot *s)
{
    size_t own, first;
    const size_t n_own = find_piece(w, t->rank, s->piece, &own);
    s->phase = PHASE_SCATTER;
    for (uint32_t r = 0; r < t->n_ranks; r++) {
        if (r == t->rank)
            continue;
        if (n_own > 0)
            TRY(receive_bytes(w, t, s, r, s->ways[r].in, w->shared->way_bytes));
        const size_t n = find_piece(w, r, s->piece, &first);
        size_t bytes = n * sizeof(float);
        const void *data = w->data + first;
        if (n == 0)
            continue;
        if (!is_plain(w)) {
            TRY(wire_encode(&w->shared->wire, w->data + first, left_at(w, first), n, s->ways[r].out, &bytes, NULL));
            data = s->ways[r].out;
        }
        TRY(send_bytes(w, t, s, r, data, bytes, n));
    }
    return COMET_OK;
}

/* Adds what came, and this rank's own floats at their place. */
static comet_status add_up(reduction *w, const transport *t, slot *s)
{
    size_t first;
    reducer *shared = w->shared;
    const size_t n = find_piece(w, t->rank, s->piece, &first);
    if (n == 0)
        return COMET_OK;
    for (uint32_t r = 0; r < t->n_ranks; r++) {
        const way *from = &s->ways[r];
        float *floats = is_plain(w) ? (float *)(void *)from->in : s->floats + r * shared->piece;
        shared->parts[r] = r == t->rank ? w->data + first : floats;
        if (r == t->rank)
            continue;
        if (!is_plain(w))
            TRY(wire_decode(&shared->wire, from->in, from->arrived, floats, n));
        else if (from->arrived != n * sizeof(float))
            return comet_fail(COMET_ERROR_CORRUPT, "rank %u sent %zu bytes of a segment instead of %zu", r, from->arrived,
                              n * sizeof(float));
    }
    sum_floats(w->data + first, shared->parts, t->n_ranks, n);
    return COMET_OK;
}

/* A plain sum is received where it belongs, once the floats there are sent. */
static comet_status start_receiving_sum(reduction *w, transport *t, slot *s, uint32_t from)
{
    size_t first;
    const size_t n = find_piece(w, from, s->piece, &first);
    if (n == 0)
        return COMET_OK;
    return is_plain(w) ? receive_bytes(w, t, s, from, w->data + first, n * sizeof(float))
                       : receive_bytes(w, t, s, from, s->ways[from].in, w->shared->way_bytes);
}

static comet_status start_gather(reduction *w, transport *t, slot *s)
{
    size_t first;
    const size_t n = find_piece(w, t->rank, s->piece, &first);
    size_t bytes = n * sizeof(float);
    const void *data = w->data + first;
    s->phase = PHASE_GATHER;
    if (n > 0 && !is_plain(w)) {
        unsigned char *out = s->ways[t->rank].out;
        TRY(wire_encode(&w->shared->wire, w->data + first, left_at(w, first), n, out, &bytes, w->data + first));
        data = out;
    }
    for (uint32_t r = 0; r < t->n_ranks; r++) {
        if (r == t->rank)
            continue;
        TRY(start_receiving_sum(w, t, s, r));
        if (n > 0)
            TRY(send_bytes(w, t, s, r, data, bytes, n));
    }
    return COMET_OK;
}

static comet_status decode_sums(reduction *w, const transport *t, slot *s)
{
    size_t first;
    for (uint32_t r = 0; r < t->n_ranks; r++) {
        const size_t n = r == t->rank || is_plain(w) ? 0 : find_piece(w, r, s->piece, &first);
        if (n > 0)
            TRY(wire_decode(&w->shared->wire, s->ways[r].in, s->ways[r].arrived, w->data + first, n));
    }
    return COMET_OK;
}

/* ---- works ---- */

static comet_status poll_slot(transport *t, slot *s, bool *moved, bool *all_done)
{
    *all_done = true;
    for (uint32_t r = 0; r < t->n_ranks; r++) {
        way *w = &s->ways[r];
        if (r == t->rank)
            continue;
        TRY(request_poll(t, &w->receive, moved, &w->arrived));
        TRY(request_poll(t, &w->send, moved, NULL));
        *all_done = *all_done && w->receive == TRANSPORT_NONE && w->send == TRANSPORT_NONE;
    }
    return COMET_OK;
}

static comet_status advance_slot(reduction *w, transport *t, slot *s, bool *moved)
{
    bool all_done;
    if (s->phase == PHASE_FREE) {
        if (w->next_piece == w->n_pieces)
            return COMET_OK;
        s->piece = w->next_piece++;
        *moved = true;
        return w->kind == COMET_REDUCE_GATHER ? start_gather(w, t, s) : start_scatter(w, t, s);
    }
    TRY(poll_slot(t, s, moved, &all_done));
    if (!all_done)
        return COMET_OK;
    if (s->phase == PHASE_SCATTER) {
        TRY(add_up(w, t, s));
        if (w->kind == COMET_REDUCE_ALL || w->kind == COMET_REDUCE_EXACT)
            return start_gather(w, t, s);
    } else {
        TRY(decode_sums(w, t, s));
    }
    s->phase = PHASE_FREE;
    w->n_pieces_done++;
    *moved = true;
    return COMET_OK;
}

static lane *take_lane(reducer *r)
{
    for (size_t i = 0; i < N_LANES; i++)
        if (!r->lanes[i].taken) {
            r->lanes[i].taken = true;
            return &r->lanes[i];
        }
    return NULL;
}

static comet_status advance(work *base, transport *t, bool *moved, bool *ended)
{
    reduction *w = (reduction *)base;
    reducer *shared = w->shared;
    if (!w->lane) {
        w->lane = take_lane(shared);
        if (!w->lane)
            return COMET_OK;
        if (!is_plain(w) && shared->wire.format != COMET_WIRE_BF16)
            TRY(find_leftover(shared, w->key, w->n, &w->left));
    }
    for (size_t i = 0; i < N_SLOTS; i++)
        TRY(advance_slot(w, t, &w->lane->slots[i], moved));
    *ended = w->n_pieces_done == w->n_pieces;
    if (*ended)
        w->lane->taken = false;
    return COMET_OK;
}

/* MPI adds up: one request for all floats. */
static comet_status advance_with_mpi(work *base, transport *t, bool *moved, bool *ended)
{
    reduction *w = (reduction *)base;
    if (w->n_pieces_done == 0) {
        const uint64_t bytes = 2 * (uint64_t)w->n * sizeof(float) * (t->n_ranks - 1) / t->n_ranks; /* at least */
        atomic_fetch_add(&w->shared->bytes_sent, bytes);
        atomic_fetch_add(&w->shared->bytes_plain, bytes);
        w->n_pieces_done = 1;
        *moved = true;
        return t->sum_floats(t, w->data, w->n, &w->request) ? COMET_OK : transport_failed(t);
    }
    TRY(request_poll(t, &w->request, moved, NULL));
    *ended = w->request == TRANSPORT_NONE;
    return COMET_OK;
}

void reduction_begin(reduction *w, reducer *shared, comet_reduction kind, uint64_t key, float *data, size_t n, uint32_t number)
{
    size_t first, most;
    comet_ranks_segment(n, shared->settings.n_ranks, 0, &first, &most);
    const bool with_mpi =
        shared->settings.with_mpi && kind == COMET_REDUCE_ALL && n > 0 && n <= TRANSPORT_MOST_BYTES / sizeof(float);
    *w = (reduction){.base = {.advance = with_mpi ? advance_with_mpi : advance, .is_reduction = true},
                     .shared = shared,
                     .kind = kind,
                     .key = key,
                     .data = data,
                     .n = n,
                     .number = number,
                     .n_pieces = (most + shared->piece - 1) / shared->piece,
                     .request = TRANSPORT_NONE};
}
