/* Processes of our own; see child.h. */
#define _GNU_SOURCE /* pipe2 */
#include "kit/child.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/atomic_file.h"
#include "kit/number.h"

enum { FIRST_BYTES = 4096 };

/* A command line that is too long is cut; the process that reads it then refuses an option without its value. */
void command_word(command *c, const char *word)
{
    if (c->n < COMMAND_WORDS)
        c->words[c->n++] = word;
}

void command_flag(command *c, const char *name, bool on)
{
    if (on)
        command_word(c, name);
}

void command_text(command *c, const char *name, const char *value)
{
    if (!value)
        return;
    command_word(c, name);
    command_word(c, value);
}

void command_number(command *c, const char *name, uint64_t value)
{
    command_word(c, name);
    if (c->n == COMMAND_WORDS)
        return;
    snprintf(c->numbers[c->n], COMMAND_NUMBER_BYTES, "%" PRIu64, value);
    command_word(c, c->numbers[c->n]);
}

void command_share(command *c, const char *name, double value)
{
    if (value < 0)
        return;
    command_word(c, name);
    if (c->n == COMMAND_WORDS)
        return;
    number_format(value, c->numbers[c->n], COMMAND_NUMBER_BYTES);
    command_word(c, c->numbers[c->n]);
}

/* Reads a pipe to its end; NULL without memory. */
static char *read_pipe(int fd)
{
    size_t room = FIRST_BYTES, n = 0;
    char *text = malloc(room);
    while (text) {
        const ssize_t got = read(fd, text + n, room - n - 1);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        n += (size_t)got;
        if (n + 1 == room) {
            char *larger = realloc(text, room *= 2);
            if (!larger)
                free(text);
            text = larger;
        }
    }
    if (text)
        text[n] = '\0';
    return text;
}

/* The child is ended with its parent: nobody would read its results. */
static void end_with_parent(pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) /* the parent ended before the call */
        _exit(CLI_FAILED);
}

static cli_exit wait_for(pid_t child, const char *what)
{
    int status = 0;
    while (waitpid(child, &status, 0) != child)
        if (errno != EINTR)
            return fail_errno(CLI_FAILED, errno, what);
    if (WIFEXITED(status))
        return (cli_exit)WEXITSTATUS(status);
    return fail(WTERMSIG(status) == SIGKILL ? CLI_NO_MEMORY : CLI_FAILED, "%s was killed by signal %d%s", what,
                WTERMSIG(status), WTERMSIG(status) == SIGKILL ? ": out of memory?" : "");
}

cli_exit command_start(command *c, const char *what, const turn_ring *ring, size_t place, running *r)
{
    int ends[2];
    fflush(stdout);
    if (say_is_quiet())
        command_word(c, "-q");
    if (pipe2(ends, O_CLOEXEC) != 0)
        return fail_errno(CLI_FAILED, errno, what);
    const pid_t self = getpid();
    *r = (running){.process = fork(), .output = ends[0]};
    if (r->process == 0) {
        end_with_parent(self);
        dup2(ends[1], STDOUT_FILENO); /* first: the ends of a ring get fixed numbers, and this one may have such a number */
        if (ring)
            turns_hand_over(ring, place);
        execv("/proc/self/exe", (char *const *)(void *)c->words);
        _exit(CLI_FAILED);
    }
    close(ends[1]);
    if (r->process > 0)
        return CLI_OK;
    close(ends[0]);
    return fail(CLI_FAILED, "could not start a process for %s", what);
}

cli_exit command_end(running *r, const char *what, char **output)
{
    char *text = read_pipe(r->output);
    close(r->output);
    const cli_exit code = wait_for(r->process, what);
    if (code == CLI_OK && !text)
        return fail_memory(FIRST_BYTES);
    if (code == CLI_OK)
        *output = text;
    else
        free(text);
    return code;
}

cli_exit command_run(command *c, const char *what, char **output)
{
    running r = {.output = -1};
    const cli_exit code = command_start(c, what, NULL, 0, &r);
    return code == CLI_OK ? command_end(&r, what, output) : code;
}

static bool read_all(int fd, void *data, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        const ssize_t n = read(fd, (char *)data + done, bytes - done);
        if (n == 0 || (n < 0 && errno != EINTR))
            return false;
        done += n > 0 ? (size_t)n : 0;
    }
    return true;
}

cli_exit run_apart(cli_exit (*work)(void *data), void *data, size_t bytes)
{
    static const char what[] = "a process of its own";
    int ends[2];
    fflush(NULL);
    if (pipe(ends) != 0)
        return fail_errno(CLI_FAILED, errno, what);
    const pid_t self = getpid(), child = fork();
    if (child == 0) {
        end_with_parent(self);
        close(ends[0]);
        const cli_exit code = work(data);
        _exit(code == CLI_OK && comet_write_all(ends[1], data, bytes) != 0 ? CLI_FAILED : (int)code);
    }
    close(ends[1]);
    const bool whole = child > 0 && read_all(ends[0], data, bytes);
    close(ends[0]);
    if (child < 0)
        return fail(CLI_FAILED, "could not start a process");
    const cli_exit code = wait_for(child, what);
    return code == CLI_OK && !whole ? fail(CLI_FAILED, "%s ended without a result", what) : code;
}
