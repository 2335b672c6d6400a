/*
 * The AVX2 kernels of decompression, level fast, for 16-bit codes: see kernels_avx2.c. A tile is unpacked, summed up and
 * dequantised in three passes, between which its codes stay in the first-level cache.
 */
#include "codec/kernels/avx2.h"

/* ---- dequantise, f32 ---- */

HOT __m256 load_values_f32(const quantiser *q, enum quantiser_mode mode, const int16_t *codes, uint32_t index)
{
    return values_f32(q, mode, _mm256_cvtepi16_epi32(load16(codes)), index);
}

HOT void dequantise_blocks_f32(const quantiser *given, enum quantiser_mode mode, const int16_t *c, size_t n, uint32_t first,
                               float *out, bool stream)
{
    const quantiser q = *given; /* a copy, which stores to `out` cannot touch */
    size_t head = (32 - (uintptr_t)out % 32) % 32 / sizeof *out, i = stream ? head < n ? head : n : 0;
    if (i > 0)
        dequantise_f32_16_generic(&q, c, i, first, out, false);
    if (stream)
        for (; i + 8 <= n; i += 8)
            _mm256_stream_ps(out + i, load_values_f32(&q, mode, c + i, first + (uint32_t)i));
    else
        for (; i + 8 <= n; i += 8)
            _mm256_storeu_ps(out + i, load_values_f32(&q, mode, c + i, first + (uint32_t)i));
    if (i < n)
        dequantise_f32_16_generic(&q, c + i, n - i, first + (uint32_t)i, out + i, false);
}

void dequantise_f32_16_avx2(const quantiser *q, const void *codes, size_t n, uint32_t first, void *x, bool stream)
{
    switch (q->mode) {
    case QUANTISE_PLAIN: dequantise_blocks_f32(q, QUANTISE_PLAIN, codes, n, first, x, stream); break;
    case QUANTISE_SUPPORT: dequantise_blocks_f32(q, QUANTISE_SUPPORT, codes, n, first, x, stream); break;
    case QUANTISE_NONZERO: dequantise_blocks_f32(q, QUANTISE_NONZERO, codes, n, first, x, stream); break;
    case QUANTISE_DITHER: dequantise_blocks_f32(q, QUANTISE_DITHER, codes, n, first, x, stream); break;
    }
}

/* ---- unpack ---- */

/*
 * Eight values of w bits take w bytes. For value i, `bytes` brings the two bytes that it lies in into a 16-bit lane; times
 * `times` it is at the lane's upper end, and a shift right by 16 - w completes it.
 */
typedef struct unpacking {
    uint8_t bytes[16];
    uint16_t times[8];
} unpacking;

#define AT(w, i) (uint8_t)((i) * (w) / 8)
#define TWO_BYTES(w, i) AT(w, i), (uint8_t)(AT(w, i) + 1)
#define TIMES(w, i) (uint16_t)(1u << (16 - (w) - (i) * (w) % 8))
#define UNPACKING(w)                                                                                               \
    {                                                                                                              \
        {TWO_BYTES(w, 0), TWO_BYTES(w, 1), TWO_BYTES(w, 2), TWO_BYTES(w, 3),                                       \
         TWO_BYTES(w, 4), TWO_BYTES(w, 5), TWO_BYTES(w, 6), TWO_BYTES(w, 7)},                                      \
        {                                                                                                          \
            TIMES(w, 0), TIMES(w, 1), TIMES(w, 2), TIMES(w, 3), TIMES(w, 4), TIMES(w, 5), TIMES(w, 6), TIMES(w, 7) \
        }                                                                                                          \
    }
static const _Alignas(32) unpacking unpackings[9] = {UNPACKING(0), UNPACKING(1), UNPACKING(2), UNPACKING(3), UNPACKING(4),
                                                     UNPACKING(5), UNPACKING(6), UNPACKING(7), UNPACKING(8)};

/* 64 values of `width` bits (at most 8) as bytes; reads up to 72 bytes. */
HOT void get_values(const uint8_t *in, unsigned width, __m256i v[2])
{
    const unpacking *u = &unpackings[width];
    const __m256i bytes = _mm256_broadcastsi128_si256(load16(u->bytes));
    const __m256i times = _mm256_broadcastsi128_si256(load16(u->times));
    const __m128i shift = _mm_cvtsi32_si128((int)(16 - width));
    for (int k = 0; k < 2; k++, in += 4 * width) {
        /* packus takes halves by turns: eights 0, 2 and 1, 3 come out in order */
        __m256i even = _mm256_shuffle_epi8(load_halves(in, in + 2 * width), bytes);
        __m256i odd = _mm256_shuffle_epi8(load_halves(in + width, in + 3 * width), bytes);
        even = _mm256_srl_epi16(_mm256_mullo_epi16(even, times), shift);
        odd = _mm256_srl_epi16(_mm256_mullo_epi16(odd, times), shift);
        v[k] = _mm256_packus_epi16(even, odd);
    }
}

