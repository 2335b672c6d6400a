/*
 * The documents, as topics of `comet help`: beside an installed program in share/doc/comet, in a build in docs/ of the source
 * tree. So what the program points to is there wherever it was installed.
 */
#ifndef COMET_CLI_TOPICS_H
#define COMET_CLI_TOPICS_H

#include "base/nearest.h"
#include "kit/say.h"

/* Prints the document of this name, such as "training" or "training.md". False where there is none. */
bool topic_print(const char *name);

/* Offers the names of all of them, and prints them on one line each. */
void topics_offer(nearest_word *nearest);
void topics_list(void);

#endif
