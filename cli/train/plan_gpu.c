/*
 * The speed of the codec on a GPU, by a model of what its kernels execute (gpu_counts.h, counted in an interpreter of their
 * PTX):
 *
 *   a stage     takes the cycles of its busiest unit: schedulers (4 instructions of warps a cycle and multiprocessor), pipes
 * for integers, products, conversions and double precision (lanes / 32), load-store unit (1 turn) a kernel    takes the longer
 * of its stages one after the other and its bytes through memory, both at REACHED of the peak a call      takes its kernels one
 * after the other and LAUNCH seconds for each
 *
 * docs/gpu.md says what it leaves out. Speeds are those of the tensor's bytes.
 */
#include "train/plan_gpu.h"

#include <stdio.h>
#include <string.h>

#include "kit/json_out.h"
#include "kit/say.h"

#define REACHED 0.9
#define LAUNCH 3e-6
#define TENSOR_BYTES 100e6
#define ELEMENT_BYTES 4
enum { SCHEDULERS = 4, WARP = 32, CONVERSION_LANES = 16 };

typedef struct device {
    const char *name;
    double n_units, clock, bandwidth;                  /* multiprocessors, GHz at boost, GB/s */
    double integer_lanes, product_lanes, double_lanes; /* of a multiprocessor */
} device;

/* From NVIDIA's data sheets and its table of the throughput of instructions. */
static const device devices[] = {
    {"v100", 80, 1.53, 900, 64, 64, 32},      {"t4", 40, 1.59, 320, 64, 64, 2},
    {"a100", 108, 1.41, 1555, 64, 64, 32},    {"a100-80gb", 108, 1.41, 2039, 64, 64, 32},
    {"a10", 72, 1.695, 600, 64, 128, 2},      {"rtx3090", 82, 1.695, 936, 64, 128, 2},
    {"rtx4090", 128, 2.52, 1008, 64, 128, 2}, {"l40s", 142, 2.52, 864, 64, 128, 2},
    {"h100", 132, 1.83, 3350, 64, 128, 64},   {"h200", 132, 1.83, 4800, 64, 128, 64},
    {"b200", 148, 1.85, 8000, 64, 128, 64},   {"rtx5090", 170, 2.407, 1792, 128, 128, 2},
};

typedef struct count {
    const char *tensor, *call, *kernel, *stage; /* "ratio" rows: the level in place of the kernel */
    double slots, integers, products, conversions, turns, doubles, asked_bytes, read_bytes, written_bytes; /* for an element */
} count;

static const count counts[] = {
#include "train/gpu_counts.h"
};

static const char *const tensors[] = {"relu", "bn"};
/* `name` is that of the table. */
typedef struct call {
    const char *name, *level, *direction;
} call;

static const call calls[] = {{"encode", "fast", "encode"},
                             {"decode", "fast", "decode"},
                             {"encode dense", "dense", "encode"},
                             {"decode dense", "dense", "decode"}};

/* ---- the model ---- */

static double largest(const double *v, size_t n, size_t *which)
{
    *which = 0;
    for (size_t i = 1; i < n; i++)
        if (v[i] > v[*which])
            *which = i;
    return v[*which];
}

/* Seconds for an element; *unit is the busiest. */
static double stage_seconds(const device *d, const count *c, size_t *unit)
{
    const double cycles[] = {c->slots / SCHEDULERS,
                             c->integers * WARP / d->integer_lanes,
                             c->products * WARP / d->product_lanes,
                             c->conversions * WARP / CONVERSION_LANES,
                             c->turns,
                             c->doubles * WARP / d->double_lanes};
    return largest(cycles, N_ITEMS(cycles), unit) / (d->n_units * d->clock * 1e9 * REACHED);
}

static const char *const unit_names[] = {"instructions", "integers", "products", "conversions", "loads and stores", "doubles"};

typedef struct forecast {
    double ratio, seconds, memory_seconds; /* for an element; memory_seconds: of kernels that memory limits */
    const count *worst;                    /* the stage that takes longest */
    double worst_seconds;
} forecast;

static bool same_kernel(const count *a, const count *b)
{
    return strcmp(a->tensor, b->tensor) == 0 && strcmp(a->call, b->call) == 0 && strcmp(a->kernel, b->kernel) == 0;
}

/* Rows from *i on are of one kernel; goes on to the next. */
static void add_kernel(const device *d, size_t *i, forecast *f)
{
    const count *first = &counts[*i];
    double computing = 0, bytes = 0;
    size_t unit;
    for (; *i < N_ITEMS(counts) && same_kernel(first, &counts[*i]); ++*i) {
        const double seconds = stage_seconds(d, &counts[*i], &unit);
        computing += seconds;
        bytes += counts[*i].read_bytes + counts[*i].written_bytes;
        if (seconds > f->worst_seconds) {
            f->worst = &counts[*i];
            f->worst_seconds = seconds;
        }
    }
    const double memory = bytes / (d->bandwidth * 1e9 * REACHED);
    f->seconds += (memory > computing ? memory : computing) + LAUNCH * ELEMENT_BYTES / TENSOR_BYTES;
    f->memory_seconds += memory > computing ? memory : 0;
}

