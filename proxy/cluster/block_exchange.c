/* SPDX-License-Identifier: BSD-3-Clause
 *
 * block_exchange: carries out the steps that block.c returns for a transaction in a cluster.
 *
 *   MULTI      +OK, by hasp
 *   SET k v    MULTI SET k v --> the node of k: +OK is discarded, +QUEUED is the reply
 *   EXEC       EXEC          --> the same node
 */

#include "base/fatal.h"
#include "cluster/session_internal.h"

/* --- requests ---------------------------------------------------------------------------- */

/* Fails the transaction if the part was never sent, because the node lacks its command. */
static void on_block_reply(struct cluster_entry *e, struct cluster_part *p, bool is_error)
{
	struct cluster_session *s = e->session;

	(void)is_error;
	if (!p->node_conn && p->block->serial == s->block_serial)
		block_fail(&s->block);
}

/* Writes the reply that replaces the node's reply: the entry's `arg`, a literal. */
static void merge_replaced(struct cluster_entry *e, struct buf *out)
{
	buf_puts(out, e->arg);
}

/* Sends `request` as a part of the transaction. `reply`: the client gets it in place of the
 * node's reply; NULL: the client gets the node's reply. */
static void start_part(struct cluster_session *s, const struct command *c,
                       enum block_part_kind kind, struct block_answer *a, struct slice request,
                       const char *reply)
{
	struct cluster_entry *e = entry_begin_one(s, a->slot, NULL, request);
	struct block_part *b = xcalloc(1, sizeof(*b));

	*b = (struct block_part){
		.kind = kind,
		.serial = s->block_serial,
		.begins = a->step == BLOCK_SEND_BEHIND,
		.watched = a->watched,
		.behind = a->behind,
		.nbehind = a->nbehind,
	};
	s->kept += buf_len(&b->behind);
	e->only.block = b;
	e->on_reply = on_block_reply;
	e->patient = true;
	/* If Redis refuses MULTI, it runs this command at once, even a script. */
	e->only.may_forge = command_may_forge(c);
	if (reply) {
		e->merge = merge_replaced;
		e->arg = (void *)(uintptr_t)reply; /* NOLINT(performance-no-int-to-ptr) */
	}
	entry_start(e);
}

void block_exchange_unwatch(struct cluster_session *s, const struct node_conn *at)
{
	HASP_ASSERT(s->block.state == BLOCK_NONE);
	if (s->block_node_conn == at)
		block_leave(s);
	else
		block_discard(s);
	block_reset(&s->block);
}

/* Leaves the transaction's node, if the slot belongs to another node now. */
static void follow_map(struct cluster_session *s)
{
	const struct slot_map *map = s->cluster->opts.map;
	struct node_conn *l = s->block_node_conn;

	if (l && s->block.slot >= 0 && slot_map_node(map, (unsigned)s->block.slot) != l->node)
		block_discard(s);
}

/* True if the transaction may belong to another node: it is open at the home node, because of a
 * command that only Redis could judge, and the command with the plan `p` has a key. The home
 * node has run none of the transaction. */
static bool is_misplaced(const struct cluster_session *s, const struct plan *p)
{
	return s->block.state == BLOCK_OPEN && s->block.slot < 0 && p->kind == PLAN_SLOT;
}

static enum block_part_kind kind_of_step(enum block_state before, enum block_state after,
                                         const struct block_answer *a)
{
	if (a->is_exec)
		return BLOCK_PART_EXEC;
	if (before == BLOCK_NONE)
		return BLOCK_PART_WATCH;
	return after == BLOCK_NONE ? BLOCK_PART_END : BLOCK_PART_QUEUED;
}

/* Makes later requests wait for an EXEC, or for a WATCH of several keys: session_holds(). Later
 * requests need not wait for other commands of a transaction: a node that refuses one of these
 * refuses EXEC, too. */
static void note_several(struct cluster_session *s, enum block_state before,
                         const struct plan *p, const struct block_answer *a)
{
	if (a->is_exec && a->slot >= 0)
		s->blocks |= session_bit((unsigned)a->slot);
	if (before == BLOCK_NONE && p->kind == PLAN_SLOT && p->several)
		s->blocks |= session_bit(p->slot);
}

enum take block_exchange_take(struct cluster_session *s, const struct command *c,
                              const struct resp_view *req, struct slice bytes)
{
	enum block_state before = s->block.state;
	bool was_tied;
	struct block_answer a;
	struct plan p;

	if (before == BLOCK_NONE && !(c && c->facts.session >= SESSION_SELECT))
		return TAKE_NOT;
	follow_map(s);
	p = plan_request(c, req);
	if ((is_misplaced(s, &p) && !list_empty(&s->entries)) ||
	    (p.kind == PLAN_SLOT && session_holds(s, p.slot, false)))
		return TAKE_LATER;
	if (is_misplaced(s, &p))
		block_discard(s);
	was_tied = block_is_tied(&s->block);
	block_take(&s->block, c, req, &p, bytes, s->proto, &a);
	note_several(s, before, &p, &a);
	/* On a shared link, other clients' commands would run inside the transaction. */
	HASP_ASSERT(!s->shares || a.step == BLOCK_PASS || a.step == BLOCK_ANSWER);
	switch (a.step) {
	case BLOCK_PASS:
		break;
	case BLOCK_ANSWER:
		entry_answer_new(s, a.reply);
		break;
	case BLOCK_SEND:
	case BLOCK_SEND_BEHIND:
		start_part(s, c, kind_of_step(before, s->block.state, &a), &a, bytes, NULL);
		break;
	case BLOCK_REPLACE:
		start_part(s, c, BLOCK_PART_END, &a, a.request, a.reply.p);
		break;
	}
	/* Also after UNWATCH: a WATCH that came before it may be sent after it. */
	if ((before != BLOCK_NONE && s->block.state == BLOCK_NONE) ||
	    (was_tied && !block_is_tied(&s->block)))
		s->block_serial++;
	if (!block_is_tied(&s->block))
		s->block_node_conn = NULL;
	return a.step == BLOCK_PASS ? TAKE_NOT : TAKE_DONE;
}
