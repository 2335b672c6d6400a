// The public headers from C++: they compile, link and do a round trip through a context. Exits 0 if all is well.
#include "comet/base.h"
#include "comet/codec.h"
#include "comet/npy.h"
#include "comet/store.h"
#include "comet/version.h"
#ifdef COMET_HAVE_TRAIN // these are seen to compile; the rest links the codec alone
#include "comet/budget.h"
#include "comet/data.h"
#include "comet/figures.h"
#include "comet/model.h"
#include "comet/net.h"
#include "comet/peak.h"
#include "comet/predict.h"
#include "comet/scaling.h"
#include "comet/train.h"
#include "comet/weights.h"
#endif

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

namespace
{

int failures = 0;

void expect(bool truth, const char *what)
{
    if (!truth) {
        std::fprintf(stderr, "test_cpp: %s does not hold; last error: %s\n", what, comet_last_error());
        failures++;
    }
}
#define EXPECT(condition) expect((condition), #condition)

std::vector<float> make_values(std::size_t n)
{
    std::vector<float> values(n);
    for (std::size_t i = 0; i < n; i++) {
        const float value = std::sin(0.05f * static_cast<float>(i));
        values[i] = value > 0.0f ? value : 0.0f;
    }
    return values;
}

void test_round_trip()
{
    const double bound = 1e-3;
    const std::uint64_t dims[] = {2, 3, 40, 25};
    const std::vector<float> original = make_values(2 * 3 * 40 * 25);
    std::vector<float> decoded(original.size());
    comet_tensor tensor;
    comet_params params;
    comet_encoder *encoder = nullptr;
    std::size_t capacity = 0, frame_bytes = 0, bytes = 0;

    comet_params_init(&params);
    params.bound_mode = COMET_BOUND_ABSOLUTE;
    params.bound = bound;
    EXPECT(comet_tensor_init(&tensor, COMET_DTYPE_F32, 4, dims) == COMET_OK);
    EXPECT(comet_compress_bound(&tensor, &params, &capacity) == COMET_OK);
    std::vector<unsigned char> frame(capacity);
    EXPECT(comet_encoder_create(&encoder, nullptr, 1) == COMET_OK);
    EXPECT(comet_encoder_run(encoder, &tensor, &params, original.data(), frame.data(), frame.size(), &frame_bytes, nullptr) ==
           COMET_OK);
    comet_encoder_destroy(encoder);
    EXPECT(frame_bytes > 0 && frame_bytes <= capacity);
    EXPECT(comet_decompress(frame.data(), frame_bytes, decoded.data(), decoded.size() * sizeof(float), &bytes) == COMET_OK);
    EXPECT(bytes == original.size() * sizeof(float));

    std::size_t n_bad = 0;
    for (std::size_t i = 0; i < original.size(); i++) {
        const double error = static_cast<double>(original[i]) - static_cast<double>(decoded[i]);
        if (!(std::fabs(error) <= bound))
            n_bad++;
    }
    EXPECT(n_bad == 0);
}

} // namespace

int main()
{
    EXPECT(std::string(comet_version()) == COMET_VERSION_STRING);
    EXPECT(std::string(comet_status_name(COMET_ERROR_CORRUPT)) == "COMET_ERROR_CORRUPT");
    test_round_trip();
    return failures == 0 ? 0 : 1;
}
