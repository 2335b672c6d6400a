/*
 * The safetensors format: 8 bytes with the length of a JSON header, the header, then the tensors one after another.
 *
 *   {"__metadata__": {"key": "text", ...}, "conv1.weight": {"dtype": "F32", "shape": [64,3,7,7], "data_offsets": [0,37632]},
 * ...}
 *
 * Files we write carry "comet_checksum" in the metadata, 16 hexadecimal digits: XXH64 of the header with zeros in their place,
 * then for each piece of a tensor (1 MiB, the last one shorter) in file order XXH64 of the 16 bytes (hash so far, XXH64 of the
 * piece). Files of others have none, and only their structure is checked.
 *
 * The reader serves files of other formats too (safetensors_adopt; tensor_file.h chooses by content), so that whoever takes
 * tensors by name need not know which it is.
 *
 * Nothing in a file is trusted: sizes, offsets, types and names are checked before use. Memory for a file is that of its
 * header, a table of its tensors, which the header bounds, and one piece: a tensor may be larger than what is free.
 */
#ifndef COMET_TRAIN_FILES_SAFETENSORS_H
#define COMET_TRAIN_FILES_SAFETENSORS_H

#include <stdbool.h>

#include "comet/base.h"

#define SAFETENSORS_MAX_DIMS 8

typedef enum safetensors_dtype {
    SAFETENSORS_F32 = 0,
    SAFETENSORS_F64,
    SAFETENSORS_F16,
    SAFETENSORS_BF16,
    SAFETENSORS_I64,
    SAFETENSORS_OTHER, /* known to the format, but not readable as weights */
} safetensors_dtype;

typedef struct safetensors_tensor {
    const char *name;
    safetensors_dtype dtype;
    uint32_t n_dims;
    uint64_t dims[SAFETENSORS_MAX_DIMS];
    uint64_t n_elements;
    uint64_t offset, bytes; /* in the data part of the file; set by the functions here */
} safetensors_tensor;

typedef struct safetensors_pair {
    const char *key, *text;
} safetensors_pair;

/* ---- writing ---- */

/* Where the tensors of a new file come from. `describe` fills name (valid until the next call), dtype, n_dims and dims; `fill`
 * `n` elements from `first` on, row after row. The tensors are filled in order, each from its first element to its last. */
typedef struct safetensors_source {
    void *user;
    size_t n_tensors;
    comet_status (*describe)(void *user, size_t index, safetensors_tensor *tensor);
    comet_status (*fill)(void *user, size_t index, uint64_t first, uint64_t n, void *elements);
    const safetensors_pair *metadata;
    size_t n_metadata;
} safetensors_source;

/* Pieces in which tensors are written and hashed; the most that `fill` is asked for. */
#define SAFETENSORS_PIECE ((size_t)1 << 20)

/* Writes the file all or nothing; with `keep` (may be NULL) the old file stays under that path. */
comet_status safetensors_save(const char *path, const char *keep, const safetensors_source *source);

/* ---- reading ---- */

typedef struct safetensors_file safetensors_file;

/* Reads and checks the header. COMET_ERROR_IO where the file cannot be read, COMET_ERROR_CORRUPT where it is cut short or not
 * of this format. */
comet_status safetensors_open(safetensors_file **file, const char *path);
void safetensors_close(safetensors_file *file);

/* Reads all of the data once and compares the checksum. COMET_OK also where the file has none. */
comet_status safetensors_verify(safetensors_file *file);

/* Tensors in the order in which they lie in the file, or NULL past the end; by name, or NULL. Valid as long as the file. */
const safetensors_tensor *safetensors_at(const safetensors_file *file, size_t index);
const safetensors_tensor *safetensors_find(const safetensors_file *file, const char *name);

/* NULL where the metadata has no such key. */
const char *safetensors_metadata(const safetensors_file *file, const char *key);

/* `n` elements from `first` on: as they are, and as float32 (F64 and I64 are rounded). */
comet_status safetensors_read_part(const safetensors_file *file, const safetensors_tensor *tensor, uint64_t first, uint64_t n,
                                   void *elements);
comet_status safetensors_read_part_f32(const safetensors_file *file, const safetensors_tensor *tensor, uint64_t first,
                                       uint64_t n, float *elements);
/* All of them, as float32. */
comet_status safetensors_read_f32(const safetensors_file *file, const safetensors_tensor *tensor, float *elements);

/* ---- tensors of files in other formats, for the same functions ---- */

typedef struct safetensors_reader {
    void *user;
    /* `n` elements of the tensor with that index in the list, from element `first` on, row after row, as they are. */
    comet_status (*read)(void *user, size_t index, uint64_t first, uint64_t n, void *elements);
    comet_status (*verify)(void *user);
    void (*close)(void *user);
} safetensors_reader;

/* A file without metadata, of tensors whose names, dtypes, dims, n_elements and bytes are set and whose names are all
 * different. It takes over `tensors`, from malloc, and `reader`, which it closes; on failure both stay the caller's. */
comet_status safetensors_adopt(safetensors_file **file, const char *path, safetensors_tensor *tensors, size_t n,
                               const safetensors_reader *reader);

/* "64 x 3 x 7 x 7", or "scalar"; returns `text`. */
#define SAFETENSORS_SHAPE_BYTES 192
char *safetensors_shape_text(uint32_t n_dims, const uint64_t *dims, char text[SAFETENSORS_SHAPE_BYTES]);

#endif
