/*
 * The rank's side of the guard. Ranks of a machine find each other by an abstract socket whose name has the user and the job:
 * the rank that can bind it forks the guard, which listens there; all connect. Where the environment does not name the job, the
 * launcher's process does, or this rank's parent where the launcher is not known: never a name that two jobs could share. Ranks
 * that cannot agree on a name have a guard each, which is as good except that the order in which several die is not known.
 */
#define _GNU_SOURCE /* struct ucred */
#include "dist/guard.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/status.h"
#include "dist/guard_process.h"

enum { NAME_BYTES = 100, TRIES = 500, WELCOME_MS = 10000 /* on a machine that is busy */ };

struct guard {
    int letters;
};

static volatile sig_atomic_t guard_socket = -1; /* for guard_hold */

/* ---- finding each other ---- */

/* The job, as this machine knows it. */
static void name_job(char name[NAME_BYTES])
{
    static const char *const launchers[] = {"hydra_pmi_proxy", "pmi_proxy", "mpirun",     "mpiexec", "orted",
                                            "prted",           "prte",      "slurmstepd", NULL};
    const char *space = getenv("PMIX_NAMESPACE"), *slurm = getenv("SLURM_JOB_ID"), *step = getenv("SLURM_STEP_ID");
    const unsigned user = (unsigned)getuid();
    const int above = (int)find_above(launchers), parent = (int)getppid();
    if (space)
        snprintf(name, NAME_BYTES, "comet-ranks-%u-%s", user, space);
    else if (slurm && step) /* several mpirun may be in one step */
        snprintf(name, NAME_BYTES, "comet-ranks-%u-%s.%s-%d", user, slurm, step, above);
    else /* parent 1: orphans of any job */
        snprintf(name, NAME_BYTES, "comet-ranks-%u-%d", user, above > 0 ? above : parent > 1 ? parent : (int)getpid());
}

static socklen_t address_of(const char *name, struct sockaddr_un *address)
{
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    const size_t n = strlen(name);
    memcpy(address->sun_path + 1, name, n); /* the first byte is 0: an abstract name */
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n);
}

static int new_socket(void)
{
    return socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
}

static bool is_own(int connection)
{
    struct ucred peer;
    socklen_t bytes = sizeof peer;
    return getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 && peer.uid == getuid();
}

/* The connection, or -1. */
static int connect_to(const char *name)
{
    struct sockaddr_un address;
    const socklen_t bytes = address_of(name, &address);
    const int connection = new_socket();
    if (connection >= 0 && connect(connection, (struct sockaddr *)&address, bytes) == 0 && is_own(connection))
        return connection;
    if (connection >= 0)
        close(connection);
    return -1;
}

/* Starts the guard, unless another rank does. */
static comet_status start_first(const char *name, const comet_launch *launch)
{
    struct sockaddr_un address;
    const socklen_t bytes = address_of(name, &address);
    const int listener = new_socket();
    comet_status status = COMET_OK;
    if (listener >= 0 && bind(listener, (struct sockaddr *)&address, bytes) == 0 && listen(listener, SOMAXCONN) == 0)
        status = guard_process_start(listener, launch->n_ranks, launch->launcher == COMET_LAUNCHER_OPENMPI);
    if (listener >= 0)
        close(listener);
    return status;
}

static comet_status find_guard(const char *name, const comet_launch *launch, int *connection)
{
    *connection = connect_to(name);
    for (int i = 0; *connection < 0 && i < TRIES; i++) {
        TRY(start_first(name, launch));
        *connection = connect_to(name);
        if (*connection < 0)
            nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
    return COMET_OK;
}

/* ---- joining ---- */

static void write_letter(int to, guard_letter what)
{
    const char said = (char)what;
    if (to >= 0)
        (void)send(to, &said, 1, MSG_NOSIGNAL);
}

static uint32_t count_here(void)
{
    const char *text = getenv("MPI_LOCALNRANKS");
    text = text ? text : getenv("OMPI_COMM_WORLD_LOCAL_SIZE");
    return text ? (uint32_t)strtoul(text, NULL, 10) : 0;
}

/* False where the guard does not answer: it has just ended, with the ranks that it knew. */
static bool introduce(int connection, uint32_t rank)
{
    guard_hello hello = {.rank = rank, .n_here = count_here()};
    struct pollfd answer = {.fd = connection, .events = POLLIN};
    char letter = 0;
    if (gethostname(hello.host, sizeof hello.host - 1) != 0 || hello.host[0] == '\0')
        snprintf(hello.host, sizeof hello.host, "unknown");
    return send(connection, &hello, sizeof hello, MSG_NOSIGNAL) == sizeof hello && poll(&answer, 1, WELCOME_MS) == 1 &&
           recv(connection, &letter, 1, 0) == 1 && letter == LETTER_WELCOME;
}

comet_status guard_join(guard **out, const comet_launch *launch)
{
    char name[NAME_BYTES];
    int connection = -1;
    *out = NULL;
    name_job(name);
    TRY(find_guard(name, launch, &connection));
    if (connection >= 0 && !introduce(connection, launch->rank)) {
        write_letter(connection, LETTER_DISMISS); /* a guard that is only late must not take this rank for dead */
        close(connection);
        connection = -1;
    }
    if (connection < 0)
        return COMET_OK;
    guard *g = malloc(sizeof *g);
    if (!g) {
        close(connection);
        return comet_fail(COMET_ERROR_MEMORY, "could not allocate %zu bytes for the guard", sizeof *g);
    }
    *g = (guard){.letters = connection};
    guard_socket = connection;
    *out = g;
    return COMET_OK;
}

/* ---- letters ---- */

void guard_dismiss(guard *g)
{
    if (!g)
        return;
    guard_socket = -1;
    write_letter(g->letters, LETTER_DISMISS);
    close(g->letters);
    free(g);
}

void guard_end_job(guard *g)
{
    if (g)
        write_letter(g->letters, LETTER_END);
}

void guard_hold(void)
{
    const int saved = errno;
    write_letter(guard_socket, LETTER_HOLD);
    errno = saved;
}

void guard_release(guard *g)
{
    if (g)
        write_letter(g->letters, LETTER_RELEASE);
}
