/*
 * What the program says on stderr, and the exit codes it ends with.
 *
 * Functions of the program that can fail return a cli_exit: CLI_OK, or the code to exit with after the reason was printed.
 */
#ifndef COMET_CLI_SAY_H
#define COMET_CLI_SAY_H

#include <stdbool.h>

#include "comet/base.h"

typedef enum cli_exit {
    CLI_OK = 0,
    CLI_FAILED = 1,       /* a failure at run time: disk full, output exists, ratio out of reach */
    CLI_USAGE = 2,        /* the command line is wrong */
    CLI_BAD_INPUT = 3,    /* a file is not what it should be */
    CLI_BOUND_BROKEN = 4, /* an element is further off than promised */
    CLI_NO_MEMORY = 5,
} cli_exit;

#if defined(__GNUC__)
#define SAY_FORMAT(text, first) __attribute__((format(printf, text, first)))
#else
#define SAY_FORMAT(text, first)
#endif

/* A sentence that says why some text was not accepted; filled by parsers, printed by their callers. */
typedef struct reason {
    char text[320];
} reason;

/* Fills *why and returns 0, so that a parser ends with `return reason_set(why, ...)`. */
int reason_set(reason *why, const char *format, ...) SAY_FORMAT(2, 3);

/* The verb that later messages begin with ("comet compress: ..."); NULL for none. The string is kept, not copied. */
void say_set_verb(const char *verb);

/* Errors and results alone from now on: no notes of `say`, and no progress. */
void say_set_quiet(void);
bool say_is_quiet(void);

/* This process does what another does that says the same: nothing is said but failures, and these only after a moment, in which
 * the other ends both where it fails alike. They begin with `name`. */
void say_set_follower(const char *name);

/* One line on stderr after "comet VERB: ", with control characters made visible; nothing where errors alone are wanted. */
void say(const char *format, ...) SAY_FORMAT(1, 2);

/* The same for what went wrong though the work goes on, such as a file that is skipped: said in any case. */
void complain(const char *format, ...) SAY_FORMAT(1, 2);

/* Prints the reason and returns `code`; for CLI_USAGE a second line points to the help. */
cli_exit fail(cli_exit code, const char *format, ...) SAY_FORMAT(2, 3);

/* The analyzer sees one file at a time and would take a failure for CLI_OK. */
#ifdef __clang_analyzer__
#define fail(code, ...) (fail(code, __VA_ARGS__), (code)) /* NOLINT(readability-identifier-naming) */
#endif

/* Prints "SUBJECT: strerror(error)" and returns `code`. */
cli_exit fail_errno(cli_exit code, int error, const char *subject);

/* The exit code that fits the status. */
cli_exit exit_of_status(comet_status status);

/* Prints "SUBJECT: " (unless it is NULL) and the library's last error; returns the exit code that fits the status. */
cli_exit fail_status(comet_status status, const char *subject);

/* Prints how much memory could not be allocated and returns CLI_NO_MEMORY. */
cli_exit fail_memory(size_t bytes);

/* Flushes stdout; prints an error if a write failed, earlier or now. Returns `code`, or CLI_FAILED in its place if it was
 * CLI_OK. */
cli_exit close_stdout(cli_exit code);

#endif
