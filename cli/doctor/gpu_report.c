/* The report of comet doctor --gpu; see gpu_report.h. */
#include "doctor/gpu_report.h"

#include <float.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/device.h"
#include "kit/json_out.h"
#include "kit/text.h"
#include "tensor/fieldgen.h"
#include "tensor/rearrange.h"

enum { N_SMALL = 24, N_LEVELS = 2, SPEED_ROUNDS = 5 };

/* What the tests of one device found. */
typedef struct device_test {
    unsigned n_frames, n_same, n_exact; /* frames; the CPU's bytes; decoded as on the CPU */
    uint64_t speed_bytes;
    double encode_seconds, decode_seconds, copy_seconds; /* the best of some rounds, on speed_bytes */
    double ratio;
} device_test;

static comet_params params_for(double eb, bool keep_support)
{
    comet_params p;
    comet_params_init(&p);
    p.bound = eb;
    p.keep_support = keep_support;
    p.profile = COMET_PROFILE_DEVICE;
    return p;
}

/* Is the tensor that the device decodes the one that the CPU decodes? */
static cli_exit compare_decoded(device *d, const void *frame, size_t frame_bytes, const loaded_tensor *input, bool *same)
{
    size_t bytes = 0;
    char *mine = malloc(2 * input->bytes + 1), *expected = mine ? mine + input->bytes : NULL;
    if (!mine)
        return fail_memory(2 * input->bytes);
    cli_exit code = device_read_tensor(d, mine);
    const comet_status status = comet_decompress(frame, frame_bytes, expected, input->bytes, &bytes);
    if (code == CLI_OK && status != COMET_OK)
        code = fail_status(status, "device");
    *same = code == CLI_OK && memcmp(mine, expected, input->bytes) == 0;
    free(mine);
    return code;
}

static cli_exit run_once(device *d, const loaded_tensor *input, const comet_params *params, device_test *test)
{
    size_t capacity = 0, bytes = 0;
    bool same = false, exact = false;
    cli_exit code = device_prepare(d, &input->tensor, params, input->data, &capacity);
    void *frame = code == CLI_OK ? malloc(capacity) : NULL;
    if (code == CLI_OK && !frame)
        code = fail_memory(capacity);
    if (code == CLI_OK)
        code = device_encode(d, &bytes);
    if (code == CLI_OK)
        code = device_decode(d);
    if (code == CLI_OK)
        code = device_read_frame(d, frame);
    if (code == CLI_OK)
        code = device_compare(d, frame, bytes, &same);
    if (code == CLI_OK)
        code = compare_decoded(d, frame, bytes, input, &exact);
    free(frame);
    test->n_frames++;
    test->n_same += same;
    test->n_exact += exact;
    return code;
}

/* Small tensors of every type and layout, with and without keep support, lossless too, at both levels. */
static cli_exit test_bytes(device *d, device_test *test)
{
    static const double bounds[] = {0.02, 0, 0.3, 1e-4};
    cli_exit code = CLI_OK;
    for (unsigned i = 0; i < N_LEVELS * N_SMALL && code == CLI_OK; i++) {
        loaded_tensor input = {.memory = NULL};
        const field_spec spec = {.kind = i % 2 ? FIELD_BN : FIELD_RELU,
                                 .dims = {.n = 4, .items = {3, 5, 37, 41}},
                                 .dtype = (comet_dtype)(i % 3),
                                 .seed = i};
        comet_params params = params_for(bounds[i % N_SMALL / 6], i % 4 == 3);
        params.level = i < N_SMALL ? COMET_LEVEL_FAST : COMET_LEVEL_DENSE;
        code = field_make(&spec, "self test", &input);
        if (code == CLI_OK)
            code = tensor_rearrange(&input, (comet_layout)(i % 4));
        if (code == CLI_OK)
            code = run_once(d, &input, &params, test);
        tensor_free(&input);
    }
    return code;
}

static void keep_best(double *best, double started)
{
    const double seconds = comet_seconds() - started;
    *best = seconds < *best ? seconds : *best;
}

static cli_exit time_rounds(device *d, device_test *test)
{
    size_t bytes = 0;
    cli_exit code = CLI_OK;
    test->encode_seconds = test->decode_seconds = test->copy_seconds = DBL_MAX;
    for (int round = 0; round < SPEED_ROUNDS && code == CLI_OK; round++) {
        double started = comet_seconds();
        code = device_encode(d, &bytes);
        keep_best(&test->encode_seconds, started);
        started = comet_seconds();
        if (code == CLI_OK)
            code = device_decode(d);
        keep_best(&test->decode_seconds, started);
        started = comet_seconds();
        if (code == CLI_OK)
            code = device_copy(d);
        keep_best(&test->copy_seconds, started);
    }
    test->ratio = bytes ? (double)test->speed_bytes / (double)bytes : 0;
    return code;
}

