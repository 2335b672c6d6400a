/*
 * An interpreter of PTX, for the subset that nvcc makes of our kernels: decoded once into arrays of operations, run warp by
 * warp of 32 lanes that go together and part at branches until the branch's immediate post-dominator.
 *
 * It is strict: an instruction that it does not know is an error with its line, and so are an access outside the buffers of the
 * machine or at an address that is not a multiple of its size, a barrier or an exchange within a warp that not all threads
 * reach, and, where the machine watches, shared memory that two threads access between the same barriers, one of them
 * writing. Arithmetic is that of PTX: products and sums are rounded one after the other, fused only in `fma`.
 *
 * A machine runs one launch at a time; several machines may run at once.
 */
#ifndef COMET_TESTS_PTX_H
#define COMET_TESTS_PTX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PTX_WARP = 32, PTX_MAX_THREADS = 1024, PTX_MAX_BUFFERS = 1024, PTX_WHY_BYTES = 256 };

typedef struct ptx_module ptx_module;
typedef struct ptx_kernel ptx_kernel;

/* NULL with a sentence that has the line. `text` ends with 0. */
ptx_module *ptx_module_make(const char *text, char why[PTX_WHY_BYTES]);
void ptx_module_free(ptx_module *module);

/* NULL if there is none of this name, or of this number. */
const ptx_kernel *ptx_kernel_find(const ptx_module *module, const char *name);
const ptx_kernel *ptx_kernel_at(const ptx_module *module, size_t index);
const char *ptx_kernel_name(const ptx_kernel *kernel);
uint32_t ptx_kernel_shared_bytes(const ptx_kernel *kernel);

/* Which warp goes first, and which side of a branch. */
enum ptx_order { PTX_FORWARD, PTX_BACKWARD, PTX_SHUFFLED, N_PTX_ORDERS };

/* What was executed, by operation of a kernel: an array with ptx_kernel_ops of them, given by the caller. */
typedef struct ptx_count {
    uint64_t issued;  /* by warps */
    uint64_t lanes;   /* threads that took part */
    uint64_t sectors; /* of 32 bytes, of global memory: different ones in a warp */
    uint64_t turns;   /* of shared memory: the most words of one bank that a warp asks for */
} ptx_count;

size_t ptx_kernel_ops(const ptx_kernel *kernel);

/* An operation, for reports. */
typedef struct ptx_op_info {
    const char *mnemonic;
    int line;     /* in the PTX */
    int location; /* number of the .loc before it; 0 where there is none */
} ptx_op_info;

ptx_op_info ptx_kernel_op(const ptx_kernel *kernel, size_t index);

/* A `.loc` of the text, resolved to the function that nothing was inlined into: file and line. */
typedef struct ptx_location {
    int file, line;
} ptx_location;

ptx_location ptx_module_location(const ptx_module *module, int location);

typedef struct ptx_buffer {
    uint64_t address; /* of host memory, which is what kernels see */
    size_t bytes;
} ptx_buffer;

/* Which sectors of global memory a launch has touched, each counted once however often. */
typedef struct ptx_sectors {
    uint64_t *seen; /* a table of marks, 2^bits of them, 0 where free */
    unsigned bits;
    uint64_t n_read, n_written;
} ptx_sectors;

typedef struct ptx_machine {
    enum ptx_order order;
    uint64_t seed;        /* of PTX_SHUFFLED, and of what fresh registers and shared memory hold */
    bool watch;           /* for conflicts in shared memory */
    ptx_count *counts;    /* NULL: nothing is counted */
    ptx_sectors *sectors; /* the same */
    size_t n_buffers;
    ptx_buffer buffers[PTX_MAX_BUFFERS];
    char why[PTX_WHY_BYTES]; /* the first thing that went wrong; "" if nothing did */
} ptx_machine;

/* False where there is no room for another buffer. */
bool ptx_machine_add(ptx_machine *m, const void *p, size_t bytes);
void ptx_machine_remove(ptx_machine *m, const void *p);

/* Runs the groups of a launch one after the other. arguments[i] points at parameter i. False, with m->why, where something is
 * wrong: the launch ends there. */
bool ptx_launch(ptx_machine *m, const ptx_kernel *kernel, uint32_t n_groups, uint32_t n_threads, void *const *arguments);

#endif
