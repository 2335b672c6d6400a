/* Nets: shapes and the calls that build them. Their text is in test_net_text.c, the built-in nets are in test_net_zoo.c. */
#include "net_testing.h"

#include <stdio.h>
#include <stdlib.h>

#include "train/net/net_internal.h"

/* ---- shapes ---- */

static void test_shapes(void **state)
{
    comet_net *net = net_of("net all\n"
                            "input 6 31 17\n"
                            "conv = conv out=9 kernel=3x5 stride=2x1 pad=1x0 dilation=2x3 groups=3\n"
                            "bn = batch_norm\n"
                            "relu = relu\n"
                            "relu6 = relu6\n"
                            "silu = silu\n"
                            "sigmoid = sigmoid\n"
                            "lrn = lrn\n"
                            "drop = dropout\n"
                            "max = max_pool input kernel=3 stride=2 pad=1\n"
                            "avg = avg_pool input kernel=2x3\n"
                            "gap = global_avg_pool input\n"
                            "add = add sigmoid conv\n"
                            "mul = multiply add silu\n"
                            "scale = multiply input gap\n"
                            "cat = concat conv add mul\n"
                            "flat = flatten cat\n"
                            "fc = linear out=10\n"
                            "fcbn = batch_norm\n"
                            "fccat = concat fc fcbn fc\n");
    assert_shape(net, "input", 6, 31, 17, false);
    assert_shape(net, "conv", 9, 15, 5, false); /* (31 + 2 - 5) / 2 + 1, 17 - 13 + 1 */
    assert_shape(net, "drop", 9, 15, 5, false);
    assert_shape(net, "max", 6, 16, 9, false);
    assert_shape(net, "avg", 6, 15, 5, false);
    assert_shape(net, "gap", 6, 1, 1, false);
    assert_shape(net, "mul", 9, 15, 5, false);
    assert_shape(net, "scale", 6, 31, 17, false);
    assert_shape(net, "cat", 27, 15, 5, false);
    assert_shape(net, "flat", 2025, 1, 1, true);
    assert_shape(net, "fccat", 30, 1, 1, true);
    assert_string_equal(comet_op_name(COMET_OP_GLOBAL_AVG_POOL), "global_avg_pool");
    assert_string_equal(comet_op_name(COMET_N_OPS), "unknown");
    assert_null(comet_net_layer(net, comet_net_n_values(net)));
    assert_int_equal(comet_net_shape(net, comet_net_n_values(net)).channels, 0);
    check_text_round_trip(net);
    comet_net_destroy(net);
}

/* Heights that torch.nn.MaxPool2d gives, from torch 1.13. */
static void test_pool_rounding(void **state)
{
    static const struct {
        unsigned in, kernel, stride, pad, down, up;
    } cases[] = {{7, 3, 2, 0, 3, 3}, {8, 3, 2, 0, 3, 4}, {8, 3, 2, 1, 4, 5},  {5, 2, 2, 1, 3, 3}, {6, 2, 2, 1, 4, 4},
                 {7, 2, 3, 1, 3, 3}, {5, 2, 4, 0, 1, 2}, {4, 2, 4, 0, 1, 1},  {9, 3, 5, 1, 2, 2}, {10, 3, 5, 1, 2, 3},
                 {3, 3, 1, 0, 1, 1}, {2, 2, 3, 1, 1, 1}, {14, 3, 2, 1, 7, 8}, {1, 2, 2, 1, 1, 1}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char text[200];
        snprintf(text, sizeof text,
                 "input 1 %u 40\ndown = max_pool input kernel=%ux3 stride=%u pad=%ux1\n"
                 "up = max_pool input kernel=%ux3 stride=%u pad=%ux1 ceil=yes\n",
                 cases[i].in, cases[i].kernel, cases[i].stride, cases[i].pad, cases[i].kernel, cases[i].stride, cases[i].pad);
        comet_net *net = net_of(text);
        const unsigned down = comet_net_shape(net, 1).height, up = comet_net_shape(net, 2).height;
        if (down != cases[i].down || up != cases[i].up)
            fail_because("case %zu gives %u and %u, expected %u and %u", i, down, up, cases[i].down, cases[i].up);
        comet_net_destroy(net);
    }
    comet_net *net = net_of("input 1 2 2\nup = avg_pool kernel=3 stride=2 ceil=yes\n");
    assert_shape(net, "up", 1, 1, 1, false);
    comet_net_destroy(net);
    assert_status(comet_net_read(&net, "t", "input 1 2 2\ndown = avg_pool kernel=3 stride=2\n", 47), COMET_ERROR_ARGUMENT);
}

