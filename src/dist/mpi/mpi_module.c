/*
 * The transport on MPI 3, compiled once for each MPI that is found, and loaded by module.c. MPI is started and used by one
 * thread. Errors of MPI are returned, so that the caller can say which rank is at fault.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dist/transport.h"

#define EXPORTED __attribute__((visibility("default")))

/* Requests have numbers, so that MPI's type stays in this file. */
typedef struct mpi_transport {
    transport base; /* first */
    MPI_Comm comm;  /* our own */
    MPI_Request *requests;
    int *free_numbers;
    int n_requests, n_free;
} mpi_transport;

EXPORTED void comet_mpi_library(char *name, size_t bytes);
EXPORTED transport *comet_mpi_open(char *error, size_t bytes);

/* The first line of the library's own text, up to a comma: "Open MPI v4.1.4", "MPICH Version: 4.0.2". */
EXPORTED void comet_mpi_library(char *name, size_t bytes)
{
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length = 0;
    MPI_Get_library_version(text, &length);
    text[strcspn(text, ",\r\n")] = '\0';
    size_t at = 0;
    for (const char *c = text; *c && at + 1 < bytes; c++)
        if (*c != ' ' && *c != '\t')
            name[at++] = *c;
        else if (at > 0 && name[at - 1] != ' ')
            name[at++] = ' ';
    if (bytes > 0)
        name[at] = '\0';
}

static bool check(mpi_transport *m, int code, const char *what)
{
    if (code == MPI_SUCCESS)
        return true;
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    MPI_Error_string(code, text, &length);
    snprintf(m->base.error, sizeof m->base.error, "%s: %s", what, text);
    return false;
}

static bool grow(mpi_transport *m)
{
    const int n = m->n_requests > 0 ? 2 * m->n_requests : 64;
    MPI_Request *requests = realloc(m->requests, (size_t)n * sizeof *requests);
    if (requests)
        m->requests = requests;
    int *numbers = realloc(m->free_numbers, (size_t)n * sizeof *numbers);
    if (numbers)
        m->free_numbers = numbers;
    if (!requests || !numbers) {
        snprintf(m->base.error, sizeof m->base.error, "could not allocate %d requests", n);
        return false;
    }
    for (int i = n - 1; i >= m->n_requests; i--)
        m->free_numbers[m->n_free++] = i;
    m->n_requests = n;
    return true;
}

/* A number for a request, and where MPI may write it; -1 without memory. */
static int take_number(mpi_transport *m)
{
    if (m->n_free == 0 && !grow(m))
        return -1;
    return m->free_numbers[--m->n_free];
}

/* The number is the caller's, unless the call that was to begin it failed. */
static bool began(mpi_transport *m, int number, int code, const char *what, int *request)
{
    if (!check(m, code, what)) {
        m->free_numbers[m->n_free++] = number;
        return false;
    }
    *request = number;
    return true;
}

static bool mpi_send(transport *t, uint32_t to, int tag, const void *data, size_t bytes, int *request)
{
    mpi_transport *m = (mpi_transport *)t;
    const int number = take_number(m);
    if (number < 0)
        return false;
    return began(m, number, MPI_Isend(data, (int)bytes, MPI_BYTE, (int)to, tag, m->comm, &m->requests[number]), "MPI_Isend",
                 request);
}

static bool mpi_receive(transport *t, uint32_t from, int tag, void *data, size_t capacity, int *request)
{
    mpi_transport *m = (mpi_transport *)t;
    const int number = take_number(m);
    if (number < 0)
        return false;
    return began(m, number, MPI_Irecv(data, (int)capacity, MPI_BYTE, (int)from, tag, m->comm, &m->requests[number]),
                 "MPI_Irecv", request);
}

static bool mpi_sum_floats(transport *t, float *data, size_t n, int *request)
{
    mpi_transport *m = (mpi_transport *)t;
    const int number = take_number(m);
    if (number < 0)
        return false;
    return began(m, number, MPI_Iallreduce(MPI_IN_PLACE, data, (int)n, MPI_FLOAT, MPI_SUM, m->comm, &m->requests[number]),
                 "MPI_Iallreduce", request);
}

static bool mpi_test(transport *t, int request, bool *done, size_t *bytes)
{
    mpi_transport *m = (mpi_transport *)t;
    int flag = 0, count = 0;
    MPI_Status status;
    if (!check(m, MPI_Test(&m->requests[request], &flag, &status), "MPI_Test"))
        return false;
    *done = flag != 0;
    if (!flag)
        return true;
    m->free_numbers[m->n_free++] = request;
    if (!bytes)
        return true;
    if (!check(m, MPI_Get_count(&status, MPI_BYTE, &count), "MPI_Get_count"))
        return false;
    *bytes = count > 0 ? (size_t)count : 0;
    return true;
}

static void mpi_drop(transport *t, int request)
{
    mpi_transport *m = (mpi_transport *)t;
    MPI_Cancel(&m->requests[request]);
    MPI_Request_free(&m->requests[request]);
    m->free_numbers[m->n_free++] = request;
}

static void mpi_close(transport *t)
{
    mpi_transport *m = (mpi_transport *)t;
    MPI_Comm_free(&m->comm);
    MPI_Finalize();
    free(m->requests);
    free(m->free_numbers);
    free(m);
}

static void mpi_abort(transport *t, int code)
{
    (void)t;
    MPI_Abort(MPI_COMM_WORLD, code);
}

/* Who and how many: a communicator of our own, and the lowest rank of this machine. */
static bool find_place(mpi_transport *m)
{
    MPI_Comm node;
    int rank = 0, n_ranks = 0, lowest = 0;
    if (!check(m, MPI_Comm_dup(MPI_COMM_WORLD, &m->comm), "MPI_Comm_dup") ||
        !check(m, MPI_Comm_set_errhandler(m->comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler") ||
        !check(m, MPI_Comm_rank(m->comm, &rank), "MPI_Comm_rank") ||
        !check(m, MPI_Comm_size(m->comm, &n_ranks), "MPI_Comm_size") ||
        !check(m, MPI_Comm_split_type(m->comm, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node), "MPI_Comm_split_type") ||
        !check(m, MPI_Allreduce(&rank, &lowest, 1, MPI_INT, MPI_MIN, node), "MPI_Allreduce"))
        return false;
    MPI_Comm_free(&node);
    m->base.rank = (uint32_t)rank;
    m->base.n_ranks = (uint32_t)n_ranks;
    m->base.node = (uint32_t)lowest;
    return true;
}

EXPORTED transport *comet_mpi_open(char *error, size_t bytes)
{
    int provided = MPI_THREAD_SINGLE;
    mpi_transport *m = calloc(1, sizeof *m);
    if (!m) {
        snprintf(error, bytes, "could not allocate %zu bytes", sizeof *m);
        return NULL;
    }
    m->base = (transport){.version = TRANSPORT_VERSION,
                          .send = mpi_send,
                          .receive = mpi_receive,
                          .sum_floats = mpi_sum_floats,
                          .test = mpi_test,
                          .drop = mpi_drop,
                          .close = mpi_close,
                          .abort = mpi_abort};
    comet_mpi_library(m->base.name, sizeof m->base.name);
    bool good = check(m, MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread");
    if (good && provided < MPI_THREAD_FUNNELED) {
        snprintf(m->base.error, sizeof m->base.error, "this MPI serves programs of one thread only");
        good = false;
    }
    if (good && find_place(m))
        return &m->base;
    snprintf(error, bytes, "%s: %s", m->base.name, m->base.error);
    free(m);
    return NULL;
}
