/*
 * Checking a decoded tensor. Differences of f32, f16 and bf16 are taken in double: exact, or off by less than half an ulp of
 * a double where one value is tiny beside the other; the sign of the rounding error (two-sum) decides ties with the bound, so
 * the comparison is one in real arithmetic for every type.
 */
#include <math.h>
#include <string.h>

#include "base/describe.h"
#include "base/float_env.h"
#include "base/status.h"
#include "codec/elements.h"

void comet_comparison_init(comet_comparison *comparison)
{
    *comparison = (comet_comparison){.size = sizeof *comparison};
}

/* |a - b| > eb in real arithmetic, for finite a and b. */
static int exceeds(double a, double b, double eb, double *error)
{
    double d = a - b;
    double rest = fabs(a) >= fabs(b) ? (a - d) - b : a - (b + d); /* a - b = d + rest exactly (fast two-sum) */
    *error = fabs(d);
    if (!isfinite(d) || fabs(d) > eb)
        return 1;
    return fabs(d) == eb && (d > 0 ? rest > 0 : rest < 0);
}

typedef struct extremes {
    double min, max, sum_of_squares;
    uint64_t n;
} extremes;

static int compare_one(comet_dtype dtype, size_t element, uint64_t i, const uint8_t *x, const uint8_t *y, double eb,
                       comet_comparison *c, extremes *e)
{
    double a = element_value(dtype, x, i), b = element_value(dtype, y, i), error = 0;
    int same = memcmp(x + i * element, y + i * element, element) == 0;
    c->n_zeros += a == 0;
    c->n_zeros_kept += a == 0 && b == 0;
    c->n_support_lost += a != 0 && b == 0;
    if (!isfinite(a) || !isfinite(b))
        return !same;
    int violated = exceeds(a, b, eb, &error);
    c->max_error = fmax(c->max_error, error);
    e->min = fmin(e->min, a);
    e->max = fmax(e->max, a);
    e->sum_of_squares += error * error;
    e->n++;
    return eb == 0 ? !same : violated;
}

comet_status comet_compare(comet_dtype dtype, uint64_t n_elements, const void *original, const void *decoded, double eb,
                           comet_comparison *comparison)
{
    size_t element = comet_dtype_bytes(dtype);
    if (element == 0 || !comparison || (n_elements && (!original || !decoded)))
        return comet_fail(COMET_ERROR_ARGUMENT, "comet_compare: unknown element type or null pointer");
    TRY(CHECK_SIZE(comet_comparison, comparison));
    if ((uintptr_t)original % element || (uintptr_t)decoded % element)
        return comet_fail(COMET_ERROR_ARGUMENT, "a tensor is not aligned to its element size, %zu bytes", element);
    if (!(eb >= 0))
        return comet_fail(COMET_ERROR_ARGUMENT, "the bound must not be negative, got %g", eb);
    fenv_t host;
    float_env_enter(&host);
    comet_comparison c = {.n_elements = n_elements, .first_violation = n_elements};
    extremes e = {INFINITY, -INFINITY, 0, 0};
    for (uint64_t i = 0; i < n_elements; i++)
        if (compare_one(dtype, element, i, original, decoded, eb, &c, &e)) {
            c.n_violations++;
            c.first_violation = c.first_violation == n_elements ? i : c.first_violation;
        }
    c.rmse = e.n ? sqrt(e.sum_of_squares / (double)e.n) : 0;
    c.psnr = c.rmse > 0 ? 20 * log10((e.max - e.min) / c.rmse) : INFINITY;
    float_env_leave(&host);
    return GIVE(comet_comparison, comparison, &c);
}
