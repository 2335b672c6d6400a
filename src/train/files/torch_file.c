/*
 * torch.save's format, see torch_file.h.
 *
 *   archive/data.pkl    pickle, protocol 2: OrderedDict of _rebuild_tensor_v2(storage, 0, sizes, strides, False, OrderedDict())
 *   archive/data/0 ...  elements of the tensors, each at a multiple of 64 bytes
 *   archive/version     "3"
 */
#include "train/files/torch_file.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/atomic_file.h"
#include "base/bytes.h"
#include "base/status.h"

enum { ALIGNMENT = 64, LOCAL_BYTES = 30, NAME_BYTES = 40 };
static const uint64_t max_bytes = UINT32_MAX; /* of a zip archive without extensions */

/* ---- bytes that grow ---- */

typedef struct growing {
    unsigned char *data;
    size_t bytes, capacity;
    bool failed;
} growing;

static void put(growing *g, const void *data, size_t bytes)
{
    if (g->failed)
        return;
    if (bytes > g->capacity - g->bytes) {
        const size_t capacity = 2 * g->capacity + bytes + 256;
        unsigned char *larger = realloc(g->data, capacity);
        if (!larger) {
            g->failed = true;
            return;
        }
        g->data = larger;
        g->capacity = capacity;
    }
    memcpy(g->data + g->bytes, data, bytes);
    g->bytes += bytes;
}

static void put_text(growing *g, const char *text)
{
    put(g, text, strlen(text));
}

static void put_u16(growing *g, unsigned v)
{
    unsigned char bytes[2];
    store_u16(bytes, (uint16_t)v);
    put(g, bytes, sizeof bytes);
}

static void put_u32(growing *g, uint32_t v)
{
    unsigned char bytes[4];
    store_u32(bytes, v);
    put(g, bytes, sizeof bytes);
}

/* ---- the pickle: opcodes by their letters ---- */

static void pickle_text(growing *g, const char *text)
{
    put_text(g, "X");
    put_u32(g, (uint32_t)strlen(text));
    put_text(g, text);
}

static void pickle_number(growing *g, uint64_t v)
{
    unsigned char wide[8];
    if (v <= INT32_MAX) {
        put_text(g, "J");
        put_u32(g, (uint32_t)v);
        return;
    }
    put(g, "\x8a\x08", 2);
    store_u64(wide, v);
    put(g, wide, sizeof wide);
}

static void pickle_empty_dict(growing *g)
{
    put_text(g, "ccollections\nOrderedDict\n)R");
}

static const char *storage_of(safetensors_dtype dtype)
{
    switch (dtype) {
    case SAFETENSORS_F64: return "ctorch\nDoubleStorage\n";
    case SAFETENSORS_F16: return "ctorch\nHalfStorage\n";
    case SAFETENSORS_BF16: return "ctorch\nBFloat16Storage\n";
    case SAFETENSORS_I64: return "ctorch\nLongStorage\n";
    case SAFETENSORS_F32:
    case SAFETENSORS_OTHER: break;
    }
    return "ctorch\nFloatStorage\n";
}

static uint64_t count_of(const safetensors_tensor *t)
{
    uint64_t n = 1;
    for (uint32_t i = 0; i < t->n_dims; i++)
        n *= t->dims[i];
    return n;
}

static void pickle_sizes(growing *g, const safetensors_tensor *t)
{
    put_text(g, "(");
    for (uint32_t i = 0; i < t->n_dims; i++)
        pickle_number(g, t->dims[i]);
    put_text(g, "t(");
    for (uint32_t i = 0; i < t->n_dims; i++) {
        uint64_t stride = 1;
        for (uint32_t k = i + 1; k < t->n_dims; k++)
            stride *= t->dims[k];
        pickle_number(g, stride);
    }
    put_text(g, "t");
}

