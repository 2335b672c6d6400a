/* Which features of the CPU our kernels need, and whether this CPU has them and the operating system lets programs use them. */
#ifndef COMET_BASE_CPU_FEATURES_H
#define COMET_BASE_CPU_FEATURES_H

#include <stdbool.h>

#include "comet/base.h"

typedef struct cpu_feature {
    const char *name;
    bool present;     /* the CPU has it */
    comet_isa needed; /* the least family of kernels that needs it */
} cpu_feature;

enum { CPU_MAX_FEATURES = 16 };

typedef struct cpu_features {
    const char *architecture; /* "x86-64", "aarch64" or "other" */
    cpu_feature items[CPU_MAX_FEATURES];
    size_t n;
    bool os_saves_ymm, os_saves_zmm; /* the operating system keeps the wide registers of x86-64 at a change of threads */
} cpu_features;

void comet_cpu_features(cpu_features *features);

/* Whether the operating system saves the registers that the family uses. */
bool comet_cpu_registers_saved(const cpu_features *features, comet_isa isa);

/* The best family that CPU and operating system can run, whether this build holds it or not. */
comet_isa comet_cpu_best(const cpu_features *features);

#endif