/* The bytes at `from` spread to the bits of the map that are set, 16 at a time from bit 16 i on; *from moves on. */
HOT __m128i spread16(uint64_t map, int i, const uint8_t **from)
{
    unsigned low = map >> (16 * i) & 255, high = map >> (16 * i + 8) & 255;
    const uint8_t *second = *from + __builtin_popcount(low);
    __m128i v = _mm_castps_si128(_mm_loadh_pi(_mm_castsi128_ps(load8(*from)), (const __m64 *)second));
    __m128i order =
        _mm_castps_si128(_mm_loadh_pi(_mm_castsi128_ps(load8(&shuffle_apart[low])), (const __m64 *)&shuffle_apart[high]));
    order = _mm_or_si128(order, _mm_set_epi64x(0x0808080808080808, 0));
    *from = second + __builtin_popcount(high);
    return _mm_shuffle_epi8(v, order);
}

/* Values that do not fit bytes: the low bytes, then what is left. Returns their end. */
static __attribute__((noinline)) const uint8_t *unpack_large(block_shape shape, uint64_t map, bool identity,
                                                             const uint8_t *values, uint16_t *c)
{
    unsigned count = (unsigned)__builtin_popcountll(map);
    uint8_t part[2][BLOCK + 8] = {{0}};
    memcpy(part[0], values, BLOCK);
    __m256i v[2];
    get_values(values + count, shape.width - 8, v);
    store32(part[1], v[0]);
    store32(part[1] + 32, v[1]);
    const uint8_t *low = part[0], *high = part[1];
    for (int i = 0; i < 4; i++) {
        __m256i z = _mm256_cvtepu8_epi16(spread16(map, i, &low));
        z = _mm256_or_si256(z, _mm256_slli_epi16(_mm256_cvtepu8_epi16(spread16(map, i, &high)), 8));
        if (shape.bitmap) { /* non-zeros were stored less one */
            const __m256i bit =
                _mm256_setr_epi16(1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, (short)0x8000);
            __m256i present = _mm256_and_si256(_mm256_set1_epi16((short)(map >> (16 * i))), bit);
            z = _mm256_sub_epi16(z, _mm256_cmpeq_epi16(present, bit));
        }
        store32(c + 16 * i, identity ? z : unzigzag16(z));
    }
    return values + values_bytes(count, shape.width);
}

/* What is known of a block between the two halves of unpacking. */
typedef struct half_unpacked {
    uint8_t bytes[BLOCK + 8]; /* codes one after the other, in those bits of the map that are set */
    uint64_t map;
} half_unpacked;

/* The first half: the values of a block as bytes, with the map undone where `identity` is false. A block of larger values is
 * unpacked to c at once and gets an empty map. False if the bytes run out. */
HOT bool unpack_values(unsigned kind, bool identity, block_reader *in, half_unpacked *h, uint16_t *c, bool *large)
{
    uint64_t map;
    block_shape shape = block_shape_read(kind, in, &map);
    *large = shape.width + shape.bitmap > 8; /* more than a byte can hold */
    if (*large) {
        if (shape.width > 16)
            return false;
        in->values = unpack_large(shape, map, identity, in->values, c);
        return in->values <= in->values_end;
    }
    const __m256i one = _mm256_set1_epi8(1), more = _mm256_set1_epi8(shape.bitmap);
    __m256i v[2];
    get_values(in->values, shape.width, v);
    in->values += ((unsigned)__builtin_popcountll(map) * shape.width + 7) / 8;
    for (int i = 0; i < 2; i++) {
        v[i] = _mm256_add_epi8(v[i], more); /* non-zeros were stored less one */
        if (!identity) {
            __m256i half = _mm256_and_si256(_mm256_srli_epi16(v[i], 1), _mm256_set1_epi8(0x7f));
            __m256i sign = _mm256_cmpeq_epi8(_mm256_and_si256(v[i], one), one);
            v[i] = _mm256_xor_si256(half, sign);
        }
        store32(h->bytes + 32 * i, v[i]);
    }
    h->map = map;
    return in->values <= in->values_end;
}

/* The second half: every byte to its place. */
HOT void place_values(const half_unpacked *h, bool identity, uint16_t *c)
{
    const uint8_t *from = h->bytes;
    for (int i = 0; i < 4; i++) {
        __m128i v = spread16(h->map, i, &from);
        store32(c + 16 * i, identity ? _mm256_cvtepu8_epi16(v) : _mm256_cvtepi8_epi16(v));
    }
}

#define STRIP 8 /* blocks; in this distance, what was stored has reached the cache and can be loaded in other pieces */

