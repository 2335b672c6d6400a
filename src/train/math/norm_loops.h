/*
 * The loops of batch normalisation, for 16 lanes or any number of them: the same code, and the same roundings, for each
 * instruction set. norm.c includes this by element_variants.h.
 */
/* No include guard: see above. */

/* ---- one element, for tails and rows of odd periods ---- */

INLINE float LOOP(in)(const job *j, uint64_t i)
{
    return LOOP(get)(((const ELEMENT *)j->in)[i]);
}

INLINE float LOOP(dy)(const job *j, uint64_t i)
{
    return LOOP(get)(((const ELEMENT *)j->dy)[i]);
}

INLINE void LOOP(set_out)(const job *j, uint64_t i, float v)
{
    ((ELEMENT *)j->out)[i] = LOOP(put)(v);
}

INLINE float LOOP(relu_or)(bool relu, float a)
{
    return relu && a < 0 ? 0 : a; /* NaN goes on */
}

/* What is stored for -w: negative where the relu passed, and only there. */
INLINE float LOOP(with_sign_of)(float w, float a, float finer)
{
    const float passed = -FLT_MIN > w ? w : -FLT_MIN, other = 0 > w ? 0 : w;
    return a > 0 ? passed : other * finer;
}

INLINE void LOOP(apply_one)(const job *j, bool relu, bool codes, uint64_t i, uint64_t l)
{
    const norm_apply_coefficients *c = j->apply;
    const float d = LOOP(in)(j, i) - c->mean[l], a = d * c->scale[l] + c->shift[l];
    if (codes) {
        const float w = d * c->code_scale[l] + c->code_shift[l];
        ((ELEMENT *)j->w)[i] = LOOP(put)(relu ? LOOP(with_sign_of)(w, a, 1 / c->coarse) : w);
    }
    LOOP(set_out)(j, i, LOOP(relu_or)(relu, a));
}

INLINE bool LOOP(passed)(const norm_stored_coefficients *c, bool relu, float v, uint64_t l)
{
    const float a = c->mask_from ? (v - c->mask_from[l]) * c->mask_scale[l] + c->mask_shift[l] : -v;
    return !relu || a > 0;
}

INLINE void LOOP(output_one)(const job *j, bool relu, uint64_t i, uint64_t l)
{
    const norm_stored_coefficients *c = j->stored;
    const float v = LOOP(in)(j, i), a = (v - c->out_from[l]) * c->out_scale[l] + c->out_shift[l];
    LOOP(set_out)(j, i, LOOP(passed)(c, relu, v, l) ? LOOP(relu_or)(relu, a) : 0);
}

/* The value that a stored element stands for. */
INLINE float LOOP(whole)(const norm_stored_coefficients *c, bool cut, float v)
{
    return cut && !(0 > v) ? v * c->coarse : v;
}

INLINE void LOOP(gradient_one)(const job *j, bool relu, uint64_t i, uint64_t l)
{
    const norm_stored_coefficients *c = j->stored;
    const norm_gradient_coefficients *g = j->gradient;
    const float v = LOOP(in)(j, i), d = LOOP(passed)(c, relu, v, l) ? LOOP(dy)(j, i) : 0;
    const float whole = LOOP(whole)(c, relu && !c->mask_from, v);
    LOOP(set_out)(j, i, d * g->gain[l] + ((whole - c->from[l]) * g->slope[l] + g->offset[l]));
}

/* What element i, in lane l of all and k of its segment, adds to the sums. */
INLINE void LOOP(add_terms)(const job *j, kind what, bool relu, bool signs, uint64_t i, uint64_t l, double *segment, uint64_t k)
{
    const uint64_t width = j->s->width;
    float d, product;
    if (what == MOMENTS) {
        d = LOOP(in)(j, i) - j->shift[l];
        product = d * d;
    } else {
        const norm_stored_coefficients *c = j->stored;
        const float v = LOOP(in)(j, i), hat = (LOOP(whole)(c, relu && signs, v) - c->from[l]) * c->scale[l];
        d = LOOP(passed)(c, relu, v, l) ? LOOP(dy)(j, i) : 0;
        product = d * hat;
        segment[2 * width + k] += signs ? (double)hat : 0;
        segment[3 * width + k] += what == HARM ? (double)(d * d) : 0;
    }
    segment[k] += (double)d;
    segment[width + k] += (double)product;
}

