/* Tensors from and to files; see tensorio.h. */
#include "tensor/tensorio.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit/pages.h"
#include "tensor/fieldgen.h"

/* ---- shapes ---- */

uint32_t memory_shape(const comet_tensor *tensor, uint64_t shape[COMET_NPY_MAX_DIMS])
{
    const uint32_t n = tensor->n_dims;
    memcpy(shape, tensor->dims, n * sizeof shape[0]);
    if (tensor->layout == COMET_LAYOUT_PLANAR || n < 3)
        return n;
    const uint64_t channels = tensor->dims[n - 3];
    if (tensor->layout == COMET_LAYOUT_CHANNELS_LAST) {
        shape[n - 3] = tensor->dims[n - 2];
        shape[n - 2] = tensor->dims[n - 1];
        shape[n - 1] = channels;
        return n;
    }
    const uint64_t block = comet_layout_block(tensor->layout);
    shape[n - 3] = channels / block + (channels % block != 0);
    shape[n] = block;
    return n + 1;
}

/* The dims (.., C, H, W) of a shape in memory: the inverse of memory_shape. */
static bool dims_of_shape(comet_layout layout, const comet_npy_header *header, dims_arg *dims, reason *why)
{
    const uint64_t block = comet_layout_block(layout);
    const uint32_t n = header->n_dims - (block > 1);
    if (n > COMET_MAX_DIMS)
        return reason_set(why, "it has more than %d dimensions", COMET_MAX_DIMS);
    memcpy(dims->items, header->dims, n * sizeof dims->items[0]);
    dims->n = n;
    if (layout == COMET_LAYOUT_PLANAR)
        return true;
    if (header->n_dims < (block > 1 ? 4u : 3u) || (block > 1 && header->dims[n] != block))
        return reason_set(why, "its shape is not one of layout %s: %s", layout_name(layout),
                          block == 1   ? "(.., H, W, C)"
                          : block == 8 ? "(.., C/8, H, W, 8)"
                                       : "(.., C/16, H, W, 16)");
    if (block > 1) {
        dims->items[n - 3] = header->dims[n - 3] > UINT64_MAX / block ? UINT64_MAX : header->dims[n - 3] * block;
        return true;
    }
    dims->items[n - 3] = header->dims[n - 1];
    dims->items[n - 2] = header->dims[n - 3];
    dims->items[n - 1] = header->dims[n - 2];
    return true;
}

const char *dims_text(uint32_t n_dims, const uint64_t *dims, const char *separator, char text[DIMS_TEXT_BYTES])
{
    int at = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < n_dims && at < DIMS_TEXT_BYTES; i++)
        at += snprintf(text + at, (size_t)(DIMS_TEXT_BYTES - at), "%s%" PRIu64, i > 0 ? separator : "", dims[i]);
    return text;
}

cli_exit tensor_describe(comet_dtype dtype, comet_layout layout, uint32_t n_dims, const uint64_t *dims, cli_exit code,
                         const char *subject, comet_tensor *tensor, size_t *bytes)
{
    comet_status status = comet_tensor_init(tensor, dtype, n_dims, dims);
    if (status == COMET_OK) {
        tensor->layout = layout;
        status = comet_tensor_bytes(tensor, bytes);
    }
    return status == COMET_OK ? CLI_OK : fail(code, "%s: %s", subject, comet_last_error());
}

/* ---- element types of .npy files ---- */

static const struct {
    const char *descr;
    comet_dtype dtype;
} types[] = {{"<f4", COMET_DTYPE_F32}, {"<f2", COMET_DTYPE_F16}, {"<u2", COMET_DTYPE_BF16}, {"<f8", COMET_DTYPE_F64}};
enum { N_TYPES = sizeof types / sizeof types[0] };

/* The element type of a .npy: little-endian f2, f4, f8, and u2 for those who keep bfloat16 bits in it, accepted only where
 * `bf16` is set. */
static bool npy_dtype(const char *descr, bool bf16, comet_dtype *dtype, reason *why)
{
    for (size_t i = 0; i < N_TYPES; i++) {
        if (strcmp(types[i].descr, descr) == 0 && (types[i].dtype != COMET_DTYPE_BF16 || bf16)) {
            *dtype = types[i].dtype;
            return true;
        }
        if (descr[0] == '>' && strcmp(types[i].descr + 1, descr + 1) == 0)
            return reason_set(why, "it is big-endian ('%s'); save a.astype('%s') instead", descr, types[i].descr);
    }
    if (strcmp(descr, "<u2") == 0)
        return reason_set(why, "its elements are '<u2'; if they are bfloat16 bits, say so with -t bf16");
    return reason_set(why, "its elements are '%s'; only '<f4', '<f2', '<f8' and, with -t bf16, '<u2' can be compressed", descr);
}

static const char *npy_descr(comet_dtype dtype)
{
    const char *descr = types[0].descr;
    for (size_t i = 0; i < N_TYPES; i++)
        if (types[i].dtype == dtype)
            descr = types[i].descr;
    return descr;
}

/* ---- loading ---- */

void tensor_free(loaded_tensor *loaded)
{
    free(loaded->memory);
    *loaded = (loaded_tensor){0};
}

