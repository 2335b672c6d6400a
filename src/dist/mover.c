/*
 * The loop: take new works, advance all, look after the others' health, and sleep while nothing moves. Cores are shared with
 * the thread that runs the model, so sleeps grow while nothing moves; they are short while that thread waits, and end at once
 * when it begins to wait or gives a work. A lock guards the list of new works and what has ended; works themselves are the
 * thread's.
 */
#include "dist/mover.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

#include "base/status.h"
#include "dist/health.h"

enum { ERROR_BYTES = 600 };

/* Sleeps, in nanoseconds: while works are under way, and without. */
enum { SLEEP_FIRST = 10000, SLEEP_WAITED = 50000, SLEEP_MOST = 500000, SLEEP_IDLE = 50000000 };
enum { PASSING_ON = 300000000 }; /* nanoseconds that rank 0 takes to tell all what it was told */
enum { SPINS = 200 };            /* looks before the first sleep while the other thread waits */

struct mover {
    mover_settings settings;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t to_thread, to_caller;
    /* under the lock */
    work *given, **given_end;
    bool opened, leaving, closing, failed, told;
    const char *to_tell;
    unsigned n_waiting;
    const work *waited_for; /* may have ended already */
    double seconds_waited, seconds_moving, waits_since;
    char error[ERROR_BYTES];
    comet_status status;
    /* the thread's */
    transport *t;
    card *cards;
    health *health;
    work *moving, **moving_end;
    pulse pulse; /* the caller marks it */
};

/* ---- the thread ---- */

static void fail_with(mover *m, comet_status status, const char *sentence)
{
    pthread_mutex_lock(&m->lock);
    m->failed = true;
    m->status = status;
    snprintf(m->error, sizeof m->error, "%s", sentence);
    pthread_cond_broadcast(&m->to_caller);
    pthread_mutex_unlock(&m->lock);
}

/* Tells the others for at most `seconds`. */
static void tell_others(mover *m, const char *sentence, double seconds)
{
    const double begin = comet_seconds();
    while (!health_tell(m->health, m->t, sentence) && comet_seconds() - begin < seconds)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

/* Rank 0 passes on what it was told, so that all know. */
static void end_job(mover *m, comet_status status, const verdict *why)
{
    guard_end_job(m->settings.guard);
    if (m->health && (why->speak || m->t->rank == 0))
        tell_others(m, why->text, 0.3);
    if (m->settings.ending)
        m->settings.ending(m->settings.user, why->text, why->speak);
    if (m->settings.end)
        m->settings.end(m->t, why->speak);
    fail_with(m, status, why->text);
}

static void end_job_broken(mover *m, comet_status status)
{
    verdict why = {.found = true, .speak = true};
    snprintf(why.text, sizeof why.text, "%.*s", (int)sizeof why.text - 1, comet_last_error());
    end_job(m, status, &why);
}

/* Joins new works to those that move. False where the thread has to leave. */
static bool take_given(mover *m)
{
    pthread_mutex_lock(&m->lock);
    if (m->given) {
        *m->moving_end = m->given;
        m->moving_end = m->given_end;
        m->given = NULL;
        m->given_end = &m->given;
    }
    const bool stay = !m->closing && !m->failed;
    pthread_mutex_unlock(&m->lock);
    return stay;
}

static void take_out(mover *m, work **place)
{
    work *w = *place;
    *place = w->next;
    if (!w->next)
        m->moving_end = place;
    pthread_mutex_lock(&m->lock);
    w->ended = true;
    pthread_cond_broadcast(&m->to_caller);
    pthread_mutex_unlock(&m->lock);
}

static comet_status advance_all(mover *m, bool *moved)
{
    for (work **place = &m->moving; *place;) {
        bool ended = false;
        TRY((*place)->advance(*place, m->t, moved, &ended));
        if (ended) {
            take_out(m, place);
            *moved = true;
        } else {
            place = &(*place)->next;
        }
    }
    return COMET_OK;
}

static bool moves_reduction(const mover *m)
{
    for (const work *w = m->moving; w; w = w->next)
        if (w->is_reduction)
            return true;
    return false;
}

/* Sleeps, unless there is something new. Returns how long the next sleep is. */
static long rest(mover *m, long sleep, unsigned *n_spins)
{
    pthread_mutex_lock(&m->lock);
    const bool waited = m->n_waiting > 0;
    if (m->moving && waited && (*n_spins)++ < SPINS) {
        pthread_mutex_unlock(&m->lock);
        sched_yield();
        return SLEEP_FIRST;
    }
    const long most = !m->moving ? SLEEP_IDLE : waited ? SLEEP_WAITED : SLEEP_MOST;
    const long now = !m->moving ? SLEEP_IDLE : sleep < most ? sleep : most;
    if (!m->given && !m->closing && !m->to_tell) {
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += now;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&m->to_thread, &m->lock, &until);
    }
    pthread_mutex_unlock(&m->lock);
    return 2 * now < most ? 2 * now : most;
}

