/* Spec strings, and what all data sets have; see comet/data.h. */
#include "train/data/dataset.h"

#include <stdlib.h>
#include <string.h>

#include "base/describe.h"
#include "base/nearest.h"
#include "base/status.h"
#include "train/data/storage.h"

static const struct form {
    const char *name;
    const dataset_source *source;
    bool needs_place, takes_place;
    const char *usage;
    const char *synonyms; /* for nearest_offer_for */
} forms[] = {
    {"cifar10", &source_cifar10, true, true, "cifar10:DIR", " cifar "},
    {"idx", &source_idx, true, true, "idx:DIR", " emnist kmnist mnist "},
    {"fashion", &source_fashion, false, true, "fashion or fashion:DIR", " fashionmnist fmnist "},
    {"folder", &source_folder, true, true, "folder:DIR", " dir directory imagefolder imagenet images path "},
    {"npy", &source_npy, true, true, "npy:X.npy,Y.npy or npy:X.npy,Y.npy,XT.npy,YT.npy", " npz numpy "},
    {"synthetic", &source_synthetic, false, false, "synthetic", " dummy fake fakedata random "},
};
enum { N_FORMS = sizeof forms / sizeof forms[0] };

void comet_dataset_params_init(comet_dataset_params *params)
{
    *params = (comet_dataset_params){.size = sizeof *params};
}

static comet_status unknown_form(const char *spec, size_t length)
{
    nearest_word nearest = nearest_to(spec, length);
    for (size_t i = 0; i < N_FORMS; i++)
        nearest_offer_for(&nearest, forms[i].name, forms[i].synonyms);
    const char *best = nearest_best(&nearest);
    if (path_is_folder(spec))
        return comet_fail(COMET_ERROR_ARGUMENT, "the data '%.100s' is a folder; did you mean folder:%.100s?", spec, spec);
    return comet_fail(COMET_ERROR_ARGUMENT,
                      "the data '%.100s' is of no known kind; %s%s%s are cifar10:DIR, idx:DIR, fashion, folder:DIR, "
                      "npy:X,Y and synthetic",
                      spec, best ? "did you mean " : "", best ? best : "", best ? "? There" : "there");
}

/* Finds the form of `spec`; *place is what follows the colon, "" if there is none. */
static comet_status parse_spec(const char *spec, const struct form **form, const char **place)
{
    const size_t length = strcspn(spec, ":");
    const bool has_place = spec[length] == ':' && spec[length + 1] != '\0';
    for (size_t i = 0; i < N_FORMS; i++) {
        const struct form *f = &forms[i];
        if (strlen(f->name) != length || strncmp(f->name, spec, length) != 0)
            continue;
        if (has_place ? !f->takes_place : f->needs_place || spec[length] == ':')
            return comet_fail(COMET_ERROR_ARGUMENT, "the data '%.100s' should read %s", spec, f->usage);
        *form = f;
        *place = has_place ? spec + length + 1 : "";
        return COMET_OK;
    }
    return unknown_form(spec, length);
}

static comet_status check_params(const comet_dataset_params *params)
{
    if (params->size != sizeof *params)
        return comet_fail(COMET_ERROR_ARGUMENT, "comet_dataset_params has size %zu, not %zu: call comet_dataset_params_init",
                          params->size, sizeof *params);
    if (params->split != COMET_SPLIT_TRAIN && params->split != COMET_SPLIT_TEST)
        return comet_fail(COMET_ERROR_ARGUMENT, "split %d is neither train nor test", (int)params->split);
    if (params->image > MAX_SIDE)
        return comet_fail(COMET_ERROR_ARGUMENT, "images of %u pixels were asked for; at most %d are possible", params->image,
                          MAX_SIDE);
    return COMET_OK;
}

