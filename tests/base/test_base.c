/* The parts below the codec: statuses, checksum, half-precision conversions, threads, instruction sets, structs of
 * figures, the machine. */
#include "testing.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/bytes.h"
#include "base/checksum.h"
#include "base/convert.h"
#include "base/describe.h"
#include "base/memory.h"
#include "base/status.h"
#include "base/threads.h"
#include "base/work_parts.h"
#include "fuzz/promise.h"

/* ---- statuses ---- */

static void test_status_names(void **state)
{
    static const char *const names[] = {"COMET_OK",
                                        "COMET_ERROR_ARGUMENT",
                                        "COMET_ERROR_OVERFLOW",
                                        "COMET_ERROR_MEMORY",
                                        "COMET_ERROR_CAPACITY",
                                        "COMET_ERROR_CORRUPT",
                                        "COMET_ERROR_UNSUPPORTED",
                                        "COMET_ERROR_UNREACHABLE",
                                        "COMET_ERROR_IO",
                                        "COMET_ERROR_DIVERGED"};
    for (size_t i = 0; i < COUNT_OF(names); i++)
        assert_string_equal(comet_status_name((comet_status)i), names[i]);
    assert_string_equal(comet_status_name((comet_status)COUNT_OF(names)), "unknown status");
    assert_string_equal(comet_status_name((comet_status)-1), "unknown status");
    assert_string_equal(comet_version(), COMET_VERSION_STRING);
}

static void *read_last_error(void *text)
{
    strcpy(text, comet_last_error());
    return NULL;
}

static void test_last_error_belongs_to_a_thread(void **state)
{
    assert_int_equal(comet_fail(COMET_ERROR_CAPACITY, "%d bytes are missing", 17), COMET_ERROR_CAPACITY);
    assert_string_equal(comet_last_error(), "17 bytes are missing");
    char elsewhere[256] = "not called";
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, read_last_error, elsewhere), 0);
    pthread_join(thread, NULL);
    assert_string_equal(elsewhere, "");
}

/* A sentence with two long paths in it comes back whole. */
static void test_last_error_is_cut_not_overrun(void **state)
{
    char longer[3000];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = 0;
    comet_fail(COMET_ERROR_ARGUMENT, "%s", longer + sizeof longer - 1001);
    assert_int_equal(strlen(comet_last_error()), 1000);
    comet_fail(COMET_ERROR_ARGUMENT, "%s", longer);
    assert_int_equal(strlen(comet_last_error()), 1023);
}

/* ---- checksum ---- */

static void test_checksum_known_values(void **state)
{
    static const struct {
        const char *text;
        uint64_t hash;
    } known[] = {
        {"", 0xef46db3751d8e999},
        {"a", 0xd24ec4f1a98c6e5b},
        {"abc", 0x44bc2cf5ad770999},
        {"xxhash", 0x32dd38952c4bc720},
        {"Nobody inspects the spammish repetition", 0xfbcea83c8a378bf1},
    };
    for (size_t i = 0; i < COUNT_OF(known); i++)
        assert_true(comet_checksum(known[i].text, strlen(known[i].text)) == known[i].hash);
}

static void test_checksum_sees_every_bit(void **state)
{
    uint8_t data[100];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)(i * 7);
    for (size_t n = 0; n <= sizeof data; n++) {
        uint64_t hash = comet_checksum(data, n);
        assert_true(n == sizeof data || hash != comet_checksum(data, n + 1));
        for (size_t bit = 0; bit < 8 * n; bit++) {
            data[bit / 8] ^= (uint8_t)(1 << bit % 8);
            assert_true(comet_checksum(data, n) != hash);
            data[bit / 8] ^= (uint8_t)(1 << bit % 8);
        }
    }
}

