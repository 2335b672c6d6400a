/* Whole files in and out; see file_io.h. Used by the main thread only. */
#include "kit/file_io.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/atomic_file.h"
#include "comet/base.h"
#include "kit/pages.h"
#include "kit/progress.h"

enum { IO_BYTES = 16 << 20, FIRST_GROWTH = 1 << 20, CHECKED_GROWTH = 64 << 20 };

bool file_is_standard_stream(const char *path)
{
    return strcmp(path, "-") == 0;
}

static size_t at_most(size_t bytes, size_t limit)
{
    return bytes < limit ? bytes : limit;
}

/* ---- reading ---- */

void blob_free(blob *contents)
{
    free(contents->data);
    *contents = (blob){0};
}

/* A missing or forbidden file is bad input; a failing disk is not. */
static cli_exit read_failure(const char *path, int error)
{
    const bool input = error == ENOENT || error == EISDIR || error == EACCES || error == ENOTDIR || error == ENAMETOOLONG;
    return fail_errno(input ? CLI_BAD_INPUT : CLI_FAILED, error, path);
}

/* Systems that overcommit memory kill the process that fills it, so an endless input must be refused before that. */
static bool is_available(size_t bytes)
{
    return bytes < CHECKED_GROWTH || bytes < comet_memory_available();
}

static cli_exit grow(blob *contents, size_t *capacity, size_t wanted)
{
    unsigned char *larger = is_available(wanted) ? pages_alloc(wanted) : NULL;
    if (!larger)
        return fail_memory(wanted);
    if (contents->bytes > 0)
        memcpy(larger, contents->data, contents->bytes);
    free(contents->data);
    contents->data = larger;
    *capacity = wanted;
    return CLI_OK;
}

static cli_exit too_long(const char *path, size_t most)
{
    return fail(CLI_BAD_INPUT, "%s: too long: such a file may have at most %zu bytes", path, most);
}

/* Allocates one byte more than the expected size, so that the end of a regular file is found without growing. */
static cli_exit read_all(int fd, const char *path, size_t expected, size_t most, blob *contents)
{
    size_t capacity = 0;
    if (expected > most)
        return too_long(path, most);
    cli_exit code = grow(contents, &capacity, expected > 0 ? expected + 1 : FIRST_GROWTH);
    while (code == CLI_OK) {
        if (contents->bytes == capacity)
            code = capacity > SIZE_MAX / 2 ? fail_memory(capacity) : grow(contents, &capacity, capacity * 2);
        if (code != CLI_OK)
            break;
        const ssize_t n = read(fd, contents->data + contents->bytes, at_most(capacity - contents->bytes, IO_BYTES));
        if (n == 0)
            break;
        if (n < 0 && errno != EINTR)
            code = read_failure(path, errno);
        else if (n > 0)
            contents->bytes += (size_t)n;
        if (contents->bytes > most)
            code = too_long(path, most);
        progress_update(contents->bytes);
    }
    return code;
}

static size_t expected_size(int fd)
{
    struct stat status;
    if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) || status.st_size < 0)
        return 0;
    return (uintmax_t)status.st_size < SIZE_MAX - PAGE_BYTES ? (size_t)status.st_size : 0;
}

cli_exit file_read_small(const char *path, size_t most, blob *contents)
{
    const bool standard = file_is_standard_stream(path);
    const int fd = standard ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    *contents = (blob){0};
    if (fd < 0)
        return read_failure(path, errno);
    const size_t expected = expected_size(fd);
    progress_begin("reading", expected);
    const cli_exit code = read_all(fd, standard ? "standard input" : path, expected, most, contents);
    progress_end();
    if (!standard)
        close(fd);
    if (code != CLI_OK)
        blob_free(contents);
    return code;
}

cli_exit file_read(const char *path, blob *contents)
{
    return file_read_small(path, SIZE_MAX, contents);
}

/* ---- the temporary file; a signal that ends the program removes it ---- */

static const char *volatile pending_path;

static void on_signal(int number)
{
    if (pending_path)
        unlink(pending_path);
    signal(number, SIG_DFL);
    raise(number);
}

/* Signals that are ignored, or that a verb handles by itself, stay so. */
void file_guard(const char *path)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    pending_path = path;
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        struct sigaction now;
        if (sigaction(numbers[i], NULL, &now) == 0 && now.sa_handler == (path ? SIG_DFL : on_signal))
            signal(numbers[i], path ? on_signal : SIG_DFL);
    }
}

