/*
 * Prediction and packing for one code width. Included with CODE (signed), UCODE (unsigned), WIDTH (bits) and
 * NAME(stem) defined.
 *
 * Arithmetic is modulo 2^WIDTH, so prediction is undone exactly whatever the codes are.
 *
 * A block of 64 residuals z is one of
 *   empty    all zero
 *   bitmap   a 64-bit map of the non-zeros, and the values z - 1 of these, w bits each
 *   plain    the 64 values z, w bits each
 * whichever is shortest. Values and maps are stored apart. Values of more than 8 bits are cut into bytes from the least
 * significant up: the first bytes of all values, the second bytes of all, ..., last the bits that are left. Those are packed
 * one after the other, least significant bit first, up to a whole byte. The 4-bit kind is 0; 1 to 6 for bitmap with w = kind; 7
 * to 14 for plain with w = kind - 6; 15 for anything else, a wide block, with a byte stored apart: w, plus 128 for bitmap.
 */

static inline UCODE NAME(zigzag)(UCODE r)
{
    return (UCODE)((UCODE)(r << 1) ^ (UCODE)(0 - (UCODE)(r >> (WIDTH - 1))));
}

static inline UCODE NAME(unzigzag)(UCODE z)
{
    return (UCODE)((UCODE)(z >> 1) ^ (UCODE)(0 - (UCODE)(z & 1)));
}

static inline void NAME(predict)(enum predictor predictor, bool identity, const void *codes, size_t n, strides s,
                                 void *residuals)
{
    const UCODE *c = codes;
    const UCODE *left = c - s.left, *up = c - s.up, *corner = up - s.left;
    UCODE *z = residuals;
    switch (predictor) {
    case PREDICT_LEFT:
        for (size_t i = 0; i < n; i++)
            z[i] = NAME(zigzag)((UCODE)(c[i] - left[i]));
        break;
    case PREDICT_UP:
        for (size_t i = 0; i < n; i++)
            z[i] = NAME(zigzag)((UCODE)(c[i] - up[i]));
        break;
    case PREDICT_LORENZO:
        for (size_t i = 0; i < n; i++)
            z[i] = NAME(zigzag)((UCODE)(c[i] - left[i] - up[i] + corner[i]));
        break;
    default:
        if (identity)
            memcpy(z, c, n * sizeof *z);
        else
            for (size_t i = 0; i < n; i++)
                z[i] = NAME(zigzag)(c[i]);
    }
}

/* c[i] += c[i - distance] in order. Runs of `distance` elements are independent of each other. */
static inline void NAME(strided_sum)(UCODE *c, size_t n, size_t distance)
{
    for (size_t i = 0; i < n; i += distance) {
        size_t run = n - i < distance ? n - i : distance;
        for (size_t k = i; k < i + run; k++)
            c[k] = (UCODE)(c[k] + (c - distance)[k]);
    }
}

static inline void NAME(add_lorenzo)(UCODE *c, size_t n, strides s)
{
    size_t step = s.left < s.up ? s.left : s.up;
    const UCODE *left = c - s.left, *up = c - s.up, *corner = up - s.left;
    for (size_t i = 0; i < n; i += step) {
        size_t run = n - i < step ? n - i : step;
        for (size_t k = i; k < i + run; k++)
            c[k] = (UCODE)(c[k] + left[k] + up[k] - corner[k]);
    }
}

static inline void NAME(unpredict)(enum predictor predictor, void *codes, size_t n, strides s)
{
    switch (predictor) {
    case PREDICT_LEFT: NAME(strided_sum)(codes, n, s.left); break;
    case PREDICT_UP: NAME(strided_sum)(codes, n, s.up); break;
    case PREDICT_LORENZO: NAME(add_lorenzo)(codes, n, s); break;
    default: break;
    }
}

