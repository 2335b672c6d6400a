/* Strings; see text.h. */
#include "text.h"

#include <string.h>

bool text_ends_with(const char *text, size_t length, const char *suffix)
{
    const size_t n = strlen(suffix);
    return length >= n && memcmp(text + length - n, suffix, n) == 0;
}

bool text_take_item(const char **at, char *item, size_t item_bytes)
{
    const size_t length = strcspn(*at, ",");
    if (length >= item_bytes)
        return false;
    memcpy(item, *at, length);
    item[length] = '\0';
    *at = (*at)[length] == ',' ? *at + length + 1 : NULL;
    return true;
}
