/* Figures of a run against what its own model and schedule say: rates, means over epochs, scores of the test part, steps that
 * are saved, early stop. */
#include "training.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "train/data/dataset.h"
#include "train/files/checkpoint.h"
#include "train/files/weights.h"

#include "tiny_net.h"

enum { N_TRAIN = 50, N_TEST = 11, BATCH = 8, STEPS_PER_EPOCH = 6, MOST_STEPS = 60 };

static char folder[256];
static const char plain_net[] = "input 3 8 8\nflat = flatten\nfc = linear out=4\n";

typedef struct seen {
    comet_dataset *test; /* scored again by hand after each epoch; NULL: not */
    uint64_t n_steps, n_epochs, n_saved;
    double rates[MOST_STEPS], losses[MOST_STEPS], top1[MOST_STEPS];
    uint64_t saved[MOST_STEPS]; /* steps of checkpoints, in order */
    double epoch_loss[MOST_STEPS], epoch_top1[MOST_STEPS];
    double best, fc_bias_at_best;
} seen;

/* The model of an event, which may not be changed but for its outputs. */
static comet_model *model_of_event(const comet_train_event *e)
{
    union {
        const comet_model *given;
        comet_model *model;
    } both = {.given = e->model};
    return both.model;
}

static double first_bias(const comet_model *model)
{
    float *x = tensor_read(model, tensor_index(model, COMET_TENSOR_WEIGHT, "fc.bias"), NULL);
    const double value = x[0];
    free(x);
    return value;
}

/* Scores every test image alone. */
static void check_test_scores(const seen *s, const comet_train_event *e)
{
    float *images = need_malloc(BATCH * dataset_image_floats(s->test) * sizeof *images);
    uint32_t labels[BATCH] = {0};
    double loss = 0, top1 = 0, top5 = 0;
    scratch memory = {.file = {NULL, 0}};
    memset(images, 0, BATCH * dataset_image_floats(s->test) * sizeof *images);
    for (uint64_t i = 0; i < N_TEST; i++) {
        comet_scores one;
        assert_ok(dataset_read(s->test, i, NULL, &memory, images));
        labels[0] = s->test->source->label(s->test, i);
        assert_ok(comet_model_evaluate(model_of_event(e), images, labels, 1, &one));
        loss += one.loss / N_TEST;
        top1 += (double)one.n_top1 / N_TEST;
        top5 += (double)one.n_top5 / N_TEST;
    }
    assert_near(e->test_loss, loss, 1e-5 * loss);
    assert_near(e->test_top1, top1, 1e-9);
    assert_near(e->test_top5, top5, 1e-9);
    scratch_free(&memory);
    free(images);
}

static void on_epoch(seen *s, const comet_train_event *e)
{
    s->epoch_loss[s->n_epochs] = e->train_loss;
    s->epoch_top1[s->n_epochs++] = e->train_top1;
    if (s->test)
        check_test_scores(s, e);
    if (e->test_top1 > s->best) {
        s->best = e->test_top1;
        s->fc_bias_at_best = first_bias(e->model);
    }
    assert_near(e->best_top1, s->best, 0);
}

static void on_event(void *user, const comet_train_event *e)
{
    seen *s = user;
    if (e->kind == COMET_EVENT_STEP) {
        assert_true(s->n_steps < MOST_STEPS && e->step == s->n_steps + 1);
        s->rates[s->n_steps] = e->rate;
        s->losses[s->n_steps] = e->train_loss;
        s->top1[s->n_steps++] = e->train_top1;
    } else if (e->kind == COMET_EVENT_EPOCH) {
        on_epoch(s, e);
    } else if (e->kind == COMET_EVENT_CHECKPOINT && strstr(e->text, "last.safetensors")) {
        s->saved[s->n_saved++] = e->step;
    }
}

typedef struct setting {
    comet_net *net;
    comet_train_params p;
    seen seen;
} setting;

static comet_dataset *open_part(comet_split split, uint64_t n_images)
{
    comet_dataset *d = NULL;
    comet_dataset_params params;
    comet_dataset_params_init(&params);
    params.image = 8;
    params.classes = 4;
    params.split = split;
    params.n_images = n_images;
    assert_ok(comet_dataset_open(&d, "synthetic", &params));
    return d;
}

