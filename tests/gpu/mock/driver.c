/* See mock.h. Names and parameters are those of NVIDIA's manual of the driver. */
#include "gpu/mock/mock.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/ptx/ptx.h"

#define DRIVER __attribute__((visibility("default")))

enum {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NOT_INITIALIZED = 3,
    INVALID_DEVICE = 101,
    INVALID_CONTEXT = 201,
    INVALID_PTX = 218,
    INVALID_HANDLE = 400,
    NOT_FOUND = 500,
    LAUNCH_FAILED = 719
};
enum { MAX_CONTEXTS = 16, LAST_NAMED_STREAM = 2, MAX_OBJECTS = 1024, MAX_DEVICES = 16 };
enum object_kind { FREE_PLACE, CONTEXT, STREAM, MODULE, FUNCTION };

typedef struct object {
    enum object_kind kind;
    struct object *context; /* of all but contexts */
    int device, users;      /* of contexts; users: of a primary one */
    bool primary;
    ptx_module *module;
    const ptx_kernel *kernel;
    mock_kernel_counts counted; /* of functions */
    ptx_count *counts;
} object;

enum { SECTOR_BITS = 21 };

static struct {
    int devices, capability, init, ptx_code;
    uint64_t memory;
    bool count;
} settings = {.devices = 1, .capability = 80, .memory = (uint64_t)1 << 31};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool initialised;
static object objects[MAX_OBJECTS];
static ptx_machine machine = {.seed = 1};
static uint64_t used[MAX_DEVICES];
static int buffer_device[PTX_MAX_BUFFERS]; /* by place in `machine`; -1: of the host */
static mock_cuda_counts counts;
static char failure[PTX_WHY_BYTES];

static _Thread_local object *current[MAX_CONTEXTS];
static _Thread_local int n_current;

/* ---- settings ---- */

