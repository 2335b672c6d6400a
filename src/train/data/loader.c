/*
 * Threads that fill batches into slots, and a caller that takes them in order.
 *
 * Batches are numbered through all epochs: batch g is batch g % n_batches of epoch g / n_batches and lies in any slot.
 * The threads take pieces of work, a few rows of one batch, always from the oldest batch that has any left, so that all of them
 * work for the batch that is waited for. A slot goes FREE -> FILLING -> READY -> HELD -> FREE. One lock guards all of it;
 * pieces are large enough that nobody waits for it long, and everybody who has nothing to do sleeps on a condition.
 *
 * Where rows are bytes, a slot holds a quarter of what its floats would take. The batch is normalised when it is handed out,
 * into memory of its own, a hand, and the slot is free again at once. Where rows are floats, the slot itself is handed out, and
 * there is one more of them for it.
 *
 * The queue grows from one batch up to its limit where a deeper one would have spared the caller a wait: where the caller
 * waits, and since its last wait a thread found no free slot to work for. Threads that are never idle are too slow, and no
 * queue helps.
 *
 * Several loaders may share out the batches among ranks: batches and positions are then those of all ranks' rows together, of
 * which this one gives its part.
 *
 * What a row holds depends on (seed, epoch, position) and nothing else. What went wrong with a row is kept with its slot and
 * counted when the batch is handed out, so that even the counts do not depend on the number of threads.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/describe.h"
#include "base/status.h"
#include "base/threads.h"
#include "train/data/dataset.h"
#include "train/data/permutation.h"
#include "train/data/storage.h"

enum {
    MAX_THREADS = 256,
    PIECES_PER_THREAD = 4,
    MAX_REPLACEMENTS = 256, /* broken images in a row, after which something else must be wrong */
    SENTENCE_BYTES = 512,
};

typedef enum slot_state { SLOT_FREE, SLOT_FILLING, SLOT_READY, SLOT_HELD } slot_state;

/* The first event of its kind in a batch, by its row. */
typedef struct note {
    bool set;
    uint32_t row;
    comet_status status;
    char sentence[SENTENCE_BYTES];
} note;

typedef struct slot {
    slot_state state;
    uint64_t number; /* of the batch */
    uint32_t n_valid;
    uint32_t next_row; /* that nobody has taken yet */
    uint32_t n_done;   /* rows */
    uint64_t n_skipped;
    note skipped, failed;
    void *rows; /* NULL: the queue has not grown so far */
    uint32_t *labels;
} slot;

/* Where a batch of bytes is handed out as floats. */
typedef struct hand {
    bool held;
    float *images; /* NULL: so many were not held at once so far */
    uint32_t *labels;
} hand;

struct comet_loader {
    comet_loader *self; /* for functions that take it as const but must lock */
    comet_dataset *dataset;
    comet_loader_params params;
    uint64_t global_batch, first_row; /* rows of all ranks in a batch; where ours begin among them */
    uint64_t n_batches;               /* in an epoch */
    uint64_t end;                     /* number of the first batch that is not made */
    size_t row_bytes, image_floats;
    uint32_t piece_rows;

    pthread_mutex_t lock;
    pthread_cond_t work, ready;
    atomic_bool stop;
    uint64_t next_fill, next_give; /* batches */
    slot *slots;
    slot *filling;    /* the last batch that was begun, or NULL */
    uint32_t n_slots; /* that are in use */
    uint32_t n_most;  /* that there may be */
    bool was_full;    /* since the caller last waited, a thread found no free slot */
    hand *hands;      /* n_hands, where rows are bytes; else NULL */
    uint32_t n_hands, n_threads;
    pthread_t *threads;
    uint64_t queue_bytes, hand_bytes, scratch_bytes;
    comet_loader_stats stats;
};

void comet_loader_params_init(comet_loader_params *params)
{
    *params = (comet_loader_params){.size = sizeof *params, .batch = 32};
}

/* ---- rows ---- */

/* In the epoch, of a row of a batch. */
static uint64_t position_of(const comet_loader *l, uint64_t number, uint32_t row)
{
    return number % l->n_batches * l->global_batch + l->first_row + row;
}

/* May another image take its place? It may if the image is broken, but not if this machine is out of memory. */
static bool can_replace(comet_status status)
{
    return status == COMET_ERROR_CORRUPT || status == COMET_ERROR_UNSUPPORTED || status == COMET_ERROR_IO;
}

