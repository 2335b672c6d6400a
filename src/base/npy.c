/* NumPy headers; see comet/npy.h. The dictionary is untrusted text: a cursor with an end, no recursion. */
#include "comet/npy.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"

static const char magic[] = "\x93NUMPY";
enum { MAGIC_BYTES = 6, MAX_DICTIONARY = 1 << 20 };

typedef struct cursor {
    const char *at, *end;
} cursor;

static void skip_spaces(cursor *c)
{
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\t' || *c->at == '\n' || *c->at == '\r'))
        c->at++;
}

/* Skips spaces, then takes `what` if it comes next. */
static bool take(cursor *c, const char *what)
{
    const size_t length = strlen(what);
    skip_spaces(c);
    if ((size_t)(c->end - c->at) < length || memcmp(c->at, what, length) != 0)
        return false;
    c->at += length;
    return true;
}

/* 'text' or "text" without escapes, shorter than the buffer. */
static bool take_string(cursor *c, char *text, size_t text_bytes)
{
    skip_spaces(c);
    if (c->at == c->end || (*c->at != '\'' && *c->at != '"'))
        return false;
    const char quote = *c->at++;
    const char *close = memchr(c->at, quote, (size_t)(c->end - c->at));
    if (!close || (size_t)(close - c->at) >= text_bytes)
        return false;
    memcpy(text, c->at, (size_t)(close - c->at));
    text[close - c->at] = '\0';
    c->at = close + 1;
    return true;
}

static bool take_number(cursor *c, uint64_t *value)
{
    uint64_t v = 0;
    skip_spaces(c);
    const char *first = c->at;
    for (; c->at < c->end && *c->at >= '0' && *c->at <= '9'; c->at++) {
        const uint64_t digit = (uint64_t)(*c->at - '0');
        if (v > (UINT64_MAX - digit) / 10)
            return false;
        v = v * 10 + digit;
    }
    *value = v;
    const bool found = c->at > first;
    take(c, "L"); /* Python 2 wrote it after long integers */
    return found;
}

static comet_status parse_shape(cursor *c, comet_npy_header *header)
{
    if (!take(c, "("))
        return comet_fail(COMET_ERROR_CORRUPT, "the shape in its header is not a tuple");
    header->n_dims = 0;
    while (!take(c, ")")) {
        if (header->n_dims == COMET_NPY_MAX_DIMS)
            return comet_fail(COMET_ERROR_UNSUPPORTED, "it has more than %d dimensions", COMET_NPY_MAX_DIMS - 1);
        if (!take_number(c, &header->dims[header->n_dims]))
            return comet_fail(COMET_ERROR_CORRUPT, "the shape in its header is damaged or too large");
        header->n_dims++;
        if (!take(c, ",") && !take(c, ")"))
            return comet_fail(COMET_ERROR_CORRUPT, "the shape in its header is damaged");
        if (c->at[-1] == ')')
            break;
    }
    if (header->n_dims == 0)
        header->dims[header->n_dims++] = 1;
    return COMET_OK;
}

static comet_status parse_descr(cursor *c, comet_npy_header *header)
{
    if (take(c, "["))
        return comet_fail(COMET_ERROR_UNSUPPORTED, "it holds records, not plain numbers");
    if (!take_string(c, header->descr, sizeof header->descr))
        return comet_fail(COMET_ERROR_CORRUPT, "the element type in its header is damaged");
    return COMET_OK;
}

static comet_status parse_order(cursor *c)
{
    if (take(c, "False"))
        return COMET_OK;
    if (take(c, "True"))
        return comet_fail(COMET_ERROR_UNSUPPORTED, "it is in Fortran order; save numpy.ascontiguousarray(a) instead");
    return comet_fail(COMET_ERROR_CORRUPT, "fortran_order in its header is neither True nor False");
}

static comet_status parse_item(cursor *c, comet_npy_header *header, unsigned *seen)
{
    static const char *const keys[] = {"descr", "fortran_order", "shape"};
    char key[16];
    unsigned which = 0;
    if (!take_string(c, key, sizeof key) || !take(c, ":"))
        return comet_fail(COMET_ERROR_CORRUPT, "its header is not a dictionary that numpy would write");
    while (which < 3 && strcmp(key, keys[which]) != 0)
        which++;
    if (which == 3 || (*seen & (1u << which)))
        return comet_fail(COMET_ERROR_CORRUPT, "its header has an unexpected key '%s'", key);
    *seen |= 1u << which;
    if (which == 0)
        return parse_descr(c, header);
    return which == 1 ? parse_order(c) : parse_shape(c, header);
}

