/*
 * Level dense, encoded: elements to symbols and tables. Groups of a chunk share its elements or its parts, and leave figures
 * that the next kernel adds up.
 *
 *   quantise_parts  codes of 16 bits, a bit for each element that fails; again of 32 bits, and again with a code for zero,
 *                   where a chunk needs it: both widths are kept until it is known which one serves
 *   sample_parts    one part in five: its symbols by context, for all predictors
 *   choose_parts    the cheapest predictor of a chunk, as src/codec/parts_encode.c chooses it
 *   model_parts     symbols to the workspace, and their counts
 *   tabulate_parts  frequencies from counts, the order of escapes, the bytes of the tables
 */
#ifndef COMET_GPU_PARTS_MODEL_H
#define COMET_GPU_PARTS_MODEL_H

#define SUPPORT_RUNS 32    /* where keep support looks for zeros */
#define TILE_ELEMENTS 4096 /* over which the library sums squares */
#define ENTROPY_UNIT 256   /* a bit */

/* ---- a chunk and its slot ---- */

typedef struct dense_chunk {
    u64 first; /* element */
    u32 n, part_elements, n_parts;
    u32 mode, wide, n_failed; /* once its elements are quantised */
    GLOBAL u8 *slot;
} dense_chunk;

FUNCTION dense_chunk chunk_at(const gpu_job *job, GLOBAL u8 *work, u64 chunk)
{
    dense_chunk c;
    c.first = chunk * job->chunk_elements;
    c.n = (u32)(job->n_elements - c.first < job->chunk_elements ? job->n_elements - c.first : job->chunk_elements);
    c.part_elements = job->part_elements < c.n ? job->part_elements : c.n;
    c.n_parts = (c.n + c.part_elements - 1) / c.part_elements;
    c.mode = c.wide = c.n_failed = 0;
    c.slot = work + ENCODE_SLOTS_AT(*job) + chunk * job->slot_bytes;
    return c;
}

FUNCTION u32 elements_of_part(const dense_chunk *c, u32 part)
{
    return part + 1 < c->n_parts ? c->part_elements : c->n - part * c->part_elements;
}

FUNCTION GLOBAL dense_tables *tables_of(const dense_chunk *c)
{
    return (GLOBAL dense_tables *)c->slot;
}

FUNCTION GLOBAL dense_part *parts_of(const gpu_job *job, const dense_chunk *c)
{
    return (GLOBAL dense_part *)(c->slot + SLOT_PARTS_AT(*job));
}

FUNCTION GLOBAL u32 *failed_of(const gpu_job *job, const dense_chunk *c, u32 wide)
{
    return (GLOBAL u32 *)(c->slot + SLOT_FAILED_AT(*job) + (wide ? SLOT_ELEMENTS(*job) / 8 : 0));
}

FUNCTION GLOBAL u8 *area_of(const gpu_job *job, const dense_chunk *c, u32 second)
{
    return c->slot + SLOT_AREAS_AT(*job) + (second ? 4 * SLOT_ELEMENTS(*job) : 0);
}

/* The symbol of each element, later its bits in the frame. */
FUNCTION GLOBAL u32 *symbols_of(const gpu_job *job, const dense_chunk *c)
{
    return (GLOBAL u32 *)area_of(job, c, !c->wide);
}

FUNCTION GLOBAL code_word *codes_of_chunk(const gpu_job *job, const dense_chunk *c)
{
    return (GLOBAL code_word *)area_of(job, c, CODE_BITS == 32);
}

/* ---- which codes ---- */

/* Do 16-bit codes suit the chunk, with the mode of an attempt? As in level fast's kernel. */
FUNCTION u32 suits_16(const gpu_job *job, const dense_tally *sum, u32 n, u32 attempt)
{
    return sum->failed16[attempt] <= n / 64 || (job->element_bytes == 2 && !sum->out_of_range);
}

FUNCTION u32 takes_32(const gpu_job *job, const dense_tally *sum, u32 n, u32 attempt)
{
    return !suits_16(job, sum, n, attempt) && sum->failed32[attempt] <= sum->failed16[attempt] / 2;
}

FUNCTION u32 failed_in(const gpu_job *job, const dense_tally *sum, u32 n, u32 attempt)
{
    return takes_32(job, sum, n, attempt) ? sum->failed32[attempt] : sum->failed16[attempt];
}

