/*
 * One lock, one list of messages in the order of sending. A receive takes the first message that fits and has waited long
 * enough; a message is not overtaken by a later one with the same sender, receiver and tag.
 */
#include "mailboxes.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_REQUESTS = 4096, MOST_LOOKS = 50 };

typedef struct letter {
    struct letter *next;
    uint32_t from, to, looks; /* left until it is there */
    int tag;
    size_t bytes;
    unsigned char data[];
} letter;

struct post_office {
    pthread_mutex_t lock;
    letter *letters, **end;
    uint32_t n_ranks, shuffle;
    bool stopped[64];
};

typedef struct wish {
    bool used, sends;
    uint32_t from;
    int tag;
    void *data;
    size_t capacity;
} wish;

typedef struct mailbox {
    transport base; /* first */
    post_office *office;
    wish wishes[MOST_REQUESTS];
} mailbox;

static uint32_t looks_of(post_office *office)
{
    if (office->shuffle == 0)
        return 0;
    office->shuffle = office->shuffle * 1664525u + 1013904223u;
    return (office->shuffle >> 16) % MOST_LOOKS;
}

static int take_wish(mailbox *m)
{
    for (int i = 0; i < MOST_REQUESTS; i++)
        if (!m->wishes[i].used)
            return i;
    snprintf(m->base.error, sizeof m->base.error, "%d requests are under way", MOST_REQUESTS);
    return -1;
}

static bool box_send(transport *t, uint32_t to, int tag, const void *data, size_t bytes, int *request)
{
    mailbox *m = (mailbox *)t;
    post_office *office = m->office;
    letter *l = malloc(sizeof *l + bytes);
    *request = take_wish(m);
    if (*request < 0 || !l)
        return false;
    m->wishes[*request] = (wish){.used = true, .sends = true};
    *l = (letter){.from = t->rank, .to = to, .tag = tag, .bytes = bytes};
    memcpy(l->data, data, bytes);
    pthread_mutex_lock(&office->lock);
    l->looks = looks_of(office);
    if (office->stopped[t->rank]) {
        free(l);
    } else {
        *office->end = l;
        office->end = &l->next;
    }
    pthread_mutex_unlock(&office->lock);
    return true;
}

static bool box_receive(transport *t, uint32_t from, int tag, void *data, size_t capacity, int *request)
{
    mailbox *m = (mailbox *)t;
    *request = take_wish(m);
    if (*request < 0)
        return false;
    m->wishes[*request] = (wish){.used = true, .from = from, .tag = tag, .data = data, .capacity = capacity};
    return true;
}

/* The earlier of two wishes for the same messages gets the earlier message: requests of one tag are begun in ascending order,
 * or one after the other. */
static letter *take_letter(post_office *office, uint32_t to, const wish *w)
{
    for (letter **place = &office->letters; *place; place = &(*place)->next) {
        letter *l = *place;
        if (l->to != to || l->from != w->from || l->tag != w->tag)
            continue;
        if (l->looks > 0) {
            l->looks--;
            return NULL;
        }
        *place = l->next;
        if (!l->next)
            office->end = place;
        return l;
    }
    return NULL;
}

static bool box_test(transport *t, int request, bool *done, size_t *bytes)
{
    mailbox *m = (mailbox *)t;
    post_office *office = m->office;
    wish *w = &m->wishes[request];
    letter *l = NULL;
    pthread_mutex_lock(&office->lock);
    const bool stopped = office->stopped[t->rank];
    if (!stopped && !w->sends)
        l = take_letter(office, t->rank, w);
    pthread_mutex_unlock(&office->lock);
    *done = !stopped && (w->sends || l);
    if (l && l->bytes > w->capacity) {
        snprintf(t->error, sizeof t->error, "a message of %zu bytes came for %zu", l->bytes, w->capacity);
        free(l);
        return false;
    }
    if (l) {
        memcpy(w->data, l->data, l->bytes);
        if (bytes)
            *bytes = l->bytes;
    }
    free(l);
    w->used = w->used && !*done;
    return true;
}

static void box_drop(transport *t, int request)
{
    ((mailbox *)t)->wishes[request].used = false;
}

static void box_close(transport *t)
{
    free(t);
}

static void box_abort(transport *t, int code)
{
    (void)t;
    (void)code;
}

static transport *open_box(void *arg, char *error, size_t bytes)
{
    const mailbox_place *place = arg;
    mailbox *m = calloc(1, sizeof *m);
    if (!m) {
        snprintf(error, bytes, "no memory");
        return NULL;
    }
    m->office = place->office;
    m->base = (transport){.version = TRANSPORT_VERSION,
                          .rank = place->rank,
                          .n_ranks = place->office->n_ranks,
                          .name = "mailboxes",
                          .send = box_send,
                          .receive = box_receive,
                          .test = box_test,
                          .drop = box_drop,
                          .close = box_close,
                          .abort = box_abort};
    return &m->base;
}

post_office *post_office_open(uint32_t n_ranks, uint32_t shuffle)
{
    post_office *office = calloc(1, sizeof *office);
    if (!office)
        abort();
    office->n_ranks = n_ranks;
    office->shuffle = shuffle;
    office->end = &office->letters;
    pthread_mutex_init(&office->lock, NULL);
    return office;
}

void post_office_close(post_office *office)
{
    while (office->letters) {
        letter *next = office->letters->next;
        free(office->letters);
        office->letters = next;
    }
    pthread_mutex_destroy(&office->lock);
    free(office);
}

void post_office_stop(post_office *office, uint32_t rank)
{
    pthread_mutex_lock(&office->lock);
    office->stopped[rank] = true;
    pthread_mutex_unlock(&office->lock);
}

mover_settings mailbox_settings(mailbox_place *place)
{
    return (mover_settings){.open = open_box, .arg = place, .silent_seconds = 60};
}