static void test_bytes(void **state)
{
    uint8_t bytes[10] = {9, 1, 2, 3, 4, 5, 6, 7, 8, 9};
    assert_int_equal(load_u16(bytes + 1), 0x0201);
    assert_int_equal(load_u32(bytes + 1), 0x04030201);
    assert_true(load_u64(bytes + 1) == 0x0807060504030201);
    store_u32(bytes + 3, 0xddccbbaa);
    assert_true(bytes[2] == 2 && bytes[3] == 0xaa && bytes[6] == 0xdd && bytes[7] == 7);
    assert_int_equal(bit_length_u64(0), 0);
    for (unsigned i = 0; i < 64; i++)
        assert_int_equal(bit_length_u64(UINT64_C(1) << i), i + 1);
    assert_true(ceil_div_u64(UINT64_MAX, 2) == UINT64_C(1) << 63);
    assert_int_equal(ceil_div_u64(0, 7) + ceil_div_u64(7, 7) + ceil_div_u64(8, 7), 3);
}

/* ---- memory ---- */

static void test_allocation(void **state)
{
    const comet_allocator own = comet_allocator_of(NULL);
    for (size_t bytes = 1; bytes < 300; bytes += 37) {
        uint8_t *memory = comet_allocate(&own, bytes);
        assert_non_null(memory);
        assert_int_equal((uintptr_t)memory % COMET_ALIGNMENT, 0);
        memset(memory, 1, bytes);
        comet_release(&own, memory, bytes);
    }
    for (size_t less = 0; less < COMET_ALIGNMENT; less++) /* rounding up must not wrap around to a few bytes */
        assert_null(comet_allocate(&own, SIZE_MAX - less));
    assert_non_null(strstr(comet_last_error(), "out of memory"));
}

/* Buffers grow, never shrink, and forget what they had where they cannot grow. */
static void test_buffers(void **state)
{
    test_allocator memory = {0};
    const comet_hooks hooks = hooks_with(&memory);
    const comet_allocator allocator = comet_allocator_of(&hooks);
    comet_buffer b = {0};
    assert_ok(comet_buffer_reserve(&allocator, &b, 1000));
    const void *first = b.data;
    assert_ok(comet_buffer_reserve(&allocator, &b, 1000));
    assert_ok(comet_buffer_reserve(&allocator, &b, 10));
    assert_true(b.data == first && b.bytes == 1000 && memory.n_calls == 1);
    assert_ok(comet_buffer_reserve(&allocator, &b, 1001));
    assert_true(b.bytes == 1001 && memory.live_bytes == 1001 && memory.n_live == 1);
    memory.fail_from = memory.n_calls + 1;
    assert_status(comet_buffer_reserve(&allocator, &b, 2000), COMET_ERROR_MEMORY);
    assert_true(b.data == NULL && b.bytes == 0 && memory.n_live == 0 && !memory.misused);
    comet_buffer_free(&allocator, &b);
}

/* ---- half precision ---- */

typedef struct half_type {
    int exponent_bits, mantissa_bits;
    float (*to_float)(uint16_t);
    uint16_t (*of_float)(float);
} half_type;

static const half_type half_types[] = {{5, 10, float_of_f16, f16_of_float}, {8, 7, float_of_bf16, bf16_of_float}};

static bool is_nan_pattern(const half_type *t, uint16_t h)
{
    uint16_t infinity = (uint16_t)(((1 << t->exponent_bits) - 1) << t->mantissa_bits);
    return (h & 0x7fff) > infinity;
}

static void test_half_to_float_and_back(void **state)
{
    for (size_t k = 0; k < COUNT_OF(half_types); k++) {
        const half_type *t = &half_types[k];
        for (uint32_t h = 0; h < 65536; h++) {
            float f = t->to_float((uint16_t)h);
            long double exact = promise_half((uint16_t)h, t->exponent_bits, t->mantissa_bits);
            if (is_nan_pattern(t, (uint16_t)h)) {
                assert_true(isnan(f) && is_nan_pattern(t, t->of_float(f)));
            } else {
                assert_true((long double)f == exact && !signbit(f) == !(h >> 15));
                assert_int_equal(t->of_float(f), h);
            }
        }
    }
}

