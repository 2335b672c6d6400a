/* Results of ReLU as signs, and their values computed again: against integers that say what is positive, and against a loop
 * whose every operation is rounded from double, so that no compiler can fuse two of them. */
#include <stdlib.h>

#include "base/convert.h"
#include "native_testing.h"

/* Magnitudes of a type as bit patterns; numbers of one sign are ordered as their bits are. */
typedef struct format {
    comet_dtype dtype;
    uint32_t width, infinity, least_normal;
} format;

static const format formats[] = {
    {COMET_DTYPE_F32, 4, 0x7f800000, 0x00800000}, {COMET_DTYPE_F16, 2, 0x7c00, 0x0400}, {COMET_DTYPE_BF16, 2, 0x7f80, 0x0080}};

enum { PART = 1 << 17, N_SPECIAL = 16 };

/* ---- elements ---- */

static uint32_t sign_bit(const format *f)
{
    return 1u << (8 * f->width - 1);
}

static uint32_t magnitude_of(const format *f, uint32_t bits)
{
    return bits & ~sign_bit(f);
}

static bool is_nan(const format *f, uint32_t bits)
{
    return magnitude_of(f, bits) > f->infinity;
}

static bool is_positive(const format *f, uint32_t bits)
{
    return is_nan(f, bits) || (magnitude_of(f, bits) && !(bits & sign_bit(f)));
}

/* 0, subnormals, normal numbers, Inf, a signalling and a quiet NaN; then the same with the sign bit. */
static uint32_t special_bits(const format *f, uint64_t k)
{
    const uint32_t magnitudes[] = {0,
                                   1,
                                   f->least_normal - 1,
                                   f->least_normal,
                                   f->infinity - 1,
                                   f->infinity,
                                   f->infinity + 1,
                                   f->infinity | f->least_normal >> 1};
    return magnitudes[k % 8] | (k % N_SPECIAL >= 8 ? sign_bit(f) : 0);
}

static uint32_t bits_at(const format *f, const void *x, uint64_t i)
{
    uint32_t bits = 0;
    memcpy(&bits, (const char *)x + i * f->width, f->width);
    return bits;
}

static float value_at(const format *f, const void *x, uint64_t i)
{
    const uint32_t bits = bits_at(f, x, i);
    return f->width == 4                 ? float_of_bits(bits)
           : f->dtype == COMET_DTYPE_F16 ? float_of_f16((uint16_t)bits)
                                         : float_of_bf16((uint16_t)bits);
}

static uint32_t bits_of_value(const format *f, float v)
{
    return f->width == 4 ? bits_of_float(v) : f->dtype == COMET_DTYPE_F16 ? f16_of_float(v) : bf16_of_float(v);
}

/* Normal numbers, and one in eight a special one. The array ends where its elements end. */
static void *random_array(const format *f, test_rng *r, uint64_t n)
{
    void *x = need_malloc(n * f->width);
    for (uint64_t i = 0; i < n; i++)
        if (rng_chance(r, 8))
            set_bits(f->dtype, x, i, special_bits(f, rng_below(r, N_SPECIAL)));
        else
            set_element(f->dtype, x, i, rng_normal(r));
    return x;
}

static void *special_array(const format *f, uint64_t n)
{
    void *x = need_malloc(n * f->width);
    for (uint64_t i = 0; i < n; i++)
        set_bits(f->dtype, x, i, special_bits(f, i));
    return x;
}

/* ---- sessions of each test: one thread, and three ---- */

enum { N_SESSIONS = 2 };

static int make_sessions(void **state)
{
    static comet_native_session *sessions[N_SESSIONS];
    sessions[0] = session_of(1, COMET_NATIVE_OWN_THREADS, NULL);
    sessions[1] = session_of(3, COMET_NATIVE_OWN_THREADS, NULL);
    *state = sessions;
    return 0;
}

static int destroy_sessions(void **state)
{
    comet_native_session **sessions = *state;
    for (size_t s = 0; s < N_SESSIONS; s++)
        comet_native_destroy(sessions[s]);
    return 0;
}

/* ---- signs ---- */

static comet_native_block *pack(comet_native_session *s, const format *f, const void *x, uint64_t n, uint64_t *n_positive)
{
    comet_native_block *block = NULL;
    assert_ok(comet_native_pack_positive(s, f->dtype, x, n, &block, n_positive));
    assert_non_null(block);
    assert_int_equal(comet_native_raw_bytes(block), n);
    assert_true(comet_native_block_bytes(block) <= n / 8 + 8 + 3 * 64);
    return block;
}

