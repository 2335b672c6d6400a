/* What the tests of the codec's calls share. */
#ifndef COMET_TESTS_CODEC_TESTING_H
#define COMET_TESTS_CODEC_TESTING_H

#include "testing.h"

static const comet_level levels[] = {COMET_LEVEL_FAST, COMET_LEVEL_DENSE, COMET_LEVEL_AUTO};
static const comet_layout layouts[] = {COMET_LAYOUT_PLANAR, COMET_LAYOUT_CHANNELS_LAST, COMET_LAYOUT_BLOCKED8,
                                       COMET_LAYOUT_BLOCKED16};
static const comet_dtype dtypes[] = {COMET_DTYPE_F32, COMET_DTYPE_F16, COMET_DTYPE_BF16, COMET_DTYPE_F64};

static inline comet_params params_with(comet_level level, comet_bound_mode mode, double bound)
{
    comet_params p = params_of(level, bound);
    p.bound_mode = mode;
    return p;
}

#endif
