/* comet report: what runs of comet train did, as one page with charts and as event files for TensorBoard. */
#define _XOPEN_SOURCE 700 /* realpath */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/size_text.h"
#include "kit/file_io.h"
#include "kit/setters.h"
#include "kit/text.h"
#include "report/events.h"
#include "report/report_page.h"
#include "report/sections.h"
#include "verbs.h"

typedef struct report_args {
    const char *output, *title, *tensorboard;
    bool force, live;
} report_args;

#define AT(field) offsetof(report_args, field)
static const option options[] = {
    OPTION_OUTPUT(report_args, "the page (default report.html)"),
    OPTION_FORCE(report_args),
    {0, "title", "TEXT", set_text, AT(title), "title of the page (default: the names of the nets)"},
    {0, "tensorboard", "DIR", set_text, AT(tensorboard), "also write event files for TensorBoard, a folder for each run"},
    {0, "live", NULL, set_flag, AT(live),
     "write the page again whenever a log grows, until all runs have ended or Ctrl-C;\nthe page reloads itself"},
};

enum { LIVE_SECONDS = 5, SIGNAL_EXIT = 128 };

static volatile sig_atomic_t stop_signal;

static void on_signal(int number)
{
    stop_signal = number;
}

static void catch_signals(void)
{
    const struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

/* ---- names ---- */

/* A copy without slashes at its end. A path that ends with "." or ".." has no name, so it is made absolute. */
static char *copy_path(const char *path)
{
    char *copy = strdup(path);
    if (!copy)
        return NULL;
    size_t end = strlen(copy);
    while (end > 1 && copy[end - 1] == '/')
        copy[--end] = '\0';
    const char *slash = strrchr(copy, '/'), *last = slash ? slash + 1 : copy;
    char *absolute = strcmp(last, ".") == 0 || strcmp(last, "..") == 0 ? realpath(copy, NULL) : NULL;
    if (absolute)
        free(copy);
    return absolute ? absolute : copy;
}

/* The last `n_parts` parts of a path, without ".jsonl"; a log of the usual name is called as its folder. */
static char *name_of(const char *path, size_t n_parts)
{
    char *name = copy_path(path);
    if (!name)
        return NULL;
    char *slash = strrchr(name, '/');
    if (slash && slash != name && strcmp(slash, "/log.jsonl") == 0)
        *slash = '\0';
    else if (text_ends_with(name, strlen(name), ".jsonl") && strlen(name) > strlen(".jsonl"))
        name[strlen(name) - strlen(".jsonl")] = '\0';
    char *begin = name + strlen(name);
    for (size_t parts = 0; begin > name; begin--)
        if (begin[-1] == '/' && ++parts == n_parts)
            break;
    memmove(name, begin, strlen(begin) + 1);
    return name;
}

static bool is_shared(const run *items, size_t n, size_t at)
{
    for (size_t i = 0; i < n; i++)
        if (i != at && strcmp(items[i].name, items[at].name) == 0)
            return true;
    return false;
}

/* Takes as many parts of paths as it takes to tell the runs apart. */
static cli_exit name_runs(run *items, size_t n)
{
    enum { MOST_PARTS = 8 };
    bool shared = true;
    for (size_t parts = 1; parts <= MOST_PARTS && shared; parts++) {
        for (size_t i = 0; i < n; i++) {
            free(items[i].name);
            items[i].name = name_of(items[i].path, parts);
            if (!items[i].name)
                return fail_memory(strlen(items[i].path));
        }
        shared = false;
        for (size_t i = 0; i < n; i++)
            shared = shared || is_shared(items, n, i);
    }
    return CLI_OK;
}

/* ---- one round ---- */

static cli_exit read_runs(const report_args *args, char **paths, size_t n, run *items)
{
    cli_exit code = CLI_OK;
    for (size_t i = 0; i < n && code == CLI_OK; i++)
        code = run_read(&items[i], paths[i], args->live);
    return code == CLI_OK ? name_runs(items, n) : code;
}

static cli_exit write_page(const report_args *args, run *items, size_t n, bool is_live, bool force)
{
    page p = {0};
    report_page(items, n, args->title, is_live, LIVE_SECONDS, &p);
    const piece whole = {p.text, p.bytes};
    const cli_exit code = p.failed ? fail_memory(p.room) : file_write(args->output, force, &whole, 1);
    page_free(&p);
    return code;
}

static bool has_lines(const run *r)
{
    return r->steps.n + r->epochs.n + r->n_assessments > 0;
}

static cli_exit write_events(const report_args *args, const run *items, size_t n, bool force)
{
    cli_exit code = CLI_OK;
    for (size_t i = 0; i < n && code == CLI_OK && args->tensorboard; i++)
        if (has_lines(&items[i]))
            code = events_write(&items[i], args->tensorboard, force);
    return code;
}

/* Nothing is written where one of the files may not be. */
static cli_exit check_events(const report_args *args, const run *items, size_t n)
{
    cli_exit code = CLI_OK;
    for (size_t i = 0; i < n && code == CLI_OK && args->tensorboard; i++) {
        char *path = events_path(&items[i], args->tensorboard);
        code = path ? file_check_output(path, args->force) : fail_memory(strlen(args->tensorboard));
        free(path);
    }
    return code;
}

static bool all_are_over(const run *items, size_t n)
{
    bool over = true;
    for (size_t i = 0; i < n; i++)
        over = over && run_is_over(&items[i]);
    return over;
}

static void say_what_is_missing(const run *items, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (items[i].state == RUN_NO_LOG)
            say("%s: %s", items[i].path,
                items[i].saved_state ? "a run without a log: its state is shown"
                                     : "no run is in this folder; the page says so");
        else if (items[i].state == RUN_NOTHING)
            say("%s: the log has no line of a run yet; the page says so", items[i].path);
        else if (items[i].version < 2)
            say("%s: a log of an older version: the page shows what it has", items[i].path);
        if (items[i].n_bad > 0)
            say("%s: %zu line%s not of a run and left out; the first is line %zu", items[i].path, items[i].n_bad,
                items[i].n_bad == 1 ? " is" : "s are", items[i].first_bad);
    }
}

