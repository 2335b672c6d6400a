/* Self test; see self_test.h. Small tensors of odd sizes in every type and layout, both levels, lossy and lossless. */
#include "doctor/self_test.h"

#include <string.h>

#include "tensor/fieldgen.h"
#include "tensor/frameio.h"
#include "tensor/rearrange.h"

enum { N_DTYPES = COMET_DTYPE_F64 + 1, N_LAYOUTS = COMET_LAYOUT_BLOCKED16 + 1 };
static const double std_bounds[] = {0, 0.02, 0.3};

/* One kernel family on one tensor with one set of parameters. */
static cli_exit encode_and_check(const loaded_tensor *input, const comet_params *params, blob *frame, self_test *result)
{
    loaded_frame loaded = {.file = {0}};
    comet_comparison seen;
    blob decoded = {0};
    cli_exit code = frame_encode(&input->tensor, params, input->data, 1, "self test", frame, NULL);
    if (code != CLI_OK)
        return code;
    comet_frame_info_init(&loaded.info);
    comet_comparison_init(&seen);
    loaded.file = *frame;
    comet_status status = comet_frame_describe(frame->data, frame->bytes, &loaded.info);
    if (status == COMET_OK)
        code = frame_decode(&loaded, "self test", 1, (range_arg){.given = false}, &decoded);
    if (status == COMET_OK && code == CLI_OK)
        status = comet_compare(input->tensor.dtype, loaded.info.n_elements, input->data, decoded.data, loaded.info.eb, &seen);
    if (status != COMET_OK)
        code = fail_status(status, "self test");
    result->n_frames++;
    result->within_bound = result->within_bound && seen.n_violations == 0;
    blob_free(&decoded);
    return code;
}

/* Makes the same frame with every family and compares it with the reference's. */
static cli_exit compare_families(const loaded_tensor *input, const comet_params *params, self_test *result)
{
    blob reference = {0};
    unsigned n_families = 0;
    cli_exit code = CLI_OK;
    for (int isa = COMET_ISA_REFERENCE; isa <= (int)comet_isa_best() && code == CLI_OK; isa++) {
        blob frame = {0};
        if (comet_isa_set_cap((comet_isa)isa) != (comet_isa)isa)
            continue;
        code = encode_and_check(input, params, &frame, result);
        n_families++;
        if (!reference.data) {
            reference = frame;
            continue;
        }
        if (code == CLI_OK && (frame.bytes != reference.bytes || memcmp(frame.data, reference.data, frame.bytes) != 0))
            result->identical = false;
        blob_free(&frame);
    }
    result->n_families = n_families;
    blob_free(&reference);
    return code;
}

static cli_exit test_tensor(const field_spec *spec, comet_layout layout, self_test *result)
{
    loaded_tensor input = {.memory = NULL};
    comet_params params;
    cli_exit code = field_make(spec, "self test", &input);
    if (code == CLI_OK)
        code = tensor_rearrange(&input, layout);
    for (size_t i = 0; i < N_ITEMS(std_bounds); i++) {
        for (int level = COMET_LEVEL_FAST; level <= COMET_LEVEL_DENSE && code == CLI_OK; level++) {
            comet_params_init(&params);
            params.bound_mode = std_bounds[i] > 0 ? COMET_BOUND_STDDEV : COMET_BOUND_LOSSLESS;
            params.bound = std_bounds[i];
            params.level = (comet_level)level;
            code = compare_families(&input, &params, result);
        }
    }
    tensor_free(&input);
    return code;
}

cli_exit self_test_run(self_test *result)
{
    const comet_isa cap = comet_isa_active();
    cli_exit code = CLI_OK;
    *result = (self_test){.identical = true, .within_bound = true};
    for (unsigned i = 0; i < 2 * N_DTYPES * N_LAYOUTS && code == CLI_OK; i++) {
        const field_spec spec = {.kind = i % 2 ? FIELD_BN : FIELD_RELU,
                                 .dims = {.n = 4, .items = {2, 5, 37, 41}},
                                 .dtype = (comet_dtype)(i / 2 % N_DTYPES),
                                 .seed = i};
        code = test_tensor(&spec, (comet_layout)(i / 2 / N_DTYPES), result);
    }
    comet_isa_set_cap(cap);
    return code;
}
