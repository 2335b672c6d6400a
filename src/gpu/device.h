/* An open device. */
#ifndef COMET_GPU_DEVICE_H
#define COMET_GPU_DEVICE_H

#include <pthread.h>

#include "gpu/backend.h"

struct comet_gpu {
    const gpu_backend *backend;
    void *device;
    pthread_mutex_t lock; /* launches of one call stay together; kernels' arguments are set and used under it */
};

void gpu_device_lock(comet_gpu *gpu);
void gpu_device_unlock(comet_gpu *gpu);

#endif
