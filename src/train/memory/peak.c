/*
 * The peak of a step, byte by byte: which buffers of the arena and which coded tensors live at the moment that has most of
 * them.
 *
 * Memory that was touched stays resident, so a step takes what its arena's region has, not only what lives at that moment: the
 * rest is gaps between buffers that do not fit together, and is told as unused.
 *
 * Buffers have no names. What one holds is found from who refers to it: the op at work first, since it says best what the
 * buffer is for, then all others.
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/describe.h"
#include "train/memory/memory.h"

struct comet_peak {
    comet_peak_moment moment;
    size_t capacity;
    comet_peak_line *lines;
};

/* ---- the object ---- */

static const char *const kind_names[] = {[COMET_PEAK_ACTIVATION] = "activation",
                                         [COMET_PEAK_GRADIENT] = "gradient",
                                         [COMET_PEAK_WEIGHT_GRADIENT] = "weight gradient",
                                         [COMET_PEAK_DECODED] = "decoded",
                                         [COMET_PEAK_CODED] = "coded",
                                         [COMET_PEAK_SCRATCH] = "scratchpad",
                                         [COMET_PEAK_WEIGHTS_COPY] = "weights copy",
                                         [COMET_PEAK_SAMPLES] = "samples",
                                         [COMET_PEAK_WEIGHTS] = "weights",
                                         [COMET_PEAK_OPTIMISER] = "optimiser",
                                         [COMET_PEAK_IMAGES] = "images",
                                         [COMET_PEAK_DATA] = "data",
                                         [COMET_PEAK_PROGRAM] = "program",
                                         [COMET_PEAK_UNUSED] = "unused"};

const char *comet_peak_kind_name(comet_peak_kind kind)
{
    return (size_t)kind < sizeof kind_names / sizeof kind_names[0] ? kind_names[kind] : "unknown";
}

void comet_peak_moment_init(comet_peak_moment *moment)
{
    *moment = (comet_peak_moment){.size = sizeof *moment};
}

void comet_peak_line_init(comet_peak_line *line)
{
    *line = (comet_peak_line){.size = sizeof *line};
}

void comet_peak_destroy(comet_peak *peak)
{
    if (peak)
        free(peak->lines);
    free(peak);
}

static void copy_name(char to[COMET_MAX_LAYER_NAME], const char *from)
{
    const size_t n = strnlen(from, COMET_MAX_LAYER_NAME - 1);
    memcpy(to, from, n);
    to[n] = '\0';
}

/* Keeps the lines sorted, the largest first. */
comet_status comet_peak_add(comet_peak *peak, comet_peak_kind kind, const char *layer, uint64_t bytes)
{
    if (!peak || !layer)
        return comet_fail(COMET_ERROR_ARGUMENT, "a line of a peak needs a peak and the name of a layer");
    if (bytes == 0)
        return COMET_OK;
    if (peak->moment.n_buffers == peak->capacity) {
        const size_t capacity = 2 * peak->capacity + 64;
        comet_peak_line *larger = realloc(peak->lines, capacity * sizeof *larger);
        if (!larger)
            return comet_fail(COMET_ERROR_MEMORY, "out of memory: could not allocate %zu lines of a peak", capacity);
        peak->lines = larger;
        peak->capacity = capacity;
    }
    size_t at = peak->moment.n_buffers++;
    for (; at > 0 && peak->lines[at - 1].bytes < bytes; at--)
        peak->lines[at] = peak->lines[at - 1];
    peak->lines[at] = (comet_peak_line){.size = sizeof *peak->lines, .kind = kind, .bytes = bytes};
    copy_name(peak->lines[at].layer, layer);
    peak->moment.bytes += bytes;
    return COMET_OK;
}

comet_status comet_peak_describe(const comet_peak *peak, comet_peak_moment *moment)
{
    if (!peak)
        return comet_fail(COMET_ERROR_ARGUMENT, "comet_peak_describe was given a null pointer");
    return GIVE(comet_peak_moment, moment, &peak->moment);
}

comet_status comet_peak_buffer(const comet_peak *peak, size_t index, comet_peak_line *line)
{
    if (!peak || index >= peak->moment.n_buffers)
        return comet_fail(COMET_ERROR_ARGUMENT, "there is no peak, or it has fewer than %zu lines", index + 1);
    return GIVE(comet_peak_line, line, &peak->lines[index]);
}

