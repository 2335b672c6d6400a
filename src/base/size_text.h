/* Sizes in sentences. */
#ifndef COMET_BASE_SIZE_TEXT_H
#define COMET_BASE_SIZE_TEXT_H

#include <stdint.h>

#define SIZE_TEXT_BYTES 24

/* "3.14 MiB", "12 MiB", "1.95 GiB". Returns `text`. */
char *comet_size_text(uint64_t bytes, char text[SIZE_TEXT_BYTES]);

#endif
