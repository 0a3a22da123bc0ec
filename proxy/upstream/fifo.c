/* SPDX-License-Identifier: BSD-3-Clause */
#include "upstream/fifo.h"

#include <stdlib.h>

#include "base/fatal.h"

#define CAP_MIN 4

static void fifo_grow(struct fifo *f)
{
	uint32_t cap = f->cap ? f->cap * 2 : CAP_MIN;
	struct inflight *runs = xmalloc(cap * sizeof(*runs));

	for (uint32_t i = 0; f->runs && i < f->nruns; i++)
		runs[i] = *fifo_at(f, i);
	free(f->runs);
	f->runs = runs;
	f->cap = cap;
	f->head = 0;
}

void fifo_push(struct fifo *f, struct link_user *user, uint8_t flags, void *tag)
{
	if (flags == 0) {
		fifo_push_plain(f, user, 1);
		return;
	}
	if (f->nruns == f->cap)
		fifo_grow(f);
	*fifo_at(f, f->nruns++) = (struct inflight){ user, tag, 1, flags };
}

void fifo_push_plain(struct fifo *f, struct link_user *user, uint32_t n)
{
	struct inflight *last = f->nruns ? fifo_at(f, f->nruns - 1) : NULL;

	if (last && last->user == user && last->flags == 0 && last->count <= UINT32_MAX - n) {
		last->count += n;
		return;
	}
	if (f->nruns == f->cap)
		fifo_grow(f);
	*fifo_at(f, f->nruns++) = (struct inflight){ user, NULL, n, 0 };
}

void fifo_clear(struct fifo *f)
{
	free(f->runs);
	*f = (struct fifo){ 0 };
}