static void tell_what_is_asked(mover *m)
{
    pthread_mutex_lock(&m->lock);
    const char *sentence = m->told ? NULL : m->to_tell;
    pthread_mutex_unlock(&m->lock);
    if (!sentence)
        return;
    tell_others(m, sentence, 1);
    pthread_mutex_lock(&m->lock);
    m->told = true;
    m->to_tell = NULL;
    pthread_cond_broadcast(&m->to_caller);
    pthread_mutex_unlock(&m->lock);
}

static comet_status look_after_health(mover *m, verdict *found)
{
    pthread_mutex_lock(&m->lock);
    const bool leaving = m->leaving || m->told;
    const bool waits = m->waited_for && !m->waited_for->ended;
    const double now = comet_seconds(), waited = waits ? now - m->waits_since : 0;
    pthread_mutex_unlock(&m->lock);
    if (leaving || !health_is_due(m->health, now))
        return COMET_OK;
    const pulse_report own = pulse_tick(&m->pulse, now, waited);
    return health_tick(m->health, m->t, now, &own, found);
}

static void count_moving(mover *m, double seconds)
{
    pthread_mutex_lock(&m->lock);
    m->seconds_moving += seconds;
    pthread_mutex_unlock(&m->lock);
}

static void loop(mover *m)
{
    long sleep = SLEEP_FIRST;
    unsigned n_spins = 0;
    while (take_given(m)) {
        verdict found = {.found = false};
        bool moved = false;
        const bool counts = moves_reduction(m);
        const double begin = comet_seconds();
        tell_what_is_asked(m);
        comet_status status = look_after_health(m, &found);
        if (status == COMET_OK && found.found) {
            end_job(m, COMET_ERROR_IO, &found);
            return;
        }
        if (status == COMET_OK)
            status = advance_all(m, &moved);
        if (status != COMET_OK) {
            end_job_broken(m, status);
            return;
        }
        if (moved) {
            sleep = SLEEP_FIRST;
            n_spins = 0;
        } else {
            sleep = rest(m, sleep, &n_spins);
        }
        if (counts)
            count_moving(m, comet_seconds() - begin);
    }
}

static comet_status open_all(mover *m)
{
    char error[ERROR_BYTES] = "";
    transport *t = m->settings.open(m->settings.arg, error, sizeof error);
    if (!t)
        return comet_fail(COMET_ERROR_UNSUPPORTED, "%s", error);
    m->t = t;
    m->cards = calloc(t->n_ranks, sizeof *m->cards);
    if (!m->cards)
        return comet_fail(COMET_ERROR_MEMORY, "could not allocate %zu bytes for %u ranks", t->n_ranks * sizeof *m->cards,
                          t->n_ranks);
    TRY(cards_exchange(t, m->cards));
    return health_create(&m->health, t, m->cards, m->settings.silent_seconds);
}

static void *run(void *arg)
{
    mover *m = arg;
    prctl(PR_SET_TIMERSLACK, 1000ul, 0, 0, 0); /* nanoseconds: sleeps are short */
    const comet_status status = open_all(m);
    if (status != COMET_OK)
        fail_with(m, status, comet_last_error());
    pthread_mutex_lock(&m->lock);
    m->opened = true;
    pthread_cond_broadcast(&m->to_caller);
    pthread_mutex_unlock(&m->lock);
    if (status == COMET_OK)
        loop(m);
    health_destroy(m->health, m->t);
    if (m->t && !m->failed)
        m->t->close(m->t);
    return NULL;
}

/* ---- callers ---- */

static void init_locks(mover *m)
{
    pthread_condattr_t steady;
    pthread_condattr_init(&steady);
    pthread_condattr_setclock(&steady, CLOCK_MONOTONIC);
    pthread_mutex_init(&m->lock, NULL);
    pthread_cond_init(&m->to_thread, &steady);
    pthread_cond_init(&m->to_caller, &steady);
    pthread_condattr_destroy(&steady);
}