static inline UCODE NAME(block_max)(const UCODE *z, unsigned *n_nonzero)
{
    UCODE max = 0;
    unsigned nonzero = 0;
    for (unsigned i = 0; i < BLOCK; i++) {
        max = z[i] > max ? z[i] : max;
        nonzero += z[i] != 0;
    }
    *n_nonzero = nonzero;
    return max;
}

static inline uint64_t NAME(pack_cost)(const void *residuals, size_t n_blocks)
{
    const UCODE *z = residuals;
    uint64_t bits = 4 * n_blocks;
    for (size_t b = 0; b < n_blocks; b++, z += BLOCK) {
        unsigned nonzero;
        UCODE max = NAME(block_max)(z, &nonzero);
        bits += 8 * block_shape_of(max, nonzero).bytes;
    }
    return bits;
}

/* The values of a block whose shape is known; sets its map. Returns their end. */
static inline uint8_t *NAME(pack_values)(const UCODE *z, block_shape shape, uint8_t *out, uint64_t *map)
{
    UCODE v[BLOCK];
    unsigned count = 0;
    *map = 0;
    for (unsigned i = 0; i < BLOCK; i++) {
        bool present = !shape.bitmap || z[i] != 0;
        v[count] = (UCODE)(z[i] - shape.bitmap);
        count += present;
        *map |= (uint64_t)present << i;
    }
    for (unsigned shift = 0; shift < shape.width; shift += 8) {
        unsigned bits = shape.width - shift < 8 ? shape.width - shift : 8;
        bit_writer w = {.next = out};
        for (unsigned i = 0; i < count; i++)
            bit_write(&w, (uint64_t)(v[i] >> shift) & ((1u << bits) - 1), bits);
        out = bit_writer_end(&w);
    }
    return out;
}

static inline void NAME(pack)(const void *residuals, size_t n_blocks, size_t first_block, block_writer *out)
{
    const UCODE *z = residuals;
    for (size_t b = first_block; b < first_block + n_blocks; b++, z += BLOCK) {
        unsigned nonzero;
        uint64_t map;
        UCODE max = NAME(block_max)(z, &nonzero);
        block_shape shape = block_shape_of(max, nonzero);
        out->values = NAME(pack_values)(z, shape, out->values, &map);
        block_begin(shape, map, b, out);
    }
}

static inline bool NAME(unpack_block)(block_shape shape, uint64_t map, bool identity, block_reader *in, UCODE *c)
{
    UCODE v[BLOCK] = {0};
    unsigned count = (unsigned)__builtin_popcountll(map);
    const uint8_t *values = in->values;
    if (shape.width > WIDTH || (size_t)(in->values_end - values) < values_bytes(count, shape.width))
        return false;
    in->values = values + values_bytes(count, shape.width);
    for (unsigned shift = 0; shift < shape.width; shift += 8) {
        unsigned bits = shape.width - shift < 8 ? shape.width - shift : 8;
        bit_reader r = {.start = values};
        for (unsigned i = 0; i < count; i++)
            v[i] = (UCODE)(v[i] | (UCODE)((UCODE)bit_read(&r, bits) << shift));
        values += values_bytes(count, bits);
    }
    const UCODE *next = v;
    for (unsigned i = 0; i < BLOCK; i++) {
        UCODE z = map >> i & 1 ? (UCODE)(*next++ + shape.bitmap) : 0;
        c[i] = identity ? z : NAME(unzigzag)(z);
    }
    return true;
}

static inline bool NAME(unpack)(size_t first_block, size_t n_blocks, bool identity, block_reader *in, void *codes)
{
    UCODE *c = codes;
    for (size_t b = first_block; b < first_block + n_blocks; b++, c += BLOCK) {
        uint64_t map;
        block_shape shape = block_shape_read(get_kind(in->kinds, b), in, &map);
        if (!NAME(unpack_block)(shape, map, identity, in, c))
            return false;
    }
    return true;
}

#undef CODE
#undef UCODE
#undef WIDTH
#undef NAME