static void check_decoded(comet_native_session *s, const comet_native_block *block, const uint8_t *expected, uint64_t n)
{
    uint8_t *back = need_malloc(n + 1);
    memset(back, 0x5a, n + 1);
    assert_ok(comet_native_decode(s, block, back, n));
    assert_memory_equal(back, expected, n);
    assert_int_equal(back[n], 0x5a);
    free(back);
}

/* The array's signs are the expected bytes, each 0 or 1. */
static void check_signs(comet_native_session *s, const format *f, const void *x, const uint8_t *expected, uint64_t n)
{
    uint64_t n_expected = 0, n_positive = UINT64_MAX;
    for (uint64_t i = 0; i < n; i++)
        n_expected += expected[i];
    comet_native_block *block = pack(s, f, x, n, &n_positive);
    assert_int_equal(n_positive, n_expected);
    check_decoded(s, block, expected, n);
    comet_native_free(s, block);
    assert_int_equal(figures_of(s).n_blocks, 0);
}

static uint8_t *signs_of(const format *f, const void *x, uint64_t n)
{
    uint8_t *signs = need_malloc(n);
    for (uint64_t i = 0; i < n; i++)
        signs[i] = is_positive(f, bits_at(f, x, i));
    return signs;
}

static void test_signs_of_every_type_and_length(void **state)
{
    static const uint64_t lengths[] = {0, 1, 2, 63, 64, 65, 127, 1000, PART - 1, PART, PART + 1, 300001};
    comet_native_session **sessions = *state;
    test_rng r = {1};
    for (const format *f = formats; f < formats + COUNT_OF(formats); f++)
        for (size_t l = 0; l < COUNT_OF(lengths); l++) {
            void *x = random_array(f, &r, lengths[l]);
            uint8_t *expected = signs_of(f, x, lengths[l]);
            for (size_t s = 0; s < N_SESSIONS; s++)
                check_signs(sessions[s], f, x, expected, lengths[l]);
            free(x);
            free(expected);
        }
}

/* NaN is positive whatever its sign bit says, zeros are not, and subnormals are numbers. */
static void test_signs_of_special_values(void **state)
{
    static const uint8_t expected[N_SPECIAL] = {0, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 1, 1};
    comet_native_session **sessions = *state;
    for (const format *f = formats; f < formats + COUNT_OF(formats); f++) {
        void *x = special_array(f, N_SPECIAL);
        check_signs(sessions[0], f, x, expected, N_SPECIAL);
        free(x);
    }
}

static void test_one_positive_anywhere(void **state)
{
    static const uint64_t places[] = {0, 1, 7, 8, 62, 63, 64, PART - 1, PART, PART + 63, 2 * PART, 2 * PART + 64};
    const uint64_t n = 2 * PART + 65;
    comet_native_session **sessions = *state;
    for (const format *f = formats; f < formats + COUNT_OF(formats); f++)
        for (size_t k = 0; k < COUNT_OF(places); k++) {
            void *x = calloc(n, f->width);
            uint8_t *expected = calloc(n, 1);
            assert_true(x && expected);
            set_bits(f->dtype, x, places[k], 1);
            expected[places[k]] = 1;
            check_signs(sessions[1], f, x, expected, n);
            free(x);
            free(expected);
        }
}