/* The pattern nearest to a finite f >= 0, the even one of two, found by bisection over exact values. */
static uint16_t nearest_half(const half_type *t, float f)
{
    uint16_t infinity = (uint16_t)(((1 << t->exponent_bits) - 1) << t->mantissa_bits), low = 0, high = infinity;
    while (low + 1 < high) {
        uint16_t middle = (uint16_t)((low + high) / 2);
        if (promise_half(middle, t->exponent_bits, t->mantissa_bits) <= (long double)f)
            low = middle;
        else
            high = middle;
    }
    long double below = promise_half(low, t->exponent_bits, t->mantissa_bits), above;
    if (high == infinity) /* counts as the next power of two when rounding */
        above = 2 * promise_half((uint16_t)(infinity - (1 << t->mantissa_bits)), t->exponent_bits, t->mantissa_bits);
    else
        above = promise_half(high, t->exponent_bits, t->mantissa_bits);
    long double down = (long double)f - below, up = above - (long double)f;
    return down < up || (down == up && low % 2 == 0) ? low : high;
}

static void check_rounding(const half_type *t, float f)
{
    uint16_t expected = nearest_half(t, f);
    if (t->of_float(f) != expected || t->of_float(-f) != (expected | 0x8000))
        fail_because("%a gives %04x, expected %04x (%d exponent bits)", (double)f, t->of_float(f), expected, t->exponent_bits);
}

/* Between any two neighbours: the halfway point, and the floats on either side of it. */
static void test_half_rounds_to_nearest_even(void **state)
{
    for (size_t k = 0; k < COUNT_OF(half_types); k++) {
        const half_type *t = &half_types[k];
        uint32_t infinity = (uint32_t)((1 << t->exponent_bits) - 1) << t->mantissa_bits;
        for (uint32_t h = 0; h + 1 < infinity; h++) {
            float halfway = (t->to_float((uint16_t)h) + t->to_float((uint16_t)(h + 1))) / 2;
            if (!isfinite(halfway)) /* the sum overflowed */
                halfway = t->to_float((uint16_t)h) / 2 + t->to_float((uint16_t)(h + 1)) / 2;
            check_rounding(t, halfway);
            check_rounding(t, nextafterf(halfway, 0));
            check_rounding(t, nextafterf(halfway, INFINITY));
        }
    }
}

static void test_half_overflow_and_random_floats(void **state)
{
    assert_int_equal(f16_of_float(65519.996f), 0x7bff);
    assert_int_equal(f16_of_float(65520.0f), 0x7c00);
    assert_int_equal(f16_of_float(-3e38f), 0xfc00);
    assert_int_equal(f16_of_float(INFINITY), 0x7c00);
    assert_int_equal(f16_of_float(0x1p-25f), 0);
    assert_int_equal(f16_of_float(0x1.000002p-25f), 1);
    assert_int_equal(f16_of_float(-0.0f), 0x8000);
    assert_int_equal(bf16_of_float(3.4e38f), 0x7f80);
    assert_int_equal(bf16_of_float(-INFINITY), 0xff80);
    assert_int_equal(bf16_of_float(0x1p-133f), 1);
    test_rng r = {1};
    for (int i = 0; i < 200000; i++) {
        float f = fabsf(float_of_bits((uint32_t)rng_next(&r)));
        for (size_t k = 0; k < COUNT_OF(half_types) && isfinite(f); k++)
            check_rounding(&half_types[k], f);
    }
}

/* ---- threads ---- */

typedef struct tally {
    atomic_int seen[3000];
} tally;

static void count_task(void *arg, size_t index)
{
    atomic_fetch_add(&((tally *)arg)->seen[index], 1);
}

static void check_each_task_once(comet_pool *pool, size_t n_tasks)
{
    static tally t;
    memset(&t, 0, sizeof t);
    comet_pool_run(pool, n_tasks, count_task, &t);
    for (size_t i = 0; i < COUNT_OF(t.seen); i++)
        assert_int_equal(atomic_load(&t.seen[i]), i < n_tasks ? 1 : 0);
}

