/* A quick check that this build works on this machine: all kernel families give the same frames, within the bound. */
#ifndef COMET_CLI_SELF_TEST_H
#define COMET_CLI_SELF_TEST_H

#include <stdbool.h>

#include "comet/codec.h"
#include "kit/say.h"

typedef struct self_test {
    unsigned n_frames;   /* frames made and decoded */
    unsigned n_families; /* kernel families that ran */
    bool identical;      /* every family gave the reference's bytes */
    bool within_bound;
} self_test;

/* Uses each kernel family that can run and puts the cap back. CLI_OK means that it ran, not that it passed. */
cli_exit self_test_run(self_test *result);

#endif
