/* The lines of a log; see run.h. A line that is no JSON object with a known event is counted and left out. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kit/json_out.h"
#include "report/page.h"
#include "report/run.h"

/* More layers than any net has: a log that is not ours must not take forever. */
enum { MOST_CONSUMERS = 4096 };

/* Keys by field; those with a point are inside an object. */
static const char *const step_keys[N_STEP_FIELDS] = {
    [S_RATE] = "rate",
    [S_LOSS] = "train_loss",
    [S_TOP1] = "train_top1",
    [S_SPEED] = "images_per_s",
    [S_RATIO] = "ratio",
    [S_WEIGHTS] = "weights_bytes",
    [S_GRADIENTS] = "gradients_bytes",
    [S_OPTIMISER] = "optimiser_bytes",
    [S_SAVED] = "saved_bytes",
    [S_SAVED_RAW] = "saved_raw_bytes",
    [S_SAVED_REFERENCE] = "saved_reference_bytes",
    [S_TRANSIENT] = "transient_bytes",
    [S_DATA] = "data_bytes",
    [S_PROGRAM] = "program_bytes",
    [S_RSS] = "rss_bytes",
    [S_PEAK_RSS] = "peak_rss_bytes",
    [S_WAIT] = "time.wait",
    [S_FORWARD] = "time.forward",
    [S_BACKWARD] = "time.backward",
    [S_UPDATE] = "time.update",
    [S_ENCODE] = "time.encode",
    [S_DECODE] = "time.decode",
    [S_ASSESS] = "time.assess",
};
static const char *const epoch_keys[N_EPOCH_FIELDS] = {
    [E_RATE] = "rate",
    [E_TRAIN_LOSS] = "train_loss",
    [E_TRAIN_TOP1] = "train_top1",
    [E_LOSS] = "loss",
    [E_TOP1] = "top1",
    [E_TOP5] = "top5",
    [E_BEST_TOP1] = "best_top1",
    [E_SPEED] = "images_per_s",
    [E_WAIT_SHARE] = "wait_share",
    [E_PEAK_RSS] = "peak_rss_bytes",
    [E_RATIO] = "ratio",
    [E_EVAL_SECONDS] = "eval_seconds",
};
static const char *const assess_keys[N_ASSESS_FIELDS] = {
    [A_EB] = "eb",
    [A_NONZERO] = "R",
    [A_TARGET] = "sigma_target",
    [A_MEASURED] = "sigma_measured",
    [A_SIGMA_RATIO] = "sigma_ratio",
    [A_RATIO] = "ratio",
    [A_STORED] = "bytes",
    [A_RAW] = "bytes_raw",
    [A_ELEMENTS] = "elements",
};

/* ---- values ---- */

static const cJSON *find(const cJSON *event, const char *key)
{
    const char *point = strchr(key, '.');
    char parent[32];
    if (!point || (size_t)(point - key) >= sizeof parent)
        return cJSON_GetObjectItemCaseSensitive(event, key);
    memcpy(parent, key, (size_t)(point - key));
    parent[point - key] = '\0';
    return cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(event, parent), point + 1);
}

double run_number(const cJSON *event, const char *key)
{
    const cJSON *item = find(event, key);
    return cJSON_IsNumber(item) && isfinite(item->valuedouble) ? item->valuedouble : NAN;
}

const char *run_text(const cJSON *event, const char *key)
{
    const cJSON *item = find(event, key);
    return cJSON_IsString(item) ? item->valuestring : NULL;
}

bool run_flag(const cJSON *event, const char *key)
{
    return cJSON_IsTrue(find(event, key));
}

static char *copy_text(run *r, const cJSON *event, const char *key)
{
    const char *text = run_text(event, key);
    char *copy = strdup(text ? text : "");
    r->no_memory = r->no_memory || !copy;
    return copy;
}

static bool is_same(const char *text, const char *other)
{
    return strcmp(text ? text : "", other ? other : "") == 0;
}

/* Sums of these stay finite, and steps stay in order. */
static double bounded(double value)
{
    return isnan(value) ? NAN : fmin(fmax(value, -1e30), 1e30);
}

/* ---- steps and epochs ---- */

/* After a resume steps are done again: the last line of a step counts. */
static void add_line(run *r, run_lines *lines, const cJSON *event, const char *const *keys, size_t n_keys)
{
    run_line line = {
        .step = run_number(event, "step"), .epoch = run_number(event, "epoch"), .seconds = run_number(event, "seconds")};
    if (isnan(line.step))
        return;
    while (lines->n > 0 && lines->items[lines->n - 1].step >= line.step)
        lines->n--;
    run_line *items = array_grow(lines->items, &lines->room, lines->n, sizeof *items);
    if (!items) {
        r->no_memory = true;
        return;
    }
    lines->items = items;
    for (size_t i = 0; i < n_keys; i++)
        line.field[i] = bounded(run_number(event, keys[i]));
    items[lines->n++] = line;
}

/* ---- assessments ---- */

