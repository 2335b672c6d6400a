/*
 * The search for placements; see placement.h. Where there are few ways to place the ranks, all are tried. Else those are that
 * fill domains in the order of their width from one of them, each domain in turn, with every limit of ranks to a domain; and
 * the best of these is improved by moving single ranks as long as that helps.
 */
#include "place/placement.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kit/progress.h"

enum { MOST_WAYS = 20000, MOST_TO_MOVE = 64 };

/* ---- scores ---- */

typedef struct loads {
    uint64_t *pairs; /* of links */
    uint64_t now;    /* of the two domains at work */
} loads;

static void add_load(void *data, uint32_t link)
{
    loads *l = data;
    l->pairs[link] += l->now;
}

/* The slowest pair of one domain. */
static double least_in_memory(const machine *m, const placement *p)
{
    double least = INFINITY;
    for (uint32_t d = 0; d < m->n_domains; d++) {
        const double n = p->ranks[d];
        if (n > 1)
            least = fmin(least, m->domains[d].memory / (n * (n - 1) / 2));
    }
    return least;
}

static uint32_t free_cores(const domain *d)
{
    return d->n_cores - d->used;
}

cli_exit placement_score(const machine *m, const routes *r, const job *j, placement *p)
{
    loads l = {.pairs = calloc(m->n_links + 1, sizeof *l.pairs)};
    if (!l.pairs)
        return fail_memory(m->n_links * sizeof *l.pairs);
    for (uint32_t a = 0; a < m->n_domains; a++)
        for (uint32_t b = a + 1; b < m->n_domains && p->ranks[a] > 0; b++)
            if (p->ranks[b] > 0) {
                l.now = (uint64_t)p->ranks[a] * p->ranks[b];
                routes_walk(r, a, b, add_load, &l);
            }
    double least = least_in_memory(m, p);
    p->left = 0;
    for (uint32_t i = 0; i < m->n_links; i++)
        if (l.pairs[i] > 0)
            least = fmin(least, m->links[i].rate / (double)l.pairs[i]);
        else
            p->left += m->links[i].rate;
    p->exchange = j->n_ranks > 1 ? (j->n_ranks - 1) * least : INFINITY;
    p->broken = 0;
    for (uint32_t d = 0; d < m->n_domains; d++)
        if (p->ranks[d] > 0)
            p->broken += free_cores(&m->domains[d]) - p->ranks[d] * j->n_threads;
    free(l.pairs);
    return CLI_OK;
}

/* 1, 0 or -1: more, the same within 0.1 %, less. */
static int compare(double a, double b)
{
    if (a == b || fabs(a - b) <= 1e-3 * fmax(fabs(a), fabs(b)))
        return 0;
    return a > b ? 1 : -1;
}

static bool same_scores(const placement *a, const placement *b)
{
    return compare(a->exchange, b->exchange) == 0 && compare(a->left, b->left) == 0;
}

bool placement_better(const machine *m, const placement *a, const placement *b)
{
    const int exchange = compare(a->exchange, b->exchange), left = compare(a->left, b->left);
    if (exchange != 0)
        return exchange > 0;
    if (left != 0)
        return left > 0;
    if (a->broken != b->broken)
        return a->broken < b->broken;
    for (uint32_t d = 0; d < m->n_domains; d++)
        if (a->ranks[d] != b->ranks[d])
            return a->ranks[d] > b->ranks[d];
    return false;
}

/* ---- the search ---- */

typedef struct finder {
    const machine *m;
    const routes *r;
    const job *j;
    placements *found;
    uint32_t *room;    /* ranks that fit into a domain */
    uint32_t *on_node; /* ranks, by the vertex of the node */
    uint32_t *order;   /* domains */
    placement at;      /* the one at work */
} finder;

static uint32_t node_of(const machine *m, uint32_t d)
{
    return m->vertices[m->domains[d].vertex].node;
}

