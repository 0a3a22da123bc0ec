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

void fifo_grow_push_plain(struct fifo *f, struct link_user *user, uint32_t n)
{
	fifo_grow(f);
	fifo_push_plain(f, user, n);
}

void fifo_push(struct fifo *f, struct link_user *user, uint16_t flags, void *tag)
{
	if (flags == 0) {
		fifo_push_plain(f, user, 1);
		return;
	}
	if (f->nruns == f->cap)
		fifo_grow(f);
	*fifo_at(f, f->nruns++) = (struct inflight){ user, tag, 1, flags };
}

void fifo_clear(struct fifo *f)
{
	free(f->runs);
	*f = (struct fifo){ 0 };
}
