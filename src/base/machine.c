/* What the machine has and gives to this process. Linux; elsewhere nothing is known and nothing is limited. */
#include "base/machine.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "base/bytes.h"
#include "base/describe.h"

double comet_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void comet_memory_limit_init(comet_memory_limit *limit)
{
    *limit = (comet_memory_limit){.size = sizeof *limit};
}

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

uint64_t comet_rss(void)
{
    return status_bytes("VmRSS:");
}

uint64_t comet_peak_address_space(void)
{
    return status_bytes("VmPeak:");
}

/* Resident pages of files: those of private mappings that were not copied when they were written to, or those of shared ones.
 * Each mapping has a line such as "7f12a000-7f12b000 r-xp 00001000 fe:01 42 /lib/x.so", then lines of its own sizes. */
static bool file_pages(bool shared, uint64_t *kilobytes)
{
    char line[512], permissions[8] = "";
    uint64_t total = 0, here = 0;
    bool counts = false;
    FILE *file = fopen("/proc/self/smaps", "re");
    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, "%*x-%*x %7s", permissions) == 1)
            counts = permissions[3] == (shared ? 's' : 'p');
        else if (counts && sscanf(line, "Rss: %" SCNu64, &here) == 1)
            total += here;
        else if (counts && !shared && sscanf(line, "Anonymous: %" SCNu64, &here) == 1)
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
    return file_pages(false, &kilobytes) || number_after("/proc/self/status", "RssFile:", &kilobytes) ? kilobytes * 1024 : 0;
}

uint64_t comet_shared_rss(void)
{
    uint64_t kilobytes = 0;
    return file_pages(true, &kilobytes) ? kilobytes * 1024 : 0;
}

uint64_t comet_stack_bytes(void)
{
    pthread_attr_t attributes;
    size_t bytes = 8 << 20;
    if (pthread_attr_init(&attributes) == 0) {
        pthread_attr_getstacksize(&attributes, &bytes);
        pthread_attr_destroy(&attributes);
    }
    return bytes;
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
        lower(limit, sub_u64(most, sub_u64(used, cached)), limit->used, "control group");
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

static comet_memory_limit resident_limit(void)
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
        lower(limit, sub_u64((uint64_t)r.rlim_cur, used), used, name);
}

static comet_memory_limit address_limit(void)
{
    comet_memory_limit limit = {.bytes = UINT64_MAX, .used = status_bytes("VmSize:"), .name = "none"};
    lower_to_rlimit(&limit, RLIMIT_AS, "VmSize:", "ulimit -v");
    lower_to_rlimit(&limit, RLIMIT_DATA, "VmData:", "ulimit -d");
    return limit;
}

comet_status comet_memory_resident_limit(comet_memory_limit *limit)
{
    const comet_memory_limit found = resident_limit();
    return GIVE(comet_memory_limit, limit, &found);
}

comet_status comet_memory_address_limit(comet_memory_limit *limit)
{
    const comet_memory_limit found = address_limit();
    return GIVE(comet_memory_limit, limit, &found);
}

uint64_t comet_memory_available(void)
{
    return min_u64(resident_limit().bytes, address_limit().bytes);
}
