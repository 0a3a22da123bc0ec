/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/sim/world.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"
#include "lock/scripts/script_call.h"

/* 2026-01-01, and a machine that has run for a while. */
#define DATE_AT_BEGIN (INT64_C(1767225600) * SECOND)
#define UPTIME_AT_BEGIN (1000 * SECOND)

static struct {
	int64_t now;
	uint64_t chances, hasps_chances; /* states of the generators */
	struct event **queue; /* a heap; the earliest event is queue[1] */
	size_t n, cap;
	uint64_t scheduled;
	int machines;
	struct machine *current;
} world;

static struct {
	bool print, fingerprint;
	uint64_t hash;
} tracing;

/* --- the queue ---------------------------------------------------------------------------- */

static bool is_earlier(const struct event *a, const struct event *b)
{
	return a->at < b->at || (a->at == b->at && a->number < b->number);
}

static void put(size_t place, struct event *e)
{
	world.queue[place] = e;
	e->place = place;
}

/* Finds the place of `e`, for which `place` is free. */
static void sift(size_t place, struct event *e)
{
	while (place > 1 && is_earlier(e, world.queue[place / 2])) {
		put(place, world.queue[place / 2]);
		place /= 2;
	}
	for (;;) {
		size_t next = 2 * place;
		if (next < world.n && is_earlier(world.queue[next + 1], world.queue[next]))
			next++;
		if (next > world.n || !is_earlier(world.queue[next], e))
			break;
		put(place, world.queue[next]);
		place = next;
	}
	put(place, e);
}

void world_cancel(struct event *e)
{
	size_t place = e->place;
	struct event *last;

	if (!place)
		return;
	e->place = 0;
	last = world.queue[world.n--];
	if (last != e)
		sift(place, last);
}

static void enqueue(struct event *e, int64_t at, uint64_t number)
{
	world_cancel(e);
	if (world.n + 2 > world.cap) {
		world.cap = 2 * world.cap + 64;
		world.queue = xrealloc(world.queue, world.cap * sizeof(struct event *));
	}
	e->at = at > world.now ? at : world.now;
	e->number = number;
	sift(++world.n, e);
}

void world_schedule(struct event *e, int64_t at)
{
	enqueue(e, at, ++world.scheduled);
}

void world_run(int64_t until, bool (*is_over)(void *arg), void *arg)
{
	while (world.n && world.queue[1]->at <= until && !(is_over && is_over(arg))) {
		struct event *e = world.queue[1];
		struct machine *before;
		if (e->machine && e->machine->paused_until > e->at) {
			/* The event that has waited longest comes first when the machine goes
			 * on. */
			enqueue(e, e->machine->paused_until, e->number);
			continue;
		}
		world.now = e->at;
		world_cancel(e);
		before = world_enter(e->machine);
		e->run(e);
		world_enter(before);
	}
	if (world.now < until && !(is_over && is_over(arg)))
		world.now = until;
}

/* --- the world ---------------------------------------------------------------------------- */

