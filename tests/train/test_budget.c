/* Budgets of memory: the reserve, the ladder of modes, batches, spilling; and that what is chosen trains below the limit. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "comet/train.h"
#include "training.h"

#define MIB ((uint64_t)1 << 20)
enum { BATCH = 96, N_IMAGES = 1000 };

static comet_net *net;
static comet_dataset *data;
static comet_budget *shared; /* of AUTO without spilling, whose steps serve several tests */

/* Activations are most of what it takes. */
static const char wide[] = "net wide\n"
                           "input 3 32 32\n"
                           "conv1 = conv out=32 kernel=3 pad=1 bias=no\n"
                           "bn1 = batch_norm\n"
                           "relu1 = relu\n"
                           "conv2 = conv out=32 kernel=3 pad=1 bias=no\n"
                           "bn2 = batch_norm\n"
                           "relu2 = relu\n"
                           "avg = global_avg_pool\n"
                           "flat = flatten\n"
                           "fc = linear out=10\n";

static comet_dataset *images(uint64_t n)
{
    comet_dataset_params params;
    comet_dataset *made = NULL;
    comet_dataset_params_init(&params);
    params.n_images = n;
    assert_ok(comet_dataset_open(&made, "synthetic", &params));
    return made;
}

static comet_model_params model_params(comet_compress_mode mode, const char *spill_folder)
{
    comet_model_params params;
    comet_model_params_init(&params);
    params.batch = BATCH;
    params.n_threads = 1;
    params.fused_update = true;
    params.compression.mode = mode;
    params.compression.spill_folder = spill_folder;
    return params;
}

static comet_budget *budget_of(const comet_dataset *train, comet_compress_mode mode, const char *spill_folder)
{
    comet_budget_params params;
    comet_budget *budget = NULL;
    comet_budget_params_init(&params);
    params.net = net;
    params.model = model_params(mode, spill_folder);
    params.train_data = train;
    params.loader_threads = 1;
    assert_ok(comet_budget_create(&budget, &params));
    return budget;
}

static comet_forecast forecast_of(comet_budget *budget, comet_compress_mode mode, uint32_t batch)
{
    comet_forecast forecast;
    comet_forecast_init(&forecast);
    assert_ok(comet_budget_forecast(budget, mode, batch, &forecast));
    return forecast;
}

typedef struct settled {
    comet_status status;
    comet_model_params model;
    comet_budget_choice choice;
} settled;

static settled settle_request(comet_budget *budget, const comet_budget_request *request)
{
    settled s = {.status = COMET_OK};
    comet_budget_choice_init(&s.choice);
    comet_model_params_init(&s.model);
    s.model.batch = 5;
    s.status = comet_budget_settle(budget, request, &s.model, &s.choice);
    if (s.status != COMET_OK)
        assert_true(s.model.batch == 5 && s.choice.batch == 0); /* results are written on success only */
    return s;
}

static settled settle(comet_budget *budget, uint64_t memory, bool choose_batch)
{
    comet_budget_request request;
    comet_budget_request_init(&request);
    request.memory = memory;
    request.choose_batch = choose_batch;
    request.memory_name = "the test's limit";
    return settle_request(budget, &request);
}

static settled settle_updates(comet_budget *budget, uint32_t least)
{
    comet_budget_request request;
    comet_budget_request_init(&request);
    request.choose_batch = true;
    request.least_updates = least;
    return settle_request(budget, &request);
}

/* The least that may be allowed for a peak, to a byte or two. */
static uint64_t just_enough(uint64_t peak)
{
    return (uint64_t)((double)peak / 0.95) + 2;
}

/* ---- what is chosen trains: first of all, in a process that has used no threads yet ---- */

typedef struct trial_run {
    comet_budget *budget;
    uint64_t memory;
    settled s;
    uint64_t peak_rss;
} trial_run;

static void run_in_copy(void (*work)(trial_run *), trial_run *t)
{
    int ends[2], status = 0;
    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
        work(t);
        _exit(write(ends[1], t, sizeof *t) == (ssize_t)sizeof *t ? 0 : 1);
    }
    close(ends[1]);
    assert_true(read(ends[0], t, sizeof *t) == (ssize_t)sizeof *t);
    close(ends[0]);
    assert_true(waitpid(child, &status, 0) == child && status == 0);
}

