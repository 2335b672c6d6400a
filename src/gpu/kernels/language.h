/*
 * The words that OpenCL C, CUDA C and plain C say differently. All kernels are written in the common subset of the three with
 * these macros, and every build of them gives the same bytes.
 *
 * Rules of the subset: barriers stand in kernels only, never in functions (some compilers split kernels at barriers and miss
 * those in functions), and every thread of a group reaches the same ones. Functions are always inlined: what PoCL 3.1 makes of
 * a call may return something else. Products and sums are rounded one after the other; FUSED says where a fused multiply-add is
 * meant. Shared arrays are declared in kernels and handed on as SHARED pointers.
 *
 * Plain C is for tests: whoever includes this defines the words first (tests/gpu/fibers.h).
 */
#ifndef COMET_GPU_LANGUAGE_H
#define COMET_GPU_LANGUAGE_H

#if defined(__OPENCL_VERSION__)

#pragma OPENCL FP_CONTRACT OFF
typedef uchar u8;
typedef ushort u16;
typedef uint u32;
typedef ulong u64;
typedef int i32;
typedef long i64;
#define KERNEL __kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void
#define FUNCTION static inline __attribute__((always_inline))
#define GLOBAL __global
#define SHARED __local
#define SHARED_ARRAY __local
#define THREAD ((u32)get_local_id(0))
#define GROUP_NUMBER ((u32)get_group_id(0))
#define BARRIER() barrier(CLK_LOCAL_MEM_FENCE)
#define BARRIER_GLOBAL() barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)
#define SHARED_OR(p, v) atomic_or(p, v)
#define SHARED_ADD(p, v) atomic_add(p, v)
#define GLOBAL_OR(p, v) atomic_or(p, v)
#define GLOBAL_MIN(p, v) atomic_min(p, v)
#define BITS_OF_FLOAT(f) as_uint(f)
#define FLOAT_OF_BITS(b) as_float(b)
#define POPCOUNT(v) ((u32)popcount((u32)(v)))
#define LEADING_ZEROS(v) ((u32)clz((u32)(v)))
#define RINT(f) rint(f)
#define FLOOR(f) floor(f)
#define CEIL(f) ceil(f)
#define FABS(f) fabs(f)
#define FUSED(a, b, c) fma(a, b, c)
#define ALIASING __attribute__((may_alias))

#elif defined(__CUDACC__)

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int i32;
typedef long long i64;
#define KERNEL extern "C" __global__ void __launch_bounds__(GROUP, 2)
#define FUNCTION static __device__ __forceinline__
#define GLOBAL
#define SHARED
#define SHARED_ARRAY __shared__
#define THREAD ((u32)threadIdx.x)
#define GROUP_NUMBER ((u32)blockIdx.x)
#define BARRIER() __syncthreads()
#define BARRIER_GLOBAL() __syncthreads()
#define SHARED_OR(p, v) atomicOr(p, v)
#define SHARED_ADD(p, v) atomicAdd(p, v)
#define GLOBAL_OR(p, v) atomicOr(p, v)
#define GLOBAL_MIN(p, v) atomicMin(p, v)
#define BITS_OF_FLOAT(f) __float_as_uint(f)
#define FLOAT_OF_BITS(b) __uint_as_float(b)
#define POPCOUNT(v) ((u32)__popc(v))
#define LEADING_ZEROS(v) ((u32)__clz((int)(v)))
#define RINT(f) rintf(f)
#define FLOOR(f) floorf(f)
#define CEIL(f) ceilf(f)
#define FABS(f) fabsf(f)
#define FUSED(a, b, c) fmaf(a, b, c)
#define ALIASING
#define WARP 32
#define WARP_UP(v, distance) __shfl_up_sync(0xffffffffu, v, distance)
#define WARP_AT(v, lane) __shfl_sync(0xffffffffu, v, (int)(lane))

#endif

/*
 * Elements that a thread takes in a row while a group goes over a chunk. On a GPU that is one, so that threads read side by
 * side. On a CPU it is all of the thread's, whose loops the compiler turns into vectors.
 */
#ifndef LOT
#define LOT 1
#endif
#define LOT_AT(t, k) (LOT == 1 ? (k)*GROUP + (t) : (t)*HALF + (k)*LOT)

