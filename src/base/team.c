/*
 * One word, the ticket, holds the region's number, its members and the next member to claim, so that a thread that is late by a
 * whole region cannot claim a member of a region it knows nothing of. Body and data are written before the ticket and stay
 * until all members have ended.
 *
 * Waits spin for a moment and then sleep on a futex. On an idle machine that moment is a millisecond, longer than the gap
 * between most regions: to wake a thread costs more. A thread that spins and finds that its core was taken away meanwhile knows
 * that the machine is busy; for a while all spin for microseconds only.
 */
#define _GNU_SOURCE /* syscall */
#include "base/team.h"

#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    IDLE_SPIN_NS = 1000000,
    BUSY_SPIN_NS = 2000,
    TAKEN_NS = 200000, /* between two looks at the clock: another program had the core */
    BUSY_FOR_NS = 1000000000,
    PAUSES = 16, /* between two looks at the clock */
};

static atomic_long fixed_spin_ns = -1; /* negative: by what is seen */
static _Atomic int64_t busy_until;     /* on the clock of now_ns */

static struct {
    _Alignas(64) atomic_uint_fast64_t ticket; /* region << 32 | members << 16 | next member */
    void (*body)(void *data);
    void *data;
    _Alignas(64) atomic_uint published; /* regions; idle threads wait for a change */
    atomic_uint n_asleep;
    _Alignas(64) atomic_uint left; /* members that have not ended */
    atomic_uint caller_sleeps;
    _Alignas(64) atomic_uint arrived, phase; /* of the barrier */
    pthread_mutex_t lock;                    /* held by the caller of a region */
    size_t n_started;
} team = {.lock = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local struct {
    size_t member, members; /* of the region; members is 0 outside */
    size_t depth;           /* regions of one member inside it */
} mine;

/* ---- waiting ---- */

static void pause_briefly(void)
{
#ifdef __x86_64__
    __builtin_ia32_pause();
#else
    atomic_signal_fence(memory_order_seq_cst);
#endif
}

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static void futex_sleep(atomic_uint *word, unsigned value)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void futex_wake(atomic_uint *word, size_t n)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, (int)n, NULL, NULL, 0);
}

static int64_t spin_time(int64_t now)
{
    const long fixed = atomic_load_explicit(&fixed_spin_ns, memory_order_relaxed);
    if (fixed >= 0)
        return fixed;
    return now < atomic_load_explicit(&busy_until, memory_order_relaxed) ? BUSY_SPIN_NS : IDLE_SPIN_NS;
}

/* Waits until *word is not `value`; false where the time to spin has passed before. */
static bool spin_until_changed(atomic_uint *word, unsigned value)
{
    int64_t now = now_ns(), before;
    const int64_t until = now + spin_time(now);
    do {
        for (int i = 0; i < PAUSES; i++) {
            if (atomic_load(word) != value)
                return true;
            pause_briefly();
        }
        before = now;
        now = now_ns();
        if (now - before > TAKEN_NS)
            atomic_store_explicit(&busy_until, now + BUSY_FOR_NS, memory_order_relaxed);
    } while (now < until);
    return false;
}

/* Sleepers count themselves before the kernel compares the word, and those who change the word look at the count afterwards: no
 * change is missed. */
static void wait_until_changed(atomic_uint *word, unsigned value, atomic_uint *n_asleep)
{
    if (spin_until_changed(word, value))
        return;
    atomic_fetch_add(n_asleep, 1);
    while (atomic_load(word) == value)
        futex_sleep(word, value);
    atomic_fetch_sub(n_asleep, 1);
}

/* ---- members ---- */

static bool claim(size_t *member, size_t *members)
{
    uint_fast64_t t = atomic_load(&team.ticket);
    do {
        *member = t & 0xffff;
        *members = t >> 16 & 0xffff;
        if (*member >= *members)
            return false;
    } while (!atomic_compare_exchange_weak(&team.ticket, &t, t + 1));
    return true;
}