/* The figures of a chunk, over its groups. Those that no kernel has left yet are arbitrary. */
FUNCTION dense_tally tally_of(const gpu_job *job, const dense_chunk *c)
{
    GLOBAL const dense_tally *tallies = (GLOBAL const dense_tally *)(c->slot + SLOT_TALLIES_AT(*job));
    dense_tally sum = tallies[0];
    for (u32 g = 1; g < job->groups; g++) {
        for (u32 attempt = 0; attempt < 2; attempt++) {
            sum.failed16[attempt] += tallies[g].failed16[attempt];
            sum.failed32[attempt] += tallies[g].failed32[attempt];
        }
        sum.out_of_range |= tallies[g].out_of_range;
    }
    return sum;
}

/* Many elements failed for want of a code for zero. */
FUNCTION u32 tries_again(const gpu_job *job, const dense_tally *sum, u32 n)
{
    return sum->mode == MODE_NONZERO && failed_in(job, sum, n, 0) > n / 64;
}

/* Sets mode, width and failures of a chunk whose elements are quantised. */
FUNCTION void settle(const gpu_job *job, dense_chunk *c)
{
    c->mode = job->mode;
    c->wide = 1;
    if (job->lossless)
        return;
    const dense_tally sum = tally_of(job, c);
    const u32 attempt = tries_again(job, &sum, c->n);
    c->mode = attempt ? MODE_SUPPORT : sum.mode;
    c->wide = takes_32(job, &sum, c->n, attempt);
    c->n_failed = failed_in(job, &sum, c->n, attempt);
}

/* Is the chunk for this build of a kernel? */
FUNCTION u32 is_mine(const dense_chunk *c)
{
    return c->wide == (CODE_BITS == 32);
}

/* Does this launch quantise the chunk? Sets its mode. */
FUNCTION u32 quantises(const gpu_job *job, dense_chunk *c)
{
    c->mode = job->mode;
    if (job->lossless || (CODE_BITS == 16 && job->pass == 0))
        return 1;
    const dense_tally sum = tally_of(job, c);
    c->mode = job->pass ? MODE_SUPPORT : sum.mode;
    if (job->pass && !tries_again(job, &sum, c->n))
        return 0;
    return CODE_BITS == 16 || !suits_16(job, &sum, c->n, job->pass);
}

/* A lot of elements from i on, of n: codes to global memory. Returns a bit for each that fails. */
FUNCTION u32 quantise_to(const gpu_job *job, const quantiser_of *q, GLOBAL const u8 *x, u64 first, u32 n, u32 i,
                         GLOBAL code_word *codes, u32 *outside)
{
    float v[LOT];
    i32 code[LOT];
    const u32 left = n - i, n_lot = left < LOT ? left : LOT;
    if (job->lossless) {
        for (u32 e = 0; e < n_lot; e++)
            codes[i + e] = (code_word)code_of_bits(load_element(x, first + i + e, job->type), job->type);
        return 0;
    }
    load_lot(x, first + i, left, q->type, v);
    u32 misses = quantise_lot(q, v, i, (float)LARGEST_CODE, code);
    for (u32 e = 0; e < n_lot; e++) {
        codes[i + e] = (code_word)code[e];
        *outside |= !(FABS(v[e]) <= job->limit);
    }
    return n_lot < 32 ? misses & ((1u << n_lot) - 1) : misses;
}

