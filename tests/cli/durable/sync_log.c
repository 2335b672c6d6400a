/*
 * Preloaded into a program, writes down in which order it writes, syncs and names files, to the file that COMET_SYNC_LOG names:
 *
 *   write FILE       once for writes in a row
 *   sync FILE        fsync, also of folders
 *   rename OLD NEW
 *   link OLD NEW
 *
 * Calls go to the kernel directly; aarch64 has only the *at calls.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static void note(const char *format, ...)
{
    static char before[8400];
    char line[8400];
    va_list arguments;
    va_start(arguments, format);
    const int n = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    const char *path = getenv("COMET_SYNC_LOG");
    if (!path || n <= 0 || (size_t)n >= sizeof line || strcmp(line, before) == 0)
        return;
    memcpy(before, line, (size_t)n + 1);
    const int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    syscall(SYS_write, fd, line, (size_t)n);
    syscall(SYS_close, fd);
}

static void note_file(const char *what, int fd)
{
    char link_name[64], name[4096];
    struct stat s;
    if (fstat(fd, &s) != 0 || !(S_ISREG(s.st_mode) || S_ISDIR(s.st_mode)))
        return;
    snprintf(link_name, sizeof link_name, "/proc/self/fd/%d", fd);
    const ssize_t n = readlink(link_name, name, sizeof name - 1);
    if (n > 0)
        note("%s %.*s\n", what, (int)n, name);
}

ssize_t write(int fd, const void *data, size_t bytes)
{
    note_file("write", fd);
    return syscall(SYS_write, fd, data, bytes);
}

ssize_t pwrite(int fd, const void *data, size_t bytes, off_t offset)
{
    note_file("write", fd);
    return syscall(SYS_pwrite64, fd, data, bytes, offset);
}

ssize_t pwrite64(int fd, const void *data, size_t bytes, off64_t offset)
{
    note_file("write", fd);
    return syscall(SYS_pwrite64, fd, data, bytes, offset);
}

int fsync(int fd)
{
    note_file("sync", fd);
    return (int)syscall(SYS_fsync, fd);
}

int rename(const char *from, const char *to)
{
    note("rename %s %s\n", from, to);
    return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int link(const char *from, const char *to)
{
    note("link %s %s\n", from, to);
    return (int)syscall(SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, 0);
}
