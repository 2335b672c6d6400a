/* comet demo: the page of its subjects. */
#include "verbs.h"

#ifdef COMET_HAVE_TRAIN
#define SUMMARY "Train a small net twice, raw and compressed, and compare"
#define EXAMPLES            \
    "  comet demo\n"        \
    "  comet demo --json\n" \
    "  comet demo codec -j 2\n"
#else
#define SUMMARY "Compress made-up activations at several bounds, with 'comet demo codec'"
#define EXAMPLES                  \
    "  comet demo codec\n"        \
    "  comet demo codec --json\n" \
    "  comet demo codec -j 2\n"
#endif

const verb verb_demo = {
    .name = "demo",
    .summary = SUMMARY,
    .subjects =
        (const verb *const[]){
            &verb_demo_train,
            &verb_demo_codec,
            NULL,
        },
    .first_is_default = true,
    .usage = "[SUBJECT] [arguments]",
    .details = "The first subject is the default. Each has its own page: comet demo SUBJECT --help.\n",
    .examples = EXAMPLES,
};
