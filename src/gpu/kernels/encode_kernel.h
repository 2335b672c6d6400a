/*
 * Elements to payloads, a group a chunk, each payload in a slot of the workspace. The steps:
 *
 *   quantise   elements side by side, codes to shared memory, a bit for each that fails
 *   choose     the predictor, from a sample
 *   shapes     of blocks, two threads a block; one sum over the blocks before gives the places of all parts
 *   write      values, maps, outliers; or the elements as they are where that is no longer
 *
 * Wide codes are rare in lossy frames: a first pass with 16-bit codes leaves a note for chunks that may need them, a second
 * kernel tries 32 bits, and a third takes back chunks that 32 bits do not suit either.
 */
#ifndef COMET_GPU_ENCODE_H
#define COMET_GPU_ENCODE_H

#define LARGEST_CODE (CODE_BITS == 16 ? LARGEST_CODE16 : LARGEST_CODE32)
#define NO_PLACE 0xffffffffu

/* Quantises thread t's elements; the bits of those that fail go to `failed`. Codes are kept only if `keep`. */
FUNCTION void quantise_chunk(const quantiser_of *q, GLOBAL const u8 *x, u64 first, u32 n, u32 t, u32 keep, float limit,
                             SHARED code_word *codes, SHARED u32 *failed)
{
    for (u32 i = t; i < n; i += GROUP) {
        i32 code;
        if (!quantise(q, load_element(x, first + i, q->type), i, limit, &code))
            SHARED_OR(&failed[i / 32], 1u << i % 32);
        if (keep)
            codes[CODE_AT(i)] = (code_word)code;
    }
}

/* Does the sum of squares of one lane stay finite? The library's own order: 16 lanes, tiles of 4096 elements, what is less than
 * a block on its own. */
FUNCTION u32 lane_is_finite(const quantiser_of *q, GLOBAL const u8 *x, u64 first, u32 n, u32 lane)
{
    u32 begin = lane / 16 * 4096, end = n < begin + 4096 ? n : begin + 4096, good = 1;
    float sum = 0.0f;
    for (u32 i = begin + lane % 16; i < end; i += 16) {
        if ((i - begin) / BLOCK_ELEMENTS == (end - begin) / BLOCK_ELEMENTS && (i - begin) % BLOCK_ELEMENTS < 16) {
            good = good && FABS(sum) < FLOAT_OF_BITS(0x7f800000u);
            sum = 0.0f;
        }
        float v = value_of_bits(load_element(x, first + i, q->type), q->type);
        sum = FUSED(v, v, sum);
    }
    return good && FABS(sum) < FLOAT_OF_BITS(0x7f800000u);
}

/* ---- packing ---- */

/* How the residuals of a chunk are packed. */
typedef struct packing {
    u32 predictor, identity, left, up;
} packing;

FUNCTION u32 residual_of(SHARED const code_word *codes, const packing *p, u32 i)
{
    return packed_at(codes, i, p->predictor, p->identity, p->left, p->up);
}

/* A bit for each residual of a half block that is not 0; *max is the largest. */
FUNCTION u32 look_at_half(SHARED const code_word *codes, const packing *p, u32 side, u32 *max)
{
    u32 present = 0, largest = 0;
    for (u32 j = 0; j < HALF; j++) {
        u32 z = residual_of(codes, p, HALF * side + j);
        present |= (u32)(z != 0) << j;
        largest = z > largest ? z : largest;
    }
    *max = largest;
    return present;
}

/*
 * Writes the values of one half block, whose shape is known, to the block's bytes at `out`: `before` values are those of
 * the other half, `count` are the block's. In a part whose first half ends within a byte, the thread of the first half
 * writes this byte, for which it goes on into the second half, and the other thread begins after it.
 */