static void open_setting(setting *s)
{
    memset(s, 0, sizeof *s);
    s->net = net_of(TINY_NET);
    comet_train_params_init(&s->p);
    s->p.net = s->net;
    s->p.train_data = open_part(COMET_SPLIT_TRAIN, N_TRAIN);
    s->p.test_data = open_part(COMET_SPLIT_TEST, N_TEST);
    s->p.model.batch = BATCH;
    s->p.model.n_threads = s->p.loader_threads = 1;
    s->p.event = on_event;
    s->p.user = &s->seen;
    s->seen.best = -1;
}

static void run(setting *s)
{
    comet_train_result result;
    comet_train_result_init(&result);
    assert_ok(comet_train_run(&s->p, &result));
}

static void close_setting(setting *s)
{
    comet_dataset_close(s->p.test_data);
    comet_dataset_close(s->p.train_data);
    comet_net_destroy(s->net);
}

/* The first update has the schedule's first rate, and the last its last: warm-up, decay and the end are not off by a step. */
static void test_rates_of_steps(void **state)
{
    setting s;
    open_setting(&s);
    s.p.epochs = 3;
    comet_schedule_init(&s.p.schedule, COMET_SCHEDULE_COSINE, 0.01);
    s.p.schedule.warmup_epochs = 0.5;
    run(&s);
    assert_int_equal(s.seen.n_steps, 18);
    assert_near(s.seen.rates[0], 0.01 / 3, 1e-12); /* warm-up over three steps */
    assert_near(s.seen.rates[2], 0.01, 1e-12);
    for (uint64_t i = 0; i < 18; i++)
        assert_near(s.seen.rates[i], comet_schedule_rate(&s.p.schedule, i, 18, STEPS_PER_EPOCH), 0);
    close_setting(&s);
}

/* Means over an epoch are of its own steps, and scores of the test part are those of its images, whatever the last batch lacks.
 */
static void test_means_and_scores(void **state)
{
    setting s;
    open_setting(&s);
    s.p.epochs = 3;
    comet_schedule_init(&s.p.schedule, COMET_SCHEDULE_CONSTANT, 0.02);
    s.seen.test = s.p.test_data;
    run(&s);
    assert_int_equal(s.seen.n_epochs, 3);
    for (int epoch = 0; epoch < 3; epoch++) {
        double loss = 0, top1 = 0;
        for (int i = 0; i < STEPS_PER_EPOCH; i++) {
            loss += s.seen.losses[epoch * STEPS_PER_EPOCH + i] / STEPS_PER_EPOCH;
            top1 += s.seen.top1[epoch * STEPS_PER_EPOCH + i] / STEPS_PER_EPOCH;
        }
        assert_near(s.seen.epoch_loss[epoch], loss, 1e-9);
        assert_near(s.seen.epoch_top1[epoch], top1, 1e-9);
    }
    close_setting(&s);
}

static bool has_momentum(const char *path)
{
    safetensors_file *file = NULL;
    assert_ok(safetensors_open(&file, path));
    const bool found = safetensors_find(file, WEIGHTS_OPTIMISER_PREFIX "momentum.fc.bias") != NULL;
    safetensors_close(file);
    return found;
}

/* Steps 4, 8, 16 and 20 by --save-steps, 6, 12, 18 and 22 at the end of an epoch or the run; best.safetensors has the weights
 * of the best epoch. */
static void test_steps_that_are_saved(void **state)
{
    static const uint64_t expected[] = {4, 6, 8, 12, 16, 18, 20, 22};
    setting s;
    char path[300];
    comet_model *best = NULL;
    open_setting(&s);
    s.p.epochs = 9;
    s.p.max_steps = 22;
    s.p.out = folder;
    s.p.save_steps = 4;
    run(&s);
    assert_int_equal(s.seen.n_steps, 22);
    size_t n = 0;
    for (size_t i = 0; i < s.seen.n_saved; i++)
        if (i == 0 || s.seen.saved[i] != s.seen.saved[i - 1]) {
            assert_true(n < COUNT_OF(expected));
            assert_int_equal(s.seen.saved[i], expected[n++]);
        }
    assert_int_equal(n, COUNT_OF(expected));
    snprintf(path, sizeof path, "%s/best.safetensors", folder);
    const comet_model_params p = trial_params(1);
    assert_ok(comet_model_create(&best, s.net, &p));
    assert_ok(comet_weights_load(best, path));
    assert_false(has_momentum(path));
    assert_near(first_bias(best), s.seen.fc_bias_at_best, 0);
    comet_model_destroy(best);
    snprintf(path, sizeof path, "%s/last.safetensors", folder);
    assert_true(has_momentum(path));
    close_setting(&s);
}

