/* What the machine tells beside the public queries of comet/base.h. */
#ifndef COMET_BASE_MACHINE_H
#define COMET_BASE_MACHINE_H

#include "comet/base.h"

/* Resident bytes of files that are mapped shared, as data sets are. */
uint64_t comet_shared_rss(void);

/* Addresses of the stack of a thread that is started without saying otherwise. */
uint64_t comet_stack_bytes(void);

#endif
