/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/timers.h"

#include <math.h>
#include <stdlib.h>

#include "base/fatal.h"

#define HEAP_MIN 16

static void heap_put(struct timers *ts, uint32_t slot, struct timer *t)
{
	ts->heap[slot] = t;
	t->slot = slot;
}

/* Puts `t` at `slot`, or higher up, before later timers. */
static void heap_rise(struct timers *ts, uint32_t slot, struct timer *t)
{
	while (slot > 1 && t->at < ts->heap[slot / 2]->at) {
		heap_put(ts, slot, ts->heap[slot / 2]);
		slot /= 2;
	}
	heap_put(ts, slot, t);
}

/* Puts `t` at `slot`, or further down, after earlier timers. */
static void heap_sink(struct timers *ts, uint32_t slot, struct timer *t)
{
	for (;;) {
		uint32_t below = 2 * slot;
		if (below < ts->n && ts->heap[below + 1]->at < ts->heap[below]->at)
			below++;
		if (below > ts->n || t->at <= ts->heap[below]->at)
			break;
		heap_put(ts, slot, ts->heap[below]);
		slot = below;
	}
	heap_put(ts, slot, t);
}

void timers_fini(struct timers *ts)
{
	free(ts->heap);
	ts->heap = NULL;
	ts->n = ts->size = 0;
}

void timer_stop(struct timers *ts, struct timer *t)
{
	uint32_t slot = t->slot;
	struct timer *last;

	if (slot == 0)
		return;
	HASP_ASSERT(slot <= ts->n && ts->heap[slot] == t);
	t->slot = 0;
	last = ts->heap[ts->n--];
	if (last == t)
		return;
	if (slot > 1 && last->at < ts->heap[slot / 2]->at)
		heap_rise(ts, slot, last);
	else
		heap_sink(ts, slot, last);
}

void timer_start(struct timers *ts, struct timer *t, timer_fn *fn, double at, double every)
{
	timer_stop(ts, t);
	t->fn = fn;
	t->at = at;
	t->every = (float)every;
	if (ts->n + 1 >= ts->size) {
		ts->size = ts->size ? 2 * ts->size : HEAP_MIN;
		ts->heap = xrealloc(ts->heap, ts->size * sizeof(struct timer *));
	}
	heap_rise(ts, ++ts->n, t);
	if (t->slot == 1 && ts->on_earlier)
		ts->on_earlier(ts->arg, at);
}

double timers_first(const struct timers *ts)
{
	return ts->n ? ts->heap[1]->at : INFINITY;
}

void timers_run(struct timers *ts, double now)
{
	while (ts->n && ts->heap[1]->at <= now) {
		struct timer *t = ts->heap[1];
		double next = t->at + t->every;
		if (t->every > 0)
			/* Do not make up for missed runs. */
			timer_start(ts, t, t->fn, next > now ? next : now, t->every);
		else
			timer_stop(ts, t);
		t->fn(t, now);
	}
}
