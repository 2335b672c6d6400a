/* The interpreter of PTX by itself: what instructions give, how warps part and meet, and what it refuses. */
#include <stdio.h>
#include <stdlib.h>

#include "gpu/ptx/ptx.h"
#include "testing.h"

enum { THREADS = 64 };

/* A kernel in whose body %r1 is the thread, %rd1 a buffer of a word for each thread, and whose result is %r9. */
static const char *const head =
    ".version 7.0\n.target sm_75\n.address_size 64\n"
    ".visible .entry k(\n.param .u64 k_param_0\n)\n{\n"
    ".reg .pred %p<9>;\n.reg .b16 %rs<9>;\n.reg .b32 %r<20>;\n.reg .f32 %f<9>;\n.reg .b64 %rd<20>;\n"
    ".shared .align 8 .b8 room[512];\n"
    "ld.param.u64 %rd1, [k_param_0];\nmov.u32 %r1, %tid.x;\nmul.wide.u32 %rd2, %r1, 4;\n"
    "add.s64 %rd3, %rd1, %rd2;\nmov.u32 %r9, 0;\nmov.u32 %r8, room;\nshl.b32 %r7, %r1, 2;\n"
    "add.s32 %r8, %r8, %r7;\n";
static const char *const tail = "st.global.u32 [%rd3], %r9;\nret;\n}\n";

/* Runs a body; "" or why not. */
static const char *run(const char *body, enum ptx_order order, uint32_t words[THREADS])
{
    static char why[PTX_WHY_BYTES];
    static ptx_machine m;
    char text[4096];
    snprintf(text, sizeof text, "%s%s%s", head, body, tail);
    ptx_module *module = ptx_module_make(text, why);
    if (!module)
        return why;
    memset(&m, 0, sizeof m);
    m.order = order;
    m.seed = 7;
    m.watch = true;
    assert_true(ptx_machine_add(&m, words, THREADS * sizeof *words));
    void *argument = &words;
    ptx_launch(&m, ptx_kernel_at(module, 0), 1, THREADS, &argument);
    memcpy(why, m.why, sizeof why);
    ptx_module_free(module);
    return why;
}

/* ---- values ---- */

typedef struct sum {
    const char *body;
    uint32_t thread, expected;
} sum;

