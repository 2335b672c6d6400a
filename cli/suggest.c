/* Nearest word by optimal string alignment; see suggest.h. */
#include "suggest.h"

#include <stdint.h>
#include <string.h>

enum { MAX_WORD = 40 };

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* One cell of the alignment table: row i ends at from[i - 1], column j at to[j - 1]. */
static size_t cell(size_t table[MAX_WORD + 1][MAX_WORD + 1], const char *from, const char *to, size_t i, size_t j)
{
    const size_t replaced = table[i - 1][j - 1] + (from[i - 1] != to[j - 1]);
    size_t best = smaller(replaced, smaller(table[i - 1][j], table[i][j - 1]) + 1);
    if (i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1])
        best = smaller(best, table[i - 2][j - 2] + 1);
    return best;
}

size_t edit_distance(const char *from, const char *to)
{
    size_t table[MAX_WORD + 1][MAX_WORD + 1];
    const size_t n = strlen(from);
    const size_t m = strlen(to);
    if (n > MAX_WORD || m > MAX_WORD)
        return SIZE_MAX;
    for (size_t i = 0; i <= n; i++)
        table[i][0] = i;
    for (size_t j = 0; j <= m; j++)
        table[0][j] = j;
    for (size_t i = 1; i <= n; i++)
        for (size_t j = 1; j <= m; j++)
            table[i][j] = cell(table, from, to, i, j);
    return table[n][m];
}

suggestion suggestion_start(const char *text)
{
    return (suggestion){.text = text, .best = NULL, .distance = SIZE_MAX};
}

void suggestion_offer(suggestion *s, const char *candidate)
{
    const size_t distance = edit_distance(s->text, candidate);
    if (distance < s->distance) {
        s->distance = distance;
        s->best = candidate;
    }
}

const char *suggestion_best(const suggestion *s)
{
    const size_t length = strlen(s->text);
    const size_t limit = length / 3 > 1 ? length / 3 : 1;
    return s->distance <= limit && s->distance < length ? s->best : NULL;
}
