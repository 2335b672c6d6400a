/* A transport between threads of one process: messages wait in mailboxes, and may be made to arrive in another order. */
#ifndef COMET_TESTS_MAILBOXES_H
#define COMET_TESTS_MAILBOXES_H

#include "comet/ranks.h"
#include "dist/mover.h"

typedef struct post_office post_office;

/* `shuffle`: messages arrive after a number of looks that it decides; 0: at once. */
post_office *post_office_open(uint32_t n_ranks, uint32_t shuffle);
void post_office_close(post_office *office);

/* From now on the rank neither sends nor receives, as one that was stopped. */
void post_office_stop(post_office *office, uint32_t rank);

/* The settings of a rank's mover. */
typedef struct mailbox_place {
    post_office *office;
    uint32_t rank;
} mailbox_place;
mover_settings mailbox_settings(mailbox_place *place);

#endif
