/* The files that comet predict is given: pictures and arrays by name, and all pictures of folders. */
#ifndef COMET_CLI_PICTURE_LIST_H
#define COMET_CLI_PICTURE_LIST_H

#include <stddef.h>

#include "kit/say.h"

typedef struct picture_list {
    char **paths;
    size_t n, room;
} picture_list;

/* Adds a file, whatever its name, or the .jpg, .jpeg and .png files of a folder and of the folders in it, in byte order of
 * their paths. Hidden files and folders, and links to folders, are left out. CLI_BAD_INPUT where there is nothing. */
cli_exit picture_list_add(picture_list *list, const char *path);
void picture_list_free(picture_list *list);

#endif