static void take_note(note *n, uint32_t row, comet_status status)
{
    if (n->set && n->row <= row)
        return;
    *n = (note){.set = true, .row = row, .status = status};
    snprintf(n->sentence, sizeof n->sentence, "%s", comet_last_error());
}

/* What became of a few rows, until it is joined to the slot. */
typedef struct outcome {
    uint64_t n_skipped;
    note skipped, failed;
} outcome;

static comet_status none_readable(unsigned n, comet_status status)
{
    char last[SENTENCE_BYTES / 2];
    snprintf(last, sizeof last, "%s", comet_last_error());
    return comet_fail(status, "%u images one after another could not be read; the last: %s", n, last);
}

/* Reads the image that belongs in the row, or the next of the data set that can be read. */
static void read_row(const comet_loader *l, const slot *s, uint32_t row, scratch *memory, outcome *o)
{
    const uint64_t n_images = l->dataset->info.n_images, epoch = s->number / l->n_batches;
    const uint64_t position = position_of(l, s->number, row);
    uint64_t index = position;
    if (l->params.shuffle) {
        const permutation order = permutation_of(l->params.seed, COMET_STREAM_ORDER, epoch, n_images);
        index = permutation_at(&order, position);
    }
    void *image = (uint8_t *)s->rows + row * l->row_bytes;
    comet_status status = COMET_OK;
    for (unsigned n_broken = 0; n_broken < MAX_REPLACEMENTS && n_broken < n_images; n_broken++) {
        comet_random random = comet_random_start(l->params.seed, COMET_STREAM_AUGMENT, epoch, (uint32_t)position);
        status = l->dataset->source->read(l->dataset, index, l->params.augment ? &random : NULL, memory, image);
        s->labels[row] = l->dataset->source->label(l->dataset, index);
        if (status == COMET_OK)
            return;
        if (l->dataset->params.strict || !can_replace(status))
            break;
        if (n_broken == 0) { /* its neighbours count in rows of their own */
            take_note(&o->skipped, row, status);
            o->n_skipped++;
        }
        index = (index + 1) % n_images;
        if (n_broken + 1 == MAX_REPLACEMENTS || n_broken + 1 == n_images)
            status = none_readable(n_broken + 1, status);
    }
    take_note(&o->failed, row, status);
}

static void clear_row(const comet_loader *l, const slot *s, uint32_t row)
{
    memset((uint8_t *)s->rows + row * l->row_bytes, 0, l->row_bytes);
    s->labels[row] = 0;
}

static void fill_rows(const comet_loader *l, const slot *s, uint32_t begin, uint32_t end, scratch *memory, outcome *o)
{
    for (uint32_t row = begin; row < end && !atomic_load_explicit(&l->stop, memory_order_relaxed); row++) {
        if (row < s->n_valid)
            read_row(l, s, row, memory, o);
        else
            clear_row(l, s, row);
    }
}

/* ---- threads ---- */

/* The lock must be held, as for the next functions. */
static slot *free_slot(const comet_loader *l)
{
    for (uint32_t i = 0; i < l->n_slots; i++)
        if (l->slots[i].state == SLOT_FREE)
            return &l->slots[i];
    return NULL;
}

/* Makes a slot ready for work on the next batch, or gives NULL where none is free or there is no next batch. */
static slot *begin_batch(comet_loader *l)
{
    slot *s = free_slot(l);
    if (l->next_fill == l->end)
        return NULL;
    if (!s) {
        l->was_full = true;
        return NULL;
    }
    const uint64_t first = position_of(l, l->next_fill, 0), n_images = l->dataset->info.n_images;
    const uint64_t left = first < n_images ? n_images - first : 0;
    s->state = SLOT_FILLING;
    s->number = l->next_fill++;
    s->n_valid = left < l->params.batch ? (uint32_t)left : l->params.batch;
    s->next_row = s->n_done = 0;
    s->n_skipped = 0;
    s->skipped.set = s->failed.set = false;
    return s;
}

/* The batch to work for: the last that was begun, if it has rows left, else a new one. */
static slot *find_work(comet_loader *l)
{
    if (!l->filling || l->filling->next_row == l->params.batch)
        l->filling = begin_batch(l);
    return l->filling;
}

