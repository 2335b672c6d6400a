/* What encoder and decoder contexts share: hooks, threads, a workspace for each thread. */
#ifndef COMET_CODEC_CONTEXT_H
#define COMET_CODEC_CONTEXT_H

#include "base/threads.h"
#include "codec/chunk.h"

typedef struct context {
    comet_allocator allocator;
    comet_pool *pool;
    const codec_kernels *kernels;
    size_t n_workers;
    workspace *workers;
} context;

/* Must be called before the hooks are used. */
comet_status context_check_hooks(const comet_hooks *hooks);
comet_status context_open(context *c, const comet_hooks *hooks, size_t n_threads, const char *who);
void context_close(context *c);

#endif