static bool shape_matches(const comet_tensor *tensor, const comet_npy_header *header)
{
    uint64_t shape[COMET_NPY_MAX_DIMS];
    const uint32_t n = memory_shape(tensor, shape);
    return n == header->n_dims && memcmp(shape, header->dims, n * sizeof shape[0]) == 0;
}

/* Fills the tensor from what header and request say about it. */
static cli_exit describe_npy(const char *path, const comet_npy_header *header, const tensor_request *request,
                             loaded_tensor *loaded)
{
    reason why;
    comet_dtype dtype = COMET_DTYPE_F32;
    dims_arg dims = request->dims;
    const bool bf16 = request->dtype.given && request->dtype.value == COMET_DTYPE_BF16;
    if (!npy_dtype(header->descr, bf16, &dtype, &why) || (dims.n == 0 && !dims_of_shape(request->layout, header, &dims, &why)))
        return fail(CLI_BAD_INPUT, "%s: %s", path, why.text);
    if (request->dtype.given && request->dtype.value != dtype)
        return fail(CLI_BAD_INPUT, "%s: its elements are %s, not %s", path, dtype_name(dtype),
                    dtype_name(request->dtype.value));
    const cli_exit code =
        tensor_describe(dtype, request->layout, dims.n, dims.items, CLI_BAD_INPUT, path, &loaded->tensor, &loaded->bytes);
    if (code == CLI_OK && !shape_matches(&loaded->tensor, header)) {
        char shape[DIMS_TEXT_BYTES], wanted[DIMS_TEXT_BYTES];
        return fail(CLI_BAD_INPUT, "%s: its shape (%s) is not that of %s in layout %s", path,
                    dims_text(header->n_dims, header->dims, ", ", shape), dims_text(dims.n, dims.items, ",", wanted),
                    layout_name(request->layout));
    }
    return code;
}

static cli_exit load_npy(const char *path, const tensor_request *request, blob *file, loaded_tensor *loaded)
{
    comet_npy_header header;
    const comet_status status = comet_npy_parse(&header, file->data, file->bytes);
    if (status != COMET_OK)
        return fail_status(status, path);
    const cli_exit code = describe_npy(path, &header, request, loaded);
    if (code != CLI_OK)
        return code;
    const size_t present = file->bytes - header.data_offset;
    if (present != loaded->bytes)
        return fail(CLI_BAD_INPUT, "%s: %s: its shape needs %zu bytes of data, it has %zu", path,
                    present < loaded->bytes ? "short data" : "bytes left over at the end", loaded->bytes, present);
    unsigned char *data = file->data + header.data_offset;
    if (header.data_offset % sizeof(double) != 0)
        data = memmove(file->data, data, present);
    loaded->data = data;
    return CLI_OK;
}

static cli_exit load_raw(const char *path, const tensor_request *request, const blob *file, loaded_tensor *loaded)
{
    if (request->dims.n == 0)
        return fail(CLI_BAD_INPUT, "%s: not a .npy file; for raw elements give their dims and type, as in -d 8,64,56,56 -t f32",
                    path);
    const comet_dtype dtype = request->dtype.given ? request->dtype.value : COMET_DTYPE_F32;
    const cli_exit code = tensor_describe(dtype, request->layout, request->dims.n, request->dims.items, CLI_USAGE, "option -d",
                                          &loaded->tensor, &loaded->bytes);
    if (code != CLI_OK)
        return code;
    if (file->bytes != loaded->bytes)
        return fail(CLI_BAD_INPUT, "%s: %s: the dims need %zu bytes, it has %zu", path,
                    file->bytes < loaded->bytes ? "short data" : "bytes left over at the end", loaded->bytes, file->bytes);
    loaded->data = file->data;
    return CLI_OK;
}

static cli_exit load_generated(const char *text, const tensor_request *request, loaded_tensor *loaded)
{
    reason why;
    field_spec spec;
    if (request->layout != COMET_LAYOUT_PLANAR)
        return fail(CLI_USAGE, "%s: generated tensors have layout nchw", text);
    if (!field_parse(text, &spec, &why))
        return fail(CLI_USAGE, "%s: %s", text, why.text);
    if (request->dtype.given)
        spec.dtype = request->dtype.value;
    return field_make(&spec, text, loaded);
}

cli_exit tensor_load(const char *path, const tensor_request *request, loaded_tensor *loaded)
{
    blob file;
    *loaded = (loaded_tensor){0};
    if (field_is_spec(path))
        return load_generated(path, request, loaded);
    cli_exit code = file_read(path, &file);
    if (code != CLI_OK)
        return code;
    const bool npy = comet_npy_has_magic(file.data, file.bytes);
    code = npy ? load_npy(path, request, &file, loaded) : load_raw(path, request, &file, loaded);
    if (code == CLI_OK)
        loaded->memory = file.data;
    else
        blob_free(&file);
    return code;
}

cli_exit tensor_save(const char *path, bool force, bool raw, const comet_tensor *tensor, const void *data, size_t bytes)
{
    char header[COMET_NPY_HEADER_BYTES];
    uint64_t shape[COMET_NPY_MAX_DIMS];
    const uint32_t n = memory_shape(tensor, shape);
    const size_t header_bytes = comet_npy_format(npy_descr(tensor->dtype), n, shape, header);
    const piece pieces[] = {{header, header_bytes}, {data, bytes}};
    return file_write(path, force, raw ? pieces + 1 : pieces, raw ? 1 : 2);
}
