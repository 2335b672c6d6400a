/* Nets: shapes, the sentence behind every refusal, the text format, and the built-in nets against torchvision's parameters. */
#include "testing.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>

#include "train/net/net_internal.h"

/* ---- helpers ---- */

static comet_net *read_text(const char *text)
{
    comet_net *net = NULL;
    if (comet_net_read(&net, "t", text, strlen(text)) != COMET_OK)
        fail_because("%s", comet_last_error());
    return net;
}

static void assert_shape(const comet_net *net, const char *name, uint32_t channels, uint32_t height, uint32_t width, bool flat)
{
    const uint32_t value = net_find(net, name, strlen(name));
    assert_true(value < comet_net_n_values(net));
    const comet_shape s = comet_net_shape(net, value);
    if (s.channels != channels || s.height != height || s.width != width || s.flat != flat)
        fail_because("%s is %u x %u x %u%s", name, s.channels, s.height, s.width, s.flat ? ", flat" : "");
}

static void assert_nets_equal(const comet_net *a, const comet_net *b)
{
    assert_string_equal(comet_net_name(a), comet_net_name(b));
    assert_int_equal(comet_net_n_values(a), comet_net_n_values(b));
    for (uint32_t v = 0; v < comet_net_n_values(a); v++) {
        const comet_layer *x = comet_net_layer(a, v), *y = comet_net_layer(b, v);
        const comet_shape s = comet_net_shape(a, v), t = comet_net_shape(b, v);
        assert_string_equal(x->name, y->name);
        assert_true(x->op == y->op && x->n_inputs == y->n_inputs && x->groups == y->groups);
        assert_true(s.channels == t.channels && s.height == t.height && s.width == t.width && s.flat == t.flat);
        assert_memory_equal(x->inputs, y->inputs, sizeof x->inputs);
        for (size_t i = 0; i < NET_N_KEYS; i++)
            assert_memory_equal(key_field(&net_keys[i], x), key_field(&net_keys[i], y), net_keys[i].bytes);
    }
}

static void check_text_round_trip(const comet_net *net)
{
    char *text = NULL, *again = NULL;
    assert_ok(comet_net_write(net, &text));
    comet_net *back = read_text(text);
    assert_nets_equal(net, back);
    assert_ok(comet_net_write(back, &again));
    assert_string_equal(text, again);
    comet_text_free(text);
    comet_text_free(again);
    comet_net_destroy(back);
}

/* ---- shapes ---- */

