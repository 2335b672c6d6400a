/*
 * A codec as the benchmark sees it: ours or another's, on one tensor at one bound.
 */
#ifndef COMET_CLI_CONTENDER_H
#define COMET_CLI_CONTENDER_H

#include <stdbool.h>

#include "comet/codec.h"
#include "kit/say.h"

typedef struct contender_task {
    const comet_tensor *tensor;
    const void *src;
    size_t bytes;
    double eb; /* absolute; 0 is lossless */
    comet_level level;
    comet_profile profile; /* only our codec has these */
    bool keep_support, dither;
    size_t n_threads;
    const char *device; /* of contender_device */
} contender_task;

typedef struct contender {
    const char *name;
    const char *level; /* the level that is shown; NULL: the task's level */
    bool (*accepts)(const contender_task *task);
    /* `task` outlives the state. *capacity becomes the room that compress needs. */
    cli_exit (*open)(const contender_task *task, void **state, size_t *capacity);
    cli_exit (*compress)(void *state, void *dst, size_t capacity, size_t *frame_bytes);
    cli_exit (*decompress)(void *state, void *frame, size_t frame_bytes, void *dst);
    /* NULL, or of a codec on a device: fetches what the two calls before left there, and says whether the frame is the one that
     * the CPU makes. */
    cli_exit (*fetch)(void *state, void *frame, size_t frame_bytes, void *dst, bool *same_bytes);
    void (*close)(void *state);
} contender;

extern const contender contender_comet, contender_device;

/* The other codecs, NULL where the build did not find the library, and the version of the library. */
const contender *contender_zfp(void);
const contender *contender_zstd(void);
const char *contender_zfp_version(void);
const char *contender_zstd_version(void);

#endif
