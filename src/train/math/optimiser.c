/* Optimisers; see optimiser.h. */
#include "train/math/optimiser.h"

#include <math.h>
#include <string.h>

#include "base/status.h"
#include "train/backend/parallel.h"

enum { GRAIN = 16384 };

const char *comet_optimiser_name(comet_optimiser_kind kind)
{
    static const char *const names[] = {"sgd", "adamw"};
    return (unsigned)kind < sizeof names / sizeof names[0] ? names[kind] : "unknown";
}

void comet_optimiser_init(comet_optimiser *optimiser, comet_optimiser_kind kind)
{
    memset(optimiser, 0, sizeof *optimiser);
    optimiser->size = sizeof *optimiser;
    optimiser->kind = kind;
    optimiser->beta1 = 0.9;
    optimiser->beta2 = 0.999;
    optimiser->eps = 1e-8;
    if (kind == COMET_OPTIMISER_ADAMW) {
        optimiser->weight_decay = 0.01f;
    } else {
        optimiser->momentum = 0.9f;
        optimiser->weight_decay = 5e-4f;
    }
}

static comet_status check_adamw(const comet_optimiser *o)
{
    if (!(o->beta1 >= 0 && o->beta1 < 1))
        return comet_fail(COMET_ERROR_ARGUMENT, "AdamW's beta1 is %g; it must be at least 0 and below 1", o->beta1);
    if (!(o->beta2 >= 0 && o->beta2 < 1))
        return comet_fail(COMET_ERROR_ARGUMENT, "AdamW's beta2 is %g; it must be at least 0 and below 1", o->beta2);
    if (!(isfinite(o->eps) && (float)o->eps > 0)) /* a weight without gradients would become 0 / 0 */
        return comet_fail(COMET_ERROR_ARGUMENT, "AdamW's eps is %g; it must be finite and, as a float, more than 0", o->eps);
    return COMET_OK;
}

comet_status optimiser_check(const comet_optimiser *o)
{
    if (o->size != sizeof *o)
        return comet_fail(COMET_ERROR_ARGUMENT, "comet_optimiser was not set by comet_optimiser_init");
    if (o->kind != COMET_OPTIMISER_SGD && o->kind != COMET_OPTIMISER_ADAMW)
        return comet_fail(COMET_ERROR_ARGUMENT, "optimiser %d is of no known kind", (int)o->kind);
    if (!(isfinite(o->weight_decay) && o->weight_decay >= 0))
        return comet_fail(COMET_ERROR_ARGUMENT, "the weight decay is %g; it must be finite and not negative",
                          (double)o->weight_decay);
    if (!(isfinite(o->clip_norm) && o->clip_norm >= 0))
        return comet_fail(COMET_ERROR_ARGUMENT, "the norm to clip to is %g; it must be finite and not negative",
                          (double)o->clip_norm);
    if (o->kind == COMET_OPTIMISER_SGD && !(o->momentum >= 0 && o->momentum < 1))
        return comet_fail(COMET_ERROR_ARGUMENT, "the momentum is %g; it must be at least 0 and below 1", (double)o->momentum);
    return o->kind == COMET_OPTIMISER_ADAMW ? check_adamw(o) : COMET_OK;
}

bool optimiser_keeps_momentum(const comet_optimiser *o)
{
    return o->kind == COMET_OPTIMISER_ADAMW || o->momentum > 0;
}

bool optimiser_keeps_second_moment(const comet_optimiser *o)
{
    return o->kind == COMET_OPTIMISER_ADAMW;
}

/* ---- SGD ---- */

typedef struct sgd_job {
    float *restrict weights, *restrict momentum;
    const float *restrict gradient;
    float rate, scale, decay, mu;
} sgd_job;

static void sgd_plain(void *arg, size_t begin, size_t end)
{
    const sgd_job j = *(const sgd_job *)arg;
    float *restrict w = j.weights;
    const float *restrict gradient = j.gradient;
    for (size_t i = begin; i < end; i++)
        w[i] -= j.rate * (j.scale * gradient[i] + j.decay * w[i]);
}

