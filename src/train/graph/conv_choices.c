/* Choices of convolutions; see conv_choices.h. */
#include "train/graph/conv_choices.h"

#include <stdio.h>
#include <string.h>

#include "train/graph/graph.h"

static const char separator[] = ", ";

static const char *way_name(conv_way way)
{
    return way == CONV_WINOGRAD ? "winograd" : "direct";
}

const char *comet_convolutions_name(comet_convolutions convolutions)
{
    static const char *const names[] = {"rule", "timed", "direct"};
    return (unsigned)convolutions < sizeof names / sizeof names[0] ? names[convolutions] : "unknown";
}

/* ---- text ---- */

typedef struct item {
    char layer[COMET_MAX_LAYER_NAME];
    conv_ways ways;
} item;

static bool read_word(const char **at, char *word, size_t bytes)
{
    const size_t n = strcspn(*at, separator);
    if (n == 0 || n >= bytes)
        return false;
    memcpy(word, *at, n);
    word[n] = '\0';
    *at += n;
    return true;
}

static bool read_way(const char **at, conv_way *way)
{
    char word[CONV_ITEM_BYTES];
    if (*(*at)++ != ' ' || !read_word(at, word, sizeof word))
        return false;
    *way = strcmp(word, way_name(CONV_WINOGRAD)) == 0 ? CONV_WINOGRAD : CONV_DIRECT;
    return strcmp(word, way_name(*way)) == 0;
}

/* Reads the item at *at, which is not the end of the text, and moves on to the next one or the end. */
static bool read_item(const char **at, item *i)
{
    if (!read_word(at, i->layer, sizeof i->layer))
        return false;
    for (int pass = 0; pass < N_PASSES; pass++)
        if (**at == '\0' || !read_way(at, &i->ways.of[pass]))
            return false;
    if (**at == '\0')
        return true;
    if (strncmp(*at, separator, strlen(separator)) != 0)
        return false;
    *at += strlen(separator);
    return **at != '\0';
}

size_t conv_choices_add(char *text, size_t length, const char *layer, conv_ways ways)
{
    return length + (size_t)snprintf(text + length, COMET_MAX_LAYER_NAME + CONV_ITEM_BYTES, "%s%s %s %s %s",
                                     length > 0 ? separator : "", layer, way_name(ways.of[PASS_FORWARD]),
                                     way_name(ways.of[PASS_BACKWARD_DATA]), way_name(ways.of[PASS_BACKWARD_WEIGHTS]));
}

comet_status conv_choices_check(const comet_net *net, const char *text)
{
    uint32_t v = 0;
    item i;
    for (const char *at = text; *at != '\0';) {
        const size_t place = (size_t)(at - text);
        if (!read_item(&at, &i))
            return comet_fail(COMET_ERROR_ARGUMENT, "choices of convolutions cannot be read from character %zu on", place + 1);
        do {
            if (++v >= comet_net_n_values(net))
                return comet_fail(COMET_ERROR_ARGUMENT, "choices of convolutions name %s, which the net %s does not have there",
                                  i.layer, comet_net_name(net));
        } while (strcmp(comet_net_layer(net, v)->name, i.layer) != 0);
    }
    return COMET_OK;
}

static const char *choices_in(const comet_model_params *params)
{
    return params->convolutions == COMET_CONVOLUTIONS_TIMED ? params->convolution_choices : NULL;
}

const char *conv_choices_of(const comet_model *m)
{
    return choices_in(&m->params);
}

/* ---- ways ---- */

static conv_ways all_by(conv_way way)
{
    conv_ways ways;
    for (int pass = 0; pass < N_PASSES; pass++)
        ways.of[pass] = way;
    return ways;
}

conv_ways conv_ways_of(const comet_model_params *params, const char *layer)
{
    item i;
    if (params->convolutions == COMET_CONVOLUTIONS_DIRECT)
        return all_by(CONV_DIRECT);
    const char *text = choices_in(params);
    if (text)
        for (const char *at = text; *at != '\0' && read_item(&at, &i);)
            if (strcmp(i.layer, layer) == 0)
                return i.ways;
    return all_by(CONV_BY_RULE);
}

static bool is_followed(const kernel *k, conv_way way)
{
    return !k || way == CONV_BY_RULE || kernel_is_winograd(k) == (way == CONV_WINOGRAD);
}

bool conv_choices_followed(const comet_model *m)
{
    bool followed = true;
    for (uint32_t i = 0; i < m->n_ops; i++) {
        const op *o = &m->ops[i];
        if (o->layer->op != COMET_OP_CONV || o->weight == NONE)
            continue;
        const conv_ways ways = conv_ways_of(&m->params, o->layer->name);
        followed = followed && is_followed(o->forward, ways.of[PASS_FORWARD]) &&
                   is_followed(o->backward_data, ways.of[PASS_BACKWARD_DATA]) &&
                   is_followed(o->backward_weights, ways.of[PASS_BACKWARD_WEIGHTS]);
    }
    return followed;
}
