/* The choice between fast and dense within a budget of time. */
#include "testing.h"

#include "adapt/levels.h"

static void test_choose_levels(void **state)
{
    level_choice c[] = {
        {{100, 50}, {1, 3}, false},   /* 25 bytes a second */
        {{100, 40}, {1, 2}, false},   /* 60 */
        {{100, 90}, {1, 1}, false},   /* costs nothing */
        {{100, 120}, {1, 0}, false},  /* saves nothing */
        {{100, 40}, {1, 2}, false},   /* 60 again */
        {{100, 99}, {1, 1.5}, false}, /* 2 */
    };
    assert_near(levels_choose(c, COUNT_OF(c), 7), 7, 1e-12);
    assert_true(!c[0].dense && c[1].dense && c[2].dense && !c[3].dense && !c[4].dense && !c[5].dense);
    assert_near(levels_choose(c, COUNT_OF(c), 8.6), 8.5, 1e-12); /* one that does not fit is skipped */
    assert_true(!c[0].dense && c[1].dense && c[2].dense && !c[3].dense && c[4].dense && c[5].dense);
    assert_near(levels_choose(c, COUNT_OF(c), 100), 10.5, 1e-12);
    assert_true(c[0].dense && c[1].dense && c[2].dense && !c[3].dense && c[4].dense && c[5].dense);
    assert_near(levels_choose(c, COUNT_OF(c), 0), 6, 1e-12);
    assert_true(!c[0].dense && !c[1].dense && c[2].dense && !c[3].dense && !c[4].dense && !c[5].dense);
    assert_true(levels_choose(NULL, 0, 1) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_choose_levels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
