/* See zoo.h. */
#include "zoo.h"

#include <stdlib.h>

#include "base/checksum.h"

#define F32 COMET_DTYPE_F32
#define F16 COMET_DTYPE_F16
#define BF16 COMET_DTYPE_BF16
#define F64 COMET_DTYPE_F64
#define NCHW COMET_LAYOUT_PLANAR
#define NHWC COMET_LAYOUT_CHANNELS_LAST
#define C8 COMET_LAYOUT_BLOCKED8
#define C16 COMET_LAYOUT_BLOCKED16
#define FAST COMET_LEVEL_FAST
#define DENSE COMET_LEVEL_DENSE
#define AUTO COMET_LEVEL_AUTO
#define ABSOLUTE COMET_BOUND_ABSOLUTE
#define LOSSLESS COMET_BOUND_LOSSLESS
#define RANGE COMET_BOUND_RANGE
#define STDDEV COMET_BOUND_STDDEV
#define RATIO COMET_BOUND_RATIO

/* clang-format off */
const zoo_kind zoo[] = {
    {"raw",            F32,  NCHW, {1, 1, 10, 17},  DATA_BITS,       FAST,  LOSSLESS, 0,     ZOO_PLAIN,    0,    CHUNK_RAW,   ANY_PREDICTOR,   CODES16},
    {"fast_none",      F32,  NCHW, {1, 2, 20, 24},  DATA_NOISE,      FAST,  ABSOLUTE, 0.1,   ZOO_PLAIN,    0,    CHUNK_FAST,  PREDICT_NONE,    CODES16},
    {"fast_relu",      F32,  NCHW, {1, 2, 24, 24},  DATA_RELU,       FAST,  ABSOLUTE, 0.3,   ZOO_PLAIN,    0,    CHUNK_FAST,  ANY_PREDICTOR,   CODES16},
    {"fast_left",      F32,  NCHW, {1, 1, 8, 256},  DATA_WALK_RIGHT, FAST,  ABSOLUTE, 0.02,  ZOO_PLAIN,    0,    CHUNK_FAST,  PREDICT_LEFT,    CODES16},
    {"fast_up",        F32,  NCHW, {1, 1, 64, 16},  DATA_WALK_DOWN,  FAST,  ABSOLUTE, 0.02,  ZOO_PLAIN,    0,    CHUNK_FAST,  PREDICT_UP,      CODES16},
    {"fast_lorenzo",   F32,  NCHW, {1, 1, 32, 32},  DATA_SEPARABLE,  FAST,  ABSOLUTE, 0.01,  ZOO_PLAIN,    0,    CHUNK_FAST,  PREDICT_LORENZO, CODES16},
    {"fast_linear",    F32,  NCHW, {1, 1, 48, 48},  DATA_RAMP,       FAST,  ABSOLUTE, 0.05,  ZOO_PLAIN,    0,    CHUNK_FAST,  PREDICT_LINEAR,  CODES16},
    {"fast_wide",      F32,  NCHW, {1, 1, 20, 30},  DATA_NOISE,      FAST,  ABSOLUTE, 1e-5,  ZOO_PLAIN,    0,    CHUNK_FAST,  ANY_PREDICTOR,   CODES32},
    {"dense_none",     F32,  NCHW, {1, 1, 40, 50},  DATA_NOISE,      DENSE, ABSOLUTE, 0.2,   ZOO_PLAIN,    0,    CHUNK_DENSE, PREDICT_NONE,    CODES16},
    {"dense_left",     F32,  NCHW, {1, 1, 20, 128}, DATA_WALK_RIGHT, DENSE, ABSOLUTE, 0.1,   ZOO_PLAIN,    0,    CHUNK_DENSE, PREDICT_LEFT,    CODES16},
    {"dense_lorenzo",  F32,  NCHW, {1, 1, 45, 45},  DATA_SEPARABLE,  DENSE, ABSOLUTE, 0.05,  ZOO_PLAIN,    0,    CHUNK_DENSE, PREDICT_LORENZO, CODES16},
    {"dense_median",   F32,  NCHW, {1, 1, 40, 60},  DATA_RELU,       DENSE, ABSOLUTE, 0.3,   ZOO_PLAIN,    0,    CHUNK_DENSE, PREDICT_MEDIAN,  CODES16},
    {"dense_linear",   F32,  NCHW, {1, 1, 48, 48},  DATA_RAMP,       DENSE, ABSOLUTE, 0.1,   ZOO_PLAIN,    0,    CHUNK_DENSE, PREDICT_LINEAR,  CODES16},
    {"dense_wide",     F32,  NCHW, {1, 1, 40, 60},  DATA_SMOOTH,     DENSE, ABSOLUTE, 1e-4,  ZOO_PLAIN,    0,    CHUNK_DENSE, ANY_PREDICTOR,   CODES32},
    {"dense_wave",     F32,  NCHW, {1, 1, 70, 150}, DATA_RELU,       DENSE, ABSOLUTE, 0.2,   ZOO_PLAIN,    0,    CHUNK_DENSE, PREDICT_WAVE,    CODES16},
    {"dense_volume",   F32,  NCHW, {1, 4, 37, 130}, DATA_PLANES,     DENSE, ABSOLUTE, 0.05,  ZOO_PLAIN,    0,    CHUNK_DENSE, PREDICT_VOLUME,  CODES16},
    {"wave_wide",      F32,  NCHW, {1, 1, 40, 128}, DATA_WALK_DOWN,  DENSE, ABSOLUTE, 1e-4,  ZOO_PLAIN,    0,    CHUNK_DENSE, PREDICT_WAVE,    CODES32},
    {"volume_wide",    F64,  NCHW, {1, 2, 33, 129}, DATA_PLANES,     DENSE, ABSOLUTE, 1e-4,  ZOO_PLAIN,    0,    CHUNK_DENSE, PREDICT_VOLUME,  CODES32},
    {"wave_support",   F32,  NCHW, {1, 2, 40, 144}, DATA_RELU,       DENSE, ABSOLUTE, 0.5,   ZOO_SUPPORT,  0,    CHUNK_DENSE, ANY_PREDICTOR,   CODES16},
    {"lossless_f32",   F32,  NCHW, {1, 1, 20, 30},  DATA_RELU,       FAST,  LOSSLESS, 0,     ZOO_PLAIN,    0,    CHUNK_FAST,  ANY_PREDICTOR,   CODES32},
    {"lossless_f16",   F16,  NCHW, {1, 1, 20, 30},  DATA_SMOOTH,     FAST,  LOSSLESS, 0,     ZOO_PLAIN,    0,    CHUNK_FAST,  ANY_PREDICTOR,   CODES32},
    {"lossless_bf16",  BF16, NCHW, {1, 1, 20, 30},  DATA_SMOOTH,     FAST,  LOSSLESS, 0,     ZOO_PLAIN,    0,    CHUNK_FAST,  ANY_PREDICTOR,   CODES32},
    {"lossless_f64",   F64,  NCHW, {1, 1, 20, 30},  DATA_SPARSE,     DENSE, LOSSLESS, 0,     ZOO_PLAIN,    0,    CHUNK_FAST,  ANY_PREDICTOR,   CODES64},
    {"lossless_dense", F32,  NCHW, {1, 1, 50, 50},  DATA_SPARSE,     DENSE, LOSSLESS, 0,     ZOO_PLAIN,    0,    CHUNK_DENSE, ANY_PREDICTOR,   CODES32},
    {"support_fast",   F32,  NCHW, {1, 1, 20, 40},  DATA_RELU,       FAST,  ABSOLUTE, 0.5,   ZOO_SUPPORT,  0,    CHUNK_FAST,  ANY_PREDICTOR,   CODES16},
    {"support_dense",  F32,  NCHW, {1, 1, 45, 45},  DATA_RELU,       DENSE, ABSOLUTE, 0.5,   ZOO_SUPPORT,  0,    CHUNK_DENSE, ANY_PREDICTOR,   CODES16},
    {"dither_fast",    F32,  NCHW, {1, 1, 20, 40},  DATA_SMOOTH,     FAST,  ABSOLUTE, 0.1,   ZOO_DITHER,   320,  CHUNK_FAST,  ANY_PREDICTOR,   CODES16},
    {"dither_dense",   F64,  NCHW, {1, 1, 40, 50},  DATA_SMOOTH,     DENSE, ABSOLUTE, 0.2,   ZOO_DITHER,   0,    CHUNK_DENSE, ANY_PREDICTOR,   CODES16},
    {"outliers",       F32,  NCHW, {1, 1, 20, 40},  DATA_SPIKES,     FAST,  ABSOLUTE, 0.005, ZOO_PLAIN,    0,    CHUNK_FAST,  ANY_PREDICTOR,   CODES16},
    {"nonfinite",      F32,  NCHW, {1, 1, 20, 40},  DATA_NONFINITE,  FAST,  ABSOLUTE, 0.05,  ZOO_PLAIN,    0,    CHUNK_FAST,  ANY_PREDICTOR,   CODES16},
    {"f16",            F16,  NCHW, {1, 2, 16, 40},  DATA_RELU,       FAST,  ABSOLUTE, 0.05,  ZOO_PLAIN,    0,    CHUNK_FAST,  ANY_PREDICTOR,   CODES16},
    {"bf16",           BF16, NCHW, {1, 2, 16, 40},  DATA_RELU,       FAST,  ABSOLUTE, 0.05,  ZOO_PLAIN,    0,    CHUNK_FAST,  ANY_PREDICTOR,   CODES16},
    {"f64",            F64,  NCHW, {1, 2, 16, 40},  DATA_RELU,       FAST,  ABSOLUTE, 0.05,  ZOO_PLAIN,    0,    CHUNK_FAST,  ANY_PREDICTOR,   CODES16},
    {"nhwc_fast",      F32,  NHWC, {2, 5, 12, 14},  DATA_SMOOTH,     FAST,  ABSOLUTE, 0.05,  ZOO_PLAIN,    0,    CHUNK_FAST,  ANY_PREDICTOR,   CODES16},
    {"nhwc_dense",     F32,  NHWC, {2, 24, 9, 9},   DATA_SMOOTH,     DENSE, ABSOLUTE, 0.05,  ZOO_PLAIN,    0,    CHUNK_DENSE, ANY_PREDICTOR,   CODES16},
    {"c8_fast",        F32,  C8,   {1, 10, 9, 9},   DATA_SMOOTH,     FAST,  ABSOLUTE, 0.05,  ZOO_PLAIN,    0,    CHUNK_FAST,  ANY_PREDICTOR,   CODES16},
    {"c16_dense",      F32,  C16,  {1, 20, 10, 10}, DATA_SMOOTH,     DENSE, ABSOLUTE, 0.05,  ZOO_PLAIN,    0,    CHUNK_DENSE, ANY_PREDICTOR,   CODES16},
    {"chunks",         F32,  NCHW, {1, 3, 20, 21},  DATA_RELU,       FAST,  ABSOLUTE, 0.1,   ZOO_CHECKSUM, 200,  CHUNK_FAST,  ANY_PREDICTOR,   CODES16},
    {"auto",           F32,  NCHW, {1, 4, 40, 40},  DATA_RELU,       AUTO,  ABSOLUTE, 0.3,   ZOO_CHECKSUM, 3200, CHUNK_FAST , ANY_PREDICTOR,   CODES16},
    {"range",          F32,  NCHW, {1, 1, 20, 20},  DATA_SMOOTH,     FAST,  RANGE,    0.01,  ZOO_PLAIN,    0,    CHUNK_FAST,  ANY_PREDICTOR,   CODES16},
    {"stddev",         F32,  NCHW, {1, 1, 20, 20},  DATA_SMOOTH,     FAST,  STDDEV,   0.1,   ZOO_PLAIN,    0,    CHUNK_FAST,  ANY_PREDICTOR,   CODES16},
    {"ratio",          F32,  NCHW, {1, 1, 40, 40},  DATA_SMOOTH,     FAST,  RATIO,    6,     ZOO_PLAIN,    0,    CHUNK_FAST,  ANY_PREDICTOR,   CODES16},
    {"large",          F32,  NCHW, {1, 1, 256, 200}, DATA_CONSTANT,  FAST,  ABSOLUTE, 0.1,   ZOO_PLAIN,    0,    CHUNK_FAST,  ANY_PREDICTOR,   CODES16},
    {"one",            F32,  NCHW, {1, 1, 1, 1},    DATA_NOISE,      FAST,  ABSOLUTE, 0.1,   ZOO_PLAIN,    0,    CHUNK_RAW,   ANY_PREDICTOR,   CODES16},
    {"empty",          F32,  NCHW, {1, 0, 1, 1},    DATA_NOISE,      DENSE, ABSOLUTE, 0.1,   ZOO_PLAIN,    0,    CHUNK_RAW,   ANY_PREDICTOR,   CODES16},
    {"nonzero_fast",   F32,  NCHW, {1, 1, 20, 40},  DATA_NOISE,      FAST,  ABSOLUTE, 0.5,   ZOO_SUPPORT,  0,    CHUNK_FAST,  ANY_PREDICTOR,   CODES16},
    {"nonzero_dense",  F16,  NCHW, {1, 1, 45, 45},  DATA_SMOOTH,     DENSE, ABSOLUTE, 0.5,   ZOO_SUPPORT,  0,    CHUNK_DENSE, ANY_PREDICTOR,   CODES16},
    {"device_fast",    F32,  NCHW, {1, 2, 90, 96},  DATA_RELU,       FAST,  ABSOLUTE, 0.1,   ZOO_DEVICE,   0,    CHUNK_FAST,  ANY_PREDICTOR,   CODES16},
    {"device_spikes",  BF16, C16,  {1, 16, 30, 30}, DATA_SPIKES,     FAST,  ABSOLUTE, 0.02,  ZOO_DEVICE,   0,    CHUNK_FAST,  ANY_PREDICTOR,   CODES16},
    {"parts_median",   F32,  NCHW, {1, 70, 14, 14}, DATA_RELU,       DENSE, ABSOLUTE, 0.02,  ZOO_DEVICE,   0,    CHUNK_PARTS, PREDICT_MEDIAN,  CODES16},
    {"parts_wave",     F32,  NCHW, {1, 2, 90, 96},  DATA_RELU,       DENSE, ABSOLUTE, 0.2,   ZOO_DEVICE,   0,    CHUNK_PARTS, PREDICT_WAVE,    CODES16},
    {"parts_left",     F32,  NCHW, {1, 5, 1, 999},  DATA_SMOOTH,     DENSE, ABSOLUTE, 0.02,  ZOO_DEVICE,   0,    CHUNK_PARTS, PREDICT_LEFT,    CODES16},
    {"parts_lorenzo",  F32,  NCHW, {1, 1, 45, 45},  DATA_SEPARABLE,  DENSE, ABSOLUTE, 0.05,  ZOO_DEVICE,   0,    CHUNK_PARTS, PREDICT_LORENZO, CODES16},
    {"parts_none",     F32,  NCHW, {1, 1, 40, 50},  DATA_NOISE,      DENSE, ABSOLUTE, 0.2,   ZOO_DEVICE,   0,    CHUNK_PARTS, PREDICT_NONE,    CODES16},
    {"parts_wide",     F64,  NHWC, {1, 20, 20, 20}, DATA_SMOOTH,     DENSE, ABSOLUTE, 1e-4,  ZOO_DEVICE,   0,    CHUNK_PARTS, ANY_PREDICTOR,   CODES32},
    {"parts_blocked",  F16,  C16,  {1, 20, 24, 24}, DATA_SMOOTH,     DENSE, ABSOLUTE, 0.05,  ZOO_DEVICE,   5003, CHUNK_PARTS, ANY_PREDICTOR,   CODES16},
    {"parts_lossless", F32,  NCHW, {1, 1, 50, 50},  DATA_SPARSE,     DENSE, LOSSLESS, 0,     ZOO_DEVICE,   0,    CHUNK_PARTS, ANY_PREDICTOR,   CODES32},
};
/* clang-format on */
const size_t zoo_size = COUNT_OF(zoo);

