/* The driver's functions but those about memory; see mock.h. Names and parameters are those of NVIDIA's manual of the driver.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/mock/inside.h"

enum { MAX_CONTEXTS = 16, LAST_NAMED_STREAM = 2, MAX_OBJECTS = 1024, SECTOR_BITS = 21 };

static struct {
    int devices, capability, init, ptx_code;
    bool count;
} settings = {.devices = 1, .capability = 80};

mock_state mock = {.lock = PTHREAD_MUTEX_INITIALIZER, .machine = {.seed = 1}, .memory = (uint64_t)1 << 31};
static bool initialised;
static object objects[MAX_OBJECTS];
static char failure[PTX_WHY_BYTES];

static _Thread_local object *current[MAX_CONTEXTS];
static _Thread_local int n_current;

/* ---- settings ---- */

static bool set_order(const char *name)
{
    static const char *const names[N_PTX_ORDERS] = {"forward", "backward", "shuffled"};
    for (int i = 0; i < N_PTX_ORDERS; i++)
        if (strcmp(names[i], name) == 0) {
            mock.machine.order = (enum ptx_order)i;
            return true;
        }
    return false;
}

static bool set_word(char *word)
{
    char *value = strchr(word, '=');
    if (!value)
        return false;
    *value++ = 0;
    const unsigned long long n = strtoull(value, NULL, 10);
    if (strcmp(word, "devices") == 0 && n <= MAX_DEVICES)
        settings.devices = (int)n;
    else if (strcmp(word, "capability") == 0)
        settings.capability = (int)n;
    else if (strcmp(word, "memory") == 0)
        mock.memory = n;
    else if (strcmp(word, "init") == 0)
        settings.init = (int)n;
    else if (strcmp(word, "ptx") == 0)
        settings.ptx_code = (int)n;
    else if (strcmp(word, "seed") == 0)
        mock.machine.seed = n;
    else if (strcmp(word, "watch") == 0)
        mock.machine.watch = n != 0;
    else if (strcmp(word, "count") == 0)
        settings.count = n != 0;
    else
        return strcmp(word, "order") == 0 && set_order(value);
    return true;
}

static int configure(const char *words)
{
    char text[512], *rest = text;
    snprintf(text, sizeof text, "%s", words);
    for (char *word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        if (!set_word(word)) {
            fprintf(stderr, "mock of CUDA: \"%s\" is not known\n", word);
            return INVALID_VALUE;
        }
    return SUCCESS;
}

DRIVER int mock_cuda_configure(const char *words)
{
    pthread_mutex_lock(&mock.lock);
    const int code = configure(words);
    pthread_mutex_unlock(&mock.lock);
    return code;
}

DRIVER void mock_cuda_count(mock_cuda_counts *out)
{
    pthread_mutex_lock(&mock.lock);
    *out = mock.counts;
    pthread_mutex_unlock(&mock.lock);
}

/* ---- objects; the lock is held ---- */

static object *make_object(enum object_kind kind, object *context)
{
    for (int i = 0; i < MAX_OBJECTS; i++)
        if (objects[i].kind == FREE_PLACE) {
            objects[i] = (object){.kind = kind, .context = context};
            mock.counts.live_objects++;
            return &objects[i];
        }
    return NULL;
}

static void drop_object(object *o)
{
    if (o->kind == MODULE)
        ptx_module_free(o->module);
    free(o->counts);
    o->kind = FREE_PLACE;
    mock.counts.live_objects--;
}

/* Handles may be anything: only what is in the table is an object. */
static bool is_object(const object *o, enum object_kind kind)
{
    for (int i = 0; i < MAX_OBJECTS; i++)
        if (o == &objects[i])
            return o->kind == kind;
    return false;
}

object *mock_context(void)
{
    return n_current > 0 ? current[n_current - 1] : NULL;
}

/* The stream is of the current context. */
int mock_check_stream(const object *stream)
{
    object *context = mock_context();
    if (!context)
        return INVALID_CONTEXT;
    if ((uintptr_t)stream <= LAST_NAMED_STREAM)
        return SUCCESS;
    return is_object(stream, STREAM) && stream->context == context ? SUCCESS : INVALID_HANDLE;
}

/* ---- devices ---- */

DRIVER int cuInit(unsigned flags);
DRIVER int cuInit(unsigned flags)
{
    pthread_mutex_lock(&mock.lock);
    const char *words = getenv("COMET_MOCK_CUDA");
    int code = flags ? INVALID_VALUE : SUCCESS;
    if (code == SUCCESS && !initialised && words)
        code = configure(words);
    if (code == SUCCESS)
        code = settings.init;
    initialised = code == SUCCESS;
    pthread_mutex_unlock(&mock.lock);
    return code;
}

DRIVER int cuDriverGetVersion(int *version);
DRIVER int cuDriverGetVersion(int *version)
{
    *version = 12040;
    return SUCCESS;
}

DRIVER int cuGetErrorString(int code, const char **text);
DRIVER int cuGetErrorString(int code, const char **text)
{
    static const struct {
        int code;
        const char *text;
    } known[] = {{SUCCESS, "no error"},
                 {INVALID_VALUE, "invalid argument"},
                 {OUT_OF_MEMORY, "out of memory"},
                 {NOT_INITIALIZED, "initialization error"},
                 {INVALID_DEVICE, "invalid device ordinal"},
                 {INVALID_CONTEXT, "invalid device context"},
                 {INVALID_PTX, "a PTX JIT compilation failed"},
                 {INVALID_HANDLE, "invalid resource handle"},
                 {NOT_FOUND, "named symbol not found"},
                 {LAUNCH_FAILED, failure}};
    *text = NULL;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].code == code)
            *text = known[i].text;
    return *text ? SUCCESS : INVALID_VALUE;
}

