/* Names of registers and constants to rows of a warp's file; see inside.h. */
#include <stdlib.h>
#include <string.h>

#include "gpu/ptx/inside.h"

enum { ROW_ALIGNMENT = 64 };

void *grow(void *array, u32 *n, size_t element_bytes)
{
    u32 room = 16;
    while (room < *n)
        room *= 2;
    if (!array || *n == room)
        array = realloc(array, element_bytes * (array ? 2 * room : room));
    if (!array)
        abort(); /* out of memory in a test */
    memset((u8 *)array + element_bytes * *n, 0, element_bytes);
    ++*n;
    return array;
}

static u32 take_rows(ptx_kernel *k, u32 bytes)
{
    const u32 at = k->file_bytes;
    k->file_bytes += (bytes + ROW_ALIGNMENT - 1) / ROW_ALIGNMENT * ROW_ALIGNMENT;
    return at;
}

/* Predicates are words of 4 bytes. */
static u32 row_bytes(u32 bytes)
{
    return bytes ? bytes * PTX_WARP : 4;
}

void registers_declare(registers *r, const char *name, u32 count, u32 bytes)
{
    const u32 row = take_rows(r->kernel, row_bytes(bytes) * (count ? count : 1));
    family *f = GROW(r->families, r->n_families);
    strncpy(f->prefix, name, NAME_BYTES - 1);
    f->count = count;
    f->bytes = bytes;
    f->row = row;
}

static bool find_special(const registers *r, const char *name, u32 *row)
{
    static const struct {
        const char *name;
        enum special_register which;
    } known[] = {{"%tid.x", TID_X},      {"%ctaid.x", CTAID_X},    {"%ntid.x", NTID_X},  {"%nctaid.x", NCTAID_X},
                 {"%laneid", LANE},      {"%warpid", WARP_NUMBER}, {"%tid.y", ZERO_ROW}, {"%tid.z", ZERO_ROW},
                 {"%ctaid.y", ZERO_ROW}, {"%ctaid.z", ZERO_ROW}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].name, name) == 0) {
            *row = r->kernel->special + (u32)known[i].which * row_bytes(4);
            return true;
        }
    return false;
}

bool registers_find(const registers *r, const char *name, u32 *row, u32 *bytes)
{
    size_t stem = strlen(name);
    while (stem > 0 && name[stem - 1] >= '0' && name[stem - 1] <= '9')
        stem--;
    for (u32 i = r->n_families; i-- > 0;) {
        const family *f = &r->families[i];
        const u32 number = f->count ? (u32)strtoul(name + stem, NULL, 10) : 0;
        const bool same =
            f->count ? name[stem] && strlen(f->prefix) == stem && memcmp(f->prefix, name, stem) == 0 && number < f->count
                     : strcmp(f->prefix, name) == 0;
        if (same) {
            *row = f->row + number * row_bytes(f->bytes);
            *bytes = f->bytes;
            return true;
        }
    }
    *bytes = 4;
    return find_special(r, name, row);
}

u32 registers_constant(registers *r, u64 bits, u32 bytes)
{
    ptx_kernel *k = r->kernel;
    if (bytes < 8)
        bits &= ((u64)1 << 8 * bytes) - 1;
    for (u32 i = 0; i < k->n_constants; i++)
        if (k->constants[i].bits == bits && k->constants[i].bytes == bytes)
            return k->constants[i].row;
    ptx_constant *c = GROW(k->constants, k->n_constants);
    *c = (ptx_constant){bits, bytes, take_rows(k, row_bytes(bytes))};
    return c->row;
}

const ptx_symbol *symbol_find(const ptx_kernel *k, const char *name)
{
    for (u32 i = 0; i < k->n_symbols; i++)
        if (strcmp(k->symbols[i].name, name) == 0)
            return &k->symbols[i];
    for (u32 i = 0; i < k->module->n_symbols; i++)
        if (strcmp(k->module->symbols[i].name, name) == 0)
            return &k->module->symbols[i];
    return NULL;
}
