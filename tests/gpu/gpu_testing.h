/* What the tests of the GPU's codec share: a device, buffers with canaries, and comparisons with the library on the CPU. */
#ifndef COMET_TESTS_GPU_TESTING_H
#define COMET_TESTS_GPU_TESTING_H

#include "comet/gpu.h"
#include "testing.h"

/* A device with buffers for tensors up to a size. Between and around them lie bytes that nobody may change. */
typedef struct rig {
    comet_gpu *gpu;
    bool exact; /* buffers have exactly the bytes that a call asks for: for devices that watch accesses themselves */
    uint64_t n_values, n_frames, n_damaged, n_refused; /* what was compared */
} rig;

/* One tensor with parameters. */
typedef struct sample_case {
    comet_tensor tensor;
    comet_params params;
    const void *x;
    const char *name;
} sample_case;

/* Compresses on the CPU and on the device; fails the test unless the frames are the same. Returns the frame, malloc'd. */
blob rig_encode(rig *r, const sample_case *c);

/* Decompresses the frame on both; fails the test unless both refuse it or both give the same bytes. A damaged frame may be
 * refused by the device alone only if `damaged`. Returns what the device says. */
comet_status rig_decode(rig *r, const sample_case *c, blob frame, bool damaged);

/* Both, and the figures of the tensor. */
void rig_check(rig *r, const sample_case *c);

/* Tensors that take every way of quantising, at both levels: codes of both widths in every mode, zeros where keep support does
 * not look for them, and outliers far apart. */
void rig_check_modes(rig *r);

/* Frames with bytes changed at random places, one, a few or a run of them, with and without repaired checksums. */
void rig_check_damaged(rig *r, const sample_case *c, test_rng *rng, size_t n_frames);

/* A tensor of any kind with any parameters that go on a GPU, with at most about `most` elements. x is malloc'd. */
sample_case random_case(test_rng *rng, uint64_t most);
void case_free(sample_case *c);
/* The case in words, for messages. */
const char *case_text(const sample_case *c);

/* A number from the environment. */
uint64_t gpu_test_number(const char *variable, uint64_t otherwise);

#endif