/* ---- what a buffer holds ---- */

typedef struct buffer_label {
    comet_peak_kind kind;
    const char *layer;
} buffer_label;

typedef struct buffer_field {
    size_t offset; /* in op_buffers */
    comet_peak_kind kind;
} buffer_field;

/* Those that belong to the op itself. */
static const buffer_field own_fields[] = {
    {offsetof(op_buffers, workspace), COMET_PEAK_ACTIVATION},
    {offsetof(op_buffers, room_output), COMET_PEAK_DECODED},
    {offsetof(op_buffers, room_workspace), COMET_PEAK_DECODED},
    {offsetof(op_buffers, scratch_forward), COMET_PEAK_SCRATCH},
    {offsetof(op_buffers, scratch_weights), COMET_PEAK_SCRATCH},
    {offsetof(op_buffers, scratch_backward), COMET_PEAK_SCRATCH},
    {offsetof(op_buffers, weights_copy), COMET_PEAK_WEIGHTS_COPY},
    {offsetof(op_buffers, fresh_weight), COMET_PEAK_WEIGHT_GRADIENT},
    {offsetof(op_buffers, fresh_bias), COMET_PEAK_WEIGHT_GRADIENT},
    {offsetof(op_buffers, gradient), COMET_PEAK_WEIGHT_GRADIENT},
    {offsetof(op_buffers, part_gradient), COMET_PEAK_WEIGHT_GRADIENT},
    {offsetof(op_buffers, work), COMET_PEAK_SCRATCH},
    {offsetof(op_buffers, mask_sums), COMET_PEAK_SCRATCH},
    {offsetof(op_buffers, sample_work), COMET_PEAK_SAMPLES},
    {offsetof(op_buffers, diff_dst), COMET_PEAK_GRADIENT},
    {offsetof(op_buffers, diff), COMET_PEAK_GRADIENT},
};

static bool label_by_op(const comet_model *m, const op *o, buffer_id id, buffer_label *label)
{
    for (size_t i = 0; i < sizeof own_fields / sizeof own_fields[0]; i++) {
        buffer_id field;
        memcpy(&field, (const char *)&o->buffers + own_fields[i].offset, sizeof field);
        if (field == id) {
            *label = (buffer_label){own_fields[i].kind, o->layer->name};
            return true;
        }
    }
    if (o->own.whole == id) {
        *label = (buffer_label){COMET_PEAK_DECODED, o->layer->name};
        return true;
    }
    for (uint32_t j = 0; j < o->n_inputs; j++) {
        const delivery *d = &o->buffers.deliveries[j];
        const bool decoded = o->buffers.rooms[j] == id;
        if (!decoded && d->write != id && d->sum != id)
            continue;
        *label = (buffer_label){decoded ? COMET_PEAK_DECODED : COMET_PEAK_GRADIENT, value_maker(m, &m->values[o->inputs[j]])};
        return true;
    }
    return false;
}

/* Outputs of ops that work in place share a buffer: the last one of those that have run is there. */
static bool label_by_value(const comet_model *m, buffer_id id, uint32_t moment, buffer_label *label)
{
    bool found = false;
    for (uint32_t v = 0; v < m->n_values; v++) {
        const value *x = &m->values[v];
        if (x->root != v || x->producer == NONE)
            continue;
        if (x->whole == id || x->signs == id || (x->buffer == id && (!found || x->producer <= moment))) {
            *label = (buffer_label){x->buffer == id ? COMET_PEAK_ACTIVATION : COMET_PEAK_DECODED, value_maker(m, x)};
            found = true;
        }
    }
    return found;
}

/* The op at work; NULL in the loss. */
static const op *op_at(const comet_model *m, uint32_t moment)
{
    if (moment == m->n_ops)
        return NULL;
    return &m->ops[moment < m->n_ops ? moment : m->n_ops - 1 - (moment - m->n_ops - 1) / 2];
}

static buffer_label label_of(const comet_model *m, buffer_id id, uint32_t moment)
{
    const op *at = op_at(m, moment);
    buffer_label label = {COMET_PEAK_SCRATCH, ""};
    bool found = at && label_by_op(m, at, id, &label);
    found = found || label_by_value(m, id, moment, &label);
    for (uint32_t i = 0; i < m->n_ops && !found; i++)
        found = label_by_op(m, &m->ops[i], id, &label);
    return label;
}

/* ---- the moment ---- */

