/* What the machine has and gives, and whether a model fits. Linux; elsewhere nothing is known and nothing is refused. */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/status.h"
#include "comet/train.h"

/* The number behind `key` in a file of lines such as "VmHWM:  1234 kB" or "inactive_file 1234"; false if it is not there. */
static bool number_after(const char *path, const char *key, uint64_t *value)
{
    char line[256];
    bool found = false;
    FILE *file = fopen(path, "re");
    while (file && !found && fgets(line, sizeof line, file))
        found = strncmp(line, key, strlen(key)) == 0 && sscanf(line + strlen(key), "%" SCNu64, value) == 1;
    if (file)
        fclose(file);
    return found;
}

uint64_t comet_peak_rss(void)
{
    uint64_t kilobytes = 0;
    struct rusage usage;
    if (number_after("/proc/self/status", "VmHWM:", &kilobytes))
        return kilobytes * 1024;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? (uint64_t)usage.ru_maxrss * 1024 : 0;
}

/* Mapped files that are neither shared, as data is, nor copied when they were written to. Each mapping has a line such as
 * "7f12a000-7f12b000 r-xp 00001000 fe:01 42 /lib/x.so", then lines of its own sizes. */
static bool own_pages(uint64_t *kilobytes)
{
    char line[512], permissions[8] = "";
    uint64_t total = 0, here = 0;
    bool unshared = false;
    FILE *file = fopen("/proc/self/smaps", "re");
    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, "%*x-%*x %7s", permissions) == 1)
            unshared = permissions[3] == 'p';
        else if (unshared && sscanf(line, "Rss: %" SCNu64, &here) == 1)
            total += here;
        else if (unshared && sscanf(line, "Anonymous: %" SCNu64, &here) == 1)
            total -= here;
    }
    if (file)
        fclose(file);
    *kilobytes = total;
    return file != NULL;
}

uint64_t comet_program_rss(void)
{
    uint64_t kilobytes = 0;
    return own_pages(&kilobytes) || number_after("/proc/self/status", "RssFile:", &kilobytes) ? kilobytes * 1024 : 0;
}

static uint64_t less(uint64_t limit, uint64_t used)
{
    return limit > used ? limit - used : 0;
}

static void lower(uint64_t *available, uint64_t limit)
{
    *available = limit < *available ? limit : *available;
}

/* One folder of a control group, version 2 or 1. File pages that nobody used lately are given back under pressure. */
static void lower_to_group(uint64_t *available, const char *folder)
{
    static const char *const names[2][2] = {{"memory.max", "memory.current"},
                                            {"memory.limit_in_bytes", "memory.usage_in_bytes"}};
    for (int i = 0; i < 2; i++) {
        char path[3][512];
        uint64_t limit = 0, used = 0, cached = 0;
        snprintf(path[0], sizeof path[0], "%s/%s", folder, names[i][0]);
        snprintf(path[1], sizeof path[1], "%s/%s", folder, names[i][1]);
        snprintf(path[2], sizeof path[2], "%s/memory.stat", folder);
        if (!number_after(path[0], "", &limit) || !number_after(path[1], "", &used))
            continue;
        number_after(path[2], "inactive_file ", &cached);
        lower(available, less(limit, less(used, cached)));
    }
}

/* The group of this process and those above it. */
static void lower_to_groups(uint64_t *available)
{
    char line[300] = "", folder[400];
    FILE *file = fopen("/proc/self/cgroup", "re");
    if (file && !fgets(line, sizeof line, file))
        line[0] = '\0';
    if (file)
        fclose(file);
    line[strcspn(line, "\n")] = '\0';
    if (strncmp(line, "0::/", 4) == 0)
        for (char *name = line + 3; name[1] != '\0'; *strrchr(name, '/') = '\0') {
            snprintf(folder, sizeof folder, "/sys/fs/cgroup%s", name);
            lower_to_group(available, folder);
            if (strrchr(name, '/') == name)
                break;
        }
    lower_to_group(available, "/sys/fs/cgroup");
    lower_to_group(available, "/sys/fs/cgroup/memory");
}

static void lower_to_limit(uint64_t *available, int resource, const char *used_key)
{
    struct rlimit limit;
    uint64_t kilobytes = 0;
    if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return;
    number_after("/proc/self/status", used_key, &kilobytes);
    lower(available, less((uint64_t)limit.rlim_cur, kilobytes * 1024));
}

uint64_t comet_memory_available(void)
{
    uint64_t available = UINT64_MAX, kilobytes = 0;
    if (number_after("/proc/meminfo", "MemAvailable:", &kilobytes))
        available = kilobytes * 1024;
    lower_to_groups(&available);
    lower_to_limit(&available, RLIMIT_AS, "VmSize:");
    lower_to_limit(&available, RLIMIT_DATA, "VmData:");
    return available;
}

/* ---- does a model fit? ---- */

/* What a plan does not count: oneDNN's generated code, thread stacks, what malloc keeps. */
static const uint64_t beside_plan = 48 << 20;

static comet_status bytes_needed(const comet_net *net, const comet_model_params *params, uint32_t batch,
                                 uint64_t bytes_per_image, uint64_t *bytes)
{
    comet_model_params changed = *params;
    comet_memory memory;
    changed.batch = batch;
    const comet_status status = comet_model_plan(net, &changed, &memory);
    if (status == COMET_OK)
        *bytes = memory.total + bytes_per_image * batch + beside_plan;
    return status;
}

/* The largest batch below params->batch that needs no more than `available`, or 0. */
static comet_status largest_batch(const comet_net *net, const comet_model_params *params, uint64_t bytes_per_image,
                                  uint64_t available, uint32_t *batch)
{
    uint32_t fits = 0, too_large = params->batch;
    while (too_large - fits > 1) {
        const uint32_t middle = fits + (too_large - fits) / 2;
        uint64_t bytes = 0;
        const comet_status status = bytes_needed(net, params, middle, bytes_per_image, &bytes);
        if (status != COMET_OK)
            return status;
        if (bytes <= available)
            fits = middle;
        else
            too_large = middle;
    }
    *batch = fits;
    return COMET_OK;
}

#define LEAST_AVAILABLE ((uint64_t)64 << 20)

comet_status comet_model_check_memory(const comet_net *net, const comet_model_params *params, uint64_t bytes_per_image)
{
    const uint64_t available = comet_memory_available();
    uint64_t bytes = 0;
    uint32_t fitting = 0;
    if (available < LEAST_AVAILABLE) /* oneDNN does not survive a lack of memory for its code while a net is planned */
        return comet_fail(COMET_ERROR_MEMORY, "%.0f MiB are free; no net trains in less than %.0f",
                          (double)available / (1 << 20), (double)LEAST_AVAILABLE / (1 << 20));
    comet_status status = bytes_needed(net, params, params->batch, bytes_per_image, &bytes);
    if (status != COMET_OK || bytes <= available)
        return status;
    status = largest_batch(net, params, bytes_per_image, available, &fitting);
    if (status != COMET_OK)
        return status;
    const double mib = 1 << 20;
    if (fitting == 0)
        return comet_fail(COMET_ERROR_MEMORY, "batch %" PRIu32 " needs %.0f MiB, %.0f MiB are free; not even batch 1 would fit",
                          params->batch, (double)bytes / mib, (double)available / mib);
    return comet_fail(COMET_ERROR_MEMORY, "batch %" PRIu32 " needs %.0f MiB, %.0f MiB are free; batch %" PRIu32 " would fit",
                      params->batch, (double)bytes / mib, (double)available / mib, fitting);
}
