/* Whole runs through the library: what events come and in which order, stopping and going on, divergence, refusals. */
#include "testing.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "comet/train.h"
#include "train/files/checkpoint.h"
#include "train/files/safetensors.h"
#include "train/math/loss_watch.h"

#include "describing.h"
#include "tiny_net.h"
#include "training.h"

static char folder[256];

typedef struct observed {
    size_t n_test, n_timeline;
    uint64_t traced[4];
    size_t n_start, n_step, n_epoch, n_end, n_note, n_saved, n_failed;
    uint64_t stop_at; /* step that sets the flag; 0: none */
    uint64_t full_at; /* step from which on files are limited to full_bytes; 0: none */
    uint64_t full_bytes;
    bool stop_when_saved; /* sets the flag with the first checkpoint */
    size_t n_rates;
    double rates[128];
    char order[64]; /* of events: s, checkpoint; e, epoch */
    volatile sig_atomic_t stop;
    comet_train_event end;
    double last_loss;
    char notes[1024];
} observed;

static void limit_files(rlim_t bytes)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void on_event(void *user, const comet_train_event *e)
{
    observed *o = user;
    assert_non_null(e->model);
    assert_true(e->step <= e->n_steps && e->epoch <= e->n_epochs && e->train_seconds <= e->seconds);
    switch (e->kind) {
    case COMET_EVENT_START: o->n_start++; break;
    case COMET_EVENT_STEP:
        assert_int_equal(o->n_start, 1);
        assert_true(isfinite(e->train_loss) && e->train_top1 >= 0 && e->train_top1 <= 1 && e->rate >= 0);
        o->n_step++;
        o->last_loss = e->train_loss;
        o->stop = o->stop_at > 0 && e->step == o->stop_at;
        if (o->full_at > 0 && e->step == o->full_at)
            limit_files(o->full_bytes);
        break;
    case COMET_EVENT_ASSESS: assert_true(compression_of(e->model).n_assessments > 0); break;
    case COMET_EVENT_EPOCH:
        o->n_epoch++;
        strncat(o->order, "e", sizeof o->order - strlen(o->order) - 1);
        break;
    case COMET_EVENT_CHECKPOINT:
        e->checkpoint_ok ? o->n_saved++ : o->n_failed++;
        strncat(o->order, "s", sizeof o->order - strlen(o->order) - 1);
        o->stop = o->stop || o->stop_when_saved;
        break;
    case COMET_EVENT_RATE:
        assert_true(o->n_rates < COUNT_OF(o->rates) && e->step == o->n_rates + 1);
        o->rates[o->n_rates++] = e->rate;
        o->stop = o->stop_at > 0 && e->step == o->stop_at;
        break;
    case COMET_EVENT_NOTE:
        o->n_note++;
        snprintf(o->notes + strlen(o->notes), sizeof o->notes - strlen(o->notes), "%s\n", e->text);
        break;
    case COMET_EVENT_TEST:
        assert_true(e->n_tested > 0 && e->n_tested <= e->n_to_test && e->n_to_test == 11);
        o->n_test++;
        break;
    case COMET_EVENT_TIMELINE: {
        comet_trace_point point = {.size = sizeof point};
        assert_ok(comet_model_describe_trace(e->model, 0, &point));
        assert_true(o->n_timeline < COUNT_OF(o->traced));
        o->traced[o->n_timeline++] = e->step;
        break;
    }
    case COMET_EVENT_END: o->n_end++, o->end = *e; break;
    }
}

typedef struct setting {
    comet_net *net;
    comet_dataset *train, *test;
    comet_train_params p;
    observed o;
} setting;

