/* See command_line.h. */
#include "kit/command_line.h"

#include <stdlib.h>
#include <string.h>

static char *none[] = {NULL};
static char **words = none;

void command_line_keep(int argc, char **argv)
{
    char **kept = calloc((size_t)argc + 1, sizeof *kept);
    if (!kept)
        return;
    memcpy(kept, argv, (size_t)argc * sizeof *kept);
    words = kept;
}

char *const *command_line(void)
{
    return words;
}
