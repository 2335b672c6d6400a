/* Placements; see plan_place.h. */
#include "train/plan_place.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "kit/json_out.h"
#include "place/launch.h"

static job job_of(const plan_args *args)
{
    return (job){.n_ranks = (uint32_t)args->several.ranks.n,
                 .n_threads = args->n_threads > 0 ? (uint32_t)args->n_threads : 1,
                 .most_on_node = (uint32_t)args->several.per_node};
}

static void print_machine(const plan_args *args, const machine *m, const job *j, const placements *found)
{
    uint32_t cores = 0, used = 0;
    for (uint32_t d = 0; d < m->n_domains; d++) {
        cores += m->domains[d].n_cores;
        used += m->domains[d].used;
    }
    printf("%s: %" PRIu32 " nodes, %" PRIu32 " domains of memory, %" PRIu32 " cores, %" PRIu32 " in use\n", args->place,
           m->n_nodes, m->n_domains, cores, used);
    printf("%" PRIu32 " ranks of %" PRIu32 " threads; %" PRIu64 " placements tried, %s\n", j->n_ranks, j->n_threads,
           found->n_tried, found->all_tried ? "all there are" : "the likely ones");
    printf("%-14s %14s  %s\n", "exchange", "left free", "node:domain x ranks");
}

static void print_rate(double rate, const char *unit)
{
    if (isinf(rate))
        printf("%-8s %5s", "-", "");
    else
        printf("%8.4g %5s", rate / 1e9, unit);
}

static cli_exit print_placement(const machine *m, const placement *p)
{
    char *where = launch_where(m, p);
    if (!where)
        return fail_memory(m->n_domains * MACHINE_NAME_BYTES);
    print_rate(p->exchange, "GB/s");
    putchar(' ');
    print_rate(p->left, "GB/s");
    printf("  %s\n", where);
    free(where);
    return CLI_OK;
}

typedef struct texts {
    char *where, *rankfile, *hostfile;
} texts;

static void free_texts(texts *t)
{
    free(t->where);
    free(t->rankfile);
    free(t->hostfile);
}

static cli_exit make_texts(const machine *m, const job *j, const placement *p, texts *t)
{
    *t = (texts){.where = launch_where(m, p), .rankfile = launch_rankfile(m, j, p), .hostfile = launch_hostfile(m, j, p)};
    if (t->where && t->rankfile && t->hostfile)
        return CLI_OK;
    free_texts(t);
    fail_memory((size_t)j->n_ranks * MACHINE_NAME_BYTES);
    return CLI_NO_MEMORY;
}

static cli_exit print_tables(const plan_args *args, const machine *m, const job *j, const placements *found)
{
    texts t;
    cli_exit code = make_texts(m, j, &found->items[0], &t);
    if (code != CLI_OK)
        return code;
    print_machine(args, m, j, found);
    for (uint32_t i = 0; i < found->n && code == CLI_OK; i++)
        code = print_placement(m, &found->items[i]);
    printf("\nthe first, for Open MPI: mpirun -np %" PRIu32 " --rankfile FILE ... with these lines in FILE\n%s", j->n_ranks,
           t.rankfile);
    printf("\nfor MPICH: mpirun -n %" PRIu32 " -f FILE ... with these lines in FILE\n%s", j->n_ranks, t.hostfile);
    free_texts(&t);
    return code;
}

static cli_exit print_object(const machine *m, const job *j, const placement *p, uint32_t place)
{
    texts t;
    const cli_exit code = make_texts(m, j, p, &t);
    if (code != CLI_OK)
        return code;
    json o = json_begin();
    json_add_u64(&o, "place", place);
    json_add_text(&o, "where", t.where);
    json_add_u64(&o, "ranks", j->n_ranks);
    json_add_u64(&o, "threads", j->n_threads);
    json_add_double(&o, "exchange_bytes_per_s", p->exchange);
    json_add_double(&o, "left_bytes_per_s", p->left);
    json_add_text(&o, "openmpi_rankfile", t.rankfile);
    json_add_text(&o, "mpich_hostfile", t.hostfile);
    free_texts(&t);
    return json_print(&o);
}

static cli_exit place_on(const plan_args *args, const machine *m)
{
    const job j = job_of(args);
    routes r;
    placements found = {.n = 0};
    cli_exit code = routes_find(m, &r);
    if (code == CLI_OK)
        code = placement_find(m, &r, &j, &found);
    if (code == CLI_OK && found.n == 0)
        code = fail(CLI_FAILED, "no placement was found");
    if (code == CLI_OK && !args->json)
        code = print_tables(args, m, &j, &found);
    for (uint32_t i = 0; i < found.n && code == CLI_OK && args->json; i++)
        code = print_object(m, &j, &found.items[i], i + 1);
    placements_free(&found);
    routes_free(&r);
    return code;
}

cli_exit plan_place(const plan_args *args)
{
    machine m;
    if (!args->several.ranks.given || args->several.ranks.table)
        return fail(CLI_USAGE, "--place needs --ranks N: how many ranks are to be placed");
    cli_exit code = machine_open(args->place, &m);
    if (code == CLI_OK)
        code = place_on(args, &m);
    machine_free(&m);
    return code;
}