FUNCTION void write_half(SHARED const code_word *codes, const packing *p, u32 side, u32 shape, u32 before, u32 own, u32 count,
                         GLOBAL u8 *out)
{
    const u32 width = SHAPE_WIDTH(shape), has_map = shape & SHAPE_MAP ? 1u : 0u;
    for (u32 shift = 0; shift < width; shift += 8) {
        u32 bits = width - shift < 8 ? width - shift : 8, from = before * bits, to = from + own * bits;
        u32 skip = side % 2 ? (8 - from % 8) % 8 : 0, filled = 0, i = HALF * side, end = BLOCK_ELEMENTS * (side / 2 + 1);
        u32 at = (from + skip) / 8, past = side % 2 ? (count * bits + 7) / 8 : (to + 7) / 8;
        u64 window = 0;
        while (at < past) {
            for (; filled < 32 + skip && i < end; i++) {
                u32 z = residual_of(codes, p, i);
                if (has_map && z == 0)
                    continue;
                window |= (u64)((z - has_map) >> shift & ((1u << bits) - 1)) << filled;
                filled += bits;
            }
            window >>= skip;
            filled = filled > skip ? filled - skip : 0;
            skip = 0;
            u32 n = past - at < 4 ? past - at : 4;
            store_bytes(out + at, (u32)window, n);
            at += n;
            window >>= 32;
            filled = filled > 32 ? filled - 32 : 0;
        }
        out += bits == 8 ? count : (count * bits + 7) / 8;
    }
}

/* ---- outliers ---- */

/* The number of elements between outlier i and the one before it, or the chunk's start. `groups` has a bit for each word of
 * `failed` that is not 0. */
FUNCTION u32 gap_before(SHARED const u32 *failed, SHARED const u32 *groups, u32 i)
{
    u32 word = i / 32, here = failed[word] & ((1u << i % 32) - 1);
    if (here)
        return i - (word * 32 + 31 - LEADING_ZEROS(here)) - 1;
    u32 before = 0; /* the word with the outlier before, and one more; 0 if there is none */
    for (u32 g = 0; g <= word / 32; g++) {
        u32 mask = g < word / 32 ? groups[g] : groups[g] & ((1u << word % 32) - 1);
        if (mask)
            before = g * 32 + 32 - LEADING_ZEROS(mask);
    }
    return before ? i - (before * 32 - 1 - LEADING_ZEROS(failed[before - 1])) - 1 : i;
}

/* Steps of thread t's outliers. */
FUNCTION u32 count_steps(SHARED const u32 *failed, SHARED const u32 *groups, u32 t)
{
    u32 mask = failed[t];
    if (!mask)
        return 0;
    u32 lowest = 31 - LEADING_ZEROS(mask & (0u - mask));
    return POPCOUNT(mask) + (gap_before(failed, groups, 32 * t + lowest) >= 128);
}

FUNCTION void write_outliers(SHARED const u32 *failed, SHARED const u32 *groups, u32 t, GLOBAL const u8 *x, u64 first, u32 type,
                             u32 element_bytes, GLOBAL u8 *steps, GLOBAL u8 *elements)
{
    for (u32 mask = failed[t]; mask; mask &= mask - 1, elements += element_bytes) {
        u32 i = 32 * t + 31 - LEADING_ZEROS(mask & (0u - mask)), gap = gap_before(failed, groups, i);
        if (gap >= 128)
            *steps++ = (u8)(127 + gap / 128);
        *steps++ = (u8)(gap % 128);
        store_bytes(elements, load_element(x, first + i, type), element_bytes);
    }
}

FUNCTION void write_raw(GLOBAL const u8 *x, u64 first, u32 n, u32 t, u32 type, GLOBAL u8 *slot)
{
    if (t == 0)
        ((GLOBAL u32 *)slot)[0] = 0;
    for (u32 i = t; i < n; i += GROUP)
        store_element(slot + RAW_HEADER, i, type, load_element(x, first + i, type));
}

/* ---- the kernel ---- */

