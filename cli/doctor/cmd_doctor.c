/* comet doctor: what this CPU and this build can do, and whether it works. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/contender.h"
#include "doctor/gpu_report.h"
#include "doctor/self_test.h"
#include "kit/cpu_report.h"
#include "kit/json_out.h"
#include "kit/setters.h"
#include "kit/text.h"
#include "training.h"
#include "verbs.h"

typedef struct doctor_args {
    bool json, gpu;
} doctor_args;

static const option options[] = {{0, "gpu", NULL, set_flag, offsetof(doctor_args, gpu),
                                  "list GPUs and other devices, and test the codec on each: bytes against\n"
                                  "the CPU, speed against a copy on the device; a report to send"},
                                 OPTION_JSON(doctor_args, "print one JSON object (default: lines to read)")};

#if defined(__clang__)
static const char compiler[] = "clang " __clang_version__;
#elif defined(__GNUC__)
static const char compiler[] = "gcc " __VERSION__;
#else
static const char compiler[] = "unknown";
#endif

typedef struct findings {
    cpu_report cpu;
    comet_isa best, active;
    const char *cap;     /* COMET_MAX_ISA, or NULL */
    const char *ignored; /* the same where it names no family; cap is then NULL */
    self_test test;
} findings;

static const char *found(const char *version)
{
    return version ? version : "not in this build";
}

/* The library ignores a COMET_MAX_ISA that names no family; an empty one counts as unset. */
static void read_cap(findings *f)
{
    const char *wish = getenv("COMET_MAX_ISA");
    if (!wish || wish[0] == '\0')
        return;
    for (int isa = COMET_ISA_REFERENCE; isa <= COMET_ISA_AVX512; isa++)
        if (strcmp(wish, comet_isa_name((comet_isa)isa)) == 0)
            f->cap = wish;
    if (!f->cap)
        f->ignored = wish;
}

/* One line for each family above the active one. */
static void print_why_not(const findings *f)
{
    for (int isa = (int)f->active + 1; isa <= COMET_ISA_AVX512; isa++) {
        char why[80];
        if (isa <= (int)f->best)
            snprintf(why, sizeof why, "capped by COMET_MAX_ISA=%s", f->cap ? f->cap : "");
        else
            cpu_report_why_not(&f->cpu, (comet_isa)isa, why, sizeof why);
        printf("  not %-10s%s\n", comet_isa_name((comet_isa)isa), why);
    }
}

static void print_features(const cpu_report *cpu)
{
    printf("features     ");
    for (size_t i = 0; i < cpu->features.n; i++)
        if (cpu->features.items[i].present)
            printf(" %s", cpu->features.items[i].name);
    printf("\n");
}

static void print_training(void)
{
    if (training_missing())
        printf("training      not in this build: %s\n", training_missing());
    else
        printf("training      on oneDNN %s, built with %s\n", training_dnnl_version(), training_dnnl_version_built());
}

static void print_lines(const findings *f)
{
    const cpu_report *cpu = &f->cpu;
    char shown[PRINTABLE_BYTES];
    printf("comet         %s, header %s\n", comet_version(), COMET_VERSION_STRING);
    printf("compiler      %s\n", compiler);
    printf("cpu           %s (%s)\n", text_printable(cpu->model, shown, sizeof shown), cpu->features.architecture);
    print_features(cpu);
    printf("system saves  %s\n", cpu->features.os_saves_zmm   ? "ymm and zmm registers"
                                 : cpu->features.os_saves_ymm ? "ymm registers"
                                                              : "neither ymm nor zmm");
    printf("kernels       %s active, %s best, cap %s\n", comet_isa_name(f->active), comet_isa_name(f->best),
           f->cap ? f->cap : "none");
    if (f->ignored)
        printf("  COMET_MAX_ISA=%s is unknown and ignored: write reference, neon, avx2 or avx512\n",
               text_printable(f->ignored, shown, sizeof shown));
    print_why_not(f);
    printf("cores         %ld\n", cpu->n_cores);
    printf("memory        %.1f GiB, pages of %ld bytes\n", (double)cpu->memory_bytes / 0x1p30, cpu->page_bytes);
    print_training();
    printf("zfp           %s\n", found(contender_zfp_version()));
    printf("zstd          %s\n", found(contender_zstd_version()));
    printf("self test     %s: %u frames by %u kernel families, %s, %s\n",
           f->test.identical && f->test.within_bound ? "passed" : "FAILED", f->test.n_frames, f->test.n_families,
           f->test.identical ? "identical bytes" : "BYTES DIFFER", f->test.within_bound ? "within the bound" : "BOUND BROKEN");
}

