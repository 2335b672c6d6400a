/* The head of the page: how each run went in a sentence, its main figures, and what was run on which machine with which
 * command. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "report/sections.h"

enum { MANY_RUNS = 3 }; /* more have no sentence each: a table says it better */

/* ---- figures of a run ---- */

typedef struct outcome {
    double top1, best, loss, peak, times, speed, seconds, step, n_steps;
    bool is_test; /* top1 is of the test images */
    saved_figures saved;
} outcome;

static double last_of(const run_lines *lines, size_t field)
{
    for (size_t i = lines->n; i-- > 0;)
        if (!isnan(lines->items[i].field[field]))
            return lines->items[i].field[field];
    return NAN;
}

static double first_known(double a, double b)
{
    return isnan(a) ? b : a;
}

static outcome outcome_of(const run *r)
{
    const run_line *step = run_last(&r->steps), *epoch = run_last(&r->epochs);
    outcome o = {.saved = saved_of(r)};
    const double test = first_known(run_number(r->end, "top1"), last_of(&r->epochs, E_TOP1));
    o.is_test = !isnan(test);
    o.top1 = o.is_test ? test : first_known(run_number(r->end, "train_top1"), last_of(&r->epochs, E_TRAIN_TOP1));
    o.best = fmax(run_number(r->end, "best_top1"), run_largest(&r->epochs, E_TOP1));
    o.loss = first_known(run_number(r->end, "loss"), first_known(last_of(&r->epochs, E_LOSS), last_of(&r->steps, S_LOSS)));
    o.peak = fmax(run_number(r->end, "peak_rss_bytes"),
                  fmax(run_largest(&r->epochs, E_PEAK_RSS), run_largest(&r->steps, S_PEAK_RSS)));
    o.times = o.saved.stored > 0 ? o.saved.reference / o.saved.stored : NAN;
    o.speed =
        first_known(run_number(r->end, "images_per_s"), first_known(last_of(&r->epochs, E_SPEED), last_of(&r->steps, S_SPEED)));
    o.step = fmax(run_number(r->end, "steps"), fmax(step ? step->step : NAN, epoch ? epoch->step : NAN));
    o.n_steps = run_number(r->start, "n_steps");
    o.seconds = fmax(run_number(r->end, "seconds"), fmax(step ? step->seconds : NAN, epoch ? epoch->seconds : NAN));
    return o;
}

/* ---- the sentence ---- */

static void put_reason(const run *r, page *p)
{
    switch (r->state) {
    case RUN_NO_LOG:
        page_put(
            p, r->saved_state
                   ? "This folder holds a run but no log, so there is little to show: its <code>state.json</code> says what is "
                     "below."
               : r->is_folder ? "This folder holds no run of <code>comet train</code>: neither <code>log.jsonl</code> nor "
                                "<code>state.json</code> is in it."
                              : "There is no log.");
        break;
    case RUN_NOTHING: page_put(p, "The log is there, but has no line of a run yet."); break;
    default: break;
    }
}

/* "finished its 1,560 steps", "was stopped at step 120 of 400". */
static void put_progress(const run *r, const outcome *o, page *p)
{
    static const char *const words[] = {
        [RUN_NO_LOG] = "",
        [RUN_NOTHING] = "",
        [RUN_BEGUN] = "is at, or was killed after,",
        [RUN_FINISHED] = "finished its",
        [RUN_STOPPED] = "was stopped after",
        [RUN_DIVERGED] = "diverged after",
        [RUN_FAILED] = "failed after",
    };
    char step[HUMAN_BYTES], all[HUMAN_BYTES];
    page_format(p, " %s", words[r->state]);
    if (isnan(o->step))
        page_put(p, r->state == RUN_FINISHED ? " steps" : " no step");
    else if (r->state == RUN_FINISHED)
        page_format(p, " %s steps", human(COUNT, o->step, step));
    else if (isnan(o->n_steps))
        page_format(p, " step %s", human(COUNT, o->step, step));
    else
        page_format(p, " step %s of %s", human(COUNT, o->step, step), human(COUNT, o->n_steps, all));
}

