/*
 * The loaders of a run, one at a time: that of the training data is closed while the test data is read, so that evaluation
 * needs no more memory than training. It begins again at the run's position; its queue is as deep as it was.
 */
#include <stdio.h>

#include "base/bytes.h"
#include "train/data/dataset.h"
#include "train/graph/ranks.h"
#include "train/run/trainer_private.h"

comet_status trainer_open_loader(trainer *t)
{
    comet_loader_params params;
    const bool past_end = t->state.batch_in_epoch >= t->batches_per_epoch;
    if (t->loader)
        return COMET_OK;
    comet_loader_params_init(&params);
    params.batch = t->p->model.batch;
    params.n_threads = t->p->loader_threads;
    params.queue = t->p->queue;
    params.first_queue = t->earlier.queue;
    params.seed = t->p->model.seed;
    params.shuffle = true;
    params.augment = !t->p->no_augment;
    params.endless = true;
    params.epoch = t->state.epoch + past_end;
    params.batch_in_epoch = past_end ? 0 : t->state.batch_in_epoch;
    ranks_share_out(t->ranks, &params);
    return comet_loader_create(&t->loader, t->p->train_data, &params);
}

comet_loader_stats trainer_loaded(const trainer *t)
{
    comet_loader_stats all = t->earlier;
    if (!t->loader)
        return all;
    const comet_loader_stats now = loader_stats(t->loader);
    all.n_batches += now.n_batches;
    all.n_skipped += now.n_skipped;
    all.wait_seconds += now.wait_seconds;
    all.decode_seconds += now.decode_seconds;
    all.queue = now.queue;
    if (all.first_skipped[0] == '\0')
        snprintf(all.first_skipped, sizeof all.first_skipped, "%s", now.first_skipped);
    return all;
}

void trainer_count_queue(trainer *t, const comet_loader *loader, const comet_dataset *data)
{
    const uint64_t input = dataset_image_floats(data) * sizeof(float) * t->p->model.batch;
    t->queue_bytes = max_u64(t->queue_bytes, sub_u64(loader_stats(loader).bytes, data->bytes + input));
}

void trainer_close_loader(trainer *t)
{
    if (!t->loader)
        return;
    trainer_count_queue(t, t->loader, t->p->train_data);
    t->earlier = trainer_loaded(t);
    comet_loader_destroy(t->loader);
    t->loader = NULL;
}
