/*
 * Prediction and bit-plane packing for one code width. Included with CODE (signed), UCODE (unsigned), WIDTH (bits) and
 * NAME(stem) defined.
 *
 * Arithmetic is modulo 2^WIDTH, so prediction is undone exactly whatever the codes are.
 *
 * A block of 64 residuals z is one of
 *   empty    all zero
 *   bitmap   a 64-bit map of the non-zeros, then w planes of (z - 1) with one bit for each non-zero
 *   plain    w planes of z with 64 bits each
 * whichever is shortest (bitmap only up to 56 non-zeros), planes from the least significant up. Maps and planes of 64 bits go
 * to the words, other planes to the bits. The 4-bit kind is 0; 1 to 6 for bitmap with w = kind; 7 to 14 for plain with w = kind
 * - 6; 15 for anything else, with 8 bits in front: w, plus 128 for bitmap.
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
static inline void NAME(add_behind)(UCODE *c, size_t n, size_t distance)
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
    case PREDICT_LEFT: NAME(add_behind)(codes, n, s.left); break;
    case PREDICT_UP: NAME(add_behind)(codes, n, s.up); break;
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
        if (max)
            bits += block_shape_of(max, nonzero).bits;
    }
    return bits;
}

static inline void NAME(pack_block)(const UCODE *z, block_shape shape, plane_writer *out)
{
    UCODE base = shape.bitmap ? 1 : 0;
    if (shape.bitmap) {
        uint64_t map = 0;
        for (unsigned i = 0; i < BLOCK; i++)
            map |= (uint64_t)(z[i] != 0) << i;
        word_write(out, map);
    }
    for (unsigned p = 0; p < shape.width; p++) {
        uint64_t plane = 0;
        unsigned count = 0;
        for (unsigned i = 0; i < BLOCK; i++) {
            bool present = !shape.bitmap || z[i] != 0;
            plane |= (uint64_t)(present && ((UCODE)(z[i] - base) >> p & 1)) << (count & 63);
            count += present;
        }
        if (shape.bitmap)
            bit_write(&out->bits, plane, count);
        else
            word_write(out, plane);
    }
}

static inline void NAME(pack)(const void *residuals, size_t n_blocks, size_t first_block, uint8_t *kinds, plane_writer *out)
{
    const UCODE *z = residuals;
    for (size_t b = first_block; b < first_block + n_blocks; b++, z += BLOCK) {
        unsigned nonzero;
        UCODE max = NAME(block_max)(z, &nonzero);
        block_shape shape = block_shape_of(max, nonzero);
        set_kind(kinds, b, block_kind(shape, &out->bits));
        if (max)
            NAME(pack_block)(z, shape, out);
    }
}

static inline bool NAME(unpack_block)(block_shape shape, bool identity, plane_reader *in, UCODE *c)
{
    UCODE z[BLOCK] = {0};
    uint64_t map = shape.bitmap ? word_read(in) : ~UINT64_C(0);
    unsigned count = (unsigned)__builtin_popcountll(map);
    if (shape.bitmap && count > BITMAP_MOST)
        return false;
    for (unsigned p = 0; p < shape.width && plane_reader_ok(in); p++) {
        uint64_t plane = shape.bitmap ? bit_read(&in->bits, count) : word_read(in);
        for (unsigned i = 0; i < BLOCK; i++) {
            bool present = map >> i & 1;
            z[i] = (UCODE)(z[i] | (UCODE)((UCODE)(present & plane) << p));
            plane >>= present;
        }
    }
    for (unsigned i = 0; i < BLOCK; i++) {
        UCODE v = (UCODE)(z[i] + (shape.bitmap && (map >> i & 1)));
        c[i] = identity ? v : NAME(unzigzag)(v);
    }
    return plane_reader_ok(in);
}

static inline bool NAME(unpack)(const uint8_t *kinds, size_t first_block, size_t n_blocks, bool identity, plane_reader *in,
                                void *codes)
{
    UCODE *c = codes;
    for (size_t b = first_block; b < first_block + n_blocks; b++, c += BLOCK) {
        block_shape shape;
        if (!block_shape_read(get_kind(kinds, b), &in->bits, WIDTH, &shape) || !NAME(unpack_block)(shape, identity, in, c))
            return false;
    }
    return true;
}

#undef CODE
#undef UCODE
#undef WIDTH
#undef NAME
