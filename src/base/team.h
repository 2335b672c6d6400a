/*
 * The compute threads of a program, as a parallel region needs them: a body is called once for each member of a team.
 *
 * Members are claimed, not assigned. A thread that is late, because another program has its core, finds its member taken by one
 * that was early, and nobody waits for it. A thread that waits gives its core away after a moment. The result of a region
 * depends on the number of its members alone, never on which thread ran which of them.
 *
 * Members may wait for one another: a team has as many threads as members, so that every member that is not yet claimed has a
 * thread that will claim it.
 */
#ifndef COMET_BASE_TEAM_H
#define COMET_BASE_TEAM_H

#include <stdbool.h>
#include <stddef.h>

enum { TEAM_MAX = 1024 };

/* Begins a region of n members (1 to TEAM_MAX); the caller is member 0 until team_end. False where threads cannot be started;
 * nothing has begun then. Inside a region, and for n = 1, the region has one member and starts nothing. */
bool team_begin(size_t n, void (*body)(void *data), void *data);
/* Runs members that nobody has claimed, and returns when all have ended. */
void team_end(void);

/* team_begin, the body for member 0, team_end. */
bool team_run(size_t n, void (*body)(void *data), void *data);

/* Returns when every member of the caller's region has called it. */
void team_barrier(void);

/* How long waits spin before they sleep, in nanoseconds; negative, as at first: a millisecond, or 2 microseconds where other
 * programs were seen to take cores away. */
void team_set_spin(long nanoseconds);

/* The calling thread's member and the members of its region: 0 and 1 outside of regions. */
size_t team_member(void);
size_t team_members(void);
/* Is the caller in a region of more than one member? */
bool team_is_active(void);

#endif
