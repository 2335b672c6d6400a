#include "train/math/norm.h"

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
    norm_shape s = {.type = layout_type(l), .n_elements = layout_elements(l), .channels = dims[1], .relu = relu};
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

void norm_fold(const norm_shape *s, uint64_t first, uint64_t n, const double *segments, int n_sums, double *sums)
{
    const uint64_t group = s->rows * s->period;
    for (uint64_t i = first; i < first + n; segments += NORM_SUMS * s->width) {
        const uint64_t g = i / group % s->n_groups;
        for (int k = 0; k < n_sums; k++)
            for (uint64_t l = 0; l < s->width; l++) {
                const uint64_t channel = g * s->period + l % s->period;
                if (channel < s->channels)
                    sums[(uint64_t)k * s->channels + channel] += segments[(uint64_t)k * s->width + l];
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

/* ---- the loops ---- */

/* One of the jobs below, with everything that any of them needs. */
typedef struct job {
    const norm_shape *s;
    const void *in, *dy;
    void *out, *w;
    uint64_t first, n;
    const float *shift;
    const norm_apply_coefficients *apply;
    const norm_stored_coefficients *stored;
    const norm_gradient_coefficients *gradient;
    double *segments;
} job;

typedef enum kind { MOMENTS, APPLY, OUTPUT, SUMS, HARM, GRADIENT } kind; /* HARM: SUMS, and the sum of d^2 */

#define LOOP_FILE "train/math/norm_loops.h"
#include "train/math/element_variants.h"

/* ---- what is asked for ---- */

void norm_sum_moments(const norm_shape *s, const void *z, uint64_t first, uint64_t n, const float *shift, double *segments)
{
    const job j = {.s = s, .in = z, .first = first, .n = n, .shift = shift, .segments = segments};
    ELEMENT_PICK(run, s->type)(&j, MOMENTS);
}

void norm_apply(const norm_shape *s, const void *z, uint64_t first, uint64_t n, const norm_apply_coefficients *c, void *y,
                void *w)
{
    const job j = {.s = s, .in = z, .out = y, .w = w, .first = first, .n = n, .apply = c};
    ELEMENT_PICK(run, s->type)(&j, APPLY);
}

void norm_output(const norm_shape *s, const void *v, uint64_t first, uint64_t n, const norm_stored_coefficients *c, void *y)
{
    const job j = {.s = s, .in = v, .out = y, .first = first, .n = n, .stored = c};
    ELEMENT_PICK(run, s->type)(&j, OUTPUT);
}

void norm_sum_gradients(const norm_shape *s, const void *v, const void *dy, uint64_t first, uint64_t n,
                        const norm_stored_coefficients *c, bool squares, double *segments)
{
    const job j = {.s = s, .in = v, .dy = dy, .first = first, .n = n, .stored = c, .segments = segments};
    ELEMENT_PICK(run, s->type)(&j, squares ? HARM : SUMS);
}

void norm_gradient(const norm_shape *s, const void *v, const void *dy, uint64_t first, uint64_t n,
                   const norm_stored_coefficients *c, const norm_gradient_coefficients *g, void *dx)
{
    const job j = {.s = s, .in = v, .dy = dy, .out = dx, .first = first, .n = n, .stored = c, .gradient = g};
    ELEMENT_PICK(run, s->type)(&j, GRADIENT);
}
