/* The choice of convolutions: as text, by a clock of the test's own, by a trial, and in runs that stop and go on. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/status.h"
#include "train/files/checkpoint.h"
#include "train/graph/conv_choices.h"
#include "train/graph/graph.h"
#include "train/run/convolution_choice.h"
#include "training.h"

/* conv1 has no choice, conv2 and conv3 have the same kernels. */
#define NET                                        \
    "net few\n"                                    \
    "input 3 12 12\n"                              \
    "conv1 = conv out=16 kernel=3 pad=1 bias=no\n" \
    "bn1 = batch_norm\n"                           \
    "relu1 = relu\n"                               \
    "conv2 = conv out=16 kernel=3 pad=1 bias=no\n" \
    "bn2 = batch_norm\n"                           \
    "relu2 = relu\n"                               \
    "conv3 = conv out=16 kernel=3 pad=1 bias=no\n" \
    "bn3 = batch_norm\n"                           \
    "relu3 = relu\n"                               \
    "conv4 = conv out=32 kernel=3 pad=1\n"         \
    "relu4 = relu\n"                               \
    "down = conv out=32 kernel=3 stride=2 pad=1\n" \
    "avg = global_avg_pool\n"                      \
    "flat = flatten\n"                             \
    "fc = linear out=4\n"

static const char all_direct[] = "conv2 direct direct direct, conv3 direct direct direct, conv4 direct direct direct";
static const char mixed[] = "conv2 winograd direct winograd, conv3 direct winograd direct, conv4 winograd winograd direct";

/* ---- text ---- */

static void test_text(void **state)
{
    static const char *const good[] = {"", "conv4 winograd direct direct", all_direct, mixed};
    static const char *const bad[] = {"conv2",
                                      "conv2 winograd direct",
                                      "conv2 winograd direct fast",
                                      "conv2 winograd direct direct,",
                                      "conv2 winograd direct direct, ",
                                      "conv2 winograd  direct direct",
                                      " conv2 winograd direct direct",
                                      "conv2 winograd direct direct direct",
                                      "conv9 winograd direct direct",
                                      "conv3 direct direct direct, conv2 direct direct direct",
                                      "conv2 direct direct direct, conv2 direct direct direct"};
    comet_net *net = net_of(NET);
    comet_model_params p = trial_params(2);
    (void)state;
    p.convolutions = COMET_CONVOLUTIONS_TIMED;
    for (size_t i = 0; i < COUNT_OF(good); i++)
        assert_ok(conv_choices_check(net, good[i]));
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        comet_memory memory = {.size = sizeof memory};
        assert_status(conv_choices_check(net, bad[i]), COMET_ERROR_ARGUMENT);
        p.convolution_choices = bad[i];
        assert_status(comet_model_plan(net, &p, &memory), COMET_ERROR_ARGUMENT);
    }
    p.convolution_choices = mixed;
    assert_int_equal(conv_ways_of(&p, "conv3").of[PASS_FORWARD], CONV_DIRECT);
    assert_int_equal(conv_ways_of(&p, "conv3").of[PASS_BACKWARD_DATA], CONV_WINOGRAD);
    assert_int_equal(conv_ways_of(&p, "conv4").of[PASS_BACKWARD_WEIGHTS], CONV_DIRECT);
    assert_int_equal(conv_ways_of(&p, "conv1").of[PASS_FORWARD], CONV_BY_RULE);
    p.convolutions = COMET_CONVOLUTIONS_DIRECT;
    assert_int_equal(conv_ways_of(&p, "conv3").of[PASS_BACKWARD_DATA], CONV_DIRECT);
    comet_net_destroy(net);
}

/* ---- by a clock of our own ---- */

typedef struct fake {
    double winograd[N_PASSES]; /* seconds, where direct takes 1; 0: there is no choice */
    char asked[512];           /* layers and passes */
    size_t n_asked, fails_at;  /* the fails_at-th question, from 1 */
} fake;

static comet_status fake_time(void *user, comet_model *m, const op *o, kernel_pass pass, double share, conv_times *times)
{
    fake *f = user;
    (void)m;
    assert_true(share > 0 && share <= 1);
    const size_t at = strlen(f->asked);
    snprintf(f->asked + at, sizeof f->asked - at, "%s.%d ", o->layer->name, (int)pass);
    if (++f->n_asked == f->fails_at)
        return comet_fail(COMET_ERROR_MEMORY, "could not allocate %d bytes", 12);
    *times = (conv_times){.choice = f->winograd[pass] > 0 && strcmp(o->layer->name, "conv1") != 0,
                          .seconds = {[CANDIDATE_DIRECT] = 1, [CANDIDATE_WINOGRAD] = f->winograd[pass]}};
    return COMET_OK;
}

