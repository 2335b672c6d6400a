/*
 * Machines and their text format; see machine.h. A line is a word and what follows; '#' begins a comment.
 *
 *   node NAME... [sockets=N] [domains=N] [cores=N] [socket-link=RATE] [domain-link=RATE] [memory=RATE]
 *   switch NAME...
 *   link NAME NAME RATE
 *   used NODE DOMAIN CORES
 */
#include "place/machine.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "kit/number.h"
#include "kit/text.h"

enum { LINE_BYTES = 4096, MOST_WORDS = 512, MOST_OF_A_NODE = 4096 };

node_shape node_shape_usual(void)
{
    return (node_shape){.n_sockets = 1, .n_domains = 1, .n_cores = 1, .socket_link = 40e9, .domain_link = 80e9, .memory = 20e9};
}

void machine_free(machine *m)
{
    free(m->vertices);
    free(m->links);
    free(m->domains);
    *m = (machine){.vertices = NULL};
}

/* ---- building ---- */

/* Room for one more item; NULL where there is no memory. */
static void *room_for_one(void *items, uint32_t n, uint32_t *room, size_t bytes)
{
    if (n < *room)
        return items;
    const uint32_t more = *room > 0 ? 2 * *room : 16;
    void *grown = realloc(items, more * bytes);
    if (grown)
        *room = more;
    return grown;
}

