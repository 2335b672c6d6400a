/* Strict numbers: the whole text, plain decimal, inside the range, or a reason. No spaces, no hex, no "inf". */
#ifndef COMET_CLI_NUMBER_H
#define COMET_CLI_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

#include "kit/say.h"

/* Digits only. */
bool number_u64(const char *text, uint64_t min, uint64_t max, uint64_t *value, reason *why);

/* Is it written as a decimal number, whatever its size? */
bool number_is_decimal(const char *text);

/* Is the decimal number not zero, yet nearer to zero than any normal double? */
bool number_is_too_small(const char *text);

/* A finite decimal number such as 0.01 or 1e-3. */
bool number_double(const char *text, double min, double max, double *value, reason *why);

/* A size of 1 byte to 2^62: a decimal number and its unit, in capitals or not. K, M, G, T and KiB, MiB, GiB, TiB are powers of
 * 1024, as in most tools; KB, MB, GB, TB are powers of 1000; B are bytes. A number without a unit is refused: few mean 400
 * bytes by 400. A fraction of a byte is dropped. */
bool number_bytes(const char *text, uint64_t *bytes, reason *why);

/* A rate as bytes/s: a decimal number with Mbit, Gbit, Tbit, MB, GB or TB (powers of 1000), in capitals or not, and perhaps
 * "/s". */
bool number_rate(const char *text, double *bytes_per_s, reason *why);

/* A time in seconds: a decimal number with ns, us, ms or s. */
bool number_seconds(const char *text, double *seconds, reason *why);

/* 1 to max_items numbers separated by commas. */
bool number_list(const char *text, uint64_t *items, uint32_t max_items, uint32_t *n_items, reason *why);

/* The shortest decimal text that reads back as the same double. */
void number_format(double value, char *text, size_t text_bytes);

#endif
