/* Budgets; see train_budget.h. */
#include "train/train_budget.h"

#include <inttypes.h>
#include <string.h>

#include "comet/ranks.h"
#include "kit/child.h"
#include "kit/number.h"
#include "kit/progress.h"
#include "train/figures.h"

bool set_batch(void *target, const char *text, reason *why)
{
    batch_arg *batch = target;
    batch->automatic = strcmp(text, "auto") == 0;
    batch->value = 0;
    if (batch->automatic || number_u64(text, 1, UINT32_MAX, &batch->value, why))
        return true;
    const reason number = *why;
    return reason_set(why, "%.200s; nor is it 'auto'", number.text);
}

bool budget_is_asked(const budget_args *budget, const compression_args *compression)
{
    return budget->memory > 0 || budget->batch.automatic || compression->spill;
}

void budget_show_sampling(void *user, comet_compress_mode mode)
{
    (void)user;
    progress_text("a few steps with %s ...", comet_compress_mode_name(mode));
}

typedef struct settlement {
    comet_budget *budget;
    const budget_args *args;
    comet_train_params p;
    comet_budget_choice choice;
} settlement;

static comet_budget_params params_of(const comet_train_params *p)
{
    comet_budget_params params;
    comet_budget_params_init(&params);
    params.net = p->net;
    params.model = p->model;
    params.train_data = p->train_data;
    params.test_data = p->test_data;
    params.loader_threads = p->loader_threads;
    params.queue = p->queue;
    params.sampling = budget_show_sampling;
    return params;
}

enum { LEAST_UPDATES = 10 }; /* of an epoch: with fewer a net learns little in the usual number of epochs */

static comet_budget_request request_of(const budget_args *args, const comet_train_params *p)
{
    comet_budget_request request;
    comet_budget_request_init(&request);
    request.memory = args->memory;
    request.choose_batch = args->batch.automatic;
    request.least_updates = p->max_steps > 0 ? 0 : LEAST_UPDATES; /* whoever gives a number of updates gets as many */
    request.keep_batch = args->batch_is_kept;
    request.memory_name = "--memory";
    request.spill_name = "--spill DIR";
    return request;
}

static cli_exit settle(void *data)
{
    settlement *s = data;
    const comet_budget_request request = request_of(s->args, &s->p);
    const comet_status status = comet_budget_settle(s->budget, &request, &s->p.model, &s->choice);
    progress_hide();
    return status == COMET_OK ? CLI_OK : fail_status(status, NULL);
}

/* --batch auto in the words of the command line. */
static cli_exit check_images(const budget_args *args, const comet_train_params *p)
{
    const uint64_t n_images = info_of(p->train_data).n_images, accumulate = p->model.accumulate > 1 ? p->model.accumulate : 1;
    const uint64_t ranks = p->model.ranks ? p->model.ranks->n_ranks : 1;
    if (!args->batch.automatic || n_images / accumulate / ranks >= COMET_BUDGET_BATCH_STEP)
        return CLI_OK;
    return fail(CLI_USAGE, "--batch auto is for %d images or more; there are %" PRIu64, COMET_BUDGET_BATCH_STEP, n_images);
}

/* Apart, since trials leave oneDNN with kernels for many batches. Pointers mean the same on both sides. The budget is made
 * here, in the process that is to train. */
cli_exit budget_settle(const budget_args *args, comet_train_params *p, char text[COMET_BUDGET_TEXT_BYTES])
{
    const comet_budget_params params = params_of(p);
    settlement s = {.args = args, .p = *p};
    comet_budget_choice_init(&s.choice);
    cli_exit code = check_images(args, p);
    if (code != CLI_OK)
        return code;
    const comet_status status = comet_budget_create(&s.budget, &params);
    code = status == COMET_OK ? run_apart(settle, &s, sizeof s) : fail_status(status, NULL);
    comet_budget_destroy(s.budget);
    if (code != CLI_OK)
        return code;
    p->model = s.p.model;
    memcpy(text, s.choice.text, COMET_BUDGET_TEXT_BYTES);
    return CLI_OK;
}
