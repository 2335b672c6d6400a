/* What the parts of the interpreter share; see ptx.h. */
#ifndef COMET_TESTS_PTX_INSIDE_H
#define COMET_TESTS_PTX_INSIDE_H

#include "gpu/ptx/ptx.h"

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int8_t s8;
typedef int16_t s16;
typedef int32_t s32;
typedef int64_t s64;
typedef float f32;
typedef double f64;

enum { NAME_BYTES = 96, MAX_OPERANDS = 6, MAX_VECTOR = 4, NO_REGISTER = -1 };

/* Generic addresses of memory that is no host memory. */
#define SHARED_WINDOW ((u64)0xfff1 << 48)
#define LOCAL_WINDOW ((u64)0xfff2 << 48)

enum ptx_space { SPACE_GENERIC, SPACE_GLOBAL, SPACE_SHARED, SPACE_LOCAL, SPACE_PARAM };

/*
 * Registers of a warp lie in one file, a row of 32 lanes for each, and operands are bytes from its start. Constants and special
 * registers are rows, too. A predicate is one word with a bit for each lane.
 */
typedef struct ptx_op {
    u16 code;
    u8 space, bytes, n_vector; /* of accesses to memory: space, bytes of an element, elements */
    u8 stride;                 /* of a loaded or stored register's lanes: its bytes */
    u8 sign;                   /* loads are extended with it */
    u8 combine;                /* of comparisons with a predicate, enum combine */
    u8 guard_not, wide;        /* `wide`: the address has 64 bits */
    u8 mode;                   /* of exchanges, atomics and conversions */
    u8 from, to;               /* of conversions: enum number_type */
    s32 guard;                 /* predicate, or NO_REGISTER */
    u32 d, a, b, c, e;
    u32 p; /* a second result: a predicate; NO_REGISTER where there is none */
    u32 v[MAX_VECTOR];
    s64 offset;         /* of addresses */
    u32 target, meets;  /* of branches: operations; where both sides meet, or the number of operations */
    u32 table, n_table; /* of branches by a table: entries of the kernel's targets */
    u32 name;           /* of the mnemonic, in the module's names */
    s32 line, location;
} ptx_op;

enum combine { COMBINE_NONE, COMBINE_AND, COMBINE_OR, COMBINE_XOR };

/* A parameter, or a variable of shared, local or global memory. */
typedef struct ptx_symbol {
    char name[NAME_BYTES];
    enum ptx_space space;
    u64 address; /* within its space */
    u32 bytes;
} ptx_symbol;

typedef struct ptx_constant {
    u64 bits;
    u32 bytes, row;
} ptx_constant;

typedef struct ptx_kernel {
    ptx_module *module;
    char name[NAME_BYTES];
    ptx_op *ops;
    u32 n_ops, room_ops;
    u32 *targets; /* of tables of branches */
    u32 n_targets;
    u32 n_params, param_bytes, shared_bytes, local_bytes, file_bytes, max_threads;
    u32 param_at[32], param_size[32];
    ptx_symbol *symbols;
    u32 n_symbols;
    ptx_constant *constants;
    u32 n_constants;
    u32 special; /* rows of special registers, enum special_register */
} ptx_kernel;

enum special_register { TID_X, CTAID_X, NTID_X, NCTAID_X, LANE, WARP_NUMBER, ZERO_ROW, N_SPECIAL };

struct ptx_module {
    ptx_kernel **kernels;
    u32 n_kernels;
    ptx_symbol *symbols; /* of global memory */
    u32 n_symbols;
    void **memory; /* that these lie in */
    char (*names)[NAME_BYTES];
    u32 n_names;
    struct ptx_loc {
        int at[3], from[3]; /* file, line, column; of the call that was inlined, or 0 */
    } * locations;
    u32 n_locations;
    u32 shared_bytes; /* of variables outside kernels */
};

/* ---- scan.c: words ---- */

enum token_kind { TOKEN_END, TOKEN_NAME, TOKEN_NUMBER, TOKEN_SIGN, TOKEN_TEXT };

typedef struct scanner {
    const char *at;
    int line;
    enum token_kind kind;
    char text[256];
    u64 value; /* of a number: its bits */
    char *why; /* PTX_WHY_BYTES */
    bool failed;
} scanner;

