/* Arbitrary bytes as a safetensors file. What opens has tensors of different names, one after another, that can be read. */
#define _GNU_SOURCE /* memfd_create */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "train/files/safetensors.h"

static void check(bool condition)
{
    if (!condition)
        abort();
}

static void check_tensors(safetensors_file *file, size_t size)
{
    const safetensors_tensor *t = NULL;
    uint64_t at = 0;
    for (size_t i = 0; (t = safetensors_at(file, i)); i++) {
        check(t->offset == at && t->bytes <= size - at && t->n_dims <= SAFETENSORS_MAX_DIMS);
        check(safetensors_find(file, t->name) == t);
        at += t->bytes;
        float *elements = malloc((size_t)t->n_elements * sizeof *elements + 1);
        check(elements != NULL);
        const comet_status status = safetensors_read_f32(file, t, elements);
        check(status == (t->dtype == SAFETENSORS_OTHER ? COMET_ERROR_UNSUPPORTED : COMET_OK));
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
    const comet_status status = safetensors_open(&file, path);
    check(status == COMET_OK ? file != NULL : status == COMET_ERROR_CORRUPT && !file);
    if (file) {
        check_tensors(file, size);
        const comet_status whole = safetensors_verify(file);
        check(whole == COMET_OK || (whole == COMET_ERROR_CORRUPT && safetensors_metadata(file, "comet_checksum")));
    }
    safetensors_close(file);
    close(fd);
    return 0;
}
