/* Whole files or none; see atomic_file.h. */
#define _GNU_SOURCE /* sync_file_range */
#include "base/atomic_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"
#include "base/temporary.h"

enum { PIECE_BYTES = 1 << 24, WINDOW_BYTES = 1 << 26 };

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
    const size_t bytes = strlen(path) + 1;
    *file = (atomic_file){.fd = -1, .path = malloc(bytes)};
    if (!file->path)
        return comet_fail(COMET_ERROR_MEMORY, "could not allocate %zu bytes for the name of %s", bytes, path);
    memcpy(file->path, path, bytes);
    file->fd = comet_temporary_open(path, &file->temporary);
    if (file->fd >= 0)
        return COMET_OK;
    const comet_status status = io_failure(path, "could not create a temporary file in its folder");
    release(file);
    return status;
}

int comet_write_all(int fd, const void *data, size_t bytes)
{
    const char *at = data;
    while (bytes > 0) {
        const ssize_t n = write(fd, at, bytes < PIECE_BYTES ? bytes : PIECE_BYTES);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        at += n;
        bytes -= (size_t)n;
    }
    return 0;
}

/* Waits until a window is on the disk. A failure is told once, here, and not by the sync at the end. False with errno. */
static bool finish_window(const atomic_file *file, off_t begin)
{
    enum { ALL = SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER };
    if (sync_file_range(file->fd, begin, WINDOW_BYTES, ALL) == 0)
        return true;
    return errno == ENOSYS || errno == EPERM || errno == EINVAL || errno == ESPIPE; /* there is no such call for this file */
}

/* The disk writes a window while the next one comes; else all of a large file would wait for the sync at its end. */
static bool move_windows(atomic_file *file)
{
    for (; file->n_written - file->n_started >= WINDOW_BYTES; file->n_started += WINDOW_BYTES) {
        const off_t begin = (off_t)file->n_started;
        (void)sync_file_range(file->fd, begin, WINDOW_BYTES, SYNC_FILE_RANGE_WRITE);
        if (begin > 0 && !finish_window(file, begin - WINDOW_BYTES))
            return false;
    }
    return true;
}

comet_status atomic_file_write(atomic_file *file, const void *data, size_t bytes)
{
    if (comet_write_all(file->fd, data, bytes) != 0)
        return io_failure(file->path, "could not be written");
    file->n_written += bytes;
    return move_windows(file) ? COMET_OK : io_failure(file->path, "could not be synced to the disk");
}

comet_status atomic_file_patch(atomic_file *file, uint64_t offset, const void *data, size_t bytes)
{
    const ssize_t n = pwrite(file->fd, data, bytes, (off_t)offset);
    return n == (ssize_t)bytes ? COMET_OK : io_failure(file->path, "could not be written");
}

/* A second name for the old file, then the old name goes to the new one. Without hard links the old file moves, and for an
 * instant it is found under `keep` only. */
static comet_status keep_old(const char *path, const char *keep)
{
    char *link_name = NULL;
    int failed = comet_temporary_link(path, keep, &link_name);
    if (failed == 0)
        failed = rename(link_name, keep);
    else if (errno != ENOENT)
        failed = rename(path, keep);
    const bool missing = failed && errno == ENOENT; /* the first file of its name */
    const comet_status status = failed && !missing ? io_failure(keep, "could not be created") : COMET_OK;
    if (failed && link_name)
        unlink(link_name);
    free(link_name);
    return status;
}

/* Gives the temporary its name. Without `replace` a file that appeared meanwhile is kept: link() fails where rename() replaces.
 * Where the file system has no links, a check comes before the rename. Returns 0, or -1 with errno. */
static int take_name(const atomic_file *file, bool replace)
{
    if (replace)
        return rename(file->temporary, file->path);
    if (link(file->temporary, file->path) == 0)
        return unlink(file->temporary);
    if (errno == EEXIST)
        return -1;
    if (access(file->path, F_OK) == 0) {
        errno = EEXIST;
        return -1;
    }
    return rename(file->temporary, file->path);
}

/* The descriptor stays open until the file has its name: others remove temporaries that are not locked. */
static comet_status commit(atomic_file *file, bool replace, const char *keep)
{
    comet_status status = COMET_OK;
    if (comet_temporary_sync(file->fd, file->path) != 0)
        status = io_failure(file->path, "could not be synced to the disk");
    if (status == COMET_OK && keep)
        status = keep_old(file->path, keep);
    if (status == COMET_OK && take_name(file, replace) != 0)
        status = io_failure(file->path, "could not be created");
    if (status == COMET_OK)
        comet_folder_sync(file->path);
    else
        unlink(file->temporary);
    release(file);
    return status;
}

comet_status atomic_file_commit(atomic_file *file, const char *keep)
{
    return commit(file, true, keep);
}

comet_status atomic_file_commit_new(atomic_file *file)
{
    return commit(file, false, NULL);
}

void atomic_file_abandon(atomic_file *file)
{
    if (file->temporary)
        unlink(file->temporary);
    release(file);
}