static void test_layer_defaults(void **state)
{
    comet_layer l;
    comet_layer_init(&l, COMET_OP_CONV, "c");
    assert_true(l.size == sizeof l && l.bias && l.groups == 1 && l.stride[1] == 1 && l.dilation[0] == 1 && l.padding[0] == 0);
    comet_layer_init(&l, COMET_OP_BATCH_NORM, "b");
    assert_true(l.eps == 1e-5f && l.momentum == 0.1f && !l.bias && l.groups == 0);
    comet_layer_init(&l, COMET_OP_DROPOUT, "d");
    assert_true(l.p == 0.5f && !l.per_sample);
    comet_layer_init(&l, COMET_OP_LRN, "l");
    assert_true(l.lrn_size == 5 && l.lrn_alpha == 1e-4f && l.lrn_beta == 0.75f && l.lrn_k == 1);
    char longer[200];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = 0;
    comet_layer_init(&l, COMET_OP_RELU, longer);
    assert_int_equal(strlen(l.name), COMET_MAX_LAYER_NAME - 1);
}

/* ---- the calls ---- */

static void assert_refused(comet_net *net, const comet_layer *layer, const char *sentence)
{
    const uint32_t before = comet_net_n_values(net);
    uint32_t value = 77;
    assert_status(comet_net_add(net, layer, &value), COMET_ERROR_ARGUMENT);
    assert_string_equal(comet_last_error(), sentence);
    assert_int_equal(value, 77);
    assert_int_equal(comet_net_n_values(net), before);
}

static void test_add_copies_and_settles(void **state)
{
    comet_net *net = small_net();
    comet_layer l = layer_on(COMET_OP_MAX_POOL, "pool", 0);
    uint32_t value = 0;
    l.kernel[0] = l.kernel[1] = 2;
    l.groups = 7; /* a pool has none */
    l.eps = 3;
    l.inputs[5] = 9;
    assert_ok(comet_net_add(net, &l, &value));
    assert_int_equal(value, 1);
    const comet_layer *kept = comet_net_layer(net, 1);
    assert_true(kept != &l && kept->stride[0] == 2 && kept->stride[1] == 2);
    assert_true(kept->groups == 0 && kept->eps == 0 && kept->inputs[5] == 0);
    assert_int_equal(comet_net_layer(net, 0)->op, COMET_OP_INPUT);
    assert_string_equal(comet_net_layer(net, 0)->name, "input");
    assert_string_equal(comet_net_name(net), "small");
    l = layer_on(COMET_OP_RELU, "relu", 1);
    assert_ok(comet_net_add(net, &l, NULL));
    check_text_round_trip(net);
    comet_net_destroy(net);
    comet_net_destroy(NULL);
    comet_text_free(NULL);
}

static void test_create_refuses(void **state)
{
    comet_net *net = NULL;
    assert_status(comet_net_create(NULL, "n", 1, 1, 1), COMET_ERROR_ARGUMENT);
    assert_status(comet_net_create(&net, NULL, 1, 1, 1), COMET_ERROR_ARGUMENT);
    assert_status(comet_net_create(&net, "", 1, 1, 1), COMET_ERROR_ARGUMENT);
    assert_string_equal(comet_last_error(), "the net's name is empty");
    assert_status(comet_net_create(&net, "a b", 1, 1, 1), COMET_ERROR_ARGUMENT);
    assert_status(comet_net_create(&net, "n", 3, 0, 5), COMET_ERROR_ARGUMENT);
    assert_string_equal(comet_last_error(), "input: its shape 3 x 0 x 5 is empty");
    assert_status(comet_net_create(&net, "n", 65536, 65536, 1), COMET_ERROR_ARGUMENT);
    assert_string_equal(comet_last_error(), "input: its shape 65536 x 65536 x 1 has more than 2147483647 elements");
    assert_status(comet_net_create(&net, "n", UINT32_MAX, UINT32_MAX, UINT32_MAX), COMET_ERROR_ARGUMENT);
    assert_null(net);
    assert_ok(comet_net_create(&net, "n", 2147483647, 1, 1));
    comet_net_destroy(net);
}

