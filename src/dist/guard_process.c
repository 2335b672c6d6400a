/*
 * The guard leads a session of its own and listens for the ranks of its machine. A rank whose connection closes without a
 * word has died; descriptors of processes (pidfd) tell when ranks have ended, and end them.
 *
 * It is a process because launchers kill all ranks as soon as one was killed: MPICH's within microseconds and without naming
 * the rank. They kill process groups, which the guard is not in; its sentence goes to the standard error that it shares with
 * the rank that started it. Where several have died by the time that the guard runs, epoll tells which was first: its events
 * come in the order in which they occurred. Connections tell it better than processes: MPICH's launcher sees its own connection
 * to a rank close, and kills the others, while the rank's threads still end.
 *
 * Open MPI's mpirun answers SIGTERM and Ctrl-C with SIGTERM to the ranks and SIGKILL one second later, which is too short for
 * the end of a step and a checkpoint; how long it waits is a parameter of mpirun, which no rank can change. So the guard stops
 * the process that started the ranks (SIGSTOP), and continues it when they say that they leave: the end of MPI needs it. Other
 * launchers wait by themselves.
 *
 * After the fork only functions that POSIX allows there are called, and snprintf of whole numbers and texts, which takes
 * neither memory nor locks: the parent may have had threads.
 */
#define _GNU_SOURCE /* syscall, sched_setaffinity, accept4, struct ucred */
#include "dist/guard_process.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/status.h"

enum { LINE_BYTES = 400, GO_MS = 2500, AFTER_DEATH_MS = 1000, HOLD_MS = 300000, FIRST_MS = 60000, TELLING_NS = 100000000 };
#define LISTENER UINT32_MAX /* in epoll; else twice a member's number, and one more for its process */

/* A rank that has joined. */
typedef struct member {
    int letters, process; /* -1: closed; not there before Linux 5.3 */
    uint32_t rank;
    bool named, dismissed, gone;
} member;

typedef struct guarded {
    member *members; /* n_ranks of them */
    uint32_t n_ranks, n_joined, n_left, n_here;
    int listener, epoll;
    char host[GUARD_HOST_BYTES];
    pid_t launcher; /* 0: it is not to be held */
    bool holding, released, ending;
    char *words; /* of the command line, in this process's memory */
    size_t words_bytes;
    long until; /* milliseconds on the steady clock; 0: no limit */
} guarded;

static long now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (long)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* POSIX has no name for it. Not there before Linux 5.3: such a rank is not watched. */
static int open_process(uint32_t pid)
{
#ifdef SYS_pidfd_open
    return (int)syscall(SYS_pidfd_open, (pid_t)pid, 0u);
#else
    (void)pid;
    return -1;
#endif
}

static void watch(const guarded *g, int file, uint32_t number)
{
    epoll_ctl(g->epoll, EPOLL_CTL_ADD, file, &(struct epoll_event){.events = EPOLLIN, .data.u32 = number});
}

static void forget(const guarded *g, int *file)
{
    if (*file < 0)
        return;
    epoll_ctl(g->epoll, EPOLL_CTL_DEL, *file, NULL);
    close(*file);
    *file = -1;
}

static void release_launcher(guarded *g)
{
    if (g->holding)
        kill(g->launcher, SIGCONT);
    g->holding = false;
}

/* Those that are left have `ms` to go. */
static void begin_end(guarded *g, long ms)
{
    release_launcher(g);
    if (!g->ending)
        g->until = now_ms() + ms;
    g->ending = true;
}

/* ---- ranks come ---- */

/* Only processes of the same user may be watched, and ended. */
static pid_t pid_of_peer(int connection)
{
    struct ucred peer;
    socklen_t bytes = sizeof peer;
    if (getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0 || peer.uid != getuid())
        return 0;
    return peer.pid;
}

static void take_in(guarded *g)
{
    const int connection = accept4(g->listener, NULL, NULL, SOCK_CLOEXEC);
    const pid_t pid = connection >= 0 ? pid_of_peer(connection) : 0;
    if (pid <= 0 || g->n_joined == g->n_ranks) {
        if (connection >= 0)
            close(connection);
        return;
    }
    const uint32_t number = g->n_joined++;
    g->members[number] = (member){.letters = connection, .process = open_process((uint32_t)pid)};
    g->n_left++;
    if (!g->ending && !g->holding)
        g->until = 0;
    watch(g, connection, 2 * number);
    if (g->members[number].process >= 0)
        watch(g, g->members[number].process, 2 * number + 1);
}

/* Does not wait. False where there is no message; a connection that is closed is forgotten, and its process tells the rest. */
static bool receive(const guarded *g, member *m, void *message, size_t bytes)
{
    const ssize_t n = recv(m->letters, message, bytes, MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN))
        forget(g, &m->letters);
    return n == (ssize_t)bytes;
}