static void test_signs_refused(void **state)
{
    comet_native_session *s = ((comet_native_session **)*state)[0];
    _Alignas(8) unsigned char array[64] = {0};
    comet_native_block *const before = (comet_native_block *)(void *)array, *block = before;
    uint64_t n = 77;
    assert_status(comet_native_pack_positive(NULL, COMET_DTYPE_F32, array, 4, &block, &n), COMET_ERROR_ARGUMENT);
    assert_status(comet_native_pack_positive(s, COMET_DTYPE_F32, array, 4, NULL, &n), COMET_ERROR_ARGUMENT);
    assert_status(comet_native_pack_positive(s, COMET_DTYPE_F32, array, 4, &block, NULL), COMET_ERROR_ARGUMENT);
    assert_status(comet_native_pack_positive(s, COMET_DTYPE_F64, array, 4, &block, &n), COMET_ERROR_ARGUMENT);
    assert_status(comet_native_pack_positive(s, UINT32_MAX, array, 4, &block, &n), COMET_ERROR_ARGUMENT);
    assert_status(comet_native_pack_positive(s, COMET_DTYPE_F32, NULL, 4, &block, &n), COMET_ERROR_ARGUMENT);
    assert_status(comet_native_pack_positive(s, COMET_DTYPE_F32, array + 2, 4, &block, &n), COMET_ERROR_ARGUMENT);
    assert_status(comet_native_pack_positive(s, COMET_DTYPE_F16, array + 1, 4, &block, &n), COMET_ERROR_ARGUMENT);
    assert_status(comet_native_pack_positive(s, COMET_DTYPE_BF16, array + 1, 4, &block, &n), COMET_ERROR_ARGUMENT);
    assert_status(comet_native_pack_positive(s, COMET_DTYPE_F32, array, UINT64_MAX, &block, &n), COMET_ERROR_OVERFLOW);
    assert_status(comet_native_pack_positive(s, COMET_DTYPE_F32, array, SIZE_MAX / 8, &block, &n), COMET_ERROR_MEMORY);
    assert_ptr_equal(block, before);
    assert_int_equal(n, 77);
    assert_int_equal(figures_of(s).n_blocks, 0);

    assert_ok(comet_native_pack_positive(s, COMET_DTYPE_F16, array + 2, 4, &block, &n));
    comet_native_free(s, block);
    assert_ok(comet_native_pack_positive(s, COMET_DTYPE_F32, NULL, 0, &block, &n));
    comet_native_free(s, block);
    assert_int_equal(n, 0);
}

/* ---- values ---- */

typedef struct layout {
    uint64_t n_outer, n_channels, n_inner;
} layout;

typedef struct computation {
    const format *format;
    comet_native_affine affine;
    uint64_t n;
    float *scale, *shift;
    void *x, *add;
    void *y;         /* one byte longer */
    void *rectified; /* the array whose signs are used; it is not the result */
    uint8_t *signs;  /* of rectified */
    uint32_t *expected;
} computation;

static computation computation_of(const format *f, layout l, uint64_t seed)
{
    const uint64_t n = l.n_outer * l.n_channels * l.n_inner;
    test_rng r = {seed};
    computation c = {.format = f, .n = n};
    c.scale = need_malloc(l.n_channels * sizeof *c.scale);
    c.shift = need_malloc(l.n_channels * sizeof *c.shift);
    for (uint64_t k = 0; k < l.n_channels; k++) {
        c.scale[k] = (float)rng_normal(&r);
        c.shift[k] = (float)rng_normal(&r);
    }
    c.x = random_array(f, &r, n);
    c.add = random_array(f, &r, n);
    c.rectified = random_array(f, &r, n);
    c.signs = signs_of(f, c.rectified, n);
    c.y = need_malloc(n * f->width + 1);
    c.expected = need_malloc(n * sizeof *c.expected);
    c.affine = (comet_native_affine){sizeof c.affine, f->dtype, l.n_outer, l.n_channels, l.n_inner, c.scale, c.shift};
    return c;
}

static void computation_free(computation *c)
{
    void *const all[] = {c->scale, c->shift, c->x, c->add, c->y, c->rectified, c->signs, c->expected};
    for (size_t k = 0; k < COUNT_OF(all); k++)
        free(all[k]);
}

/* A product or a sum of two floats in double, rounded once more, is the float operation's result. */
static float expected_value(const computation *c, uint64_t i, bool with_add)
{
    const uint64_t channel = i / c->affine.n_inner % c->affine.n_channels;
    const float product = (float)((double)c->scale[channel] * (double)value_at(c->format, c->x, i));
    const float sum = (float)((double)product + (double)c->shift[channel]);
    return with_add ? (float)((double)sum + (double)value_at(c->format, c->add, i)) : sum;
}

/* What ReLU's result becomes: no less than the smallest normal number where it is positive, 0 elsewhere. */
static uint32_t rectified_bits(const format *f, uint32_t bits, bool positive)
{
    if (!positive)
        return 0;
    const bool below = (bits & sign_bit(f)) || bits < f->least_normal;
    return below && !is_nan(f, bits) ? f->least_normal : bits;
}

static void expect(computation *c, bool with_signs, bool with_add)
{
    for (uint64_t i = 0; i < c->n; i++) {
        const uint32_t bits = bits_of_value(c->format, expected_value(c, i, with_add));
        c->expected[i] = with_signs ? rectified_bits(c->format, bits, c->signs[i]) : bits;
    }
}

