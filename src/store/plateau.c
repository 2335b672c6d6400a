#include "store/plateau.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/bytes.h"
#include "base/isa_pick.h"

enum {
    MIN_POSITIONS = 128, /* smaller plots are not searched: little adds up there */
    MAX_CHANNELS = 256,
    WIDE = 64, /* loops take this many elements at once where there are fewer channels */
    MANY_SAMPLES = 32,
    FEW_SAMPLES = 16, /* where a plot has fewer than 512 positions */
    AGREE = 4,        /* samples that must be near one value to make a plateau */
    TRIED = 6         /* samples that are tried as its value */
};

#define NEIGHBOURS 0.125f /* part of the reach by which neighbours on a plateau may differ: they differ by roundings only */

typedef enum symbol { ZERO, NEGATIVE } symbol; /* what stands for a plateau in a plot */

typedef struct plot {
    size_t begin, n; /* elements of the span */
    uint32_t index;
} plot;

/* One entry for each channel, repeated up to WIDE. */
typedef struct plateaus {
    size_t width;
    float value[MAX_CHANNELS];
    float reach[MAX_CHANNELS]; /* negative: no plateau */
} plateaus;

size_t plateau_record_bound(size_t n)
{
    return n / MIN_POSITIONS * (sizeof(uint32_t) + sizeof(float));
}

/* ---- plots ---- */

static uint64_t plane_elements(const geometry *g)
{
    return g->line * g->lines;
}

static bool may_have_plots(const plateau_span *s)
{
    return s->shape->channels <= MAX_CHANNELS && s->first % s->shape->channels == 0;
}

/* The plot that begins with element `begin`; n is 0 after the last. */
static plot plot_at(const plateau_span *s, size_t begin)
{
    const uint64_t plane = plane_elements(s->shape), left = plane - (s->first + begin) % plane;
    return (plot){.begin = begin,
                  .n = (size_t)min_u64(left, s->n - begin),
                  .index = (uint32_t)((s->first + begin) / plane - s->first / plane)};
}

static size_t width_of(size_t channels)
{
    return channels < WIDE && WIDE % channels == 0 ? WIDE : channels;
}

/* ---- finding plateaus ---- */

/* Position of sample s: spread evenly, but not in step with the columns. */
static size_t sample_position(size_t s, size_t n_positions)
{
    const uint32_t spread = (uint32_t)s * 2654435769u;
    return (size_t)((uint64_t)spread * (n_positions - 1) >> 32);
}

/* Counts, for each channel, samples that are not zero and nearly equal to their neighbour. False if no channel has enough. */
static bool count_like(const float *x, size_t channels, size_t n_positions, size_t n_samples, float near, int32_t *like)
{
    int32_t most = 0;
    memset(like, 0, channels * sizeof *like);
    for (size_t s = 0; s < n_samples; s++) {
        const float *at = x + sample_position(s, n_positions) * channels;
        for (size_t c = 0; c < channels; c++) {
            const int32_t is_like = fabsf(at[channels + c] - at[c]) <= near ? 1 : 0;
            like[c] += at[c] != 0 ? is_like : 0;
        }
    }
    for (size_t c = 0; c < channels; c++)
        most = like[c] > most ? like[c] : most;
    return most >= AGREE;
}

/* The value for a plateau: among the first samples that are like their neighbour, the one that most samples are near to; 0 if
 * too few are. */
static float common_value(const float *x, size_t channels, size_t n_positions, size_t n_samples, float reach)
{
    float samples[MANY_SAMPLES], common = 0;
    int32_t most = AGREE - 1;
    for (size_t s = 0; s < n_samples; s++)
        samples[s] = x[sample_position(s, n_positions) * channels];
    for (size_t s = 0, tried = 0; s < n_samples && tried < TRIED; s++) {
        const float v = samples[s], next = x[(sample_position(s, n_positions) + 1) * channels];
        if (v == 0 || !(fabsf(next - v) <= reach * NEIGHBOURS))
            continue;
        int32_t n = 0;
        for (size_t t = 0; t < n_samples; t++)
            n += fabsf(samples[t] - v) <= reach ? 1 : 0;
        common = n > most ? v : common;
        most = n > most ? n : most;
        tried++;
    }
    return common;
}

