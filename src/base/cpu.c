/*
 * Which kernel families this CPU and operating system can run, and the cap on them.
 *
 * The cap is an atomic; its first value comes from COMET_MAX_ISA, read once under pthread_once.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu_features.h"
#include "comet/base.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static comet_isa best = COMET_ISA_REFERENCE;
static atomic_int cap = COMET_ISA_AVX512;

/* What the CPU can run and this build holds. */
static comet_isa detect(void)
{
    cpu_features features;
    comet_cpu_features(&features);
    const comet_isa cpu = comet_cpu_best(&features);
#ifdef COMET_HAVE_AVX512
    if (cpu == COMET_ISA_AVX512)
        return cpu;
#endif
#ifdef COMET_HAVE_AVX2
    if (cpu >= COMET_ISA_AVX2)
        return COMET_ISA_AVX2;
#endif
#ifdef COMET_HAVE_NEON
    if (cpu == COMET_ISA_NEON)
        return cpu;
#endif
    (void)cpu;
    return COMET_ISA_REFERENCE;
}

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
