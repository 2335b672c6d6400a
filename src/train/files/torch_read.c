/* See torch_read.h. */
#include "train/files/torch_read.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/status.h"
#include "train/files/file_read.h"
#include "train/files/pickle.h"
#include "train/files/zip_archive.h"

enum { MAX_NAME = 1024 };
static const char zip_magic[] = {'P', 'K', 3, 4};
/* 0x1950a86a20f9469cfc6c as a pickle's LONG1, and STOP, after PROTO. */
static const char row_magic[] = {'\x8a', '\x0a', 'l', '\xfc', '\x9c', 'F', '\xf9', ' ', 'j', '\xa8', 'P', '\x19', '.'};
/* Where training scripts keep the state dict, in this order. */
static const char *const wrappers[] = {"state_dict", "model_state_dict", "model", "net", "weights"};

/* Where a storage's bytes are: a record of the archive, or a place in the file. */
typedef struct storage_place {
    const zip_record *record;
    uint64_t offset;
} storage_place;

typedef struct torch_tensor {
    pickle_tensor view;
    storage_place place;
} torch_tensor;

typedef struct torch_reader {
    int fd;
    char *path;
    uint64_t file_bytes;
    bool archive;
    zip_archive zip;
    char *names; /* of the tensors */
    torch_tensor *tensors;
    size_t n_tensors;
    /* The span of a storage that a tensor covers, kept while elements that do not follow one another are taken from it. */
    unsigned char *span;
    size_t span_of; /* the tensor */
} torch_reader;

static comet_status out_of_memory(const torch_reader *r)
{
    return comet_fail(COMET_ERROR_MEMORY, "out of memory while reading %s", r->path);
}

static comet_status corrupt(const torch_reader *r, const char *what)
{
    return comet_fail(COMET_ERROR_CORRUPT, "%s: %s", r->path, what);
}

bool torch_read_knows(const unsigned char *bytes, size_t n)
{
    if (n >= sizeof zip_magic && memcmp(bytes, zip_magic, sizeof zip_magic) == 0)
        return true;
    return n >= 2 + sizeof row_magic && bytes[0] == 0x80 && memcmp(bytes + 2, row_magic, sizeof row_magic) == 0;
}

/* ---- elements ---- */

static comet_status read_storage(const torch_reader *r, const storage_place *place, uint64_t first, void *to, size_t bytes)
{
    if (place->record)
        return zip_archive_read(&r->zip, place->record, first, to, bytes);
    return file_read_at(r->fd, r->path, place->offset + first, to, bytes);
}

static bool is_contiguous(const pickle_tensor *t)
{
    uint64_t stride = 1;
    for (uint32_t i = t->n_dims; i-- > 0;) {
        if (t->dims[i] > 1 && t->strides[i] != stride)
            return false;
        stride *= t->dims[i];
    }
    return true;
}

/* Elements from the first to the last that the view has, which is not empty. */
static uint64_t span_elements(const pickle_tensor *t)
{
    uint64_t last = 0;
    for (uint32_t i = 0; i < t->n_dims; i++)
        last += (t->dims[i] - 1) * t->strides[i];
    return last + 1;
}

static comet_status load_span(torch_reader *r, size_t index)
{
    const torch_tensor *t = &r->tensors[index];
    const size_t width = t->view.storage.element.bytes, bytes = (size_t)span_elements(&t->view) * width;
    if (r->span && r->span_of == index)
        return COMET_OK;
    free(r->span);
    r->span = malloc(bytes);
    if (!r->span)
        return out_of_memory(r);
    r->span_of = index;
    const comet_status status = read_storage(r, &t->place, t->view.offset * width, r->span, bytes);
    if (status != COMET_OK) {
        free(r->span);
        r->span = NULL;
    }
    return status;
}

