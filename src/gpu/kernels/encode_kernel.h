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

/* ---- residuals ---- */

/* How the residuals of a chunk are made. */
typedef struct packing {
    u32 predictor, identity, left, up;
} packing;

#if !PAIRED
/* The residuals of a lot from code i on, under predictors NONE to LORENZO, whose bits say which neighbours count. */
FUNCTION void residuals_of(SHARED const code_word *codes, const packing *p, u32 i, u32 *r)
{
    u32 other[LOT];
    codes_before(codes, i, 0, LOT, r);
    if (p->predictor & PREDICTOR_LEFT) {
        codes_before(codes, i, p->left, LOT, other);
        for (u32 e = 0; e < LOT; e++)
            r[e] -= other[e];
    }
    if (p->predictor & PREDICTOR_UP) {
        codes_before(codes, i, p->up, LOT, other);
        for (u32 e = 0; e < LOT; e++)
            r[e] -= other[e];
    }
    if ((p->predictor & PREDICTOR_LORENZO) == PREDICTOR_LORENZO) {
        codes_before(codes, i, p->up + p->left, LOT, other);
        for (u32 e = 0; e < LOT; e++)
            r[e] += other[e];
    }
    for (u32 e = 0; e < LOT; e++)
        r[e] = p->identity ? (u32)(code_word)r[e] : zigzag(r[e]);
}

#else
#define PAIR_LOT 4 /* pairs of a thread that become residuals between two barriers */

/* Neighbours of a thread's pairs, `back` codes before them: of its pair number 0, their pair and the one before that. */
typedef struct pair_neighbours {
    i32 back, at, before;
} pair_neighbours;

FUNCTION pair_neighbours pair_neighbours_of(u32 t, u32 back)
{
    const i32 pair = (i32)t - (i32)(back / 2);
    pair_neighbours n = {(i32)back, PAIR_AT(pair), PAIR_AT(pair - 1)};
    return n;
}

/* Subtracts the neighbours of thread t's pairs from number k on, or adds them. Those before the chunk are 0. Lanes are 2^15
 * more than codes, so that none is negative. */
FUNCTION void take_neighbours(SHARED const code_pair *pairs, const pair_neighbours *n, u32 t, u32 k, u32 adds, u32 *r)
{
    const i32 at = n->at + PAIR_STEP * (i32)k, before = n->before + PAIR_STEP * (i32)k;
    const i32 first = 2 * GROUP * (i32)k - n->back; /* of thread 0's */
    const u32 there = first > -2 * PAIRS_BEFORE;
    u32 v[PAIR_LOT];
    if (there && n->back % 2 == 0) {
        for (i32 j = 0; j < PAIR_LOT; j++)
            v[j] = pairs[at + PAIR_STEP * j];
    } else if (there) {
        for (i32 j = 0; j < PAIR_LOT; j++)
            v[j] = pairs[at + PAIR_STEP * j] << 16 | pairs[before + PAIR_STEP * j] >> 16;
    } else {
        for (i32 j = 0; j < PAIR_LOT; j++) {
            const i32 mine = first + 2 * ((i32)t + GROUP * j);
            const u32 here = mine >= -1 ? pairs[at + PAIR_STEP * j] : 0, low = mine > 0 ? pairs[before + PAIR_STEP * j] : 0;
            v[j] = n->back % 2 == 0 ? here : here << 16 | low >> 16;
        }
    }
    for (u32 j = 0; j < PAIR_LOT; j++)
        r[j] = adds ? r[j] + (v[j] ^ TOPS) : r[j] - (v[j] ^ TOPS);
}
#endif

/* ---- codes ---- */

/* Quantises thread t's elements, up to the last block's end; the bits of those that fail go to `failed`. Codes are kept only if
 * `keep`. */
FUNCTION void quantise_chunk(const quantiser_of *q, GLOBAL const u8 *x, u64 first, u32 n, u32 n_padded, u32 t, u32 keep,
                             float limit, SHARED code_word *codes, SHARED u32 *failed)
{
    for (u32 k = 0; k < HALF / LOT; k++) {
        const u32 i = LOT_AT(t, k);
        if (i >= n_padded)
            break;
        float v[LOT];
        i32 code[LOT];
        load_lot(x, first + i, i < n ? n - i : 0, q->type, v);
        u32 misses = quantise_lot(q, v, i, limit, code);
        if (i + LOT > n)
            misses &= i < n ? (1u << (n - i)) - 1 : 0;
        if (misses)
            SHARED_OR(&failed[i / HALF], misses << i % HALF);
        for (u32 e = 0; keep && e < LOT; e++)
            codes[CODE_AT(i + e)] = i + e < n ? (code_word)code[e] : (code_word)0;
    }
}

