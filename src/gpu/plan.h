/* From a tensor and parameters to sizes and to the job that kernels get. */
#ifndef COMET_GPU_PLAN_H
#define COMET_GPU_PLAN_H

#include "comet/gpu.h"
#include "gpu/kernel_types.h"

/* Checks that the two go on a GPU; fills the job but for offsets, capacity and what a launch decides. */
comet_status gpu_plan_job(const comet_tensor *tensor, const comet_params *params, gpu_job *job);

/* The same for the figures of a tensor, which need no parameters. */
comet_status gpu_plan_summary(const comet_tensor *tensor, gpu_job *job);

/* Bytes of workspaces. */
uint64_t gpu_encode_bytes(const gpu_job *job);
uint64_t gpu_decode_bytes(const gpu_job *job);
uint64_t gpu_summary_bytes(const gpu_job *job);

/* Chunks of MAX_CHUNK elements: the groups that sum up figures. */
uint64_t gpu_summary_groups(const gpu_job *job);

#endif
