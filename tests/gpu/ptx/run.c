/* The warps of a group, and what operations do; see inside.h. The loops over lanes are plain so that compilers vectorise them.
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/ptx/alu.h"
#include "gpu/ptx/inside.h"

void group_fail(group *g, const warp *w, const ptx_op *op, const char *format, ...)
{
    char what[160];
    va_list args;
    if (g->failed)
        return;
    g->failed = true;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    snprintf(g->machine->why, PTX_WHY_BYTES, "%.40s, line %d of the PTX, group %u, warp %u: %s", g->kernel->name, op->line,
             g->number, w->index, what);
}

/* ---- functions of alu.h ---- */

__extension__ typedef unsigned __int128 u128;
__extension__ typedef __int128 s128;

static inline u64 high_u64(u64 a, u64 b)
{
    return (u64)((u128)a * b >> 64);
}

static inline s64 high_s64(s64 a, s64 b)
{
    return (s64)((s128)a * b >> 64);
}

static inline u32 reversed(u32 a)
{
    u32 r = 0;
    for (int i = 0; i < 32; i++)
        r |= (a >> i & 1) << (31 - i);
    return r;
}

static inline u32 highest_s32(u32 a)
{
    const u32 v = a >> 31 ? ~a : a;
    return v ? 31u - (u32)__builtin_clz(v) : ~0u;
}

static inline u64 field_u64(u64 a, u32 at, u32 length)
{
    at &= 255;
    length &= 255;
    const u64 from = at < 64 ? a >> at : 0;
    return length < 64 ? from & (((u64)1 << length) - 1) : from;
}

/* Bits past the end are copies of the highest that is in the field or the value. */
static inline s64 field_s64(s64 a, u32 at, u32 length, u32 bits)
{
    at &= 255;
    length &= 255;
    if (length == 0)
        return 0;
    const u32 last = at + length - 1 < bits - 1 ? at + length - 1 : bits - 1;
    const u64 fill = (u64)a >> last & 1 ? ~(u64)0 : 0, field = at < bits ? field_u64((u64)a, at, last - at + 1) : 0;
    const u32 taken = at < bits ? last - at + 1 : 0;
    return (s64)(taken < 64 ? (field | fill << taken) : field);
}

static inline u64 insert(u64 a, u64 b, u32 at, u32 length, u32 bits)
{
    at &= 255;
    length &= 255;
    if (at >= bits || length == 0)
        return b;
    const u64 mask = (length < 64 ? ((u64)1 << length) - 1 : ~(u64)0) << at;
    return (a << at & mask) | (b & ~mask);
}

static inline u32 permuted(u32 a, u32 b, u32 selectors)
{
    const u64 bytes = (u64)b << 32 | a;
    u32 r = 0;
    for (u32 i = 0; i < 4; i++) {
        const u32 selector = selectors >> 4 * i & 15, byte = (u32)(bytes >> 8 * (selector & 7)) & 255;
        r |= (selector & 8 ? (byte & 128 ? 255u : 0u) : byte) << 8 * i;
    }
    return r;
}

