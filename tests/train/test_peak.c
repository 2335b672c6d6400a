/* The peak of a step: its lines add up to the plan, and every buffer has a name. */
#include <string.h>

#include "comet/peak.h"
#include "comet/train.h"
#include "training.h"

static comet_model_params peak_params(comet_compress_mode mode)
{
    comet_model_params params;
    comet_model_params_init(&params);
    params.batch = 16;
    params.n_threads = 1;
    params.fused_update = true;
    params.compression.mode = mode;
    return params;
}

/* Bytes of a kind; with COMET_PEAK_UNUSED + 1 of all kinds. */
static uint64_t kind_bytes(const comet_peak *peak, comet_peak_kind kind)
{
    uint64_t bytes = 0;
    comet_peak_line line;
    comet_peak_line_init(&line);
    for (size_t i = 0; comet_peak_buffer(peak, i, &line) == COMET_OK; i++)
        bytes += line.kind == kind || kind > COMET_PEAK_UNUSED ? line.bytes : 0;
    return bytes;
}

/* Lines are sorted, and those that belong to a layer name it. */
static void check_lines(const comet_peak *peak, size_t n)
{
    uint64_t last = UINT64_MAX;
    comet_peak_line line;
    comet_peak_line_init(&line);
    for (size_t i = 0; i < n; i++) {
        assert_ok(comet_peak_buffer(peak, i, &line));
        assert_true(line.bytes > 0 && line.bytes <= last);
        assert_true(line.kind > COMET_PEAK_WEIGHTS_COPY || line.layer[0] != '\0');
        assert_string_not_equal(comet_peak_kind_name(line.kind), "unknown");
        last = line.bytes;
    }
    assert_status(comet_peak_buffer(peak, n, &line), COMET_ERROR_ARGUMENT);
}

static void check_peak(const comet_net *net, comet_compress_mode mode)
{
    comet_peak *peak = NULL;
    comet_peak_moment moment;
    comet_memory memory;
    comet_peak_moment_init(&moment);
    comet_memory_init(&memory);
    const comet_model_params params = peak_params(mode);
    assert_ok(comet_model_plan(net, &params, &memory));
    assert_ok(comet_model_plan_peak(&peak, net, &params));
    assert_ok(comet_peak_describe(peak, &moment));
    check_lines(peak, moment.n_buffers);
    assert_true(moment.bytes == memory.total);
    assert_true(kind_bytes(peak, COMET_PEAK_UNUSED + 1) == moment.bytes);
    assert_true(kind_bytes(peak, COMET_PEAK_WEIGHTS) == memory.weights);
    assert_true(kind_bytes(peak, COMET_PEAK_OPTIMISER) == memory.optimiser);
    assert_true((kind_bytes(peak, COMET_PEAK_CODED) > 0) == (mode != COMET_COMPRESS_OFF));
    /* Gaps between buffers are a small part, so that the moment explains what a step takes. */
    assert_true(kind_bytes(peak, COMET_PEAK_UNUSED) < moment.bytes / 8);
    assert_true(moment.layer[0] != '\0' || moment.phase == COMET_PHASE_LOSS);
    comet_peak_destroy(peak);
}

static void test_lines_add_up(void **state)
{
    static const char *const names[] = {"resnet20", "resnet18", "alexnet", "efficientnet_b0"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        comet_net *net = NULL;
        assert_ok(comet_net_zoo(&net, names[i], 0, 0, 0));
        check_peak(net, COMET_COMPRESS_OFF);
        check_peak(net, COMET_COMPRESS_FAST);
        comet_net_destroy(net);
    }
}

static void test_refusals(void **state)
{
    comet_net *net = NULL;
    comet_peak *peak = NULL;
    comet_model_params params = peak_params(COMET_COMPRESS_FAST);
    assert_ok(comet_net_zoo(&net, "resnet20", 0, 0, 0));
    params.compression.spill_folder = ".";
    assert_status(comet_model_plan_peak(&peak, net, &params), COMET_ERROR_ARGUMENT);
    params = peak_params(COMET_COMPRESS_FAST);
    assert_status(comet_model_plan_peak(NULL, net, &params), COMET_ERROR_ARGUMENT);
    assert_ok(comet_model_plan_peak(&peak, net, &params));
    assert_status(comet_peak_add(NULL, COMET_PEAK_DATA, "", 1), COMET_ERROR_ARGUMENT);
    comet_peak_moment before, after;
    comet_peak_moment_init(&before);
    comet_peak_moment_init(&after);
    assert_ok(comet_peak_describe(peak, &before));
    assert_ok(comet_peak_add(peak, COMET_PEAK_DATA, "", 12345));
    assert_ok(comet_peak_describe(peak, &after));
    assert_true(after.bytes == before.bytes + 12345 && after.n_buffers == before.n_buffers + 1);
    check_lines(peak, after.n_buffers);
    assert_string_equal(comet_peak_kind_name((comet_peak_kind)99), "unknown");
    comet_peak_destroy(peak);
    comet_net_destroy(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines_add_up),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