specimen specimen_make(const zoo_kind *kind)
{
    specimen s = {.tensor = tensor_of(kind->dtype, kind->layout, 4, kind->dims), .params = params_of(kind->level, kind->bound)};
    s.params.bound_mode = kind->bound_mode;
    s.params.keep_support = kind->option == ZOO_SUPPORT;
    s.params.dither = kind->option == ZOO_DITHER;
    s.params.dither_seed = 12345;
    s.params.content_checksum = kind->option == ZOO_CHECKSUM;
    s.params.profile = kind->option == ZOO_DEVICE ? COMET_PROFILE_DEVICE : COMET_PROFILE_HOST;
    s.params.chunk_elements = kind->chunk_elements;
    s.x = make_data(comet_checksum(kind->name, strlen(kind->name)), kind->data, &s.tensor);
    return s;
}

void specimen_free(specimen *s)
{
    free(s->x);
}

blob zoo_frame(const zoo_kind *kind)
{
    specimen s = specimen_make(kind);
    blob frame = encode(NULL, &s.tensor, &s.params, s.x, NULL);
    specimen_free(&s);
    return frame;
}

void zoo_check(const zoo_kind *kind, blob frame)
{
    comet_frame_info info = info_of(frame);
    const uint8_t *payload = frame.data + info.header_bytes;
    if (info.n_chunks == 0)
        return;
    bool ok = payload[0] == kind->mode;
    if (kind->mode != CHUNK_RAW)
        ok = ok && payload[1] == kind->width && (kind->predictor == ANY_PREDICTOR || payload[2] == kind->predictor);
    if (!ok)
        fail_because("%s: the first chunk has mode %d, width %d, predictor %d", kind->name, payload[0], payload[1], payload[2]);
}
