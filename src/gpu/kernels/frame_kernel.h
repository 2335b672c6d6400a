/*
 * What surrounds the chunks: header, index, checksums, and the figures of a tensor. These kernels are in the build for 16-bit
 * codes only.
 *
 *   place      one group: sums the chunks' bytes, takes room for the frame, writes header and index, reports
 *   compact    a group a chunk: slot to frame; one more group: the index's checksum
 *   open       one group: checks the header against the expected one, sums the index
 *   check      one group: the index's checksum
 *   summarise  a group a chunk; then one group: total
 */
#ifndef COMET_GPU_FRAME_H
#define COMET_GPU_FRAME_H

#if CODE_BITS == 16

#define INDEX_ENTRY 8
#define CHECKSUM 8
#define FRAME_LENGTH_WORD 14 /* of the header: two words */

/* ---- XXH64 with seed 0 of a multiple of 8 bytes ---- */

#define PRIME1 0x9E3779B185EBCA87UL
#define PRIME2 0xC2B2AE3D27D4EB4FUL
#define PRIME3 0x165667B19E3779F9UL
#define PRIME4 0x85EBCA77C2B2AE63UL
#define PRIME5 0x27D4EB2F165667C5UL

FUNCTION u64 rotated(u64 v, u32 by)
{
    return v << by | v >> (64 - by);
}

FUNCTION u64 checksum_round(u64 lane, u64 v)
{
    return rotated(lane + v * PRIME2, 31) * PRIME1;
}

FUNCTION u64 u64_of_words(GLOBAL const u32 *words, u64 i)
{
    return words[2 * i] | (u64)words[2 * i + 1] << 32;
}

/* One of the four interleaved lanes, over all whole stripes of four numbers. */
FUNCTION u64 checksum_lane(GLOBAL const u32 *words, u64 n, u32 lane)
{
    u64 sum = lane == 0 ? PRIME1 + PRIME2 : lane == 1 ? PRIME2 : lane == 2 ? 0 : 0 - PRIME1;
    for (u64 i = lane; i < n / 4 * 4; i += 4)
        sum = checksum_round(sum, u64_of_words(words, i));
    return sum;
}

FUNCTION u64 checksum_of_lanes(SHARED const u64 *lanes)
{
    u64 hash = rotated(lanes[0], 1) + rotated(lanes[1], 7) + rotated(lanes[2], 12) + rotated(lanes[3], 18);
    for (u32 i = 0; i < 4; i++)
        hash = (hash ^ checksum_round(0, lanes[i])) * PRIME1 + PRIME4;
    return hash;
}

/* The checksum of n numbers, given the lanes of their stripes. */
FUNCTION u64 checksum_end(GLOBAL const u32 *words, u64 n, SHARED const u64 *lanes)
{
    u64 hash = (n >= 4 ? checksum_of_lanes(lanes) : PRIME5) + 8 * n;
    for (u64 i = n / 4 * 4; i < n; i++)
        hash = rotated(hash ^ checksum_round(0, u64_of_words(words, i)), 27) * PRIME1 + PRIME4;
    hash = (hash ^ hash >> 33) * PRIME2;
    hash = (hash ^ hash >> 29) * PRIME3;
    return hash ^ hash >> 32;
}

/* ---- encoding ---- */

/* The chunks of which thread t adds up the bytes: a run for each thread. */
FUNCTION void chunks_of_thread(const gpu_job *job, u32 t, u64 *begin, u64 *end)
{
    u64 each = (job->n_chunks + GROUP - 1) / GROUP;
    *begin = t * each < job->n_chunks ? t * each : job->n_chunks;
    *end = *begin + each < job->n_chunks ? *begin + each : job->n_chunks;
}

/* Room for the frame: in the arena, or where the caller said. False if it is too small. */
FUNCTION u32 take_room(const gpu_job *job, GLOBAL u8 *arena_buffer, u64 bytes, u64 *at)
{
    if (!job->use_arena) {
        *at = job->frame_offset;
        return bytes <= job->capacity;
    }
    GLOBAL gpu_arena *arena = (GLOBAL gpu_arena *)(arena_buffer + job->arena_offset);
    u64 rounded = (bytes + 255) / 256 * 256;
    *at = job->frame_offset + arena->used;
    if (rounded > arena->capacity - arena->used)
        return 0;
    arena->used += rounded;
    return 1;
}

