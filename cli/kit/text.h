/* Helpers for strings. */
#ifndef COMET_CLI_TEXT_H
#define COMET_CLI_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Do the first `length` characters of `text` end with `suffix`? */
bool text_ends_with(const char *text, size_t length, const char *suffix);

/* Copies the text before the next comma and moves *at to the character after that comma, or to NULL after the last item.
 * Returns false if the item does not fit. */
bool text_take_item(const char **at, char *item, size_t item_bytes);

/* Text from outside, such as a file's name, for a terminal or a table: control characters (C0, DEL, C1) and bytes that are not
 * UTF-8 become "\x1b" and the like, so that they cannot move the cursor or begin a line. Cut where it does not fit;
 * returns `to`. */
enum { PRINTABLE_BYTES = 4 * 4096 + 1 }; /* for any path */
char *text_printable(const char *text, char *to, size_t to_bytes);

/* Characters of a text in UTF-8: the columns that it takes on a terminal where each character has one. */
size_t text_columns(const char *text);

/* Images per second, with four digits and at least all before the point: "18.42", "2085", "30250". Returns `text`. */
enum { SPEED_BYTES = 32 };
char *text_speed(double per_second, char text[SPEED_BYTES]);

#endif
