/*
 * Payload to elements, a group a chunk, a thread 32 elements, which are half a block. The steps:
 *
 *   sections    the header's fields are checked against the payload's length
 *   blocks      sums over the blocks before: wide bytes and maps; maps of wide blocks, if there are any; bytes of values
 *   unpack      residuals to shared memory
 *   predict     strided running sums: in parts, then over the parts
 *   elements    written side by side, then outliers to their places
 *
 * Everything in a payload is checked before it is used as a place. Groups find out whether a chunk is damaged together, so that
 * all threads leave at the same points.
 */
#ifndef COMET_GPU_DECODE_H
#define COMET_GPU_DECODE_H

/* A payload's header and sections; offsets are from its first byte. */
typedef struct sections {
    u32 n, n_blocks; /* elements and blocks */
    u32 predictor, identity, nonzero;
    u32 n_outliers, outliers_at, end;
    u32 planes_at, n_planes, kinds_at, values_at;
} sections;

FUNCTION u32 planes_across(u32 columns)
{
    return (columns + 15) / 16;
}

FUNCTION u32 planes_of(const gpu_job *job, u32 n)
{
    return planes_across(job->columns) * (((n + job->line - 1) / job->line + 15) / 16) * job->channels;
}

FUNCTION u32 take_apart(const gpu_job *job, const bytes_in *in, u32 bytes, u32 n, sections *s)
{
    if (bytes < CODED_HEADER)
        return 0;
    u32 head = u32_at(in, 0), predictor = head >> 16 & 255u, flags = head >> 24, outlier_bytes = u32_at(in, 8);
    u32 linear = predictor == PREDICTOR_LINEAR, room = bytes - CODED_HEADER;
    s->n = n;
    s->n_blocks = (n + BLOCK_ELEMENTS - 1) / BLOCK_ELEMENTS;
    s->predictor = predictor;
    s->identity = flags & PAYLOAD_IDENTITY;
    s->nonzero = flags & PAYLOAD_NONZERO;
    s->n_outliers = u32_at(in, 4);
    s->n_planes = linear ? planes_of(job, n) : 0;
    s->planes_at = CODED_HEADER;
    s->kinds_at = CODED_HEADER + 8 * s->n_planes;
    s->values_at = s->kinds_at + (s->n_blocks + 1) / 2;
    s->end = bytes;
    s->outliers_at = bytes - outlier_bytes;
    u32 good = (head & 0xffffu) == (PAYLOAD_FAST | (CODE_BITS / 32) << 8) && flags <= 3;
    good = good && (predictor <= PREDICTOR_LORENZO || linear) && s->n_outliers <= n;
    good = good && (CODE_BITS == 32 || !job->lossless) && !(s->identity && predictor != PREDICTOR_NONE && !linear);
    good = good && !(s->nonzero && (job->lossless || job->mode != MODE_SUPPORT));
    good = good && s->n_planes <= room / 8 && outlier_bytes <= room - 8 * s->n_planes;
    return good && s->values_at <= s->outliers_at;
}

FUNCTION u32 kind_at(const bytes_in *in, const sections *s, u32 block)
{
    return u8_at(in, s->kinds_at + block / 2) >> block % 2 * 4 & 15u;
}

#if PAIRED
/* Takes the next pair of values, of `bits` bits each, off `stream`: those whose bits of `present` are set. */
FUNCTION u32 take_pair(u32 *stream, u32 bits, u32 present)
{
    const u32 mask = (1u << bits) - 1, first = 0 - (present & 1u), second = 0 - (present >> 1 & 1u);
    const u32 low = *stream & mask & first;
    *stream >>= bits & first;
    const u32 high = *stream & mask & second;
    *stream >>= bits & second;
    return low | high << 16;
}

/* The same where both are. */
FUNCTION u32 take_whole_pair(u32 stream, u32 bits)
{
    const u32 both = stream & ((1u << 2 * bits) - 1);
    return both + (both >> bits) * (65536 - (1u << bits)); /* the upper value moves up to its lane */
}

/* Two pairs of values, of which a block with a map has those whose bits of `present` are set. */
FUNCTION void take_quad(u32 stream, u32 bits, u32 has_map, u32 present, u32 *pair)
{
    if (has_map) {
        pair[0] = take_pair(&stream, bits, present);
        pair[1] = take_pair(&stream, bits, present >> 2);
    } else {
        pair[0] = take_whole_pair(stream, bits);
        pair[1] = take_whole_pair(stream >> 2 * bits, bits);
    }
}

