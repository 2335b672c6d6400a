/* CPU and system facts; see cpu_report.h. Reads CPUID itself, so that it can say what the CPU has but the system forbids. */
#include "doctor/cpu_report.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#if defined(__x86_64__)

#include <cpuid.h>

enum { EBX, ECX, EDX };

/* Features by CPUID leaf, register and bit. */
static const struct {
    const char *name;
    unsigned leaf, reg, bit;
    comet_isa needed;
} known[] = {
    {"avx", 1, ECX, 28, COMET_ISA_AVX2},          {"avx2", 7, EBX, 5, COMET_ISA_AVX2},
    {"bmi1", 7, EBX, 3, COMET_ISA_AVX2},          {"bmi2", 7, EBX, 8, COMET_ISA_AVX2},
    {"f16c", 1, ECX, 29, COMET_ISA_AVX2},         {"lzcnt", 0x80000001u, ECX, 5, COMET_ISA_AVX2},
    {"popcnt", 1, ECX, 23, COMET_ISA_AVX2},       {"avx512f", 7, EBX, 16, COMET_ISA_AVX512},
    {"avx512bw", 7, EBX, 30, COMET_ISA_AVX512},   {"avx512dq", 7, EBX, 17, COMET_ISA_AVX512},
    {"avx512vl", 7, EBX, 31, COMET_ISA_AVX512},   {"avx512vbmi", 7, ECX, 1, COMET_ISA_AVX512},
    {"avx512vbmi2", 7, ECX, 6, COMET_ISA_AVX512}, {"gfni", 7, ECX, 8, COMET_ISA_AVX512},
};

static void read_leaf(unsigned leaf, unsigned regs[3])
{
    unsigned eax = 0;
    memset(regs, 0, 3 * sizeof regs[0]);
    __get_cpuid_count(leaf, 0, &eax, &regs[EBX], &regs[ECX], &regs[EDX]);
}

/* Which register files the operating system saves (XCR0). */
static uint64_t saved_state(void)
{
    unsigned regs[3];
    unsigned low = 0, high = 0;
    read_leaf(1, regs);
    if (!(regs[ECX] & (1u << 27)))
        return 0;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

static void read_model(char *model, size_t model_bytes)
{
    unsigned words[12] = {0};
    for (unsigned i = 0; i < 3; i++)
        if (!__get_cpuid(0x80000002u + i, &words[4 * i], &words[4 * i + 1], &words[4 * i + 2], &words[4 * i + 3]))
            return;
    snprintf(model, model_bytes, "%.48s", (const char *)words);
}

static void fill_cpu(cpu_report *report)
{
    report->architecture = "x86-64";
    read_model(report->model, sizeof report->model);
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        unsigned regs[3];
        read_leaf(known[i].leaf, regs);
        report->features[report->n_features++] =
            (cpu_feature){known[i].name, (regs[known[i].reg] >> known[i].bit & 1u) != 0, known[i].needed};
    }
    const uint64_t saved = saved_state();
    report->os_saves_ymm = (saved & 0x06) == 0x06;
    report->os_saves_zmm = (saved & 0xe6) == 0xe6;
}

#elif defined(__aarch64__)

static void fill_cpu(cpu_report *report)
{
    report->architecture = "aarch64";
    report->features[report->n_features++] = (cpu_feature){"neon", true, COMET_ISA_NEON};
}

#else

static void fill_cpu(cpu_report *report)
{
    report->architecture = "other";
}

#endif

void cpu_report_fill(cpu_report *report)
{
    *report = (cpu_report){.model = "unknown"};
    fill_cpu(report);
    const long pages = sysconf(_SC_PHYS_PAGES);
    report->n_cores = sysconf(_SC_NPROCESSORS_ONLN);
    report->page_bytes = sysconf(_SC_PAGESIZE);
    if (pages > 0 && report->page_bytes > 0)
        report->memory_bytes = (unsigned long long)pages * (unsigned long long)report->page_bytes;
}

void cpu_report_why_not(const cpu_report *report, comet_isa isa, char *why, size_t why_bytes)
{
    bool known_here = false;
    for (size_t i = 0; i < report->n_features; i++) {
        const cpu_feature *f = &report->features[i];
        known_here = known_here || f->needed == isa;
        if (f->needed == isa && !f->present) {
            snprintf(why, why_bytes, "this CPU lacks %s", f->name);
            return;
        }
    }
    if (!known_here)
        snprintf(why, why_bytes, "not for %s", report->architecture);
    else if ((isa == COMET_ISA_AVX2 && !report->os_saves_ymm) || (isa == COMET_ISA_AVX512 && !report->os_saves_zmm))
        snprintf(why, why_bytes, "the operating system does not save the registers");
    else
        snprintf(why, why_bytes, "not in this build");
}
