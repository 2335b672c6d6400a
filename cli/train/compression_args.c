/* Options of compression; see compression_args.h. */
#include "train/compression_args.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kit/number.h"

static const named modes[] = {{"off", COMET_COMPRESS_OFF},   {"lossless", COMET_COMPRESS_LOSSLESS},
                              {"fast", COMET_COMPRESS_FAST}, {"dense", COMET_COMPRESS_DENSE},
                              {"auto", COMET_COMPRESS_AUTO}, {NULL, 0}};

bool mode_parse(const char *text, comet_compress_mode *mode, reason *why)
{
    int value = 0;
    const bool known = named_find(modes, "way to compress", "off, lossless, fast, dense or auto", text, &value, why);
    if (known)
        *mode = (comet_compress_mode)value;
    return known;
}

const char *mode_name(comet_compress_mode mode)
{
    for (const named *at = modes; at->name; at++)
        if (at->value == (int)mode)
            return at->name;
    return "unknown";
}

bool set_mode(void *target, const char *text, reason *why)
{
    mode_arg *mode = target;
    mode->given = mode_parse(text, &mode->value, why);
    return mode->given;
}

/* "1%" is 0.01. */
static bool parse_share(const char *text, double *value, reason *why)
{
    char digits[64];
    const size_t length = strlen(text);
    const bool percent = length > 0 && text[length - 1] == '%';
    double parsed = 0;
    if (length >= sizeof digits)
        return reason_set(why, "'%.60s' is too long for a number", text);
    memcpy(digits, text, length + 1);
    if (percent)
        digits[length - 1] = '\0';
    if (!number_double(digits, 0, percent ? 100 : 1, &parsed, why))
        return false;
    *value = percent ? parsed / 100 : parsed;
    return true;
}

bool set_percent(void *target, const char *text, reason *why)
{
    double value = 0;
    if (!parse_share(text, &value, why))
        return false;
    if (value <= 0)
        return reason_set(why, "give more than 0; for no error at all use --compress lossless");
    *(double *)target = value;
    return true;
}

bool set_overhead(void *target, const char *text, reason *why)
{
    return parse_share(text, target, why);
}

bool set_bytes(void *target, const char *text, reason *why)
{
    return number_bytes(text, target, why);
}

static bool is_lossy(comet_compress_mode mode)
{
    return mode == COMET_COMPRESS_FAST || mode == COMET_COMPRESS_DENSE || mode == COMET_COMPRESS_AUTO;
}

cli_exit compression_check_rule(const compression_args *args)
{
    if (args->noise >= 0 && args->sigma >= 0)
        return fail(CLI_USAGE, "--noise and --sigma exclude each other: both set the bounds");
    return CLI_OK;
}

cli_exit compression_check(const compression_args *args)
{
    const comet_compress_mode mode = args->mode.value;
    if (compression_check_rule(args) != CLI_OK)
        return CLI_USAGE;
    if ((args->noise >= 0 || args->sigma >= 0) && !is_lossy(mode))
        return fail(CLI_USAGE, "--%s has no effect with --compress %s", args->noise >= 0 ? "noise" : "sigma", mode_name(mode));
    if (args->overhead >= 0 && mode != COMET_COMPRESS_AUTO)
        return fail(CLI_USAGE, "--overhead is for --compress auto");
    if (args->checksums && mode == COMET_COMPRESS_OFF)
        return fail(CLI_USAGE, "--checksums has no effect with --compress off: nothing is compressed");
    if (args->spill && access(args->spill, W_OK | X_OK) != 0)
        return fail(CLI_BAD_INPUT, "%s: --spill needs a folder that is writable", args->spill);
    return CLI_OK;
}

void compression_fill(const compression_args *args, comet_compress_mode mode, comet_compression *compression)
{
    comet_compression_init(compression);
    compression->mode = mode;
    compression->checksums = args->checksums;
    compression->spill_folder = args->spill;
    compression->spill_above = UINT64_MAX; /* until a budget sets the limit */
    if (args->noise >= 0)
        compression->noise = args->noise;
    if (args->sigma >= 0)
        compression->sigma = args->sigma;
    if (args->overhead >= 0)
        compression->overhead = args->overhead;
}