static void test_add_refuses(void **state)
{
    comet_net *net = small_net();
    comet_layer l = layer_on(COMET_OP_RELU, "relu", 0);
    assert_status(comet_net_add(NULL, &l, NULL), COMET_ERROR_ARGUMENT);
    assert_status(comet_net_add(net, NULL, NULL), COMET_ERROR_ARGUMENT);
    l.size = 8;
    assert_refused(net, &l, "the layer was not filled by comet_layer_init (size 8)");
    l = layer_on(COMET_OP_RELU, "", 0);
    assert_refused(net, &l, "layer 1: its name is empty");
    l = layer_on(COMET_OP_RELU, "a b", 0);
    assert_refused(net, &l, "layer 1: its name has characters other than letters, digits, '_', '.' and '-'");
    memset(l.name, 'x', sizeof l.name);
    assert_refused(net, &l, "layer 1: its name is longer than 95 characters");
    l = layer_on(COMET_OP_RELU, "input", 0);
    assert_refused(net, &l, "input: this is the name of the net's input");
    l = layer_on(COMET_N_OPS, "x", 0);
    assert_refused(net, &l, "x: op 17 is not a kind of layer");
    l = layer_on(COMET_OP_INPUT, "x", 0);
    assert_refused(net, &l, "x: op 0 is not a kind of layer");
    l = layer_on(COMET_OP_RELU, "x", 1);
    assert_refused(net, &l, "x: input 0 is value 1, but the net has values 0 to 0 so far");
    l.n_inputs = 0;
    assert_refused(net, &l, "x: relu takes 1 input, not 0");
    l.n_inputs = UINT32_MAX;
    assert_refused(net, &l, "x: relu takes 1 input, not 4294967295");
    l = layer_on(COMET_OP_CONCAT, "x", 0);
    assert_refused(net, &l, "x: concat takes 2 to 16 inputs, not 1");
    comet_net_destroy(net);
}

static void test_add_refuses_options(void **state)
{
    comet_net *net = small_net();
    comet_layer l = layer_on(COMET_OP_CONV, "c", 0);
    assert_refused(net, &l, "c: out is missing (1 to 16777216)");
    l.out_channels = 4;
    assert_refused(net, &l, "c: kernel is missing (1 to 65536)");
    l.kernel[0] = 3;
    assert_refused(net, &l, "c: kernel 3 x 0 is out of range: 1 to 65536");
    l.kernel[1] = 3;
    l.stride[0] = 0;
    assert_refused(net, &l, "c: stride 0 x 1 is out of range: 1 to 65536");
    l.stride[0] = 1;
    l.groups = UINT32_MAX;
    assert_refused(net, &l, "c: groups 4294967295 is out of range: 1 to 16777216");
    l.groups = 1;
    l.init = (comet_init)4;
    assert_refused(net, &l, "c: init 4 is out of range: 0 to 3");
    l = layer_on(COMET_OP_MAX_POOL, "m", 0);
    l.kernel[0] = l.kernel[1] = l.stride[0] = 2;
    assert_refused(net, &l, "m: stride 2 x 0 is out of range: 1 to 65536");
    l = layer_on(COMET_OP_DROPOUT, "d", 0);
    static const float bad[] = {1, -0.1f, 2, (float)(0.0 / 0.0)};
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        l.p = bad[i];
        assert_status(comet_net_add(net, &l, NULL), COMET_ERROR_ARGUMENT);
        assert_non_null(strstr(comet_last_error(), "is out of range: 0 to below 1"));
    }
    comet_net_destroy(net);
}

static void test_many_layers(void **state)
{
    comet_net *net = small_net();
    comet_layer l = layer_on(COMET_OP_RELU, "", 0);
    for (uint32_t v = 1; v < NET_MAX_VALUES; v++) {
        snprintf(l.name, sizeof l.name, "r%u.x", v);
        l.inputs[0] = v - 1;
        assert_int_equal(comet_net_add(net, &l, NULL), COMET_OK);
    }
    strcpy(l.name, "more");
    assert_refused(net, &l, "more: the net has 65535 layers already, which is the limit");
    for (uint32_t v = 1; v < NET_MAX_VALUES; v++) {
        char name[16];
        const size_t length = (size_t)snprintf(name, sizeof name, "r%u.xy", v);
        assert_int_equal(net_find(net, name, length - 1), v);
        assert_int_equal(net_find(net, name, length - 2), NET_NO_VALUE);
        assert_int_equal(net_find(net, name, length), NET_NO_VALUE);
    }
    check_text_round_trip(net);
    comet_net_destroy(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_pool_rounding),
        cmocka_unit_test(test_layer_defaults),
        cmocka_unit_test(test_add_copies_and_settles),
        cmocka_unit_test(test_create_refuses),
        cmocka_unit_test(test_add_refuses),
        cmocka_unit_test(test_add_refuses_options),
        cmocka_unit_test(test_many_layers),
    };
    return cmocka_run_group_tests_name("net", tests, NULL, NULL);
}