static bool find_plateaus(const float *x, size_t n, size_t channels, float reach, plateaus *p)
{
    const size_t n_positions = n / channels, n_samples = n_positions < 512 ? FEW_SAMPLES : MANY_SAMPLES;
    int32_t like[MAX_CHANNELS];
    bool any = false;
    if (n_positions < MIN_POSITIONS || !count_like(x, channels, n_positions, n_samples, reach * NEIGHBOURS, like))
        return false;
    p->width = width_of(channels);
    for (size_t c = 0; c < channels; c++) {
        p->value[c] = like[c] < AGREE ? 0 : common_value(x + c, channels, n_positions, n_samples, reach);
        p->reach[c] = p->value[c] == 0 ? -1 : fminf(reach, fabsf(p->value[c]) / 2); /* so that all have one sign */
        any |= p->value[c] != 0;
    }
    for (size_t c = channels; c < p->width; c++) {
        p->value[c] = p->value[c - channels];
        p->reach[c] = p->reach[c - channels];
    }
    return any;
}

/* ---- the loops ---- */

typedef enum loop { LOOK, REPLACE, RESTORE_ZERO, RESTORE_NEGATIVE } loop;

typedef struct job {
    const plateaus *p;
    float *x;
    size_t n;
    float with;                   /* REPLACE: the symbol */
    int32_t counts[MAX_CHANNELS]; /* REPLACE: how many elements were replaced */
    int32_t zeros, negatives;     /* LOOK: are there zeros in channels with plateaus, negatives anywhere? */
} job;

/* One row of n elements, without branches, so that compilers use vectors. */
ISA_INLINED void row(job *restrict j, const plateaus *restrict p, loop what, float *restrict x, size_t n)
{
    const float with = j->with;
    int32_t zeros = 0, negatives = 0;
    for (size_t l = 0; l < n; l++) {
        const float v = x[l];
        if (what == LOOK) {
            zeros |= (v == 0) & (p->reach[l] >= 0);
            negatives |= v < 0;
        } else if (what == REPLACE) {
            const float far = fabsf(v - p->value[l]), reach = p->reach[l];
            j->counts[l] += far <= reach ? 1 : 0;
            x[l] = far <= reach ? with : v;
        } else {
            const float value = p->value[l];
            x[l] = (what == RESTORE_ZERO ? v == 0 : v < 0) ? value : v;
        }
    }
    j->zeros |= zeros;
    j->negatives |= negatives;
}

ISA_INLINED void rows(job *j, loop what, size_t width)
{
    const size_t whole = j->n / width * width;
    for (size_t i = 0; i < whole; i += width)
        row(j, j->p, what, j->x + i, width);
    row(j, j->p, what, j->x + whole, j->n - whole);
}

ISA_INLINED void run_any(job *j, loop what)
{
    const bool wide = j->p->width == WIDE;
    switch (what) {
    case LOOK: wide ? rows(j, LOOK, WIDE) : rows(j, LOOK, j->p->width); break;
    case REPLACE: wide ? rows(j, REPLACE, WIDE) : rows(j, REPLACE, j->p->width); break;
    case RESTORE_ZERO: wide ? rows(j, RESTORE_ZERO, WIDE) : rows(j, RESTORE_ZERO, j->p->width); break;
    case RESTORE_NEGATIVE: wide ? rows(j, RESTORE_NEGATIVE, WIDE) : rows(j, RESTORE_NEGATIVE, j->p->width); break;
    }
}

ISA_VARIANTS(run, (job * j, loop what), run_any(j, what))

/* ---- replacing ---- */

static void add_figures(const job *j, symbol with, plateau_figures *f)
{
    for (size_t l = 0; l < j->p->width; l++)
        if (j->counts[l] > 0) {
            const double n = (double)j->counts[l], v = (double)j->p->value[l];
            f->n_zeros += with == ZERO ? (uint64_t)j->counts[l] : 0;
            f->sum_of_squares += n * v * v;
        }
}

