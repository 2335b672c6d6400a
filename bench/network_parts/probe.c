/* Two ranks: half the round trip of 8 bytes, and the rate at which both send BYTES to each other at once. One JSON object.
 * usage: probe [BYTES] [TIMES] */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static double best_of(int times, int other, char *out, char *in, int bytes, int both)
{
    double best = 1e9;
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < times; i++) {
        MPI_Barrier(MPI_COMM_WORLD);
        const double begin = MPI_Wtime();
        if (both) {
            MPI_Sendrecv(out, bytes, MPI_CHAR, other, 1, in, bytes, MPI_CHAR, other, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else if (rank == 0) {
            MPI_Send(out, bytes, MPI_CHAR, other, 2, MPI_COMM_WORLD);
            MPI_Recv(in, bytes, MPI_CHAR, other, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(in, bytes, MPI_CHAR, other, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(out, bytes, MPI_CHAR, other, 2, MPI_COMM_WORLD);
        }
        const double seconds = MPI_Wtime() - begin;
        best = seconds < best ? seconds : best;
    }
    return best;
}

int main(int argc, char **argv)
{
    int rank, size, length;
    char host[MPI_MAX_PROCESSOR_NAME];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Get_processor_name(host, &length);
    const int bytes = argc > 1 ? atoi(argv[1]) : 2 << 20, times = argc > 2 ? atoi(argv[2]) : 10;
    char *out = calloc(1, (size_t)bytes), *in = calloc(1, (size_t)bytes);
    if (size != 2 || bytes < 8 || times < 1 || !out || !in) {
        fprintf(stderr, "probe: two ranks, 8 bytes or more\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    best_of(3, 1 - rank, out, in, 8, 0);
    const double trip = best_of(20, 1 - rank, out, in, 8, 0);
    best_of(2, 1 - rank, out, in, bytes, 1);
    const double exchange = best_of(times, 1 - rank, out, in, bytes, 1);
    if (rank == 0)
        printf("{\"host\":\"%s\",\"latency_s\":%.3g,\"bytes\":%d,\"exchange_s\":%.6g,\"gbit_per_s\":%.4g}\n", host, trip / 2,
               bytes, exchange, 8e-9 * bytes / exchange);
    free(out);
    free(in);
    MPI_Finalize();
    return 0;
}