static void test_pool_runs_each_task_once(void **state)
{
    static const size_t counts[] = {0, 1, 2, 3, 7, 64, 3000};
    for (size_t n_threads = 1; n_threads <= 9; n_threads++) {
        comet_pool *pool = NULL;
        assert_ok(comet_pool_create(&pool, NULL, n_threads));
        assert_int_equal(comet_pool_threads(pool), n_threads);
        for (int round = 0; round < 20; round++)
            check_each_task_once(pool, counts[(size_t)round % COUNT_OF(counts)]);
        comet_pool_destroy(pool);
    }
}

/* A run that begins right after another one must not meet a thread that still works on the old. */
static void test_pool_reuse_in_quick_succession(void **state)
{
    comet_pool *pool = NULL;
    assert_ok(comet_pool_create(&pool, NULL, 4));
    for (int i = 0; i < 3000; i++)
        check_each_task_once(pool, (size_t)i % 5);
    comet_pool_destroy(pool);
}

static void test_pool_limits(void **state)
{
    comet_pool *pool = NULL;
    assert_true(comet_cores() >= 1);
    assert_ok(comet_pool_create(&pool, NULL, 0));
    assert_int_equal(comet_pool_threads(pool), comet_cores());
    comet_pool_destroy(pool);
    pool = NULL;
    assert_status(comet_pool_create(&pool, NULL, 1000000), COMET_ERROR_ARGUMENT);
    assert_null(pool);
    comet_pool_destroy(NULL);
    double before = comet_seconds();
    assert_true(comet_seconds() >= before);
}

static size_t n_hook_runs;

static void counting_run(void *user, size_t n_tasks, void (*task)(void *arg, size_t index), void *arg)
{
    n_hook_runs++;
    parallel_reversed().run(user, n_tasks, task, arg);
}

static void test_pool_uses_the_hook(void **state)
{
    comet_hooks hooks = hooks_with(NULL);
    hooks.parallel.run = counting_run;
    comet_pool *pool = NULL;
    assert_ok(comet_pool_create(&pool, &hooks, 5));
    check_each_task_once(pool, 100);
    check_each_task_once(pool, 1);
    assert_int_equal(n_hook_runs, 2);
    assert_int_equal(comet_pool_threads(pool), 5);
    comet_pool_destroy(pool);
}

/* ---- instruction sets ---- */

/* Must run first: what COMET_MAX_ISA asked for is still in force. */
static void test_isa_cap_from_the_environment(void **state)
{
    const char *wish = getenv("COMET_MAX_ISA");
    comet_isa best = comet_isa_best();
    if (!wish)
        assert_int_equal(comet_isa_active(), best);
    for (int i = COMET_ISA_REFERENCE; wish && i <= COMET_ISA_AVX512; i++)
        if (strcmp(wish, comet_isa_name((comet_isa)i)) == 0)
            assert_true((int)comet_isa_active() <= i);
}

/* Each its own part first, in order, then what the others have left. */
static void test_work_parts(void **state)
{
    static const uint64_t alone[] = {10, 11, 12, 13, 14, 15, 16};
    work_parts w;
    uint64_t k;
    work_parts_init(&w, 10, 17, 3);
    assert_true(work_parts_next(&w, 1, &k) && k == 13);
    assert_true(work_parts_next(&w, 2, &k) && k == 15);
    assert_true(work_parts_next(&w, 2, &k) && k == 16);
    assert_true(work_parts_next(&w, 2, &k) && k == 10);
    assert_true(work_parts_next(&w, 1, &k) && k == 14);
    assert_true(work_parts_next(&w, 0, &k) && k == 11);
    assert_true(work_parts_next(&w, 1, &k) && k == 12);
    for (size_t worker = 0; worker < 4; worker++)
        assert_false(work_parts_next(&w, worker, &k));
    work_parts_init(&w, 10, 17, 0);
    for (size_t i = 0; i < COUNT_OF(alone); i++)
        assert_true(work_parts_next(&w, 5, &k) && k == alone[i]);
    assert_false(work_parts_next(&w, 5, &k));
    work_parts_init(&w, 3, 3, 2);
    assert_false(work_parts_next(&w, 0, &k));
}

