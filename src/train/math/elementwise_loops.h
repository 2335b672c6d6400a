/*
 * The loops of elementwise.c, for one type of element and one instruction set; included by element_variants.h. Each element is
 * read before its place is written, so that results may lie where operands do.
 */
/* No include guard: see above. */

#define RUNS __attribute__((LOOP_TARGET noinline)) static

/* ---- dropout ---- */

/* Kept where a 32-bit number is at least p 2^32. One block of random numbers serves four positions, of which the first and the
 * last few may belong to other ranks. */
RUNS void LOOP(dropout_elements)(void *arg, size_t begin, size_t end)
{
    const dropout_work *w = arg;
    const dropout_spec *s = w->spec;
    const ELEMENT *x = w->x;
    ELEMENT *y = w->y;
    const uint32_t threshold = (uint32_t)((double)s->p * 4294967296.0);
    const float scale = 1 / (1 - s->p);
    const uint64_t part = s->step << 16 | s->layer;
    for (uint64_t block = w->first / 4 + begin; block < w->first / 4 + end; block++) {
        const uint64_t from = max_u64(4 * block, w->first), to = min_u64(4 * block + 4, w->first + s->n);
        uint32_t r[4];
        comet_random_block(s->seed, COMET_STREAM_DROPOUT, part, block, r);
        for (uint64_t k = from; k < to; k++)
            y[k - w->first] = r[k % 4] >= threshold ? LOOP(put)(LOOP(get)(x[k - w->first]) * scale) : 0;
    }
}

/* y = x factor */
INLINE void LOOP(scale)(uint64_t n, const ELEMENT *x, float factor, ELEMENT *y)
{
    const LOOP(vec) zero = {0}, factors = zero + factor;
    uint64_t i = 0;
    for (; i + LOOP_LANES <= n; i += LOOP_LANES)
        LOOP(save)(LOOP(load)(x + i) * factors, y + i);
    for (; i < n; i++)
        y[i] = LOOP(put)(LOOP(get)(x[i]) * factor);
}

RUNS void LOOP(dropout_rows)(void *arg, size_t begin, size_t end)
{
    const dropout_work *w = arg;
    const dropout_spec *s = w->spec;
    const uint32_t threshold = (uint32_t)((double)s->p * 4294967296.0);
    const uint64_t n = s->n / s->rows, part = s->step << 16 | s->layer;
    for (uint64_t row = begin; row < end; row++) {
        uint32_t r[4];
        comet_random_block(s->seed, COMET_STREAM_DROPOUT, part, s->first_row + row, r);
        if (r[0] >= threshold)
            LOOP(scale)(n, (const ELEMENT *)w->x + row * n, 1 / (1 - s->p), (ELEMENT *)w->y + row * n);
        else
            memset((ELEMENT *)w->y + row * n, 0, n * sizeof(ELEMENT));
    }
}

/* ---- products ---- */

/* y = a b over rows of `columns`; b has one row, or, if `steps`, as many as a. */
INLINE void LOOP(products)(const ELEMENT *a, const ELEMENT *b, bool steps, ELEMENT *y, uint64_t rows, uint64_t columns)
{
    for (uint64_t i = 0; i < rows; i++, a += columns, y += columns, b += steps ? columns : 0) {
        uint64_t c = 0;
        for (; c + LOOP_LANES <= columns; c += LOOP_LANES)
            LOOP(save)(LOOP(load)(a + c) * LOOP(load)(b + c), y + c);
        for (; c < columns; c++)
            y[c] = LOOP(put)(LOOP(get)(a[c]) * LOOP(get)(b[c]));
    }
}

INLINE void LOOP(spread_products)(const ELEMENT *a, const ELEMENT *b, ELEMENT *y, uint64_t plane, uint64_t columns)
{
    if (columns == 1)
        LOOP(scale)(plane, a, LOOP(get)(*b), y);
    else
        LOOP(products)(a, b, false, y, plane, columns);
}

RUNS void LOOP(spread_forward)(void *arg, size_t begin, size_t end)
{
    const multiply_work *w = arg;
    const uint64_t columns = group_columns(w->spec), plane = w->spec->plane;
    for (uint64_t g = begin; g < end; g++) {
        const uint64_t at = g * columns * plane;
        LOOP(spread_products)
        ((const ELEMENT *)w->a + at, (const ELEMENT *)w->b + g * columns, (ELEMENT *)w->y + at, plane, columns);
    }
}

/* db[c] = the sum over rows of dy a, in order and in float */
INLINE void LOOP(spread_sum)(ELEMENT *db, const ELEMENT *a, const ELEMENT *dy, uint64_t plane, uint64_t columns)
{
    uint64_t c = 0;
    for (; c + LOOP_LANES <= columns; c += LOOP_LANES) {
        LOOP(vec) sum = {0};
        for (uint64_t i = 0; i < plane; i++)
            sum += LOOP(load)(dy + i * columns + c) * LOOP(load)(a + i * columns + c);
        LOOP(save)(sum, db + c);
    }
    for (; c < columns; c++) {
        float sum = 0;
        for (uint64_t i = 0; i < plane; i++)
            sum += LOOP(get)(dy[i * columns + c]) * LOOP(get)(a[i * columns + c]);
        db[c] = LOOP(put)(sum);
    }
}