/* `frame` is the buffer that holds the frame, or the arena with its gpu_arena. */
KERNEL place(GLOBAL u8 *x, GLOBAL u8 *frame, GLOBAL u8 *work, GLOBAL u8 *result_buffer, const gpu_job job)
{
    SHARED_ARRAY u64 scan[SCAN_ROOM];
    SHARED_ARRAY u64 lanes[4];
    SHARED_ARRAY gpu_state shared_state;
    const u32 t = THREAD;
    work += job.work_offset;
    GLOBAL gpu_result *result = (GLOBAL gpu_result *)(result_buffer + job.result_offset);
    GLOBAL const u32 *sizes = (GLOBAL const u32 *)(work + ENCODE_BYTES_AT(job)),
                     *notes = (GLOBAL const u32 *)(work + ENCODE_NOTES_AT(job));
    GLOBAL u64 *starts = (GLOBAL u64 *)(work + ENCODE_STARTS_AT(job));
    const u64 prefix = job.header_bytes + INDEX_ENTRY * job.n_chunks + CHECKSUM;
    u64 begin, end, bytes = 0, all_bytes, outliers = 0, all_outliers, raw = 0, all_raw;
    chunks_of_thread(&job, t, &begin, &end);
    for (u64 k = begin; k < end; k++) {
        u64 n = job.n_elements - k * job.chunk_elements;
        n = n < job.chunk_elements ? n : job.chunk_elements;
        bytes += sizes[k];
        outliers += notes[k] / NOTE_OUTLIERS;
        raw += sizes[k] == RAW_HEADER + n * job.element_bytes;
    }
    GROUP_SCAN(u64, scan, t, bytes, all_bytes)
    GROUP_SCAN(u64, scan, t, outliers, all_outliers)
    GROUP_SCAN(u64, scan, t, raw, all_raw)
    const u64 frame_bytes = prefix + all_bytes;
    if (t == 0) {
        u64 at;
        shared_state.go = take_room(&job, frame, frame_bytes, &at);
        shared_state.frame_at = at;
        ((GLOBAL gpu_state *)work)->go = shared_state.go;
        ((GLOBAL gpu_state *)work)->frame_at = at;
        result->status = shared_state.go ? STATUS_OK : STATUS_CAPACITY;
        result->chunk = NO_CHUNK;
        result->bytes = frame_bytes;
        result->offset = at - job.frame_offset;
        result->n_outliers = all_outliers;
        result->n_raw = all_raw;
        result->unused = 0;
    }
    BARRIER();
    if (!shared_state.go)
        return;
    GLOBAL u32 *header = (GLOBAL u32 *)(frame + shared_state.frame_at);
    GLOBAL u32 *index = header + job.header_bytes / 4;
    u64 at = prefix + bytes;
    for (u64 k = begin; k < end; k++) {
        starts[k] = at;
        at += sizes[k];
        index[2 * k] = sizes[k];
        index[2 * k + 1] = 0;
    }
    const u32 n_words = (job.header_bytes - CHECKSUM) / 4;
    if (t < n_words)
        header[t] = t == FRAME_LENGTH_WORD       ? (u32)frame_bytes
                    : t == FRAME_LENGTH_WORD + 1 ? (u32)(frame_bytes >> 32)
                                                 : job.header[t];
    BARRIER_GLOBAL();
    if (t < 4)
        lanes[t] = checksum_lane(header, n_words / 2, t);
    BARRIER();
    if (t == 0) {
        u64 hash = checksum_end(header, n_words / 2, lanes);
        header[n_words] = (u32)hash;
        header[n_words + 1] = (u32)(hash >> 32);
    }
}

/* Copies bytes in words of the destination; thread t takes every GROUP-th. `from` is aligned to 4 bytes, `to` is not. */
FUNCTION void copy_bytes(GLOBAL u8 *buffer, u64 to, GLOBAL const u8 *from, u32 bytes, u32 t)
{
    const u32 head = (u32)(-to & 3u) < bytes ? (u32)(-to & 3u) : bytes, n_words = (bytes - head) / 4, shift = head * 8;
    GLOBAL u32 *out = (GLOBAL u32 *)(buffer + to + head);
    GLOBAL const u32 *in = (GLOBAL const u32 *)from;
    for (u32 i = t; i < n_words; i += GROUP)
        out[i] = shift ? in[i] >> shift | in[i + 1] << (32 - shift) : in[i];
    if (t < head)
        buffer[to + t] = from[t];
    const u32 tail = head + 4 * n_words + t;
    if (t < 3 && tail < bytes)
        buffer[to + tail] = from[tail];
}

