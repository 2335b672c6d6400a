/*
 * A wire with latency between two network namespaces, for kernels without netem: two interfaces `wire0`, one in each, and a
 * loop that hands every packet over a given time after it came. The kernel's large packets (TSO) pass whole, so that a gigabit
 * costs a few per cent of a core. The rate is not limited here; that is tc's work.
 *
 * usage: wire NAMESPACE NAMESPACE MICROSECONDS      prints "ready" when the interfaces are there; ends with its standard input
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum { PACKET_BYTES = 65536 + 256, QUEUE = 4096 };

typedef struct packet {
    uint64_t due; /* ns */
    size_t bytes;
    char *data;
} packet;

/* Packets from one namespace to the other. */
typedef struct direction {
    int from, to;
    packet queue[QUEUE];
    size_t first, n;
} direction;

static void fail(const char *what)
{
    fprintf(stderr, "wire: %s: %s\n", what, strerror(errno));
    exit(1);
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* An interface in a namespace; the process stays in that namespace. */
static int open_interface(const char *name)
{
    char path[256];
    struct ifreq request = {.ifr_flags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR};
    snprintf(path, sizeof path, "/var/run/netns/%s", name);
    const int space = open(path, O_RDONLY | O_CLOEXEC);
    if (space < 0 || setns(space, CLONE_NEWNET) != 0)
        fail(path);
    close(space);
    const int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        fail("/dev/net/tun");
    strcpy(request.ifr_name, "wire0");
    if (ioctl(fd, TUNSETIFF, &request) != 0 || ioctl(fd, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4) != 0)
        fail("wire0");
    return fd;
}

static void take_packets(direction *d, uint64_t delay)
{
    static char buffer[PACKET_BYTES];
    while (d->n < QUEUE) {
        const ssize_t bytes = read(d->from, buffer, sizeof buffer);
        if (bytes <= 0)
            return;
        packet *p = &d->queue[(d->first + d->n++) % QUEUE];
        *p = (packet){.due = now_ns() + delay, .bytes = (size_t)bytes, .data = malloc((size_t)bytes)};
        if (!p->data)
            fail("a packet");
        memcpy(p->data, buffer, (size_t)bytes);
    }
}

/* A packet that cannot be written is lost, as on a wire. */
static void give_packets(direction *d)
{
    for (; d->n > 0 && d->queue[d->first].due <= now_ns(); d->n--) {
        packet *p = &d->queue[d->first];
        if (write(d->to, p->data, p->bytes) < 0 && errno != EAGAIN && errno != EIO && errno != EINVAL)
            fail("a packet");
        free(p->data);
        d->first = (d->first + 1) % QUEUE;
    }
}

/* Time until the next packet is due. */
static struct timespec time_left(const direction ways[2])
{
    const uint64_t now = now_ns();
    uint64_t least = 1000000000;
    for (int i = 0; i < 2; i++)
        if (ways[i].n > 0) {
            const uint64_t due = ways[i].queue[ways[i].first].due, left = due > now ? due - now : 0;
            least = left < least ? left : least;
        }
    return (struct timespec){.tv_sec = (time_t)(least / 1000000000), .tv_nsec = (long)(least % 1000000000)};
}

int main(int argc, char **argv)
{
    static direction ways[2];
    if (argc != 4) {
        fprintf(stderr, "usage: wire NAMESPACE NAMESPACE MICROSECONDS\n");
        return 2;
    }
    const uint64_t delay = strtoull(argv[3], NULL, 10) * 1000;
    const int a = open_interface(argv[1]), b = open_interface(argv[2]);
    ways[0].from = ways[1].to = a;
    ways[0].to = ways[1].from = b;
    const struct sched_param urgent = {.sched_priority = 10};
    sched_setscheduler(0, SCHED_FIFO, &urgent); /* without the right to, the wire is later under load */
    printf("ready\n");
    fflush(stdout);
    for (;;) {
        struct pollfd fds[3] = {{.fd = 0, .events = POLLIN}};
        for (int i = 0; i < 2; i++)
            fds[i + 1] = (struct pollfd){.fd = ways[i].from, .events = ways[i].n < QUEUE ? POLLIN : 0};
        const struct timespec left = time_left(ways);
        if (ppoll(fds, 3, &left, NULL) < 0 && errno != EINTR)
            fail("poll");
        if (fds[0].revents != 0)
            return 0;
        for (int i = 0; i < 2; i++) {
            take_packets(&ways[i], delay);
            give_packets(&ways[i]);
        }
    }
}
