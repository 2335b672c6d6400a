/* The model of a step on several ranks, against cases that were computed by hand; and the timeline of a net. */
#include "testing.h"

#include "comet/scaling.h"

/* A link of 1000 bytes/s; 1000 parameters are a bucket of 4000 bytes, whose phases take 2 s between two ranks. */
static comet_scaling_params two_ranks(const comet_timeline_layer *layers, size_t n)
{
    comet_scaling_params p;
    comet_scaling_params_init(&p);
    p.layers = layers;
    p.n_layers = n;
    p.n_ranks = 2;
    p.link = 1000;
    p.memory = 1e9;
    p.latency = p.message = 0;
    p.bucket_bytes = 4000;
    return p;
}

static comet_scaling predict(const comet_scaling_params *p)
{
    comet_scaling s;
    comet_scaling_init(&s);
    assert_int_equal(comet_scaling_predict(p, &s), COMET_OK);
    return s;
}

static void test_exposed(void **state)
{
    const comet_timeline_layer layers[] = {{.seconds = 2, .parameters = 1000}};
    comet_scaling_params p = two_ranks(layers, 1);
    p.forward = 1;
    p.update = 0.1;
    p.latency = 0.5;
    const comet_scaling s = predict(&p);
    assert_near(s.step, 3 + 2 + 0.5 + 2 + 0.5 + 0.1, 1e-9);
    assert_near(s.alone, 3.1, 1e-9);
    assert_near(s.moving, 5, 1e-9);
    assert_near(s.waited, 5, 1e-9);
    assert_near(s.hidden, 0, 1e-9);
    assert_near(s.efficiency, 3.1 / 8.1, 1e-9);
    assert_int_equal(s.bytes_sent, 4000);
    assert_int_equal(s.bucket_bytes, 4000);
    assert_int_equal(s.n_buckets, 1);
}

/* Backward goes on for 4 s while the bucket is under way for 5. */
static void test_hidden(void **state)
{
    const comet_timeline_layer layers[] = {{.seconds = 1, .parameters = 1000}, {.seconds = 4}};
    comet_scaling_params p = two_ranks(layers, 2);
    p.forward = 1;
    p.update = 0.1;
    p.latency = 0.5;
    const comet_scaling s = predict(&p);
    assert_near(s.step, 7.1, 1e-9);
    assert_near(s.waited, 1, 1e-9);
    assert_near(s.hidden, 0.8, 1e-9);
}

/* The sum of the second bucket overtakes the gathering of the first, which is asked for later. */
static void test_two_buckets(void **state)
{
    const comet_timeline_layer layers[] = {{.seconds = 1, .parameters = 1000}, {.seconds = 1, .parameters = 1000}};
    comet_scaling_params p = two_ranks(layers, 2);
    p.latency = 1;
    comet_scaling s = predict(&p);
    assert_near(s.step, 10, 1e-9);
    assert_near(s.moving, 9, 1e-9);
    assert_int_equal(s.bucket_bytes, 8000);
    /* Half of each bucket is updated, in 0.5 s, before it is gathered: at 4.5 and 6.5. */
    p.shard_optimiser = true;
    p.update = 2;
    s = predict(&p);
    assert_near(s.step, 10, 1e-9);
    assert_int_equal(s.bytes_sent, 8000);
    /* 3 s: at 4.75 and 6.75; the link is at work until 7. */
    p.update = 3;
    assert_near(predict(&p).step, 10, 1e-9);
    /* 12 s: at 7 and 10; the last phase then takes 10 to 12, and a latency. */
    p.update = 12;
    assert_near(predict(&p).step, 13, 1e-9);
}

/* An update that is possible within backward delays the layers after it. */
static void test_update_within_backward(void **state)
{
    const comet_timeline_layer layers[] = {
        {.seconds = 1, .parameters = 1000}, {.seconds = 5}, {.seconds = 1, .parameters = 1000}};
    comet_scaling_params p = two_ranks(layers, 3);
    p.update = 2;
    const comet_scaling s = predict(&p);
    /* 1 s in, it arrives at 5, is updated at 6 to 7; the last layer ends at 8, its bucket is there at 12. */
    assert_near(s.step, 13, 1e-9);
    assert_near(s.waited, 4, 1e-9);
    assert_near(s.moving, 8, 1e-9);
    assert_near(s.hidden, 0.5, 1e-9);
}