static void test_shapes(void **state)
{
    comet_net *net = read_text("net all\n"
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
        comet_net *net = read_text(text);
        const unsigned down = comet_net_shape(net, 1).height, up = comet_net_shape(net, 2).height;
        if (down != cases[i].down || up != cases[i].up)
            fail_because("case %zu gives %u and %u, expected %u and %u", i, down, up, cases[i].down, cases[i].up);
        comet_net_destroy(net);
    }
    comet_net *net = read_text("input 1 2 2\nup = avg_pool kernel=3 stride=2 ceil=yes\n");
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

static comet_net *small_net(void)
{
    comet_net *net = NULL;
    assert_ok(comet_net_create(&net, "small", 3, 8, 8));
    return net;
}

static comet_layer layer_on(comet_op op, const char *name, uint32_t input)
{
    comet_layer l;
    comet_layer_init(&l, op, name);
    l.n_inputs = 1;
    l.inputs[0] = input;
    return l;
}

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

/* ---- sentences of the reader ---- */

#define HEAD "net n\ninput 8 14 14\n"
#define KINDS                                                                                                    \
    " conv, linear, batch_norm, relu, relu6, silu, sigmoid, max_pool, avg_pool, global_avg_pool, lrn, dropout, " \
    "add, "                                                                                                      \
    "multiply, concat, flatten"

static const struct {
    const char *text, *sentence;
} refusals[] = {
    /* shapes */
    {HEAD "layer2.0.bn2 = batch_norm\np = max_pool kernel=2\nlayer2.0.add = add p layer2.0.bn2\n",
     "t:5: layer2.0.add: inputs p (8 x 7 x 7) and layer2.0.bn2 (8 x 14 x 14) differ"},
    {HEAD "f = flatten\na = add f input\n", "t:4: a: inputs f (1568, flat) and input (8 x 14 x 14) differ"},
    {HEAD "g = global_avg_pool\nf = flatten\na = add g f\n", "t:5: a: inputs g (8 x 1 x 1) and f (8, flat) differ"},
    {HEAD "p = max_pool kernel=2\nm = multiply input p\n",
     "t:4: m: inputs input (8 x 14 x 14) and p (8 x 7 x 7) differ, and the second is not 8 x 1 x 1"},
    {HEAD "g = global_avg_pool\nm = multiply g input\n",
     "t:4: m: inputs g (8 x 1 x 1) and input (8 x 14 x 14) differ, and the second is not 8 x 1 x 1"},
    {HEAD "p = max_pool kernel=2\nc = concat input input p\n",
     "t:4: c: inputs input (8 x 14 x 14) and p (8 x 7 x 7) differ in more than channels"},
    {HEAD "c = conv out=4 kernel=17x3 pad=1\n",
     "t:3: c: kernel 17 x 3 is larger than its input input (8 x 14 x 14) padded by 1 x 1"},
    {HEAD "c = conv out=4 kernel=3 dilation=1x7\n",
     "t:3: c: kernel 3 x 3 with dilation 1 x 7 is larger than its input input (8 x 14 x 14) padded by 0 x 0"},
    {HEAD "p = max_pool kernel=20 pad=2\n",
     "t:3: p: kernel 20 x 20 is larger than its input input (8 x 14 x 14) padded by 2 x 2"},
    {HEAD "p = avg_pool kernel=3x5 pad=2\n", "t:3: p: pad 2 x 2 is more than half of kernel 3 x 5"},
    {HEAD "c = conv out=4 kernel=1 groups=3\n",
     "t:3: c: 3 groups do not divide the 8 channels of its input input (8 x 14 x 14)"},
    {HEAD "c = conv out=6 kernel=1 groups=4\n", "t:3: c: 4 groups do not divide its 6 outputs"},
    {HEAD "c = conv out=16777216 kernel=1\n", "t:3: c: its shape 16777216 x 14 x 14 has more than 2147483647 elements"},
    {HEAD "c = conv out=1 kernel=65536 pad=65536\n",
     "t:3: c: its weights (1 x 8 x 4294967296) have more than 2147483647 elements"},
    {HEAD "c = conv out=1 kernel=1 pad=65536\n", "t:3: c: its shape 1 x 131086 x 131086 has more than 2147483647 elements"},
    {HEAD "f = flatten\nfc = linear out=16777216\n",
     "t:4: fc: its weights (16777216 x 1568 x 1) have more than 2147483647 elements"},
    {"input 1 32768 65535\nc = concat input input\n", "t:2: c: its shape 2 x 32768 x 65535 has more than 2147483647 elements"},
    {HEAD "fc = linear out=10\n", "t:3: fc: its input input (8 x 14 x 14) is not flat; put a flatten layer before it"},
    {HEAD "f = flatten\nc = conv out=4 kernel=1\n",
     "t:4: c: its input f (1568, flat) is flat; conv takes channels x height x width"},
    {HEAD "f = flatten\ng = flatten\n", "t:4: g: its input f (1568, flat) is flat; flatten takes channels x height x width"},
    {HEAD "n = lrn size=4\n", "t:3: n: size 4 is even; it must be odd"},
    /* numbers of inputs, names */
    {HEAD "a = add input\n", "t:3: a: add takes 2 inputs, not 1"},
    {HEAD "a = add\n", "t:3: a: add takes 2 inputs, not 1"},
    {HEAD "a = multiply input input input\n", "t:3: a: multiply takes 2 inputs, not 3"},
    {HEAD "a = concat\n", "t:3: a: concat takes 2 to 16 inputs, not 1"},
    {HEAD "r = relu input input\n", "t:3: r: relu takes 1 input, not 2"},
    {HEAD "c = concat input input input input input input input input input input input input input input input input input\n",
     "t:3: c: more than 16 inputs"},
    {HEAD "r = relu\nr = silu\n", "t:4: r: layer 1, a relu, has this name already"},
    {HEAD "input = relu\n", "t:3: input: this is the name of the net's input"},
    {HEAD "r = relu inptu\n", "t:3: r: its input 'inptu' is not defined above; did you mean input?"},
    {HEAD "r = relu r\n", "t:3: r: its input 'r' is not defined above"},
    {HEAD "a/b = relu\n", "t:3: the layer's name 'a/b' has characters other than letters, digits, '_', '.' and '-'"},
    {HEAD " = relu\n", "t:3: the layer's name '' is empty"},
    {HEAD "abcdefghijabcdefghijabcdefghijabcdefghijabcdefghijabcdefghijabcdefghijabcdefghijabcdefghijabcdef = relu\n",
     "t:3: the layer's name 'abcdefghijabcdefghijabcdefghijabcdefghij...' is longer than 95 characters"},
    /* kinds, options, values */
    {HEAD "c = cnov out=4\n", "t:3: c: unknown kind of layer 'cnov'; did you mean conv? There are" KINDS},
    {HEAD "c = batchnorm\n", "t:3: c: unknown kind of layer 'batchnorm'; did you mean batch_norm? There are" KINDS},
    {HEAD "c = Conv2d out=4\n", "t:3: c: unknown kind of layer 'Conv2d'; did you mean conv? There are" KINDS},
    {HEAD "c = dense out=4\n", "t:3: c: unknown kind of layer 'dense'; did you mean linear? There are" KINDS},
    {HEAD "c = BatchNorm2d\n", "t:3: c: unknown kind of layer 'BatchNorm2d'; did you mean batch_norm? There are" KINDS},
    {HEAD "c = adaptive_avg_pool2d\n",
     "t:3: c: unknown kind of layer 'adaptive_avg_pool2d'; did you mean global_avg_pool? There are" KINDS},
    {HEAD "c = MaxPooling2D\n", "t:3: c: unknown kind of layer 'MaxPooling2D'; did you mean max_pool? There are" KINDS},
    {HEAD "c = cat input input\n", "t:3: c: unknown kind of layer 'cat'; did you mean concat? There are" KINDS},
    {HEAD "c = swish\n", "t:3: c: unknown kind of layer 'swish'; did you mean silu? There are" KINDS},
    {HEAD "c = input\n", "t:3: c: unknown kind of layer 'input'; there are" KINDS},
    {HEAD "c = xyzzy\n", "t:3: c: unknown kind of layer 'xyzzy'; there are" KINDS},
    {HEAD "c =\n", "t:3: c: the kind of layer is missing after '='"},
    {HEAD "c = conv out=4 kernl=3\n", "t:3: c: conv has no option 'kernl'; did you mean kernel?"},
    {HEAD "c = conv out=4 kernel=3 padding=1\n", "t:3: c: conv has no option 'padding'; did you mean pad?"},
    {HEAD "c = conv out=4 kernel_size=3\n", "t:3: c: conv has no option 'kernel_size'; did you mean kernel?"},
    {HEAD "c = conv filters=4 kernel=3\n", "t:3: c: conv has no option 'filters'; did you mean out?"},
    {HEAD "c = conv out_channels=4 kernel=3\n", "t:3: c: conv has no option 'out_channels'; did you mean out?"},
    {HEAD "c = linear units=4\n", "t:3: c: linear has no option 'units'; did you mean out?"},
    {HEAD "c = linear out_features=4\n", "t:3: c: linear has no option 'out_features'; did you mean out?"},
    {HEAD "c = max_pool pool_size=2\n", "t:3: c: max_pool has no option 'pool_size'; did you mean kernel?"},
    {HEAD "c = conv out=4 kernel=3 strides=2\n", "t:3: c: conv has no option 'strides'; did you mean stride?"},
    {HEAD "c = conv out=4 kernel=3 use_bias=no\n", "t:3: c: conv has no option 'use_bias'; did you mean bias?"},
    {HEAD "c = conv out=4 kernel=3 rate=2\n", "t:3: c: conv has no option 'rate'; did you mean dilation?"},
    {HEAD "d = dropout rate=0.5\n", "t:3: d: dropout has no option 'rate'; did you mean p?"},
    {HEAD "r = relu padding=1\n", "t:3: r: relu has no option 'padding'"},
    {HEAD "r = relu p=0.5\n", "t:3: r: relu has no option 'p'"},
    {HEAD "m = max_pool kernel=2 dilation=2\n", "t:3: m: max_pool has no option 'dilation'"},
    {HEAD "c = conv kernel=3\n", "t:3: c: out is missing (1 to 16777216)"},
    {HEAD "c = conv out=3\n", "t:3: c: kernel is missing (1 to 65536)"},
    {HEAD "m = avg_pool\n", "t:3: m: kernel is missing (1 to 65536)"},
    {HEAD "c = conv out=0 kernel=3\n", "t:3: c: out=0 is not 1 to 16777216"},
    {HEAD "c = conv out=4 out=4 kernel=3\n", "t:3: c: out is given twice"},
    {HEAD "c = conv out=18446744073709551617 kernel=3\n", "t:3: c: out=18446744073709551617 is not 1 to 16777216"},
    {HEAD "c = conv out=-1 kernel=3\n", "t:3: c: out=-1 is not 1 to 16777216"},
    {HEAD "c = conv out=4.0 kernel=3\n", "t:3: c: out=4.0 is not 1 to 16777216"},
    {HEAD "c = conv out= kernel=3\n", "t:3: c: out=kernel is not 1 to 16777216"},
    {HEAD "c = conv kernel=3 out=\n", "t:3: c: out= is not 1 to 16777216"},
    {HEAD "c = conv out=4 kernel=3x\n", "t:3: c: kernel=3x is not 1 to 65536, or two such numbers as in 3x5"},
    {HEAD "c = conv out=4 kernel=x3\n", "t:3: c: kernel=x3 is not 1 to 65536, or two such numbers as in 3x5"},
    {HEAD "c = conv out=4 kernel=3x3x3\n", "t:3: c: kernel=3x3x3 is not 1 to 65536, or two such numbers as in 3x5"},
    {HEAD "c = conv out=4 kernel=0\n", "t:3: c: kernel=0 is not 1 to 65536, or two such numbers as in 3x5"},
    {HEAD "c = conv out=4 kernel=3 stride=1x65537\n",
     "t:3: c: stride=1x65537 is not 1 to 65536, or two such numbers as in 3x5"},
    {HEAD "c = conv out=4 kernel=3 bias=true\n", "t:3: c: bias=true is not yes or no"},
    {HEAD "c = conv out=4 kernel=3 init=he_fan_on\n", "t:3: unknown init 'he_fan_on'; did you mean he_fan_out?"},
    {HEAD "c = conv out=4 = 5\n", "t:3: c: '=' without the name of an option before it"},
    {HEAD "d = dropout p=1\n", "t:3: d: p=1 is not 0 to below 1"},
    {HEAD "d = dropout p=nan\n", "t:3: d: p=nan is not 0 to below 1"},
    {HEAD "d = dropout p=0x1p-1\n", "t:3: d: p=0x1p-1 is not 0 to below 1"},
    {HEAD "d = dropout p=0,5\n", "t:3: d: p=0,5 is not 0 to below 1"},
    {HEAD "d = dropout p=1e\n", "t:3: d: p=1e is not 0 to below 1"},
    {HEAD "b = batch_norm eps=0\n", "t:3: b: eps=0 is not above 0, up to 1"},
    {HEAD "b = batch_norm momentum=1.5\n", "t:3: b: momentum=1.5 is not 0 to 1"},
    {HEAD "n = lrn k=1e999\n", "t:3: n: k=1e999 is not above 0"},
    {HEAD "n = lrn k=0\n", "t:3: n: k=0 is not above 0"},
    {HEAD "n = lrn beta=-1\n", "t:3: n: beta=-1 is not 0 or more"},
    /* lines */
    {"", "t:0: the text ends without a line 'input CHANNELS HEIGHT WIDTH'"},
    {"\n# nothing\n", "t:2: the text ends without a line 'input CHANNELS HEIGHT WIDTH'"},
    {"net n\n", "t:1: the text ends without a line 'input CHANNELS HEIGHT WIDTH'"},
    {"net n\nr = relu\n", "t:2: a line 'input CHANNELS HEIGHT WIDTH' must come before the first layer"},
    {"net a\nnet b\n", "t:2: a second line 'net NAME'"},
    {"net a b\n", "t:1: 'net NAME' takes one word"},
    {"net\n", "t:1: the net's name '' is empty"},
    {"net a+b\n", "t:1: the net's name 'a+b' has characters other than letters, digits, '_', '.' and '-'"},
    {"input 1 1 1\nnet a\n", "t:2: the line 'net NAME' comes before the input"},
    {"input 1 1 1\ninput 1 1 1\n", "t:2: a second line 'input CHANNELS HEIGHT WIDTH'"},
    {"input 3 32\n", "t:1: after 'input' come three whole numbers: channels, height, width"},
    {"input 3 32 x\n", "t:1: after 'input' come three whole numbers: channels, height, width"},
    {"input 3 32 4294967296\n", "t:1: after 'input' come three whole numbers: channels, height, width"},
    {"input 3 32 32 1\n", "t:1: after 'input' come three whole numbers and nothing else"},
    {"input 3 0 32\n", "t:1: input: its shape 3 x 0 x 32 is empty"},
    {HEAD "relu\n", "t:3: '=' is missing after 'relu': a layer is NAME = KIND INPUT... OPTION=VALUE..."},
};

static void test_reader_sentences(void **state)
{
    for (size_t i = 0; i < COUNT_OF(refusals); i++) {
        comet_net *net = NULL;
        assert_int_equal(comet_net_read(&net, "t", refusals[i].text, strlen(refusals[i].text)), COMET_ERROR_ARGUMENT);
        assert_null(net);
        assert_string_equal(comet_last_error(), refusals[i].sentence);
    }
    comet_net *net = NULL;
    assert_status(comet_net_read(&net, NULL, NULL, 0), COMET_ERROR_ARGUMENT);
    assert_non_null(strstr(comet_last_error(), "net:0: "));
    assert_status(comet_net_read(&net, "t", NULL, 1), COMET_ERROR_ARGUMENT);
    assert_status(comet_net_read(NULL, "t", "", 0), COMET_ERROR_ARGUMENT);
    char *text = NULL;
    assert_status(comet_net_write(NULL, &text), COMET_ERROR_ARGUMENT);
}

/* Two names of the greatest length and both shapes fit in a sentence. */
static void test_long_names_in_a_sentence(void **state)
{
    char text[700], a[COMET_MAX_LAYER_NAME] = "", b[COMET_MAX_LAYER_NAME] = "";
    comet_net *net = NULL;
    memset(a, 'a', sizeof a - 1);
    memset(b, 'b', sizeof b - 1);
    snprintf(text, sizeof text, HEAD "%s = max_pool kernel=2\n%s = flatten\nsum = add %s %s\n", a, b, a, b);
    assert_status(comet_net_read(&net, "t", text, strlen(text)), COMET_ERROR_ARGUMENT);
    assert_non_null(strstr(comet_last_error(), "b (392, flat) differ"));
}

/* ---- the text format ---- */

static void test_reading_is_lenient_where_it_should(void **state)
{
    comet_net *a = read_text("net n\ninput 3 32 32\nc = conv input out=16 kernel=3x5\nnet = relu c # named like a word\n");
    comet_net *b = read_text("\r\n# c = conv\n\t net n#x\r\ninput\t3 32 32 \r\n\n"
                             "c=conv out = 16 kernel= 3x5 stride=1x1 bias=yes\r\nnet=relu");
    assert_nets_equal(a, b);
    check_text_round_trip(a);
    comet_net_destroy(a);
    comet_net_destroy(b);
    a = read_text("input 1 2 3");
    assert_string_equal(comet_net_name(a), "net");
    assert_int_equal(comet_net_n_values(a), 1);
    check_text_round_trip(a);
    comet_net_destroy(a);
}

static void test_writing_leaves_defaults_out(void **state)
{
    static const char text[] =
        "net n\n"
        "input 8 14 14\n"
        "c = conv input out=16 kernel=3x5 stride=2x1 pad=0x2 dilation=1x2 groups=8 bias=no init=he_fan_out\n"
        "p = max_pool c kernel=3x2 stride=2 pad=1 ceil=yes\n"
        "q = avg_pool p kernel=2x1\n"
        "b = batch_norm q eps=0.001 momentum=0.012345679\n"
        "d = dropout b p=0.1 per_sample=yes\n"
        "e = dropout d\n"
        "l = lrn e size=3 alpha=0.25 beta=1e-30 k=2\n"
        "f = flatten l\n"
        "fc = linear f out=10 init=normal_001\n";
    comet_net *net = read_text(text);
    char *written = NULL;
    assert_ok(comet_net_write(net, &written));
    assert_string_equal(written, text);
    check_text_round_trip(net);
    comet_text_free(written);
    comet_net_destroy(net);
}

static void test_other_locales(void **state)
{
    static const char *const commas[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "de_DE", "nl_NL.UTF-8"};
    size_t i = 0;
    while (i < COUNT_OF(commas) && !setlocale(LC_NUMERIC, commas[i]))
        i++;
    if (i == COUNT_OF(commas))
        skip();
    comet_net *net = read_text("input 1 1 1\nd = dropout p=0.25\n");
    assert_true(comet_net_layer(net, 1)->p == 0.25f);
    check_text_round_trip(net);
    comet_net_destroy(net);
    setlocale(LC_NUMERIC, "C");
}

static void test_random_floats_round_trip(void **state)
{
    test_rng r = {environment_number("COMET_TEST_SEED", 20)};
    for (int i = 0; i < 3000; i++) {
        comet_net *net = small_net();
        comet_layer l = layer_on(COMET_OP_LRN, "lrn", 0);
        uint32_t bits[3];
        for (int k = 0; k < 3; k++)
            bits[k] = 0x00800000 + (uint32_t)rng_below(&r, 0x7f000000);
        memcpy(&l.lrn_alpha, &bits[0], 4);
        memcpy(&l.lrn_beta, &bits[1], 4);
        memcpy(&l.lrn_k, &bits[2], 4);
        assert_ok(comet_net_add(net, &l, NULL));
        check_text_round_trip(net);
        comet_net_destroy(net);
    }
}

/* ---- any bytes ---- */

static uint64_t running_seed;

static void report_seed(void)
{
    fprintf(stderr, "crashed at seed %llu: COMET_TEST_SEED=%llu test_net\n", (unsigned long long)running_seed,
            (unsigned long long)running_seed);
}

/* Reads a copy that ends where its memory ends. What is accepted must survive a round trip. */
static void read_bytes(const char *data, size_t bytes)
{
    char *copy = need_malloc(bytes);
    memcpy(copy, data, bytes);
    comet_net *net = NULL;
    comet_status status = comet_net_read(&net, "t", copy, bytes);
    free(copy);
    if (status == COMET_OK) {
        check_text_round_trip(net);
        comet_net_destroy(net);
    } else {
        assert_int_equal(status, COMET_ERROR_ARGUMENT);
        assert_null(net);
        for (const char *c = comet_last_error(); *c; c++)
            assert_true(*c >= ' ' && *c <= '~');
    }
}

static void damage(test_rng *r, char *text, size_t *bytes, size_t capacity)
{
    static const char interesting[] = "\0\n= x#0123456789.e-+\xff\t\r_input";
    const size_t at = (size_t)rng_below(r, *bytes), n = 1 + (size_t)rng_below(r, 12);
    const uint64_t way = rng_below(r, 4);
    if (way == 0) {
        text[at] = interesting[rng_below(r, sizeof interesting - 1)];
    } else if (way == 1) {
        text[at] = (char)rng_next(r);
    } else if (way == 2 && *bytes + n <= capacity) { /* repeats a piece */
        const size_t from = (size_t)rng_below(r, *bytes - (n < *bytes ? n : *bytes - 1));
        memmove(text + at + n, text + at, *bytes - at);
        memmove(text + at, text + from, n);
        *bytes += n;
    } else if (at + n < *bytes) {
        memmove(text + at, text + at + n, *bytes - at - n);
        *bytes -= n;
    }
}

static void test_damaged_texts(void **state)
{
    enum { CAPACITY = 4096 };
    static char text[CAPACITY];
    running_seed = environment_number("COMET_TEST_SEED", 1);
    crash_for_good(report_seed);
    comet_net *net = NULL;
    char *whole = NULL;
    assert_ok(comet_net_zoo(&net, "cnn28", 0, 0, 0));
    assert_ok(comet_net_write(net, &whole));
    comet_net_destroy(net);
    test_rng r = {running_seed};
    print_message("seed %llu\n", (unsigned long long)running_seed);
    for (int i = 0; i < 20000; i++) {
        const uint64_t pieces = rng_below(&r, 2);
        size_t bytes = strlen(whole);
        memcpy(text, whole, bytes);
        if (pieces == 0)
            for (uint64_t k = 1 + rng_below(&r, 6); k > 0; k--)
                damage(&r, text, &bytes, CAPACITY);
        else
            bytes = (size_t)rng_below(&r, bytes + 1);
        read_bytes(text, bytes);
    }
    comet_text_free(whole);
}

static void test_random_bytes(void **state)
{
    static char bytes[2000];
    running_seed = environment_number("COMET_TEST_SEED", 2);
    crash_for_good(report_seed);
    test_rng r = {running_seed};
    print_message("seed %llu\n", (unsigned long long)running_seed);
    for (int i = 0; i < 5000; i++) {
        const size_t n = (size_t)rng_below(&r, sizeof bytes);
        for (size_t k = 0; k < n; k++)
            bytes[k] = (char)rng_next(&r);
        read_bytes(bytes, n);
    }
}

static void test_enormous_lines(void **state)
{
    const size_t bytes = (size_t)8 << 20;
    char *text = need_malloc(bytes);
    static const char *const heads[] = {"",
                                        "net ",
                                        "input ",
                                        "input 1 1 1\nr = ",
                                        "input 1 1 1\nr = relu ",
                                        "input 1 1 1\nr=dropout p=",
                                        "input 1 1 1\nr = conv out="};
    for (size_t i = 0; i < COUNT_OF(heads); i++)
        for (const char *fill = "1a# ="; *fill; fill++) {
            memset(text, *fill, bytes);
            memcpy(text, heads[i], strlen(heads[i]));
            read_bytes(text, bytes);
        }
    free(text);
}

/* ---- built-in nets ---- */

/* The parameters as "NAME DIMS" lines, in the order of the layers. */
static void list_parameters(const comet_net *net, FILE *out)
{
    for (uint32_t v = 1; v < comet_net_n_values(net); v++) {
        const comet_layer *l = comet_net_layer(net, v);
        const uint32_t in = comet_net_shape(net, l->inputs[0]).channels;
        if (l->op == COMET_OP_CONV)
            fprintf(out, "%s.weight %ux%ux%ux%u\n", l->name, l->out_channels, in / l->groups, l->kernel[0], l->kernel[1]);
        if (l->op == COMET_OP_LINEAR)
            fprintf(out, "%s.weight %ux%u\n", l->name, l->out_channels, in);
        if (l->bias)
            fprintf(out, "%s.bias %u\n", l->name, l->out_channels);
        if (l->op == COMET_OP_BATCH_NORM)
            fprintf(out, "%s.weight %u\n%s.bias %u\n%s.running_mean %u\n%s.running_var %u\n", l->name, in, l->name, in, l->name,
                    in, l->name, in);
    }
}

static void test_zoo_has_the_parameters_of_torchvision(void **state)
{
    size_t i = 0;
    for (; comet_zoo_name(i); i++) {
        comet_net *net = NULL;
        char name[64], *text = NULL;
        size_t bytes = 0;
        assert_ok(comet_net_zoo(&net, comet_zoo_name(i), 0, 0, 0));
        FILE *out = open_memstream(&text, &bytes);
        assert_non_null(out);
        list_parameters(net, out);
        fclose(out);
        snprintf(name, sizeof name, "%s.txt", comet_zoo_name(i));
        blob golden = read_file(COMET_TESTS_DIR "/golden/zoo", name);
        if (golden.bytes != bytes || memcmp(golden.data, text, bytes) != 0)
            fail_because("%s has other parameters than tests/golden/zoo/%s", comet_zoo_name(i), name);
        free(golden.data);
        free(text);
        comet_net_destroy(net);
    }
    assert_int_equal(i, 8);
    assert_null(comet_zoo_summary(i));
}

static void test_zoo_round_trips(void **state)
{
    for (size_t i = 0; comet_zoo_name(i); i++) {
        comet_net *net = NULL;
        assert_ok(comet_net_zoo(&net, comet_zoo_name(i), 0, 0, 0));
        check_text_round_trip(net);
        assert_true(strlen(comet_zoo_summary(i)) > 10);
        comet_net_destroy(net);
    }
}

/* Relus and batch norms stand right behind what they take; a sum has the branch before the identity. */
static void test_zoo_order(void **state)
{
    for (size_t i = 0; comet_zoo_name(i); i++) {
        comet_net *net = NULL;
        assert_ok(comet_net_zoo(&net, comet_zoo_name(i), 0, 0, 0));
        for (uint32_t v = 1; v < comet_net_n_values(net); v++) {
            const comet_layer *l = comet_net_layer(net, v);
            if (l->op == COMET_OP_RELU || l->op == COMET_OP_SILU || l->op == COMET_OP_BATCH_NORM)
                assert_int_equal(l->inputs[0], v - 1);
            if (l->op != COMET_OP_ADD)
                continue;
            const comet_layer *branch = comet_net_layer(net, l->inputs[0]), *identity = comet_net_layer(net, l->inputs[1]);
            const size_t block = strlen(l->name) - strlen("add");
            assert_true(strncmp(branch->name, l->name, block) == 0 && !strstr(branch->name, "downsample"));
            assert_true(strstr(identity->name, "downsample") || strncmp(identity->name, l->name, block) != 0);
        }
        comet_net_destroy(net);
    }
}

static void test_zoo_initialisations(void **state)
{
    static const struct {
        const char *net, *layer;
        comet_init init;
    } expected[] = {{"alexnet", "features.0", COMET_INIT_DEFAULT},
                    {"alexnet", "classifier.6", COMET_INIT_DEFAULT},
                    {"vgg16", "features.28", COMET_INIT_HE_FAN_OUT},
                    {"vgg16", "classifier.0", COMET_INIT_NORMAL_001},
                    {"resnet50", "layer3.0.downsample.0", COMET_INIT_HE_FAN_OUT},
                    {"resnet50", "fc", COMET_INIT_DEFAULT},
                    {"resnet20", "layer3.0.downsample.0", COMET_INIT_HE_FAN_OUT},
                    {"efficientnet_b0", "features.5.1.block.2.fc2", COMET_INIT_HE_FAN_OUT},
                    {"efficientnet_b0", "classifier.1", COMET_INIT_UNIFORM_FAN_OUT}};
    for (size_t i = 0; i < COUNT_OF(expected); i++) {
        comet_net *net = NULL;
        assert_ok(comet_net_zoo(&net, expected[i].net, 0, 0, 0));
        const uint32_t v = net_find(net, expected[i].layer, strlen(expected[i].layer));
        assert_true(v != NET_NO_VALUE && comet_net_layer(net, v)->init == expected[i].init);
        comet_net_destroy(net);
    }
}

static void test_zoo_rates(void **state)
{
    comet_net *net = NULL;
    assert_ok(comet_net_zoo(&net, "efficientnet_b0", 0, 0, 0));
    assert_true(comet_net_layer(net, net_find(net, "classifier.0", 12))->p == 0.2f);
    const comet_layer *drop = comet_net_layer(net, net_find(net, "features.6.3.stochastic_depth", 29));
    assert_true(drop->per_sample && drop->p == (float)(0.2 * 14 / 16));
    drop = comet_net_layer(net, net_find(net, "features.2.1.stochastic_depth", 29));
    assert_true(drop->per_sample && drop->p == (float)(0.2 * 2 / 16));
    assert_int_equal(net_find(net, "features.2.0.stochastic_depth", 29), NET_NO_VALUE);
    comet_net_destroy(net);
    assert_ok(comet_net_zoo(&net, "vgg16", 0, 0, 0));
    assert_true(comet_net_layer(net, net_find(net, "classifier.5", 12))->p == 0.5f);
    comet_net_destroy(net);
}

static void test_zoo_other_sizes(void **state)
{
    comet_net *net = NULL;
    assert_ok(comet_net_zoo(&net, "resnet18", 1, 64, 7));
    assert_shape(net, "input", 1, 64, 64, false);
    assert_shape(net, "layer4.1.relu", 512, 2, 2, false);
    assert_shape(net, "fc", 7, 1, 1, true);
    comet_net_destroy(net);
    static const struct {
        const char *net, *last;
        uint32_t smallest, largest, side;
    } fixed[] = {{"alexnet", "features.12", 223, 254, 6}, {"vgg16", "features.30", 224, 255, 7}};
    for (size_t i = 0; i < COUNT_OF(fixed); i++) {
        const uint32_t last_side = fixed[i].side, channels = i == 0 ? 256 : 512;
        assert_ok(comet_net_zoo(&net, fixed[i].net, 0, fixed[i].smallest, 0));
        assert_shape(net, fixed[i].last, channels, last_side, last_side, false);
        comet_net_destroy(net);
        assert_ok(comet_net_zoo(&net, fixed[i].net, 0, fixed[i].largest, 0));
        assert_shape(net, fixed[i].last, channels, last_side, last_side, false);
        comet_net_destroy(net);
        net = NULL;
        assert_status(comet_net_zoo(&net, fixed[i].net, 0, fixed[i].smallest - 1, 0), COMET_ERROR_ARGUMENT);
        assert_status(comet_net_zoo(&net, fixed[i].net, 0, fixed[i].largest + 1, 0), COMET_ERROR_ARGUMENT);
        assert_null(net);
    }
    assert_string_equal(comet_last_error(),
                        "vgg16 takes images of 224 to 255 pixels, not 256: its classifier has a fixed size");
    assert_ok(comet_net_zoo(&net, "cnn28", 0, 4, 0));
    comet_net_destroy(net);
    net = NULL;
    assert_status(comet_net_zoo(&net, "cnn28", 0, 3, 0), COMET_ERROR_ARGUMENT);
    assert_string_equal(comet_last_error(), "cnn28 takes images of 4 pixels and more, not 3");
    for (size_t i = 0; comet_zoo_name(i); i++) /* refused or built, but never wrong */
        for (uint32_t size = 1; size < 70; size++) {
            if (comet_net_zoo(&net, comet_zoo_name(i), 2, size, 3) == COMET_OK)
                comet_net_destroy(net);
            net = NULL;
        }
}

static void test_zoo_refuses(void **state)
{
    comet_net *net = NULL;
    assert_status(comet_net_zoo(&net, "resnet19", 0, 0, 0), COMET_ERROR_ARGUMENT);
    assert_string_equal(comet_last_error(),
                        "there is no net 'resnet19' (did you mean resnet18?); there are alexnet, vgg16, resnet18, resnet50, "
                        "efficientnet_b0, resnet20, resnet32, cnn28");
    assert_status(comet_net_zoo(&net, "transformer", 0, 0, 0), COMET_ERROR_ARGUMENT);
    assert_null(strstr(comet_last_error(), "did you mean"));
    assert_status(comet_net_zoo(&net, NULL, 0, 0, 0), COMET_ERROR_ARGUMENT);
    assert_status(comet_net_zoo(NULL, "vgg16", 0, 0, 0), COMET_ERROR_ARGUMENT);
    assert_status(comet_net_zoo(&net, "resnet20", 0, 0, UINT32_MAX), COMET_ERROR_ARGUMENT);
    assert_string_equal(comet_last_error(), "fc: out 4294967295 is out of range: 1 to 16777216");
    assert_status(comet_net_zoo(&net, "resnet20", 0, 65536, 0), COMET_ERROR_ARGUMENT);
    assert_status(comet_net_zoo(&net, "efficientnet_b0", UINT32_MAX, UINT32_MAX, 0), COMET_ERROR_ARGUMENT);
    assert_null(net);
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
        cmocka_unit_test(test_reader_sentences),
        cmocka_unit_test(test_long_names_in_a_sentence),
        cmocka_unit_test(test_reading_is_lenient_where_it_should),
        cmocka_unit_test(test_writing_leaves_defaults_out),
        cmocka_unit_test(test_other_locales),
        cmocka_unit_test(test_random_floats_round_trip),
        cmocka_unit_test(test_damaged_texts),
        cmocka_unit_test(test_random_bytes),
        cmocka_unit_test(test_enormous_lines),
        cmocka_unit_test(test_zoo_has_the_parameters_of_torchvision),
        cmocka_unit_test(test_zoo_round_trips),
        cmocka_unit_test(test_zoo_order),
        cmocka_unit_test(test_zoo_initialisations),
        cmocka_unit_test(test_zoo_rates),
        cmocka_unit_test(test_zoo_other_sizes),
        cmocka_unit_test(test_zoo_refuses),
    };
    return cmocka_run_group_tests_name("net", tests, NULL, NULL);
}