/* Where in the span the element with that number, counted row after row, lies. */
static uint64_t place_of(const pickle_tensor *t, uint64_t element)
{
    uint64_t at = 0;
    for (uint32_t i = t->n_dims; i-- > 0;) {
        at += element % t->dims[i] * t->strides[i];
        element /= t->dims[i];
    }
    return at;
}

static comet_status read_elements(void *user, size_t index, uint64_t first, uint64_t n, void *elements)
{
    torch_reader *r = user;
    const torch_tensor *t = &r->tensors[index];
    const size_t width = t->view.storage.element.bytes;
    unsigned char *to = elements;
    if (n == 0)
        return COMET_OK;
    /* A deflated record is inflated from its beginning, so that it is better read at once. */
    if (is_contiguous(&t->view) && !(t->place.record && t->place.record->deflated))
        return read_storage(r, &t->place, (t->view.offset + first) * width, to, (size_t)n * width);
    TRY(load_span(r, index));
    for (uint64_t i = 0; i < n; i++)
        memcpy(to + i * width, r->span + place_of(&t->view, first + i) * width, width);
    return COMET_OK;
}

static int by_place(const void *a, const void *b)
{
    const zip_record *const *x = a, *const *y = b;
    return (*x > *y) - (*x < *y);
}

/* Every record once, though tensors share them. The pickle was checked when it was read. */
static comet_status verify(void *user)
{
    const torch_reader *r = user;
    comet_status status = COMET_OK;
    if (!r->archive)
        return COMET_OK;
    const zip_record **records = malloc(r->n_tensors * sizeof(const zip_record *));
    if (!records)
        return out_of_memory(r);
    for (size_t i = 0; i < r->n_tensors; i++)
        records[i] = r->tensors[i].place.record;
    qsort(records, r->n_tensors, sizeof(const zip_record *), by_place);
    for (size_t i = 0; i < r->n_tensors && status == COMET_OK; i++)
        if (i == 0 || records[i] != records[i - 1])
            status = zip_archive_verify(&r->zip, records[i]);
    free(records);
    return status;
}

static void close_reader(void *user)
{
    torch_reader *r = user;
    if (!r)
        return;
    if (r->archive)
        zip_archive_close(&r->zip);
    if (r->fd >= 0)
        close(r->fd);
    free(r->names);
    free(r->tensors);
    free(r->span);
    free(r->path);
    free(r);
}

/* ---- the state dict in the pickle ---- */

static bool is_dict(const pickle *p, uint32_t object)
{
    return pickle_at(p, object)->kind == PICKLE_DICT;
}

static size_t count_tensors(const pickle *p, uint32_t dict)
{
    const pickle_object *d = pickle_at(p, dict);
    size_t n = 0;
    for (uint32_t i = 1; i < d->n; i += 2)
        n += pickle_at(p, d->as.items[i])->kind == PICKLE_TENSOR;
    return n;
}

/* The dict with tensors: `root`, or what it has under one of the usual keys. */
static bool find_state(const pickle *p, uint32_t root, uint32_t *state)
{
    const pickle_object *d = pickle_at(p, root);
    *state = root;
    if (!is_dict(p, root))
        return false;
    if (count_tensors(p, root) > 0)
        return true;
    for (size_t k = 0; k < sizeof wrappers / sizeof *wrappers; k++)
        for (uint32_t i = 0; i < d->n; i += 2) {
            *state = d->as.items[i + 1];
            if (pickle_is_text(p, d->as.items[i], wrappers[k]) && is_dict(p, *state) && count_tensors(p, *state) > 0)
                return true;
        }
    return false;
}