/* splitmix64 (Steele, Lea, Flood 2014). */
static uint64_t generate(uint64_t *state)
{
	uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

void world_begin(uint64_t seed)
{
	memset(&world, 0, sizeof(world));
	world.now = UPTIME_AT_BEGIN;
	world.chances = seed;
	world.hasps_chances = generate(&world.chances);
}

void world_end(void)
{
	free(world.queue);
	world.queue = NULL;
	world.n = world.cap = 0;
}

int64_t world_now(void)
{
	return world.now;
}

double world_seconds(void)
{
	return (double)(world.now - UPTIME_AT_BEGIN) / SECOND;
}

int64_t world_date(const struct machine *m)
{
	return world.now - UPTIME_AT_BEGIN + DATE_AT_BEGIN + (m ? m->date_offset : 0);
}

void machine_init(struct machine *m, const char *name)
{
	*m = (struct machine){ .number = ++world.machines, .died_at = -1 };
	snprintf(m->name, sizeof(m->name), "%s", name);
}

/* Prolongs an outage by one of `us` from now, or begins an outage if none is under way. */
static void add_outage(int64_t us, int64_t *since, int64_t *until, int64_t *longest)
{
	if (*until < world.now)
		*since = world.now;
	if (*until < world.now + us)
		*until = world.now + us;
	if (*longest < *until - *since)
		*longest = *until - *since;
}

void machine_pause(struct machine *m, int64_t us)
{
	add_outage(us, &m->paused_since, &m->paused_until, &m->longest_pause);
}

void machine_stall(struct machine *m, int64_t us)
{
	add_outage(us, &m->stalled_since, &m->stalled_until, &m->longest_stall);
}

void machine_disturb(struct machine *m, int64_t us)
{
	if (m->disturbed_until < world.now + us)
		m->disturbed_until = world.now + us;
}

struct machine *world_current(void)
{
	return world.current;
}

struct machine *world_enter(struct machine *m)
{
	struct machine *before = world.current;

	world.current = m;
	return before;
}

/* --- chance ------------------------------------------------------------------------------- */

uint64_t chance(uint64_t n)
{
	return generate(&world.chances) % n;
}

int64_t chance_between(int64_t least, int64_t most)
{
	return least + (int64_t)chance((uint64_t)(most - least + 1));
}

bool chance_one_in(uint64_t n)
{
	return chance(n) == 0;
}

int64_t chance_delay(int64_t least, int64_t most)
{
	int64_t span = most - least;

	while (span > 0 && chance(4))
		span /= 4;
	return least + (span > 0 ? chance_between(0, span) : 0);
}

void chance_bytes(void *out, size_t n)
{
	unsigned char *p = out;

	for (size_t i = 0; i < n; i++)
		p[i] = (unsigned char)generate(&world.hasps_chances);
}

/* --- trace -------------------------------------------------------------------------------- */

void trace_begin(bool print, bool fingerprint)
{
	tracing.print = print;
	tracing.fingerprint = fingerprint;
	tracing.hash = UINT64_C(0xcbf29ce484222325);
}

bool trace_is_on(void)
{
	return tracing.print || tracing.fingerprint;
}

/* FNV-1a. */
static void add_to_fingerprint(const char *line, size_t n)
{
	for (size_t i = 0; i < n; i++)
		tracing.hash = (tracing.hash ^ (unsigned char)line[i]) *
		               UINT64_C(0x100000001b3);
}

void trace(const char *fmt, ...)
{
	char line[1024];
	int64_t t = world.now - UPTIME_AT_BEGIN;
	va_list ap;
	int n;

	if (!trace_is_on())
		return;
	n = snprintf(line, sizeof(line), "%4" PRId64 ".%06" PRId64 " %-8s ", t / SECOND,
	             t % SECOND, world.current ? world.current->name : "-");
	va_start(ap, fmt);
	vsnprintf(line + n, sizeof(line) - (size_t)n, fmt, ap);
	va_end(ap);
	if (tracing.print)
		puts(line);
	if (tracing.fingerprint)
		add_to_fingerprint(line, strlen(line));
}

/* Returns the name of the script that has this SHA1 or this text; NULL: there is none. */
static const char *script_name(struct slice word)
{
	for (int id = 0; id < SCRIPT_COUNT; id++) {
		const struct script *script = script_get((enum script_id)id);
		if (slice_eq(script->sha, word) || slice_eq(script->text, word))
			return script->name;
	}
	return NULL;
}

/* The words of a request or reply without their lengths, a line that ends for a blank. */
void trace_bytes(const char *name, struct slice bytes)
{
	char out[300];
	size_t n = 0, nbytes = bytes.n;
	struct slice line;

	if (!trace_is_on())
		return;
	while (n < sizeof(out) - 100 && slice_cut(&bytes, '\n', &line)) {
		const char *script = line.n > 30 ? script_name(slice_of(line.p, line.n - 1))
		                                 : NULL;
		if (line.n && (line.p[0] == '$' || line.p[0] == '*') &&
		    line.p[line.n - 1] == '\r' && bytes.n)
			continue;
		if (script) {
			n += (size_t)snprintf(out + n, sizeof(out) - n, "%s ", script);
			continue;
		}
		for (size_t i = 0; i < line.n && i < 80; i++)
			if (line.p[i] != '\r')
				out[n++] = line.p[i] >= ' ' && line.p[i] < 0x7f ? line.p[i]
				                                                : '?';
		out[n++] = ' ';
	}
	out[n] = '\0';
	trace("%s gets %zu bytes: %s%s", name, nbytes, out, bytes.n ? "..." : "");
}

uint64_t trace_fingerprint(void)
{
	return tracing.hash;
}
