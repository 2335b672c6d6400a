/* Statements to operations; see inside.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/ptx/alu.h"
#include "gpu/ptx/inside.h"

/* ---- the tables of alu.h ---- */

typedef struct alu_row {
    const char *mnemonic;
    u16 code;
    u8 n_sources, bytes[5]; /* of the result, then the sources */
} alu_row;

#define ROW1(name, text, D, A, value) {text, ALU_##name, 1, {sizeof(D), sizeof(A)}},
#define ROW2(name, text, D, A, B, value) {text, ALU_##name, 2, {sizeof(D), sizeof(A), sizeof(B)}},
#define ROW3(name, text, D, A, B, C, value) {text, ALU_##name, 3, {sizeof(D), sizeof(A), sizeof(B), sizeof(C)}},
#define ROW4(name, text, D, A, B, C, E, value) {text, ALU_##name, 4, {sizeof(D), sizeof(A), sizeof(B), sizeof(C), sizeof(E)}},
#define ROW_COMPARE(name, text, T, value) {text, ALU_##name, 2, {0, sizeof(T), sizeof(T)}},

static const alu_row alu_rows[] = {PTX_ALU(ROW1, ROW2, ROW3, ROW4)};
static const alu_row compare_rows[] = {PTX_COMPARE(ROW_COMPARE)};

/* ---- what a statement is decoded with ---- */

typedef struct decoder {
    scanner *s;
    registers *r;
    const statement *st;
    ptx_op *op;
    char part[12][24]; /* the mnemonic at its dots */
    u32 n_parts;
} decoder;

static void unknown(const decoder *d, const char *what)
{
    d->s->line = d->st->line;
    scan_fail(d->s, "%s: %s", d->st->mnemonic, what);
}

static void split(decoder *d)
{
    const char *p = d->st->mnemonic;
    while (*p && d->n_parts < 12) {
        const size_t n = strcspn(p, ".");
        if (n >= sizeof d->part[0]) {
            unknown(d, "unknown instruction");
            return;
        }
        memcpy(d->part[d->n_parts], p, n);
        d->part[d->n_parts++][n] = 0;
        p += n + (p[n] == '.');
    }
}

static bool is(const decoder *d, u32 part, const char *text)
{
    return part < d->n_parts && strcmp(d->part[part], text) == 0;
}

static bool has(const decoder *d, const char *text)
{
    for (u32 i = 1; i < d->n_parts; i++)
        if (strcmp(d->part[i], text) == 0)
            return true;
    return false;
}

/* Bytes of a type such as u32; 0 where it is none. */
static u32 type_bytes(const char *type)
{
    if (!*type || !strchr("bsuf", *type))
        return 0;
    char *end;
    const unsigned long bits = strtoul(type + 1, &end, 10);
    return !*end && (bits == 8 || bits == 16 || bits == 32 || bits == 64) ? (u32)bits / 8 : 0;
}

static u32 need_register(const decoder *d, const char *name, u32 *bytes)
{
    u32 row = 0;
    if (!registers_find(d->r, name, &row, bytes))
        unknown(d, "a name that is no register");
    return row;
}

/* A register, constant or symbol of these bytes; the register's own where `bytes` is 0. */
static u32 source(const decoder *d, const operand *o, u32 bytes)
{
    u32 row = 0, own = 0;
    const ptx_symbol *symbol;
    if (o->kind == OPERAND_NUMBER)
        return registers_constant(d->r, o->value, bytes);
    if (o->kind == OPERAND_NAME && !o->negated && registers_find(d->r, o->name, &row, &own)) {
        if (own != bytes)
            unknown(d, "a register of another width than the type's");
        return row;
    }
    if (o->kind == OPERAND_NAME && !o->negated && (symbol = symbol_find(d->r->kernel, o->name)))
        return registers_constant(d->r, symbol->address, bytes);
    unknown(d, "an operand that is neither register nor number nor variable");
    return row;
}

static u32 predicate(const decoder *d, const operand *o)
{
    u32 row = 0, bytes = 1;
    if (o->kind == OPERAND_NUMBER)
        return registers_constant(d->r, o->value ? ~(u64)0 : 0, 4);
    if (o->kind != OPERAND_NAME || !registers_find(d->r, o->name, &row, &bytes) || bytes != 0)
        unknown(d, "an operand that is no predicate");
    return row;
}

static bool need_operands(const decoder *d, u32 n)
{
    if (d->st->n_operands != n)
        unknown(d, "another number of operands than is known");
    return d->st->n_operands == n;
}

/* ---- arithmetic ---- */

