/*
 * Row by row in double: log-sum-exp with the largest score subtracted first. With smoothing s the target is 1 - s + s / classes
 * for the label and s / classes elsewhere, as torch has it. Rows are few and added in order, so the result does not depend on
 * threads.
 */
#include "train/math/loss.h"

#include <math.h>
#include <string.h>

#include "base/status.h"

typedef struct row_result {
    double loss;
    uint32_t n_above; /* scores larger than the label's, or equal and before it */
} row_result;

static row_result score_row(const loss_spec *s, uint32_t row)
{
    const float *x = s->scores + (size_t)row * s->classes;
    const uint32_t label = s->labels[row];
    double largest = -INFINITY, sum = 0, total = 0;
    row_result r = {0};
    for (uint32_t c = 0; c < s->classes; c++) {
        if (!(x[c] <= largest))
            largest = x[c];
        total += x[c];
        /* a score that is not a number is above everything, and a label's own is below */
        r.n_above += c != label && (!(x[c] <= x[label]) || (x[c] == x[label] && c < label));
    }
    for (uint32_t c = 0; c < s->classes; c++)
        sum += exp(x[c] - largest);
    r.n_above = isnan(x[label]) ? s->classes : r.n_above;
    const double log_sum = largest + log(sum), smoothing = s->smoothing;
    r.loss = log_sum - (1 - smoothing) * x[label] - smoothing * total / s->classes;
    if (s->gradient) {
        float *g = s->gradient + (size_t)row * s->classes;
        const double scale = (double)s->gradient_scale / s->n_valid, rest = smoothing / s->classes;
        for (uint32_t c = 0; c < s->classes; c++)
            g[c] = (float)(scale * (exp(x[c] - log_sum) - rest - (c == label ? 1 - smoothing : 0)));
    }
    return r;
}

comet_status loss_compute(const loss_spec *s, comet_scores *out)
{
    for (uint32_t row = 0; row < s->n_valid; row++)
        if (s->labels[row] >= s->classes)
            return comet_fail(COMET_ERROR_ARGUMENT, "label %u in row %u of the batch, but the net has %u outputs",
                              s->labels[row], row, s->classes);
    comet_scores scores = {.n_valid = s->n_valid};
    double sum = 0;
    for (uint32_t row = 0; row < s->n_valid; row++) {
        const row_result r = score_row(s, row);
        sum += r.loss;
        scores.n_top1 += r.n_above < 1;
        scores.n_top5 += r.n_above < 5;
    }
    if (s->gradient && s->n_valid < s->rows)
        memset(s->gradient + (size_t)s->n_valid * s->classes, 0, sizeof(float) * s->classes * (s->rows - s->n_valid));
    scores.loss = s->n_valid > 0 ? sum / s->n_valid : 0;
    *out = scores;
    return COMET_OK;
}
