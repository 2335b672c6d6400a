/* Other programs' words for our options; see option_synonyms.h. */
#include "kit/option_synonyms.h"

#include <string.h>

typedef struct synonyms {
    const char *ours, *theirs; /* the latter separated by blanks */
} synonyms;

static const synonyms options[] = {
    {"accumulate", " accum accumulate-grad-batches accumulation-steps grad-accum grad-accum-steps gradient-accumulation "
                   "gradient-accumulation-steps "},
    {"batch", " batch-size bs mini-batch mini-batch-size minibatch per-device-train-batch-size train-batch-size "},
    {"classes", " n-classes nb-classes nclasses num-classes num-labels "},
    {"clip", " clip-grad clip-grad-norm clip-gradient clip-norm clipnorm grad-clip gradient-clip gradient-clip-val "
             "max-grad-norm "},
    {"compress", " compression "},
    {"convolutions", " autotune benchmark conv-algo conv-algorithm cudnn-benchmark no-winograd winograd "},
    {"data", " data-dir data-folder data-path datadir dataset dataset-path train-data train-dir "},
    {"epochs", " max-epochs n-epochs num-epochs num-train-epochs "},
    {"error", " abs-error bound error-bound tolerance "},
    {"force", " overwrite "},
    {"image", " crop-size image-size img img-size imgsz input-size resolution "},
    {"loader-threads", " data-workers dataloader-num-workers n-workers num-workers workers "},
    {"log", " log-file logfile "},
    {"max-steps", " iterations iters max-iter max-iters n-steps num-steps steps total-steps train-steps "},
    {"memory", " max-mem max-memory mem mem-limit memory-limit ram "},
    {"model", " arch architecture backbone model-name network "},
    {"no-augment", " no-aug no-augmentation "},
    {"optimiser", " opt optim optimizer "},
    {"out", " checkpoint-dir ckpt-dir out-dir outdir output output-dir save save-dir save-path "},
    {"output", " out save save-path "},
    {"patience", " early-stop early-stopping early-stopping-patience "},
    {"queue", " prefetch prefetch-batches prefetch-factor queue-size "},
    {"rate", " base-lr eta learning-rate lr max-lr "},
    {"resume", " continue resume-from restart "},
    {"save-steps", " checkpoint-every save-every save-freq save-interval "},
    {"schedule", " learning-rate-schedule lr-policy lr-schedule lr-scheduler lr-scheduler-type sched scheduler "},
    {"seed", " manual-seed random-seed random-state rng-seed "},
    {"smoothing", " label-smoothing label-smoothing-factor "},
    {"steps", " iterations iters max-steps n-steps num-steps "},
    {"threads", " cpus jobs n-jobs n-threads nproc nthreads num-threads "},
    {"warmup", " lr-warmup-epochs warmup-epochs "},
    {"weight-decay", " decay l2 wd "},
    {"weights", " checkpoint ckpt finetune init-weights initial-checkpoint load load-weights pretrained "},
};

enum { N_OPTIONS = sizeof options / sizeof *options };

void nearest_offer_option(nearest_word *nearest, const char *candidate)
{
    const char *theirs = "";
    for (size_t i = 0; i < N_OPTIONS; i++)
        if (strcmp(options[i].ours, candidate) == 0)
            theirs = options[i].theirs;
    nearest_offer_for(nearest, candidate, theirs);
}
