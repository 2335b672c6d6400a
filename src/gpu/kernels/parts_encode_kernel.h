/*
 * Level dense, encoded: symbols to bytes of the frame.
 *
 *   code_parts     a thread a lane, backwards: each symbol becomes the bits that its state gives up, until all lanes have the
 *                  states that decoding begins with; the bytes of each part
 *   size_parts     a group a chunk: the bytes of its payload, or of its elements where that is no longer
 *   write_parts    the frame's place is known: eight parts a group, step by step as they are decoded. At each step sums over
 *                  the lanes say where a lane's bits go; they are collected in shared memory and leave in words
 *   write_misfits  a group a chunk: its outliers
 */
#ifndef COMET_GPU_PARTS_ENCODE_H
#define COMET_GPU_PARTS_ENCODE_H

/* A symbol's bits until they are written: the bits, from PENDING_COUNT on their number, a mark for escapes. */
#define PENDING_COUNT 24
#define PENDING_ESCAPED 0x80000000u
#define PENDING_BITS 0x00ffffffu

#define MOST_PART_BYTES 65535u

/* ---- states ---- */

/* Takes a symbol into a state. Returns its bits, as they wait to be written. */
FUNCTION u32 push_symbol(u32 symbol, u32 entry, u32 *state)
{
    const u32 frequency = entry & 0xffffu, start = entry >> 16 & 0xfffu, raw_bits = entry >> 28, limit = 8 * frequency;
    const u32 length = length_in_bits(limit), least = length < STATE_BITS + 1 ? STATE_BITS + 1 - length : 0;
    const u32 k = least + (*state >> least >= limit), x = *state >> k; /* x is from 4 to 8 times the frequency */
    const u32 quotient = 4 + (x >= 5 * frequency) + (x >= 6 * frequency) + (x >= 7 * frequency);
    const u32 bits = symbol >> 8 << k | (*state & ((1u << k) - 1));
    *state = quotient * SCALE + x - quotient * frequency + start;
    return (k + raw_bits) << PENDING_COUNT | bits | (symbol % SYMBOLS == ESCAPE ? PENDING_ESCAPED : 0);
}

FUNCTION u32 bits_pending(u32 pending)
{
    return pending >> PENDING_COUNT & 31u;
}

/* A part with its tables. */
typedef struct part_coder {
    SHARED const arrangement *a;
    GLOBAL const code_word *codes;
    GLOBAL u32 *symbols; /* become bits */
    u32 predictor, identity, escape_order;
} part_coder;

FUNCTION part_coder coder_of(const gpu_job *job, const dense_chunk *c, SHARED const arrangement *a, u32 part)
{
    GLOBAL const dense_tables *tables = tables_of(c);
    part_coder p;
    p.a = a;
    p.codes = codes_of_chunk(job, c) + part * c->part_elements;
    p.symbols = symbols_of(job, c) + part * c->part_elements;
    p.predictor = tables->predictor;
    p.identity = tables->identity;
    p.escape_order = tables->escape_order;
    return p;
}

/* The escape of an element of a part. */
FUNCTION u32 escape_of(const part_coder *p, u32 element)
{
    u32 context;
    const part_place place = place_of(p->a, element);
    return residual_at(p->a, &place, element, p->predictor, p->identity, p->codes, &context) - ESCAPE_LEAST;
}

/* Codes one line of a tile, from right to left. Returns its bits. */
FUNCTION u32 push_line(const part_coder *p, SHARED const u32 *entries, u32 base, u32 *state)
{
    u32 bits = 0;
    for (u32 column = p->a->columns; column-- > 0;) {
        const u32 element = base + column * p->a->channels;
        if (element >= p->a->n)
            continue;
        const u32 symbol = p->symbols[element], pending = push_symbol(symbol, entries[symbol % COUNTERS], state);
        p->symbols[element] = pending;
        bits += bits_pending(pending);
        if (pending & PENDING_ESCAPED)
            bits += escape_bits_of(escape_of(p, element), p->escape_order);
    }
    return bits;
}

