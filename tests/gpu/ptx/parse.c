/* Modules and kernels: declarations, labels, statements. See ptx.h and inside.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/ptx/alu.h"
#include "gpu/ptx/inside.h"

static u32 bytes_of_type(scanner *s, const char *type)
{
    static const struct {
        const char *name;
        u32 bytes;
    } types[] = {{".b8", 1},  {".u8", 1},  {".s8", 1},  {".b16", 2}, {".u16", 2}, {".s16", 2}, {".b32", 4}, {".u32", 4},
                 {".s32", 4}, {".f32", 4}, {".b64", 8}, {".u64", 8}, {".s64", 8}, {".f64", 8}, {".pred", 0}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i].name, type) == 0)
            return types[i].bytes;
    scan_fail(s, "%s is no type", type);
    return 0;
}

/* ---- variables ---- */

typedef struct variable {
    char name[NAME_BYTES];
    u32 element_bytes, n, alignment;
} variable;

/* `.align 8 .b8 name[288]`; the word before (.param, .shared ...) is taken. */
static variable scan_variable(scanner *s)
{
    variable v = {.n = 1};
    while (s->kind == TOKEN_NAME && s->text[0] == '.') {
        char word[NAME_BYTES];
        snprintf(word, sizeof word, "%.90s", s->text);
        scan_next(s);
        if (strcmp(word, ".align") == 0)
            v.alignment = (u32)scan_number(s);
        else if (strcmp(word, ".ptr") == 0)
            continue;
        else if (strcmp(word, ".global") != 0 && strcmp(word, ".const") != 0)
            v.element_bytes = bytes_of_type(s, word);
    }
    if (v.alignment < v.element_bytes)
        v.alignment = v.element_bytes;
    snprintf(v.name, sizeof v.name, "%.90s", s->text);
    scan_next(s);
    if (scan_take(s, "[")) {
        v.n = (u32)scan_number(s);
        scan_need(s, "]");
    }
    return v;
}

static u32 place(u32 *used, const variable *v)
{
    const u32 unit = v->alignment ? v->alignment : 1, at = (*used + unit - 1) / unit * unit;
    *used = at + v->element_bytes * v->n;
    return at;
}

static void add_symbol(ptx_symbol **symbols, u32 *n, const variable *v, enum ptx_space space, u64 address)
{
    ptx_symbol *made = GROW(*symbols, *n);
    memcpy(made->name, v->name, NAME_BYTES);
    made->space = space;
    made->address = address;
    made->bytes = v->element_bytes * v->n;
}

/* Values between { and }, or one. */
static void scan_values(scanner *s, const variable *v, u8 *to)
{
    const bool many = scan_take(s, "{");
    for (u32 i = 0; i < v->n && !s->failed; i++) {
        const u64 value = scan_number(s);
        memcpy(to + (size_t)i * v->element_bytes, &value, v->element_bytes);
        if (!many || !scan_take(s, ","))
            break;
    }
    if (many)
        scan_need(s, "}");
}

/* A table in global or constant memory. */
static void scan_global(scanner *s, ptx_module *m)
{
    const variable v = scan_variable(s);
    void *memory = aligned_alloc(256, ((size_t)v.element_bytes * v.n + 255) / 256 * 256);
    if (!memory)
        abort();
    memset(memory, 0, (size_t)v.element_bytes * v.n);
    m->memory = realloc(m->memory, (m->n_symbols + 1) * sizeof *m->memory);
    m->memory[m->n_symbols] = memory;
    if (scan_take(s, "="))
        scan_values(s, &v, memory);
    add_symbol(&m->symbols, &m->n_symbols, &v, SPACE_GLOBAL, (u64)(uintptr_t)memory);
    scan_need(s, ";");
}

/* ---- kernels ---- */

