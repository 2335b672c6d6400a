/* A user's first program: compresses a small tensor, brings it back and checks the bound. Exits 0 if all is well. */
#include <comet/codec.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHANNELS = 4, HEIGHT = 24, WIDTH = 33, N_ELEMENTS = CHANNELS * HEIGHT * WIDTH };

static const double BOUND = 0.01;

static int failed(const char *what)
{
    fprintf(stderr, "consume: %s failed: %s\n", what, comet_last_error());
    return EXIT_FAILURE;
}

static void fill(float *values)
{
    for (int i = 0; i < N_ELEMENTS; i++) {
        int value = (i * 37 + i / WIDTH * 11) % 401 - 200;
        values[i] = value > 0 ? (float)value / 64.0f : 0.0f;
    }
}

/* Number of elements off by more than the bound, or zeros that did not stay zeros. */
static int count_bad(const float *original, const float *decoded)
{
    int n_bad = 0;
    for (int i = 0; i < N_ELEMENTS; i++) {
        double error = (double)original[i] - (double)decoded[i];
        int within = error <= BOUND && -error <= BOUND;
        n_bad += !within || (original[i] == 0.0f && decoded[i] != 0.0f);
    }
    return n_bad;
}

int main(void)
{
    static float original[N_ELEMENTS], decoded[N_ELEMENTS];
    const uint64_t dims[] = {CHANNELS, HEIGHT, WIDTH};
    comet_tensor tensor;
    comet_params params;
    size_t capacity = 0, frame_bytes = 0, bytes = 0;

    if (strcmp(comet_version(), COMET_VERSION_STRING) != 0) {
        fprintf(stderr, "consume: header %s, library %s\n", COMET_VERSION_STRING, comet_version());
        return EXIT_FAILURE;
    }
    fill(original);
    comet_params_init(&params);
    params.bound_mode = COMET_BOUND_ABSOLUTE;
    params.bound = BOUND;
    if (comet_tensor_init(&tensor, COMET_DTYPE_F32, 3, dims) != COMET_OK)
        return failed("comet_tensor_init");
    if (comet_compress_bound(&tensor, &params, &capacity) != COMET_OK)
        return failed("comet_compress_bound");
    void *frame = malloc(capacity);
    if (frame == NULL)
        return EXIT_FAILURE;
    if (comet_compress(&tensor, &params, original, frame, capacity, &frame_bytes) != COMET_OK)
        return failed("comet_compress");
    if (comet_decompress(frame, frame_bytes, decoded, sizeof decoded, &bytes) != COMET_OK)
        return failed("comet_decompress");
    free(frame);
    int n_bad = count_bad(original, decoded);
    printf("comet %s: %zu bytes in %zu, %d of %d elements wrong\n", comet_version(), bytes, frame_bytes, n_bad, N_ELEMENTS);
    return bytes == sizeof original && frame_bytes < bytes && n_bad == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
