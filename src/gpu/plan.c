/* Jobs of kernels; see plan.h. What frames look like comes from the codec's own encoder. */
#include "gpu/plan.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/describe.h"
#include "base/float_env.h"
#include "base/status.h"
#include "codec/encoder.h"

#define MAX_CHUNKS ((uint64_t)1 << 30) /* groups of a launch, with room to spare */

static uint64_t round_up(uint64_t bytes, uint64_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

static comet_status check_type(const comet_tensor *tensor)
{
    if (tensor->dtype == COMET_DTYPE_F64)
        return comet_fail(COMET_ERROR_UNSUPPORTED, "a GPU takes f32, f16 and bf16, not f64");
    return COMET_OK;
}

static comet_status check_params(const comet_params *p)
{
    if (p->level != COMET_LEVEL_FAST && p->level != COMET_LEVEL_DENSE)
        return comet_fail(COMET_ERROR_UNSUPPORTED, "a GPU takes levels fast and dense, not level %d", (int)p->level);
    if (p->profile != COMET_PROFILE_DEVICE)
        return comet_fail(COMET_ERROR_UNSUPPORTED, "a GPU takes frames of profile device only, not of profile %d",
                          (int)p->profile);
    if (p->bound_mode != COMET_BOUND_ABSOLUTE && p->bound_mode != COMET_BOUND_LOSSLESS)
        return comet_fail(COMET_ERROR_UNSUPPORTED, "a GPU takes absolute bounds only: make bound %g of mode %d absolute first",
                          p->bound, (int)p->bound_mode);
    if (p->content_checksum)
        return comet_fail(COMET_ERROR_UNSUPPORTED, "a GPU makes no frames with checksums of their chunks");
    return COMET_OK;
}

/* The largest float below `limit`. */
static float float_under(double limit)
{
    if (limit > (double)FLT_MAX)
        return FLT_MAX;
    float f = (float)limit;
    return (double)f >= limit ? nextafterf(f, 0) : f;
}

static void take_quantiser(const quantiser *q, gpu_job *job)
{
    job->mode = (uint32_t)q->mode;
    job->step = q->step;
    job->half_step = q->step / 2;
    job->inverse = q->inverse;
    job->bound = q->eb;
    job->limit = float_under((LARGEST_CODE16 - 1) / (double)q->inverse);
}

static void take_header(const frame_header *h, gpu_job *job)
{
    uint8_t bytes[4 * HEADER_WORDS] = {0};
    job->header_bytes = (uint32_t)frame_header_bytes(h->tensor.n_dims);
    frame_write_fields(h, bytes);
    memcpy(job->header, bytes, sizeof job->header);
}

static void take_tensor(const comet_tensor *tensor, const geometry *g, gpu_job *job)
{
    *job = (gpu_job){.n_elements = g->n_elements,
                     .type = (uint32_t)tensor->dtype,
                     .element_bytes = (uint32_t)comet_dtype_bytes(tensor->dtype),
                     .channels = (uint32_t)g->channels,
                     .columns = (uint32_t)g->columns,
                     .line = (uint32_t)g->line,
                     .lines = (uint32_t)g->lines};
}

/* In the codec's arithmetic. */
static void take_bound(const comet_tensor *tensor, const comet_params *params, chunk_plan *plan, gpu_job *job)
{
    fenv_t host;
    float_env_enter(&host);
    const double eb = params->bound_mode == COMET_BOUND_LOSSLESS ? 0 : params->bound;
    encoder_set_bound(plan, params, eb);
    const frame_header h = encoder_header(plan, tensor, params, eb);
    take_header(&h, job);
    job->seed = h.seed;
    job->lossless = plan->lossless;
    if (!plan->lossless)
        take_quantiser(&plan->quantiser, job);
    float_env_leave(&host);
}

/* Parts as the library makes them, and groups for them. */
static void take_parts(const chunk_plan *plan, gpu_job *job)
{
    job->part_elements = (uint32_t)geometry_part_elements(&plan->shape);
    job->parts = (uint32_t)ceil_div_u64(plan->chunk_elements, job->part_elements);
    job->groups = (job->parts + PARTS_A_GROUP - 1) / PARTS_A_GROUP;
    job->slot_bytes = round_up(DENSE_SLOT_BYTES(*job), 16);
}

comet_status gpu_plan_job(const comet_tensor *tensor, const comet_params *params, gpu_job *job)
{
    TRY(encoder_check_params(params));
    chunk_plan plan = {.kernels = NULL};
    TRY(geometry_make(tensor, &plan.shape));
    TRY(check_type(tensor));
    TRY(check_params(params));
    plan.dtype = tensor->dtype;
    plan.chunk_elements =
        params->chunk_elements ? params->chunk_elements : geometry_chunk_elements(&plan.shape, params->level, params->profile);
    const uint64_t most = geometry_most_elements(params->level, params->profile);
    if (plan.chunk_elements > most)
        return comet_fail(COMET_ERROR_UNSUPPORTED, "a GPU takes chunks of at most %llu elements, not %llu",
                          (unsigned long long)most, (unsigned long long)plan.chunk_elements);
    if (plan.shape.n_elements / plan.chunk_elements >= MAX_CHUNKS)
        return comet_fail(COMET_ERROR_UNSUPPORTED, "%llu elements in chunks of %llu are more chunks than a launch has groups",
                          (unsigned long long)plan.shape.n_elements, (unsigned long long)plan.chunk_elements);
    take_tensor(tensor, &plan.shape, job);
    job->chunk_elements = (uint32_t)plan.chunk_elements;
    job->n_chunks = ceil_div_u64(plan.shape.n_elements, plan.chunk_elements);
    job->slot_bytes = round_up(chunk_bound((size_t)plan.chunk_elements, job->element_bytes) + 4, 16);
    if (params->level == COMET_LEVEL_DENSE)
        take_parts(&plan, job);
    take_bound(tensor, params, &plan, job);
    return COMET_OK;
}

comet_status gpu_plan_summary(const comet_tensor *tensor, gpu_job *job)
{
    geometry g;
    TRY(geometry_make(tensor, &g));
    TRY(check_type(tensor));
    take_tensor(tensor, &g, job);
    if (gpu_summary_groups(job) >= MAX_CHUNKS)
        return comet_fail(COMET_ERROR_UNSUPPORTED, "%llu elements are more than a launch takes",
                          (unsigned long long)g.n_elements);
    return COMET_OK;
}

uint64_t gpu_encode_bytes(const gpu_job *job)
{
    return round_up(ENCODE_SLOTS_AT(*job) + job->n_chunks * job->slot_bytes, 16);
}

uint64_t gpu_decode_bytes(const gpu_job *job)
{
    return DECODE_CODES_AT(*job) + (job->groups ? round_up(4 * job->n_elements, 16) : 0);
}

uint64_t gpu_summary_groups(const gpu_job *job)
{
    return ceil_div_u64(job->n_elements, MAX_CHUNK);
}

uint64_t gpu_summary_bytes(const gpu_job *job)
{
    return SUMMARIES_AT(*job) + sizeof(gpu_summary) * gpu_summary_groups(job);
}

void comet_gpu_plan_init(comet_gpu_plan *plan)
{
    *plan = (comet_gpu_plan){.size = sizeof *plan};
}

comet_status comet_gpu_plan_tensor(const comet_tensor *tensor, const comet_params *params, comet_gpu_plan *plan)
{
    gpu_job job;
    if (!plan)
        return comet_fail(COMET_ERROR_ARGUMENT, "comet_gpu_plan_tensor: null pointer");
    TRY(CHECK_SIZE(comet_gpu_plan, plan));
    TRY(gpu_plan_job(tensor, params, &job));
    const uint64_t data = job.n_elements * job.element_bytes;
    const comet_gpu_plan found = {
        .n_elements = job.n_elements,
        .tensor_bytes = data,
        .chunk_elements = job.chunk_elements,
        .n_chunks = job.n_chunks,
        .frame_bytes = round_up(job.header_bytes + frame_index_bytes(job.n_chunks) + job.n_chunks * RAW_HEADER + data, 16),
        .encode_bytes = gpu_encode_bytes(&job),
        .decode_bytes = gpu_decode_bytes(&job),
        .summary_bytes = gpu_summary_bytes(&job)};
    return GIVE(comet_gpu_plan, plan, &found);
}