DRIVER int cuDeviceGetCount(int *count);
DRIVER int cuDeviceGetCount(int *count)
{
    *count = settings.devices;
    return initialised ? SUCCESS : NOT_INITIALIZED;
}

DRIVER int cuDeviceGet(int *device, int index);
DRIVER int cuDeviceGet(int *device, int index)
{
    if (!initialised)
        return NOT_INITIALIZED;
    *device = index;
    return index >= 0 && index < settings.devices ? SUCCESS : INVALID_DEVICE;
}

DRIVER int cuDeviceGetName(char *name, int bytes, int device);
DRIVER int cuDeviceGetName(char *name, int bytes, int device)
{
    snprintf(name, (size_t)bytes, "interpreter of PTX, device %d", device);
    return SUCCESS;
}

DRIVER int cuDeviceTotalMem_v2(size_t *bytes, int device);
DRIVER int cuDeviceTotalMem_v2(size_t *bytes, int device)
{
    (void)device;
    *bytes = mock.memory;
    return SUCCESS;
}

DRIVER int cuDeviceGetAttribute(int *value, int attribute, int device);
DRIVER int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    const struct {
        int attribute, value;
    } known[] = {{1, PTX_MAX_THREADS},
                 {8, 49152},
                 {10, PTX_WARP},
                 {16, 4},
                 {41, 1} /* one address space with the host */,
                 {75, settings.capability / 10},
                 {76, settings.capability % 10}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].attribute == attribute) {
            *value = known[i].value;
            return device >= 0 && device < settings.devices ? SUCCESS : INVALID_DEVICE;
        }
    return INVALID_VALUE;
}

/* ---- contexts ---- */

static object *primary_of(int device)
{
    for (int i = 0; i < MAX_OBJECTS; i++)
        if (objects[i].kind == CONTEXT && objects[i].primary && objects[i].device == device)
            return &objects[i];
    return NULL;
}

DRIVER int cuDevicePrimaryCtxRetain(object **context, int device);
DRIVER int cuDevicePrimaryCtxRetain(object **context, int device)
{
    if (device < 0 || device >= settings.devices)
        return INVALID_DEVICE;
    pthread_mutex_lock(&mock.lock);
    object *o = primary_of(device);
    if (!o && (o = make_object(CONTEXT, NULL))) {
        o->primary = true;
        o->device = device;
    }
    if (o)
        o->users++;
    pthread_mutex_unlock(&mock.lock);
    *context = o;
    return o ? SUCCESS : OUT_OF_MEMORY;
}

DRIVER int cuDevicePrimaryCtxRelease_v2(int device);
DRIVER int cuDevicePrimaryCtxRelease_v2(int device)
{
    pthread_mutex_lock(&mock.lock);
    object *o = primary_of(device);
    if (o && --o->users == 0)
        drop_object(o);
    pthread_mutex_unlock(&mock.lock);
    return o ? SUCCESS : INVALID_CONTEXT;
}

