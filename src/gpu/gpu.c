/* The calls of comet/gpu.h that launch: arguments are checked, a job is made, its kernels go to the queue one after the other.
 */
#include "base/bytes.h"
#include "base/status.h"
#include "gpu/device.h"
#include "gpu/plan.h"

_Static_assert(sizeof(comet_gpu_result) == sizeof(gpu_result), "the device's result is the caller's");
_Static_assert(sizeof(comet_gpu_summary) == sizeof(gpu_summary), "the device's summary is the caller's");
_Static_assert(COMET_ERROR_CAPACITY == STATUS_CAPACITY && COMET_ERROR_CORRUPT == STATUS_CORRUPT &&
                   COMET_ERROR_UNSUPPORTED == STATUS_UNSUPPORTED,
               "statuses have the same numbers");

/* The kernels of one call. */
typedef struct sequence {
    comet_gpu *gpu;
    void *queue;
    gpu_buffers buffers;
    gpu_job *job;
    comet_status status; /* of the first failure */
} sequence;

static void add(sequence *s, enum gpu_kernel kernel, uint64_t n_groups)
{
    if (s->status == COMET_OK && n_groups)
        s->status = s->gpu->backend->launch(s->gpu->device, s->queue, kernel, (uint32_t)n_groups, &s->buffers, s->job);
}

/* Checks what all calls have in common, and holds the device for the call. */
static comet_status begin(comet_gpu *gpu, void *queue, gpu_job *job, sequence *s)
{
    TRY(gpu->backend->check_queue(gpu->device, queue));
    gpu_device_lock(gpu);
    *s = (sequence){.gpu = gpu, .queue = queue, .job = job};
    return COMET_OK;
}

static comet_status end(sequence *s)
{
    gpu_device_unlock(s->gpu);
    return s->status;
}

static comet_status check_place(const comet_gpu *gpu, const char *what, comet_gpu_pointer p, uint64_t unit)
{
    const uint64_t at = (gpu->backend->has_addresses ? p.memory : 0) + p.offset;
    if (!p.memory)
        return comet_fail(COMET_ERROR_ARGUMENT, "the %s is null", what);
    if (at % unit)
        return comet_fail(COMET_ERROR_ARGUMENT, "the %s begins at byte %llu of its memory, which is not at a multiple of %llu",
                          what, (unsigned long long)p.offset, (unsigned long long)unit);
    return COMET_OK;
}

static comet_status check_work(const comet_gpu *gpu, const gpu_job *job, comet_gpu_pointer x, comet_gpu_pointer workspace,
                               comet_gpu_pointer result)
{
    if (job->n_elements)
        TRY(check_place(gpu, "tensor", x, job->element_bytes));
    TRY(check_place(gpu, "workspace", workspace, 16));
    return check_place(gpu, "result", result, 16);
}

/* Both widths where the elements decide on it. */
static void add_coded(sequence *s, enum gpu_kernel kernel16, enum gpu_kernel kernel32, uint64_t n_groups)
{
    if (!s->job->lossless)
        add(s, kernel16, n_groups);
    add(s, kernel32, n_groups);
}

static void encode_dense_kernels(sequence *s)
{
    const uint64_t n = s->job->n_chunks, groups = n * s->job->groups;
    add_coded(s, GPU_QUANTISE_PARTS16, GPU_QUANTISE_PARTS32, groups);
    if (!s->job->lossless && s->job->mode == MODE_SUPPORT) {
        s->job->pass = 1;
        add_coded(s, GPU_QUANTISE_PARTS16, GPU_QUANTISE_PARTS32, groups);
    }
    add_coded(s, GPU_SAMPLE_PARTS16, GPU_SAMPLE_PARTS32, n * SAMPLES(*s->job));
    add(s, GPU_CHOOSE_PARTS, n);
    add_coded(s, GPU_MODEL_PARTS16, GPU_MODEL_PARTS32, groups);
    add(s, GPU_TABULATE_PARTS, n);
    add_coded(s, GPU_CODE_PARTS16, GPU_CODE_PARTS32, groups);
    add(s, GPU_SIZE_PARTS, n);
    add(s, GPU_PLACE, 1);
    add_coded(s, GPU_WRITE_PARTS16, GPU_WRITE_PARTS32, groups);
    add(s, GPU_WRITE_MISFITS, n);
    add(s, GPU_COMPACT, 1);
}

