/* Which launcher started this process, from the environment that it left. */
#ifndef COMET_DIST_LAUNCHER_H
#define COMET_DIST_LAUNCHER_H

#include "comet/dist.h"

/* The names of the modules that can join the ranks of this launcher, best first; NULL at the end. */
const char *const *launcher_modules(comet_launcher launcher);

#endif