HOT bool unpack_blocks(size_t first_block, size_t n_blocks, bool identity, block_reader *reader, uint16_t *c)
{
    block_reader in = *reader;
    half_unpacked h[STRIP];
    for (size_t b = 0; b < n_blocks; b += STRIP) {
        size_t n = n_blocks - b < STRIP ? n_blocks - b : STRIP;
        unsigned all_large = 0;
        for (size_t i = 0; i < n; i++) {
            bool large;
            if (!unpack_values(get_kind(in.kinds, first_block + b + i), identity, &in, &h[i], c + (b + i) * BLOCK, &large))
                return false;
            all_large |= (unsigned)large << i;
        }
        for (size_t i = 0; i < n; i++)
            if (!(all_large >> i & 1))
                place_values(&h[i], identity, c + (b + i) * BLOCK);
    }
    *reader = in;
    return true;
}

bool unpack_16_avx2(size_t first_block, size_t n_blocks, bool identity, block_reader *in, void *codes)
{
    return identity ? unpack_blocks(first_block, n_blocks, true, in, codes)
                    : unpack_blocks(first_block, n_blocks, false, in, codes);
}

/* ---- undo prediction ---- */

/*
 * Undoing prediction is a running sum with a stride. Loads that straddle stores just made are slow, so sums are kept in
 * registers (strides below 16) or in a row of aligned slots that is loaded exactly as it was stored.
 */

/* Running sums with stride 1: inside 128 bits by shifts, then the total of the lower half. */
HOT __m256i running_sums(__m256i v)
{
    const __m256i last_word = _mm256_set1_epi16(0x0f0e);
    v = _mm256_add_epi16(v, _mm256_bslli_epi128(v, 2));
    v = _mm256_add_epi16(v, _mm256_bslli_epi128(v, 4));
    v = _mm256_add_epi16(v, _mm256_bslli_epi128(v, 8));
    __m256i low_above = _mm256_permute2x128_si256(v, v, 0x08); /* zero, then the lower half */
    return _mm256_add_epi16(v, _mm256_shuffle_epi8(low_above, last_word));
}

/* The last element of a register, in every lane. */
HOT __m256i top_everywhere(__m256i v)
{
    return _mm256_shuffle_epi8(_mm256_permute2x128_si256(v, v, 0x11), _mm256_set1_epi16(0x0f0e));
}

/* c[i] += c[i - 1]. */
static void add_left(uint16_t *c, size_t n, uint16_t before)
{
    __m256i left = _mm256_set1_epi16((short)before);
    for (size_t i = 0; i < n; i += 16) {
        __m256i v = running_sums(load32(c + i));
        store32(c + i, _mm256_add_epi16(v, left));
        left = _mm256_add_epi16(left, top_everywhere(v));
    }
}

/* Shuffles for running sums with a stride below 16, 8 elements at a time: by doubling inside a register, where step s adds what
 * lies distance << s before, then what lies in the two registers before. */
typedef struct near_sums {
    int steps;
    __m128i shift[3], last, before_last;
} near_sums;

/* Takes element from[j] to place j; none where it is out of range. */
static __m128i words_shuffle(const int from[8])
{
    uint8_t bytes[16];
    for (int j = 0; j < 8; j++) {
        bool inside = from[j] >= 0 && from[j] < 8;
        bytes[2 * j] = (uint8_t)(inside ? 2 * from[j] : 0x80);
        bytes[2 * j + 1] = (uint8_t)(inside ? 2 * from[j] + 1 : 0x80);
    }
    return load16(bytes);
}

static near_sums near_sums_make(int distance)
{
    near_sums s = {0};
    int from[8];
    for (int d = distance; d < 8; d *= 2, s.steps++) {
        for (int j = 0; j < 8; j++)
            from[j] = j - d;
        s.shift[s.steps] = words_shuffle(from);
    }
    for (int j = 0; j < 8; j++)
        from[j] = distance <= 8 ? 8 - distance + j % distance : 8 - distance + j;
    s.last = words_shuffle(from);
    for (int j = 0; j < 8; j++)
        from[j] = distance <= 8 ? -1 : 16 - distance + j;
    s.before_last = words_shuffle(from);
    return s;
}

/* c[i] += c[i - distance] for distance < 16. The sums that precede c are `before_last` and `last`. */
static void add_near(uint16_t *c, size_t n, int distance, __m128i before_last, __m128i last)
{
    const near_sums s = near_sums_make(distance);
    for (size_t i = 0; i < n; i += 8) {
        __m128i v = load16(c + i);
        for (int step = 0; step < s.steps; step++)
            v = _mm_add_epi16(v, _mm_shuffle_epi8(v, s.shift[step]));
        v = _mm_add_epi16(v, _mm_shuffle_epi8(before_last, s.before_last));
        v = _mm_add_epi16(v, _mm_shuffle_epi8(last, s.last));
        _mm_storeu_si128((__m128i *)(c + i), v);
        before_last = last;
        last = v;
    }
}