static void put_accuracy(const outcome *o, page *p)
{
    char a[HUMAN_BYTES], b[HUMAN_BYTES];
    if (isnan(o->top1)) {
        if (!isnan(o->loss))
            page_format(p, "; its last training loss is <b>%s</b>", human(PLAIN, o->loss, a));
        return;
    }
    page_format(p, "; it finds the class of <b>%s</b> of the %s images", human(SHARE, o->top1, a),
                o->is_test ? "test" : "training");
    if (o->is_test && o->best > o->top1)
        page_format(p, " (%s at best)", human(SHARE, o->best, b));
}

static void put_memory(const outcome *o, page *p)
{
    char a[HUMAN_BYTES], b[HUMAN_BYTES], c[HUMAN_BYTES];
    if (!isnan(o->peak))
        page_format(p, ", needs <b>%s</b> at its peak", human(BYTES, o->peak, a));
    if (!isnan(o->times))
        page_format(p, ", saves %s for backward, <b>%s less</b> than the %s of a framework that keeps everything",
                    human(BYTES, o->saved.stored, a), human(TIMES, o->times, b), human(BYTES, o->saved.reference, c));
    if (o->speed > 0)
        page_format(p, ", and trains <b>%s images per second</b>", human(SPEED, o->speed, a));
}

static void put_sentence(const runs *all, const run *r, page *p)
{
    const outcome o = outcome_of(r);
    const char *net = run_text(r->start, "net");
    page_put(p, "<p class=\"outcome\">");
    if (all->n > 1 || r->state <= RUN_NOTHING) {
        page_put(p, "<strong>");
        page_escape(p, r->name);
        page_put(p, "</strong>: ");
    }
    put_reason(r, p);
    if (r->state > RUN_NOTHING) {
        page_escape(p, net ? net : "The run");
        put_progress(r, &o, p);
        put_accuracy(&o, p);
        put_memory(&o, p);
        page_put(p, ".");
    }
    page_put(p, "</p>\n");
}

/* ---- what to know about the log ---- */

static void put_about_log(const run *r, page *p)
{
    char text[HUMAN_BYTES];
    if (r->log && r->state > RUN_NOTHING && r->version < 2)
        put_missing(p, "The log is of an older version (no <code>log_version</code>): it lacks memory, ratio and time by step, "
                       "memory within a "
                       "step, and the machine. What it has is shown.");
    if (r->version > 2)
        put_missing(p, "The log is of a newer version than this program knows; what it understands is shown.");
    if (r->state > RUN_NOTHING && !r->start)
        put_missing(p, "The log has no line <code>start</code>: what was run is not known.");
    if (r->torn)
        put_missing(p, "The last line of the log is cut short, as when a run is killed or still writes; it is left out.");
    if (r->n_bad > 0) {
        page_format(p, "<p class=\"missing\">%s of the log's %s", human(COUNT, (double)r->n_bad, text),
                    r->n_bad == 1 ? "lines is" : "lines are");
        page_format(p, " not of a run and left out; the first is line %s.</p>\n", human(COUNT, (double)r->first_bad, text));
    }
    if (r->error) {
        page_put(p, "<p class=\"missing error\">It ended with an error: ");
        page_escape(p, run_text(r->error, "text"));
        page_put(p, "</p>\n");
    }
}

/* ---- the main figures ---- */

static void put_tile(page *p, const char *name, const char *value, const char *note)
{
    page_format(p, "<div class=\"tile\"><dt>%s</dt><dd>%s<span>%s</span></dd></div>\n", name, value, note);
}

