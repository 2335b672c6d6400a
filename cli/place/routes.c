/* Routes; see routes.h. From every domain a search by breadth, in which a vertex keeps the widest of its shortest ways. */
#include "place/routes.h"

#include <math.h>
#include <stdlib.h>

/* Where a search has come to. */
typedef struct search {
    uint32_t *distance;   /* of vertices, in links; UINT32_MAX: not reached */
    double *width;        /* of their way */
    uint32_t *front;      /* vertices, in the order of reaching them */
    uint32_t *first_link; /* of a vertex, in `links`; n_vertices + 1 of them */
    uint32_t *links;      /* of all vertices, two entries a link */
} search;

static uint32_t other_end(const machine_link *l, uint32_t from)
{
    return l->a == from ? l->b : l->a;
}

static void list_links(const machine *m, search *s)
{
    for (uint32_t v = 0; v <= m->n_vertices; v++)
        s->first_link[v] = 0;
    for (uint32_t i = 0; i < m->n_links; i++) {
        s->first_link[m->links[i].a + 1]++;
        s->first_link[m->links[i].b + 1]++;
    }
    for (uint32_t v = 0; v < m->n_vertices; v++) {
        s->first_link[v + 1] += s->first_link[v];
        s->distance[v] = s->first_link[v]; /* where the next one goes, until the searches begin */
    }
    for (uint32_t i = 0; i < m->n_links; i++) {
        s->links[s->distance[m->links[i].a]++] = i;
        s->links[s->distance[m->links[i].b]++] = i;
    }
}

static void search_from(const machine *m, uint32_t start, search *s, uint32_t *last)
{
    uint32_t n = 1;
    for (uint32_t v = 0; v < m->n_vertices; v++) {
        s->distance[v] = UINT32_MAX;
        s->width[v] = 0;
        last[v] = NO_LINK;
    }
    s->distance[start] = 0;
    s->width[start] = INFINITY;
    s->front[0] = start;
    for (uint32_t at = 0; at < n; at++) {
        const uint32_t v = s->front[at];
        for (uint32_t k = s->first_link[v]; k < s->first_link[v + 1]; k++) {
            const machine_link *l = &m->links[s->links[k]];
            const uint32_t next = other_end(l, v);
            const double width = fmin(s->width[v], l->rate);
            if (s->distance[next] == UINT32_MAX) {
                s->distance[next] = s->distance[v] + 1;
                s->front[n++] = next;
            } else if (s->distance[next] != s->distance[v] + 1 || !(width > s->width[next])) {
                continue;
            }
            s->width[next] = width;
            last[next] = s->links[k];
        }
    }
}

static cli_exit check_reached(const machine *m, uint32_t from, const uint32_t *last)
{
    for (uint32_t d = 0; d < m->n_domains; d++)
        if (d != from && last[m->domains[d].vertex] == NO_LINK)
            return fail(CLI_BAD_INPUT, "no link leads from %s to %s",
                        m->vertices[m->vertices[m->domains[from].vertex].node].name,
                        m->vertices[m->vertices[m->domains[d].vertex].node].name);
    return CLI_OK;
}

cli_exit routes_find(const machine *m, routes *r)
{
    const size_t n = m->n_vertices, bytes = m->n_domains * n * sizeof *r->last;
    search s = {.distance = calloc(n, sizeof *s.distance),
                .width = calloc(n, sizeof *s.width),
                .front = calloc(n, sizeof *s.front),
                .first_link = calloc(n + 1, sizeof *s.first_link),
                .links = calloc(2 * (size_t)m->n_links + 1, sizeof *s.links)};
    cli_exit code = CLI_OK;
    *r = (routes){.m = m, .last = malloc(bytes)};
    const bool ready = r->last && s.distance && s.width && s.front && s.first_link && s.links;
    if (ready)
        list_links(m, &s);
    else
        code = fail_memory(bytes);
    for (uint32_t d = 0; ready && d < m->n_domains && code == CLI_OK; d++) {
        search_from(m, m->domains[d].vertex, &s, r->last + d * n);
        code = check_reached(m, d, r->last + d * n);
    }
    free(s.distance);
    free(s.width);
    free(s.front);
    free(s.first_link);
    free(s.links);
    return code;
}

void routes_free(routes *r)
{
    free(r->last);
    r->last = NULL;
}

void routes_walk(const routes *r, uint32_t from, uint32_t to, void (*each)(void *data, uint32_t link), void *data)
{
    const machine *m = r->m;
    const uint32_t *last = r->last + (size_t)from * m->n_vertices;
    for (uint32_t v = m->domains[to].vertex; last[v] != NO_LINK; v = other_end(&m->links[last[v]], v))
        each(data, last[v]);
}

typedef struct narrowest {
    const machine *m;
    double rate;
} narrowest;

static void narrow(void *data, uint32_t link)
{
    narrowest *n = data;
    n->rate = fmin(n->rate, n->m->links[link].rate);
}

double routes_width(const routes *r, uint32_t from, uint32_t to)
{
    narrowest n = {.m = r->m, .rate = from == to ? r->m->domains[from].memory : INFINITY};
    routes_walk(r, from, to, narrow, &n);
    return n.rate;
}
