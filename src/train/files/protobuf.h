/*
 * Messages of protocol buffers, written into memory that grows: fields with a number and, by the wire format, a varint, four
 * bytes, or a length and that many bytes. A buffer that could not grow stays as it is and has failed set.
 */
#ifndef COMET_TRAIN_FILES_PROTOBUF_H
#define COMET_TRAIN_FILES_PROTOBUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct protobuf {
    unsigned char *data;
    size_t bytes, capacity;
    bool failed;
} protobuf;

void protobuf_free(protobuf *p);

void protobuf_put_int(protobuf *p, uint32_t field, int64_t value);
void protobuf_put_float(protobuf *p, uint32_t field, float value);
void protobuf_put_bytes(protobuf *p, uint32_t field, const void *data, size_t bytes);
void protobuf_put_text(protobuf *p, uint32_t field, const char *text);
/* A message as a field of another; it is freed. */
void protobuf_put_message(protobuf *p, uint32_t field, protobuf *message);
/* Fields of `more` as further fields of *p. */
void protobuf_append(protobuf *p, const protobuf *more);
/* What comes before the bytes of a field, which follow from elsewhere. */
void protobuf_put_length(protobuf *p, uint32_t field, uint64_t bytes);

#endif
