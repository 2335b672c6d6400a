/* Processes that take turns; see turns.h. */
#define _GNU_SOURCE /* pipe2 */
#include "kit/turns.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

enum { TAKES_FROM = 3, PASSES_TO = 4, ABOVE_BOTH = 8 };

bool turns_open(turn_ring *ring, size_t n)
{
    for (ring->n = 0; ring->n < n; ring->n++)
        if (pipe2(ring->pipes[ring->n], O_CLOEXEC) != 0) {
            const int error = errno;
            turns_close(ring);
            errno = error;
            return false;
        }
    return true;
}

/* Moved to high numbers first: an end may have the number that the other one is to get. */
void turns_hand_over(const turn_ring *ring, size_t i)
{
    const int from = fcntl(ring->pipes[i][0], F_DUPFD_CLOEXEC, ABOVE_BOTH);
    const int to = fcntl(ring->pipes[(i + 1) % ring->n][1], F_DUPFD_CLOEXEC, ABOVE_BOTH);
    dup2(from, TAKES_FROM);
    dup2(to, PASSES_TO);
}

static void write_token(int fd)
{
    while (write(fd, "", 1) < 0 && errno == EINTR)
        ;
}

void turns_begin(turn_ring *ring)
{
    if (ring->n > 0)
        write_token(ring->pipes[0][1]);
    turns_close(ring);
}

void turns_close(turn_ring *ring)
{
    for (size_t i = 0; i < ring->n; i++) {
        close(ring->pipes[i][0]);
        close(ring->pipes[i][1]);
    }
    ring->n = 0;
}

void turn_take(void)
{
    char token;
    while (read(TAKES_FROM, &token, 1) < 0 && errno == EINTR)
        ;
}

void turn_pass(void)
{
    signal(SIGPIPE, SIG_IGN); /* the next process has ended: nobody takes the token */
    write_token(PASSES_TO);
}