#if PAIRED
/* A code of f32 without dither, where it needs no check; else *sure becomes 0. src/codec/quantiser.c says why. */
FUNCTION u32 sure_code(const quantiser_of *q, u32 mode, float x, u32 *sure)
{
    float t = (mode == MODE_SUPPORT ? FABS(x) : x) * q->inverse;
    const u32 good = FABS(t) <= (float)LARGEST_CODE16 && (mode != MODE_NONZERO || x != 0.0f);
    *sure = *sure & good;
    if (mode == MODE_PLAIN)
        return BITS_OF_FLOAT(t + FLOAT_OF_BITS(0x4b400000u)); /* 1.5 2^23 rounds to the nearest even integer */
    t = good ? t : 0.0f;
    if (mode == MODE_NONZERO) {
        const i32 code = (i32)FLOOR(t);
        return (u32)(x < 0.0f && code == 0 ? -1 : code);
    }
    t = CEIL(t);
    const i32 magnitude = (i32)(t > 1.0f ? t : 1.0f);
    return (u32)(x > 0.0f ? magnitude : x < 0.0f ? -magnitude : 0);
}

/* Pairs of a full chunk; returns a bit for each that has a code which needs a check. */
FUNCTION u32 quantise_pairs_as(const quantiser_of *q, u32 mode, GLOBAL const float *mine, SHARED code_pair *out)
{
    u32 doubtful = 0;
    for (u32 k = 0; k < PAIRS; k++) {
        u32 sure = 1, low = sure_code(q, mode, mine[2 * GROUP * k], &sure) & 0xffffu;
        out[PAIR_STEP * k] = low | sure_code(q, mode, mine[2 * GROUP * k + 1], &sure) << 16;
        doubtful |= sure ? 0 : 1u << k;
    }
    return doubtful;
}

/* As quantise_chunk, for f32 without dither and a full chunk. */
FUNCTION void quantise_pairs(const quantiser_of *q, GLOBAL const float *x, u32 t, SHARED code_pair *pairs, SHARED u32 *failed)
{
    u32 doubtful = 0;
    WITH_MODE(q, mode, doubtful = quantise_pairs_as(q, mode, x + 2 * t, pairs + PAIR_AT(t));)
    for (; doubtful; doubtful &= doubtful - 1) {
        const u32 k = lowest_bit(doubtful), i = 2 * (t + GROUP * k);
        const float v[2] = {x[i], x[i + 1]};
        i32 code[2];
        u32 misses = quantise_lot(q, v, i, (float)LARGEST_CODE, code);
        misses |= quantise_lot(q, v + 1, i + 1, (float)LARGEST_CODE, code + 1) << 1;
        if (misses)
            SHARED_OR(&failed[i / HALF], misses << i % HALF);
        pairs[PAIR_AT(t) + PAIR_STEP * k] = ((u32)code[0] & 0xffffu) | (u32)code[1] << 16;
    }
}
#endif

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

/* A bit for each residual z of a half block that is not 0; the bits that any z has, and any z - 1. */
typedef struct half_look {
    u32 present, any, less;
} half_look;

FUNCTION half_look look_at_half(SHARED const code_word *residuals, u32 side)
{
    half_look look = {0, 0, 0};
#if PAIRED
    SHARED const code_pair *pairs = (SHARED const code_pair *)(residuals + CODE_AT(HALF * side));
    for (u32 j = 0; j < PAIRS; j++) {
        const u32 z = pairs[j], nonzero = lanes_nonzero(z);
        look.present |= nonzero << j;
        look.any |= z;
        look.less |= z - nonzero;
    }
    look.present = interleaved(look.present);
    look.any = (look.any | look.any >> 16) & 0xffffu;
    look.less = (look.less | look.less >> 16) & 0xffffu;
#else
    for (u32 j = 0; j < HALF; j++) {
        const u32 z = residuals[CODE_AT(HALF * side) + j], nonzero = z != 0;
        look.present |= nonzero << j;
        look.any |= z;
        look.less |= z - nonzero;
    }
#endif
    return look;
}