static void choose_in_copy(trial_run *t)
{
    t->s = settle(t->budget, t->memory, true);
}

static void train_in_copy(trial_run *t)
{
    comet_train_params params;
    comet_train_result result;
    comet_train_params_init(&params);
    comet_train_result_init(&result);
    params.net = net;
    params.train_data = data;
    params.model = t->s.model;
    params.model.compression.spill_folder = NULL;
    params.max_steps = 6;
    params.loader_threads = 1;
    t->s.status = comet_train_run(&params, &result);
    t->peak_rss = comet_peak_rss();
}

static void test_chosen_batch_trains_below_the_limit(void **state)
{
    static const uint64_t limits[] = {100 * MIB, 150 * MIB, 220 * MIB};
    uint32_t before = 0;
    if (comet_peak_address_space() > (uint64_t)1 << 40)
        skip(); /* the resident set of a sanitizer build is mostly the sanitizer's */
    for (size_t i = 0; i < COUNT_OF(limits); i++) {
        trial_run t = {.budget = budget_of(data, COMET_COMPRESS_AUTO, NULL), .memory = limits[i]};
        run_in_copy(choose_in_copy, &t);
        comet_budget_destroy(t.budget);
        assert_ok(t.s.status);
        assert_true(t.s.choice.batch > before && t.s.choice.batch % COMET_BUDGET_BATCH_STEP == 0);
        assert_true(t.s.model.batch == t.s.choice.batch && t.s.choice.allowed == limits[i]);
        before = t.s.choice.batch;
        run_in_copy(train_in_copy, &t);
        assert_ok(t.s.status);
        print_message("batch %" PRIu32 ": %.0f MiB expected, %.0f MiB at the peak of %.0f allowed\n", t.s.choice.batch,
                      (double)t.s.choice.peak / (double)MIB, (double)t.peak_rss / (double)MIB, (double)limits[i] / (double)MIB);
        assert_true(t.peak_rss <= limits[i]);
        assert_true((double)t.peak_rss >= 0.7 * (double)limits[i]); /* and it is not for want of trying */
    }
}

/* ---- forecasts ---- */

static void test_forecast_adds_up(void **state)
{
    const comet_forecast small = forecast_of(shared, COMET_COMPRESS_AUTO, 8),
                         large = forecast_of(shared, COMET_COMPRESS_AUTO, 64);
    const uint64_t image = 3 * 32 * 32 * sizeof(float);
    assert_true(small.peak == small.model.total + small.data + small.program);
    assert_true(large.peak == large.model.total + large.data + large.program);
    assert_true(large.program == small.program);
    assert_true(large.data - small.data == image * 56 * 3); /* a queue of 3 floats beside the batch that the model reads */
    assert_true(large.further >= COMET_MEMORY_BESIDE_PLAN + large.model.total && large.addresses > large.peak);
    assert_true(large.ratio > 4 && large.ratio_later > large.ratio);
    const comet_forecast off = forecast_of(shared, COMET_COMPRESS_OFF, 64);
    assert_true(off.model.saved > 3 * large.model.saved && off.ratio == off.ratio_later);
}

static void test_forecast_is_that_of_the_plan(void **state)
{
    comet_model_params params = model_params(COMET_COMPRESS_OFF, NULL);
    comet_memory plan;
    comet_memory_init(&plan);
    assert_ok(comet_model_plan(net, &params, &plan));
    const comet_forecast forecast = forecast_of(shared, COMET_COMPRESS_OFF, BATCH);
    assert_true(forecast.model.total == plan.total && forecast.model.saved == plan.saved);
}

