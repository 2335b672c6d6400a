/*
 * See fake_ranks.h. A pair of sockets joins every two ranks. Rank 0 collects, adds up in the order of the ranks and sends the
 * result to all. Each call begins with a word from every rank about which it is, so that they are held to the same order.
 */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "fake_ranks.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/describe.h"
#include "base/status.h"
#include "base/threads.h"
#include "testing.h"

enum { MOST_SECONDS = 280, SENTENCE_BYTES = 400 }; /* a rank that waits for ever ends before ctest does */

typedef enum call { CALL_SUM, CALL_BROADCAST, CALL_REDUCE, CALL_GATHER = CALL_REDUCE + COMET_REDUCE_GATHER } call;

/* What a rank says about its call. */
typedef struct word {
    uint64_t call, key, n;
} word;

/* A reduction under way: done, but not given yet. */
typedef struct reduction {
    comet_reduction kind;
    float *data, *done; /* done: NULL where none is under way */
    size_t n;
    uint32_t n_unfinished; /* how often it still says that it is not done */
} reduction;

typedef struct fake_rank {
    comet_ranks table;
    int sockets[FAKE_RANKS_MOST]; /* to each other rank */
    reduction under_way[COMET_RANKS_MAX_REDUCTIONS];
    uint32_t n_begun;
    comet_ranks_figures figures;
} fake_rank;

/* ---- bytes ---- */

static comet_status lost(uint32_t rank)
{
    return comet_fail(COMET_ERROR_IO, "rank %u has gone: %s", rank, errno ? strerror(errno) : "it closed its socket");
}

static comet_status put(fake_rank *r, uint32_t to, const void *data, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        const ssize_t n = send(r->sockets[to], (const uint8_t *)data + done, bytes - done, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return lost(to);
        done += (size_t)n;
    }
    return COMET_OK;
}