/* Copies names and views to the reader's tables. */
static comet_status take_state(torch_reader *r, const pickle *p, uint32_t state, safetensors_tensor **list)
{
    const pickle_object *d = pickle_at(p, state);
    const size_t n = count_tensors(p, state);
    size_t name_bytes = 1;
    for (uint32_t i = 0; i < d->n; i += 2)
        name_bytes += pickle_at(p, d->as.items[i])->kind == PICKLE_TEXT ? pickle_at(p, d->as.items[i])->n + 1 : 0;
    r->names = malloc(name_bytes);
    r->tensors = calloc(n + 1, sizeof *r->tensors); /* never 0 bytes */
    *list = calloc(n + 1, sizeof **list);
    if (!r->names || !r->tensors || !*list)
        return out_of_memory(r);
    char *to = r->names;
    for (uint32_t i = 0; i < d->n; i += 2) {
        const pickle_object *name = pickle_at(p, d->as.items[i]);
        if (pickle_at(p, d->as.items[i + 1])->kind != PICKLE_TENSOR)
            continue;
        if (name->kind != PICKLE_TEXT || name->n == 0 || name->n > MAX_NAME || memchr(name->as.text, '\0', name->n))
            return corrupt(r, "the name of a tensor is no text, or too long");
        memcpy(to, name->as.text, name->n);
        to[name->n] = '\0';
        (*list)[r->n_tensors].name = to;
        r->tensors[r->n_tensors++].view = *pickle_tensor_at(p, d->as.items[i + 1]);
        to += name->n + 1;
    }
    return COMET_OK;
}

