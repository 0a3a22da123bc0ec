/* SPDX-License-Identifier: BSD-3-Clause
 *
 * block_replies: the nodes' replies to the commands of a transaction. If a node answers that it
 * no longer serves the slot, it has run nothing yet: hasp answers +QUEUED to the client, sends
 * DISCARD to the node, and sends the whole transaction again with the next command, or with
 * EXEC if that was already on its way.
 */
#include "cluster/cluster_internal.h"

static const struct slice too_long_to_move = SLICE_LIT(
	"-TRYAGAIN hasp: the slot of the transaction's keys is on its way to another node, and "
	"the transaction is too long to be sent again\r\n");

static const struct slice queued_reply = SLICE_LIT("+QUEUED\r\n");

/* The part is answered by `reply`, whatever the node said. */
static void answer_part(struct cluster_part *p, struct slice reply)
{
	p->lane->nsent--;
	part_fail(p, reply);
}

/* A command was not queued, because its node does not serve the slot any more. */
static void take_moved_command(struct cluster_part *p, struct slice *discard)
{
	struct cluster_session *s = part_session(p);
	bool ended = p->block->serial != s->block_serial, too_long = s->block.too_long;

	if (ended)
		s->block_moved = p->block->serial;
	else if (s->block_lane == p->lane)
		*discard = block_leave(s);
	answer_part(p, !ended && too_long ? too_long_to_move : queued_reply);
}

/* EXEC was not carried out, because its node does not serve the slot any more. */
static void take_moved_exec(struct cluster_part *p, const char *why)
{
	struct block_part *b = p->block;

	if (b->watched) {
		answer_part(p, block_nil(part_session(p)->proto));
	} else if (b->nbehind == 0) {
		answer_part(p, too_long_to_move);
	} else {
		b->begins = true;
		redirection_again(p, true, why);
	}
}

bool block_replies_take(struct cluster_part *p, struct slice line, struct slice *discard)
{
	struct cluster_session *s = part_session(p);
	struct block_part *b = p->block;
	const char *why = "its slot was moved";
	bool moved;

	*discard = SLICE_NONE;
	if (b->kind == BLOCK_PART_WATCH)
		return redirection_take(p, line);
	if (b->kind == BLOCK_PART_END)
		return false;
	moved = redirection_note(p, buf_len(&b->refused) ? buf_slice(&b->refused) : line, &why);
	if (b->kind == BLOCK_PART_EXEC && !moved)
		/* A command before it was. */
		moved = s->block_moved == b->serial && slice_eq(line, block_execabort);
	if (!moved)
		return false;
	if (b->kind == BLOCK_PART_EXEC)
		take_moved_exec(p, why);
	else
		take_moved_command(p, discard);
	return true;
}