static comet_status get(fake_rank *r, uint32_t from, void *data, size_t bytes)
{
    const double start = comet_seconds();
    for (size_t done = 0; done < bytes;) {
        errno = 0;
        const ssize_t n = recv(r->sockets[from], (uint8_t *)data + done, bytes - done, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return lost(from);
        done += (size_t)n;
    }
    r->figures.seconds_waited += comet_seconds() - start;
    return COMET_OK;
}

static comet_status put_to_all(fake_rank *r, const void *data, size_t bytes)
{
    for (uint32_t to = 1; to < r->table.n_ranks; to++)
        TRY(put(r, to, data, bytes));
    return COMET_OK;
}

/* ---- all together ---- */

static comet_status compare(const word *mine, const word *other, uint32_t rank, uint32_t other_rank)
{
    if (memcmp(mine, other, sizeof *mine) == 0)
        return COMET_OK;
    return comet_fail(COMET_ERROR_ARGUMENT,
                      "rank %u makes call %llu with key %llu and %llu values, rank %u %llu, %llu and %llu", rank,
                      (unsigned long long)mine->call, (unsigned long long)mine->key, (unsigned long long)mine->n, other_rank,
                      (unsigned long long)other->call, (unsigned long long)other->key, (unsigned long long)other->n);
}

/* Rank 0 hears what all others call and says what it calls. */
static comet_status meet(fake_rank *r, call c, uint64_t key, size_t n)
{
    const word mine = {c, key, n};
    word other;
    if (r->table.rank > 0) {
        TRY(put(r, 0, &mine, sizeof mine));
        TRY(get(r, 0, &other, sizeof other));
        return compare(&mine, &other, r->table.rank, 0);
    }
    comet_status status = COMET_OK;
    for (uint32_t from = 1; from < r->table.n_ranks; from++) {
        TRY(get(r, from, &other, sizeof other));
        if (status == COMET_OK)
            status = compare(&mine, &other, 0, from);
    }
    TRY(put_to_all(r, &mine, sizeof mine));
    return status;
}

typedef void add_fn(void *sum, const void *more, size_t n);

static void add_doubles(void *sum, const void *more, size_t n)
{
    for (size_t i = 0; i < n; i++)
        ((double *)sum)[i] += ((const double *)more)[i];
}

static void add_floats(void *sum, const void *more, size_t n)
{
    for (size_t i = 0; i < n; i++)
        ((float *)sum)[i] += ((const float *)more)[i];
}

static comet_status add_up(fake_rank *r, void *values, size_t n, size_t size, add_fn *add)
{
    if (r->table.rank > 0) {
        TRY(put(r, 0, values, n * size));
        return get(r, 0, values, n * size);
    }
    void *more = need_malloc(n * size);
    comet_status status = COMET_OK;
    for (uint32_t from = 1; from < r->table.n_ranks && status == COMET_OK; from++) {
        status = get(r, from, more, n * size);
        if (status == COMET_OK)
            add(values, more, n);
    }
    free(more);
    return status == COMET_OK ? put_to_all(r, values, n * size) : status;
}

static comet_status gather(fake_rank *r, float *values, size_t n)
{
    size_t first, count;
    if (r->table.rank > 0) {
        comet_ranks_segment(n, r->table.n_ranks, r->table.rank, &first, &count);
        TRY(put(r, 0, values + first, count * sizeof *values));
        return get(r, 0, values, n * sizeof *values);
    }
    for (uint32_t from = 1; from < r->table.n_ranks; from++) {
        comet_ranks_segment(n, r->table.n_ranks, from, &first, &count);
        TRY(get(r, from, values + first, count * sizeof *values));
    }
    return put_to_all(r, values, n * sizeof *values);
}

static comet_status fake_sum(void *self, double *values, size_t n)
{
    TRY(meet(self, CALL_SUM, 0, n));
    return add_up(self, values, n, sizeof *values, add_doubles);
}

static comet_status fake_broadcast(void *self, void *data, size_t bytes)
{
    fake_rank *r = self;
    TRY(meet(r, CALL_BROADCAST, 0, bytes));
    return r->table.rank > 0 ? get(r, 0, data, bytes) : put_to_all(r, data, bytes);
}

/* ---- one to another ---- */

static comet_status check_peer(const fake_rank *r, uint32_t peer)
{
    if (peer >= r->table.n_ranks || peer == r->table.rank)
        return comet_fail(COMET_ERROR_ARGUMENT, "rank %u of %u has no bytes for rank %u", r->table.rank, r->table.n_ranks,
                          peer);
    return COMET_OK;
}

static comet_status fake_send(void *self, uint32_t to, const void *data, size_t bytes)
{
    char arrived;
    TRY(check_peer(self, to));
    TRY(put(self, to, data, bytes));
    return get(self, to, &arrived, 1);
}

static comet_status fake_receive(void *self, uint32_t from, void *data, size_t bytes)
{
    TRY(check_peer(self, from));
    TRY(get(self, from, data, bytes));
    return put(self, from, "!", 1);
}

/* ---- reductions ---- */

static void make_nan(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = NAN;
}

/* The bytes that a rank sends in add_up and gather. */
static void count_bytes(fake_rank *r, comet_reduction kind, size_t n)
{
    size_t first, count = n;
    if (kind == COMET_REDUCE_GATHER && r->table.rank > 0)
        comet_ranks_segment(n, r->table.n_ranks, r->table.rank, &first, &count);
    const size_t bytes = count * sizeof(float) * (r->table.rank > 0 ? 1 : r->table.n_ranks - 1);
    r->figures.bytes_sent += bytes;
    r->figures.bytes_plain += bytes;
}

static comet_status free_number(const fake_rank *r, uint32_t *number)
{
    for (*number = 0; *number < COMET_RANKS_MAX_REDUCTIONS; ++*number)
        if (!r->under_way[*number].done)
            return COMET_OK;
    return comet_fail(COMET_ERROR_ARGUMENT, "%d reductions are under way, as many as can be", COMET_RANKS_MAX_REDUCTIONS);
}

static comet_status fake_reduce_begin(void *self, comet_reduction kind, uint64_t key, float *data, size_t n, uint32_t *number)
{
    fake_rank *r = self;
    const double start = comet_seconds();
    TRY(free_number(r, number));
    reduction *d = &r->under_way[*number];
    *d = (reduction){.kind = kind,
                     .data = data,
                     .n = n,
                     .done = need_malloc(n * sizeof *data),
                     .n_unfinished = (r->table.rank + r->n_begun++) % 3};
    memcpy(d->done, data, n * sizeof *data);
    make_nan(data, n);
    TRY(meet(r, (call)(CALL_REDUCE + kind), key, n));
    TRY(kind == COMET_REDUCE_GATHER ? gather(r, d->done, n) : add_up(r, d->done, n, sizeof *data, add_floats));
    count_bytes(r, kind, n);
    r->figures.seconds_moving += comet_seconds() - start;
    return COMET_OK;
}

static bool is_under_way(const fake_rank *r, uint32_t number)
{
    return number < COMET_RANKS_MAX_REDUCTIONS && r->under_way[number].done;
}

static bool fake_reduce_is_done(void *self, uint32_t number)
{
    fake_rank *r = self;
    assert_true(is_under_way(r, number));
    reduction *d = &r->under_way[number];
    if (d->n_unfinished == 0)
        return true;
    d->n_unfinished--;
    return false;
}

static comet_status fake_reduce_end(void *self, uint32_t number)
{
    fake_rank *r = self;
    if (!is_under_way(r, number))
        return comet_fail(COMET_ERROR_ARGUMENT, "the end of reduction %u was asked for, which is not under way", number);
    reduction *d = &r->under_way[number];
    size_t first = 0, count = d->n;
    if (d->kind == COMET_REDUCE_SEGMENT)
        comet_ranks_segment(d->n, r->table.n_ranks, r->table.rank, &first, &count);
    memcpy(d->data + first, d->done + first, count * sizeof *d->data);
    free(d->done);
    d->done = NULL;
    return COMET_OK;
}

static comet_status fake_describe(void *self, comet_ranks_figures *figures)
{
    return GIVE(comet_ranks_figures, figures, &((fake_rank *)self)->figures);
}

/* ---- processes ---- */

/* What lies in memory that the processes share, before each rank's result. */
typedef struct rank_end {
    bool returned;
    comet_status status;
    char sentence[SENTENCE_BYTES];
} rank_end;

typedef struct crew {
    uint32_t n;
    fake_rank_fn *fn;
    void *arg;
    size_t stride; /* of rank_end and result, in bytes */
    uint8_t *shared;
    int sockets[FAKE_RANKS_MOST][FAKE_RANKS_MOST]; /* of one rank to another; -1 */
    pid_t processes[FAKE_RANKS_MOST];
} crew;

static rank_end *end_of(const crew *c, uint32_t rank)
{
    return (rank_end *)(void *)(c->shared + rank * c->stride);
}

static void open_sockets(crew *c)
{
    memset(c->sockets, -1, sizeof c->sockets);
    for (uint32_t a = 0; a < c->n; a++)
        for (uint32_t b = 0; b < a; b++) {
            int pair[2];
            assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
            c->sockets[a][b] = pair[0];
            c->sockets[b][a] = pair[1];
        }
}

/* Closes all but those of `rank`. */
static void close_sockets(const crew *c, uint32_t rank)
{
    for (uint32_t a = 0; a < c->n; a++)
        for (uint32_t b = 0; b < c->n; b++)
            if (a != rank && c->sockets[a][b] >= 0)
                close(c->sockets[a][b]);
}

static void set_table(const crew *c, uint32_t rank, fake_rank *r)
{
    *r = (fake_rank){.figures.size = sizeof r->figures};
    memcpy(r->sockets, c->sockets[rank], sizeof r->sockets);
    r->table = (comet_ranks){.size = sizeof r->table,
                             .self = r,
                             .rank = rank,
                             .n_ranks = c->n,
                             .rank_on_node = rank,
                             .n_on_node = c->n,
                             .sum = fake_sum,
                             .broadcast = fake_broadcast,
                             .send = fake_send,
                             .receive = fake_receive,
                             .reduce_begin = fake_reduce_begin,
                             .reduce_is_done = fake_reduce_is_done,
                             .reduce_end = fake_reduce_end,
                             .describe = fake_describe};
}

/* An assertion that fails here must end the process, not go on with cmocka's next test. */
static _Noreturn void run_rank(const crew *c, uint32_t rank)
{
    rank_end *end = end_of(c, rank);
    fake_rank r;
    setenv("CMOCKA_TEST_ABORT", "1", 1);
    alarm(MOST_SECONDS);
    close_sockets(c, rank);
    set_table(c, rank, &r);
    end->status = c->fn(&r.table, c->arg, end + 1);
    if (end->status != COMET_OK)
        snprintf(end->sentence, sizeof end->sentence, "%s", comet_last_error());
    end->returned = true;
    fflush(NULL);
    _exit(0);
}

/* Says which rank crashed; its own output says where. */
static void check_ends(const crew *c, bool may_fail)
{
    bool good = true;
    for (uint32_t rank = 0; rank < c->n; rank++) {
        const rank_end *end = end_of(c, rank);
        int how = 0;
        assert_int_equal(waitpid(c->processes[rank], &how, 0), c->processes[rank]);
        if (!end->returned)
            print_error("rank %u of %u crashed, or an assertion failed there (wait status %#x)\n", rank, c->n, (unsigned)how);
        else if (end->status != COMET_OK && !may_fail)
            print_error("rank %u of %u failed: %s\n", rank, c->n, end->sentence);
        good = good && end->returned && (may_fail || end->status == COMET_OK);
    }
    if (!good)
        fail();
}

void fake_ranks_run(uint32_t n, fake_rank_fn *fn, void *arg, size_t result_bytes, void *results, comet_status *statuses)
{
    crew c = {.n = n, .fn = fn, .arg = arg, .stride = (sizeof(rank_end) + result_bytes + 63) / 64 * 64};
    assert_true(n > 0 && n <= FAKE_RANKS_MOST);
    c.shared = mmap(NULL, n * c.stride, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(c.shared, MAP_FAILED);
    open_sockets(&c);
    fflush(NULL);
    for (uint32_t rank = 0; rank < n; rank++) {
        c.processes[rank] = fork();
        assert_true(c.processes[rank] >= 0);
        if (c.processes[rank] == 0)
            run_rank(&c, rank);
    }
    close_sockets(&c, n);
    check_ends(&c, statuses != NULL);
    for (uint32_t rank = 0; rank < n; rank++) {
        if (result_bytes > 0)
            memcpy((uint8_t *)results + rank * result_bytes, end_of(&c, rank) + 1, result_bytes);
        if (statuses)
            statuses[rank] = end_of(&c, rank)->status;
    }
    munmap(c.shared, n * c.stride);
}
