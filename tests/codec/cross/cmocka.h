/*
 * Stands in for cmocka, which a cross compiler does not bring: what Comet's tests use of it, under the same names, so that they
 * and their helpers compile unchanged. For tools/test_aarch64 only.
 */
#ifndef COMET_TESTS_CROSS_CMOCKA_H
#define COMET_TESTS_CROSS_CMOCKA_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef void CMUnitTestFunction(void **state);
typedef int CMFixtureFunction(void **state);

struct CMUnitTest {
    const char *name;
    CMUnitTestFunction *test_func;
    CMFixtureFunction *setup_func, *teardown_func;
    void *initial_state;
};

#define cmocka_unit_test(f)     \
    {                           \
#f, f, NULL, NULL, NULL \
    }

/* Runs the tests, prints the name of each that fails and "N passed, N failed". Returns how many failed, a failed set-up of the
 * group counting as one. */
int run_tests(const char *group, const struct CMUnitTest *tests, size_t n, CMFixtureFunction *set_up,
              CMFixtureFunction *tear_down);
#define cmocka_run_group_tests_name(group, tests, set_up, tear_down) \
    run_tests((group), (tests), sizeof(tests) / sizeof *(tests), (set_up), (tear_down))

__attribute__((format(printf, 1, 2))) void print_message(const char *format, ...);
__attribute__((format(printf, 1, 2))) void print_error(const char *format, ...);

/* Ends the running test. */
_Noreturn void _fail(const char *file, int line);
void check_that(int holds, const char *text, const char *file, int line);

#define fail() _fail(__FILE__, __LINE__)
#define assert_that(holds, text) check_that((holds), (text), __FILE__, __LINE__)
#define assert_true(c) assert_that(!!(c), #c)
#define assert_false(c) assert_that(!(c), "not " #c)
#define assert_null(p) assert_that((p) == NULL, #p " is NULL")
#define assert_non_null(p) assert_that((p) != NULL, #p " is not NULL")
#define assert_ptr_equal(a, b) assert_that((const void *)(a) == (const void *)(b), #a " is " #b)
#define assert_int_equal(a, b) assert_that((uintmax_t)(a) == (uintmax_t)(b), #a " == " #b)
#define assert_string_equal(a, b) assert_that(strcmp((a), (b)) == 0, #a " equals " #b)
#define assert_memory_equal(a, b, n) assert_that(memcmp((a), (b), (n)) == 0, #a " equals " #b)
#define assert_in_range(v, low, high) assert_that((v) >= (low) && (v) <= (high), #v " is in range")

#endif