#define GROW(m, list)                                                                               \
    do {                                                                                            \
        void *grown = room_for_one((m)->list, (m)->n_##list, &(m)->list##_room, sizeof *(m)->list); \
        if (!grown)                                                                                 \
            return fail_memory(2 * (size_t)(m)->n_##list * sizeof *(m)->list);                      \
        (m)->list = grown;                                                                          \
    } while (0)

cli_exit machine_add_vertex(machine *m, vertex_kind kind, const char *name, uint32_t node)
{
    if (m->n_vertices == MACHINE_MOST_VERTICES)
        return fail(CLI_BAD_INPUT, "the machine has more than %d nodes, sockets, domains and switches", MACHINE_MOST_VERTICES);
    GROW(m, vertices);
    vertex *v = &m->vertices[m->n_vertices++];
    *v = (vertex){.kind = kind, .node = node};
    memcpy(v->name, name, strlen(name) + 1);
    m->n_nodes += kind == VERTEX_NODE;
    return CLI_OK;
}

cli_exit machine_add_link(machine *m, uint32_t a, uint32_t b, double rate)
{
    for (uint32_t i = 0; i < m->n_links; i++) {
        machine_link *l = &m->links[i];
        if ((l->a == a && l->b == b) || (l->a == b && l->b == a)) {
            l->rate += rate; /* a second cable */
            return CLI_OK;
        }
    }
    GROW(m, links);
    m->links[m->n_links++] = (machine_link){.a = a, .b = b, .rate = rate};
    return CLI_OK;
}

cli_exit machine_add_domain(machine *m, uint32_t node, uint32_t socket, uint32_t first_core, uint32_t n_cores,
                            const node_shape *shape)
{
    if (m->n_domains == MACHINE_MOST_DOMAINS)
        return fail(CLI_BAD_INPUT, "the machine has more than %d domains of memory", MACHINE_MOST_DOMAINS);
    uint32_t index = 0;
    for (uint32_t i = 0; i < m->n_domains; i++)
        index += m->vertices[m->domains[i].vertex].node == node;
    const uint32_t at = m->n_vertices;
    cli_exit code = machine_add_vertex(m, VERTEX_DOMAIN, "", node);
    if (code == CLI_OK)
        code = machine_add_link(m, socket, at, shape->domain_link);
    if (code != CLI_OK)
        return code;
    GROW(m, domains);
    m->domains[m->n_domains++] =
        (domain){.vertex = at, .index = index, .first_core = first_core, .n_cores = n_cores, .memory = shape->memory};
    return CLI_OK;
}

cli_exit machine_add_node(machine *m, const char *name, const node_shape *shape)
{
    const uint32_t node = m->n_vertices;
    cli_exit code = machine_add_vertex(m, VERTEX_NODE, name, node);
    for (uint32_t s = 0; s < shape->n_sockets && code == CLI_OK; s++) {
        const uint32_t socket = m->n_vertices;
        code = machine_add_vertex(m, VERTEX_SOCKET, "", node);
        if (code == CLI_OK)
            code = machine_add_link(m, node, socket, shape->socket_link);
        for (uint32_t d = 0; d < shape->n_domains && code == CLI_OK; d++)
            code = machine_add_domain(m, node, socket, (s * shape->n_domains + d) * shape->n_cores, shape->n_cores, shape);
    }
    return code;
}

/* ---- the text ---- */

typedef struct line {
    const char *source;
    unsigned number;
    char text[LINE_BYTES];
    char *words[MOST_WORDS];
    uint32_t n;
} line;

#define FAIL_LINE(l, ...) fail_line((l), (reason){""}, __VA_ARGS__)
static cli_exit fail_line(const line *l, reason why, const char *format, const char *what)
{
    reason_set(&why, format, what); /* NOLINT: the formats are ours */
    return fail(CLI_BAD_INPUT, "%s:%u: %s", l->source, l->number, why.text);
}

/* The vertex of a switch or node; n_vertices: there is none. */
static uint32_t find(const machine *m, const char *name)
{
    uint32_t i = 0;
    while (i < m->n_vertices && (m->vertices[i].kind > VERTEX_NODE || strcmp(m->vertices[i].name, name) != 0))
        i++;
    return i;
}

static cli_exit check_name(const machine *m, const line *l, const char *name)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    if (strlen(name) >= MACHINE_NAME_BYTES || name[strspn(name, letters)] != '\0')
        return FAIL_LINE(l, "'%.60s' is not a name: letters, digits, '.', '_' and '-', at most 63 of them", name);
    return find(m, name) < m->n_vertices ? FAIL_LINE(l, "'%.60s' is there already", name) : CLI_OK;
}

static cli_exit read_property(const line *l, char *word, node_shape *shape)
{
    const struct {
        const char *name;
        uint32_t *count;
        double *rate;
    } known[] = {{"sockets", &shape->n_sockets, NULL},       {"domains", &shape->n_domains, NULL},
                 {"cores", &shape->n_cores, NULL},           {"socket-link", NULL, &shape->socket_link},
                 {"domain-link", NULL, &shape->domain_link}, {"memory", NULL, &shape->memory}};
    char *value = strchr(word, '=');
    reason why = {""};
    *value++ = '\0';
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(word, known[i].name) == 0) {
            uint64_t count = 1;
            if (known[i].rate ? !number_rate(value, known[i].rate, &why) : !number_u64(value, 1, MOST_OF_A_NODE, &count, &why))
                return FAIL_LINE(l, "%s", why.text);
            if (known[i].count)
                *known[i].count = (uint32_t)count;
            return CLI_OK;
        }
    return FAIL_LINE(l, "a node has no '%.60s'; it has sockets, domains, cores, socket-link, domain-link and memory", word);
}

static cli_exit read_nodes(machine *m, line *l)
{
    node_shape shape = node_shape_usual();
    uint32_t n_names = 0;
    cli_exit code = CLI_OK;
    for (uint32_t i = 1; i < l->n && code == CLI_OK; i++)
        if (strchr(l->words[i], '='))
            code = read_property(l, l->words[i], &shape);
        else
            l->words[++n_names] = l->words[i];
    if (code == CLI_OK && n_names == 0)
        return FAIL_LINE(l, "a '%s' needs a name", "node");
    for (uint32_t i = 1; i <= n_names && code == CLI_OK; i++) {
        code = check_name(m, l, l->words[i]);
        if (code == CLI_OK)
            code = machine_add_node(m, l->words[i], &shape);
    }
    return code;
}