/* Codes all of a lane's cells, from the last to the first. */
FUNCTION u32 push_lane(const part_coder *p, SHARED const u32 *entries, u32 lane, u32 *state)
{
    SHARED const arrangement *a = p->a;
    u32 bits = 0;
    for (u32 strip = (a->lines + LANES - 1) / LANES; strip-- > 0;) {
        const u32 line = strip * LANES + lane;
        for (u32 side = a->side; side-- > 0 && line < a->lines;) {
            lane_cursor c;
            c.row = line % a->height;
            c.tile = line / a->height * a->side + side;
            enter_tile(a, &c);
            bits += c.tile < a->tiles ? push_line(p, entries, c.base, state) : 0;
        }
    }
    return bits;
}

/* The part that 32 threads of a group take: there are as many groups that each takes at most eight. NO_CELL if there is none.
 */
FUNCTION u32 part_of_row(const gpu_job *job, const dense_chunk *c, u32 share, u32 row)
{
    const u32 each = (c->n_parts + job->groups - 1) / job->groups, part = share * each + row;
    return row < each && part < c->n_parts ? part : NO_CELL;
}

KERNEL CODED(code_parts)(GLOBAL u8 *x, GLOBAL u8 *frame, GLOBAL u8 *work, GLOBAL u8 *result_buffer, const gpu_job job)
{
    SHARED_ARRAY u32 entries[COUNTERS];
    SHARED_ARRAY u32 part_bits[PARTS];
    SHARED_ARRAY arrangement arranged[2];
    const u32 t = THREAD, lane = t % LANES, row = t / LANES, share = GROUP_NUMBER % job.groups;
    dense_chunk c = chunk_at(&job, work + job.work_offset, GROUP_NUMBER / job.groups);
    settle(&job, &c);
    if (!is_mine(&c))
        return;
    const u32 part = part_of_row(&job, &c, share, row), exists = part < c.n_parts;
    entries[t] = tables_of(&c)->entries[t];
    if (t < PARTS)
        part_bits[t] = LANES * STATE_BITS;
    if (t < 2) /* that of the last part, and of those before it */
        arranged[t] = arrange(&job, elements_of_part(&c, t == 0 ? c.n_parts - 1 : 0));
    BARRIER();

    /* ---- states ---- */
    if (exists) {
        const part_coder p = coder_of(&job, &c, &arranged[part + 1 < c.n_parts], part);
        u32 state = STATE_LEAST;
        SHARED_ADD(&part_bits[row], push_lane(&p, entries, lane, &state));
        parts_of(&job, &c)[part].state[lane] = state;
    }
    BARRIER();
    if (exists && lane == 0)
        parts_of(&job, &c)[part].bytes = (part_bits[row] + 7) / 8;
}

/* ---- outliers, and sizes ---- */

#if CODE_BITS == 16

/* Steps to an outlier after `gap` elements. */
FUNCTION u32 steps_of_gap(u32 gap)
{
    return 1 + (gap / 128 + 127) / 128;
}

/* A thread's share of a chunk's outliers: words of its bits, and the element after the outlier before them. */
typedef struct outlier_run {
    GLOBAL const u32 *failed;
    u32 begin, end, next;
} outlier_run;

FUNCTION outlier_run outliers_of(const gpu_job *job, const dense_chunk *c, u32 t)
{
    const u32 n_words = (c->n + 31) / 32, each = (n_words + GROUP - 1) / GROUP;
    outlier_run r;
    r.failed = failed_of(job, c, c->wide);
    r.begin = t * each < n_words ? t * each : n_words;
    r.end = r.begin + each < n_words ? r.begin + each : n_words;
    r.next = 0;
    return r;
}

/* The element after the last outlier of a run; 0 if it has none. */
FUNCTION u32 end_of_outliers(const outlier_run *r)
{
    for (u32 w = r->end; w-- > r->begin;)
        if (r->failed[w])
            return 32 * w + 32 - LEADING_ZEROS(r->failed[w]);
    return 0;
}

/* Where the first gap of thread t's run begins, by the ends of all runs. */
FUNCTION u32 last_before(SHARED const u32 *ends, u32 t)
{
    while (t > 0 && ends[t - 1] == 0)
        t--;
    return t > 0 ? ends[t - 1] : 0;
}

/* Steps and outliers of a run. */
FUNCTION u32 count_run(const outlier_run *r, u32 *n)
{
    u32 next = r->next, steps = 0;
    *n = 0;
    for (u32 w = r->begin; w < r->end; w++)
        for (u32 mask = r->failed[w]; mask; mask &= mask - 1) {
            const u32 i = 32 * w + lowest_bit(mask);
            steps += steps_of_gap(i - next);
            next = i + 1;
            ++*n;
        }
    return steps;
}

