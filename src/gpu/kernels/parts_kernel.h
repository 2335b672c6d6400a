/*
 * Level dense, decoded: chunks in parts, the format, "Codes in parts". A group takes eight parts at a time, of one chunk; 32
 * threads are the lanes of a part. At each step
 *
 *   look      a lane with a cell looks at the cell's neighbours, and takes the symbol off its state
 *   share     sums over the lanes give where its bits begin; escapes, which are rare, are read by the part's first lane
 *   write     codes go to the workspace, where the next steps find them
 *
 * A part's codes become elements once all its steps are done. Lengths are checked before they are used as places; a damaged
 * part is decoded to its end, which stays inside its codes, and reported then.
 */
#ifndef COMET_GPU_PARTS_H
#define COMET_GPU_PARTS_H

#define LANES PART_LANES
#define PARTS PARTS_A_GROUP
#define STATE_BITS 12
#define STATE_LEAST 4096u
#define SCALE 1024u
#define ESCAPE 15u
#define ESCAPE_LEAST 168u
#define NO_CELL 0xffffffffu

#if CODE_BITS == 16
typedef i32 code_sum; /* sums of a few codes */
#else
typedef i64 code_sum;
#endif

/* ---- tables ---- */

/* A bit stream; a byte past its end is some byte of it. */
typedef struct bits_in {
    bytes_in in;
    u32 at;
} bits_in;

FUNCTION u32 take_bits(bits_in *b, u32 n)
{
    u32 v = (u32)bits_at(&b->in, b->at) & ((1u << n) - 1);
    b->at += n;
    return v;
}

FUNCTION u32 trailing_zeros(u64 v)
{
    u32 low = (u32)v;
    low = low ? low : (u32)(v >> 32);
    return ((u32)v ? 0u : 32u) + (low ? 31u - LEADING_ZEROS(low & (0u - low)) : 32u);
}

/* Reads the tables: starts of each context's symbols. False if they are damaged. */
FUNCTION u32 read_tables(const bytes_in *in, u32 at, u32 bytes, SHARED u16 *starts, u32 *escape_order)
{
    bits_in b = {*in, 8 * at};
    const u32 limit = 8 * (at + bytes);
    *escape_order = take_bits(&b, 5);
    for (u32 c = 0; c < CONTEXTS; c++) {
        u32 occurs = take_bits(&b, 1), last = occurs ? take_bits(&b, 4) : 0, sum = occurs ? 0 : SCALE;
        starts[c * (SYMBOLS + 1)] = 0;
        for (u32 s = 0; s < SYMBOLS; s++) {
            if (occurs && s <= last) {
                u32 below = trailing_zeros(bits_at(&b.in, b.at)), v = 0;
                if (below > 11)
                    return 0;
                b.at += below + 1;
                v = (1u << below | take_bits(&b, below)) - 1;
                if (b.at > limit || v > SCALE - sum)
                    return 0;
                sum += v;
            }
            starts[c * (SYMBOLS + 1) + s + 1] = (u16)sum;
        }
        if (sum != SCALE)
            return 0;
    }
    return b.at <= limit;
}

/* ---- arrangement ---- */

typedef struct arrangement {
    u32 n, channels, columns, height, tiles, tiles_a_channel, side, width, lines, period, n_steps;
} arrangement;

FUNCTION arrangement arrange(const gpu_job *job, u32 n)
{
    arrangement a;
    u32 rows = n / job->line;
    a.n = n;
    a.channels = job->channels;
    a.columns = job->columns;
    a.height = rows % job->lines == 0 ? job->lines : rows;
    if (rows == 0 || n % job->line) {
        a.channels = n % job->channels ? 1 : job->channels;
        a.columns = 64;
        a.height = rows = (n / a.channels + 63) / 64;
    }
    a.tiles_a_channel = rows / a.height;
    a.tiles = a.channels * a.tiles_a_channel;
    a.side = a.columns < 64 ? 64 / a.columns : 1;
    a.width = a.side * a.columns;
    a.lines = (a.tiles + a.side - 1) / a.side * a.height;
    a.period = a.width > 64 ? a.width : 64;
    a.n_steps = (a.lines + LANES - 1) / LANES * a.period + 2 * (LANES - 1);
    return a;
}

/* Where a lane is. `base` is the element at column 0 of the tile's row; it is meaningless where there is no such tile. */
typedef struct lane_cursor {
    u32 line, place, column, tile, row, base;
} lane_cursor;

