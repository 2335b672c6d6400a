/* Texts for mpirun; see launch.h. */
#define _GNU_SOURCE
#include "place/launch.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static const vertex *node_of(const machine *m, uint32_t d)
{
    return &m->vertices[m->vertices[m->domains[d].vertex].node];
}

/* The first core of a domain's k-th rank. */
static uint32_t first_core(const domain *d, const job *j, uint32_t k)
{
    return d->first_core + d->used + k * j->n_threads;
}

/* Ends the text that was written to a stream. */
static char *end_text(FILE *out, char **text)
{
    if (fclose(out) == 0)
        return *text;
    free(*text);
    return NULL;
}

char *launch_where(const machine *m, const placement *p)
{
    char *text = NULL;
    size_t bytes;
    const char *between = "";
    FILE *out = open_memstream(&text, &bytes);
    if (!out)
        return NULL;
    for (uint32_t d = 0; d < m->n_domains; d++)
        if (p->ranks[d] > 0) {
            fprintf(out, "%s%s:%" PRIu32 " x%" PRIu32, between, node_of(m, d)->name, m->domains[d].index, p->ranks[d]);
            between = ", ";
        }
    return end_text(out, &text);
}

char *launch_rankfile(const machine *m, const job *j, const placement *p)
{
    char *text = NULL;
    size_t bytes;
    uint32_t rank = 0;
    FILE *out = open_memstream(&text, &bytes);
    if (!out)
        return NULL;
    for (uint32_t d = 0; d < m->n_domains; d++)
        for (uint32_t k = 0; k < p->ranks[d]; k++) {
            const uint32_t first = first_core(&m->domains[d], j, k);
            fprintf(out, "rank %" PRIu32 "=%s slot=%" PRIu32, rank++, node_of(m, d)->name, first);
            if (j->n_threads > 1)
                fprintf(out, "-%" PRIu32, first + j->n_threads - 1);
            fputc('\n', out);
        }
    return end_text(out, &text);
}

static uint32_t ranks_of_node(const machine *m, const placement *p, const vertex *node)
{
    uint32_t n = 0;
    for (uint32_t d = 0; d < m->n_domains; d++)
        n += node_of(m, d) == node ? p->ranks[d] : 0;
    return n;
}

/* Domains of a node follow one another. */
char *launch_hostfile(const machine *m, const job *j, const placement *p)
{
    char *text = NULL;
    size_t bytes;
    const vertex *node = NULL;
    FILE *out = open_memstream(&text, &bytes);
    if (!out)
        return NULL;
    for (uint32_t d = 0; d < m->n_domains; d++) {
        const char *between = ",";
        if (p->ranks[d] > 0 && node_of(m, d) != node) {
            fprintf(out, "%s%s:%" PRIu32 " binding=user:", node ? "\n" : "", node_of(m, d)->name,
                    ranks_of_node(m, p, node_of(m, d)));
            node = node_of(m, d);
            between = "";
        }
        for (uint32_t k = 0; k < p->ranks[d]; k++, between = ",")
            for (uint32_t t = 0; t < j->n_threads; t++)
                fprintf(out, "%s%" PRIu32, t > 0 ? "+" : between, first_core(&m->domains[d], j, k) + t);
    }
    fputc('\n', out);
    return end_text(out, &text);
}
