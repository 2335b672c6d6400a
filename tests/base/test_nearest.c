/* "Did you mean": which words are near enough, and other programs' words. */
#include "testing.h"

#include "base/nearest.h"

static const char *nearest_of(const char *written, const char *a, const char *b)
{
    nearest_word nearest = nearest_to(written, strlen(written));
    nearest_offer(&nearest, a);
    nearest_offer(&nearest, b);
    return nearest_best(&nearest);
}

/* max(1, n / 3) edits in a word of n characters; a swap of neighbours is one. */
static void test_distance(void **state)
{
    assert_string_equal(nearest_of("fasion", "folder", "fashion"), "fashion");
    assert_string_equal(nearest_of("raet", "rate", "seed"), "rate");
    assert_string_equal(nearest_of("abcdXY", "abcdef", "zzzzzz"), "abcdef");
    assert_null(nearest_of("abcXYZ", "abcdef", "zzzzzz"));
    assert_null(nearest_of("raXX", "rate", "seed"));
    assert_null(nearest_of("r", "s", "t"));
    assert_null(nearest_of("", "s", "t"));
    assert_null(nearest_of("a word that is longer than forty characters", "a word that is longer than forty character", "t"));
}

/* Only the first `length` characters count. */
static void test_length(void **state)
{
    nearest_word nearest = nearest_to("folderr:DIR", 7);
    nearest_offer(&nearest, "folder");
    assert_string_equal(nearest_best(&nearest), "folder");
}

static void test_synonyms(void **state)
{
    static const char *const same[] = {"learning-rate", "learning_rate", "LearningRate", "lr"};
    static const char *const other[] = {"learning", "learning-rates-of-all", "l", "-"};
    for (size_t i = 0; i < 4; i++) {
        nearest_word nearest = nearest_to(same[i], strlen(same[i]));
        nearest_offer_for(&nearest, "rate", " learning-rate lr ");
        nearest_offer(&nearest, "learnin-rate");
        assert_string_equal(nearest_best(&nearest), "rate");
        nearest = nearest_to(other[i], strlen(other[i]));
        nearest_offer_for(&nearest, "rate", " learning-rate lr ");
        assert_null(nearest_best(&nearest));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_distance),
        cmocka_unit_test(test_length),
        cmocka_unit_test(test_synonyms),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
