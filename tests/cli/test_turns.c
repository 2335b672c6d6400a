/* Processes that take turns. */
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "kit/turns.h"
#include "testing.h"

enum { N = 3, ROUNDS = 4 };

/* What a process does in place of work: writes its letter, twice, with time for another one to come between. */
static void write_turns(int out, char letter, int rounds)
{
    for (int i = 0; i < rounds; i++) {
        turn_take();
        const ssize_t first = write(out, &letter, 1);
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
        const ssize_t second = write(out, &letter, 1);
        turn_pass();
        if (first != 1 || second != 1)
            _exit(1);
    }
    _exit(0);
}

/* Starts N processes with so many rounds each; the letters they wrote. */
static void letters_of(const int rounds[N], char text[2 * N * ROUNDS + 1])
{
    turn_ring ring;
    int ends[2], status;
    size_t n = 0;
    ssize_t got;
    assert_int_equal(pipe(ends), 0);
    assert_true(turns_open(&ring, N));
    for (size_t i = 0; i < N; i++)
        if (fork() == 0) {
            const int out = dup(ends[1]);
            turns_hand_over(&ring, i);
            turns_close(&ring);
            write_turns(out, (char)('a' + i), rounds[i]);
        }
    close(ends[1]);
    turns_begin(&ring);
    while ((got = read(ends[0], text + n, 2 * N * ROUNDS - n)) > 0)
        n += (size_t)got;
    text[n] = '\0';
    close(ends[0]);
    for (size_t i = 0; i < N; i++) {
        assert_true(wait(&status) > 0);
        assert_int_equal(status, 0);
    }
}

static void test_one_after_the_other(void **state)
{
    char text[2 * N * ROUNDS + 1];
    letters_of((const int[N]){ROUNDS, ROUNDS, ROUNDS}, text);
    assert_string_equal(text, "aabbccaabbccaabbccaabbcc");
}

/* Who has ended is waited for by nobody: those who are left write all they have. */
static void test_some_end_early(void **state)
{
    char text[2 * N * ROUNDS + 1];
    size_t n[N] = {0};
    letters_of((const int[N]){ROUNDS, 1, 2}, text);
    for (const char *at = text; *at; at++)
        n[*at - 'a']++;
    assert_int_equal(n[0], 2 * ROUNDS);
    assert_int_equal(n[1], 2);
    assert_int_equal(n[2], 4);
    assert_memory_equal(text, "aabbcc", 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_after_the_other),
        cmocka_unit_test(test_some_end_early),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
