/* SPDX-License-Identifier: BSD-3-Clause
 *
 * fifo: the requests in flight on a link, oldest first. Plain ones of the same user run
 * together, so that a pipeline of any depth takes one entry.
 */
#ifndef HASP_UPSTREAM_FIFO_H
#define HASP_UPSTREAM_FIFO_H

#include <stdint.h>

struct link_user;

/* Requests that are to be treated alike. Runs of more than one have no tag. */
struct inflight {
	struct link_user *user; /* NULL: gone, or the link itself */
	void *tag;
	uint32_t count;
	uint8_t flags; /* of link_expect(); a run of several has none */
};

/* A ring. All zero: empty. */
struct fifo {
	struct inflight *runs;
	uint32_t cap; /* a power of two, or 0 */
	uint32_t head;
	uint32_t nruns;
};

static inline struct inflight *fifo_at(const struct fifo *f, uint32_t i)
{
	return &f->runs[(f->head + i) & (f->cap - 1)];
}

/* NULL: empty. */
static inline struct inflight *fifo_head(const struct fifo *f)
{
	return f->nruns ? fifo_at(f, 0) : 0;
}

void fifo_push(struct fifo *f, struct link_user *user, uint8_t flags, void *tag);

/* Takes one request off; there must be one. */
void fifo_pop(struct fifo *f);

/* Empties it and gives its memory back. */
void fifo_clear(struct fifo *f);

#endif
