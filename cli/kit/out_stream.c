/* Results as they come; see out_stream.h. */
#include "kit/out_stream.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kit/file_io.h"

static cli_exit open_stream(out_stream *out, int fd)
{
    if (fd >= 0)
        out->stream = fdopen(fd, "w");
    if (out->stream)
        return CLI_OK;
    const int error = errno;
    if (fd >= 0)
        close(fd);
    return fail_errno(CLI_FAILED, error, out->path);
}

/* A device or a pipe is written directly. */
static bool is_special(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && !S_ISREG(status.st_mode);
}

cli_exit out_open(out_stream *out, const char *path, bool force)
{
    *out = (out_stream){.path = path, .force = force};
    if (!path || file_is_standard_stream(path)) {
        out->stream = stdout;
        return CLI_OK;
    }
    cli_exit code = file_check_output(path, force);
    if (code != CLI_OK)
        return code;
    if (is_special(path))
        return open_stream(out, open(path, O_WRONLY | O_CLOEXEC));
    if (atomic_file_begin(&out->file, path) != COMET_OK)
        return fail(CLI_FAILED, "%s", comet_last_error());
    out->is_file = true;
    out->guarded = strdup(out->file.temporary);
    file_guard(out->guarded);
    code = open_stream(out, fcntl(out->file.fd, F_DUPFD_CLOEXEC, 0));
    return code == CLI_OK ? CLI_OK : out_close(out, code);
}

static cli_exit flush(out_stream *out)
{
    errno = 0;
    const bool failed = ferror(out->stream) != 0;
    if (fclose(out->stream) == 0 && !failed)
        return CLI_OK;
    return fail_errno(CLI_FAILED, errno != 0 ? errno : EIO, out->path);
}

cli_exit out_close(out_stream *out, cli_exit code)
{
    if (out->stream && out->stream != stdout) {
        const cli_exit written = flush(out);
        code = code == CLI_OK ? written : code;
    }
    if (out->is_file) {
        if (code == CLI_OK &&
            (out->force ? atomic_file_commit(&out->file, NULL) : atomic_file_commit_new(&out->file)) != COMET_OK)
            code = fail(CLI_FAILED, "%s", comet_last_error());
        atomic_file_abandon(&out->file);
        file_guard(NULL);
    }
    free(out->guarded);
    *out = (out_stream){0};
    return code;
}
