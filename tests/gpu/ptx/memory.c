/* Loads, stores and atomics of a warp, each access checked; see inside.h. */
#include <string.h>

#include "gpu/ptx/alu.h"
#include "gpu/ptx/inside.h"

enum { MANY = 0xffff, ATOMIC = 0xfffe, WARP_OF = 0x8000 }; /* WARP_OF: several readers of one warp */

bool ptx_machine_add(ptx_machine *m, const void *p, size_t bytes)
{
    if (m->n_buffers == PTX_MAX_BUFFERS)
        return false;
    m->buffers[m->n_buffers++] = (ptx_buffer){(u64)(uintptr_t)p, bytes};
    return true;
}

void ptx_machine_remove(ptx_machine *m, const void *p)
{
    for (size_t i = 0; i < m->n_buffers; i++)
        if (m->buffers[i].address == (u64)(uintptr_t)p) {
            m->buffers[i] = m->buffers[--m->n_buffers];
            return;
        }
}

static u64 address_of(const warp *w, const ptx_op *op, u32 lane)
{
    const u8 *row = w->file + op->a;
    return op->wide ? ((const u64 *)row)[lane] + (u64)op->offset : ((const u32 *)row)[lane] + (u32)op->offset;
}

static u32 lane_thread(const warp *w, u32 lane)
{
    return w->index * PTX_WARP + lane;
}

/* ---- where an address leads ---- */

static u8 *global_place(group *g, u64 address, u32 bytes)
{
    const ptx_machine *m = g->machine;
    const ptx_buffer *last = &m->buffers[g->last_buffer];
    if (g->last_buffer < m->n_buffers && address >= last->address && address - last->address + bytes <= last->bytes)
        return (u8 *)(uintptr_t)address;
    for (u32 i = 0; i < m->n_buffers; i++) {
        const ptx_buffer *b = &m->buffers[i];
        if (address >= b->address && address - b->address + bytes <= b->bytes) {
            g->last_buffer = i;
            return (u8 *)(uintptr_t)address;
        }
    }
    const ptx_module *module = g->kernel->module;
    for (u32 i = 0; i < module->n_symbols; i++) {
        const ptx_symbol *s = &module->symbols[i];
        if (s->space == SPACE_GLOBAL && address >= s->address && address - s->address + bytes <= s->bytes)
            return (u8 *)(uintptr_t)address;
    }
    return NULL;
}

static u8 *inside_of(u8 *memory, u64 at, u32 bytes, u64 room)
{
    return at <= room && bytes <= room - at ? memory + at : NULL;
}

static enum ptx_space space_of(const ptx_op *op, u64 *address)
{
    if (op->space != SPACE_GENERIC)
        return (enum ptx_space)op->space;
    const u64 window = *address >> 48 << 48;
    if (window != SHARED_WINDOW && window != LOCAL_WINDOW)
        return SPACE_GLOBAL;
    *address -= window;
    return window == SHARED_WINDOW ? SPACE_SHARED : SPACE_LOCAL;
}

static u8 *place_of(group *g, const warp *w, const ptx_op *op, u32 lane, u64 address, enum ptx_space *space)
{
    const u32 bytes = (u32)op->bytes * op->n_vector;
    const ptx_kernel *k = g->kernel;
    u8 *p;
    *space = space_of(op, &address);
    switch (*space) {
    case SPACE_SHARED: p = inside_of(g->shared, address, bytes, k->shared_bytes); break;
    case SPACE_PARAM: p = inside_of(g->params, address, bytes, k->param_bytes); break;
    case SPACE_LOCAL:
        p = inside_of(g->local + (size_t)lane_thread(w, lane) * k->local_bytes, address, bytes, k->local_bytes);
        break;
    default: p = global_place(g, address, bytes);
    }
    if (!p || address % bytes)
        group_fail(
            g, w, op, "thread %u accesses %u bytes at %s%#llx", lane_thread(w, lane), bytes,
            p ? "an address that is no multiple of that: " : "a place outside its memory: ", (unsigned long long)address);
    return g->failed ? NULL : p;
}

/* ---- conflicts in shared memory ---- */