typedef struct shared_work {
    work_parts parts;
    atomic_int times[1000];
} shared_work;

static void take_all(void *arg, size_t worker)
{
    shared_work *s = arg;
    uint64_t k;
    while (work_parts_next(&s->parts, worker, &k))
        atomic_fetch_add(&s->times[k], 1);
}

/* More workers than parts, all at once: every piece once. */
static void test_work_parts_are_done_once(void **state)
{
    static const size_t n_workers[] = {1, 3, MAX_WORK_PARTS + 9};
    comet_pool *pool;
    static shared_work work; /* its parts are aligned */
    shared_work *s = &work;
    assert_ok(comet_pool_create(&pool, NULL, 4));
    for (size_t i = 0; i < COUNT_OF(n_workers); i++) {
        memset(s, 0, sizeof *s);
        work_parts_init(&s->parts, 0, COUNT_OF(s->times), n_workers[i]);
        comet_pool_run(pool, n_workers[i], take_all, s);
        for (size_t k = 0; k < COUNT_OF(s->times); k++)
            assert_int_equal(atomic_load(&s->times[k]), 1);
    }
    comet_pool_destroy(pool);
}

static void test_isa_cap(void **state)
{
    comet_isa best = comet_isa_best(), before = comet_isa_active();
    assert_int_equal(comet_isa_set_cap(COMET_ISA_REFERENCE), COMET_ISA_REFERENCE);
    assert_int_equal(comet_isa_active(), COMET_ISA_REFERENCE);
    assert_int_equal(comet_isa_set_cap(best), best);
    for (int i = COMET_ISA_REFERENCE; i <= COMET_ISA_AVX512; i++) {
        comet_isa active = comet_isa_set_cap((comet_isa)i);
        assert_true((int)active <= i && active <= best && active == comet_isa_active());
    }
    assert_int_equal(comet_isa_active(), best);
    if (best > COMET_ISA_NEON) /* a family of another architecture is none of this machine's */
        assert_int_equal(comet_isa_set_cap(COMET_ISA_NEON), COMET_ISA_REFERENCE);
    comet_isa_set_cap(before);
    assert_string_equal(comet_isa_name(COMET_ISA_REFERENCE), "reference");
    assert_string_equal(comet_isa_name(COMET_ISA_NEON), "neon");
    assert_string_equal(comet_isa_name(COMET_ISA_AVX2), "avx2");
    assert_string_equal(comet_isa_name(COMET_ISA_AVX512), "avx512");
    assert_string_equal(comet_isa_name((comet_isa)77), "unknown");
}

/* "That this build holds": a family that was not compiled in must not be offered. */
static void test_isa_best_is_compiled_in(void **state)
{
    comet_isa held[] = {
        COMET_ISA_REFERENCE,
#ifdef COMET_HAVE_NEON
        COMET_ISA_NEON,
#endif
#ifdef COMET_HAVE_AVX2
        COMET_ISA_AVX2,
#endif
#ifdef COMET_HAVE_AVX512
        COMET_ISA_AVX512,
#endif
    };
    bool found = false;
    for (size_t i = 0; i < COUNT_OF(held); i++)
        found = found || held[i] == comet_isa_best();
    assert_true(found);
}

/* ---- structs of figures ---- */

typedef struct figures {
    size_t size;
    uint64_t a, b;
} figures;

static void test_give_writes_no_more_than_the_caller_has(void **state)
{
    const figures from = {.size = 77, .a = 1, .b = 2};
    figures to = {.size = sizeof to, .a = 9, .b = 9};
    assert_ok(GIVE(figures, &to, &from));
    assert_true(to.size == sizeof to && to.a == 1 && to.b == 2);
    to = (figures){.size = offsetof(figures, b), .a = 9, .b = 9}; /* of a program that does not know b */
    assert_ok(GIVE(figures, &to, &from));
    assert_true(to.size == offsetof(figures, b) && to.a == 1 && to.b == 9);
    static const size_t wrong[] = {0, 1, sizeof(size_t), sizeof(figures) + 1, SIZE_MAX};
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        to = (figures){.size = wrong[i], .a = 9, .b = 9};
        assert_status(GIVE(figures, &to, &from), COMET_ERROR_ARGUMENT);
        assert_non_null(strstr(comet_last_error(), "figures_init"));
        assert_true(to.size == wrong[i] && to.a == 9 && to.b == 9);
    }
    assert_status(GIVE(figures, NULL, &from), COMET_ERROR_ARGUMENT);
}