INLINE bool LOOP(makes_sums)(kind what)
{
    return what == MOMENTS || what == SUMS || what == HARM;
}

INLINE void LOOP(one)(const job *j, kind what, bool relu, bool codes, uint64_t i, uint64_t l)
{
    if (what == APPLY)
        LOOP(apply_one)(j, relu, codes, i, l);
    else if (what == OUTPUT)
        LOOP(output_one)(j, relu, i, l);
    else
        LOOP(gradient_one)(j, relu, i, l);
}

/* ---- sixteen lanes, LOOP_LANES at a time: [lane, lane + LOOP_LANES) of rows of WIDE elements, of which `at` is the first ---- */

/* The relu's masks: (v - from) scale + shift > 0, or v < 0. */
typedef struct LOOP(threshold) {
    bool whole; /* not by the sign alone */
    LOOP(vec) from, scale, shift;
} LOOP(threshold);

INLINE void LOOP(find_threshold)(const norm_stored_coefficients *c, bool signs, uint64_t lane, LOOP(threshold) * t)
{
    t->whole = !signs;
    if (signs)
        return;
    t->from = LOOP(load_floats)(c->mask_from + lane);
    t->scale = LOOP(load_floats)(c->mask_scale + lane);
    t->shift = LOOP(load_floats)(c->mask_shift + lane);
}

/* x where the relu passed v, else 0. */
INLINE LOOP(vec) LOOP(pass)(const LOOP(threshold) * t, LOOP(vec) v, LOOP(vec) x)
{
    const LOOP(vec) zero = {0};
    return t->whole ? LOOP(where_greater)((v - t->from) * t->scale + t->shift, zero, x, zero)
                    : LOOP(where_greater)(zero, v, x, zero);
}

INLINE void LOOP(apply_wide)(const job *j, bool relu, bool codes, uint64_t at, uint64_t n, uint64_t lane)
{
    const norm_apply_coefficients *c = j->apply;
    const LOOP(vec) zero = {0}, tiny = zero - FLT_MIN, finer = zero + 1 / c->coarse;
    const LOOP(vec) mean = LOOP(load_floats)(c->mean + lane), scale = LOOP(load_floats)(c->scale + lane),
                    shift = LOOP(load_floats)(c->shift + lane);
    const LOOP(vec) code_scale = codes ? LOOP(load_floats)(c->code_scale + lane) : zero;
    const LOOP(vec) code_shift = codes ? LOOP(load_floats)(c->code_shift + lane) : zero;
    const ELEMENT *in = j->in;
    ELEMENT *out = j->out, *kept = j->w;
    for (uint64_t i = at; i < at + n; i += WIDE) {
        const LOOP(vec) d = LOOP(load)(in + i) - mean, a = d * scale + shift;
        if (codes) {
            LOOP(vec) w = d * code_scale + code_shift;
            if (relu)
                w = LOOP(where_greater)(a, zero, LOOP(where_greater)(tiny, w, w, tiny),
                                        LOOP(where_greater)(zero, w, zero, w) * finer);
            LOOP(save)(w, kept + i);
        }
        LOOP(save)(relu ? LOOP(where_greater)(zero, a, zero, a) : a, out + i);
    }
}

INLINE void LOOP(output_wide)(const job *j, bool relu, bool signs, uint64_t at, uint64_t n, uint64_t lane)
{
    const norm_stored_coefficients *c = j->stored;
    const LOOP(vec) zero = {0};
    LOOP(threshold) t;
    LOOP(find_threshold)(c, signs || !relu, lane, &t);
    const LOOP(vec) from = LOOP(load_floats)(c->out_from + lane), scale = LOOP(load_floats)(c->out_scale + lane),
                    shift = LOOP(load_floats)(c->out_shift + lane);
    const ELEMENT *in = j->in;
    ELEMENT *out = j->out;
    for (uint64_t i = at; i < at + n; i += WIDE) {
        const LOOP(vec) v = LOOP(load)(in + i), y = (v - from) * scale + shift;
        LOOP(save)(relu ? LOOP(pass)(&t, v, LOOP(where_greater)(zero, y, zero, y)) : y, out + i);
    }
}

