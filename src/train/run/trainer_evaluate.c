/* Scores of the test data. */
#include <inttypes.h>
#include <math.h>

#include "base/bytes.h"
#include "base/status.h"
#include "train/data/dataset.h"
#include "train/graph/ranks.h"
#include "train/run/trainer_private.h"

#define TOLD_SECONDS 0.05

/* Told once: every evaluation reads the same images. */
static void note_test_skipped(trainer *t, const comet_loader_stats *stats)
{
    if (stats->n_skipped > t->n_test_skipped)
        trainer_note(t, "%" PRIu64 " broken test image%s skipped, the next readable one was scored instead; the first: %s",
                     stats->n_skipped, stats->n_skipped == 1 ? "" : "s",
                     stats->first_skipped[0] ? stats->first_skipped : "that of another rank");
    t->n_test_skipped = stats->n_skipped;
}

typedef struct test_sums {
    double loss;
    uint64_t n, n_top1, n_top5;
} test_sums;

/* A batch was scored. That is told rarely, since an event takes about as long as a batch of a small net. */
static void tell_tested(const trainer *t, uint64_t n, double *told)
{
    const double now = comet_seconds();
    if (*told > 0 && now - *told < TOLD_SECONDS)
        return;
    *told = now;
    comet_train_event event = trainer_event(t, COMET_EVENT_TEST, NULL);
    event.n_tested = n;
    event.n_to_test = t->p->test_data->info.n_images;
    trainer_send(t, &event);
}

static comet_status test_batches(trainer *t, comet_loader *loader, test_sums *sums)
{
    double told = 0;
    while (!stop_asked(t)) {
        comet_batch batch;
        comet_scores scores;
        bool end = false;
        trainer_mark(t, COMET_RANK_FILES);
        comet_status status = comet_loader_next(loader, &batch, &end);
        if (status != COMET_OK || end)
            return status;
        trainer_mark(t, COMET_RANK_STEP);
        status = comet_model_evaluate(t->model, batch.images, batch.labels, batch.n_valid, &scores);
        comet_loader_release(loader, &batch);
        if (status == COMET_OK)
            status = trainer_agree(t);
        if (status != COMET_OK)
            return status;
        sums->loss += scores.loss * scores.n_valid;
        sums->n += scores.n_valid;
        sums->n_top1 += scores.n_top1;
        sums->n_top5 += scores.n_top5;
        tell_tested(t, min_u64(sums->n * rank_count(t), t->p->test_data->info.n_images), &told);
    }
    return COMET_OK;
}

/* The sums of all ranks. */
static comet_status join_sums(const trainer *t, test_sums *sums, uint64_t *n_skipped)
{
    double all[] = {sums->loss, (double)sums->n, (double)sums->n_top1, (double)sums->n_top5, (double)*n_skipped};
    if (!t->ranks)
        return COMET_OK;
    TRY(t->ranks->sum(t->ranks->self, all, sizeof all / sizeof all[0]));
    *sums = (test_sums){all[0], (uint64_t)all[1], (uint64_t)all[2], (uint64_t)all[3]};
    *n_skipped = (uint64_t)all[4];
    return COMET_OK;
}

static void keep_test(trainer *t, const test_sums *sums)
{
    const double n = (double)sums->n;
    t->state.test_loss = sums->loss / n;
    t->state.test_top1 = (double)sums->n_top1 / n;
    t->state.test_top5 = (double)sums->n_top5 / n;
    if (isfinite(t->state.test_loss) && t->state.test_top1 > t->state.best_top1) {
        t->state.best_top1 = t->state.test_top1;
        t->state.n_worse = 0;
    } else {
        t->state.n_worse++;
    }
}

/* Scores of the test data. Asked to stop, it leaves them as they were. */
comet_status trainer_evaluate(trainer *t)
{
    comet_loader_params params;
    comet_loader *loader = NULL;
    test_sums sums = {0};
    const double began = comet_seconds();
    if (!t->p->test_data)
        return COMET_OK;
    comet_loader_params_init(&params);
    params.batch = t->p->model.batch;
    params.n_threads = t->p->loader_threads;
    params.queue = t->p->queue;
    params.seed = t->p->model.seed;
    ranks_share_out(t->ranks, &params);
    trainer_close_loader(t);
    params.first_queue = t->earlier.queue;
    comet_status status = comet_loader_create(&loader, t->p->test_data, &params);
    if (status == COMET_OK)
        status = test_batches(t, loader, &sums);
    if (loader) {
        comet_loader_stats stats = loader_stats(loader);
        trainer_count_queue(t, loader, t->p->test_data);
        if (status == COMET_OK)
            status = join_sums(t, &sums, &stats.n_skipped);
        if (status == COMET_OK && !stop_asked(t))
            note_test_skipped(t, &stats);
    }
    comet_loader_destroy(loader);
    if (status == COMET_OK && sums.n > 0 && !stop_asked(t))
        keep_test(t, &sums);
    t->eval_seconds = comet_seconds() - began;
    return status;
}
