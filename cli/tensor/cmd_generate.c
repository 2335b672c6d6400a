/* comet generate: writes a made-up tensor to experiment with. */
#include <stdio.h>

#include "tensor/fieldgen.h"
#include "tensor/rearrange.h"
#include "verbs.h"

typedef struct generate_args {
    const char *output;
    dims_arg dims;
    dtype_arg dtype;
    seed_arg seed;
    comet_layout layout;
    bool force, raw;
} generate_args;

#define AT(field) offsetof(generate_args, field)
static const option options[] = {
    OPTION_OUTPUT(generate_args, "the tensor (default KIND.npy, or KIND.raw; - is standard output)"),
    OPTION_DIMS(generate_args, "dims, slowest first (default 8,64,56,56)"),
    OPTION_DTYPE(generate_args, "f32, f16, bf16 or f64 (default f32)"),
    {0, "layout", "LAYOUT", set_layout, AT(layout), "nchw, nhwc, nChw8c or nChw16c (default nchw)"},
    {0, "seed", "SEED", set_seed, AT(seed), "seed of the random values (default 0)"},
    {0, "raw", NULL, set_flag, AT(raw), "bare elements without a .npy header"},
    OPTION_FORCE(generate_args),
};

static cli_exit make_and_save(const generate_args *args, const field_spec *spec, const char *output)
{
    loaded_tensor made = {.memory = NULL};
    cli_exit code = file_check_output(output, args->force);
    if (code == CLI_OK)
        code = field_make(spec, "option -d", &made);
    if (code == CLI_OK)
        code = tensor_rearrange(&made, args->layout);
    if (code == CLI_OK)
        code = tensor_save(output, args->force, args->raw, &made.tensor, made.data, made.bytes);
    if (code == CLI_OK)
        say("%s: %zu bytes of elements", output, made.bytes);
    tensor_free(&made);
    return code;
}

static cli_exit run(const void *given, char **operands, size_t n_operands)
{
    const generate_args *args = given;
    field_spec spec = {.dims = args->dims, .dtype = args->dtype.value, .seed = args->seed.value};
    char name[32];
    reason why;
    (void)n_operands;
    if (!field_kind_parse(operands[0], &spec.kind, &why))
        return fail(CLI_USAGE, "%s", why.text);
    snprintf(name, sizeof name, "%s.%s", operands[0], args->raw ? "raw" : "npy");
    return make_and_save(args, &spec, args->output ? args->output : name);
}

const verb verb_generate = {
    .name = "generate",
    .summary = "Write a made-up tensor that looks like activations",
    .usage = "relu|bn|noise [-d N,C,H,W] [-o OUT] [options]",
    .details = "bn: smooth random fields of several scales, a scale and offset for each channel, a little noise.\n"
               "relu: the positive part of the same, about half zeros. noise: uniform in [-1, 1).\n"
               "The same seed gives the same values everywhere.\n",
    .examples = "  comet generate relu -o acts.npy\n"
                "  comet generate bn -d 4,16,32,32 -t bf16 --seed 7 -o small.npy\n"
                "  comet generate noise -d 1000000 --raw -o - | wc -c\n",
    .options = options,
    .n_options = N_ITEMS(options),
    .operands = (const char *const[]){"KIND, one of relu, bn and noise,", NULL},
    .defaults = &(const generate_args){.dims = {.n = 4, .items = {8, 64, 56, 56}}},
    .args_bytes = sizeof(generate_args),
    .run = run,
};
