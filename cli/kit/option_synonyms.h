/* The words that users of PyTorch, Keras and the like have for our options. */
#ifndef COMET_CLI_OPTION_SYNONYMS_H
#define COMET_CLI_OPTION_SYNONYMS_H

#include "base/nearest.h"

/* Offers the option `candidate`, also where the word that was written is another program's word for it. */
void nearest_offer_option(nearest_word *nearest, const char *candidate);

#endif
