/* comet bench: the page of its subjects. */
#include "verbs.h"

const verb verb_bench = {
    .name = "bench",
    .summary = "Measure the codec or training",
    .subjects =
        (const verb *const[]){
            &verb_bench_codec,
            &verb_bench_train,
            NULL,
        },
    .usage = "SUBJECT [arguments]",
    .details = "Each subject has its own page with its options and their defaults: comet bench SUBJECT --help.\n",
    .examples = "  comet bench codec acts.npy -e 0.1std -l dense -j 1 --json\n"
                "  comet bench codec gen:relu:8,64,56,56 --layout nChw16c -j 2\n"
#ifdef COMET_HAVE_TRAIN
                "  comet bench train --model resnet50 --image 224 --batch 32 --steps 4\n"
#endif
                "  comet bench codec acts.npy -e 0.02std,0.1std --min-mb 64 --peers\n",
};
