/* Learning rates: one-cycle against torch's, the others against their formulas. */
#include "testing.h"

#include <math.h>

#include "comet/train.h"

#include "optimiser_golden.h"

static void test_onecycle(void **state)
{
    for (size_t i = 0; i < COUNT_OF(golden_onecycle); i++) {
        comet_schedule s;
        comet_schedule_init(&s, COMET_SCHEDULE_ONECYCLE, golden_onecycle[i].rate);
        const double rate = comet_schedule_rate(&s, golden_onecycle[i].step, golden_onecycle[i].n_steps, 10);
        assert_near(rate, golden_onecycle[i].expected, 1e-12);
    }
}

static void test_constant_and_warmup(void **state)
{
    comet_schedule s;
    comet_schedule_init(&s, COMET_SCHEDULE_CONSTANT, 0.2);
    assert_near(comet_schedule_rate(&s, 0, 100, 10), 0.2, 0);
    assert_near(comet_schedule_rate(&s, 99, 100, 10), 0.2, 0);
    s.warmup_epochs = 2;
    assert_near(comet_schedule_rate(&s, 0, 100, 10), 0.01, 1e-15);
    assert_near(comet_schedule_rate(&s, 9, 100, 10), 0.1, 1e-15);
    assert_near(comet_schedule_rate(&s, 19, 100, 10), 0.2, 1e-15);
    assert_near(comet_schedule_rate(&s, 20, 100, 10), 0.2, 1e-15);
}

static void test_step(void **state)
{
    comet_schedule s;
    comet_schedule_init(&s, COMET_SCHEDULE_STEP, 1);
    s.every = 3;
    assert_near(comet_schedule_rate(&s, 29, 100, 10), 1, 0);
    assert_near(comet_schedule_rate(&s, 30, 100, 10), 0.1, 1e-15);
    assert_near(comet_schedule_rate(&s, 60, 100, 10), 0.01, 1e-15);
    s.warmup_epochs = 2; /* it shortens the first stretch: the rate falls at the same steps */
    assert_near(comet_schedule_rate(&s, 9, 100, 10), 0.5, 1e-15);
    assert_near(comet_schedule_rate(&s, 29, 100, 10), 1, 0);
    assert_near(comet_schedule_rate(&s, 30, 100, 10), 0.1, 1e-15);
    assert_near(comet_schedule_rate(&s, 49, 100, 10), 0.1, 1e-15);
    assert_near(comet_schedule_rate(&s, 60, 100, 10), 0.01, 1e-15);
}

static void test_cosine(void **state)
{
    comet_schedule s;
    comet_schedule_init(&s, COMET_SCHEDULE_COSINE, 1);
    s.final_share = 0.2;
    assert_near(comet_schedule_rate(&s, 0, 100, 10), 1, 1e-15);
    assert_near(comet_schedule_rate(&s, 50, 100, 10), 0.6, 1e-12);
    assert_near(comet_schedule_rate(&s, 100, 100, 10), 0.2, 1e-12);
    assert_near(comet_schedule_rate(&s, 1000, 100, 10), 0.2, 1e-12);
    s.warmup_epochs = 1;
    assert_near(comet_schedule_rate(&s, 4, 100, 10), 0.5, 1e-12);
    assert_near(comet_schedule_rate(&s, 55, 100, 10), 0.6, 1e-12);
}

static double rate_of_steps(const char *net_name, comet_optimiser_kind kind, uint64_t images, uint64_t n_steps)
{
    comet_net *net = NULL;
    assert_ok(comet_net_zoo(&net, net_name, 0, 0, 0));
    const double rate = comet_default_rate(net, kind, images, n_steps);
    comet_net_destroy(net);
    return rate;
}

static double default_rate(const char *net_name, comet_optimiser_kind kind, uint64_t images)
{
    return rate_of_steps(net_name, kind, images, 1000);
}

/* By the batch; half as much at half of it for SGD, the root of that for AdamW, and a limit for large ones. */
static void test_default_rates(void **state)
{
    assert_near(default_rate("resnet18", COMET_OPTIMISER_SGD, 256), 0.1, 1e-12);
    assert_near(default_rate("resnet18", COMET_OPTIMISER_SGD, 32), 0.0125, 1e-12);
    assert_near(default_rate("resnet18", COMET_OPTIMISER_SGD, 1024), 0.4, 1e-12);
    assert_near(default_rate("resnet18", COMET_OPTIMISER_SGD, 65536), 0.4, 1e-12);
    assert_near(default_rate("vgg16", COMET_OPTIMISER_SGD, 32), 0.0125, 1e-12);
    assert_near(default_rate("vgg16", COMET_OPTIMISER_SGD, 256), 0.05, 1e-12);
    assert_near(default_rate("efficientnet_b0", COMET_OPTIMISER_SGD, 32), 0.0125 / 3, 1e-12); /* depthwise convolutions */
    assert_near(rate_of_steps("resnet18", COMET_OPTIMISER_SGD, 256, 100), 0.1, 1e-12);
    assert_near(rate_of_steps("resnet18", COMET_OPTIMISER_SGD, 256, 20), 0.02, 1e-12); /* too short to rise that far */
    assert_near(rate_of_steps("resnet18", COMET_OPTIMISER_ADAMW, 256, 50), 2e-3, 1e-12);
    assert_near(default_rate("resnet18", COMET_OPTIMISER_ADAMW, 256), 4e-3, 1e-12);
    assert_near(default_rate("resnet18", COMET_OPTIMISER_ADAMW, 64), 2e-3, 1e-12);
    assert_near(default_rate("resnet18", COMET_OPTIMISER_ADAMW, 65536), 4e-3, 1e-12);
    assert_near(default_rate("vgg16", COMET_OPTIMISER_ADAMW, 64), 5e-4, 1e-12);
    assert_near(default_rate("vgg16", COMET_OPTIMISER_ADAMW, 65536), 2e-3, 1e-12);
}

int main(void)
{
    (void)golden_weights;
    (void)golden_cases;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_onecycle), cmocka_unit_test(test_constant_and_warmup), cmocka_unit_test(test_step),
        cmocka_unit_test(test_cosine),   cmocka_unit_test(test_default_rates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
