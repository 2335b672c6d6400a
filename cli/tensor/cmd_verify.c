/* comet verify: decodes a frame and compares it with the original, element by element. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kit/json_out.h"
#include "tensor/element.h"
#include "tensor/frameio.h"
#include "tensor/tensorio.h"
#include "verbs.h"

typedef struct verify_args {
    bound bound;
    dims_arg dims;
    dtype_arg dtype;
    uint64_t n_threads;
    bool json;
} verify_args;

#define AT(field) offsetof(verify_args, field)
static const option options[] = {
    {'e', "error", "BOUND", set_bound, AT(bound),
     "an absolute bound to check, if it is stricter than the\n"
     "frame's own (default: the frame's own); lossless is 0"},
    OPTION_DIMS(verify_args, "dims of a raw original (default: the frame's)"),
    OPTION_DTYPE(verify_args, "type of a raw original (default: the frame's)"),
    OPTION_THREADS(verify_args, "threads (default 0: one per core)"),
    OPTION_JSON(verify_args, "print one JSON object (default: lines to read)"),
};

/* The two tensors side by side, and what the comparison found. */
typedef struct verdict {
    const comet_frame_info *info;
    const void *original;
    const void *decoded;
    double eb;
    comet_comparison seen;
    bool bound_ok, zeros_ok, support_ok;
} verdict;

static tensor_request original_request(const verify_args *args, const comet_frame_info *info)
{
    tensor_request request = {.layout = info->tensor.layout, .dims = args->dims, .dtype = args->dtype};
    if (request.dims.n == 0) {
        request.dims.n = info->tensor.n_dims;
        memcpy(request.dims.items, info->tensor.dims, sizeof request.dims.items);
    }
    if (!request.dtype.given)
        request.dtype = (dtype_arg){.given = true, .value = info->tensor.dtype};
    return request;
}

static bool same_tensor(const comet_tensor *a, const comet_tensor *b)
{
    return a->dtype == b->dtype && a->n_dims == b->n_dims && memcmp(a->dims, b->dims, a->n_dims * sizeof a->dims[0]) == 0;
}

/* What the frame promises besides the bound: zeros stay zero without dither, and with --keep-support non-zeros stay non-zero.
 */
static void judge(verdict *v)
{
    v->bound_ok = v->seen.n_violations == 0;
    v->zeros_ok = v->info->dither || v->seen.n_zeros_kept == v->seen.n_zeros;
    v->support_ok = !v->info->keep_support || v->seen.n_support_lost == 0;
}

static void say_violation(const verdict *v)
{
    const comet_tensor *tensor = &v->info->tensor;
    const uint64_t index = v->seen.first_violation;
    uint64_t place[COMET_MAX_DIMS];
    char text[DIMS_TEXT_BYTES];
    const double original = comet_element_value(tensor->dtype, v->original, index);
    const double decoded = comet_element_value(tensor->dtype, v->decoded, index);
    element_place(tensor, index, place);
    say("bound violated: %" PRIu64 " of %" PRIu64 " elements are off by more than %.9g", v->seen.n_violations,
        v->seen.n_elements, v->eb);
    say("first at index %" PRIu64 ", coordinates (%s): original %.9g, decoded %.9g, error %.9g, bound %.9g", index,
        dims_text(tensor->n_dims, place, ",", text), original, decoded, fabs(original - decoded), v->eb);
}

static bool all_ok(const verdict *v)
{
    return v->bound_ok && v->zeros_ok && v->support_ok;
}

static void print_verdict(const verdict *v)
{
    if (!all_ok(v))
        printf("verdict       FAILED\n");
    else
        printf("verdict       ok: every element within the bound%s\n", v->info->dither         ? " (zeros may move: dither)"
                                                                       : v->info->keep_support ? ", zeros and non-zeros kept"
                                                                                               : ", every zero kept");
}

/* Non-zeros may become zero within the bound, unless the frame keeps support. */
static void print_support(const verdict *v)
{
    const bool allowed = v->seen.n_support_lost > 0 && !v->info->keep_support;
    printf("became zero   %" PRIu64 " non-zeros%s\n", v->seen.n_support_lost,
           allowed ? " (allowed without --keep-support)" : "");
}

static void print_lines(const verdict *v)
{
    const comet_comparison *seen = &v->seen;
    printf("elements      %" PRIu64 "\n", seen->n_elements);
    printf("bound         %.9g\n", v->eb);
    printf("max error     %.9g\n", seen->max_error);
    printf("rmse          %.9g\n", seen->rmse);
    printf("psnr          %.2f dB\n", seen->psnr);
    printf("zeros kept    %" PRIu64 " of %" PRIu64 "\n", seen->n_zeros_kept, seen->n_zeros);
    print_support(v);
    printf("violations    %" PRIu64 "\n", seen->n_violations);
    print_verdict(v);
}