static comet_model_params batch_of(uint32_t n)
{
    comet_model_params p = trial_params(n);
    p.convolutions = COMET_CONVOLUTIONS_TIMED;
    return p;
}

static void check_search(fake f, const char *choices, uint32_t n_winograd, uint32_t n_unlike_rule)
{
    comet_net *net = net_of(NET);
    const comet_model_params p = batch_of(8); /* the rule: Winograd everywhere */
    comet_convolution_choice c;
    comet_convolution_choice_init(&c);
    assert_ok(convolution_choice_search(net, &p, fake_time, &f, &c));
    assert_string_equal(c.choices, choices);
    assert_int_equal(c.n_passes, choices[0] == '\0' ? 0 : 9);
    assert_int_equal(c.n_winograd, n_winograd);
    assert_int_equal(c.n_unlike_rule, n_unlike_rule);
    /* conv1 needs no gradient of its input; conv3 is like conv2; the one with stride 2 is not asked for. */
    assert_string_equal(f.asked, "conv1.0 conv1.2 conv2.0 conv2.1 conv2.2 conv4.0 conv4.1 conv4.2 ");
    assert_ok(conv_choices_check(net, c.choices));
    comet_text_free(c.choices);
    comet_net_destroy(net);
}

static void test_search(void **state)
{
    (void)state;
    check_search((fake){.winograd = {0.5, 0.5, 0.5}},
                 "conv2 winograd winograd winograd, conv3 winograd winograd winograd, conv4 winograd winograd winograd", 9, 0);
    check_search((fake){.winograd = {2, 0.5, 2}},
                 "conv2 direct winograd direct, conv3 direct winograd direct, conv4 direct winograd direct", 3, 6);
    /* The rule stands where the other way is hardly faster, and where there is no choice. */
    check_search((fake){.winograd = {1.02, 1.05, 0}},
                 "conv2 winograd direct winograd, conv3 winograd direct winograd, conv4 winograd direct winograd", 6, 3);
    check_search((fake){.winograd = {0}}, "", 0, 0);
}

/* The first layer has no gradient of its input, so its times do not serve a later one that looks the same. */
static void test_first_layer(void **state)
{
    comet_net *net = net_of("net same\ninput 16 12 12\n"
                            "one = conv out=16 kernel=3 pad=1\nrelu1 = relu\n"
                            "two = conv out=16 kernel=3 pad=1\nrelu2 = relu\n"
                            "three = conv out=16 kernel=3 pad=1\nrelu3 = relu\nflat = flatten\nfc = linear out=4\n");
    const comet_model_params p = batch_of(8);
    fake f = {.winograd = {0.5, 0.5, 0.5}};
    comet_convolution_choice c;
    (void)state;
    comet_convolution_choice_init(&c);
    assert_ok(convolution_choice_search(net, &p, fake_time, &f, &c));
    assert_string_equal(c.choices,
                        "one winograd direct winograd, two winograd winograd winograd, three winograd winograd winograd");
    assert_int_equal(c.n_unlike_rule, 0);
    comet_text_free(c.choices);
    comet_net_destroy(net);
}

static void test_failing_clock(void **state)
{
    comet_net *net = net_of(NET);
    const comet_model_params p = batch_of(8);
    (void)state;
    for (size_t at = 1; at <= 8; at++) {
        comet_convolution_choice c;
        fake f = {.winograd = {2, 2, 2}, .fails_at = at};
        comet_convolution_choice_init(&c);
        assert_status(convolution_choice_search(net, &p, fake_time, &f, &c), COMET_ERROR_MEMORY);
        assert_int_equal(f.n_asked, at);
        assert_null(c.choices);
    }
    comet_net_destroy(net);
}

/* ---- by a trial ---- */

static void test_trial(void **state)
{
    comet_net *net = net_of(NET);
    const comet_model_params p = batch_of(4), before = p;
    comet_convolution_choice c;
    comet_memory memory = {.size = sizeof memory};
    (void)state;
    comet_convolution_choice_init(&c);
    assert_ok(comet_convolutions_choose(net, &p, &c));
    assert_memory_equal(&p, &before, sizeof p);
    assert_true(c.seconds > 0 && c.n_passes == 9 && c.n_winograd <= 9);
    comet_model_params chosen = p;
    chosen.convolution_choices = c.choices;
    assert_ok(comet_model_plan(net, &chosen, &memory));
    comet_text_free(c.choices);
    chosen.batch = 0;
    assert_status(comet_convolutions_choose(net, &chosen, &c), COMET_ERROR_ARGUMENT);
    c.size = 0;
    assert_status(comet_convolutions_choose(net, &p, &c), COMET_ERROR_ARGUMENT);
    comet_net_destroy(net);
}