/* Room for one bucket: the second layer's gradients wait until the first bucket is used. */
static void test_rooms(void **state)
{
    const comet_timeline_layer layers[] = {{.seconds = 1, .parameters = 1000}, {.seconds = 1, .parameters = 1000}};
    comet_scaling_params p = two_ranks(layers, 2);
    p.n_rooms = p.n_behind = 1;
    p.update = 1;
    const comet_scaling s = predict(&p);
    /* Full at 1, back at 5, half of the update until 5.5; the second is full then, back at 9.5, and 0.5. */
    assert_near(s.step, 10, 1e-9);
    assert_near(s.waited, 3 + 4, 1e-9);
    assert_near(s.moving, 8, 1e-9);
    assert_int_equal(s.bucket_bytes, 4000);
}

/* One at a time: the latency of a bucket keeps the link idle. With two, the sum of the second fills it. */
static void test_moving(void **state)
{
    const comet_timeline_layer layers[] = {{.seconds = 1, .parameters = 2000}};
    comet_scaling_params p = two_ranks(layers, 1);
    p.latency = 1;
    p.n_moving = 1;
    assert_near(predict(&p).step, 1 + 2 * (2 * (2 + 1)), 1e-9);
    p.n_moving = 2;
    /* Sums 1 to 3 and 3 to 5; gathers asked at 4 and 6: 5 to 7, 7 to 9, and a latency. */
    assert_near(predict(&p).step, 10, 1e-9);
}

/* With a sharded optimiser and n_behind 1, a rank waits for the sum of each. */
static void test_behind(void **state)
{
    const comet_timeline_layer layers[] = {{.seconds = 1, .parameters = 1000}, {.seconds = 1, .parameters = 1000}};
    comet_scaling_params p = two_ranks(layers, 2);
    p.shard_optimiser = true;
    p.n_behind = 1;
    p.update = 2;
    /* Full at 1, summed at 3, updated until 3.5; its gather takes 3.5 to 5.5. The second is full at 4.5, its sum 5.5 to 7.5,
     * updated until 8, gathered until 10. */
    const comet_scaling s = predict(&p);
    assert_near(s.step, 10, 1e-9);
    assert_near(s.waited, 2 + 3 + 2, 1e-9);
}

static void test_nodes(void **state)
{
    const comet_timeline_layer layers[] = {{.seconds = 1, .parameters = 1000}};
    comet_scaling_params p = two_ranks(layers, 1);
    p.n_ranks = 4;
    p.n_on_node = 2;
    p.message = 0.1;
    p.latency = 0.5;
    /* 2 ranks send half of 4000 bytes each to the other node: 4 s; and 3 messages. */
    assert_near(predict(&p).step, 1 + 2 * (4 + 0.3 + 0.5), 1e-9);
    assert_int_equal(predict(&p).bytes_sent, 6000);
    /* 2 ranks send a quarter of 4000 bytes each within the node. */
    p.memory = 250;
    assert_near(predict(&p).step, 1 + 2 * (8 + 0.3 + 0.5), 1e-9);
    /* One node: no link, no latency; 4 ranks x 3 quarters of 4000 bytes. */
    p.n_on_node = 4;
    p.memory = 1000;
    assert_near(predict(&p).step, 1 + 2 * (12 + 0.3), 1e-9);
}

static void test_wire(void **state)
{
    const comet_timeline_layer layers[] = {{.seconds = 1, .parameters = 1500}};
    comet_scaling_params p = two_ranks(layers, 1);
    p.wire_bytes = 2;
    comet_scaling s = predict(&p);
    /* A bucket of 1000, then one of 500: 1 s and half a second a phase. */
    assert_int_equal(s.n_buckets, 2);
    assert_near(s.step, 1 + 2 * 1.5, 1e-9);
    assert_int_equal(s.bytes_sent, 3000);
    /* Work of the rank itself, 1 s for the first bucket and half a second for the second, which then begins later: 2 to 2.5,
     * and 3 to 3.5. */
    p.host = 1.0 / 4000;
    s = predict(&p);
    assert_near(s.step, 4, 1e-9);
    assert_near(s.alone, 1, 1e-9);
}

