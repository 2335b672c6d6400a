/*
 * Weights of a file into a model that they need not fit altogether; see comet/weights.h.
 *
 * All of the file is judged before any of it is loaded: each tensor of the model is taken from the file, begins anew, or is why
 * the file is refused.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/describe.h"
#include "base/status.h"
#include "train/files/weights.h"

enum { MOST_NAMED = 6 }; /* of each kind, in the summary */

typedef struct fitting {
    weights_list all, fits; /* the model's tensors; those that are loaded */
    safetensors_file *file;
    const char *path;
    comet_weights_rule rule;
    const comet_layer *classifier;
    comet_weights_fit found;
} fitting;

/* ---- text ---- */

__attribute__((format(printf, 2, 3))) static comet_status append(char **text, const char *format, ...)
{
    va_list given, again;
    va_start(given, format);
    va_copy(again, given);
    const size_t at = *text ? strlen(*text) : 0, more = (size_t)vsnprintf(NULL, 0, format, given);
    char *longer = realloc(*text, at + more + 1);
    if (longer)
        vsnprintf(longer + at, more + 1, format, again);
    va_end(again);
    va_end(given);
    if (!longer)
        return comet_fail(COMET_ERROR_MEMORY, "out of memory: could not allocate a list of tensors");
    *text = longer;
    return COMET_OK;
}

/* ---- judging ---- */

static bool is_counter(const weights_item *item)
{
    return item->index == SIZE_MAX;
}

static bool has_same_shape(const weights_item *item, const safetensors_tensor *t)
{
    return item->info.n_dims == t->n_dims && memcmp(item->info.dims, t->dims, t->n_dims * sizeof *t->dims) == 0;
}

/* May this tensor of the model begin anew, given what the file has instead? */
static bool may_begin_anew(const fitting *f, const weights_item *item, const safetensors_tensor *t)
{
    const comet_tensor_info *ours = &item->info;
    if (f->rule != COMET_WEIGHTS_NEW_HEAD || !weights_is_of_layer(item->name, f->classifier))
        return f->rule == COMET_WEIGHTS_PARTIAL;
    return !t || (t->n_dims == ours->n_dims && memcmp(t->dims + 1, ours->dims + 1, (t->n_dims - 1) * sizeof *t->dims) == 0);
}

static comet_status note_new(fitting *f, const weights_item *item, const safetensors_tensor *t)
{
    char ours[SAFETENSORS_SHAPE_BYTES], theirs[SAFETENSORS_SHAPE_BYTES];
    safetensors_shape_text(item->info.n_dims, item->info.dims, ours);
    f->found.n_new++;
    if (!t)
        return append(&f->found.list, "begins anew: %s, %s; the file has none\n", item->name, ours);
    safetensors_shape_text(t->n_dims, t->dims, theirs);
    return append(&f->found.list, "begins anew: %s, %s; in the file it is %s\n", item->name, ours, theirs);
}

/* The classifier begins anew as a whole: a bias for other classes is of no use. */
static bool head_differs(const fitting *f)
{
    bool differs = false;
    for (size_t i = 0; i < f->all.n; i++) {
        const weights_item *item = &f->all.items[i];
        if (is_counter(item) || !weights_is_of_layer(item->name, f->classifier))
            continue;
        const safetensors_tensor *t = weights_find(f->file, item->name);
        differs |= !t || !has_same_shape(item, t);
    }
    return differs;
}

static comet_status judge(fitting *f, const weights_item *item, bool new_head)
{
    const safetensors_tensor *t = weights_find(f->file, item->name);
    const bool readable = t && t->dtype != SAFETENSORS_OTHER && has_same_shape(item, t);
    if (is_counter(item))
        return COMET_OK;
    f->found.n_tensors++;
    if (new_head && weights_is_of_layer(item->name, f->classifier) && may_begin_anew(f, item, t))
        return note_new(f, item, t);
    if (readable) {
        f->fits.items[f->fits.n++] = *item;
        f->found.n_loaded++;
        return COMET_OK;
    }
    return may_begin_anew(f, item, t) ? note_new(f, item, t) : weights_match_item(&f->all, item, t, f->path);
}

static comet_status judge_left_out(fitting *f)
{
    const safetensors_tensor *t = NULL;
    for (size_t i = 0; (t = safetensors_at(f->file, i)); i++) {
        if (weights_is_expected(&f->all, f->file, t))
            continue;
        if (f->rule != COMET_WEIGHTS_PARTIAL)
            return comet_fail(COMET_ERROR_CORRUPT, "%s: it is of another net: this net has no %.120s", f->path, t->name);
        char theirs[SAFETENSORS_SHAPE_BYTES];
        f->found.n_left_out++;
        TRY(append(&f->found.list, "left out: %.120s, %s; the net has none\n", t->name,
                   safetensors_shape_text(t->n_dims, t->dims, theirs)));
    }
    return COMET_OK;
}

/* ---- the summary ---- */