static bool sign_matters(const decoder *d)
{
    static const char *const not_for[] = {"add", "sub", "mov", "selp"};
    for (size_t i = 0; i < sizeof not_for / sizeof *not_for; i++)
        if (is(d, 0, not_for[i]))
            return false;
    return !((is(d, 0, "mul") || is(d, 0, "mad")) && is(d, 1, "lo")) && !is(d, 1, "eq") && !is(d, 1, "ne");
}

/* The mnemonic with types as in alu.h. */
static void canonical(const decoder *d, u32 first, char out[64])
{
    size_t n = 0;
    out[0] = 0;
    for (u32 i = first; i < d->n_parts; i++) {
        char part[24];
        const bool last = i + 1 == d->n_parts, is_integer = type_bytes(d->part[i]) && d->part[i][0] != 'f';
        const bool from_float = is(d, 0, "cvt") && d->part[d->n_parts - 1][0] == 'f';
        memcpy(part, d->part[i], sizeof part);
        if (last && is_integer && !sign_matters(d))
            part[0] = 'b';
        if (last && is(d, 0, "mov") && type_bytes(part))
            part[0] = 'b';
        if (last && is(d, 0, "shr") && part[0] == 'b')
            part[0] = 'u';
        if (is(d, 0, "cvt") && !last && part[0] == 's' && is_integer)
            part[0] = 'u';
        n += (size_t)snprintf(out + n, 64 - n, "%s%s", n ? "." : "", part);
        if (from_float && !last && is_integer && d->part[i][0] == 's')
            n += (size_t)snprintf(out + n, 64 - n, ".s");
        if (n >= 48) {
            unknown(d, "unknown instruction");
            return;
        }
    }
}

static bool widths_match(const decoder *d, const alu_row *row)
{
    for (u32 i = 0; i <= row->n_sources; i++) {
        u32 at, bytes;
        const operand *o = &d->st->operands[i];
        if (o->kind == OPERAND_NAME && registers_find(d->r, o->name, &at, &bytes) && bytes != row->bytes[i])
            return false;
    }
    return true;
}

static const alu_row *find_row(const decoder *d, const alu_row *rows, size_t n, const char *text)
{
    const alu_row *likely = NULL;
    for (size_t i = 0; i < n; i++)
        if (strcmp(rows[i].mnemonic, text) == 0) {
            if (widths_match(d, &rows[i]))
                return &rows[i];
            likely = &rows[i];
        }
    return likely;
}

static void take_sources(decoder *d, const alu_row *row, const operand *from)
{
    u32 *const to[] = {&d->op->a, &d->op->b, &d->op->c, &d->op->e};
    for (u32 i = 0; i < row->n_sources; i++)
        *to[i] = source(d, &from[i], row->bytes[i + 1]);
}

static void decode_alu(decoder *d)
{
    char text[64];
    canonical(d, 0, text);
    const alu_row *row = find_row(d, alu_rows, sizeof alu_rows / sizeof *alu_rows, text);
    if (!row) {
        unknown(d, "unknown instruction");
        return;
    }
    if (!need_operands(d, row->n_sources + 1u))
        return;
    d->op->code = row->code;
    d->op->d = source(d, &d->st->operands[0], row->bytes[0]);
    if (d->st->operands[0].kind != OPERAND_NAME)
        unknown(d, "a result that is no register");
    take_sources(d, row, d->st->operands + 1);
}

static void decode_compare(decoder *d)
{
    static const char *const combined[] = {"", "and", "or", "xor"};
    char text[64];
    for (u32 i = COMBINE_AND; i <= COMBINE_XOR; i++)
        if (is(d, 2, combined[i])) {
            d->op->combine = (u8)i;
            memmove(d->part[2], d->part[3], (size_t)(d->n_parts - 3) * sizeof d->part[0]);
            d->n_parts--;
        }
    canonical(d, 1, text);
    const alu_row *row = find_row(d, compare_rows, sizeof compare_rows / sizeof *compare_rows, text);
    if (!row || d->st->operands[0].second[0]) {
        unknown(d, "unknown instruction");
        return;
    }
    if (!need_operands(d, 3u + (d->op->combine != 0)))
        return;
    d->op->code = row->code;
    d->op->d = predicate(d, &d->st->operands[0]);
    take_sources(d, row, d->st->operands + 1);
    if (d->op->combine) {
        d->op->c = predicate(d, &d->st->operands[3]);
        d->op->mode = d->st->operands[3].negated;
    }
}