/* Bits on their way to memory: `filled` of the word at byte `at` of a payload. The first word, at `begin`, is kept: not all of
 * its bytes are the thread's. */
typedef struct bits_out {
    u32 word, filled, at, begin, first;
} bits_out;

FUNCTION void store_some(GLOBAL u8 *out, u32 word, u32 begin, u32 end)
{
    for (u32 i = 0; i < 4; i++)
        if (i >= begin && i < end)
            out[i] = (u8)(word >> 8 * i);
}

/* At most 32 bits. */
FUNCTION void put_bits(bits_out *o, GLOBAL u8 *payload, u32 v, u32 n)
{
    const u32 filled = o->filled + n;
    o->word |= v << o->filled;
    if (filled >= 32) {
        if (o->at == o->begin)
            o->first = o->word;
        else
            *(GLOBAL u32 *)(payload + o->at) = o->word;
        o->word = o->filled ? v >> (32 - o->filled) : 0;
        o->at += 4;
    }
    o->filled = filled % 32;
}

/* A part of the four residuals at `z`, `bits` bits from bit `shift` on: of all, or of those in `present` less 1. */
FUNCTION u32 quad_bits(SHARED const code_word *z, u32 has_map, u32 present, u32 shift, u32 bits, u32 *n_bits)
{
    const u32 mask = (1u << bits) - 1;
#if PAIRED
    SHARED const code_pair *pairs = (SHARED const code_pair *)z;
    u32 joined[2];
    if (!has_map) {
        for (u32 h = 0; h < 2; h++) {
            const u32 p = pairs[h] >> shift & mask * ONES;
            joined[h] = p + (p >> 16) * ((1u << bits) - 65536); /* the upper lane moves down to the lower one's end */
        }
        *n_bits = 4 * bits;
        return joined[0] | joined[1] << 2 * bits;
    }
    for (u32 h = 0; h < 2; h++) {
        const u32 first = present >> 2 * h & 1u, second = present >> (2 * h + 1) & 1u;
        const u32 p = (pairs[h] - (first | second << 16)) >> shift & mask * ONES;
        joined[h] = (p & 0xffffu) | (p >> 16) << (first ? bits : 0);
    }
    *n_bits = POPCOUNT(present & 15u) * bits;
    return joined[0] | joined[1] << POPCOUNT(present & 3u) * bits;
#else
    if (!has_map) {
        *n_bits = 4 * bits;
        return ((z[0] >> shift & mask) | (z[1] >> shift & mask) << bits) |
               ((z[2] >> shift & mask) | (z[3] >> shift & mask) << bits) << 2 * bits;
    }
    u32 word = 0, filled = 0;
    for (u32 e = 0; e < 4; e++) {
        u32 counts = present >> e & 1u;
        word |= (((u32)z[e] - 1) >> shift & mask & (0u - counts)) << filled;
        filled += counts ? bits : 0;
    }
    *n_bits = filled;
    return word;
#endif
}

/* A half block as its thread writes it; `before` values are those of the other half, `count` are the block's. */
typedef struct half_block {
    u32 side, shape, before, own, count, present, other_present;
} half_block;

/*
 * Writes the values of a half block to the block's bytes, which begin at byte `at` of the payload. In a part whose first half
 * ends within a byte, the thread of the first half writes this byte, for which it goes on into the second half, and the other
 * thread begins after it.
 */
