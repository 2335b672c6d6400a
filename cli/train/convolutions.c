/* Ways to compute convolutions; see convolutions.h. */
#include "train/convolutions.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit/child.h"
#include "kit/progress.h"

bool convolutions_parse(const char *text, comet_convolutions *value, reason *why)
{
    static const named ways[] = {{"rule", COMET_CONVOLUTIONS_RULE},
                                 {"timed", COMET_CONVOLUTIONS_TIMED},
                                 {"direct", COMET_CONVOLUTIONS_DIRECT},
                                 {NULL, 0}};
    int found = 0;
    const bool known = named_find(ways, "choice of convolutions", "rule, timed or direct", text, &found, why);
    if (known)
        *value = (comet_convolutions)found;
    return known;
}

bool set_convolutions(void *target, const char *text, reason *why)
{
    convolutions_arg *arg = target;
    arg->given = convolutions_parse(text, &arg->value, why);
    return arg->given;
}

/* ---- the trial ---- */

/* What the process of its own is given and brings back. */
typedef struct trial {
    const comet_net *net;
    comet_model_params params;
    comet_convolution_choice choice;
    size_t text_bytes;
    char text[]; /* the choices */
} trial;

static cli_exit choose(void *data)
{
    trial *t = data;
    progress_text("timing convolutions ...");
    comet_convolution_choice_init(&t->choice);
    const comet_status status = comet_convolutions_choose(t->net, &t->params, &t->choice);
    progress_hide();
    if (status != COMET_OK)
        return fail_status(status, comet_net_name(t->net));
    snprintf(t->text, t->text_bytes, "%s", t->choice.choices);
    comet_text_free(t->choice.choices);
    return CLI_OK;
}

static void describe(const comet_convolution_choice *c, char text[CONVOLUTIONS_TEXT_BYTES])
{
    if (c->n_passes == 0)
        snprintf(text, CONVOLUTIONS_TEXT_BYTES, "convolutions: there is nothing to choose");
    else
        snprintf(text, CONVOLUTIONS_TEXT_BYTES,
                 "convolutions: %" PRIu32 " of %" PRIu32 " passes by Winograd, %" PRIu32
                 " not as the rule says (trial of %.1f s)",
                 c->n_winograd, c->n_passes, c->n_unlike_rule, c->seconds);
}

cli_exit convolutions_settle(const comet_net *net, comet_model_params *params, char **choices,
                             char text[CONVOLUTIONS_TEXT_BYTES])
{
    /* An item has the name of a layer and three words. */
    const size_t text_bytes = comet_net_n_values(net) * (COMET_MAX_LAYER_NAME + (size_t)32), bytes = sizeof(trial) + text_bytes;
    text[0] = '\0';
    if (params->convolutions != COMET_CONVOLUTIONS_TIMED || params->convolution_choices)
        return CLI_OK;
    trial *t = calloc(1, bytes);
    if (!t)
        return fail_memory(bytes);
    *t = (trial){.net = net, .params = *params, .text_bytes = text_bytes};
    cli_exit code = run_apart(choose, t, bytes);
    if (code == CLI_OK && !(*choices = strdup(t->text)))
        code = fail_memory(text_bytes);
    if (code == CLI_OK) {
        params->convolution_choices = *choices;
        describe(&t->choice, text);
    }
    free(t);
    return code;
}
