/*
 * folder:DIR: pictures in one folder a class. Classes are the folders' names in byte order. With DIR/train, that is the
 * training part and DIR/val (or DIR/test) the other; else the folders of DIR itself are classes, and a tenth of all pictures,
 * picked by the seed, is held out to test. Only names are kept in memory. Names are listed in byte order too, whatever the file
 * system does.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/status.h"
#include "train/data/dataset.h"
#include "train/data/permutation.h"
#include "train/data/resample.h"
#include "train/data/storage.h"

enum { DEFAULT_SIDE = 224, MAX_FILE_BYTES = 1 << 28 };

/* What a thread holds of a usual picture: its file, and pixels of less than twice the sides of the image. */
enum { USUAL_FILE_BYTES = 1 << 18, SHRINK = 2 };

/* Those of ImageNet. */
static const double means[PICTURE_CHANNELS] = {0.485, 0.456, 0.406}, stds[PICTURE_CHANNELS] = {0.229, 0.224, 0.225};

typedef struct entry {
    size_t name; /* where in `names` */
    uint32_t label;
} entry;

typedef struct folder {
    char root[PATH_BYTES]; /* the folder with the class folders */
    char **classes;
    uint32_t n_classes;
    entry *entries;
    uint64_t n_entries, entry_room;
    char *names;
    size_t names_bytes, names_room;
    byte_table tables[PICTURE_CHANNELS];
} folder;

/* ---- listing ---- */

