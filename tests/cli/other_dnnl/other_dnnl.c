/* Preloaded into a program, makes its oneDNN appear to be version 9.8.7; all else is the real library's. */
/* Begins as dnnl_version_t does in every version. */
typedef struct version {
    int major, minor, patch;
    const char *hash;
    unsigned cpu_runtime, gpu_runtime;
} version;

const version *dnnl_version(void);

const version *dnnl_version(void)
{
    static const version other = {.major = 9, .minor = 8, .patch = 7, .hash = "none", .cpu_runtime = 2};
    return &other;
}
