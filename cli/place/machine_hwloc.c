/* Machines as hwloc sees them; see machine_hwloc.h. libhwloc is loaded when it is needed, so that the program runs without it.
 */
#include "place/machine_hwloc.h"

#include <string.h>
#include <unistd.h>

#include "kit/text.h"

static const char synthetic[] = "synthetic:";

bool machine_is_hwloc(const char *source)
{
    return strcmp(source, "here") == 0 || strncmp(source, synthetic, sizeof synthetic - 1) == 0 ||
           text_ends_with(source, strlen(source), ".xml");
}

#ifndef COMET_HAVE_HWLOC

cli_exit machine_read_hwloc(const char *source, machine *m)
{
    *m = (machine){.vertices = NULL};
    return fail(CLI_USAGE, "this build cannot read '%s': hwloc was not found when it was configured (tools/setup all)", source);
}

#else

#include <dlfcn.h>
#include <hwloc.h>

/* The functions that are used. */
typedef struct hwloc_api {
    int (*init)(hwloc_topology_t *);
    int (*set_xml)(hwloc_topology_t, const char *);
    int (*set_synthetic)(hwloc_topology_t, const char *);
    int (*load)(hwloc_topology_t);
    void (*destroy)(hwloc_topology_t);
    int (*type_depth)(hwloc_topology_t, hwloc_obj_type_t);
    unsigned (*n_at_depth)(hwloc_topology_t, int);
    hwloc_obj_t (*at_depth)(hwloc_topology_t, int, unsigned);
    int (*is_included)(hwloc_const_bitmap_t, hwloc_const_bitmap_t);
} hwloc_api;

static bool load_api(hwloc_api *api)
{
    const struct {
        const char *name;
        void *target;
    } functions[] = {{"hwloc_topology_init", &api->init},
                     {"hwloc_topology_set_xml", &api->set_xml},
                     {"hwloc_topology_set_synthetic", &api->set_synthetic},
                     {"hwloc_topology_load", &api->load},
                     {"hwloc_topology_destroy", &api->destroy},
                     {"hwloc_get_type_depth", &api->type_depth},
                     {"hwloc_get_nbobjs_by_depth", &api->n_at_depth},
                     {"hwloc_get_obj_by_depth", &api->at_depth},
                     {"hwloc_bitmap_isincluded", &api->is_included}};
    void *library = dlopen("libhwloc.so.15", RTLD_NOW | RTLD_LOCAL);
    for (size_t i = 0; library && i < sizeof functions / sizeof *functions; i++) {
        void *found = dlsym(library, functions[i].name);
        if (!found)
            return false;
        memcpy(functions[i].target, &found, sizeof found); /* a function's address, which dlsym gives as data's */
    }
    return library != NULL;
}

/* A topology that is being read. */
typedef struct reading {
    const hwloc_api *api;
    hwloc_topology_t topology;
    machine *m;
    uint32_t node;
} reading;

static unsigned count(const reading *r, hwloc_obj_type_t type)
{
    const int depth = r->api->type_depth(r->topology, type);
    return depth == HWLOC_TYPE_DEPTH_UNKNOWN || depth == HWLOC_TYPE_DEPTH_MULTIPLE ? 0 : r->api->n_at_depth(r->topology, depth);
}

static hwloc_obj_t object(const reading *r, hwloc_obj_type_t type, unsigned i)
{
    return r->api->at_depth(r->topology, r->api->type_depth(r->topology, type), i);
}

/* Cores of a set, which are numbered one after the other; where hwloc sees none, processing units. */
static uint32_t cores_of(const reading *r, hwloc_const_cpuset_t set, uint32_t *first)
{
    const hwloc_obj_type_t type = count(r, HWLOC_OBJ_CORE) > 0 ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU;
    uint32_t n = 0;
    for (unsigned i = 0; i < count(r, type); i++)
        if (r->api->is_included(object(r, type, i)->cpuset, set)) {
            *first = n == 0 ? i : *first;
            n++;
        }
    return n;
}

static cli_exit add_domain(reading *r, hwloc_const_cpuset_t set, uint32_t socket)
{
    const node_shape shape = node_shape_usual();
    uint32_t first = 0;
    const uint32_t n = cores_of(r, set, &first);
    return n == 0 ? CLI_OK : machine_add_domain(r->m, r->node, socket, first, n, &shape);
}

/* A package, with the domains of memory that lie in it; where none does, itself. */
static cli_exit add_socket(reading *r, hwloc_const_cpuset_t set)
{
    const uint32_t socket = r->m->n_vertices;
    bool has_domains = false;
    cli_exit code = machine_add_vertex(r->m, VERTEX_SOCKET, "", r->node);
    if (code == CLI_OK)
        code = machine_add_link(r->m, r->node, socket, node_shape_usual().socket_link);
    for (unsigned i = 0; i < count(r, HWLOC_OBJ_NUMANODE) && code == CLI_OK; i++) {
        const hwloc_obj_t numa = object(r, HWLOC_OBJ_NUMANODE, i);
        if (numa->cpuset && r->api->is_included(numa->cpuset, set)) {
            has_domains = true;
            code = add_domain(r, numa->cpuset, socket);
        }
    }
    return code == CLI_OK && !has_domains ? add_domain(r, set, socket) : code;
}

static cli_exit add_all(reading *r, const char *source)
{
    char name[MACHINE_NAME_BYTES] = "node0";
    if (strcmp(source, "here") == 0 && gethostname(name, sizeof name - 1) != 0)
        memcpy(name, "localhost", sizeof "localhost");
    cli_exit code = machine_add_vertex(r->m, VERTEX_NODE, name, 0);
    r->node = 0;
    const unsigned n = count(r, HWLOC_OBJ_PACKAGE);
    for (unsigned i = 0; i < n && code == CLI_OK; i++)
        code = add_socket(r, object(r, HWLOC_OBJ_PACKAGE, i)->cpuset);
    if (code == CLI_OK && n == 0)
        code = add_socket(r, r->api->at_depth(r->topology, 0, 0)->cpuset);
    return code;
}

cli_exit machine_read_hwloc(const char *source, machine *m)
{
    hwloc_api api;
    reading r = {.api = &api, .m = m};
    *m = (machine){.vertices = NULL};
    if (!load_api(&api))
        return fail(CLI_USAGE, "'%s' needs libhwloc.so.15, which is not here (Debian: libhwloc15)", source);
    if (api.init(&r.topology) != 0)
        return fail(CLI_FAILED, "hwloc could not begin");
    bool read = true;
    if (strncmp(source, synthetic, sizeof synthetic - 1) == 0)
        read = api.set_synthetic(r.topology, source + sizeof synthetic - 1) == 0;
    else if (strcmp(source, "here") != 0)
        read = api.set_xml(r.topology, source) == 0;
    read = read && api.load(r.topology) == 0;
    const cli_exit code = read ? add_all(&r, source) : fail(CLI_BAD_INPUT, "hwloc could not read '%s'", source);
    api.destroy(r.topology);
    return code;
}

#endif
