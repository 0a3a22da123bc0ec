/* SPDX-License-Identifier: BSD-3-Clause
 *
 * block_part: which lane has the session's transaction, and what a part keeps of it.
 */
#include <stdlib.h>

#include "base/fatal.h"
#include "cluster/cluster_internal.h"

struct slice block_leave(struct cluster_session *s)
{
	bool is_open = s->block.state == BLOCK_OPEN;

	block_close(&s->block);
	s->block_lane = NULL;
	return is_open ? SLICE_LIT("*1\r\n$7\r\nDISCARD\r\n")
	               : SLICE_LIT("*1\r\n$7\r\nUNWATCH\r\n");
}

struct slice block_part_begin(struct lane *l, struct cluster_part *p)
{
	struct cluster_session *s = l->session;
	struct block_part *b = p->block;

	buf_release(&b->refused);
	/* (Behind EXEC nothing is left there.) */
	if (b->serial == s->block_serial && b->kind != BLOCK_PART_END &&
	    block_is_tied(&s->block)) {
		/* Earlier keys are watched at another node, which is not asked any more. */
		if (s->block_lane && s->block_lane != l)
			s->block.watch_lost = true;
		s->block_lane = l;
	}
	return b->begins ? buf_slice(&b->behind) : SLICE_NONE;
}

void block_part_refused(struct cluster_part *p, struct slice line)
{
	if (buf_len(&p->block->refused) == 0)
		buf_append(&p->block->refused, line);
}

void block_part_free(struct cluster_session *s, struct block_part *b)
{
	if (!b)
		return;
	s->kept -= buf_len(&b->behind);
	buf_release(&b->behind);
	buf_release(&b->refused);
	free(b);
}
