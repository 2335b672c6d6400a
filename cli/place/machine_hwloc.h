/* Machines as hwloc sees them. */
#ifndef COMET_CLI_PLACE_MACHINE_HWLOC_H
#define COMET_CLI_PLACE_MACHINE_HWLOC_H

#include "place/machine.h"

/* Is it for hwloc: "here", "synthetic:DESCRIPTION" or a file whose name ends with .xml? */
bool machine_is_hwloc(const char *source);

/* One node, with the sockets and domains of memory that hwloc reports; rates are those of node_shape_usual, since hwloc knows
 * none. Fails where libhwloc is not there. */
cli_exit machine_read_hwloc(const char *source, machine *m);

#endif
