/* Messages and exit codes; see say.h. Everything here goes to stderr: stdout belongs to data. */
#include "kit/say.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/size_text.h"
#include "kit/progress.h"
#include "kit/text.h"

#undef fail

static const char *current_verb;
static bool quiet;
static char follower[64]; /* its name; "": this process speaks for itself */

/* One write for the whole line, so that lines of several processes stay whole. File names and the like may be anywhere in it,
 * so all of it is made printable. */
static void say_line(const char *format, va_list arguments)
{
    char text[PRINTABLE_BYTES], shown[2 * PRINTABLE_BYTES];
    vsnprintf(text, sizeof text, format, arguments);
    progress_hide();
    fprintf(stderr, "comet%s%s: %s%s%s\n", current_verb ? " " : "", current_verb ? current_verb : "", follower,
            follower[0] != '\0' ? ": " : "", text_printable(text, shown, sizeof shown));
}

int reason_set(reason *why, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why->text, sizeof why->text, format, arguments);
    va_end(arguments);
    return 0;
}

void say_set_verb(const char *verb)
{
    current_verb = verb;
}

void say_set_quiet(void)
{
    quiet = true;
    progress_disable();
}

void say_set_follower(const char *name)
{
    snprintf(follower, sizeof follower, "%s", name);
    say_set_quiet();
}

/* The process that says the same has time to end both. */
static void let_speak(void)
{
    const struct timespec moment = {.tv_nsec = 500000000};
    if (follower[0] != '\0')
        nanosleep(&moment, NULL);
}

bool say_is_quiet(void)
{
    return quiet;
}

void say(const char *format, ...)
{
    va_list arguments;
    if (quiet)
        return;
    va_start(arguments, format);
    say_line(format, arguments);
    va_end(arguments);
}

void complain(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say_line(format, arguments);
    va_end(arguments);
}

cli_exit fail(cli_exit code, const char *format, ...)
{
    va_list arguments;
    let_speak();
    va_start(arguments, format);
    say_line(format, arguments);
    va_end(arguments);
    if (code == CLI_USAGE)
        fprintf(stderr, "try 'comet %s%s--help'\n", current_verb ? current_verb : "", current_verb ? " " : "");
    return code;
}

cli_exit fail_errno(cli_exit code, int error, const char *subject)
{
    return fail(code, "%s: %s", subject, strerror(error));
}

cli_exit exit_of_status(comet_status status)
{
    switch (status) {
    case COMET_OK: return CLI_OK;
    case COMET_ERROR_ARGUMENT: return CLI_USAGE;
    case COMET_ERROR_MEMORY: return CLI_NO_MEMORY;
    case COMET_ERROR_OVERFLOW:
    case COMET_ERROR_CORRUPT:
    case COMET_ERROR_UNSUPPORTED:
    case COMET_ERROR_IO: return CLI_BAD_INPUT;
    case COMET_ERROR_CAPACITY:
    case COMET_ERROR_UNREACHABLE:
    case COMET_ERROR_DIVERGED: break;
    }
    return CLI_FAILED;
}

cli_exit fail_status(comet_status status, const char *subject)
{
    const char *sentence = comet_last_error();
    return fail(exit_of_status(status), "%s%s%s", subject ? subject : "", subject ? ": " : "",
                sentence[0] != '\0' ? sentence : comet_status_name(status));
}

cli_exit fail_memory(size_t bytes)
{
    char size[SIZE_TEXT_BYTES];
    if (bytes < 1 << 20)
        return fail(CLI_NO_MEMORY, "out of memory: could not allocate %zu bytes", bytes);
    return fail(CLI_NO_MEMORY, "out of memory: could not allocate %s", comet_size_text(bytes, size));
}

cli_exit close_stdout(cli_exit code)
{
    const int earlier = ferror(stdout);
    errno = 0;
    if (fclose(stdout) == 0 && !earlier)
        return code;
    const int error = errno != 0 ? errno : EIO;
    const cli_exit said = fail_errno(CLI_FAILED, error, "standard output");
    return code == CLI_OK ? said : code;
}