DRIVER int cuCtxPushCurrent_v2(object *context);
DRIVER int cuCtxPushCurrent_v2(object *context)
{
    pthread_mutex_lock(&mock.lock);
    const bool good = is_object(context, CONTEXT) && n_current < MAX_CONTEXTS;
    pthread_mutex_unlock(&mock.lock);
    if (good)
        current[n_current++] = context;
    return good ? SUCCESS : INVALID_CONTEXT;
}

DRIVER int cuCtxPopCurrent_v2(object **context);
DRIVER int cuCtxPopCurrent_v2(object **context)
{
    *context = mock_context();
    n_current -= n_current > 0;
    return *context ? SUCCESS : INVALID_CONTEXT;
}

DRIVER int cuCtxGetCurrent(object **context);
DRIVER int cuCtxGetCurrent(object **context)
{
    *context = mock_context();
    return SUCCESS;
}

DRIVER int cuCtxGetDevice(int *device);
DRIVER int cuCtxGetDevice(int *device)
{
    const object *context = mock_context();
    if (context)
        *device = context->device;
    return context ? SUCCESS : INVALID_CONTEXT;
}

/* The new one is current afterwards. */
DRIVER int cuCtxCreate_v2(object **context, unsigned flags, int device);
DRIVER int cuCtxCreate_v2(object **context, unsigned flags, int device)
{
    (void)flags;
    if (device < 0 || device >= settings.devices)
        return INVALID_DEVICE;
    pthread_mutex_lock(&mock.lock);
    object *o = make_object(CONTEXT, NULL);
    if (o)
        o->device = device;
    pthread_mutex_unlock(&mock.lock);
    *context = o;
    return o ? cuCtxPushCurrent_v2(o) : OUT_OF_MEMORY;
}

DRIVER int cuCtxDestroy_v2(object *context);
DRIVER int cuCtxDestroy_v2(object *context)
{
    pthread_mutex_lock(&mock.lock);
    const bool good = is_object(context, CONTEXT) && !context->primary;
    if (good)
        drop_object(context);
    pthread_mutex_unlock(&mock.lock);
    if (good && mock_context() == context)
        n_current--;
    return good ? SUCCESS : INVALID_CONTEXT;
}

/* ---- streams: all is done when it is called ---- */

DRIVER int cuStreamCreate(object **stream, unsigned flags);
DRIVER int cuStreamCreate(object **stream, unsigned flags)
{
    (void)flags;
    object *context = mock_context();
    if (!context)
        return INVALID_CONTEXT;
    pthread_mutex_lock(&mock.lock);
    *stream = make_object(STREAM, context);
    pthread_mutex_unlock(&mock.lock);
    return *stream ? SUCCESS : OUT_OF_MEMORY;
}

static int drop(object *o, enum object_kind kind)
{
    pthread_mutex_lock(&mock.lock);
    const bool good = is_object(o, kind);
    if (good)
        drop_object(o);
    pthread_mutex_unlock(&mock.lock);
    return good ? SUCCESS : INVALID_HANDLE;
}

DRIVER int cuStreamDestroy_v2(object *stream);
DRIVER int cuStreamDestroy_v2(object *stream)
{
    return drop(stream, STREAM);
}

DRIVER int cuStreamSynchronize(object *stream);
DRIVER int cuStreamSynchronize(object *stream)
{
    pthread_mutex_lock(&mock.lock);
    const int code = mock_check_stream(stream);
    mock.counts.waits++;
    pthread_mutex_unlock(&mock.lock);
    return code;
}

DRIVER int cuStreamGetCtx(object *stream, object **context);
DRIVER int cuStreamGetCtx(object *stream, object **context)
{
    pthread_mutex_lock(&mock.lock);
    const bool named = (uintptr_t)stream <= LAST_NAMED_STREAM, good = named || is_object(stream, STREAM);
    if (good)
        *context = named ? mock_context() : stream->context;
    pthread_mutex_unlock(&mock.lock);
    return good && *context ? SUCCESS : INVALID_HANDLE;
}

/* ---- modules ---- */

DRIVER int cuModuleLoadData(object **module, const void *image);
DRIVER int cuModuleLoadData(object **module, const void *image)
{
    object *context = mock_context(), *made = NULL;
    char why[PTX_WHY_BYTES];
    if (!context)
        return INVALID_CONTEXT;
    if (settings.ptx_code)
        return settings.ptx_code;
    ptx_module *parsed = ptx_module_make(image, why);
    if (!parsed) {
        fprintf(stderr, "mock of CUDA: %s\n", why);
        return INVALID_PTX;
    }
    pthread_mutex_lock(&mock.lock);
    made = make_object(MODULE, context);
    if (made)
        made->module = parsed;
    pthread_mutex_unlock(&mock.lock);
    *module = made;
    return made ? SUCCESS : OUT_OF_MEMORY;
}