FUNCTION void write_run(const outlier_run *r, const gpu_job *job, GLOBAL const u8 *x, u64 first, GLOBAL u8 *steps,
                        GLOBAL u8 *elements)
{
    u32 next = r->next;
    for (u32 w = r->begin; w < r->end; w++)
        for (u32 mask = r->failed[w]; mask; mask &= mask - 1, elements += job->element_bytes) {
            const u32 i = 32 * w + lowest_bit(mask);
            u32 gap = i - next;
            for (; gap >= 128; steps++) {
                const u32 skips = gap / 128 < 128 ? gap / 128 : 128;
                *steps = (u8)(127 + skips);
                gap -= 128 * skips;
            }
            *steps++ = (u8)gap;
            store_bytes(elements, load_element(x, first + i, job->type), job->element_bytes);
            next = i + 1;
        }
}

KERNEL size_parts(GLOBAL u8 *x, GLOBAL u8 *frame, GLOBAL u8 *work, GLOBAL u8 *result_buffer, const gpu_job job)
{
    SHARED_ARRAY u32 scan[SCAN_ROOM], ends[GROUP], too_long;
    const u32 t = THREAD;
    const u64 chunk = GROUP_NUMBER;
    work += job.work_offset;
    dense_chunk c = chunk_at(&job, work, chunk);
    settle(&job, &c);
    GLOBAL const dense_part *parts = parts_of(&job, &c);
    outlier_run run = outliers_of(&job, &c, t);
    if (t == 0)
        too_long = 0;
    ends[t] = c.n_failed ? end_of_outliers(&run) : 0;
    BARRIER();
    u32 part_bytes = 0, all_parts, steps = 0, all_steps, n;
    for (u32 part = t; part < c.n_parts; part += GROUP) {
        part_bytes += parts[part].bytes;
        if (parts[part].bytes > MOST_PART_BYTES)
            SHARED_OR(&too_long, 1);
    }
    GROUP_SCAN(u32, scan, t, part_bytes, all_parts)
    run.next = last_before(ends, t);
    if (c.n_failed)
        steps = count_run(&run, &n);
    GROUP_SCAN(u32, scan, t, steps, all_steps)
    if (t == 0) {
        const u32 raw = RAW_HEADER + c.n * job.element_bytes;
        const u32 coded =
            CODED_HEADER + 8 + tables_of(&c)->bytes + 2 * c.n_parts + all_parts + all_steps + c.n_failed * job.element_bytes;
        const u32 pays = coded < raw && !too_long;
        ((GLOBAL u32 *)(work + ENCODE_BYTES_AT(job)))[chunk] = pays ? coded : raw;
        ((GLOBAL u32 *)(work + ENCODE_NOTES_AT(job)))[chunk] = pays ? c.n_failed * NOTE_OUTLIERS : 0;
    }
}

/* The outlier section is the last of a payload. */
KERNEL write_misfits(GLOBAL u8 *x, GLOBAL u8 *frame, GLOBAL u8 *work, GLOBAL u8 *result_buffer, const gpu_job job)
{
    SHARED_ARRAY u32 scan[SCAN_ROOM], ends[GROUP];
    const u32 t = THREAD;
    const u64 chunk = GROUP_NUMBER;
    x += job.x_offset;
    work += job.work_offset;
    GLOBAL const gpu_state *state = (GLOBAL const gpu_state *)work;
    const u32 n_outliers = ((GLOBAL const u32 *)(work + ENCODE_NOTES_AT(job)))[chunk] / NOTE_OUTLIERS;
    if (!state->go || !n_outliers)
        return;
    dense_chunk c = chunk_at(&job, work, chunk);
    settle(&job, &c);
    outlier_run run = outliers_of(&job, &c, t);
    ends[t] = end_of_outliers(&run);
    BARRIER();
    run.next = last_before(ends, t);
    u32 n, all, all_steps, steps = count_run(&run, &n);
    GROUP_SCAN(u32, scan, t, steps, all_steps)
    GROUP_SCAN(u32, scan, t, n, all)
    const u32 bytes = ((GLOBAL const u32 *)(work + ENCODE_BYTES_AT(job)))[chunk];
    const u64 past = state->frame_at + ((GLOBAL const u64 *)(work + ENCODE_STARTS_AT(job)))[chunk] + bytes;
    GLOBAL u8 *elements = frame + past - all * job.element_bytes;
    write_run(&run, &job, x, c.first, elements - all_steps + steps, elements + n * job.element_bytes);
}