/* Was the access of `who` in this epoch of the group, and not before a barrier of the warp that both belong to? */
static bool is_other(const group *g, const warp *w, u32 thread, u32 epoch, u32 warp_epoch, u32 who)
{
    if (epoch != g->epoch || who == thread)
        return false;
    const bool same_warp = who != MANY && who != ATOMIC && (who & ~(u32)WARP_OF) / PTX_WARP == w->index;
    return !(same_warp && warp_epoch < w->epoch);
}

static void note(group *g, const warp *w, const ptx_op *op, const u8 *p, u32 thread, bool writes, bool atomic)
{
    const u32 who = atomic ? ATOMIC : thread;
    for (u32 i = 0; i < (u32)op->bytes * op->n_vector && !g->failed; i++) {
        shadow *s = &g->shadows[p + i - g->shared];
        const bool after_write = is_other(g, w, who, s->write_epoch, s->write_warp_epoch, s->writer);
        const bool after_read = writes && is_other(g, w, who, s->read_epoch, s->read_warp_epoch, s->reader);
        if (after_write || after_read)
            group_fail(g, w, op, "thread %u %s byte %zu of shared memory, which another has %s since the last barrier", thread,
                       writes ? "writes" : "reads", (size_t)(p + i - g->shared), after_write ? "written" : "read");
        if (writes) {
            s->write_epoch = g->epoch;
            s->write_warp_epoch = w->epoch;
            s->writer = (u16)who;
        } else if (s->read_epoch != g->epoch || s->reader == who) {
            s->reader = (u16)who;
        } else {
            const bool same_warp = s->reader != MANY && (s->reader & ~(u32)WARP_OF) / PTX_WARP == w->index;
            s->reader = same_warp ? (u16)(WARP_OF | w->index * PTX_WARP) : MANY;
        }
        if (!writes) {
            s->read_epoch = g->epoch;
            s->read_warp_epoch = w->epoch;
        }
    }
}

/* ---- counting ---- */

static void mark_sector(ptx_sectors *s, u64 sector, bool write)
{
    const u64 mark = sector << 2 | (write ? 3 : 1), room = (u64)1 << s->bits;
    u64 at = mark * 0x9E3779B97F4A7C15u >> (64 - s->bits);
    while (s->seen[at] && s->seen[at] != mark)
        at = (at + 1) % room;
    if (s->seen[at])
        return;
    s->seen[at] = mark;
    *(write ? &s->n_written : &s->n_read) += 1;
}

/* 32 is the number of banks of shared memory and the bytes of a sector. */
static void count_access(const group *g, const u64 *addresses, u32 mask, const ptx_op *op, ptx_count *count)
{
    u64 units[PTX_WARP * 16], n = 0; /* sectors, or words */
    u32 in_bank[32] = {0}, most = 0;
    const bool shared =
        op->space == SPACE_SHARED || (op->space == SPACE_GENERIC && addresses[__builtin_ctz(mask)] >= SHARED_WINDOW);
    const u32 unit = shared ? 4 : 32, bytes = (u32)op->bytes * op->n_vector;
    ptx_sectors *sectors = shared ? NULL : g->machine->sectors;
    if (op->space == SPACE_PARAM)
        return;
    for (u32 left = mask; left; left &= left - 1) {
        const u64 at = addresses[__builtin_ctz(left)];
        for (u64 u = at / unit; u <= (at + bytes - 1) / unit; u++) {
            bool known = false;
            for (u64 i = n; i-- > 0 && !known;)
                known = units[i] == u;
            if (known)
                continue;
            units[n++] = u;
            if (sectors && op->code != OP_STORE)
                mark_sector(sectors, u, false);
            if (sectors && op->code != OP_LOAD)
                mark_sector(sectors, u, true);
            most = ++in_bank[u % 32] > most ? in_bank[u % 32] : most;
        }
    }
    *(shared ? &count->turns : &count->sectors) += shared ? most : n;
}

/* ---- accesses ---- */