static inline u32 looked_up(u32 a, u32 b, u32 c, u32 table)
{
    u32 r = 0;
    for (u32 i = 0; i < 8; i++)
        if (table >> i & 1)
            r |= (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
    return r;
}

static inline u32 dot2(u32 a, s32 low, s32 high, u32 c)
{
    return c + (u32)((s16)a * low) + (u32)((s16)(a >> 16) * high);
}

static inline u32 dot4(u32 a, u32 b, u32 c)
{
    for (u32 i = 0; i < 32; i += 8)
        c += (a >> i & 255) * (b >> i & 255);
    return c;
}

/* Results that are NaN are one NaN of single precision. */
static inline f32 settle_f32(f32 v)
{
    const u32 bits = 0x7fffffff;
    f32 nan;
    memcpy(&nan, &bits, sizeof nan);
    return v == v ? v : nan;
}

static inline f64 settle_f64(f64 v)
{
    return v;
}

/* The number where one is NaN; -0 is smaller than 0. */
static inline f32 smaller_f32(f32 a, f32 b)
{
    if (a != a || b != b)
        return settle_f32(a != a ? b : a);
    return a < b || (a == b && signbit(a)) ? a : b;
}

static inline f64 smaller_f64(f64 a, f64 b)
{
    if (a != a || b != b)
        return a != a ? b : a;
    return a < b || (a == b && signbit(a)) ? a : b;
}

/* Values are integers already; those out of range become the nearest limit, NaN 0 (64 bits: the smallest). */
static inline s32 to_s32(f64 v)
{
    return v != v ? 0 : v >= 2147483647.0 ? INT32_MAX : v <= -2147483648.0 ? INT32_MIN : (s32)v;
}

static inline u32 to_u32(f64 v)
{
    return !(v > 0) ? 0 : v >= 4294967295.0 ? UINT32_MAX : (u32)v;
}

static inline s64 to_s64(f64 v)
{
    return v != v || v <= -0x1p63 ? INT64_MIN : v >= 0x1p63 ? INT64_MAX : (s64)v;
}

static inline u64 to_u64(f64 v)
{
    return v != v ? (u64)1 << 63 : v <= 0 ? 0 : v >= 0x1p64 ? UINT64_MAX : (u64)v;
}

/* ---- operations beside arithmetic ---- */

#if defined(__clang__)
#define LANES_APART _Pragma("clang loop vectorize(assume_safety)")
#else
#define LANES_APART _Pragma("GCC ivdep")
#endif
#define LANES(mask, statement)                                \
    if ((mask) == ~0u) {                                      \
        LANES_APART for (u32 l = 0; l < PTX_WARP; l++)        \
        {                                                     \
            statement;                                        \
        }                                                     \
    } else {                                                  \
        for (u32 left_ = (mask); left_; left_ &= left_ - 1) { \
            const u32 l = (u32)__builtin_ctz(left_);          \
            statement;                                        \
        }                                                     \
    }

static u32 *row32(const warp *w, u32 at)
{
    return (u32 *)(w->file + at);
}

/* All threads that the instruction names must be at it. */
static bool all_here(group *g, const warp *w, const ptx_op *op, u32 mask)
{
    const u32 named = row32(w, op->e)[__builtin_ctz(mask)] & w->live;
    if (named & ~mask)
        group_fail(g, w, op, "threads %#x are to exchange values, and %#x are here", named, mask);
    return !g->failed;
}

static void shuffle(group *g, warp *w, const ptx_op *op, u32 mask)
{
    u32 given[PTX_WARP], *d = row32(w, op->d), found = 0;
    const u32 *a = row32(w, op->a), *b = row32(w, op->b), *c = row32(w, op->c);
    if (!all_here(g, w, op, mask))
        return;
    memcpy(given, a, sizeof given);
    for (u32 left = mask; left; left &= left - 1) {
        const u32 l = (u32)__builtin_ctz(left), by = b[l] & 31, segment = c[l] >> 8 & 31, limit = c[l] & 31;
        const u32 low = l & segment, high = low | (limit & ~segment);
        const s32 to = op->mode == SHUFFLE_UP     ? (s32)l - (s32)by
                       : op->mode == SHUFFLE_DOWN ? (s32)(l + by)
                       : op->mode == SHUFFLE_BFLY ? (s32)(l ^ by)
                                                  : (s32)(low | (by & ~segment));
        const bool inside = op->mode == SHUFFLE_UP ? to >= (s32)high : to <= (s32)high;
        const u32 from = inside ? (u32)to & 31 : l;
        if (!(mask >> from & 1))
            group_fail(g, w, op, "lane %u asks lane %u for a value, which is not here", l, from);
        d[l] = given[from];
        found |= (u32)inside << l;
    }
    if (op->p != (u32)NO_REGISTER) {
        u32 *p = row32(w, op->p);
        *p = (*p & ~mask) | found;
    }
}

static void vote(group *g, warp *w, const ptx_op *op, u32 mask)
{
    if (!all_here(g, w, op, mask))
        return;
    const u32 asked = *row32(w, op->a), ballot = (op->wide ? ~asked : asked) & mask;
    if (op->mode == VOTE_BALLOT) {
        LANES(mask, row32(w, op->d)[l] = ballot)
        return;
    }
    const bool yes = op->mode == VOTE_ALL ? ballot == mask : op->mode == VOTE_ANY ? ballot != 0 : ballot == 0 || ballot == mask;
    u32 *p = row32(w, op->d);
    *p = yes ? *p | mask : *p & ~mask;
}

static void match(group *g, warp *w, const ptx_op *op, u32 mask)
{
    u32 given[PTX_WARP], *d = row32(w, op->d);
    if (!all_here(g, w, op, mask))
        return;
    memcpy(given, row32(w, op->a), sizeof given);
    for (u32 left = mask; left; left &= left - 1) {
        const u32 l = (u32)__builtin_ctz(left);
        d[l] = 0;
        for (u32 others = mask; others; others &= others - 1)
            d[l] |= (u32)(given[__builtin_ctz(others)] == given[l]) << __builtin_ctz(others);
    }
}

static void select_lanes(const warp *w, const ptx_op *op, u32 mask)
{
    const u32 p = *row32(w, op->c);
    u8 *f = w->file;
    if (op->bytes == 4) {
        u32 *d = (u32 *)(f + op->d);
        const u32 *a = (const u32 *)(f + op->a), *b = (const u32 *)(f + op->b);
        LANES(mask, d[l] = p >> l & 1 ? a[l] : b[l])
    } else if (op->bytes == 8) {
        u64 *d = (u64 *)(f + op->d);
        const u64 *a = (const u64 *)(f + op->a), *b = (const u64 *)(f + op->b);
        LANES(mask, d[l] = p >> l & 1 ? a[l] : b[l])
    } else {
        u16 *d = (u16 *)(f + op->d);
        const u16 *a = (const u16 *)(f + op->a), *b = (const u16 *)(f + op->b);
        LANES(mask, d[l] = p >> l & 1 ? a[l] : b[l])
    }
}

static void pack(const warp *w, const ptx_op *op, u32 mask)
{
    for (u32 i = 0; i < op->n_vector; i++)
        LANES(mask, memcpy(w->file + op->d + (size_t)l * op->bytes + (size_t)i * op->stride,
                           w->file + op->v[i] + (size_t)l * op->stride, op->stride))
}

/* The whole may be one of the parts' rows only in packing. */
static void unpack(const warp *w, const ptx_op *op, u32 mask)
{
    for (u32 i = 0; i < op->n_vector; i++)
        LANES(mask, memcpy(w->file + op->v[i] + (size_t)l * op->stride,
                           w->file + op->a + (size_t)l * op->bytes + (size_t)i * op->stride, op->stride))
}

static void set_predicate(const warp *w, u32 at, u32 mask, u32 bits)
{
    u32 *p = row32(w, at);
    *p = (*p & ~mask) | (bits & mask);
}

static u32 combined(const warp *w, const ptx_op *op, u32 bits)
{
    if (op->combine == COMBINE_NONE)
        return bits;
    const u32 c = *row32(w, op->c) ^ (op->mode ? ~0u : 0u);
    return op->combine == COMBINE_AND ? bits & c : op->combine == COMBINE_OR ? bits | c : bits ^ c;
}

/* ---- flow ---- */

static u32 random_below(group *g, u32 n)
{
    g->random = g->random * 6364136223846793005u + 1442695040888963407u;
    return (u32)((g->random >> 33) % n);
}

static bool second_first(group *g)
{
    const enum ptx_order order = g->machine->order;
    return order == PTX_SHUFFLED ? random_below(g, 2) : order == PTX_BACKWARD;
}

/* Sides that are at their meeting point end there. */
static void push_side(group *g, warp *w, const ptx_op *op, u32 pc, u32 mask)
{
    if (!mask || pc == op->meets)
        return;
    if (w->depth == MAX_SIDES) {
        group_fail(g, w, op, "branches in branches more than %d deep", MAX_SIDES);
        return;
    }
    w->sides[w->depth++] = (side){pc, op->meets, mask};
}

/* The lanes of the topmost side go two ways. */
static void part(group *g, warp *w, const ptx_op *op, u32 pc_a, u32 mask_a, u32 pc_b, u32 mask_b)
{
    side *top = &w->sides[w->depth - 1];
    const bool swap = second_first(g);
    top->pc = op->meets;
    if (top->meets == op->meets && w->depth > 1)
        w->depth--; /* they meet where that side ends */
    push_side(g, w, op, swap ? pc_a : pc_b, swap ? mask_a : mask_b);
    push_side(g, w, op, swap ? pc_b : pc_a, swap ? mask_b : mask_a);
}

static void branch_by_table(group *g, warp *w, const ptx_op *op, u32 mask)
{
    const u32 *index = row32(w, op->a), *targets = g->kernel->targets + op->table;
    side *top = &w->sides[w->depth - 1];
    top->pc = op->meets;
    if (top->meets == op->meets && w->depth > 1)
        w->depth--;
    while (mask && !g->failed) {
        const u32 first = index[__builtin_ctz(mask)];
        u32 same = 0;
        if (first >= op->n_table) {
            group_fail(g, w, op, "entry %u of a table of %u", first, op->n_table);
            return;
        }
        LANES(mask, same |= (u32)(index[l] < op->n_table && targets[index[l]] == targets[first]) << l)
        push_side(g, w, op, targets[first], same);
        mask &= ~same;
    }
}

static void leave(warp *w, u32 mask)
{
    w->live &= ~mask;
    for (u32 i = 0; i < w->depth; i++)
        w->sides[i].mask &= ~mask;
}

/* ---- a warp ---- */

#define DO1(name, text, D, A, value)                  \
    case ALU_##name: {                                \
        D *d_ = (D *)(f + op->d);                     \
        const A *a_ = (const A *)(f + op->a);         \
        LANES(mask, const A a = a_[l]; d_[l] = value) \
        break;                                        \
    }
