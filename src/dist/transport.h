/*
 * What carries messages between ranks: MPI (mpi/mpi_module.c, in a module of its own), or mailboxes between threads in the
 * tests.
 *
 * One thread makes all calls. Messages from one rank to another with the same tag arrive in the order in which they were sent.
 * This header is the border of the module, which is compiled for one MPI and linked with nothing of ours: it includes libc
 * only.
 */
#ifndef COMET_DIST_TRANSPORT_H
#define COMET_DIST_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TRANSPORT_VERSION = 1,
    TRANSPORT_MOST_TAG = 32767, /* what MPI promises */
    TRANSPORT_NONE = -1,        /* no request */
};
#define TRANSPORT_MOST_BYTES ((size_t)1 << 30) /* of one message */

typedef struct transport transport;

/* Calls return false, with a sentence in `error`, where the transport is broken. */
struct transport {
    uint32_t version; /* TRANSPORT_VERSION of whoever filled this in */
    uint32_t rank, n_ranks;
    uint32_t node;  /* the lowest rank on the same machine */
    char name[128]; /* such as "Open MPI v4.1.4" */
    char error[256];

    /* Begins; `data` is the transport's until the request is done. */
    bool (*send)(transport *t, uint32_t to, int tag, const void *data, size_t bytes, int *request);
    bool (*receive)(transport *t, uint32_t from, int tag, void *data, size_t capacity, int *request);
    /* The sum over ranks in place, in an order of the transport's choice; all ranks begin these in the same order. */
    bool (*sum_floats)(transport *t, float *data, size_t n, int *request);
    /* Is the request done? If so it is forgotten, and *bytes (may be NULL) is what was received. */
    bool (*test)(transport *t, int request, bool *done, size_t *bytes);
    /* Forgets a receive that will never be matched. */
    void (*drop)(transport *t, int request);
    /* Waits for the other ranks to close too. Frees t. */
    void (*close)(transport *t);
    /* Ends every rank of the job. */
    void (*abort)(transport *t, int code);
};

/* What a module exports. comet_mpi_open starts MPI and returns NULL, with a sentence in `error`, where that fails;
 * comet_mpi_library may be called before. */
#define TRANSPORT_OPEN_NAME "comet_mpi_open"
#define TRANSPORT_LIBRARY_NAME "comet_mpi_library"
typedef transport *(*transport_open)(char *error, size_t bytes);
typedef void (*transport_library)(char *name, size_t bytes);

#endif
