/* The choice of a number of threads: by a clock of the test's own, and by timed steps that leave no trace. */
#include <math.h>

#include "base/status.h"
#include "base/threads.h"
#include "tiny_net.h"
#include "train/run/thread_choice.h"
#include "training.h"

enum { MOST = 64 };

/* A clock whose steps take seconds[n] with n threads. */
typedef struct fake {
    double seconds[MOST + 1];
    uint32_t asked[MOST];
    size_t n_asked, fails_at; /* the fails_at-th question, from 1 */
} fake;

static comet_status fake_time(void *user, uint32_t n_threads, double *seconds)
{
    fake *f = user;
    f->asked[f->n_asked++] = n_threads;
    if (f->n_asked == f->fails_at)
        return comet_fail(COMET_ERROR_MEMORY, "could not allocate %d bytes", 12);
    *seconds = f->seconds[n_threads];
    return COMET_OK;
}

static void check(uint32_t n_cores, fake f, uint32_t expected, size_t n_asked, const uint32_t *asked)
{
    comet_thread_choice c;
    comet_thread_choice_init(&c);
    assert_ok(thread_choice_search(n_cores, fake_time, &f, &c));
    assert_int_equal(c.n_threads, expected);
    assert_near(c.seconds, f.seconds[expected], 0);
    assert_near(c.seconds_all, f.seconds[n_cores], 0);
    assert_int_equal(f.n_asked, n_asked);
    for (size_t i = 0; i < n_asked; i++)
        assert_int_equal(f.asked[i], asked[i]);
}

static void test_search(void **state)
{
    (void)state;
    /* Two threads are faster, or hardly slower: both cores. */
    check(2, (fake){.seconds = {[1] = 1.0, [2] = 0.7}}, 2, 2, (const uint32_t[]){2, 1});
    check(2, (fake){.seconds = {[1] = 0.985, [2] = 1.0}}, 2, 2, (const uint32_t[]){2, 1});
    check(2, (fake){.seconds = {[1] = 1.0, [2] = 1.0}}, 2, 2, (const uint32_t[]){2, 1});
    /* One is clearly faster. */
    check(2, (fake){.seconds = {[1] = 0.975, [2] = 1.0}}, 1, 2, (const uint32_t[]){2, 1});
    /* One core less is tried first; the search ends where fewer threads are no longer faster. */
    check(4, (fake){.seconds = {[1] = 0.1, [2] = 0.8, [3] = 0.7, [4] = 1.0}}, 3, 3, (const uint32_t[]){4, 3, 2});
    check(3, (fake){.seconds = {[1] = 0.5, [2] = 0.7, [3] = 1.0}}, 1, 3, (const uint32_t[]){3, 2, 1});
    check(8, (fake){.seconds = {[1] = 2, [2] = 0.5, [4] = 0.6, [7] = 0.9, [8] = 1.0}}, 2, 5, (const uint32_t[]){8, 7, 4, 2, 1});
    /* Small gains add up. */
    check(4, (fake){.seconds = {[1] = 0.97, [2] = 0.94, [3] = 0.97, [4] = 1.0}}, 2, 4, (const uint32_t[]){4, 3, 2, 1});
}

/* A step that fails ends the search, and its reason is returned. */
static void test_failing_clock(void **state)
{
    (void)state;
    for (size_t at = 1; at <= 2; at++) {
        comet_thread_choice c;
        fake f = {.seconds = {[1] = 1, [2] = 2}, .fails_at = at};
        comet_thread_choice_init(&c);
        assert_status(thread_choice_search(2, fake_time, &f, &c), COMET_ERROR_MEMORY);
        assert_int_equal(f.n_asked, at);
    }
}

typedef struct setting {
    comet_net *net;
    comet_dataset *data;
    comet_train_params p;
} setting;

static void open_setting(setting *s)
{
    s->net = net_of(TINY_NET);
    s->data = data_for(s->net, 200);
    s->p = run_on(s->net, s->data, 20);
    s->p.max_steps = 5;
    s->p.schedule.rate = 0.01;
}

static void close_setting(setting *s)
{
    comet_dataset_close(s->data);
    comet_net_destroy(s->net);
}

static double final_loss(const setting *s)
{
    comet_train_result result;
    comet_train_result_init(&result);
    assert_ok(comet_train_run(&s->p, &result));
    return result.last.train_loss;
}

/* Runs before and after a trial have the same bits, with fused updates and without. */
static void test_trial_leaves_no_trace(void **state)
{
    (void)state;
    for (int fused = 0; fused < 2; fused++) {
        setting s;
        comet_thread_choice c;
        comet_thread_choice_init(&c);
        open_setting(&s);
        s.p.model.fused_update = fused;
        const double before = final_loss(&s);
        const comet_train_params params = s.p;
        assert_ok(thread_choice_by_trial(&s.p, 2, &c));
        assert_true(c.timed && c.seconds > 0 && c.seconds <= c.seconds_all);
        assert_true(c.n_threads == 1 || c.n_threads == 2);
        assert_memory_equal(&params, &s.p, sizeof params);
        const double after = final_loss(&s);
        assert_memory_equal(&before, &after, sizeof before);
        close_setting(&s);
    }
}

/* Runs of a few steps are not worth a trial: one thread per core. */
static void test_short_run(void **state)
{
    setting s;
    comet_thread_choice c;
    (void)state;
    comet_thread_choice_init(&c);
    open_setting(&s);
    assert_ok(comet_threads_choose(&s.p, &c));
    assert_false(c.timed);
    assert_int_equal(c.n_threads, comet_cores());
    s.p.model.batch = 0;
    assert_status(comet_threads_choose(&s.p, &c), COMET_ERROR_ARGUMENT);
    s.p.model.batch = 20;
    c.size = 0;
    assert_status(comet_threads_choose(&s.p, &c), COMET_ERROR_ARGUMENT);
    close_setting(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_search),
        cmocka_unit_test(test_failing_clock),
        cmocka_unit_test(test_trial_leaves_no_trace),
        cmocka_unit_test(test_short_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
