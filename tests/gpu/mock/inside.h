/* What the parts of the mock share: the machine and its contexts; see mock.h. */
#ifndef COMET_TESTS_MOCK_INSIDE_H
#define COMET_TESTS_MOCK_INSIDE_H

#include <pthread.h>
#include <stdbool.h>

#include "gpu/mock/mock.h"
#include "gpu/ptx/ptx.h"

#define DRIVER __attribute__((visibility("default")))

enum {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NOT_INITIALIZED = 3,
    INVALID_DEVICE = 101,
    INVALID_CONTEXT = 201,
    INVALID_PTX = 218,
    INVALID_HANDLE = 400,
    NOT_FOUND = 500,
    LAUNCH_FAILED = 719
};
enum { MAX_DEVICES = 16 };
enum object_kind { FREE_PLACE, CONTEXT, STREAM, MODULE, FUNCTION };

typedef struct object {
    enum object_kind kind;
    struct object *context; /* of all but contexts */
    int device, users;      /* of contexts; users: of a primary one */
    bool primary;
    ptx_module *module;
    const ptx_kernel *kernel;
    mock_kernel_counts counted; /* of functions */
    ptx_count *counts;
} object;

typedef struct mock_state {
    pthread_mutex_t lock; /* of all that follows */
    ptx_machine machine;
    mock_cuda_counts counts;
    uint64_t memory; /* of each device */
} mock_state;

extern mock_state mock;

/* The thread's current context, or NULL. */
object *mock_context(void);
/* 0 where the stream is of that context; the lock is held. */
int mock_check_stream(const object *stream);

#endif