static void open_setting(setting *s, const char *net)
{
    comet_dataset_params d;
    memset(s, 0, sizeof *s);
    comet_dataset_params_init(&d);
    d.image = 8;
    d.classes = 4;
    d.n_images = 50;
    assert_ok(comet_net_read(&s->net, "text", net, strlen(net)));
    assert_ok(comet_dataset_open(&s->train, "synthetic", &d));
    d.split = COMET_SPLIT_TEST;
    d.n_images = 11;
    assert_ok(comet_dataset_open(&s->test, "synthetic", &d));
    comet_train_params_init(&s->p);
    s->p.net = s->net;
    s->p.train_data = s->train;
    s->p.test_data = s->test;
    s->p.model.batch = 8;
    s->p.model.n_threads = 1;
    s->p.loader_threads = 1;
    s->p.epochs = 2;
    s->p.event = on_event;
    s->p.user = &s->o;
    s->p.stop = &s->o.stop;
}

static void close_setting(setting *s)
{
    comet_dataset_close(s->test);
    comet_dataset_close(s->train);
    comet_net_destroy(s->net);
}

static int set_up(void **state)
{
    const char *base = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/comet-trainer.XXXXXX", base ? base : "/tmp");
    signal(SIGXFSZ, SIG_IGN);
    return mkdtemp(folder) ? 0 : 1;
}

static int empty(void **state)
{
    checkpoint_clear(folder);
    return 0;
}

static int tear_down(void **state)
{
    char lock[300];
    snprintf(lock, sizeof lock, "%s/.lock", folder);
    unlink(lock);
    return rmdir(folder);
}

static void test_events(void **state)
{
    setting s;
    comet_train_result result = {.size = sizeof result};
    open_setting(&s, TINY_NET);
    s.p.out = folder;
    s.p.save_steps = 4;
    assert_ok(comet_train_run(&s.p, &result));
    assert_int_equal(s.o.n_step, 12); /* 50 images are 6 batches */
    assert_int_equal(s.o.n_epoch, 2);
    assert_int_equal(s.o.n_end, 1);
    assert_int_equal(s.o.n_failed, 0);
    assert_true(s.o.n_saved >= 4); /* steps 4 and 8, two epochs, at least one best */
    assert_false(result.stopped);
    assert_int_equal(result.last.step, 12);
    assert_null(result.last.model);
    assert_true(result.last.test_top5 == 1 || result.last.test_top5 <= 1);
    assert_true(result.last.best_top1 >= result.last.test_top1);
    assert_true(result.last.peak_rss_bytes > 0 && result.last.images_per_s > 0);
    assert_true(s.o.n_test >= 2); /* evaluations */
    assert_true(result.last.process_seconds == result.last.seconds && result.last.wait_seconds <= result.last.train_seconds);
    assert_int_equal(s.o.n_timeline, 3);
    assert_true(s.o.traced[0] == 1 && s.o.traced[1] == 6 && s.o.traced[2] == 12);
    close_setting(&s);
}

/* The step in the metadata of a checkpoint. */
static uint64_t step_of(const char *name)
{
    char path[300];
    safetensors_file *file = NULL;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_ok(safetensors_open(&file, path));
    const char *key = "\"step\":\"", *at = strstr(safetensors_metadata(file, "comet"), key);
    assert_non_null(at);
    const uint64_t step = strtoull(at + strlen(key), NULL, 10);
    safetensors_close(file);
    return step;
}

/* An evaluation may be long: what was learnt is saved before it, and its scores after it. */
static void test_saved_before_evaluation(void **state)
{
    setting s;
    comet_train_result whole = {.size = sizeof whole}, part = {.size = sizeof part};
    open_setting(&s, TINY_NET);
    s.p.out = folder;
    assert_ok(comet_train_run(&s.p, &whole));
    assert_true(strncmp(s.o.order, "sess", 4) == 0); /* the second of the three is the best so far */
    assert_int_equal(step_of("last.safetensors"), 12);
    assert_int_equal(step_of("previous.safetensors"), 6); /* not the same step again */
    checkpoint_clear(folder);
    s.o = (observed){.stop_when_saved = true};
    assert_ok(comet_train_run(&s.p, &part));
    assert_true(part.stopped);
    assert_string_equal(s.o.order, "s");
    assert_int_equal(step_of("last.safetensors"), 6);
    s.o = (observed){0};
    s.p.resume = true;
    assert_ok(comet_train_run(&s.p, &part));
    assert_true(s.o.order[0] == 'e'); /* the evaluation comes again, the file need not */
    assert_memory_equal(&part.last.test_loss, &whole.last.test_loss, sizeof(double));
    assert_memory_equal(&part.last.best_top1, &whole.last.best_top1, sizeof(double));
    close_setting(&s);
}