FUNCTION void enter_tile(SHARED const arrangement *a, lane_cursor *c)
{
    u32 y = c->tile % a->tiles_a_channel * a->height + c->row;
    c->column = 0;
    c->base = y * a->columns * a->channels + c->tile / a->tiles_a_channel;
}

FUNCTION void enter_line(SHARED const arrangement *a, lane_cursor *c, u32 line)
{
    c->line = line;
    c->place = 0;
    c->row = line % a->height;
    c->tile = line / a->height * a->side;
    enter_tile(a, c);
}

FUNCTION u32 element_at(SHARED const arrangement *a, const lane_cursor *c)
{
    u32 element = c->base + c->column * a->channels;
    return c->line < a->lines && c->place < a->width && c->tile < a->tiles && element < a->n ? element : NO_CELL;
}

FUNCTION void advance(SHARED const arrangement *a, lane_cursor *c)
{
    c->place++;
    c->column++;
    if (c->place == a->period) {
        enter_line(a, c, c->line + LANES);
    } else if (c->column == a->columns) {
        c->tile++;
        enter_tile(a, c);
    }
}

/* ---- neighbours ---- */

FUNCTION code_sum magnitude_of(code_sum v)
{
    return v < 0 ? -v : v;
}

FUNCTION code_sum median_of(code_sum a, code_sum b, code_sum c)
{
    code_sum low = a < b ? a : b, high = a < b ? b : a, plane = a + b - c;
    return plane < low ? low : plane > high ? high : plane;
}

FUNCTION i32 clipped(code_sum v)
{
    return (i32)(v > 2 ? 2 : v < -2 ? -2 : v);
}

/* What is expected of a cell. */
typedef struct outlook {
    u32 prediction, context, turned;
} outlook;

/* Four bits an entry: the context of a level of the gradient and one of the magnitude. */
FUNCTION u32 context_by(code_sum gradient, code_sum value)
{
    code_sum m = magnitude_of(value);
    const u32 g = gradient < 31 ? (u32)gradient : 31, third = g * 11 >> 5; /* g / 3, so levels begin at 1, 3, 6, 12, 24 */
    const u32 i = 4 * ((g > 0) + length_in_bits(third)) + length_in_bits(m < 4 ? (u32)m : 4);
    return (u32)((i < 16 ? 0xDCB7A98765432110UL : 0xFCB7ECB7UL) >> 4 * (i % 16)) & 15u;
}

FUNCTION u32 wave_context(u32 v)
{
    v = v < 63 ? v : 63;
    u64 row = v < 16   ? 0xEBBCCCCC74AA6120UL
              : v < 32 ? 0x933773486B9937EBUL
              : v < 48 ? 0xBBB76EEEBEB766CBUL
                       : 0xDDB66CB977667586UL;
    return (u32)(row >> 4 * (v % 16)) & 15u;
}

/* The codes around a cell, by the edges of its tile; WW only if it is asked for. */
typedef struct neighbours {
    code_sum W, N, NW, NE, WW;
} neighbours;

FUNCTION neighbours neighbours_of(SHARED const arrangement *a, u32 row, u32 column, u32 element, u32 with_ww,
                                  GLOBAL const code_word *codes)
{
    const u32 top = row == 0, left = column == 0, right = column + 1 == a->columns;
    const u32 across = a->channels, up = a->channels * a->columns;
    neighbours v;
    v.N = top ? 0 : SIGNED_CODE(codes[element - up]);
    v.W = left ? v.N : SIGNED_CODE(codes[element - across]);
    v.NW = left || top ? v.N : SIGNED_CODE(codes[element - up - across]);
    v.NE = right || top ? v.N : SIGNED_CODE(codes[element - up + across]);
    v.WW = left || !with_ww ? v.N : column == 1 ? v.NW : SIGNED_CODE(codes[element - 2 * across]);
    return v;
}