#define DO2(name, text, D, A, B, value)                                  \
    case ALU_##name: {                                                   \
        D *d_ = (D *)(f + op->d);                                        \
        const A *a_ = (const A *)(f + op->a);                            \
        const B *b_ = (const B *)(f + op->b);                            \
        LANES(mask, const A a = a_[l]; const B b = b_[l]; d_[l] = value) \
        break;                                                           \
    }
#define DO3(name, text, D, A, B, C, value)                                                  \
    case ALU_##name: {                                                                      \
        D *d_ = (D *)(f + op->d);                                                           \
        const A *a_ = (const A *)(f + op->a);                                               \
        const B *b_ = (const B *)(f + op->b);                                               \
        const C *c_ = (const C *)(f + op->c);                                               \
        LANES(mask, const A a = a_[l]; const B b = b_[l]; const C c = c_[l]; d_[l] = value) \
        break;                                                                              \
    }
#define DO4(name, text, D, A, B, C, E, value)                                                                  \
    case ALU_##name: {                                                                                         \
        D *d_ = (D *)(f + op->d);                                                                              \
        const A *a_ = (const A *)(f + op->a);                                                                  \
        const B *b_ = (const B *)(f + op->b);                                                                  \
        const C *c_ = (const C *)(f + op->c);                                                                  \
        const E *e_ = (const E *)(f + op->e);                                                                  \
        LANES(mask, const A a = a_[l]; const B b = b_[l]; const C c = c_[l]; const E e = e_[l]; d_[l] = value) \
        break;                                                                                                 \
    }