static bool hear_hello(guarded *g, member *m)
{
    guard_hello hello;
    const char welcome = LETTER_WELCOME;
    if (!receive(g, m, &hello, sizeof hello))
        return false;
    hello.host[GUARD_HOST_BYTES - 1] = '\0';
    memcpy(g->host, hello.host, sizeof g->host);
    g->n_here = hello.n_here;
    m->rank = hello.rank;
    m->named = true;
    (void)send(m->letters, &welcome, 1, MSG_NOSIGNAL);
    return true;
}

/* ---- letters ---- */

static void hold(guarded *g)
{
    if (g->launcher == 0 || g->ending || g->holding || g->released)
        return;
    g->holding = kill(g->launcher, SIGSTOP) == 0;
    g->until = g->holding ? now_ms() + HOLD_MS : 0;
}

static void release(guarded *g)
{
    if (g->holding)
        g->until = 0;
    release_launcher(g);
    g->released = true;
}

static bool hear_letter(guarded *g, member *m)
{
    char said = 0;
    if (!receive(g, m, &said, 1))
        return false;
    switch ((guard_letter)said) {
    case LETTER_DISMISS: m->dismissed = true; break;
    case LETTER_END: begin_end(g, GO_MS); break;
    case LETTER_HOLD: hold(g); break;
    case LETTER_RELEASE: release(g); break;
    case LETTER_WELCOME: break;
    }
    return true;
}

/* The next message; false where there is none. */
static bool hear(guarded *g, member *m)
{
    return m->letters >= 0 && (m->named ? hear_letter(g, m) : hear_hello(g, m));
}

/* ---- ranks end ---- */

static bool has_joined(const guarded *g, uint32_t rank)
{
    for (uint32_t i = 0; i < g->n_joined; i++)
        if (g->members[i].named && g->members[i].rank == rank)
            return true;
    return false;
}

/* Where all ranks are of this machine, those that have not joined are known: one of them may have died first. */
static size_t add_missing(const guarded *g, char *line, size_t at)
{
    for (uint32_t r = 0; r < g->n_ranks && g->n_here == g->n_ranks && at < LINE_BYTES / 2; r++)
        if (!has_joined(g, r))
            at += (size_t)snprintf(line + at, LINE_BYTES - at, ", or rank %u on host %s before it had joined", r, g->host);
    return at;
}

static void say_death(const guarded *g, const member *m)
{
    char line[LINE_BYTES];
    size_t at = 0;
    if (m->named)
        at = (size_t)snprintf(line, sizeof line, "comet: rank %u on host %s has died", m->rank, g->host);
    else
        at = (size_t)snprintf(line, sizeof line, "comet: one of %u ranks has died before it had said which it is", g->n_ranks);
    at = m->named ? add_missing(g, line, at) : at;
    at += (size_t)snprintf(line + at, sizeof line - at, "; the job ends\n");
    const ssize_t written = write(STDERR_FILENO, line, at);
    (void)written;
}

static void signal_left(const guarded *g, int number)
{
#ifdef SYS_pidfd_send_signal
    for (uint32_t i = 0; i < g->n_joined; i++)
        if (g->members[i].process >= 0)
            syscall(SYS_pidfd_send_signal, g->members[i].process, number, NULL, 0u);
#else
    (void)g, (void)number;
#endif
}

/* Its connection is closed, or its process has ended. The others rest until the launcher has passed the sentence on: if MPI
 * finds out and aborts first, as it does where ranks still meet, MPICH's launcher ends without reading what else was said. */
static void note_gone(guarded *g, member *m)
{
    if (m->gone)
        return;
    m->gone = true;
    if (m->dismissed || g->ending)
        return;
    signal_left(g, SIGSTOP);
    say_death(g, m);
    nanosleep(&(struct timespec){.tv_nsec = TELLING_NS}, NULL);
    signal_left(g, SIGCONT);
    begin_end(g, AFTER_DEATH_MS);
}

static void note_ended(guarded *g, member *m)
{
    while (hear(g, m)) /* what it sent before it ended */
        continue;
    note_gone(g, m);
    forget(g, &m->process);
    forget(g, &m->letters);
    g->n_left--;
}

static void listen_to(guarded *g, member *m)
{
    if (hear(g, m) || m->letters >= 0)
        return;
    note_gone(g, m);
    if (m->process < 0)
        g->n_left--;
}

/* ---- the process ---- */

/* After a death it stays for ranks that are about to join. */
static bool has_to_stay(const guarded *g)
{
    return g->n_joined == 0 || g->n_left > 0 || (g->ending && g->n_joined < g->n_ranks);
}

static void handle(guarded *g, uint32_t number)
{
    if (number == LISTENER) {
        take_in(g);
        return;
    }
    member *m = &g->members[number / 2];
    if (number % 2 == 1 && m->process >= 0)
        note_ended(g, m);
    else if (number % 2 == 0 && m->letters >= 0)
        listen_to(g, m);
}

static void keep_guard(guarded *g)
{
    while (has_to_stay(g)) {
        const long left = g->until > 0 ? g->until - now_ms() : -1;
        if (g->until > 0 && left <= 0)
            break;
        struct epoll_event events[16];
        const int n = epoll_wait(g->epoll, events, 16, (int)left);
        for (int i = 0; i < n; i++)
            handle(g, events[i].data.u32);
    }
    if (g->ending)
        signal_left(g, SIGKILL);
    release_launcher(g);
}