static void join_note(note *all, const note *n)
{
    if (n->set && (!all->set || n->row < all->row))
        *all = *n;
}

static void finish_piece(comet_loader *l, slot *s, uint32_t n_rows, const outcome *o)
{
    s->n_skipped += o->n_skipped;
    join_note(&s->skipped, &o->skipped);
    join_note(&s->failed, &o->failed);
    s->n_done += n_rows;
    if (s->n_done < l->params.batch)
        return;
    s->state = SLOT_READY;
    if (s->number == l->next_give)
        pthread_cond_signal(&l->ready);
}

static void work_on(comet_loader *l, slot *s, scratch *memory)
{
    const uint32_t begin = s->next_row, left = l->params.batch - begin;
    const uint32_t end = begin + (left < l->piece_rows ? left : l->piece_rows);
    const uint64_t before = scratch_bytes(memory);
    outcome o;
    o.n_skipped = 0;
    o.skipped.set = o.failed.set = false;
    s->next_row = end;
    pthread_mutex_unlock(&l->lock);
    const double start = comet_seconds();
    fill_rows(l, s, begin, end, memory, &o);
    const double seconds = comet_seconds() - start;
    pthread_mutex_lock(&l->lock);
    l->stats.decode_seconds += seconds;
    l->scratch_bytes += scratch_bytes(memory) - before;
    finish_piece(l, s, end - begin, &o);
}

static void *worker(void *arg)
{
    comet_loader *l = arg;
    scratch memory = {.file = {NULL, 0}};
    pthread_mutex_lock(&l->lock);
    while (!atomic_load_explicit(&l->stop, memory_order_relaxed)) {
        slot *s = find_work(l);
        if (s)
            work_on(l, s, &memory);
        else
            pthread_cond_wait(&l->work, &l->lock);
    }
    pthread_mutex_unlock(&l->lock);
    scratch_free(&memory);
    return NULL;
}

/* ---- creating and destroying ---- */

static uint32_t ranks_of(const comet_loader_params *p)
{
    return p->n_ranks > 0 ? p->n_ranks : 1;
}

static comet_status check_params(const comet_loader_params *p, const comet_dataset_info *info)
{
    if (p->size != sizeof *p)
        return comet_fail(COMET_ERROR_ARGUMENT, "comet_loader_params has size %zu, not %zu: call comet_loader_params_init",
                          p->size, sizeof *p);
    if (p->batch == 0 || p->n_threads > MAX_THREADS || p->queue > COMET_LOADER_MAX_QUEUE)
        return comet_fail(COMET_ERROR_ARGUMENT,
                          "a batch of %u, %u threads and a queue of %u were asked for; at least 1, at most %d "
                          "and at most %d are possible",
                          p->batch, p->n_threads, p->queue, MAX_THREADS, COMET_LOADER_MAX_QUEUE);
    if (p->rank >= ranks_of(p))
        return comet_fail(COMET_ERROR_ARGUMENT, "rank %u of %u was asked for; ranks are numbered from 0", p->rank, ranks_of(p));
    if (p->shuffle && info->n_images < (uint64_t)p->batch * ranks_of(p))
        return comet_fail(COMET_ERROR_ARGUMENT,
                          "the data set has %llu images, fewer than one batch of %llu; a shuffled epoch has whole "
                          "batches only",
                          (unsigned long long)info->n_images, (unsigned long long)p->batch * ranks_of(p));
    return COMET_OK;
}

/* Sets what batches there are: the first one, the end, and which rows of theirs are ours. */
static comet_status set_range(comet_loader *l)
{
    const comet_loader_params *p = &l->params;
    const uint64_t n_images = l->dataset->info.n_images;
    l->global_batch = (uint64_t)p->batch * ranks_of(p);
    l->first_row = (uint64_t)p->batch * p->rank;
    l->n_batches = n_images / l->global_batch + (!p->shuffle && n_images % l->global_batch != 0);
    if (p->batch_in_epoch > l->n_batches)
        return comet_fail(COMET_ERROR_ARGUMENT, "batch %llu was asked for; an epoch has %llu batches",
                          (unsigned long long)p->batch_in_epoch, (unsigned long long)l->n_batches);
    if (p->epoch >= UINT32_MAX)
        return comet_fail(COMET_ERROR_ARGUMENT, "epoch %llu was asked for; %u is the last", (unsigned long long)p->epoch,
                          UINT32_MAX - 1);
    l->next_fill = l->next_give = p->epoch * l->n_batches + p->batch_in_epoch;
    l->end = p->endless ? UINT64_MAX : (p->epoch + 1) * l->n_batches;
    return COMET_OK;
}

