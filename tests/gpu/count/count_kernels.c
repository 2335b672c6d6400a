/*
 * Counts what the GPU's kernels execute, by stage, for the model of `comet plan --gpu`: runs them on a tensor through the CUDA
 * back end and the mock of the driver, and writes rows of cli/train/gpu_counts.h. tools/count_gpu calls it.
 *
 * usage: count_kernels MOCK KIND LEVEL TENSOR BOUND PTX16 PTX32 SOURCE SASS
 *
 * LEVEL is fast or dense. TENSOR has bare f32 elements, 2 x 64 x 56 x 56 of them.
 * PTX16 and PTX32 are the kernels compiled with -lineinfo from SOURCE, whose comments `---- name ----` in kernels name the
 * stages; "-" for one stage a kernel. SASS is the output of tools/count_sass; "-" for as many instructions as there are in the
 * PTX.
 *
 * An instruction of PTX has a number of slots, what a scheduler issues for it, by its type (`costs`). The slots of a kernel are
 * scaled so that they add up to the instructions that ptxas makes of it, and arithmetic is shared out among two pipes as ptxas
 * does.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comet/gpu.h"
#include "gpu/mock_library.h"
#include "gpu/ptx/ptx.h"
#include "testing.h"

enum { MAX_STAGES = 40, NAME = 48, LINE = 300 };

static const uint64_t dims[] = {2, 64, 56, 56};

/* ---- what instructions cost ---- */

enum pipe { PIPE_NONE, PIPE_INT, PIPE_FMA, PIPE_XU, PIPE_LSU, PIPE_FP64, N_PIPES };

/* The first row that the mnemonic begins with, and whose type it ends with, holds. */
static const struct {
    const char *begins, *ends;
    double slots;
    enum pipe pipe;
} costs[] = {
    {"ld.param", "", 0, PIPE_NONE}, /* operands from constant memory */
    {"cvta", "", 0, PIPE_NONE},     {"ld.", "", 1, PIPE_LSU},      {"st.", "", 1, PIPE_LSU},      {"atom", "", 1, PIPE_LSU},
    {"red", "", 1, PIPE_LSU},       {"shfl", "", 1, PIPE_LSU},     {"bra", "", 1, PIPE_NONE},     {"bar", "", 1, PIPE_NONE},
    {"ret", "", 1, PIPE_NONE},      {"div", "64", 70, PIPE_INT},   {"rem", "64", 70, PIPE_INT},   {"div", "32", 20, PIPE_INT},
    {"rem", "32", 20, PIPE_INT},    {"div", "16", 10, PIPE_INT},   {"rem", "16", 10, PIPE_INT},   {"mul.hi", "64", 6, PIPE_FMA},
    {"mul.lo", "64", 4, PIPE_FMA},  {"mul.wide", "", 1, PIPE_FMA}, {"mad.wide", "", 1, PIPE_FMA}, {"mul", "f64", 1, PIPE_FP64},
    {"add", "f64", 1, PIPE_FP64},   {"setp", "f64", 1, PIPE_FP64}, {"mul", "", 1, PIPE_FMA},      {"mad", "", 1, PIPE_FMA},
    {"fma", "", 1, PIPE_FMA},       {"add", "f32", 1, PIPE_FMA},   {"sub", "f32", 1, PIPE_FMA},   {"popc", "", 1, PIPE_XU},
    {"clz", "", 2, PIPE_XU},        {"cvt.r", "", 1, PIPE_XU}, /* between floating point and integers */
    {"cvt", "", 0.5, PIPE_INT},                                /* often nothing but another name */
    {"mov", "", 0.5, PIPE_FMA},     {"shl", "64", 3, PIPE_INT},    {"shr", "64", 3, PIPE_INT},    {"bfi", "32", 2, PIPE_INT},
    {"bfe", "32", 2, PIPE_INT},     {"", "64", 2, PIPE_INT},       {"", "", 1, PIPE_INT},
};

static size_t cost_of(const char *mnemonic)
{
    const size_t n = strlen(mnemonic);
    for (size_t i = 0;; i++) {
        const size_t ends = strlen(costs[i].ends);
        if (strncmp(mnemonic, costs[i].begins, strlen(costs[i].begins)) == 0 && ends <= n &&
            strcmp(mnemonic + n - ends, costs[i].ends) == 0)
            return i;
    }
}

