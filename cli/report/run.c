/* A run's folder and files, and what follows from its log; see run.h. */
#include "report/run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "kit/file_io.h"

enum { STATE_FILE_BYTES = 1 << 20, PATH_BYTES = 4096 };

/* ---- files ---- */

static bool is_file(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && !S_ISDIR(status.st_mode);
}

static bool is_folder(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

static bool join(char path[PATH_BYTES], const char *folder, const char *name)
{
    return (size_t)snprintf(path, PATH_BYTES, "%s/%s", folder, name) < PATH_BYTES;
}

/* state.json is for people; what cannot be read is left out. */
static cJSON *read_state(const char *folder)
{
    char path[PATH_BYTES];
    blob contents;
    if (!join(path, folder, "state.json") || !is_file(path) || file_read_small(path, STATE_FILE_BYTES, &contents) != CLI_OK)
        return NULL;
    cJSON *state = cJSON_ParseWithLength((const char *)contents.data, contents.bytes);
    blob_free(&contents);
    return state;
}

/* The log beside the checkpoints, or the one that --log named: its path is as it was on the run's command line, or beside the
 * folder. NULL where there is none. */
static char *find_log(const run *r)
{
    char path[PATH_BYTES];
    if (join(path, r->path, "log.jsonl") && is_file(path))
        return strdup(path);
    const char *named = run_text(r->saved_state, "log");
    if (named && is_file(named))
        return strdup(named);
    return named && join(path, r->path, named) && is_file(path) ? strdup(path) : NULL;
}

/* Is there anything of a run in it? */
static cli_exit check_log(const run *r, bool may_be_empty)
{
    const size_t n_known = r->n_lines - r->n_bad - (r->torn ? 1 : 0);
    if (n_known > 0 || (may_be_empty && r->n_bad == 0))
        return CLI_OK;
    if (r->n_lines == 0)
        return fail(CLI_BAD_INPUT, "%s: the file is empty: no log of comet train", r->log);
    return fail(CLI_BAD_INPUT, "%s: no log of comet train: none of its lines is a JSON object with an \"event\" of a run",
                r->log);
}

static cli_exit read_log(run *r, bool may_be_empty)
{
    struct stat status;
    blob contents;
    const cli_exit code = file_read(r->log, &contents);
    if (code != CLI_OK)
        return code;
    r->modified = stat(r->log, &status) == 0 ? (double)status.st_mtime : (double)time(NULL);
    run_log_parse(r, (const char *)contents.data, contents.bytes);
    blob_free(&contents);
    if (r->no_memory)
        return fail(CLI_NO_MEMORY, "%s: out of memory while reading the log", r->log);
    return check_log(r, may_be_empty);
}

cli_exit run_read(run *r, const char *path, bool may_be_empty)
{
    *r = (run){.path = strdup(path), .version = NAN};
    if (!r->path)
        return fail_memory(strlen(path) + 1);
    r->is_folder = is_folder(path);
    if (r->is_folder)
        r->saved_state = read_state(path);
    r->log = r->is_folder ? find_log(r) : strdup(path);
    return r->log ? read_log(r, may_be_empty || r->is_folder) : CLI_OK;
}

/* ---- what follows from the log ---- */

const run_line *run_last(const run_lines *lines)
{
    return lines->n > 0 ? &lines->items[lines->n - 1] : NULL;
}

double run_largest(const run_lines *lines, size_t field)
{
    double largest = NAN;
    for (size_t i = 0; i < lines->n; i++)
        largest = fmax(largest, lines->items[i].field[field]);
    return largest;
}

/* Images left over at the end of an epoch are not used. Older logs do not count images, but have the step of each epoch's end.
 */
double run_steps_per_epoch(const run *r)
{
    const double images = run_number(r->start, "train_images"), batch = run_number(r->start, "batch");
    const double parts = run_number(r->start, "accumulate");
    const double steps = floor(images / (batch * (parts > 1 ? parts : 1)));
    if (steps >= 1)
        return steps;
    for (size_t i = 0; i < r->epochs.n; i++)
        if (r->epochs.items[i].epoch >= 1)
            return r->epochs.items[i].step / r->epochs.items[i].epoch;
    const double all = run_number(r->start, "n_steps") / run_number(r->start, "n_epochs");
    return all >= 1 ? all : NAN;
}

bool run_is_over(const run *r)
{
    return r->state == RUN_FINISHED || r->state == RUN_STOPPED || r->state == RUN_DIVERGED || r->state == RUN_FAILED;
}

/* Days from 1970-01-01 to a date of the Gregorian calendar; years begin in March here, so that leap days come last. */
static double days_since_1970(int year, int month, int day)
{
    const int y = month > 2 ? year : year - 1, m = (month + 9) % 12;
    const int days_before_month = (153 * m + 2) / 5;
    return 365.0 * y + floor(y / 4.0) - floor(y / 100.0) + floor(y / 400.0) + days_before_month + day - 1 - 719468;
}

double run_date(const char *text)
{
    int year, month, day, hour, minute, second;
    if (!text || sscanf(text, "%4d-%2d-%2dT%2d:%2d:%2d", &year, &month, &day, &hour, &minute, &second) != 6)
        return NAN;
    if (month < 1 || month > 12 || day < 1 || day > 31)
        return NAN;
    return days_since_1970(year, month, day) * 86400 + hour * 3600.0 + minute * 60.0 + second;
}

double run_began(const run *r)
{
    const double date = run_date(run_text(r->first_start, "date"));
    const run_line *last = run_last(&r->steps);
    if (!isnan(date))
        return date;
    return r->modified - (last && last->seconds > 0 ? last->seconds : 0);
}
