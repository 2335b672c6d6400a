/* Opening and closing contexts. */
#include "codec/context.h"

#include <stdio.h>
#include <string.h>

#include "base/status.h"

static void log_kernels(const comet_hooks *hooks, const context *c, const char *who)
{
    if (!hooks || !hooks->log.line)
        return;
    char text[160];
    snprintf(text, sizeof text, "comet %s: %s kernels (this CPU: %s), %zu thread%s", who, comet_isa_name(c->kernels->isa),
             comet_isa_name(comet_isa_best()), c->n_workers, c->n_workers == 1 ? "" : "s");
    hooks->log.line(hooks->log.user, text);
}

comet_status context_check_hooks(const comet_hooks *hooks)
{
    if (hooks && hooks->size != sizeof *hooks)
        return comet_fail(COMET_ERROR_ARGUMENT, "the hooks were not filled by comet_hooks_init (size %zu)", hooks->size);
    return COMET_OK;
}

comet_status context_open(context *c, const comet_hooks *hooks, size_t n_threads, const char *who)
{
    *c = (context){.allocator = comet_allocator_of(hooks), .kernels = codec_kernels_pick()};
    comet_status status = comet_pool_create(&c->pool, hooks, n_threads);
    if (status != COMET_OK)
        return status;
    c->n_workers = comet_pool_threads(c->pool);
    c->workers = comet_allocate(&c->allocator, c->n_workers * sizeof *c->workers);
    if (!c->workers) {
        comet_pool_destroy(c->pool);
        return COMET_ERROR_MEMORY;
    }
    memset(c->workers, 0, c->n_workers * sizeof *c->workers);
    log_kernels(hooks, c, who);
    return COMET_OK;
}

void context_close(context *c)
{
    for (size_t i = 0; i < c->n_workers; i++)
        workspace_free(&c->workers[i], &c->allocator);
    comet_release(&c->allocator, c->workers, c->n_workers * sizeof *c->workers);
    comet_pool_destroy(c->pool);
}