static void test_sync_batch_norm(void **state)
{
    const comet_timeline_layer layers[] = {{.seconds = 1, .norm = true}, {.seconds = 1, .norm = true, .parameters = 1000}};
    comet_scaling_params p = two_ranks(layers, 2);
    p.sync_batch_norm = true;
    p.latency = 0.25;
    p.message = 0.05;
    const comet_scaling s = predict(&p);
    /* Four sums of 2 x 0.3, and the bucket's 2 x (2 + 0.3). */
    assert_near(s.step, 2 + 4 * 0.6 + 2 * 2.3, 1e-9);
    assert_near(s.waited, 4 * 0.6 + 2 * 2.3, 1e-9);
    assert_near(s.hidden, 0, 1e-9);
}

static void test_one_rank(void **state)
{
    const comet_timeline_layer layers[] = {{.seconds = 2, .parameters = 1000, .norm = true}};
    comet_scaling_params p = two_ranks(layers, 1);
    p.n_ranks = 1;
    p.forward = 1;
    p.sync_batch_norm = true;
    const comet_scaling s = predict(&p);
    assert_near(s.step, 3, 1e-9);
    assert_near(s.efficiency, 1, 0);
    assert_near(s.hidden, 1, 0);
    assert_int_equal(s.bytes_sent, 0);
}

static void refused(const comet_scaling_params *p, const char *part)
{
    comet_scaling s;
    comet_scaling_init(&s);
    assert_int_equal(comet_scaling_predict(p, &s), COMET_ERROR_ARGUMENT);
    assert_non_null(strstr(comet_last_error(), part));
}

static void test_refused(void **state)
{
    const comet_timeline_layer layers[] = {{.seconds = 1, .parameters = 1000}};
    comet_scaling_params p = two_ranks(layers, 1);
    p.n_on_node = 3;
    refused(&p, "2 ranks cannot be spread with 3 on each node");
    p = two_ranks(layers, 1);
    p.link = 0;
    refused(&p, "a link of 0 bytes/s");
    p = two_ranks(layers, 1);
    p.bucket_bytes = 3;
    refused(&p, "buckets of 3 bytes");
    p = two_ranks(layers, 0);
    refused(&p, "and layers");
}

/* conv 3x3 of 2 to 4 channels on 8 x 8 (no padding: 6 x 6), batch norm, flatten, linear to 10. */
static void test_timeline(void **state)
{
    static const char text[] = "net small\n"
                               "input 2 8 8\n"
                               "c = conv input out=4 kernel=3 bias=no\n"
                               "b = batch_norm c\n"
                               "f = flatten b\n"
                               "l = linear f out=10\n";
    comet_net *net = NULL;
    comet_timeline_layer layers[4];
    size_t n = 0;
    if (comet_net_read(&net, "small", text, sizeof text - 1) != COMET_OK)
        fail_msg("%s", comet_last_error());
    assert_int_equal(comet_timeline_of_net(net, layers, &n), COMET_OK);
    const double linear = 2 * 144 * 10, norm = COMET_TIMELINE_VALUE * 144, conv = 1 * 2 * 9 * 144, sum = linear + norm + conv;
    assert_int_equal(n, 4);
    assert_near(layers[0].seconds, linear / sum, 1e-12);
    assert_int_equal(layers[0].parameters, 1450);
    assert_near(layers[1].seconds, 0, 0);
    assert_near(layers[2].seconds, norm / sum, 1e-12);
    assert_true(layers[2].norm);
    assert_int_equal(layers[2].parameters, 8);
    assert_near(layers[3].seconds, conv / sum, 1e-12);
    assert_int_equal(layers[3].parameters, 72);
    comet_net_destroy(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exposed),     cmocka_unit_test(test_hidden),
        cmocka_unit_test(test_two_buckets), cmocka_unit_test(test_update_within_backward),
        cmocka_unit_test(test_nodes),       cmocka_unit_test(test_rooms),
        cmocka_unit_test(test_moving),      cmocka_unit_test(test_behind),
        cmocka_unit_test(test_wire),        cmocka_unit_test(test_sync_batch_norm),
        cmocka_unit_test(test_one_rank),    cmocka_unit_test(test_refused),
        cmocka_unit_test(test_timeline),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
