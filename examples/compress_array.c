/*
 * Compresses an array with an error bound, decompresses it and compares the two.
 *
 * The array is made up: waves, cut at zero as a ReLU does. It has the shape of a layer's output for four images.
 * Exits 0 if every element came back within the bound.
 */
#include <comet/codec.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { IMAGES = 4, CHANNELS = 16, HEIGHT = 64, WIDTH = 64, N_ELEMENTS = IMAGES * CHANNELS * HEIGHT * WIDTH };

static const double BOUND = 0.01; /* no element may change by more than this */

static float original[N_ELEMENTS], decoded[N_ELEMENTS];

static void fill(float *array)
{
    for (int i = 0; i < N_ELEMENTS; i++) {
        const int x = i % WIDTH, y = i / WIDTH % HEIGHT, plane = i / (WIDTH * HEIGHT);
        const double wave = sin(0.11 * x + plane) + cos(0.07 * y * (1 + plane % 3));
        array[i] = wave > 0 ? (float)wave : 0.0f;
    }
}

/* Every fallible call of Comet returns a status. The sentence that explains a failure is comet_last_error(). */
static comet_status report(comet_status status, const char *what)
{
    if (status != COMET_OK)
        fprintf(stderr, "compress_array: %s: %s\n", what, comet_last_error());
    return status;
}

/* Compresses `original` into a frame and decompresses that to `decoded`. */
static comet_status round_trip(const comet_tensor *tensor, const comet_params *params, size_t *frame_bytes)
{
    size_t room = 0, bytes = 0;
    /* No frame of this tensor is larger than `room`. */
    comet_status status = report(comet_compress_bound(tensor, params, &room), "size of a frame");
    if (status != COMET_OK)
        return status;
    void *frame = malloc(room);
    if (frame == NULL) {
        fprintf(stderr, "compress_array: could not allocate %zu bytes\n", room);
        return COMET_ERROR_MEMORY;
    }
    status = report(comet_compress(tensor, params, original, frame, room, frame_bytes), "compress");
    /* A frame describes itself: decompression needs neither the shape nor the bound. */
    if (status == COMET_OK)
        status = report(comet_decompress(frame, *frame_bytes, decoded, sizeof decoded, &bytes), "decompress");
    free(frame);
    return status;
}

int main(void)
{
    const uint64_t dims[] = {IMAGES, CHANNELS, HEIGHT, WIDTH}; /* slowest first */
    comet_tensor tensor;
    comet_params params;
    comet_comparison comparison;
    size_t frame_bytes = 0;

    fill(original);
    if (report(comet_tensor_init(&tensor, COMET_DTYPE_F32, 4, dims), "describe the array") != COMET_OK)
        return EXIT_FAILURE;
    comet_params_init(&params);
    params.bound_mode = COMET_BOUND_ABSOLUTE;
    params.bound = BOUND;
    params.level = COMET_LEVEL_DENSE; /* small frames; COMET_LEVEL_FAST is several times as fast */
    if (round_trip(&tensor, &params, &frame_bytes) != COMET_OK)
        return EXIT_FAILURE;

    comet_comparison_init(&comparison);
    if (report(comet_compare(COMET_DTYPE_F32, N_ELEMENTS, original, decoded, BOUND, &comparison), "compare") != COMET_OK)
        return EXIT_FAILURE;
    printf("%zu bytes became %zu: ratio %.1f\n", sizeof original, frame_bytes, (double)sizeof original / (double)frame_bytes);
    printf("largest error %.6f, bound %.6f\n", comparison.max_error, BOUND);
    printf("%llu of %llu zeros are still zeros\n", (unsigned long long)comparison.n_zeros_kept,
           (unsigned long long)comparison.n_zeros);
    return comparison.n_violations == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