static uint32_t least_u32(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* How many of `wanted` ranks may still go into domain d. */
static uint32_t may_place(const finder *f, uint32_t d, uint32_t wanted)
{
    const uint32_t most = f->j->most_on_node, used = f->on_node[node_of(f->m, d)];
    const uint32_t fits = least_u32(wanted, f->room[d] - f->at.ranks[d]);
    return most == 0 ? fits : least_u32(fits, most - used);
}

static void place(finder *f, uint32_t d, uint32_t n)
{
    f->at.ranks[d] += n;
    f->on_node[node_of(f->m, d)] += n;
}

static void unplace(finder *f, uint32_t d, uint32_t n)
{
    f->at.ranks[d] -= n;
    f->on_node[node_of(f->m, d)] -= n;
}

/* Keeps the placement at work if it is among the best; one of several with the same scores. */
static void keep(finder *f)
{
    placements *found = f->found;
    const size_t bytes = f->m->n_domains * sizeof *f->at.ranks;
    uint32_t i = 0;
    while (i < found->n && !same_scores(&f->at, &found->items[i]))
        i++;
    if (i < found->n && !placement_better(f->m, &f->at, &found->items[i]))
        return;
    if (i == found->n && found->n < MOST_PLACEMENTS)
        found->n++;
    else if (i == found->n && !placement_better(f->m, &f->at, &found->items[--i]))
        return;
    uint32_t *ranks = found->items[i].ranks;
    found->items[i] = f->at;
    found->items[i].ranks = memcpy(ranks, f->at.ranks, bytes);
    for (; i > 0 && placement_better(f->m, &found->items[i], &found->items[i - 1]); i--) {
        const placement better = found->items[i];
        found->items[i] = found->items[i - 1];
        found->items[i - 1] = better;
    }
}

static cli_exit try_it(finder *f)
{
    const cli_exit code = placement_score(f->m, f->r, f->j, &f->at);
    f->found->n_tried++;
    if (f->found->n_tried % 64 == 0)
        progress_text("placements: %llu tried ...", (unsigned long long)f->found->n_tried);
    if (code == CLI_OK)
        keep(f);
    return code;
}

/* ---- all ways ---- */

/* Ways to put n ranks into the domains, without the limit of a node; at most `most`. By domains, in a row of n + 1 numbers. */
static cli_exit count_ways(const finder *f, uint64_t most, uint64_t *ways)
{
    const uint32_t n = f->j->n_ranks;
    uint64_t *row = calloc(n + 1, sizeof *row);
    if (!row)
        return fail_memory((n + 1) * sizeof *row);
    row[0] = 1;
    for (uint32_t d = 0; d < f->m->n_domains; d++)
        for (uint32_t k = n; k > 0; k--)
            for (uint32_t here = 1; here <= least_u32(k, f->room[d]); here++)
                row[k] = row[k] + row[k - here] > most ? most : row[k] + row[k - here];
    *ways = row[n];
    free(row);
    return CLI_OK;
}

/* The next way after the one at work, as an odometer counts: the first ranks that can move on do, and those before them begin
 * anew. False after the last. */
static bool fill_from(finder *f, uint32_t first, uint32_t n)
{
    for (uint32_t d = first; d < f->m->n_domains && n > 0; d++) {
        const uint32_t here = may_place(f, d, n);
        place(f, d, here);
        n -= here;
    }
    return n == 0;
}

static bool next_way(finder *f)
{
    uint32_t loose = 0;
    for (uint32_t d = f->m->n_domains; d-- > 0;) {
        for (; f->at.ranks[d] > 0;) {
            unplace(f, d, 1);
            loose++;
            if (fill_from(f, d + 1, loose))
                return true;
            for (uint32_t k = d + 1; k < f->m->n_domains; k++)
                unplace(f, k, f->at.ranks[k]);
        }
    }
    return false;
}

static cli_exit try_all(finder *f)
{
    cli_exit code = CLI_OK;
    bool more = fill_from(f, 0, f->j->n_ranks);
    for (; more && code == CLI_OK; more = code == CLI_OK && next_way(f))
        code = try_it(f);
    f->found->all_tried = true;
    return code;
}

/* ---- likely ways ---- */

typedef struct distance {
    double width;
    uint32_t domain;
} distance;

static int nearer(const void *a, const void *b)
{
    const distance *x = a, *y = b;
    if (x->width != y->width)
        return x->width > y->width ? -1 : 1;
    return (x->domain > y->domain) - (x->domain < y->domain);
}

/* The domains by their width from `start`, itself first. */
static cli_exit order_from(finder *f, uint32_t start)
{
    distance *all = calloc(f->m->n_domains, sizeof *all);
    if (!all)
        return fail_memory(f->m->n_domains * sizeof *all);
    for (uint32_t d = 0; d < f->m->n_domains; d++)
        all[d] = (distance){.width = d == start ? INFINITY : routes_width(f->r, start, d), .domain = d};
    qsort(all, f->m->n_domains, sizeof *all, nearer);
    for (uint32_t d = 0; d < f->m->n_domains; d++)
        f->order[d] = all[d].domain;
    free(all);
    return CLI_OK;
}

static void clear(finder *f)
{
    for (uint32_t d = 0; d < f->m->n_domains; d++)
        unplace(f, d, f->at.ranks[d]);
}

static cli_exit try_in_order(finder *f, uint32_t most_in_domain)
{
    uint32_t n = f->j->n_ranks;
    clear(f);
    for (uint32_t i = 0; i < f->m->n_domains && n > 0; i++) {
        const uint32_t here = may_place(f, f->order[i], least_u32(n, most_in_domain));
        place(f, f->order[i], here);
        n -= here;
    }
    return n == 0 ? try_it(f) : CLI_OK;
}

/* Moves one rank of the best placement wherever that makes it better, until it does nowhere. */
static cli_exit improve(finder *f)
{
    const uint32_t n = f->m->n_domains;
    cli_exit code = CLI_OK;
    bool better = n <= MOST_TO_MOVE;
    while (better && code == CLI_OK) {
        better = false;
        clear(f);
        for (uint32_t d = 0; d < n; d++)
            place(f, d, f->found->items[0].ranks[d]);
        for (uint32_t from = 0; from < n && !better; from++)
            for (uint32_t to = 0; to < n && !better && f->at.ranks[from] > 0 && code == CLI_OK; to++) {
                unplace(f, from, 1);
                const bool fits = to != from && may_place(f, to, 1) == 1;
                if (fits) {
                    place(f, to, 1);
                    code = try_it(f);
                    better = code == CLI_OK && memcmp(f->at.ranks, f->found->items[0].ranks, n * sizeof *f->at.ranks) == 0;
                    unplace(f, to, 1);
                }
                place(f, from, 1);
            }
    }
    return code;
}

static cli_exit try_likely(finder *f)
{
    uint32_t most = 0;
    cli_exit code = CLI_OK;
    for (uint32_t d = 0; d < f->m->n_domains; d++)
        most = f->room[d] > most ? f->room[d] : most;
    most = least_u32(most, f->j->n_ranks);
    for (uint32_t start = 0; start < f->m->n_domains && code == CLI_OK; start++) {
        code = order_from(f, start);
        for (uint32_t k = most; k > 0 && code == CLI_OK; k = k > 8 ? k * 3 / 4 : k - 1)
            code = try_in_order(f, k);
    }
    return code == CLI_OK && f->found->n > 0 ? improve(f) : code;
}

/* ---- the whole ---- */

static cli_exit check_room(const finder *f)
{
    uint64_t room = 0, cores = 0;
    for (uint32_t v = 0; v < f->m->n_vertices; v++) {
        uint64_t node = 0;
        for (uint32_t d = 0; d < f->m->n_domains; d++)
            node += node_of(f->m, d) == v ? f->room[d] : 0;
        room += f->j->most_on_node > 0 && node > f->j->most_on_node ? f->j->most_on_node : node;
    }
    for (uint32_t d = 0; d < f->m->n_domains; d++)
        cores += free_cores(&f->m->domains[d]);
    if (room >= f->j->n_ranks)
        return CLI_OK;
    return fail(CLI_BAD_INPUT, "%u ranks of %u threads do not fit: there is room for %llu, with %llu free cores", f->j->n_ranks,
                f->j->n_threads, (unsigned long long)room, (unsigned long long)cores);
}

static bool allocate(finder *f)
{
    const size_t n = f->m->n_domains;
    f->room = calloc(n, sizeof *f->room);
    f->on_node = calloc(f->m->n_vertices, sizeof *f->on_node);
    f->order = calloc(n, sizeof *f->order);
    f->at.ranks = calloc(n, sizeof *f->at.ranks);
    bool all = f->room && f->on_node && f->order && f->at.ranks;
    for (uint32_t i = 0; i < MOST_PLACEMENTS; i++)
        all = (f->found->items[i].ranks = calloc(n, sizeof *f->at.ranks)) && all;
    return all;
}

static cli_exit find(finder *f)
{
    uint64_t ways = 0;
    for (uint32_t d = 0; d < f->m->n_domains; d++)
        f->room[d] = free_cores(&f->m->domains[d]) / f->j->n_threads;
    cli_exit code = check_room(f);
    if (code == CLI_OK)
        code = count_ways(f, MOST_WAYS + 1, &ways);
    if (code == CLI_OK)
        code = ways <= MOST_WAYS ? try_all(f) : try_likely(f);
    progress_hide();
    return code;
}

cli_exit placement_find(const machine *m, const routes *r, const job *j, placements *found)
{
    finder f = {.m = m, .r = r, .j = j, .found = found};
    *found = (placements){.n = 0};
    const cli_exit code = allocate(&f) ? find(&f) : fail_memory(m->n_domains * sizeof *f.room * MOST_PLACEMENTS);
    free(f.room);
    free(f.on_node);
    free(f.order);
    free(f.at.ranks);
    return code;
}

void placements_free(placements *found)
{
    for (uint32_t i = 0; i < MOST_PLACEMENTS; i++)
        free(found->items[i].ranks);
    *found = (placements){.n = 0};
}