#define DO_COMPARE(name, text, T, value)                                             \
    case ALU_##name: {                                                               \
        const T *a_ = (const T *)(f + op->a);                                        \
        const T *b_ = (const T *)(f + op->b);                                        \
        u32 bits = 0;                                                                \
        LANES(mask, const T a = a_[l]; const T b = b_[l]; bits |= (u32)(value) << l) \
        set_predicate(w, op->d, mask, combined(w, op, bits));                        \
        break;                                                                       \
    }

static void compute(const warp *w, const ptx_op *op, u32 mask)
{
    u8 *f = w->file;
    switch ((enum ptx_code)op->code) {
        PTX_ALU(DO1, DO2, DO3, DO4)
        PTX_COMPARE(DO_COMPARE)
    case OP_SELECT: select_lanes(w, op, mask); break;
    case OP_PACK: pack(w, op, mask); break;
    case OP_UNPACK: unpack(w, op, mask); break;
    case OP_PRED_AND: set_predicate(w, op->d, mask, *row32(w, op->a) & *row32(w, op->b)); break;
    case OP_PRED_OR: set_predicate(w, op->d, mask, *row32(w, op->a) | *row32(w, op->b)); break;
    case OP_PRED_XOR: set_predicate(w, op->d, mask, *row32(w, op->a) ^ *row32(w, op->b)); break;
    case OP_PRED_NOT: set_predicate(w, op->d, mask, ~*row32(w, op->a)); break;
    case OP_PRED_MOVE: set_predicate(w, op->d, mask, *row32(w, op->a)); break;
    default: break;
    }
}

