/* How library code reports failure: return comet_fail(status, sentence). */
#ifndef COMET_BASE_STATUS_H
#define COMET_BASE_STATUS_H

#include "comet/base.h"

/* Records the sentence for comet_last_error on this thread and returns `status`. */
comet_status comet_fail(comet_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The analyzer sees one file at a time and would take a failure for COMET_OK. */
#ifdef __clang_analyzer__
#define comet_fail(status, ...) (comet_fail(status, __VA_ARGS__), (status)) /* NOLINT(readability-identifier-naming) */
#endif

/* Leaves the function with the status of a call that failed. */
#define TRY(call)                   \
    do {                            \
        comet_status try_ = (call); \
        if (try_ != COMET_OK)       \
            return try_;            \
    } while (0)

#endif
