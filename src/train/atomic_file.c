/* Whole files or none; see atomic_file.h. */
#include "train/atomic_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"

enum { PIECE_BYTES = 1 << 24 };

static char *joined(const char *a, const char *b)
{
    const size_t bytes = strlen(a) + strlen(b) + 1;
    char *text = malloc(bytes);
    if (text)
        snprintf(text, bytes, "%s%s", a, b);
    return text;
}

static comet_status io_failure(const char *path, const char *what)
{
    return comet_fail(COMET_ERROR_IO, "%s: %s: %s", path, what, strerror(errno));
}

static void release(atomic_file *file)
{
    if (file->fd >= 0)
        close(file->fd);
    free(file->path);
    free(file->temporary);
    *file = (atomic_file){.fd = -1};
}

comet_status atomic_file_begin(atomic_file *file, const char *path)
{
    *file = (atomic_file){.fd = -1, .path = joined(path, ""), .temporary = joined(path, ".tmp")};
    if (!file->path || !file->temporary) {
        release(file);
        return comet_fail(COMET_ERROR_MEMORY, "out of memory for the name of %s", path);
    }
    file->fd = open(file->temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (file->fd >= 0)
        return COMET_OK;
    const comet_status status = io_failure(file->temporary, "cannot be created");
    release(file);
    return status;
}

comet_status atomic_file_write(atomic_file *file, const void *data, size_t bytes)
{
    const char *at = data;
    while (bytes > 0) {
        const ssize_t n = write(file->fd, at, bytes < PIECE_BYTES ? bytes : PIECE_BYTES);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return io_failure(file->path, "cannot be written");
        at += n;
        bytes -= (size_t)n;
    }
    return COMET_OK;
}

comet_status atomic_file_patch(atomic_file *file, uint64_t offset, const void *data, size_t bytes)
{
    const ssize_t n = pwrite(file->fd, data, bytes, (off_t)offset);
    return n == (ssize_t)bytes ? COMET_OK : io_failure(file->path, "cannot be written");
}

/* A rename is safe from a power cut once its folder is on the disk. Some file systems refuse to sync a folder: no matter. */
static void sync_folder(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *folder = joined(slash ? path : ".", "");
    if (!folder)
        return;
    if (slash)
        folder[slash == path ? 1 : slash - path] = '\0';
    const int fd = open(folder, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
    free(folder);
}

/* A second name for the old file, then the old name goes to the new one. Without hard links the old file moves, and for an
 * instant it is found under `keep` only. */
static comet_status keep_old(const char *path, const char *keep)
{
    char *link_name = joined(keep, ".tmp");
    if (!link_name)
        return comet_fail(COMET_ERROR_MEMORY, "out of memory for the name of %s", keep);
    unlink(link_name);
    int failed = link(path, link_name);
    if (failed == 0)
        failed = rename(link_name, keep);
    else if (errno != ENOENT)
        failed = rename(path, keep);
    const bool missing = failed && errno == ENOENT; /* the first file of its name */
    free(link_name);
    return failed && !missing ? io_failure(keep, "cannot be made") : COMET_OK;
}

comet_status atomic_file_commit(atomic_file *file, const char *keep)
{
    comet_status status = COMET_OK;
    if (fsync(file->fd) != 0)
        status = io_failure(file->path, "cannot be brought to the disk");
    const int fd = file->fd;
    file->fd = -1;
    if (close(fd) != 0 && status == COMET_OK)
        status = io_failure(file->path, "cannot be closed");
    if (status == COMET_OK && keep)
        status = keep_old(file->path, keep);
    if (status == COMET_OK && rename(file->temporary, file->path) != 0)
        status = io_failure(file->path, "cannot be renamed to");
    if (status == COMET_OK)
        sync_folder(file->path);
    else
        unlink(file->temporary);
    release(file);
    return status;
}

void atomic_file_abandon(atomic_file *file)
{
    if (file->temporary)
        unlink(file->temporary);
    release(file);
}