static void encode_kernels(sequence *s)
{
    const uint64_t n = s->job->n_chunks;
    if (s->job->groups) {
        encode_dense_kernels(s);
        return;
    }
    add(s, s->job->lossless ? GPU_ENCODE32 : GPU_ENCODE16, n);
    if (!s->job->lossless) {
        s->job->pass = 1;
        add(s, GPU_ENCODE32, n);
        add(s, GPU_ENCODE16, n);
    }
    add(s, GPU_PLACE, 1);
    add(s, GPU_COMPACT, n + 1);
}

/* Frame and arena are checked. */
static comet_status encode(comet_gpu *gpu, gpu_job *job, comet_gpu_pointer src, uint64_t frame_memory,
                           comet_gpu_pointer workspace, comet_gpu_pointer result, void *queue)
{
    sequence s;
    TRY(check_work(gpu, job, src, workspace, result));
    TRY(begin(gpu, queue, job, &s));
    job->x_offset = src.offset;
    job->work_offset = workspace.offset;
    job->result_offset = result.offset;
    s.buffers = (gpu_buffers){job->n_elements ? src.memory : workspace.memory, frame_memory, workspace.memory, result.memory};
    encode_kernels(&s);
    return end(&s);
}

comet_status comet_gpu_encode(comet_gpu *gpu, const comet_tensor *tensor, const comet_params *params, comet_gpu_pointer src,
                              comet_gpu_pointer frame, uint64_t capacity, comet_gpu_pointer workspace, comet_gpu_pointer result,
                              void *queue)
{
    gpu_job job;
    if (!gpu)
        return comet_fail(COMET_ERROR_ARGUMENT, "comet_gpu_encode: null pointer");
    TRY(gpu_plan_job(tensor, params, &job));
    TRY(check_place(gpu, "frame", frame, 16));
    job.frame_offset = frame.offset;
    job.capacity = capacity;
    return encode(gpu, &job, src, frame.memory, workspace, result, queue);
}

static comet_status check_arena(const comet_gpu *gpu, const comet_gpu_arena *arena)
{
    if (!arena)
        return comet_fail(COMET_ERROR_ARGUMENT, "the arena is null");
    TRY(check_place(gpu, "arena", arena->memory, 256));
    if (arena->bytes < 2 * COMET_GPU_ARENA_HEAD)
        return comet_fail(COMET_ERROR_ARGUMENT, "an arena of %llu bytes has no room beside its head of %d",
                          (unsigned long long)arena->bytes, COMET_GPU_ARENA_HEAD);
    return COMET_OK;
}

comet_status comet_gpu_encode_to_arena(comet_gpu *gpu, const comet_tensor *tensor, const comet_params *params,
                                       comet_gpu_pointer src, const comet_gpu_arena *arena, comet_gpu_pointer workspace,
                                       comet_gpu_pointer result, void *queue)
{
    gpu_job job;
    if (!gpu)
        return comet_fail(COMET_ERROR_ARGUMENT, "comet_gpu_encode_to_arena: null pointer");
    TRY(gpu_plan_job(tensor, params, &job));
    TRY(check_arena(gpu, arena));
    job.use_arena = 1;
    job.arena_offset = arena->memory.offset;
    job.frame_offset = arena->memory.offset + COMET_GPU_ARENA_HEAD;
    return encode(gpu, &job, src, arena->memory.memory, workspace, result, queue);
}