KERNEL CODED(quantise_parts)(GLOBAL u8 *x, GLOBAL u8 *frame, GLOBAL u8 *work, GLOBAL u8 *result_buffer, const gpu_job job)
{
    SHARED_ARRAY u32 failed[GROUP];
    SHARED_ARRAY u32 flags[3]; /* a zero was sampled, an element is out of range, elements that failed */
    const u32 t = THREAD, share = GROUP_NUMBER % job.groups, begins = CODE_BITS == 16 && job.pass == 0;
    const u64 chunk = GROUP_NUMBER / job.groups;
    x += job.x_offset;
    dense_chunk c = chunk_at(&job, work + job.work_offset, chunk);
    if (!quantises(&job, &c))
        return;
    quantiser_of q = {job.step, job.half_step, job.inverse, job.bound, c.mode, 0, job.type};
    if (job.mode == MODE_DITHER)
        q.key = chunk_key(job.seed, chunk);

    /* ---- keep support: do the sampled elements have no zero? ---- */
    const u32 n_runs = c.n / BLOCK_ELEMENTS < SUPPORT_RUNS ? c.n / BLOCK_ELEMENTS : SUPPORT_RUNS;
    const u32 asks = begins && !job.lossless && q.mode == MODE_SUPPORT;
    if (t < 3)
        flags[t] = 0;
    failed[t] = 0;
    BARRIER();
    for (u32 i = t; asks && i < n_runs * BLOCK_ELEMENTS; i += GROUP) {
        u64 at = c.first + run_begin(c.n, n_runs, i / BLOCK_ELEMENTS) + i % BLOCK_ELEMENTS;
        if (value_of_bits(load_element(x, at, job.type), job.type) == 0.0f)
            SHARED_OR(&flags[0], 1);
    }
    BARRIER();
    if (asks && n_runs > 0 && !flags[0])
        q.mode = MODE_NONZERO;

    /* ---- codes of this group's tiles, as many at a time as each thread has a word of bits ---- */
    const u32 n_tiles = (c.n + TILE_ELEMENTS - 1) / TILE_ELEMENTS, tiles = (n_tiles + job.groups - 1) / job.groups;
    const u32 begin = share * tiles * TILE_ELEMENTS, asked = begin + tiles * TILE_ELEMENTS;
    const u32 end = asked < c.n ? asked : c.n;
    GLOBAL code_word *codes = codes_of_chunk(&job, &c);
    GLOBAL u32 *failed_words = failed_of(&job, &c, CODE_BITS == 32);
    u32 n_failed = 0, outside = 0;
    for (u32 at = begin; at < end; at += MAX_CHUNK) {
        for (u32 k = 0; k < HALF / LOT; k++) {
            const u32 i = at + LOT_AT(t, k);
            const u32 misses = i < end ? quantise_to(&job, &q, x, c.first, end, i, codes, &outside) : 0;
            if (misses)
                SHARED_OR(&failed[(i - at) / HALF], misses << i % HALF);
        }
        BARRIER();
        if (at + HALF * t < end)
            failed_words[at / HALF + t] = failed[t];
        n_failed += POPCOUNT(failed[t]);
        failed[t] = 0;
        BARRIER();
    }
    if (begins && job.element_bytes == 2 && job.limit > FLOAT_OF_BITS(0x5d000000u)) /* 2^59 */
        for (u32 i = t; begin / TILE_ELEMENTS * 16 + i < (end + TILE_ELEMENTS - 1) / TILE_ELEMENTS * 16; i += GROUP)
            outside |= !lane_is_finite(&q, x, c.first, c.n, begin / TILE_ELEMENTS * 16 + i);
    if (n_failed)
        SHARED_ADD(&flags[2], n_failed);
    if (outside)
        SHARED_OR(&flags[1], 1);
    BARRIER();
    if (t == 0 && !job.lossless) {
        GLOBAL dense_tally *tally = (GLOBAL dense_tally *)(c.slot + SLOT_TALLIES_AT(job)) + share;
        if (CODE_BITS == 16)
            tally->failed16[job.pass] = flags[2];
        else
            tally->failed32[job.pass] = flags[2];
        if (begins) {
            tally->out_of_range = flags[1];
            tally->mode = q.mode;
        }
    }
}

/* ---- symbols ---- */

/* Where an element of a part is; or how far two of them are apart. */
typedef struct part_place {
    u32 channel, column, row; /* the row in its tile */
} part_place;

FUNCTION part_place place_of(SHARED const arrangement *a, u32 element)
{
    const u32 position = element / a->channels;
    part_place p;
    p.channel = element % a->channels;
    p.column = position % a->columns;
    p.row = position / a->columns % a->height;
    return p;
}

/* Goes on by a number of elements, of which `by` is the place. */
FUNCTION void go_on(SHARED const arrangement *a, part_place *p, const part_place *by)
{
    p->channel += by->channel;
    const u32 right = p->channel >= a->channels;
    p->channel -= right ? a->channels : 0;
    p->column += by->column + right;
    const u32 down = p->column >= a->columns;
    p->column -= down ? a->columns : 0;
    p->row += by->row + down;
    p->row -= p->row >= a->height ? a->height : 0;
}

