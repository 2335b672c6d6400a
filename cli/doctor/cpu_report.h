/* What this CPU and operating system can do, as far as our kernels care. */
#ifndef COMET_CLI_CPU_REPORT_H
#define COMET_CLI_CPU_REPORT_H

#include <stdbool.h>
#include <stddef.h>

#include "comet/base.h"

typedef struct cpu_feature {
    const char *name;
    bool present;     /* the CPU has it */
    comet_isa needed; /* the kernels that need it */
} cpu_feature;

enum { CPU_MAX_FEATURES = 16 };

typedef struct cpu_report {
    char model[64];
    const char *architecture;
    cpu_feature features[CPU_MAX_FEATURES];
    size_t n_features;
    bool os_saves_ymm, os_saves_zmm; /* the operating system keeps the wide registers */
    long n_cores;
    unsigned long long memory_bytes;
    long page_bytes;
} cpu_report;

void cpu_report_fill(cpu_report *report);

/* Why kernels of `isa` do not run here although the best that do are lower; a sentence in `why`. */
void cpu_report_why_not(const cpu_report *report, comet_isa isa, char *why, size_t why_bytes);

#endif