static bool is_consumer(const run_consumer *c, const cJSON *event)
{
    return is_same(c->layer, run_text(event, "layer")) && is_same(c->what, run_text(event, "what"));
}

/* Assessments name consumers in the same order every time, so the next one is tried first. Returns n_consumers for a new one.
 */
static size_t find_consumer(const run *r, const cJSON *event)
{
    for (size_t i = 0; i < r->n_consumers; i++) {
        const size_t at = (r->next_consumer + i) % r->n_consumers;
        if (is_consumer(&r->consumers[at], event))
            return at;
    }
    return r->n_consumers;
}

static void free_consumer(run_consumer *c)
{
    free(c->layer), free(c->what), free(c->level), free(c->predictor);
}

/* Logs of version 1 have no identity of tensors; consumers of one tensor follow one another there, with the same bytes. */
static double tensor_of(const run *r, const cJSON *event, size_t at)
{
    const double number = run_number(event, "tensor");
    if (!isnan(number) || at == 0)
        return isnan(number) ? -1 : number;
    const run_consumer *before = &r->consumers[at - 1];
    const bool same = before->step == run_number(event, "step") && before->field[A_STORED] == run_number(event, "bytes") &&
                      before->field[A_RATIO] == run_number(event, "ratio");
    return same ? before->tensor : -1 - (double)at;
}

static void add_assessment(run *r, const cJSON *event)
{
    const size_t at = find_consumer(r, event);
    if (at == MOST_CONSUMERS)
        return;
    if (at == r->n_consumers) {
        run_consumer *items = array_grow(r->consumers, &r->consumers_room, r->n_consumers, sizeof *items);
        r->no_memory = r->no_memory || !items;
        if (!items)
            return;
        r->consumers = items;
        items[r->n_consumers++] = (run_consumer){.layer = copy_text(r, event, "layer"), .what = copy_text(r, event, "what")};
    }
    run_consumer *c = &r->consumers[at];
    r->next_consumer = at + 1;
    c->tensor = tensor_of(r, event, at);
    c->step = run_number(event, "step");
    c->at_limit = run_flag(event, "at_limit");
    for (size_t i = 0; i < N_ASSESS_FIELDS; i++)
        c->field[i] = bounded(run_number(event, assess_keys[i]));
    if (isnan(c->field[A_RAW]))
        c->field[A_RAW] = c->field[A_STORED] * c->field[A_RATIO];
    free(c->level), free(c->predictor);
    c->level = copy_text(r, event, "level");
    c->predictor = copy_text(r, event, "predictor");
    run_assessment *items = array_grow(r->assessments, &r->assessments_room, r->n_assessments, sizeof *items);
    r->no_memory = r->no_memory || !items;
    if (!items)
        return;
    r->assessments = items;
    items[r->n_assessments++] = (run_assessment){
        at, c->step, run_number(event, "seconds"), c->field[A_EB], c->field[A_RATIO], c->field[A_SIGMA_RATIO],
    };
}

/* ---- memory within a step ---- */

static double number_at(const cJSON *array, int at)
{
    const cJSON *item = cJSON_GetArrayItem(array, at);
    return cJSON_IsNumber(item) && isfinite(item->valuedouble) ? item->valuedouble : NAN;
}

static void free_timeline(run_timeline *t)
{
    for (size_t i = 0; i < t->n; i++)
        free(t->points[i].layer);
    free(t->points);
}

static void add_timeline(run *r, const cJSON *event)
{
    const cJSON *points = find(event, "points"), *p;
    const int n = cJSON_GetArraySize(points);
    while (r->n_timelines > 0 && r->timelines[r->n_timelines - 1].step >= run_number(event, "step"))
        free_timeline(&r->timelines[--r->n_timelines]);
    run_timeline *items = array_grow(r->timelines, &r->timelines_room, r->n_timelines, sizeof *items);
    r->timelines = items ? items : r->timelines;
    run_timeline t = {.step = run_number(event, "step"), .points = calloc(n > 0 ? (size_t)n : 1, sizeof(run_point))};
    r->no_memory = r->no_memory || !items || !t.points;
    if (items && t.points)
        cJSON_ArrayForEach(p, points)
        {
            const cJSON *layer = cJSON_GetArrayItem(p, 0), *direction = cJSON_GetArrayItem(p, 1);
            if (!cJSON_IsString(layer) || !cJSON_IsString(direction))
                continue;
            t.points[t.n++] = (run_point){.layer = strdup(layer->valuestring),
                                          .backward = strcmp(direction->valuestring, "backward") == 0,
                                          .stored = number_at(p, 2),
                                          .raw = number_at(p, 3),
                                          .reference = number_at(p, 4)};
            r->no_memory = r->no_memory || !t.points[t.n - 1].layer;
        }
    if (items && t.n > 0)
        items[r->n_timelines++] = t;
    else
        free(t.points);
}

/* ---- other events ---- */