static void put_tiles(const run *r, page *p)
{
    const outcome o = outcome_of(r);
    char text[HUMAN_BYTES], note[HUMAN_BYTES + 32], inner[HUMAN_BYTES];
    page_put(p, "<dl class=\"tiles\">\n");
    if (!isnan(o.top1)) {
        snprintf(note, sizeof note, "best %s", human(SHARE, o.best, inner));
        put_tile(p, o.is_test ? "test accuracy" : "training accuracy", human(SHARE, o.top1, text),
                 o.is_test && !isnan(o.best) ? note : "");
    }
    if (!isnan(o.peak))
        put_tile(p, "peak memory", human(BYTES, o.peak, text), "whole process");
    if (!isnan(o.times)) {
        snprintf(note, sizeof note, "%s instead of ", human(BYTES, o.saved.stored, inner));
        const size_t at = strlen(note);
        snprintf(note + at, sizeof note - at, "%s", human(BYTES, o.saved.reference, inner));
        snprintf(text, sizeof text, "%s less", human(TIMES, o.times, inner));
        put_tile(p, "saved for backward", text, note);
    }
    if (o.speed > 0) {
        snprintf(note, sizeof note, "%s in all", human(SECONDS, o.seconds, inner));
        put_tile(p, "images per second", human(SPEED, o.speed, text), isnan(o.seconds) ? "" : note);
    }
    page_put(p, "</dl>\n");
}

/* Figures side by side. */
static void put_comparison(const runs *all, page *p)
{
    static const char *const names[] = {"accuracy",
                                        "best accuracy",
                                        "loss",
                                        "peak memory",
                                        "saved for backward, stored",
                                        "raw here",
                                        "a framework that keeps everything",
                                        "times less",
                                        "images per second",
                                        "time in all",
                                        "steps done"};
    static const quantity kinds[] = {SHARE, SHARE, PLAIN, BYTES, BYTES, BYTES, BYTES, TIMES, SPEED, SECONDS, COUNT};
    char text[HUMAN_BYTES];
    page_put(p, "<div class=\"scroll\" tabindex=\"0\"><table class=\"facts\" id=\"comparison\"><caption>The runs side by "
                "side</caption><thead><tr><td></td>");
    for (size_t i = 0; i < all->n; i++) {
        page_format(p, "<th scope=\"col\"><i class=\"swatch %s\"></i>", run_colour(i));
        page_escape(p, all->items[i].name);
        page_put(p, "</th>");
    }
    page_put(p, "</tr></thead><tbody>\n");
    for (size_t k = 0; k < N_ITEMS(names); k++) {
        page_format(p, "<tr><th scope=\"row\">%s</th>", names[k]);
        for (size_t i = 0; i < all->n; i++) {
            const outcome o = outcome_of(&all->items[i]);
            const double values[] = {o.top1,  o.best,  o.loss,    o.peak, o.saved.stored, o.saved.raw, o.saved.reference,
                                     o.times, o.speed, o.seconds, o.step};
            page_format(p, "<td>%s</td>", human(kinds[k], values[k], text));
        }
        page_put(p, "</tr>\n");
    }
    page_put(p, "</tbody></table></div>\n");
}

/* ---- what was run ---- */

static void put_number(page *p, quantity what, double value, const char *after)
{
    char text[HUMAN_BYTES];
    page_format(p, "%s%s", human(what, value, text), after);
}

/* Puts ", " before all but the first part of a cell that began at `begin`. */
static void next_part(page *p, size_t begin)
{
    if (p->bytes > begin)
        page_put(p, ", ");
}

static void put_known_number(page *p, size_t begin, const cJSON *event, const char *key, quantity what, const char *before,
                             const char *after)
{
    const double value = run_number(event, key);
    if (isnan(value))
        return;
    next_part(p, begin);
    page_put(p, before);
    put_number(p, what, value, after);
}

static void put_known_text(page *p, size_t begin, const cJSON *event, const char *key, const char *before, const char *after)
{
    const char *text = run_text(event, key);
    if (!text)
        return;
    next_part(p, begin);
    page_put(p, before);
    page_escape(p, text);
    page_put(p, after);
}

static void cell_net(const run *r, page *p, size_t at)
{
    put_known_text(p, at, r->start, "net", "", "");
    put_known_number(p, at, r->start, "parameters", COUNT, "", " parameters");
}