FUNCTION void write_half(SHARED const code_word *residuals, const half_block *h, GLOBAL u8 *payload, u32 at)
{
    const u32 width = SHAPE_WIDTH(h->shape), has_map = h->shape & SHAPE_MAP ? 1u : 0u, odd = h->side % 2;
    SHARED const code_word *own = residuals + CODE_AT(HALF * h->side), *other = residuals + CODE_AT(HALF * (h->side + 1));
    for (u32 shift = 0; shift < width; shift += 8) {
        const u32 bits = width - shift < 8 ? width - shift : 8, from = 8 * at + h->before * bits, to = from + h->own * bits;
        const u32 next = at + (h->count * bits + 7) / 8, past = odd ? next : (to + 7) / 8;
        const u32 begin = from / 32 * 4, own_begin = (from % 32 + 7) / 8;
        bits_out o = {0, from % 32, begin, begin, 0};
        u32 n_bits;
        for (u32 quad = 0; quad < HALF / 4; quad++) {
            const u32 v = quad_bits(own + 4 * quad, has_map, h->present >> 4 * quad, shift, bits, &n_bits);
            put_bits(&o, payload, v, n_bits);
        }
        for (u32 quad = 0; !odd && quad < HALF / 4 && o.filled < 8 * (past - o.at); quad++) {
            o.word |= quad_bits(other + 4 * quad, has_map, h->other_present >> 4 * quad, shift, bits, &n_bits) << o.filled;
            o.filled += n_bits;
        }
        if (o.at != begin)
            store_some(payload + begin, o.first, own_begin, 4);
        store_some(payload + o.at, o.word, o.at != begin ? 0 : own_begin, past - o.at);
        at = next;
    }
}

/* ---- outliers ---- */

/* Outliers are counted in sections of 16 threads, 32 elements each. */
#define SECTION 16

/* For each thread of a section the element after the last outlier of the section's threads before it, 0 where there is none;
 * returns the same for the thread after the section. */
FUNCTION u32 follow_section(SHARED const u32 *failed, u32 section, SHARED u32 *after)
{
    u32 last = 0;
    for (u32 j = section * SECTION; j < section * SECTION + SECTION; j++) {
        after[j] = last;
        last = failed[j] ? 32 * j + 32 - LEADING_ZEROS(failed[j]) : last;
    }
    return last;
}

/* What is before section 0, 1, ... instead of what is in it. */
FUNCTION void follow_sections(SHARED u32 *after_section)
{
    u32 last = 0;
    for (u32 j = 0; j < GROUP / SECTION; j++) {
        u32 own = after_section[j];
        after_section[j] = last;
        last = own ? own : last;
    }
}

/* Steps of thread t's outliers `mask`; `cursor` is the element after the outlier before them. */
FUNCTION u32 count_steps(u32 mask, u32 t, u32 cursor)
{
    return mask ? POPCOUNT(mask) + (32 * t + lowest_bit(mask) - cursor >= 128) : 0;
}