/* Unpacks half a block into shared memory. `values` is where the block's values begin, `map` where its map does. */
FUNCTION void unpack_half(const bytes_in *in, const sections *s, u32 side, u32 shape, u32 values, u32 map,
                          SHARED code_word *codes)
{
    const u32 width = SHAPE_WIDTH(shape), has_map = shape & SHAPE_MAP ? 1u : 0u, odd = side & 1u;
    const u32 low = has_map ? u32_at(in, map) : ~0u, high = has_map ? u32_at(in, map + 4) : ~0u;
    const u32 count = POPCOUNT(low) + POPCOUNT(high);
    u32 mine = odd ? high : low, next = odd ? POPCOUNT(low) : 0;
    SHARED code_pair *out = (SHARED code_pair *)(codes + CODE_AT(HALF * side));
    const u32 bits = width < 8 ? width : 8, more_bits = width - bits;
    for (u32 quad = 0; quad < HALF / 4; quad++, mine >>= 4, out += 2) {
        u32 z[2], more[2];
        take_quad(bits32_at(in, 8 * values + next * bits), bits, has_map, mine, z);
        if (more_bits) {
            take_quad(bits32_at(in, 8 * (values + count) + next * more_bits), more_bits, has_map, mine, more);
            z[0] |= more[0] << 8;
            z[1] |= more[1] << 8;
        }
        if (has_map) { /* z may be 2^16, which is 0 */
            z[0] = lanes_sum(z[0], (mine & 1u) | (mine & 2u) << 15);
            z[1] = lanes_sum(z[1], (mine >> 2 & 1u) | (mine & 8u) << 13);
        }
        out[0] = s->identity ? z[0] : lanes_unzigzag(z[0]);
        out[1] = s->identity ? z[1] : lanes_unzigzag(z[1]);
        next += POPCOUNT(mine & 15u);
    }
}
#else
/* Unpacks half a block into shared memory. `values` is where the block's values begin, `map` where its map does. */
FUNCTION void unpack_half(const bytes_in *in, const sections *s, u32 side, u32 shape, u32 values, u32 map,
                          SHARED code_word *codes)
{
    const u32 width = SHAPE_WIDTH(shape), has_map = shape & SHAPE_MAP ? 1u : 0u, odd = side & 1u;
    u64 bits = has_map ? bits_at(in, 8 * map) : ~(u64)0;
    u32 low = (u32)bits, mine = odd ? (u32)(bits >> 32) : low;
    u32 count = POPCOUNT(low) + POPCOUNT((u32)(bits >> 32)), next = odd ? POPCOUNT(low) : 0;
    SHARED code_word *out = codes + CODE_AT(HALF * side);
    for (u32 octet = 0; octet < HALF / 8; octet++, mine >>= 8, out += 8) {
        u32 present = mine & 255u, n_values = POPCOUNT(present), at = values;
        u64 parts[CODE_BITS / 8];
        for (u32 part = 0; part < CODE_BITS / 8; part++) {
            u32 part_bits = width <= 8 * part ? 0 : width - 8 * part < 8 ? width - 8 * part : 8;
            parts[part] = part_bits && n_values ? bits_at(in, 8 * at + next * part_bits) : 0;
            at += count;
        }
        for (u32 e = 0; e < 8; e++) {
            u32 z = 0;
            for (u32 part = 0; part < CODE_BITS / 8; part++) {
                u32 part_bits = width <= 8 * part ? 0 : width - 8 * part < 8 ? width - 8 * part : 8;
                z |= ((u32)parts[part] & ((1u << part_bits) - 1)) << 8 * part;
                if (present >> e & 1u)
                    parts[part] >>= part_bits;
            }
            z = present >> e & 1u ? z + has_map : 0;
            out[e] = (code_word)(s->identity ? z : unzigzag((u32)(code_word)z));
        }
        next += n_values;
    }
}
#endif

/* What the planes of a linear fit add to element i; 0 in rows that a tile has only in part. */
FUNCTION i32 plane_at(i32 a, i32 b, i32 c, u32 x, u32 y)
{
    return (i32)(((i64)a + (i64)b * (i64)x + (i64)c * (i64)y + 128) >> 8);
}

