/* SPDX-License-Identifier: BSD-3-Clause
 *
 * fifo: the requests in flight on a link, oldest first. Successive plain requests of one user
 * are one entry, a run: so a pipeline of any depth takes one entry.
 */
#ifndef HASP_UPSTREAM_FIFO_H
#define HASP_UPSTREAM_FIFO_H

#include <stddef.h>
#include <stdint.h>

#include "base/fatal.h"

struct link_user;

/* A run: requests of one user that have the same flags. */
struct inflight {
	struct link_user *user; /* NULL: it has left, or the link itself sent the request */
	void *tag; /* of link_expect(); NULL if `count` > 1 */
	uint32_t count;
	uint16_t flags; /* of link_expect(); 0 if `count` > 1 */
};

/* A ring. All zero: empty. */
struct fifo {
	struct inflight *runs;
	uint32_t cap; /* a power of two, or 0 */
	uint32_t head;
	uint32_t nruns;
	uint32_t popped; /* runs since it was empty at last, or more; may wrap around */
};

static inline struct inflight *fifo_at(const struct fifo *f, uint32_t i)
{
	return &f->runs[(f->head + i) & (f->cap - 1)];
}

/* The number of the run that is pushed next. Only while runs are in the ring do numbers count.
 */
static inline uint32_t fifo_next_number(const struct fifo *f)
{
	return f->popped + f->nruns;
}

/* Where the run of this number is, or the oldest one, if it was popped. */
static inline uint32_t fifo_index(const struct fifo *f, uint32_t number)
{
	uint32_t i = number - f->popped;

	return i < f->nruns ? i : 0;
}

/* NULL: empty. */
static inline struct inflight *fifo_head(const struct fifo *f)
{
	return f->nruns ? fifo_at(f, 0) : NULL;
}

void fifo_push(struct fifo *f, struct link_user *user, uint16_t flags, void *tag);

/* For fifo_push_plain() where the ring is full. Apart, so that the other way, which is taken
 * nearly always, needs no registers saved. */
void fifo_grow_push_plain(struct fifo *f, struct link_user *user, uint32_t n);

/* `n` requests, at least one, without flags and tag. */
static inline void fifo_push_plain(struct fifo *f, struct link_user *user, uint32_t n)
{
	struct inflight *last = f->nruns ? fifo_at(f, f->nruns - 1) : NULL;

	if (last && last->user == user && last->flags == 0 && last->count <= UINT32_MAX - n) {
		last->count += n;
		return;
	}
	if (f->nruns == f->cap)
		fifo_grow_push_plain(f, user, n);
	else
		*fifo_at(f, f->nruns++) = (struct inflight){ user, NULL, n, 0 };
}

/* Empties it and frees its memory. */
void fifo_clear(struct fifo *f);

/* A ring that has grown longer than this frees its memory when it is empty. With 32 the link of
 * fifty busy clients did so, and grew again, in most turns of the loop. */
#define FIFO_CAP_KEPT 64

/* Takes `n` requests off the head's run, which must have as many. */
static inline void fifo_pop(struct fifo *f, uint32_t n)
{
	struct inflight *head = &f->runs[f->head];

	HASP_ASSERT(head->count >= n);
	head->count -= n;
	if (head->count)
		return;
	f->head = (f->head + 1) & (f->cap - 1);
	f->popped++;
	if (--f->nruns == 0 && f->cap > FIFO_CAP_KEPT)
		fifo_clear(f);
}

#endif
