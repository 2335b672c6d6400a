/* This CPU and operating system, for doctor and logs. */
#ifndef COMET_CLI_CPU_REPORT_H
#define COMET_CLI_CPU_REPORT_H

#include <stddef.h>

#include "base/cpu_features.h"

typedef struct cpu_report {
    char model[64];
    cpu_features features;
    long n_cores;
    unsigned long long memory_bytes;
    long page_bytes;
} cpu_report;

void cpu_report_fill(cpu_report *report);

/* Writes to `why` the reason that kernels of `isa` do not run here. */
void cpu_report_why_not(const cpu_report *report, comet_isa isa, char *why, size_t why_bytes);

#endif