INLINE void LOOP(gradient_wide)(const job *j, bool relu, bool signs, uint64_t at, uint64_t n, uint64_t lane)
{
    const norm_stored_coefficients *c = j->stored;
    LOOP(threshold) t;
    LOOP(find_threshold)(c, signs || !relu, lane, &t);
    const LOOP(vec) from = LOOP(load_floats)(c->from + lane), gain = LOOP(load_floats)(j->gradient->gain + lane),
                    slope = LOOP(load_floats)(j->gradient->slope + lane),
                    offset = LOOP(load_floats)(j->gradient->offset + lane);
    const LOOP(vec) zero = {0}, coarse = zero + c->coarse;
    const ELEMENT *in = j->in, *dy = j->dy;
    ELEMENT *out = j->out;
    for (uint64_t i = at; i < at + n; i += WIDE) {
        const LOOP(vec) v = LOOP(load)(in + i), d = LOOP(load)(dy + i);
        const LOOP(vec) whole = relu && signs ? LOOP(where_greater)(zero, v, v, v * coarse) : v;
        LOOP(save)((relu ? LOOP(pass)(&t, v, d) : d) * gain + ((whole - from) * slope + offset), out + i);
    }
}

INLINE void LOOP(sums_wide)(const job *j, kind what, bool relu, bool signs, uint64_t at, uint64_t n, uint64_t lane,
                            LOOP(vec) sums[NORM_SUMS])
{
    const norm_stored_coefficients *c = j->stored;
    const ELEMENT *in = j->in, *dy = j->dy;
    LOOP(vec) a = {0}, b = {0}, hats = {0}, squares = {0};
    if (what == MOMENTS) {
        const LOOP(vec) shift = LOOP(load_floats)(j->shift + lane);
        for (uint64_t i = at; i < at + n; i += WIDE) {
            const LOOP(vec) d = LOOP(load)(in + i) - shift;
            a += d;
            b += d * d;
        }
    } else {
        LOOP(threshold) t;
        LOOP(find_threshold)(c, signs || !relu, lane, &t);
        const LOOP(vec) from = LOOP(load_floats)(c->from + lane), scale = LOOP(load_floats)(c->scale + lane);
        const LOOP(vec) zero = {0}, coarse = zero + c->coarse;
        for (uint64_t i = at; i < at + n; i += WIDE) {
            const LOOP(vec) v = LOOP(load)(in + i), all = LOOP(load)(dy + i), d = relu ? LOOP(pass)(&t, v, all) : all;
            const LOOP(vec) whole = relu && signs ? LOOP(where_greater)(zero, v, v, v * coarse) : v;
            const LOOP(vec) hat = (whole - from) * scale;
            a += d;
            b += d * hat;
            if (signs)
                hats += hat;
            if (what == HARM)
                squares += d * d;
        }
    }
    sums[0] = a;
    sums[1] = b;
    sums[2] = hats;
    sums[3] = squares;
}

/* Runs of RUN rows in float, runs in double. */
INLINE void LOOP(sums_span)(const job *j, kind what, bool relu, bool signs, uint64_t at, uint64_t n, uint64_t lane,
                            double *segment)
{
    const uint64_t whole = n / WIDE * WIDE;
    for (uint64_t i = 0; i < whole; i += RUN * WIDE)
        for (uint64_t part = 0; part < WIDE; part += LOOP_LANES) {
            LOOP(vec) sums[NORM_SUMS];
            LOOP(sums_wide)(j, what, relu, signs, at + i + part, min_u64(RUN * WIDE, whole - i), lane + part, sums);
            for (uint64_t k = 0; k < NORM_SUMS; k++)
                for (uint64_t l = 0; l < LOOP_LANES; l++)
                    segment[k * WIDE + part + l] += (double)sums[k][l];
        }
    for (uint64_t l = 0; whole + l < n; l++)
        LOOP(add_terms)(j, what, relu, signs, at + whole + l, lane + l, segment, l);
}