static cli_exit read_switches(machine *m, const line *l)
{
    cli_exit code = l->n > 1 ? CLI_OK : FAIL_LINE(l, "a '%s' needs a name", "switch");
    for (uint32_t i = 1; i < l->n && code == CLI_OK; i++) {
        code = check_name(m, l, l->words[i]);
        if (code == CLI_OK)
            code = machine_add_vertex(m, VERTEX_SWITCH, l->words[i], m->n_vertices);
    }
    return code;
}

static cli_exit read_link(machine *m, const line *l)
{
    uint32_t ends[2];
    double rate = 0;
    reason why = {""};
    if (l->n != 4)
        return FAIL_LINE(l, "a link is written '%s'", "link NAME NAME RATE");
    for (uint32_t i = 0; i < 2; i++)
        if ((ends[i] = find(m, l->words[i + 1])) == m->n_vertices)
            return FAIL_LINE(l, "'%.60s' is neither a node nor a switch above this line", l->words[i + 1]);
    if (ends[0] == ends[1])
        return FAIL_LINE(l, "'%.60s' is linked to itself", l->words[1]);
    if (!number_rate(l->words[3], &rate, &why))
        return FAIL_LINE(l, "%s", why.text);
    return machine_add_link(m, ends[0], ends[1], rate);
}

static cli_exit read_used(machine *m, const line *l)
{
    uint64_t index = 0, cores = 0;
    reason why = {""};
    const uint32_t node = l->n == 4 ? find(m, l->words[1]) : 0;
    if (l->n != 4)
        return FAIL_LINE(l, "cores in use are written '%s'", "used NODE DOMAIN CORES");
    if (!number_u64(l->words[2], 0, MACHINE_MOST_DOMAINS, &index, &why) ||
        !number_u64(l->words[3], 0, MOST_OF_A_NODE, &cores, &why))
        return FAIL_LINE(l, "%s", why.text);
    for (uint32_t i = 0; i < m->n_domains; i++) {
        domain *d = &m->domains[i];
        if (m->vertices[d->vertex].node != node || d->index != index)
            continue;
        if (cores > d->n_cores)
            return FAIL_LINE(l, "that domain has fewer cores than %s", l->words[3]);
        d->used = (uint32_t)cores;
        return CLI_OK;
    }
    return FAIL_LINE(l, "'%.60s' is no node with such a domain above this line", l->words[1]);
}

static cli_exit read_line(machine *m, line *l)
{
    char *rest = l->text;
    char *comment = strchr(l->text, '#');
    if (comment)
        *comment = '\0';
    l->n = 0;
    for (char *word = strtok_r(rest, " \t\r", &rest); word; word = strtok_r(NULL, " \t\r", &rest)) {
        if (l->n == MOST_WORDS)
            return FAIL_LINE(l, "the line has more words than are read%s", "");
        l->words[l->n++] = word;
    }
    if (l->n == 0)
        return CLI_OK;
    if (strcmp(l->words[0], "node") == 0)
        return read_nodes(m, l);
    if (strcmp(l->words[0], "switch") == 0)
        return read_switches(m, l);
    if (strcmp(l->words[0], "link") == 0)
        return read_link(m, l);
    if (strcmp(l->words[0], "used") == 0)
        return read_used(m, l);
    return FAIL_LINE(l, "'%.60s' is not node, switch, link or used", l->words[0]);
}

cli_exit machine_read(const char *source, const char *text, machine *m)
{
    static line l;
    cli_exit code = CLI_OK;
    l = (line){.source = source};
    *m = (machine){.vertices = NULL};
    for (const char *at = text; *at && code == CLI_OK; at += *at == '\n') {
        const size_t length = strcspn(at, "\n");
        l.number++;
        if (length >= LINE_BYTES)
            return FAIL_LINE(&l, "the line is too long%s", "");
        memcpy(l.text, at, length);
        l.text[length] = '\0';
        at += length;
        code = read_line(m, &l);
    }
    if (code == CLI_OK && m->n_domains == 0)
        return fail(CLI_BAD_INPUT, "%s has no line that begins with 'node'", source);
    return code;
}
