/*
 * A machine that jobs are placed on: nodes with sockets, sockets with domains of memory (NUMA), domains with cores; and links.
 *
 * It is a graph. A domain is joined to its socket, a socket to its node, nodes to each other or to switches. A link has a rate
 * in each direction. Ranks live in domains; two of one domain exchange through its memory.
 */
#ifndef COMET_CLI_PLACE_MACHINE_H
#define COMET_CLI_PLACE_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

#include "kit/say.h"

enum { MACHINE_NAME_BYTES = 64, MACHINE_MOST_DOMAINS = 1024, MACHINE_MOST_VERTICES = 4096 };

typedef enum vertex_kind { VERTEX_SWITCH, VERTEX_NODE, VERTEX_SOCKET, VERTEX_DOMAIN } vertex_kind;

typedef struct vertex {
    vertex_kind kind;
    char name[MACHINE_NAME_BYTES]; /* of a switch or node */
    uint32_t node;                 /* of a socket or domain: the vertex of its node */
} vertex;

typedef struct machine_link {
    uint32_t a, b; /* vertices */
    double rate;   /* bytes/s in each direction */
} machine_link;

typedef struct domain {
    uint32_t vertex, index; /* index: of the domains of its node */
    uint32_t first_core;    /* numbers of cores are those of the node */
    uint32_t n_cores, used; /* used: by others, the first ones */
    double memory;          /* bytes/s, of all its ranks to each other */
} domain;

typedef struct machine {
    vertex *vertices;
    machine_link *links;
    domain *domains;
    uint32_t n_vertices, n_links, n_domains, n_nodes;
    uint32_t vertices_room, links_room, domains_room;
} machine;

/* What a node is like. */
typedef struct node_shape {
    uint32_t n_sockets, n_domains, n_cores; /* domains of a socket, cores of a domain */
    double socket_link, domain_link, memory;
} node_shape;
node_shape node_shape_usual(void);

/* Reads the text format; `source` names it in messages, with the line. Frees nothing of *m on failure: machine_free does. */
cli_exit machine_read(const char *source, const char *text, machine *m);
/* From a file in the text format, "here" or what else hwloc reads: machine_hwloc.h. */
cli_exit machine_open(const char *source, machine *m);
void machine_free(machine *m);

/* For those who build machines. */
cli_exit machine_add_node(machine *m, const char *name, const node_shape *shape);
cli_exit machine_add_domain(machine *m, uint32_t node, uint32_t socket, uint32_t first_core, uint32_t n_cores,
                            const node_shape *shape);
cli_exit machine_add_vertex(machine *m, vertex_kind kind, const char *name, uint32_t node);
cli_exit machine_add_link(machine *m, uint32_t a, uint32_t b, double rate);

#endif
