/* Names of files in the folder of a run's checkpoints; checkpoint.h has its lock. */
#ifndef COMET_TRAIN_FILES_CHECKPOINT_FOLDER_H
#define COMET_TRAIN_FILES_CHECKPOINT_FOLDER_H

#include "comet/base.h"

/* FOLDER/NAME in *path, for free(). */
comet_status checkpoint_path_in(const char *folder, const char *name, char **path);

#endif