static cli_exit print_json(const findings *f)
{
    const cpu_report *cpu = &f->cpu;
    json j = json_begin();
    json_add_text(&j, "version", comet_version());
    json_add_text(&j, "compiler", compiler);
    json_add_text(&j, "cpu", cpu->model);
    json_add_text(&j, "architecture", cpu->features.architecture);
    for (size_t i = 0; i < cpu->features.n; i++)
        json_add_bool(&j, cpu->features.items[i].name, cpu->features.items[i].present);
    json_add_bool(&j, "os_saves_ymm", cpu->features.os_saves_ymm);
    json_add_bool(&j, "os_saves_zmm", cpu->features.os_saves_zmm);
    json_add_text(&j, "kernels_best", comet_isa_name(f->best));
    json_add_text(&j, "kernels_active", comet_isa_name(f->active));
    json_add_text(&j, "kernels_cap", f->cap);
    json_add_text(&j, "kernels_cap_ignored", f->ignored);
    json_add_u64(&j, "cores", (uint64_t)(cpu->n_cores > 0 ? cpu->n_cores : 0));
    json_add_u64(&j, "memory_bytes", cpu->memory_bytes);
    json_add_u64(&j, "page_bytes", (uint64_t)(cpu->page_bytes > 0 ? cpu->page_bytes : 0));
    json_add_text(&j, "training_on_dnnl", training_dnnl_version());
    json_add_text(&j, "training_built_with_dnnl", training_dnnl_version_built());
    json_add_text(&j, "training_missing", training_missing());
    json_add_text(&j, "zfp", contender_zfp_version());
    json_add_text(&j, "zstd", contender_zstd_version());
    json_add_u64(&j, "self_test_frames", f->test.n_frames);
    json_add_bool(&j, "self_test_identical", f->test.identical);
    json_add_bool(&j, "self_test_within_bound", f->test.within_bound);
    return json_print(&j);
}

static cli_exit run(const void *given, char **operands, size_t n_operands)
{
    const doctor_args *args = given;
    findings f = {.best = comet_isa_best(), .active = comet_isa_active()};
    (void)operands;
    (void)n_operands;
    if (args->gpu)
        return gpu_report_run(args->json);
    read_cap(&f);
    cpu_report_fill(&f.cpu);
    cli_exit code = self_test_run(&f.test);
    if (code != CLI_OK)
        return code;
    if (args->json)
        code = print_json(&f);
    else
        print_lines(&f);
    if (code == CLI_OK && !(f.test.identical && f.test.within_bound))
        code = fail(CLI_FAILED, "the self test failed");
    return code == CLI_OK ? training_check() : code;
}

const verb verb_doctor = {
    .name = "doctor",
    .summary = "Show what this CPU and build can do, and test that it works",
    .usage = "[--gpu] [--json]",
    .details = "The self test compresses small tensors with every kernel family that runs here and checks that\n"
               "the frames are the same and the elements within the bound; exit 1 if not. With --gpu it does so on\n"
               "every device of OpenCL and CUDA, and reports on nothing else: one JSON object for each with --json.\n",
    .examples = "  comet doctor\n"
                "  comet doctor --json\n"
                "  comet doctor --gpu > report.txt\n"
                "  COMET_MAX_ISA=avx2 comet doctor\n",
    .operands = (const char *const[]){NULL},
    .options = options,
    .n_options = N_ITEMS(options),
    .defaults = &(const doctor_args){.json = false},
    .args_bytes = sizeof(doctor_args),
    .run = run,
};
