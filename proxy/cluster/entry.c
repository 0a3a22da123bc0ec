/* SPDX-License-Identifier: BSD-3-Clause
 *
 * entry: the requests of a cluster session, in order, and their replies.
 *
 *   entries:   A (head)           B                   C
 *              forwarded          kept in B.reply     one part of two is answered
 */
#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"
#include "base/random.h"
#include "cluster/session_internal.h"

void part_set_state(struct cluster_part *p, enum part_state state)
{
	HASP_ASSERT(p->state != PART_DONE && state != PART_NEW);
	p->state = state;
}

/* --- beginning and end -------------------------------------------------------------------- */

struct cluster_entry *entry_begin(struct cluster_session *s, size_t nparts)
{
	struct cluster_entry *e = freelist_take(&s->cluster->entries);

	memset(e, 0, sizeof(*e));
	e->session = s;
	e->serial = s->next_serial++;
	e->nparts = nparts;
	e->parts = nparts > 1 ? xcalloc(nparts, sizeof(*e->parts)) : &e->only;
	for (size_t i = 0; i < nparts; i++) {
		list_init(&e->parts[i].node);
		e->parts[i].entry = e;
		e->parts[i].slot = -1;
	}
	e->muted = s->reply_mode != REPLY_ON;
	if (s->reply_mode == REPLY_SKIP_NEXT)
		s->reply_mode = REPLY_ON;
	list_append(&s->entries, &e->node);
	s->nentries++;
	return e;
}

void entry_set_part(struct cluster_entry *e, size_t i, int slot, struct node *to,
                    struct slice request)
{
	struct cluster_part *p = &e->parts[i];

	p->slot = slot;
	p->to = to;
	buf_take(&p->request, &e->session->cluster->requests);
	buf_append(&p->request, request);
	e->session->nrequested += buf_cap(&p->request) + sizeof(*p);
}

struct cluster_entry *entry_begin_one(struct cluster_session *s, int slot, struct node *to,
                                      struct slice request)
{
	struct cluster_entry *e = entry_begin(s, 1);

	entry_set_part(e, 0, slot, to, request);
	return e;
}

void part_keep(struct cluster_part *p, struct slice bytes)
{
	struct cluster_session *s = part_session(p);
	size_t before = buf_cap(&p->request);

	buf_append(&p->request, bytes);
	s->nrequested += buf_cap(&p->request) - before + (before ? 0 : sizeof(*p));
}

static void drop_request(struct cluster_part *p)
{
	struct cluster_session *s = part_session(p);

	if (s->stream_part == p)
		s->stream_part = NULL;
	if (buf_cap(&p->request))
		s->nrequested -= buf_cap(&p->request) + sizeof(*p);
	buf_give(&p->request, &s->cluster->requests);
}

void part_let_go(struct cluster_part *p)
{
	p->streamed = true;
	drop_request(p);
}

static void block_part_free(struct cluster_session *s, struct block_part *b)
{
	if (!b)
		return;
	s->kept -= buf_len(&b->behind);
	buf_release(&b->behind);
	buf_release(&b->refused);
	free(b);
}

void entry_end(struct cluster_entry *e)
{
	struct cluster *c = e->session->cluster;

	for (size_t i = 0; i < e->nparts; i++) {
		struct cluster_part *p = &e->parts[i];
		list_remove(&p->node);
		drop_request(p);
		buf_give(&p->reply, &c->requests);
		block_part_free(e->session, p->block);
		free(p->hint);
	}
	if (e->parts != &e->only)
		free(e->parts);
	if (e->free_arg)
		e->free_arg(e->arg);
	list_remove(&e->node);
	e->session->nentries--;
	e->session->kept -= buf_len(&e->after);
	buf_give(&e->after, &c->requests);
	buf_give(&e->reply, &c->requests);
	freelist_give(&c->entries, e);
}

/* --- the order of the replies ------------------------------------------------------------- */

static bool is_head(const struct cluster_entry *e)
{
	return e->session->entries.next == &e->node;
}

/* Keeps bytes for the client until their turn. */
static void keep_bytes(struct cluster_session *s, struct buf *kept, struct slice bytes)
{
	buf_take(kept, &s->cluster->requests);
	buf_append(kept, bytes);
	s->kept += bytes.n;
	session_grew(s, bytes.n);
}

/* Adds bytes to the entry's reply. */
static void entry_forward(struct cluster_entry *e, struct slice bytes)
{
	struct cluster_session *s = e->session;

	if ((e->muted && !e->pushes) || bytes.n == 0)
		return;
	if (is_head(e)) {
		s->head_begun = true;
		session_put(s, bytes);
	} else {
		keep_bytes(s, &e->reply, bytes);
	}
}

/* Forwards the kept bytes of the reply, because all earlier entries are answered. */
static void forward_kept(struct cluster_entry *e)
{
	struct cluster_session *s = e->session;

	s->head_begun = buf_len(&e->reply) > 0;
	s->kept -= buf_len(&e->reply);
	session_put(s, buf_slice(&e->reply));
	buf_give(&e->reply, &s->cluster->requests);
}

void entries_push_again(struct cluster_session *s, struct slice push)
{
	if (s->kept == 0)
		return;
	list_each_back (struct cluster_entry, e, &s->entries, node) {
		if (e->nreply == 0)
			continue;
		keep_bytes(s, &e->after, push);
		break;
	}
	if (s->kept >= s->cluster->output_limit)
		session_steer_node_conns(s);
}