static void test_largest_batch_grows_with_memory(void **state)
{
    static const comet_compress_mode modes[] = {COMET_COMPRESS_AUTO, COMET_COMPRESS_OFF};
    const uint64_t first = forecast_of(shared, COMET_COMPRESS_AUTO, 8).peak - 2 * MIB; /* too little even for that */
    uint32_t largest[2] = {0, 0};
    for (size_t k = 0; k < COUNT_OF(modes); k++) {
        uint32_t before = 0, n_larger = 0;
        for (uint64_t memory = first; memory <= first + 200 * MIB; memory += 20 * MIB) {
            uint32_t batch = 1;
            assert_ok(comet_budget_largest_batch(shared, modes[k], memory, &batch));
            assert_true(batch >= before && batch % COMET_BUDGET_BATCH_STEP == 0);
            const double room = 0.95 * (double)memory;
            if (batch > 0)
                assert_true((double)forecast_of(shared, modes[k], batch).peak <= room);
            if (batch < COMET_BUDGET_LARGEST_TRIED)
                assert_true((double)forecast_of(shared, modes[k], batch + COMET_BUDGET_BATCH_STEP).peak > room);
            n_larger += batch > before;
            before = batch;
        }
        assert_true(n_larger >= 9);
        largest[k] = before;
    }
    assert_true(largest[0] > largest[1]);
    uint32_t batch = 0;
    assert_ok(comet_budget_largest_batch(shared, COMET_COMPRESS_AUTO, (uint64_t)1 << 40, &batch));
    assert_int_equal(batch, COMET_BUDGET_LARGEST_TRIED);
    assert_ok(comet_budget_largest_batch(shared, COMET_COMPRESS_AUTO, MIB, &batch));
    assert_int_equal(batch, 0);
}

/* ---- choices ---- */

static void test_reserve_is_kept(void **state)
{
    comet_budget *budget = budget_of(data, COMET_COMPRESS_LOSSLESS, NULL);
    const uint64_t exact = forecast_of(budget, COMET_COMPRESS_LOSSLESS, BATCH).peak;
    const uint64_t off = forecast_of(budget, COMET_COMPRESS_OFF, BATCH).peak, least = exact < off ? exact : off;
    const settled enough = settle(budget, just_enough(least), false);
    assert_ok(enough.status);
    assert_true(enough.choice.peak == least && enough.choice.batch == BATCH);
    assert_true((double)enough.choice.allowed - (double)least >= 0.05 * (double)enough.choice.allowed - 1);
    const settled too_little = settle(budget, just_enough(least) - 4, false);
    assert_status(too_little.status, COMET_ERROR_MEMORY);
    assert_non_null(strstr(comet_last_error(), "batch 96 with compression "));
    assert_non_null(strstr(comet_last_error(), ", with 5 % kept free; "));
    assert_non_null(strstr(comet_last_error(), "are allowed (the test's limit); batch 88 would fit"));
    comet_budget_destroy(budget);
}

static void test_first_mode_that_fits(void **state)
{
    comet_budget *budget = budget_of(data, COMET_COMPRESS_OFF, NULL);
    const uint64_t off = forecast_of(budget, COMET_COMPRESS_OFF, BATCH).peak;
    const uint64_t coded = forecast_of(budget, COMET_COMPRESS_AUTO, BATCH).peak;
    assert_true(coded < off);
    settled s = settle(budget, just_enough(off), false);
    assert_ok(s.status);
    assert_true(s.choice.mode == COMET_COMPRESS_OFF && s.model.compression.mode == COMET_COMPRESS_OFF);
    s = settle(budget, just_enough(off) - 4, false);
    assert_ok(s.status);
    assert_true(s.choice.mode == COMET_COMPRESS_AUTO && s.choice.peak == coded && s.model.compression.planned_ratio > 1);
    assert_non_null(strstr(s.choice.text, "batch 96 with compression auto instead of off: a peak of "));
    comet_budget_destroy(budget);
}