static void test_loss_watch(void **state)
{
    loss_watch w = loss_watch_begin();
    for (uint64_t i = 0; i < 10; i++)
        loss_watch_add(&w, i, 2 + 0.1 * (double)i);
    assert_near(w.start, 2.45, 1e-12);
    assert_true(isnan(w.lowest));
    for (uint64_t i = 10; i < 50; i++)
        loss_watch_add(&w, i, 2.5);
    assert_near(w.lowest, 2.455, 1e-12);
    assert_true(loss_watch_never_fell(&w, 50));
    assert_false(loss_watch_never_fell(&w, 49)); /* too short to tell */
    loss_watch_add(&w, 50, 1.9);
    assert_false(loss_watch_never_fell(&w, 51));
    assert_true(loss_watch_only_guesses(&w, 51, 4)); /* a guess among four has 1.386 */
    assert_false(loss_watch_only_guesses(&w, 49, 4));
    assert_false(loss_watch_only_guesses(&w, 51, 12)); /* among twelve 2.485 */
    w = loss_watch_begin();                            /* a checkpoint that does not know */
    loss_watch_add(&w, 50, 1.9);
    assert_false(loss_watch_never_fell(&w, 51) || loss_watch_only_guesses(&w, 51, 4));
}

/* Ended in one go, or stopped and resumed in the middle of its start. */
static void test_never_fell(void **state)
{
    for (int rate = 0; rate < 3; rate++) {
        static const double rates[] = {0.02, 3, 0};
        setting s;
        comet_train_result whole = {.size = sizeof whole}, part = {.size = sizeof part};
        open_setting(&s, TINY_NET);
        s.p.out = folder;
        s.p.epochs = 9;
        s.p.model.optimiser.weight_decay = 0;
        comet_schedule_init(&s.p.schedule, COMET_SCHEDULE_CONSTANT, rates[rate]);
        checkpoint_clear(folder);
        assert_ok(comet_train_run(&s.p, &whole));
        assert_int_equal(whole.never_fell, rates[rate] == 3);
        assert_true(whole.last.start_loss > 0 && whole.last.lowest_loss > 0);
        checkpoint_clear(folder);
        s.o = (observed){.stop_at = 5};
        assert_ok(comet_train_run(&s.p, &part));
        assert_false(part.never_fell);
        s.o = (observed){0};
        s.p.resume = true;
        assert_ok(comet_train_run(&s.p, &part));
        assert_int_equal(part.never_fell, whole.never_fell);
        assert_memory_equal(&part.last.start_loss, &whole.last.start_loss, sizeof(double));
        assert_memory_equal(&part.last.lowest_loss, &whole.last.lowest_loss, sizeof(double));
        close_setting(&s);
    }
}

