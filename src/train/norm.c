#include "train/norm.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/bytes.h"

enum { WIDE = 16, RUN = 64 }; /* lanes of the usual case; rows summed in float */

norm_shape norm_shape_of(const layout *l, bool relu)
{
    uint64_t dims[5] = {0, 0, 1, 1}, block = 1;
    const uint32_t n_dims = layout_dims(l, dims);
    const layout_order order = layout_describe(l, &block);
    const uint64_t plane = n_dims == 4 ? dims[2] * dims[3] : 1;
    norm_shape s = {.n_elements = layout_bytes(l) / sizeof(float), .channels = dims[1], .relu = relu};
    if (order == ORDER_CHANNELS_LAST || n_dims == 2) {
        s.period = dims[1];
        s.rows = dims[0] * plane;
        s.n_groups = 1;
    } else {
        s.period = order == ORDER_BLOCKED ? block : 1;
        s.rows = plane;
        s.n_groups = (dims[1] + s.period - 1) / s.period;
    }
    s.width = WIDE % s.period == 0 ? WIDE : s.period;
    return s;
}

void norm_spread(const norm_shape *s, const float *by_channel, float *lanes)
{
    for (uint64_t g = 0; g < s->n_groups; g++)
        for (uint64_t l = 0; l < s->width; l++) {
            const uint64_t channel = g * s->period + l % s->period;
            lanes[g * s->width + l] = channel < s->channels ? by_channel[channel] : 0;
        }
}

uint64_t norm_segments(const norm_shape *s, uint64_t n)
{
    return n / (s->rows * s->period) + 2;
}

void norm_fold(const norm_shape *s, uint64_t first, uint64_t n, const double *segments, double *sum, double *other)
{
    const uint64_t group = s->rows * s->period;
    for (uint64_t i = first; i < first + n; segments += 2 * s->width) {
        const uint64_t g = i / group % s->n_groups;
        for (uint64_t l = 0; l < s->width; l++) {
            const uint64_t channel = g * s->period + l % s->period;
            if (channel < s->channels) {
                sum[channel] += segments[l];
                other[channel] += segments[s->width + l];
            }
        }
        i = (i / group + 1) * group;
    }
}

void norm_code(float gamma, float beta, float floor, float *code_gamma, float *code_beta)
{
    const float least = fmaxf(floor, FLT_MIN), far = 8;
    *code_gamma = gamma;
    *code_beta = beta;
    if (fabsf(gamma) >= least || !isfinite(gamma))
        return;
    *code_gamma = gamma < 0 ? -least : least;
    const float threshold = gamma == 0 ? (beta > 0 ? far : -far) : beta / fabsf(gamma);
    *code_beta = least * fmaxf(-far, fminf(far, threshold));
}

/* ---- the loops, for 16 lanes or any number of them; the same code for each instruction set ---- */

#define INLINE static inline __attribute__((always_inline))

/* One of the jobs below, with everything any of them needs. */
typedef struct job {
    const norm_shape *s;
    const float *in, *dy;
    float *out, *w;
    uint64_t first, n;
    const float *shift;
    const norm_apply_coefficients *apply;
    const norm_stored_coefficients *stored;
    const norm_gradient_coefficients *gradient;
    double *segments;
} job;

typedef enum kind { MOMENTS, APPLY, OUTPUT, SUMS, GRADIENT } kind;

/* ---- one element, for tails and rows of odd periods ---- */

INLINE float relu_or(bool relu, float a)
{
    return relu && a < 0 ? 0 : a; /* NaN goes on */
}

/* Signs as the relu saw them. */
INLINE float with_sign_of(float w, float a)
{
    const float positive = w > FLT_MIN ? w : FLT_MIN, other = w > 0 ? 0 : w;
    return a > 0 ? positive : other;
}

INLINE void apply_one(const job *j, bool relu, bool codes, uint64_t i, uint64_t l)
{
    const norm_apply_coefficients *c = j->apply;
    const float d = j->in[i] - c->mean[l], a = d * c->scale[l] + c->shift[l];
    if (codes) {
        const float w = d * c->code_scale[l] + c->code_shift[l];
        j->w[i] = relu ? with_sign_of(w, a) : w;
    }
    j->out[i] = relu_or(relu, a);
}

