/* The scheduler of fibers.h, and the back end that launches kernels on it. */
#define _DEFAULT_SOURCE 1 /* MAP_ANONYMOUS */
#include "gpu/fibers.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "base/status.h"
#include "gpu/fiber_kernels.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FIBERS_ASAN 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define FIBERS_ASAN 1
#endif
#ifdef FIBERS_ASAN
#include <sanitizer/asan_interface.h>
#endif

enum { THREADS = 256, STACK_BYTES = 256 << 10, FRAME_BYTES = 32 << 10, MAX_BUFFERS = 64 };
enum fiber_state { RUNS, AT_BARRIER, AT_WARP, DONE };

typedef struct fiber {
    void *stack_pointer; /* of a fiber that waits, on machines with a switch of our own */
    ucontext_t context;  /* on others */
    enum fiber_state state;
    int line;  /* of its barrier */
    u64 given; /* to others of its warp */
    void *fake_stack;
} fiber;

u32 fiber_thread, fiber_group;
static fiber fibers[THREADS], scheduler;
static uint8_t *stacks;
static fiber_run settings;
static char complaint[256];
static uint64_t shuffle_state;

/* What the group runs. */
static struct {
    fiber_kernel kernel;
    uint8_t *x, *frame, *work, *result;
    const gpu_job *job;
} now;

void fibers_complain(const char *format, ...)
{
    if (complaint[0])
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(complaint, sizeof complaint, format, args);
    va_end(args);
}

const char *fibers_complaint(void)
{
    return complaint[0] ? complaint : NULL;
}

void fibers_begin(const fiber_run *run)
{
    settings = *run;
    shuffle_state = run->seed * 2 + 1;
    complaint[0] = 0;
}

/* ---- switching ---- */

#if defined(__x86_64__)
/* Saves what a call keeps, changes the stack, restores. */
void fiber_switch(void **save, void *load);
__asm__(".text\n"
        ".globl fiber_switch\n"
        ".type fiber_switch, @function\n"
        "fiber_switch:\n"
        "    pushq %rbp\n    pushq %rbx\n    pushq %r12\n    pushq %r13\n    pushq %r14\n    pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "    popq %r15\n    popq %r14\n    popq %r13\n    popq %r12\n    popq %rbx\n    popq %rbp\n"
        "    ret\n"
        ".size fiber_switch, . - fiber_switch\n");
#endif

static void switch_from_to(fiber *from, fiber *to, bool ends)
{
#ifdef FIBERS_ASAN
    const void *bottom = to == &scheduler ? NULL : stacks + (size_t)(to - fibers) * STACK_BYTES;
    static const void *host_bottom;
    static size_t host_bytes;
    __sanitizer_start_switch_fiber(ends ? NULL : &from->fake_stack, bottom ? bottom : host_bottom,
                                   bottom ? STACK_BYTES : host_bytes);
#else
    (void)ends;
#endif
#if defined(__x86_64__)
    fiber_switch(&from->stack_pointer, to->stack_pointer);
#else
    swapcontext(&from->context, &to->context);
#endif
#ifdef FIBERS_ASAN
    const void *old_bottom;
    size_t old_bytes;
    __sanitizer_finish_switch_fiber(from->fake_stack, &old_bottom, &old_bytes);
    if (from != &scheduler) {
        host_bottom = old_bottom;
        host_bytes = old_bytes;
    }
#endif
}

static void fiber_main(void)
{
#ifdef FIBERS_ASAN
    const void *bottom;
    size_t bytes;
    __sanitizer_finish_switch_fiber(NULL, &bottom, &bytes);
#endif
    now.kernel(now.x, now.frame, now.work, now.result, *now.job);
    fiber *self = &fibers[fiber_thread];
    self->state = DONE;
    switch_from_to(self, &scheduler, true);
    abort();
}

/* A stack as if the fiber had just called fiber_switch at the start of fiber_main. */
static void prepare(u32 t)
{
    fiber *f = &fibers[t];
    *f = (fiber){.state = RUNS};
#ifdef FIBERS_ASAN
    /* The fiber before never returned from fiber_main, whose frame is still marked. */
    __asan_unpoison_memory_region(stacks + (size_t)(t + 1) * STACK_BYTES - FRAME_BYTES, FRAME_BYTES);
#endif
#if defined(__x86_64__)
    void **top = (void **)(stacks + (size_t)(t + 1) * STACK_BYTES) - 2;
    *--top = NULL; /* where fiber_main would return to: the stack is then aligned as after a call */
    *--top = (void *)(uintptr_t)fiber_main;
    f->stack_pointer = memset(top - 6, 0, 6 * sizeof *top);
#else
    getcontext(&f->context);
    f->context.uc_stack.ss_sp = stacks + (size_t)t * STACK_BYTES;
    f->context.uc_stack.ss_size = STACK_BYTES;
    makecontext(&f->context, fiber_main, 0);
#endif
}

