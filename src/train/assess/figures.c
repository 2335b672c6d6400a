/* Figures of compression for those who ask: as a whole, and of each layer in the last assessment. */
#include <math.h>

#include "base/describe.h"
#include "train/assess/assess.h"
#include "train/ops/ops.h"

void comet_compression_init(comet_compression *compression)
{
    *compression = (comet_compression){.size = sizeof *compression, .noise = 0.01, .overhead = 0.05, .window = 1000};
}

const char *comet_compress_mode_name(comet_compress_mode mode)
{
    static const char *const names[] = {"off", "lossless", "fast", "dense", "auto"};
    return (unsigned)mode < sizeof names / sizeof names[0] ? names[mode] : "unknown";
}

comet_compression_figures assess_figures(const comet_model *m)
{
    comet_compression_figures f = {
        .mode = m->params.compression.mode, .ratio = NAN, .conv_ratio = NAN, .sigma_ratio_min = NAN, .sigma_ratio_max = NAN};
    const assessment *a = m->assessment;
    const comet_memory memory = memory_now(m);
    comet_store_totals t;
    comet_store_totals_init(&t);
    if (comet_store_describe(m->store, &t) == COMET_OK) {
        f.codec_seconds = (t.seconds_put + t.seconds_take) / m->params.n_threads;
        f.spilled_bytes = t.spilled_peak;
    }
    if (memory.saved > 0)
        f.ratio = (double)memory.saved_reference / (double)(memory.saved + f.spilled_bytes);
    if (!a)
        return f;
    f.n_assessments = a->n_assessments;
    f.n_withdrawals = a->n_withdrawals;
    f.n_nonfinite = a->n_nonfinite;
    f.nonfinite_layer = a->nonfinite_layer;
    if (a->held > 0)
        f.ratio = (double)memory.saved_reference / (double)a->held;
    if (a->conv_held > 0)
        f.conv_ratio = (double)a->conv_raw / (double)a->conv_held;
    adapt_sigma_ratios(a->adapt, &f.sigma_ratio_min, &f.sigma_ratio_max);
    return f;
}

void comet_compression_figures_init(comet_compression_figures *figures)
{
    *figures = (comet_compression_figures){.size = sizeof *figures};
}

comet_status comet_model_describe_compression(const comet_model *m, comet_compression_figures *figures)
{
    if (!m)
        return comet_fail(COMET_ERROR_ARGUMENT, "comet_model_describe_compression was given a null pointer");
    const comet_compression_figures f = assess_figures(m);
    return GIVE(comet_compression_figures, figures, &f);
}

void comet_step_figures_init(comet_step_figures *figures)
{
    *figures = (comet_step_figures){.size = sizeof *figures};
}

comet_status comet_model_describe_steps(const comet_model *m, comet_step_figures *figures)
{
    if (!m)
        return comet_fail(COMET_ERROR_ARGUMENT, "comet_model_describe_steps was given a null pointer");
    const double *seconds = m->clock.seconds;
    const comet_step_figures f = {.n_passes = m->n_passes,
                                  .forward = seconds[STEP_FORWARD],
                                  .backward = seconds[STEP_BACKWARD],
                                  .update = seconds[STEP_UPDATE],
                                  .encode = seconds[STEP_ENCODE],
                                  .decode = seconds[STEP_DECODE],
                                  .assess = seconds[STEP_ASSESS],
                                  .saved = m->step_saved,
                                  .spilled = m->step_spilled};
    return GIVE(comet_step_figures, figures, &f);
}

static const char *predictor_name(uint32_t predictor)
{
    static const char *const names[] = {"none", "left", "up", "lorenzo", "median", "linear"};
    return predictor < sizeof names / sizeof names[0] ? names[predictor] : "?";
}

/* About what `slot` holds for a consumer; `coarse`: how much more coarsely what a relu cut off is held. */
static comet_assessment_line line_about(const comet_model *m, comet_slot slot, uint32_t consumer, double coarse)
{
    const adapt *a = m->assessment->adapt;
    const adapt_state s = adapt_consumer_state(a, consumer);
    comet_slot_report r;
    comet_slot_report_init(&r);
    comet_store_describe_slot(m->store, slot, &r);
    return (comet_assessment_line){.layer = adapt_consumer_name(a, consumer),
                                   .eb = r.eb,
                                   .eb_cut = r.eb * coarse,
                                   .nonzero = r.n_elements > 0 ? (double)r.n_nonzero / (double)r.n_elements : NAN,
                                   .sigma_target = s.sigma_target,
                                   .sigma_measured = s.sigma_measured,
                                   .at_limit = s.at_limit,
                                   .sigma_ratio = s.sigma_ratio,
                                   .level = r.level == COMET_LEVEL_DENSE ? "dense" : "fast",
                                   .predictor = predictor_name(r.predictor),
                                   .bytes_raw = r.bytes_raw,
                                   .bytes = r.bytes_held,
                                   .tensor = slot,
                                   .elements = r.n_elements};
}

/* The line of an op with weights. */
static void fill_line(const comet_model *m, const op *o, comet_assessment_line *line)
{
    const bool norm = o->own.slot != COMET_NO_SLOT;
    const op *reader = &m->ops[o->backward_by]; /* of the tensor that the line is about */
    const comet_slot slot = norm ? o->own.slot : value_slot(m, reader->inputs[0]);
    *line = line_about(m, slot, m->assessment->ops[o->index].consumer, norm ? (double)batch_norm_of(o)->coarse : 1);
    line->what = norm ? "bn output" : reader->type->kept_as;
    line->consumer = comet_op_name(o->layer->op);
}

static bool find_line(const comet_model *m, size_t index, comet_assessment_line *line)
{
    size_t i = 0;
    for (uint32_t k = 0; m->assessment && k < m->n_ops; k++)
        if (m->assessment->ops[k].consumer != NONE && i++ == index) {
            fill_line(m, &m->ops[k], line);
            return true;
        }
    if (!m->assessment || index - i >= m->assessment->n_passes)
        return false;
    const pass_consumer *p = &m->assessment->passes[index - i];
    *line = line_about(m, value_slot(m, p->value), p->consumer, 1);
    line->what = op_type_of(p->op)->kept_as;
    line->consumer = comet_op_name(p->op);
    return true;
}

void comet_assessment_line_init(comet_assessment_line *line)
{
    *line = (comet_assessment_line){.size = sizeof *line};
}

comet_status comet_model_describe_assessment(const comet_model *m, size_t index, comet_assessment_line *line)
{
    comet_assessment_line found;
    if (!m || !find_line(m, index, &found))
        return comet_fail(COMET_ERROR_ARGUMENT, "there is no model, or fewer than %zu lines of what was assessed", index + 1);
    return GIVE(comet_assessment_line, line, &found);
}