KERNEL compact(GLOBAL u8 *x, GLOBAL u8 *frame, GLOBAL u8 *work, GLOBAL u8 *result_buffer, const gpu_job job)
{
    SHARED_ARRAY u64 lanes[4];
    const u32 t = THREAD;
    const u64 chunk = job.groups ? job.n_chunks : GROUP_NUMBER; /* at level dense chunks are in their places */
    work += job.work_offset;
    GLOBAL const gpu_state *state = (GLOBAL const gpu_state *)work;
    if (!state->go)
        return;
    if (chunk < job.n_chunks) {
        GLOBAL const u32 *sizes = (GLOBAL const u32 *)(work + ENCODE_BYTES_AT(job));
        GLOBAL const u64 *starts = (GLOBAL const u64 *)(work + ENCODE_STARTS_AT(job));
        copy_bytes(frame, state->frame_at + starts[chunk], work + ENCODE_SLOTS_AT(job) + chunk * job.slot_bytes, sizes[chunk],
                   t);
        return;
    }
    GLOBAL u32 *index = (GLOBAL u32 *)(frame + state->frame_at + job.header_bytes);
    if (t < 4)
        lanes[t] = checksum_lane(index, job.n_chunks, t);
    BARRIER();
    if (t == 0) {
        u64 hash = checksum_end(index, job.n_chunks, lanes);
        index[2 * job.n_chunks] = (u32)hash;
        index[2 * job.n_chunks + 1] = (u32)(hash >> 32);
    }
}

/* ---- decoding ---- */

KERNEL open_frame(GLOBAL u8 *x, GLOBAL u8 *frame, GLOBAL u8 *work, GLOBAL u8 *result_buffer, const gpu_job job)
{
    SHARED_ARRAY u64 scan[SCAN_ROOM];
    SHARED_ARRAY u64 lanes[4];
    SHARED_ARRAY u32 differs, other_version;
    const u32 t = THREAD;
    work += job.work_offset;
    GLOBAL gpu_result *result = (GLOBAL gpu_result *)(result_buffer + job.result_offset);
    GLOBAL u64 *starts = (GLOBAL u64 *)(work + DECODE_STARTS_AT(job));
    GLOBAL const u32 *header = (GLOBAL const u32 *)(frame + job.frame_offset), *index = header + job.header_bytes / 4;
    const u64 prefix = job.header_bytes + INDEX_ENTRY * job.n_chunks + CHECKSUM;
    const u32 n_words = (job.header_bytes - CHECKSUM) / 4;
    if (t == 0)
        differs = other_version = 0;
    BARRIER();
    const u32 whole = prefix <= job.capacity; /* else the frame is cut short, and nothing of it is read */
    if (whole && t < n_words && t / 2 != FRAME_LENGTH_WORD / 2 && header[t] != job.header[t])
        SHARED_OR(&differs, 1);
    if (whole && t == 1 && header[0] == job.header[0] && (header[1] & 0xffffu) > (job.header[1] & 0xffffu))
        SHARED_OR(&other_version, 1);
    if (whole && t < 4)
        lanes[t] = checksum_lane(header, n_words / 2, t);
    u64 begin, end, bytes = 0, all_bytes;
    chunks_of_thread(&job, t, &begin, &end);
    for (u64 k = begin; whole && k < end; k++)
        bytes += index[2 * k];
    GROUP_SCAN(u64, scan, t, bytes, all_bytes)
    u64 at = prefix + bytes;
    for (u64 k = begin; whole && k < end; k++) {
        starts[k] = at;
        at += index[2 * k];
    }
    if (t == 0) {
        const u64 frame_bytes = whole ? u64_of_words(header, FRAME_LENGTH_WORD / 2) : 0;
        u32 good = whole && !differs && frame_bytes <= job.capacity && prefix + all_bytes == frame_bytes;
        good = good && u64_of_words(header, n_words / 2) == checksum_end(header, n_words / 2, lanes);
        starts[job.n_chunks] = prefix + all_bytes;
        ((GLOBAL gpu_state *)work)->go = good;
        ((GLOBAL gpu_state *)work)->frame_at = job.frame_offset;
        result->status = good ? STATUS_OK : other_version ? STATUS_UNSUPPORTED : STATUS_CORRUPT;
        result->chunk = NO_CHUNK;
        result->bytes = job.n_elements * job.element_bytes;
        result->offset = 0;
        result->n_outliers = result->n_raw = result->unused = 0;
    }
}

KERNEL check_index(GLOBAL u8 *x, GLOBAL u8 *frame, GLOBAL u8 *work, GLOBAL u8 *result_buffer, const gpu_job job)
{
    SHARED_ARRAY u64 lanes[4];
    const u32 t = THREAD;
    work += job.work_offset;
    GLOBAL gpu_result *result = (GLOBAL gpu_result *)(result_buffer + job.result_offset);
    if (!((GLOBAL const gpu_state *)work)->go)
        return;
    GLOBAL const u32 *index = (GLOBAL const u32 *)(frame + job.frame_offset + job.header_bytes);
    if (t < 4)
        lanes[t] = checksum_lane(index, job.n_chunks, t);
    BARRIER();
    if (t == 0 && u64_of_words(index, job.n_chunks) != checksum_end(index, job.n_chunks, lanes))
        GLOBAL_OR(&result->status, STATUS_CORRUPT);
}