FUNCTION i32 plane_of_element(const gpu_job *job, const bytes_in *in, const sections *s, u32 i)
{
    u32 row = i / job->line, place = i % job->line, column = place / job->channels, channel = place % job->channels;
    u32 tile = ((row / 16) * planes_across(job->columns) + column / 16) * job->channels + channel;
    u32 left = job->columns - column / 16 * 16, across = left < 16 ? left : 16;
    u64 last = (u64)row * job->line + (column / 16 * 16 + across - 1) * job->channels + channel;
    if (last >= s->n)
        return 0;
    u32 at = s->planes_at + 8 * tile, slopes = u32_at(in, at + 4);
    i32 b = (i32)(slopes << 16) >> 16, c = (i32)slopes >> 16;
    return plane_at((i32)u32_at(in, at), b, c, column % 16, row % 16);
}

/* How the running sums of one stride are shared out: `parts` threads a sequence, each `length` elements in a row. */
typedef struct sum_plan {
    u32 stride, parts, length, threads;
} sum_plan;

FUNCTION sum_plan plan_sums(u32 stride, u32 n)
{
    sum_plan p = {0, 0, 0, 0};
    if (stride == 0 || stride >= n)
        return p;
    p.stride = stride;
    p.parts = stride < GROUP ? GROUP / stride : 1;
    p.length = ((n + stride - 1) / stride + p.parts - 1) / p.parts;
    p.threads = stride < GROUP ? stride * p.parts : GROUP;
    return p;
}

/* The sum of a part's codes. */
FUNCTION u32 sum_part(const sum_plan *p, SHARED const code_word *codes, u32 n, u32 sequence, u32 part)
{
    const u32 begin = part * p->length * p->stride + sequence, end = begin + p->length * p->stride;
    u32 sum = 0;
    for (u32 i = begin; i < end && i < n; i += p->stride)
        sum += codes[CODE_AT(i)];
    return sum;
}

/* Each of a part's codes becomes the sum of `carry`, those before it and itself. */
FUNCTION void run_part(const sum_plan *p, SHARED code_word *codes, u32 n, u32 sequence, u32 part, u32 carry)
{
    const u32 begin = part * p->length * p->stride + sequence, end = begin + p->length * p->stride;
    for (u32 i = begin; i < end && i < n; i += p->stride) {
        carry += codes[CODE_AT(i)];
        codes[CODE_AT(i)] = (code_word)carry;
    }
}

#if PAIRED
#define CARRY_SUM(a, b) lanes_sum(a, b)

/* The same for pairs: stride, length and n count pairs. */
FUNCTION u32 sum_pairs(const sum_plan *p, SHARED const code_pair *pairs, u32 n, u32 sequence, u32 part)
{
    const u32 begin = part * p->length * p->stride + sequence, end = begin + p->length * p->stride;
    const u32 past = end < n ? end : n;
    u32 whole = 0, upper = 0;
    for (u32 w = begin; w < past; w += p->stride) {
        const u32 v = pairs[PAIR_AT(w)];
        whole += v;
        upper += v & 0xffff0000u;
    }
    return lanes_joined(upper, whole);
}

FUNCTION void run_pairs(const sum_plan *p, SHARED code_pair *pairs, u32 n, u32 sequence, u32 part, u32 carry)
{
    const u32 begin = part * p->length * p->stride + sequence, end = begin + p->length * p->stride;
    const u32 past = end < n ? end : n;
    u32 whole = carry, upper = carry;
    for (u32 w = begin; w < past; w += p->stride) {
        const u32 v = pairs[PAIR_AT(w)];
        whole += v;
        upper += v & 0xffff0000u;
        pairs[PAIR_AT(w)] = lanes_joined(upper, whole);
    }
}

/* The sum of the codes of a half block, and running sums of them. */
FUNCTION u32 sum_row(SHARED const code_pair *row)
{
    u32 sum = 0;
    for (u32 j = 0; j < PAIRS; j++)
        sum += row[j] + (row[j] >> 16);
    return sum & 0xffffu;
}

FUNCTION void run_row(SHARED code_pair *row, u32 carry)
{
    for (u32 j = 0; j < PAIRS; j++) {
        const u32 v = row[j], low = carry + v;
        carry = low + (v >> 16);
        row[j] = (low & 0xffffu) | carry << 16;
    }
}

