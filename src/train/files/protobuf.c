/* See protobuf.h. */
#include "train/files/protobuf.h"

#include <stdlib.h>
#include <string.h>

enum wire { VARINT = 0, LENGTH = 2, FOUR_BYTES = 5 };

void protobuf_free(protobuf *p)
{
    free(p->data);
    *p = (protobuf){0};
}

static void put(protobuf *p, const void *data, size_t bytes)
{
    if (p->failed || bytes == 0)
        return;
    if (bytes > p->capacity - p->bytes) {
        const size_t capacity = 2 * p->capacity + bytes + 64;
        unsigned char *larger = realloc(p->data, capacity);
        if (!larger) {
            p->failed = true;
            return;
        }
        p->data = larger;
        p->capacity = capacity;
    }
    memcpy(p->data + p->bytes, data, bytes);
    p->bytes += bytes;
}

/* Seven bits a byte, the lowest first; the highest bit says that more follow. */
static void put_varint(protobuf *p, uint64_t value)
{
    unsigned char bytes[10];
    size_t n = 0;
    do {
        bytes[n++] = (unsigned char)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));
        value >>= 7;
    } while (value > 0);
    put(p, bytes, n);
}

static void put_tag(protobuf *p, uint32_t field, enum wire wire)
{
    put_varint(p, (uint64_t)field << 3 | wire);
}

void protobuf_put_int(protobuf *p, uint32_t field, int64_t value)
{
    put_tag(p, field, VARINT);
    put_varint(p, (uint64_t)value);
}

void protobuf_put_float(protobuf *p, uint32_t field, float value)
{
    unsigned char bytes[4];
    memcpy(bytes, &value, sizeof bytes);
    put_tag(p, field, FOUR_BYTES);
    put(p, bytes, sizeof bytes);
}

void protobuf_put_length(protobuf *p, uint32_t field, uint64_t bytes)
{
    put_tag(p, field, LENGTH);
    put_varint(p, bytes);
}

void protobuf_put_bytes(protobuf *p, uint32_t field, const void *data, size_t bytes)
{
    protobuf_put_length(p, field, bytes);
    put(p, data, bytes);
}

void protobuf_put_text(protobuf *p, uint32_t field, const char *text)
{
    protobuf_put_bytes(p, field, text, strlen(text));
}

void protobuf_append(protobuf *p, const protobuf *more)
{
    p->failed = p->failed || more->failed;
    put(p, more->data, more->bytes);
}

void protobuf_put_message(protobuf *p, uint32_t field, protobuf *message)
{
    p->failed = p->failed || message->failed;
    protobuf_put_bytes(p, field, message->data, message->bytes);
    protobuf_free(message);
}
