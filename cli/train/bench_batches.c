/* Batches for measuring; see bench_batches.h. */
#include "train/bench_batches.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"

enum { MAX_CLASSES = 10, MIN_SIDE = 8, MAX_SIDE = 4096, MAX_CHANNELS = 16 }; /* few classes, so that each has several images */

static cli_exit store(bench_batches *b)
{
    if (fwrite(b->images, sizeof *b->images, b->n_elements, b->file) == b->n_elements &&
        fwrite(b->labels, sizeof *b->labels, b->n_images, b->file) == b->n_images)
        return CLI_OK;
    return fail_errno(CLI_FAILED, errno, "a temporary file of images");
}

/* Uniform with variance 1, as normalised images have. */
static cli_exit store_noise(bench_batches *b, uint32_t n_classes, uint64_t seed)
{
    cli_exit code = CLI_OK;
    comet_random random = comet_random_start(seed, COMET_STREAM_SYNTHETIC, 0, 0);
    for (uint64_t k = 0; k < b->n && code == CLI_OK; k++) {
        for (uint64_t i = 0; i < b->n_elements; i++)
            b->images[i] = (float)(comet_random_uniform(&random) - 0.5) * 3.4641016f;
        for (uint32_t i = 0; i < b->n_images; i++)
            b->labels[i] = i % n_classes;
        code = store(b);
    }
    return code;
}

static cli_exit store_loaded(bench_batches *b, comet_loader *loader)
{
    cli_exit code = CLI_OK;
    for (uint64_t k = 0; k < b->n && code == CLI_OK; k++) {
        comet_batch batch;
        bool end = false;
        const comet_status status = comet_loader_next(loader, &batch, &end);
        if (status != COMET_OK || end)
            return fail_status(status, "synthetic");
        memcpy(b->images, batch.images, b->n_elements * sizeof *b->images);
        memcpy(b->labels, batch.labels, b->n_images * sizeof *b->labels);
        comet_loader_release(loader, &batch);
        code = store(b);
    }
    return code;
}

static cli_exit store_synthetic(bench_batches *b, comet_shape in, uint32_t n_classes, uint64_t seed)
{
    comet_dataset_params data;
    comet_loader_params params;
    comet_dataset *set = NULL;
    comet_loader *loader = NULL;
    comet_dataset_params_init(&data);
    data.image = in.height;
    data.channels = in.channels;
    data.classes = n_classes;
    data.n_images = b->n * b->n_images;
    data.seed = seed;
    comet_loader_params_init(&params);
    params.batch = b->n_images;
    params.queue = 1;
    params.seed = seed;
    params.shuffle = true;
    comet_status status = comet_dataset_open(&set, "synthetic", &data);
    if (status == COMET_OK)
        status = comet_loader_create(&loader, set, &params);
    const cli_exit code = status == COMET_OK ? store_loaded(b, loader) : fail_status(status, "synthetic");
    comet_loader_destroy(loader);
    comet_dataset_close(set);
    return code;
}

cli_exit bench_batches_make(const comet_net *net, uint32_t batch, uint64_t n, uint64_t seed, bench_batches *b)
{
    const comet_shape in = comet_net_shape(net, 0), out = comet_net_shape(net, comet_net_n_values(net) - 1);
    const uint32_t n_classes = out.channels < MAX_CLASSES ? out.channels : MAX_CLASSES;
    *b = (bench_batches){.n = n, .n_images = batch, .n_elements = (uint64_t)batch * in.channels * in.height * in.width};
    b->images = malloc(b->n_elements * sizeof *b->images);
    b->labels = malloc(batch * sizeof *b->labels);
    if (!b->images || !b->labels)
        return fail_memory(b->n_elements * sizeof *b->images);
    b->file = tmpfile();
    if (!b->file)
        return fail_errno(CLI_FAILED, errno, "a temporary file of images");
    if (in.height != in.width || in.height < MIN_SIDE || in.height > MAX_SIDE || in.channels > MAX_CHANNELS || n_classes < 2)
        return store_noise(b, n_classes, seed);
    return store_synthetic(b, in, n_classes, seed);
}

cli_exit bench_batches_load(bench_batches *b, uint64_t step)
{
    const uint64_t bytes = b->n_elements * sizeof *b->images + b->n_images * sizeof *b->labels;
    if (fseeko(b->file, (off_t)(step % b->n * bytes), SEEK_SET) == 0 &&
        fread(b->images, sizeof *b->images, b->n_elements, b->file) == b->n_elements &&
        fread(b->labels, sizeof *b->labels, b->n_images, b->file) == b->n_images)
        return CLI_OK;
    return fail_errno(CLI_FAILED, errno, "a temporary file of images");
}

void bench_batches_free(bench_batches *b)
{
    if (b->file)
        fclose(b->file);
    free(b->images);
    free(b->labels);
    *b = (bench_batches){0};
}
