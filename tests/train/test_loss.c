/* The loss by itself: values that can be checked by hand, gradients against differences of the loss, ranks with ties and with
 * numbers that are not finite. */
#include "testing.h"

#include <math.h>

#include "train/math/loss.h"

enum { ROWS = 3, CLASSES = 7 };

static const float some_scores[ROWS * CLASSES] = {0.5f,  -1,    2, 0.25f, 1,    -0.5f, 0,    -2,   0.125f, 3,   1.5f,
                                                  -1.5f, 0.75f, 1, 0,     0.5f, 1,     1.5f, 2.5f, 2,      3.5f};
static const uint32_t some_labels[ROWS] = {2, 0, 5};

static loss_spec spec_of(const float *scores, float smoothing, float *gradient)
{
    return (loss_spec){.scores = scores,
                       .labels = some_labels,
                       .rows = ROWS,
                       .n_valid = ROWS,
                       .classes = CLASSES,
                       .smoothing = smoothing,
                       .gradient_scale = 1,
                       .gradient = gradient};
}

static comet_scores scores_of(const loss_spec *spec)
{
    comet_scores s;
    assert_ok(loss_compute(spec, &s));
    return s;
}

/* Equal scores say nothing: every class has 1/7, and smoothing changes neither that nor the loss. The gradient is 1/7 less the
 * target, which is s/7 for other classes and 1 - s more for the label. */
static void test_equal_scores(void **state)
{
    const float scores[ROWS * CLASSES] = {0};
    float g[ROWS * CLASSES];
    for (int i = 0; i < 3; i++) {
        const float smoothing = 0.2f * (float)i;
        const loss_spec spec = spec_of(scores, smoothing, g);
        assert_near(scores_of(&spec).loss, log(7), 1e-12);
        assert_near(g[0], (1 - 0.2 * i) / 7 / ROWS, 1e-7);
        assert_near(g[2], ((1 - 0.2 * i) / 7 - (1 - 0.2 * i)) / ROWS, 1e-7);
    }
}

/* One class far above the others has all of the probability. With smoothing s the loss is s times its mean lead over all
 * classes, 6/7 of 100. */
static void test_certain_scores(void **state)
{
    float scores[ROWS * CLASSES] = {0};
    for (int row = 0; row < ROWS; row++)
        scores[row * CLASSES + (int)some_labels[row]] = 100;
    loss_spec spec = spec_of(scores, 0, NULL);
    assert_near(scores_of(&spec).loss, 0, 1e-12);
    spec.smoothing = 0.25f;
    assert_near(scores_of(&spec).loss, 0.25 * 600 / 7, 1e-9);
}

/* Differences of the loss; exact to about 1e-6 with steps of 2^-7. */
static void check_gradient(float smoothing, uint32_t n_valid, float scale)
{
    const float h = 1.0f / 128;
    float scores[ROWS * CLASSES], g[ROWS * CLASSES];
    memcpy(scores, some_scores, sizeof scores);
    loss_spec spec = spec_of(scores, smoothing, g);
    spec.n_valid = n_valid;
    spec.gradient_scale = scale;
    scores_of(&spec);
    spec.gradient = NULL;
    for (int i = 0; i < ROWS * CLASSES; i++) {
        scores[i] = some_scores[i] + h;
        const double above = scores_of(&spec).loss;
        scores[i] = some_scores[i] - h;
        const double below = scores_of(&spec).loss;
        scores[i] = some_scores[i];
        assert_near(g[i], (double)scale * (above - below) / (2 * (double)h), 2e-6);
        assert_true((uint32_t)(i / CLASSES) < n_valid || g[i] == 0);
    }
}

static void test_gradient(void **state)
{
    check_gradient(0, ROWS, 1);
    check_gradient(0.1f, ROWS, 1);
    check_gradient(0.3f, 2, 1);
    check_gradient(0.1f, ROWS, 0.25f);
    check_gradient(0, 1, 0.5f);
}

/* Top-1 and top-5 of one row. Of equal scores the first class counts as the higher. */
static void check_rank(const float *scores, uint32_t label, unsigned top1, unsigned top5)
{
    const loss_spec spec = {.scores = scores, .labels = &label, .rows = 1, .n_valid = 1, .classes = CLASSES};
    const comet_scores s = scores_of(&spec);
    if (s.n_top1 != top1 || s.n_top5 != top5 || s.n_valid != 1)
        fail_because("label %u: top-1 %u, top-5 %u", label, (unsigned)s.n_top1, (unsigned)s.n_top5);
}

static void test_ranks(void **state)
{
    static const float falling[CLASSES] = {7, 6, 5, 4, 3, 2, 1}, equal[CLASSES] = {1, 1, 1, 1, 1, 1, 1},
                       pairs[CLASSES] = {0, 3, 2, 3, 2, 1, 1};
    for (uint32_t label = 0; label < CLASSES; label++) {
        check_rank(falling, label, label == 0, label < 5);
        check_rank(equal, label, label == 0, label < 5);
        check_rank(pairs, label, label == 1, label >= 1 && label <= 5);
    }
}

/* A score that is not a number is above every other one, and is no hit itself. */
static void test_ranks_of_nan(void **state)
{
    static const float one[CLASSES] = {7, NAN, 5, 4, 3, 2, 1};
    check_rank(one, 0, 0, 1);
    check_rank(one, 1, 0, 0);
    check_rank(one, 3, 0, 1);
    check_rank(one, 4, 0, 1);
    check_rank(one, 5, 0, 0);
}

/* Large scores do not overflow, and the mean is over the valid rows. */
static void test_large_scores_and_valid_rows(void **state)
{
    const float scores[2 * 2] = {1e4f, 1e4f, 5, 5};
    const uint32_t labels[2] = {1, 0};
    loss_spec spec = {.scores = scores, .labels = labels, .rows = 2, .n_valid = 2, .classes = 2};
    assert_near(scores_of(&spec).loss, log(2), 1e-9);
    spec.n_valid = 1;
    assert_near(scores_of(&spec).loss, log(2), 1e-9);
    spec.n_valid = 0;
    assert_near(scores_of(&spec).loss, 0, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equal_scores), cmocka_unit_test(test_certain_scores),
        cmocka_unit_test(test_gradient),     cmocka_unit_test(test_ranks),
        cmocka_unit_test(test_ranks_of_nan), cmocka_unit_test(test_large_scores_and_valid_rows),
    };
    return cmocka_run_group_tests_name("loss", tests, NULL, NULL);
}
