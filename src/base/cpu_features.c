/* Features of the CPU; see cpu_features.h. Reads CPUID itself, so that it can tell what the CPU has but the system forbids. */
#include "base/cpu_features.h"

#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)

#include <cpuid.h>

enum { EBX, ECX, EDX };
enum { YMM_STATE = 0x06, ZMM_STATE = 0xe6, OSXSAVE_BIT = 27 };

/* Features by CPUID leaf, register and bit. */
static const struct {
    const char *name;
    unsigned leaf, reg, bit;
    comet_isa needed;
} known[] = {
    {"avx", 1, ECX, 28, COMET_ISA_AVX2},
    {"avx2", 7, EBX, 5, COMET_ISA_AVX2},
    {"bmi1", 7, EBX, 3, COMET_ISA_AVX2},
    {"bmi2", 7, EBX, 8, COMET_ISA_AVX2},
    {"f16c", 1, ECX, 29, COMET_ISA_AVX2},
    {"fma", 1, ECX, 12, COMET_ISA_AVX2},
    {"lzcnt", 0x80000001u, ECX, 5, COMET_ISA_AVX2},
    {"popcnt", 1, ECX, 23, COMET_ISA_AVX2},
    {"avx512f", 7, EBX, 16, COMET_ISA_AVX512},
    {"avx512bw", 7, EBX, 30, COMET_ISA_AVX512},
    {"avx512dq", 7, EBX, 17, COMET_ISA_AVX512},
    {"avx512vl", 7, EBX, 31, COMET_ISA_AVX512},
    {"avx512vbmi", 7, ECX, 1, COMET_ISA_AVX512},
    {"avx512vbmi2", 7, ECX, 6, COMET_ISA_AVX512},
    {"gfni", 7, ECX, 8, COMET_ISA_AVX512},
};

enum { N_KNOWN = sizeof known / sizeof known[0] };
_Static_assert((int)N_KNOWN <= (int)CPU_MAX_FEATURES, "there is room for all of them");

/* All zero for a leaf that the CPU does not have. */
static void read_leaf(unsigned leaf, unsigned regs[3])
{
    unsigned eax = 0;
    memset(regs, 0, 3 * sizeof regs[0]);
    __get_cpuid_count(leaf, 0, &eax, &regs[EBX], &regs[ECX], &regs[EDX]);
}

/* The register state that the operating system saves (XCR0). */
static uint64_t saved_state(void)
{
    unsigned regs[3], low = 0, high = 0;
    read_leaf(1, regs);
    if (!(regs[ECX] >> OSXSAVE_BIT & 1u))
        return 0;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

void comet_cpu_features(cpu_features *features)
{
    const uint64_t saved = saved_state();
    *features = (cpu_features){.architecture = "x86-64",
                               .n = N_KNOWN,
                               .os_saves_ymm = (saved & YMM_STATE) == YMM_STATE,
                               .os_saves_zmm = (saved & ZMM_STATE) == ZMM_STATE};
    for (size_t i = 0; i < N_KNOWN; i++) {
        unsigned regs[3];
        read_leaf(known[i].leaf, regs);
        features->items[i] = (cpu_feature){known[i].name, (regs[known[i].reg] >> known[i].bit & 1u) != 0, known[i].needed};
    }
}

#elif defined(__aarch64__)

void comet_cpu_features(cpu_features *features)
{
    *features = (cpu_features){.architecture = "aarch64", .items = {{"neon", true, COMET_ISA_NEON}}, .n = 1};
}

#else

void comet_cpu_features(cpu_features *features)
{
    *features = (cpu_features){.architecture = "other"};
}

#endif

bool comet_cpu_registers_saved(const cpu_features *features, comet_isa isa)
{
    if (isa == COMET_ISA_AVX512)
        return features->os_saves_zmm;
    return isa == COMET_ISA_AVX2 ? features->os_saves_ymm : true;
}

/* Whether all features that the family needs of itself are there, and at least one is known. */
static bool has_all(const cpu_features *features, comet_isa isa)
{
    bool any = false;
    for (size_t i = 0; i < features->n; i++) {
        if (features->items[i].needed == isa && !features->items[i].present)
            return false;
        any = any || features->items[i].needed == isa;
    }
    return any;
}

comet_isa comet_cpu_best(const cpu_features *features)
{
    if (has_all(features, COMET_ISA_NEON))
        return COMET_ISA_NEON;
    if (!has_all(features, COMET_ISA_AVX2) || !comet_cpu_registers_saved(features, COMET_ISA_AVX2))
        return COMET_ISA_REFERENCE;
    return has_all(features, COMET_ISA_AVX512) && comet_cpu_registers_saved(features, COMET_ISA_AVX512) ? COMET_ISA_AVX512
                                                                                                        : COMET_ISA_AVX2;
}