static void add_violation(json *j, const verdict *v)
{
    const comet_tensor *tensor = &v->info->tensor;
    const uint64_t index = v->seen.first_violation;
    const double original = comet_element_value(tensor->dtype, v->original, index);
    const double decoded = comet_element_value(tensor->dtype, v->decoded, index);
    uint64_t place[COMET_MAX_DIMS];
    element_place(tensor, index, place);
    json_add_u64(j, "first_violation", index);
    json_add_numbers(j, "coordinates", place, tensor->n_dims);
    json_add_double(j, "original", original);
    json_add_double(j, "decoded", decoded);
}

static cli_exit print_json(const verdict *v)
{
    const comet_comparison *seen = &v->seen;
    json j = json_begin();
    json_add_bool(&j, "ok", all_ok(v));
    json_add_u64(&j, "n_elements", seen->n_elements);
    json_add_double(&j, "eb", v->eb);
    json_add_double(&j, "max_error", seen->max_error);
    json_add_double(&j, "rmse", seen->rmse);
    json_add_double(&j, "psnr", seen->psnr);
    json_add_u64(&j, "n_violations", seen->n_violations);
    if (v->bound_ok)
        json_add_null(&j, "first_violation");
    else
        add_violation(&j, v);
    json_add_u64(&j, "n_zeros", seen->n_zeros);
    json_add_u64(&j, "n_zeros_kept", seen->n_zeros_kept);
    json_add_u64(&j, "n_support", seen->n_support_lost);
    return json_print(&j);
}

static cli_exit report(const verify_args *args, const verdict *v)
{
    cli_exit code = CLI_OK;
    if (args->json)
        code = print_json(v);
    else
        print_lines(v);
    if (code != CLI_OK)
        return code;
    if (!v->bound_ok)
        say_violation(v);
    if (!v->zeros_ok)
        say("%" PRIu64 " zeros are no longer zero", v->seen.n_zeros - v->seen.n_zeros_kept);
    if (!v->support_ok)
        say("the frame keeps support, yet %" PRIu64 " non-zeros became zero", v->seen.n_support_lost);
    return all_ok(v) ? CLI_OK : CLI_BOUND_BROKEN;
}

static cli_exit compare(const verify_args *args, const loaded_frame *frame, const char *path, const loaded_tensor *original)
{
    blob decoded;
    cli_exit code = frame_decode(frame, path, (size_t)args->n_threads, (range_arg){.given = false}, &decoded);
    if (code != CLI_OK)
        return code;
    verdict v = {.info = &frame->info, .original = original->data, .decoded = decoded.data, .eb = frame->info.eb};
    if (args->bound.text[0] != '\0' && args->bound.value < v.eb)
        v.eb = args->bound.value;
    comet_comparison_init(&v.seen);
    const comet_status status =
        comet_compare(frame->info.tensor.dtype, frame->info.n_elements, original->data, decoded.data, v.eb, &v.seen);
    if (status == COMET_OK) {
        judge(&v);
        code = report(args, &v);
    } else {
        code = fail_status(status, path);
    }
    blob_free(&decoded);
    return code;
}

static cli_exit verify_files(const verify_args *args, const char *original_path, const char *frame_path)
{
    loaded_frame frame;
    loaded_tensor original = {.memory = NULL};
    cli_exit code = frame_load(frame_path, &frame);
    if (code != CLI_OK)
        return code;
    const tensor_request request = original_request(args, &frame.info);
    code = tensor_load(original_path, &request, &original);
    if (code == CLI_OK && !same_tensor(&original.tensor, &frame.info.tensor))
        code = fail(CLI_BAD_INPUT, "%s and %s differ in dims or type", original_path, frame_path);
    if (code == CLI_OK)
        code = compare(args, &frame, frame_path, &original);
    tensor_free(&original);
    frame_free(&frame);
    return code;
}

static cli_exit run(const void *given, char **operands, size_t n_operands)
{
    const verify_args *args = given;
    (void)n_operands;
    if (args->bound.mode != COMET_BOUND_ABSOLUTE && args->bound.mode != COMET_BOUND_LOSSLESS)
        return fail(CLI_USAGE, "option -e: '%s' is not an absolute bound", args->bound.text);
    return verify_files(args, operands[0], operands[1]);
}

const verb verb_verify = {
    .name = "verify",
    .summary = "Check a frame against its original; exit 4 if it breaks its promise",
    .usage = "ORIGINAL FRAME [-e BOUND] [options]",
    .details = "ORIGINAL is a .npy of the frame's type and memory shape, or raw elements. The first element\n"
               "that breaks the bound is named. Zeros must be zeros again unless the frame has dither, and a\n"
               "frame that keeps support must not lose a non-zero.\n",
    .examples = "  comet verify acts.npy acts.npy.comet\n"
                "  comet verify acts.npy acts.npy.comet -e 0.001 --json\n"
                "  comet verify acts.raw acts.comet -d 8,64,56,56 -t f32\n",
    .options = options,
    .n_options = N_ITEMS(options),
    .operands = (const char *const[]){"ORIGINAL, the file that was compressed,", "FRAME", NULL},
    .defaults = &(const verify_args){.json = false},
    .args_bytes = sizeof(verify_args),
    .run = run,
};
