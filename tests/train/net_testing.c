/* See net_testing.h. */
#include "net_testing.h"

#include "train/net/net_internal.h"

void assert_shape(const comet_net *net, const char *name, uint32_t channels, uint32_t height, uint32_t width, bool flat)
{
    const uint32_t value = net_find(net, name, strlen(name));
    assert_true(value < comet_net_n_values(net));
    const comet_shape s = comet_net_shape(net, value);
    if (s.channels != channels || s.height != height || s.width != width || s.flat != flat)
        fail_because("%s is %u x %u x %u%s", name, s.channels, s.height, s.width, s.flat ? ", flat" : "");
}

void assert_nets_equal(const comet_net *a, const comet_net *b)
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

void check_text_round_trip(const comet_net *net)
{
    char *text = NULL, *again = NULL;
    assert_ok(comet_net_write(net, &text));
    comet_net *back = net_of(text);
    assert_nets_equal(net, back);
    assert_ok(comet_net_write(back, &again));
    assert_string_equal(text, again);
    comet_text_free(text);
    comet_text_free(again);
    comet_net_destroy(back);
}

comet_net *small_net(void)
{
    comet_net *net = NULL;
    assert_ok(comet_net_create(&net, "small", 3, 8, 8));
    return net;
}

comet_layer layer_on(comet_op op, const char *name, uint32_t input)
{
    comet_layer l;
    comet_layer_init(&l, op, name);
    l.n_inputs = 1;
    l.inputs[0] = input;
    return l;
}
