/*
 * Made-up activations, to try and measure things without data.
 *
 * A channel is a sum of random fields of several grid widths plus a little noise, with a scale and an offset of its own; every
 * image has fields of its own. "bn" is that (dense, smooth, as before a batch norm), "relu" is max(0, .) of it (about half
 * zeros, as after a ReLU), "noise" is uniform and hardly compressible. Same seed, same values, on every machine.
 */
#ifndef COMET_CLI_FIELDGEN_H
#define COMET_CLI_FIELDGEN_H

#include "tensor/tensorio.h"

typedef enum field_kind { FIELD_RELU, FIELD_BN, FIELD_NOISE } field_kind;

typedef struct field_spec {
    field_kind kind;
    dims_arg dims;
    comet_dtype dtype;
    uint64_t seed;
} field_spec;

/* Does the text begin with "gen:"? */
bool field_is_spec(const char *text);

/* "gen:KIND:N,C,H,W", as f32 with seed 0. */
bool field_parse(const char *text, field_spec *spec, reason *why);

/* "relu", "bn" or "noise". */
bool field_kind_parse(const char *text, field_kind *kind, reason *why);

/* Makes the tensor; release with tensor_free. `subject` begins the sentence if it fails. */
cli_exit field_make(const field_spec *spec, const char *subject, loaded_tensor *loaded);

#endif