/* Rows and labels of a slot that has none yet. */
static comet_status take_slot(comet_loader *l, slot *s)
{
    const comet_allocator allocator = comet_allocator_of(NULL);
    const size_t bytes = l->row_bytes * l->params.batch;
    s->rows = comet_allocate(&allocator, bytes);
    s->labels = storage_new(l->params.batch, sizeof *s->labels);
    if (!s->rows || !s->labels)
        return COMET_ERROR_MEMORY;
    l->queue_bytes += bytes + l->params.batch * sizeof *s->labels;
    return COMET_OK;
}

static comet_status take_hand(comet_loader *l, hand *h)
{
    const comet_allocator allocator = comet_allocator_of(NULL);
    const size_t bytes = l->image_floats * sizeof(float) * l->params.batch;
    if (!h->images)
        h->images = comet_allocate(&allocator, bytes);
    if (h->images && !h->labels)
        h->labels = storage_new(l->params.batch, sizeof *h->labels);
    if (!h->images || !h->labels)
        return COMET_ERROR_MEMORY;
    l->hand_bytes += bytes + l->params.batch * sizeof *h->labels;
    return COMET_OK;
}

static void give_back(comet_loader *l, slot *s)
{
    const comet_allocator allocator = comet_allocator_of(NULL);
    comet_release(&allocator, s->rows, l->row_bytes * l->params.batch);
    free(s->labels);
    s->rows = NULL;
    s->labels = NULL;
}

/* Slots that are in use from the start, and one hand, so that the usual caller finds out about a lack of memory at once. */
static comet_status take_memory(comet_loader *l)
{
    size_t bytes = 0;
    if (__builtin_mul_overflow(l->image_floats, (size_t)l->params.batch * sizeof(float), &bytes) || bytes > SIZE_MAX / 2)
        return comet_fail(COMET_ERROR_OVERFLOW, "a batch of %u images of %zu numbers is larger than any memory",
                          l->params.batch, l->image_floats);
    l->slots = storage_new(l->n_most, sizeof *l->slots);
    l->hands = l->dataset->tables ? storage_new(l->n_hands, sizeof *l->hands) : NULL;
    l->threads = storage_new(l->params.n_threads, sizeof *l->threads);
    if (!l->slots || !l->threads || (l->dataset->tables && !l->hands))
        return COMET_ERROR_MEMORY;
    l->queue_bytes = l->n_most * sizeof *l->slots;
    for (uint32_t i = 0; i < l->n_slots; i++)
        if (take_slot(l, &l->slots[i]) != COMET_OK)
            return COMET_ERROR_MEMORY;
    return l->hands ? take_hand(l, &l->hands[0]) : COMET_OK;
}

/* Signals are left to the host's threads. Fewer threads are enough where one cannot be started, as long as there is one. */
static comet_status start_threads(comet_loader *l)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (l->n_threads < l->params.n_threads && pthread_create(&l->threads[l->n_threads], NULL, worker, l) == 0)
        l->n_threads++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (l->n_threads == 0)
        return comet_fail(COMET_ERROR_MEMORY, "no thread could be started to load images");
    return COMET_OK;
}

/* Where rows are floats, the batch that the caller holds has a slot on top. */
static void set_depth(comet_loader *l)
{
    const comet_loader_params *p = &l->params;
    const uint32_t most = loader_batches(p->queue), held = l->dataset->tables ? 0 : 1;
    const uint32_t first = p->queue > 0 ? most : p->first_queue > 0 ? p->first_queue : 1;
    l->n_most = most + held;
    l->n_slots = (first < most ? first : most) + held;
    l->n_hands = most + 1;
}

