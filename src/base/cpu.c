/*
 * Which kernel families this CPU and operating system can run, and the cap on them.
 *
 * The cap is an atomic; its first value comes from COMET_MAX_ISA, read once under pthread_once.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "comet/base.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

static pthread_once_t once = PTHREAD_ONCE_INIT;
static comet_isa best = COMET_ISA_REFERENCE;
static atomic_int cap = COMET_ISA_AVX512;

#if defined(__x86_64__)
/* The register state that the operating system saves (XCR0). */
static unsigned long long saved_state(void)
{
    unsigned low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return ((unsigned long long)high << 32) | low;
}

static comet_isa detect_cpu(void)
{
    enum { YMM_STATE = 0x6, ZMM_STATE = 0xe6 };
    unsigned a, b, c, d, b7, c7;
    if (!__get_cpuid(1, &a, &b, &c, &d))
        return COMET_ISA_REFERENCE;
    const unsigned need1 = bit_OSXSAVE | bit_AVX | bit_F16C | bit_FMA | bit_POPCNT;
    if ((c & need1) != need1 || (saved_state() & YMM_STATE) != YMM_STATE)
        return COMET_ISA_REFERENCE;
    if (!__get_cpuid_count(7, 0, &a, &b7, &c7, &d))
        return COMET_ISA_REFERENCE;
    const unsigned need7 = bit_AVX2 | bit_BMI | bit_BMI2;
    if (!__get_cpuid(0x80000001u, &a, &b, &c, &d) || !(c & bit_LZCNT) || (b7 & need7) != need7)
        return COMET_ISA_REFERENCE;
    const unsigned need512b = bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL;
    const unsigned need512c = bit_AVX512VBMI | bit_AVX512VBMI2 | bit_GFNI;
    if ((b7 & need512b) != need512b || (c7 & need512c) != need512c || (saved_state() & ZMM_STATE) != ZMM_STATE)
        return COMET_ISA_AVX2;
    return COMET_ISA_AVX512;
}

/* What the CPU can run and this build holds. */
static comet_isa detect(void)
{
    comet_isa cpu = detect_cpu();
#ifdef COMET_HAVE_AVX512
    if (cpu >= COMET_ISA_AVX512)
        return COMET_ISA_AVX512;
#endif
#ifdef COMET_HAVE_AVX2
    if (cpu >= COMET_ISA_AVX2)
        return COMET_ISA_AVX2;
#endif
    (void)cpu;
    return COMET_ISA_REFERENCE;
}
#elif defined(__aarch64__) && defined(COMET_HAVE_NEON)
static comet_isa detect(void)
{
    return COMET_ISA_NEON;
}
#else
static comet_isa detect(void)
{
    return COMET_ISA_REFERENCE;
}
#endif

const char *comet_isa_name(comet_isa isa)
{
    static const char *const names[] = {"reference", "neon", "avx2", "avx512"};
    return (unsigned)isa < sizeof names / sizeof *names ? names[isa] : "unknown";
}

static void start(void)
{
    best = detect();
    int first = best;
    const char *requested = getenv("COMET_MAX_ISA");
    for (int i = COMET_ISA_REFERENCE; requested && i <= COMET_ISA_AVX512; i++)
        if (strcmp(requested, comet_isa_name((comet_isa)i)) == 0)
            first = i;
    atomic_store(&cap, first);
}

comet_isa comet_isa_best(void)
{
    pthread_once(&once, start);
    return best;
}

/* A family of another architecture counts as its nearest lower one, the reference. */
static comet_isa at_most(comet_isa requested)
{
    if (requested >= best)
        return best;
    return requested == COMET_ISA_NEON && best != COMET_ISA_NEON ? COMET_ISA_REFERENCE : requested;
}

comet_isa comet_isa_active(void)
{
    pthread_once(&once, start);
    return at_most((comet_isa)atomic_load(&cap));
}

comet_isa comet_isa_set_cap(comet_isa requested)
{
    pthread_once(&once, start);
    atomic_store(&cap, (int)requested);
    return comet_isa_active();
}
