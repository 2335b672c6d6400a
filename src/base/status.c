/* Status names and the per-thread last-error sentence. */
#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>

#undef comet_fail

/* Visible, so that the libraries of a process that hold this file, such as comet_gpu beside comet_codec, share one text a
 * thread. */
enum { ERROR_BYTES = 1024 };
COMET_API extern _Thread_local char comet_last_error_text[ERROR_BYTES];
_Thread_local char comet_last_error_text[ERROR_BYTES];

comet_status comet_fail(comet_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(comet_last_error_text, ERROR_BYTES, format, args);
    va_end(args);
    return status;
}

const char *comet_last_error(void)
{
    return comet_last_error_text;
}

const char *comet_status_name(comet_status status)
{
    switch (status) {
    case COMET_OK: return "COMET_OK";
    case COMET_ERROR_ARGUMENT: return "COMET_ERROR_ARGUMENT";
    case COMET_ERROR_OVERFLOW: return "COMET_ERROR_OVERFLOW";
    case COMET_ERROR_MEMORY: return "COMET_ERROR_MEMORY";
    case COMET_ERROR_CAPACITY: return "COMET_ERROR_CAPACITY";
    case COMET_ERROR_CORRUPT: return "COMET_ERROR_CORRUPT";
    case COMET_ERROR_UNSUPPORTED: return "COMET_ERROR_UNSUPPORTED";
    case COMET_ERROR_UNREACHABLE: return "COMET_ERROR_UNREACHABLE";
    case COMET_ERROR_IO: return "COMET_ERROR_IO";
    case COMET_ERROR_DIVERGED: return "COMET_ERROR_DIVERGED";
    }
    return "unknown status";
}

const char *comet_version(void)
{
    return COMET_VERSION_STRING;
}