static void sgd_momentum(void *arg, size_t begin, size_t end)
{
    const sgd_job j = *(const sgd_job *)arg;
    float *restrict w = j.weights, *restrict m = j.momentum;
    const float *restrict gradient = j.gradient;
    for (size_t i = begin; i < end; i++) {
        m[i] = j.mu * m[i] + (j.scale * gradient[i] + j.decay * w[i]);
        w[i] -= j.rate * m[i];
    }
}

static void sgd_nesterov(void *arg, size_t begin, size_t end)
{
    const sgd_job j = *(const sgd_job *)arg;
    float *restrict w = j.weights, *restrict m = j.momentum;
    const float *restrict gradient = j.gradient;
    for (size_t i = begin; i < end; i++) {
        const float g = j.scale * gradient[i] + j.decay * w[i];
        m[i] = j.mu * m[i] + g;
        w[i] -= j.rate * (g + j.mu * m[i]);
    }
}

/* ---- AdamW ---- */

typedef struct adam_job {
    float *restrict weights, *restrict momentum, *restrict second_moment;
    const float *restrict gradient;
    float scale, keep; /* keep: 1 - rate * weight_decay */
    float beta1, rest1, beta2, rest2;
    float rate, root2, eps; /* rate / (1 - beta1^t), sqrt(1 - beta2^t) */
} adam_job;

static void adam_part(void *arg, size_t begin, size_t end)
{
    const adam_job j = *(const adam_job *)arg;
    float *restrict w = j.weights, *restrict m = j.momentum, *restrict v = j.second_moment;
    const float *restrict gradient = j.gradient;
    for (size_t i = begin; i < end; i++) {
        const float g = j.scale * gradient[i];
        m[i] = j.beta1 * m[i] + j.rest1 * g;
        v[i] = j.beta2 * v[i] + j.rest2 * g * g;
        w[i] = j.keep * w[i] - j.rate * (m[i] / (sqrtf(v[i]) / j.root2 + j.eps));
    }
}

static adam_job adam_job_of(const optimiser_step *s, bool decay)
{
    const comet_optimiser *o = s->optimiser;
    const double t = (double)s->step + 1, decay_share = decay ? s->rate * (double)o->weight_decay : 0;
    return (adam_job){.scale = s->gradient_scale,
                      .keep = (float)(1 - decay_share),
                      .beta1 = (float)o->beta1,
                      .rest1 = (float)(1 - o->beta1),
                      .beta2 = (float)o->beta2,
                      .rest2 = (float)(1 - o->beta2),
                      .rate = (float)(s->rate / (1 - pow(o->beta1, t))),
                      .root2 = (float)sqrt(1 - pow(o->beta2, t)),
                      .eps = (float)o->eps};
}

void optimiser_apply(const optimiser_step *s, size_t n, float *weights, const float *gradient, float *momentum,
                     float *second_moment, bool decay)
{
    const comet_optimiser *o = s->optimiser;
    if (o->kind == COMET_OPTIMISER_ADAMW) {
        adam_job j = adam_job_of(s, decay);
        j.weights = weights, j.gradient = gradient, j.momentum = momentum, j.second_moment = second_moment;
        parallel_for(n, GRAIN, adam_part, &j);
        return;
    }
    sgd_job j = {.weights = weights,
                 .momentum = momentum,
                 .gradient = gradient,
                 .rate = (float)s->rate,
                 .scale = s->gradient_scale,
                 .decay = decay ? o->weight_decay : 0,
                 .mu = o->momentum};
    parallel_for(n, GRAIN, !momentum ? sgd_plain : o->nesterov ? sgd_nesterov : sgd_momentum, &j);
}

float optimiser_clip_scale(double norm, float clip_norm)
{
    if (!(clip_norm > 0))
        return 1;
    const double scale = (double)clip_norm / (norm + 1e-6);
    return scale < 1 ? (float)scale : 1;
}