INLINE bool passed(const norm_stored_coefficients *c, bool relu, float v, uint64_t l)
{
    return !relu || (v - c->mask_from[l]) * c->mask_scale[l] + c->mask_shift[l] > 0;
}

INLINE void output_one(const job *j, bool relu, uint64_t i, uint64_t l)
{
    const norm_stored_coefficients *c = j->stored;
    const float v = j->in[i], a = (v - c->out_from[l]) * c->out_scale[l] + c->out_shift[l];
    j->out[i] = passed(c, relu, v, l) ? relu_or(relu, a) : 0;
}

INLINE void gradient_one(const job *j, bool relu, uint64_t i, uint64_t l)
{
    const norm_stored_coefficients *c = j->stored;
    const norm_gradient_coefficients *g = j->gradient;
    const float v = j->in[i], d = passed(c, relu, v, l) ? j->dy[i] : 0;
    j->out[i] = d * g->gain[l] + ((v - c->from[l]) * g->slope[l] + g->offset[l]);
}

/* What an element adds to the two sums. */
typedef struct pair {
    float sum, other;
} pair;

INLINE pair terms_of(const job *j, kind what, bool relu, uint64_t i, uint64_t l)
{
    if (what == MOMENTS) {
        const float d = j->in[i] - j->shift[l];
        return (pair){d, d * d};
    }
    const norm_stored_coefficients *c = j->stored;
    const float v = j->in[i], d = passed(c, relu, v, l) ? j->dy[i] : 0;
    return (pair){d, d * ((v - c->from[l]) * c->scale[l])};
}

INLINE void one(const job *j, kind what, bool relu, bool codes, uint64_t i, uint64_t l)
{
    if (what == APPLY)
        apply_one(j, relu, codes, i, l);
    else if (what == OUTPUT)
        output_one(j, relu, i, l);
    else
        gradient_one(j, relu, i, l);
}

/* ---- sixteen at a time, with the same roundings ---- */

typedef float vec __attribute__((vector_size(4 * WIDE)));
typedef int32_t mask __attribute__((vector_size(4 * WIDE)));

#define LOAD(name, from) \
    vec name;            \
    memcpy(&name, (from), sizeof name)
#define WHERE(condition, yes, no) ((vec)(((mask)(yes) & (condition)) | ((mask)(no) & ~(condition))))
#define PASSED(v) (((v)-mask_from) * mask_scale + mask_shift > 0)

INLINE void apply_wide(const job *j, bool relu, bool codes, uint64_t at, uint64_t n, uint64_t lane)
{
    const norm_apply_coefficients *c = j->apply;
    const vec zero = {0}, tiny = zero + FLT_MIN;
    LOAD(mean, c->mean + lane);
    LOAD(scale, c->scale + lane);
    LOAD(shift, c->shift + lane);
    LOAD(code_scale, codes ? c->code_scale + lane : c->scale + lane);
    LOAD(code_shift, codes ? c->code_shift + lane : c->shift + lane);
    for (uint64_t i = at; i < at + n; i += WIDE) {
        LOAD(z, j->in + i);
        const vec d = z - mean, a = d * scale + shift;
        if (codes) {
            vec w = d * code_scale + code_shift;
            if (relu)
                w = WHERE(a > zero, WHERE(w > tiny, w, tiny), WHERE(w > zero, zero, w));
            memcpy(j->w + i, &w, sizeof w);
        }
        const vec y = relu ? WHERE(a < zero, zero, a) : a;
        memcpy(j->out + i, &y, sizeof y);
    }
}

INLINE void output_wide(const job *j, bool relu, uint64_t at, uint64_t n, uint64_t lane)
{
    const norm_stored_coefficients *c = j->stored;
    const vec zero = {0};
    LOAD(mask_from, c->mask_from + lane);
    LOAD(mask_scale, c->mask_scale + lane);
    LOAD(mask_shift, c->mask_shift + lane);
    LOAD(from, c->out_from + lane);
    LOAD(scale, c->out_scale + lane);
    LOAD(shift, c->out_shift + lane);
    for (uint64_t i = at; i < at + n; i += WIDE) {
        LOAD(v, j->in + i);
        vec y = (v - from) * scale + shift;
        if (relu)
            y = WHERE(PASSED(v) & ~(y < zero), y, zero);
        memcpy(j->out + i, &y, sizeof y);
    }
}

