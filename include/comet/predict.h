/*
 * Classes of pictures and arrays, by trained weights.
 *
 *   comet_predictor_create, _destroy   a model for evaluation, and how its images are prepared
 *   comet_predictor_n_classes, _class  what it tells apart
 *   comet_predict                      files in, probabilities out, a batch at a time
 *
 * Images are prepared as those of the test part of the data that the weights were trained on; weights of other programs get
 * what folder:DIR does (docs/data.md). Files are decoded by threads of their own while the batch before is computed, and two
 * batches are in memory at any time, however many files there are. A predictor is used by one thread at a time.
 */
#ifndef COMET_PREDICT_H
#define COMET_PREDICT_H

#include <stdbool.h>

#include "comet/net.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct comet_predictor comet_predictor;

typedef struct comet_predictor_params {
    size_t size;
    const comet_net *net;    /* NULL: that which the file of weights carries. Used during the call only */
    uint32_t batch;          /* images at a time: 32 */
    uint32_t n_threads;      /* that compute; 0: one per core */
    uint32_t loader_threads; /* that decode; 0: one per core, at most 4 */
    bool strict; /* a file that cannot be read is an error of comet_predict instead of a prediction without classes */
} comet_predictor_params;

COMET_API void comet_predictor_params_init(comet_predictor_params *params);

/* `weights` is a safetensors file. COMET_ERROR_UNSUPPORTED where it names no net and params has none, or where the net gives
 * no single score for each class; the statuses of comet_weights_load and of comet_model_create. */
COMET_API comet_status comet_predictor_create(comet_predictor **predictor, const char *weights,
                                              const comet_predictor_params *params);
COMET_API void comet_predictor_destroy(comet_predictor *predictor); /* NULL is allowed */

COMET_API uint32_t comet_predictor_n_classes(const comet_predictor *predictor);
/* The name of a class, or NULL where the weights do not say. Valid as long as the predictor. */
COMET_API const char *comet_predictor_class(const comet_predictor *predictor, uint32_t label);

/* What was found for an image. The library sets size; a later one may know more fields. Pointers are valid during the call. */
typedef struct comet_prediction {
    size_t size;
    size_t file;                /* which of the files given */
    const char *path;           /* its path */
    bool is_array;              /* an array of NumPy, which may have several images */
    uint64_t row;               /* which of them */
    const float *probabilities; /* of each class, with a sum of 1; NULL: the image cannot be read */
    comet_status status;        /* why not; COMET_OK where there are probabilities */
    const char *error;          /* a sentence with the name of the file; NULL where there are probabilities */
} comet_prediction;

/* Called once for each image, in the order of the files, on the thread that called comet_predict. Anything but COMET_OK ends
 * it with that status. */
typedef comet_status (*comet_prediction_function)(void *user, const comet_prediction *prediction);

/* JPEG and PNG pictures, and .npy arrays of the shape N,C,H,W, N,H,W or C,H,W of images as the net takes them: u1 as bytes; f2,
 * f4 and f8 from 0 to 1, or, for weights that were trained on arrays of such numbers, as those were. COMET_ERROR_DIVERGED where
 * scores are not finite. */
COMET_API comet_status comet_predict(comet_predictor *predictor, const char *const *files, size_t n_files,
                                     comet_prediction_function found, void *user);

#ifdef __cplusplus
}
#endif

#endif
