/* The modules that hold the transport on MPI: shared objects beside the program, one for each MPI of the build. */
#ifndef COMET_DIST_MODULE_H
#define COMET_DIST_MODULE_H

#include "comet/dist.h"
#include "dist/transport.h"

/* Loads the first of `names` (NULL at the end) that there is. `launcher` is for the sentence. The module is never unloaded. */
comet_status module_load(const char *const *names, const char *launcher, transport_open *open);

#endif
