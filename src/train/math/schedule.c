/*
 * Learning rates by step.
 *
 * One-cycle is torch.optim.lr_scheduler.OneCycleLR(max_lr, total_steps) with its defaults (pct_start 0.3, cosine, div_factor
 * 25, final_div_factor 1e4), except that momentum is not cycled: it stays what the optimiser says.
 */
#include "train/math/schedule.h"

#include <math.h>
#include <string.h>

#include "base/status.h"

enum {
    RATE_IMAGES = 256,
    RATE_STEPS = 100
}; /* default rates are for so many images an update and for runs of at least so many steps */
static const double pi = 3.14159265358979323846;

const char *comet_schedule_name(comet_schedule_kind kind)
{
    static const char *const names[] = {"constant", "step", "cosine", "onecycle"};
    return (unsigned)kind < sizeof names / sizeof names[0] ? names[kind] : "unknown";
}

void comet_schedule_init(comet_schedule *schedule, comet_schedule_kind kind, double rate)
{
    memset(schedule, 0, sizeof *schedule);
    schedule->size = sizeof *schedule;
    schedule->kind = kind;
    schedule->rate = rate;
    schedule->factor = 0.1;
    schedule->every = 30;
}

static bool has_batch_norm(const comet_net *net)
{
    for (uint32_t i = 0; i < comet_net_n_values(net); i++)
        if (comet_net_layer(net, i)->op == COMET_OP_BATCH_NORM)
            return true;
    return false;
}

/* Depthwise filters have one channel each: their few weights see large gradients. */
static bool has_depthwise(const comet_net *net)
{
    for (uint32_t i = 0; i < comet_net_n_values(net); i++) {
        const comet_layer *l = comet_net_layer(net, i);
        if (l->op == COMET_OP_CONV && l->groups > 1 && l->groups == l->out_channels)
            return true;
    }
    return false;
}

/* SGD's rate is in proportion to the batch, so that its noise stays the same; AdamW's steps have a size of their own, and its
 * rate is in proportion to the batch's root. Large rates are safe only with batch norms, and only after a warm-up, for which
 * short runs have no time. */
double comet_default_rate(const comet_net *net, comet_optimiser_kind optimiser, uint64_t images_per_update, uint64_t n_steps)
{
    const double times = (double)images_per_update / RATE_IMAGES, length = fmin((double)n_steps / RATE_STEPS, 1);
    if (optimiser == COMET_OPTIMISER_ADAMW)
        return length * (has_batch_norm(net) ? fmin(4e-3 * sqrt(times), 4e-3) : fmin(1e-3 * sqrt(times), 2e-3));
    return length * fmin(0.1 * times, has_batch_norm(net) ? 0.4 : 0.05) / (has_depthwise(net) ? 3 : 1);
}

static comet_status check_kind(const comet_schedule *s)
{
    if (s->kind == COMET_SCHEDULE_STEP && !(isfinite(s->every) && s->every > 0))
        return comet_fail(COMET_ERROR_ARGUMENT, "the schedule's every is %g epochs; it must be finite and more than 0",
                          s->every);
    if (s->kind == COMET_SCHEDULE_STEP && !(s->factor >= 0 && s->factor <= 1))
        return comet_fail(COMET_ERROR_ARGUMENT, "the schedule's factor is %g; it must be 0 to 1", s->factor);
    if (s->kind == COMET_SCHEDULE_COSINE && !(s->final_share >= 0 && s->final_share <= 1))
        return comet_fail(COMET_ERROR_ARGUMENT, "the schedule's final_share is %g; it must be 0 to 1", s->final_share);
    return COMET_OK;
}

comet_status schedule_check(const comet_schedule *s)
{
    if (s->size != sizeof *s)
        return comet_fail(COMET_ERROR_ARGUMENT, "comet_schedule was not set by comet_schedule_init");
    if ((int)s->kind < COMET_SCHEDULE_CONSTANT || (int)s->kind > COMET_SCHEDULE_ONECYCLE)
        return comet_fail(COMET_ERROR_ARGUMENT, "schedule %d is of no known kind", (int)s->kind);
    if (!(isfinite(s->rate) && s->rate >= 0))
        return comet_fail(COMET_ERROR_ARGUMENT, "the rate is %g; it must be finite and not negative", s->rate);
    if (s->kind != COMET_SCHEDULE_ONECYCLE && !(isfinite(s->warmup_epochs) && s->warmup_epochs >= 0))
        return comet_fail(COMET_ERROR_ARGUMENT, "the warm-up is %g epochs; it must be finite and not negative",
                          s->warmup_epochs);
    return check_kind(s);
}

/* From `begin` (share 0) to `end` (share 1) along half a cosine. */
static double cosine_between(double begin, double end, double share)
{
    return end + (begin - end) / 2 * (cos(pi * share) + 1);
}

/* The peak is at 0.3 * n_steps - 1, not rounded, as torch has it. */
static double onecycle_rate(double rate, double step, double n_steps)
{
    const double begin = rate / 25, end = begin / 1e4, peak = 0.3 * n_steps - 1, last = n_steps - 1;
    if (step <= peak)
        return cosine_between(begin, rate, peak > 0 ? step / peak : 1);
    return cosine_between(rate, end, last > peak ? (step - peak) / (last - peak) : 1);
}

double comet_schedule_rate(const comet_schedule *schedule, uint64_t step, uint64_t n_steps, uint64_t steps_per_epoch)
{
    const double at = (double)step, total = (double)n_steps, epoch = steps_per_epoch > 0 ? (double)steps_per_epoch : 1;
    if (schedule->kind == COMET_SCHEDULE_ONECYCLE)
        return onecycle_rate(schedule->rate, at < total ? at : total - 1, total);
    const double warmup = schedule->warmup_epochs * epoch;
    if (at < warmup)
        return schedule->rate * fmin((at + 1) / warmup, 1);
    if (schedule->kind == COMET_SCHEDULE_STEP)
        return schedule->rate * pow(schedule->factor, floor(at / (schedule->every * epoch)));
    if (schedule->kind == COMET_SCHEDULE_COSINE && total > warmup) {
        const double share = fmin((at - warmup) / (total - warmup), 1);
        return cosine_between(schedule->rate, schedule->rate * schedule->final_share, share);
    }
    return schedule->rate;
}