/* Sums whose values are all 0 are left out, with their barriers, but on a CPU: compilers for CPUs split kernels at barriers. */
#define SCANS_ALWAYS (LOT > 1)

/* Kernels on codes come in two builds, for codes of 16 and of 32 bits, with names of their own. */
#define JOIN_(stem, bits) stem##_##bits
#define JOIN(stem, bits) JOIN_(stem, bits)
#define CODED(stem) JOIN(stem, CODE_BITS)

/*
 * Exclusive prefix sums of `value` over the group: afterwards `value` is the sum of those of the threads before, `total` that
 * of all. `a` is shared, with room for SCAN_ROOM; `type` is the type of all these. For kernels only: it has barriers.
 */
#define SCAN_ROOM (GROUP + 17)
#ifdef WARP
#define GROUP_SCAN(type, a, t, value, total)               \
    {                                                      \
        type scan_sum_ = (value);                          \
        for (u32 d_ = 1; d_ < WARP; d_ *= 2) {             \
            type other_ = WARP_UP(scan_sum_, d_);          \
            if ((t) % WARP >= d_)                          \
                scan_sum_ += other_;                       \
        }                                                  \
        if ((t) % WARP == WARP - 1)                        \
            (a)[(t) / WARP] = scan_sum_;                   \
        BARRIER();                                         \
        type scan_all_ = 0, scan_before_ = 0;              \
        for (u32 w_ = 0; w_ < GROUP / WARP; w_++) {        \
            scan_before_ += w_ < (t) / WARP ? (a)[w_] : 0; \
            scan_all_ += (a)[w_];                          \
        }                                                  \
        (value) = scan_before_ + scan_sum_ - (value);      \
        (total) = scan_all_;                               \
        BARRIER();                                         \
    }
#else
#define GROUP_SCAN(type, a, t, value, total)                    \
    {                                                           \
        (a)[t] = (value);                                       \
        BARRIER();                                              \
        if ((t) < 16) {                                         \
            type sum_ = 0;                                      \
            for (u32 j_ = 16 * (t); j_ < 16 * (t) + 16; j_++) { \
                type v_ = (a)[j_];                              \
                (a)[j_] = sum_;                                 \
                sum_ += v_;                                     \
            }                                                   \
            (a)[GROUP + (t)] = sum_;                            \
        }                                                       \
        BARRIER();                                              \
        if ((t) == 0) {                                         \
            type sum_ = 0;                                      \
            for (u32 j_ = GROUP; j_ < GROUP + 16; j_++) {       \
                type v_ = (a)[j_];                              \
                (a)[j_] = sum_;                                 \
                sum_ += v_;                                     \
            }                                                   \
            (a)[GROUP + 16] = sum_;                             \
        }                                                       \
        BARRIER();                                              \
        (value) = (a)[t] + (a)[GROUP + (t) / 16];               \
        (total) = (a)[GROUP + 16];                              \
        BARRIER();                                              \
    }
#endif

/*
 * The same over each 32 threads, of u32. `a` is shared, with room for GROUP; it may be used again only after another barrier,
 * and this one need not be one. For kernels only.
 */
#ifdef WARP
#define LANE_SCAN(a, t, value, total)                  \
    {                                                  \
        (void)(a);                                     \
        u32 scan_sum_ = (value);                       \
        for (u32 d_ = 1; d_ < 32; d_ *= 2) {           \
            u32 other_ = WARP_UP(scan_sum_, d_);       \
            scan_sum_ += (t) % 32 >= d_ ? other_ : 0;  \
        }                                              \
        (value) = scan_sum_ - (value);                 \
        (total) = WARP_AT(scan_sum_, (t) % WARP | 31); \
    }
#else
#define LANE_SCAN(a, t, value, total)                   \
    {                                                   \
        u32 scan_all_ = 0, scan_before_ = 0;            \
        (a)[t] = (value);                               \
        BARRIER();                                      \
        for (u32 l_ = 0; l_ < 32; l_++) {               \
            u32 other_ = (a)[(t) / 32 * 32 + l_];       \
            scan_before_ += l_ < (t) % 32 ? other_ : 0; \
            scan_all_ += other_;                        \
        }                                               \
        (value) = scan_before_;                         \
        (total) = scan_all_;                            \
    }
#endif

#endif
