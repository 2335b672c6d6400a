/* Arbitrary bytes as a pickle, without the archive around it. Whatever runs to its end has made objects that refer to objects.
 */
#include <stdbool.h>
#include <stdlib.h>

#include "train/files/pickle.h"

static void check(bool condition)
{
    if (!condition)
        abort();
}

static void check_tensor(const pickle_tensor *t)
{
    uint64_t n = 1, last = t->offset;
    check(t->n_dims <= SAFETENSORS_MAX_DIMS);
    for (uint32_t i = 0; i < t->n_dims; i++)
        n *= t->dims[i];
    for (uint32_t i = 0; n > 0 && i < t->n_dims; i++)
        last += (t->dims[i] - 1) * t->strides[i];
    check(n == 0 || (last < t->storage.n_elements && n <= t->storage.n_elements));
}

/* One level is enough: every object has been made in the same way. */
static void check_object(const pickle *p, uint32_t object, bool items)
{
    const pickle_object *o = pickle_at(p, object);
    check(o->kind <= PICKLE_TENSOR);
    if (o->kind == PICKLE_TENSOR)
        check_tensor(pickle_tensor_at(p, object));
    check(o->kind != PICKLE_DICT || o->n % 2 == 0);
    if (o->kind == PICKLE_TEXT)
        check(!pickle_is_text(p, object, "no text of a pickle has this") || o->n > 0);
    for (uint32_t i = 0; items && (o->kind == PICKLE_LIST || o->kind == PICKLE_DICT) && i < o->n; i++)
        check_object(p, o->as.items[i], false);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pickle *p = NULL;
    uint32_t root = 0;
    size_t used = 0, n_storages = 0;
    const comet_status status = pickle_run(&p, "fuzz", data, size, &root, &used);
    check(status == COMET_OK ? p != NULL && used <= size && data[used - 1] == '.' : status == COMET_ERROR_CORRUPT && !p);
    if (p) {
        check_object(p, root, true);
        const pickle_storage *storages = pickle_storages(p, &n_storages);
        for (size_t i = 0; i < n_storages; i++)
            check(storages[i].element.bytes > 0);
    }
    pickle_free(p);
    return 0;
}
