/*
 * The GPU's kernels in plain C: every thread of a group is a fiber, a barrier is a switch to the scheduler. A schedule says in
 * which order fibers run between two barriers; a correct kernel gives the same bytes with each.
 *
 * A unit that includes the kernels defines CODE_BITS, KERNELS (the name of its table) and, for kernels that exchange values
 * within warps, WARP. Compiled with -fsanitize=thread and COMET_WATCHED, but without that sanitizer's runtime, a unit calls
 * watch.c at each access to memory: accesses to shared memory that two threads make between the same barriers, one of them
 * writing, are conflicts; accesses outside the buffers of a launch are strays.
 */
#ifndef COMET_TESTS_GPU_FIBERS_H
#define COMET_TESTS_GPU_FIBERS_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int32_t i32;
typedef int64_t i64;

#define KERNEL static void
#define FUNCTION static inline __attribute__((unused))
#define GLOBAL
#define SHARED
#define SHARED_ARRAY static __attribute__((section("gpu_shared")))
#define THREAD fiber_thread_now()
#define GROUP_NUMBER fiber_group_now()
#define BARRIER() fiber_barrier(__LINE__)
#define BARRIER_GLOBAL() fiber_barrier(__LINE__)
#define SHARED_OR(p, v) fiber_or(p, v)
#define SHARED_ADD(p, v) fiber_add(p, v)
#define GLOBAL_OR(p, v) fiber_or(p, v)
#define GLOBAL_MIN(p, v) fiber_min(p, v)
#define BITS_OF_FLOAT(f) fiber_bits(f)
#define FLOAT_OF_BITS(b) fiber_float(b)
#define POPCOUNT(v) ((u32)__builtin_popcount((u32)(v)))
#define LEADING_ZEROS(v) ((u32)__builtin_clz((u32)(v)))
#define RINT(f) rintf(f)
#define FLOOR(f) floorf(f)
#define CEIL(f) ceilf(f)
#define FABS(f) fabsf(f)
#define FUSED(a, b, c) fmaf(a, b, c)
#define ALIASING __attribute__((may_alias))
#ifdef WARP
#define WARP_UP(v, distance) fiber_warp_up(v, distance, WARP)
#define WARP_AT(v, lane) (u32) fiber_warp_at(v, lane, WARP)
#endif

extern u32 fiber_thread, fiber_group;
u32 fiber_thread_now(void);
u32 fiber_group_now(void);
void fiber_barrier(int line);
u64 fiber_warp_up(u64 v, u32 distance, u32 warp);
u64 fiber_warp_at(u64 v, u32 lane, u32 warp);
void fiber_or(u32 *p, u32 v);
void fiber_add(u32 *p, u32 v);
void fiber_min(u32 *p, u32 v);

static inline u32 fiber_bits(float f)
{
    u32 b;
    memcpy(&b, &f, sizeof b);
    return b;
}

static inline float fiber_float(u32 b)
{
    float f;
    memcpy(&f, &b, sizeof f);
    return f;
}

#endif
