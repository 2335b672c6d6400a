/* Nearest word by optimal string alignment; see nearest.h. */
#include "base/nearest.h"

#include <stdint.h>
#include <string.h>

enum { MAX_WORD = 40 }; /* longer words are near to nothing */

typedef size_t table[MAX_WORD + 1][MAX_WORD + 1];

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* One cell of the alignment table: row i ends at from[i - 1], column j at to[j - 1]. */
static size_t cell(table t, const char *from, const char *to, size_t i, size_t j)
{
    const size_t replaced = t[i - 1][j - 1] + (from[i - 1] != to[j - 1]);
    size_t best = smaller(replaced, smaller(t[i - 1][j], t[i][j - 1]) + 1);
    if (i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1])
        best = smaller(best, t[i - 2][j - 2] + 1);
    return best;
}

static size_t edit_distance(const char *from, size_t n, const char *to, size_t m)
{
    table t;
    if (n > MAX_WORD || m > MAX_WORD)
        return SIZE_MAX;
    for (size_t i = 0; i <= n; i++)
        t[i][0] = i;
    for (size_t j = 0; j <= m; j++)
        t[0][j] = j;
    for (size_t i = 1; i <= n; i++)
        for (size_t j = 1; j <= m; j++)
            t[i][j] = cell(t, from, to, i, j);
    return t[n][m];
}

nearest_word nearest_to(const char *text, size_t length)
{
    return (nearest_word){.text = text, .length = length, .best = NULL, .distance = SIZE_MAX};
}

void nearest_offer(nearest_word *nearest, const char *candidate)
{
    const size_t d = edit_distance(nearest->text, nearest->length, candidate, strlen(candidate));
    if (d < nearest->distance) {
        nearest->distance = d;
        nearest->best = candidate;
    }
}

/* The next character that counts, in lower case, or '\0' at the end. */
static char next_letter(const char **at, const char *end)
{
    while (*at < end && (**at == '-' || **at == '_'))
        ++*at;
    if (*at == end)
        return '\0';
    const char c = *(*at)++;
    return (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
}

static bool same_word(const char *a, const char *a_end, const char *b, const char *b_end)
{
    for (;;) {
        const char left = next_letter(&a, a_end), right = next_letter(&b, b_end);
        if (left != right)
            return false;
        if (left == '\0')
            return true;
    }
}

void nearest_offer_for(nearest_word *nearest, const char *candidate, const char *synonyms)
{
    nearest_offer(nearest, candidate);
    for (const char *word = synonyms + strspn(synonyms, " "); *word != '\0';) {
        const char *end = word + strcspn(word, " ");
        if (same_word(nearest->text, nearest->text + nearest->length, word, end)) {
            nearest->distance = 0;
            nearest->best = candidate;
        }
        word = end + strspn(end, " ");
    }
}

const char *nearest_best(const nearest_word *nearest)
{
    const size_t limit = nearest->length / 3 > 1 ? nearest->length / 3 : 1;
    return nearest->distance <= limit && nearest->distance < nearest->length ? nearest->best : NULL;
}
