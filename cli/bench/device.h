/* A GPU, or another device of OpenCL or CUDA, that runs level fast on one tensor at a time. */
#ifndef COMET_CLI_DEVICE_H
#define COMET_CLI_DEVICE_H

#include <stdbool.h>

#include "comet/codec.h"
#include "kit/say.h"

/* What is known of a device without opening it. */
typedef struct device_facts {
    char name[24], device[128], driver[128];
    uint64_t memory_bytes;
    unsigned n_units, shared_bytes;
    bool is_cpu;
    char unfit[192]; /* why it cannot be used; empty where it can */
} device_facts;

enum { DEVICES_MOST = 16 };

/* Why this build has no devices at all, or NULL. */
const char *device_missing(void);

/* The devices of all back ends that have a driver here; returns how many were stored. */
unsigned device_list(device_facts list[DEVICES_MOST]);

typedef struct device device;

cli_exit device_open(const char *name, device **d);
void device_close(device *d); /* NULL is allowed */

/* Takes a tensor to the device, with room for all that the next calls need. *capacity becomes the room that its frame may need.
 */
cli_exit device_prepare(device *d, const comet_tensor *tensor, const comet_params *params, const void *src, size_t *capacity);

/* Each runs on the device and waits for it. */
cli_exit device_encode(device *d, size_t *frame_bytes);
cli_exit device_decode(device *d);
cli_exit device_copy(device *d); /* of the tensor, to measure with */

/* The results of device_encode and device_decode. */
cli_exit device_read_frame(device *d, void *frame);
cli_exit device_read_tensor(device *d, void *tensor);

/* Is the device's frame, as device_read_frame gave it, the one that the CPU makes? */
cli_exit device_compare(const device *d, const void *frame, size_t frame_bytes, bool *same);

#endif