static void wait_as(enum fiber_state state, int line)
{
    fiber *self = &fibers[fiber_thread];
    self->state = state;
    self->line = line;
    switch_from_to(self, &scheduler, false);
}

u32 fiber_thread_now(void)
{
    return fiber_thread;
}

u32 fiber_group_now(void)
{
    return fiber_group;
}

void fiber_barrier(int line)
{
    wait_as(AT_BARRIER, line);
}

/* Gives v, and takes what thread `from` has given; `mark` is the same for all threads of a warp. */
static u64 exchange(u64 v, u32 from, int mark)
{
    fibers[fiber_thread].given = v;
    wait_as(AT_WARP, mark);
    u64 got = fibers[from].given;
    wait_as(AT_WARP, -mark);
    return got;
}

u64 fiber_warp_up(u64 v, u32 distance, u32 warp)
{
    u32 self = fiber_thread, lane = self % warp;
    return exchange(v, lane >= distance ? self - distance : self, (int)distance);
}

u64 fiber_warp_at(u64 v, u32 lane, u32 warp)
{
    return exchange(v, fiber_thread / warp * warp + lane, 1000);
}

void fiber_or(u32 *p, u32 v)
{
    watch_atomic(p, sizeof *p);
    *p |= v;
}

void fiber_add(u32 *p, u32 v)
{
    watch_atomic(p, sizeof *p);
    *p += v;
}

void fiber_min(u32 *p, u32 v)
{
    watch_atomic(p, sizeof *p);
    *p = v < *p ? v : *p;
}

/* ---- scheduling ---- */

static uint32_t shuffled(uint32_t n)
{
    shuffle_state = shuffle_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((shuffle_state >> 33) % n);
}

static void make_order(u32 order[THREADS])
{
    for (u32 i = 0; i < THREADS; i++)
        order[i] = settings.order == FIBERS_BACKWARD ? THREADS - 1 - i : i;
    for (u32 i = THREADS - 1; settings.order == FIBERS_SHUFFLED && i > 0; i--) {
        u32 j = shuffled(i + 1), kept = order[i];
        order[i] = order[j];
        order[j] = kept;
    }
}

/* Lets warps go on whose threads all wait for one another. */
static bool release_warps(u32 warp)
{
    bool any = false;
    for (u32 first = 0; first < THREADS; first += warp) {
        u32 waiting = 0;
        for (u32 t = first; t < first + warp; t++)
            waiting += fibers[t].state == AT_WARP && fibers[t].line == fibers[first].line;
        for (u32 t = first; waiting == warp && t < first + warp; t++)
            fibers[t].state = RUNS;
        any = any || waiting == warp;
    }
    return any;
}

/* All threads wait at one barrier, or all are done; else they have parted. True if they may go on. */
static bool release_group(void)
{
    u32 done = 0;
    for (u32 t = 0; t < THREADS; t++) {
        done += fibers[t].state == DONE;
        if (fibers[t].state != fibers[0].state || fibers[t].line != fibers[0].line) {
            fibers_complain("group %u: threads 0 and %u part: lines %d and %d", fiber_group, t, fibers[0].line, fibers[t].line);
            return false;
        }
    }
    for (u32 t = 0; t < THREADS && !done; t++)
        fibers[t].state = RUNS;
    watch_epoch();
    return !done;
}

static void run_group(u32 warp)
{
    u32 order[THREADS];
    for (u32 t = 0; t < THREADS; t++)
        prepare(t);
    watch_group_begins();
    do {
        make_order(order);
        do {
            for (u32 i = 0; i < THREADS; i++) {
                fiber_thread = order[i];
                if (fibers[fiber_thread].state == RUNS)
                    switch_from_to(&scheduler, &fibers[fiber_thread], false);
            }
        } while (warp && release_warps(warp));
    } while (release_group());
}

/* ---- the back end ---- */

extern const fiber_kernel plain_16[N_GPU_KERNELS], plain_32[N_GPU_KERNELS], warp32_16[N_GPU_KERNELS], warp32_32[N_GPU_KERNELS],
    warp64_16[N_GPU_KERNELS], warp64_32[N_GPU_KERNELS], lots_16[N_GPU_KERNELS], lots_32[N_GPU_KERNELS],
    watched_16[N_GPU_KERNELS], watched_32[N_GPU_KERNELS];

static const fiber_kernel *const tables[N_FIBER_BUILDS][2] = {[FIBERS_PLAIN] = {plain_16, plain_32},
                                                              [FIBERS_WARP32] = {warp32_16, warp32_32},
                                                              [FIBERS_WARP64] = {warp64_16, warp64_32},
                                                              [FIBERS_LOTS] = {lots_16, lots_32},
                                                              [FIBERS_WATCHED] = {watched_16, watched_32}};