#endif

/* ---- bytes ---- */

/* Bits of a part on their way to the frame. A step has at most 16 bits and an escape of 65 for each lane. */
#define RING 512 /* words of a part, of which four steps and the states take at most 337 */
#define STEPS_A_FLUSH 4

FUNCTION void ring_put(SHARED u32 *ring, u32 at, u32 v)
{
    const u32 shift = at % 32;
    SHARED_OR(&ring[at / 32 % RING], v << shift);
    if (shift && v >> (32 - shift))
        SHARED_OR(&ring[(at / 32 + 1) % RING], v >> (32 - shift));
}

/* An Exp-Golomb number. */
FUNCTION void put_escape(SHARED u32 *ring, u32 at, u32 escape, u32 order)
{
    const u64 v = escape + ((u64)1 << order);
    const u32 bits = (v >> 32 ? 33 : length_in_bits((u32)v)) - 1;
    ring_put(ring, at + bits - order, 1);
    ring_put(ring, at + bits - order + 1, (u32)(v - ((u64)1 << bits)));
}

/* Where a part's bytes go: `words` is aligned, the first byte is `skip` bytes after it. */
typedef struct part_out {
    GLOBAL u8 *words;
    u32 skip, end;
} part_out;

/* Stores the ring's words from `from` to `to`, as far as they lie in the part, and clears them. */
FUNCTION void flush_ring(SHARED u32 *ring, const part_out *out, u32 from, u32 to, u32 lane)
{
    for (u32 w = from + lane; w < to; w += LANES) {
        const u32 v = ring[w % RING];
        ring[w % RING] = 0;
        if (4 * w >= out->skip && 4 * w + 4 <= out->end) {
            ((GLOBAL u32 *)out->words)[w] = v;
            continue;
        }
        for (u32 b = 0; b < 4; b++)
            if (4 * w + b >= out->skip && 4 * w + b < out->end)
                out->words[4 * w + b] = (u8)(v >> 8 * b);
    }
}

/* Header, tables and sizes of the parts, by all threads of a group. */
FUNCTION void write_head(const gpu_job *job, const dense_chunk *c, u32 bytes, u32 t, GLOBAL u8 *out)
{
    GLOBAL const dense_tables *tables = tables_of(c);
    GLOBAL const dense_part *parts = parts_of(job, c);
    GLOBAL u8 *sizes = out + CODED_HEADER + 8 + tables->bytes;
    for (u32 i = t; i < tables->bytes; i += GROUP)
        out[CODED_HEADER + 8 + i] = (u8)(tables->words[i / 4] >> i % 4 * 8);
    for (u32 part = t; part < c->n_parts; part += GROUP)
        store_bytes(sizes + 2 * part, parts[part].bytes, 2);
    if (t == 0) {
        u32 rest = bytes - CODED_HEADER - 8 - tables->bytes - 2 * c->n_parts;
        for (u32 part = 0; part < c->n_parts; part++)
            rest -= parts[part].bytes;
        const u32 marks = tables->identity | (c->mode == MODE_NONZERO ? PAYLOAD_NONZERO : 0);
        store_bytes(out, PAYLOAD_PARTS | (CODE_BITS / 32) << 8 | tables->predictor << 16 | marks << 24, 4);
        store_bytes(out + 4, c->n_failed, 4);
        store_bytes(out + 8, rest, 4); /* the outliers' */
        store_bytes(out + 12, c->part_elements, 4);
        store_bytes(out + 16, tables->bytes, 4);
    }
}

/* A chunk as it is. */
FUNCTION void write_elements(const gpu_job *job, const dense_chunk *c, GLOBAL const u8 *x, u32 number, u32 step, GLOBAL u8 *out)
{
    if (number == 0)
        store_bytes(out, 0, 4);
    for (u32 i = number; i < c->n; i += step)
        store_bytes(out + RAW_HEADER + i * job->element_bytes, load_element(x, c->first + i, job->type), job->element_bytes);
}

