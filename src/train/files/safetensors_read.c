/* Reading safetensors; see safetensors.h. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/checksum.h"
#include "base/convert.h"
#include "base/float_env.h"
#include "base/status.h"
#include "train/files/file_read.h"
#include "train/files/safetensors_header.h"
#include "train/files/safetensors_private.h"

/* The longest header that the reference implementation of the format reads. */
enum { MAX_HEADER_BYTES = 100000000, MIN_HEADER_BYTES = 2, CONVERT_ELEMENTS = 1 << 16 };

struct safetensors_file {
    int fd;
    char *path, *text; /* the header's, which `header` has taken apart */
    size_t header_bytes;
    uint64_t data_bytes;
    safetensors_header header; /* tensors by offset */
    safetensors_reader reader; /* of another format, whose tensors are in its order; else zeros */
};

/* ---- bytes ---- */

static comet_status read_at(const safetensors_file *f, uint64_t offset, void *to, size_t bytes)
{
    return file_read_at(f->fd, f->path, offset, to, bytes);
}

static comet_status read_header(safetensors_file *f)
{
    unsigned char length[8];
    uint64_t file_bytes = 0;
    comet_status status = file_open_regular(f->path, &f->fd, &file_bytes);
    if (status != COMET_OK)
        return status;
    if (file_bytes < 8 + MIN_HEADER_BYTES)
        return comet_fail(COMET_ERROR_CORRUPT, "%s: %" PRIu64 " bytes are too few for a safetensors file", f->path, file_bytes);
    if ((status = read_at(f, 0, length, sizeof length)) != COMET_OK)
        return status;
    const uint64_t bytes = load_u64(length);
    if (bytes > MAX_HEADER_BYTES || bytes < MIN_HEADER_BYTES)
        return comet_fail(COMET_ERROR_CORRUPT, "%s: not a safetensors file: its header would have %" PRIu64 " bytes", f->path,
                          bytes);
    if (bytes > file_bytes - 8)
        return comet_fail(COMET_ERROR_CORRUPT, "%s: cut short: the header has %" PRIu64 " bytes, the file %" PRIu64, f->path,
                          bytes, file_bytes);
    f->header_bytes = (size_t)bytes;
    f->data_bytes = file_bytes - 8 - bytes;
    f->text = malloc(f->header_bytes);
    if (!f->text)
        return comet_fail(COMET_ERROR_MEMORY, "out of memory: could not allocate %" PRIu64 " bytes for the header of %s", bytes,
                          f->path);
    return read_at(f, 8, f->text, f->header_bytes);
}

/* ---- what the header says ---- */

static int by_offset(const void *a, const void *b)
{
    const safetensors_tensor *x = a, *y = b;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? -1 : 1;
    return 0;
}