/* Runs of RUN rows, which the first-level cache holds for the next lanes. */
INLINE void LOOP(rows_span)(const job *j, kind what, bool relu, bool option, uint64_t at, uint64_t n, uint64_t lane)
{
    for (uint64_t i = 0; i < n; i += RUN * WIDE)
        for (uint64_t part = 0; part < WIDE; part += LOOP_LANES) {
            const uint64_t first = at + i + part, count = min_u64(RUN * WIDE, n - i);
            if (what == APPLY)
                LOOP(apply_wide)(j, relu, option, first, count, lane + part);
            else if (what == OUTPUT)
                LOOP(output_wide)(j, relu, option, first, count, lane + part);
            else
                LOOP(gradient_wide)(j, relu, option, first, count, lane + part);
        }
}

/* Elements [at, at + n) of the job, all in one group, 16 lanes from `lane` on. */
INLINE void LOOP(wide_span)(const job *j, kind what, bool relu, bool option, uint64_t at, uint64_t n, uint64_t lane,
                            double *segment)
{
    const uint64_t whole = n / WIDE * WIDE;
    if (LOOP(makes_sums)(what)) {
        LOOP(sums_span)(j, what, relu, option, at, n, lane, segment);
        return;
    }
    LOOP(rows_span)(j, what, relu, option, at, whole, lane);
    for (uint64_t l = 0; whole + l < n; l++)
        LOOP(one)(j, what, relu, option, at + whole + l, lane + l);
}

/* Rows of any period, one after another. */
INLINE void LOOP(long_span)(const job *j, kind what, bool relu, bool option, uint64_t at, uint64_t n, uint64_t lane,
                            double *segment)
{
    const uint64_t width = j->s->width;
    for (uint64_t i = at; i < at + n; i += width)
        for (uint64_t l = 0; l < width; l++) {
            if (LOOP(makes_sums)(what))
                LOOP(add_terms)(j, what, relu, option, i + l, lane + l, segment, l);
            else
                LOOP(one)(j, what, relu, option, i + l, lane + l);
        }
}

/* Group by group. Pointers of the job are to its first element. */
INLINE void LOOP(run_groups)(const job *j, kind what, bool relu, bool option)
{
    const norm_shape *s = j->s;
    const uint64_t group = s->rows * s->period, end = j->first + j->n;
    double *segment = j->segments;
    for (uint64_t i = j->first; i < end;) {
        const uint64_t g = i / group, next = min_u64(end, (g + 1) * group), lane = g % s->n_groups * s->width;
        if (segment)
            memset(segment, 0, NORM_SUMS * s->width * sizeof *segment);
        if (s->width == WIDE)
            LOOP(wide_span)(j, what, relu, option, i - j->first, next - i, lane, segment);
        else
            LOOP(long_span)(j, what, relu, option, i - j->first, next - i, lane, segment);
        segment = segment ? segment + NORM_SUMS * s->width : NULL;
        i = next;
    }
}

/* `option`: apply makes codes too; the others find masks by the sign. */
INLINE void LOOP(run_kind)(const job *j, kind what, bool option)
{
    if (j->s->relu)
        option ? LOOP(run_groups)(j, what, true, true) : LOOP(run_groups)(j, what, true, false);
    else
        option ? LOOP(run_groups)(j, what, false, true) : LOOP(run_groups)(j, what, false, false);
}

__attribute__((LOOP_TARGET noinline)) static void LOOP(run)(const job *j, kind what)
{
    const bool signs = j->stored && !j->stored->mask_from;
    switch (what) {
    case MOMENTS: LOOP(run_groups)(j, MOMENTS, false, false); break;
    case APPLY: LOOP(run_kind)(j, APPLY, j->w != NULL); break;
    case OUTPUT: LOOP(run_kind)(j, OUTPUT, signs); break;
    case SUMS: LOOP(run_kind)(j, SUMS, signs); break;
    case HARM: LOOP(run_kind)(j, HARM, signs); break;
    case GRADIENT: LOOP(run_kind)(j, GRADIENT, signs); break;
    }
}