FUNCTION outlook outlook_by(const neighbours *v, u32 predictor)
{
    code_sum gradient = magnitude_of(v->W - v->NW) + magnitude_of(v->N - v->NW) + magnitude_of(v->N - v->NE), P = 0;
    outlook o = {0, 0, 0};
    if (predictor == PREDICTOR_WAVE) {
        i32 sum = 25 * clipped(v->W - v->NW) + 5 * clipped(v->N - v->NW) + clipped(v->NE - v->N);
        o.prediction = (u32)median_of(v->W, v->N, v->NW);
        o.context = wave_context((u32)(sum < 0 ? -sum : sum));
        o.turned = sum < 0;
        return o;
    }
    if (predictor == PREDICTOR_LEFT) {
        gradient = 2 * magnitude_of(v->W - v->WW);
        P = v->W;
    } else if (predictor != PREDICTOR_NONE) {
        P = predictor == PREDICTOR_MEDIAN ? median_of(v->W, v->N, v->NW) : v->W + v->N - v->NW;
    }
    o.prediction = (u32)P;
    o.context = context_by(gradient, predictor == PREDICTOR_NONE ? v->W + v->N : P);
    return o;
}

/* Escapes of damaged frames may have more than 32 bits. */
FUNCTION u32 code_from(const outlook *o, u64 z, u32 identity)
{
    u32 r = (u32)(identity ? z : z >> 1 ^ (0 - (z & 1)));
    return o->prediction + (o->turned ? 0u - r : r);
}

/* ---- symbols ---- */

FUNCTION u32 symbol_bits(u32 s)
{
    return s < 8 ? 0 : 0x06554322u >> 4 * (s - 8) & 15u;
}

FUNCTION u32 symbol_least(u32 s)
{
    return s < 8 ? s : (u32)(0xA868482818100C08UL >> 8 * (s - 8)) & 255u;
}

/* Reads an escape: its residual, and in *at the end; NO_CELL there if there is none. */
FUNCTION u64 read_escape(const bytes_in *in, u32 order, u32 *at)
{
    u32 zeros = trailing_zeros(bits_at(in, *at)), bits = order + zeros;
    if (zeros > 32 || bits > 32) {
        *at = NO_CELL;
        return 0;
    }
    u64 rest = bits_at(in, *at + zeros + 1) & (((u64)1 << bits) - 1);
    *at += zeros + 1 + bits;
    return ESCAPE_LEAST + ((u64)1 << bits) - ((u64)1 << order) + rest;
}

/* The bytes of four lanes at a time: their bits, and from 32 on a mark for escapes. */
#define LANE_ESCAPED 32u
#define LANE_BITS 0x1f1f1f1fu

/* The sum of the bits of the lanes before `lane`; that of all lanes goes to *all, their escapes to *escapes. */
FUNCTION u32 sum_lanes(SHARED const u32 *lanes, u32 lane, u32 *all, u32 *escapes)
{
    u32 before = 0, sum = 0, marks = 0;
    for (u32 i = 0; i < LANES / 4; i++) {
        u32 four = lanes[i], bits = four & LANE_BITS;
        u32 mask = lane / 4 > i ? 0xffffffffu : lane / 4 == i ? (1u << 8 * (lane % 4)) - 1 : 0;
        before += (bits & mask) * 0x01010101u >> 24;
        sum += bits * 0x01010101u >> 24;
        marks |= four & ~LANE_BITS;
    }
    *all = sum;
    *escapes = marks;
    return before;
}

/* ---- the kernels ---- */

FUNCTION u32 take_parts_apart(const gpu_job *job, const bytes_in *in, u32 bytes, u32 n, sections *s)
{
    if (bytes < CODED_HEADER)
        return 0;
    u32 head = u32_at(in, 0), predictor = head >> 16 & 255u, flags = head >> 24, outlier_bytes = u32_at(in, 8);
    s->n = n;
    s->predictor = predictor;
    s->identity = flags & PAYLOAD_IDENTITY;
    s->nonzero = flags & PAYLOAD_NONZERO;
    s->n_outliers = u32_at(in, 4);
    s->end = bytes;
    s->outliers_at = bytes - outlier_bytes;
    u32 good = (head & 0xffffu) == (PAYLOAD_PARTS | (CODE_BITS / 32) << 8) && flags <= 3 && s->n_outliers <= n;
    good = good && (predictor <= PREDICTOR_WAVE && predictor != PREDICTOR_UP && predictor != PREDICTOR_LINEAR);
    good = good && (CODE_BITS == 32 || !job->lossless) && !(s->identity && predictor != PREDICTOR_NONE);
    good = good && !(s->nonzero && (job->lossless || job->mode != MODE_SUPPORT));
    return good && outlier_bytes <= bytes - CODED_HEADER && bytes - CODED_HEADER - outlier_bytes >= 8;
}

