#include "base/work_parts.h"

#include "base/bytes.h"

void work_parts_init(work_parts *w, uint64_t first, uint64_t end, size_t n_workers)
{
    w->n = (size_t)max_u64(min_u64(n_workers, MAX_WORK_PARTS), 1);
    const uint64_t share = (end - first) / w->n, rest = (end - first) % w->n;
    for (size_t i = 0; i < w->n; i++) {
        atomic_init(&w->parts[i].next, first);
        first += share + (i < rest);
        w->parts[i].end = first;
    }
}

bool work_parts_next(work_parts *w, size_t worker, uint64_t *piece)
{
    for (size_t i = 0; i < w->n; i++) {
        work_part *p = &w->parts[(worker + i) % w->n];
        if (atomic_load(&p->next) >= p->end)
            continue;
        *piece = atomic_fetch_add(&p->next, 1);
        if (*piece < p->end)
            return true;
    }
    return false;
}