static bool has_samples(const comet_model *m, uint32_t moment)
{
    return m->samples.bytes > 0 && m->samples.first <= moment && moment <= m->samples.last;
}

/* What lives at a moment in the arena's region. */
static uint64_t live_bytes(const comet_model *m, uint32_t moment)
{
    uint64_t bytes = has_samples(m, moment) ? memory_sample_bytes(m) : 0;
    coded_tensor t;
    for (uint32_t i = 0; i < m->arena.n_buffers; i++)
        if (m->arena.buffers[i].first <= moment && moment <= m->arena.buffers[i].last)
            bytes += m->arena.buffers[i].bytes;
    for (uint32_t k = 0; memory_coded_next(m, &k, &t);)
        if (t.first <= moment && moment <= t.last)
            bytes += t.bytes;
    return bytes;
}

static uint32_t fullest_moment(const comet_model *m)
{
    uint32_t fullest = 0;
    uint64_t most = 0;
    for (uint32_t moment = 0; moment < (m->params.inference ? m->n_ops : moments_of(m)); moment++) {
        const uint64_t bytes = live_bytes(m, moment);
        fullest = bytes > most ? moment : fullest;
        most = max_u64(most, bytes);
    }
    return fullest;
}

static void describe_moment(const comet_model *m, uint32_t at, comet_peak_moment *moment)
{
    comet_peak_moment_init(moment);
    moment->phase = at < m->n_ops                  ? COMET_PHASE_FORWARD
                    : at == m->n_ops               ? COMET_PHASE_LOSS
                    : (at - m->n_ops - 1) % 2 == 0 ? COMET_PHASE_WEIGHTS
                                                   : COMET_PHASE_INPUT;
    if (op_at(m, at))
        copy_name(moment->layer, op_at(m, at)->layer->name);
}

/* ---- what there is then ---- */

static comet_status add_buffers(const comet_model *m, uint32_t moment, comet_peak *peak)
{
    for (uint32_t i = 0; i < m->arena.n_buffers; i++) {
        const arena_buffer *b = &m->arena.buffers[i];
        if (b->first > moment || moment > b->last)
            continue;
        const buffer_label label = label_of(m, i, moment);
        TRY(comet_peak_add(peak, label.kind, label.layer, b->bytes));
    }
    return COMET_OK;
}

static comet_status add_coded(const comet_model *m, uint32_t moment, comet_peak *peak)
{
    coded_tensor t;
    for (uint32_t k = 0; memory_coded_next(m, &k, &t);)
        if (t.first <= moment && moment <= t.last)
            TRY(comet_peak_add(peak, COMET_PEAK_CODED, t.layer, t.bytes));
    return COMET_OK;
}

/* What lies outside the arena's region. */
static comet_status add_blocks(const comet_model *m, comet_peak *peak)
{
    const comet_memory *t = &m->memory;
    TRY(comet_peak_add(peak, COMET_PEAK_WEIGHTS, "", t->weights));
    TRY(comet_peak_add(peak, COMET_PEAK_WEIGHT_GRADIENT, "", t->gradients));
    TRY(comet_peak_add(peak, COMET_PEAK_OPTIMISER, "", t->optimiser));
    return comet_peak_add(peak, COMET_PEAK_IMAGES, "", layout_bytes(m->values[0].layout));
}

static comet_status add_all(const comet_model *m, uint32_t moment, comet_peak *peak)
{
    TRY(add_buffers(m, moment, peak));
    TRY(add_coded(m, moment, peak));
    TRY(comet_peak_add(peak, COMET_PEAK_SAMPLES, "", has_samples(m, moment) ? memory_sample_bytes(m) : 0));
    TRY(add_blocks(m, peak));
    return comet_peak_add(peak, COMET_PEAK_UNUSED, "", sub_u64(m->memory.total, peak->moment.bytes));
}

comet_status peak_of_model(const comet_model *m, comet_peak **peak)
{
    comet_peak *found = calloc(1, sizeof *found);
    if (!found)
        return comet_fail(COMET_ERROR_MEMORY, "out of memory: could not allocate %zu bytes for a peak", sizeof *found);
    const uint32_t moment = fullest_moment(m);
    describe_moment(m, moment, &found->moment);
    const comet_status status = add_all(m, moment, found);
    if (status == COMET_OK)
        *peak = found;
    else
        comet_peak_destroy(found);
    return status;
}
