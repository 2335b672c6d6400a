/* The trial of a step; see step_trial.h. */
#include "train/step_trial.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kit/child.h"
#include "kit/progress.h"
#include "train/bench_batches.h"
#include "train/figures.h"

enum { DISTINCT_BATCHES = 2, N_WARM = 1 };
static const double rate = 1e-3; /* at which no net's loss runs away */

typedef struct trial {
    const comet_net *net;
    comet_model_params params;
    uint32_t n_steps, n_beside;
    step_times times;
} trial;

static step_times times_of(const comet_model *model)
{
    const comet_step_figures f = steps_of(model);
    return (step_times){.forward = f.forward + f.encode + f.assess, .backward = f.backward + f.decode, .update = f.update};
}

static double whole(step_times t)
{
    return t.forward + t.backward + t.update;
}

static cli_exit one_step(comet_model *model, bench_batches *batches, uint64_t step)
{
    comet_scores scores;
    const cli_exit code = bench_batches_load(batches, step);
    if (code != CLI_OK)
        return code;
    const comet_status status = comet_model_step(model, batches->images, batches->labels, step, rate, &scores);
    return status == COMET_OK ? CLI_OK : fail_status(status, "a trial of a step");
}

static cli_exit time_steps(trial *t, comet_model *model, bench_batches *batches)
{
    double best = INFINITY;
    cli_exit code = CLI_OK;
    for (uint32_t i = 0; i < N_WARM + t->n_steps && code == CLI_OK; i++) {
        progress_text("timing a step ...");
        const step_times before = times_of(model);
        code = one_step(model, batches, i);
        const step_times after = times_of(model);
        const step_times this = {after.forward - before.forward, after.backward - before.backward,
                                 after.update - before.update};
        if (i >= N_WARM && whole(this) < best) {
            best = whole(this);
            t->times = this;
        }
    }
    return code;
}

static cli_exit train_a_little(trial *t)
{
    bench_batches batches = {0};
    comet_model *model = NULL;
    comet_status status = comet_model_check_memory(t->net, &t->params, 0);
    cli_exit code = status == COMET_OK ? CLI_OK : fail_status(status, comet_net_name(t->net));
    if (code == CLI_OK)
        code = bench_batches_make(t->net, t->params.batch, DISTINCT_BATCHES, 0, &batches);
    if (code == CLI_OK && (status = comet_model_create(&model, t->net, &t->params)) != COMET_OK)
        code = fail_status(status, comet_net_name(t->net));
    if (code == CLI_OK)
        code = time_steps(t, model, &batches);
    progress_hide();
    comet_model_destroy(model);
    bench_batches_free(&batches);
    return code;
}

/* ---- other ranks of the machine ---- */

/* Trains until it is ended, at the latest with its parent. */
static void train_beside(const trial *t)
{
    trial other = *t;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    other.n_steps = UINT32_MAX - N_WARM;
    progress_disable();
    train_a_little(&other);
    _exit(0);
}

static void end_beside(pid_t *others, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        kill(others[i], SIGKILL);
        waitpid(others[i], NULL, 0);
    }
}

static cli_exit run_trial(void *data)
{
    trial *t = data;
    uint32_t n = 0;
    cli_exit code = CLI_OK;
    pid_t *others = calloc(t->n_beside + 1, sizeof *others);
    if (!others)
        return fail_memory(t->n_beside * sizeof *others);
    for (; n < t->n_beside && code == CLI_OK; n += code == CLI_OK) {
        others[n] = fork();
        if (others[n] == 0)
            train_beside(t);
        if (others[n] < 0)
            code = fail_errno(CLI_FAILED, errno, "a process beside the trial");
    }
    if (code == CLI_OK)
        code = train_a_little(t);
    end_beside(others, n);
    free(others);
    return code;
}

cli_exit step_trial(const comet_net *net, const comet_model_params *params, uint32_t n_steps, uint32_t n_beside,
                    step_times *times)
{
    trial t = {.net = net, .params = *params, .n_steps = n_steps, .n_beside = n_beside};
    const cli_exit code = run_apart(run_trial, &t, sizeof t);
    if (code == CLI_OK)
        *times = t.times;
    return code;
}
