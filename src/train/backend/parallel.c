/*
 * Enters libgomp through its documented entry points, which gcc's -fopenmp compiles to, instead of through pragmas: the same
 * code then works with every compiler, and clang does not bring a second OpenMP runtime beside oneDNN's.
 */
#include "train/backend/parallel.h"

#include "base/bytes.h"
#include "base/threads.h"
#include "base/work_parts.h"

void GOMP_parallel(void (*body)(void *), void *data, unsigned n_threads, unsigned flags);
void omp_set_num_threads(int n_threads);
int omp_get_max_threads(void);
int omp_get_num_threads(void);
int omp_get_thread_num(void);

enum { PIECES_PER_THREAD = 4 }; /* a thread that is late gets fewer of them */

typedef struct loop {
    size_t n, n_pieces;
    work_parts pieces;
    void (*body)(void *arg, size_t begin, size_t end);
    void *arg;
} loop;

size_t parallel_set_threads(size_t n_threads)
{
    const size_t n = n_threads > 0 ? n_threads : comet_cores();
    omp_set_num_threads((int)n);
    return n;
}

size_t parallel_threads(void)
{
    return (size_t)omp_get_max_threads();
}

/* Item `piece` of n_pieces begins with. */
static size_t piece_begin(const loop *l, uint64_t piece)
{
    const size_t share = l->n / l->n_pieces, rest = l->n % l->n_pieces;
    return piece * share + (size_t)min_u64(piece, rest);
}

static void run_pieces(void *data)
{
    loop *l = data;
    uint64_t piece;
    while (work_parts_next(&l->pieces, (size_t)omp_get_thread_num(), &piece))
        l->body(l->arg, piece_begin(l, piece), piece_begin(l, piece + 1));
}

void parallel_for(size_t n, size_t grain, void (*body)(void *arg, size_t begin, size_t end), void *arg)
{
    if (n == 0)
        return;
    const size_t n_parts = grain > 1 ? n / grain : n, n_threads = parallel_threads();
    const size_t n_used = n_parts < n_threads ? n_parts : n_threads;
    if (n_used <= 1) {
        body(arg, 0, n);
        return;
    }
    loop l;
    l.n = n;
    l.n_pieces = (size_t)min_u64(n_parts, PIECES_PER_THREAD * n_used);
    l.body = body;
    l.arg = arg;
    work_parts_init(&l.pieces, 0, l.n_pieces, n_used);
    GOMP_parallel(run_pieces, &l, (unsigned)n_used, 0);
}

typedef struct tasks {
    size_t n;
    void (*task)(void *arg, size_t index);
    void *arg;
} tasks;

/* OpenMP may give fewer threads than asked for. */
static void run_tasks(void *data)
{
    const tasks *t = data;
    for (size_t i = (size_t)omp_get_thread_num(); i < t->n; i += (size_t)omp_get_num_threads())
        t->task(t->arg, i);
}

void parallel_run(void *user, size_t n_tasks, void (*task)(void *arg, size_t index), void *arg)
{
    (void)user;
    tasks t = {.n = n_tasks, .task = task, .arg = arg};
    if (n_tasks <= 1)
        run_tasks(&t);
    else
        GOMP_parallel(run_tasks, &t, (unsigned)n_tasks, 0);
}
