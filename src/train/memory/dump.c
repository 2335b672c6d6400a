/*
 * Saved activations as .npy files of floats, in the order N C H W: what codecs are tried on.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "comet/npy.h"
#include "train/backend/element.h"
#include "train/memory/memory.h"

comet_status comet_model_dump(comet_model *m, const char *folder)
{
    if (!m || (folder && m->params.inference))
        return comet_fail(COMET_ERROR_ARGUMENT, "only a model that trains can dump activations");
    if (folder && mkdir(folder, 0777) != 0 && errno != EEXIST)
        return comet_fail(COMET_ERROR_IO, "%s: could not create the folder: %s", folder, strerror(errno));
    m->dump = folder;
    return COMET_OK;
}

/* Where element (c, plane position) of an image lies. */
static uint64_t place(layout_order order, uint64_t block, uint64_t channels, uint64_t plane, uint64_t c, uint64_t at)
{
    if (order == ORDER_CHANNELS_LAST)
        return at * channels + c;
    return order == ORDER_BLOCKED ? (c / block * plane + at) * block + c % block : c * plane + at;
}

static bool write_images(FILE *file, const layout *l, const void *x)
{
    uint64_t dims[5] = {1, 1, 1, 1}, block = 1;
    const uint32_t n_dims = layout_dims(l, dims);
    const layout_order order = layout_describe(l, &block);
    const uint64_t plane = n_dims == 4 ? dims[2] * dims[3] : 1, image = layout_elements(l) / dims[0];
    float *row = malloc(plane * sizeof *row);
    bool good = row != NULL;
    for (uint64_t i = 0; good && i < dims[0] * dims[1]; i++) {
        for (uint64_t at = 0; at < plane; at++)
            row[at] =
                element_get(layout_type(l), x, i / dims[1] * image + place(order, block, dims[1], plane, i % dims[1], at));
        good = fwrite(row, sizeof *row, plane, file) == plane;
    }
    free(row);
    return good;
}

comet_status dump_tensor(const comet_model *m, const char *layer, const char *what, const layout *l, const void *x)
{
    char path[4096], header[COMET_NPY_HEADER_BYTES];
    uint64_t dims[5], block;
    if (!m->dump || layout_describe(l, &block) == ORDER_OTHER)
        return COMET_OK;
    const size_t n = (size_t)snprintf(path, sizeof path, "%s/%s_%s.npy", m->dump, layer, what);
    for (size_t i = strlen(m->dump) + 1; i < n && i < sizeof path; i++)
        if (path[i] == ' ' || path[i] == '/')
            path[i] = '_';
    FILE *file = n < sizeof path ? fopen(path, "wb") : NULL;
    if (!file)
        return comet_fail(COMET_ERROR_IO, "%s: cannot be written: %s", path, strerror(errno));
    const uint32_t n_dims = layout_dims(l, dims);
    const size_t bytes = comet_npy_format("<f4", n_dims, dims, header);
    const bool good = fwrite(header, 1, bytes, file) == bytes && write_images(file, l, x);
    if (fclose(file) == 0 && good)
        return COMET_OK;
    return comet_fail(COMET_ERROR_IO, "%s: cannot be written: %s", path, strerror(errno));
}
