/* The built-in nets: parameters as torchvision has them, order of layers, initialisations, sizes. */
#include "net_testing.h"

#include <stdio.h>
#include <stdlib.h>

#include "train/net/net_internal.h"

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
        blob golden = read_file(COMET_TESTS_DIR "/train/golden/zoo", name);
        if (golden.bytes != bytes || memcmp(golden.data, text, bytes) != 0)
            fail_because("%s has other parameters than tests/train/golden/zoo/%s", comet_zoo_name(i), name);
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

/* Relus and batch norms come right after the layer that they read; an addition has the branch before the identity. */
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
        cmocka_unit_test(test_zoo_has_the_parameters_of_torchvision),
        cmocka_unit_test(test_zoo_round_trips),
        cmocka_unit_test(test_zoo_order),
        cmocka_unit_test(test_zoo_initialisations),
        cmocka_unit_test(test_zoo_rates),
        cmocka_unit_test(test_zoo_other_sizes),
        cmocka_unit_test(test_zoo_refuses),
    };
    return cmocka_run_group_tests_name("net: zoo", tests, NULL, NULL);
}