/* 64 MiB of made-up activations; 8 on a CPU. */
static cli_exit test_speed(device *d, bool is_cpu, device_test *test)
{
    loaded_tensor input = {.memory = NULL};
    size_t capacity = 0;
    const field_spec spec = {
        .kind = FIELD_RELU, .dims = {.n = 4, .items = {is_cpu ? 4 : 32, 128, 64, 64}}, .dtype = COMET_DTYPE_F32};
    const comet_params params = params_for(0.05, false);
    cli_exit code = field_make(&spec, "self test", &input);
    test->speed_bytes = input.bytes;
    if (code == CLI_OK)
        code = device_prepare(d, &input.tensor, &params, input.data, &capacity);
    if (code == CLI_OK)
        code = time_rounds(d, test);
    tensor_free(&input);
    return code;
}

static cli_exit test_device(const device_facts *facts, device_test *test)
{
    device *d = NULL;
    cli_exit code = device_open(facts->name, &d);
    if (code == CLI_OK)
        code = test_bytes(d, test);
    if (code == CLI_OK)
        code = test_speed(d, facts->is_cpu, test);
    device_close(d);
    return code;
}

static double gbps(const device_test *test, double seconds)
{
    return seconds > 0 ? (double)test->speed_bytes / 1e9 / seconds : 0;
}

static bool passed(const device_test *test)
{
    return test->n_frames > 0 && test->n_same == test->n_frames && test->n_exact == test->n_frames;
}

static void print_lines(const device_facts *f, const device_test *test, bool tested)
{
    char shown[PRINTABLE_BYTES];
    printf("%-13s %s%s\n", f->name, text_printable(f->device, shown, sizeof shown), f->is_cpu ? " (a CPU)" : "");
    printf("  driver      %s\n", text_printable(f->driver, shown, sizeof shown));
    printf("  memory      %.1f GiB, %u units, %u KiB shared by a group\n", (double)f->memory_bytes / 0x1p30, f->n_units,
           f->shared_bytes >> 10);
    if (f->unfit[0])
        printf("  not usable  %s\n", text_printable(f->unfit, shown, sizeof shown));
    if (!tested)
        return;
    printf("  self test   %s: %u frames, %u with the CPU's bytes, %u decoded as on the CPU\n",
           passed(test) ? "passed" : "FAILED", test->n_frames, test->n_same, test->n_exact);
    printf("  speed       %.2f GB/s compress, %.2f GB/s decompress, %.2f GB/s copy on the device; %.0f MB, ratio %.2f\n",
           gbps(test, test->encode_seconds), gbps(test, test->decode_seconds), gbps(test, test->copy_seconds),
           (double)test->speed_bytes / 1e6, test->ratio);
}

static cli_exit print_json(const device_facts *f, const device_test *test, bool tested)
{
    json j = json_begin();
    json_add_text(&j, "version", comet_version());
    json_add_text(&j, "device", f->name);
    json_add_text(&j, "model", f->device);
    json_add_text(&j, "driver", f->driver);
    json_add_bool(&j, "is_cpu", f->is_cpu);
    json_add_u64(&j, "memory_bytes", f->memory_bytes);
    json_add_u64(&j, "units", f->n_units);
    json_add_u64(&j, "shared_bytes", f->shared_bytes);
    json_add_text(&j, "unfit", f->unfit[0] ? f->unfit : NULL);
    if (tested) {
        json_add_u64(&j, "frames", test->n_frames);
        json_add_bool(&j, "same_bytes", passed(test));
        json_add_double(&j, "compress_gbps", gbps(test, test->encode_seconds));
        json_add_double(&j, "decompress_gbps", gbps(test, test->decode_seconds));
        json_add_double(&j, "copy_gbps", gbps(test, test->copy_seconds));
        json_add_double(&j, "ratio", test->ratio);
    }
    return json_print(&j);
}

cli_exit gpu_report_run(bool as_json)
{
    device_facts list[DEVICES_MOST];
    if (device_missing())
        return fail(CLI_FAILED, "%s", device_missing());
    const unsigned n = device_list(list);
    bool all_passed = true;
    if (!as_json)
        printf("comet         %s, %u device%s\n", comet_version(), n, n == 1 ? "" : "s");
    if (n == 0)
        complain("no driver of OpenCL or CUDA was found, or none has a device");
    for (unsigned i = 0; i < n; i++) {
        device_test test = {.n_frames = 0};
        const bool fit = !list[i].unfit[0];
        cli_exit code = fit ? test_device(&list[i], &test) : CLI_OK;
        if (code == CLI_OK && as_json)
            code = print_json(&list[i], &test, fit);
        else if (code == CLI_OK)
            print_lines(&list[i], &test, fit);
        if (code != CLI_OK)
            return code;
        all_passed = all_passed && (!fit || passed(&test));
    }
    return all_passed ? CLI_OK : fail(CLI_FAILED, "a device does not give the CPU's bytes");
}