FUNCTION u32 u16_at(const bytes_in *in, u32 byte)
{
    return u32_at(in, byte) & 0xffffu;
}

/* Groups of a chunk: as many as its parts need if they are as long as the library makes them; each takes a run of parts. */
KERNEL CODED(decode_parts)(GLOBAL u8 *x, GLOBAL u8 *frame, GLOBAL u8 *work, GLOBAL u8 *result_buffer, const gpu_job job)
{
    SHARED_ARRAY u32 scan[SCAN_ROOM];
    SHARED_ARRAY u16 starts[CONTEXTS * (SYMBOLS + 1)];
    SHARED_ARRAY u8 symbols[CONTEXTS * SCALE];
    SHARED_ARRAY u32 lane_words[GROUP / 4]; /* a byte for each lane */
    SHARED_ARRAY u64 escaped[GROUP];
    SHARED_ARRAY u32 escape_end[PARTS];
    SHARED_ARRAY arrangement arranged[2];
    SHARED_ARRAY u32 bad, order;
    SHARED u8 *lane_bits = (SHARED u8 *)lane_words;
    const u32 t = THREAD, lane = t % LANES, row = t / LANES;
    const u64 chunk = GROUP_NUMBER / job.groups, first = chunk * job.chunk_elements;
    const u32 share = GROUP_NUMBER % job.groups;
    const u32 n = (u32)(job.n_elements - first < job.chunk_elements ? job.n_elements - first : job.chunk_elements);
    x += job.x_offset;
    work += job.work_offset;
    GLOBAL gpu_result *result = (GLOBAL gpu_result *)(result_buffer + job.result_offset);
    GLOBAL const gpu_state *state_of = (GLOBAL const gpu_state *)work;
    GLOBAL const u64 *frame_starts = (GLOBAL const u64 *)(work + DECODE_STARTS_AT(job));
    GLOBAL code_word *codes = (GLOBAL code_word *)(work + DECODE_CODES_AT(job)) + first;
    if (!state_of->go)
        return;
    const u64 at = frame_starts[chunk], length = frame_starts[chunk + 1] - at;
    const u32 bytes = length < 1u << 24 ? (u32)length : 0; /* a payload is never so long */
    const bytes_in in = bytes_from(frame, job.frame_offset + at, bytes);
    const u32 head = bytes >= RAW_HEADER ? u32_at(&in, 0) : 0xffu;

    if ((head & 0xffu) == PAYLOAD_RAW) {
        take_raw(&job, &in, bytes, x, result, chunk, share * GROUP + t, job.groups * GROUP);
        return;
    }
    if ((head & 0xffffu) == (PAYLOAD_PARTS | (u32)((48 - CODE_BITS) / 32) << 8))
        return; /* for the other build */
    sections s;
    u32 part_elements = 0, table_bytes = 0, n_parts = 0, good = take_parts_apart(&job, &in, bytes, n, &s);
    if (good) {
        const u32 room = s.outliers_at - CODED_HEADER - 8;
        part_elements = u32_at(&in, CODED_HEADER);
        table_bytes = u32_at(&in, CODED_HEADER + 4);
        good = part_elements >= 1 && part_elements <= MAX_PART && table_bytes <= room;
        n_parts = good ? (n + part_elements - 1) / part_elements : 0;
        good = good && 2 * n_parts <= room - table_bytes;
    }
    if (!good) {
        if (t == 0 && (CODE_BITS == 16 || (head & 0xffffu) == (PAYLOAD_PARTS | 1u << 8)))
            report_damage(result, (u32)chunk);
        return;
    }

    /* ---- tables, and where this group's parts begin ---- */
    const u32 sizes_at = CODED_HEADER + 8 + table_bytes, parts_at = sizes_at + 2 * n_parts;
    const u32 each = (n_parts + job.groups - 1) / job.groups, mine = share * each < n_parts ? share * each : n_parts;
    const u32 past = mine + each < n_parts ? mine + each : n_parts;
    u32 bytes_before = 0, all_before, bytes_all = 0, all;
    for (u32 i = t; i < n_parts; i += GROUP) {
        u32 size = u16_at(&in, sizes_at + 2 * i);
        bytes_all += size;
        bytes_before += i < mine ? size : 0;
    }
    if (t == 0) {
        u32 escape_order = 0;
        bad = !read_tables(&in, CODED_HEADER + 8, table_bytes, starts, &escape_order);
        order = escape_order;
    }
    GROUP_SCAN(u32, scan, t, bytes_before, all_before)
    GROUP_SCAN(u32, scan, t, bytes_all, all)
    if (bad || parts_at + all != s.outliers_at) {
        if (t == 0)
            report_damage(result, (u32)chunk);
        return;
    }
    for (u32 i = 0, symbol = 0; i < CONTEXTS * SCALE / GROUP; i++) {
        const u32 context = t / (GROUP / CONTEXTS), slot = t % (GROUP / CONTEXTS) * (CONTEXTS * SCALE / GROUP) + i;
        while (starts[context * (SYMBOLS + 1) + symbol + 1] <= slot)
            symbol++;
        symbols[context * SCALE + slot] = (u8)symbol;
    }
    BARRIER();

    /* ---- parts, eight at a time ---- */
    quantiser_of q = {job.step, job.half_step, job.inverse, job.bound, s.nonzero ? MODE_NONZERO : job.mode, 0, job.type};
    if (q.mode == MODE_DITHER)
        q.key = chunk_key(job.seed, chunk);
    const u32 last_elements = n - (n_parts - 1) * part_elements;
    if (t < 2) /* that of the last part, and of those before it */
        arranged[t] = arrange(&job, t == 0 || n_parts == 1 ? last_elements : part_elements);
    BARRIER();
    const u32 n_steps = arranged[0].n_steps > arranged[1].n_steps ? arranged[0].n_steps : arranged[1].n_steps;
    u32 batch_at = parts_at + all_before;
    for (u32 batch = mine; batch < past; batch += PARTS) {
        const u32 part = batch + row, exists = part < past;
        SHARED const arrangement *a = &arranged[part + 1 < n_parts];
        u32 part_at = batch_at, part_bytes = 0, good_part = 1;
        for (u32 p = batch; p < past && p < batch + PARTS; p++) {
            u32 size = u16_at(&in, sizes_at + 2 * p);
            part_at += p < part ? size : 0;
            part_bytes = p == part ? size : part_bytes;
            batch_at += size;
        }
        const u32 goes = exists && part_bytes >= LANES * STATE_BITS / 8;
        const bytes_in stream = bytes_from(frame, job.frame_offset + at + (goes ? part_at : 0), goes ? part_bytes : bytes);
        GLOBAL code_word *part_codes = codes + (exists ? part : 0) * part_elements;
        u32 state = goes ? STATE_LEAST + ((u32)bits_at(&stream, STATE_BITS * lane) & (STATE_LEAST - 1)) : STATE_LEAST;
        u32 stream_at = LANES * STATE_BITS;
        lane_cursor c;
        enter_line(a, &c, lane);
        for (u32 step = 0; step < n_steps; step++) {
            const u32 moves = goes && step >= 2 * lane, element = moves ? element_at(a, &c) : NO_CELL;
            outlook o = {0, 0, 0};
            u32 symbol = 0, shift = 0, raw_bits = 0;
            if (element != NO_CELL) {
                const neighbours v = neighbours_of(a, c.row, c.column, element, s.predictor == PREDICTOR_LEFT, part_codes);
                o = outlook_by(&v, s.predictor);
                const u32 slot = state % SCALE;
                symbol = symbols[o.context * SCALE + slot];
                const u32 start = starts[o.context * (SYMBOLS + 1) + symbol],
                          frequency = starts[o.context * (SYMBOLS + 1) + symbol + 1] - start;
                state = frequency * (state / SCALE) + slot - start;
                shift = STATE_BITS + 1 - length_in_bits(state);
                raw_bits = symbol_bits(symbol);
            }
            lane_bits[t] = (u8)(shift + raw_bits + (symbol == ESCAPE ? LANE_ESCAPED : 0));
            BARRIER();
            u32 all_bits, escapes;
            const u32 from = stream_at + sum_lanes(lane_words + row * (LANES / 4), lane, &all_bits, &escapes);
            u64 z = 0;
            if (element != NO_CELL) {
                const u32 drawn = (u32)bits_at(&stream, from);
                state = state << shift | (drawn & ((1u << shift) - 1));
                z = symbol_least(symbol) + (drawn >> shift & ((1u << raw_bits) - 1));
            }
            stream_at += all_bits;
            if (escapes && lane == 0) {
                u32 end = stream_at;
                for (u32 l = 0; l < LANES && end != NO_CELL; l++)
                    if (lane_bits[t + l] & LANE_ESCAPED)
                        escaped[t + l] = read_escape(&stream, order, &end);
                escape_end[row] = end;
            }
            BARRIER();
            if (escapes) {
                good_part = good_part && escape_end[row] != NO_CELL;
                stream_at = good_part ? escape_end[row] : stream_at;
                z = symbol == ESCAPE && good_part ? escaped[t] : z;
            }
            if (element != NO_CELL)
                part_codes[element] = (code_word)code_from(&o, z, s.identity);
            if (moves)
                advance(a, &c);
            BARRIER_GLOBAL();
        }
        const u32 rest = 8 * part_bytes - stream_at;
        good_part = good_part && goes && state == STATE_LEAST && stream_at <= 8 * part_bytes && rest < 8;
        good_part = good_part && ((u32)bits_at(&stream, stream_at) & ((1u << (rest & 7u)) - 1)) == 0;
        if (exists && !good_part)
            SHARED_OR(&bad, 1);
        const u32 elements_end = (batch + PARTS < past ? batch + PARTS : past) * part_elements;
        for (u32 i = batch * part_elements + t; i < n && i < elements_end; i += GROUP) {
            const i32 code = SIGNED_CODE(codes[i]);
            u32 bits =
                job.lossless ? bits_of_code(code, job.type) : bits_of_value(value_of_code(&q, q.mode, code, i), job.type);
            store_element(x, first + i, job.type, bits);
        }
        BARRIER_GLOBAL();
    }
    if (bad && t == 0)
        report_damage(result, (u32)chunk);
}

