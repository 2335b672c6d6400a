/* Files of tensors by name, in any format that is read. */
#ifndef COMET_TRAIN_FILES_TENSOR_FILE_H
#define COMET_TRAIN_FILES_TENSOR_FILE_H

#include "train/files/safetensors.h"

/* Opens safetensors or what torch.save writes, by content and not by name. Failures as safetensors_open. */
comet_status tensor_file_open(safetensors_file **file, const char *path);

#endif
