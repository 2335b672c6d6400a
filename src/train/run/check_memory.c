/* Does a model fit into what the machine gives to this process? */
#include <inttypes.h>
#include <stdio.h>

#include "base/bytes.h"
#include "base/machine.h"
#include "base/status.h"
#include "base/threads.h"
#include "comet/budget.h"
#include "comet/ranks.h"
#include "train/data/dataset.h"

/* Addresses that malloc and oneDNN take after a net was planned. */
static const uint64_t later_addresses = 12 << 20;

/* The address space of threads that are yet to be started: whole stacks, of which they touch little. Layers and the codec have
 * threads of their own each. */
static uint64_t stacks_of(const comet_model_params *params)
{
    const size_t n = params->n_threads > 0 ? params->n_threads : comet_cores();
    return comet_stack_bytes() * (2 * (n - 1) + loader_threads(0));
}

/* A plan and the queues of loaders. */
static comet_status bytes_needed(const comet_net *net, const comet_model_params *params, uint32_t batch,
                                 uint64_t bytes_per_image, uint64_t *bytes)
{
    comet_model_params changed = *params;
    comet_memory memory;
    comet_memory_init(&memory);
    changed.batch = batch;
    const comet_status status = comet_model_plan(net, &changed, &memory);
    if (status == COMET_OK)
        *bytes = memory.total + bytes_per_image * batch;
    return status;
}

/* The largest batch below params->batch that needs no more than `room`, or 0. */
static comet_status largest_batch(const comet_net *net, const comet_model_params *params, uint64_t bytes_per_image,
                                  uint64_t room, uint32_t *batch)
{
    uint32_t fits = 0, too_large = params->batch;
    while (too_large - fits > 1) {
        const uint32_t middle = fits + (too_large - fits) / 2;
        uint64_t bytes = 0;
        const comet_status status = bytes_needed(net, params, middle, bytes_per_image, &bytes);
        if (status != COMET_OK)
            return status;
        if (bytes <= room)
            fits = middle;
        else
            too_large = middle;
    }
    *batch = fits;
    return COMET_OK;
}

static comet_status refuse(const comet_net *net, const comet_model_params *params, uint64_t bytes_per_image, uint64_t bytes,
                           uint64_t beside, const comet_memory_limit *limit)
{
    char fitting[64] = "not even batch 1 would fit";
    const double mib = 1 << 20;
    uint32_t batch = 0;
    const comet_status status = largest_batch(net, params, bytes_per_image, sub_u64(limit->bytes, beside), &batch);
    if (status != COMET_OK)
        return status;
    if (batch > 0)
        snprintf(fitting, sizeof fitting, "batch %" PRIu32 " would fit", batch);
    return comet_fail(COMET_ERROR_MEMORY, "batch %" PRIu32 " needs %.0f MiB, %.0f MiB are free (%s); %s", params->batch,
                      (double)(bytes + beside) / mib, (double)limit->bytes / mib, limit->name, fitting);
}

#define LEAST_AVAILABLE ((uint64_t)64 << 20)

comet_status comet_model_check_memory(const comet_net *net, const comet_model_params *params, uint64_t bytes_per_image)
{
    comet_memory_limit resident, address;
    comet_memory_limit_init(&resident);
    comet_memory_limit_init(&address);
    TRY(comet_memory_resident_limit(&resident));
    if (params->ranks && resident.bytes < UINT64_MAX) /* the machine's memory is for all its ranks */
        resident.bytes /= params->ranks->n_on_node;
    TRY(comet_memory_address_limit(&address));
    const comet_memory_limit least = resident.bytes < address.bytes ? resident : address;
    uint64_t bytes = 0;
    if (least.bytes < LEAST_AVAILABLE) /* oneDNN does not survive a lack of memory for its code while a net is planned */
        return comet_fail(COMET_ERROR_MEMORY, "%.0f MiB are free (%s); no net trains in less than %.0f",
                          (double)least.bytes / (1 << 20), least.name, (double)LEAST_AVAILABLE / (1 << 20));
    const comet_status status = bytes_needed(net, params, params->batch, bytes_per_image, &bytes);
    if (status != COMET_OK)
        return status;
    /* After the plan: each kernel that it made has 256 KiB of addresses, however short it is, and is used again by the run. */
    TRY(comet_memory_address_limit(&address));
    const uint64_t stacks = stacks_of(params) + later_addresses;
    const uint64_t room = sub_u64(resident.bytes, COMET_MEMORY_BESIDE_PLAN), address_room = sub_u64(address.bytes, stacks);
    if (bytes <= room && bytes <= address_room)
        return COMET_OK;
    if (room < address_room)
        return refuse(net, params, bytes_per_image, bytes, COMET_MEMORY_BESIDE_PLAN, &resident);
    return refuse(net, params, bytes_per_image, bytes, stacks, &address);
}
