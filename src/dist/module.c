/*
 * Finds modules: comet_mpi_NAME.so in the folder of the program (a build) or in lib/comet of where it is installed. MPI's
 * symbols become global, because plugins of Open MPI look for them there.
 */
#include "dist/module.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/describe.h"
#include "base/status.h"

static const char *const all_names[] = {"openmpi", "mpich", "other"};
enum { N_NAMES = sizeof all_names / sizeof *all_names, PATH_BYTES = 4096 };

/* Where module `name` is; false where there is none. */
static bool find_path(const char *name, char *path, size_t bytes)
{
    char folder[PATH_BYTES];
    const ssize_t n = readlink("/proc/self/exe", folder, sizeof folder - 1);
    if (n <= 0)
        return false;
    folder[n] = '\0';
    char *slash = strrchr(folder, '/');
    if (!slash)
        return false;
    *slash = '\0';
    static const char *const places[] = {"", "/" COMET_MODULES_FROM_BIN};
    for (size_t i = 0; i < 2; i++) {
        const int length = snprintf(path, bytes, "%s%s/comet_mpi_%s.so", folder, places[i], name);
        if (length > 0 && (size_t)length < bytes && access(path, R_OK) == 0)
            return true;
    }
    return false;
}

/* "openmpi and mpich", for sentences. */
static void list_names(char *text, size_t bytes)
{
    char path[PATH_BYTES];
    size_t at = 0;
    snprintf(text, bytes, "none");
    for (size_t i = 0; i < N_NAMES; i++)
        if (find_path(all_names[i], path, sizeof path) && at < bytes)
            at += (size_t)snprintf(text + at, bytes - at, "%s%s", at > 0 ? " and " : "", all_names[i]);
}

static comet_status open_path(const char *path, transport_open *open)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    if (!library)
        return comet_fail(COMET_ERROR_UNSUPPORTED, "the MPI module cannot be loaded: %s", dlerror());
    void *symbol = dlsym(library, TRANSPORT_OPEN_NAME);
    if (!symbol)
        return comet_fail(COMET_ERROR_UNSUPPORTED, "%s is not an MPI module of Comet: it has no " TRANSPORT_OPEN_NAME, path);
    memcpy(open, &symbol, sizeof *open); /* ISO C has no conversion */
    return COMET_OK;
}

comet_status module_load(const char *const *names, const char *launcher, transport_open *open)
{
    char path[PATH_BYTES], built[64];
    for (const char *const *name = names; *name; name++)
        if (find_path(*name, path, sizeof path))
            return open_path(path, open);
    list_names(built, sizeof built);
    return comet_fail(
        COMET_ERROR_UNSUPPORTED,
        "%s started this program, which has no module for that MPI (it has: %s); build Comet where the MPI's compiler "
        "and headers are installed (tools/setup all), or use the launcher of an MPI that it has",
        launcher, built);
}

/* What the MPI of a module says of itself. Its symbols stay local: two MPIs may be asked in one process. */
static void ask(const char *path, comet_dist_module_info *info)
{
    transport_library library;
    void *handle = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
    void *symbol = handle ? dlsym(handle, TRANSPORT_LIBRARY_NAME) : NULL;
    if (!symbol) {
        const char *why = dlerror();
        snprintf(info->error, sizeof info->error, "%s", why ? why : "it is not a module of Comet");
        return;
    }
    memcpy(&library, &symbol, sizeof library);
    library(info->library, sizeof info->library);
}

bool comet_dist_module(size_t number, comet_dist_module_info *info)
{
    char path[PATH_BYTES];
    for (size_t i = 0; i < N_NAMES; i++) {
        if (!find_path(all_names[i], path, sizeof path) || number-- != 0)
            continue;
        comet_dist_module_info found = {.name = all_names[i]};
        ask(path, &found);
        return GIVE(comet_dist_module_info, info, &found) == COMET_OK;
    }
    return false;
}
