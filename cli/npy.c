/* NumPy headers; see npy.h. The dictionary is untrusted text: a cursor with an end, no recursion. */
#include "npy.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

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
    take(c, "L"); /* Python 2 wrote long integers so */
    return found;
}

static bool parse_shape(cursor *c, npy_header *header, reason *why)
{
    if (!take(c, "("))
        return reason_set(why, "the shape in its header is not a tuple");
    header->n_dims = 0;
    while (!take(c, ")")) {
        if (header->n_dims == NPY_MAX_DIMS)
            return reason_set(why, "it has more than %d dimensions", COMET_MAX_DIMS);
        if (!take_number(c, &header->dims[header->n_dims]))
            return reason_set(why, "the shape in its header is damaged or too large");
        header->n_dims++;
        if (!take(c, ",") && !take(c, ")"))
            return reason_set(why, "the shape in its header is damaged");
        if (c->at[-1] == ')')
            break;
    }
    if (header->n_dims == 0)
        header->dims[header->n_dims++] = 1;
    return true;
}

static bool parse_descr(cursor *c, npy_header *header, reason *why)
{
    if (take(c, "["))
        return reason_set(why, "it holds records, not plain numbers");
    if (!take_string(c, header->descr, sizeof header->descr))
        return reason_set(why, "the element type in its header is damaged");
    return true;
}

static bool parse_order(cursor *c, reason *why)
{
    if (take(c, "False"))
        return true;
    if (take(c, "True"))
        return reason_set(why, "it is in Fortran order; save numpy.ascontiguousarray(a) instead");
    return reason_set(why, "fortran_order in its header is neither True nor False");
}

static bool parse_item(cursor *c, npy_header *header, unsigned *seen, reason *why)
{
    static const char *const keys[] = {"descr", "fortran_order", "shape"};
    char key[16];
    unsigned which = 0;
    if (!take_string(c, key, sizeof key) || !take(c, ":"))
        return reason_set(why, "its header is not a dictionary that numpy would write");
    while (which < 3 && strcmp(key, keys[which]) != 0)
        which++;
    if (which == 3 || (*seen & (1u << which)))
        return reason_set(why, "its header has an unexpected key '%s'", key);
    *seen |= 1u << which;
    if (which == 0)
        return parse_descr(c, header, why);
    return which == 1 ? parse_order(c, why) : parse_shape(c, header, why);
}

static bool parse_dictionary(cursor *c, npy_header *header, reason *why)
{
    unsigned seen = 0;
    bool closed = false;
    if (!take(c, "{"))
        return reason_set(why, "its header is not a dictionary");
    while (!closed) {
        closed = take(c, "}");
        if (closed)
            break;
        if (!parse_item(c, header, &seen, why))
            return false;
        closed = !take(c, ",");
        if (closed && !take(c, "}"))
            return reason_set(why, "its header is damaged");
    }
    skip_spaces(c);
    if (seen != 7 || c->at != c->end)
        return reason_set(why, "its header lacks descr, fortran_order or shape, or has more than these");
    return true;
}

bool npy_has_magic(const unsigned char *file, size_t bytes)
{
    return bytes >= MAGIC_BYTES && memcmp(file, magic, MAGIC_BYTES) == 0;
}

bool npy_parse(const unsigned char *file, size_t bytes, npy_header *header, reason *why)
{
    if (!npy_has_magic(file, bytes))
        return reason_set(why, "not a .npy file");
    const unsigned version = bytes > 7 ? file[6] : 0;
    const size_t prefix = version == 1 ? 10 : 12;
    if (bytes < prefix)
        return reason_set(why, "a .npy file that ends inside its header");
    if (version < 1 || version > 3 || file[7] != 0)
        return reason_set(why, ".npy version %u.%u is not known; 1.0, 2.0 and 3.0 are", version, (unsigned)file[7]);
    size_t length = (size_t)file[8] | (size_t)file[9] << 8;
    if (version > 1)
        length |= (size_t)file[10] << 16 | (size_t)file[11] << 24;
    if (length > bytes - prefix || length > MAX_DICTIONARY)
        return reason_set(why, "a .npy file that ends inside its header");
    cursor c = {.at = (const char *)file + prefix, .end = (const char *)file + prefix + length};
    header->data_offset = prefix + length;
    return parse_dictionary(&c, header, why);
}

static const struct {
    const char *descr;
    comet_dtype dtype;
} types[] = {{"<f4", COMET_DTYPE_F32}, {"<f2", COMET_DTYPE_F16}, {"<u2", COMET_DTYPE_BF16}, {"<f8", COMET_DTYPE_F64}};
enum { N_TYPES = sizeof types / sizeof types[0] };

bool npy_dtype(const char *descr, bool bf16, comet_dtype *dtype, reason *why)
{
    for (size_t i = 0; i < N_TYPES; i++) {
        if (strcmp(types[i].descr, descr) == 0 && (types[i].dtype != COMET_DTYPE_BF16 || bf16)) {
            *dtype = types[i].dtype;
            return true;
        }
        if (descr[0] == '>' && strcmp(types[i].descr + 1, descr + 1) == 0)
            return reason_set(why, "it is big-endian ('%s'); save a.astype('%s') instead", descr, types[i].descr);
    }
    if (strcmp(descr, "<u2") == 0)
        return reason_set(why, "its elements are '<u2'; if they are bfloat16 bits, say so with -t bf16");
    return reason_set(why, "its elements are '%s'; only '<f4', '<f2', '<f8' and, with -t bf16, '<u2' can be compressed", descr);
}

size_t npy_format(comet_dtype dtype, uint32_t n_dims, const uint64_t *dims, char text[NPY_HEADER_CAPACITY])
{
    const char *descr = types[0].descr;
    for (size_t i = 0; i < N_TYPES; i++)
        if (types[i].dtype == dtype)
            descr = types[i].descr;
    char *at = text + 10;
    char *const end = text + NPY_HEADER_CAPACITY;
    at += snprintf(at, (size_t)(end - at), "{'descr': '%s', 'fortran_order': False, 'shape': (", descr);
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