FUNCTION void write_outliers(u32 mask, u32 t, u32 cursor, GLOBAL const u8 *x, u64 first, u32 type, u32 element_bytes,
                             GLOBAL u8 *steps, GLOBAL u8 *elements)
{
    for (; mask; mask &= mask - 1, elements += element_bytes) {
        u32 i = 32 * t + lowest_bit(mask), gap = i - cursor;
        if (gap >= 128)
            *steps++ = (u8)(127 + gap / 128);
        *steps++ = (u8)(gap % 128);
        store_bytes(elements, load_element(x, first + i, type), element_bytes);
        cursor = i + 1;
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

/* Barriers stand at the top or in loops of a constant number of rounds; steps that a chunk does not need pass between them. */
KERNEL CODED(encode)(GLOBAL u8 *x, GLOBAL u8 *frame, GLOBAL u8 *work, GLOBAL u8 *result_buffer, const gpu_job job)
{
#if PAIRED
    SHARED_ARRAY code_pair room[PAIR_AT(PAIRS_BEFORE + MAX_CHUNK / 2)];
    SHARED code_pair *pairs = room + PAIR_AT(PAIRS_BEFORE);
    SHARED code_word *codes = (SHARED code_word *)pairs;
#else
    SHARED_ARRAY code_word codes[CODES_ROOM];
#endif
    SHARED_ARRAY u32 scan[SCAN_ROOM];
    SHARED_ARRAY u32 failed[GROUP], after[GROUP], after_section[GROUP / SECTION];
    SHARED_ARRAY octet_figures octets[OCTETS];
    SHARED_ARRAY u32 costs[4 * RUNS], sums_of_costs[4];
    SHARED_ARRAY half_look halves[GROUP];
    SHARED_ARRAY u8 kinds[GROUP / 2];
    SHARED_ARRAY u32 flags[4]; /* zeros or signs, out of range, a plane does not fit, elements that failed */
    const u32 t = THREAD;
    const u64 chunk = GROUP_NUMBER, first = chunk * job.chunk_elements;
    const u32 n = (u32)(job.n_elements - first < job.chunk_elements ? job.n_elements - first : job.chunk_elements);
    const u32 n_blocks = (n + BLOCK_ELEMENTS - 1) / BLOCK_ELEMENTS, n_runs = sample_runs(n);
    x += job.x_offset;
    work += job.work_offset;
    GLOBAL u32 *sizes = (GLOBAL u32 *)(work + ENCODE_BYTES_AT(job)), *notes = (GLOBAL u32 *)(work + ENCODE_NOTES_AT(job));
    GLOBAL u8 *slot = work + ENCODE_SLOTS_AT(job) + chunk * job.slot_bytes;

    /* ---- what the kernels before say of this chunk ---- */
    const u32 begins = job.pass == 0, note = begins ? 0 : notes[chunk];
    if (!begins && !(note & (CODE_BITS == 16 ? NOTE_NARROW : NOTE_WIDE)))
        return;
    quantiser_of q = {job.step, job.half_step, job.inverse, job.bound, begins ? job.mode : note / NOTE_MODE % 4, 0, job.type};
    if (job.mode == MODE_DITHER)
        q.key = chunk_key(job.seed, chunk);

    /* ---- keep support: do the sampled elements have no zero? ---- */
    if (t < 4)
        flags[t] = 0;
#if PAIRED
    if (t < PAIR_AT(PAIRS_BEFORE))
        room[t] = 0;
#endif
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
    u32 n_failed = 0, failed16 = 0, go = 1, narrow = 0, tries_wide = 0;
    for (u32 attempt = 0; attempt < 2; attempt++) {
        /* 32 bits are for lossy codes only where they fail much less often than 16 bits. */
        for (u32 round = CODE_BITS == 16 ? 1 : 0; round < 2; round++) {
            const u32 quantises = go && !job.lossless;
            BARRIER();
            if (go)
                failed[t] = 0;
            if (t < 4)
                flags[t] = 0;
            BARRIER();
#if PAIRED
            const u32 paired = job.type == TYPE_F32 && q.mode != MODE_DITHER && n == MAX_CHUNK;
            if (quantises && paired)
                quantise_pairs(&q, (GLOBAL const float *)x + first, t, pairs, failed);
            if (quantises && !paired)
#else
            if (quantises)
#endif
                quantise_chunk(&q, x, first, n, n_blocks * BLOCK_ELEMENTS, t, round == 1,
                               (float)(round == 0 ? LARGEST_CODE16 : LARGEST_CODE), codes, failed);
            for (u32 i = t; CODE_BITS == 32 && job.lossless && go && i < n_blocks * BLOCK_ELEMENTS; i += GROUP)
                codes[CODE_AT(i)] = i < n ? (code_word)code_of_bits(load_element(x, first + i, job.type), job.type) : 0;
            BARRIER();
            if (quantises && failed[t])
                SHARED_ADD(&flags[3], POPCOUNT(failed[t]));
            BARRIER();
            n_failed = quantises ? flags[3] : n_failed;
            failed16 = quantises && (CODE_BITS == 16 || round == 0) ? n_failed : failed16;
        }
        /* Elements of 16 bits that are all in range gain nothing from wide codes. */
        const u32 ask_range = go && job.element_bytes == 2 && !job.lossless && failed16 > n / 64;
        for (u32 i = t; ask_range && i < n; i += GROUP) {
            float v = value_of_bits(load_element(x, first + i, job.type), job.type);
            if (!(FABS(v) <= job.limit))
                SHARED_OR(&flags[1], 1);
        }
        if (ask_range && job.limit > FLOAT_OF_BITS(0x5d000000u) && t < 32 && t / 16 * 4096 < n) /* 2^59 */
            if (!lane_is_finite(&q, x, first, n, t))
                SHARED_OR(&flags[1], 1);
        BARRIER();
        const u32 suits = failed16 <= n / 64 || (job.element_bytes == 2 && !flags[1]);
        if (go) {
            tries_wide = CODE_BITS == 16 && begins && !suits;
            narrow = CODE_BITS == 32 && !job.lossless && (suits || n_failed > failed16 / 2);
        }
        const u32 n_final = narrow ? failed16 : n_failed;
        go = go && q.mode == MODE_NONZERO && n_final > n / 64 && !tries_wide && (begins || CODE_BITS == 32);
        q.mode = go ? MODE_SUPPORT : q.mode;
    }
    if (tries_wide || narrow) {
        if (t == 0)
            notes[chunk] = (tries_wide ? NOTE_WIDE : NOTE_NARROW) | q.mode * NOTE_MODE;
        return;
    }

    /* ---- the predictor ---- */
    BARRIER();
    if (t == 0)
        flags[0] = 0;
    if (n_failed && t < GROUP / SECTION)
        after_section[t] = follow_section(failed, t, after);
    BARRIER();
    if (n_failed && t == 0)
        follow_sections(after_section);
    if (t < n_runs * 8) {
        octet_of(codes, run_begin(n, n_runs, t / 8) + t % 8 * 8, job.channels, job.line, &octets[t]);
        if (octets[t].signs)
            SHARED_OR(&flags[0], 1);
    }
    BARRIER();
    const u32 signs = flags[0];
    if (t < 4 * n_runs)
        costs[t] = cost_of_run(octets + t / 4 * 8, t % 4, !signs);
    BARRIER();
    if (t < 4) {
        u32 sum = 0;
        for (u32 run = 0; run < n_runs; run++)
            sum += costs[4 * run + t];
        sums_of_costs[t] = sum;
    }
    BARRIER();
    const u32 bits[4] = {sums_of_costs[0], sums_of_costs[1], sums_of_costs[2], sums_of_costs[3]};
    const u32 first_pair = bits[1] < bits[0], second_pair = bits[3] < bits[2];
    const u32 best_first = first_pair ? bits[1] : bits[0], best_second = second_pair ? bits[3] : bits[2];
    const u32 best = best_second < best_first ? best_second : best_first;
    u32 predictor = best_second < best_first ? PREDICTOR_UP + second_pair : PREDICTOR_NONE + first_pair;
    packing pack = {predictor, predictor == PREDICTOR_NONE && n_runs > 0 && !signs, job.channels, job.line};
    BARRIER();

    /* ---- a linear fit, where there are many bits to save ---- */
    const u32 ask_linear = !job.lossless && n_runs > 0 && best > 6 * n_runs * BLOCK_ELEMENTS;
    const u32 n_planes = ask_linear ? planes_of(&job, n) : 0,
              planes_fit = CODED_HEADER + 8 * (u64)n_planes < RAW_HEADER + n * job.element_bytes;
    if (ask_linear && t < n_runs) {
        tile mine;
        costs[t] = tile_of_run(&job, n, run_begin(n, n_runs, t), &mine) ? cost_of_tile(codes, &mine) : 0;
    }
    BARRIER();
    u64 cost = 0, tried = 0;
    for (u32 run = 0; ask_linear && run < n_runs && tried < LINEAR_TRIES; run++) {
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
    if (linear) {
        predictor = fits ? PREDICTOR_LINEAR : PREDICTOR_LORENZO;
        pack.predictor = fits ? PREDICTOR_NONE : PREDICTOR_LORENZO;
        pack.identity = 0;
    }

    /* ---- residuals take the codes' place, the last ones first, since they are made from codes before them ---- */
#if PAIRED
    const pair_neighbours left = pair_neighbours_of(t, pack.left), up = pair_neighbours_of(t, pack.up),
                          corner = pair_neighbours_of(t, pack.left + pack.up);
    for (u32 k = PAIRS / PAIR_LOT; k-- > 0;) {
        SHARED code_pair *mine = pairs + PAIR_AT(t) + PAIR_STEP * PAIR_LOT * k;
        u32 r[PAIR_LOT];
        for (u32 j = 0; j < PAIR_LOT; j++)
            r[j] = mine[PAIR_STEP * j];
        if (pack.predictor != PREDICTOR_NONE) { /* sums of four codes fit 16 bits */
            for (u32 j = 0; j < PAIR_LOT; j++)
                r[j] ^= TOPS;
            if (pack.predictor & PREDICTOR_LEFT)
                take_neighbours(pairs, &left, t, PAIR_LOT * k, 0, r);
            if (pack.predictor & PREDICTOR_UP)
                take_neighbours(pairs, &up, t, PAIR_LOT * k, 0, r);
            if (pack.predictor == PREDICTOR_LORENZO)
                take_neighbours(pairs, &corner, t, PAIR_LOT * k, 1, r);
            for (u32 j = 0; j < PAIR_LOT; j++)
                r[j] = lanes_settled(r[j]);
        }
        for (u32 j = 0; !pack.identity && j < PAIR_LOT; j++)
            r[j] = lanes_zigzag(r[j]);
        BARRIER();
        for (u32 j = 0; j < PAIR_LOT; j++)
            mine[PAIR_STEP * j] = r[j];
    }
#else
    for (u32 k = HALF / LOT; k-- > 0;) {
        const u32 i = LOT_AT(t, k), inside = i < n_blocks * BLOCK_ELEMENTS;
        u32 r[LOT];
        if (inside)
            residuals_of(codes, &pack, i, r);
        BARRIER();
        for (u32 e = 0; inside && e < LOT; e++)
            codes[CODE_AT(i + e)] = (code_word)r[e];
    }
#endif
    BARRIER();

    /* ---- shapes and places ---- */
    const u32 active = t / 2 < n_blocks;
    half_look own = {0, 0, 0};
    if (active)
        own = look_at_half(codes, t);
    halves[t] = own;
    BARRIER();
    const half_look other = halves[t ^ 1];
    const u32 own_present = own.present, other_present = other.present;
    const u32 n_nonzero = POPCOUNT(own_present) + POPCOUNT(other_present);
    const u32 shape = shape_for(own.any | other.any, own.less | other.less, n_nonzero);
    const u32 has_map = shape & SHAPE_MAP ? 1u : 0u, count = has_map ? n_nonzero : BLOCK_ELEMENTS;
    const u32 block_bytes = bytes_of_values(count, SHAPE_WIDTH(shape)), wide = shape_is_wide(shape);
    const u32 block_sums = block_bytes | has_map << 16 | wide << 24; /* at most 2^15, 2^7 and 2^7 in all */
    u32 sums = active && t % 2 == 0 ? block_sums : 0, all;
    GROUP_SCAN(u32, scan, t, sums, all)
    sums -= t % 2 && active ? block_sums : 0;
    const u32 missed = n_failed ? failed[t] : 0;
    const u32 cursor = !missed ? 0 : after[t] ? after[t] : after_section[t / SECTION];
    u32 steps = count_steps(missed, t, cursor) | POPCOUNT(missed) << 16, all_steps = 0;
    if (SCANS_ALWAYS || n_failed)
        GROUP_SCAN(u32, scan, t, steps, all_steps)
    if (t % 2 == 0)
        kinds[t / 2] = (u8)(active ? kind_of_shape(shape) : 0);
    BARRIER();
    const u32 n_steps = all_steps & 0xffffu, outlier_bytes = n_steps + n_failed * job.element_bytes;
    const u32 kinds_at = CODED_HEADER + (predictor == PREDICTOR_LINEAR ? 8 * n_planes : 0);
    const u32 values_at = kinds_at + (n_blocks + 1) / 2, maps_at = values_at + (all & 0xffffu);
    const u32 outliers_at = maps_at + 8 * (all >> 16 & 0xffu) + (all >> 24), bytes = outliers_at + outlier_bytes;
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
        const u32 before = t % 2 == 0 ? 0 : has_map ? POPCOUNT(other_present) : HALF;
        const half_block mine = {t, shape, before, has_map ? POPCOUNT(own_present) : HALF, count, own_present, other_present};
        write_half(codes, &mine, slot, values_at + (sums & 0xffffu));
        if (has_map)
            store_bytes(slot + maps_at + 8 * (sums >> 16 & 0xffu) + 4 * (t % 2), own_present, 4);
        if (wide && t % 2 == 0)
            slot[outliers_at - 1 - (sums >> 24)] = (u8)shape;
    }
    write_outliers(missed, t, cursor, x, first, job.type, job.element_bytes, slot + outliers_at + (steps & 0xffffu),
                   slot + outliers_at + n_steps + (steps >> 16) * job.element_bytes);
}

#endif