static void scan_params(scanner *s, ptx_kernel *k)
{
    scan_need(s, "(");
    while (!s->failed && !scan_take(s, ")")) {
        scan_need(s, ".param");
        const variable v = scan_variable(s);
        if (k->n_params == 32) {
            scan_fail(s, "more than 32 parameters");
            return;
        }
        k->param_at[k->n_params] = place(&k->param_bytes, &v);
        k->param_size[k->n_params] = v.element_bytes * v.n;
        add_symbol(&k->symbols, &k->n_symbols, &v, SPACE_PARAM, k->param_at[k->n_params]);
        k->n_params++;
        scan_take(s, ",");
    }
}

/* .maxntid 256, 1, 1 and the like. */
static void scan_limits(scanner *s, ptx_kernel *k)
{
    while (s->kind == TOKEN_NAME && s->text[0] == '.') {
        const bool threads = scan_is(s, ".maxntid") || scan_is(s, ".reqntid");
        scan_next(s);
        const u32 first = (u32)scan_number(s);
        if (threads)
            k->max_threads = first;
        while (scan_take(s, ","))
            scan_number(s);
    }
}

static void scan_registers(scanner *s, registers *r)
{
    const u32 bytes = bytes_of_type(s, s->text);
    do {
        char name[NAME_BYTES];
        u32 count = 0;
        scan_next(s);
        snprintf(name, sizeof name, "%.90s", s->text);
        scan_next(s);
        if (scan_take(s, "<")) {
            count = (u32)scan_number(s);
            scan_need(s, ">");
        }
        registers_declare(r, name, count, bytes);
    } while (scan_is(s, ","));
    scan_need(s, ";");
}

/* .loc file line column, function_name label, inlined_at file line column: without a semicolon. */
static void scan_location(scanner *s, registers *r)
{
    struct ptx_loc loc = {{0, 0, 0}, {0, 0, 0}};
    for (int i = 0; i < 3; i++)
        loc.at[i] = (int)scan_number(s);
    if (scan_take(s, ",")) {
        scan_need(s, "function_name");
        scan_next(s);
        if (scan_take(s, "+"))
            scan_number(s);
        scan_need(s, ",");
        scan_need(s, "inlined_at");
        for (int i = 0; i < 3; i++)
            loc.from[i] = (int)scan_number(s);
    }
    ptx_module *m = r->kernel->module;
    *GROW(m->locations, m->n_locations) = loc;
    r->location = (s32)m->n_locations;
}

static void scan_table(scanner *s, registers *r, const char *name)
{
    place_name *table = GROW(r->tables, r->n_tables);
    memcpy(table->name, name, NAME_BYTES);
    table->op = r->n_entries;
    do {
        scan_next(s);
        place_name *entry = GROW(r->entries, r->n_entries);
        snprintf(entry->name, NAME_BYTES, "%.90s", s->text);
        entry->line = s->line;
        scan_next(s);
    } while (scan_is(s, ","));
    scan_need(s, ";");
}

/* A label: takes it and the colon if there is one. */
static bool scan_label(scanner *s, registers *r)
{
    const scanner before = *s;
    char name[NAME_BYTES];
    snprintf(name, sizeof name, "%.90s", s->text);
    scan_next(s);
    if (!scan_take(s, ":")) {
        *s = before;
        return false;
    }
    if (scan_is(s, ".branchtargets")) {
        scan_table(s, r, name);
        return true;
    }
    place_name *label = GROW(r->labels, r->n_labels);
    memcpy(label->name, name, NAME_BYTES);
    label->op = r->kernel->n_ops;
    return true;
}

static void scan_kernel_variable(scanner *s, ptx_kernel *k, enum ptx_space space)
{
    scan_next(s);
    const variable v = scan_variable(s);
    add_symbol(&k->symbols, &k->n_symbols, &v, space, place(space == SPACE_SHARED ? &k->shared_bytes : &k->local_bytes, &v));
    scan_need(s, ";");
}