static void pickle_tensor(growing *g, const safetensors_tensor *t, size_t index)
{
    char key[24];
    snprintf(key, sizeof key, "%zu", index);
    pickle_text(g, t->name);
    put_text(g, "ctorch._utils\n_rebuild_tensor_v2\n((");
    pickle_text(g, "storage");
    put_text(g, storage_of(t->dtype));
    pickle_text(g, key);
    pickle_text(g, "cpu");
    pickle_number(g, count_of(t));
    put_text(g, "tQ");
    pickle_number(g, 0);
    pickle_sizes(g, t);
    put_text(g, "\x89");
    pickle_empty_dict(g);
    put_text(g, "tR");
}

/* ---- the archive ---- */

typedef struct archive {
    atomic_file file;
    uint64_t at;     /* bytes written */
    growing central; /* its directory */
    uint32_t n_records;
} archive;

static comet_status archive_write(archive *a, const void *data, size_t bytes)
{
    a->at += bytes;
    return atomic_file_write(&a->file, data, bytes);
}

/* What the headers of a record have in common, from "version needed" to the length of the name. */
static void put_common(growing *g, uint32_t crc, uint32_t bytes, size_t name_bytes)
{
    put_u16(g, 20);
    put_u16(g, 0);    /* flags */
    put_u16(g, 0);    /* stored */
    put_u16(g, 0);    /* time */
    put_u16(g, 0x21); /* date: 1 January 1980 */
    put_u32(g, crc);
    put_u32(g, bytes);
    put_u32(g, bytes);
    put_u16(g, (unsigned)name_bytes);
}

static void put_central(archive *a, const char *name, uint32_t crc, uint32_t bytes, uint32_t offset)
{
    growing *g = &a->central;
    put_text(g, "PK\x01\x02");
    put_u16(g, 20);
    put_common(g, crc, bytes, strlen(name));
    put_u16(g, 0); /* extra */
    put_u16(g, 0); /* comment */
    put_u16(g, 0); /* disk */
    put_u16(g, 0); /* attributes */
    put_u32(g, 0);
    put_u32(g, offset);
    put_text(g, name);
}

static uint32_t crc_of(const void *data, size_t bytes)
{
    uLong crc = crc32(0, NULL, 0);
    const unsigned char *at = data;
    for (size_t left = bytes; left > 0;) {
        const uInt here = left < INT_MAX ? (uInt)left : (uInt)INT_MAX;
        crc = crc32(crc, at, here);
        at += here;
        left -= here;
    }
    return (uint32_t)crc;
}

/* A record whose data begins at a multiple of 64; the gap is an extra field, as torch does it. */
static comet_status add_record(archive *a, const char *name, const void *data, size_t bytes)
{
    static const unsigned char zeros[ALIGNMENT];
    growing header = {0};
    const uint64_t plain = a->at + LOCAL_BYTES + strlen(name);
    const size_t extra = 4 + (size_t)(ALIGNMENT - (plain + 4) % ALIGNMENT) % ALIGNMENT;
    if (plain + extra + bytes > max_bytes)
        return comet_fail(COMET_ERROR_UNSUPPORTED, "%s: it would have 4 GiB or more; write .safetensors instead", a->file.path);
    const uint32_t crc = crc_of(data, bytes);
    put_central(a, name, crc, (uint32_t)bytes, (uint32_t)a->at);
    put_text(&header, "PK\x03\x04");
    put_common(&header, crc, (uint32_t)bytes, strlen(name));
    put_u16(&header, (unsigned)extra);
    put_text(&header, name);
    put(&header, "FB", 2);
    put_u16(&header, (unsigned)(extra - 4));
    put(&header, zeros, extra - 4);
    comet_status status = header.failed ? comet_fail(COMET_ERROR_MEMORY, "out of memory while writing %s", a->file.path)
                                        : archive_write(a, header.data, header.bytes);
    if (status == COMET_OK)
        status = archive_write(a, data, bytes);
    a->n_records++;
    free(header.data);
    return status;
}