static void wait_at_barrier(group *g, warp *w, const ptx_op *op, u32 mask, u32 pc)
{
    if (mask != w->live || w->sides[w->depth - 1].mask != w->live)
        group_fail(g, w, op, "threads %#x are at a barrier, and %#x are alive", mask, w->live);
    w->state = WARP_AT_BARRIER;
    w->barrier = pc;
}

/* Operations that the loop of warp_run need not know of. */
static void execute(group *g, warp *w, const ptx_op *op, u32 mask, ptx_count *count)
{
    switch ((enum ptx_code)op->code) {
    case OP_LOAD: memory_load(g, w, op, mask, count); break;
    case OP_STORE: memory_store(g, w, op, mask, count); break;
    case OP_ATOMIC: memory_atomic(g, w, op, mask, count); break;
    case OP_SHUFFLE: shuffle(g, w, op, mask); break;
    case OP_VOTE: vote(g, w, op, mask); break;
    case OP_MATCH: match(g, w, op, mask); break;
    case OP_ACTIVE: LANES(mask, row32(w, op->d)[l] = mask) break;
    case OP_WARP_BARRIER:
        if (all_here(g, w, op, mask))
            w->epoch++;
        break;
    case OP_TRAP: group_fail(g, w, op, "trap"); break;
    case OP_NOTHING: break;
    default: compute(w, op, mask);
    }
}

/* Goes on from the topmost side: drops those that are empty or at their end. */
static bool settle(warp *w)
{
    while (w->depth > 0) {
        const side *top = &w->sides[w->depth - 1];
        if (top->mask && (w->depth == 1 || top->pc != top->meets))
            return true;
        w->depth--;
    }
    w->state = WARP_DONE;
    return false;
}

void warp_run(group *g, warp *w, u64 quota)
{
    const ptx_op *ops = g->kernel->ops;
    ptx_count *counts = g->machine->counts;
    while (quota-- && !g->failed && w->state == WARP_RUNS && settle(w)) {
        side *top = &w->sides[w->depth - 1];
        const u32 pc = top->pc;
        const ptx_op *op = &ops[pc];
        u32 mask = top->mask;
        if (op->guard != NO_REGISTER) {
            const u32 p = *row32(w, (u32)op->guard);
            mask &= op->guard_not ? ~p : p;
        }
        if (counts) {
            counts[pc].issued++;
            counts[pc].lanes += (u64)__builtin_popcount(mask);
        }
        top->pc = pc + 1;
        if (!mask)
            continue;
        if (op->code == OP_BRANCH && mask == top->mask)
            top->pc = op->target;
        else if (op->code == OP_BRANCH)
            part(g, w, op, pc + 1, top->mask & ~mask, op->target, mask);
        else if (op->code == OP_BRANCH_TABLE)
            branch_by_table(g, w, op, mask);
        else if (op->code == OP_RET)
            leave(w, mask);
        else if (op->code == OP_BARRIER)
            wait_at_barrier(g, w, op, mask, pc);
        else
            execute(g, w, op, mask, counts ? &counts[pc] : NULL);
    }
}
