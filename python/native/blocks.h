/* What a session consists of, and how its blocks begin. Internal to python/native. */
#ifndef COMET_NATIVE_BLOCKS_H
#define COMET_NATIVE_BLOCKS_H

#include <pthread.h>
#include <sys/types.h>

#include "block_pool.h"
#include "comet_native.h"
#include "workers.h"

/* Addresses for a frame of any length. Only what frames have touched is resident, and little of that is kept. */
typedef struct scratch {
    void *data;
    size_t bytes;
    size_t touched;
} scratch;

struct comet_native_session {
    pid_t owner;
    workers *workers;
    block_pool *pool;
    pthread_mutex_t encoding; /* for encoder and scratch */
    comet_encoder *encoder;
    scratch scratch;
    pthread_mutex_t decoding;
    comet_decoder *decoder;
};

typedef enum block_kind { BLOCK_FRAME = 0, BLOCK_TWO = 1, BLOCK_INTEGERS = 2, BLOCK_WINDOWS = 3 } block_kind;

/* The payload follows: a frame, or 64-bit words of packed bits, which a comet_native_windows precedes in one kind. */
struct comet_native_block {
    uint32_t kind; /* block_kind */
    uint32_t element_bytes;
    uint64_t payload_bytes;
    uint64_t raw_bytes;
    uint64_t values[2]; /* two: both patterns; integers: the least value */
    uint32_t bits;      /* of an element */
    uint32_t unused[5];
};

_Static_assert(sizeof(comet_native_block) == 64, "the payload is aligned to 64 bytes");

/* A block with room for the payload, its first fields set. */
comet_status block_create(comet_native_session *session, block_kind kind, uint64_t payload_bytes, uint64_t raw_bytes,
                          comet_native_block **out);
void *block_payload(comet_native_block *block);
const void *block_payload_const(const comet_native_block *block);

/* Checks an array of n elements of 1, 2, 4 or 8 bytes. */
comet_status array_check(const void *array, uint32_t element_bytes, uint64_t n_elements);
/* Calls part(arg, first, n) for parts of n_elements elements, each first a multiple of 64, with the session's threads. */
void array_run(comet_native_session *session, uint64_t n_elements, void (*part)(void *arg, uint64_t first, uint64_t n),
               void *arg);

void two_unpack(comet_native_session *session, const comet_native_block *block, void *dst);
void integers_unpack(comet_native_session *session, const comet_native_block *block, void *dst);
void windows_unpack(comet_native_session *session, const comet_native_block *block, void *dst);

#endif