static bool find_places(group *g, warp *w, const ptx_op *op, u32 mask, bool writes, ptx_count *count, u8 *places[PTX_WARP])
{
    u64 addresses[PTX_WARP];
    enum ptx_space space;
    for (u32 left = mask; left; left &= left - 1) {
        const u32 lane = (u32)__builtin_ctz(left);
        addresses[lane] = address_of(w, op, lane);
        places[lane] = place_of(g, w, op, lane, addresses[lane], &space);
        if (!places[lane])
            return false;
        if (g->shadows && space == SPACE_SHARED)
            note(g, w, op, places[lane], lane_thread(w, lane), writes, op->code == OP_ATOMIC);
    }
    if (count)
        count_access(g, addresses, mask, op, count);
    return !g->failed;
}

static u64 load_bits(const u8 *p, const ptx_op *op)
{
    u16 h;
    u32 v;
    u64 d;
    switch (op->bytes) {
    case 1: return op->sign ? (u64)(s64)(int8_t)*p : *p;
    case 2: memcpy(&h, p, 2); return op->sign ? (u64)(s64)(s16)h : h;
    case 4: memcpy(&v, p, 4); return op->sign ? (u64)(s64)(s32)v : v;
    default: memcpy(&d, p, 8); return d;
    }
}

static void set_register(u8 *row, u32 stride, u32 lane, u64 bits)
{
    if (stride == 4)
        ((u32 *)row)[lane] = (u32)bits;
    else if (stride == 2)
        ((u16 *)row)[lane] = (u16)bits;
    else
        ((u64 *)row)[lane] = bits;
}

void memory_load(group *g, warp *w, const ptx_op *op, u32 mask, ptx_count *count)
{
    u8 *places[PTX_WARP];
    if (!find_places(g, w, op, mask, false, count, places))
        return;
    for (u32 left = mask; left; left &= left - 1) {
        const u32 lane = (u32)__builtin_ctz(left);
        for (u32 i = 0; i < op->n_vector; i++)
            set_register(w->file + op->v[i], op->stride, lane, load_bits(places[lane] + (size_t)i * op->bytes, op));
    }
}

/* The lane that is the j-th to write. */
static u32 lane_in_order(const group *g, u32 j)
{
    return g->machine->order == PTX_BACKWARD ? PTX_WARP - 1 - j : j;
}

/* Where lanes write to one place, the last in the order of the machine wins. */
void memory_store(group *g, warp *w, const ptx_op *op, u32 mask, ptx_count *count)
{
    u8 *places[PTX_WARP];
    if (!find_places(g, w, op, mask, true, count, places))
        return;
    for (u32 j = 0; j < PTX_WARP; j++) {
        const u32 lane = lane_in_order(g, j);
        for (u32 i = 0; (mask >> lane & 1) && i < op->n_vector; i++)
            memcpy(places[lane] + (size_t)i * op->bytes, w->file + op->v[i] + (size_t)lane * op->stride, op->bytes);
    }
}

static u64 changed(const ptx_op *op, u64 old, u64 b, u64 c)
{
    switch ((enum ptx_atomic)op->mode) {
    case ATOMIC_ADD: return old + b;
    case ATOMIC_OR: return old | b;
    case ATOMIC_AND: return old & b;
    case ATOMIC_XOR: return old ^ b;
    case ATOMIC_MIN: return op->sign ? ((s64)old < (s64)b ? old : b) : old < b ? old : b;
    case ATOMIC_MAX: return op->sign ? ((s64)old > (s64)b ? old : b) : old > b ? old : b;
    case ATOMIC_CAS: return old == b ? c : old;
    default: return b;
    }
}

void memory_atomic(group *g, warp *w, const ptx_op *op, u32 mask, ptx_count *count)
{
    u8 *places[PTX_WARP];
    if (!find_places(g, w, op, mask, true, count, places))
        return;
    for (u32 j = 0; j < PTX_WARP; j++) {
        const u32 lane = lane_in_order(g, j);
        if (!(mask >> lane & 1))
            continue;
        const u64 old = load_bits(places[lane], op), b = load_bits(w->file + op->b + (size_t)lane * op->bytes, op),
                  c = load_bits(w->file + op->c + (size_t)lane * op->bytes, op), now = changed(op, old, b, c);
        memcpy(places[lane], &now, op->bytes);
        if (op->p)
            set_register(w->file + op->d, op->bytes, lane, old);
    }
}