static void test_exact_stays_exact(void **state)
{
    comet_budget *budgets[2] = {budget_of(data, COMET_COMPRESS_LOSSLESS, NULL), budget_of(data, COMET_COMPRESS_LOSSLESS, ".")};
    const uint64_t first = forecast_of(budgets[0], COMET_COMPRESS_LOSSLESS, 8).peak - 10 * MIB;
    uint32_t n_chosen = 0, n_spilled = 0;
    for (uint64_t memory = first; memory <= first + 140 * MIB; memory += 10 * MIB)
        for (size_t k = 0; k < 4; k++) {
            const settled s = settle(budgets[k % 2], memory, k / 2 == 1);
            if (s.status != COMET_OK)
                continue;
            assert_true(s.choice.mode == COMET_COMPRESS_LOSSLESS || s.choice.mode == COMET_COMPRESS_OFF);
            assert_true(s.model.compression.mode == s.choice.mode && (k % 2 == 1 || !s.choice.spills));
            n_chosen++;
            n_spilled += s.choice.spills;
        }
    assert_true(n_chosen > 20 && n_spilled > 0);
    const uint64_t dense = forecast_of(budgets[0], COMET_COMPRESS_DENSE, BATCH).peak; /* only that would fit */
    assert_true(dense < forecast_of(budgets[0], COMET_COMPRESS_LOSSLESS, BATCH).peak);
    assert_true(dense < forecast_of(budgets[0], COMET_COMPRESS_OFF, BATCH).peak);
    assert_status(settle(budgets[0], just_enough(dense), false).status, COMET_ERROR_MEMORY);
    comet_budget_destroy(budgets[0]);
    comet_budget_destroy(budgets[1]);
}

static void test_spilling(void **state)
{
    comet_budget *budget = budget_of(data, COMET_COMPRESS_LOSSLESS, "."),
                 *without = budget_of(data, COMET_COMPRESS_LOSSLESS, NULL);
    const uint64_t exact = forecast_of(budget, COMET_COMPRESS_LOSSLESS, BATCH).peak;
    const uint64_t off = forecast_of(budget, COMET_COMPRESS_OFF, BATCH).peak, least = exact < off ? exact : off;
    settled s = settle(budget, just_enough(least), false);
    assert_ok(s.status);
    assert_true(!s.choice.spills && !s.model.compression.spill_folder);
    assert_non_null(strstr(s.choice.text, ", nothing need be spilled"));
    const uint64_t memory = just_enough(least) - 2 * MIB;
    s = settle(budget, memory, false);
    assert_ok(s.status);
    assert_true(s.choice.spills && s.choice.mode == COMET_COMPRESS_LOSSLESS && s.choice.spill_above > 0);
    assert_true((double)s.choice.peak <= 0.95 * (double)memory);
    assert_true(!s.model.fused_update && s.model.compression.spill_above == s.choice.spill_above);
    assert_non_null(strstr(s.choice.text, " of activations in memory and the rest spilled"));
    s = settle(budget, 12 * MIB, false);
    assert_status(s.status, COMET_ERROR_MEMORY);
    assert_non_null(strstr(comet_last_error(), " without a disk"));
    s = settle(without, memory, false);
    if (s.status != COMET_OK) /* its own steps may have needed a little less */
        assert_non_null(strstr(comet_last_error(), "; a spill folder would do on a disk"));
    comet_budget_destroy(without);
    comet_budget_destroy(budget);
}

/* ---- arguments ---- */

static void test_batch_is_at_most_the_data(void **state)
{
    comet_dataset *few = images(44), *fewer = images(7);
    comet_budget *budget = budget_of(few, COMET_COMPRESS_OFF, NULL), *none = budget_of(fewer, COMET_COMPRESS_OFF, NULL);
    const settled s = settle(budget, (uint64_t)1 << 40, true);
    assert_ok(s.status);
    assert_int_equal(s.choice.batch, 40);
    assert_non_null(strstr(s.choice.text, "batch 40 (chosen) with"));
    const uint32_t least[] = {1, 2, 4, 44, 400}, batches[] = {40, 16, 8, 8, 8};
    for (size_t i = 0; i < COUNT_OF(least); i++) {
        const settled some = settle_updates(budget, least[i]);
        assert_ok(some.status);
        assert_int_equal(some.choice.batch, batches[i]);
        assert_non_null(strstr(some.choice.text, "(chosen, so that an epoch has about "));
    }
    assert_status(settle(none, 0, true).status, COMET_ERROR_ARGUMENT);
    assert_non_null(strstr(comet_last_error(), "8 images or more; there are 7"));
    comet_budget_destroy(none);
    comet_budget_destroy(budget);
    comet_dataset_close(fewer);
    comet_dataset_close(few);
}

