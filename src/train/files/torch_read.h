/*
 * Weights from files of torch.save, of every version of PyTorch: the zip archives that it writes since 1.6
 *
 *   NAME/data.pkl     pickle of the state dict; NAME is any
 *   NAME/data/0 ...   elements of its storages
 *   NAME/byteorder    "little", where it is there
 *
 * and the older rows of pickles (a magic number, a version, the machine, the state dict, the keys of the storages), which the
 * storages follow, each after its number of elements. Pickles are not run (pickle.h).
 *
 * The state dict is the pickled object itself, or what a dict holds under one of the keys that training scripts use
 * (`wrappers` in torch_read.c); values beside the tensors are left out. Names are as they are there. Elements come as a
 * contiguous tensor has them, whatever its strides.
 */
#ifndef COMET_TRAIN_FILES_TORCH_READ_H
#define COMET_TRAIN_FILES_TORCH_READ_H

#include <stdbool.h>

#include "train/files/safetensors.h"

/* Do these first bytes of a file (16, or all) look like torch.save's? */
bool torch_read_knows(const unsigned char *bytes, size_t n);

/* Opens such a file. COMET_ERROR_CORRUPT, with the reason, for what is damaged, refused or has no state dict. */
comet_status torch_read_open(safetensors_file **file, const char *path);

#endif
