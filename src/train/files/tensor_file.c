/* See tensor_file.h. */
#include "train/files/tensor_file.h"

#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/status.h"
#include "train/files/file_read.h"
#include "train/files/torch_read.h"

enum { LOOK_BYTES = 512, TAR_MAGIC = 257 };

/* Is it the header of a file in tar's format, which torch.save wrote before version 0.1.10? */
static bool is_tar(const unsigned char *bytes, size_t n)
{
    return n == LOOK_BYTES && memcmp(bytes + TAR_MAGIC, "ustar", 5) == 0;
}

comet_status tensor_file_open(safetensors_file **file, const char *path)
{
    unsigned char bytes[LOOK_BYTES];
    uint64_t file_bytes = 0;
    int fd = -1;
    TRY(file_open_regular(path, &fd, &file_bytes));
    const size_t n = (size_t)min_u64(file_bytes, sizeof bytes);
    const comet_status status = file_read_at(fd, path, 0, bytes, n);
    close(fd);
    if (status != COMET_OK)
        return status;
    if (n > 8 && bytes[8] == '{') /* after the length of its header, which may be any */
        return safetensors_open(file, path);
    if (torch_read_knows(bytes, n))
        return torch_read_open(file, path);
    if (is_tar(bytes, n))
        return comet_fail(
            COMET_ERROR_CORRUPT,
            "%s: a tar archive, as PyTorch wrote it before 0.1.10; in PyTorch, torch.save(torch.load(FILE), FILE) makes a "
            "file of today of it",
            path);
    return safetensors_open(file, path);
}