static void decode_select(decoder *d)
{
    const u32 bytes = type_bytes(d->part[1]);
    if (!bytes || !need_operands(d, 4))
        return;
    d->op->code = OP_SELECT;
    d->op->bytes = (u8)bytes;
    d->op->d = source(d, &d->st->operands[0], bytes);
    d->op->a = source(d, &d->st->operands[1], bytes);
    d->op->b = source(d, &d->st->operands[2], bytes);
    d->op->c = predicate(d, &d->st->operands[3]);
}

static void decode_predicates(decoder *d, enum ptx_code code)
{
    const bool two = code <= OP_PRED_XOR;
    if (!need_operands(d, two ? 3 : 2))
        return;
    d->op->code = (u16)code;
    d->op->d = predicate(d, &d->st->operands[0]);
    d->op->a = predicate(d, &d->st->operands[1]);
    d->op->b = two ? predicate(d, &d->st->operands[2]) : d->op->a;
}

static void decode_cvta(decoder *d)
{
    const u64 window = has(d, "shared") ? SHARED_WINDOW : has(d, "local") ? LOCAL_WINDOW : 0;
    if (!need_operands(d, 2))
        return;
    d->op->code = ALU_add64;
    d->op->d = source(d, &d->st->operands[0], 8);
    d->op->a = source(d, &d->st->operands[1], 8);
    d->op->b = registers_constant(d->r, has(d, "to") ? 0 - window : window, 8);
}

/* ---- memory ---- */

static const struct {
    const char *name;
    enum ptx_space space;
} spaces[] = {{"global", SPACE_GLOBAL}, {"shared", SPACE_SHARED}, {"local", SPACE_LOCAL},
              {"param", SPACE_PARAM},   {"const", SPACE_GLOBAL},  {"shared::cta", SPACE_SHARED}};

/* Reads space, vector and type; other words must be about caches and order, which do not matter here. */
static void take_access(decoder *d)
{
    static const char *const no_matter[] = {"volatile", "weak", "relaxed", "acquire", "release", "gpu", "cta", "sys",    "nc",
                                            "ca",       "cg",   "cs",      "lu",      "cv",      "wb",  "wt",  "acq_rel"};
    ptx_op *op = d->op;
    op->n_vector = 1;
    for (u32 i = 1; i < d->n_parts; i++) {
        const char *p = d->part[i];
        bool known = false;
        for (size_t k = 0; k < sizeof spaces / sizeof *spaces; k++)
            if (strcmp(p, spaces[k].name) == 0) {
                op->space = (u8)spaces[k].space;
                known = true;
            }
        for (size_t k = 0; k < sizeof no_matter / sizeof *no_matter; k++)
            known = known || strcmp(p, no_matter[k]) == 0;
        if (strcmp(p, "v2") == 0 || strcmp(p, "v4") == 0) {
            op->n_vector = (u8)(p[1] - '0');
        } else if (type_bytes(p)) {
            op->bytes = (u8)type_bytes(p);
            op->sign = p[0] == 's';
        } else if (!known && !(d->op->code == OP_ATOMIC && i + 1 < d->n_parts)) {
            unknown(d, "unknown instruction");
        }
    }
    if (!op->bytes)
        unknown(d, "an access without a type");
}

static void take_address(decoder *d, const operand *o)
{
    u32 bytes = 8;
    ptx_op *op = d->op;
    const ptx_symbol *symbol = o->has_name ? symbol_find(d->r->kernel, o->name) : NULL;
    if (o->kind != OPERAND_ADDRESS) {
        unknown(d, "an operand that is no address");
        return;
    }
    op->offset = (s64)(o->value + (symbol ? symbol->address : 0));
    if (symbol && symbol->space != (enum ptx_space)op->space)
        unknown(d, "a variable of another kind of memory");
    op->a = o->has_name && !symbol ? need_register(d, o->name, &bytes) : registers_constant(d->r, 0, 8);
    op->wide = bytes == 8;
    if (bytes != 8 && bytes != 4)
        unknown(d, "an address of another width than 32 or 64 bits");
}

static void take_value(decoder *d, u32 i, const operand *o, const char *name)
{
    u32 bytes = d->op->bytes;
    if (o->kind == OPERAND_NUMBER)
        d->op->v[i] = registers_constant(d->r, o->value, bytes);
    else
        d->op->v[i] = need_register(d, name, &bytes);
    if (bytes < d->op->bytes || (i && bytes != d->op->stride))
        unknown(d, "a register that is too narrow, or registers of two widths");
    d->op->stride = (u8)bytes;
}

