/* How much memory there is. Linux; elsewhere nothing is known and nothing is refused. */
#ifndef COMET_TRAIN_MACHINE_H
#define COMET_TRAIN_MACHINE_H

#include <stdint.h>

/* Bytes that this process can still get: the least of the machine's available memory, what its control groups leave, and what
 * its limits on address space and data leave. UINT64_MAX where nothing is known. */
uint64_t machine_memory_available(void);

#endif
