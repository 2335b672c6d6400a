/*
 * Planes of PREDICT_LINEAR for one type of codes, in plain C. Included by generic.h with these defined:
 *
 *   CODE, UCODE, LIMIT  the integer type of codes, the same unsigned, and the largest magnitude
 *   NAME(stem)          stem with a suffix
 */

static inline void NAME(linear_sums)(const linear_grid *g, const void *codes, size_t n, linear_sums *sums)
{
    const CODE *c = codes;
    for (size_t k = 0; k < n; k++) {
        linear_sums s = {0, 0, 0};
        for (size_t y = 0; y < g->rows; y++)
            for (size_t x = 0; x < g->columns; x++) {
                const int64_t v = c[k + y * g->line + x * g->step];
                s.codes += v;
                s.by_column += (int64_t)x * v;
                s.by_row += (int64_t)y * v;
            }
        sums[k] = s;
    }
}

static inline int64_t NAME(plane_at)(const linear_plane *p, size_t x, size_t y)
{
    return (p->a + (int64_t)p->b * (int64_t)x + (int64_t)p->c * (int64_t)y + 128) >> 8;
}

static inline bool NAME(linear_subtract)(const linear_grid *g, const linear_plane *planes, size_t n, void *codes)
{
    CODE *c = codes;
    int64_t most = 0;
    for (size_t k = 0; k < n; k++)
        for (size_t y = 0; y < g->rows; y++)
            for (size_t x = 0; x < g->columns; x++) {
                CODE *at = &c[k + y * g->line + x * g->step];
                const int64_t left = *at - NAME(plane_at)(&planes[k], x, y), magnitude = left < 0 ? -left : left;
                most = magnitude > most ? magnitude : most;
                *at = (CODE)(UCODE)left;
            }
    return most <= LIMIT;
}

static inline void NAME(linear_add)(const linear_grid *g, const linear_plane *planes, size_t n, void *codes)
{
    CODE *c = codes;
    for (size_t k = 0; k < n; k++)
        for (size_t y = 0; y < g->rows; y++)
            for (size_t x = 0; x < g->columns; x++) {
                CODE *at = &c[k + y * g->line + x * g->step];
                *at = (CODE)(UCODE)((UCODE)*at + (UCODE)NAME(plane_at)(&planes[k], x, y));
            }
}

#undef CODE
#undef UCODE
#undef LIMIT
#undef NAME
