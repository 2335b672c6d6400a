/*
 * Temporary files that later take the name of another file, for writers whose output is whole or not there.
 *
 * A temporary lies beside its target as ".comet-TARGET-RANDOM.tmp": a hash of the target's name and a random number, 16
 * hexadecimal digits each. It is made under a name that was free and without following links, and is locked (flock) until its
 * descriptor is closed. One that is not locked was left by a process that was killed: the next one for the same target removes
 * it.
 */
#ifndef COMET_BASE_TEMPORARY_H
#define COMET_BASE_TEMPORARY_H

/* Opens a temporary for `path`, for writing; what killed processes left for the same path is removed first. Its permissions are
 * at most those of the file that it will replace. Returns the descriptor, and *name for free(); or -1 with errno, and *name is
 * NULL. */
int comet_temporary_open(const char *path, char **name);

/* Makes a temporary that is a second link to the file `existing`. Returns 0, or -1 with errno. */
int comet_temporary_link(const char *existing, const char *path, char **name);

/* Gives the temporary the mode of the file that it will replace, and brings it to the disk. To be called before it takes the
 * name of `path`; the descriptor is to be closed afterwards, since others remove what is not locked. Returns 0, or -1 with
 * errno. */
int comet_temporary_sync(int fd, const char *path);

/* Brings the folder of `path` to the disk: a new name is safe from a power cut only then. Some file systems refuse to do that
 * for folders, which is no failure. */
void comet_folder_sync(const char *path);

/* Removes the temporaries of `path` that killed processes left. */
void comet_temporary_clean(const char *path);

#endif
