/* Files and memory of data sets; see storage.h. */
#include "train/data/storage.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/status.h"

void *storage_new(uint64_t count, size_t item_bytes)
{
    void *memory = count <= SIZE_MAX ? calloc(count > 0 ? (size_t)count : 1, item_bytes) : NULL;
    if (!memory)
        comet_fail(COMET_ERROR_MEMORY, "out of memory: could not allocate %llu x %zu bytes", (unsigned long long)count,
                   item_bytes);
    return memory;
}

comet_status path_join(char path[PATH_BYTES], const char *folder, const char *name)
{
    const int length = snprintf(path, PATH_BYTES, "%s/%s", folder, name);
    if (length < 0 || length >= PATH_BYTES)
        return comet_fail(COMET_ERROR_ARGUMENT, "%.100s.../%.100s: the path is longer than %d bytes", folder, name, PATH_BYTES);
    return COMET_OK;
}

bool path_exists(const char *path)
{
    return access(path, F_OK) == 0;
}

bool path_is_folder(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

static comet_status fail_errno(const char *path)
{
    char text[128] = "error without a name";
    const int error = errno;
    if (strerror_r(error, text, sizeof text) != 0)
        snprintf(text, sizeof text, "error %d", error);
    return comet_fail(error == ENOMEM ? COMET_ERROR_MEMORY : COMET_ERROR_IO, "%s: %s", path, text);
}

comet_status file_open(const char *path, int *descriptor, uint64_t *bytes)
{
    struct stat about;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* O_NONBLOCK changes nothing for a regular file */
    if (fd < 0)
        return fail_errno(path);
    comet_status status = COMET_OK;
    if (fstat(fd, &about) != 0)
        status = fail_errno(path);
    else if (!S_ISREG(about.st_mode))
        status = comet_fail(COMET_ERROR_IO, "%s: not a regular file", path);
    if (status != COMET_OK) {
        close(fd);
        return status;
    }
    *descriptor = fd;
    *bytes = (uint64_t)about.st_size;
    return COMET_OK;
}

/* A mapping, and how many mapped_files have it. */
typedef struct mapping {
    struct mapping *next;
    struct stat about; /* of the file when it was mapped */
    void *data;
    size_t n_users;
} mapping;

static pthread_mutex_t mappings_lock = PTHREAD_MUTEX_INITIALIZER;
static mapping *mappings;

static bool same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* The lock must be held, as for the next functions. */
static mapping *find_mapping(const struct stat *about)
{
    mapping *m = mappings;
    while (m && !same_file(&m->about, about))
        m = m->next;
    return m;
}

static comet_status add_mapping(const char *path, int fd, const struct stat *about, mapping **added)
{
    mapping *m = storage_new(1, sizeof *m);
    if (!m)
        return COMET_ERROR_MEMORY;
    m->data = mmap(NULL, (size_t)about->st_size, PROT_READ, MAP_SHARED, fd, 0);
    if (m->data == MAP_FAILED) {
        free(m);
        return fail_errno(path);
    }
    m->about = *about;
    m->next = mappings;
    *added = mappings = m;
    return COMET_OK;
}

static void remove_mapping(mapping *m)
{
    mapping **at = &mappings;
    while (*at != m)
        at = &(*at)->next;
    *at = m->next;
    munmap(m->data, (size_t)m->about.st_size);
    free(m);
}

static comet_status map_open_file(mapped_file *file, const char *path, int fd)
{
    struct stat about;
    comet_status status = COMET_OK;
    *file = (mapped_file){0};
    if (fstat(fd, &about) != 0)
        return fail_errno(path);
    if (about.st_size == 0)
        return COMET_OK;
    if ((uint64_t)about.st_size > SIZE_MAX)
        return comet_fail(COMET_ERROR_OVERFLOW, "%s: larger than this machine's memory can map", path);
    pthread_mutex_lock(&mappings_lock);
    mapping *m = find_mapping(&about);
    if (!m)
        status = add_mapping(path, fd, &about, &m);
    if (status == COMET_OK) {
        m->n_users++;
        *file = (mapped_file){.data = m->data, .bytes = (size_t)about.st_size};
    }
    pthread_mutex_unlock(&mappings_lock);
    return status;
}

comet_status file_map(mapped_file *file, const char *path)
{
    int fd = -1;
    uint64_t bytes = 0;
    comet_status status = file_open(path, &fd, &bytes);
    if (status != COMET_OK)
        return status;
    status = map_open_file(file, path, fd);
    close(fd);
    return status;
}

void file_unmap(mapped_file *file)
{
    pthread_mutex_lock(&mappings_lock);
    mapping *m = mappings;
    while (m && m->data != (const void *)file->data)
        m = m->next;
    if (m && --m->n_users == 0)
        remove_mapping(m);
    pthread_mutex_unlock(&mappings_lock);
    *file = (mapped_file){0};
}

/* read() until `bytes` are there or the file ends. */
static bool read_fully(int fd, uint8_t *data, size_t bytes, size_t *n_read)
{
    size_t at = 0;
    while (at < bytes) {
        const ssize_t n = read(fd, data + at, bytes - at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return false;
        if (n == 0)
            break;
        at += (size_t)n;
    }
    *n_read = at;
    return true;
}

comet_status storage_read_file(const char *path, size_t max_bytes, comet_buffer *buffer, size_t *bytes)
{
    int fd = -1;
    uint64_t length = 0;
    const comet_allocator allocator = comet_allocator_of(NULL);
    comet_status status = file_open(path, &fd, &length);
    if (status != COMET_OK)
        return status;
    if (length > max_bytes)
        status = comet_fail(COMET_ERROR_CORRUPT, "%s: %llu bytes; more than %zu are not read as an image", path,
                            (unsigned long long)length, max_bytes);
    else
        status = comet_buffer_reserve(&allocator, buffer, (size_t)length + 1);
    if (status == COMET_OK && !read_fully(fd, buffer->data, (size_t)length, bytes))
        status = fail_errno(path);
    close(fd);
    return status;
}
