/*
 * Where the sides of a branch meet again: its immediate post-dominator, the first operation that every way from it to the
 * kernel's end passes. Found as Cooper, Harvey and Kennedy do, on the reversed graph of operations; the end is a node
 * of its own, with number n_ops.
 */
#include <stdlib.h>
#include <string.h>

#include "gpu/ptx/alu.h"
#include "gpu/ptx/inside.h"

#define UNKNOWN UINT32_MAX

typedef struct flow {
    const ptx_kernel *k;
    u32 *first_before, *before; /* operations from which one comes to operation i: before[first_before[i]] on */
    u32 *order, n_order;        /* operations, each after those that come after it, as far as loops allow */
    u32 *number, *next;         /* place in `order`; immediate post-dominator */
} flow;

static void *need(size_t n)
{
    void *p = calloc(n, sizeof(u32));
    if (!p)
        abort();
    return p;
}

/* The i-th operation that may follow; false after the last. */
static bool follower(const ptx_kernel *k, u32 op, u32 i, u32 *to)
{
    const ptx_op *o = &k->ops[op];
    const bool falls = o->guard != NO_REGISTER || (o->code != OP_RET && o->code != OP_BRANCH && o->code != OP_BRANCH_TABLE);
    if (falls && i == 0) {
        *to = op + 1;
        return true;
    }
    i -= falls;
    *to = o->code == OP_RET ? k->n_ops : o->code == OP_BRANCH ? o->target : UNKNOWN;
    if (o->code == OP_BRANCH_TABLE && i < o->n_table)
        *to = k->targets[o->table + i];
    return o->code == OP_BRANCH_TABLE ? i < o->n_table : (o->code == OP_RET || o->code == OP_BRANCH) && i == 0;
}

static void turn_round(flow *f)
{
    const u32 n = f->k->n_ops;
    u32 to, n_edges = 0;
    f->first_before = need(n + 3);
    for (u32 op = 0; op < n; op++)
        for (u32 i = 0; follower(f->k, op, i, &to); i++, n_edges++)
            f->first_before[to + 2]++;
    f->before = need(n_edges + 1);
    for (u32 i = 2; i < n + 3; i++)
        f->first_before[i] += f->first_before[i - 1];
    for (u32 op = 0; op < n; op++)
        for (u32 i = 0; follower(f->k, op, i, &to); i++)
            f->before[f->first_before[to + 1]++] = op;
}

/* Post-order of a walk back from the end. */
static void walk(flow *f)
{
    const u32 n = f->k->n_ops;
    u32 *stack = need(n + 1), *at = need(n + 1), depth = 1;
    f->order = need(n + 1);
    f->number = need(n + 1);
    memset(f->number, 0xff, (n + 1) * sizeof *f->number);
    stack[0] = n;
    at[n] = f->first_before[n];
    f->number[n] = 0; /* seen */
    while (depth) {
        const u32 op = stack[depth - 1];
        if (at[op] < f->first_before[op + 1]) {
            const u32 other = f->before[at[op]++];
            if (f->number[other] == UNKNOWN) {
                f->number[other] = 0;
                at[other] = f->first_before[other];
                stack[depth++] = other;
            }
        } else {
            f->number[op] = f->n_order;
            f->order[f->n_order++] = op;
            depth--;
        }
    }
    free(stack);
    free(at);
}

static u32 common(const flow *f, u32 a, u32 b)
{
    while (a != b) {
        while (f->number[a] < f->number[b])
            a = f->next[a];
        while (f->number[b] < f->number[a])
            b = f->next[b];
    }
    return a;
}

static bool improve(flow *f)
{
    bool changed = false;
    for (u32 i = f->n_order - 1; i-- > 0;) { /* the last is the end itself */
        const u32 op = f->order[i];
        u32 to, found = UNKNOWN;
        for (u32 j = 0; follower(f->k, op, j, &to); j++)
            if (f->number[to] != UNKNOWN && f->next[to] != UNKNOWN)
                found = found == UNKNOWN ? to : common(f, found, to);
        changed = changed || f->next[op] != found;
        f->next[op] = found;
    }
    return changed;
}

void flow_find_meetings(ptx_kernel *k)
{
    flow f = {.k = k};
    turn_round(&f);
    walk(&f);
    f.next = need(k->n_ops + 1);
    memset(f.next, 0xff, (k->n_ops + 1) * sizeof *f.next);
    f.next[k->n_ops] = k->n_ops;
    while (improve(&f)) {
    }
    for (u32 i = 0; i < k->n_ops; i++)
        k->ops[i].meets = f.next[i] == UNKNOWN ? k->n_ops : f.next[i]; /* unknown: it never comes to the end */
    free(f.first_before);
    free(f.before);
    free(f.order);
    free(f.number);
    free(f.next);
}
