/* Runs a fuzz target on stored inputs, without libFuzzer. usage: replay_NAME FILE_OR_FOLDER... */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END) != 0) {
        perror(path);
        return -1;
    }
    long length = ftell(file);
    rewind(file);
    size_t size = length > 0 ? (size_t)length : 0;
    uint8_t *data = malloc(size ? size : 1);
    if (!data || fread(data, 1, size, file) != size) {
        perror(path);
        exit(1);
    }
    fclose(file);
    LLVMFuzzerTestOneInput(data, size);
    free(data);
    return 1;
}

/* The number of files, or -1. Folders in a folder are left out. */
static int replay_folder(const char *folder)
{
    DIR *dir = opendir(folder);
    if (!dir) {
        perror(folder);
        return -1;
    }
    int count = 0;
    for (struct dirent *entry; count >= 0 && (entry = readdir(dir));) {
        char path[4096];
        struct stat info;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (stat(path, &info) == 0 && S_ISREG(info.st_mode))
            count = replay_file(path) < 0 ? -1 : count + 1;
    }
    closedir(dir);
    return count;
}

int main(int argc, char **argv)
{
    int count = 0;
    for (int i = 1; i < argc; i++) {
        struct stat info;
        int replayed = stat(argv[i], &info) == 0 && S_ISDIR(info.st_mode) ? replay_folder(argv[i]) : replay_file(argv[i]);
        if (replayed < 0)
            return 1;
        count += replayed;
    }
    printf("%d inputs replayed\n", count);
    return count > 0 ? 0 : 1; /* an empty corpus tests nothing */
}