static comet_status parse_dictionary(cursor *c, comet_npy_header *header)
{
    unsigned seen = 0;
    bool closed = false;
    if (!take(c, "{"))
        return comet_fail(COMET_ERROR_CORRUPT, "its header is not a dictionary");
    while (!closed) {
        closed = take(c, "}");
        if (closed)
            break;
        const comet_status status = parse_item(c, header, &seen);
        if (status != COMET_OK)
            return status;
        closed = !take(c, ",");
        if (closed && !take(c, "}"))
            return comet_fail(COMET_ERROR_CORRUPT, "its header is damaged");
    }
    skip_spaces(c);
    if (seen != 7 || c->at != c->end)
        return comet_fail(COMET_ERROR_CORRUPT, "its header lacks descr, fortran_order or shape, or has more than these");
    return COMET_OK;
}

bool comet_npy_has_magic(const void *file, size_t bytes)
{
    return bytes >= MAGIC_BYTES && memcmp(file, magic, MAGIC_BYTES) == 0;
}

/* Where the dictionary lies. */
static comet_status find_dictionary(const uint8_t *file, size_t bytes, cursor *dictionary)
{
    if (!comet_npy_has_magic(file, bytes))
        return comet_fail(COMET_ERROR_CORRUPT, "not a .npy file");
    const unsigned version = bytes > 7 ? file[6] : 0;
    const size_t prefix = version == 1 ? 10 : 12;
    if (bytes < prefix)
        return comet_fail(COMET_ERROR_CORRUPT, "the .npy file ends inside its header");
    if (version < 1 || version > 3 || file[7] != 0)
        return comet_fail(COMET_ERROR_UNSUPPORTED, ".npy version %u.%u is not known; 1.0, 2.0 and 3.0 are", version,
                          (unsigned)file[7]);
    size_t length = (size_t)file[8] | (size_t)file[9] << 8;
    if (version > 1)
        length |= (size_t)file[10] << 16 | (size_t)file[11] << 24;
    if (length > bytes - prefix || length > MAX_DICTIONARY)
        return comet_fail(COMET_ERROR_CORRUPT, "the .npy file ends inside its header");
    *dictionary = (cursor){.at = (const char *)file + prefix, .end = (const char *)file + prefix + length};
    return COMET_OK;
}

comet_status comet_npy_parse(comet_npy_header *header, const void *file, size_t bytes)
{
    cursor c = {NULL, NULL};
    comet_npy_header read = {.n_dims = 0};
    comet_status status = find_dictionary(file, bytes, &c);
    if (status == COMET_OK) {
        read.data_offset = (size_t)(c.end - (const char *)file);
        status = parse_dictionary(&c, &read);
    }
    if (status == COMET_OK)
        *header = read;
    return status;
}

size_t comet_npy_format(const char *descr, uint32_t n_dims, const uint64_t *dims, char text[COMET_NPY_HEADER_BYTES])
{
    char *at = text + 10;
    char *const end = text + COMET_NPY_HEADER_BYTES;
    at += snprintf(at, (size_t)(end - at), "{'descr': '%.7s', 'fortran_order': False, 'shape': (", descr);
    for (uint32_t i = 0; i < n_dims; i++)
        at += snprintf(at, (size_t)(end - at), "%s%" PRIu64, i > 0 ? ", " : "", dims[i]);
    at += snprintf(at, (size_t)(end - at), n_dims == 1 ? ",), }" : "), }");
    while ((at - text) % 64 != 63)
        *at++ = ' ';
    *at++ = '\n';
    const size_t length = (size_t)(at - text) - 10;
    memcpy(text, magic, MAGIC_BYTES);
    text[6] = 1;
    text[7] = 0;
    text[8] = (char)(length & 0xff);
    text[9] = (char)(length >> 8);
    return (size_t)(at - text);
}