#if CODE_BITS == 16

/* Outliers of chunks in parts, a group a chunk, when their elements are done. */
KERNEL put_outliers(GLOBAL u8 *x, GLOBAL u8 *frame, GLOBAL u8 *work, GLOBAL u8 *result_buffer, const gpu_job job)
{
    SHARED_ARRAY u32 scan[SCAN_ROOM];
    const u32 t = THREAD;
    const u64 chunk = GROUP_NUMBER, first = chunk * job.chunk_elements;
    const u32 n = (u32)(job.n_elements - first < job.chunk_elements ? job.n_elements - first : job.chunk_elements);
    x += job.x_offset;
    work += job.work_offset;
    GLOBAL gpu_result *result = (GLOBAL gpu_result *)(result_buffer + job.result_offset);
    GLOBAL const u64 *frame_starts = (GLOBAL const u64 *)(work + DECODE_STARTS_AT(job));
    if (!((GLOBAL const gpu_state *)work)->go)
        return;
    const u64 at = frame_starts[chunk], length = frame_starts[chunk + 1] - at;
    const u32 bytes = length < 1u << 24 ? (u32)length : 0;
    const bytes_in in = bytes_from(frame, job.frame_offset + at, bytes);
    if (bytes < CODED_HEADER || (u32_at(&in, 0) & 0xffu) != PAYLOAD_PARTS)
        return;
    const u32 outlier_bytes = u32_at(&in, 8);
    sections s;
    s.n_outliers = u32_at(&in, 4);
    if (s.n_outliers > n || outlier_bytes > bytes - CODED_HEADER || (outlier_bytes == 0 && s.n_outliers == 0))
        return; /* where these are damaged, others have said so */
    s.outliers_at = bytes - outlier_bytes;
    s.end = bytes;
    u32 n_steps = outlier_bytes - s.n_outliers * job.element_bytes, cursor = 0, number = 0, n_moved, n_placed;
    if (outlier_bytes < s.n_outliers * job.element_bytes || n_steps > n)
        n_steps = 0;
    sum_steps(&in, &s, n_steps, t, &cursor, &number);
    cursor = cursor < 1u << 23 ? cursor : 1u << 23; /* more than any chunk has; the sum of 256 still fits */
    GROUP_SCAN(u32, scan, t, cursor, n_moved)
    GROUP_SCAN(u32, scan, t, number, n_placed)
    if (n_steps == 0 || n_moved > n || n_placed != s.n_outliers || u8_at(&in, s.outliers_at + n_steps - 1) >= 128) {
        if (t == 0)
            report_damage(result, (u32)chunk);
        return;
    }
    place_outliers(&in, &s, n_steps, t, cursor, number, job.type, job.element_bytes, x, first);
}

#endif
#endif
