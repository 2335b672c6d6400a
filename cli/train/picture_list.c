/* Lists of pictures; see picture_list.h. */
#include "train/picture_list.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

static bool is_picture(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot && (!strcasecmp(dot, ".jpg") || !strcasecmp(dot, ".jpeg") || !strcasecmp(dot, ".png"));
}

/* Takes the path over. */
static cli_exit append(picture_list *list, char *path)
{
    if (path && list->n == list->room) {
        const size_t room = list->room * 2 + 64;
        char **larger = realloc(list->paths, room * sizeof *larger);
        if (larger) {
            list->paths = larger;
            list->room = room;
        }
    }
    if (path && list->n < list->room) {
        list->paths[list->n++] = path;
        return CLI_OK;
    }
    free(path);
    return fail(CLI_NO_MEMORY, "out of memory: could not allocate a list of %zu files", list->n + 1);
}

static char *join(const char *folder, const char *name)
{
    const size_t length = strlen(folder);
    const bool ends = length > 0 && folder[length - 1] == '/';
    const size_t bytes = length + strlen(name) + 2;
    char *path = malloc(bytes);
    if (path)
        snprintf(path, bytes, "%s%s%s", folder, ends ? "" : "/", name);
    return path;
}

/* One entry of a folder: a picture goes to `list`, a folder to `folders`. */
static cli_exit add_entry(picture_list *list, picture_list *folders, const char *folder, const char *name)
{
    struct stat about;
    if (name[0] == '.')
        return CLI_OK;
    char *path = join(folder, name);
    if (!path)
        return append(list, NULL);
    if (lstat(path, &about) == 0 && S_ISDIR(about.st_mode))
        return append(folders, path);
    const bool linked_folder = stat(path, &about) == 0 && S_ISDIR(about.st_mode);
    if (is_picture(name) && !linked_folder)
        return append(list, path);
    free(path);
    return CLI_OK;
}

static cli_exit read_folder(picture_list *list, picture_list *folders, const char *folder)
{
    DIR *stream = opendir(folder);
    cli_exit code = CLI_OK;
    if (!stream)
        return fail_errno(CLI_BAD_INPUT, errno, folder);
    for (const struct dirent *entry = NULL; code == CLI_OK && (entry = readdir(stream));)
        code = add_entry(list, folders, folder, entry->d_name);
    closedir(stream);
    return code;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static cli_exit add_folder(picture_list *list, const char *path)
{
    picture_list folders = {0};
    const size_t before = list->n;
    cli_exit code = append(&folders, strdup(path));
    while (code == CLI_OK && folders.n > 0) {
        char *folder = folders.paths[--folders.n];
        code = read_folder(list, &folders, folder);
        free(folder);
    }
    picture_list_free(&folders);
    if (code == CLI_OK && list->n == before)
        return fail(CLI_BAD_INPUT, "%s has no .jpg, .jpeg or .png file", path);
    if (code == CLI_OK)
        qsort(list->paths + before, list->n - before, sizeof *list->paths, by_name);
    return code;
}

cli_exit picture_list_add(picture_list *list, const char *path)
{
    struct stat about;
    if (stat(path, &about) != 0)
        return fail_errno(CLI_BAD_INPUT, errno, path);
    return S_ISDIR(about.st_mode) ? add_folder(list, path) : append(list, strdup(path));
}

void picture_list_free(picture_list *list)
{
    for (size_t i = 0; i < list->n; i++)
        free(list->paths[i]);
    free(list->paths);
    *list = (picture_list){0};
}