static bool set_order(const char *name)
{
    static const char *const names[N_PTX_ORDERS] = {"forward", "backward", "shuffled"};
    for (int i = 0; i < N_PTX_ORDERS; i++)
        if (strcmp(names[i], name) == 0) {
            machine.order = (enum ptx_order)i;
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
        settings.memory = n;
    else if (strcmp(word, "init") == 0)
        settings.init = (int)n;
    else if (strcmp(word, "ptx") == 0)
        settings.ptx_code = (int)n;
    else if (strcmp(word, "seed") == 0)
        machine.seed = n;
    else if (strcmp(word, "watch") == 0)
        machine.watch = n != 0;
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
    pthread_mutex_lock(&lock);
    const int code = configure(words);
    pthread_mutex_unlock(&lock);
    return code;
}

DRIVER void mock_cuda_count(mock_cuda_counts *out)
{
    pthread_mutex_lock(&lock);
    *out = counts;
    pthread_mutex_unlock(&lock);
}

/* ---- objects; the lock is held ---- */

static object *make_object(enum object_kind kind, object *context)
{
    for (int i = 0; i < MAX_OBJECTS; i++)
        if (objects[i].kind == FREE_PLACE) {
            objects[i] = (object){.kind = kind, .context = context};
            counts.live_objects++;
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
    counts.live_objects--;
}

/* Handles may be anything: only what is in the table is an object. */
static bool is_object(const object *o, enum object_kind kind)
{
    for (int i = 0; i < MAX_OBJECTS; i++)
        if (o == &objects[i])
            return o->kind == kind;
    return false;
}

static object *context_now(void)
{
    return n_current > 0 ? current[n_current - 1] : NULL;
}

/* The stream is of the current context. */
static int check_stream(const object *stream)
{
    object *context = context_now();
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
    pthread_mutex_lock(&lock);
    const char *words = getenv("COMET_MOCK_CUDA");
    int code = flags ? INVALID_VALUE : SUCCESS;
    if (code == SUCCESS && !initialised && words)
        code = configure(words);
    if (code == SUCCESS)
        code = settings.init;
    initialised = code == SUCCESS;
    pthread_mutex_unlock(&lock);
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
    *bytes = settings.memory;
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
    pthread_mutex_lock(&lock);
    object *o = primary_of(device);
    if (!o && (o = make_object(CONTEXT, NULL))) {
        o->primary = true;
        o->device = device;
    }
    if (o)
        o->users++;
    pthread_mutex_unlock(&lock);
    *context = o;
    return o ? SUCCESS : OUT_OF_MEMORY;
}

DRIVER int cuDevicePrimaryCtxRelease_v2(int device);
DRIVER int cuDevicePrimaryCtxRelease_v2(int device)
{
    pthread_mutex_lock(&lock);
    object *o = primary_of(device);
    if (o && --o->users == 0)
        drop_object(o);
    pthread_mutex_unlock(&lock);
    return o ? SUCCESS : INVALID_CONTEXT;
}

DRIVER int cuCtxPushCurrent_v2(object *context);
DRIVER int cuCtxPushCurrent_v2(object *context)
{
    pthread_mutex_lock(&lock);
    const bool good = is_object(context, CONTEXT) && n_current < MAX_CONTEXTS;
    pthread_mutex_unlock(&lock);
    if (good)
        current[n_current++] = context;
    return good ? SUCCESS : INVALID_CONTEXT;
}

DRIVER int cuCtxPopCurrent_v2(object **context);
DRIVER int cuCtxPopCurrent_v2(object **context)
{
    *context = context_now();
    n_current -= n_current > 0;
    return *context ? SUCCESS : INVALID_CONTEXT;
}

DRIVER int cuCtxGetCurrent(object **context);
DRIVER int cuCtxGetCurrent(object **context)
{
    *context = context_now();
    return SUCCESS;
}

DRIVER int cuCtxGetDevice(int *device);
DRIVER int cuCtxGetDevice(int *device)
{
    const object *context = context_now();
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
    pthread_mutex_lock(&lock);
    object *o = make_object(CONTEXT, NULL);
    if (o)
        o->device = device;
    pthread_mutex_unlock(&lock);
    *context = o;
    return o ? cuCtxPushCurrent_v2(o) : OUT_OF_MEMORY;
}

DRIVER int cuCtxDestroy_v2(object *context);
DRIVER int cuCtxDestroy_v2(object *context)
{
    pthread_mutex_lock(&lock);
    const bool good = is_object(context, CONTEXT) && !context->primary;
    if (good)
        drop_object(context);
    pthread_mutex_unlock(&lock);
    if (good && context_now() == context)
        n_current--;
    return good ? SUCCESS : INVALID_CONTEXT;
}

/* ---- streams: all is done when it is called ---- */

DRIVER int cuStreamCreate(object **stream, unsigned flags);
DRIVER int cuStreamCreate(object **stream, unsigned flags)
{
    (void)flags;
    object *context = context_now();
    if (!context)
        return INVALID_CONTEXT;
    pthread_mutex_lock(&lock);
    *stream = make_object(STREAM, context);
    pthread_mutex_unlock(&lock);
    return *stream ? SUCCESS : OUT_OF_MEMORY;
}

static int drop(object *o, enum object_kind kind)
{
    pthread_mutex_lock(&lock);
    const bool good = is_object(o, kind);
    if (good)
        drop_object(o);
    pthread_mutex_unlock(&lock);
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
    pthread_mutex_lock(&lock);
    const int code = check_stream(stream);
    counts.waits++;
    pthread_mutex_unlock(&lock);
    return code;
}

DRIVER int cuStreamGetCtx(object *stream, object **context);
DRIVER int cuStreamGetCtx(object *stream, object **context)
{
    pthread_mutex_lock(&lock);
    const bool named = (uintptr_t)stream <= LAST_NAMED_STREAM, good = named || is_object(stream, STREAM);
    if (good)
        *context = named ? context_now() : stream->context;
    pthread_mutex_unlock(&lock);
    return good && *context ? SUCCESS : INVALID_HANDLE;
}

/* ---- modules ---- */

DRIVER int cuModuleLoadData(object **module, const void *image);
DRIVER int cuModuleLoadData(object **module, const void *image)
{
    object *context = context_now(), *made = NULL;
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
    pthread_mutex_lock(&lock);
    made = make_object(MODULE, context);
    if (made)
        made->module = parsed;
    pthread_mutex_unlock(&lock);
    *module = made;
    return made ? SUCCESS : OUT_OF_MEMORY;
}

DRIVER int cuModuleUnload(object *module);
DRIVER int cuModuleUnload(object *module)
{
    pthread_mutex_lock(&lock);
    for (int i = 0; i < MAX_OBJECTS && is_object(module, MODULE); i++)
        if (objects[i].kind == FUNCTION && objects[i].module == module->module)
            drop_object(&objects[i]);
    pthread_mutex_unlock(&lock);
    return drop(module, MODULE);
}

DRIVER int cuModuleGetFunction(object **function, object *module, const char *name);
DRIVER int cuModuleGetFunction(object **function, object *module, const char *name)
{
    pthread_mutex_lock(&lock);
    const bool good = is_object(module, MODULE);
    const ptx_kernel *kernel = good ? ptx_kernel_find(module->module, name) : NULL;
    object *made = kernel ? make_object(FUNCTION, module->context) : NULL;
    if (made) {
        made->module = module->module;
        made->kernel = kernel;
    }
    pthread_mutex_unlock(&lock);
    *function = made;
    return made ? SUCCESS : !good ? INVALID_HANDLE : kernel ? OUT_OF_MEMORY : NOT_FOUND;
}

/* Has what this launch executes added to the function's counts. */
static bool begin_counting(object *function, ptx_sectors *sectors)
{
    const size_t n = ptx_kernel_ops(function->kernel);
    if (!function->counts)
        function->counts = calloc(n, sizeof *function->counts);
    *sectors = (ptx_sectors){.seen = calloc((size_t)1 << SECTOR_BITS, sizeof *sectors->seen), .bits = SECTOR_BITS};
    machine.counts = function->counts;
    machine.sectors = sectors->seen ? sectors : NULL;
    return function->counts && sectors->seen;
}

static void end_counting(object *function, ptx_sectors *sectors, unsigned n_groups)
{
    mock_kernel_counts *c = &function->counted;
    machine.counts = NULL;
    machine.sectors = NULL;
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
    if (!is_object(function, FUNCTION) || check_stream(stream) != SUCCESS)
        return INVALID_HANDLE;
    if (function->context != context_now())
        return INVALID_CONTEXT;
    counts.launches++;
    ptx_sectors sectors;
    if (settings.count && !begin_counting(function, &sectors))
        return OUT_OF_MEMORY;
    const bool good = ptx_launch(&machine, function->kernel, n_groups, n_threads, arguments);
    if (settings.count)
        end_counting(function, &sectors, n_groups);
    if (good)
        return SUCCESS;
    memcpy(failure, machine.why, sizeof failure);
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
    pthread_mutex_lock(&lock);
    const int code = launch(function, grid_x, block_x, stream, arguments);
    pthread_mutex_unlock(&lock);
    return code;
}

/* ---- memory ---- */

static int find_buffer(const void *p, size_t bytes)
{
    const uint64_t address = (uint64_t)(uintptr_t)p;
    for (size_t i = 0; i < machine.n_buffers; i++)
        if (address >= machine.buffers[i].address && address + bytes <= machine.buffers[i].address + machine.buffers[i].bytes)
            return (int)i;
    return -1;
}

static void remove_buffer(int i)
{
    ptx_machine_remove(&machine, (const void *)(uintptr_t)machine.buffers[i].address);
    buffer_device[i] = buffer_device[machine.n_buffers]; /* the last takes its place */
}

static bool add_buffer(const void *p, size_t bytes, int device)
{
    if (!ptx_machine_add(&machine, p, bytes))
        return false;
    buffer_device[machine.n_buffers - 1] = device;
    return true;
}

DRIVER int cuMemAlloc_v2(uint64_t *pointer, size_t bytes);
DRIVER int cuMemAlloc_v2(uint64_t *pointer, size_t bytes)
{
    const object *context = context_now();
    if (!context || bytes == 0)
        return context ? INVALID_VALUE : INVALID_CONTEXT;
    pthread_mutex_lock(&lock);
    void *p = NULL;
    if (bytes <= settings.memory - used[context->device])
        p = aligned_alloc(256, (bytes + 255) / 256 * 256);
    if (p && !add_buffer(p, bytes, context->device)) {
        free(p);
        p = NULL;
    }
    if (p) {
        memset(p, 0xa5, bytes); /* nothing may depend on what is there */
        used[context->device] += bytes;
        counts.live_bytes += bytes;
        counts.allocations++;
    }
    pthread_mutex_unlock(&lock);
    *pointer = (uint64_t)(uintptr_t)p;
    return p ? SUCCESS : OUT_OF_MEMORY;
}

DRIVER int cuMemFree_v2(uint64_t pointer);
DRIVER int cuMemFree_v2(uint64_t pointer)
{
    void *p = (void *)(uintptr_t)pointer;
    pthread_mutex_lock(&lock);
    const int i = find_buffer(p, 1);
    const bool good = i >= 0 && machine.buffers[i].address == pointer && buffer_device[i] >= 0;
    if (good) {
        used[buffer_device[i]] -= machine.buffers[i].bytes;
        counts.live_bytes -= machine.buffers[i].bytes;
        remove_buffer(i);
        free(p);
    }
    pthread_mutex_unlock(&lock);
    return good ? SUCCESS : INVALID_VALUE;
}

/* Host memory that kernels may use, at the same address. */
DRIVER int cuMemHostRegister_v2(void *p, size_t bytes, unsigned flags);
DRIVER int cuMemHostRegister_v2(void *p, size_t bytes, unsigned flags)
{
    (void)flags;
    pthread_mutex_lock(&lock);
    const bool good = add_buffer(p, bytes, -1);
    pthread_mutex_unlock(&lock);
    return good ? SUCCESS : OUT_OF_MEMORY;
}

DRIVER int cuMemHostUnregister(void *p);
DRIVER int cuMemHostUnregister(void *p)
{
    pthread_mutex_lock(&lock);
    const int i = find_buffer(p, 1);
    const bool good = i >= 0 && machine.buffers[i].address == (uint64_t)(uintptr_t)p && buffer_device[i] < 0;
    if (good)
        remove_buffer(i);
    pthread_mutex_unlock(&lock);
    return good ? SUCCESS : INVALID_VALUE;
}

/* Device memory is checked, host memory is the caller's. */
static int copy(void *to, const void *from, size_t bytes, bool to_device, bool from_device, const object *stream)
{
    pthread_mutex_lock(&lock);
    int code = check_stream(stream);
    if (code == SUCCESS && ((to_device && find_buffer(to, bytes) < 0) || (from_device && find_buffer(from, bytes) < 0)))
        code = INVALID_VALUE;
    if (code == SUCCESS)
        memmove(to, from, bytes);
    pthread_mutex_unlock(&lock);
    return code;
}

DRIVER int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, object *stream);
DRIVER int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, object *stream)
{
    return copy((void *)(uintptr_t)to, from, bytes, true, false, stream);
}

DRIVER int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, object *stream);
DRIVER int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, object *stream)
{
    return copy(to, (const void *)(uintptr_t)from, bytes, false, true, stream);
}

DRIVER int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, object *stream);
DRIVER int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, object *stream)
{
    return copy((void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes, true, true, stream);
}