comet_status comet_dataset_open(comet_dataset **dataset, const char *spec, const comet_dataset_params *params)
{
    comet_dataset_params defaults;
    const struct form *form = forms;
    const char *place = NULL;
    if (!dataset || !spec)
        return comet_fail(COMET_ERROR_ARGUMENT, "comet_dataset_open was given a null pointer");
    comet_dataset_params_init(&defaults);
    if (!params)
        params = &defaults;
    comet_status status = check_params(params);
    if (status == COMET_OK)
        status = parse_spec(spec, &form, &place);
    if (status != COMET_OK)
        return status;
    comet_dataset *d = storage_new(1, sizeof *d);
    if (!d)
        return COMET_ERROR_MEMORY;
    *d = (comet_dataset){.source = form->source, .params = *params, .info = {.kind = form->source->kind}};
    status = form->source->open(d, place);
    if (status == COMET_OK && (d->info.n_images == 0 || d->info.n_images > MAX_IMAGES))
        status = comet_fail(COMET_ERROR_UNSUPPORTED, "%.100s has %llu images; 1 to %llu are possible", spec,
                            (unsigned long long)d->info.n_images, (unsigned long long)MAX_IMAGES);
    if (status == COMET_OK)
        *dataset = d;
    else
        comet_dataset_close(d);
    return status;
}

void comet_dataset_close(comet_dataset *dataset)
{
    if (!dataset)
        return;
    dataset->source->close(dataset);
    free(dataset);
}

void comet_dataset_info_init(comet_dataset_info *info)
{
    *info = (comet_dataset_info){.size = sizeof *info};
}

comet_status comet_dataset_describe(const comet_dataset *dataset, comet_dataset_info *info)
{
    if (!dataset)
        return comet_fail(COMET_ERROR_ARGUMENT, "comet_dataset_describe was given a null pointer");
    return GIVE(comet_dataset_info, info, &dataset->info);
}

const char *comet_dataset_class(const comet_dataset *dataset, uint32_t label)
{
    return dataset->class_names && label < dataset->info.n_classes ? dataset->class_names[label] : NULL;
}

static bool has_mapped(const comet_dataset *d, const mapped_file *file)
{
    for (size_t i = 0; i < MAX_SHARED; i++)
        if (file->data && d->shared[i].data == file->data)
            return true;
    return false;
}

uint64_t dataset_bytes_together(const comet_dataset *a, const comet_dataset *b, bool mapped)
{
    uint64_t bytes = 0;
    if (a)
        bytes += a->bytes - (mapped ? 0 : a->mapped);
    if (b)
        bytes += b->bytes - (mapped ? 0 : b->mapped);
    for (size_t i = 0; a && b && mapped && i < MAX_SHARED; i++)
        if (has_mapped(a, &b->shared[i]))
            bytes -= b->shared[i].bytes;
    return bytes;
}

uint64_t scratch_bytes(const scratch *s)
{
    return (uint64_t)s->file.bytes + s->pixels.bytes + s->taps.bytes + s->row.bytes;
}

void scratch_free(scratch *s)
{
    const comet_allocator allocator = comet_allocator_of(NULL);
    comet_buffer_free(&allocator, &s->file);
    comet_buffer_free(&allocator, &s->pixels);
    comet_buffer_free(&allocator, &s->taps);
    comet_buffer_free(&allocator, &s->row);
}

void dataset_normalise(const comet_dataset *d, const uint8_t *rows, uint64_t n, float *images)
{
    const size_t plane = (size_t)d->info.height * d->info.width;
    for (uint64_t i = 0; i < n; i++)
        for (uint32_t c = 0; c < d->info.channels; c++, rows += plane, images += plane)
            byte_plane_normalise(rows, plane, &d->tables[c], images);
}

comet_status dataset_read(const comet_dataset *d, uint64_t index, comet_random *random, scratch *s, float *image)
{
    const comet_allocator allocator = comet_allocator_of(NULL);
    if (!d->tables)
        return d->source->read(d, index, random, s, image);
    comet_status status = comet_buffer_reserve(&allocator, &s->row, dataset_row_bytes(d));
    if (status == COMET_OK)
        status = d->source->read(d, index, random, s, s->row.data);
    if (status == COMET_OK)
        dataset_normalise(d, s->row.data, 1, image);
    return status;
}