RUNS void LOOP(spread_backward)(void *arg, size_t begin, size_t end)
{
    const multiply_work *w = arg;
    const uint64_t columns = group_columns(w->spec), plane = w->spec->plane;
    for (uint64_t g = begin; g < end; g++) {
        const uint64_t at = g * columns * plane;
        const ELEMENT *dy = (const ELEMENT *)w->dy + at;
        if (w->db)
            LOOP(spread_sum)((ELEMENT *)w->db + g * columns, (const ELEMENT *)w->a + at, dy, plane, columns);
        if (w->da)
            LOOP(spread_products)(dy, (const ELEMENT *)w->b + g * columns, (ELEMENT *)w->da + at, plane, columns);
    }
}

RUNS void LOOP(flat_forward)(void *arg, size_t begin, size_t end)
{
    const multiply_work *w = arg;
    LOOP(products)((const ELEMENT *)w->a + begin, (const ELEMENT *)w->b + begin, true, (ELEMENT *)w->y + begin, 1, end - begin);
}

/* da may be dy, so db is first. */
RUNS void LOOP(flat_backward)(void *arg, size_t begin, size_t end)
{
    enum { PIECE = 1024 }; /* elements, which the first-level cache holds */
    const multiply_work *w = arg;
    const ELEMENT *dy = w->dy;
    for (uint64_t i = begin; i < end; i += PIECE) {
        const uint64_t n = min_u64(PIECE, end - i);
        if (w->db)
            LOOP(products)(dy + i, (const ELEMENT *)w->a + i, true, (ELEMENT *)w->db + i, 1, n);
        if (w->da)
            LOOP(products)(dy + i, (const ELEMENT *)w->b + i, true, (ELEMENT *)w->da + i, 1, n);
    }
}

/* ---- masks and sums ---- */

RUNS void LOOP(pass)(uint64_t n, const void *outputs, const void *gradients, void *results)
{
    const ELEMENT *y = outputs, *dy = gradients;
    ELEMENT *dx = results;
    const LOOP(vec) zero = {0};
    uint64_t i = 0;
    for (; i + LOOP_LANES <= n; i += LOOP_LANES)
        LOOP(save)(LOOP(where_greater)(LOOP(load)(y + i), zero, LOOP(load)(dy + i), zero), dx + i);
    for (; i < n; i++)
        dx[i] = LOOP(get)(y[i]) > 0 ? dy[i] : 0;
}

RUNS void LOOP(pass_set)(uint64_t n, const uint16_t *signs, const void *gradients, void *results)
{
    const ELEMENT *dy = gradients;
    ELEMENT *dx = results;
    uint64_t i = 0;
    for (; i + LOOP_LANES <= n; i += LOOP_LANES)
        LOOP(save)(LOOP(where_set)(signs[i / WIDE] >> i % WIDE, LOOP(load)(dy + i)), dx + i);
    for (; i < n; i++)
        dx[i] = signs[i / WIDE] >> i % WIDE & 1 ? dy[i] : 0;
}

RUNS void LOOP(sum)(uint64_t n, const void *first, const void *second, bool relu, void *results)
{
    const ELEMENT *a = first, *b = second;
    ELEMENT *y = results;
    const LOOP(vec) zero = {0};
    uint64_t i = 0;
    for (; i + LOOP_LANES <= n; i += LOOP_LANES) {
        const LOOP(vec) v = LOOP(load)(a + i) + LOOP(load)(b + i);
        LOOP(save)(relu ? LOOP(where_greater)(v, zero, v, zero) : v, y + i);
    }
    for (; i < n; i++) {
        const float v = LOOP(get)(a[i]) + LOOP(get)(b[i]);
        y[i] = LOOP(put)(relu && !(v > 0) ? 0 : v);
    }
}

RUNS void LOOP(signs)(uint64_t n, const void *array, uint16_t *signs)
{
    const ELEMENT *x = array;
    uint64_t i = 0;
    for (; i + WIDE <= n; i += WIDE) {
        unsigned word = 0;
        for (unsigned l = 0; l < WIDE; l += LOOP_LANES)
            word |= LOOP(positive)(LOOP(load)(x + i + l)) << l;
        signs[i / WIDE] = (uint16_t)word;
    }
    if (i == n)
        return;
    unsigned word = 0;
    for (unsigned l = 0; i + l < n; l++)
        word |= (unsigned)(LOOP(get)(x[i + l]) > 0) << l;
    signs[i / WIDE] = (uint16_t)word;
}

#undef RUNS
