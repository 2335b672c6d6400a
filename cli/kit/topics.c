/* Documents; see topics.h. */
#include "kit/topics.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kit/text.h"

enum { PATH_BYTES = 4096, NAME_BYTES = 64, MOST_TOPICS = 64 };
#ifndef COMET_DOCS_FROM_BIN
#define COMET_DOCS_FROM_BIN "../share/doc/comet"
#endif

/* The folder of the documents, known by its tutorial. */
static bool find_folder(char folder[PATH_BYTES])
{
    static const char *const places[] = {COMET_DOCS_FROM_BIN, "../docs"};
    char program[PATH_BYTES], tutorial[PATH_BYTES + 16];
    const ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    if (length <= 0)
        return false;
    program[length] = '\0';
    *strrchr(program, '/') = '\0';
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        if ((size_t)snprintf(folder, PATH_BYTES, "%s/%s", program, places[i]) >= PATH_BYTES)
            continue;
        snprintf(tutorial, sizeof tutorial, "%s/tutorial.md", folder);
        if (access(tutorial, R_OK) == 0)
            return true;
    }
    return false;
}

static int is_topic(const struct dirent *entry)
{
    const size_t length = strlen(entry->d_name);
    return length < NAME_BYTES && text_ends_with(entry->d_name, length, ".md") && strcmp(entry->d_name, "README.md") != 0;
}

static char names[MOST_TOPICS][NAME_BYTES];

/* Fills `names`; how many there are. */
static int read_names(void)
{
    char folder[PATH_BYTES];
    struct dirent **list = NULL;
    const int n = find_folder(folder) ? scandir(folder, &list, is_topic, alphasort) : 0;
    for (int i = 0; i < n; i++) {
        if (i < MOST_TOPICS)
            snprintf(names[i], NAME_BYTES, "%.*s", (int)strlen(list[i]->d_name) - 3, list[i]->d_name);
        free(list[i]);
    }
    free(list);
    return n < 0 ? 0 : n < MOST_TOPICS ? n : MOST_TOPICS;
}

bool topic_print(const char *name)
{
    char folder[PATH_BYTES], path[PATH_BYTES + NAME_BYTES + 8], buffer[1 << 14];
    if (strlen(name) >= NAME_BYTES || strchr(name, '/') || name[0] == '.' || !find_folder(folder))
        return false;
    snprintf(path, sizeof path, "%s/%s%s", folder, name, text_ends_with(name, strlen(name), ".md") ? "" : ".md");
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    for (size_t n; (n = fread(buffer, 1, sizeof buffer, file)) > 0;)
        fwrite(buffer, 1, n, stdout);
    fclose(file);
    return true;
}

void topics_offer(nearest_word *nearest)
{
    const int n = read_names();
    for (int i = 0; i < n; i++)
        nearest_offer(nearest, names[i]);
}

void topics_list(void)
{
    const int n = read_names();
    if (n == 0)
        return;
    fputs("\ntopics of 'comet help TOPIC' (TOPIC.md where it is a verb, too):\n ", stdout);
    for (int i = 0; i < n; i++)
        printf(" %s", names[i]);
    putchar('\n');
}
