#include "train/math/elementwise.h"

#include <string.h>

#ifdef __x86_64__
#include <immintrin.h>
#endif

#include "base/bytes.h"
#include "base/isa_pick.h"
#include "base/random.h"
#include "train/backend/parallel.h"

enum { GRAIN = 4096 };

/* ---- dropout ---- */

typedef struct dropout_work {
    const dropout_spec *spec;
    const float *x;
    float *y;
    uint64_t first; /* position of the first element */
} dropout_work;

/* Kept where a 32-bit number is at least p 2^32. One block of random numbers serves four positions, of which the first and the
 * last few may belong to other ranks. */
static void dropout_elements(void *arg, size_t begin, size_t end)
{
    const dropout_work *w = arg;
    const dropout_spec *s = w->spec;
    const uint32_t threshold = (uint32_t)((double)s->p * 4294967296.0);
    const float scale = 1 / (1 - s->p);
    const uint64_t part = s->step << 16 | s->layer;
    for (uint64_t block = w->first / 4 + begin; block < w->first / 4 + end; block++) {
        const uint64_t from = max_u64(4 * block, w->first), to = min_u64(4 * block + 4, w->first + s->n);
        uint32_t r[4];
        comet_random_block(s->seed, COMET_STREAM_DROPOUT, part, block, r);
        for (uint64_t k = from; k < to; k++)
            w->y[k - w->first] = r[k % 4] >= threshold ? w->x[k - w->first] * scale : 0;
    }
}

static void dropout_rows(void *arg, size_t begin, size_t end)
{
    const dropout_work *w = arg;
    const dropout_spec *s = w->spec;
    const uint32_t threshold = (uint32_t)((double)s->p * 4294967296.0);
    const uint64_t n = s->n / s->rows, part = s->step << 16 | s->layer;
    for (uint64_t row = begin; row < end; row++) {
        uint32_t r[4];
        comet_random_block(s->seed, COMET_STREAM_DROPOUT, part, s->first_row + row, r);
        const float scale = r[0] >= threshold ? 1 / (1 - s->p) : 0;
        for (uint64_t i = row * n; i < (row + 1) * n; i++)
            w->y[i] = scale > 0 ? w->x[i] * scale : 0;
    }
}

void dropout_apply(const dropout_spec *spec, const void *x, void *y)
{
    const uint64_t first = spec->first_row * (spec->n / spec->rows);
    dropout_work w = {spec, x, y, first};
    if (spec->p <= 0) {
        if (x != y)
            memcpy(y, x, spec->n * comet_dtype_bytes(spec->type));
    } else if (spec->per_sample) {
        parallel_for(spec->rows, 1, dropout_rows, &w);
    } else {
        parallel_for((first % 4 + spec->n + 3) / 4, GRAIN / 4, dropout_elements, &w);
    }
}

/* ---- products ---- */

typedef struct multiply_work {
    const multiply_spec *spec;
    const float *a, *b, *dy;
    float *y, *da, *db;
} multiply_work;

/* A spread product walks over groups in which the factor is constant along the rows and varies along the columns: planar, one
 * channel (columns 1); channels last, an image; blocked, a block of channels. */
static uint64_t group_columns(const multiply_spec *s)
{
    return s->order == ORDER_PLANAR ? 1 : s->order == ORDER_CHANNELS_LAST ? s->channels : s->block;
}

static uint64_t n_groups(const multiply_spec *s)
{
    return s->batch * s->channels / group_columns(s);
}

static void spread_forward(void *arg, size_t begin, size_t end)
{
    const multiply_work *w = arg;
    const uint64_t columns = group_columns(w->spec), plane = w->spec->plane;
    for (uint64_t g = begin; g < end; g++) {
        const float *a = w->a + g * columns * plane, *b = w->b + g * columns;
        float *y = w->y + g * columns * plane;
        for (uint64_t i = 0; i < plane; i++)
            for (uint64_t c = 0; c < columns; c++)
                y[i * columns + c] = a[i * columns + c] * b[c];
    }
}

