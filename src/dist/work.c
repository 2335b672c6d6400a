/* What works share. */
#include "dist/work.h"

#include "base/status.h"

comet_status transport_failed(const transport *t)
{
    return comet_fail(COMET_ERROR_IO, "rank %u of %u: %s: %s", t->rank, t->n_ranks, t->name, t->error);
}

comet_status request_poll(transport *t, int *request, bool *moved, size_t *bytes)
{
    bool done = false;
    if (*request == TRANSPORT_NONE)
        return COMET_OK;
    if (!t->test(t, *request, &done, bytes))
        return transport_failed(t);
    if (done) {
        *request = TRANSPORT_NONE;
        *moved = true;
    }
    return COMET_OK;
}