KERNEL CODED(write_parts)(GLOBAL u8 *x, GLOBAL u8 *frame, GLOBAL u8 *work, GLOBAL u8 *result_buffer, const gpu_job job)
{
    SHARED_ARRAY u32 rings[PARTS * RING];
    SHARED_ARRAY u32 sums[2][GROUP]; /* in turn for one step and the next */
    SHARED_ARRAY arrangement arranged[2];
    const u32 t = THREAD, lane = t % LANES, row = t / LANES, share = GROUP_NUMBER % job.groups;
    const u64 chunk = GROUP_NUMBER / job.groups;
    x += job.x_offset;
    work += job.work_offset;
    GLOBAL const gpu_state *state_of = (GLOBAL const gpu_state *)work;
    dense_chunk c = chunk_at(&job, work, chunk);
    settle(&job, &c);
    if (!state_of->go || !is_mine(&c))
        return;
    const u32 bytes = ((GLOBAL const u32 *)(work + ENCODE_BYTES_AT(job)))[chunk];
    const u64 at = state_of->frame_at + ((GLOBAL const u64 *)(work + ENCODE_STARTS_AT(job)))[chunk];
    if (bytes == RAW_HEADER + c.n * job.element_bytes) {
        write_elements(&job, &c, x, share * GROUP + t, job.groups * GROUP, frame + at);
        return;
    }
    if (share == 0)
        write_head(&job, &c, bytes, t, frame + at);
    const u32 part = part_of_row(&job, &c, share, row), exists = part < c.n_parts;
    for (u32 i = t; i < PARTS * RING; i += GROUP)
        rings[i] = 0;
    if (t < 2)
        arranged[t] = arrange(&job, elements_of_part(&c, t == 0 ? c.n_parts - 1 : 0));
    BARRIER();

    /* ---- parts ---- */
    GLOBAL const dense_part *parts = parts_of(&job, &c);
    SHARED u32 *ring = rings + row * RING;
    SHARED const arrangement *a = &arranged[part + 1 < c.n_parts];
    const part_coder coder = coder_of(&job, &c, a, exists ? part : 0);
    u64 part_at = at + CODED_HEADER + 8 + tables_of(&c)->bytes + 2 * c.n_parts;
    for (u32 other = 0; exists && other < part; other++)
        part_at += parts[other].bytes;
    const u32 skip = (u32)(part_at % 4);
    const part_out out = {frame + (part_at - skip), skip, exists ? skip + parts[part].bytes : 0};
    u32 stream_at = 8 * skip + LANES * STATE_BITS, flushed = 0;
    if (exists)
        ring_put(ring, 8 * skip + STATE_BITS * lane, parts[part].state[lane] - STATE_LEAST);
    lane_cursor cursor;
    enter_line(a, &cursor, lane);
    const u32 n_steps = arranged[0].n_steps > arranged[1].n_steps ? arranged[0].n_steps : arranged[1].n_steps;
    for (u32 step = 0; step < n_steps; step += STEPS_A_FLUSH) {
        for (u32 k = 0; k < STEPS_A_FLUSH; k++) {
            const u32 moves = exists && step + k >= 2 * lane, element = moves ? element_at(a, &cursor) : NO_CELL;
            const u32 pending = element != NO_CELL ? coder.symbols[element] : 0;
            u32 escape = 0, escape_bits = 0, all;
            if (pending & PENDING_ESCAPED) {
                escape = escape_of(&coder, element);
                escape_bits = escape_bits_of(escape, coder.escape_order);
            }
            u32 before = bits_pending(pending) | escape_bits << 16;
            LANE_SCAN(sums[k % 2], t, before, all)
            if (pending & PENDING_BITS)
                ring_put(ring, stream_at + (before & 0xffffu), pending & PENDING_BITS);
            stream_at += all & 0xffffu;
            if (escape_bits)
                put_escape(ring, stream_at + (before >> 16), escape, coder.escape_order);
            stream_at += all >> 16;
            if (moves)
                advance(a, &cursor);
        }
        BARRIER();
        flush_ring(ring, &out, flushed, stream_at / 32, lane);
        flushed = stream_at / 32;
        BARRIER();
    }
    flush_ring(ring, &out, flushed, flushed + 1, lane);
}

#endif