static void cell_data(const run *r, page *p, size_t at)
{
    const cJSON *image = cJSON_GetObjectItemCaseSensitive(r->start, "image");
    put_known_text(p, at, r->start, "data", "", "");
    put_known_number(p, at, r->start, "train_images", COUNT, "", " training images");
    put_known_number(p, at, r->start, "test_images", COUNT, "", " test images");
    put_known_number(p, at, r->start, "classes", COUNT, "", " classes");
    if (cJSON_GetArraySize(image) == 3) {
        char text[HUMAN_BYTES];
        next_part(p, at);
        for (int i = 0; i < 3; i++) {
            const cJSON *side = cJSON_GetArrayItem(image, i);
            page_format(p, "%s%s", i > 0 ? " \xc3\x97 " : "",
                        human(COUNT, cJSON_IsNumber(side) ? side->valuedouble : NAN, text));
        }
    }
    if (run_flag(r->start, "augment"))
        next_part(p, at), page_put(p, "augmented");
}

static void cell_length(const run *r, page *p, size_t at)
{
    put_known_number(p, at, r->start, "n_epochs", COUNT, "", run_number(r->start, "n_epochs") == 1 ? " epoch" : " epochs");
    put_known_number(p, at, r->start, "n_steps", COUNT, "", " steps");
    put_known_number(p, at, r->start, "batch", COUNT, "", " images in a batch");
    if (run_number(r->start, "accumulate") > 1)
        put_known_number(p, at, r->start, "accumulate", COUNT, "", " batches in an update");
}

static void cell_optimiser(const run *r, page *p, size_t at)
{
    put_known_text(p, at, r->start, "optimiser", "", "");
    put_known_number(p, at, r->start, "momentum", PLAIN, "momentum ", run_flag(r->start, "nesterov") ? " (Nesterov)" : "");
    put_known_number(p, at, r->start, "weight_decay", PLAIN, "weight decay ", "");
    put_known_number(p, at, r->start, "clip", PLAIN, "gradients clipped at ", "");
    if (run_number(r->start, "smoothing") > 0)
        put_known_number(p, at, r->start, "smoothing", PLAIN, "labels smoothed by ", "");
}

static void cell_rate(const run *r, page *p, size_t at)
{
    const char *chosen = run_text(r->start, "rate_chosen");
    put_known_number(p, at, r->start, "rate", PLAIN, "", "");
    if (chosen) {
        page_put(p, " (");
        page_escape(p, chosen);
        page_put(p, ")");
    }
    put_known_text(p, at, r->start, "schedule", "schedule ", "");
    if (run_number(r->start, "warmup_epochs") > 0)
        put_known_number(p, at, r->start, "warmup_epochs", PLAIN, "warm-up of ", " epochs");
    put_known_text(p, at, r->start, "rates", "of their own: ", "");
    put_known_text(p, at, r->start, "freeze", "frozen: ", "");
}

static void cell_compression(const run *r, page *p, size_t at)
{
    const char *mode = run_text(r->start, "compress");
    put_known_text(p, at, r->start, "compress", "", "");
    if (!mode || strcmp(mode, "off") == 0)
        return;
    put_known_number(p, at, r->start, "noise", SHARE, "noise of gradients + ", "");
    put_known_number(p, at, r->start, "sigma", PLAIN, "rule sigma, ", "");
    put_known_number(p, at, r->start, "overhead", SHARE, "at most ", " of the time for coding");
    put_known_number(p, at, r->start, "memory_limit_bytes", BYTES, "a limit of ", "");
}

static void cell_computing(const run *r, page *p, size_t at)
{
    put_known_number(p, at, r->start, "threads", COUNT, "", run_number(r->start, "threads") == 1 ? " thread" : " threads");
    put_known_text(p, at, r->start, "precision", "", "");
    put_known_text(p, at, r->start, "convolutions", "convolutions ", "");
    put_known_number(p, at, r->start, "seed", COUNT, "seed ", "");
}