static void test_rate_search(void **state)
{
    setting s;
    comet_rate_search first = {.size = sizeof first}, second = {.size = sizeof second};
    open_setting(&s, TINY_NET);
    s.p.model.batch = 50;
    assert_ok(comet_rate_find(&s.p, &first));
    const double usual = comet_default_rate(s.net, COMET_OPTIMISER_SGD, 50, 100);
    assert_true(first.found && first.n_steps == s.o.n_rates && first.n_steps >= 20);
    assert_near(s.o.rates[0], usual / 30, usual * 1e-9);
    for (size_t i = 2; i < s.o.n_rates; i++)
        assert_near(s.o.rates[i] / s.o.rates[i - 1], pow(900, 1.0 / 99), 1e-9);
    assert_near(first.rate, first.rate_at_lowest, 0.005 * first.rate); /* three digits of it */
    assert_true(first.rate_at_lowest >= s.o.rates[10]);
    assert_true(first.lowest_loss < first.start_loss);
    s.o = (observed){0};
    s.p.model.accumulate = 1; /* the same, said otherwise */
    assert_ok(comet_rate_find(&s.p, &second));
    assert_memory_equal(&first.rate, &second.rate, sizeof(double));
    s.o = (observed){.stop_at = 30};
    assert_ok(comet_rate_find(&s.p, &second));
    assert_int_equal(s.o.n_rates, 30);
    assert_false(second.found);
    assert_near(second.rate, usual, 0);
    close_setting(&s);
}

/* 6 batches an epoch, 4 an update: 2 are dropped, and the next epoch begins where it should. */
static void test_accumulate(void **state)
{
    setting s;
    comet_train_result result = {.size = sizeof result};
    open_setting(&s, TINY_NET);
    s.p.model.accumulate = 4;
    s.p.epochs = 3;
    s.p.test_data = NULL;
    assert_ok(comet_train_run(&s.p, &result));
    assert_int_equal(s.o.n_step, 3);
    assert_int_equal(result.last.epoch, 3);
    assert_true(isnan(result.last.test_top1) && isnan(result.last.best_top1));
    close_setting(&s);
}

/* Stopped after each step in turn, then resumed: the end is the same. */
static void check_stop_and_resume(comet_compress_mode mode, comet_precision precision)
{
    comet_train_result whole = {.size = sizeof whole}, part = {.size = sizeof part};
    double expected = 0;
    for (uint64_t stop_at = 0; stop_at <= 12; stop_at++) {
        setting s;
        open_setting(&s, TINY_NET);
        s.p.out = folder;
        s.p.model.compression.mode = mode;
        s.p.model.precision = precision;
        s.p.model.force_precision = true;
        s.o.stop_at = stop_at;
        checkpoint_clear(folder);
        assert_ok(comet_train_run(&s.p, &part));
        if (stop_at == 0) {
            whole = part;
            expected = s.o.last_loss;
        } else {
            assert_true(part.stopped);
            assert_int_equal(part.last.step, stop_at);
            s.o = (observed){0};
            s.p.resume = true;
            assert_ok(comet_train_run(&s.p, &part));
            assert_int_equal(s.o.n_step, 12 - stop_at);
            assert_null(strstr(s.o.notes, "not as before"));
            if (stop_at < 12)
                assert_memory_equal(&s.o.last_loss, &expected, sizeof expected);
            assert_memory_equal(&part.last.test_loss, &whole.last.test_loss, sizeof(double));
            assert_memory_equal(&part.last.train_loss, &whole.last.train_loss, sizeof(double));
            assert_memory_equal(&part.last.best_top1, &whole.last.best_top1, sizeof(double));
        }
        close_setting(&s);
    }
}

static void test_stop_and_resume(void **state)
{
    check_stop_and_resume(COMET_COMPRESS_OFF, COMET_PRECISION_F32);
}

static void test_stop_and_resume_bounded(void **state)
{
    check_stop_and_resume(COMET_COMPRESS_FAST, COMET_PRECISION_F32);
    check_stop_and_resume(COMET_COMPRESS_AUTO, COMET_PRECISION_F32);
    check_stop_and_resume(COMET_COMPRESS_FAST, coarsest_precision());
}

