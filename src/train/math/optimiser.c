/* Optimisers; see optimiser.h. */
#include "train/math/optimiser.h"

#include <math.h>
#include <string.h>

#include "base/status.h"
#include "train/backend/parallel.h"
#include "train/math/optimiser_state_loops.h"

enum { GRAIN = 16384 / STATE_TILE }; /* tiles that make a thread worth it */

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
    if ((unsigned)o->state > COMET_STATE_CODED)
        return comet_fail(COMET_ERROR_ARGUMENT, "format %d of the optimiser's state is of no known kind", (int)o->state);
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

/* ---- one tile: n floats ---- */

typedef enum rule { SGD_PLAIN, SGD_MOMENTUM, SGD_NESTEROV, FOLLOW, ADAM } rule;

typedef struct sgd_numbers {
    float rate, scale, decay, mu;
} sgd_numbers;

typedef struct adam_numbers {
    float scale, keep; /* keep: 1 - rate * weight_decay */
    float beta1, rest1, beta2, rest2;
    float rate, root2, eps; /* rate / (1 - beta1^t), sqrt(1 - beta2^t) */
} adam_numbers;

ISA_INLINED void sgd_plain(const sgd_numbers j, size_t n, float *restrict w, const float *restrict gradient)
{
    for (size_t i = 0; i < n; i++)
        w[i] -= j.rate * (j.scale * gradient[i] + j.decay * w[i]);
}

ISA_INLINED void sgd_momentum(const sgd_numbers j, size_t n, float *restrict w, const float *restrict gradient,
                              float *restrict m)
{
    for (size_t i = 0; i < n; i++) {
        m[i] = j.mu * m[i] + (j.scale * gradient[i] + j.decay * w[i]);
        w[i] -= j.rate * m[i];
    }
}

ISA_INLINED void sgd_nesterov(const sgd_numbers j, size_t n, float *restrict w, const float *restrict gradient,
                              float *restrict m)
{
    for (size_t i = 0; i < n; i++) {
        const float g = j.scale * gradient[i] + j.decay * w[i];
        m[i] = j.mu * m[i] + g;
        w[i] -= j.rate * (g + j.mu * m[i]);
    }
}

ISA_INLINED void follow(const sgd_numbers j, size_t n, const float *restrict w, const float *restrict gradient,
                        float *restrict m)
{
    for (size_t i = 0; i < n; i++)
        m[i] = j.mu * m[i] + gradient[i] + j.decay * w[i];
}

ISA_INLINED void adam(const adam_numbers j, size_t n, float *restrict w, const float *restrict gradient, float *restrict m,
                      float *restrict v)
{
    for (size_t i = 0; i < n; i++) {
        const float g = j.scale * gradient[i];
        m[i] = j.beta1 * m[i] + j.rest1 * g;
        v[i] = j.beta2 * v[i] + j.rest2 * g * g;
        w[i] = j.keep * w[i] - j.rate * (m[i] / (sqrtf(v[i]) / j.root2 + j.eps));
    }
}

/* ---- all tiles, by instruction set ---- */

typedef struct job {
    rule rule;
    sgd_numbers sgd;
    adam_numbers adam;
    size_t n;
    float *weights;
    const float *weights_seen, *gradient; /* weights_seen: FOLLOW */
    const optimiser_state *state;
    uint64_t seed, step;
    bool coded; /* the state is not f32: it is decoded and encoded */
} job;

ISA_INLINED void update_tile(const job *j, size_t at, size_t n, float *m, float *v)
{
    const float *gradient = j->gradient + at;
    switch (j->rule) {
    case SGD_PLAIN: sgd_plain(j->sgd, n, j->weights + at, gradient); break;
    case SGD_MOMENTUM: sgd_momentum(j->sgd, n, j->weights + at, gradient, m); break;
    case SGD_NESTEROV: sgd_nesterov(j->sgd, n, j->weights + at, gradient, m); break;
    case FOLLOW: follow(j->sgd, n, j->weights_seen + at, gradient, m); break;
    case ADAM: adam(j->adam, n, j->weights + at, gradient, m, v); break;
    }
}

ISA_INLINED void update_tiles(const job *j, size_t begin, size_t end)
{
    float room_m[STATE_TILE], room_v[STATE_TILE];
    uint32_t draws[STATE_TILE];
    for (size_t t = begin; t < end; t++) {
        const size_t at = t * STATE_TILE, left = j->n - at, n = left < STATE_TILE ? left : STATE_TILE;
        float *m = state_open(j->state->momentum, at, n, room_m), *v = state_open(j->state->second_moment, at, n, room_v);
        update_tile(j, at, n, m, v);
        if (!j->coded)
            continue;
        state_draw(j->seed, j->step, j->state->first + at, STATE_TILE, draws); /* whole blocks */
        state_encode(state_at(j->state->momentum, at), n, m, draws, 0);
        if (v)
            state_encode(state_at(j->state->second_moment, at), n, v, draws, 16);
    }
}

ISA_VARIANTS(tiles, (void *arg, size_t begin, size_t end), update_tiles(arg, begin, end))

static void run(job *j, const optimiser_step *s, size_t n, const float *gradient, const optimiser_state *state)
{
    j->n = n;
    j->gradient = gradient;
    j->state = state;
    j->seed = s->seed;
    j->step = s->step;
    j->coded = state->momentum.data && state->momentum.format != COMET_STATE_F32;
    parallel_for((n + STATE_TILE - 1) / STATE_TILE, GRAIN, ISA_PICK(tiles), j);
}

static adam_numbers adam_numbers_of(const optimiser_step *s, bool decay)
{
    const comet_optimiser *o = s->optimiser;
    const double t = (double)s->step + 1, decay_share = decay ? s->rate * (double)o->weight_decay : 0;
    return (adam_numbers){.scale = s->gradient_scale,
                          .keep = (float)(1 - decay_share),
                          .beta1 = (float)o->beta1,
                          .rest1 = (float)(1 - o->beta1),
                          .beta2 = (float)o->beta2,
                          .rest2 = (float)(1 - o->beta2),
                          .rate = (float)(s->rate / (1 - pow(o->beta1, t))),
                          .root2 = (float)sqrt(1 - pow(o->beta2, t)),
                          .eps = (float)o->eps};
}

void optimiser_apply(const optimiser_step *s, size_t n, float *weights, const float *gradient, const optimiser_state *state,
                     bool decay)
{
    const comet_optimiser *o = s->optimiser;
    job j = {.weights = weights};
    if (o->kind == COMET_OPTIMISER_ADAMW) {
        j.rule = ADAM;
        j.adam = adam_numbers_of(s, decay);
    } else {
        j.rule = !state->momentum.data ? SGD_PLAIN : o->nesterov ? SGD_NESTEROV : SGD_MOMENTUM;
        j.sgd = (sgd_numbers){
            .rate = (float)s->rate, .scale = s->gradient_scale, .decay = decay ? o->weight_decay : 0, .mu = o->momentum};
    }
    run(&j, s, n, gradient, state);
}

void optimiser_follow(const optimiser_step *s, float beta, size_t n, const float *weights, const float *gradient,
                      const optimiser_state *state)
{
    job j = {.rule = FOLLOW, .weights_seen = weights, .sgd = {.scale = 1, .decay = s->optimiser->weight_decay, .mu = beta}};
    run(&j, s, n, gradient, state);
}

float optimiser_clip_scale(double norm, float clip_norm)
{
    if (!(clip_norm > 0))
        return 1;
    const double scale = (double)clip_norm / (norm + 1e-6);
    return scale < 1 ? (float)scale : 1;
}