static void scan_body(scanner *s, registers *r)
{
    statement st;
    int depth = 1;
    while (depth > 0 && !s->failed) {
        if (s->kind == TOKEN_END) {
            scan_fail(s, "a kernel without an end");
        } else if (scan_take(s, "{")) {
            depth++;
        } else if (scan_is(s, "}")) {
            depth--;
            scan_next(s);
        } else if (scan_take(s, ".reg")) {
            scan_registers(s, r);
        } else if (scan_is(s, ".shared") || scan_is(s, ".local")) {
            scan_kernel_variable(s, r->kernel, s->text[1] == 's' ? SPACE_SHARED : SPACE_LOCAL);
        } else if (scan_take(s, ".pragma")) {
            scan_next(s);
            scan_need(s, ";");
        } else if (scan_take(s, ".loc")) {
            scan_location(s, r);
        } else if (s->kind != TOKEN_NAME || !scan_label(s, r)) {
            scan_statement(s, &st);
            if (!s->failed)
                decode_statement(s, r, &st);
        }
    }
}

static u32 find_place(scanner *s, const place_name *places, u32 n, const place_name *wanted)
{
    for (u32 i = 0; i < n; i++)
        if (strcmp(places[i].name, wanted->name) == 0)
            return i;
    s->line = wanted->line;
    scan_fail(s, "no label %s", wanted->name);
    return 0;
}

static void resolve_table(scanner *s, registers *r, const place_name *jump)
{
    ptx_kernel *k = r->kernel;
    const u32 which = find_place(s, r->tables, r->n_tables, jump);
    if (s->failed)
        return;
    const u32 end = which + 1 < r->n_tables ? r->tables[which + 1].op : r->n_entries;
    k->ops[jump->op].table = k->n_targets;
    k->ops[jump->op].n_table = end - r->tables[which].op;
    for (u32 i = r->tables[which].op; i < end && !s->failed; i++) {
        const u32 label = find_place(s, r->labels, r->n_labels, &r->entries[i]);
        *GROW(k->targets, k->n_targets) = s->failed ? 0 : r->labels[label].op;
    }
}

static void resolve_jumps(scanner *s, registers *r)
{
    for (u32 i = 0; i < r->n_jumps && !s->failed; i++) {
        ptx_op *op = &r->kernel->ops[r->jumps[i].op];
        if (op->code == OP_BRANCH_TABLE) {
            resolve_table(s, r, &r->jumps[i]);
        } else {
            const u32 label = find_place(s, r->labels, r->n_labels, &r->jumps[i]);
            op->target = s->failed ? 0 : r->labels[label].op;
        }
    }
}

static void finish_kernel(scanner *s, registers *r)
{
    const statement end = {.mnemonic = "ret", .line = s->line};
    decode_statement(s, r, &end);
    resolve_jumps(s, r);
    if (!s->failed)
        flow_find_meetings(r->kernel);
}

static void scan_kernel(scanner *s, ptx_module *m)
{
    ptx_kernel *k = calloc(1, sizeof *k);
    if (!k)
        abort();
    *GROW(m->kernels, m->n_kernels) = k;
    registers r = {.kernel = k};
    k->module = m;
    k->max_threads = PTX_MAX_THREADS;
    k->shared_bytes = m->shared_bytes;
    snprintf(k->name, NAME_BYTES, "%.90s", s->text);
    scan_next(s);
    k->special = 0;
    k->file_bytes = N_SPECIAL * 4 * PTX_WARP;
    scan_params(s, k);
    scan_limits(s, k);
    scan_need(s, "{");
    scan_body(s, &r);
    if (!s->failed)
        finish_kernel(s, &r);
    free(r.families);
    free(r.labels);
    free(r.jumps);
    free(r.entries);
    free(r.tables);
}

/* ---- modules ---- */

/* .section name { ... }: tables for debuggers. */
static void skip_section(scanner *s)
{
    while (s->kind != TOKEN_END && !scan_is(s, "{"))
        scan_next(s);
    while (s->kind != TOKEN_END && !scan_is(s, "}"))
        scan_next(s);
    scan_need(s, "}");
}

static void skip_file(scanner *s)
{
    scan_number(s);
    scan_next(s);
    while (scan_take(s, ","))
        scan_number(s);
}