static void decode_access(decoder *d, enum ptx_code code)
{
    d->op->code = (u16)code;
    take_access(d);
    if (!need_operands(d, 2))
        return;
    const operand *address = &d->st->operands[code == OP_LOAD], *value = &d->st->operands[code != OP_LOAD];
    take_address(d, address);
    if (d->op->n_vector == 1) {
        take_value(d, 0, value, value->name);
    } else if (value->kind != OPERAND_VECTOR || value->n_vector != d->op->n_vector) {
        unknown(d, "a vector of another length");
    } else {
        for (u32 i = 0; i < value->n_vector; i++)
            take_value(d, i, value, value->vector[i]);
    }
    if (code == OP_STORE && d->op->space == SPACE_PARAM)
        unknown(d, "a parameter is written");
}

static void decode_atomic(decoder *d, bool has_result)
{
    static const char *const names[N_ATOMICS] = {"add", "or", "and", "xor", "min", "max", "exch", "cas"};
    const operand *o = d->st->operands + (has_result ? 1 : 0);
    ptx_op *op = d->op;
    op->code = OP_ATOMIC;
    take_access(d);
    op->mode = N_ATOMICS;
    for (u32 i = 0; i < N_ATOMICS; i++)
        if (has(d, names[i]))
            op->mode = (u8)i;
    if (op->mode == N_ATOMICS || op->bytes < 4 || d->part[d->n_parts - 1][0] == 'f') {
        unknown(d, "unknown instruction");
        return;
    }
    if (!need_operands(d, 2u + has_result + (op->mode == ATOMIC_CAS)))
        return;
    op->p = has_result;
    op->d = has_result ? source(d, &d->st->operands[0], op->bytes) : 0;
    take_address(d, o);
    op->b = source(d, o + 1, op->bytes);
    op->c = op->mode == ATOMIC_CAS ? source(d, o + 2, op->bytes) : op->b;
}

/* mov.b64 %rd, {%r1, %r2} and its inverse. */
static void decode_move(decoder *d)
{
    const operand *to = &d->st->operands[0], *from = &d->st->operands[1];
    const bool packs = from->kind == OPERAND_VECTOR;
    const operand *parts = packs ? from : to;
    if (to->kind != OPERAND_VECTOR && !packs) {
        decode_alu(d);
        return;
    }
    u32 bytes = type_bytes(d->part[1]);
    if (!bytes || !need_operands(d, 2))
        return;
    d->op->code = packs ? OP_PACK : OP_UNPACK;
    d->op->n_vector = (u8)parts->n_vector;
    d->op->bytes = (u8)bytes;
    d->op->stride = (u8)(bytes / parts->n_vector);
    *(packs ? &d->op->d : &d->op->a) = source(d, packs ? to : from, bytes);
    for (u32 i = 0; i < parts->n_vector; i++)
        if (d->op->v[i] = need_register(d, parts->vector[i], &bytes), bytes != d->op->stride)
            unknown(d, "elements that do not fill the whole");
}

/* ---- warps and groups ---- */

/* shfl.sync.up and the like: the third word as a number. */
static bool take_mode(decoder *d, enum ptx_code code, const char *const modes[4], u32 n_operands)
{
    d->op->code = (u16)code;
    for (u32 i = 0; i < 4; i++)
        if (is(d, 1, "sync") && is(d, 2, modes[i])) {
            d->op->mode = (u8)i;
            return need_operands(d, n_operands);
        }
    unknown(d, "unknown instruction");
    return false;
}

static void decode_shuffle(decoder *d)
{
    static const char *const modes[] = {"up", "down", "bfly", "idx"};
    if (!take_mode(d, OP_SHUFFLE, modes, 5))
        return;
    const operand *o = d->st->operands;
    u32 bytes = 4;
    d->op->d = need_register(d, o[0].name, &bytes);
    d->op->p = (u32)NO_REGISTER;
    if (o[0].second[0])
        d->op->p = need_register(d, o[0].second, &bytes);
    d->op->a = source(d, &o[1], 4);
    d->op->b = source(d, &o[2], 4);
    d->op->c = source(d, &o[3], 4);
    d->op->e = source(d, &o[4], 4);
}

static void decode_vote(decoder *d)
{
    static const char *const modes[] = {"ballot", "all", "any", "uni"};
    if (!take_mode(d, OP_VOTE, modes, 3))
        return;
    d->op->d = d->op->mode == VOTE_BALLOT ? source(d, &d->st->operands[0], 4) : predicate(d, &d->st->operands[0]);
    d->op->a = predicate(d, &d->st->operands[1]);
    d->op->wide = d->st->operands[1].negated;
    d->op->e = source(d, &d->st->operands[2], 4);
}

