/*
 * Were all ranks started alike? Rank 0 receives every rank's lines and compares them with its own; all learn the first
 * difference, in the order of the ranks and of rank 0's lines.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"
#include "comet/dist.h"

enum { HOST_BYTES = 64, SENTENCE_BYTES = 512 };

/* How a rank's text begins on its way to rank 0. */
typedef struct text_head {
    char host[HOST_BYTES];
    uint64_t bytes; /* of the text, with its end */
} text_head;

typedef struct line {
    const char *what, *value;
    int what_length, value_length;
} line;

/* The next line "what: value" of *text; false at the end. A line without a colon has no value. */
static bool next_line(const char **text, line *found)
{
    *text += strspn(*text, "\n");
    const size_t length = strcspn(*text, "\n");
    if (length == 0)
        return false;
    const char *colon = memchr(*text, ':', length), *end = *text + length;
    const char *value = colon ? colon + 1 + (colon + 1 < end && colon[1] == ' ') : end;
    *found = (line){
        .what = *text, .value = value, .what_length = (int)((colon ? colon : end) - *text), .value_length = (int)(end - value)};
    *text = end;
    return true;
}

static bool find_line(const char *text, const line *like, line *found)
{
    while (next_line(&text, found))
        if (found->what_length == like->what_length && memcmp(found->what, like->what, (size_t)like->what_length) == 0)
            return true;
    return false;
}

static bool same_value(const line *a, const line *b)
{
    return a->value_length == b->value_length && memcmp(a->value, b->value, (size_t)a->value_length) == 0;
}

/* Writes the first difference; false where there is none. */
static bool find_difference(const char *own, const char *other, uint32_t rank, const char *host, char *sentence)
{
    line mine, theirs;
    for (const char *at = own; next_line(&at, &mine);) {
        const bool there = find_line(other, &mine, &theirs);
        if (there && same_value(&mine, &theirs))
            continue;
        snprintf(sentence, SENTENCE_BYTES, "rank %u on host %s was started %s %.*s%s%.*s, rank 0 with %.*s", rank, host,
                 there ? "with" : "without", mine.what_length, mine.what, there ? " " : "", there ? theirs.value_length : 0,
                 there ? theirs.value : "", mine.value_length, mine.value);
        return true;
    }
    for (const char *at = other; next_line(&at, &theirs);) {
        if (find_line(own, &theirs, &mine))
            continue;
        snprintf(sentence, SENTENCE_BYTES, "rank %u on host %s was started with %.*s %.*s, rank 0 without", rank, host,
                 theirs.what_length, theirs.what, theirs.value_length, theirs.value);
        return true;
    }
    return false;
}

static comet_status compare_with(comet_ranks *ranks, uint32_t rank, const char *own, char *sentence)
{
    text_head head;
    TRY(ranks->receive(ranks->self, rank, &head, sizeof head));
    head.host[HOST_BYTES - 1] = '\0';
    char *other = malloc(head.bytes + 1);
    if (!other)
        return comet_fail(COMET_ERROR_MEMORY, "could not allocate %llu bytes to compare the ranks",
                          (unsigned long long)head.bytes);
    const comet_status status = ranks->receive(ranks->self, rank, other, head.bytes);
    other[head.bytes] = '\0';
    if (status == COMET_OK && sentence[0] == '\0')
        (void)find_difference(own, other, rank, head.host, sentence);
    free(other);
    return status;
}

static comet_status send_own(comet_ranks *ranks, const char *text)
{
    text_head head = {.bytes = strlen(text) + 1};
    if (gethostname(head.host, sizeof head.host - 1) != 0)
        snprintf(head.host, sizeof head.host, "unknown");
    TRY(ranks->send(ranks->self, 0, &head, sizeof head));
    return ranks->send(ranks->self, 0, text, head.bytes);
}

comet_status comet_dist_agree(comet_ranks *ranks, const char *text)
{
    char sentence[SENTENCE_BYTES] = "";
    if (ranks->rank > 0)
        TRY(send_own(ranks, text));
    else
        for (uint32_t r = 1; r < ranks->n_ranks; r++)
            TRY(compare_with(ranks, r, text, sentence));
    TRY(ranks->broadcast(ranks->self, sentence, sizeof sentence));
    return sentence[0] == '\0' ? COMET_OK : comet_fail(COMET_ERROR_ARGUMENT, "%.*s", SENTENCE_BYTES - 1, sentence);
}