static forecast predict(const device *d, const char *tensor, const call *what)
{
    forecast f = {.ratio = 0};
    for (size_t i = 0; i < N_ITEMS(counts);) {
        const count *c = &counts[i];
        const bool is_ratio = strcmp(c->call, "ratio") == 0;
        if (strcmp(c->tensor, tensor) == 0 && is_ratio && strcmp(c->kernel, what->level) == 0)
            f.ratio = c->slots;
        if (strcmp(c->tensor, tensor) == 0 && strcmp(c->call, what->name) == 0)
            add_kernel(d, &i, &f);
        else
            i++;
    }
    return f;
}

static double speed(const forecast *f)
{
    return ELEMENT_BYTES / f->seconds;
}

/* ---- printing ---- */

static void print_stages(const device *d, const char *tensor, const char *name, const forecast *f)
{
    for (size_t i = 0; i < N_ITEMS(counts); i++) {
        size_t unit;
        const count *c = &counts[i];
        const double share = stage_seconds(d, c, &unit) / f->seconds;
        if (strcmp(c->tensor, tensor) == 0 && strcmp(c->call, name) == 0 && share >= 0.03)
            printf("    %-17s %-46s %3.0f %%  %s\n", c->kernel, c->stage, 100 * share, unit_names[unit]);
    }
}

static void print_tables(const device *d)
{
    printf("%s: %g multiprocessors at %g GHz, memory of %g GB/s. By a model: no GPU has run it.\n", d->name, d->n_units,
           d->clock, d->bandwidth);
    printf("f32, a tensor of %g MB\n", TENSOR_BYTES / 1e6);
    for (size_t t = 0; t < N_ITEMS(tensors); t++)
        for (size_t k = 0; k < N_ITEMS(calls); k++) {
            const forecast f = predict(d, tensors[t], &calls[k]);
            printf("  %-4s level %s, ratio %.1f, %s: %.0f GB/s, %.0f %% of memory's speed; time by stage:\n", tensors[t],
                   calls[k].level, f.ratio, calls[k].direction, speed(&f) / 1e9, 100 * speed(&f) / (d->bandwidth * 1e9));
            print_stages(d, tensors[t], calls[k].name, &f);
        }
}

static cli_exit print_object(const device *d, const char *tensor, const call *what)
{
    const forecast f = predict(d, tensor, what);
    json j = json_begin();
    json_add_text(&j, "gpu", d->name);
    json_add_text(&j, "tensor", tensor);
    json_add_text(&j, "level", what->level);
    json_add_text(&j, "direction", what->direction);
    json_add_double(&j, "ratio", f.ratio);
    json_add_double(&j, "bytes_per_s", speed(&f));
    json_add_double(&j, "memory_bytes_per_s", d->bandwidth * 1e9);
    json_add_double(&j, "share_of_memory_speed", speed(&f) / (d->bandwidth * 1e9));
    json_add_double(&j, "share_limited_by_memory", f.memory_seconds / f.seconds);
    json_add_text(&j, "longest_stage", f.worst->stage);
    json_add_text(&j, "longest_stage_kernel", f.worst->kernel);
    json_add_double(&j, "longest_stage_share", f.worst_seconds / f.seconds);
    return json_print(&j);
}

static cli_exit print_objects(const device *d)
{
    cli_exit code = CLI_OK;
    for (size_t t = 0; t < N_ITEMS(tensors); t++)
        for (size_t k = 0; k < N_ITEMS(calls) && code == CLI_OK; k++)
            code = print_object(d, tensors[t], &calls[k]);
    return code;
}

static cli_exit fail_unknown(const char *name)
{
    char known[256] = "";
    size_t n = 0;
    for (size_t i = 0; i < N_ITEMS(devices); i++)
        n += (size_t)snprintf(known + n, sizeof known - n, "%s%s", i ? ", " : "", devices[i].name);
    return fail(CLI_USAGE, "--gpu: no figures of \"%.40s\"; known are %s", name, known);
}

cli_exit plan_gpu(const char *name, bool as_json)
{
    for (size_t i = 0; i < N_ITEMS(devices); i++)
        if (strcmp(devices[i].name, name) == 0) {
            if (as_json)
                return print_objects(&devices[i]);
            print_tables(&devices[i]);
            return CLI_OK;
        }
    return fail_unknown(name);
}
