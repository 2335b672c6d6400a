/* comet/dist.h on MPI: the module of the launcher's MPI, the group of its ranks, and the end of a job whose rank is gone. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/describe.h"
#include "base/status.h"
#include "dist/group.h"
#include "dist/guard.h"
#include "dist/launcher.h"
#include "dist/module.h"

/* What the thread needs to open the transport, and what it is compared with. */
typedef struct opening {
    transport_open open;
    comet_launch launch;
} opening;

static guard *own_guard;

static void dismiss_guard(void)
{
    guard_dismiss(own_guard);
    own_guard = NULL;
}

static transport *open_module(void *arg, char *error, size_t bytes)
{
    const opening *o = arg;
    transport *t = o->open(error, bytes);
    if (!t)
        return NULL;
    if (t->version == TRANSPORT_VERSION && t->n_ranks == o->launch.n_ranks)
        return t;
    if (t->version != TRANSPORT_VERSION)
        snprintf(error, bytes, "the MPI module is of another build: its version is %u instead of %d", t->version,
                 TRANSPORT_VERSION);
    else
        snprintf(error, bytes, "%s started %u ranks, but %s sees %u: it is not the MPI of that launcher", o->launch.name,
                 o->launch.n_ranks, t->name, t->n_ranks);
    t->close(t);
    return NULL;
}

/* MPICH's launcher ends without reading what was said just before, so the sentence is given time. */
static const struct timespec TELLING = {.tv_nsec = 300000000}, GIVEN = {.tv_sec = 1, .tv_nsec = 500000000};

/* The rank that spoke ends the job; the others wait for that, and end themselves where it did not reach them. MPI_Abort may
 * hang where a rank is gone, so the alarm ends this process in any case. */
static void end_process(transport *t, bool speak)
{
    sigset_t alarm_only;
    sigemptyset(&alarm_only);
    sigaddset(&alarm_only, SIGALRM);
    signal(SIGALRM, SIG_DFL);
    pthread_sigmask(SIG_UNBLOCK, &alarm_only, NULL);
    alarm(speak ? 2 : 3);
    nanosleep(speak ? &TELLING : &GIVEN, NULL);
    t->abort(t, 1);
    _exit(1);
}

void comet_dist_params_init(comet_dist_params *params)
{
    *params = (comet_dist_params){.size = sizeof *params, .coded_share = 0.02, .silent_seconds = 6, .hung_seconds = 7};
}

static comet_status check_params(const comet_dist_params *params)
{
    TRY(CHECK_SIZE(comet_dist_params, params));
    if (params->reduce_with_mpi && params->wire != COMET_WIRE_F32)
        return comet_fail(COMET_ERROR_ARGUMENT, "MPI adds up plain floats only: gradients cannot be rounded or coded as well");
    if (!(params->silent_seconds > 0 && params->hung_seconds > 0))
        return comet_fail(COMET_ERROR_ARGUMENT, "a rank cannot be missed after %g s, nor be hung after %g s",
                          params->silent_seconds, params->hung_seconds);
    return COMET_OK;
}

comet_status comet_dist_start(const comet_dist_params *params, comet_ranks *ranks)
{
    opening o = {.launch.size = sizeof(comet_launch)};
    TRY(check_params(params));
    TRY(comet_dist_launched(&o.launch));
    if (o.launch.launcher == COMET_LAUNCHER_NONE)
        return comet_fail(COMET_ERROR_ARGUMENT, "no MPI launcher started this process with others");
    TRY(module_load(launcher_modules(o.launch.launcher), o.launch.name, &o.open));
    TRY(guard_join(&own_guard, &o.launch));
    const mover_settings settings = {.open = open_module,
                                     .arg = &o,
                                     .silent_seconds = params->silent_seconds,
                                     .hung_seconds = params->hung_seconds,
                                     .guard = own_guard,
                                     .ending = params->ending,
                                     .user = params->user,
                                     .end = end_process};
    const comet_status status = group_create(ranks, &settings, params);
    if (status != COMET_OK)
        dismiss_guard();
    return status;
}

comet_status comet_dist_end(comet_ranks *ranks)
{
    const comet_status status = group_destroy(ranks, true);
    if (status == COMET_OK)
        dismiss_guard();
    return status;
}

void comet_dist_fail(comet_ranks *ranks, const char *sentence)
{
    char text[512];
    snprintf(text, sizeof text, "rank %u on host %s: %s", ranks->rank, comet_dist_host(ranks, ranks->rank), sentence);
    group_tell(ranks, text);
}

void comet_dist_hold(void)
{
    guard_hold();
}

const char *comet_dist_host(const comet_ranks *ranks, uint32_t rank)
{
    return group_card(ranks, rank)->host;
}
