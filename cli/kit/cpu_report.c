/* Facts about CPU and system; see cpu_report.h. */
#include "kit/cpu_report.h"

#include <stdio.h>
#include <unistd.h>

#if defined(__x86_64__)

#include <cpuid.h>

static void read_model(char *model, size_t model_bytes)
{
    unsigned words[12] = {0};
    for (unsigned i = 0; i < 3; i++)
        if (!__get_cpuid(0x80000002u + i, &words[4 * i], &words[4 * i + 1], &words[4 * i + 2], &words[4 * i + 3]))
            return;
    snprintf(model, model_bytes, "%.48s", (const char *)words);
}

#else

static void read_model(char *model, size_t model_bytes)
{
    snprintf(model, model_bytes, "unknown");
}

#endif

void cpu_report_fill(cpu_report *report)
{
    *report = (cpu_report){.model = "unknown"};
    comet_cpu_features(&report->features);
    read_model(report->model, sizeof report->model);
    const long pages = sysconf(_SC_PHYS_PAGES);
    report->n_cores = sysconf(_SC_NPROCESSORS_ONLN);
    report->page_bytes = sysconf(_SC_PAGESIZE);
    if (pages > 0 && report->page_bytes > 0)
        report->memory_bytes = (unsigned long long)pages * (unsigned long long)report->page_bytes;
}

void cpu_report_why_not(const cpu_report *report, comet_isa isa, char *why, size_t why_bytes)
{
    const cpu_features *features = &report->features;
    bool known_here = false;
    for (size_t i = 0; i < features->n; i++) {
        const cpu_feature *f = &features->items[i];
        known_here = known_here || f->needed == isa;
        if (f->needed == isa && !f->present) {
            snprintf(why, why_bytes, "this CPU lacks %s", f->name);
            return;
        }
    }
    if (!known_here)
        snprintf(why, why_bytes, "not for %s", features->architecture);
    else if (!comet_cpu_registers_saved(features, isa))
        snprintf(why, why_bytes, "the operating system does not save the registers");
    else
        snprintf(why, why_bytes, "not in this build");
}
