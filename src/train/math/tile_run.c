/* See tile_run.h. */
#include "train/math/tile_run.h"

#include <stdatomic.h>
#include <stdio.h>

#include "base/bytes.h"
#include "base/status.h"
#include "base/work_parts.h"
#include "train/backend/parallel.h"

typedef struct job {
    tile_task *each;
    void *arg;
    work_parts tiles;
    atomic_int status;
    char error[256]; /* of the first that failed: sentences stay with their threads */
} job;

static void work(void *arg, size_t worker)
{
    job *j = arg;
    uint64_t k;
    while (work_parts_next(&j->tiles, worker, &k)) {
        const comet_status status = j->each(j->arg, k, worker);
        int none = COMET_OK;
        if (status != COMET_OK && atomic_compare_exchange_strong(&j->status, &none, (int)status))
            snprintf(j->error, sizeof j->error, "%s", comet_last_error());
    }
}

comet_status tile_run(size_t n_threads, uint64_t first, uint64_t end, tile_task *each, void *arg, const char *name)
{
    job j = {.each = each, .arg = arg};
    const size_t n_workers = (size_t)min_u64(n_threads, end - first);
    work_parts_init(&j.tiles, first, end, n_workers);
    parallel_run(NULL, n_workers, work, &j);
    const comet_status status = (comet_status)atomic_load(&j.status);
    return status == COMET_OK ? COMET_OK : comet_fail(status, "%s: %s", name, j.error);
}