/* Elements of a full chunk of f32 without dither. */
FUNCTION void elements_of_pairs(const quantiser_of *q, u32 mode, SHARED const code_pair *mine, GLOBAL float *out)
{
    for (u32 k = 0; k < PAIRS; k++) {
        const u32 v = mine[PAIR_STEP * k];
        out[2 * GROUP * k] = value_of_code(q, mode, (i32)(v << 16) >> 16, 0);
        out[2 * GROUP * k + 1] = value_of_code(q, mode, (i32)v >> 16, 0);
    }
}
#else
#define CARRY_SUM(a, b) ((a) + (b))
#endif

/* What thread t's steps of the outlier section add up to. */
FUNCTION void sum_steps(const bytes_in *in, const sections *s, u32 n_steps, u32 t, u32 *moves, u32 *places)
{
    u32 each = (n_steps + GROUP - 1) / GROUP, first = t * each, past = first + each < n_steps ? first + each : n_steps;
    *moves = 0;
    *places = 0;
    for (u32 i = first; i < past; i++) {
        u32 step = u8_at(in, s->outliers_at + i);
        *moves += step < 128 ? step + 1 : 128 * (step - 127);
        *places += step < 128 ? 1 : 0;
    }
}

FUNCTION u32 element_bits_at(const bytes_in *in, u32 at, u32 type)
{
    return type == TYPE_F32 ? u32_at(in, at) : u32_at(in, at) & 0xffffu;
}

/* Puts thread t's outliers in their places, given where its steps begin and how many outliers are before them. */
FUNCTION void place_outliers(const bytes_in *in, const sections *s, u32 n_steps, u32 t, u32 cursor, u32 number, u32 type,
                             u32 element_bytes, GLOBAL u8 *x, u64 first_element)
{
    u32 each = (n_steps + GROUP - 1) / GROUP, first = t * each, past = first + each < n_steps ? first + each : n_steps;
    for (u32 i = first; i < past; i++) {
        u32 step = u8_at(in, s->outliers_at + i);
        if (step < 128) {
            u32 bits = element_bits_at(in, s->outliers_at + n_steps + number * element_bytes, type);
            store_element(x, first_element + cursor + step, type, bits);
            number++;
        }
        cursor += step < 128 ? step + 1 : 128 * (step - 127);
    }
}

FUNCTION void report_damage(GLOBAL gpu_result *result, u32 chunk)
{
    GLOBAL_OR(&result->status, STATUS_CORRUPT);
    GLOBAL_MIN(&result->chunk, chunk);
}

/* A chunk that is stored as it is, by the build for 16 bits: elements number, number + step ... are this thread's. */
FUNCTION void take_raw(const gpu_job *job, const bytes_in *in, u32 bytes, GLOBAL u8 *x, GLOBAL gpu_result *result, u64 chunk,
                       u32 number, u32 step)
{
    const u64 first = chunk * job->chunk_elements;
    const u32 n = (u32)(job->n_elements - first < job->chunk_elements ? job->n_elements - first : job->chunk_elements);
    if (CODE_BITS != 16)
        return;
    if (u32_at(in, 0) != 0 || bytes != RAW_HEADER + n * job->element_bytes) {
        if (number == 0)
            report_damage(result, (u32)chunk);
        return;
    }
    for (u32 i = number; i < n; i += step)
        store_element(x, first + i, job->type, element_bits_at(in, RAW_HEADER + i * job->element_bytes, job->type));
}