/* ---- the machine ---- */

static void test_memory_of_the_machine(void **state)
{
    const size_t bytes = 48 << 20;
    comet_memory_limit resident, address;
    comet_memory_limit_init(&resident);
    comet_memory_limit_init(&address);
    assert_ok(comet_memory_resident_limit(&resident));
    assert_ok(comet_memory_address_limit(&address));
    assert_true(resident.bytes > 0 && resident.used > 0 && address.used >= resident.used);
    assert_true(comet_memory_available() <= address.bytes);
    assert_true(comet_program_rss() < resident.used + (1 << 20)); /* the kernel's count of `used` may be some pages old */
    const uint64_t before = comet_peak_rss(), used = resident.used;
    char *touched = need_malloc(bytes);
    for (size_t i = 0; i < bytes; i += 4096)
        ((volatile char *)touched)[i] = 1;
    assert_ok(comet_memory_resident_limit(&resident));
    assert_true(resident.used >= used + bytes - (1 << 20) && comet_peak_rss() >= before + bytes / 2);
    assert_true(comet_peak_address_space() >= resident.used);
    free(touched);
    resident.size = 0;
    assert_status(comet_memory_resident_limit(&resident), COMET_ERROR_ARGUMENT);
    assert_status(comet_memory_address_limit(NULL), COMET_ERROR_ARGUMENT);
}

static void test_address_limit_follows_ulimit(void **state)
{
    struct rlimit saved, lower;
    comet_memory_limit limit;
    comet_memory_limit_init(&limit);
    assert_int_equal(getrlimit(RLIMIT_AS, &saved), 0);
    assert_ok(comet_memory_address_limit(&limit));
    lower = saved;
    lower.rlim_cur = limit.used + ((rlim_t)64 << 20);
    assert_int_equal(setrlimit(RLIMIT_AS, &lower), 0);
    assert_ok(comet_memory_address_limit(&limit));
    assert_int_equal(setrlimit(RLIMIT_AS, &saved), 0);
    assert_string_equal(limit.name, "ulimit -v");
    assert_true(limit.bytes + limit.used == lower.rlim_cur);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_isa_cap_from_the_environment),
        cmocka_unit_test(test_isa_cap),
        cmocka_unit_test(test_isa_best_is_compiled_in),
        cmocka_unit_test(test_status_names),
        cmocka_unit_test(test_last_error_belongs_to_a_thread),
        cmocka_unit_test(test_last_error_is_cut_not_overrun),
        cmocka_unit_test(test_checksum_known_values),
        cmocka_unit_test(test_checksum_sees_every_bit),
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_allocation),
        cmocka_unit_test(test_buffers),
        cmocka_unit_test(test_half_to_float_and_back),
        cmocka_unit_test(test_half_rounds_to_nearest_even),
        cmocka_unit_test(test_half_overflow_and_random_floats),
        cmocka_unit_test(test_pool_runs_each_task_once),
        cmocka_unit_test(test_pool_reuse_in_quick_succession),
        cmocka_unit_test(test_pool_limits),
        cmocka_unit_test(test_pool_uses_the_hook),
        cmocka_unit_test(test_work_parts),
        cmocka_unit_test(test_work_parts_are_done_once),
        cmocka_unit_test(test_give_writes_no_more_than_the_caller_has),
        cmocka_unit_test(test_memory_of_the_machine),
        cmocka_unit_test(test_address_limit_follows_ulimit),
    };
    return cmocka_run_group_tests_name("base", tests, NULL, NULL);
}
