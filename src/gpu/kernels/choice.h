/*
 * The predictor of a chunk, from a sample of its codes, as src/codec/choice.c chooses it for level fast; and the linear fit of
 * src/codec/linear.c. The fit is computed in integers: quotients are rounded once, half to even, which is what the doubles of
 * the library come to (their errors are far smaller than the distance of such a quotient from a half).
 */
#ifndef COMET_GPU_CHOICE_H
#define COMET_GPU_CHOICE_H

#define RUNS 10 /* of a block each */
#define LINEAR_TRIES 6
#define OCTETS (RUNS * BLOCK_ELEMENTS / 8)

FUNCTION u32 sample_runs(u32 n)
{
    return n / BLOCK_ELEMENTS < RUNS ? n / BLOCK_ELEMENTS : RUNS;
}

/* The first element of run k. */
FUNCTION u32 run_begin(u32 n, u32 n_runs, u32 k)
{
    u32 part = n / n_runs;
    return k * part + (u32)((u64)(k + 1) * 0x9E3779B97F4A7C15UL >> 33) % (part - (BLOCK_ELEMENTS - 1));
}

/* What eight elements of a run give, by predictor: the largest residual and the number of others than 0. */
typedef struct octet_figures {
    u32 max[4], n_nonzero[4], signs;
} octet_figures;

FUNCTION void octet_of(SHARED const code_word *codes, u32 first, u32 left, u32 up, SHARED octet_figures *out)
{
    u32 here[8], west[8], north[8], corner[8], max[4] = {0, 0, 0, 0}, n_nonzero[4] = {0, 0, 0, 0}, signs = 0;
    codes_before(codes, first, 0, 8, here);
    codes_before(codes, first, left, 8, west);
    codes_before(codes, first, up, 8, north);
    codes_before(codes, first, up + left, 8, corner);
    for (u32 e = 0; e < 8; e++) {
        u32 z[4] = {zigzag(here[e]), zigzag(here[e] - west[e]), zigzag(here[e] - north[e]),
                    zigzag(here[e] - west[e] - north[e] + corner[e])};
        for (u32 predictor = 0; predictor < 4; predictor++) {
            max[predictor] = z[predictor] > max[predictor] ? z[predictor] : max[predictor];
            n_nonzero[predictor] += z[predictor] != 0;
        }
        signs |= z[0] & 1u;
    }
    for (u32 predictor = 0; predictor < 4; predictor++) {
        out->max[predictor] = max[predictor];
        out->n_nonzero[predictor] = n_nonzero[predictor];
    }
    out->signs = signs;
}

/* The bits of one run under one predictor; without signs the codes themselves are packed. */
FUNCTION u32 cost_of_run(SHARED const octet_figures *octets, u32 predictor, u32 without_signs)
{
    u32 max = 0, n_nonzero = 0;
    for (u32 j = 0; j < 8; j++) {
        max = octets[j].max[predictor] > max ? octets[j].max[predictor] : max;
        n_nonzero += octets[j].n_nonzero[predictor];
    }
    return cost_of_block(predictor == PREDICTOR_NONE && without_signs ? max >> 1 : max, n_nonzero);
}

/* ---- the linear fit ---- */

typedef struct plane {
    i32 a, b, c;
} plane;

typedef struct tile {
    u32 first, rows, columns, line, step;
} tile;

/* numerator / denominator, half to even, within +-limit. */
FUNCTION i32 rounded_quotient(i64 numerator, i64 denominator, i64 limit)
{
    u64 n = (u64)(numerator < 0 ? -numerator : numerator), d = (u64)denominator, q = n / d, twice = n % d * 2;
    q += twice > d || (twice == d && q & 1u);
    q = q > (u64)limit ? (u64)limit : q;
    return (i32)(numerator < 0 ? -(i64)q : (i64)q);
}

