/* The folder of a run's checkpoints: names of files, the lock, what killed runs left. */
#include "train/files/checkpoint_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/status.h"
#include "base/temporary.h"
#include "train/files/checkpoint.h"

comet_status checkpoint_path_in(const char *folder, const char *name, char **path)
{
    const size_t bytes = strlen(folder) + strlen(name) + 2;
    *path = malloc(bytes);
    if (!*path)
        return comet_fail(COMET_ERROR_MEMORY, "out of memory: could not allocate the name of a checkpoint");
    snprintf(*path, bytes, "%s/%s", folder, name);
    return COMET_OK;
}

static const char *const file_names[] = {"last.safetensors", "previous.safetensors", "best.safetensors", "damaged.safetensors",
                                         "state.json"};
enum { N_FILE_NAMES = sizeof file_names / sizeof file_names[0] };

void checkpoint_clear(const char *folder)
{
    for (size_t i = 0; i < N_FILE_NAMES; i++) {
        char *path = NULL;
        if (checkpoint_path_in(folder, file_names[i], &path) == COMET_OK)
            unlink(path);
        free(path);
    }
}

/* Removes what runs left that were killed while they saved. */
static void clean_temporaries(const char *folder)
{
    for (size_t i = 0; i < N_FILE_NAMES; i++) {
        char *path = NULL;
        if (checkpoint_path_in(folder, file_names[i], &path) == COMET_OK)
            comet_temporary_clean(path);
        free(path);
    }
}

static comet_status make_folders(const char *folder)
{
    char *path = NULL;
    comet_status status = checkpoint_path_in(folder, "", &path);
    for (char *at = path; status == COMET_OK && (at = strchr(at + 1, '/'));) {
        *at = '\0';
        if (mkdir(path, 0777) != 0 && errno != EEXIST)
            status = comet_fail(COMET_ERROR_IO, "%s: could not create the folder: %s", path, strerror(errno));
        *at = '/';
    }
    free(path);
    return status;
}

comet_status checkpoint_lock(const char *folder, int *lock)
{
    char *path = NULL;
    const struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    comet_status status = make_folders(folder);
    if (status == COMET_OK)
        status = checkpoint_path_in(folder, ".lock", &path);
    if (status != COMET_OK)
        return status;
    const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0)
        status = comet_fail(COMET_ERROR_IO, "%s: %s", path, strerror(errno));
    else if (fcntl(fd, F_SETLK, &whole) != 0 && (errno == EACCES || errno == EAGAIN))
        status = comet_fail(COMET_ERROR_IO, "%s: another run is writing to this folder", folder);
    if (status == COMET_OK) {
        *lock = fd;
        clean_temporaries(folder);
    } else if (fd >= 0) {
        close(fd);
    }
    free(path);
    return status;
}

void checkpoint_unlock(int lock)
{
    if (lock >= 0)
        close(lock);
}