/* What they sent is of the last process. */
static void cell_ranks(const run *r, page *p, size_t at)
{
    char plain[HUMAN_BYTES + 8];
    const char *wire = run_text(r->start, "compress_gradients");
    const double sent = run_number(r->end, "exchange_sent_bytes"), whole = run_number(r->end, "exchange_plain_bytes");
    if (!(run_number(r->start, "ranks") > 1))
        return;
    put_known_number(p, at, r->start, "ranks", COUNT, "", " processes");
    if (run_flag(r->start, "sync_bn"))
        next_part(p, at), page_put(p, "batch norm over all");
    if (run_flag(r->start, "shard_optimiser"))
        next_part(p, at), page_put(p, "optimiser shared out");
    if (wire && strcmp(wire, "off") != 0)
        put_known_text(p, at, r->start, "compress_gradients", "gradients travel as ", "");
    put_known_number(p, at, r->end, "exchange_sent_bytes", BYTES, "sent ", "");
    if (sent < whole)
        page_format(p, " instead of %s", human(BYTES, whole, plain));
}

static void cell_machine(const run *r, page *p, size_t at)
{
    put_known_text(p, at, r->start, "machine.cpu", "", "");
    put_known_number(p, at, r->start, "machine.cores", COUNT, "",
                     run_number(r->start, "machine.cores") == 1 ? " core" : " cores");
    put_known_text(p, at, r->start, "machine.isa", "", "");
    put_known_number(p, at, r->start, "machine.memory_bytes", BYTES, "", "");
}

static void cell_program(const run *r, page *p, size_t at)
{
    put_known_text(p, at, r->start, "comet_version", "Comet ", "");
    put_known_text(p, at, r->start, "onednn", "oneDNN ", "");
}

static void cell_date(const run *r, page *p, size_t at)
{
    const double seconds = outcome_of(r).seconds;
    const char *date = run_text(r->first_start, "date");
    if (date) {
        page_put(p, "<time>");
        page_escape(p, date);
        page_put(p, "</time>");
    }
    if (!isnan(seconds)) {
        next_part(p, at);
        put_number(p, SECONDS, seconds, r->n_processes > 1 ? " in all" : "");
    }
    if (r->n_processes > 1) {
        next_part(p, at);
        put_number(p, COUNT, (double)r->n_processes, " processes");
    }
}

static void cell_place(const run *r, page *p, size_t at)
{
    (void)at;
    page_put(p, "<code>");
    page_escape(p, r->path);
    page_put(p, "</code>");
}

/* A word that a shell would take apart is quoted. */
static void put_word(page *p, const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=:,./@%";
    if (word[0] != '\0' && strspn(word, plain) == strlen(word)) {
        page_put(p, word);
        return;
    }
    page quoted = {0};
    page_put(&quoted, "'");
    for (const char *at = word; *at != '\0'; at++)
        page_bytes(&quoted, *at == '\'' ? "'\\''" : at, *at == '\'' ? 4 : 1);
    page_put(&quoted, "'");
    page_escape(p, quoted.text);
    p->failed = p->failed || quoted.failed;
    page_free(&quoted);
}

static void cell_command(const run *r, page *p, size_t at)
{
    const cJSON *words = cJSON_GetObjectItemCaseSensitive(r->start, "command"), *word;
    (void)at;
    if (!cJSON_IsArray(words))
        return;
    page_put(p, "<code>");
    cJSON_ArrayForEach(word, words)
    {
        if (word != words->child)
            page_put(p, " ");
        put_word(p, cJSON_IsString(word) ? word->valuestring : "");
    }
    page_put(p, "</code>");
}