static struct {
    uint8_t *p;
    size_t bytes;
} buffers[MAX_BUFFERS];

static comet_status launch(void *device, void *queue, enum gpu_kernel kernel, uint32_t n_groups, const gpu_buffers *b,
                           const gpu_job *job)
{
    (void)device;
    (void)queue;
    bool wide = gpu_kernel_bits(kernel) == 32;
    if (!stacks)
        stacks = mmap(NULL, (size_t)THREADS * STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    now.kernel = tables[settings.build][wide][kernel];
    now.x = (uint8_t *)(uintptr_t)b->x;
    now.frame = (uint8_t *)(uintptr_t)b->frame;
    now.work = (uint8_t *)(uintptr_t)b->work;
    now.result = (uint8_t *)(uintptr_t)b->result;
    now.job = job;
    watch_buffer_clear();
    watch_stacks(stacks, (size_t)THREADS * STACK_BYTES);
    watch_buffer(job, sizeof *job);
    for (int i = 0; i < MAX_BUFFERS; i++)
        if (buffers[i].p)
            watch_buffer(buffers[i].p, buffers[i].bytes);
    for (uint32_t g = 0; g < n_groups; g++) {
        fiber_group = settings.order == FIBERS_BACKWARD ? n_groups - 1 - g : g;
        run_group(settings.build == FIBERS_WARP32 ? 32 : settings.build == FIBERS_WARP64 ? 64 : 0);
    }
    return COMET_OK;
}

static comet_status count(unsigned *n)
{
    *n = 1;
    return COMET_OK;
}

static comet_status describe(unsigned index, comet_gpu_info *info)
{
    (void)index;
    snprintf(info->device, sizeof info->device, "fibers");
    return COMET_OK;
}

static comet_status open_device(unsigned index, const comet_gpu_context *lent, void **device)
{
    (void)index;
    (void)lent;
    *device = buffers;
    return COMET_OK;
}

static void close_device(void *device)
{
    (void)device;
}

static void *context_of(void *device)
{
    return device;
}

static comet_status check_queue(void *device, void *queue)
{
    (void)device;
    return queue == NULL ? COMET_OK : comet_fail(COMET_ERROR_ARGUMENT, "the queue is of another context");
}

/* With exactly so many bytes, so that a sanitizer sees every access outside. */
static comet_status allocate(void *device, size_t bytes, uint64_t *memory)
{
    (void)device;
    for (int i = 0; i < MAX_BUFFERS; i++)
        if (!buffers[i].p) {
            void *p = NULL; /* aligned as a device's memory is */
            if (posix_memalign(&p, 256, bytes ? bytes : 1) != 0)
                break;
            buffers[i].p = p;
            buffers[i].bytes = bytes;
            *memory = (uint64_t)(uintptr_t)buffers[i].p;
            return COMET_OK;
        }
    return comet_fail(COMET_ERROR_MEMORY, "no more than %d buffers", MAX_BUFFERS);
}

static void release(void *device, uint64_t memory)
{
    (void)device;
    for (int i = 0; i < MAX_BUFFERS; i++)
        if ((uint64_t)(uintptr_t)buffers[i].p == memory) {
            free(buffers[i].p);
            buffers[i].p = NULL;
        }
}

static comet_status write_memory(void *device, uint64_t memory, uint64_t offset, const void *from, size_t bytes)
{
    (void)device;
    memcpy((uint8_t *)(uintptr_t)memory + offset, from, bytes);
    return COMET_OK;
}

static comet_status read_memory(void *device, uint64_t memory, uint64_t offset, void *to, size_t bytes)
{
    (void)device;
    memcpy(to, (const uint8_t *)(uintptr_t)memory + offset, bytes);
    return COMET_OK;
}

static comet_status copy_memory(void *device, uint64_t to, uint64_t to_offset, uint64_t from, uint64_t from_offset,
                                size_t bytes)
{
    (void)device;
    memmove((uint8_t *)(uintptr_t)to + to_offset, (const uint8_t *)(uintptr_t)from + from_offset, bytes);
    return COMET_OK;
}

static comet_status finish(void *device)
{
    (void)device;
    return COMET_OK;
}

const gpu_backend fiber_backend = {.name = "fibers",
                                   .has_addresses = true,
                                   .count = count,
                                   .describe = describe,
                                   .open = open_device,
                                   .close = close_device,
                                   .context = context_of,
                                   .check_queue = check_queue,
                                   .launch = launch,
                                   .allocate = allocate,
                                   .release = release,
                                   .write = write_memory,
                                   .read = read_memory,
                                   .copy = copy_memory,
                                   .finish = finish};