/* Runs of which there is something to show. */
static size_t count_runs(const run *items, size_t n)
{
    size_t n_shown = 0;
    for (size_t i = 0; i < n; i++)
        n_shown += (items[i].state != RUN_NO_LOG && items[i].state != RUN_NOTHING) || items[i].saved_state;
    return n_shown;
}

static void say_what_is_there(const report_args *args, const run *items, size_t n)
{
    const size_t n_shown = count_runs(items, n);
    if (n_shown > 0)
        say("%s: %zu run%s; open it in a browser", args->output, n_shown, n_shown == 1 ? "" : "s");
    else
        say("%s: there is no run to show yet", args->output);
}

static void free_runs(run *items, size_t n)
{
    for (size_t i = 0; i < n; i++)
        run_free(&items[i]);
    memset(items, 0, n * sizeof *items);
}

/* ---- following runs ---- */

/* Sums up what would show that something was written since. */
static double total_lines(const run *items, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)items[i].n_lines + (items[i].torn ? 0 : 0.5);
    return sum;
}

/* Writes the page while runs go on. The last one no longer reloads itself. */
static cli_exit follow(const report_args *args, char **paths, size_t n, run *items)
{
    double written = total_lines(items, n);
    cli_exit code = CLI_OK;
    catch_signals();
    say("following %zu run%s; Ctrl-C ends it", n, n == 1 ? "" : "s");
    while (code == CLI_OK && !all_are_over(items, n) && !stop_signal) {
        sleep(LIVE_SECONDS);
        free_runs(items, n);
        code = read_runs(args, paths, n, items);
        const bool goes_on = !all_are_over(items, n) && !stop_signal;
        const bool grew = total_lines(items, n) != written;
        if (code == CLI_OK && (!goes_on || grew))
            code = write_page(args, items, n, goes_on, true);
        if (code == CLI_OK && grew)
            code = write_events(args, items, n, true);
        written = total_lines(items, n);
    }
    if (code == CLI_OK && stop_signal)
        say("stopped by a signal; %s is the page as it was then", args->output);
    return code == CLI_OK && stop_signal ? (cli_exit)(SIGNAL_EXIT + stop_signal) : code;
}

/* ---- the verb ---- */

static cli_exit make_report(const report_args *args, char **paths, size_t n, run *items)
{
    cli_exit code = read_runs(args, paths, n, items);
    for (size_t i = 0; i < n && code == CLI_OK; i++)
        if (items[i].log)
            code = file_check_distinct(items[i].log, args->output);
    const bool live = args->live && !all_are_over(items, n);
    if (code == CLI_OK)
        code = check_events(args, items, n);
    if (code == CLI_OK)
        code = write_page(args, items, n, live, args->force);
    if (code == CLI_OK)
        code = write_events(args, items, n, args->force);
    if (code != CLI_OK)
        return code;
    say_what_is_missing(items, n);
    say_what_is_there(args, items, n);
    if (args->tensorboard)
        say("%s: event files; tensorboard --logdir %s", args->tensorboard, args->tensorboard);
    return live ? follow(args, paths, n, items) : CLI_OK;
}

static cli_exit run_verb(const void *given, char **operands, size_t n_operands)
{
    const report_args *args = given;
    if (n_operands > MAX_RUNS)
        return fail(CLI_USAGE, "%zu runs are too many for a page; give at most %d", n_operands, MAX_RUNS);
    if (args->live && file_is_standard_stream(args->output))
        return fail(CLI_USAGE, "--live writes the page many times; name a file with -o");
    const cli_exit code = file_check_output(args->output, args->force);
    if (code != CLI_OK)
        return code;
    run *items = calloc(n_operands, sizeof *items);
    if (!items)
        return fail_memory(n_operands * sizeof *items);
    const cli_exit made = make_report(args, operands, n_operands, items);
    free_runs(items, n_operands);
    free(items);
    return made;
}

const verb verb_report = {
    .name = "report",
    .summary = "Show runs as a page with charts",
    .usage = "RUN... [-o report.html] [--title TEXT] [--live] [--tensorboard DIR]",
    .details =
        "RUN is a folder of 'comet train --out', or a log (--log). The page is one file that needs no network: curves of loss "
        "and\n"
        "accuracy, memory by class and within a step, bounds and errors by layer, time by part, what was run. Several runs\n"
        "are shown side by side, up to 16. 'comet help report.md' says how to read it.\n",
    .examples = "  comet report runs/first\n"
                "  comet report runs/raw runs/compressed -o compare.html --title 'What compression costs'\n"
                "  comet report runs/long --live\n"
                "  comet report runs/first --tensorboard events\n",
    .operands = (const char *const[]){"RUN, the folder or log of a run,", NULL},
    .more_operands = true,
    .options = options,
    .n_options = N_ITEMS(options),
    .defaults = &(const report_args){.output = "report.html"},
    .args_bytes = sizeof(report_args),
    .run = run_verb,
};