/* Names after `begins` in lines of the list, as far as they are few. */
static comet_status append_names(fitting *f, const char *begins)
{
    uint64_t n = 0;
    for (const char *line = f->found.list; *line != '\0'; line = strchr(line, '\n') + 1) {
        const size_t skip = strlen(begins);
        if (strncmp(line, begins, skip) != 0)
            continue;
        if (++n <= MOST_NAMED)
            TRY(append(&f->found.summary, "%s%.*s", n > 1 ? ", " : "", (int)strcspn(line + skip, ","), line + skip));
    }
    return n > MOST_NAMED ? append(&f->found.summary, " and %" PRIu64 " more", n - MOST_NAMED) : COMET_OK;
}

static comet_status summarise(fitting *f)
{
    comet_weights_fit *found = &f->found;
    TRY(append(&found->list, "%s", ""));
    TRY(append(&found->summary, "loaded %" PRIu64 " of %" PRIu64 " tensors from %s", found->n_loaded, found->n_tensors,
               f->path));
    if (found->n_new > 0) {
        TRY(append(&found->summary, "; begin%s anew: ", found->n_new == 1 ? "s" : ""));
        TRY(append_names(f, "begins anew: "));
        if (found->classes_in_file > 0 && found->classes_in_file != found->classes)
            TRY(append(&found->summary, " (%" PRIu64 " classes, the file has %" PRIu64 ")", found->classes,
                       found->classes_in_file));
        else if (found->classes_in_file == 0 && f->classifier)
            TRY(append(&found->summary, " (%" PRIu64 " classes, the file has none)", found->classes));
    }
    if (found->n_left_out > 0) {
        TRY(append(&found->summary, "; left out: "));
        TRY(append_names(f, "left out: "));
    }
    return COMET_OK;
}

/* The scores that the file's classifier gives; 0: it has none. */
static uint64_t classes_in_file(const fitting *f)
{
    char name[COMET_MAX_LAYER_NAME + sizeof ".weight"];
    snprintf(name, sizeof name, "%s.weight", f->classifier ? f->classifier->name : "");
    const safetensors_tensor *t = weights_find(f->file, name);
    return t && t->n_dims > 0 ? t->dims[0] : 0;
}

/* ---- loading ---- */

static comet_status judge_all(fitting *f)
{
    const comet_net *net = comet_model_net(f->all.model);
    f->fits = (weights_list){.model = f->all.model, .items = calloc(f->all.n + 1, sizeof *f->fits.items)};
    if (!f->fits.items)
        return comet_fail(COMET_ERROR_MEMORY, "out of memory: could not allocate a list of %zu tensors", f->all.n);
    f->classifier = weights_classifier(net);
    f->found.classes = comet_net_shape(net, comet_net_n_values(net) - 1).channels;
    f->found.classes_in_file = classes_in_file(f);
    const bool new_head = f->rule != COMET_WEIGHTS_ALL && head_differs(f);
    for (size_t i = 0; i < f->all.n; i++)
        TRY(judge(f, &f->all.items[i], new_head));
    TRY(judge_left_out(f));
    if (f->found.n_loaded == 0)
        return comet_fail(COMET_ERROR_CORRUPT, "%s: none of its tensors fits the net %s", f->path, comet_net_name(net));
    for (size_t i = 0; i < f->fits.n; i++)
        TRY(weights_check_finite(f->file, weights_find(f->file, f->fits.items[i].name), f->path));
    return summarise(f);
}

/* Says that there is a way where a file of another net is refused. */
static comet_status point_to_partial(const fitting *f, comet_status status)
{
    char why[512];
    snprintf(why, sizeof why, "%s", comet_last_error());
    if (status != COMET_ERROR_CORRUPT || f->rule != COMET_WEIGHTS_NEW_HEAD || !strstr(why, "of another net"))
        return status;
    return comet_fail(status, "%s; partial loading takes what fits", why);
}

void comet_weights_fit_init(comet_weights_fit *fit)
{
    *fit = (comet_weights_fit){.size = sizeof *fit};
}

void comet_weights_fit_free(comet_weights_fit *fit)
{
    if (!fit)
        return;
    free(fit->summary);
    free(fit->list);
    fit->summary = fit->list = NULL;
}

comet_status comet_weights_load_fitting(comet_model *model, const char *path, comet_weights_rule rule, comet_weights_fit *fit)
{
    fitting f = {.path = path, .rule = rule};
    if (fit)
        TRY(CHECK_SIZE(comet_weights_fit, fit));
    if (!model || !path || (unsigned)rule > COMET_WEIGHTS_PARTIAL)
        return comet_fail(COMET_ERROR_ARGUMENT, "loading weights needs a model, a file and a rule of 0 to %d",
                          COMET_WEIGHTS_PARTIAL);
    comet_status status = weights_open_verified(&f.file, path);
    if (status == COMET_OK)
        status = weights_list_make(&f.all, model, false);
    if (status == COMET_OK)
        status = judge_all(&f);
    if (status == COMET_OK)
        status = weights_list_load(&f.fits, model, f.file);
    if (status == COMET_OK && fit) {
        GIVE(comet_weights_fit, fit, &f.found);
        f.found.summary = f.found.list = NULL;
    }
    comet_weights_fit_free(&f.found);
    weights_list_free(&f.fits);
    weights_list_free(&f.all);
    safetensors_close(f.file);
    return status == COMET_OK ? COMET_OK : point_to_partial(&f, status);
}

comet_status comet_weights_load(comet_model *model, const char *path)
{
    return comet_weights_load_fitting(model, path, COMET_WEIGHTS_ALL, NULL);
}