/* Bit for bit, but for a NaN's payload, which depends on the order of the operands. */
static void check_values(const computation *c)
{
    const format *f = c->format;
    const comet_native_affine *a = &c->affine;
    for (uint64_t i = 0; i < c->n; i++) {
        const uint32_t bits = bits_at(f, c->y, i);
        if (bits != c->expected[i] && !(is_nan(f, bits) && is_nan(f, c->expected[i])))
            fail_because("type %u, [%llu][%llu][%llu], element %llu: %#x, not %#x", a->dtype, (unsigned long long)a->n_outer,
                         (unsigned long long)a->n_channels, (unsigned long long)a->n_inner, (unsigned long long)i, bits,
                         c->expected[i]);
    }
    assert_int_equal(((uint8_t *)c->y)[c->n * f->width], 0x5a);
}

typedef enum place { APART, OVER_X, OVER_ADD } place;

/* Computes y where it is asked for and compares it with what is expected. */
static void check_computed(comet_native_session *s, computation *c, const comet_native_block *signs, bool with_add, place where)
{
    const size_t bytes = c->n * c->format->width;
    const void *x = c->x, *add = with_add ? c->add : NULL;
    memset(c->y, 0x5a, bytes + 1);
    if (where == OVER_X)
        x = memcpy(c->y, x, bytes);
    if (where == OVER_ADD)
        add = memcpy(c->y, add, bytes);
    assert_ok(comet_native_compute(s, &c->affine, signs, x, add, c->y));
    check_values(c);
}

/* With and without signs and add, in every place, with one and with several threads. */
static void check_computation(comet_native_session **sessions, computation *c)
{
    uint64_t n_positive = 0;
    comet_native_block *blocks[N_SESSIONS];
    for (size_t s = 0; s < N_SESSIONS; s++)
        blocks[s] = pack(sessions[s], c->format, c->rectified, c->n, &n_positive);
    for (unsigned uses = 0; uses < 4; uses++) {
        const bool with_signs = uses & 1, with_add = uses & 2;
        expect(c, with_signs, with_add);
        for (size_t s = 0; s < N_SESSIONS; s++)
            for (place where = APART; where <= (with_add ? OVER_ADD : OVER_X); where++)
                check_computed(sessions[s], c, with_signs ? blocks[s] : NULL, with_add, where);
    }
    for (size_t s = 0; s < N_SESSIONS; s++) {
        check_decoded(sessions[s], blocks[s], c->signs, c->n); /* as before */
        comet_native_free(sessions[s], blocks[s]);
        assert_int_equal(figures_of(sessions[s]).n_blocks, 0);
    }
}

static void check_layouts(comet_native_session **sessions, const layout *layouts, size_t n_layouts)
{
    for (const format *f = formats; f < formats + COUNT_OF(formats); f++)
        for (size_t l = 0; l < n_layouts; l++) {
            computation c = computation_of(f, layouts[l], l + 1);
            check_computation(sessions, &c);
            computation_free(&c);
        }
}

static void test_one_channel(void **state)
{
    static const layout layouts[] = {{1, 1, 1},        {1, 1, 63},  {1, 1, 64}, {1, 1, 65}, {1, 1, PART},
                                     {1, 1, PART + 1}, {63, 1, 1},  {64, 1, 1}, {65, 1, 1}, {PART + 9, 1, 1},
                                     {40, 1, 3},       {9, 1, 100}, {9, 1, 160}};
    check_layouts(*state, layouts, COUNT_OF(layouts));
}

/* Rows of channels side by side: whole groups of 64 in a row, groups over the end of a row, and rows shorter than a group. */
static void test_channels_last(void **state)
{
    static const layout layouts[] = {{7, 2, 1},  {43, 3, 1},   {1, 63, 1},  {5, 63, 1},    {1, 64, 1},    {5, 64, 1},
                                     {5, 65, 1}, {33, 100, 1}, {3, 128, 1}, {2800, 48, 1}, {1100, 130, 1}};
    check_layouts(*state, layouts, COUNT_OF(layouts));
}

