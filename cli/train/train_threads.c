/* Threads of a run; see train_threads.h. */
#include "train/train_threads.h"

#include <inttypes.h>
#include <stdio.h>

#include "kit/child.h"
#include "kit/progress.h"

typedef struct settlement {
    comet_train_params p;
    comet_thread_choice choice;
} settlement;

uint32_t threads_before(uint64_t asked, uint64_t earlier)
{
    return (uint32_t)(asked != THREADS_AUTO ? asked : earlier);
}

/* A run that cannot be tried fails later, with a sentence of its own. */
static cli_exit choose(void *data)
{
    settlement *s = data;
    progress_text("looking whether the machine is busy ...");
    if (comet_threads_choose(&s->p, &s->choice) != COMET_OK)
        s->choice.n_threads = 0;
    progress_hide();
    return CLI_OK;
}

static void report_choice(const comet_thread_choice *c, uint32_t batch, train_report *report)
{
    char text[240], all[80] = "";
    if (c->seconds < c->seconds_all)
        snprintf(all, sizeof all, ", %.0f with one per core", batch / c->seconds_all);
    snprintf(text, sizeof text,
             "other programs are busy: %" PRIu32
             " thread%s, the fastest now (%.0f images/s%s); for the same bits again use -j %" PRIu32,
             c->n_threads, c->n_threads == 1 ? "" : "s", batch / c->seconds, all, c->n_threads);
    train_report_note(report, text);
}

/* Apart: kernels for other numbers of threads would stay in memory, and the threads of the trial, too. */
void threads_settle(uint64_t asked, uint64_t earlier, comet_train_params *p, train_report *report)
{
    settlement s = {.p = *p};
    p->model.n_threads = threads_before(asked, earlier);
    if (asked != THREADS_AUTO || earlier > 0)
        return;
    comet_thread_choice_init(&s.choice);
    if (run_apart(choose, &s, sizeof s) != CLI_OK) {
        train_report_note(report, "the trial of threads failed; one thread per core is used");
        return;
    }
    p->model.n_threads = s.choice.n_threads;
    if (s.choice.timed)
        report_choice(&s.choice, p->model.batch, report);
}