/* A rate of 0 changes no weight: the first epoch is the best, and patience counts those after it. Batch norms take their
 * statistics from the images all the same, so the net has none. */
static void test_patience_counts_epochs(void **state)
{
    for (uint32_t patience = 1; patience <= 3; patience++) {
        setting s;
        open_setting(&s);
        comet_net_destroy(s.net);
        s.p.net = s.net = net_of(plain_net);
        s.p.epochs = 9;
        s.p.patience = patience;
        comet_schedule_init(&s.p.schedule, COMET_SCHEDULE_CONSTANT, 0);
        run(&s);
        assert_int_equal(s.seen.n_epochs, 1 + patience);
        close_setting(&s);
    }
}

/* From the same weights and without dropout, only the order of images is the seed's: other seeds give other batches from the
 * first step on, and the same seed gives the same bits. */
static void test_seeds_choose_the_batches(void **state)
{
    double losses[4];
    char path[300];
    snprintf(path, sizeof path, "%s/start.safetensors", folder);
    for (int i = 0; i < 4; i++) {
        setting s;
        open_setting(&s);
        comet_net_destroy(s.net);
        s.p.net = s.net = net_of(plain_net);
        if (i == 0) {
            const comet_model_params p = trial_params(1);
            comet_model *model = NULL;
            assert_ok(comet_model_create(&model, s.net, &p));
            assert_ok(comet_weights_save(model, path));
            comet_model_destroy(model);
        }
        s.p.max_steps = 1;
        s.p.weights = path;
        s.p.model.seed = (uint64_t)i % 3;
        run(&s);
        losses[i] = s.seen.losses[0];
        close_setting(&s);
    }
    unlink(path);
    assert_memory_equal(&losses[0], &losses[3], sizeof(double));
    assert_true(losses[0] != losses[1] && losses[1] != losses[2] && losses[0] != losses[2]);
}

/* One-cycle reaches its largest rate for a moment and takes the rate that was found; other schedules stay there and take a
 * third of it. */
static void test_found_rates_fit_the_schedule(void **state)
{
    static const comet_schedule_kind kinds[] = {COMET_SCHEDULE_ONECYCLE, COMET_SCHEDULE_CONSTANT, COMET_SCHEDULE_STEP,
                                                COMET_SCHEDULE_COSINE};
    comet_rate_search found[COUNT_OF(kinds)];
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        setting s;
        open_setting(&s);
        s.p.model.batch = N_TRAIN;
        comet_schedule_init(&s.p.schedule, kinds[i], 0.1);
        comet_rate_search_init(&found[i]);
        assert_ok(comet_rate_find(&s.p, &found[i]));
        assert_true(found[i].found);
        assert_memory_equal(&found[i].rate_at_lowest, &found[0].rate_at_lowest, sizeof(double));
        assert_near(found[i].rate, found[i].rate_at_lowest / (i == 0 ? 1 : 3), 0.005 * found[i].rate); /* three digits */
        close_setting(&s);
    }
}

static int set_up(void **state)
{
    const char *base = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/comet-run.XXXXXX", base ? base : "/tmp");
    return mkdtemp(folder) ? 0 : 1;
}

static int tear_down(void **state)
{
    char lock[300];
    checkpoint_clear(folder);
    snprintf(lock, sizeof lock, "%s/.lock", folder);
    unlink(lock);
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rates_of_steps),           cmocka_unit_test(test_means_and_scores),
        cmocka_unit_test(test_steps_that_are_saved),     cmocka_unit_test(test_patience_counts_epochs),
        cmocka_unit_test(test_seeds_choose_the_batches), cmocka_unit_test(test_found_rates_fit_the_schedule),
    };
    return cmocka_run_group_tests_name("run", tests, set_up, tear_down);
}
