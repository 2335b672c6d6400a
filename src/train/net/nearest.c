/* Nearest word by edit distance, one row of the table at a time. */
#include "train/net/nearest.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { MAX_WORD = 40 }; /* longer words are near to nothing */

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t distance(const char *from, size_t n, const char *to, size_t m)
{
    size_t row[MAX_WORD + 1];
    if (n > MAX_WORD || m > MAX_WORD)
        return SIZE_MAX;
    for (size_t j = 0; j <= m; j++)
        row[j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            const size_t replaced = diagonal + (from[i - 1] != to[j - 1]);
            diagonal = row[j];
            row[j] = smaller(replaced, smaller(row[j], row[j - 1]) + 1);
        }
    }
    return row[m];
}

nearest_word nearest_to(const char *text, size_t length)
{
    return (nearest_word){.text = text, .length = length, .best = NULL, .distance = SIZE_MAX};
}

void nearest_offer(nearest_word *nearest, const char *candidate)
{
    const size_t d = distance(nearest->text, nearest->length, candidate, strlen(candidate));
    if (d < nearest->distance) {
        nearest->distance = d;
        nearest->best = candidate;
    }
}

/* " word " in small letters and without - and _; false for what cannot be a word. */
static bool fold(const nearest_word *nearest, char text[MAX_WORD + 3])
{
    size_t n = 0;
    if (nearest->length > MAX_WORD)
        return false;
    text[n++] = ' ';
    for (size_t i = 0; i < nearest->length; i++) {
        const char c = nearest->text[i];
        if (c == ' ')
            return false;
        if (c != '-' && c != '_')
            text[n++] = (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
    }
    text[n++] = ' ';
    text[n] = '\0';
    return n > 2;
}

void nearest_offer_for(nearest_word *nearest, const char *candidate, const char *others)
{
    char text[MAX_WORD + 3];
    nearest_offer(nearest, candidate);
    if (fold(nearest, text) && strstr(others, text)) {
        nearest->distance = 0;
        nearest->best = candidate;
    }
}

const char *nearest_best(const nearest_word *nearest)
{
    const size_t limit = nearest->length / 3 > 2 ? nearest->length / 3 : 2;
    return nearest->distance <= limit && nearest->distance < nearest->length ? nearest->best : NULL;
}
