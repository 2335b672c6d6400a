/*
 * The guard is forked by the lowest rank of the machine, leads a session of its own, and waits for descriptors of the ranks'
 * processes (pidfd), which tell when they end, and for a letter of its parent.
 *
 * It is a process because launchers kill all ranks as soon as one was killed: MPICH's within microseconds and without naming
 * the rank. They kill process groups, which the guard is not in; its sentence goes to the standard error that it shares with
 * its parent. Where several have ended by the time that the guard runs, epoll tells which was first: its events come in the
 * order in which they occurred.
 *
 * Open MPI's mpirun answers SIGTERM and Ctrl-C with SIGTERM to the ranks and SIGKILL one second later, which is too short for
 * the end of a step and a checkpoint; how long it waits is a parameter of mpirun, which no rank can change. So the guard stops
 * the process that started the ranks (SIGSTOP), and continues it when they say that they leave: the end of MPI needs it. Other
 * launchers wait by themselves.
 *
 * After the fork only functions that POSIX allows there are called: the parent may have had threads.
 */
#define _GNU_SOURCE /* syscall, sched_setaffinity */
#include "dist/guard.h"

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
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/status.h"

enum { LINE_BYTES = 160, GO_MS = 2500, AFTER_DEATH_MS = 1000, HOLD_MS = 300000 };
typedef enum letter { LETTER_DISMISS = 'd', LETTER_END = 'e', LETTER_HOLD = 'h' } letter;

struct guard {
    pid_t pid;
    int socket;
};

/* What the guard itself knows. */
typedef struct guarded {
    size_t n, n_left; /* ranks of this machine, and those that have not ended */
    int *files;       /* the socket, then each rank; -1: ended */
    int epoll;
    char (*lines)[LINE_BYTES];
    pid_t launcher; /* 0: it is not to be held */
    bool holding, dismissed, ending;
    char *words; /* of the command line, in this process's memory */
    size_t words_bytes;
    long until; /* milliseconds on the steady clock; 0: no limit */
} guarded;

static volatile sig_atomic_t guard_socket = -1; /* for guard_hold */

/* ---- the guard's process ---- */

static long now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (long)now.tv_sec * 1000 + now.tv_nsec / 1000000;
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

static void forget(guarded *g, size_t file)
{
    epoll_ctl(g->epoll, EPOLL_CTL_DEL, g->files[file], NULL);
    g->files[file] = -1;
}

static void hear_parent(guarded *g)
{
    char said = 0;
    const ssize_t n = recv(g->files[0], &said, 1, 0);
    if (n <= 0 && errno != EINTR)
        forget(g, 0); /* the parent is gone; its descriptor says so too */
    if (n <= 0)
        return;
    if (said == LETTER_END)
        begin_end(g, GO_MS);
    if (said == LETTER_DISMISS)
        g->dismissed = true;
    if (said == LETTER_HOLD && g->launcher > 0 && !g->ending && !g->holding) {
        g->holding = kill(g->launcher, SIGSTOP) == 0;
        g->until = g->holding ? now_ms() + HOLD_MS : 0;
    }
}

static void note_ended(guarded *g, size_t i)
{
    forget(g, 1 + i);
    g->n_left--;
    if (g->dismissed || g->ending)
        return;
    const ssize_t written = write(STDERR_FILENO, g->lines[i], strlen(g->lines[i]));
    (void)written;
    begin_end(g, AFTER_DEATH_MS);
}

static void kill_left(const guarded *g)
{
    for (size_t i = 0; i < g->n; i++)
        if (g->files[1 + i] >= 0)
            syscall(SYS_pidfd_send_signal, g->files[1 + i], SIGKILL, NULL, 0u);
}

static void keep_guard(guarded *g)
{
    while (g->n_left > 0 && !g->dismissed) {
        const long left = g->until > 0 ? g->until - now_ms() : -1;
        if (g->until > 0 && left <= 0)
            break;
        struct epoll_event events[16];
        const int n = epoll_wait(g->epoll, events, 16, (int)left);
        for (int i = 0; i < n; i++) {
            const size_t file = events[i].data.u32;
            if (file == 0)
                hear_parent(g);
            else
                note_ended(g, file - 1);
        }
    }
    if (g->ending)
        kill_left(g);
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
    int highest = 0;
    for (size_t i = 0; i <= g->n; i++)
        highest = g->files[i] > highest ? g->files[i] : highest;
    for (int fd = 0; fd <= highest; fd++) {
        bool ours = fd == STDERR_FILENO;
        for (size_t i = 0; i <= g->n; i++)
            ours = ours || g->files[i] == fd;
        if (!ours)
            close(fd);
    }
#ifdef SYS_close_range
    syscall(SYS_close_range, (unsigned)highest + 1, ~0u, 0u);
#endif
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
    for (uint32_t i = 0; i <= g->n; i++)
        epoll_ctl(g->epoll, EPOLL_CTL_ADD, g->files[i], &(struct epoll_event){.events = EPOLLIN, .data.u32 = i});
    keep_guard(g);
    _exit(0);
}

