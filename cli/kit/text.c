/* Strings; see text.h. */
#include "kit/text.h"

#include <stdint.h>
#include <stdio.h>
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

/* Bytes of the UTF-8 character that `at` begins with, its number in *code; 0 where there is none. */
static size_t utf8_length(const unsigned char *at, uint32_t *code)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const size_t length = at[0] < 0x80 ? 1 : at[0] < 0xC0 ? 0 : at[0] < 0xE0 ? 2 : at[0] < 0xF0 ? 3 : at[0] < 0xF8 ? 4 : 0;
    *code = length > 1 ? at[0] & (0x7Fu >> length) : at[0];
    for (size_t i = 1; i < length; i++) {
        if ((at[i] & 0xC0) != 0x80) /* the end of the text is none either */
            return 0;
        *code = *code << 6 | (at[i] & 0x3F);
    }
    const bool surrogate = *code >= 0xD800 && *code < 0xE000;
    return *code < least[length] || *code > 0x10FFFF || surrogate ? 0 : length;
}

char *text_printable(const char *text, char *to, size_t to_bytes)
{
    const unsigned char *at = (const unsigned char *)text;
    size_t n = 0;
    while (*at != '\0') {
        uint32_t code = 0;
        const size_t length = utf8_length(at, &code), taken = length > 0 ? length : 1;
        const bool plain = length > 0 && code >= 0x20 && (code < 0x7F || code > 0x9F);
        if (n + (plain ? taken : 4 * taken) >= to_bytes)
            break;
        if (plain)
            memcpy(to + n, at, taken);
        else
            for (size_t i = 0; i < taken; i++)
                snprintf(to + n + 4 * i, 5, "\\x%02x", at[i]);
        n += plain ? taken : 4 * taken;
        at += taken;
    }
    to[n] = '\0';
    return to;
}

size_t text_columns(const char *text)
{
    size_t n = 0;
    for (; *text != '\0'; text++)
        n += ((unsigned char)*text & 0xC0) != 0x80;
    return n;
}

char *text_speed(double per_second, char text[SPEED_BYTES])
{
    snprintf(text, SPEED_BYTES, per_second >= 1000 ? "%.0f" : "%.4g", per_second);
    return text;
}