INLINE void gradient_wide(const job *j, bool relu, uint64_t at, uint64_t n, uint64_t lane)
{
    const norm_stored_coefficients *c = j->stored;
    const vec zero = {0};
    LOAD(mask_from, c->mask_from + lane);
    LOAD(mask_scale, c->mask_scale + lane);
    LOAD(mask_shift, c->mask_shift + lane);
    LOAD(from, c->from + lane);
    LOAD(gain, j->gradient->gain + lane);
    LOAD(slope, j->gradient->slope + lane);
    LOAD(offset, j->gradient->offset + lane);
    for (uint64_t i = at; i < at + n; i += WIDE) {
        LOAD(v, j->in + i);
        LOAD(d, j->dy + i);
        if (relu)
            d = WHERE(PASSED(v), d, zero);
        const vec dx = d * gain + ((v - from) * slope + offset);
        memcpy(j->out + i, &dx, sizeof dx);
    }
}

INLINE void sums_wide(const job *j, kind what, bool relu, uint64_t at, uint64_t n, uint64_t lane, vec *sum, vec *other)
{
    const norm_stored_coefficients *c = j->stored;
    const vec zero = {0};
    vec a = zero, b = zero;
    if (what == MOMENTS) {
        LOAD(shift, j->shift + lane);
        for (uint64_t i = at; i < at + n; i += WIDE) {
            LOAD(z, j->in + i);
            const vec d = z - shift;
            a += d;
            b += d * d;
        }
    } else {
        LOAD(mask_from, c->mask_from + lane);
        LOAD(mask_scale, c->mask_scale + lane);
        LOAD(mask_shift, c->mask_shift + lane);
        LOAD(from, c->from + lane);
        LOAD(scale, c->scale + lane);
        for (uint64_t i = at; i < at + n; i += WIDE) {
            LOAD(v, j->in + i);
            LOAD(d, j->dy + i);
            if (relu)
                d = WHERE(PASSED(v), d, zero);
            a += d;
            b += d * ((v - from) * scale);
        }
    }
    *sum = a;
    *other = b;
}

/* Runs of RUN rows in float, runs in double. */
INLINE void sums_span(const job *j, kind what, bool relu, uint64_t at, uint64_t n, uint64_t lane, double *segment)
{
    const uint64_t whole = n / WIDE * WIDE;
    for (uint64_t i = 0; i < whole; i += RUN * WIDE) {
        vec sum, other;
        sums_wide(j, what, relu, at + i, min_u64(RUN * WIDE, whole - i), lane, &sum, &other);
        for (int l = 0; l < WIDE; l++) {
            segment[l] += (double)sum[l];
            segment[WIDE + l] += (double)other[l];
        }
    }
    for (uint64_t l = 0; whole + l < n; l++) {
        const pair t = terms_of(j, what, relu, at + whole + l, lane + l);
        segment[l] += (double)t.sum;
        segment[WIDE + l] += (double)t.other;
    }
}

/* Elements [at, at + n) of the job, all in one group, 16 lanes from `lane` on. */
INLINE void wide_span(const job *j, kind what, bool relu, bool codes, uint64_t at, uint64_t n, uint64_t lane, double *segment)
{
    const uint64_t whole = n / WIDE * WIDE;
    if (what == MOMENTS || what == SUMS) {
        sums_span(j, what, relu, at, n, lane, segment);
        return;
    }
    if (what == APPLY)
        apply_wide(j, relu, codes, at, whole, lane);
    else if (what == OUTPUT)
        output_wide(j, relu, at, whole, lane);
    else
        gradient_wide(j, relu, at, whole, lane);
    for (uint64_t l = 0; whole + l < n; l++)
        one(j, what, relu, codes, at + whole + l, lane + l);
}

/* Rows of any period, one after another. */
INLINE void long_span(const job *j, kind what, bool relu, bool codes, uint64_t at, uint64_t n, uint64_t lane, double *segment)
{
    const uint64_t width = j->s->width;
    for (uint64_t i = at; i < at + n; i += width)
        for (uint64_t l = 0; l < width; l++) {
            if (what == MOMENTS || what == SUMS) {
                const pair t = terms_of(j, what, relu, i + l, lane + l);
                segment[l] += (double)t.sum;
                segment[width + l] += (double)t.other;
            } else {
                one(j, what, relu, codes, i + l, lane + l);
            }
        }
}