/* Groups of 64 that lie in two channels, in many, and in the last channel and the first of the next row. */
static void test_groups_over_channels(void **state)
{
    static const layout layouts[] = {{2, 3, 7},  {30, 2, 3}, {5, 9, 49},  {3, 5, 63},  {3, 5, 64}, {3, 5, 65},  {7, 2, 96},
                                     {1, 2, 80}, {1, 7, 81}, {7, 2, 160}, {2, 3, 127}, {3, 70, 3}, {2, 130, 2}, {290, 10, 49}};
    check_layouts(*state, layouts, COUNT_OF(layouts));
}

/* Channels of many groups, and of more than a part. */
static void test_large_channels(void **state)
{
    static const layout layouts[] = {{2, 3, 3136}, {2, 2, 3137}, {1, 2, PART}, {1, 2, PART + 37}};
    check_layouts(*state, layouts, COUNT_OF(layouts));
}

static void test_nothing_to_compute(void **state)
{
    static const layout layouts[] = {{0, 3, 5}, {3, 0, 5}, {3, 5, 0}, {0, 0, 0}};
    comet_native_session **sessions = *state;
    check_layouts(sessions, layouts, COUNT_OF(layouts));
    const float one = 1;
    const comet_native_affine a = {sizeof a, COMET_DTYPE_F32, 0, 1, 1, &one, &one};
    assert_ok(comet_native_compute(sessions[0], &a, NULL, NULL, NULL, NULL));
}

/* Special values as they are where positive, but for those too small; exact zeros elsewhere, even for NaN. The loop that
 * computes what is expected knows nothing of floats. */
static void test_special_values_are_rectified(void **state)
{
    comet_native_session **sessions = *state;
    for (const format *f = formats; f < formats + COUNT_OF(formats); f++) {
        computation c = computation_of(f, (layout){1, 1, 2 * N_SPECIAL}, 1);
        c.scale[0] = 1;
        c.shift[0] = 0;
        for (uint64_t i = 0; i < c.n; i++) {
            const bool positive = i < N_SPECIAL;
            set_bits(f->dtype, c.x, i, special_bits(f, i));
            set_element(f->dtype, c.rectified, i, positive ? 1 : -1);
            c.expected[i] = rectified_bits(f, special_bits(f, i), positive);
        }
        uint64_t n_positive = 0;
        comet_native_block *block = pack(sessions[0], f, c.rectified, c.n, &n_positive);
        assert_int_equal(n_positive, N_SPECIAL);
        check_computed(sessions[0], &c, block, false, APART);
        comet_native_free(sessions[0], block);
        computation_free(&c);
    }
}

/* The result has the signs that it was computed with, so that they can be taken from it again. */
static void test_signs_of_the_result(void **state)
{
    comet_native_session *s = ((comet_native_session **)*state)[1];
    for (const format *f = formats; f < formats + COUNT_OF(formats); f++) {
        computation c = computation_of(f, (layout){20, 16, 441}, 3);
        uint64_t n_positive = 0;
        comet_native_block *block = pack(s, f, c.rectified, c.n, &n_positive);
        assert_ok(comet_native_compute(s, &c.affine, block, c.x, c.add, c.y));
        comet_native_free(s, block);
        check_signs(s, f, c.y, c.signs, c.n);
        computation_free(&c);
    }
}

/* One element, its result by hand. */
typedef struct rounding {
    uint32_t format; /* a place in formats */
    float scale, x, shift, add;
    uint32_t expected;
} rounding;

/* Each operation is rounded to f32, in the order scale x + shift + add, and only the last result to 16 bits. */
static void test_roundings(void **state)
{
    static const rounding roundings[] = {
        {0, 0x1.001p0F, 0x1.001p0F, -0x1.002p0F, 0, 0}, /* fused: 2^-24 */
        {0, 1, 1, 0x1p24F, -0x1p24F, 0},                /* shift + add first: 1 */
        {0, 1, -0.0F, -0.0F, -0.0F, 0x80000000},        /* -0 */
        {0, 0.5F, 0x1p-126F, 0, 0, 0x00400000},         /* a subnormal is not flushed */
        {0, 2, 0x1.fffffep127F, 0, 0, 0x7f800000},      /* Inf */
        {1, 1, 2048, 0.5F, 0.5F, 0x6800},               /* 2049 is a tie: 2048 */
        {1, 1, 1, 0x1p-12F, -1, 0x0c00},                /* the sum rounded to f16: 0 */
        {1, 1, 65504, 15, 0, 0x7bff},                   /* the largest */
        {1, 1, 65504, 16, 0, 0x7c00},                   /* Inf */
        {1, 0x1p-14F, 0x1p-10F, 0, 0, 0x0001},          /* the smallest subnormal */
        {2, 1, 1, 0x1p-9F, -1, 0x3b00},                 /* the sum rounded to bf16: 0 */
        {2, 1, 1, 0x1p-8F, 0, 0x3f80},                  /* ties to even */
        {2, 1, 0x1.02p0F, 0x1p-8F, 0, 0x3f82},
    };
    comet_native_session *s = ((comet_native_session **)*state)[0];
    for (const rounding *r = roundings; r < roundings + COUNT_OF(roundings); r++) {
        const format *f = &formats[r->format];
        const comet_native_affine a = {sizeof a, f->dtype, 1, 1, 1, &r->scale, &r->shift};
        uint32_t x = bits_of_value(f, r->x), add = bits_of_value(f, r->add), y = 0;
        assert_ok(comet_native_compute(s, &a, NULL, &x, &add, &y));
        assert_int_equal(y, r->expected);
    }
}