static void spread_sum(float *db, const float *a, const float *dy, uint64_t plane, uint64_t columns)
{
    memset(db, 0, columns * sizeof *db);
    for (uint64_t i = 0; i < plane; i++)
        for (uint64_t c = 0; c < columns; c++)
            db[c] += dy[i * columns + c] * a[i * columns + c];
}

static void spread_backward(void *arg, size_t begin, size_t end)
{
    const multiply_work *w = arg;
    const uint64_t columns = group_columns(w->spec), plane = w->spec->plane;
    for (uint64_t g = begin; g < end; g++) {
        const uint64_t at = g * columns * plane;
        const float *b = w->b + g * columns;
        if (w->db)
            spread_sum(w->db + g * columns, w->a + at, w->dy + at, plane, columns);
        for (uint64_t i = 0; w->da && i < plane; i++)
            for (uint64_t c = 0; c < columns; c++)
                w->da[at + i * columns + c] = w->dy[at + i * columns + c] * b[c];
    }
}

static void flat_forward(void *arg, size_t begin, size_t end)
{
    const multiply_work *w = arg;
    for (uint64_t i = begin; i < end; i++)
        w->y[i] = w->a[i] * w->b[i];
}

static void flat_backward(void *arg, size_t begin, size_t end)
{
    const multiply_work *w = arg;
    for (uint64_t i = begin; i < end; i++) {
        const float dy = w->dy[i], a = w->a[i], b = w->b[i];
        if (w->da)
            w->da[i] = dy * b;
        if (w->db)
            w->db[i] = dy * a;
    }
}

void multiply_forward(const multiply_spec *s, const void *a, const void *b, void *y)
{
    multiply_work w = {.spec = s, .a = a, .b = b, .y = y};
    if (s->spread)
        parallel_for(n_groups(s), 1, spread_forward, &w);
    else
        parallel_for(s->batch * s->channels * s->plane, GRAIN, flat_forward, &w);
}

void multiply_backward(const multiply_spec *s, const void *a, const void *b, const void *dy, void *da, void *db)
{
    multiply_work w = {.spec = s, .a = a, .b = b, .dy = dy, .da = da, .db = db};
    if (s->spread)
        parallel_for(n_groups(s), 1, spread_backward, &w);
    else
        parallel_for(s->batch * s->channels * s->plane, GRAIN, flat_backward, &w);
}

/* ---- the same code for each instruction set ---- */

enum { WIDE = 16 };
_Static_assert((int)WIDE == (int)SIGNS_A_WORD, "loops take a word of signs at once");
/* Half as wide: compilers do badly with vectors that are wider than those of the instruction set. */
enum { HALF = WIDE / 2 };
typedef float vec __attribute__((vector_size(4 * HALF)));
typedef int32_t mask __attribute__((vector_size(4 * HALF)));

/* Works on bits, so that compilers need no branch and dx may be dy. */
ISA_INLINED void pass_all(uint64_t n, const float *y, const float *dy, float *dx)
{
    uint64_t i = 0;
    for (; i + HALF <= n; i += HALF) {
        vec v, d;
        memcpy(&v, y + i, sizeof v);
        memcpy(&d, dy + i, sizeof d);
        d = (vec)((mask)d & (v > 0));
        memcpy(dx + i, &d, sizeof d);
    }
    for (; i < n; i++)
        dx[i] = y[i] > 0 ? dy[i] : 0;
}

ISA_INLINED void pass_set_all(uint64_t n, const uint16_t *signs, const float *dy, float *dx)
{
    const mask lane = {1, 2, 4, 8, 16, 32, 64, 128};
    uint64_t i = 0;
    for (; i + HALF <= n; i += HALF) {
        vec d;
        memcpy(&d, dy + i, sizeof d);
        d = (vec)((mask)d & ((lane & (signs[i / WIDE] >> i % WIDE)) != 0));
        memcpy(dx + i, &d, sizeof d);
    }
    for (; i < n; i++)
        dx[i] = signs[i / WIDE] >> i % WIDE & 1 ? dy[i] : 0;
}