static const sum sums[] = {
    {"mov.u32 %r2, 0x12345678; bfe.u32 %r9, %r2, 8, 12;", 0, 0x456},
    {"mov.u32 %r2, 0x0000f000; bfe.s32 %r9, %r2, 12, 4;", 0, 0xffffffff},
    {"mov.u32 %r2, 0xab; mov.u32 %r3, 0; bfi.b32 %r9, %r2, %r3, 4, 8;", 0, 0xab0},
    {"mov.u32 %r2, 0x33221100; mov.u32 %r3, 0x77665544; prmt.b32 %r9, %r2, %r3, 0x7530;", 0, 0x77553300},
    {"mov.u32 %r2, 0xf0; mov.u32 %r3, 0xcc; mov.u32 %r4, 0xaa; lop3.b32 %r9, %r2, %r3, %r4, 0x96;", 0, 0xf0 ^ 0xcc ^ 0xaa},
    {"mov.u32 %r2, 1; mov.u32 %r3, 0x80000000; shf.l.wrap.b32 %r9, %r3, %r2, 33;", 0, 3},
    {"mov.u32 %r2, 5; shl.b32 %r9, %r2, 32;", 0, 0},
    {"mov.u32 %r2, -5; shr.s32 %r9, %r2, 40;", 0, 0xffffffff},
    {"mov.u32 %r2, 0; clz.b32 %r9, %r2;", 0, 32},
    {"mov.u32 %r2, 0x10; bfind.u32 %r9, %r2;", 0, 4},
    {"mov.u32 %r2, 7; brev.b32 %r9, %r2;", 0, 0xe0000000},
    {"mov.u32 %r2, 0xfffe0003; mov.u32 %r3, 0x0505; mov.u32 %r4, 100; dp2a.lo.s32.u32 %r9, %r2, %r3, %r4;", 0, 105},
    {"mov.u32 %r2, 0x80000000; mov.u32 %r3, 6; mul.hi.u32 %r9, %r2, %r3;", 0, 3},
    {"mov.u32 %r2, -7; div.s32 %r9, %r2, 2;", 0, (uint32_t)-3},
    {"mov.f32 %f1, 0f7FC00000; cvt.rzi.s32.f32 %r9, %f1;", 0, 0},
    {"mov.f32 %f1, 0f60000000; cvt.rzi.s32.f32 %r9, %f1;", 0, 0x7fffffff},
    {"mov.f32 %f1, 0f40200000; cvt.rni.s32.f32 %r9, %f1;", 0, 2}, /* 2.5 */
    {"mov.f32 %f1, 0f7FC00000; mov.f32 %f2, 0f3F800000; min.f32 %f3, %f1, %f2; mov.b32 %r9, %f3;", 0, 0x3f800000},
    {"mov.f32 %f1, 0f00000000; mov.f32 %f2, 0f80000000; min.f32 %f3, %f1, %f2; mov.b32 %r9, %f3;", 0, 0x80000000},
    {"mov.f32 %f1, 0f3F800001; mov.f32 %f2, 0fBF800002; fma.rn.f32 %f3, %f1, %f1, %f2; mov.b32 %r9, %f3;", 0, 0x28800000},
    {"mov.f32 %f1, 0f3F800001; mov.f32 %f2, 0fBF800002; mul.rn.f32 %f3, %f1, %f1; add.rn.f32 %f3, %f3, %f2; mov.b32 %r9, %f3;",
     0, 0},
    {"mov.f32 %f1, 0f00000001; mov.f32 %f2, 0f3F000000; mul.rn.f32 %f3, %f1, %f1; add.rn.f32 %f3, %f1, %f1; mov.b32 %r9, %f3;",
     0, 2}, /* subnormal numbers count */
    {"mov.b32 %r2, 0x12345678; mov.b32 {%rs1, %rs2}, %r2; mov.b32 %r9, {%rs2, %rs1};", 0, 0x56781234},
    {"setp.lt.u32 %p1, %r1, 5; vote.sync.ballot.b32 %r9, %p1, -1;", 9, 31},
    {"setp.lt.u32 %p1, %r1, 5; setp.gt.and.u32 %p2, %r1, 2, %p1; selp.b32 %r9, 1, 0, %p2;", 4, 1},
    {"and.b32 %r2, %r1, 3; match.any.sync.b32 %r9, %r2, -1;", 5, 0x22222222},
    {"shfl.sync.up.b32 %r9|%p1, %r1, 3, 0, -1;", 2, 2},
    {"shfl.sync.up.b32 %r9|%p1, %r1, 3, 0, -1;", 40, 37},
    {"shfl.sync.bfly.b32 %r9, %r1, 1, 31, -1;", 6, 7},
    {"shfl.sync.idx.b32 %r9, %r1, 9, 31, -1;", 40, 41},
    {"shfl.sync.down.b32 %r9, %r1, 4, 31, -1;", 30, 30},
    /* lanes part and meet: all of a warp vote afterwards */
    {"and.b32 %r2, %r1, 1; setp.eq.s32 %p1, %r2, 0; @%p1 bra $A; mov.u32 %r9, 10; bra.uni $B;\n$A:\nmov.u32 %r9, 20;\n$B:\n"
     "vote.sync.ballot.b32 %r3, %p1, -1; add.s32 %r9, %r9, %r3;",
     3, 0x55555555 + 10},
    /* a loop whose lanes end at different times */
    {"mov.u32 %r2, 0;\n$L:\nsetp.ge.u32 %p1, %r2, %r1; @%p1 bra $E; add.s32 %r9, %r9, 2; add.s32 %r2, %r2, 1; bra.uni "
     "$L;\n$E:\n"
     "shfl.sync.idx.b32 %r9, %r9, 31, 31, -1;",
     33, 126},
    /* a table of branches */
    {"and.b32 %r2, %r1, 3;\n$T: .branchtargets $X0, $X1, $X0, $X2;\nbrx.idx %r2, $T;\n$X0:\nmov.u32 %r9, 100; bra.uni $M;\n"
     "$X1:\nmov.u32 %r9, 101; bra.uni $M;\n$X2:\nmov.u32 %r9, 102;\n$M:\nvote.sync.any.pred %p1, %p1, -1;",
     7, 102},
    /* shared memory over a barrier, and an atomic that all threads meet at */
    {"st.shared.u32 [%r8], %r1; bar.sync 0; mov.u32 %r5, 63; sub.s32 %r5, %r5, %r1; shl.b32 %r5, %r5, 2; mov.u32 %r6, room; "
     "add.s32 %r6, %r6, %r5; ld.shared.u32 %r9, [%r6];",
     10, 53},
    {"setp.ne.s32 %p1, %r1, 0; @%p1 bra $S; st.shared.u32 [room], 0;\n$S:\nbar.sync 0; atom.shared.add.u32 %r2, [room], 1; "
     "bar.sync "
     "0; ld.shared.u32 %r9, [room];",
     10, 64},
};

