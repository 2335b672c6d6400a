/*
 * What tests/dist/mpi runs under the launchers of MPI: ranks that check what they get from each other, or of which one dies.
 * usage: mpi_check WHAT [RANK]
 *   exchange [f32|bf16|coded|mpi]   sums, broadcasts, messages and reductions, checked; prints a hash of all sums
 *   die, stop, fail RANK            the rank gets SIGKILL or SIGSTOP, or fails, while the others reduce
 *   save FILE                       reduces until SIGTERM, then 3 s more, and writes the file
 *   agree                           rank 1 has another option
 *   time [FLOATS]                   seconds for reductions in buckets of 4 MB, and for small sums
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/checksum.h"
#include "comet/dist.h"

enum { BUCKET = 1 << 20, N_MOST = 300007 };

static comet_ranks ranks;

static void fail(const char *what)
{
    fprintf(stderr, "mpi_check: rank %u: %s: %s\n", ranks.rank, what, comet_last_error());
    exit(1);
}

static void check(comet_status status, const char *what)
{
    if (status != COMET_OK)
        fail(what);
}

static void expect(int condition, const char *what)
{
    if (condition)
        return;
    fprintf(stderr, "mpi_check: rank %u of %u: %s\n", ranks.rank, ranks.n_ranks, what);
    exit(1);
}

static void ending(void *user, const char *sentence, bool speak)
{
    (void)user;
    if (speak)
        fprintf(stderr, "comet: %s\n", sentence);
}

/* Sums of these depend on the order of additions. */
static float value_of(uint32_t rank, size_t i)
{
    const uint32_t mixed = (uint32_t)i * 2654435761u ^ (rank + 1) * 40503u;
    return ((float)(mixed >> 8) / 8388608.0f - 1) * (i % 7 == 0 ? 1000.0f : 0.001f);
}

static float sum_of(size_t i)
{
    float sum = value_of(0, i);
    for (uint32_t r = 1; r < ranks.n_ranks; r++)
        sum += value_of(r, i);
    return sum;
}

static void reduce(comet_reduction kind, uint64_t key, float *data, size_t n)
{
    uint32_t number;
    check(ranks.reduce_begin(ranks.self, kind, key, data, n, &number), "reduce_begin");
    check(ranks.reduce_end(ranks.self, number), "reduce_end");
}

static void check_sums(void)
{
    static double values[20000];
    for (size_t n = 1; n <= 20000; n += 6666) {
        for (size_t i = 0; i < n; i++)
            values[i] = value_of(ranks.rank, i);
        check(ranks.sum(ranks.self, values, n), "sum");
        for (size_t i = 0; i < n; i++) {
            double sum = value_of(0, i);
            for (uint32_t r = 1; r < ranks.n_ranks; r++)
                sum += value_of(r, i);
            expect(values[i] == sum, "a sum is wrong");
        }
    }
}

static void check_messages(void)
{
    enum { BYTES = 9000001 };
    unsigned char *data = malloc(BYTES);
    for (size_t i = 0; i < BYTES; i++)
        data[i] = ranks.rank == 0 ? (unsigned char)(i * 31 >> 4) : 0;
    check(ranks.broadcast(ranks.self, data, BYTES), "broadcast");
    for (size_t i = 0; i < BYTES; i++)
        expect(data[i] == (unsigned char)(i * 31 >> 4), "a byte of a broadcast is wrong");
    for (uint32_t r = 1; r < ranks.n_ranks; r++) {
        uint32_t word = 17 + r;
        if (ranks.rank == 0)
            check(ranks.send(ranks.self, r, &word, sizeof word), "send");
        else if (ranks.rank == r)
            check(ranks.receive(ranks.self, 0, &word, sizeof word), "receive");
        expect(word == 17 + r, "a message is wrong");
    }
    free(data);
}

/* Kinds SEGMENT and GATHER together make ALL. */
static void check_reductions(float *data, bool exact)
{
    static const size_t sizes[] = {0, 1, 15, 17, 1000, 131072, N_MOST};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        const size_t n = sizes[s];
        for (int together = 0; together < 2; together++) {
            for (size_t i = 0; i < n; i++)
                data[i] = value_of(ranks.rank, i);
            if (together) {
                reduce(COMET_REDUCE_ALL, s, data, n);
            } else {
                reduce(COMET_REDUCE_SEGMENT, 100 + s, data, n);
                reduce(COMET_REDUCE_GATHER, s, data, n);
            }
            for (size_t i = 0; i < n; i++)
                expect(!exact || data[i] == sum_of(i), "a float of a reduction is wrong");
        }
    }
}

/* Many at once; all ranks have the same bits in the end. */
static void check_bits(float *data)
{
    enum { N = 40, EACH = N_MOST / N };
    uint32_t numbers[N];
    for (size_t i = 0; i < (size_t)N * EACH; i++)
        data[i] = value_of(ranks.rank, i);
    for (uint32_t i = 0; i < N; i++)
        check(ranks.reduce_begin(ranks.self, COMET_REDUCE_ALL, 1000 + i, data + (size_t)i * EACH, EACH, &numbers[i]),
              "reduce_begin");
    for (uint32_t i = 0; i < N; i++)
        check(ranks.reduce_end(ranks.self, numbers[i]), "reduce_end");
    uint64_t hash = comet_checksum(data, (size_t)N * EACH * sizeof *data), first = hash;
    check(ranks.broadcast(ranks.self, &first, sizeof first), "broadcast");
    expect(hash == first, "the bits are not those of rank 0");
    if (ranks.rank == 0)
        printf("hash %016llx\n", (unsigned long long)hash);
}

