/* Nearest word by optimal string alignment, and a table of synonyms; see suggest.h. */
#include "kit/suggest.h"

#include <stdint.h>
#include <string.h>

enum { MAX_WORD = 40 };

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* One cell of the alignment table: row i ends at from[i - 1], column j at to[j - 1]. */
static size_t cell(size_t table[MAX_WORD + 1][MAX_WORD + 1], const char *from, const char *to, size_t i, size_t j)
{
    const size_t replaced = table[i - 1][j - 1] + (from[i - 1] != to[j - 1]);
    size_t best = smaller(replaced, smaller(table[i - 1][j], table[i][j - 1]) + 1);
    if (i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1])
        best = smaller(best, table[i - 2][j - 2] + 1);
    return best;
}

size_t edit_distance(const char *from, const char *to)
{
    size_t table[MAX_WORD + 1][MAX_WORD + 1];
    const size_t n = strlen(from);
    const size_t m = strlen(to);
    if (n > MAX_WORD || m > MAX_WORD)
        return SIZE_MAX;
    for (size_t i = 0; i <= n; i++)
        table[i][0] = i;
    for (size_t j = 0; j <= m; j++)
        table[0][j] = j;
    for (size_t i = 1; i <= n; i++)
        for (size_t j = 1; j <= m; j++)
            table[i][j] = cell(table, from, to, i, j);
    return table[n][m];
}

suggestion suggestion_start(const char *text)
{
    return (suggestion){.text = text, .best = NULL, .distance = SIZE_MAX};
}

void suggestion_offer(suggestion *s, const char *candidate)
{
    const size_t distance = edit_distance(s->text, candidate);
    if (distance < s->distance) {
        s->distance = distance;
        s->best = candidate;
    }
}

/* ---- other programs' words for options ---- */

typedef struct synonyms {
    const char *ours, *theirs; /* the latter between blanks */
} synonyms;

static const synonyms options[] = {
    {"accumulate", " accum accumulate-grad-batches accumulation-steps grad-accum grad-accum-steps gradient-accumulation "
                   "gradient-accumulation-steps "},
    {"batch", " batch-size bs mini-batch mini-batch-size minibatch per-device-train-batch-size train-batch-size "},
    {"classes", " n-classes nb-classes nclasses num-classes num-labels "},
    {"clip", " clip-grad clip-grad-norm clip-gradient clip-norm clipnorm grad-clip gradient-clip gradient-clip-val "
             "max-grad-norm "},
    {"compress", " compression "},
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

/* " word " with each _ as a -; "" for words that are too long to be any. */
static void between_blanks(const char *word, char text[MAX_WORD + 3])
{
    const size_t n = strlen(word);
    text[0] = '\0';
    if (n == 0 || n > MAX_WORD || strchr(word, ' '))
        return;
    text[0] = text[n + 1] = ' ';
    text[n + 2] = '\0';
    for (size_t i = 0; i < n; i++)
        text[i + 1] = (char)(word[i] == '_' ? '-' : word[i]);
}

void suggestion_offer_option(suggestion *s, const char *candidate)
{
    char text[MAX_WORD + 3];
    between_blanks(s->text, text);
    suggestion_offer(s, candidate);
    for (size_t i = 0; i < N_OPTIONS && text[0] != '\0'; i++)
        if (strcmp(options[i].ours, candidate) == 0 && strstr(options[i].theirs, text)) {
            s->distance = 0;
            s->best = candidate;
        }
}

/* ---- the answer ---- */

const char *suggestion_best(const suggestion *s)
{
    const size_t length = strlen(s->text);
    const size_t limit = length / 3 > 1 ? length / 3 : 1;
    return s->distance <= limit && s->distance < length ? s->best : NULL;
}