static void release(mover *m)
{
    pthread_mutex_destroy(&m->lock);
    pthread_cond_destroy(&m->to_thread);
    pthread_cond_destroy(&m->to_caller);
    free(m->cards);
    free(m);
}

comet_status mover_create(mover **out, const mover_settings *settings)
{
    mover *m = calloc(1, sizeof *m);
    if (!m)
        return comet_fail(COMET_ERROR_MEMORY, "could not allocate %zu bytes for the thread of the ranks", sizeof *m);
    m->settings = *settings;
    m->given_end = &m->given;
    m->moving_end = &m->moving;
    pulse_begin(&m->pulse, settings->hung_seconds);
    init_locks(m);
    if (pthread_create(&m->thread, NULL, run, m) != 0) {
        release(m);
        return comet_fail(COMET_ERROR_MEMORY, "could not start the thread of the ranks");
    }
    pthread_mutex_lock(&m->lock);
    while (!m->opened)
        pthread_cond_wait(&m->to_caller, &m->lock);
    pthread_mutex_unlock(&m->lock);
    if (m->failed) {
        pthread_join(m->thread, NULL);
        const comet_status status = comet_fail(m->status, "%s", m->error);
        release(m);
        return status;
    }
    *out = m;
    return COMET_OK;
}

void mover_destroy(mover *m)
{
    if (!m)
        return;
    pthread_mutex_lock(&m->lock);
    m->closing = true;
    pthread_cond_signal(&m->to_thread);
    pthread_mutex_unlock(&m->lock);
    pthread_join(m->thread, NULL);
    release(m);
}

const transport *mover_transport(const mover *m)
{
    return m->t;
}

const card *mover_cards(const mover *m)
{
    return m->cards;
}

void mover_give(mover *m, work *w)
{
    w->next = NULL;
    w->ended = false;
    pthread_mutex_lock(&m->lock);
    *m->given_end = w;
    m->given_end = &w->next;
    pthread_cond_signal(&m->to_thread);
    pthread_mutex_unlock(&m->lock);
}

bool mover_has_ended(mover *m, work *w)
{
    pthread_mutex_lock(&m->lock);
    const bool ended = w->ended;
    pthread_mutex_unlock(&m->lock);
    return ended;
}

comet_status mover_wait(mover *m, work *w)
{
    const double begin = comet_seconds();
    pthread_mutex_lock(&m->lock);
    if (!w->ended) {
        m->n_waiting++;
        m->waits_since = begin;
        m->waited_for = w;
        pthread_cond_signal(&m->to_thread);
        while (!w->ended && !m->failed)
            pthread_cond_wait(&m->to_caller, &m->lock);
        m->n_waiting--;
        m->waited_for = NULL;
        m->seconds_waited += comet_seconds() - begin;
    }
    const bool ended = w->ended;
    pthread_mutex_unlock(&m->lock);
    return ended ? COMET_OK : comet_fail(m->status, "%s", m->error);
}

void mover_mark(mover *m, comet_rank_phase phase)
{
    pulse_mark(&m->pulse, phase);
}

void mover_leave(mover *m)
{
    guard_release(m->settings.guard);
    pthread_mutex_lock(&m->lock);
    m->leaving = true;
    pthread_mutex_unlock(&m->lock);
}

void mover_tell(mover *m, const char *sentence)
{
    guard_end_job(m->settings.guard);
    pthread_mutex_lock(&m->lock);
    m->to_tell = sentence;
    pthread_cond_signal(&m->to_thread);
    while (!m->told && !m->failed)
        pthread_cond_wait(&m->to_caller, &m->lock);
    m->to_tell = NULL;
    pthread_mutex_unlock(&m->lock);
    nanosleep(&(struct timespec){.tv_nsec = PASSING_ON}, NULL);
}

double mover_seconds_waited(mover *m)
{
    pthread_mutex_lock(&m->lock);
    const double seconds = m->seconds_waited;
    pthread_mutex_unlock(&m->lock);
    return seconds;
}

double mover_seconds_moving(mover *m)
{
    pthread_mutex_lock(&m->lock);
    const double seconds = m->seconds_moving;
    pthread_mutex_unlock(&m->lock);
    return seconds;
}