comet_status comet_loader_create(comet_loader **loader, comet_dataset *dataset, const comet_loader_params *params)
{
    if (!loader || !dataset || !params)
        return comet_fail(COMET_ERROR_ARGUMENT, "comet_loader_create was given a null pointer");
    comet_status status = check_params(params, &dataset->info);
    if (status != COMET_OK)
        return status;
    comet_loader *l = storage_new(1, sizeof *l);
    if (!l)
        return COMET_ERROR_MEMORY;
    l->self = l;
    l->dataset = dataset;
    l->params = *params;
    l->params.n_threads = loader_threads(params->n_threads);
    set_depth(l);
    l->row_bytes = dataset_row_bytes(dataset);
    l->image_floats = dataset_image_floats(dataset);
    const uint32_t n_pieces = l->params.n_threads * PIECES_PER_THREAD;
    l->piece_rows = params->batch / n_pieces + (params->batch % n_pieces != 0);
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->work, NULL);
    pthread_cond_init(&l->ready, NULL);
    status = set_range(l);
    if (status == COMET_OK)
        status = take_memory(l);
    if (status == COMET_OK)
        status = start_threads(l);
    if (status == COMET_OK)
        *loader = l;
    else
        comet_loader_destroy(l);
    return status;
}

static void free_batches(comet_loader *l)
{
    const comet_allocator allocator = comet_allocator_of(NULL);
    for (uint32_t i = 0; l->slots && i < l->n_most; i++)
        give_back(l, &l->slots[i]);
    for (uint32_t i = 0; l->hands && i < l->n_hands; i++) {
        comet_release(&allocator, l->hands[i].images, l->image_floats * sizeof(float) * l->params.batch);
        free(l->hands[i].labels);
    }
    free(l->slots);
    free(l->hands);
}

void comet_loader_destroy(comet_loader *loader)
{
    if (!loader)
        return;
    pthread_mutex_lock(&loader->lock);
    atomic_store_explicit(&loader->stop, true, memory_order_relaxed);
    pthread_cond_broadcast(&loader->work);
    pthread_mutex_unlock(&loader->lock);
    for (uint32_t i = 0; i < loader->n_threads; i++)
        pthread_join(loader->threads[i], NULL);
    pthread_cond_destroy(&loader->work);
    pthread_cond_destroy(&loader->ready);
    pthread_mutex_destroy(&loader->lock);
    free_batches(loader);
    free(loader->threads);
    free(loader);
}

/* ---- the caller's side ---- */

uint64_t comet_loader_batches(const comet_loader *loader)
{
    return loader->n_batches;
}

/* The lock must be held, as for the next functions. NULL: not yet. */
static slot *ready_slot(const comet_loader *l, uint64_t number)
{
    for (uint32_t i = 0; i < l->n_slots; i++)
        if (l->slots[i].state == SLOT_READY && l->slots[i].number == number)
            return &l->slots[i];
    return NULL;
}

/* One batch more, where that can help. Where there is no memory for it, the queue stays as it is. */
static void grow_queue(comet_loader *l)
{
    if (!l->was_full || l->n_slots == l->n_most)
        return;
    l->was_full = false;
    slot *added = &l->slots[l->n_slots];
    if (take_slot(l, added) != COMET_OK) {
        give_back(l, added);
        return;
    }
    l->n_slots++;
    pthread_cond_broadcast(&l->work);
}

/* Waits until the batch is ready, and counts how long. */
static slot *wait_for(comet_loader *l, uint64_t number)
{
    slot *s = ready_slot(l, number);
    if (s)
        return s;
    const double start = comet_seconds();
    grow_queue(l);
    while (!(s = ready_slot(l, number)))
        pthread_cond_wait(&l->ready, &l->lock);
    l->stats.wait_seconds += comet_seconds() - start;
    return s;
}

static void count_given(comet_loader *l, const slot *s)
{
    l->next_give++;
    l->stats.n_batches++;
    l->stats.n_skipped += s->n_skipped;
    if (s->skipped.set && l->stats.first_skipped[0] == '\0')
        snprintf(l->stats.first_skipped, sizeof l->stats.first_skipped, "%.255s", s->skipped.sentence);
}

/* Normalises bytes into a hand. The lock is not held meanwhile, so that threads go on. */
static void fill_hand(comet_loader *l, slot *s, hand *h)
{
    const uint32_t batch = l->params.batch, n = s->n_valid;
    h->held = true;
    pthread_mutex_unlock(&l->lock);
    dataset_normalise(l->dataset, s->rows, n, h->images);
    memset(h->images + n * l->image_floats, 0, (batch - n) * l->image_floats * sizeof(float));
    memcpy(h->labels, s->labels, batch * sizeof *h->labels);
    pthread_mutex_lock(&l->lock);
    s->state = SLOT_FREE;
    pthread_cond_broadcast(&l->work);
}