static comet_status end_archive(archive *a)
{
    growing *g = &a->central;
    const uint32_t bytes = (uint32_t)g->bytes;
    put_text(g, "PK\x05\x06");
    put_u32(g, 0); /* disks */
    put_u16(g, a->n_records);
    put_u16(g, a->n_records);
    put_u32(g, bytes);
    put_u32(g, (uint32_t)a->at);
    put_u16(g, 0); /* comment */
    if (g->failed || a->n_records > UINT16_MAX || a->at + g->bytes > max_bytes)
        return comet_fail(COMET_ERROR_UNSUPPORTED, "%s: it would be larger than a zip archive can be", a->file.path);
    return archive_write(a, g->data, g->bytes); /* NOLINT(clang-analyzer-unix.Malloc): torch_file_save frees it */
}

/* ---- the file ---- */

static uint64_t element_bytes(safetensors_dtype dtype)
{
    if (dtype == SAFETENSORS_F64 || dtype == SAFETENSORS_I64)
        return 8;
    return dtype == SAFETENSORS_F32 ? 4 : 2;
}

static comet_status make_pickle(const safetensors_source *source, growing *pickle, uint64_t *largest)
{
    comet_status status = COMET_OK;
    put_text(pickle, "\x80\x02");
    pickle_empty_dict(pickle);
    put_text(pickle, "(");
    for (size_t i = 0; i < source->n_tensors && status == COMET_OK; i++) {
        safetensors_tensor t = {0};
        status = source->describe(source->user, i, &t);
        if (status != COMET_OK)
            break;
        pickle_tensor(pickle, &t, i);
        const uint64_t bytes = count_of(&t) * element_bytes(t.dtype);
        *largest = bytes > *largest ? bytes : *largest;
    }
    put_text(pickle, "u.");
    if (status == COMET_OK && pickle->failed)
        status = comet_fail(COMET_ERROR_MEMORY, "out of memory: could not allocate the description of %zu tensors",
                            source->n_tensors);
    return status;
}

static comet_status add_tensors(archive *a, const safetensors_source *source, void *elements)
{
    comet_status status = COMET_OK;
    for (size_t i = 0; i < source->n_tensors && status == COMET_OK; i++) {
        safetensors_tensor t = {0};
        char name[NAME_BYTES];
        snprintf(name, sizeof name, "archive/data/%zu", i);
        status = source->describe(source->user, i, &t);
        if (status == COMET_OK)
            status = source->fill(source->user, i, 0, count_of(&t), elements);
        if (status == COMET_OK)
            status = add_record(a, name, elements, (size_t)(count_of(&t) * element_bytes(t.dtype)));
    }
    return status;
}

comet_status torch_file_save(const char *path, const safetensors_source *source)
{
    archive a = {.file = {.fd = -1}};
    growing pickle = {0};
    uint64_t largest = 1;
    void *elements = NULL;
    comet_status status = make_pickle(source, &pickle, &largest);
    if (status != COMET_OK)
        goto done;
    elements = malloc((size_t)largest);
    status = elements ? atomic_file_begin(&a.file, path)
                      : comet_fail(COMET_ERROR_MEMORY,
                                   "out of memory: could not allocate %" PRIu64 " bytes for the largest tensor", largest);
    if (status == COMET_OK)
        status = add_record(&a, "archive/data.pkl", pickle.data, pickle.bytes);
    if (status == COMET_OK)
        status = add_tensors(&a, source, elements);
    if (status == COMET_OK)
        status = add_record(&a, "archive/version", "3\n", 2);
    if (status == COMET_OK)
        status = end_archive(&a);
    if (status == COMET_OK)
        status = atomic_file_commit(&a.file, NULL);
done:
    atomic_file_abandon(&a.file);
    free(elements);
    free(a.central.data);
    free(pickle.data);
    return status;
}
