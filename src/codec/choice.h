/* Chooses the predictor, and for level AUTO the level, of a chunk from a sample of its codes. */
#ifndef COMET_CODEC_CHOICE_H
#define COMET_CODEC_CHOICE_H

#include "codec/chunk.h"

typedef struct choice {
    bool dense;
    enum predictor predictor;
    bool identity;            /* predictor NONE, and hardly a code is negative: no sign to code */
    uint64_t n_sampled, bits; /* elements of the sample, and the bits that they would take */
    uint64_t median_bits;     /* the same with predictor MEDIAN (dense only) */
} choice;

#define SAMPLE_RUNS 32 /* of one block each */

/* The runs that choose_coding will look at: their first elements, and the number of them. */
size_t choice_runs(const chunk_plan *plan, size_t n, size_t first[SAMPLE_RUNS]);

/* Looks at the codes of the runs and at their neighbours to the left and above. If all codes are there, a linear fit is tried,
 * too, where it could pay. If not, the answer LINEAR means that the caller should ask again with all codes. Uses
 * ws->residuals. */
choice choose_coding(const chunk_plan *plan, const workspace *ws, enum code_width width, const void *codes, size_t n,
                     bool all_codes);

/* Turns to lanes in a wave where that is cheaper; the wave's cells must be filled, see dense_encode_wave. Uses ws->symbols and
 * ws->words. */
void choose_wave(const chunk_plan *plan, const workspace *ws, enum code_width width, const wave_shape *w, choice *how);

#endif
