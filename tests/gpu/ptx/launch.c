/* Groups of a launch: memory, registers, barriers, and the order of warps. See ptx.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/ptx/inside.h"

static u32 next_random(group *g)
{
    g->random = g->random * 6364136223846793005u + 1442695040888963407u;
    return (u32)(g->random >> 33);
}

/* ---- what a group begins with ---- */

static void fill_row(u8 *file, u32 row, u32 bytes, u64 bits)
{
    for (u32 l = 0; l < PTX_WARP; l++)
        memcpy(file + row + (size_t)l * bytes, &bits, bytes);
}

static void fill_special(const group *g, warp *w, u32 n_groups)
{
    const u32 values[N_SPECIAL] = {
        [CTAID_X] = g->number, [NTID_X] = g->n_threads, [NCTAID_X] = n_groups, [WARP_NUMBER] = w->index};
    for (u32 i = 0; i < N_SPECIAL; i++)
        fill_row(w->file, g->kernel->special + i * 4 * PTX_WARP, 4, values[i]);
    u32 *tid = (u32 *)(w->file + g->kernel->special + TID_X * 4 * PTX_WARP);
    u32 *lane = (u32 *)(w->file + g->kernel->special + LANE * 4 * PTX_WARP);
    for (u32 l = 0; l < PTX_WARP; l++) {
        tid[l] = w->index * PTX_WARP + l;
        lane[l] = l;
    }
}

/* Registers and shared memory hold what groups before left, or anything: no kernel may depend on it. */
static void begin_warp(group *g, warp *w, u32 n_groups, bool garble)
{
    const ptx_kernel *k = g->kernel;
    const u32 threads = g->n_threads - w->index * PTX_WARP;
    if (garble) {
        memset(w->file, (int)(next_random(g) & 255), k->file_bytes);
        for (u32 i = 0; i < k->n_constants; i++)
            fill_row(w->file, k->constants[i].row, k->constants[i].bytes, k->constants[i].bits);
    }
    fill_special(g, w, n_groups);
    w->live = threads < PTX_WARP ? (1u << threads) - 1 : ~0u;
    w->sides[0] = (side){0, k->n_ops, w->live};
    w->depth = 1;
    w->state = WARP_RUNS;
}

/* ---- a group ---- */

/* All warps wait at one barrier, or all are done; else they have parted. True if they go on. */
static bool release(group *g)
{
    const warp *first = &g->warps[0];
    u32 done = 0;
    for (u32 i = 0; i < g->n_warps; i++) {
        const warp *w = &g->warps[i];
        done += w->state == WARP_DONE;
        if (w->state != first->state || (w->state == WARP_AT_BARRIER && w->barrier != first->barrier)) {
            group_fail(g, w, &g->kernel->ops[first->barrier], "warps 0 and %u part at a barrier", i);
            return false;
        }
    }
    for (u32 i = 0; i < g->n_warps && !done; i++)
        g->warps[i].state = WARP_RUNS;
    g->epoch++;
    return !done;
}

/* Runs all warps up to the next barrier. */
static void run_phase(group *g)
{
    const enum ptx_order order = g->machine->order;
    bool any = true;
    while (any && !g->failed) {
        any = false;
        const u32 first = order == PTX_SHUFFLED ? next_random(g) % g->n_warps : 0;
        for (u32 i = 0; i < g->n_warps && !g->failed; i++) {
            const u32 at = order == PTX_BACKWARD ? g->n_warps - 1 - i : (i + first) % g->n_warps;
            const u64 quota = order == PTX_SHUFFLED ? 1 + next_random(g) % 500 : UINT64_MAX;
            warp_run(g, &g->warps[at], quota);
            any = any || g->warps[at].state == WARP_RUNS;
        }
    }
}

static void run_group(group *g, u32 n_groups, bool garble)
{
    memset(g->shared, (int)(next_random(g) & 255), g->kernel->shared_bytes);
    for (u32 i = 0; i < g->n_warps; i++)
        begin_warp(g, &g->warps[i], n_groups, garble);
    g->epoch++;
    do
        run_phase(g);
    while (!g->failed && release(g));
}

/* ---- a launch ---- */

static void *need(size_t bytes)
{
    void *p = aligned_alloc(64, (bytes + 64) / 64 * 64);
    if (!p)
        abort(); /* out of memory in a test */
    return memset(p, 0, (bytes + 64) / 64 * 64);
}

static void begin_launch(group *g, void *const *arguments)
{
    const ptx_kernel *k = g->kernel;
    g->params = need(k->param_bytes);
    g->shared = need(k->shared_bytes);
    g->local = need((size_t)k->local_bytes * PTX_WARP * g->n_warps);
    if (g->machine->watch)
        g->shadows = need((size_t)k->shared_bytes * sizeof *g->shadows);
    for (u32 i = 0; i < k->n_params; i++)
        memcpy(g->params + k->param_at[i], arguments[i], k->param_size[i]);
    for (u32 i = 0; i < g->n_warps; i++) {
        g->warps[i].index = i;
        g->warps[i].file = need(k->file_bytes);
    }
}

static void end_launch(group *g)
{
    free(g->params);
    free(g->shared);
    free(g->local);
    free(g->shadows);
    for (u32 i = 0; i < g->n_warps; i++)
        free(g->warps[i].file);
    free(g);
}

bool ptx_launch(ptx_machine *m, const ptx_kernel *k, uint32_t n_groups, uint32_t n_threads, void *const *arguments)
{
    m->why[0] = 0;
    if (n_threads == 0 || n_threads > k->max_threads) {
        snprintf(m->why, PTX_WHY_BYTES, "%.40s: groups of %u threads; it takes up to %u", k->name, n_threads, k->max_threads);
        return false;
    }
    group *g = need(sizeof *g);
    g->machine = m;
    g->kernel = k;
    g->n_threads = n_threads;
    g->n_warps = (n_threads + PTX_WARP - 1) / PTX_WARP;
    g->random = m->seed * 2 + 1;
    begin_launch(g, arguments);
    for (u32 i = 0; i < n_groups && !g->failed; i++) {
        g->number = m->order == PTX_BACKWARD ? n_groups - 1 - i : i;
        run_group(g, n_groups, i == 0 || (m->order == PTX_SHUFFLED && i % 8 == 0));
    }
    const bool good = !g->failed;
    end_launch(g);
    return good;
}