#define MAX_SLOTS 32

/*
 * c[i] += c[i - distance] for 16 <= distance <= 16 * MAX_SLOTS, in rows of `distance` elements; the sums of the row before lie
 * in slots. With sum_left, the running sum along the elements is taken first (2-D Lorenzo with stride 1); `left` holds the one
 * that precedes c in every lane. The last register of a row reaches into the next row, whose first register is therefore loaded
 * beforehand and stored again later; after the last row, what it overwrites is not in use yet.
 */
HOT void add_slots(uint16_t *c, size_t n, size_t distance, bool sum_left, __m256i left)
{
    __m256i slot[MAX_SLOTS];
    const size_t n_slots = (distance + 15) / 16, last = (distance - 1) % 16;
    const __m256i last_word = _mm256_set1_epi16((short)((2 * (last % 8) + 1) << 8 | 2 * (last % 8)));
    for (size_t k = 0; k < n_slots; k++)
        slot[k] = load32(c - distance + 16 * k);
    __m256i first = load32(c);
    for (size_t row = 0; row < n; row += distance) {
        __m256i v = first;
        if (row + distance < n)
            first = load32(c + row + distance);
        for (size_t k = 0; k < n_slots && row + 16 * k < n; k++) {
            if (k > 0)
                v = load32(c + row + 16 * k);
            if (sum_left) {
                __m256i sums = running_sums(v), total = top_everywhere(sums);
                if (k + 1 == n_slots) {
                    __m256i half =
                        last < 8 ? _mm256_permute2x128_si256(sums, sums, 0x00) : _mm256_permute2x128_si256(sums, sums, 0x11);
                    total = _mm256_shuffle_epi8(half, last_word);
                }
                v = _mm256_add_epi16(sums, left);
                left = _mm256_add_epi16(left, total);
            }
            slot[k] = _mm256_add_epi16(v, slot[k]);
            store32(c + row + 16 * k, slot[k]);
        }
    }
}

static void add_far(uint16_t *c, size_t n, size_t distance)
{
    for (size_t i = 0; i < n; i += 16)
        store32(c + i, _mm256_add_epi16(load32(c + i), load32(c + i - distance)));
}

static void strided_sum_16(uint16_t *c, size_t n, size_t distance)
{
    if (distance == 1)
        add_left(c, n, c[-1]);
    else if (distance < 16)
        add_near(c, n, (int)distance, load16(c - 16), load16(c - 8));
    else if (distance <= 16 * MAX_SLOTS)
        add_slots(c, n, distance, false, _mm256_setzero_si256());
    else
        add_far(c, n, distance);
}

static void add_lorenzo_16(uint16_t *c, size_t n, strides s)
{
    const uint16_t *above = c - s.up;
    uint16_t difference = (uint16_t)(c[-1] - above[-1]);
    if (s.left == 1 && s.up >= 16 && s.up <= 16 * MAX_SLOTS) {
        add_slots(c, n, s.up, true, _mm256_set1_epi16((short)difference));
    } else if (s.left == 1) {
        add_left(c, n, difference);
        strided_sum_16(c, n, s.up);
    } else if (s.left < 16) { /* first the differences to the line above, then the line above */
        add_near(c, n, (int)s.left, _mm_sub_epi16(load16(c - 16), load16(above - 16)),
                 _mm_sub_epi16(load16(c - 8), load16(above - 8)));
        strided_sum_16(c, n, s.up);
    } else {
        for (size_t i = 0; i < n; i += 16) {
            __m256i left = load32(c + i - s.left), up = load32(above + i), corner = load32(above + i - s.left);
            store32(c + i, _mm256_add_epi16(load32(c + i), _mm256_sub_epi16(_mm256_add_epi16(left, up), corner)));
        }
    }
}

void unpredict_16_avx2(enum predictor predictor, void *codes, size_t n, strides s)
{
    switch (predictor) {
    case PREDICT_LEFT: strided_sum_16(codes, n, s.left); break;
    case PREDICT_UP: strided_sum_16(codes, n, s.up); break;
    case PREDICT_LORENZO: add_lorenzo_16(codes, n, s); break;
    default: break;
    }
}

bool decode_tile_f32_avx2(const packed_tile *t)
{
    if (t->prefetch)
        for (size_t i = 0; i < t->n; i += 16)
            _mm_prefetch((const char *)((const float *)t->prefetch + i), _MM_HINT_T1);
    return decode_tile_by(t, unpack_16_avx2, unpredict_16_avx2, dequantise_f32_16_avx2);
}