static int by_name(const void *a, const void *b)
{
    const safetensors_tensor *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

static comet_status check_names(const torch_reader *r, const safetensors_tensor *list)
{
    comet_status status = COMET_OK;
    const safetensors_tensor **sorted = malloc(r->n_tensors * sizeof(const safetensors_tensor *));
    if (!sorted)
        return out_of_memory(r);
    for (size_t i = 0; i < r->n_tensors; i++)
        sorted[i] = &list[i];
    qsort(sorted, r->n_tensors, sizeof(const safetensors_tensor *), by_name);
    for (size_t i = 1; i < r->n_tensors && status == COMET_OK; i++)
        if (by_name(&sorted[i - 1], &sorted[i]) == 0)
            status =
                comet_fail(COMET_ERROR_CORRUPT, "%s: tensor '%.120s': there are two of this name", r->path, sorted[i]->name);
    free(sorted);
    return status;
}

static comet_status describe_tensors(const torch_reader *r, safetensors_tensor *list)
{
    for (size_t i = 0; i < r->n_tensors; i++) {
        const pickle_tensor *t = &r->tensors[i].view;
        uint64_t n = 1, bytes = 0;
        list[i].dtype = t->storage.element.dtype;
        list[i].n_dims = t->n_dims;
        memcpy(list[i].dims, t->dims, sizeof t->dims);
        for (uint32_t k = 0; k < t->n_dims; k++)
            if (__builtin_mul_overflow(n, t->dims[k], &n))
                n = UINT64_MAX;
        if (__builtin_mul_overflow(n, t->storage.element.bytes, &bytes) || bytes > INT64_MAX)
            return comet_fail(COMET_ERROR_CORRUPT, "%s: tensor '%.120s': its size does not fit 63 bits", r->path, list[i].name);
        list[i].n_elements = n;
        list[i].bytes = bytes;
    }
    return COMET_OK;
}

/* Takes the tensors of a pickle, whose storages are not yet found. */
static comet_status take_tensors(torch_reader *r, const pickle *p, uint32_t root, safetensors_tensor **list)
{
    uint32_t state = 0;
    if (!find_state(p, root, &state))
        return corrupt(r, "it holds no state dict; in PyTorch, save the weights with torch.save(model.state_dict(), FILE)");
    TRY(take_state(r, p, state, list));
    TRY(check_names(r, *list));
    return describe_tensors(r, *list);
}

/* ---- archives ---- */

/* Sets `root` to the archive's folder, "archive/", which has the only data.pkl. */
static comet_status find_root(const torch_reader *r, const char **root, size_t *bytes)
{
    static const char pickle_name[] = "/data.pkl", script_name[] = "/constants.pkl";
    size_t n_found = 0;
    for (size_t i = 0; i < r->zip.n_records; i++) {
        const char *name = r->zip.records[i].name, *slash = strchr(name, '/');
        if (slash && strcmp(slash, script_name) == 0)
            return corrupt(r, "a TorchScript archive, which is a program; in PyTorch, save the weights alone with "
                              "torch.save(model.state_dict(), FILE)");
        if (!slash || strcmp(slash, pickle_name) != 0)
            continue;
        *root = name;
        *bytes = (size_t)(slash - name) + 1;
        n_found++;
    }
    return n_found == 1 ? COMET_OK : corrupt(r, "a zip archive, but none of torch.save: it has not one data.pkl");
}

/* The record of the archive's folder with that name; NULL: there is none. */
static const zip_record *find_record(const torch_reader *r, const char *root, size_t root_bytes, const char *name, size_t bytes)
{
    char path[2 * MAX_NAME];
    const int n = snprintf(path, sizeof path, "%.*s%.*s", (int)root_bytes, root, (int)bytes, name);
    return n > 0 && (size_t)n < sizeof path ? zip_archive_find(&r->zip, path) : NULL;
}

static comet_status check_byte_order(const torch_reader *r, const char *root, size_t root_bytes)
{
    static const char little[] = "little";
    char order[sizeof little - 1];
    const zip_record *record = find_record(r, root, root_bytes, "byteorder", strlen("byteorder"));
    if (!record)
        return COMET_OK;
    if (record->bytes == sizeof order) {
        TRY(zip_archive_read(&r->zip, record, 0, order, sizeof order));
        if (memcmp(order, little, sizeof order) == 0)
            return COMET_OK;
    }
    return corrupt(r, "its numbers are not little-endian");
}

static comet_status find_records(const torch_reader *r, const char *root, size_t root_bytes, const safetensors_tensor *list)
{
    char name[MAX_NAME];
    for (size_t i = 0; i < r->n_tensors; i++) {
        const pickle_storage *s = &r->tensors[i].view.storage;
        uint64_t bytes = 0;
        const int n = snprintf(name, sizeof name, "data/%.*s", (int)min_u64(s->key_bytes, MAX_NAME), s->key);
        const zip_record *record = (size_t)n < sizeof name ? find_record(r, root, root_bytes, name, (size_t)n) : NULL;
        if (!record)
            return comet_fail(COMET_ERROR_CORRUPT, "%s: tensor '%.120s': the archive has no record %.120s", r->path,
                              list[i].name, name);
        if (__builtin_mul_overflow(s->n_elements, s->element.bytes, &bytes) || record->bytes != bytes)
            return comet_fail(COMET_ERROR_CORRUPT,
                              "%s: tensor '%.120s': record %.120s has %" PRIu64 " bytes, not those of %" PRIu64 " elements",
                              r->path, list[i].name, name, record->bytes, s->n_elements);
        r->tensors[i].place.record = record;
    }
    return COMET_OK;
}

static comet_status open_archive(torch_reader *r, safetensors_tensor **list)
{
    const char *root = NULL;
    size_t root_bytes = 0, used = 0;
    TRY(zip_archive_open(&r->zip, r->fd, r->path, r->file_bytes));
    r->archive = true;
    TRY(find_root(r, &root, &root_bytes));
    TRY(check_byte_order(r, root, root_bytes));
    const zip_record *record = find_record(r, root, root_bytes, "data.pkl", strlen("data.pkl"));
    if (!record || record->bytes > PICKLE_MAX_BYTES)
        return corrupt(r, "its pickle is too large for a state dict");
    void *data = malloc((size_t)record->bytes + 1);
    if (!data)
        return out_of_memory(r);
    pickle *p = NULL;
    uint32_t root_object = 0;
    comet_status status = zip_archive_verify(&r->zip, record);
    if (status == COMET_OK)
        status = zip_archive_read(&r->zip, record, 0, data, (size_t)record->bytes);
    if (status == COMET_OK)
        status = pickle_run(&p, r->path, data, (size_t)record->bytes, &root_object, &used);
    if (status == COMET_OK)
        status = take_tensors(r, p, root_object, list);
    if (status == COMET_OK && used != record->bytes)
        status = corrupt(r, "more follows the end of its pickle");
    if (status == COMET_OK)
        status = find_records(r, root, root_bytes, *list);
    pickle_free(p);
    free(data);
    return status;
}

/* ---- rows of pickles ---- */

typedef struct keyed_storage {
    pickle_storage storage;
    uint64_t offset; /* where its elements lie; 0: not known */
} keyed_storage;

static int by_key(const void *a, const void *b)
{
    const pickle_storage *x = &((const keyed_storage *)a)->storage, *y = &((const keyed_storage *)b)->storage;
    const int order = memcmp(x->key, y->key, x->key_bytes < y->key_bytes ? x->key_bytes : y->key_bytes);
    return order != 0 ? order : (x->key_bytes > y->key_bytes) - (x->key_bytes < y->key_bytes);
}

/* The storages of the pickle, each key once. */
static comet_status collect_storages(const torch_reader *r, const pickle *p, keyed_storage **made, size_t *n_made)
{
    size_t n = 0, kept = 0;
    const pickle_storage *all = pickle_storages(p, &n);
    keyed_storage *sorted = calloc(n, sizeof *sorted);
    if (!sorted)
        return out_of_memory(r);
    for (size_t i = 0; i < n; i++)
        sorted[i].storage = all[i];
    qsort(sorted, n, sizeof *sorted, by_key);
    for (size_t i = 0; i < n; i++) {
        const pickle_storage *s = &sorted[i].storage, *last = kept > 0 ? &sorted[kept - 1].storage : NULL;
        if (!last || by_key(&sorted[i], &sorted[kept - 1]) != 0) {
            sorted[kept++] = sorted[i];
        } else if (s->n_elements != last->n_elements || s->element.bytes != last->element.bytes) {
            free(sorted);
            return corrupt(r, "it says two sizes of the same storage");
        }
    }
    *made = sorted;
    *n_made = kept;
    return COMET_OK;
}

/* Storages follow in the order of `keys`, each after its number of elements. */
static comet_status walk_storages(const torch_reader *r, const pickle *keys, uint32_t root, keyed_storage *sorted, size_t n,
                                  uint64_t at)
{
    const pickle_object *list = pickle_at(keys, root);
    if (list->kind != PICKLE_LIST)
        return corrupt(r, "it has no list of storages");
    for (uint32_t i = 0; i < list->n; i++) {
        const pickle_object *text = pickle_at(keys, list->as.items[i]);
        if (text->kind != PICKLE_TEXT)
            return corrupt(r, "the key of a storage is no text");
        const keyed_storage key = {.storage = {.key = text->as.text, .key_bytes = text->n}};
        keyed_storage *s = bsearch(&key, sorted, n, sizeof *sorted, by_key);
        unsigned char count[8];
        uint64_t bytes = 0;
        if (!s || s->offset > 0)
            return corrupt(r, "its list of storages is not that of its tensors");
        if (r->file_bytes - at < sizeof count)
            return corrupt(r, "cut short: it ends before its storages");
        TRY(file_read_at(r->fd, r->path, at, count, sizeof count));
        at += sizeof count;
        if (load_u64(count) != s->storage.n_elements ||
            __builtin_mul_overflow(s->storage.n_elements, s->storage.element.bytes, &bytes) || bytes > r->file_bytes - at)
            return comet_fail(COMET_ERROR_CORRUPT,
                              "%s: damaged or cut short: the storage at byte %" PRIu64 " has not the %" PRIu64
                              " elements it should have",
                              r->path, at, s->storage.n_elements);
        s->offset = at;
        at += bytes;
    }
    return at == r->file_bytes ? COMET_OK : corrupt(r, "more follows its last storage");
}

static comet_status place_tensors(torch_reader *r, const keyed_storage *sorted, size_t n, const safetensors_tensor *list)
{
    for (size_t i = 0; i < r->n_tensors; i++) {
        const keyed_storage key = {.storage = r->tensors[i].view.storage};
        const keyed_storage *s = bsearch(&key, sorted, n, sizeof *sorted, by_key);
        if (!s || s->offset == 0)
            return comet_fail(COMET_ERROR_CORRUPT, "%s: tensor '%.120s': its storage is not there", r->path, list[i].name);
        r->tensors[i].place.offset = s->offset;
    }
    return COMET_OK;
}

/* The list of keys and the storages, from byte `at`; `p` is the pickle of the state dict. */
static comet_status find_storages(torch_reader *r, const pickle *p, const unsigned char *data, size_t bytes, size_t at,
                                  const safetensors_tensor *list)
{
    pickle *keys = NULL;
    keyed_storage *sorted = NULL;
    uint32_t root = 0;
    size_t n = 0, used = 0;
    TRY(pickle_run(&keys, r->path, data + at, bytes - at, &root, &used));
    comet_status status = collect_storages(r, p, &sorted, &n);
    if (status == COMET_OK)
        status = walk_storages(r, keys, root, sorted, n, at + used);
    if (status == COMET_OK)
        status = place_tensors(r, sorted, n, list);
    free(sorted);
    pickle_free(keys);
    return status;
}

/* Skips a pickle of plain values. */
static comet_status skip_pickle(const torch_reader *r, const unsigned char *data, size_t bytes, size_t *at)
{
    pickle *p = NULL;
    uint32_t root = 0;
    size_t used = 0;
    TRY(pickle_run(&p, r->path, data + *at, bytes - *at, &root, &used));
    pickle_free(p);
    *at += used;
    return COMET_OK;
}

static comet_status open_row(torch_reader *r, safetensors_tensor **list)
{
    const size_t bytes = (size_t)min_u64(r->file_bytes, PICKLE_MAX_BYTES);
    unsigned char *data = malloc(bytes);
    if (!data)
        return out_of_memory(r);
    pickle *p = NULL;
    uint32_t root = 0;
    size_t at = 0, used = 0;
    comet_status status = file_read_at(r->fd, r->path, 0, data, bytes);
    for (int i = 0; i < 3 && status == COMET_OK; i++) /* the magic number, the version, the machine */
        status = skip_pickle(r, data, bytes, &at);
    if (status == COMET_OK)
        status = pickle_run(&p, r->path, data + at, bytes - at, &root, &used);
    if (status == COMET_OK)
        status = take_tensors(r, p, root, list);
    if (status == COMET_OK)
        status = find_storages(r, p, data, bytes, at + used, *list);
    pickle_free(p);
    free(data);
    return status;
}

/* ---- opening ---- */

comet_status torch_read_open(safetensors_file **file, const char *path)
{
    unsigned char first[sizeof zip_magic];
    torch_reader *r = calloc(1, sizeof *r);
    safetensors_tensor *list = NULL;
    const size_t path_bytes = strlen(path) + 1;
    if (r) {
        r->fd = -1;
        r->path = malloc(path_bytes);
    }
    if (!r || !r->path) {
        free(r);
        return comet_fail(COMET_ERROR_MEMORY, "out of memory while opening %s", path);
    }
    memcpy(r->path, path, path_bytes);
    comet_status status = file_open_regular(path, &r->fd, &r->file_bytes);
    if (status == COMET_OK)
        status = file_read_at(r->fd, path, 0, first, sizeof first);
    if (status == COMET_OK)
        status = memcmp(first, zip_magic, sizeof first) == 0 ? open_archive(r, &list) : open_row(r, &list);
    if (status == COMET_OK) {
        const safetensors_reader reader = {.user = r, .read = read_elements, .verify = verify, .close = close_reader};
        status = safetensors_adopt(file, path, list, r->n_tensors, &reader);
    }
    if (status != COMET_OK) {
        free(list);
        close_reader(r);
    }
    return status;
}