static void add_message(run *r, const cJSON *event, const char *kind)
{
    run_message *items = array_grow(r->messages, &r->messages_room, r->n_messages, sizeof *items);
    r->no_memory = r->no_memory || !items;
    if (!items)
        return;
    r->messages = items;
    items[r->n_messages++] = (run_message){kind, run_number(event, "step"), copy_text(r, event, "text")};
}

/* Keeps a whole event, in place of an earlier one; *event is then NULL. */
static void keep(cJSON **place, cJSON **event)
{
    cJSON_Delete(*place);
    *place = *event;
    *event = NULL;
}

static void begin_process(run *r, cJSON **event)
{
    const double version = run_number(*event, "log_version");
    r->version = isnan(version) ? 1 : version;
    r->n_processes++;
    while (r->n_assessments > 0 && r->assessments[r->n_assessments - 1].step > run_number(*event, "step"))
        r->n_assessments--; /* their steps are done again */
    cJSON_Delete(r->end), cJSON_Delete(r->error);
    r->end = r->error = NULL;
    r->state = RUN_BEGUN;
    if (!r->first_start)
        r->first_start = cJSON_Duplicate(*event, true);
    r->no_memory = r->no_memory || !r->first_start;
    keep(&r->start, event);
}

static run_state state_at_end(const run *r, const cJSON *end)
{
    const char *word = run_text(end, "state");
    const double planned = run_number(r->start, "n_steps"), done = run_number(end, "steps");
    if (word && strcmp(word, "finished") != 0)
        return RUN_STOPPED;
    return !word && done < planned ? RUN_STOPPED : RUN_FINISHED;
}

/* Is it an event of a log? Takes *event where all of it is kept. */
static bool take_event(run *r, cJSON **event)
{
    const char *name = run_text(*event, "event");
    if (!name)
        return false;
    if (strcmp(name, "step") == 0)
        add_line(r, &r->steps, *event, step_keys, N_STEP_FIELDS);
    else if (strcmp(name, "epoch") == 0)
        add_line(r, &r->epochs, *event, epoch_keys, N_EPOCH_FIELDS);
    else if (strcmp(name, "assess") == 0)
        add_assessment(r, *event);
    else if (strcmp(name, "timeline") == 0)
        add_timeline(r, *event);
    else if (strcmp(name, "start") == 0)
        begin_process(r, event);
    else if (strcmp(name, "end") == 0) {
        r->state = state_at_end(r, *event);
        keep(&r->end, event);
    } else if (strcmp(name, "error") == 0) {
        r->state = is_same(run_text(*event, "state"), "diverged") ? RUN_DIVERGED : RUN_FAILED;
        add_message(r, *event, "error");
        keep(&r->error, event);
    } else if (strcmp(name, "note") == 0)
        add_message(r, *event, "note");
    else if (strcmp(name, "checkpoint") == 0) {
        if (cJSON_IsFalse(find(*event, "ok")))
            add_message(r, *event, "checkpoint");
    } else
        return strcmp(name, "rate") == 0;
    return true;
}

/* A line without its newline that cannot be read is one that is still being written, or was when the process was killed. */
static void take_line(run *r, const char *line, size_t bytes, bool is_whole)
{
    r->n_lines++;
    cJSON *event = cJSON_ParseWithLength(line, bytes);
    const bool known = cJSON_IsObject(event) && take_event(r, &event);
    cJSON_Delete(event);
    if (known)
        return;
    if (!is_whole)
        r->torn = true;
    else if (r->n_bad++ == 0)
        r->first_bad = r->n_lines;
}

static bool is_blank(const char *line, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (line[i] != ' ' && line[i] != '\r' && line[i] != '\t')
            return false;
    return true;
}

void run_log_parse(run *r, const char *text, size_t bytes)
{
    r->version = 1;
    r->state = RUN_NOTHING;
    for (const char *at = text, *end = text + bytes; at < end && !r->no_memory;) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const char *stop = newline ? newline : end;
        if (!is_blank(at, (size_t)(stop - at)))
            take_line(r, at, (size_t)(stop - at), newline != NULL);
        at = stop + 1;
    }
    if (r->state == RUN_NOTHING && r->steps.n + r->epochs.n + r->n_consumers > 0)
        r->state = RUN_BEGUN;
}

void run_free(run *r)
{
    for (size_t i = 0; i < r->n_consumers; i++)
        free_consumer(&r->consumers[i]);
    for (size_t i = 0; i < r->n_timelines; i++)
        free_timeline(&r->timelines[i]);
    for (size_t i = 0; i < r->n_messages; i++)
        free(r->messages[i].text);
    cJSON_Delete(r->start), cJSON_Delete(r->first_start), cJSON_Delete(r->end), cJSON_Delete(r->error);
    cJSON_Delete(r->saved_state);
    free(r->steps.items), free(r->epochs.items);
    free(r->consumers), free(r->assessments), free(r->timelines), free(r->messages);
    free(r->path), free(r->name), free(r->log);
    *r = (run){0};
}