/* ---- models ---- */

/* "conv2 W, conv3 W, conv4 W", where bit i of `bits` decides about pass i. */
static void all_alike(unsigned bits, char text[256])
{
    conv_ways ways;
    size_t length = 0;
    for (int pass = 0; pass < N_PASSES; pass++)
        ways.of[pass] = bits >> pass & 1 ? CONV_WINOGRAD : CONV_DIRECT;
    for (int layer = 2; layer <= 4; layer++) {
        char name[8];
        snprintf(name, sizeof name, "conv%d", layer);
        length = conv_choices_add(text, length, name, ways);
    }
}

static float *gradients_with(const comet_net *net, const comet_model_params *p, uint64_t *n)
{
    trial t = trial_make(net, p);
    assert_true(conv_choices_followed(t.model));
    trial_gradients(&t, 0);
    float *g = tensors_read(t.model, COMET_TENSOR_GRADIENT, n);
    trial_free(&t);
    return g;
}

/* Every mixture computes the same within rounding, but not the same bits; without a batch that is worth it, too. */
static void test_forced(void **state)
{
    comet_net *net = net_of(NET);
    (void)state;
    for (uint32_t batch = 1; batch <= 8; batch += 7) {
        comet_model_params p = trial_params(batch);
        uint64_t n;
        p.convolutions = COMET_CONVOLUTIONS_DIRECT;
        float *direct = gradients_with(net, &p, &n);
        p.convolutions = COMET_CONVOLUTIONS_TIMED;
        for (unsigned bits = 0; bits < 1U << N_PASSES; bits++) {
            char text[256];
            all_alike(bits, text);
            p.convolution_choices = text;
            float *g = gradients_with(net, &p, &n);
            const double distance = relative_distance(n, g, direct);
            assert_true(distance < 1e-5 && (distance > 0) == (bits > 0));
            free(g);
        }
        free(direct);
    }
    comet_net_destroy(net);
}

/* A choice that cannot be followed is computed by the other way, and that is known. */
static void test_not_followed(void **state)
{
    comet_net *net = net_of(NET);
    comet_model_params p = trial_params(2);
    (void)state;
    p.convolutions = COMET_CONVOLUTIONS_TIMED;
    p.convolution_choices = "down winograd direct direct"; /* it has stride 2 */
    trial t = trial_make(net, &p);
    assert_false(conv_choices_followed(t.model));
    trial_free(&t);
    comet_net_destroy(net);
}

/* What is planned before the trial is enough for whatever it chooses. */
static void test_planned(void **state)
{
    comet_net *net = net_of(NET);
    comet_memory open = {.size = sizeof open}, ruled = {.size = sizeof ruled};
    comet_model_params p = batch_of(2);
    char text[256];
    (void)state;
    assert_ok(comet_model_plan(net, &p, &open));
    for (unsigned bits = 0; bits < 1U << N_PASSES; bits++) {
        comet_memory chosen = {.size = sizeof chosen};
        all_alike(bits, text);
        p.convolution_choices = text;
        assert_ok(comet_model_plan(net, &p, &chosen));
        assert_true(chosen.scratch <= open.scratch && chosen.total <= open.total && chosen.saved == open.saved);
    }
    all_alike(0, text);
    assert_ok(comet_model_plan(net, &p, &ruled));
    assert_true(ruled.scratch < open.scratch); /* there is something to be planned */
    comet_net_destroy(net);
}

/* ---- runs ---- */

static char folder[256];

static int set_up(void **state)
{
    const char *base = getenv("TMPDIR");
    (void)state;
    snprintf(folder, sizeof folder, "%s/comet-convolutions.XXXXXX", base ? base : "/tmp");
    return mkdtemp(folder) ? 0 : 1;
}

static int tear_down(void **state)
{
    char lock[300];
    (void)state;
    checkpoint_clear(folder);
    snprintf(lock, sizeof lock, "%s/.lock", folder);
    unlink(lock);
    return rmdir(folder);
}

enum { N_STEPS = 8 };

