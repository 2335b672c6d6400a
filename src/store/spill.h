/* Coded tiles on disk, in a file without a name that vanishes with the process. It is a stack, as the heap is. Failures name
 * the folder. */
#ifndef COMET_STORE_SPILL_H
#define COMET_STORE_SPILL_H

#include <pthread.h>

#include "base/memory.h"

typedef struct spill {
    pthread_mutex_t lock;
    int fd;
    char *folder; /* NULL: there is no spill file, and nothing may be written or read */
    size_t folder_bytes;
    uint64_t used;
} spill;

/* folder NULL: no file. */
comet_status spill_open(spill *s, const comet_allocator *allocator, const char *folder);
void spill_close(spill *s, const comet_allocator *allocator);

/* Appends the data; *offset is set to where it lies, *mark raised to its end. Any thread. */
comet_status spill_write(spill *s, const void *data, size_t bytes, uint64_t *offset, uint64_t *mark);
/* Any thread. */
comet_status spill_read(const spill *s, uint64_t offset, void *data, size_t bytes);

/* Asks the system to drop what was written so far from the page cache, which counts against a container's memory limit. */
void spill_drop_cache(const spill *s);

/* Frees all above the mark. */
void spill_rewind(spill *s, uint64_t mark);

#endif