/* A step of three batches takes three times the images: with 50 of them a batch has at most 16. */
static void test_batch_leaves_images_to_accumulate(void **state)
{
    comet_dataset *few = images(50);
    comet_budget_params params;
    comet_budget *budget = NULL;
    comet_budget_params_init(&params);
    params.net = net;
    params.model = model_params(COMET_COMPRESS_OFF, NULL);
    params.model.fused_update = false;
    params.model.accumulate = 3;
    params.train_data = few;
    params.loader_threads = 1;
    assert_ok(comet_budget_create(&budget, &params));
    const settled s = settle(budget, (uint64_t)1 << 40, true);
    assert_ok(s.status);
    assert_int_equal(s.choice.batch, 16);
    comet_budget_destroy(budget);
    comet_dataset_close(few);
}

static void test_batch_of_a_resumed_run_is_kept(void **state)
{
    comet_budget_request request;
    comet_budget_choice choice;
    comet_model_params model = model_params(COMET_COMPRESS_AUTO, NULL);
    comet_budget_request_init(&request);
    comet_budget_choice_init(&choice);
    request.memory = 10 * MIB;
    request.keep_batch = true;
    assert_status(comet_budget_settle(shared, &request, &model, &choice), COMET_ERROR_MEMORY);
    assert_non_null(strstr(comet_last_error(), "10 MiB are allowed (the budget); a run that is resumed keeps its batch"));
    assert_null(strstr(comet_last_error(), "would fit"));
}

static void test_wrong_arguments(void **state)
{
    comet_budget_params params;
    comet_budget_request request;
    comet_budget_choice choice;
    comet_forecast forecast;
    comet_budget *budget = NULL;
    comet_model_params model = model_params(COMET_COMPRESS_AUTO, NULL);
    comet_budget_params_init(&params);
    comet_budget_request_init(&request);
    comet_budget_choice_init(&choice);
    comet_forecast_init(&forecast);
    assert_status(comet_budget_create(&budget, &params), COMET_ERROR_ARGUMENT); /* no net */
    params.net = net;
    params.size--;
    assert_status(comet_budget_create(&budget, &params), COMET_ERROR_ARGUMENT);
    assert_null(budget);
    assert_status(comet_budget_forecast(shared, (comet_compress_mode)9, 8, &forecast), COMET_ERROR_ARGUMENT);
    assert_status(comet_budget_forecast(shared, COMET_COMPRESS_AUTO, 0, &forecast), COMET_ERROR_ARGUMENT);
    forecast.size = 0;
    assert_status(comet_budget_forecast(shared, COMET_COMPRESS_AUTO, 8, &forecast), COMET_ERROR_ARGUMENT);
    choice.size = 3;
    assert_status(comet_budget_settle(shared, &request, &model, &choice), COMET_ERROR_ARGUMENT);
    request.size++;
    assert_status(comet_budget_settle(shared, &request, &model, &choice), COMET_ERROR_ARGUMENT);
    comet_budget_destroy(NULL);
}

static int set_up(void **state)
{
    net = net_of(wide);
    data = images(N_IMAGES);
    return 0;
}

static int make_shared(void **state)
{
    if (!shared)
        shared = budget_of(data, COMET_COMPRESS_AUTO, NULL);
    return 0;
}

static int tear_down(void **state)
{
    comet_budget_destroy(shared);
    comet_dataset_close(data);
    comet_net_destroy(net);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chosen_batch_trains_below_the_limit),
        cmocka_unit_test_setup(test_forecast_adds_up, make_shared),
        cmocka_unit_test_setup(test_forecast_is_that_of_the_plan, make_shared),
        cmocka_unit_test_setup(test_largest_batch_grows_with_memory, make_shared),
        cmocka_unit_test(test_reserve_is_kept),
        cmocka_unit_test(test_first_mode_that_fits),
        cmocka_unit_test(test_exact_stays_exact),
        cmocka_unit_test(test_spilling),
        cmocka_unit_test(test_batch_is_at_most_the_data),
        cmocka_unit_test(test_batch_leaves_images_to_accumulate),
        cmocka_unit_test_setup(test_batch_of_a_resumed_run_is_kept, make_shared),
        cmocka_unit_test_setup(test_wrong_arguments, make_shared),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
