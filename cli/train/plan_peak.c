/* What is in memory at the peak of a step; see plan_peak.h. */
#include "train/plan_peak.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/size_text.h"
#include "comet/peak.h"
#include "kit/json_out.h"
#include "kit/progress.h"
#include "train/train_budget.h"

static const uint64_t default_batch = 32;
/* The table joins lines of a kind below this share of the peak. */
static const double least_shown = 0.005;

static const char *const phase_names[] = {[COMET_PHASE_FORWARD] = "forward",
                                          [COMET_PHASE_LOSS] = "loss",
                                          [COMET_PHASE_WEIGHTS] = "gradients of weights",
                                          [COMET_PHASE_INPUT] = "gradient of the input"};

typedef struct peak_plan {
    const comet_net *net;
    comet_compress_mode mode;
    uint32_t batch;
    comet_peak *peak;
    comet_peak_moment moment;
} peak_plan;

cli_exit plan_peak_check(const plan_args *args)
{
    if (args->peak && (args->several.ranks.given || args->memory > 0 || args->place || args->gpu))
        return fail(CLI_USAGE, "--peak is about one batch of one process; --ranks, --place, --gpu and --memory are not");
    return CLI_OK;
}

static cli_exit find_peak(const plan_args *args, peak_plan *p)
{
    comet_budget *budget = NULL;
    comet_status status = plan_budget(args, p->net, &budget);
    if (status == COMET_OK)
        status = comet_budget_peak(budget, p->mode, p->batch, &p->peak);
    progress_hide();
    comet_budget_destroy(budget);
    if (status != COMET_OK)
        return fail_status(status, comet_net_name(p->net));
    comet_peak_moment_init(&p->moment);
    comet_peak_describe(p->peak, &p->moment);
    return CLI_OK;
}

static comet_peak_line line_at(const peak_plan *p, size_t i)
{
    comet_peak_line line;
    comet_peak_line_init(&line);
    comet_peak_buffer(p->peak, i, &line);
    return line;
}

/* ---- the table ---- */

static void print_line(const peak_plan *p, uint64_t bytes, const char *what, const char *layer)
{
    char size[SIZE_TEXT_BYTES];
    printf("%10s %6.1f %%  %-16s %s\n", comet_size_text(bytes, size), 100 * (double)bytes / (double)p->moment.bytes, what,
           layer);
}

/* Lines are sorted, so that those to be joined are the last ones. */
static void print_rest(const peak_plan *p, size_t begin)
{
    for (int kind = 0; kind <= COMET_PEAK_UNUSED; kind++) {
        uint64_t bytes = 0;
        size_t n = 0;
        comet_peak_line last = {.bytes = 0};
        for (size_t i = begin; i < p->moment.n_buffers; i++) {
            const comet_peak_line line = line_at(p, i);
            if (line.kind != (comet_peak_kind)kind)
                continue;
            bytes += line.bytes;
            last = line;
            n++;
        }
        char text[COMET_MAX_LAYER_NAME] = "";
        if (n > 1)
            snprintf(text, sizeof text, "(%zu smaller ones)", n);
        if (n > 0)
            print_line(p, bytes, comet_peak_kind_name((comet_peak_kind)kind), n > 1 ? text : last.layer);
    }
}

static void print_table(const peak_plan *p)
{
    char size[SIZE_TEXT_BYTES];
    const comet_shape in = comet_net_shape(p->net, 0);
    printf("%s, images of %" PRIu32 " x %" PRIu32 " x %" PRIu32 ", batch %" PRIu32 ", compression %s\n", comet_net_name(p->net),
           in.channels, in.height, in.width, p->batch, mode_name(p->mode));
    printf("peak: %s in %s %s%s%s\n", comet_size_text(p->moment.bytes, size),
           p->moment.phase <= COMET_PHASE_LOSS ? "the" : "backward,", phase_names[p->moment.phase],
           p->moment.layer[0] ? " of " : "", p->moment.layer);
    printf("%10s %8s  %-16s %s\n", "memory", "share", "what", "layer");
    size_t i = 0;
    for (; i < p->moment.n_buffers; i++) {
        const comet_peak_line line = line_at(p, i);
        if ((double)line.bytes < least_shown * (double)p->moment.bytes)
            break;
        print_line(p, line.bytes, comet_peak_kind_name(line.kind), line.layer);
    }
    print_rest(p, i);
}

/* ---- JSON ---- */

static cli_exit print_objects(const peak_plan *p)
{
    json j = json_begin();
    json_add_text(&j, "net", comet_net_name(p->net));
    json_add_u64(&j, "image", comet_net_shape(p->net, 0).height);
    json_add_text(&j, "compress", mode_name(p->mode));
    json_add_u64(&j, "batch", p->batch);
    json_add_u64(&j, "peak_bytes", p->moment.bytes);
    json_add_text(&j, "phase", phase_names[p->moment.phase]);
    json_add_text(&j, "layer", p->moment.layer);
    json_add_u64(&j, "buffers", p->moment.n_buffers);
    cli_exit code = json_print(&j);
    for (size_t i = 0; i < p->moment.n_buffers && code == CLI_OK; i++) {
        const comet_peak_line line = line_at(p, i);
        j = json_begin();
        json_add_text(&j, "what", comet_peak_kind_name(line.kind));
        json_add_text(&j, "layer", line.layer);
        json_add_u64(&j, "bytes", line.bytes);
        code = json_print(&j);
    }
    return code;
}

cli_exit plan_peak(const plan_args *args, const comet_net *net)
{
    peak_plan p = {.net = net,
                   .mode = args->compression.mode.given ? args->compression.mode.value : COMET_COMPRESS_AUTO,
                   .batch = (uint32_t)(args->batch > 0 ? args->batch : default_batch)};
    cli_exit code = find_peak(args, &p);
    if (code == CLI_OK && args->json)
        code = print_objects(&p);
    else if (code == CLI_OK)
        print_table(&p);
    comet_peak_destroy(p.peak);
    return code;
}
