/*
 * Quantise and dequantise for one element type and one code type. Included by quantise_widths.h with these defined:
 *
 *   ELEMENT, REAL     as stored, as computed in (float or double)
 *   LOAD(e) STORE(r)  between the two; STORE rounds to nearest even
 *   CODE, LIMIT       the integer type of codes and the largest magnitude
 *   FIELD(name)       the quantiser's field for REAL
 *   MATH(name)        the math library's function for REAL
 *   NAME(stem)        stem with a suffix
 *
 * Plain: code = round(x / step), value = step code, the step 2eb or with f32 somewhat less (quantiser.c). The inverse of the
 * step is rounded down, so |x| < step / 2 always gives code 0: with that, x - value is exact wherever it could decide
 * (Sterbenz), and comparing it with eb is comparing in real arithmetic.
 * Support: code = sign(x) ceil(|x| / step), value = (2 code -+ 1) step / 2: zero only for zero, with the sign of x.
 * Nonzero: code = floor(x / step), value = (2 code + 1) step / 2: the same values without zero, which fails.
 * Dither: code = round(x / 2eb + u), value = 2eb (code - u), u uniform in [-1/2, 1/2); accepted only below eb, because here
 * the difference may be rounded.
 */

static inline REAL NAME(value)(const quantiser *q, CODE code, uint32_t index, enum quantiser_mode mode)
{
    REAL c = (REAL)code;
    if (mode == QUANTISE_SUPPORT) {
        REAL odd = (REAL)(2 * (int64_t)code - (code > 0) + (code < 0));
        return odd * (q->FIELD(step) / 2);
    }
    if (mode == QUANTISE_NONZERO)
        return (REAL)(2 * (int64_t)code + 1) * (q->FIELD(step) / 2);
    if (mode == QUANTISE_DITHER)
        return (c - (REAL)dither(q->key, index)) * q->FIELD(step);
    return c * q->FIELD(step);
}

static inline CODE NAME(code)(const quantiser *q, REAL x, uint32_t index, enum quantiser_mode mode)
{
    const REAL limit = (REAL)LIMIT;
    if (mode == QUANTISE_SUPPORT) {
        REAL t = MATH(fabs)(x) * q->FIELD(inverse);
        t = MATH(ceil)(t < limit ? t : limit);
        int32_t magnitude = (int32_t)(t > 1 ? t : 1);
        return (CODE)(x > 0 ? magnitude : x < 0 ? -magnitude : 0);
    }
    REAL t = x * q->FIELD(inverse);
    if (mode == QUANTISE_DITHER)
        t += (REAL)dither(q->key, index);
    t = t > -limit ? t : -limit; /* NaN becomes -limit, and fails the check */
    t = t < limit ? t : limit;
    if (mode == QUANTISE_NONZERO) {
        int32_t code = (int32_t)MATH(floor)(t);
        return (CODE)(x < 0 && code == 0 ? -1 : code); /* t may be -0 */
    }
    return (CODE)(int32_t)MATH(rint)(t);
}

static inline uint64_t NAME(quantise_block)(const quantiser *q, const ELEMENT *x, uint32_t first, CODE *codes,
                                            REAL sums[SUM_LANES], REAL low[SUM_LANES], REAL high[SUM_LANES],
                                            uint64_t *n_nonzero, enum quantiser_mode mode)
{
    uint8_t bad[BLOCK];
    uint8_t any = 0;
    unsigned nonzero = 0;
    for (unsigned i = 0; i < BLOCK; i++) {
        REAL v = LOAD(x[i]);
        CODE code = NAME(code)(q, v, first + i, mode);
        REAL back = LOAD(STORE(NAME(value)(q, code, first + i, mode)));
        REAL error = MATH(fabs)(v - back);
        bool ok = mode == QUANTISE_DITHER ? error < q->FIELD(eb) : error <= q->FIELD(eb);
        if (mode == QUANTISE_SUPPORT || mode == QUANTISE_NONZERO)
            ok = ok && ((back > 0) == (v > 0)) && ((back < 0) == (v < 0));
        bad[i] = !ok;
        any |= bad[i];
        nonzero += v != 0;
        codes[i] = ok ? code : 0;
    }
    for (unsigned i = 0; i < BLOCK; i++) {
        REAL v = LOAD(x[i]);
        unsigned lane = i % SUM_LANES;
        sums[lane] = MATH(fma)(v, v, sums[lane]);
        low[lane] = v < low[lane] ? v : low[lane];
        high[lane] = v > high[lane] ? v : high[lane];
    }
    *n_nonzero += nonzero;
    uint64_t failed = 0;
    for (unsigned i = 0; any && i < BLOCK; i++)
        failed |= (uint64_t)bad[i] << i;
    return failed;
}