static void decode_match(decoder *d)
{
    if (!is(d, 1, "any") || !is(d, 3, "b32") || !need_operands(d, 3)) {
        unknown(d, "unknown instruction");
        return;
    }
    d->op->code = OP_MATCH;
    d->op->d = source(d, &d->st->operands[0], 4);
    d->op->a = source(d, &d->st->operands[1], 4);
    d->op->e = source(d, &d->st->operands[2], 4);
}

static void decode_barrier(decoder *d)
{
    if (is(d, 1, "warp")) {
        d->op->code = OP_WARP_BARRIER;
        if (need_operands(d, 1))
            d->op->e = source(d, &d->st->operands[0], 4);
        return;
    }
    d->op->code = OP_BARRIER;
    if (!has(d, "sync") || d->st->n_operands != 1 || d->st->operands[0].kind != OPERAND_NUMBER)
        unknown(d, "a barrier other than of all threads of a group");
}

static void decode_branch(decoder *d, bool has_table)
{
    const u32 op = d->r->kernel->n_ops - 1;
    const operand *to = &d->st->operands[has_table];
    if (!need_operands(d, has_table ? 2 : 1))
        return;
    d->op->code = has_table ? OP_BRANCH_TABLE : OP_BRANCH;
    if (has_table)
        d->op->a = source(d, &d->st->operands[0], 4);
    place_name *jump = GROW(d->r->jumps, d->r->n_jumps);
    memcpy(jump->name, to->name, NAME_BYTES);
    jump->op = op;
    jump->line = d->st->line;
}

static void decode_active(decoder *d)
{
    d->op->code = OP_ACTIVE;
    if (need_operands(d, 1))
        d->op->d = source(d, &d->st->operands[0], 4);
}

static void decode_any(decoder *d)
{
    const struct {
        const char *name;
        enum ptx_code code;
    } predicates[] = {
        {"and", OP_PRED_AND}, {"or", OP_PRED_OR}, {"xor", OP_PRED_XOR}, {"not", OP_PRED_NOT}, {"mov", OP_PRED_MOVE}};
    for (size_t i = 0; i < 5; i++)
        if (is(d, 0, predicates[i].name) && is(d, 1, "pred")) {
            decode_predicates(d, predicates[i].code);
            return;
        }
    if (is(d, 0, "ld"))
        decode_access(d, OP_LOAD);
    else if (is(d, 0, "st"))
        decode_access(d, OP_STORE);
    else if (is(d, 0, "atom") || is(d, 0, "red"))
        decode_atomic(d, is(d, 0, "atom"));
    else if (is(d, 0, "setp"))
        decode_compare(d);
    else if (is(d, 0, "selp"))
        decode_select(d);
    else if (is(d, 0, "mov"))
        decode_move(d);
    else if (is(d, 0, "cvta"))
        decode_cvta(d);
    else if (is(d, 0, "bra"))
        decode_branch(d, false);
    else if (is(d, 0, "brx"))
        decode_branch(d, true);
    else if (is(d, 0, "ret") || is(d, 0, "exit"))
        d->op->code = OP_RET;
    else if (is(d, 0, "trap"))
        d->op->code = OP_TRAP;
    else if (is(d, 0, "membar") || is(d, 0, "fence"))
        d->op->code = OP_NOTHING;
    else if (is(d, 0, "bar") || is(d, 0, "barrier"))
        decode_barrier(d);
    else if (is(d, 0, "shfl"))
        decode_shuffle(d);
    else if (is(d, 0, "vote"))
        decode_vote(d);
    else if (is(d, 0, "match"))
        decode_match(d);
    else if (is(d, 0, "activemask"))
        decode_active(d);
    else
        decode_alu(d);
}

static u32 name_number(ptx_module *m, const char *name)
{
    for (u32 i = 0; i < m->n_names; i++)
        if (strcmp(m->names[i], name) == 0)
            return i;
    strcpy(*GROW(m->names, m->n_names), name);
    return m->n_names - 1;
}

void decode_statement(scanner *s, registers *r, const statement *st)
{
    ptx_op op = {.line = st->line, .location = r->location, .guard = NO_REGISTER, .guard_not = st->guard_not};
    decoder d = {.s = s, .r = r, .st = st};
    ptx_kernel *k = r->kernel;
    op.name = name_number(k->module, st->mnemonic);
    *GROW(k->ops, k->n_ops) = op;
    d.op = &op;
    split(&d);
    if (st->guard[0]) {
        u32 bytes = 1;
        op.guard = (s32)need_register(&d, st->guard, &bytes);
        if (bytes != 0)
            unknown(&d, "a guard that is no predicate");
    }
    decode_any(&d);
    if (!s->failed && op.code == OP_RET && st->n_operands)
        unknown(&d, "a value that is returned");
    k->ops[k->n_ops - 1] = op;
}