/* Few weights and a large activation after a batch norm, whose statistics have moved when the disk is full. */
static const char wide_net[] = "net wide\ninput 3 8 8\nc1 = conv out=4 kernel=1 bias=no\nb1 = batch_norm\nr1 = relu\n"
                               "c2 = conv out=192 kernel=1 bias=no\nb2 = batch_norm\nr2 = relu\n"
                               "c3 = conv out=4 kernel=1\navg = global_avg_pool\nflat = flatten\nfc = linear out=4\n";

static void open_spilling(setting *s, uint64_t full_at)
{
    open_setting(s, wide_net);
    s->p.out = folder;
    s->p.model.batch = 25;
    s->p.epochs = 5;
    s->p.model.compression.mode = COMET_COMPRESS_FAST;
    s->p.model.compression.spill_folder = folder;
    s->o.full_at = full_at;
    s->o.full_bytes = 30000;
}

/* A disk that fills stops the run with a checkpoint of the last update, from which it goes on as if nothing had been. */
static void test_full_spill_disk(void **state)
{
    comet_train_result whole = {.size = sizeof whole}, part = {.size = sizeof part};
    for (uint64_t full_at = 0; full_at <= 6; full_at += 2) {
        setting s;
        open_spilling(&s, full_at);
        checkpoint_clear(folder);
        if (full_at == 0) {
            assert_ok(comet_train_run(&s.p, &whole));
        } else {
            char words[64];
            snprintf(words, sizeof words, "last.safetensors holds step %u", (unsigned)full_at);
            const comet_status status = comet_train_run(&s.p, &part);
            limit_files(RLIM_INFINITY);
            assert_status(status, COMET_ERROR_IO);
            assert_non_null(strstr(comet_last_error(), "could not spill"));
            assert_non_null(strstr(comet_last_error(), words));
            assert_int_equal(s.o.n_failed, 0);
            s.o = (observed){0};
            s.p.resume = true;
            assert_ok(comet_train_run(&s.p, &part));
            assert_int_equal(s.o.n_step, 10 - full_at);
            assert_memory_equal(&part.last.train_loss, &whole.last.train_loss, sizeof(double));
            assert_memory_equal(&part.last.test_loss, &whole.last.test_loss, sizeof(double));
        }
        close_setting(&s);
    }
}

/* Half a run, then `change` and the rest. */
static comet_status resume_with(setting *s, void (*change)(comet_train_params *p))
{
    comet_train_result result = {.size = sizeof result};
    s->p.out = folder;
    s->o.stop_at = 3;
    checkpoint_clear(folder);
    assert_ok(comet_train_run(&s->p, &result));
    s->o = (observed){0};
    s->p.resume = true;
    change(&s->p);
    return comet_train_run(&s->p, &result);
}

static void other_kernels(comet_train_params *p)
{
    p->model.convolutions = COMET_CONVOLUTIONS_DIRECT;
    p->model.no_recompute = true;
}

static void other_precision(comet_train_params *p)
{
    p->model.precision = COMET_PRECISION_BF16;
    p->model.force_precision = true;
}

static void other_bounds(comet_train_params *p)
{
    p->model.compression.mode = COMET_COMPRESS_FAST;
}

static comet_dataset *other_data;

static void other_world(comet_train_params *p)
{
    p->train_data = other_data;
}

static void test_resume_with_changes(void **state)
{
    setting s;
    comet_dataset_params d;
    open_setting(&s, TINY_NET);
    assert_ok(resume_with(&s, other_kernels));
    assert_non_null(strstr(s.o.notes, "not as before: convolutions, recompute;"));
    close_setting(&s);
    if (coarsest_precision() == COMET_PRECISION_BF16) {
        open_setting(&s, TINY_NET);
        assert_ok(resume_with(&s, other_precision));
        assert_non_null(strstr(s.o.notes, "not as before: precision;"));
        close_setting(&s);
    }
    open_setting(&s, TINY_NET);
    assert_ok(resume_with(&s, other_bounds));
    assert_non_null(strstr(s.o.notes, "not as before: compress, noise, window, bounds;"));
    close_setting(&s);
    open_setting(&s, TINY_NET);
    comet_dataset_params_init(&d);
    d.image = 8;
    d.classes = 4;
    d.n_images = 50;
    d.seed = 1; /* as many images of the same shape and labels, but others */
    assert_ok(comet_dataset_open(&other_data, "synthetic", &d));
    assert_status(resume_with(&s, other_world), COMET_ERROR_CORRUPT);
    assert_non_null(strstr(comet_last_error(), "the run has other data than this checkpoint"));
    comet_dataset_close(other_data);
    close_setting(&s);
}

