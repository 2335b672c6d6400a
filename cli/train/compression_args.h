/* How saved activations are held, on the command line: the options that the training verbs share, and what they mean. */
#ifndef COMET_CLI_COMPRESSION_ARGS_H
#define COMET_CLI_COMPRESSION_ARGS_H

#include "comet/train.h"
#include "kit/setters.h"

typedef struct mode_arg {
    bool given;
    comet_compress_mode value;
} mode_arg;

/* Begins as COMPRESSION_DEFAULTS. */
typedef struct compression_args {
    mode_arg mode;
    double noise, sigma, overhead; /* shares; negative: not given */
    bool checksums;
    const char *spill;
} compression_args;

#define COMPRESSION_DEFAULTS                                                           \
    {                                                                                  \
        .mode = {false, COMET_COMPRESS_AUTO}, .noise = -1, .sigma = -1, .overhead = -1 \
    }

bool set_mode(void *target, const char *text, reason *why);     /* mode_arg */
bool set_percent(void *target, const char *text, reason *why);  /* double, "1%" or "0.01", above 0 and up to 1 */
bool set_overhead(void *target, const char *text, reason *why); /* likewise, 0 allowed */
bool set_bytes(void *target, const char *text, reason *why);    /* uint64_t, a size as number_bytes takes it */

#define OPTION_NOISE(type)                                                                        \
    {                                                                                             \
        0, "noise", "SHARE", set_percent, offsetof(type, compression.noise),                      \
            "what errors may add to the variance of a layer's gradient, in the mean (default 1%)" \
    }
#define OPTION_SIGMA(type)                                                                        \
    {                                                                                             \
        0, "sigma", "FACTOR", set_percent, offsetof(type, compression.sigma),                     \
            "the paper's rule: errors of FACTOR x mean |momentum|, there 0.01 (default: --noise)" \
    }
#define OPTION_OVERHEAD(type)                                                       \
    {                                                                               \
        0, "overhead", "SHARE", set_overhead, offsetof(type, compression.overhead), \
            "auto: share of a step's time that coding may take (default 5%)"        \
    }
#define OPTION_CHECKSUMS(type)                                                 \
    {                                                                          \
        0, "checksums", NULL, set_flag, offsetof(type, compression.checksums), \
            "of everything held compressed, checked before it is used"         \
    }

bool mode_parse(const char *text, comet_compress_mode *mode, reason *why);
const char *mode_name(comet_compress_mode mode);

/* Refuse options that exclude one another: whatever the mode, and for the mode given. */
cli_exit compression_check_rule(const compression_args *args);
cli_exit compression_check(const compression_args *args);

/* The library's defaults with what was given; mode is set apart, since a verb may have several. */
void compression_fill(const compression_args *args, comet_compress_mode mode, comet_compression *compression);

#endif
