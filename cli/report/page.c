/* Text that grows; see page.h. */
#include "report/page.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit/text.h"

enum { FIRST_ROOM = 1 << 16 };

void *array_grow(void *items, size_t *room, size_t n, size_t item_bytes)
{
    if (n < *room)
        return items;
    const size_t more = *room > 0 ? *room * 2 : 64;
    void *larger = realloc(items, more * item_bytes);
    if (larger)
        *room = more;
    return larger;
}

static bool reserve(page *p, size_t more)
{
    if (p->failed)
        return false;
    if (p->bytes + more < p->room)
        return true;
    size_t room = p->room > 0 ? p->room : FIRST_ROOM;
    while (room <= p->bytes + more)
        room *= 2;
    char *larger = realloc(p->text, room);
    p->failed = larger == NULL;
    if (!larger)
        return false;
    p->text = larger;
    p->room = room;
    return true;
}

void page_bytes(page *p, const void *data, size_t bytes)
{
    if (!reserve(p, bytes))
        return;
    memcpy(p->text + p->bytes, data, bytes);
    p->bytes += bytes;
    p->text[p->bytes] = '\0';
}

void page_put(page *p, const char *html)
{
    page_bytes(p, html, strlen(html));
}

void page_format(page *p, const char *format, ...)
{
    char text[512];
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    const int n = vsnprintf(text, sizeof text, format, arguments);
    if (n >= 0 && (size_t)n < sizeof text) {
        page_bytes(p, text, (size_t)n);
    } else if (n >= 0 && reserve(p, (size_t)n)) {
        vsnprintf(p->text + p->bytes, (size_t)n + 1, format, again);
        p->bytes += (size_t)n;
    }
    va_end(again);
    va_end(arguments);
}

void page_escape(page *p, const char *text)
{
    char shown[PRINTABLE_BYTES];
    if (!text)
        return;
    for (const char *at = text_printable(text, shown, sizeof shown); *at != '\0'; at++)
        switch (*at) {
        case '&': page_put(p, "&amp;"); break;
        case '<': page_put(p, "&lt;"); break;
        case '>': page_put(p, "&gt;"); break;
        case '"': page_put(p, "&quot;"); break;
        case '\'': page_put(p, "&#39;"); break;
        default: page_bytes(p, at, 1); break;
        }
}

void page_free(page *p)
{
    free(p->text);
    *p = (page){0};
}
