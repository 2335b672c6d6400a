/* comet demo: the page of its subjects. */
#include "verbs.h"

const verb verb_demo = {
    .name = "demo",
#ifdef COMET_HAVE_TRAIN
    .summary = "Train a small net twice, raw and compressed, and compare",
#else
    .summary = "Compress made-up activations at several bounds, beside memcpy and zfp",
#endif
    .subjects =
        (const verb *const[]){
#ifdef COMET_HAVE_TRAIN
            &verb_demo_train,
#endif
            &verb_demo_codec,
            NULL,
        },
    .first_is_default = true,
    .usage = "[SUBJECT] [arguments]",
    .details = "The default subject is the first. Each has its own page: comet demo SUBJECT --help.\n",
    .examples = "  comet demo\n"
                "  comet demo --json\n"
                "  comet demo codec -j 2\n",
};
