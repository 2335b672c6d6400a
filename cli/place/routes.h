/* Which links lie between two domains: the fewest, and of ways with as many the widest. */
#ifndef COMET_CLI_PLACE_ROUTES_H
#define COMET_CLI_PLACE_ROUTES_H

#include "place/machine.h"

enum { NO_LINK = UINT32_MAX };

typedef struct routes {
    const machine *m;
    uint32_t *last; /* [domain][vertex]: the last link of the way from the domain to the vertex; NO_LINK: there is none */
} routes;

/* Fails where there is no memory, and where two domains have no way between them. */
cli_exit routes_find(const machine *m, routes *r);
void routes_free(routes *r);

/* Calls each(data, link) for the links between two domains. */
void routes_walk(const routes *r, uint32_t from, uint32_t to, void (*each)(void *data, uint32_t link), void *data);
/* The narrowest of them, bytes/s; for one domain that of its memory. */
double routes_width(const routes *r, uint32_t from, uint32_t to);

#endif