static inline void NAME(add_sums)(const REAL sums[SUM_LANES], moments *m)
{
    for (int i = 0; i < SUM_LANES; i++)
        m->sum_of_squares[i] += (double)sums[i];
}

/* The last elements of a tile, fewer than a block, filled up with zeros. Summed up on their own, so that whole blocks may be
 * done elsewhere. Zeros add nothing to sums but would count as minimum or maximum. */
static inline void NAME(quantise_tail)(const quantiser *q, const ELEMENT *x, size_t n, uint32_t first, CODE *codes,
                                       uint64_t *failed, moments *m, enum quantiser_mode mode)
{
    ELEMENT tail[BLOCK] = {0};
    memcpy(tail, x, n * sizeof *tail);
    REAL sums[SUM_LANES] = {0}, unused_low[SUM_LANES] = {0}, unused_high[SUM_LANES] = {0};
    uint64_t mask = NAME(quantise_block)(q, tail, first, codes, sums, unused_low, unused_high, &m->n_nonzero, mode);
    *failed = mask & ((UINT64_C(1) << n) - 1);
    for (size_t i = n; i < BLOCK; i++)
        codes[i] = 0;
    for (size_t i = 0; i < n; i++) {
        double v = (double)LOAD(tail[i]);
        m->min = v < m->min ? v : m->min;
        m->max = v > m->max ? v : m->max;
    }
    NAME(add_sums)(sums, m);
}

static inline void NAME(quantise_mode)(const quantiser *q, const ELEMENT *x, size_t n, uint32_t first, CODE *codes,
                                       uint64_t *failed, moments *m, enum quantiser_mode mode)
{
    REAL sums[SUM_LANES] = {0}, low[SUM_LANES], high[SUM_LANES];
    for (int i = 0; i < SUM_LANES; i++)
        low[i] = (REAL)m->min, high[i] = (REAL)m->max;
    size_t whole = n / BLOCK * BLOCK;
    for (size_t i = 0; i < whole; i += BLOCK)
        failed[i / BLOCK] =
            NAME(quantise_block)(q, x + i, first + (uint32_t)i, codes + i, sums, low, high, &m->n_nonzero, mode);
    NAME(add_sums)(sums, m);
    for (int i = 0; i < SUM_LANES; i++) {
        m->min = (double)low[i] < m->min ? (double)low[i] : m->min;
        m->max = (double)high[i] > m->max ? (double)high[i] : m->max;
    }
    if (whole < n)
        NAME(quantise_tail)(q, x + whole, n - whole, first + (uint32_t)whole, codes + whole, failed + whole / BLOCK, m, mode);
}

static inline void NAME(quantise)(const quantiser *q, const void *x, size_t n, uint32_t first, void *codes, uint64_t *failed,
                                  moments *m)
{
    switch (q->mode) {
    case QUANTISE_PLAIN: NAME(quantise_mode)(q, x, n, first, codes, failed, m, QUANTISE_PLAIN); break;
    case QUANTISE_SUPPORT: NAME(quantise_mode)(q, x, n, first, codes, failed, m, QUANTISE_SUPPORT); break;
    case QUANTISE_NONZERO: NAME(quantise_mode)(q, x, n, first, codes, failed, m, QUANTISE_NONZERO); break;
    case QUANTISE_DITHER: NAME(quantise_mode)(q, x, n, first, codes, failed, m, QUANTISE_DITHER); break;
    }
}

static inline void NAME(dequantise_mode)(const quantiser *q, const CODE *codes, size_t n, uint32_t first, ELEMENT *x,
                                         enum quantiser_mode mode)
{
    for (size_t i = 0; i < n; i++)
        x[i] = STORE(NAME(value)(q, codes[i], first + (uint32_t)i, mode));
}

static inline void NAME(dequantise)(const quantiser *q, const void *codes, size_t n, uint32_t first, void *x, bool stream)
{
    (void)stream;
    switch (q->mode) {
    case QUANTISE_PLAIN: NAME(dequantise_mode)(q, codes, n, first, x, QUANTISE_PLAIN); break;
    case QUANTISE_SUPPORT: NAME(dequantise_mode)(q, codes, n, first, x, QUANTISE_SUPPORT); break;
    case QUANTISE_NONZERO: NAME(dequantise_mode)(q, codes, n, first, x, QUANTISE_NONZERO); break;
    case QUANTISE_DITHER: NAME(dequantise_mode)(q, codes, n, first, x, QUANTISE_DITHER); break;
    }
}

#undef CODE
#undef LIMIT
#undef NAME