FUNCTION u32 residual_from(const outlook *o, u32 code, u32 identity)
{
    u32 r = code - o->prediction;
    r = o->turned ? 0u - r : r;
    return identity ? (u32)(code_word)r : zigzag(r);
}

/* Most symbols have a power of two of residuals, 8 onwards. */
FUNCTION u32 symbol_of(u32 z)
{
    const u32 m = z - 8, length = length_in_bits(m);
    const u32 large = 13u + (m >= 96) + (m >= ESCAPE_LEAST - 8);
    return z < 8 ? z : m >= 64 ? large : length < 2 ? 8 : length + 6;
}

/* The residual of an element of a part. */
FUNCTION u32 residual_at(SHARED const arrangement *a, const part_place *p, u32 element, u32 predictor, u32 identity,
                         GLOBAL const code_word *codes, u32 *context)
{
    const neighbours v = neighbours_of(a, p->row, p->column, element, predictor == PREDICTOR_LEFT, codes);
    const outlook o = outlook_by(&v, predictor);
    *context = o.context;
    return residual_from(&o, codes[element], identity);
}

/* The predictors in the order of comparison; the last one once with zigzag, once without. */
FUNCTION u32 predictor_of_choice(u32 choice)
{
    return 0x001364u >> 4 * choice & 15u;
}

/* Counts one element with all predictors. Counter 0, which most of them meet, is counted aside. */
FUNCTION void sample_element(const neighbours *v, u32 code, SHARED u32 *counts, SHARED u32 *escape_bits, u32 *zeros)
{
    for (u32 choice = 0; choice < CHOICES; choice++) {
        const outlook o = outlook_by(v, predictor_of_choice(choice));
        const u32 z = residual_from(&o, code, choice == CHOICES - 1), symbol = symbol_of(z);
        if (symbol == ESCAPE)
            SHARED_ADD(&escape_bits[choice], 2 + length_in_bits(z - ESCAPE_LEAST));
        if (symbol | o.context)
            SHARED_ADD(&counts[choice * COUNTERS + o.context * SYMBOLS + symbol], 1);
        else
            zeros[choice]++;
    }
}

KERNEL CODED(sample_parts)(GLOBAL u8 *x, GLOBAL u8 *frame, GLOBAL u8 *work, GLOBAL u8 *result_buffer, const gpu_job job)
{
    SHARED_ARRAY u32 counts[CHOICES * COUNTERS];
    SHARED_ARRAY u32 escape_bits[CHOICES], negative;
    SHARED_ARRAY arrangement arranged;
    const u32 t = THREAD, number = GROUP_NUMBER % SAMPLES(job), part = number * SAMPLED;
    dense_chunk c = chunk_at(&job, work + job.work_offset, GROUP_NUMBER / SAMPLES(job));
    settle(&job, &c);
    if (!is_mine(&c) || part >= c.n_parts)
        return;
    for (u32 i = t; i < CHOICES * COUNTERS; i += GROUP)
        counts[i] = 0;
    if (t < CHOICES)
        escape_bits[t] = 0;
    if (t == 0) {
        negative = 0;
        arranged = arrange(&job, elements_of_part(&c, part));
    }
    BARRIER();

    /* ---- elements, with all predictors ---- */
    GLOBAL const code_word *codes = codes_of_chunk(&job, &c) + part * c.part_elements;
    u32 zeros[CHOICES] = {0, 0, 0, 0, 0, 0}, signs = 0;
    part_place p = place_of(&arranged, t);
    const part_place by = place_of(&arranged, GROUP);
    for (u32 i = t; i < arranged.n; i += GROUP, go_on(&arranged, &p, &by)) {
        const neighbours v = neighbours_of(&arranged, p.row, p.column, i, 1, codes);
        signs |= SIGNED_CODE(codes[i]) < 0;
        sample_element(&v, codes[i], counts, escape_bits, zeros);
    }
    for (u32 choice = 0; choice < CHOICES; choice++)
        SHARED_ADD(&counts[choice * COUNTERS], zeros[choice]);
    if (signs)
        SHARED_OR(&negative, 1);
    BARRIER();
    GLOBAL dense_sample *out = (GLOBAL dense_sample *)(c.slot + SLOT_SAMPLES_AT(job)) + number;
    for (u32 i = t; i < CHOICES * COUNTERS; i += GROUP)
        out->counts[i] = counts[i];
    if (t < CHOICES)
        out->escape_bits[t] = escape_bits[t];
    if (t == 0)
        out->negative = negative;
}

