/* Setters for option tables, and the entries that several verbs share. */
#ifndef COMET_CLI_SETTERS_H
#define COMET_CLI_SETTERS_H

#include "kit/bound_text.h"
#include "kit/enum_names.h"
#include "kit/options.h"

/* Targets. A zero-filled target means that the option was not given. */
typedef struct dims_arg {
    uint32_t n;
    uint64_t items[COMET_MAX_DIMS];
} dims_arg;

typedef struct dtype_arg {
    bool given;
    comet_dtype value;
} dtype_arg;

typedef struct seed_arg {
    bool given;
    uint64_t value;
} seed_arg;

typedef struct range_arg {
    bool given;
    uint64_t first, count;
} range_arg;

bool set_flag(void *target, const char *text, reason *why);      /* bool */
bool clear_flag(void *target, const char *text, reason *why);    /* bool */
bool set_text(void *target, const char *text, reason *why);      /* const char *, not empty */
bool set_bound(void *target, const char *text, reason *why);     /* bound */
bool set_level(void *target, const char *text, reason *why);     /* comet_level */
bool set_layout(void *target, const char *text, reason *why);    /* comet_layout */
bool set_profile(void *target, const char *text, reason *why);   /* comet_profile */
bool set_dtype(void *target, const char *text, reason *why);     /* dtype_arg */
bool set_dims(void *target, const char *text, reason *why);      /* dims_arg */
bool set_threads(void *target, const char *text, reason *why);   /* uint64_t, 0 to 4 x cores or 64 */
bool set_seed(void *target, const char *text, reason *why);      /* seed_arg; no text: seed 0 */
bool set_range(void *target, const char *text, reason *why);     /* range_arg, "FIRST,COUNT", COUNT at least 1 */
bool set_ratio(void *target, const char *text, reason *why);     /* double, 0 to 1e6 */
bool set_chunk(void *target, const char *text, reason *why);     /* uint64_t, 64 to 2^24 */
bool set_repeat(void *target, const char *text, reason *why);    /* uint64_t, 1 to 10000 */
bool set_seconds(void *target, const char *text, reason *why);   /* double, 0 to 3600 */
bool set_megabytes(void *target, const char *text, reason *why); /* uint64_t, 0 to 2^20 */
bool set_demo_size(void *target, const char *text, reason *why); /* uint64_t, 1 to 4096 */

#define OPTION_OUTPUT(type, help)                                     \
    {                                                                 \
        'o', "output", "FILE", set_text, offsetof(type, output), help \
    }
#define OPTION_FORCE(type)                                                                       \
    {                                                                                            \
        'f', "force", NULL, set_flag, offsetof(type, force), "overwrite the output if it exists" \
    }
#define OPTION_JSON(type, help)                               \
    {                                                         \
        0, "json", NULL, set_flag, offsetof(type, json), help \
    }
#define OPTION_THREADS(type, help)                                        \
    {                                                                     \
        'j', "threads", "N", set_threads, offsetof(type, n_threads), help \
    }
#define OPTION_PROFILE(type)                                                                                          \
    {                                                                                                                 \
        0, "profile", "PROFILE", set_profile, offsetof(type, profile),                                                \
            "host or device: what the frame is made for (default host);\ndevice cuts it into small chunks, for a GPU" \
    }
#define OPTION_LEVEL(type)                                                                            \
    {                                                                                                 \
        'l', "level", "LEVEL", set_level, offsetof(type, level), "fast, dense or auto (default fast)" \
    }
#define OPTION_DIMS(type, help)                                      \
    {                                                                \
        'd', "dims", "N,C,H,W", set_dims, offsetof(type, dims), help \
    }
#define OPTION_DTYPE(type, help)                                    \
    {                                                               \
        't', "type", "TYPE", set_dtype, offsetof(type, dtype), help \
    }

#endif
