/* The inside of the encoder, which compressing and estimating share. */
#ifndef COMET_CODEC_ENCODER_H
#define COMET_CODEC_ENCODER_H

#include "codec/context.h"

struct comet_encoder {
    context context;
    comet_buffer sums; /* statistics of each worker, then the sum of squares of each chunk */
};

/* Checks parameters and tensor together; fills everything of *plan but the quantiser. */
comet_status encoder_plan(const comet_encoder *encoder, const comet_tensor *tensor, const comet_params *params, const void *src,
                          chunk_plan *plan);

/* Sets the quantiser for an absolute bound; a bound too small for the type means lossless. */
void encoder_set_bound(chunk_plan *plan, const comet_params *params, double eb);

/* The header of a frame with this bound, but for its length. */
frame_header encoder_header(const chunk_plan *plan, const comet_tensor *tensor, const comet_params *params, double eb);

/* Checks mode and value of the bound, and whether they fit the options. */
comet_status encoder_check_params(const comet_params *params);

/* The absolute bound that the parameters mean for this tensor; for RATIO by search on samples. */
comet_status encoder_resolve_bound(comet_encoder *encoder, const chunk_plan *plan, const comet_params *params, const void *src,
                                   double *eb);

/* The length of the frame at bound eb, predicted by encoding a sample of chunks. */
comet_status encoder_predict(comet_encoder *encoder, const chunk_plan *plan, const comet_params *params, const void *src,
                             double eb, double *frame_bytes);

#endif
