/* See tile_run.h. */
#include "train/tile_run.h"

#include <stdatomic.h>
#include <stdio.h>

#include "base/bytes.h"
#include "base/status.h"
#include "train/parallel.h"

typedef struct job {
    tile_task *each;
    void *arg;
    uint64_t end;
    atomic_uint_fast64_t next;
    atomic_int status;
    char error[256]; /* of the first that failed: sentences stay with their threads */
} job;

static void work(void *arg, size_t worker)
{
    job *j = arg;
    uint64_t k;
    while ((k = atomic_fetch_add(&j->next, 1)) < j->end) {
        const comet_status status = j->each(j->arg, k, worker);
        int none = COMET_OK;
        if (status != COMET_OK && atomic_compare_exchange_strong(&j->status, &none, (int)status))
            snprintf(j->error, sizeof j->error, "%s", comet_last_error());
    }
}

comet_status tile_run(size_t n_threads, uint64_t first, uint64_t end, tile_task *each, void *arg, const char *name)
{
    job j = {.each = each, .arg = arg, .end = end};
    atomic_init(&j.next, first);
    parallel_run(NULL, (size_t)min_u64(n_threads, end - first), work, &j);
    const comet_status status = (comet_status)atomic_load(&j.status);
    return status == COMET_OK ? COMET_OK : comet_fail(status, "%s: %s", name, j.error);
}