/* Hands the ready slot out. A batch that failed is not handed out, now or at the next call. */
static comet_status give(comet_loader *l, slot *s, hand *h, comet_batch *batch)
{
    if (s->failed.set)
        return comet_fail(s->failed.status, "%s", s->failed.sentence);
    s->state = SLOT_HELD;
    count_given(l, s);
    *batch = (comet_batch){.images = h ? h->images : s->rows,
                           .labels = h ? h->labels : s->labels,
                           .n_valid = s->n_valid,
                           .epoch = s->number / l->n_batches,
                           .batch_in_epoch = s->number % l->n_batches};
    if (h)
        fill_hand(l, s, h);
    return COMET_OK;
}

/* A hand for the next batch, where rows are bytes. */
static comet_status find_hand(comet_loader *l, hand **found)
{
    uint32_t i = 0;
    while (i < l->n_hands && l->hands[i].held)
        i++;
    if (i == l->n_hands)
        return comet_fail(COMET_ERROR_ARGUMENT, "%u batches are held, as many as can be; comet_loader_release gives one back",
                          l->n_hands);
    *found = &l->hands[i];
    return l->hands[i].labels ? COMET_OK : take_hand(l, *found);
}

/* Where rows are floats: is there a slot that is not held? The queue grows to its limit for those that are. */
static comet_status check_held(comet_loader *l)
{
    uint32_t n_held = 0;
    for (uint32_t i = 0; i < l->n_slots; i++)
        n_held += l->slots[i].state == SLOT_HELD;
    if (n_held == l->n_slots) {
        l->was_full = true;
        grow_queue(l);
    }
    if (n_held == l->n_slots)
        return comet_fail(COMET_ERROR_ARGUMENT, "%u batches are held, as many as can be; comet_loader_release gives one back",
                          n_held);
    return COMET_OK;
}

comet_status comet_loader_next(comet_loader *loader, comet_batch *batch, bool *end)
{
    if (!loader || !batch || !end)
        return comet_fail(COMET_ERROR_ARGUMENT, "comet_loader_next was given a null pointer");
    comet_status status = COMET_OK;
    hand *h = NULL;
    pthread_mutex_lock(&loader->lock);
    const bool over = loader->next_give == loader->end;
    if (!over)
        status = loader->hands ? find_hand(loader, &h) : check_held(loader);
    if (!over && status == COMET_OK)
        status = give(loader, wait_for(loader, loader->next_give), h, batch);
    pthread_mutex_unlock(&loader->lock);
    if (status == COMET_OK)
        *end = over;
    return status;
}

void comet_loader_release(comet_loader *loader, const comet_batch *batch)
{
    if (!loader || !batch)
        return;
    pthread_mutex_lock(&loader->lock);
    for (uint32_t i = 0; loader->hands && i < loader->n_hands; i++)
        loader->hands[i].held &= loader->hands[i].images != batch->images;
    for (uint32_t i = 0; !loader->hands && i < loader->n_slots; i++) {
        slot *s = &loader->slots[i];
        if (s->rows == batch->images && s->state == SLOT_HELD) {
            s->state = SLOT_FREE;
            pthread_cond_broadcast(&loader->work);
        }
    }
    pthread_mutex_unlock(&loader->lock);
}

void comet_loader_stats_init(comet_loader_stats *stats)
{
    *stats = (comet_loader_stats){.size = sizeof *stats};
}

comet_status comet_loader_describe(const comet_loader *loader, comet_loader_stats *stats)
{
    if (!loader)
        return comet_fail(COMET_ERROR_ARGUMENT, "comet_loader_describe was given a null pointer");
    comet_loader *l = loader->self;
    pthread_mutex_lock(&l->lock);
    comet_loader_stats now = l->stats;
    now.bytes = l->queue_bytes + l->hand_bytes + l->scratch_bytes + l->dataset->bytes;
    now.queue = l->n_slots - (l->hands ? 0 : 1);
    pthread_mutex_unlock(&l->lock);
    return GIVE(comet_loader_stats, stats, &now);
}
