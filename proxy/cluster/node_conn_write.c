/* SPDX-License-Identifier: BSD-3-Clause
 *
 * node_conn_write: writes requests on a node connection's link, and expects their replies. The
 * link gives each reply back with the tag of its request. The tag is the part that the reply is
 * for; or the part after the request, marked by behind_tag(), if hasp reads only errors; or
 * NULL, if hasp discards the reply.
 *
 *   request              tag of its reply    written for
 *   ASKING               none                a part whose node was named
 *   SET, DEL             the part after it   WAIT: see node_conn_count_writes()
 *   MULTI, commands      the part after it   a part that begins a transaction
 *   the part's request   the part
 */
#include <stdio.h>

#include "cluster/session_internal.h"
#include "resp/write.h"

/* Returns the flags of link_expect() for the part's reply. */
static unsigned part_flags(const struct cluster_part *p)
{
	const struct cluster_entry *e = p->entry;
	unsigned flags = LINK_INTERCEPT | LINK_NOTIFY;

	if (p->block)
		flags |= LINK_INTERCEPT_STATUS;
	if (e->patient)
		flags |= LINK_PATIENT;
	if (e->begins_stream)
		flags |= LINK_BEGINS_STREAM;
	return flags;
}

/* Returns the tag of a request that hasp writes before the part: hasp reads only its errors. */
static void *behind_tag(struct cluster_part *p)
{
	return (char *)p + 1;
}

struct cluster_part *node_conn_part_behind(void *tag)
{
	return (uintptr_t)tag & 1 ? (struct cluster_part *)((char *)tag - 1) : NULL;
}

/* Writes the commands that the transaction's node must get before the part. */
static void put_behind(struct node_conn *l, struct cluster_part *p)
{
	struct cluster_session *s = l->session;
	struct block_part *b = p->block;

	buf_release(&b->refused);
	/* After EXEC, the node keeps nothing of the transaction. */
	if (b->serial == s->block_serial && b->kind != BLOCK_PART_END &&
	    block_is_tied(&s->block)) {
		/* Keys are watched at another node, which gets no EXEC: so EXEC must fail. */
		if (s->block_node_conn && s->block_node_conn != l)
			s->block.watch_lost = true;
		s->block_node_conn = l;
	}
	if (!b->begins)
		return;
	for (size_t i = 0; i < b->nbehind; i++)
		link_expect(&l->user, LINK_INTERCEPT | LINK_NOTIFY | LINK_DISCARD,
		            behind_tag(p));
	link_queue(l->user.link, buf_slice(&b->behind));
}

void block_leave(struct cluster_session *s)
{
	block_close(&s->block);
	s->block_node_conn = NULL;
}

void block_discard(struct cluster_session *s)
{
	struct node_conn *l = s->block_node_conn;
	bool is_open = s->block.state == BLOCK_OPEN;

	block_leave(s);
	if (!l || l->state != NODE_CONN_READY)
		return;
	link_expect(&l->user, LINK_INTERCEPT | LINK_DISCARD, NULL);
	link_queue(l->user.link, is_open ? SLICE_LIT("*1\r\n$7\r\nDISCARD\r\n")
	                                 : SLICE_LIT("*1\r\n$7\r\nUNWATCH\r\n"));
}

static void note_sent(struct node_conn *l, struct cluster_part *p)
{
	part_set_state(p, PART_SENT);
	p->node_conn = l;
	l->nsent++;
	/* The session may have stopped reading this link. If this part's reply is the next that
	 * the client gets, read again. */
	if (l->session->has_backpressure)
		session_steer_node_conns(l->session);
}

/* Writes a command that makes the client's WAIT after it cover the session's writes on other
 * links. Before Redis 7.2, which introduced WAITAOF, any command does this; since then only a
 * write. */
static void node_conn_count_writes(struct node_conn *l, struct cluster_part *p)
{
	struct slice tag = slot_tag((uint16_t)p->slot);
	char key[sizeof("hasp:ack{}") + SLOT_TAG_LEN];
	struct buf out = BUF_INIT;

	if (commands_lack(l->session->cluster->opts.commands, SLICE_LIT("waitaof"))) {
		link_expect(&l->user, LINK_DISCARD, NULL);
		link_queue(l->user.link, SLICE_LIT("*1\r\n$4\r\nPING\r\n"));
		return;
	}
	p->uncounted = false;
	snprintf(key, sizeof(key), "hasp:ack{%.*s}", (int)tag.n, tag.p);
	resp_write_words(&out, (const char *[]){ "SET", key, "1", "PX", "60000" }, 5);
	resp_write_words(&out, (const char *[]){ "DEL", key }, 2);
	link_expect(&l->user, LINK_INTERCEPT | LINK_NOTIFY | LINK_DISCARD, behind_tag(p));
	link_expect(&l->user, LINK_DISCARD, NULL);
	link_queue(l->user.link, buf_slice(&out));
	buf_release(&out);
}

void node_conn_write_part(struct node_conn *l, struct cluster_part *p)
{
	struct link *link = l->user.link;

	note_sent(l, p);
	if (p->asked) {
		link_expect(&l->user, LINK_DISCARD, NULL);
		link_queue(link, SLICE_LIT("*1\r\n$6\r\nASKING\r\n"));
	}
	if (p->counts)
		node_conn_count_writes(l, p);
	if (p->block)
		put_behind(l, p);
	/* Watch all frames: in RESP2, acknowledgements are arrays, like other replies. */
	if (p->acks.of)
		link_watch(link, true);
	link_expect(&l->user, part_flags(p), p);
	link_queue(link, buf_slice(&p->request));
}

void node_conn_write_replay(struct node_conn *l, struct slice request)
{
	l->replays_due++;
	link_expect(&l->user, LINK_INTERCEPT | LINK_NOTIFY | LINK_DISCARD, NULL);
	link_queue(l->user.link, request);
}

void node_conns_write_replay(struct cluster_session *s, const struct cluster_part *p,
                             struct slice request)
{
	list_each (struct node_conn, l, &s->node_conns, in_session)
		if (l != p->node_conn && l->state == NODE_CONN_READY)
			node_conn_write_replay(l, request);
}

void node_conn_write_stream(struct node_conn *l, struct cluster_part *p, struct slice bytes)
{
	note_sent(l, p);
	link_expect(&l->user, part_flags(p), p);
	link_send(l->user.link, bytes);
}
