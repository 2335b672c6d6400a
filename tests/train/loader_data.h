/* Data for tests of the loader: numbers made by the test, and small folders of pictures. */
#ifndef COMET_TESTS_TRAIN_LOADER_DATA_H
#define COMET_TESTS_TRAIN_LOADER_DATA_H

#include "data_files.h"

#include <stdatomic.h>

#include "describing.h"
#include "train/data/dataset.h"

/* Images of 2 x 2 whose numbers are the index, whatever the epoch, and the label is the index; reading may take time or fail.
 */
typedef struct made {
    double seconds;          /* each image takes */
    double seconds_of_tenth; /* every tenth image takes instead, if that is more */
    const bool *broken;      /* which images are */
    atomic_uint_fast64_t n_read;
} made;

comet_dataset made_dataset(made *m, uint64_t n_images);
/* Bytes, each of which becomes a tenth of itself. */
comet_dataset made_bytes_dataset(made *m, uint64_t n_images);

/* Two classes of n pictures each in FOLDER/train. */
void make_pictures(const char *folder, int n);
comet_dataset *open_pictures(const char *folder, bool strict);

comet_loader_params loader_params_with(uint32_t batch, uint32_t n_threads);
comet_loader *new_loader(comet_dataset *d, const comet_loader_params *p);
/* The next batch, which must be there. */
comet_batch next_batch(comet_loader *l);

#endif
