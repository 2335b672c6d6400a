/* The text format of nets: the sentence of every refusal, what is read and written, and any bytes. */
#include "net_testing.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>

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
    comet_net *a = net_of("net n\ninput 3 32 32\nc = conv input out=16 kernel=3x5\nnet = relu c # named like a word\n");
    comet_net *b = net_of("\r\n# c = conv\n\t net n#x\r\ninput\t3 32 32 \r\n\n"
                          "c=conv out = 16 kernel= 3x5 stride=1x1 bias=yes\r\nnet=relu");
    assert_nets_equal(a, b);
    check_text_round_trip(a);
    comet_net_destroy(a);
    comet_net_destroy(b);
    a = net_of("input 1 2 3");
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
    comet_net *net = net_of(text);
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
    comet_net *net = net_of("input 1 1 1\nd = dropout p=0.25\n");
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
    fprintf(stderr, "crashed at seed %llu: COMET_TEST_SEED=%llu test_net_text\n", (unsigned long long)running_seed,
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reader_sentences),
        cmocka_unit_test(test_long_names_in_a_sentence),
        cmocka_unit_test(test_reading_is_lenient_where_it_should),
        cmocka_unit_test(test_writing_leaves_defaults_out),
        cmocka_unit_test(test_other_locales),
        cmocka_unit_test(test_random_floats_round_trip),
        cmocka_unit_test(test_damaged_texts),
        cmocka_unit_test(test_random_bytes),
        cmocka_unit_test(test_enormous_lines),
    };
    return cmocka_run_group_tests_name("net: text", tests, NULL, NULL);
}