DRIVER int cuModuleUnload(object *module);
DRIVER int cuModuleUnload(object *module)
{
    pthread_mutex_lock(&mock.lock);
    for (int i = 0; i < MAX_OBJECTS && is_object(module, MODULE); i++)
        if (objects[i].kind == FUNCTION && objects[i].module == module->module)
            drop_object(&objects[i]);
    pthread_mutex_unlock(&mock.lock);
    return drop(module, MODULE);
}

DRIVER int cuModuleGetFunction(object **function, object *module, const char *name);
DRIVER int cuModuleGetFunction(object **function, object *module, const char *name)
{
    pthread_mutex_lock(&mock.lock);
    const bool good = is_object(module, MODULE);
    const ptx_kernel *kernel = good ? ptx_kernel_find(module->module, name) : NULL;
    object *made = kernel ? make_object(FUNCTION, module->context) : NULL;
    if (made) {
        made->module = module->module;
        made->kernel = kernel;
    }
    pthread_mutex_unlock(&mock.lock);
    *function = made;
    return made ? SUCCESS : !good ? INVALID_HANDLE : kernel ? OUT_OF_MEMORY : NOT_FOUND;
}

/* Has what this launch executes added to the function's mock.counts. */
static bool begin_counting(object *function, ptx_sectors *sectors)
{
    const size_t n = ptx_kernel_ops(function->kernel);
    if (!function->counts)
        function->counts = calloc(n, sizeof *function->counts);
    *sectors = (ptx_sectors){.seen = calloc((size_t)1 << SECTOR_BITS, sizeof *sectors->seen), .bits = SECTOR_BITS};
    mock.machine.counts = function->counts;
    mock.machine.sectors = sectors->seen ? sectors : NULL;
    return function->counts && sectors->seen;
}

static void end_counting(object *function, ptx_sectors *sectors, unsigned n_groups)
{
    mock_kernel_counts *c = &function->counted;
    mock.machine.counts = NULL;
    mock.machine.sectors = NULL;
    free(sectors->seen);
    c->kernel = function->kernel;
    c->counts = function->counts;
    c->launches++;
    c->groups += n_groups;
    c->sectors_read += sectors->n_read;
    c->sectors_written += sectors->n_written;
}

DRIVER int mock_cuda_kernel_counts(const char *name, mock_kernel_counts *out)
{
    for (int i = 0; i < MAX_OBJECTS; i++)
        if (objects[i].kind == FUNCTION && objects[i].counts && strcmp(ptx_kernel_name(objects[i].kernel), name) == 0) {
            *out = objects[i].counted;
            return SUCCESS;
        }
    return NOT_FOUND;
}

static int launch(object *function, unsigned n_groups, unsigned n_threads, const object *stream, void **arguments)
{
    if (!is_object(function, FUNCTION) || mock_check_stream(stream) != SUCCESS)
        return INVALID_HANDLE;
    if (function->context != mock_context())
        return INVALID_CONTEXT;
    mock.counts.launches++;
    ptx_sectors sectors;
    if (settings.count && !begin_counting(function, &sectors))
        return OUT_OF_MEMORY;
    const bool good = ptx_launch(&mock.machine, function->kernel, n_groups, n_threads, arguments);
    if (settings.count)
        end_counting(function, &sectors, n_groups);
    if (good)
        return SUCCESS;
    memcpy(failure, mock.machine.why, sizeof failure);
    fprintf(stderr, "mock of CUDA: %s\n", failure);
    return LAUNCH_FAILED;
}

DRIVER int cuLaunchKernel(object *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                          unsigned block_y, unsigned block_z, unsigned shared_bytes, object *stream, void **arguments,
                          void **extra);
DRIVER int cuLaunchKernel(object *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                          unsigned block_y, unsigned block_z, unsigned shared_bytes, object *stream, void **arguments,
                          void **extra)
{
    if (grid_x == 0 || grid_y != 1 || grid_z != 1 || block_y != 1 || block_z != 1 || shared_bytes || extra)
        return INVALID_VALUE;
    pthread_mutex_lock(&mock.lock);
    const int code = launch(function, grid_x, block_x, stream, arguments);
    pthread_mutex_unlock(&mock.lock);
    return code;
}
