/* What floats become on the wire: themselves, bf16, or a frame of the codec with error feedback. */
#ifndef COMET_DIST_WIRE_H
#define COMET_DIST_WIRE_H

#include "comet/codec.h"
#include "comet/dist.h"

typedef struct wire {
    comet_wire format;
    comet_params coding;
    comet_encoder *encoder;
    comet_decoder *decoder;
    float *wanted, *came; /* coded: the floats with what was left over, and what becomes of them */
    size_t most;          /* floats at once */
} wire;

/* For up to `most` floats at once. */
comet_status wire_create(wire *w, comet_wire format, double coded_share, size_t most);
void wire_destroy(wire *w);
bool wire_is_coded(const wire *w);
uint64_t wire_memory(const wire *w); /* bytes */

/* Bytes that n floats take at most. */
size_t wire_most_bytes(const wire *w, size_t n);

/* Writes n floats to `out`, which holds wire_most_bytes. CODED: `left` is added first, and becomes what coding leaves over.
 * `came` (may be NULL; may be `values`) becomes what wire_decode will give. Not for F32, which needs no copy. */
comet_status wire_encode(wire *w, const float *values, float *left, size_t n, void *out, size_t *bytes, float *came);
comet_status wire_decode(wire *w, const void *in, size_t bytes, float *values, size_t n);

#endif
