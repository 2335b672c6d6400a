/* The options for compressed activations that the training verbs share. */
#ifndef COMET_CLI_COMPRESSION_ARGS_H
#define COMET_CLI_COMPRESSION_ARGS_H

#include "comet/train.h"
#include "kit/setters.h"

typedef struct mode_arg {
    bool given;
    comet_compress_mode value;
} mode_arg;

/* Initialise with COMPRESSION_DEFAULTS. */
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
bool set_overhead(void *target, const char *text, reason *why); /* double, "1%" or "0.01", 0 to 1 */
bool set_bytes(void *target, const char *text, reason *why);    /* uint64_t, a size as number_bytes takes it */

#define OPTION_NOISE(type)                                                                              \
    {                                                                                                   \
        0, "noise", "SHARE", set_percent, offsetof(type, compression.noise),                            \
            "share of a gradient's variance that errors may add, averaged over the layers (default 1%)" \
    }
#define OPTION_SIGMA(type)                                                                               \
    {                                                                                                    \
        0, "sigma", "FACTOR", set_percent, offsetof(type, compression.sigma),                            \
            "rule of the COMET paper: sigma = FACTOR x mean |momentum|; it uses 0.01 (default: --noise)" \
    }
#define OPTION_OVERHEAD(type)                                                       \
    {                                                                               \
        0, "overhead", "SHARE", set_overhead, offsetof(type, compression.overhead), \
            "with auto: share of the time that coding may take (default 5%)"        \
    }
#define OPTION_CHECKSUMS(type)                                                 \
    {                                                                          \
        0, "checksums", NULL, set_flag, offsetof(type, compression.checksums), \
            "add checksums to compressed activations, checked before use"      \
    }

bool mode_parse(const char *text, comet_compress_mode *mode, reason *why);
const char *mode_name(comet_compress_mode mode);

/* Refuse options that exclude one another: for every mode, and for the given mode. */
cli_exit compression_check_rule(const compression_args *args);
cli_exit compression_check(const compression_args *args);

/* The library's defaults, changed by the options. The mode is a parameter, since a verb may have several. */
void compression_fill(const compression_args *args, comet_compress_mode mode, comet_compression *compression);

#endif
