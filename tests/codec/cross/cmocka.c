/* See cmocka.h beside this file. */
#include "cmocka.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static jmp_buf test_end;
static int running;

void print_message(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
}

void print_error(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
}

_Noreturn void _fail(const char *file, int line)
{
    print_error("%s:%d: failed\n", file, line);
    if (!running)
        exit(1);
    longjmp(test_end, 1);
}

void check_that(int holds, const char *text, const char *file, int line)
{
    if (holds)
        return;
    print_error("%s:%d: does not hold: %s\n", file, line, text);
    _fail(file, line);
}

/* Tests that fail do not free their memory and are not torn down. */
static int passes(const struct CMUnitTest *test)
{
    void *state = test->initial_state;
    running = 1;
    if (setjmp(test_end)) {
        running = 0;
        return 0;
    }
    int ok = !test->setup_func || test->setup_func(&state) == 0;
    if (ok)
        test->test_func(&state);
    if (ok && test->teardown_func)
        ok = test->teardown_func(&state) == 0;
    running = 0;
    return ok;
}

int run_tests(const char *group, const struct CMUnitTest *tests, size_t n, CMFixtureFunction *set_up,
              CMFixtureFunction *tear_down)
{
    void *state = NULL;
    int failed = 0;
    if (set_up && set_up(&state) != 0) {
        print_error("%s: the set-up failed\n", group);
        return 1;
    }
    for (size_t i = 0; i < n; i++)
        if (!passes(&tests[i])) {
            failed++;
            print_error("FAILED %s: %s\n", group, tests[i].name);
        }
    if (tear_down)
        tear_down(&state);
    printf("%s: %zu passed, %d failed\n", group, n - (size_t)failed, failed);
    return failed;
}
