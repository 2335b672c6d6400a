#include "store/spill.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"

static comet_status open_unnamed(spill *s, const comet_allocator *allocator)
{
    static const char suffix[] = "/comet-spill-XXXXXX";
    size_t bytes = s->folder_bytes + sizeof suffix;
    char *path = comet_allocate(allocator, bytes);
    if (!path)
        return COMET_ERROR_MEMORY;
    snprintf(path, bytes, "%s%s", s->folder, suffix);
    comet_status status = COMET_OK;
    s->fd = mkstemp(path);
    if (s->fd < 0)
        status = comet_fail(COMET_ERROR_IO, "could not create a spill file in %s: %s", s->folder, strerror(errno));
    else if (unlink(path) != 0 || fcntl(s->fd, F_SETFD, FD_CLOEXEC) != 0)
        status = comet_fail(COMET_ERROR_IO, "the spill file %s: %s", path, strerror(errno));
    comet_release(allocator, path, bytes);
    return status;
}

comet_status spill_open(spill *s, const comet_allocator *allocator, const char *folder)
{
    *s = (spill){.fd = -1};
    pthread_mutex_init(&s->lock, NULL);
    if (!folder)
        return COMET_OK;
    s->folder_bytes = strlen(folder) + 1;
    s->folder = comet_allocate(allocator, s->folder_bytes);
    comet_status status = COMET_ERROR_MEMORY;
    if (s->folder) {
        memcpy(s->folder, folder, s->folder_bytes);
        status = open_unnamed(s, allocator);
    }
    if (status != COMET_OK)
        spill_close(s, allocator);
    return status;
}

void spill_close(spill *s, const comet_allocator *allocator)
{
    if (s->fd >= 0)
        close(s->fd);
    comet_release(allocator, s->folder, s->folder_bytes);
    pthread_mutex_destroy(&s->lock);
}

static uint64_t claim(spill *s, size_t bytes, uint64_t *mark)
{
    pthread_mutex_lock(&s->lock);
    uint64_t offset = s->used;
    s->used = *mark = offset + bytes;
    pthread_mutex_unlock(&s->lock);
    return offset;
}

comet_status spill_write(spill *s, const void *data, size_t bytes, uint64_t *offset, uint64_t *mark)
{
    *offset = claim(s, bytes, mark);
    for (size_t done = 0; done < bytes;) {
        ssize_t n = pwrite(s->fd, (const uint8_t *)data + done, bytes - done, (off_t)(*offset + done));
        if (n > 0)
            done += (size_t)n;
        else if (n == 0 || errno != EINTR)
            return comet_fail(COMET_ERROR_IO, "could not spill %zu bytes to %s after %llu others: %s", bytes, s->folder,
                              (unsigned long long)*offset, n == 0 ? "nothing was written" : strerror(errno));
    }
    return COMET_OK;
}

comet_status spill_read(const spill *s, uint64_t offset, void *data, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t n = pread(s->fd, (uint8_t *)data + done, bytes - done, (off_t)(offset + done));
        if (n > 0)
            done += (size_t)n;
        else if (n == 0 || errno != EINTR)
            return comet_fail(COMET_ERROR_IO, "could not read back %zu bytes spilled to %s: %s", bytes, s->folder,
                              n == 0 ? "the file ends before them" : strerror(errno));
    }
    return COMET_OK;
}

void spill_drop_cache(const spill *s)
{
    /* Starts writing dirty pages and drops clean ones; the next call drops the pages written now. It is advice and may fail. */
    (void)posix_fadvise(s->fd, 0, 0, POSIX_FADV_DONTNEED);
}

void spill_rewind(spill *s, uint64_t mark)
{
    pthread_mutex_lock(&s->lock);
    s->used = mark;
    pthread_mutex_unlock(&s->lock);
}
