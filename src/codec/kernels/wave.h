/*
 * Level dense with lanes in a wave: lane k codes lines k, k + 64, ... of the chunk and runs two columns after lane k - 1, so
 * that every cell sees its neighbours above, whichever lane they belong to. docs/format.md, "Wave", is the contract.
 *
 * Cells lie in steps: all lanes of a step side by side, WAVE_PITCH cells from one step to the next. The place left of lane 0
 * repeats lane 63 as it was a line earlier, so that the line above lane 0 is found like any other. Before step 0 lie
 * WAVE_LEAD steps of zeros.
 *
 * A lane's line takes `period` steps: one step of padding (the first cell of the line above), the columns, then padding that
 * repeats the last cell. Padding is not coded: it has the context WAVE_IDLE, in which symbol 0 has all the frequency, and so
 * leaves the state of its lane as it is.
 */
#ifndef COMET_CODEC_WAVE_H
#define COMET_CODEC_WAVE_H

#include "codec/kernels/kernels.h"

#define WAVE_MIN_COLUMNS 128 /* lane 0 can then follow lane 63 */
#define WAVE_MIN_ROWS 32
#define WAVE_LAG (2 * (size_t)LANES) /* steps from a lane to the same one of the next strip, less the period */
#define WAVE_PITCH 72
#define WAVE_LEAD 5
#define WAVE_IDLE 15 /* the context of padding */

typedef struct wave_shape {
    size_t columns, rows; /* of the chunk */
    size_t lines;         /* in a plane */
    size_t period, steps;
} wave_shape;

/* Room for the cells of a chunk; kernels may write and read eight steps past the end. */
static inline size_t wave_cells(const wave_shape *w)
{
    return (WAVE_LEAD + w->steps + 9) * WAVE_PITCH;
}

/* Contexts by outlook: a signed sum of the differences between neighbours; its sign is that of the residual that is expected.
 * Those found to be alike on fields of terrain, ocean and weather share a context. */
#define WAVE_OUTLOOKS 64
static const uint8_t wave_context[2][WAVE_OUTLOOKS] = {
    {0,  2,  1, 6, 10, 10, 4,  7,  12, 12, 12, 12, 12, 11, 11, 14, 11, 14, 7, 3, 9, 9, 11, 6, 8, 4,  3,  7, 7, 3,  3,  9,
     11, 12, 6, 6, 7,  11, 14, 11, 14, 14, 14, 6,  7,  11, 11, 11, 6,  8,  5, 7, 6, 6, 7,  7, 9, 11, 12, 6, 6, 11, 13, 13},
    {0,  1,  6,  6, 9, 9, 8, 8, 3, 3,  2,  6,  2,  5,  8,  10, 10, 10, 12, 12, 8,  8, 10, 10, 12, 12, 4,  7,  10, 9,  4, 8,
     10, 10, 10, 4, 8, 7, 4, 4, 7, 13, 13, 14, 13, 14, 13, 13, 13, 13, 13, 13, 14, 9, 5,  13, 9,  9,  13, 13, 13, 14, 9, 11},
};

/* Where the plane before lies: `steps` back and `lanes` to the right, for lanes below `split` ([1]) and for the others ([0]).
 */
typedef struct wave_back {
    size_t steps[2];
    ptrdiff_t lanes[2];
    unsigned split;
} wave_back;

static inline wave_back wave_back_of(const wave_shape *w)
{
    size_t whole = w->lines / LANES, rest = w->lines % LANES;
    return (wave_back){.steps = {w->period * whole + 2 * rest, w->period * (whole + 1) + 2 * rest - 2 * LANES},
                       .lanes = {-(ptrdiff_t)rest, LANES - (ptrdiff_t)rest},
                       .split = (unsigned)rest};
}

/* The offset, in cells from step 0, of the cell of the plane before that belongs to lane 0 at this step. The zeros before step
 * 0 stand for what is not in the chunk. */
static inline ptrdiff_t wave_back_at(const wave_back *b, size_t step, int part)
{
    ptrdiff_t before = step >= b->steps[part] ? (ptrdiff_t)(step - b->steps[part]) : -1;
    return before * WAVE_PITCH + b->lanes[part];
}

/* What the lanes do, step by step. */
typedef struct wave_clock {
    size_t columns, period, strips; /* strips: lines of a lane */
    size_t step, place, strip;      /* place and strip are those of lane 0 */
    unsigned absent;                /* in the last strip, this lane and those after it have no line */
    size_t absent_from;             /* the step at which it would begin */
    uint64_t active[2], left[2];    /* of the last even and the last odd step */
} wave_clock;

/* A bit a lane: those that code a cell, and those that are at the padding left of a line. */
typedef struct wave_lanes {
    uint64_t active, left;
} wave_lanes;

static inline wave_lanes wave_tick(wave_clock *c)
{
    bool more = c->strip < c->strips;
    uint64_t *active = &c->active[c->step & 1], *left = &c->left[c->step & 1];
    *active = *active << 1 | (more && c->place - 1 < c->columns);
    *left = *left << 1 | (more && c->place == 0);
    if (c->step >= c->absent_from)
        *active &= ~(UINT64_C(1) << c->absent);
    c->step++;
    if (++c->place == c->period) {
        c->place = 0;
        c->strip++;
    }
    return (wave_lanes){*active, *left};
}

/* A clock that will tick for `step` next. */
static inline wave_clock wave_clock_at(const wave_shape *w, size_t step)
{
    size_t strips = (w->rows + LANES - 1) / LANES, present = w->rows - (strips - 1) * LANES;
    wave_clock c = {.columns = w->columns,
                    .period = w->period,
                    .strips = strips,
                    .absent = (unsigned)present % LANES,
                    .absent_from = present < LANES ? (strips - 1) * w->period + 2 * present : SIZE_MAX};
    size_t first = step < 2 * LANES ? 0 : step - 2 * LANES; /* earlier bits have left the masks */
    c.step = first;
    c.place = first % w->period;
    c.strip = first / w->period;
    while (c.step < step)
        wave_tick(&c);
    return c;
}

/* Copies lane 63 to the place left of lane 0 at `step`, which must be done. */
#define WAVE_CARRY(cells, w, step)               \
    ((cells)[(ptrdiff_t)(step)*WAVE_PITCH - 1] = \
         (step) + WAVE_LAG >= (w)->period ? (cells)[((step) + WAVE_LAG - (w)->period) * WAVE_PITCH + LANES - 1] : 0)

/* Fills the cells from the codes, padding included, for all steps. `cells` is step 0. */
typedef void wave_gather_fn(const wave_shape *w, const void *codes, void *cells);
/* Symbols of n_steps steps from `first` on; otherwise as model_row_fn. */
typedef uint32_t *wave_model_fn(const wave_shape *w, enum predictor predictor, const void *cells, size_t first, size_t n_steps,
                                uint16_t *symbols, uint32_t *escapes);
/* Fills all cells and the codes. False if the words or escapes run out. */
typedef bool wave_decode_fn(const wave_shape *w, enum predictor predictor, void *cells, entropy_reader *in, void *codes);

typedef struct wave_kernels {
    wave_gather_fn *gather[2]; /* by code width */
    wave_model_fn *model[2];
    wave_decode_fn *decode[2];
} wave_kernels;

extern const wave_kernels wave_kernels_reference;
#ifdef COMET_HAVE_AVX512
extern const wave_kernels wave_kernels_avx512;
#endif

/* Those of a kernel family. */
const wave_kernels *wave_kernels_of(const codec_kernels *k);

#endif