void scan_next(scanner *s);
bool scan_is(const scanner *s, const char *text);
bool scan_take(scanner *s, const char *text); /* goes on if it is there */
void scan_need(scanner *s, const char *text); /* fails if it is not */
void scan_fail(scanner *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
u64 scan_number(scanner *s);

/* An instruction as it is written. */
enum operand_kind { OPERAND_NAME, OPERAND_NUMBER, OPERAND_ADDRESS, OPERAND_VECTOR };

typedef struct operand {
    enum operand_kind kind;
    bool negated;                              /* !%p */
    bool has_name;                             /* of an address */
    char name[NAME_BYTES], second[NAME_BYTES]; /* second: after | */
    u64 value;                                 /* number, or offset */
    u32 n_vector;
    char vector[MAX_VECTOR][NAME_BYTES];
} operand;

typedef struct statement {
    char guard[NAME_BYTES];
    bool guard_not;
    char mnemonic[NAME_BYTES];
    operand operands[MAX_OPERANDS];
    u32 n_operands;
    int line;
} statement;

/* Reads an instruction up to its semicolon; the scanner is at its first word or at @. */
void scan_statement(scanner *s, statement *out);

/* ---- registers.c: names to rows ---- */

typedef struct family {
    char prefix[NAME_BYTES];
    u32 count, bytes, row; /* count 0: one register of this name; bytes 0: predicates */
} family;

/* A name of a place in the code: a label, or a branch to it. */
typedef struct place_name {
    char name[NAME_BYTES];
    u32 op;
    s32 line;
} place_name;

/* What only the reading of a kernel needs. */
typedef struct registers {
    ptx_kernel *kernel;
    family *families;
    u32 n_families;
    place_name *labels, *jumps, *entries, *tables; /* entries: of tables, whose `op` is the first of them */
    u32 n_labels, n_jumps, n_entries, n_tables;
    s32 location;
} registers;

/* A row for each of the names; bytes 0 for predicates. */
void registers_declare(registers *r, const char *name, u32 count, u32 bytes);
bool registers_find(const registers *r, const char *name, u32 *row, u32 *bytes);
u32 registers_constant(registers *r, u64 bits, u32 bytes);
const ptx_symbol *symbol_find(const ptx_kernel *k, const char *name);
/* Grows an array by one element, zeroed, and returns it. */
void *grow(void *array, u32 *n, size_t element_bytes);
#define GROW(array, n) ((array) = grow((array), &(n), sizeof *(array)), &(array)[(n)-1])

/* ---- decode.c ---- */

/* Appends the operation of a statement; labels of branches are resolved later, by parse.c. */
void decode_statement(scanner *s, registers *r, const statement *st);

/* ---- flow.c ---- */

/* Fills `meets` of all branches. */
void flow_find_meetings(ptx_kernel *k);

/* ---- run.c, memory.c ---- */

enum warp_state { WARP_RUNS, WARP_AT_BARRIER, WARP_DONE };

typedef struct side {
    u32 pc, meets, mask;
} side;

enum { MAX_SIDES = 128 };

typedef struct warp {
    u8 *file;
    u32 index, live;
    side sides[MAX_SIDES];
    u32 depth;
    enum warp_state state;
    u32 barrier; /* the operation where it waits */
    u32 epoch;   /* barriers of the warp alone */
} warp;

/* Who accessed a byte of shared memory last. */
typedef struct shadow {
    u32 write_epoch, read_epoch;
    u32 write_warp_epoch, read_warp_epoch;
    u16 writer, reader;
} shadow;

typedef struct group {
    ptx_machine *machine;
    const ptx_kernel *kernel;
    u8 *params, *shared, *local;
    shadow *shadows;
    u32 epoch, number, n_threads, n_warps;
    u32 last_buffer;
    u64 random;
    warp warps[PTX_MAX_THREADS / PTX_WARP];
    bool failed;
} group;

void group_fail(group *g, const warp *w, const ptx_op *op, const char *format, ...) __attribute__((format(printf, 4, 5)));

void memory_load(group *g, warp *w, const ptx_op *op, u32 mask, ptx_count *count);
void memory_store(group *g, warp *w, const ptx_op *op, u32 mask, ptx_count *count);
void memory_atomic(group *g, warp *w, const ptx_op *op, u32 mask, ptx_count *count);

/* Runs a warp until it waits, is done, fails, or has executed `quota` operations. */
void warp_run(group *g, warp *w, u64 quota);

#endif