/* Minimum and maximum of all finite elements, before they were replaced. */
static void find_extremes(const float *x, size_t n, plateau_figures *f)
{
    float least[WIDE], most[WIDE];
    for (size_t l = 0; l < WIDE; l++) {
        least[l] = INFINITY;
        most[l] = -INFINITY;
    }
    for (size_t i = 0; i < n; i += WIDE) {
        const size_t width = (size_t)min_u64(WIDE, n - i);
        for (size_t l = 0; l < width; l++) {
            const float v = x[i + l], low = v >= -FLT_MAX ? v : INFINITY, high = v <= FLT_MAX ? v : -INFINITY;
            least[l] = low < least[l] ? low : least[l];
            most[l] = high > most[l] ? high : most[l];
        }
    }
    for (size_t l = 0; l < WIDE; l++) { /* fmin and fmax here crash gcc 12 for AArch64 */
        f->min = (double)least[l] < f->min ? (double)least[l] : f->min;
        f->max = (double)most[l] > f->max ? (double)most[l] : f->max;
    }
}

/* Replaces the plateaus of a plot with a symbol: zero if channels with plateaus have no zeros, else a negative value if the
 * plot has none. False if neither is free. */
static bool replace(float *x, size_t n, const plateaus *p, symbol *with, plateau_figures *f)
{
    job j = {.p = p, .x = x, .n = n};
    ISA_PICK(run)(&j, LOOK);
    if (j.zeros && j.negatives)
        return false;
    *with = j.zeros ? NEGATIVE : ZERO;
    j.with = *with == ZERO ? 0 : -FLT_MIN; /* the code next to zero, whatever the bound */
    ISA_PICK(run)(&j, REPLACE);
    add_figures(&j, *with, f);
    return true;
}

/* A record has index and symbol in one word, then the values of all channels: 0 where there is no plateau. */
static size_t write_record(const plot *at, const plateaus *p, size_t channels, symbol with, uint8_t *record)
{
    const uint32_t head = at->index << 1 | (with == NEGATIVE);
    memcpy(record, &head, sizeof head);
    memcpy(record + sizeof head, p->value, channels * sizeof *p->value);
    return sizeof head + channels * sizeof *p->value;
}

size_t plateau_replace(const plateau_span *s, float reach, const float *x, float *copy, uint8_t *record, plateau_figures *f)
{
    const size_t channels = s->shape->channels;
    size_t bytes = 0;
    bool copied = false;
    plateaus p;
    *f = (plateau_figures){.min = INFINITY, .max = -INFINITY};
    if (!may_have_plots(s))
        return 0;
    for (plot at = plot_at(s, 0); at.n > 0; at = plot_at(s, at.begin + at.n)) {
        symbol with;
        if (!find_plateaus(x + at.begin, at.n, channels, reach, &p))
            continue;
        if (!copied)
            memcpy(copy, x, s->n * sizeof *x);
        copied = true;
        if (replace(copy + at.begin, at.n, &p, &with, f))
            bytes += write_record(&at, &p, channels, with, record + bytes);
    }
    if (bytes > 0)
        find_extremes(x, s->n, f);
    return bytes;
}

/* ---- restoring ---- */

bool plateau_restore(const plateau_span *s, const uint8_t *record, size_t bytes, float *x)
{
    const size_t channels = s->shape->channels, each = sizeof(uint32_t) + channels * sizeof(float);
    const uint8_t *end = record + bytes;
    if (!may_have_plots(s) || bytes % each != 0)
        return false;
    plateaus p = {.width = width_of(channels)};
    for (plot at = plot_at(s, 0); record < end; at = plot_at(s, at.begin + at.n)) {
        uint32_t head;
        memcpy(&head, record, sizeof head);
        if (at.n == 0 || head >> 1 < at.index)
            return false;
        if (head >> 1 > at.index)
            continue;
        for (size_t c = 0; c < p.width; c += channels)
            memcpy(p.value + c, record + sizeof head, channels * sizeof *p.value);
        job j = {.p = &p, .x = x + at.begin, .n = at.n};
        ISA_PICK(run)(&j, head & 1 ? RESTORE_NEGATIVE : RESTORE_ZERO);
        record += each;
    }
    return true;
}