/* ---- choice ---- */

#if CODE_BITS == 16

/* v log2(v) in units, as src/codec/entropy.h. */
FUNCTION u64 v_log2_v(u64 v)
{
    const u32 low = (u32)v; /* counts of a chunk fit 32 bits */
    if (low == 0)
        return 0;
    const u32 top = length_in_bits(low) - 1, f = (top >= 8 ? low >> (top - 8) : low << (8 - top)) & 255u;
    return v * (ENTROPY_UNIT * top + f + (f * (256 - f) * 88 >> 16));
}

/* The bits of one context's symbols. */
FUNCTION u64 context_cost(SHARED const u32 *counts, SHARED const u64 *logs)
{
    u64 total = 0, sum = 0, raw = 0;
    for (u32 s = 0; s < SYMBOLS; s++) {
        total += counts[s];
        sum += logs[s];
        raw += (u64)counts[s] * symbol_bits(s);
    }
    const u64 all = v_log2_v(total);
    return raw + (all > sum ? all - sum : 0) / ENTROPY_UNIT;
}

KERNEL choose_parts(GLOBAL u8 *x, GLOBAL u8 *frame, GLOBAL u8 *work, GLOBAL u8 *result_buffer, const gpu_job job)
{
    SHARED_ARRAY u32 counts[COUNTERS];
    SHARED_ARRAY u64 logs[COUNTERS], costs[CONTEXTS], bits[CHOICES];
    const u32 t = THREAD;
    const dense_chunk c = chunk_at(&job, work + job.work_offset, GROUP_NUMBER);
    const u32 n_samples = (c.n_parts + SAMPLED - 1) / SAMPLED;
    GLOBAL const dense_sample *samples = (GLOBAL const dense_sample *)(c.slot + SLOT_SAMPLES_AT(job));
    for (u32 choice = 0; choice < CHOICES; choice++) {
        u32 count = 0;
        for (u32 k = 0; k < n_samples; k++)
            count += samples[k].counts[choice * COUNTERS + t];
        counts[t] = count;
        logs[t] = v_log2_v(count);
        BARRIER();
        if (t < CONTEXTS)
            costs[t] = context_cost(counts + SYMBOLS * t, logs + SYMBOLS * t);
        BARRIER();
        if (t == 0) {
            u64 sum = 0;
            for (u32 k = 0; k < CONTEXTS; k++)
                sum += costs[k];
            for (u32 k = 0; k < n_samples; k++)
                sum += samples[k].escape_bits[choice];
            bits[choice] = sum;
        }
    }
    if (t == 0) {
        u32 negative = 0, best = 0;
        for (u32 k = 0; k < n_samples; k++)
            negative |= samples[k].negative;
        for (u32 choice = 1; choice < CHOICES; choice++) /* of the last two, one is meant */
            if ((choice < CHOICES - 2 || choice == CHOICES - 2 + !negative) && bits[choice] < bits[best])
                best = choice;
        tables_of(&c)->predictor = predictor_of_choice(best);
        tables_of(&c)->identity = best == CHOICES - 1;
    }
}

#endif

/* ---- all symbols ---- */

/* Counts an escape in the group's figures. */
FUNCTION void count_escape(u32 escape, SHARED u32 *lengths, SHARED u32 *carries)
{
    const u32 length = length_in_bits(escape);
    const u32 zeros = ~escape & (length ? 0xffffffffu >> (32 - length) : 0); /* after the ones at its top */
    SHARED_ADD(&lengths[length], 1);
    SHARED_ADD(&carries[length_in_bits(zeros)], 1);
}