static int by_name(const void *a, const void *b)
{
    const safetensors_tensor *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

/* Tensors follow one another without holes and fill the file. */
static comet_status check_places(const safetensors_file *f)
{
    safetensors_tensor *tensors = f->header.tensors;
    uint64_t at = 0;
    if (tensors)
        qsort(tensors, f->header.n_tensors, sizeof *tensors, by_offset);
    for (size_t i = 0; tensors && i < f->header.n_tensors; i++) {
        if (tensors[i].offset != at)
            return safetensors_bad_tensor(f->path, tensors[i].name, "its data overlaps another's, or leaves a hole");
        at += tensors[i].bytes;
        if (at > f->data_bytes)
            return comet_fail(COMET_ERROR_CORRUPT,
                              "%s: cut short: '%.120s' ends at byte %" PRIu64 " of the data, which has %" PRIu64, f->path,
                              tensors[i].name, at, f->data_bytes);
    }
    if (at != f->data_bytes)
        return comet_fail(COMET_ERROR_CORRUPT, "%s: %" PRIu64 " bytes are left over after the last tensor", f->path,
                          f->data_bytes - at);
    return COMET_OK;
}

static comet_status check_names(const safetensors_file *f)
{
    const size_t n = f->header.n_tensors;
    comet_status status = COMET_OK;
    const safetensors_tensor **sorted = malloc((n > 0 ? n : 1) * sizeof(const safetensors_tensor *));
    if (!sorted)
        return comet_fail(COMET_ERROR_MEMORY, "out of memory: could not allocate the header of %s", f->path);
    for (size_t i = 0; i < n; i++)
        sorted[i] = &f->header.tensors[i];
    qsort(sorted, n, sizeof(const safetensors_tensor *), by_name);
    for (size_t i = 1; i < n && status == COMET_OK; i++)
        if (strcmp(sorted[i - 1]->name, sorted[i]->name) == 0)
            status = safetensors_bad_tensor(f->path, sorted[i]->name, "there are two of this name");
    free(sorted);
    return status;
}

static comet_status take_header(safetensors_file *f)
{
    comet_status status = safetensors_header_parse(&f->header, f->path, f->text, f->header_bytes);
    if (status == COMET_OK)
        status = check_places(f);
    return status == COMET_OK ? check_names(f) : status;
}

static comet_status make_file(safetensors_file **file, const char *path)
{
    safetensors_file *f = calloc(1, sizeof *f);
    const size_t path_bytes = strlen(path) + 1;
    if (f) {
        f->fd = -1;
        f->path = malloc(path_bytes);
    }
    if (!f || !f->path) {
        free(f);
        return comet_fail(COMET_ERROR_MEMORY, "out of memory while opening %s", path);
    }
    memcpy(f->path, path, path_bytes);
    *file = f;
    return COMET_OK;
}

comet_status safetensors_open(safetensors_file **file, const char *path)
{
    safetensors_file *f = NULL;
    TRY(make_file(&f, path));
    comet_status status = read_header(f);
    if (status == COMET_OK)
        status = take_header(f);
    if (status == COMET_OK)
        *file = f;
    else
        safetensors_close(f);
    return status;
}

comet_status safetensors_adopt(safetensors_file **file, const char *path, safetensors_tensor *tensors, size_t n,
                               const safetensors_reader *reader)
{
    TRY(make_file(file, path));
    (*file)->header.tensors = tensors;
    (*file)->header.n_tensors = n;
    (*file)->reader = *reader;
    return COMET_OK;
}

void safetensors_close(safetensors_file *file)
{
    if (!file)
        return;
    if (file->reader.close)
        file->reader.close(file->reader.user);
    if (file->fd >= 0)
        close(file->fd);
    safetensors_header_free(&file->header);
    free(file->text);
    free(file->path);
    free(file);
}

const safetensors_tensor *safetensors_at(const safetensors_file *file, size_t index)
{
    return index < file->header.n_tensors ? &file->header.tensors[index] : NULL;
}

const safetensors_tensor *safetensors_find(const safetensors_file *file, const char *name)
{
    for (size_t i = 0; i < file->header.n_tensors; i++)
        if (strcmp(file->header.tensors[i].name, name) == 0)
            return &file->header.tensors[i];
    return NULL;
}

const char *safetensors_metadata(const safetensors_file *file, const char *key)
{
    for (size_t i = 0; i < file->header.n_metadata; i++)
        if (strcmp(file->header.metadata[i].key, key) == 0)
            return file->header.metadata[i].text;
    return NULL;
}

/* ---- the checksum ---- */

static comet_status hash_tensor(const safetensors_file *f, const safetensors_tensor *t, void *piece, uint64_t *hash)
{
    comet_status status = COMET_OK;
    for (uint64_t done = 0; done < t->bytes && status == COMET_OK;) {
        const size_t here = (size_t)min_u64(t->bytes - done, SAFETENSORS_PIECE);
        status = read_at(f, 8 + f->header_bytes + t->offset + done, piece, here);
        *hash = safetensors_chain(*hash, piece, here);
        done += here;
    }
    return status;
}

/* Strings of the header in memory are decoded, so the file is read again. */
static comet_status hash_header(const safetensors_file *f, char stored[SAFETENSORS_CHECKSUM_DIGITS + 1], uint64_t *hash)
{
    char *text = malloc(f->header_bytes);
    if (!text)
        return comet_fail(COMET_ERROR_MEMORY, "out of memory while checking %s", f->path);
    char *digits = text + f->header.checksum;
    const comet_status status = read_at(f, 8, text, f->header_bytes);
    if (status == COMET_OK) {
        memcpy(stored, digits, SAFETENSORS_CHECKSUM_DIGITS);
        memset(digits, '0', SAFETENSORS_CHECKSUM_DIGITS);
        *hash = comet_checksum(text, f->header_bytes);
    }
    free(text);
    return status;
}

comet_status safetensors_verify(safetensors_file *file)
{
    char stored[SAFETENSORS_CHECKSUM_DIGITS + 1] = "", found[24];
    uint64_t hash = 0;
    if (file->reader.verify)
        return file->reader.verify(file->reader.user);
    if (file->header.checksum == 0)
        return COMET_OK;
    comet_status status = hash_header(file, stored, &hash);
    void *piece = malloc(SAFETENSORS_PIECE);
    if (status == COMET_OK && !piece)
        status = comet_fail(COMET_ERROR_MEMORY, "out of memory while checking %s", file->path);
    for (size_t i = 0; i < file->header.n_tensors && status == COMET_OK; i++)
        status = hash_tensor(file, &file->header.tensors[i], piece, &hash);
    free(piece);
    snprintf(found, sizeof found, "%016" PRIx64, hash);
    if (status == COMET_OK && strcmp(stored, found) != 0)
        status = comet_fail(COMET_ERROR_CORRUPT, "%s: damaged: its checksum is %s, not %s", file->path, found, stored);
    return status;
}

/* ---- elements ---- */

comet_status safetensors_read_part(const safetensors_file *file, const safetensors_tensor *tensor, uint64_t first, uint64_t n,
                                   void *elements)
{
    const uint64_t width = tensor->n_elements > 0 ? tensor->bytes / tensor->n_elements : 1;
    if (file->reader.read)
        return file->reader.read(file->reader.user, (size_t)(tensor - file->header.tensors), first, n, elements);
    return read_at(file, 8 + file->header_bytes + tensor->offset + first * width, elements, (size_t)(n * width));
}

/* `from` holds n elements of the type; a value too large for a float becomes infinite, as a cast in torch does. */
static void convert(safetensors_dtype dtype, const unsigned char *from, size_t n, float *to)
{
    for (size_t i = 0; i < n; i++) {
        double wide = 0;
        switch (dtype) {
        case SAFETENSORS_F16: to[i] = float_of_f16(load_u16(from + 2 * i)); break;
        case SAFETENSORS_BF16: to[i] = float_of_bf16(load_u16(from + 2 * i)); break;
        case SAFETENSORS_I64: to[i] = (float)(int64_t)load_u64(from + 8 * i); break;
        case SAFETENSORS_F64:
            memcpy(&wide, from + 8 * i, sizeof wide);
            to[i] = (float)wide;
            break;
        case SAFETENSORS_F32:
        case SAFETENSORS_OTHER: break;
        }
    }
}

comet_status safetensors_read_part_f32(const safetensors_file *file, const safetensors_tensor *tensor, uint64_t first,
                                       uint64_t n, float *elements)
{
    if (tensor->dtype == SAFETENSORS_F32)
        return safetensors_read_part(file, tensor, first, n, elements);
    if (tensor->dtype == SAFETENSORS_OTHER)
        return comet_fail(COMET_ERROR_UNSUPPORTED, "%s: '%s' is neither F32, F16, BF16, F64 nor I64", file->path, tensor->name);
    unsigned char *raw = malloc(CONVERT_ELEMENTS * 8);
    if (!raw)
        return comet_fail(COMET_ERROR_MEMORY, "out of memory while reading %s", file->path);
    comet_status status = COMET_OK;
    fenv_t host; /* its thread may flush small numbers to zero */
    float_env_enter(&host);
    for (uint64_t done = 0; done < n && status == COMET_OK;) {
        const size_t here = (size_t)min_u64(n - done, CONVERT_ELEMENTS);
        status = safetensors_read_part(file, tensor, first + done, here, raw);
        if (status == COMET_OK)
            convert(tensor->dtype, raw, here, elements + done);
        done += here;
    }
    float_env_leave(&host);
    free(raw);
    return status;
}

comet_status safetensors_read_f32(const safetensors_file *file, const safetensors_tensor *tensor, float *elements)
{
    return safetensors_read_part_f32(file, tensor, 0, tensor->n_elements, elements);
}
