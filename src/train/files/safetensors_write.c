/* Writing safetensors; see safetensors.h. */
#include <cJSON.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/atomic_file.h"
#include "base/bytes.h"
#include "base/checksum.h"
#include "base/status.h"
#include "train/files/safetensors_private.h"

static const char no_checksum[] = "0000000000000000";

static comet_status out_of_memory(void)
{
    comet_fail(COMET_ERROR_MEMORY, "out of memory while writing the header of a safetensors file");
    return COMET_ERROR_MEMORY;
}

/* Adds `item`, which is given away, to `object`. */
static bool add(cJSON *object, const char *key, cJSON *item)
{
    if (item && cJSON_AddItemToObject(object, key, item))
        return true;
    cJSON_Delete(item);
    return false;
}

static bool add_metadata(cJSON *root, const safetensors_source *source)
{
    cJSON *metadata = cJSON_CreateObject();
    bool ok = add(root, "__metadata__", metadata);
    for (size_t i = 0; i < source->n_metadata && ok; i++)
        ok = add(metadata, source->metadata[i].key, cJSON_CreateString(source->metadata[i].text));
    return ok && add(metadata, "comet_checksum", cJSON_CreateString(no_checksum));
}

static bool add_tensor(cJSON *root, const safetensors_tensor *t)
{
    char shape[SAFETENSORS_SHAPE_BYTES], offsets[64];
    size_t at = (size_t)snprintf(shape, sizeof shape, "[");
    for (uint32_t i = 0; i < t->n_dims; i++)
        at += (size_t)snprintf(shape + at, sizeof shape - at, "%s%" PRIu64, i > 0 ? "," : "", t->dims[i]);
    snprintf(shape + at, sizeof shape - at, "]");
    snprintf(offsets, sizeof offsets, "[%" PRIu64 ",%" PRIu64 "]", t->offset, t->offset + t->bytes);
    cJSON *entry = cJSON_CreateObject();
    return add(root, t->name, entry) && add(entry, "dtype", cJSON_CreateString(safetensors_types[t->dtype].name)) &&
           add(entry, "shape", cJSON_CreateRaw(shape)) && add(entry, "data_offsets", cJSON_CreateRaw(offsets));
}

static comet_status describe(const safetensors_source *source, size_t index, uint64_t offset, safetensors_tensor *t)
{
    *t = (safetensors_tensor){0};
    const comet_status status = source->describe(source->user, index, t);
    if (status != COMET_OK)
        return status;
    t->offset = offset;
    if (!safetensors_size(t->n_dims, t->dims, safetensors_types[t->dtype].bytes, &t->n_elements, &t->bytes))
        return comet_fail(COMET_ERROR_OVERFLOW, "%s is larger than a file can be", t->name);
    return COMET_OK;
}

/* The header as text, padded to a multiple of eight bytes; the caller frees it. */
static comet_status make_header(const safetensors_source *source, char **text, size_t *bytes)
{
    uint64_t offset = 0;
    char *printed = NULL;
    cJSON *root = cJSON_CreateObject();
    comet_status status = root && add_metadata(root, source) ? COMET_OK : out_of_memory();
    for (size_t i = 0; i < source->n_tensors && status == COMET_OK; i++) {
        safetensors_tensor t;
        status = describe(source, i, offset, &t);
        if (status == COMET_OK && !add_tensor(root, &t))
            status = out_of_memory();
        offset += t.bytes;
    }
    if (status == COMET_OK) {
        printed = cJSON_PrintUnformatted(root);
        const size_t length = printed ? strlen(printed) : 0;
        *bytes = (length + 7) / 8 * 8;
        *text = printed ? malloc(*bytes + 1) : NULL;
        if (*text)
            snprintf(*text, *bytes + 1, "%-*s", (int)*bytes, printed);
        status = *text ? COMET_OK : out_of_memory();
    }
    cJSON_free(printed);
    cJSON_Delete(root);
    return status;
}

static comet_status write_header(atomic_file *out, const char *header, size_t bytes)
{
    unsigned char length[8];
    store_u64(length, bytes);
    const comet_status status = atomic_file_write(out, length, sizeof length);
    return status == COMET_OK ? atomic_file_write(out, header, bytes) : status;
}

/* Writes a tensor through `piece`; *hash continues that of what was written before. */
static comet_status write_tensor(atomic_file *out, const safetensors_source *source, size_t index, void *piece, uint64_t *hash)
{
    safetensors_tensor t;
    TRY(describe(source, index, 0, &t));
    const uint64_t width = safetensors_types[t.dtype].bytes;
    for (uint64_t done = 0; done < t.n_elements;) {
        const uint64_t here = min_u64(t.n_elements - done, SAFETENSORS_PIECE / width);
        TRY(source->fill(source->user, index, done, here, piece));
        *hash = safetensors_chain(*hash, piece, (size_t)(here * width));
        TRY(atomic_file_write(out, piece, (size_t)(here * width)));
        done += here;
    }
    return COMET_OK;
}

static comet_status write_tensors(atomic_file *out, const safetensors_source *source, uint64_t *hash)
{
    comet_status status = COMET_OK;
    void *piece = malloc(SAFETENSORS_PIECE);
    if (!piece)
        return comet_fail(COMET_ERROR_MEMORY, "out of memory: could not allocate %zu bytes for writing %s", SAFETENSORS_PIECE,
                          out->path);
    for (size_t i = 0; i < source->n_tensors && status == COMET_OK; i++)
        status = write_tensor(out, source, i, piece, hash);
    free(piece);
    return status;
}

/* Where the digits begin. They are the last of the metadata. The name of a tensor may end like their key, but an object follows
 * it: the last match is theirs. */
static size_t find_digits(const char *header)
{
    static const char key[] = "\"comet_checksum\":\"";
    const char *last = strstr(header, key);
    for (const char *at = last; at; at = strstr(at + 1, key))
        last = at;
    return (size_t)(last - header) + strlen(key);
}

static comet_status patch_checksum(atomic_file *out, const char *header, uint64_t hash)
{
    char digits[SAFETENSORS_CHECKSUM_DIGITS + 1];
    snprintf(digits, sizeof digits, "%016" PRIx64, hash);
    return atomic_file_patch(out, 8 + find_digits(header), digits, SAFETENSORS_CHECKSUM_DIGITS);
}

comet_status safetensors_save(const char *path, const char *keep, const safetensors_source *source)
{
    atomic_file out = {.fd = -1};
    char *header = NULL;
    size_t header_bytes = 0;
    TRY(make_header(source, &header, &header_bytes));
    uint64_t hash = comet_checksum(header, header_bytes);
    comet_status status = atomic_file_begin(&out, path);
    if (status == COMET_OK)
        status = write_header(&out, header, header_bytes);
    if (status == COMET_OK)
        status = write_tensors(&out, source, &hash);
    if (status == COMET_OK)
        status = patch_checksum(&out, header, hash);
    if (status == COMET_OK)
        status = atomic_file_commit(&out, keep);
    atomic_file_abandon(&out);
    free(header);
    return status;
}
