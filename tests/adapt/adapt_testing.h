/* What the tests of the adaptive bound share: an adaptive bound, its tensors and consumers in a line each. */
#ifndef COMET_TESTS_ADAPT_TESTING_H
#define COMET_TESTS_ADAPT_TESTING_H

#include <math.h>
#include <stdlib.h>

#include "adapt/adapt.h"
#include "base/random.h"
#include "testing.h"

static const double AIM = 0.78; /* the part of sigma* that limits aim at, see adapt_assess */

static inline comet_random random_of(uint64_t part)
{
    return comet_random_start(2022, COMET_STREAM_SYNTHETIC, part, 0);
}

static inline adapt *new_adapt(adapt_rule rule, double share, uint32_t window, bool best_fit)
{
    const adapt_params params = {.rule = rule, .share = share, .window = window, .best_fit = best_fit};
    adapt *a;
    assert_ok(adapt_create(&a, &params));
    return a;
}

static inline uint32_t new_tensor(adapt *a, uint64_t n)
{
    uint32_t tensor;
    assert_ok(adapt_add_tensor(a, "tensor", n, &tensor));
    return tensor;
}

static inline uint32_t new_parameter(adapt *a, uint32_t tensor, uint64_t n_weights)
{
    uint32_t consumer;
    assert_ok(adapt_add_parameter(a, tensor, "weights", n_weights, &consumer));
    return consumer;
}

static inline uint32_t new_pass(adapt *a, uint32_t tensor)
{
    uint32_t consumer;
    assert_ok(adapt_add_pass(a, tensor, "passed", &consumer));
    return consumer;
}

static inline adapt_observation seen_of(double gain, double noise)
{
    return (adapt_observation){.gain = gain, .gradient_noise = noise, .mean_momentum = 1, .measured = NAN};
}

static inline void observe(adapt *a, uint32_t consumer, double gain, double noise)
{
    const adapt_observation seen = seen_of(gain, noise);
    adapt_observe(a, consumer, &seen);
}

#endif