static void run_member(size_t member, size_t members)
{
    mine.member = member;
    mine.members = members;
    team.body(team.data);
    mine.members = 0;
    if (atomic_fetch_sub(&team.left, 1) == 1 && atomic_load(&team.caller_sleeps) > 0)
        futex_wake(&team.left, 1);
}

static void run_unclaimed(void)
{
    size_t member, members;
    while (claim(&member, &members))
        run_member(member, members);
}

static void *worker(void *unused)
{
    (void)unused;
    for (;;) {
        const unsigned seen = atomic_load(&team.published);
        run_unclaimed();
        wait_until_changed(&team.published, seen, &team.n_asleep);
    }
    return NULL;
}

/* A child of fork has the calling thread alone: its team starts anew. */
static void forget_threads(void)
{
    pthread_mutex_init(&team.lock, NULL);
    team.n_started = 0;
    atomic_store(&team.n_asleep, 0);
    atomic_store(&team.ticket, 0);
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, forget_threads);
}

/* Signals are left to the host's threads. */
static bool start_threads(size_t n)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    sigset_t all, before;
    pthread_attr_t detached;
    bool started = true;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    while (team.n_started < n && started) {
        pthread_t thread;
        started = pthread_create(&thread, &detached, worker, NULL) == 0;
        team.n_started += started;
    }
    pthread_attr_destroy(&detached);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

/* ---- regions ---- */

bool team_begin(size_t n, void (*body)(void *data), void *data)
{
    if (n <= 1 || mine.members > 0 || mine.depth > 0) {
        mine.depth++;
        return true;
    }
    pthread_mutex_lock(&team.lock);
    if (n > TEAM_MAX || !start_threads(n - 1)) {
        pthread_mutex_unlock(&team.lock);
        return false;
    }
    team.body = body;
    team.data = data;
    atomic_store(&team.left, (unsigned)n);
    const uint_fast64_t region = (atomic_load(&team.ticket) >> 32) + 1;
    atomic_store(&team.ticket, region << 32 | (uint_fast64_t)n << 16 | 1);
    atomic_fetch_add(&team.published, 1);
    if (atomic_load(&team.n_asleep) > 0)
        futex_wake(&team.published, n - 1);
    mine.member = 0;
    mine.members = n;
    return true;
}

void team_end(void)
{
    unsigned left;
    if (mine.depth > 0) {
        mine.depth--;
        return;
    }
    mine.members = 0;
    atomic_fetch_sub(&team.left, 1);
    run_unclaimed();
    while ((left = atomic_load(&team.left)) > 0)
        if (!spin_until_changed(&team.left, left)) {
            atomic_store(&team.caller_sleeps, 1);
            if ((left = atomic_load(&team.left)) > 0)
                futex_sleep(&team.left, left);
            atomic_store(&team.caller_sleeps, 0);
        }
    pthread_mutex_unlock(&team.lock);
}

bool team_run(size_t n, void (*body)(void *data), void *data)
{
    if (!team_begin(n, body, data))
        return false;
    body(data);
    team_end();
    return true;
}

void team_barrier(void)
{
    static atomic_uint n_asleep;
    if (team_members() <= 1)
        return;
    const unsigned phase = atomic_load(&team.phase);
    if (atomic_fetch_add(&team.arrived, 1) + 1 < mine.members) {
        wait_until_changed(&team.phase, phase, &n_asleep);
        return;
    }
    atomic_store(&team.arrived, 0);
    atomic_fetch_add(&team.phase, 1);
    if (atomic_load(&n_asleep) > 0)
        futex_wake(&team.phase, mine.members);
}

void team_set_spin(long nanoseconds)
{
    atomic_store(&fixed_spin_ns, nanoseconds);
}

size_t team_member(void)
{
    return mine.depth > 0 ? 0 : mine.member * (mine.members > 0);
}

size_t team_members(void)
{
    return mine.depth > 0 || mine.members == 0 ? 1 : mine.members;
}

bool team_is_active(void)
{
    return mine.members > 1;
}