/* Raw chunks and those with codes of CODE_BITS; the other build of the kernel takes the others. */
KERNEL CODED(decode)(GLOBAL u8 *x, GLOBAL u8 *frame, GLOBAL u8 *work, GLOBAL u8 *result_buffer, const gpu_job job)
{
#if PAIRED
    SHARED_ARRAY code_pair pairs[PAIR_AT(MAX_CHUNK / 2)];
    SHARED code_word *codes = (SHARED code_word *)pairs;
#else
    SHARED_ARRAY code_word codes[CODES_ROOM];
#endif
    SHARED_ARRAY u32 scan[SCAN_ROOM];
    SHARED_ARRAY u32 carried[2][GROUP];
    SHARED_ARRAY u32 bad;
    const u32 t = THREAD;
    const u64 chunk = GROUP_NUMBER, first = chunk * job.chunk_elements;
    const u32 n = (u32)(job.n_elements - first < job.chunk_elements ? job.n_elements - first : job.chunk_elements);
    x += job.x_offset;
    work += job.work_offset;
    GLOBAL gpu_result *result = (GLOBAL gpu_result *)(result_buffer + job.result_offset);
    GLOBAL const gpu_state *state = (GLOBAL const gpu_state *)work;
    GLOBAL const u64 *starts = (GLOBAL const u64 *)(work + DECODE_STARTS_AT(job));
    if (!state->go)
        return;
    const u64 at = starts[chunk], length = starts[chunk + 1] - at;
    const u32 bytes = length < 1u << 20 ? (u32)length : 0; /* a payload is never so long */
    const bytes_in in = bytes_from(frame, job.frame_offset + at, bytes);
    const u32 head = bytes >= RAW_HEADER ? u32_at(&in, 0) : 0xffu;

    if ((head & 0xffu) == PAYLOAD_RAW) {
        take_raw(&job, &in, bytes, x, result, chunk, t, GROUP);
        return;
    }
    if ((head & 0xffffu) == (PAYLOAD_FAST | (u32)((48 - CODE_BITS) / 32) << 8))
        return; /* for the other build */

    sections s;
    if (!take_apart(&job, &in, bytes, n, &s)) {
        if (t == 0 && (CODE_BITS == 16 || (head & 0xffffu) == (PAYLOAD_FAST | 1u << 8)))
            report_damage(result, (u32)chunk);
        return;
    }
    if (t == 0)
        bad = s.n_blocks % 2 && kind_at(&in, &s, s.n_blocks) != 0;
    BARRIER();

    /* ---- blocks: both halves' threads work them out; the even one's counts in the sums ---- */
    const u32 block = t / 2, active = block < s.n_blocks, counts = active && t % 2 == 0;
    u32 kind = active ? kind_at(&in, &s, block) : 0, shape = shape_of_kind(kind);
    const u32 wide = kind == 15, known_map = kind - 1 < 6; /* maps of wide blocks are found with their bytes */
    u32 kinds_before = counts ? wide | known_map << 16 : 0, n_kinds;
    GROUP_SCAN(u32, scan, t, kinds_before, n_kinds)
    if (t % 2)
        kinds_before -= wide | known_map << 16; /* its own block's */
    const u32 wide_before = kinds_before & 0xffffu, n_wide = n_kinds & 0xffffu;
    u32 good = n_wide <= s.outliers_at - s.values_at;
    if (good && active && wide)
        shape = u8_at(&in, s.outliers_at - 1 - wide_before);
    good = good && SHAPE_WIDTH(shape) <= CODE_BITS;
    const u32 has_map = shape & SHAPE_MAP ? 1u : 0u;
    u32 maps_before = counts && wide && has_map, n_maps = 0;
    if (SCANS_ALWAYS || n_wide)
        GROUP_SCAN(u32, scan, t, maps_before, n_maps)
    if (t % 2 && wide && has_map)
        maps_before--;
    maps_before += kinds_before >> 16;
    n_maps += n_kinds >> 16;
    good = good && 8 * n_maps <= s.outliers_at - s.values_at - n_wide;
    const u32 maps_at = good ? s.outliers_at - n_wide - 8 * n_maps : 0, map = maps_at + 8 * maps_before;
    u32 count = BLOCK_ELEMENTS, all_bytes;
    if (good && has_map) {
        u64 bits = bits_at(&in, 8 * map);
        count = POPCOUNT((u32)bits) + POPCOUNT((u32)(bits >> 32));
    }
    const u32 own_bytes = good ? bytes_of_values(count, SHAPE_WIDTH(shape)) : 0;
    u32 values = counts ? own_bytes : 0;
    GROUP_SCAN(u32, scan, t, values, all_bytes)
    values += s.values_at - (t % 2 ? own_bytes : 0);
    if (!good || s.values_at + all_bytes != maps_at)
        SHARED_OR(&bad, 1);
    BARRIER();
    if (bad) {
        if (t == 0)
            report_damage(result, (u32)chunk);
        return;
    }

    if (active)
        unpack_half(&in, &s, t, shape, values, map, codes);
    BARRIER();
    for (u32 i = t; s.n_planes && i < n; i += GROUP)
        codes[CODE_AT(i)] = (code_word)(codes[CODE_AT(i)] + (u32)plane_of_element(&job, &in, &s, i));

    /* ---- running sums: first with the stride of the left neighbours, then with that of a line ---- */
    const u32 n_codes = s.n_blocks * BLOCK_ELEMENTS, predictor = s.predictor <= PREDICTOR_LORENZO ? s.predictor : 0;
    u32 in_row = 0;
#if PAIRED
    in_row = job.channels == 1 && predictor & PREDICTOR_LEFT; /* neighbours are of the same half block */
    SHARED code_pair *row = pairs + PAIR_AT(PAIRS * t);
    if (in_row) {
        u32 carry = active ? sum_row(row) : 0, sum;
        GROUP_SCAN(u32, scan, t, carry, sum)
        (void)sum;
        if (active)
            run_row(row, carry);
        BARRIER();
    }
#endif
    for (u32 direction = in_row; direction < 2; direction++) {
        const u32 stride =
            direction == 0 ? (predictor & PREDICTOR_LEFT ? job.channels : 0) : (predictor & PREDICTOR_UP ? job.line : 0);
        const u32 paired = PAIRED && stride % 2 == 0, n_units = paired ? n_codes / 2 : n_codes;
        const sum_plan p = plan_sums(paired ? stride / 2 : stride, n_units);
        const u32 part = p.parts > 1 ? t / p.stride : 0, sequence = p.parts > 1 ? t % p.stride : t;
        u32 from = 0;
        if (p.parts > 1 && t < p.threads) {
#if PAIRED
            carried[0][t] =
                paired ? sum_pairs(&p, pairs, n_units, sequence, part) : sum_part(&p, codes, n_units, sequence, part);
#else
            carried[0][t] = sum_part(&p, codes, n_units, sequence, part);
#endif
        }
        BARRIER();
        for (u32 reach = p.stride; p.parts > 1 && reach < p.threads; reach *= 2, from ^= 1) {
            if (t < p.threads)
                carried[from ^ 1][t] = CARRY_SUM(carried[from][t], t >= reach ? carried[from][t - reach] : 0);
            BARRIER();
        }
        const u32 carry = part > 0 && t < p.threads ? carried[from][t - p.stride] : 0;
        for (u32 q = sequence; t < p.threads && q<p.stride; q += p.parts> 1 ? p.stride : GROUP) {
#if PAIRED
            if (paired)
                run_pairs(&p, pairs, n_units, q, part, carry);
            else
#endif
                run_part(&p, codes, n_units, q, part, carry);
        }
        BARRIER();
    }

    /* ---- elements ---- */
    quantiser_of q = {job.step, job.half_step, job.inverse, job.bound, job.mode, 0, job.type};
    if (s.nonzero)
        q.mode = MODE_NONZERO;
    if (q.mode == MODE_DITHER)
        q.key = chunk_key(job.seed, chunk);
    u32 begin = t;
#if PAIRED
    if (job.type == TYPE_F32 && q.mode != MODE_DITHER && n == MAX_CHUNK) {
        WITH_MODE(&q, mode, elements_of_pairs(&q, mode, pairs + PAIR_AT(t), (GLOBAL float *)x + first + 2 * t);)
        begin = n;
    }
#endif
    for (u32 i = begin; i < n; i += GROUP) {
        const i32 code = SIGNED_CODE(codes[CODE_AT(i)]);
        u32 bits = job.lossless ? bits_of_code(code, job.type) : bits_of_value(value_of_code(&q, q.mode, code, i), job.type);
        store_element(x, first + i, job.type, bits);
    }
    if (s.outliers_at == s.end && s.n_outliers == 0)
        return;

    const u32 outlier_bytes = s.end - s.outliers_at;
    u32 n_steps = outlier_bytes - s.n_outliers * job.element_bytes, cursor = 0, number = 0, n_moved, n_placed;
    if (outlier_bytes < s.n_outliers * job.element_bytes || n_steps > n)
        n_steps = 0;
    sum_steps(&in, &s, n_steps, t, &cursor, &number);
    GROUP_SCAN(u32, scan, t, cursor, n_moved)
    GROUP_SCAN(u32, scan, t, number, n_placed)
    BARRIER_GLOBAL();
    if (n_steps == 0 || n_moved > n || n_placed != s.n_outliers || u8_at(&in, s.outliers_at + n_steps - 1) >= 128) {
        if (t == 0)
            report_damage(result, (u32)chunk);
        return;
    }
    place_outliers(&in, &s, n_steps, t, cursor, number, job.type, job.element_bytes, x, first);
}

#endif
