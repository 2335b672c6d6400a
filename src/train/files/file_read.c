/* See file_read.h. */
#include "train/files/file_read.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/status.h"

comet_status file_open_regular(const char *path, int *fd, uint64_t *bytes)
{
    struct stat s;
    comet_status status = COMET_OK;
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe is refused below, not waited for */
    if (*fd < 0 || fstat(*fd, &s) != 0)
        status = comet_fail(COMET_ERROR_IO, "%s: %s", path, strerror(errno));
    else if (!S_ISREG(s.st_mode))
        status = comet_fail(COMET_ERROR_IO, "%s: not a regular file", path);
    else
        *bytes = (uint64_t)s.st_size;
    if (status != COMET_OK && *fd >= 0) {
        close(*fd);
        *fd = -1;
    }
    return status;
}

comet_status file_read_at(int fd, const char *path, uint64_t offset, void *to, size_t bytes)
{
    char *at = to;
    while (bytes > 0) {
        const ssize_t n = pread(fd, at, bytes < (1u << 24) ? bytes : (1u << 24), (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return comet_fail(COMET_ERROR_IO, "%s: cannot be read: %s", path, strerror(errno));
        if (n == 0)
            return comet_fail(COMET_ERROR_CORRUPT, "%s: the file ends at byte %" PRIu64, path, offset);
        at += n;
        offset += (uint64_t)n;
        bytes -= (size_t)n;
    }
    return COMET_OK;
}
