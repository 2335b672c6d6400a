/*
 * Weights as a file that plain torch.load reads into a state dict: a zip archive, not compressed, of a pickle and one record of
 * raw elements for each tensor. torch_read.h reads such files.
 */
#ifndef COMET_TRAIN_FILES_TORCH_FILE_H
#define COMET_TRAIN_FILES_TORCH_FILE_H

#include "train/files/safetensors.h"

/* All or nothing, from the same kind of source as a safetensors file; its metadata is left out. COMET_ERROR_UNSUPPORTED where
 * the file would have 4 GiB or more. */
comet_status torch_file_save(const char *path, const safetensors_source *source);

#endif