static void exchange(comet_wire wire)
{
    float *data = malloc(N_MOST * sizeof *data);
    check_sums();
    check_messages();
    check_reductions(data, wire == COMET_WIRE_F32);
    check_bits(data);
    free(data);
}

static void reduce_for_ever(const char *what, uint32_t victim)
{
    float *data = calloc(BUCKET, sizeof *data);
    const double begin = comet_seconds();
    for (;;) {
        reduce(COMET_REDUCE_ALL, 1, data, BUCKET);
        if (ranks.rank != victim || comet_seconds() - begin < 1)
            continue;
        if (strcmp(what, "die") == 0)
            raise(SIGKILL);
        if (strcmp(what, "stop") == 0)
            raise(SIGSTOP);
        if (strcmp(what, "fail") == 0) {
            comet_dist_fail(&ranks, "the disk is full");
            fprintf(stderr, "comet: the disk is full\n");
            exit(3);
        }
    }
}

static volatile sig_atomic_t asked;

static void ask(int signal_number)
{
    (void)signal_number;
    comet_dist_hold();
    asked = 1;
}

/* The ranks agree on the moment of leaving, as training does. */
static void save(const char *path)
{
    float *data = calloc(BUCKET, sizeof *data);
    double begin = 0, leave = 0;
    signal(SIGTERM, ask);
    signal(SIGINT, ask);
    if (ranks.rank == 0)
        fprintf(stderr, "reducing\n");
    while (leave < ranks.n_ranks) {
        reduce(COMET_REDUCE_ALL, 1, data, BUCKET);
        begin = asked && begin == 0 ? comet_seconds() : begin;
        leave = begin > 0 && comet_seconds() - begin > 3;
        check(ranks.sum(ranks.self, &leave, 1), "sum");
    }
    FILE *file = ranks.rank == 0 ? fopen(path, "w") : NULL;
    if (file) {
        fputs("saved\n", file);
        fclose(file);
    }
    free(data);
}

static void time_all(size_t n)
{
    enum { ROUNDS = 5, N_SUMS = 2000 };
    float *data = calloc(n, sizeof *data);
    uint32_t numbers[COMET_RANKS_MAX_REDUCTIONS];
    double best = 1e9, value = 1;
    for (int round = 0; round < ROUNDS; round++) {
        uint32_t n_begun = 0;
        check(ranks.sum(ranks.self, &value, 1), "sum");
        const double begin = comet_seconds();
        for (size_t at = 0; at < n; at += BUCKET, n_begun++)
            check(ranks.reduce_begin(ranks.self, COMET_REDUCE_ALL, at, data + at, n - at < BUCKET ? n - at : BUCKET,
                                     &numbers[n_begun]),
                  "reduce_begin");
        for (uint32_t i = 0; i < n_begun; i++)
            check(ranks.reduce_end(ranks.self, numbers[i]), "reduce_end");
        const double seconds = comet_seconds() - begin;
        best = seconds < best ? seconds : best;
    }
    const double begin = comet_seconds();
    for (int i = 0; i < N_SUMS; i++)
        check(ranks.sum(ranks.self, &value, 1), "sum");
    struct timespec cpu;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
    if (ranks.rank == 0)
        printf("%zu floats: %.2f ms; sum of one: %.1f us; cpu %.2f s\n", n, 1e3 * best,
               1e6 * (comet_seconds() - begin) / N_SUMS, (double)cpu.tv_sec + (double)cpu.tv_nsec * 1e-9);
    free(data);
}

static void choose_wire(const char *word, comet_dist_params *params)
{
    params->wire = strcmp(word, "bf16") == 0 ? COMET_WIRE_BF16 : strcmp(word, "coded") == 0 ? COMET_WIRE_CODED : COMET_WIRE_F32;
    params->reduce_with_mpi = strcmp(word, "mpi") == 0;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "exchange", *word = argc > 2 ? argv[2] : "";
    comet_launch launch = {.size = sizeof launch};
    comet_dist_params params;
    signal(SIGALRM, SIG_DFL);
    alarm(60); /* a test that hangs leaves nothing */
    comet_dist_params_init(&params);
    params.ending = ending;
    choose_wire(argc > 3 ? argv[3] : word, &params);
    check(comet_dist_launched(&launch), "launched");
    if (launch.launcher == COMET_LAUNCHER_NONE) {
        printf("alone\n");
        return 0;
    }
    check(comet_dist_start(&params, &ranks), "start");
    if (strcmp(what, "exchange") == 0)
        exchange(params.reduce_with_mpi ? COMET_WIRE_BF16 : params.wire);
    else if (strcmp(what, "agree") == 0)
        check(comet_dist_agree(&ranks, ranks.rank == 1 ? "version: 1\n--rate: 0.2\n" : "version: 1\n--rate: 0.1\n"), "agree");
    else if (strcmp(what, "time") == 0)
        time_all(*word ? strtoul(word, NULL, 10) : 11700000);
    else if (strcmp(what, "save") == 0)
        save(word);
    else
        reduce_for_ever(what, (uint32_t)strtoul(word, NULL, 10));
    check(comet_dist_end(&ranks), "end");
    return 0;
}
