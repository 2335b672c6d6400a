/*
 * Pickles of torch.save, read without running them.
 *
 * A pickle is a program for a stack machine that can call any function of Python. This machine knows the opcodes of protocols 2
 * to 5 that build plain values (None, numbers, texts, tuples, lists, sets, dicts) and a fixed list of globals, the functions
 * and types that a state dict is made with (`globals` in pickle_words.c). It computes what they would return, as data.
 * Everything else is refused: COMET_ERROR_CORRUPT with a sentence that names the opcode or the global and its byte.
 *
 * Objects are numbers that index a table. The machine never follows references between them, so that cycles do no harm, and
 * nothing here recurses. Every opcode makes a bounded number of table entries; objects, the stack and the memo have limits.
 */
#ifndef COMET_TRAIN_FILES_PICKLE_H
#define COMET_TRAIN_FILES_PICKLE_H

#include <stdbool.h>

#include "comet/base.h"
#include "train/files/safetensors.h"

#define PICKLE_MAX_BYTES ((size_t)1 << 25) /* of a file's pickle; those of state dicts have about 200 bytes for each tensor */

typedef enum pickle_kind {
    PICKLE_PLAIN = 0, /* None, a bool, a float, bytes, a device: a value that weights do not need */
    PICKLE_NUMBER,    /* an integer of at most 64 bits */
    PICKLE_TEXT,
    PICKLE_LIST, /* or tuple, or set */
    PICKLE_DICT, /* items are key, value, key, value ... */
    PICKLE_GLOBAL,
    PICKLE_STORAGE,
    PICKLE_TENSOR,
} pickle_kind;

/* The type of a storage's elements; its dtype is SAFETENSORS_OTHER where they cannot be weights. */
typedef struct pickle_element {
    safetensors_dtype dtype;
    uint32_t bytes;
} pickle_element;

typedef struct pickle_storage {
    const char *key; /* in the pickle, key_bytes long */
    uint32_t key_bytes;
    pickle_element element;
    uint64_t n_elements;
} pickle_storage;

/* A view of a storage. Every element lies in it, and it has no more elements than the storage. */
typedef struct pickle_tensor {
    pickle_storage storage;
    uint32_t n_dims;
    uint64_t dims[SAFETENSORS_MAX_DIMS], strides[SAFETENSORS_MAX_DIMS], offset; /* in elements */
} pickle_tensor;

typedef struct pickle_object {
    pickle_kind kind;
    uint32_t n, capacity; /* bytes of a text, or items */
    union {
        int64_t number;
        const char *text; /* in the pickle, not closed by a zero */
        uint32_t *items;
        size_t index; /* of a storage or a tensor in its table */
        const struct pickle_global *global;
    } as;
} pickle_object;

typedef struct pickle pickle;

/* Runs one pickle at the beginning of `data` (which must outlive *p) and gives the object it makes and how many bytes it has.
 * `path` is for the sentences of failures. On failure *p is NULL. */
comet_status pickle_run(pickle **p, const char *path, const void *data, size_t bytes, uint32_t *root, size_t *used);
void pickle_free(pickle *p);

const pickle_object *pickle_at(const pickle *p, uint32_t object);
bool pickle_is_text(const pickle *p, uint32_t object, const char *text);
/* The storages that the pickle refers to, one more than once. */
const pickle_storage *pickle_storages(const pickle *p, size_t *n);
const pickle_tensor *pickle_tensor_at(const pickle *p, uint32_t object); /* of an object that is one */

#endif
