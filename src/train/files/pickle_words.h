/* Words of pickles: the globals that a state dict is made with, and the names of opcodes. For pickle.c. */
#ifndef COMET_TRAIN_FILES_PICKLE_WORDS_H
#define COMET_TRAIN_FILES_PICKLE_WORDS_H

#include "train/files/pickle.h"

typedef enum pickle_use {
    PICKLE_USE_DTYPE,   /* a value that is not called */
    PICKLE_USE_STORAGE, /* names the type of a storage's elements */
    PICKLE_USE_DICT,
    PICKLE_USE_SEQUENCE, /* called with a sequence, returns it */
    PICKLE_USE_DEVICE,
    PICKLE_USE_PARAMETER,
    PICKLE_USE_TENSOR,
} pickle_use;

typedef struct pickle_global {
    const char *module, *name;
    pickle_use use;
    pickle_element element;
} pickle_global;

/* NULL: a state dict has no such global. The texts are module_bytes and name_bytes long. */
const pickle_global *pickle_global_find(const char *module, size_t module_bytes, const char *name, size_t name_bytes);

/* "REDUCE", as pickletools calls it; NULL: there is no such opcode. */
const char *pickle_opcode_name(unsigned char code);

#endif