/* Group by group. Pointers of the job are to its first element. */
INLINE void run_groups(const job *j, kind what, bool relu, bool codes)
{
    const norm_shape *s = j->s;
    const uint64_t group = s->rows * s->period, end = j->first + j->n;
    double *segment = j->segments;
    for (uint64_t i = j->first; i < end;) {
        const uint64_t g = i / group, next = min_u64(end, (g + 1) * group), lane = g % s->n_groups * s->width;
        if (segment)
            memset(segment, 0, 2 * s->width * sizeof *segment);
        if (s->width == WIDE)
            wide_span(j, what, relu, codes, i - j->first, next - i, lane, segment);
        else
            long_span(j, what, relu, codes, i - j->first, next - i, lane, segment);
        segment = segment ? segment + 2 * s->width : NULL;
        i = next;
    }
}

INLINE void run_any(const job *j, kind what)
{
    const bool relu = j->s->relu, codes = j->w != NULL;
    switch (what) {
    case MOMENTS: run_groups(j, MOMENTS, false, false); break;
    case APPLY:
        if (relu && codes)
            run_groups(j, APPLY, true, true);
        else if (relu)
            run_groups(j, APPLY, true, false);
        else if (codes)
            run_groups(j, APPLY, false, true);
        else
            run_groups(j, APPLY, false, false);
        break;
    case OUTPUT: relu ? run_groups(j, OUTPUT, true, false) : run_groups(j, OUTPUT, false, false); break;
    case SUMS: relu ? run_groups(j, SUMS, true, false) : run_groups(j, SUMS, false, false); break;
    case GRADIENT: relu ? run_groups(j, GRADIENT, true, false) : run_groups(j, GRADIENT, false, false); break;
    }
}

static void run_reference(const job *j, kind what)
{
    run_any(j, what);
}

#ifdef __x86_64__
__attribute__((target("avx2"))) static void run_avx2(const job *j, kind what)
{
    run_any(j, what);
}

__attribute__((target("avx512f"))) static void run_avx512(const job *j, kind what)
{
    run_any(j, what);
}
#endif

static void run(const job *j, kind what)
{
#ifdef __x86_64__
    const comet_isa isa = comet_isa_active();
    if (isa == COMET_ISA_AVX512)
        run_avx512(j, what);
    else if (isa == COMET_ISA_AVX2)
        run_avx2(j, what);
    else
        run_reference(j, what);
#else
    run_reference(j, what);
#endif
}

/* ---- what is asked for ---- */

void norm_sum_moments(const norm_shape *s, const float *z, uint64_t first, uint64_t n, const float *shift, double *segments)
{
    const job j = {.s = s, .in = z, .first = first, .n = n, .shift = shift, .segments = segments};
    run(&j, MOMENTS);
}

void norm_apply(const norm_shape *s, const float *z, uint64_t first, uint64_t n, const norm_apply_coefficients *c, float *y,
                float *w)
{
    const job j = {.s = s, .in = z, .out = y, .w = w, .first = first, .n = n, .apply = c};
    run(&j, APPLY);
}

void norm_output(const norm_shape *s, const float *v, uint64_t first, uint64_t n, const norm_stored_coefficients *c, float *y)
{
    const job j = {.s = s, .in = v, .out = y, .first = first, .n = n, .stored = c};
    run(&j, OUTPUT);
}

void norm_sum_gradients(const norm_shape *s, const float *v, const float *dy, uint64_t first, uint64_t n,
                        const norm_stored_coefficients *c, double *segments)
{
    const job j = {.s = s, .in = v, .dy = dy, .first = first, .n = n, .stored = c, .segments = segments};
    run(&j, SUMS);
}

void norm_gradient(const norm_shape *s, const float *v, const float *dy, uint64_t first, uint64_t n,
                   const norm_stored_coefficients *c, const norm_gradient_coefficients *g, float *dx)
{
    const job j = {.s = s, .in = v, .dy = dy, .out = dx, .first = first, .n = n, .stored = c, .gradient = g};
    run(&j, GRADIENT);
}
