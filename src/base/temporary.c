/* Temporary files beside their targets; see temporary.h. */
#include "base/temporary.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/checksum.h"

/* Bytes of a name without its folder: the prefix is ".comet-", the target's digits and "-"; then come random digits and
 * ".tmp". */
enum { PREFIX_BYTES = 7 + 16 + 1, NAME_BYTES = PREFIX_BYTES + 16 + 4, MAX_ATTEMPTS = 100, PERMISSIONS = 0777 };

/* ---- names ---- */

/* Bytes of the folder in `path`, with its slash; 0 for the current folder. */
static size_t folder_bytes(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? (size_t)(slash - path) + 1 : 0;
}

static void make_prefix(const char *path, char prefix[PREFIX_BYTES + 1])
{
    const char *target = path + folder_bytes(path);
    snprintf(prefix, PREFIX_BYTES + 1, ".comet-%016" PRIx64 "-", comet_checksum(target, strlen(target)));
}

/* Nobody should be able to guess the next name. Where the system has no random numbers, names can be guessed, and only O_EXCL
 * protects. */
static uint64_t random_number(void)
{
    uint64_t number = 0;
    struct timespec now = {0};
    if (getrandom(&number, sizeof number, GRND_NONBLOCK) == (ssize_t)sizeof number)
        return number;
    clock_gettime(CLOCK_REALTIME, &now);
    const uint64_t seen[] = {(uint64_t)now.tv_sec, (uint64_t)now.tv_nsec, (uint64_t)getpid()};
    return comet_checksum(seen, sizeof seen);
}

/* A name for a temporary of `path` with its folder, for free(); NULL with errno where memory is missing. */
static char *random_name(const char *path)
{
    const size_t folder = folder_bytes(path), bytes = folder + NAME_BYTES + 1;
    char prefix[PREFIX_BYTES + 1], *name = malloc(bytes);
    if (!name)
        return NULL;
    make_prefix(path, prefix);
    memcpy(name, path, folder);
    snprintf(name + folder, bytes - folder, "%s%016" PRIx64 ".tmp", prefix, random_number());
    return name;
}

/* The folder of `path` opened, or -1 with errno. */
static int open_folder(const char *path)
{
    const size_t bytes = folder_bytes(path);
    char *folder = malloc(bytes + 2);
    if (!folder)
        return -1;
    snprintf(folder, bytes + 2, "%.*s", bytes > 0 ? (int)bytes : 1, bytes > 0 ? path : ".");
    const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    free(folder);
    return fd;
}

/* ---- what killed processes left ---- */

static bool is_temporary_of(const char *name, const char *prefix)
{
    return strlen(name) == NAME_BYTES && strncmp(name, prefix, PREFIX_BYTES) == 0 &&
           strspn(name + PREFIX_BYTES, "0123456789abcdef") == 16 && strcmp(name + PREFIX_BYTES + 16, ".tmp") == 0;
}

/* Removes a temporary that nobody has locked: its writer is gone. Where files cannot be locked, it stays. */
static void remove_stale(int folder, const char *name)
{
    struct stat s;
    const int flags = O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
    int fd = openat(folder, name, O_WRONLY | flags); /* network file systems lock only what is open for writing */
    if (fd < 0)
        fd = openat(folder, name, O_RDONLY | flags); /* a link to a file that its owner may only read */
    if (fd < 0)
        return;
    if (fstat(fd, &s) == 0 && S_ISREG(s.st_mode) && s.st_uid == geteuid() && flock(fd, LOCK_EX | LOCK_NB) == 0)
        unlinkat(folder, name, 0);
    close(fd);
}

void comet_temporary_clean(const char *path)
{
    char prefix[PREFIX_BYTES + 1];
    const int fd = open_folder(path);
    DIR *folder = fd >= 0 ? fdopendir(fd) : NULL;
    make_prefix(path, prefix);
    for (const struct dirent *entry = NULL; folder && (entry = readdir(folder));)
        if (is_temporary_of(entry->d_name, prefix))
            remove_stale(fd, entry->d_name);
    if (folder)
        closedir(folder);
    else if (fd >= 0)
        close(fd);
}

/* ---- making one ---- */

/* The permissions of the file that is there now; -1 where there is none. A link would be replaced, not what it points to. */
static int permissions_of(const char *path)
{
    struct stat s;
    return lstat(path, &s) == 0 && S_ISREG(s.st_mode) ? (int)(s.st_mode & PERMISSIONS) : -1;
}

/* Locks a new file. Returns false where another process took it for a stale one before it was locked: it must be made again. */
static bool lock_new(int fd)
{
    struct stat s;
    if (flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return false;
    return fstat(fd, &s) == 0 && s.st_nlink > 0;
}

int comet_temporary_open(const char *path, char **name)
{
    const int old = permissions_of(path);
    const mode_t mode = old < 0 ? 0666 : (mode_t)old | S_IRUSR | S_IWUSR;
    comet_temporary_clean(path);
    for (int attempt = 0; attempt < MAX_ATTEMPTS && (*name = random_name(path)); attempt++) {
        const int fd = open(*name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
        if (fd >= 0 && lock_new(fd))
            return fd;
        const int error = fd < 0 ? errno : EEXIST;
        if (fd >= 0)
            close(fd);
        free(*name);
        *name = NULL;
        errno = error;
        if (error != EEXIST)
            break;
    }
    return -1;
}

int comet_temporary_link(const char *existing, const char *path, char **name)
{
    comet_temporary_clean(path);
    for (int attempt = 0; attempt < MAX_ATTEMPTS && (*name = random_name(path)); attempt++) {
        if (link(existing, *name) == 0)
            return 0;
        const int error = errno;
        free(*name);
        *name = NULL;
        errno = error;
        if (error != EEXIST)
            break;
    }
    return -1;
}

/* ---- bringing it to the disk ---- */

int comet_temporary_sync(int fd, const char *path)
{
    const int old = permissions_of(path);
    if (old >= 0)
        (void)fchmod(fd, (mode_t)old); /* file systems without modes refuse; it was made with no more than these */
    return fsync(fd);
}

void comet_folder_sync(const char *path)
{
    const int fd = open_folder(path);
    if (fd < 0)
        return;
    fsync(fd);
    close(fd);
}