/* ---- what is refused ---- */

/* Arguments of a call. */
typedef struct refusal {
    comet_native_session *session;
    comet_native_affine affine;
    const comet_native_block *signs;
    const void *x, *add;
    void *y;
    unsigned char *area; /* y, or where it would be */
} refusal;

enum { N_REFUSED = 16, AREA_BYTES = 8 * N_REFUSED };

static void check_refused(const refusal *r, comet_status expected)
{
    memset(r->area, 0x5a, AREA_BYTES);
    assert_status(comet_native_compute(r->session, &r->affine, r->signs, r->x, r->add, r->y), expected);
    for (size_t i = 0; i < AREA_BYTES; i++)
        assert_int_equal(r->area[i], 0x5a);
}

#define REFUSE(base, status, change)     \
    do {                                 \
        refusal changed = (base);        \
        changed.change;                  \
        check_refused(&changed, status); \
    } while (0)

/* Arguments that are accepted, in the arrays of the caller. */
static refusal accepted(comet_native_session *s, const format *f, const void *input, unsigned char *area)
{
    static const float ones[] = {1, 1};
    return (refusal){s, {sizeof(comet_native_affine), f->dtype, 2, 2, 4, ones, ones}, NULL, input, input, area, area};
}

static void check_accepted(const refusal *r)
{
    memset(r->area, 0x5a, AREA_BYTES);
    assert_ok(comet_native_compute(r->session, &r->affine, r->signs, r->x, r->add, r->y));
    assert_int_not_equal(r->area[0], 0x5a);
}

static void test_arguments_refused(void **state)
{
    _Alignas(8) static const unsigned char input[AREA_BYTES];
    _Alignas(8) static unsigned char area[AREA_BYTES];
    for (const format *f = formats; f < formats + COUNT_OF(formats); f++) {
        const refusal ok = accepted(((comet_native_session **)*state)[0], f, input, area);
        check_accepted(&ok);
        REFUSE(ok, COMET_ERROR_ARGUMENT, session = NULL);
        REFUSE(ok, COMET_ERROR_ARGUMENT, affine.size = 0);
        REFUSE(ok, COMET_ERROR_ARGUMENT, affine.size--);
        REFUSE(ok, COMET_ERROR_ARGUMENT, affine.size++);
        REFUSE(ok, COMET_ERROR_ARGUMENT, affine.dtype = COMET_DTYPE_F64);
        REFUSE(ok, COMET_ERROR_ARGUMENT, affine.dtype = UINT32_MAX);
        REFUSE(ok, COMET_ERROR_ARGUMENT, affine.scale = NULL);
        REFUSE(ok, COMET_ERROR_ARGUMENT, affine.shift = NULL);
        REFUSE(ok, COMET_ERROR_ARGUMENT, x = NULL);
        REFUSE(ok, COMET_ERROR_ARGUMENT, y = NULL);
        REFUSE(ok, COMET_ERROR_ARGUMENT, x = input + f->width / 2);
        REFUSE(ok, COMET_ERROR_ARGUMENT, add = input + f->width / 2);
        REFUSE(ok, COMET_ERROR_ARGUMENT, y = area + f->width / 2);
    }
    memset(area, 0x5a, AREA_BYTES);
    assert_status(comet_native_compute(((comet_native_session **)*state)[0], NULL, NULL, input, NULL, area),
                  COMET_ERROR_ARGUMENT);
    assert_int_equal(area[0], 0x5a);
}