/* ---- writing ---- */

/* Returns 0 or an errno. */
static int write_pieces(int fd, const piece *pieces, size_t n_pieces)
{
    uint64_t total = 0, written = 0;
    for (size_t i = 0; i < n_pieces; i++)
        total += pieces[i].bytes;
    progress_begin("writing", total);
    int error = 0;
    for (size_t i = 0; i < n_pieces && error == 0; i++)
        for (size_t at = 0; at < pieces[i].bytes && error == 0; at += IO_BYTES) {
            const size_t bytes = at_most(pieces[i].bytes - at, IO_BYTES);
            error = comet_write_all(fd, (const unsigned char *)pieces[i].data + at, bytes) == 0 ? 0 : errno;
            progress_update(written += bytes);
        }
    progress_end();
    return error;
}

static cli_exit write_direct(const char *path, const piece *pieces, size_t n_pieces)
{
    const bool standard = file_is_standard_stream(path);
    const int fd = standard ? STDOUT_FILENO : open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return fail_errno(CLI_FAILED, errno, path);
    int error = write_pieces(fd, pieces, n_pieces);
    if (!standard && close(fd) != 0 && error == 0)
        error = errno;
    return error == 0 ? CLI_OK : fail_errno(CLI_FAILED, error, standard ? "standard output" : path);
}

/* The guarded name is a copy: committing frees the file's own. */
static cli_exit write_renamed(const char *path, bool force, const piece *pieces, size_t n_pieces)
{
    atomic_file file;
    comet_status status = atomic_file_begin(&file, path);
    if (status != COMET_OK)
        return fail(CLI_FAILED, "%s", comet_last_error());
    char *temporary = strdup(file.temporary);
    file_guard(temporary);
    const int error = write_pieces(file.fd, pieces, n_pieces);
    if (error == 0)
        status = force ? atomic_file_commit(&file, NULL) : atomic_file_commit_new(&file);
    atomic_file_abandon(&file);
    file_guard(NULL);
    free(temporary);
    if (error != 0)
        return fail_errno(CLI_FAILED, error, path);
    return status == COMET_OK ? CLI_OK : fail(CLI_FAILED, "%s", comet_last_error());
}

static bool is_regular(const char *path, bool *exists)
{
    struct stat status;
    *exists = stat(path, &status) == 0;
    return *exists && S_ISREG(status.st_mode);
}

static bool is_folder(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

/* Only regular files count: a device or pipe may be both input and output. */
static bool regular_status(const char *path, int standard, struct stat *status)
{
    const int failed = file_is_standard_stream(path) ? fstat(standard, status) : stat(path, status);
    return failed == 0 && S_ISREG(status->st_mode);
}

cli_exit file_check_distinct(const char *input, const char *output)
{
    struct stat in, out;
    if (!regular_status(input, STDIN_FILENO, &in) || !regular_status(output, STDOUT_FILENO, &out))
        return CLI_OK;
    if (in.st_dev != out.st_dev || in.st_ino != out.st_ino)
        return CLI_OK;
    return fail(CLI_USAGE, "%s: input and output are the same file; name another output with -o", output);
}

cli_exit file_check_output(const char *path, bool force)
{
    bool exists = false;
    if (file_is_standard_stream(path))
        return isatty(STDOUT_FILENO)
                   ? fail(CLI_FAILED, "will not write binary data to a terminal; send standard output to a file or a pipe")
                   : CLI_OK;
    if (path[0] == '\0')
        return fail(CLI_USAGE, "the name of the output is empty");
    if (is_folder(path))
        return fail(CLI_FAILED, "%s is a folder", path);
    if (is_regular(path, &exists) && !force)
        return fail(CLI_FAILED, "%s already exists; -f overwrites it", path);
    return CLI_OK;
}

cli_exit file_write(const char *path, bool force, const piece *pieces, size_t n_pieces)
{
    bool exists = false;
    const cli_exit code = file_check_output(path, force);
    if (code != CLI_OK)
        return code;
    const bool direct = file_is_standard_stream(path) || (!is_regular(path, &exists) && exists);
    return direct ? write_direct(path, pieces, n_pieces) : write_renamed(path, force, pieces, n_pieces);
}
