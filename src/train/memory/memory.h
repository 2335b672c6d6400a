/*
 * Memory of a model: which buffer of the arena holds what and when, and what forward leaves in the store for backward.
 *
 * Saved tensors are put and taken in three ways:
 *   values      saved_put_before/after put a value when its last reader in forward is about to run; saved_take takes it before
 *               its reader's backward. Ops with n_parts take their first input themselves, part by part: saved_take_input.
 *   made values an op whose type has puts_output codes its output tile by tile as it is made: saved_put_begin, put_end.
 *   own tensors a batch norm puts and takes tiles of op.own.slot itself, and tells saved_own_taken when all are decoded.
 */
#ifndef COMET_TRAIN_MEMORY_MEMORY_H
#define COMET_TRAIN_MEMORY_MEMORY_H

#include "comet/peak.h"
#include "train/graph/graph.h"

/* ---- lower.c ---- */

/* Declares all buffers of the arena. */
comet_status lower(comet_model *m);

/* ---- region.c ---- */

/* Lays out the arena, with more rooms where they cost no memory, and fills m->memory. */
comet_status memory_plan(comet_model *m);
/* Lends the part of the arena's region that transients leave free to the store; with `samples` some of it is for samples.
 * Only between steps. */
comet_status memory_share_region(comet_model *m, bool samples);
/* Bytes of samples, in steps that have them. */
uint64_t memory_sample_bytes(const comet_model *m);
/* A tensor that is coded, as planned. */
typedef struct coded_tensor {
    const char *layer;
    uint64_t bytes;
    uint32_t first, last; /* moments */
} coded_tensor;
/* The k-th of them in the region, or false past the end. */
bool memory_coded_next(const comet_model *m, uint32_t *k, coded_tensor *t);
/* m->memory, with what the store really held once a step has run. */
comet_memory memory_now(const comet_model *m);
/* Are running statistics and bounds kept before each step, since a full disk may make it fail? */
bool memory_keeps_steps(const comet_model *m);

/* ---- peak.c ---- */

/* What is in memory at the fullest moment of a planned model: comet/peak.h. */
comet_status peak_of_model(const comet_model *m, comet_peak **peak);

/* ---- slots.c ---- */

/* Declares the slots of all saved values, of what ops store for themselves and of workspaces. */
comet_status saved_declare(comet_model *m);
comet_slot_spec saved_spec(const char *layer, comet_slot_class class_, comet_exactness exactness, const layout *l);
/* The tensor description of a layout for the codec. */
comet_tensor layout_tensor(const layout *l);
/* The slot from which value v is read in backward. */
comet_slot value_slot(const comet_model *m, uint32_t v);
/* Elements that the producer of v makes at once: a tile of its slot where it is put_by_producer, or TILE. */
uint64_t saved_made_tile(const comet_model *m, uint32_t v);

/* ---- saved.c ---- */

/* Before op o runs forward: puts what it reads last. After: puts what nobody reads, and its workspace. Neither puts what is
 * put_by_producer. */
comet_status saved_put_before(comet_model *m, const op *o);
comet_status saved_put_after(comet_model *m, const op *o);
/* Called before and after value v, which is put_by_producer, is made. *slot is where its tiles go as they are made;
 * COMET_NO_SLOT where all of them must be there first. */
comet_status saved_put_begin(comet_model *m, uint32_t v, comet_slot *slot);
comet_status saved_put_end(comet_model *m, uint32_t v, comet_slot slot);
/* Before and after op o's backward. */
comet_status saved_take(comet_model *m, op *o);
comet_status saved_drop(comet_model *m, op *o);
typedef struct saved_part {
    uint32_t index, n; /* of so many equal parts of the batch */
} saved_part;
comet_status saved_take_input(comet_model *m, op *o, saved_part part);
/* A reader has taken tiles of o's own tensor, with `all` every one of them: then all lie in own.whole, where there is one. */
void saved_own_taken(op *o, bool all);
/* Room to decode one of n_parts of value v. */
uint64_t saved_room_bytes(const comet_model *m, uint32_t v, uint32_t n_parts);

/* ---- mask.c ---- */

/* The gradient of o's output passes where that output is positive: from diff_dst to diff, which may be the same. Sums go to
 * mask_sums, if they are needed. */
comet_status mask_gradient(comet_model *m, const op *o);
uint64_t mask_scratch_bytes(const comet_model *m, const op *o);
/* Bytes of mask_sums; 0 where sums are not needed or tiles do not end between rows. */
uint64_t mask_sums_bytes(const comet_model *m, const op *o);
/* Bytes of value v's signs; 0 where they cannot be left to the relu that made it, or there is none. */
uint64_t mask_signs_bytes(const comet_model *m, uint32_t v);

/* ---- held.c ---- */

/* A tensor that is held between forward and backward, by this model where it is `raw`, by a framework that computes nothing
 * again where it is `reference`: after forward of op `first`, until backward of op `last`. */
typedef struct held_tensor {
    uint64_t bytes;
    bool raw, reference;
    uint32_t first, last;
} held_tensor;
/* The k-th of them, or false past the end. */
bool held_next(const comet_model *m, uint32_t *k, held_tensor *t);
typedef struct held_bytes {
    uint64_t raw, reference;
} held_bytes;
/* Between forward and backward, when all are held. */
held_bytes held_at_most(const comet_model *m);
/* After forward or backward of op o. */
held_bytes held_after(const comet_model *m, const op *o, bool backward);

/* ---- trace.c ---- */

/* Around a forward and backward. */
void trace_begin(comet_model *m);
void trace_end(comet_model *m);
/* After forward or backward of op o. */
void trace_add(comet_model *m, const op *o, bool backward);

/* ---- dump.c ---- */

/* Writes a saved tensor, where that was asked for. */
comet_status dump_tensor(const comet_model *m, const char *layer, const char *what, const layout *l, const void *x);

#endif
