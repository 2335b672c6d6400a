/* Small things with strings. */
#ifndef COMET_CLI_TEXT_H
#define COMET_CLI_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* Do the first `length` characters of `text` end with `suffix`? */
bool text_ends_with(const char *text, size_t length, const char *suffix);

/* Copies what stands before the next comma, and moves *at behind it, or to NULL after the last item. False if the item does
 * not fit. */
bool text_take_item(const char **at, char *item, size_t item_bytes);

#endif