void entries_push_after(struct cluster_session *s, struct slice push)
{
	struct cluster_entry *last = list_entry(s->entries.prev, &s->entries,
	                                        struct cluster_entry, node);

	if (last)
		keep_bytes(s, &last->after, push);
}

void session_advance(struct cluster_session *s)
{
	struct cluster_entry *e;
	bool ends = false, advanced = false;

	if (s->advancing)
		return;
	s->advancing = true;
	while ((e = list_first(&s->entries, struct cluster_entry, node))) {
		if (buf_len(&e->reply))
			forward_kept(e);
		if (!e->done)
			break;
		ends = e->ends;
		/* Redis closes the connection when it has sent the reply, but not if CLIENT
		 * REPLY mutes the reply. */
		s->lingers = e->ends && e->muted;
		advanced = true;
		session_put(s, buf_slice(&e->after));
		entry_end(e);
		s->head_begun = false;
		if (buf_len(&s->pushes) && !s->subscribing) {
			session_put(s, buf_slice(&s->pushes));
			buf_release(&s->pushes);
		}
	}
	s->advancing = false;
	if (s->has_backpressure)
		session_steer_node_conns(s);
	if (ends && s->flow != FLOW_CLOSED)
		session_set_flow(s, FLOW_ENDING);
	/* The session may take more requests now. */
	if (advanced)
		session_wake(s);
}

/* Forwards the reply that is made of the parts' replies, and frees the parts' replies. */
static void forward_merged(struct cluster_entry *e)
{
	struct cluster_session *s = e->session;
	struct buf merged = BUF_INIT;

	e->merge(e, &merged);
	for (size_t i = 0; i < e->nparts; i++) {
		s->kept -= buf_len(&e->parts[i].reply);
		buf_give(&e->parts[i].reply, &s->cluster->requests);
	}
	entry_forward(e, buf_slice(&merged));
	buf_release(&merged);
}

static void entry_finish(struct cluster_entry *e)
{
	size_t *size = &e->session->reply_size;

	*size -= *size / 8;
	if (*size < e->nreply)
		*size = e->nreply;
	if (e->merge)
		forward_merged(e);
	e->done = true;
	if (is_head(e))
		session_advance(e->session);
	else if (!list_empty(&e->session->retries))
		session_wake(e->session);
}

void entry_answer(struct cluster_entry *e, struct slice reply)
{
	HASP_ASSERT(e->nparts == 0 && !e->done);
	entry_forward(e, reply);
	entry_finish(e);
}

/* Returns a number that no other client has, not even of another hasp. It is below 2^53, for
 * JavaScript, and above the ids of the nodes' connections. */
static uint64_t get_client_id(struct cluster_session *s)
{
	const uint64_t least = UINT64_C(1) << 52;

	if (s->client_id == 0) {
		random_bytes(&s->client_id, sizeof(s->client_id));
		s->client_id = s->client_id % least + least;
	}
	return s->client_id;
}

void entry_merge_mode(struct cluster_entry *e, struct buf *out)
{
	hide_cluster_mode(buf_slice(&e->only.reply), get_client_id(e->session), out);
}

void entry_answer_new(struct cluster_session *s, struct slice reply)
{
	entry_answer(entry_begin(s, 0), reply);
}

/* --- parts -------------------------------------------------------------------------------- */

/* True if the session need not end, although it keeps too many bytes of replies; the last of
 * them came for `p`. The session has stopped reading its own links, except those of the first
 * entry's parts. The first entry's reply alone may have as many bytes as the limit. */
static bool can_go_on(const struct cluster_part *p)
{
	const struct node_conn *from = p->node_conn;

	if (!from)
		return true;
	if (!from->own)
		return false;
	return !node_conn_is_awaited(from) ||
	       (is_head(p->entry) &&
	        p->entry->nreply < p->entry->session->cluster->output_limit);
}

static void bound_kept(const struct cluster_part *p)
{
	struct cluster_session *s = part_session(p);

	if (s->kept < s->cluster->output_limit)
		return;
	session_steer_node_conns(s);
	if (!can_go_on(p))
		session_give_up(s, "replies that must wait for other nodes' replies exceed "
		                   "client_output_limit");
}

void part_on_bytes(struct cluster_part *p, struct slice bytes)
{
	struct cluster_session *s = part_session(p);
	size_t before = s->kept;

	if (p->is_stale)
		return;
	p->entry->nreply += bytes.n;
	if (p->entry->merge)
		keep_bytes(s, &p->reply, bytes);
	else
		entry_forward(p->entry, bytes);
	if (s->kept > before)
		bound_kept(p);
}

void part_on_reply(struct cluster_part *p, bool is_error)
{
	struct cluster_entry *e = p->entry;

	part_set_state(p, PART_DONE);
	e->ndone++;
	if (!is_error)
		e->session->admitted = true;
	if (e->on_reply)
		e->on_reply(e, p, is_error);
	p->node_conn = NULL;
	if (e->ndone == e->nparts)
		entry_finish(e);
}

void part_fail(struct cluster_part *p, struct slice error)
{
	list_remove(&p->node);
	part_on_bytes(p, error);
	part_on_reply(p, true);
}
