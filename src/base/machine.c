/* What the machine has and gives, and whether a model fits. Linux; elsewhere nothing is known and nothing is refused. */
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/status.h"
#include "base/threads.h"
#include "comet/train.h"

/* The number after `key` in a file of lines such as "VmHWM:  1234 kB" or "inactive_file 1234"; false if it is not there. */
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

/* A line of /proc/self/status, in bytes; 0: not known. */
static uint64_t status_bytes(const char *key)
{
    uint64_t kilobytes = 0;
    return number_after("/proc/self/status", key, &kilobytes) ? kilobytes * 1024 : 0;
}

uint64_t comet_peak_rss(void)
{
    struct rusage usage;
    const uint64_t bytes = status_bytes("VmHWM:");
    if (bytes > 0)
        return bytes;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? (uint64_t)usage.ru_maxrss * 1024 : 0;
}

uint64_t comet_peak_address_space(void)
{
    return status_bytes("VmPeak:");
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

static void lower(comet_memory_limit *limit, uint64_t bytes, uint64_t used, const char *name)
{
    if (bytes < limit->bytes)
        *limit = (comet_memory_limit){.bytes = bytes, .used = used, .name = name};
}

/* One folder of a control group, version 2 or 1. File pages that nobody used lately are given back under pressure. */
static void lower_to_group(comet_memory_limit *limit, const char *folder)
{
    static const char *const names[2][2] = {{"memory.max", "memory.current"},
                                            {"memory.limit_in_bytes", "memory.usage_in_bytes"}};
    for (int i = 0; i < 2; i++) {
        char path[3][512];
        uint64_t most = 0, used = 0, cached = 0;
        snprintf(path[0], sizeof path[0], "%s/%s", folder, names[i][0]);
        snprintf(path[1], sizeof path[1], "%s/%s", folder, names[i][1]);
        snprintf(path[2], sizeof path[2], "%s/memory.stat", folder);
        if (!number_after(path[0], "", &most) || !number_after(path[1], "", &used))
            continue;
        number_after(path[2], "inactive_file ", &cached);
        lower(limit, less(most, less(used, cached)), limit->used, "control group");
    }
}

/* A group, such as "/user/job", those above it, and the root. */
static void lower_to_groups(comet_memory_limit *limit, const char *root, char *group)
{
    char folder[400], *slash = group;
    while (slash) {
        snprintf(folder, sizeof folder, "%s%s", root, group);
        lower_to_group(limit, folder);
        slash = strrchr(group, '/');
        if (slash)
            *slash = '\0';
    }
}

/* Lines such as "0::/user/job" for version 2, "4:memory:/user/job" for version 1. In a container the path may be that outside,
 * and the roots are its own groups. */
static void lower_to_own_groups(comet_memory_limit *limit)
{
    char line[300];
    FILE *file = fopen("/proc/self/cgroup", "re");
    while (file && fgets(line, sizeof line, file)) {
        char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;
        line[strcspn(line, "\n")] = '\0';
        if (!group)
            continue;
        *group++ = '\0';
        if (controllers[1] == '\0')
            lower_to_groups(limit, "/sys/fs/cgroup", group);
        else if (strstr(controllers, "memory"))
            lower_to_groups(limit, "/sys/fs/cgroup/memory", group);
    }
    if (file)
        fclose(file);
    lower_to_group(limit, "/sys/fs/cgroup");
    lower_to_group(limit, "/sys/fs/cgroup/memory");
}

comet_memory_limit comet_memory_resident_limit(void)
{
    comet_memory_limit limit = {.bytes = UINT64_MAX, .used = status_bytes("VmRSS:"), .name = "none"};
    uint64_t kilobytes = 0;
    if (number_after("/proc/meminfo", "MemAvailable:", &kilobytes))
        lower(&limit, kilobytes * 1024, limit.used, "free memory");
    lower_to_own_groups(&limit);
    return limit;
}

static void lower_to_rlimit(comet_memory_limit *limit, int resource, const char *used_key, const char *name)
{
    struct rlimit r;
    const uint64_t used = status_bytes(used_key);
    if (getrlimit(resource, &r) == 0 && r.rlim_cur != RLIM_INFINITY)
        lower(limit, less((uint64_t)r.rlim_cur, used), used, name);
}

comet_memory_limit comet_memory_address_limit(void)
{
    comet_memory_limit limit = {.bytes = UINT64_MAX, .used = status_bytes("VmSize:"), .name = "none"};
    lower_to_rlimit(&limit, RLIMIT_AS, "VmSize:", "ulimit -v");
    lower_to_rlimit(&limit, RLIMIT_DATA, "VmData:", "ulimit -d");
    return limit;
}

static comet_memory_limit tighter(comet_memory_limit a, comet_memory_limit b)
{
    return a.bytes < b.bytes ? a : b;
}

uint64_t comet_memory_available(void)
{
    return tighter(comet_memory_resident_limit(), comet_memory_address_limit()).bytes;
}

/* ---- does a model fit? ---- */

/* Loaders that are open at once, and the threads that each has by default. */
enum { LOADERS = 2, LOADER_THREADS = 4 };

/* Addresses that malloc and oneDNN take after a net was planned. */
static const uint64_t later_addresses = 12 << 20;

/* The address space of threads that are yet to be started: whole stacks, of which they touch little. Layers and the codec have
 * threads of their own each. */
static uint64_t stacks_of(const comet_model_params *params)
{
    pthread_attr_t attributes;
    size_t bytes = 8 << 20;
    const size_t cores = comet_cores(), n = params->n_threads > 0 ? params->n_threads : cores;
    if (pthread_attr_init(&attributes) == 0) {
        pthread_attr_getstacksize(&attributes, &bytes);
        pthread_attr_destroy(&attributes);
    }
    return (uint64_t)bytes * (2 * (n - 1) + LOADERS * (cores < LOADER_THREADS ? cores : LOADER_THREADS));
}

/* A plan and the queues of loaders. */
static comet_status bytes_needed(const comet_net *net, const comet_model_params *params, uint32_t batch,
                                 uint64_t bytes_per_image, uint64_t *bytes)
{
    comet_model_params changed = *params;
    comet_memory memory;
    changed.batch = batch;
    const comet_status status = comet_model_plan(net, &changed, &memory);
    if (status == COMET_OK)
        *bytes = memory.total + bytes_per_image * batch;
    return status;
}

/* The largest batch below params->batch that needs no more than `room`, or 0. */
static comet_status largest_batch(const comet_net *net, const comet_model_params *params, uint64_t bytes_per_image,
                                  uint64_t room, uint32_t *batch)
{
    uint32_t fits = 0, too_large = params->batch;
    while (too_large - fits > 1) {
        const uint32_t middle = fits + (too_large - fits) / 2;
        uint64_t bytes = 0;
        const comet_status status = bytes_needed(net, params, middle, bytes_per_image, &bytes);
        if (status != COMET_OK)
            return status;
        if (bytes <= room)
            fits = middle;
        else
            too_large = middle;
    }
    *batch = fits;
    return COMET_OK;
}

static comet_status refuse(const comet_net *net, const comet_model_params *params, uint64_t bytes_per_image, uint64_t bytes,
                           uint64_t beside, const comet_memory_limit *limit)
{
    char fitting[64] = "not even batch 1 would fit";
    const double mib = 1 << 20;
    uint32_t batch = 0;
    const comet_status status = largest_batch(net, params, bytes_per_image, less(limit->bytes, beside), &batch);
    if (status != COMET_OK)
        return status;
    if (batch > 0)
        snprintf(fitting, sizeof fitting, "batch %" PRIu32 " would fit", batch);
    return comet_fail(COMET_ERROR_MEMORY, "batch %" PRIu32 " needs %.0f MiB, %.0f MiB are free (%s); %s", params->batch,
                      (double)(bytes + beside) / mib, (double)limit->bytes / mib, limit->name, fitting);
}

#define LEAST_AVAILABLE ((uint64_t)64 << 20)

comet_status comet_model_check_memory(const comet_net *net, const comet_model_params *params, uint64_t bytes_per_image)
{
    const comet_memory_limit resident = comet_memory_resident_limit(), first = comet_memory_address_limit();
    const comet_memory_limit least = tighter(resident, first);
    uint64_t bytes = 0;
    if (least.bytes < LEAST_AVAILABLE) /* oneDNN does not survive a lack of memory for its code while a net is planned */
        return comet_fail(COMET_ERROR_MEMORY, "%.0f MiB are free (%s); no net trains in less than %.0f",
                          (double)least.bytes / (1 << 20), least.name, (double)LEAST_AVAILABLE / (1 << 20));
    const comet_status status = bytes_needed(net, params, params->batch, bytes_per_image, &bytes);
    if (status != COMET_OK)
        return status;
    /* After the plan: each kernel that it made has 256 KiB of addresses, however short it is, and is used again by the run. */
    const comet_memory_limit address = comet_memory_address_limit();
    const uint64_t stacks = stacks_of(params) + later_addresses;
    const uint64_t room = less(resident.bytes, COMET_MEMORY_BESIDE_PLAN), address_room = less(address.bytes, stacks);
    if (bytes <= room && bytes <= address_room)
        return COMET_OK;
    if (room < address_room)
        return refuse(net, params, bytes_per_image, bytes, COMET_MEMORY_BESIDE_PLAN, &resident);
    return refuse(net, params, bytes_per_image, bytes, stacks, &address);
}