/* ---- stages ---- */

typedef struct stage {
    char name[NAME];
    double slots, pipe[N_PIPES], sectors;
} stage;

typedef struct tally {
    stage stages[MAX_STAGES];
    size_t n;
    double slots_written; /* those of the kernel's text, each once */
} tally;

static char *read_text(const char *path)
{
    const blob file = read_file("", path);
    char *text = need_malloc(file.bytes + 1);
    memcpy(text, file.data, file.bytes);
    text[file.bytes] = 0;
    free(file.data);
    return text;
}

/* The lines of the kernel that a line belongs to: from one line that begins with KERNEL to the next. */
typedef struct extent {
    int begin, end;
} extent;

static extent extent_of(const char *source, int line)
{
    extent e = {0, 1 << 30};
    int at = 1;
    for (const char *p = source; p; p = strchr(p, '\n'), p += p != NULL, at++)
        if (strncmp(p, "KERNEL ", 7) == 0 && at <= line)
            e.begin = at;
        else if (strncmp(p, "KERNEL ", 7) == 0 && at < e.end)
            e.end = at;
    return e;
}

/* The last heading of the kernel before a line; "start" before the first. */
static void stage_of_line(const char *source, const extent *kernel, int line, char name[NAME])
{
    int at = 1;
    snprintf(name, NAME, "start");
    for (const char *p = source; p && at <= line; p = strchr(p, '\n'), p += p != NULL, at++) {
        if (at < kernel->begin || strncmp(p, "    /* ---- ", 12) != 0)
            continue;
        snprintf(name, NAME, "%.47s", p + 12);
        name[strcspn(name, ":;,?\n")] = 0;
        if (strstr(name, " ---"))
            *strstr(name, " ---") = 0;
    }
}

static stage *find_stage(tally *t, const char *name)
{
    for (size_t i = 0; i < t->n; i++)
        if (strcmp(t->stages[i].name, name) == 0)
            return &t->stages[i];
    assert_true(t->n < MAX_STAGES);
    snprintf(t->stages[t->n].name, NAME, "%s", name);
    return &t->stages[t->n++];
}

/* Operations of the module with lines are those of the one that ran. */
static void tally_kernel(const mock_kernel_counts *c, const ptx_module *with_lines, const char *source, tally *t)
{
    const ptx_kernel *lines = with_lines ? ptx_kernel_find(with_lines, ptx_kernel_name(c->kernel)) : NULL;
    if (with_lines && (!lines || ptx_kernel_ops(lines) != ptx_kernel_ops(c->kernel)))
        fail_because("%s is another kernel in the PTX with lines", ptx_kernel_name(c->kernel));
    char name[NAME] = "all";
    extent kernel = {0, 0};
    *t = (tally){.n = 0};
    for (size_t i = 0; i < ptx_kernel_ops(c->kernel); i++) {
        const char *mnemonic = ptx_kernel_op(c->kernel, i).mnemonic;
        const ptx_count *count = &c->counts[i];
        const size_t cost = cost_of(mnemonic);
        const int line = lines ? ptx_module_location(with_lines, ptx_kernel_op(lines, i).location).line : 0;
        if (lines && i == 0)
            kernel = extent_of(source, line);
        if (lines && line >= kernel.begin && line < kernel.end) /* else it is as the one before */
            stage_of_line(source, &kernel, line, name);
        t->slots_written += costs[cost].slots;
        if (!count->issued)
            continue;
        stage *s = find_stage(t, name);
        const double slots = (double)count->issued * costs[cost].slots;
        s->slots += slots;
        s->sectors += (double)count->sectors;
        /* the load-store unit takes a bank's words one after the other, and 4 sectors at a time */
        s->pipe[costs[cost].pipe] += costs[cost].pipe != PIPE_LSU ? slots
                                     : count->turns               ? (double)count->turns
                                     : count->sectors             ? (double)count->sectors / 4
                                                                  : slots;
    }
}

/* ---- running ---- */

