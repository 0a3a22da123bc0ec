/* SPDX-License-Identifier: BSD-3-Clause
 *
 * world: virtual time, and the one queue of events that moves it. Nothing in the simulation
 * happens but as an event: the world takes the earliest one, sets the clock to its time and
 * runs it. All chances come from the seed, so the same seed gives the same world.
 *
 *   world_schedule(event, at) --> queue --> world_run(): clock = at; event->run(event)
 *
 * A machine is what an event happens on: a hasp, a server, a client. While a machine is paused,
 * its events wait; it also has a date of its own, which may jump.
 */
#ifndef HASP_TESTS_SIM_WORLD_H
#define HASP_TESTS_SIM_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/slice.h"

#define MS INT64_C(1000) /* times are in microseconds */
#define SECOND (1000 * MS)

struct machine {
	char name[16];
	int number; /* from 1; the process id of what runs on it */
	int64_t paused_until; /* world_now(); in the past: it runs */
	int64_t paused_since; /* world_now(): when its latest pause began */
	int64_t longest_pause; /* the longest pause, in us */
	/* The same for its network, when that is held up: nothing arrives. */
	int64_t stalled_until, stalled_since, longest_stall;
	int64_t date_offset; /* offset of the machine's date from the world's */
	int64_t died_at; /* world_now(): the hasp on it ended; -1: never */
	int64_t late_most; /* what it sends arrives up to so many us later; 0: in time */
	int64_t disturbed_until; /* world_now(): until then a fault may have effects on it */
	/* world_now(): until then, a server of the quorum that was restarted may not count */
	int64_t uncounted_until;
};

struct event {
	void (*run)(struct event *e);
	/* The machine on which the event happens; NULL: none, so it cannot be paused. */
	struct machine *machine;
	int64_t at;
	uint64_t number; /* of two events of one time, the one scheduled first runs first */
	size_t place; /* in the queue, from 1; 0: it is not scheduled */
};

void world_begin(uint64_t seed);
void world_end(void);

/* Microseconds since the machine was started: what clock_gettime() reports. */
int64_t world_now(void);
/* Seconds since the world began, for people. */
double world_seconds(void);
/* Microseconds since 1970 on that machine. */
int64_t world_date(const struct machine *m);

/* Schedules the event, also if it was scheduled for another time; not before now. */
void world_schedule(struct event *e, int64_t at);
static inline void world_schedule_in(struct event *e, int64_t us)
{
	world_schedule(e, world_now() + us);
}
void world_cancel(struct event *e);

/* Runs what happens up to `until`, or until `is_over` (which may be NULL) returns true. */
void world_run(int64_t until, bool (*is_over)(void *arg), void *arg);

void machine_init(struct machine *m, const char *name);
/* Pauses the machine for `us` from now, unless it is paused for longer already. */
void machine_pause(struct machine *m, int64_t us);
/* Records that the machine's network is held up for `us` from now. */
void machine_stall(struct machine *m, int64_t us);
/* Records that a fault has hit the machine, which will have recovered after `us`. */
void machine_disturb(struct machine *m, int64_t us);

/* The machine whose code runs now: the date, the process id and the loops that it makes are
 * that machine's. */
struct machine *world_current(void);
struct machine *world_enter(struct machine *m); /* returns the one before */

/* --- chance ------------------------------------------------------------------------------- */

/* Returns a number from 0 to n - 1. */
uint64_t chance(uint64_t n);
/* Returns a number from `least` to `most`. */
int64_t chance_between(int64_t least, int64_t most);
/* True once in `n` times. */
bool chance_one_in(uint64_t n);
/* Returns a delay: mostly near `least`, rarely near `most`. */
int64_t chance_delay(int64_t least, int64_t most);
/* The bytes of hasp's random_bytes(). They come from a sequence of their own: how often hasp
 * calls does not change the chances above. */
void chance_bytes(void *out, size_t n);

/* --- trace -------------------------------------------------------------------------------- */

/* Prints each event as a line, if `print`; computes the trace's fingerprint in any case. */
void trace_begin(bool print, bool fingerprint);
bool trace_is_on(void);
void trace(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Bytes of RESP have arrived at the end `name` of a connection. */
void trace_bytes(const char *name, struct slice bytes);
uint64_t trace_fingerprint(void);

#endif