static void scan_module(scanner *s, ptx_module *m)
{
    while (!s->failed && s->kind != TOKEN_END) {
        if (scan_take(s, ".version") || scan_take(s, ".target")) {
            scan_next(s);
            if (s->kind == TOKEN_NAME && s->text[0] == '.' && s->text[1] >= '0' && s->text[1] <= '9')
                scan_next(s);
            while (scan_take(s, ","))
                scan_next(s);
        } else if (scan_take(s, ".address_size")) {
            if (scan_number(s) != 64)
                scan_fail(s, "addresses of other than 64 bits");
        } else if (scan_take(s, ".entry")) {
            scan_kernel(s, m);
        } else if (scan_take(s, ".global") || scan_take(s, ".const")) {
            scan_global(s, m);
        } else if (scan_take(s, ".shared")) {
            const variable v = scan_variable(s);
            add_symbol(&m->symbols, &m->n_symbols, &v, SPACE_SHARED, place(&m->shared_bytes, &v));
            m->memory = realloc(m->memory, m->n_symbols * sizeof *m->memory);
            m->memory[m->n_symbols - 1] = NULL;
            scan_need(s, ";");
        } else if (scan_take(s, ".file")) {
            skip_file(s);
        } else if (scan_take(s, ".section")) {
            skip_section(s);
        } else if (!scan_take(s, ".visible") && !scan_take(s, ".extern") && !scan_take(s, ".weak")) {
            scan_fail(s, "\"%.80s\" is not known outside kernels", s->text);
        }
    }
}

ptx_module *ptx_module_make(const char *text, char why[PTX_WHY_BYTES])
{
    scanner s = {.at = text, .line = 1, .why = why};
    ptx_module *m = calloc(1, sizeof *m);
    if (!m)
        abort();
    why[0] = 0;
    scan_next(&s);
    scan_module(&s, m);
    if (!s.failed && m->n_kernels == 0)
        scan_fail(&s, "there is no kernel");
    if (!s.failed)
        return m;
    ptx_module_free(m);
    return NULL;
}

static void free_kernel(ptx_kernel *k)
{
    free(k->ops);
    free(k->targets);
    free(k->symbols);
    free(k->constants);
    free(k);
}

void ptx_module_free(ptx_module *m)
{
    if (!m)
        return;
    for (u32 i = 0; i < m->n_kernels; i++)
        free_kernel(m->kernels[i]);
    for (u32 i = 0; i < m->n_symbols; i++)
        free(m->memory[i]);
    free(m->kernels);
    free(m->symbols);
    free(m->memory);
    free(m->names);
    free(m->locations);
    free(m);
}

const ptx_kernel *ptx_kernel_at(const ptx_module *m, size_t index)
{
    return index < m->n_kernels ? m->kernels[index] : NULL;
}

const ptx_kernel *ptx_kernel_find(const ptx_module *m, const char *name)
{
    for (u32 i = 0; i < m->n_kernels; i++)
        if (strcmp(m->kernels[i]->name, name) == 0)
            return m->kernels[i];
    return NULL;
}

const char *ptx_kernel_name(const ptx_kernel *k)
{
    return k->name;
}

uint32_t ptx_kernel_shared_bytes(const ptx_kernel *k)
{
    return k->shared_bytes;
}

size_t ptx_kernel_ops(const ptx_kernel *k)
{
    return k->n_ops;
}

ptx_op_info ptx_kernel_op(const ptx_kernel *k, size_t index)
{
    const ptx_op *op = &k->ops[index];
    return (ptx_op_info){k->module->names[op->name], op->line, op->location};
}

/* A call that was inlined may lie in a function that was inlined, too. */
ptx_location ptx_module_location(const ptx_module *m, int location)
{
    if (location < 1 || (u32)location > m->n_locations)
        return (ptx_location){0, 0};
    const struct ptx_loc *l = &m->locations[location - 1];
    int at[3] = {l->at[0], l->at[1], l->at[2]};
    for (int depth = 0; depth < 16 && l && l->from[0]; depth++) {
        memcpy(at, l->from, sizeof at);
        l = NULL;
        for (u32 i = 0; i < m->n_locations && !l; i++)
            if (m->locations[i].from[0] && memcmp(m->locations[i].at, at, sizeof at) == 0)
                l = &m->locations[i];
    }
    return (ptx_location){at[0], at[1]};
}