static void test_diverged(void **state)
{
    setting s;
    comet_train_result result = {.size = sizeof result};
    open_setting(&s, TINY_NET);
    comet_schedule_init(&s.p.schedule, COMET_SCHEDULE_CONSTANT, 1e30);
    s.p.out = folder;
    s.p.save_steps = 1;
    assert_status(comet_train_run(&s.p, &result), COMET_ERROR_DIVERGED);
    assert_non_null(strstr(comet_last_error(), "at step "));
    assert_non_null(strstr(comet_last_error(), "layer '"));
    assert_int_equal(s.o.n_end, 0);
    close_setting(&s);
}

static void expect_refusal(const char *net, void (*change)(comet_train_params *p), const char *words)
{
    setting s;
    comet_train_result result = {.size = sizeof result};
    open_setting(&s, net);
    if (change)
        change(&s.p);
    assert_status(comet_train_run(&s.p, &result), COMET_ERROR_ARGUMENT);
    if (!strstr(comet_last_error(), words))
        fail_because("'%s' lacks '%s'", comet_last_error(), words);
    assert_int_equal(s.o.n_start, 0);
    close_setting(&s);
}

#define CHANGE(name, statements)            \
    static void name(comet_train_params *p) \
    {                                       \
        statements;                         \
    }
CHANGE(no_net, p->net = NULL)
CHANGE(no_batch, p->model.batch = 0)
CHANGE(large_batch, p->model.batch = 51)
CHANGE(many_accumulated, p->model.accumulate = 65537)
CHANGE(no_epochs, p->epochs = 0)
CHANGE(resume_nowhere, p->resume = true)
CHANGE(patience_without_test, p->patience = 1; p->test_data = NULL)
CHANGE(not_filled, p->size = 0)
CHANGE(no_rate, p->schedule.rate = NAN)
CHANGE(odd_schedule, p->schedule.kind = (comet_schedule_kind)9)
CHANGE(steps_of_nothing, p->schedule.kind = COMET_SCHEDULE_STEP; p->schedule.every = 0)
CHANGE(growing_steps, p->schedule.kind = COMET_SCHEDULE_STEP; p->schedule.factor = 1.5)
CHANGE(negative_share, p->schedule.kind = COMET_SCHEDULE_COSINE; p->schedule.final_share = -0.1)
CHANGE(endless_warmup, p->schedule.kind = COMET_SCHEDULE_COSINE; p->schedule.warmup_epochs = INFINITY)
CHANGE(odd_optimiser, p->model.optimiser.kind = (comet_optimiser_kind)9)
CHANGE(large_momentum, p->model.optimiser.momentum = 1)
CHANGE(endless_decay, p->model.optimiser.weight_decay = INFINITY)
CHANGE(clip_to_nan, p->model.optimiser.clip_norm = NAN)
CHANGE(large_beta1, comet_optimiser_init(&p->model.optimiser, COMET_OPTIMISER_ADAMW); p->model.optimiser.beta1 = 1)
CHANGE(negative_beta2, comet_optimiser_init(&p->model.optimiser, COMET_OPTIMISER_ADAMW); p->model.optimiser.beta2 = -0.1)
CHANGE(no_eps, comet_optimiser_init(&p->model.optimiser, COMET_OPTIMISER_ADAMW); p->model.optimiser.eps = 1e-50)

