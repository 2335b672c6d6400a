/*
 * What instructions compute, by lane: X1(name, mnemonic, result, source, value) and so on with up to four sources, a to c and
 * e. Where the sign does not matter, mnemonics have the type b (decode.c writes others so). COMPARE rows give predicates.
 */
#ifndef COMET_TESTS_PTX_ALU_H
#define COMET_TESTS_PTX_ALU_H

#define PTX_INTEGERS(X1, X2, X3, w, U, S)                                                   \
    X2(add##w, "add.b" #w, U, U, U, (U)(a + b))                                             \
    X2(sub##w, "sub.b" #w, U, U, U, (U)(a - b))                                             \
    X2(mul##w, "mul.lo.b" #w, U, U, U, (U)((u64)a * b))                                     \
    X3(mad##w, "mad.lo.b" #w, U, U, U, U, (U)((u64)a * b + c))                              \
    X2(divu##w, "div.u" #w, U, U, U, b ? (U)(a / b) : (U)~0)                                \
    X2(remu##w, "rem.u" #w, U, U, U, b ? (U)(a % b) : a)                                    \
    X2(divs##w, "div.s" #w, S, S, S, b == 0 ? (S)-1 : b == -1 ? (S)(0 - (U)a) : (S)(a / b)) \
    X2(rems##w, "rem.s" #w, S, S, S, b == 0 ? a : b == -1 ? (S)0 : (S)(a % b))              \
    X2(minu##w, "min.u" #w, U, U, U, a < b ? a : b)                                         \
    X2(maxu##w, "max.u" #w, U, U, U, a > b ? a : b)                                         \
    X2(mins##w, "min.s" #w, S, S, S, a < b ? a : b)                                         \
    X2(maxs##w, "max.s" #w, S, S, S, a > b ? a : b)                                         \
    X1(abs##w, "abs.s" #w, U, S, a < 0 ? (U)(0 - (U)a) : (U)a)                              \
    X1(neg##w, "neg.s" #w, U, U, (U)(0 - a))                                                \
    X2(and##w, "and.b" #w, U, U, U, a &b)                                                   \
    X2(or ##w, "or.b" #w, U, U, U, a | b)                                                   \
    X2(xor##w, "xor.b" #w, U, U, U, a ^ b)                                                  \
    X1(not ##w, "not.b" #w, U, U, (U)~a)                                                    \
    X2(shl##w, "shl.b" #w, U, U, u32, b < w ? (U)(a << (b & (w - 1))) : (U)0)               \
    X2(shru##w, "shr.u" #w, U, U, u32, b < w ? (U)(a >> (b & (w - 1))) : (U)0)              \
    X2(shrs##w, "shr.s" #w, S, S, u32, (S)(a >> (b < w ? b : w - 1)))                       \
    X1(mov##w, "mov.b" #w, U, U, a)

#define PTX_CONVERSIONS(X1, from, T)                       \
    X1(cvt16_##from, "cvt.u16." #from, u16, T, (u16)a)     \
    X1(cvt32_##from, "cvt.u32." #from, u32, T, (u32)a)     \
    X1(cvt64_##from, "cvt.u64." #from, u64, T, (u64)a)     \
    X1(cvtf32_##from, "cvt.rn.f32." #from, f32, T, (f32)a) \
    X1(cvtf64_##from, "cvt.rn.f64." #from, f64, T, (f64)a)

/* What lies in a wider register: its low bits. */
#define PTX_LOW_BITS(X1, from, T, W)                                \
    X1(cvt16_##from##_##W, "cvt.u16." #from, u16, W, (u16)(T)a)     \
    X1(cvt32_##from##_##W, "cvt.u32." #from, u32, W, (u32)(T)a)     \
    X1(cvt64_##from##_##W, "cvt.u64." #from, u64, W, (u64)(T)a)     \
    X1(cvtf32_##from##_##W, "cvt.rn.f32." #from, f32, W, (f32)(T)a) \
    X1(cvtf64_##from##_##W, "cvt.rn.f64." #from, f64, W, (f64)(T)a)

#define PTX_FLOATS(X1, X2, X3, F, w, sqrt_, fma_, rint_, floor_, ceil_, trunc_, fabs_) \
    X2(addf##w, "add.rn.f" #w, F, F, F, settle_f##w(a + b))                            \
    X2(subf##w, "sub.rn.f" #w, F, F, F, settle_f##w(a - b))                            \
    X2(mulf##w, "mul.rn.f" #w, F, F, F, settle_f##w(a *b))                             \
    X2(divf##w, "div.rn.f" #w, F, F, F, settle_f##w(a / b))                            \
    X1(sqrtf##w, "sqrt.rn.f" #w, F, F, settle_f##w(sqrt_(a)))                          \
    X3(fmaf##w, "fma.rn.f" #w, F, F, F, F, settle_f##w(fma_(a, b, c)))                 \
    X1(negf##w, "neg.f" #w, F, F, -a)                                                  \
    X1(absf##w, "abs.f" #w, F, F, fabs_(a))                                            \
    X2(minf##w, "min.f" #w, F, F, F, smaller_f##w(a, b))                               \
    X2(maxf##w, "max.f" #w, F, F, F, -smaller_f##w(-a, -b))                            \
    X1(rnif##w, "cvt.rni.f" #w ".f" #w, F, F, rint_(a))                                \
    X1(rmif##w, "cvt.rmi.f" #w ".f" #w, F, F, floor_(a))                               \
    X1(rpif##w, "cvt.rpi.f" #w ".f" #w, F, F, ceil_(a))                                \
    X1(rzif##w, "cvt.rzi.f" #w ".f" #w, F, F, trunc_(a))                               \
    X1(rzi_s32_f##w, "cvt.rzi.u32.s.f" #w, u32, F, (u32)to_s32(trunc_(a)))             \
    X1(rni_s32_f##w, "cvt.rni.u32.s.f" #w, u32, F, (u32)to_s32(rint_(a)))              \
    X1(rmi_s32_f##w, "cvt.rmi.u32.s.f" #w, u32, F, (u32)to_s32(floor_(a)))             \
    X1(rpi_s32_f##w, "cvt.rpi.u32.s.f" #w, u32, F, (u32)to_s32(ceil_(a)))              \
    X1(rzi_u32_f##w, "cvt.rzi.u32.f" #w, u32, F, to_u32(trunc_(a)))                    \
    X1(rni_u32_f##w, "cvt.rni.u32.f" #w, u32, F, to_u32(rint_(a)))                     \
    X1(rzi_s64_f##w, "cvt.rzi.u64.s.f" #w, u64, F, (u64)to_s64(trunc_(a)))             \
    X1(rni_s64_f##w, "cvt.rni.u64.s.f" #w, u64, F, (u64)to_s64(rint_(a)))              \
    X1(rzi_u64_f##w, "cvt.rzi.u64.f" #w, u64, F, to_u64(trunc_(a)))

#define PTX_ALU(X1, X2, X3, X4)                                                                                    \
    PTX_INTEGERS(X1, X2, X3, 16, u16, s16)                                                                         \
    PTX_INTEGERS(X1, X2, X3, 32, u32, s32)                                                                         \
    PTX_INTEGERS(X1, X2, X3, 64, u64, s64)                                                                         \
    X2(hiu16, "mul.hi.u16", u16, u16, u16, (u16)((u32)a * b >> 16))                                                \
    X2(his16, "mul.hi.s16", s16, s16, s16, (s16)((s32)a * b >> 16))                                                \
    X2(hiu32, "mul.hi.u32", u32, u32, u32, (u32)((u64)a * b >> 32))                                                \
    X2(his32, "mul.hi.s32", s32, s32, s32, (s32)((s64)a * b >> 32))                                                \
    X2(hiu64, "mul.hi.u64", u64, u64, u64, high_u64(a, b))                                                         \
    X2(his64, "mul.hi.s64", s64, s64, s64, high_s64(a, b))                                                         \
    X3(madhiu32, "mad.hi.u32", u32, u32, u32, u32, (u32)((u64)a * b >> 32) + c)                                    \
    X2(wideu16, "mul.wide.u16", u32, u16, u16, (u32)a *b)                                                          \
    X2(wides16, "mul.wide.s16", s32, s16, s16, (s32)a *b)                                                          \
    X2(wideu32, "mul.wide.u32", u64, u32, u32, (u64)a *b)                                                          \
    X2(wides32, "mul.wide.s32", s64, s32, s32, (s64)a *b)                                                          \
    X3(madwideu16, "mad.wide.u16", u32, u16, u16, u32, (u32)a *b + c)                                              \
    X3(madwides16, "mad.wide.s16", u32, s16, s16, u32, (u32)((s32)a * b) + c)                                      \
    X3(madwideu32, "mad.wide.u32", u64, u32, u32, u64, (u64)a *b + c)                                              \
    X3(madwides32, "mad.wide.s32", u64, s32, s32, u64, (u64)((s64)a * b) + c)                                      \
    X3(sadu32, "sad.u32", u32, u32, u32, u32, (a > b ? a - b : b - a) + c)                                         \
    X1(popc32, "popc.b32", u32, u32, (u32)__builtin_popcount(a))                                                   \
    X1(popc64, "popc.b64", u32, u64, (u32)__builtin_popcountll(a))                                                 \
    X1(clz32, "clz.b32", u32, u32, a ? (u32)__builtin_clz(a) : 32)                                                 \
    X1(clz64, "clz.b64", u32, u64, a ? (u32)__builtin_clzll(a) : 64)                                               \
    X1(brev32, "brev.b32", u32, u32, reversed(a))                                                                  \
    X1(bfindu32, "bfind.u32", u32, u32, a ? 31u - (u32)__builtin_clz(a) : ~0u)                                     \
    X1(bfinds32, "bfind.s32", u32, u32, highest_s32(a))                                                            \
    X1(bfindu64, "bfind.u64", u32, u64, a ? 63u - (u32)__builtin_clzll(a) : ~0u)                                   \
    X1(bfindat32, "bfind.shiftamt.u32", u32, u32, a ? (u32)__builtin_clz(a) : ~0u)                                 \
    X3(bfeu32, "bfe.u32", u32, u32, u32, u32, (u32)field_u64(a, b, c))                                             \
    X3(bfeu64, "bfe.u64", u64, u64, u32, u32, field_u64(a, b, c))                                                  \
    X3(bfes32, "bfe.s32", s32, s32, u32, u32, (s32)field_s64((s64)a, b, c, 32))                                    \
    X3(bfes64, "bfe.s64", s64, s64, u32, u32, field_s64(a, b, c, 64))                                              \
    X4(bfi32, "bfi.b32", u32, u32, u32, u32, u32, (u32)insert(a, b, c, e, 32))                                     \
    X4(bfi64, "bfi.b64", u64, u64, u64, u32, u32, insert(a, b, c, e, 64))                                          \
    X3(prmt, "prmt.b32", u32, u32, u32, u32, permuted(a, b, c))                                                    \
    X4(lop3, "lop3.b32", u32, u32, u32, u32, u32, looked_up(a, b, c, e))                                           \
    X3(shflw, "shf.l.wrap.b32", u32, u32, u32, u32, (u32)((((u64)b << 32 | a) << (c & 31)) >> 32))                 \
    X3(shfrw, "shf.r.wrap.b32", u32, u32, u32, u32, (u32)(((u64)b << 32 | a) >> (c & 31)))                         \
    X3(shflc, "shf.l.clamp.b32", u32, u32, u32, u32, c > 31 ? a : (u32)((((u64)b << 32 | a) << c) >> 32))          \
    X3(shfrc, "shf.r.clamp.b32", u32, u32, u32, u32, c > 31 ? b : (u32)(((u64)b << 32 | a) >> c))                  \
    X3(dp2alouu, "dp2a.lo.u32.u32", u32, u32, u32, u32, c + (a & 0xffff) * (b & 255) + (a >> 16) * (b >> 8 & 255)) \
    X3(dp2alosu, "dp2a.lo.s32.u32", u32, u32, u32, u32, dot2(a, (s32)(b & 255), (s32)(b >> 8 & 255), c))           \
    X3(dp2aloss, "dp2a.lo.s32.s32", u32, u32, u32, u32, dot2(a, (int8_t)b, (int8_t)(b >> 8), c))                   \
    X3(dp2ahisu, "dp2a.hi.s32.u32", u32, u32, u32, u32, dot2(a, (s32)(b >> 16 & 255), (s32)(b >> 24), c))          \
    X3(dp4auu, "dp4a.u32.u32", u32, u32, u32, u32, dot4(a, b, c))                                                  \
    PTX_CONVERSIONS(X1, u16, u16)                                                                                  \
    PTX_CONVERSIONS(X1, s16, s16)                                                                                  \
    PTX_CONVERSIONS(X1, u32, u32)                                                                                  \
    PTX_CONVERSIONS(X1, s32, s32)                                                                                  \
    PTX_CONVERSIONS(X1, u64, u64)                                                                                  \
    PTX_CONVERSIONS(X1, s64, s64)                                                                                  \
    PTX_LOW_BITS(X1, u8, u8, u16)                                                                                  \
    PTX_LOW_BITS(X1, s8, s8, u16)                                                                                  \
    PTX_LOW_BITS(X1, u8, u8, u32)                                                                                  \
    PTX_LOW_BITS(X1, s8, s8, u32)                                                                                  \
    PTX_LOW_BITS(X1, u8, u8, u64)                                                                                  \
    PTX_LOW_BITS(X1, s8, s8, u64)                                                                                  \
    PTX_LOW_BITS(X1, u16, u16, u32)                                                                                \
    PTX_LOW_BITS(X1, s16, s16, u32)                                                                                \
    PTX_LOW_BITS(X1, u16, u16, u64)                                                                                \
    PTX_LOW_BITS(X1, s16, s16, u64)                                                                                \
    PTX_LOW_BITS(X1, u32, u32, u64)                                                                                \
    PTX_LOW_BITS(X1, s32, s32, u64)                                                                                \
    X1(cvtf64f32, "cvt.f64.f32", f64, f32, (f64)a)                                                                 \
    X1(cvtf32f64, "cvt.rn.f32.f64", f32, f64, settle_f32((f32)a))                                                  \
    PTX_FLOATS(X1, X2, X3, f32, 32, sqrtf, fmaf, rintf, floorf, ceilf, truncf, fabsf)                              \
    PTX_FLOATS(X1, X2, X3, f64, 64, sqrt, fma, rint, floor, ceil, trunc, fabs)

#define PTX_COMPARE_INTEGERS(X, w, U, S) \
    X(eq##w, "eq.b" #w, U, a == b)       \
    X(ne##w, "ne.b" #w, U, a != b)       \
    X(ltu##w, "lt.u" #w, U, a < b)       \
    X(leu##w, "le.u" #w, U, a <= b)      \
    X(gtu##w, "gt.u" #w, U, a > b)       \
    X(geu##w, "ge.u" #w, U, a >= b)      \
    X(lts##w, "lt.s" #w, S, a < b)       \
    X(les##w, "le.s" #w, S, a <= b)      \
    X(gts##w, "gt.s" #w, S, a > b)       \
    X(ges##w, "ge.s" #w, S, a >= b)

#define PTX_COMPARE_FLOATS(X, w, F)              \
    X(eqf##w, "eq.f" #w, F, a == b)              \
    X(nef##w, "ne.f" #w, F, a<b || a> b)         \
    X(ltf##w, "lt.f" #w, F, a < b)               \
    X(lef##w, "le.f" #w, F, a <= b)              \
    X(gtf##w, "gt.f" #w, F, a > b)               \
    X(gef##w, "ge.f" #w, F, a >= b)              \
    X(equf##w, "equ.f" #w, F, !(a < b || a > b)) \
    X(neuf##w, "neu.f" #w, F, a != b)            \
    X(ltuf##w, "ltu.f" #w, F, !(a >= b))         \
    X(leuf##w, "leu.f" #w, F, !(a > b))          \
    X(gtuf##w, "gtu.f" #w, F, !(a <= b))         \
    X(geuf##w, "geu.f" #w, F, !(a < b))          \
    X(numf##w, "num.f" #w, F, a == a && b == b)  \
    X(nanf##w, "nan.f" #w, F, a != a || b != b)

#define PTX_COMPARE(X)                    \
    PTX_COMPARE_INTEGERS(X, 16, u16, s16) \
    PTX_COMPARE_INTEGERS(X, 32, u32, s32) \
    PTX_COMPARE_INTEGERS(X, 64, u64, s64) \
    PTX_COMPARE_FLOATS(X, 32, f32)        \
    PTX_COMPARE_FLOATS(X, 64, f64)

/* ---- codes of operations ---- */

#define ALU_CODE1(name, ...) ALU_##name,
enum ptx_code {
    OP_RET,
    OP_BRANCH,
    OP_BRANCH_TABLE,
    OP_TRAP,
    OP_NOTHING, /* fences: there is one order of memory here */
    OP_BARRIER,
    OP_WARP_BARRIER,
    OP_LOAD,
    OP_STORE,
    OP_ATOMIC,
    OP_SHUFFLE,
    OP_VOTE,
    OP_MATCH,
    OP_ACTIVE,
    OP_SELECT,
    OP_PACK,
    OP_UNPACK,
    OP_PRED_AND,
    OP_PRED_OR,
    OP_PRED_XOR,
    OP_PRED_NOT,
    OP_PRED_MOVE,
    OP_ALU,
    OP_ALU_BEFORE = OP_ALU,
    PTX_ALU(ALU_CODE1, ALU_CODE1, ALU_CODE1, ALU_CODE1) PTX_COMPARE(ALU_CODE1) N_OPS
};

enum ptx_shuffle { SHUFFLE_UP, SHUFFLE_DOWN, SHUFFLE_BFLY, SHUFFLE_IDX };
enum ptx_vote { VOTE_BALLOT, VOTE_ALL, VOTE_ANY, VOTE_UNI };
enum ptx_atomic { ATOMIC_ADD, ATOMIC_OR, ATOMIC_AND, ATOMIC_XOR, ATOMIC_MIN, ATOMIC_MAX, ATOMIC_EXCH, ATOMIC_CAS, N_ATOMICS };

#endif
