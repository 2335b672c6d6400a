/* Groups of parameters by their names; see groups.h. */
#include "train/graph/groups.h"

#include <fnmatch.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "base/nearest.h"

enum { ITEM_BYTES = COMET_MAX_LAYER_NAME + 64 };

/* ---- the texts ---- */

/* A part of a text between commas. */
typedef struct item {
    char text[ITEM_BYTES]; /* the pattern */
    bool negated;          /* freeze: it takes out */
    double factor;         /* rates: of the run's rate */
} item;

/* Copies the part that begins at *at and moves on to the next one; false at the end of the text. The part is cut where it is
 * too long, which no name is. */
static bool next_part(const char **at, char part[ITEM_BYTES])
{
    if (!*at || **at == '\0')
        return false;
    size_t n = strcspn(*at, ",");
    const char *begin = *at;
    *at += n + ((*at)[n] == ',');
    for (; n > 0 && *begin == ' '; n--)
        begin++;
    for (; n > 0 && begin[n - 1] == ' '; n--)
        ;
    n = n < ITEM_BYTES ? n : ITEM_BYTES - 1;
    memcpy(part, begin, n);
    part[n] = '\0';
    return true;
}

static bool next_frozen(const char **at, item *i)
{
    if (!next_part(at, i->text))
        return false;
    i->negated = i->text[0] == '!';
    if (i->negated)
        memmove(i->text, i->text + 1, strlen(i->text));
    return true;
}

/* What follows the '=' of a rate; false where it is no number that a rate can be, then both are as before or worthless. */
static bool read_rate(const char *text, double *number, bool *times)
{
    char *end;
    if (!((*text >= '0' && *text <= '9') || *text == '.' || *text == '-' || *text == '+'))
        return false;
    *number = strtod(text, &end);
    *times = *end == 'x' || *end == 'X';
    return end != text && end[*times ? 1 : 0] == '\0' && isfinite(*number);
}

/* An unreadable rate is 1x: groups_check_texts has refused it. */
static bool next_rate(const char **at, double rate_base, item *i)
{
    double number = 1;
    bool times = true;
    if (!next_part(at, i->text))
        return false;
    char *equals = strrchr(i->text, '=');
    if (equals) {
        *equals = '\0';
        read_rate(equals + 1, &number, &times);
    }
    i->factor = times || !(rate_base > 0) ? number : number / rate_base;
    return true;
}

static comet_status check_rate(const char *part)
{
    const char *equals = strrchr(part, '=');
    double number = 0;
    bool times = false;
    if (!equals || equals == part || !read_rate(equals + 1, &number, &times))
        return comet_fail(COMET_ERROR_ARGUMENT,
                          "the rate '%s' cannot be read; it is PATTERN=FACTORx or PATTERN=RATE, as in "
                          "fc=10x or fc=0.01",
                          part);
    if (number == 0)
        return comet_fail(COMET_ERROR_ARGUMENT,
                          "the rate '%s' is 0: parameters that are not to be trained are frozen instead, with --freeze", part);
    if (number < 0)
        return comet_fail(COMET_ERROR_ARGUMENT, "the rate '%s' is negative", part);
    return COMET_OK;
}

comet_status groups_check_rates(const comet_model_params *params)
{
    char part[ITEM_BYTES];
    for (const char *at = params->rates; next_part(&at, part);) {
        double number = 0;
        bool times = false;
        read_rate(strrchr(part, '=') + 1, &number, &times);
        if (!times && !(params->rate_base > 0))
            return comet_fail(COMET_ERROR_ARGUMENT,
                              "the rate '%s' is no factor, and the run's own rate is not known: give a factor, as in fc=10x",
                              part);
    }
    return COMET_OK;
}

comet_status groups_check_texts(const comet_model_params *params)
{
    char part[ITEM_BYTES];
    for (const char *at = params->freeze; next_part(&at, part);)
        if (part[0] == '\0' || strcmp(part, "!") == 0)
            return comet_fail(COMET_ERROR_ARGUMENT, "a pattern of what is frozen is empty: '%s'", params->freeze);
    for (const char *at = params->rates; next_part(&at, part);)
        TRY(check_rate(part));
    return COMET_OK;
}

/* ---- parameters ---- */

/* Does the pattern match the name, or the part before one of its dots? */
static bool names(const char *pattern, const char *name)
{
    char part[sizeof((parameter *)0)->name];
    if (fnmatch(pattern, name, 0) == 0)
        return true;
    for (const char *dot = strchr(name, '.'); dot; dot = strchr(dot + 1, '.')) {
        const size_t n = (size_t)(dot - name);
        memcpy(part, name, n);
        part[n] = '\0';
        if (fnmatch(pattern, part, 0) == 0)
            return true;
    }
    return false;
}