static void put_facts(const runs *all, page *p)
{
    static const struct {
        const char *name;
        void (*put)(const run *r, page *p, size_t at);
    } rows[] = {
        {"net", cell_net},
        {"data", cell_data},
        {"length", cell_length},
        {"optimiser", cell_optimiser},
        {"rate", cell_rate},
        {"compression", cell_compression},
        {"computing", cell_computing},
        {"ranks", cell_ranks},
        {"machine", cell_machine},
        {"program", cell_program},
        {"begun", cell_date},
        {"run", cell_place},
        {"command", cell_command},
    };
    page_put(p, "<section aria-labelledby=\"s-facts\"><h2 id=\"s-facts\">What was run</h2>\n<div class=\"scroll\" "
                "tabindex=\"0\"><table class=\"facts\">");
    if (all->n > 1) {
        page_put(p, "<thead><tr><td></td>");
        for (size_t i = 0; i < all->n; i++) {
            page_put(p, "<th scope=\"col\">");
            page_escape(p, all->items[i].name);
            page_put(p, "</th>");
        }
        page_put(p, "</tr></thead>");
    }
    page_put(p, "<tbody>\n");
    for (size_t k = 0; k < N_ITEMS(rows); k++) {
        const size_t row = p->bytes;
        bool any = false;
        page_format(p, "<tr><th scope=\"row\">%s</th>", rows[k].name);
        for (size_t i = 0; i < all->n; i++) {
            page_put(p, "<td>");
            const size_t cell = p->bytes;
            rows[k].put(&all->items[i], p, cell);
            any = any || p->bytes > cell;
            page_put(p, "</td>");
        }
        page_put(p, "</tr>\n");
        if (!any && !p->failed)
            p->bytes = row; /* nothing is known: no row */
    }
    page_put(p, "</tbody></table></div>\n</section>\n");
}

/* Words and figures of state.json, where there is no log. */
static void put_state(const run *r, page *p)
{
    const cJSON *item;
    if (r->log || !cJSON_IsObject(r->saved_state))
        return;
    page_put(p, "<div class=\"scroll\" tabindex=\"0\"><table class=\"facts\"><tbody>\n");
    cJSON_ArrayForEach(item, r->saved_state)
    {
        char text[HUMAN_BYTES];
        page_put(p, "<tr><th scope=\"row\">");
        page_escape(p, item->string);
        page_put(p, "</th><td>");
        if (cJSON_IsNumber(item))
            page_put(p, human(fabs(item->valuedouble) >= 1000 ? COUNT : PLAIN, item->valuedouble, text));
        else if (cJSON_IsString(item))
            page_escape(p, item->valuestring);
        else if (cJSON_IsBool(item))
            page_put(p, cJSON_IsTrue(item) ? "yes" : "no");
        page_put(p, "</td></tr>\n");
    }
    page_put(p, "</tbody></table></div>\n");
}

void draw_head(const runs *all, const char *title, page *p)
{
    page_put(p, "<header><h1>");
    page_put(p, title ? title : "");
    page_put(p, "</h1>\n");
    for (size_t i = 0; i < all->n; i++) {
        if (all->n <= MANY_RUNS || all->items[i].state != RUN_FINISHED)
            put_sentence(all, &all->items[i], p);
        put_about_log(&all->items[i], p);
        put_state(&all->items[i], p);
    }
    if (all->n == 1)
        put_tiles(&all->items[0], p);
    page_put(p, "</header>\n");
    if (all->n > 1)
        put_comparison(all, p);
    put_facts(all, p);
}

/* ---- what the runs said ---- */

void draw_messages(const runs *all, page *p)
{
    char text[HUMAN_BYTES];
    size_t n = 0;
    for (size_t i = 0; i < all->n; i++)
        n += all->items[i].n_messages;
    if (n == 0)
        return;
    page_put(p, "<section aria-labelledby=\"s-messages\"><h2 id=\"s-messages\">Messages</h2>\n<ul class=\"messages\">\n");
    for (size_t i = 0; i < all->n; i++)
        for (size_t k = 0; k < all->items[i].n_messages; k++) {
            const run_message *m = &all->items[i].messages[k];
            page_format(p, "<li class=\"%s\">", m->kind);
            if (all->n > 1) {
                page_put(p, "<strong>");
                page_escape(p, all->items[i].name);
                page_put(p, "</strong> ");
            }
            if (!isnan(m->step))
                page_format(p, "step %s: ", human(COUNT, m->step, text));
            page_escape(p, m->text);
            page_put(p, "</li>\n");
        }
    page_put(p, "</ul></section>\n");
}