/* Symbols go to the workspace as raw bits << 8 | context << 4 | symbol. */
KERNEL CODED(model_parts)(GLOBAL u8 *x, GLOBAL u8 *frame, GLOBAL u8 *work, GLOBAL u8 *result_buffer, const gpu_job job)
{
    SHARED_ARRAY u32 counts[COUNTERS];
    SHARED_ARRAY u32 lengths[ESCAPE_LENGTHS], carries[ESCAPE_LENGTHS];
    SHARED_ARRAY arrangement arranged[2];
    const u32 t = THREAD, share = GROUP_NUMBER % job.groups;
    dense_chunk c = chunk_at(&job, work + job.work_offset, GROUP_NUMBER / job.groups);
    settle(&job, &c);
    if (!is_mine(&c))
        return;
    counts[t] = 0;
    if (t < ESCAPE_LENGTHS)
        lengths[t] = carries[t] = 0;
    if (t < 2) /* that of the last part, and of those before it */
        arranged[t] = arrange(&job, elements_of_part(&c, t == 0 ? c.n_parts - 1 : 0));
    BARRIER();
    const u32 each = (c.n_parts + job.groups - 1) / job.groups, mine = share * each;
    const u32 past = mine + each < c.n_parts ? mine + each : c.n_parts;
    const u32 predictor = tables_of(&c)->predictor, identity = tables_of(&c)->identity;
    u32 zeros = 0;

    /* ---- elements ---- */
    for (u32 part = mine; part < past; part++) {
        SHARED const arrangement *a = &arranged[part + 1 < c.n_parts];
        GLOBAL const code_word *codes = codes_of_chunk(&job, &c) + part * c.part_elements;
        GLOBAL u32 *symbols = symbols_of(&job, &c) + part * c.part_elements;
        part_place p = place_of(a, t);
        const part_place by = place_of(a, GROUP);
        for (u32 i = t; i < a->n; i += GROUP, go_on(a, &p, &by)) {
            u32 context;
            const u32 z = residual_at(a, &p, i, predictor, identity, codes, &context), symbol = symbol_of(z);
            const u32 counter = context * SYMBOLS + symbol, raw = symbol == ESCAPE ? 0 : z - symbol_least(symbol);
            symbols[i] = raw << 8 | counter;
            if (counter)
                SHARED_ADD(&counts[counter], 1);
            zeros += !counter;
            if (symbol == ESCAPE)
                count_escape(z - ESCAPE_LEAST, lengths, carries);
        }
    }
    SHARED_ADD(&counts[0], zeros);
    BARRIER();
    GLOBAL dense_counts *out = (GLOBAL dense_counts *)(c.slot + SLOT_COUNTS_AT(job)) + share;
    out->counts[t] = counts[t];
    if (t < ESCAPE_LENGTHS) {
        out->lengths[t] = lengths[t];
        out->carries[t] = carries[t];
    }
}

/* ---- tables ---- */

/* The bits of an escape. */
FUNCTION u32 escape_bits_of(u32 escape, u32 order)
{
    const u64 v = escape + ((u64)1 << order);
    const u32 bits = (v >> 32 ? 33 : length_in_bits((u32)v)) - 1;
    return 2 * bits - order + 1;
}

#if CODE_BITS == 16

/* The bits of all escapes with an order: they have order + 1 bits if they are shorter than that, else their own length, and one
 * more if adding 2^order carries. */
FUNCTION u64 bits_of_escapes(SHARED const u32 *lengths, SHARED const u32 *carries, u32 order)
{
    u64 sum = 0;
    for (u32 length = 0; length < ESCAPE_LENGTHS; length++) {
        const u32 below = length <= order ? order : length - 1;
        sum += (u64)lengths[length] * (2 * below - order + 1);
        sum += length <= order ? 2 * ((u64)carries[length] - lengths[length]) : 0;
    }
    return sum;
}

/* The best order near the mean length. */
FUNCTION u32 best_order(SHARED const u32 *lengths, SHARED const u32 *carries)
{
    u64 sum = 0, n = 0, least = ~(u64)0;
    for (u32 length = 0; length < ESCAPE_LENGTHS; length++) {
        sum += (u64)lengths[length] * length;
        n += lengths[length];
    }
    const u32 mean = n ? (u32)(sum / n) : 0;
    u32 best = 0;
    for (u32 order = mean < 2 ? 0 : mean - 2; order <= mean && order < 32; order++) {
        const u64 bits = bits_of_escapes(lengths, carries, order);
        best = bits < least ? order : best;
        least = bits < least ? bits : least;
    }
    return best;
}

