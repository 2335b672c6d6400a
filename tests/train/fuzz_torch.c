/* Arbitrary bytes as a file of torch.save. What opens has tensors of different names that can be read to their last element. */
#define _GNU_SOURCE /* memfd_create */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "train/files/torch_read.h"

static void check(bool condition)
{
    if (!condition)
        abort();
}

/* What deflate can make of the file at most. */
static uint64_t most_bytes(size_t size)
{
    return (uint64_t)1032 * size;
}

static void check_tensors(safetensors_file *file, size_t size, bool whole)
{
    const safetensors_tensor *t = NULL;
    for (size_t i = 0; (t = safetensors_at(file, i)); i++) {
        check(t->n_dims <= SAFETENSORS_MAX_DIMS && t->bytes <= most_bytes(size));
        check(safetensors_find(file, t->name) == t);
        float *elements = malloc((size_t)t->n_elements * sizeof *elements + 1);
        check(elements != NULL);
        const comet_status status = safetensors_read_f32(file, t, elements);
        check(t->dtype == SAFETENSORS_OTHER ? status == COMET_ERROR_UNSUPPORTED
                                            : status == COMET_OK || (!whole && status == COMET_ERROR_CORRUPT));
        free(elements);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64];
    safetensors_file *file = NULL;
    const int fd = memfd_create("fuzz", MFD_CLOEXEC);
    check(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    const comet_status status = torch_read_open(&file, path);
    check(status == COMET_OK ? file != NULL : status == COMET_ERROR_CORRUPT && !file);
    if (file) {
        const comet_status whole = safetensors_verify(file);
        check(whole == COMET_OK || whole == COMET_ERROR_CORRUPT);
        check(!safetensors_metadata(file, "net"));
        check_tensors(file, size, whole == COMET_OK);
    }
    safetensors_close(file);
    close(fd);
    return 0;
}
