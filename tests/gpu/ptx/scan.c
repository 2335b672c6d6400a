/* PTX to words and statements; see inside.h. */
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/ptx/inside.h"

void scan_fail(scanner *s, const char *format, ...)
{
    if (s->failed)
        return;
    s->failed = true;
    s->kind = TOKEN_END;
    const int n = snprintf(s->why, PTX_WHY_BYTES, "line %d of the PTX: ", s->line);
    va_list args;
    va_start(args, format);
    vsnprintf(s->why + n, (size_t)(PTX_WHY_BYTES - n), format, args);
    va_end(args);
}

static void skip_blank(scanner *s)
{
    for (;; s->at++) {
        if (s->at[0] == '/' && s->at[1] == '/') {
            while (s->at[1] && s->at[1] != '\n')
                s->at++;
        } else if (s->at[0] == '/' && s->at[1] == '*') {
            while (s->at[2] && !(s->at[1] == '*' && s->at[2] == '/'))
                s->line += *s->at++ == '\n';
            s->at += 2;
        } else if (*s->at == '\n') {
            s->line++;
        } else if (!*s->at || !isspace((unsigned char)*s->at)) {
            return;
        }
    }
}

static bool in_name(const char *p)
{
    return isalnum((unsigned char)*p) || *p == '_' || *p == '$' || *p == '%' || *p == '.';
}

static void scan_name(scanner *s)
{
    size_t n = 0;
    while (in_name(s->at) || (s->at[0] == ':' && s->at[1] == ':')) {
        if (n + 3 >= sizeof s->text) {
            scan_fail(s, "a name of more than %zu letters", n);
            return;
        }
        if (*s->at == ':')
            s->text[n++] = *s->at++;
        s->text[n++] = *s->at++;
    }
    s->text[n] = 0;
    s->kind = TOKEN_NAME;
}

/* 12, 0x1f, 0f3F800000 (a float's bits), 0d... (a double's), each perhaps with U after it. */
static void scan_digits(scanner *s)
{
    char *end;
    int base = 0;
    const char *from = s->at;
    if (from[0] == '0' && strchr("fFdD", from[1])) {
        from += 2;
        base = 16;
    }
    s->value = strtoull(from, &end, base);
    while (*end == 'U')
        end++;
    snprintf(s->text, sizeof s->text, "%.*s", (int)(end - s->at), s->at);
    s->at = end;
    s->kind = TOKEN_NUMBER;
}

void scan_next(scanner *s)
{
    if (s->failed)
        return;
    skip_blank(s);
    if (!*s->at) {
        s->kind = TOKEN_END;
        s->text[0] = 0;
    } else if (*s->at == '"') {
        const char *end = strchr(s->at + 1, '"');
        s->kind = TOKEN_TEXT;
        s->text[0] = 0;
        s->at = end ? end + 1 : s->at + strlen(s->at);
    } else if (isdigit((unsigned char)*s->at)) {
        scan_digits(s);
    } else if (in_name(s->at)) {
        scan_name(s);
    } else {
        s->text[0] = *s->at++;
        s->text[1] = 0;
        s->kind = TOKEN_SIGN;
    }
}

bool scan_is(const scanner *s, const char *text)
{
    return s->kind != TOKEN_END && s->kind != TOKEN_TEXT && strcmp(s->text, text) == 0;
}

bool scan_take(scanner *s, const char *text)
{
    const bool is = scan_is(s, text);
    if (is)
        scan_next(s);
    return is;
}

void scan_need(scanner *s, const char *text)
{
    if (!scan_take(s, text))
        scan_fail(s, "\"%s\" where \"%s\" is expected", s->text, text);
}

u64 scan_number(scanner *s)
{
    const bool minus = scan_take(s, "-");
    const u64 value = s->value;
    if (s->kind != TOKEN_NUMBER) {
        scan_fail(s, "\"%s\" where a number is expected", s->text);
        return 0;
    }
    scan_next(s);
    return minus ? 0 - value : value;
}

static void take_name(scanner *s, char name[NAME_BYTES])
{
    if (s->kind != TOKEN_NAME || strlen(s->text) >= NAME_BYTES)
        scan_fail(s, "\"%.60s\" where a name of less than %d letters is expected", s->text, NAME_BYTES);
    else
        memcpy(name, s->text, strlen(s->text) + 1);
    scan_next(s);
}

/* [name], [name+4], [name+-4], [4]; the bracket is taken. */
static void scan_address(scanner *s, operand *o)
{
    o->kind = OPERAND_ADDRESS;
    o->has_name = s->kind == TOKEN_NAME;
    if (o->has_name)
        take_name(s, o->name);
    if (!o->has_name || scan_take(s, "+"))
        o->value = scan_number(s);
    scan_need(s, "]");
}

static void scan_vector(scanner *s, operand *o)
{
    o->kind = OPERAND_VECTOR;
    do {
        if (o->n_vector == MAX_VECTOR)
            scan_fail(s, "a vector of more than %d elements", MAX_VECTOR);
        else
            take_name(s, o->vector[o->n_vector++]);
    } while (scan_take(s, ","));
    scan_need(s, "}");
}

static void scan_operand(scanner *s, operand *o)
{
    *o = (operand){.kind = OPERAND_NAME};
    if (scan_take(s, "[")) {
        scan_address(s, o);
    } else if (scan_take(s, "{")) {
        scan_vector(s, o);
    } else if (s->kind == TOKEN_NUMBER || scan_is(s, "-")) {
        o->kind = OPERAND_NUMBER;
        o->value = scan_number(s);
    } else {
        o->negated = scan_take(s, "!");
        take_name(s, o->name);
        if (scan_take(s, "|"))
            take_name(s, o->second);
    }
}

void scan_statement(scanner *s, statement *out)
{
    *out = (statement){.line = s->line};
    if (scan_take(s, "@")) {
        out->guard_not = scan_take(s, "!");
        take_name(s, out->guard);
    }
    out->line = s->line;
    take_name(s, out->mnemonic);
    while (!s->failed && !scan_is(s, ";")) {
        if (out->n_operands == MAX_OPERANDS || s->kind == TOKEN_END) {
            scan_fail(s, "%s has no end, or more than %d operands", out->mnemonic, MAX_OPERANDS);
            return;
        }
        scan_operand(s, &out->operands[out->n_operands++]);
        if (!scan_is(s, ";"))
            scan_need(s, ",");
    }
    scan_need(s, ";");
}