typedef struct job_run {
    comet_gpu *gpu;
    comet_tensor tensor;
    comet_params params;
    comet_gpu_plan plan;
    comet_gpu_pointer x, frame, work, result;
    uint64_t frame_bytes;
    bool dense;
} job_run;

static comet_gpu_pointer room(comet_gpu *gpu, uint64_t bytes)
{
    comet_gpu_pointer p = {0, 0};
    assert_ok(comet_gpu_allocate(gpu, bytes, &p.memory));
    return p;
}

static void prepare(job_run *r, const char *path, double bound)
{
    const blob file = read_file("", path);
    r->tensor = tensor_of(COMET_DTYPE_F32, COMET_LAYOUT_PLANAR, 4, dims);
    r->params = params_of(r->dense ? COMET_LEVEL_DENSE : COMET_LEVEL_FAST, bound);
    r->params.profile = COMET_PROFILE_DEVICE;
    comet_gpu_plan_init(&r->plan);
    assert_ok(comet_gpu_plan_tensor(&r->tensor, &r->params, &r->plan));
    assert_int_equal(file.bytes, r->plan.tensor_bytes);
    assert_ok(comet_gpu_open("cuda:0", NULL, &r->gpu));
    const uint64_t most = r->plan.encode_bytes > r->plan.summary_bytes ? r->plan.encode_bytes : r->plan.summary_bytes;
    r->x = room(r->gpu, r->plan.tensor_bytes);
    r->frame = room(r->gpu, r->plan.frame_bytes);
    r->work = room(r->gpu, most > r->plan.decode_bytes ? most : r->plan.decode_bytes);
    r->result = room(r->gpu, sizeof(comet_gpu_result));
    assert_ok(comet_gpu_write(r->gpu, r->x, file.data, file.bytes));
    free(file.data);
}

static comet_gpu_result result_of(const job_run *r)
{
    comet_gpu_result result;
    assert_ok(comet_gpu_read(r->gpu, r->result, &result, sizeof result));
    assert_int_equal(result.status, COMET_OK);
    return result;
}

static void execute(job_run *r)
{
    assert_ok(comet_gpu_encode(r->gpu, &r->tensor, &r->params, r->x, r->frame, r->plan.frame_bytes, r->work, r->result, NULL));
    r->frame_bytes = result_of(r).bytes;
    assert_ok(comet_gpu_decode(r->gpu, &r->tensor, &r->params, r->frame, r->frame_bytes, r->x, r->work, r->result, NULL));
    result_of(r);
}

/* ---- rows ---- */

/* What ptxas makes of a kernel: instructions, those of the pipe for integers and those of the pipe for products. */
typedef struct sass {
    double all, integers, products;
} sass;

/* All 0 where that is not known. */
static sass sass_of(const char *table, const char *kernel)
{
    char word[NAME];
    sass found = {0, 0, 0};
    snprintf(word, sizeof word, "%s ", kernel);
    const char *line = table ? strstr(table, word) : NULL;
    if (line && sscanf(line + strlen(word), "%lf %lf %lf", &found.all, &found.integers, &found.products) != 3)
        fail_because("no three numbers for %s", kernel);
    return found;
}

static void print_kernel(const job_run *r, const char *kind, const char *call, const mock_kernel_counts *c, const tally *t,
                         const sass *made)
{
    const double n = (double)r->plan.n_elements, factor = made->all > 0 ? made->all / t->slots_written : 1;
    const double arithmetic = made->integers + made->products;
    for (size_t i = 0; i < t->n; i++) {
        const stage *s = &t->stages[i];
        double integers = s->pipe[PIPE_INT], products = s->pipe[PIPE_FMA];
        if (arithmetic > 0) { /* ptxas moves instructions from one pipe to the other */
            products = (s->pipe[PIPE_INT] + s->pipe[PIPE_FMA]) * made->products / arithmetic;
            integers = (s->pipe[PIPE_INT] + s->pipe[PIPE_FMA]) * made->integers / arithmetic;
        }
        printf("    {\"%s\", \"%s\", \"%s\", \"%s\", %.4g, %.4g, %.4g, %.4g, %.4g, %.4g, %.4g, %.4g, %.4g},\n", kind, call,
               ptx_kernel_name(c->kernel), s->name, factor * s->slots / n, factor * integers / n, factor * products / n,
               s->pipe[PIPE_XU] / n, s->pipe[PIPE_LSU] / n, s->pipe[PIPE_FP64] / n, 32 * s->sectors / n,
               i ? 0 : 32 * (double)c->sectors_read / n, i ? 0 : 32 * (double)c->sectors_written / n);
    }
}