static void test_sizes_refused(void **state)
{
    static const layout too_many[] = {
        {UINT64_C(1) << 32, UINT64_C(1) << 32, 1},                 /* the first product: 0 */
        {UINT64_C(1) << 32, UINT64_C(1) << 16, UINT64_C(1) << 16}, /* the second: 0 */
        {UINT64_MAX, 1, 3},
        {3, 1, UINT64_MAX},
        {UINT64_C(1) << 63, 2, 1},
        {SIZE_MAX / 8 + 1, 1, 1}, /* no product, but bytes */
    };
    _Alignas(8) static const unsigned char input[AREA_BYTES];
    _Alignas(8) static unsigned char area[AREA_BYTES];
    for (size_t k = 0; k < COUNT_OF(too_many); k++) {
        refusal r = accepted(((comet_native_session **)*state)[0], &formats[1], input, area);
        r.affine.n_outer = too_many[k].n_outer;
        r.affine.n_channels = too_many[k].n_channels;
        r.affine.n_inner = too_many[k].n_inner;
        check_refused(&r, COMET_ERROR_OVERFLOW);
    }
}

/* Blocks that are no signs of N_REFUSED elements, though most hold as many bytes: a frame, integers, pairs of bytes, one
 * pattern; and signs of fewer and of more elements. */
static size_t make_other_blocks(comet_native_session *s, comet_native_block **blocks)
{
    static const uint8_t few[N_REFUSED] = {3, 1, 2}, zeros[N_REFUSED], turned[N_REFUSED] = {1, 0, 1};
    static const uint16_t pairs[N_REFUSED / 2] = {0, 1};
    static const float values[N_REFUSED + 1] = {1, -1, 1};
    comet_native_job job = job_of(N_REFUSED / 4, 0.1);
    uint64_t n_positive = 0;
    size_t n = 0;
    assert_ok(comet_native_encode(s, &job, values, &blocks[n++]));
    assert_ok(comet_native_pack_integers(s, few, 1, 0, N_REFUSED, &blocks[n++]));
    assert_ok(comet_native_pack_two(s, pairs, 2, N_REFUSED / 2, &blocks[n++]));
    assert_ok(comet_native_pack_two(s, zeros, 1, N_REFUSED, &blocks[n++]));
    assert_ok(comet_native_pack_two(s, turned, 1, N_REFUSED, &blocks[n++])); /* whose bit 0 is a byte of 1 */
    for (size_t k = 0; k < n; k++)
        assert_int_equal(comet_native_raw_bytes(blocks[k]), N_REFUSED);
    blocks[n++] = pack(s, &formats[0], values, N_REFUSED - 1, &n_positive);
    blocks[n++] = pack(s, &formats[0], values, N_REFUSED + 1, &n_positive);
    blocks[n++] = pack(s, &formats[0], NULL, 0, &n_positive);
    return n;
}

static void test_blocks_refused(void **state)
{
    _Alignas(8) static const unsigned char input[AREA_BYTES];
    _Alignas(8) static unsigned char area[AREA_BYTES];
    comet_native_session *s = ((comet_native_session **)*state)[0];
    comet_native_block *blocks[8] = {NULL};
    const size_t n_blocks = make_other_blocks(s, blocks);
    refusal r = accepted(s, &formats[0], input, area);
    for (size_t k = 0; k < n_blocks; k++) {
        r.signs = blocks[k];
        check_refused(&r, COMET_ERROR_ARGUMENT);
        comet_native_free(s, blocks[k]);
    }
    uint64_t n_positive = 0;
    comet_native_block *signs = pack(s, &formats[0], input, N_REFUSED, &n_positive);
    r.signs = signs;
    check_accepted(&r);
    comet_native_free(s, signs);
    assert_int_equal(figures_of(s).n_blocks, 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, make_sessions, destroy_sessions)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_signs_of_every_type_and_length),
        TEST(test_signs_of_special_values),
        TEST(test_one_positive_anywhere),
        TEST(test_signs_refused),
        TEST(test_one_channel),
        TEST(test_channels_last),
        TEST(test_groups_over_channels),
        TEST(test_large_channels),
        TEST(test_nothing_to_compute),
        TEST(test_special_values_are_rectified),
        TEST(test_signs_of_the_result),
        TEST(test_roundings),
        TEST(test_arguments_refused),
        TEST(test_sizes_refused),
        TEST(test_blocks_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