FUNCTION plane fit_plane(SHARED const code_word *codes, const tile *t)
{
    i64 sum = 0, sum_x = 0, sum_y = 0, xx = 0, yy = 0; /* distances from the middle count twice */
    for (u32 y = 0; y < t->rows; y++)
        for (u32 x = 0; x < t->columns; x++) {
            u32 i = t->first + y * t->line + x * t->step;
            i64 v = SIGNED_CODE(codes[CODE_AT(i)]), dx = 2 * (i64)x - (t->columns - 1), dy = 2 * (i64)y - (t->rows - 1);
            sum += v;
            sum_x += dx * v;
            sum_y += dy * v;
            xx += dx * dx;
            yy += dy * dy;
        }
    plane p;
    i64 n = (i64)t->rows * t->columns;
    p.b = xx > 0 ? rounded_quotient(512 * sum_x, xx, 32767) : 0;
    p.c = yy > 0 ? rounded_quotient(512 * sum_y, yy, 32767) : 0;
    i64 middle = (i64)p.b * (t->columns - 1) + (i64)p.c * (t->rows - 1);
    p.a = rounded_quotient(512 * sum - n * middle, 2 * n, 2147483647);
    return p;
}

/* The tile of a run, and whether it lies in the chunk as a whole. */
FUNCTION u32 tile_of_run(const gpu_job *job, u32 n, u32 first, tile *t)
{
    u32 column = first % job->line / job->channels;
    t->first = first;
    t->rows = t->columns = 16;
    t->line = job->line;
    t->step = job->channels;
    return job->columns - column >= 16 && first + 15 * ((u64)job->line + job->channels) < n;
}

/* Zigzag of a difference that may take 33 bits. */
FUNCTION u32 zigzag_wide(i64 r)
{
    return (u32)((u64)r << 1 ^ (u64)(r >> 63));
}

/* The bits that a tile's residuals take. */
FUNCTION u32 cost_of_tile(SHARED const code_word *codes, const tile *t)
{
    plane p = fit_plane(codes, t);
    u32 bits = 0;
    for (u32 block = 0; block < 4; block++) {
        u32 max = 0, n_nonzero = 0;
        for (u32 j = 0; j < BLOCK_ELEMENTS; j++) {
            u32 y = 4 * block + j / 16, x = j % 16, i = t->first + y * t->line + x * t->step;
            u32 z = zigzag_wide((i64)SIGNED_CODE(codes[CODE_AT(i)]) - plane_at(p.a, p.b, p.c, x, y));
            max = z > max ? z : max;
            n_nonzero += z != 0;
        }
        bits += cost_of_block(max, n_nonzero);
    }
    return bits;
}

/* The k-th tile, cut at the chunk's edges. */
FUNCTION void tile_number(const gpu_job *job, u32 n, u32 k, tile *t)
{
    u32 channel = k % job->channels, across = k / job->channels % planes_across(job->columns);
    u32 x = across * 16, y = k / job->channels / planes_across(job->columns) * 16;
    t->line = job->line;
    t->step = job->channels;
    t->first = y * job->line + x * t->step + channel;
    t->columns = job->columns - x < 16 ? job->columns - x : 16;
    u32 last = t->first + (t->columns - 1) * t->step;
    t->rows = last < n ? (n - 1 - last) / t->line + 1 : 0;
    t->rows = t->rows < 16 ? t->rows : 16;
}

/* The largest magnitude of the tile's codes less the plane, at most `limit` of it asked for: is it within the limit? */
FUNCTION u32 plane_fits(SHARED const code_word *codes, const tile *t, const plane *p, i64 limit)
{
    for (u32 y = 0; y < t->rows; y++)
        for (u32 x = 0; x < t->columns; x++) {
            i64 v = SIGNED_CODE(codes[CODE_AT(t->first + y * t->line + x * t->step)]);
            v -= plane_at(p->a, p->b, p->c, x, y);
            if (v > limit || v < -limit)
                return 0;
        }
    return 1;
}

FUNCTION void subtract_plane(SHARED code_word *codes, const tile *t, const plane *p)
{
    for (u32 y = 0; y < t->rows; y++)
        for (u32 x = 0; x < t->columns; x++) {
            u32 at = CODE_AT(t->first + y * t->line + x * t->step);
            codes[at] = (code_word)(codes[at] - (u32)plane_at(p->a, p->b, p->c, x, y));
        }
}

#endif