KERNEL CODED(encode)(GLOBAL u8 *x, GLOBAL u8 *frame, GLOBAL u8 *work, GLOBAL u8 *result_buffer, const gpu_job job)
{
    SHARED_ARRAY code_word codes[CODES_ROOM];
    SHARED_ARRAY u32 scan[SCAN_ROOM];
    SHARED_ARRAY u32 failed[GROUP], groups[GROUP / 32];
    SHARED_ARRAY octet_figures octets[OCTETS];
    SHARED_ARRAY u32 costs[4 * RUNS], half_max[GROUP], half_present[GROUP];
    SHARED_ARRAY u8 kinds[GROUP / 2];
    SHARED_ARRAY u32 flags[4]; /* signs, out of range, chosen predictor, chosen with identity */
    const u32 t = THREAD;
    const u64 chunk = GROUP_NUMBER, first = chunk * job.chunk_elements;
    const u32 n = (u32)(job.n_elements - first < job.chunk_elements ? job.n_elements - first : job.chunk_elements);
    const u32 n_blocks = (n + BLOCK_ELEMENTS - 1) / BLOCK_ELEMENTS, n_runs = sample_runs(n);
    x += job.x_offset;
    work += job.work_offset;
    GLOBAL u32 *sizes = (GLOBAL u32 *)(work + ENCODE_BYTES_AT(job)), *notes = (GLOBAL u32 *)(work + ENCODE_NOTES_AT(job));
    GLOBAL u8 *slot = work + ENCODE_SLOTS_AT(job) + chunk * job.slot_bytes;

    /* ---- what the kernels before say of this chunk ---- */
    const u32 begins = CODE_BITS == 16 && job.pass == 0, note = begins ? 0 : notes[chunk];
    BARRIER_GLOBAL(); /* the note is read by all before one thread changes it */
    if (begins && job.lossless) {
        if (t == 0)
            notes[chunk] = NOTE_WIDE;
        return;
    }
    if (!begins && !(note & (CODE_BITS == 16 ? NOTE_NARROW : NOTE_WIDE)))
        return;
    quantiser_of q = {job.step, job.half_step, job.inverse, job.bound, begins ? job.mode : note / NOTE_MODE % 4, 0, job.type};
    if (job.mode == MODE_DITHER)
        q.key = chunk_key(job.seed, chunk);

    /* ---- keep support: do the sampled elements have no zero? ---- */
    if (t < 4)
        flags[t] = 0;
    BARRIER();
    for (u32 i = t; begins && q.mode == MODE_SUPPORT && i < n_runs * BLOCK_ELEMENTS; i += GROUP) {
        u64 at = first + run_begin(n, n_runs, i / BLOCK_ELEMENTS) + i % BLOCK_ELEMENTS;
        if (value_of_bits(load_element(x, at, job.type), job.type) == 0.0f)
            SHARED_OR(&flags[0], 1);
    }
    BARRIER();
    if (begins && q.mode == MODE_SUPPORT && n_runs > 0 && !flags[0])
        q.mode = MODE_NONZERO;

    /* ---- codes; once more where many elements fail for want of a code for zero ---- */
    u32 n_failed = 0, again = 0, narrow = 0, tries_wide = 0;
    do {
        const u32 narrow_count = CODE_BITS == 32 && !job.lossless; /* first see how many fail with 16 bits */
        u32 failed16 = 0;
        narrow = tries_wide = again = 0;
        for (u32 round = narrow_count ? 0 : 1; round < 2; round++) {
            failed[t] = 0;
            if (t < GROUP / 32)
                groups[t] = 0;
            for (u32 i = n + t; i < n_blocks * BLOCK_ELEMENTS; i += GROUP)
                codes[CODE_AT(i)] = 0;
            BARRIER();
            if (!job.lossless)
                quantise_chunk(&q, x, first, n, t, round == 1, (float)(round == 0 ? LARGEST_CODE16 : LARGEST_CODE), codes,
                               failed);
            for (u32 i = t; CODE_BITS == 32 && job.lossless && i < n; i += GROUP)
                codes[CODE_AT(i)] = (code_word)code_of_bits(load_element(x, first + i, job.type), job.type);
            BARRIER();
            u32 mine = POPCOUNT(failed[t]);
            if (mine)
                SHARED_OR(&groups[t / 32], 1u << t % 32);
            GROUP_SCAN(u32, scan, t, mine, n_failed)
            failed16 = round == 0 ? n_failed : failed16;
        }
        const u32 failed_narrow = CODE_BITS == 16 ? n_failed : failed16;
        /* Elements of 16 bits that are all in range gain nothing from wide codes. */
        const u32 ask_range = job.element_bytes == 2 && !job.lossless && failed_narrow > n / 64;
        if (t == 0)
            flags[1] = 0;
        BARRIER();
        for (u32 i = t; ask_range && i < n; i += GROUP) {
            float v = value_of_bits(load_element(x, first + i, job.type), job.type);
            if (!(FABS(v) <= job.limit))
                SHARED_OR(&flags[1], 1);
        }
        if (ask_range && job.limit > FLOAT_OF_BITS(0x5d000000u) && t < 32 && t / 16 * 4096 < n) /* 2^59 */
            if (!lane_is_finite(&q, x, first, n, t))
                SHARED_OR(&flags[1], 1);
        BARRIER();
        const u32 suits = failed_narrow <= n / 64 || (job.element_bytes == 2 && !flags[1]);
        if (CODE_BITS == 16)
            tries_wide = begins && !suits;
        else
            narrow = !job.lossless && (suits || n_failed > failed16 / 2);
        const u32 n_final = narrow ? failed16 : n_failed;
        again = q.mode == MODE_NONZERO && n_final > n / 64 && !tries_wide && (begins || CODE_BITS == 32);
        if (again)
            q.mode = MODE_SUPPORT;
        BARRIER();
    } while (again);
    if (tries_wide || narrow) {
        if (t == 0)
            notes[chunk] = (tries_wide ? NOTE_WIDE : NOTE_NARROW) | q.mode * NOTE_MODE;
        return;
    }

    /* ---- the predictor ---- */
    if (t < n_runs * 8)
        octet_of(codes, run_begin(n, n_runs, t / 8) + t % 8 * 8, job.channels, job.line, &octets[t]);
    if (t == 0)
        flags[0] = 0;
    BARRIER();
    if (t < n_runs * 8 && octets[t].signs)
        SHARED_OR(&flags[0], 1);
    BARRIER();
    if (t < 4 * n_runs)
        costs[t] = cost_of_run(octets + t / 4 * 8, t % 4, !flags[0]);
    BARRIER();
    u32 bits[4] = {0, 0, 0, 0};
    for (u32 run = 0; run < n_runs; run++)
        for (u32 p = 0; p < 4; p++)
            bits[p] += costs[4 * run + p];
    const u32 first_pair = bits[1] < bits[0], second_pair = bits[3] < bits[2];
    const u32 best_first = first_pair ? bits[1] : bits[0], best_second = second_pair ? bits[3] : bits[2];
    const u32 best = best_second < best_first ? best_second : best_first;
    u32 predictor = best_second < best_first ? PREDICTOR_UP + second_pair : PREDICTOR_NONE + first_pair;
    packing pack = {predictor, predictor == PREDICTOR_NONE && n_runs > 0 && !flags[0], job.channels, job.line};
    BARRIER();

    /* ---- a linear fit, where there are many bits to save ---- */
    const u32 ask_linear = !job.lossless && n_runs > 0 && best > 6 * n_runs * BLOCK_ELEMENTS;
    const u32 n_planes = ask_linear ? planes_of(&job, n) : 0,
              planes_fit = CODED_HEADER + 8 * (u64)n_planes < RAW_HEADER + n * job.element_bytes;
    if (ask_linear) {
        if (t < n_runs) {
            tile mine;
            costs[t] = tile_of_run(&job, n, run_begin(n, n_runs, t), &mine) ? cost_of_tile(codes, &mine) : 0;
        }
        if (t == 0)
            flags[2] = 0;
        BARRIER();
        u64 cost = 0, tried = 0;
        for (u32 run = 0; run < n_runs && tried < LINEAR_TRIES; run++) {
            cost += costs[run];
            tried += costs[run] != 0;
        }
        cost = tried ? (cost + tried * 64) * (n_runs * BLOCK_ELEMENTS) / (tried * 256) : ~(u64)0;
        const u32 linear = cost < best;
        for (u32 k = t; linear && k < n_planes; k += GROUP) {
            tile mine;
            tile_number(&job, n, k, &mine);
            plane p = {0, 0, 0};
            if (mine.rows > 0)
                p = fit_plane(codes, &mine);
            if (!plane_fits(codes, &mine, &p, LARGEST_CODE))
                SHARED_OR(&flags[2], 1);
        }
        BARRIER();
        const u32 fits = linear && !flags[2];
        for (u32 k = t; fits && k < n_planes; k += GROUP) {
            tile mine;
            tile_number(&job, n, k, &mine);
            plane p = {0, 0, 0};
            if (mine.rows > 0)
                p = fit_plane(codes, &mine);
            subtract_plane(codes, &mine, &p);
            if (planes_fit) {
                ((GLOBAL u32 *)slot)[3 + 2 * k] = (u32)p.a;
                ((GLOBAL u32 *)slot)[4 + 2 * k] = ((u32)p.b & 0xffffu) | (u32)p.c << 16;
            }
        }
        BARRIER();
        if (linear)
            predictor = fits ? PREDICTOR_LINEAR : PREDICTOR_LORENZO;
        pack.predictor = predictor == PREDICTOR_LINEAR ? PREDICTOR_NONE : predictor;
        pack.identity = linear ? 0 : pack.identity;
    }

    /* ---- shapes and places ---- */
    const u32 active = t / 2 < n_blocks;
    u32 max = 0, own_present = active ? look_at_half(codes, &pack, t, &max) : 0;
    half_max[t] = max;
    half_present[t] = own_present;
    BARRIER();
    const u32 other_present = half_present[t ^ 1];
    max = half_max[t ^ 1] > max ? half_max[t ^ 1] : max;
    const u32 n_nonzero = POPCOUNT(own_present) + POPCOUNT(other_present), shape = shape_for(max, n_nonzero);
    const u32 has_map = shape & SHAPE_MAP ? 1u : 0u, count = has_map ? n_nonzero : BLOCK_ELEMENTS;
    const u32 before = t % 2 == 0 ? 0 : has_map ? POPCOUNT(other_present) : HALF, own = has_map ? POPCOUNT(own_present) : HALF;
    const u32 block_bytes = bytes_of_values(count, SHAPE_WIDTH(shape)), wide = shape_is_wide(shape);
    const u32 block_sums = block_bytes | has_map << 16 | wide << 24; /* at most 2^15, 2^7 and 2^7 in all */
    u32 sums = active && t % 2 == 0 ? block_sums : 0, all;
    GROUP_SCAN(u32, scan, t, sums, all)
    sums -= t % 2 && active ? block_sums : 0;
    u32 steps = count_steps(failed, groups, t) | POPCOUNT(failed[t]) << 16, all_steps;
    GROUP_SCAN(u32, scan, t, steps, all_steps)
    if (t % 2 == 0)
        kinds[t / 2] = (u8)(active ? kind_of_shape(shape) : 0);
    const u32 n_steps = all_steps & 0xffffu, outlier_bytes = n_steps + n_failed * job.element_bytes;
    const u32 kinds_at = CODED_HEADER + (predictor == PREDICTOR_LINEAR ? 8 * n_planes : 0);
    const u32 values_at = kinds_at + (n_blocks + 1) / 2, maps_at = values_at + (all & 0xffffu);
    const u32 outliers_at = maps_at + 8 * (all >> 16 & 0xffu) + (all >> 24), bytes = outliers_at + outlier_bytes;
    BARRIER();
    if (bytes >= RAW_HEADER + n * job.element_bytes) {
        write_raw(x, first, n, t, job.type, slot);
        if (t == 0) {
            sizes[chunk] = RAW_HEADER + n * job.element_bytes;
            notes[chunk] = NOTE_DONE;
        }
        return;
    }

    /* ---- bytes ---- */
    if (t == 0) {
        u32 marks = pack.identity | (q.mode == MODE_NONZERO ? PAYLOAD_NONZERO : 0);
        ((GLOBAL u32 *)slot)[0] = PAYLOAD_FAST | (CODE_BITS / 32) << 8 | predictor << 16 | marks << 24;
        ((GLOBAL u32 *)slot)[1] = n_failed;
        ((GLOBAL u32 *)slot)[2] = outlier_bytes;
        sizes[chunk] = bytes;
        notes[chunk] = NOTE_DONE | n_failed * NOTE_OUTLIERS;
    }
    if (2 * t < n_blocks)
        slot[kinds_at + t] = (u8)(kinds[2 * t] | kinds[2 * t + 1] << 4);
    if (active) {
        write_half(codes, &pack, t, shape, before, own, count, slot + values_at + (sums & 0xffffu));
        if (has_map)
            store_bytes(slot + maps_at + 8 * (sums >> 16 & 0xffu) + 4 * (t % 2), own_present, 4);
        if (wide && t % 2 == 0)
            slot[outliers_at - 1 - (sums >> 24)] = (u8)shape;
    }
    if (n_failed)
        write_outliers(failed, groups, t, x, first, job.type, job.element_bytes, slot + outliers_at + (steps & 0xffffu),
                       slot + outliers_at + n_steps + (steps >> 16) * job.element_bytes);
}

#endif
