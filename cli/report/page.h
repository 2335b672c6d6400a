/* Text that grows: the page under construction. Memory that runs out is remembered, and reported once at the end. */
#ifndef COMET_CLI_PAGE_H
#define COMET_CLI_PAGE_H

#include <stdbool.h>
#include <stddef.h>

#include "kit/say.h"

typedef struct page {
    char *text; /* ends with a 0 */
    size_t bytes, room;
    bool failed;
} page;

void page_put(page *p, const char *html);
void page_format(page *p, const char *format, ...) SAY_FORMAT(2, 3);

/* Text from outside, such as a layer's name: it can be neither markup nor the end of an attribute. Control characters and bytes
 * that are not UTF-8 become visible. */
void page_escape(page *p, const char *text);

void page_bytes(page *p, const void *data, size_t bytes);
void page_free(page *p);

/* Array of at least n + 1 items with room doubled as needed; NULL without memory, and the old one stays. */
void *array_grow(void *items, size_t *room, size_t n, size_t item_bytes);

#endif