void groups_apply(const comet_model_params *params, parameter *p)
{
    item i;
    p->frozen = false;
    p->rate_factor = 1;
    if (!p->learnt || params->inference)
        return;
    for (const char *at = params->freeze; next_frozen(&at, &i);)
        if (names(i.text, p->name))
            p->frozen = !i.negated;
    for (const char *at = params->rates; next_rate(&at, params->rate_base, &i);)
        if (names(i.text, p->name))
            p->rate_factor = i.factor;
}

/* ---- checks ---- */

/* Offers the name of a parameter and the parts before its dots, which are kept in `parts`. */
static void offer(nearest_word *nearest, const char *name, char best[ITEM_BYTES])
{
    char part[ITEM_BYTES];
    const size_t length = strlen(name);
    for (size_t n = 1; n <= length; n++) {
        if (n < length && name[n] != '.')
            continue;
        memcpy(part, name, n);
        part[n] = '\0';
        nearest_offer(nearest, part);
        if (nearest->best == part) {
            memcpy(best, part, n + 1);
            nearest->best = best;
        }
    }
}

static comet_status refuse_pattern(const comet_model *m, const char *pattern)
{
    char best[ITEM_BYTES];
    nearest_word nearest = nearest_to(pattern, strlen(pattern));
    const char *first = "";
    for (uint32_t i = m->n_parameters; i-- > 0;)
        if (m->parameters[i].learnt)
            first = m->parameters[i].name;
    for (uint32_t i = 0; i < m->n_parameters; i++)
        if (m->parameters[i].learnt)
            offer(&nearest, m->parameters[i].name, best);
    const char *near = nearest_best(&nearest);
    if (near)
        return comet_fail(COMET_ERROR_ARGUMENT, "'%s' names no parameter of the net %s; did you mean %s?", pattern,
                          comet_net_name(m->net), near);
    return comet_fail(COMET_ERROR_ARGUMENT, "'%s' names no parameter of the net %s, whose first is %s", pattern,
                      comet_net_name(m->net), first);
}

/* How many parameters a pattern names, and how many of them are trained. */
static uint32_t count_named(const comet_model *m, const char *pattern, uint32_t *n_trained)
{
    uint32_t n = 0;
    *n_trained = 0;
    for (uint32_t i = 0; i < m->n_parameters; i++) {
        const parameter *p = &m->parameters[i];
        const bool named = p->learnt && names(pattern, p->name);
        n += named;
        *n_trained += named && !p->frozen;
    }
    return n;
}

comet_status groups_check(const comet_model *m)
{
    item i;
    uint32_t n_trained;
    if (m->params.inference)
        return COMET_OK;
    for (const char *at = m->params.freeze; next_frozen(&at, &i);)
        if (count_named(m, i.text, &n_trained) == 0)
            return refuse_pattern(m, i.text);
    for (const char *at = m->params.rates; next_rate(&at, m->params.rate_base, &i);) {
        if (count_named(m, i.text, &n_trained) == 0)
            return refuse_pattern(m, i.text);
        if (n_trained == 0)
            return comet_fail(COMET_ERROR_ARGUMENT, "a rate for '%s', which is frozen: frozen parameters have no rate", i.text);
    }
    if (m->n_learnt == 0 && m->n_frozen > 0)
        return comet_fail(COMET_ERROR_ARGUMENT, "all parameters of the net %s are frozen: nothing is left to train",
                          comet_net_name(m->net));
    return COMET_OK;
}

/* ---- for checkpoints ---- */

const char *model_freeze_text(const comet_model *m)
{
    return m->params.freeze;
}

const char *model_rates_text(const comet_model *m)
{
    return m->params.rates;
}

static uint64_t mixed(uint64_t hash, const void *data, size_t bytes)
{
    const uint64_t both[2] = {hash, comet_checksum(data, bytes)};
    return comet_checksum(both, sizeof both);
}

uint64_t groups_frozen_hash(const comet_model *m)
{
    uint64_t hash = 0;
    for (uint32_t i = 0; i < m->n_parameters; i++)
        if (m->parameters[i].frozen)
            hash = mixed(hash, m->parameters[i].name, strlen(m->parameters[i].name));
    return hash;
}

uint64_t groups_rates_hash(const comet_model *m)
{
    uint64_t hash = 0;
    for (uint32_t i = 0; i < m->n_parameters; i++) {
        const parameter *p = &m->parameters[i];
        if (!p->learnt || p->frozen || p->rate_factor == 1)
            continue;
        hash = mixed(hash, p->name, strlen(p->name));
        hash = mixed(hash, &p->rate_factor, sizeof p->rate_factor);
    }
    return hash;
}