typedef struct setting {
    comet_net *net;
    comet_dataset *data;
    comet_train_params p;
    uint64_t stop_at; /* 0: it does not stop */
    volatile sig_atomic_t stop;
    char notes[1024];
} setting;

static void on_event(void *user, const comet_train_event *e)
{
    setting *s = user;
    const size_t at = strlen(s->notes);
    if (e->kind == COMET_EVENT_NOTE)
        snprintf(s->notes + at, sizeof s->notes - at, "%s\n", e->text);
    if (e->kind == COMET_EVENT_STEP)
        s->stop = s->stop_at > 0 && e->step == s->stop_at;
}

static void open_setting(setting *s, const char *choices)
{
    *s = (setting){.net = net_of(NET)};
    s->data = data_for(s->net, 80);
    s->p = run_on(s->net, s->data, 8);
    s->p.model.convolutions = COMET_CONVOLUTIONS_TIMED;
    s->p.model.convolution_choices = choices;
    s->p.max_steps = N_STEPS;
    s->p.out = folder;
    s->p.event = on_event;
    s->p.user = s;
    s->p.stop = &s->stop;
}

static void close_setting(setting *s)
{
    comet_dataset_close(s->data);
    comet_net_destroy(s->net);
}

/* The loss of the last epoch, with all its bits, of a run to the end. */
static double train(const char *choices, bool resume, char notes[1024])
{
    setting s;
    comet_train_result result = {.size = sizeof result};
    open_setting(&s, choices);
    s.p.resume = resume;
    assert_ok(comet_train_run(&s.p, &result));
    if (notes)
        memcpy(notes, s.notes, sizeof s.notes);
    close_setting(&s);
    return result.last.train_loss;
}

/* Half a run in the folder, with a checkpoint at its end. */
static void train_half(const char *choices)
{
    setting s;
    comet_train_result result = {.size = sizeof result};
    checkpoint_clear(folder);
    open_setting(&s, choices);
    s.stop_at = N_STEPS / 2;
    assert_ok(comet_train_run(&s.p, &result));
    assert_true(result.stopped);
    close_setting(&s);
}

/* The choices decide the bits, and a run that goes on with those of its checkpoint has the same bits. */
static void test_resume(void **state)
{
    char *stored = NULL, notes[1024];
    comet_net *net = net_of(NET), *other_net = net_of("net none\ninput 3 12 12\nflat = flatten\nfc = linear out=4\n");
    comet_checkpoint_info info = {.size = sizeof info};
    (void)state;
    const double whole = train(mixed, false, NULL), other = train(all_direct, false, NULL);
    assert_true(whole != other);
    train_half(mixed);
    assert_ok(comet_checkpoint_describe(folder, &info));
    assert_int_equal(info.convolutions, COMET_CONVOLUTIONS_TIMED);
    assert_ok(comet_checkpoint_convolutions(folder, net, &stored));
    assert_string_equal(stored, mixed);
    const double resumed = train(stored, true, notes);
    assert_memory_equal(&resumed, &whole, sizeof whole);
    assert_null(strstr(notes, "not as before"));
    comet_text_free(stored);
    assert_status(comet_checkpoint_convolutions(folder, other_net, &stored), COMET_ERROR_CORRUPT);
    comet_net_destroy(net);
    comet_net_destroy(other_net);
    train_half(mixed);
    const double changed = train(all_direct, true, notes);
    assert_true(changed != whole);
    assert_non_null(strstr(notes, "not as before: choices of convolutions; the results are not those"));
}

/* Without choices there is nothing to compute with, and nothing is stored of runs that have none. */
static void test_missing(void **state)
{
    setting s;
    comet_train_result result = {.size = sizeof result};
    char *stored = folder;
    (void)state;
    open_setting(&s, NULL);
    assert_status(comet_train_run(&s.p, &result), COMET_ERROR_ARGUMENT);
    assert_non_null(strstr(comet_last_error(), "comet_convolutions_choose"));
    s.p.model.convolutions = COMET_CONVOLUTIONS_RULE;
    assert_ok(comet_train_run(&s.p, &result));
    assert_ok(comet_checkpoint_convolutions(folder, s.net, &stored));
    assert_null(stored);
    close_setting(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text),        cmocka_unit_test(test_search),  cmocka_unit_test(test_failing_clock),
        cmocka_unit_test(test_trial),       cmocka_unit_test(test_forced),  cmocka_unit_test(test_not_followed),
        cmocka_unit_test(test_first_layer), cmocka_unit_test(test_planned), cmocka_unit_test(test_resume),
        cmocka_unit_test(test_missing),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