static void test_values(void **state)
{
    for (size_t i = 0; i < COUNT_OF(sums); i++)
        for (int order = 0; order < N_PTX_ORDERS; order++) {
            uint32_t words[THREADS];
            const char *why = run(sums[i].body, (enum ptx_order)order, words);
            if (why[0] || words[sums[i].thread] != sums[i].expected)
                fail_because("%s: %#x, not %#x. %s", sums[i].body, words[sums[i].thread], sums[i].expected, why);
        }
}

/* ---- refusals ---- */

static const struct {
    const char *body, *why;
} refused[] = {
    {"sin.approx.f32 %f1, %f2;", "line 22 of the PTX: sin.approx.f32: unknown instruction"},
    {"mul.f32 %f1, %f2, %f3;", "mul.f32: unknown instruction"}, /* it may be fused */
    {"add.s32 %r2, %r3;", "another number of operands"},
    {"add.s32 %r2, %r3, %rd1;", "another width"},
    {"mov.u32 %r2, %r99;", "neither register nor number nor variable"},
    {"bra $nowhere;", "no label $nowhere"},
    {"ld.global.u32 %r9, [%rd3+4];", "outside its memory"}, /* of thread 63 */
    {"ld.global.u32 %r9, [%rd1+-4];", "outside its memory"},
    {"ld.global.u32 %r9, [%rd1+2];", "no multiple"},
    {"ld.shared.u32 %r9, [%r8+260];", "outside its memory"},
    {"ld.param.u32 %r9, [k_param_0+8];", "outside its memory"},
    {"st.shared.u32 [room], %r1;", "which another has written since the last barrier"},
    {"ld.shared.u32 %r9, [room+8]; st.shared.u32 [%r8], %r1;", "since the last barrier"},
    {"atom.shared.add.u32 %r2, [room], 1; ld.shared.u32 %r9, [room];", "since the last barrier"},
    {"setp.lt.u32 %p1, %r1, 16; @%p1 bra $A; bar.sync 0;\n$A:\nmov.u32 %r9, 1;", "are at a barrier"},
    {"setp.lt.u32 %p1, %r1, 32; @%p1 bra $A; bar.sync 0;\n$A:\nmov.u32 %r9, 1;", "part at a barrier"},
    {"setp.lt.u32 %p1, %r1, 16; @%p1 bra $A; shfl.sync.idx.b32 %r9, %r1, 0, 31, -1;\n$A:\nmov.u32 %r8, 1;",
     "are to exchange values"},
    {"trap;", "trap"},
};

static void test_refused(void **state)
{
    for (size_t i = 0; i < COUNT_OF(refused); i++) {
        uint32_t words[THREADS];
        const char *why = run(refused[i].body, PTX_FORWARD, words);
        if (!strstr(why, refused[i].why))
            fail_because("%s: \"%s\", not \"%s\"", refused[i].body, why, refused[i].why);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_values), cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