/* ---- figures ---- */

FUNCTION void no_figures(gpu_summary *s)
{
    s->sum_of_squares = 0;
    s->min = FLOAT_OF_BITS(0x7f800000u);
    s->max = FLOAT_OF_BITS(0xff800000u);
    s->n_nonzero = s->n_nonfinite = s->unused = 0;
}

FUNCTION void add_element(gpu_summary *s, float v)
{
    const u32 finite = FABS(v) < FLOAT_OF_BITS(0x7f800000u);
    s->n_nonzero += v != 0.0f;
    s->n_nonfinite += !finite;
    if (finite) {
        const double d = (double)v; /* its square is exact */
        s->sum_of_squares += d * d;
        s->min = d < s->min ? d : s->min;
        s->max = d > s->max ? d : s->max;
    }
}

FUNCTION void add_summary(SHARED gpu_summary *s, SHARED const gpu_summary *other)
{
    s->sum_of_squares += other->sum_of_squares;
    s->min = other->min < s->min ? other->min : s->min;
    s->max = other->max > s->max ? other->max : s->max;
    s->n_nonzero += other->n_nonzero;
    s->n_nonfinite += other->n_nonfinite;
}

KERNEL summarise(GLOBAL u8 *x, GLOBAL u8 *frame, GLOBAL u8 *work, GLOBAL u8 *result_buffer, const gpu_job job)
{
    SHARED_ARRAY gpu_summary sums[GROUP];
    const u32 t = THREAD;
    const u64 first = (u64)GROUP_NUMBER * MAX_CHUNK, left = job.n_elements - first;
    const u32 n = left < MAX_CHUNK ? (u32)left : MAX_CHUNK;
    x += job.x_offset;
    GLOBAL gpu_summary *out = (GLOBAL gpu_summary *)(work + job.work_offset + SUMMARIES_AT(job)) + GROUP_NUMBER;
    gpu_summary mine;
    no_figures(&mine);
    for (u32 i = t; i < n; i += GROUP)
        add_element(&mine, value_of_bits(load_element(x, first + i, job.type), job.type));
    sums[t] = mine;
    BARRIER();
    for (u32 reach = GROUP / 2; reach > 0; reach /= 2) {
        if (t < reach)
            add_summary(&sums[t], &sums[t + reach]);
        BARRIER();
    }
    if (t == 0)
        *out = sums[0];
}

KERNEL total(GLOBAL u8 *x, GLOBAL u8 *frame, GLOBAL u8 *work, GLOBAL u8 *result_buffer, const gpu_job job)
{
    SHARED_ARRAY gpu_summary sums[GROUP];
    const u32 t = THREAD;
    GLOBAL const gpu_summary *in = (GLOBAL const gpu_summary *)(work + job.work_offset + SUMMARIES_AT(job));
    gpu_summary mine;
    no_figures(&mine);
    const u64 n = (job.n_elements + MAX_CHUNK - 1) / MAX_CHUNK;
    for (u64 k = t; k < n; k += GROUP) {
        gpu_summary other = in[k];
        mine.sum_of_squares += other.sum_of_squares;
        mine.min = other.min < mine.min ? other.min : mine.min;
        mine.max = other.max > mine.max ? other.max : mine.max;
        mine.n_nonzero += other.n_nonzero;
        mine.n_nonfinite += other.n_nonfinite;
    }
    sums[t] = mine;
    BARRIER();
    for (u32 reach = GROUP / 2; reach > 0; reach /= 2) {
        if (t < reach)
            add_summary(&sums[t], &sums[t + reach]);
        BARRIER();
    }
    if (t == 0) {
        sums[0].min = sums[0].min <= sums[0].max ? sums[0].min + 0.0 : 0.0; /* -0 becomes 0; no finite element: 0 */
        GLOBAL gpu_summary *result = (GLOBAL gpu_summary *)(result_buffer + job.result_offset);
        sums[0].max = sums[0].min <= sums[0].max ? sums[0].max + 0.0 : 0.0;
        *result = sums[0];
    }
}

/* Sets what an arena has given away: n_elements bytes of capacity. */
KERNEL reset_arena(GLOBAL u8 *x, GLOBAL u8 *frame, GLOBAL u8 *work, GLOBAL u8 *result_buffer, const gpu_job job)
{
    GLOBAL gpu_arena *arena = (GLOBAL gpu_arena *)(frame + job.arena_offset);
    if (THREAD == 0) {
        arena->used = job.n_elements;
        arena->capacity = job.capacity;
    }
}

#endif
#endif