/* The guard is not a rank: whoever looks for ranks by name or command line must not find it. */
static void rename_process(const guarded *g)
{
    static const char name[] = "ranks-guard";
    prctl(PR_SET_NAME, name, 0, 0, 0);
    if (g->words_bytes < sizeof name)
        return;
    memset(g->words, 0, g->words_bytes);
    memcpy(g->words, name, sizeof name);
}

/* Files of the parent, such as its connections, must not stay open because of the guard. */
static void close_others(const guarded *g)
{
    for (int fd = 0; fd < g->listener; fd++)
        if (fd != STDERR_FILENO)
            close(fd);
#ifdef SYS_close_range
    if (syscall(SYS_close_range, (unsigned)g->listener + 1, ~0u, 0u) == 0)
        return;
#endif
    for (int fd = g->listener + 1; fd < 1024; fd++)
        close(fd);
}

/* It has little to do, but at once: not only on the core to which the launcher bound its parent, and before others where the
 * user may ask for that. */
static void run_first(void)
{
    cpu_set_t all;
    memset(&all, 0xff, sizeof all);
    sched_setaffinity(0, sizeof all, &all);
    sched_setscheduler(0, SCHED_RR, &(struct sched_param){.sched_priority = 1});
}

static void be_guard(guarded *g)
{
    const int ignored[] = {SIGTERM, SIGINT, SIGHUP, SIGPIPE, SIGQUIT};
    for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++)
        signal(ignored[i], SIG_IGN);
    setsid();
    run_first();
    rename_process(g);
    close_others(g);
    g->epoll = epoll_create1(0);
    g->until = now_ms() + FIRST_MS;
    watch(g, g->listener, LISTENER);
    keep_guard(g);
    _exit(0);
}

/* ---- before the fork ---- */

/* The parent and the name of a process; 0 where it cannot be read. */
static pid_t parent_of(pid_t pid, char name[32])
{
    char path[64], text[256] = "";
    int parent = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "r");
    if (!file)
        return 0;
    const size_t n = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[n] = '\0';
    const char *open = strchr(text, '('), *close_at = strrchr(text, ')');
    if (!open || !close_at || sscanf(close_at + 1, " %*c %d", &parent) != 1)
        return 0;
    snprintf(name, 32, "%.*s", (int)(close_at - open - 1), open + 1);
    return (pid_t)parent;
}

pid_t find_above(const char *const *names)
{
    char name[32];
    pid_t pid = getppid();
    for (int depth = 0; depth < 4 && pid > 1; depth++) {
        const pid_t above = parent_of(pid, name);
        for (const char *const *wanted = names; above > 0 && *wanted; wanted++)
            if (strncmp(name, *wanted, strlen(*wanted)) == 0)
                return pid;
        pid = above;
    }
    return 0;
}

/* Open MPI's mpirun, or its daemon on another machine, above this process; wrappers such as shells may lie between. */
static pid_t find_launcher(void)
{
    static const char *const names[] = {"mpirun", "mpiexec", "orterun", "orted", "prterun", "prted", "prte", NULL};
    return find_above(names);
}

/* Fields 48 and 49 of the kernel's line say where the command line lies; field 3 is the first after the name in parentheses. */
static void find_words(guarded *g)
{
    enum { ARGUMENTS_BEGIN = 48, FIRST_AFTER_NAME = 3 };
    char text[1024];
    FILE *file = fopen("/proc/self/stat", "r");
    const size_t n = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file)
        fclose(file);
    text[n] = '\0';
    char *at = strrchr(text, ')');
    for (int field = FIRST_AFTER_NAME - 1; at && field < ARGUMENTS_BEGIN; field++)
        at = strchr(at + 1, ' ');
    unsigned long long begin = 0, end = 0;
    if (!at || sscanf(at, "%llu %llu", &begin, &end) != 2 || end <= begin)
        return;
    const uintptr_t address = (uintptr_t)begin;
    memcpy(&g->words, &address, sizeof g->words);
    g->words_bytes = (size_t)(end - begin);
}

comet_status guard_process_start(int listener, uint32_t n_ranks, bool holds)
{
    guarded g = {.n_ranks = n_ranks, .listener = listener, .host = "unknown", .launcher = holds ? find_launcher() : 0};
    g.members = calloc(n_ranks, sizeof *g.members);
    if (!g.members)
        return comet_fail(COMET_ERROR_MEMORY, "could not allocate %zu bytes to watch %u ranks", n_ranks * sizeof *g.members,
                          n_ranks);
    find_words(&g);
    const pid_t pid = fork();
    if (pid == 0)
        be_guard(&g);
    free(g.members);
    return pid > 0 ? COMET_OK : comet_fail(COMET_ERROR_MEMORY, "could not start the guard of the ranks: %s", strerror(errno));
}