/* ---- the rank ---- */

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

/* Open MPI's mpirun, or its daemon on another machine, above this process; wrappers such as shells may lie between. */
static pid_t find_launcher(void)
{
    static const char *const names[] = {"mpirun", "mpiexec", "orterun", "orted", "prterun", "prted", "prte"};
    char name[32];
    pid_t pid = getppid();
    for (int depth = 0; depth < 4 && pid > 1; depth++) {
        const pid_t above = parent_of(pid, name);
        for (size_t i = 0; above > 0 && i < sizeof names / sizeof *names; i++)
            if (strncmp(name, names[i], strlen(names[i])) == 0)
                return pid;
        pid = above;
    }
    return 0;
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

/* Is there another rank in this process? */
static bool shares_process(const card *cards, uint32_t n_ranks, uint32_t rank)
{
    for (uint32_t r = 0; r < n_ranks; r++)
        if (r != rank && cards[r].pid == cards[rank].pid && cards[r].pid_space == cards[rank].pid_space &&
            cards[r].node == cards[rank].node)
            return true;
    return false;
}

static comet_status fill(guarded *g, const card *cards, uint32_t n_ranks, uint32_t rank)
{
    g->files = calloc(n_ranks + 1, sizeof *g->files);
    g->lines = calloc(n_ranks, sizeof *g->lines);
    if (!g->files || !g->lines)
        return comet_fail(COMET_ERROR_MEMORY, "could not allocate %zu bytes to watch %u ranks", n_ranks * sizeof *g->lines,
                          n_ranks);
    for (uint32_t r = rank; r < n_ranks; r++) {
        const card *c = &cards[r];
        const int fd = c->node == cards[rank].node && c->pid_space == cards[rank].pid_space ? open_process(c->pid) : -1;
        if (fd < 0)
            continue;
        snprintf(g->lines[g->n], LINE_BYTES, "comet: rank %u on host %s has died; the job ends\n", r, c->host);
        g->files[1 + g->n++] = fd;
    }
    g->n_left = g->n;
    return COMET_OK;
}

static comet_status fork_guard(guarded *g, guard *parent)
{
    int sockets[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0)
        return comet_fail(COMET_ERROR_IO, "could not make a socket for the guard of the ranks: %s", strerror(errno));
    g->files[0] = sockets[1];
    parent->pid = fork();
    if (parent->pid == 0)
        be_guard(g);
    close(sockets[1]);
    parent->socket = sockets[0];
    if (parent->pid > 0)
        return COMET_OK;
    close(sockets[0]);
    return comet_fail(COMET_ERROR_MEMORY, "could not start the guard of the ranks: %s", strerror(errno));
}

static void release(guarded *g)
{
    for (size_t i = 0; i < g->n; i++)
        close(g->files[1 + i]);
    free(g->files);
    free(g->lines);
}

comet_status guard_create(guard **out, const card *cards, uint32_t n_ranks, uint32_t rank, bool hold)
{
    guarded g = {.launcher = hold ? find_launcher() : 0};
    *out = NULL;
    if (cards[rank].node != rank || shares_process(cards, n_ranks, rank))
        return COMET_OK;
    guard *parent = calloc(1, sizeof *parent);
    comet_status status = parent ? fill(&g, cards, n_ranks, rank)
                                 : comet_fail(COMET_ERROR_MEMORY, "could not allocate %zu bytes for the guard", sizeof *parent);
    find_words(&g);
    if (status == COMET_OK)
        status = fork_guard(&g, parent);
    release(&g);
    if (status != COMET_OK) {
        free(parent);
        return status;
    }
    guard_socket = parent->socket;
    *out = parent;
    return COMET_OK;
}

static void write_letter(int to, letter what)
{
    const char said = (char)what;
    if (to >= 0)
        (void)send(to, &said, 1, MSG_NOSIGNAL);
}

void guard_dismiss(guard *g)
{
    if (!g)
        return;
    guard_socket = -1;
    write_letter(g->socket, LETTER_DISMISS);
    close(g->socket);
    waitpid(g->pid, NULL, WNOHANG);
    free(g);
}

void guard_end_job(guard *g)
{
    if (g)
        write_letter(g->socket, LETTER_END);
}

void guard_hold(void)
{
    const int saved = errno;
    write_letter(guard_socket, LETTER_HOLD);
    errno = saved;
}