comet_status comet_gpu_arena_reset(comet_gpu *gpu, const comet_gpu_arena *arena, uint64_t kept, void *queue)
{
    sequence s;
    gpu_job job = {.n_elements = 0};
    if (!gpu)
        return comet_fail(COMET_ERROR_ARGUMENT, "comet_gpu_arena_reset: null pointer");
    TRY(check_arena(gpu, arena));
    job.capacity = arena->bytes - COMET_GPU_ARENA_HEAD;
    if (kept <= job.capacity) /* frames begin at multiples of 256 */
        job.n_elements = min_u64((kept + 255) / 256 * 256, job.capacity);
    else
        return comet_fail(COMET_ERROR_ARGUMENT, "%llu bytes to be kept of an arena with room for %llu",
                          (unsigned long long)kept, (unsigned long long)job.capacity);
    TRY(begin(gpu, queue, &job, &s));
    job.arena_offset = arena->memory.offset;
    const uint64_t m = arena->memory.memory;
    s.buffers = (gpu_buffers){m, m, m, m};
    add(&s, GPU_RESET_ARENA, 1);
    return end(&s);
}

/* The builds for 16 bits take raw chunks, too. */
static void decode_kernels(sequence *s)
{
    const uint64_t n = s->job->n_chunks;
    if (!s->job->groups) {
        add(s, GPU_DECODE16, n);
        add(s, GPU_DECODE32, n);
        return;
    }
    add(s, GPU_DECODE_PARTS16, n * s->job->groups);
    add(s, GPU_DECODE_PARTS32, n * s->job->groups);
    add(s, GPU_PUT_OUTLIERS, n);
}

comet_status comet_gpu_decode(comet_gpu *gpu, const comet_tensor *tensor, const comet_params *params, comet_gpu_pointer frame,
                              uint64_t frame_bytes, comet_gpu_pointer dst, comet_gpu_pointer workspace,
                              comet_gpu_pointer result, void *queue)
{
    sequence s;
    gpu_job job;
    if (!gpu)
        return comet_fail(COMET_ERROR_ARGUMENT, "comet_gpu_decode: null pointer");
    TRY(gpu_plan_job(tensor, params, &job));
    TRY(check_place(gpu, "frame", frame, 16));
    TRY(check_work(gpu, &job, dst, workspace, result));
    TRY(begin(gpu, queue, &job, &s));
    job.x_offset = dst.offset;
    job.frame_offset = frame.offset;
    job.capacity = frame_bytes;
    job.work_offset = workspace.offset;
    job.result_offset = result.offset;
    s.buffers = (gpu_buffers){job.n_elements ? dst.memory : workspace.memory, frame.memory, workspace.memory, result.memory};
    add(&s, GPU_OPEN_FRAME, 1);
    decode_kernels(&s);
    add(&s, GPU_CHECK_INDEX, 1);
    return end(&s);
}

comet_status comet_gpu_summarise(comet_gpu *gpu, const comet_tensor *tensor, comet_gpu_pointer src, comet_gpu_pointer workspace,
                                 comet_gpu_pointer summary, void *queue)
{
    sequence s;
    gpu_job job;
    if (!gpu)
        return comet_fail(COMET_ERROR_ARGUMENT, "comet_gpu_summarise: null pointer");
    TRY(gpu_plan_summary(tensor, &job));
    TRY(check_work(gpu, &job, src, workspace, summary));
    TRY(begin(gpu, queue, &job, &s));
    job.x_offset = src.offset;
    job.work_offset = workspace.offset;
    job.result_offset = summary.offset;
    const uint64_t x = job.n_elements ? src.memory : workspace.memory;
    s.buffers = (gpu_buffers){x, workspace.memory, workspace.memory, summary.memory};
    add(&s, GPU_SUMMARISE, gpu_summary_groups(&job));
    add(&s, GPU_TOTAL, 1);
    return end(&s);
}