/* Makes the frequencies of a context, rounded one by one, add up to SCALE, as src/codec/dense_tables.c does. */
FUNCTION void fit_frequencies(SHARED u32 *frequency)
{
    u32 sum = 0, largest = 0;
    for (u32 s = 0; s < SYMBOLS; s++) {
        sum += frequency[s];
        largest = frequency[s] > frequency[largest] ? s : largest;
    }
    if (sum > 0 && sum < SCALE)
        frequency[largest] += SCALE - sum;
    for (; sum > SCALE; sum--) {
        for (u32 s = 0; s < SYMBOLS; s++)
            largest = frequency[s] > frequency[largest] ? s : largest;
        frequency[largest]--;
    }
}

/* Adds bits to zeroed words. */
FUNCTION void or_bits(SHARED u32 *words, u32 at, u32 v)
{
    const u32 shift = at % 32;
    SHARED_OR(&words[at / 32], v << shift);
    if (shift && v >> (32 - shift))
        SHARED_OR(&words[at / 32 + 1], v >> (32 - shift));
}

/* A thread for each symbol of each context. */
KERNEL tabulate_parts(GLOBAL u8 *x, GLOBAL u8 *frame, GLOBAL u8 *work, GLOBAL u8 *result_buffer, const gpu_job job)
{
    SHARED_ARRAY u32 counts[COUNTERS], frequency[COUNTERS], scan[SCAN_ROOM], words[TABLE_BYTES / 4];
    SHARED_ARRAY u32 lengths[ESCAPE_LENGTHS], carries[ESCAPE_LENGTHS], order;
    const u32 t = THREAD, context = t / SYMBOLS, symbol = t % SYMBOLS;
    const dense_chunk c = chunk_at(&job, work + job.work_offset, GROUP_NUMBER);
    GLOBAL const dense_counts *all = (GLOBAL const dense_counts *)(c.slot + SLOT_COUNTS_AT(job));
    u32 count = 0, length = 0, carry = 0;
    for (u32 g = 0; g < job.groups; g++) {
        count += all[g].counts[t];
        length += t < ESCAPE_LENGTHS ? all[g].lengths[t] : 0;
        carry += t < ESCAPE_LENGTHS ? all[g].carries[t] : 0;
    }
    counts[t] = count;
    if (t < ESCAPE_LENGTHS) {
        lengths[t] = length;
        carries[t] = carry;
    }
    if (t < TABLE_BYTES / 4)
        words[t] = 0;
    BARRIER();
    u32 total = 0;
    for (u32 s = 0; s < SYMBOLS; s++)
        total += counts[context * SYMBOLS + s];
    const u32 rounded = total ? (u32)((count * (u64)SCALE + total / 2) / total) : 0;
    frequency[t] = count && rounded == 0 ? 1 : rounded;
    if (t == 0)
        order = best_order(lengths, carries);
    BARRIER();
    if (t < CONTEXTS)
        fit_frequencies(frequency + SYMBOLS * t);
    BARRIER();
    u32 start = 0, last = 0;
    for (u32 s = 0; s < SYMBOLS; s++) {
        const u32 f = frequency[context * SYMBOLS + s];
        start += s < symbol ? f : 0;
        last = f ? s : last;
    }
    tables_of(&c)->entries[t] = symbol_bits(symbol) << 28 | start << 16 | frequency[t];

    /* Their bits: at a context's first symbol does it occur, and its last; of each symbol zeros, a one, and the rest. */
    const u32 v = frequency[t] + 1, below = length_in_bits(v) - 1;
    const u32 head = symbol ? 0 : total ? 1u | last << 1 : 0, head_bits = symbol ? 0 : total ? 5 : 1;
    u32 at = head_bits + (total && symbol <= last ? 2 * below + 1 : 0), all_bits;
    GROUP_SCAN(u32, scan, t, at, all_bits)
    at += 5;
    if (t == 0)
        or_bits(words, 0, order);
    or_bits(words, at, head);
    if (total && symbol <= last)
        or_bits(words, at + head_bits + below, 1u | (v & ((1u << below) - 1)) << 1);
    BARRIER();
    if (t < TABLE_BYTES / 4)
        tables_of(&c)->words[t] = words[t];
    if (t == 0) {
        tables_of(&c)->escape_order = order;
        tables_of(&c)->bytes = (5 + all_bits + 7) / 8;
    }
}

#endif
#endif