ISA_INLINED void sum_all(uint64_t n, const float *a, const float *b, bool relu, float *y)
{
    uint64_t i = 0;
    for (; i + HALF <= n; i += HALF) {
        vec v, w;
        memcpy(&v, a + i, sizeof v);
        memcpy(&w, b + i, sizeof w);
        v += w;
        v = relu ? (vec)((mask)v & (v > 0)) : v;
        memcpy(y + i, &v, sizeof v);
    }
    for (; i < n; i++) {
        const float v = a[i] + b[i];
        y[i] = relu && !(v > 0) ? 0 : v;
    }
}

ISA_VARIANTS(pass, (uint64_t n, const float *y, const float *dy, float *dx), pass_all(n, y, dy, dx))
ISA_VARIANTS(pass_set, (uint64_t n, const uint16_t *signs, const float *dy, float *dx), pass_set_all(n, signs, dy, dx))
ISA_VARIANTS(sum, (uint64_t n, const float *a, const float *b, float *y), sum_all(n, a, b, false, y))
ISA_VARIANTS(sum_relu, (uint64_t n, const float *a, const float *b, float *y), sum_all(n, a, b, true, y))

void relu_backward(comet_dtype type, uint64_t n, const void *y, const void *dy, void *dx)
{
    (void)type;
    ISA_PICK(pass)(n, y, dy, dx);
}

void relu_backward_mask(comet_dtype type, uint64_t n, const uint16_t *signs, const void *dy, void *dx)
{
    (void)type;
    ISA_PICK(pass_set)(n, signs, dy, dx);
}

void sum_of(comet_dtype type, uint64_t n, const void *a, const void *b, bool relu, void *y)
{
    (void)type;
    if (relu)
        ISA_PICK(sum_relu)(n, a, b, y);
    else
        ISA_PICK(sum)(n, a, b, y);
}

/* ---- signs ---- */

static uint16_t signs_word(uint64_t n, const float *x)
{
    unsigned word = 0;
    for (uint64_t i = 0; i < n; i++)
        word |= (unsigned)(x[i] > 0) << i;
    return (uint16_t)word;
}

/* Fills whole words from the first on and returns their end. Vectors of C cannot make masks, so each instruction set has a loop
 * of its own. */
static uint64_t signs_reference(uint64_t n, const float *x, uint16_t *signs)
{
    uint64_t i = 0;
    for (; i + WIDE <= n; i += WIDE)
        signs[i / WIDE] = signs_word(WIDE, x + i);
    return i;
}

#ifdef __x86_64__
__attribute__((target(ISA_TARGET_AVX2))) static uint64_t signs_avx2(uint64_t n, const float *x, uint16_t *signs)
{
    const __m256 zero = _mm256_setzero_ps();
    uint64_t i = 0;
    for (; i + WIDE <= n; i += WIDE) {
        const int low = _mm256_movemask_ps(_mm256_cmp_ps(_mm256_loadu_ps(x + i), zero, _CMP_GT_OQ));
        const int high = _mm256_movemask_ps(_mm256_cmp_ps(_mm256_loadu_ps(x + i + 8), zero, _CMP_GT_OQ));
        signs[i / WIDE] = (uint16_t)(low | high << 8);
    }
    return i;
}

__attribute__((target(ISA_TARGET_AVX512))) static uint64_t signs_avx512(uint64_t n, const float *x, uint16_t *signs)
{
    uint64_t i = 0;
    for (; i + WIDE <= n; i += WIDE)
        signs[i / WIDE] = _mm512_cmp_ps_mask(_mm512_loadu_ps(x + i), _mm512_setzero_ps(), _CMP_GT_OQ);
    return i;
}
#endif

void signs_of(comet_dtype type, uint64_t n, const void *array, uint16_t *signs)
{
    const float *x = array;
    (void)type;
    const uint64_t done = ISA_PICK(signs)(n, x, signs);
    if (done < n)
        signs[done / WIDE] = signs_word(n - done, x + done);
}