static void test_refusals(void **state)
{
    expect_refusal(TINY_NET, no_net, "needs a net");
    expect_refusal(TINY_NET, large_batch, "50 images, fewer than one step takes");
    expect_refusal(TINY_NET, resume_nowhere, "folder of the checkpoints");
    expect_refusal(TINY_NET, patience_without_test, "needs test data");
    expect_refusal(TINY_NET, not_filled, "comet_train_params_init");
    expect_refusal("net n\ninput 3 9 8\nf = flatten\nfc = linear out=4\n", NULL, "3 x 9 x 8, the training data has 3 x 8 x 8");
    expect_refusal("net n\ninput 3 8 8\nf = flatten\nfc = linear out=3\n", NULL, "has 4 classes");
}

static void test_ranges(void **state)
{
    expect_refusal(TINY_NET, no_batch, "the batch is 0");
    expect_refusal(TINY_NET, many_accumulated, "accumulate is 65537");
    expect_refusal(TINY_NET, no_epochs, "epochs is 0");
    expect_refusal(TINY_NET, no_rate, "the rate is nan");
    expect_refusal(TINY_NET, odd_schedule, "schedule 9 is of no known kind");
    expect_refusal(TINY_NET, steps_of_nothing, "every is 0 epochs");
    expect_refusal(TINY_NET, growing_steps, "factor is 1.5");
    expect_refusal(TINY_NET, negative_share, "final_share is -0.1");
    expect_refusal(TINY_NET, endless_warmup, "the warm-up is inf epochs");
    expect_refusal(TINY_NET, odd_optimiser, "optimiser 9 is of no known kind");
    expect_refusal(TINY_NET, large_momentum, "the momentum is 1");
    expect_refusal(TINY_NET, endless_decay, "the weight decay is inf");
    expect_refusal(TINY_NET, clip_to_nan, "the norm to clip to is nan");
    expect_refusal(TINY_NET, large_beta1, "beta1 is 1;");
    expect_refusal(TINY_NET, negative_beta2, "beta2 is -0.1");
    expect_refusal(TINY_NET, no_eps, "eps is 1e-50");
}

/* Data that is mapped is no part of the program's own pages, whatever of it is resident. */
static void test_program_rss(void **state)
{
    enum { BYTES = 32 << 20 };
    (void)state;
    char path[300];
    snprintf(path, sizeof path, "%s/mapped", folder);
    FILE *file = fopen(path, "w+e");
    assert_non_null(file);
    unlink(path);
    assert_int_equal(ftruncate(fileno(file), BYTES), 0);
    const uint64_t before = comet_program_rss();
    void *mapped = mmap(NULL, BYTES, PROT_READ, MAP_SHARED, fileno(file), 0);
    assert_true(mapped != MAP_FAILED);
    const volatile unsigned char *data = mapped;
    unsigned sum = 0;
    for (size_t i = 0; i < BYTES; i += 4096)
        sum += data[i];
    const uint64_t after = comet_program_rss();
    assert_int_equal(sum, 0);
    assert_true(before > (1 << 20) && after < before + BYTES / 4);
    munmap(mapped, BYTES);
    fclose(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_events, empty),
        cmocka_unit_test_teardown(test_saved_before_evaluation, empty),
        cmocka_unit_test(test_loss_watch),
        cmocka_unit_test_teardown(test_never_fell, empty),
        cmocka_unit_test(test_rate_search),
        cmocka_unit_test_teardown(test_accumulate, empty),
        cmocka_unit_test_teardown(test_stop_and_resume, empty),
        cmocka_unit_test_teardown(test_stop_and_resume_bounded, empty),
        cmocka_unit_test_teardown(test_full_spill_disk, empty),
        cmocka_unit_test_teardown(test_resume_with_changes, empty),
        cmocka_unit_test_teardown(test_diverged, empty),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_program_rss),
        cmocka_unit_test(test_ranges),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
