/* Fields of CSV as RFC 4180 quotes them; lines end in \n, as those of other text files here. */
#ifndef COMET_CLI_CSV_H
#define COMET_CLI_CSV_H

#include <stdio.h>

/* A text, in quotes where it has a comma, a quote or a line end. */
void csv_text(FILE *out, const char *text);

#endif