/* The kernels of a call, in the order of their launches. */
static const struct {
    const char *kernel, *call;
    int wide;
} kernels[] = {{"encode_16", "encode", 0},
               {"encode_32", "encode", 1},
               {"place", "encode", 0},
               {"compact", "encode", 0},
               {"open_frame", "decode", 0},
               {"decode_16", "decode", 0},
               {"decode_32", "decode", 1},
               {"check_index", "decode", 0},
               {"quantise_parts_16", "encode dense", 0},
               {"quantise_parts_32", "encode dense", 1},
               {"sample_parts_16", "encode dense", 0},
               {"sample_parts_32", "encode dense", 1},
               {"choose_parts", "encode dense", 0},
               {"model_parts_16", "encode dense", 0},
               {"model_parts_32", "encode dense", 1},
               {"tabulate_parts", "encode dense", 0},
               {"code_parts_16", "encode dense", 0},
               {"code_parts_32", "encode dense", 1},
               {"size_parts", "encode dense", 0},
               {"place", "encode dense", 0},
               {"write_parts_16", "encode dense", 0},
               {"write_parts_32", "encode dense", 1},
               {"write_misfits", "encode dense", 0},
               {"compact", "encode dense", 0},
               {"open_frame", "decode dense", 0},
               {"decode_parts_16", "decode dense", 0},
               {"decode_parts_32", "decode dense", 1},
               {"put_outliers", "decode dense", 0},
               {"check_index", "decode dense", 0}};

static void print_all(const job_run *r, const char *kind, ptx_module *const lines[2], const char *source, const char *table)
{
    int (*counted)(const char *, mock_kernel_counts *);
    mock_find("mock_cuda_kernel_counts", &counted);
    printf("    {\"%s\", \"ratio\", \"%s\", \"\", %.4g, 0, 0, 0, 0, 0, 0, 0, 0},\n", kind, r->dense ? "dense" : "fast",
           (double)r->plan.tensor_bytes / (double)r->frame_bytes);
    for (size_t i = 0; i < COUNT_OF(kernels); i++) {
        if ((strstr(kernels[i].call, "dense") != NULL) != r->dense)
            continue;
        mock_kernel_counts c;
        tally t;
        assert_int_equal(counted(kernels[i].kernel, &c), 0);
        tally_kernel(&c, lines[kernels[i].wide], source, &t);
        const sass made = sass_of(table, kernels[i].kernel);
        print_kernel(r, kind, kernels[i].call, &c, &t, &made);
    }
}

int main(int argc, char **argv)
{
    if (argc != 10) {
        fprintf(stderr, "usage: count_kernels MOCK KIND LEVEL TENSOR BOUND PTX16 PTX32 SOURCE SASS\n");
        return 2;
    }
    char why[PTX_WHY_BYTES];
    const bool by_line = strcmp(argv[6], "-") != 0;
    char *source = by_line ? read_text(argv[8]) : NULL, *table = strcmp(argv[9], "-") != 0 ? read_text(argv[9]) : NULL;
    ptx_module *lines[2] = {NULL, NULL};
    for (int i = 0; i < 2 && by_line; i++) {
        char *text = read_text(argv[6 + i]);
        lines[i] = ptx_module_make(text, why);
        if (!lines[i])
            fail_because("%s: %s", argv[6 + i], why);
        free(text);
    }
    mock_open_library(argv[1], "count=1");
    job_run r = {.dense = strcmp(argv[3], "dense") == 0};
    prepare(&r, argv[4], strtod(argv[5], NULL));
    execute(&r);
    print_all(&r, argv[2], lines, source, table);
    comet_gpu_close(r.gpu);
    return 0;
}