static int compare_names(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int is_visible(const struct dirent *item)
{
    return item->d_name[0] != '.';
}

static int is_picture(const struct dirent *item)
{
    const char *dot = strrchr(item->d_name, '.');
    return is_visible(item) && dot && (!strcasecmp(dot, ".jpg") || !strcasecmp(dot, ".jpeg") || !strcasecmp(dot, ".png"));
}

static void free_list(struct dirent **list, int n)
{
    for (int i = 0; i < n; i++)
        free(list[i]);
    free(list);
}

static comet_status list_folder(const char *path, int (*wanted)(const struct dirent *), struct dirent ***list, int *n)
{
    *n = scandir(path, list, wanted, compare_names);
    if (*n >= 0)
        return COMET_OK;
    const bool memory = errno == ENOMEM;
    *n = 0;
    *list = NULL;
    return comet_fail(memory ? COMET_ERROR_MEMORY : COMET_ERROR_IO,
                      memory ? "%s: out of memory while listing it" : "%s: could not list the folder", path);
}

/* Makes room for `needed` items of an array that grows by half its size. */
static comet_status grow(void **items, uint64_t needed, uint64_t *room, size_t item_bytes)
{
    if (needed <= *room)
        return COMET_OK;
    const uint64_t larger = needed + needed / 2 + 64;
    void *moved = larger <= SIZE_MAX / item_bytes ? realloc(*items, (size_t)larger * item_bytes) : NULL;
    if (!moved)
        return comet_fail(COMET_ERROR_MEMORY, "out of memory: could not allocate a list of %llu file names",
                          (unsigned long long)needed);
    *items = moved;
    *room = larger;
    return COMET_OK;
}

static comet_status add_entry(folder *f, const char *name, uint32_t label)
{
    const size_t length = strlen(name) + 1;
    void *entries = f->entries, *names = f->names;
    uint64_t names_room = f->names_room;
    comet_status status = grow(&entries, f->n_entries + 1, &f->entry_room, sizeof *f->entries);
    f->entries = entries;
    if (status == COMET_OK)
        status = grow(&names, f->names_bytes + length, &names_room, 1);
    f->names = names;
    f->names_room = (size_t)names_room;
    if (status != COMET_OK)
        return status;
    memcpy(f->names + f->names_bytes, name, length);
    f->entries[f->n_entries++] = (entry){.name = f->names_bytes, .label = label};
    f->names_bytes += length;
    return COMET_OK;
}

/* Adds the pictures of one class. A class folder without any is a mistake. */
static comet_status list_class(folder *f, const char *root, uint32_t label)
{
    char path[PATH_BYTES];
    struct dirent **list = NULL;
    int n = 0;
    comet_status status = path_join(path, root, f->classes[label]);
    if (status == COMET_OK)
        status = list_folder(path, is_picture, &list, &n);
    if (status == COMET_OK && n == 0)
        status =
            comet_fail(COMET_ERROR_CORRUPT, "%s has no .jpg, .jpeg or .png file; put pictures in, or remove the folder", path);
    for (int i = 0; i < n && status == COMET_OK; i++)
        status = add_entry(f, list[i]->d_name, label);
    free_list(list, n);
    return status;
}

/* Fills f->classes with the folders in `root`. */
static comet_status find_classes(folder *f, const char *root)
{
    char path[PATH_BYTES];
    struct dirent **list = NULL;
    int n = 0;
    comet_status status = list_folder(root, is_visible, &list, &n);
    if (status == COMET_OK && !(f->classes = storage_new((uint64_t)n, sizeof *f->classes)))
        status = COMET_ERROR_MEMORY;
    for (int i = 0; i < n && status == COMET_OK; i++) {
        status = path_join(path, root, list[i]->d_name);
        if (status != COMET_OK || !path_is_folder(path))
            continue;
        const size_t bytes = strlen(list[i]->d_name) + 1;
        char *name = storage_new(bytes, 1);
        if (!name)
            status = COMET_ERROR_MEMORY;
        else
            f->classes[f->n_classes++] = memcpy(name, list[i]->d_name, bytes);
    }
    free_list(list, n);
    if (status == COMET_OK && f->n_classes == 0)
        status = comet_fail(COMET_ERROR_CORRUPT, "%s has no folders; pictures belong in one folder a class: %s/CLASS/NAME.jpg",
                            root, root);
    if (status == COMET_OK && f->n_classes > MAX_CLASSES)
        status = comet_fail(COMET_ERROR_UNSUPPORTED, "%s has %u folders; at most %d classes are possible", root, f->n_classes,
                            MAX_CLASSES);
    return status;
}

/* Every folder of the test part must be a class of the training part. */
static comet_status check_known_classes(const folder *f, const char *root)
{
    folder other = {.n_classes = 0};
    comet_status status = find_classes(&other, root);
    for (uint32_t i = 0, k = 0; i < other.n_classes && status == COMET_OK; i++) {
        while (k < f->n_classes && strcmp(f->classes[k], other.classes[i]) < 0)
            k++;
        if (k == f->n_classes || strcmp(f->classes[k], other.classes[i]) != 0)
            status = comet_fail(COMET_ERROR_CORRUPT, "%s/%s is no class of the training part; rename or remove it", root,
                                other.classes[i]);
    }
    for (uint32_t i = 0; i < other.n_classes; i++)
        free(other.classes[i]);
    free(other.classes);
    return status;
}

/* ---- splits ---- */

/* Keeps the pictures that belong to the split. */
static comet_status hold_out(folder *f, const comet_dataset_params *params)
{
    uint32_t *kept = NULL;
    uint64_t n_kept = 0;
    if (f->n_entries < 2 || f->n_entries > MAX_IMAGES)
        return comet_fail(COMET_ERROR_CORRUPT, "%s has %llu pictures; 2 to %llu can be split to train and to test", f->root,
                          (unsigned long long)f->n_entries, (unsigned long long)MAX_IMAGES);
    const comet_status status = holdout_indices(params->seed, f->n_entries, params->split == COMET_SPLIT_TEST, &kept, &n_kept);
    if (status != COMET_OK)
        return status;
    for (uint64_t i = 0; i < n_kept; i++)
        f->entries[i] = f->entries[kept[i]];
    f->n_entries = n_kept;
    free(kept);
    return COMET_OK;
}

/* DIR/val or DIR/test. */
static comet_status find_test_root(char root[PATH_BYTES], const char *where)
{
    comet_status status = path_join(root, where, "val");
    if (status == COMET_OK && !path_is_folder(root))
        status = path_join(root, where, "test");
    if (status == COMET_OK && !path_is_folder(root))
        status = comet_fail(COMET_ERROR_IO, "%s has train, but neither val nor test; put the pictures to test with in %s/val",
                            where, where);
    return status;
}

static comet_status list_pictures(folder *f, const comet_dataset_params *params, const char *where)
{
    char train[PATH_BYTES];
    comet_status status = path_join(train, where, "train");
    if (status != COMET_OK)
        return status;
    if (!path_is_folder(where))
        return comet_fail(COMET_ERROR_IO, "%s is not a folder; DIR of folder:DIR holds one folder a class, or train and val",
                          where);
    const bool split = path_is_folder(train), test = params->split == COMET_SPLIT_TEST;
    snprintf(f->root, sizeof f->root, "%s", split ? train : where);
    status = find_classes(f, f->root);
    if (status == COMET_OK && split && test)
        status = find_test_root(f->root, where);
    if (status == COMET_OK && split && test)
        status = check_known_classes(f, f->root);
    for (uint32_t i = 0; i < f->n_classes && status == COMET_OK; i++) {
        char path[PATH_BYTES];
        status = path_join(path, f->root, f->classes[i]);
        if (status == COMET_OK && (!(split && test) || path_is_folder(path))) /* a class may lack pictures to test */
            status = list_class(f, f->root, i);
    }
    if (status == COMET_OK && !split)
        status = hold_out(f, params);
    return status;
}

static comet_status folder_open(comet_dataset *d, const char *where)
{
    folder *f = d->state = storage_new(1, sizeof *f);
    if (!f)
        return COMET_ERROR_MEMORY;
    if (strlen(where) >= PATH_BYTES)
        return comet_fail(COMET_ERROR_ARGUMENT, "folder:%.100s... is longer than %d bytes", where, PATH_BYTES);
    const comet_status status = list_pictures(f, &d->params, where);
    for (int c = 0; c < PICTURE_CHANNELS; c++)
        f->tables[c] = byte_table_make(means[c], stds[c]);
    d->tables = f->tables;
    d->info.n_images = f->n_entries;
    d->info.n_classes = f->n_classes;
    d->info.channels = PICTURE_CHANNELS;
    d->info.height = d->info.width = d->params.image > 0 ? d->params.image : DEFAULT_SIDE;
    d->info.crops = true;
    d->reading_bytes = (uint64_t)PICTURE_CHANNELS * SHRINK * d->info.width * SHRINK * d->info.width + USUAL_FILE_BYTES;
    d->class_names = (const char *const *)f->classes;
    d->preparation = (preparation_rule){.means = means, .deviations = stds, .is_bytes = true, .has_margin = true};
    d->bytes = sizeof *f + f->names_room + f->entry_room * sizeof *f->entries;
    return status;
}

static comet_status folder_read(const comet_dataset *d, uint64_t index, comet_random *random, scratch *s, void *row)
{
    const folder *f = d->state;
    const entry *e = &f->entries[index];
    char path[3 * PATH_BYTES];
    size_t bytes = 0;
    snprintf(path, sizeof path, "%s/%s/%s", f->root, f->classes[e->label], f->names + e->name);
    comet_status status = storage_read_file(path, MAX_FILE_BYTES, &s->file, &bytes);
    if (status != COMET_OK)
        return status;
    resample_target target = {.side = d->info.width, .flip = random && comet_random_below(random, 2) == 1};
    target.planes = row;
    const picture_request request = {.name = path,
                                     .file = s->file.data,
                                     .bytes = bytes,
                                     .crop = {.random = random, .side = target.side},
                                     .pixels = &s->pixels};
    picture p;
    status = picture_decode(&p, &request);
    if (status == COMET_OK)
        status = resample(&p, &target, &s->taps);
    return status;
}

static uint32_t folder_label(const comet_dataset *d, uint64_t index)
{
    const folder *f = d->state;
    return f->entries[index].label;
}

static void folder_close(comet_dataset *d)
{
    folder *f = d->state;
    if (!f)
        return;
    for (uint32_t i = 0; i < f->n_classes; i++)
        free(f->classes[i]);
    free(f->classes);
    free(f->entries);
    free(f->names);
    free(f);
}

const dataset_source source_folder = {"folder", folder_open, folder_read, folder_label, folder_close};
