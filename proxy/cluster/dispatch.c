/* SPDX-License-Identifier: BSD-3-Clause
 *
 * dispatch: finds the node for each part of a request. Sends again the parts that no node has
 * taken, and fails them after failover_wait.
 */
#include <stdio.h>

#include "cluster/session_internal.h"

/* --- the home node ------------------------------------------------------------------------ */

/* The home is the node for a session's requests that name no key. The home stays the same for
 * as long as possible, because clients expect INFO or CONFIG to describe one server, and their
 * messages to be published in order. If the home does not answer, the session gets another one,
 * unless it has requests in flight, subscriptions, tracked keys or a transaction at the old
 * one. Requests in flight that any node may answer, such as PING, go to the new home. */

/* True if the session must stay at this node. `moves`: parts that can move do not count. */
static bool has_something(const struct node_conn *l, bool moves)
{
	const struct cluster_session *s = l->session;

	if (s->stream_node_conn == l || s->block_node_conn == l || node_conn_may_push(l))
		return true;
	return moves ? !node_conn_can_be_recalled(l) : l->nsent || !list_empty(&l->held);
}

/* Picks a node of the best health, and stores the health in *health. Nodes of the same health
 * take turns. Returns NULL if no node is known. */
static struct node *pick_default_node(struct cluster *c, enum node_health *health)
{
	const struct slot_map *map = c->opts.map;
	struct node *best = NULL;
	size_t first = c->nhomes;

	for (size_t i = 0; i < map->nnodes; i++) {
		struct node *n = map->nodes[(first + i) % map->nnodes].node;
		enum node_health h = c->opts.health(n);
		if (best && h >= *health)
			continue;
		best = n;
		*health = h;
		c->nhomes = first + i + 1;
	}
	return best;
}

/* Chooses another home node if the present one does not answer, and the session can leave it.
 * `moves`: parts in flight may move, too. Returns true if the caller must dispatch again the
 * parts that wait for a link to the old home. */
static bool leave_default_node(struct cluster_session *s, bool moves)
{
	struct cluster *c = s->cluster;
	struct node_conn *l = session_node_conn(s, s->default_node);
	enum node_health health = NODE_SILENT;
	struct node *other;

	if (c->opts.health(s->default_node) != NODE_SILENT || (l && has_something(l, moves)))
		return false;
	other = pick_default_node(c, &health);
	if (health != NODE_ANSWERS)
		return false;
	s->default_node = other;
	if (l)
		node_conn_recall(l);
	return true;
}

struct node *session_default_node(struct cluster_session *s)
{
	const struct slot_map *map = s->cluster->opts.map;
	enum node_health health;

	if (!s->default_node || !slot_map_find(map, s->default_node))
		s->default_node = pick_default_node(s->cluster, &health);
	else
		(void)leave_default_node(s, false);
	return s->default_node;
}

void entry_start(struct cluster_entry *e)
{
	for (size_t i = 0; i < e->nparts; i++)
		part_dispatch(&e->parts[i]);
}

/* Returns the node for the part; NULL: not known. */
static struct node *node_of(struct cluster_part *p)
{
	struct cluster_session *s = part_session(p);
	const struct slot_map *map = s->cluster->opts.map;

	if (p->asked && slot_map_find(map, p->asked))
		return p->asked;
	p->asked = NULL;
	if (p->to)
		return slot_map_find(map, p->to) ? p->to : NULL;
	return p->slot >= 0 ? slot_map_node(map, (unsigned)p->slot) : session_default_node(s);
}

void part_dispatch(struct cluster_part *p)
{
	struct cluster_session *s = part_session(p);
	struct node *n = node_of(p);

	if (!n) {
		s->cluster->opts.refresh(s->cluster->opts.arg);
		redirection_later(p, "hasp knows no node that serves it");
		return;
	}
	node_conn_send(node_conn_get(s, n), p);
}

/* --- parts that no node has taken --------------------------------------------------------- */

/* Answers the part by an error, because no node took it for failover_wait. */
static void fail_late(struct cluster_part *p)
{
	const struct slot_map *map = part_session(p)->cluster->opts.map;
	const struct node *n = p->node_conn   ? p->node_conn->node
	                       : p->slot >= 0 ? slot_map_node(map, (unsigned)p->slot)
	                                      : NULL;
	const char *address = n ? slot_map_address(map, n) : NULL;
	char text[512], what[32] = "commands without a key";

	if (p->slot >= 0)
		snprintf(what, sizeof(what), "slot %d", p->slot);
	snprintf(text, sizeof(text), "-ERR hasp: no primary for %s%s%s%s: %s\r\n", what,
	         address ? " (" : "", address ? address : "", address ? ")" : "", p->why);
	p->node_conn = NULL;
	part_fail(p, slice_str(text));
}

void part_withdraw(struct cluster_part *p)
{
	p->node_conn = NULL;
	part_fail(p, part_session(p)->withdrawal);
}

static void fail_if_over(struct cluster_part *p, double now)
{
	if (!part_is_unsent(p))
		return;
	if (p->withdrawn)
		part_withdraw(p);
	else if (now - p->since < part_session(p)->cluster->failover_wait)
		return;
	else if (p->hint)
		redirection_believe_nothing(p);
	else
		fail_late(p);
}

/* Fails each part that has waited too long for a node, or whose request was withdrawn. */
static void fail_those_late(struct cluster_session *s, double now)
{
	/* Keep session_advance() from freeing entries while the loop runs. */
	s->advancing = true;
	list_each (struct cluster_entry, e, &s->entries, node) {
		for (size_t i = 0; i < e->nparts; i++)
			fail_if_over(&e->parts[i], now);
	}
	s->advancing = false;
	session_advance(s);
}

static bool has_held(const struct cluster_session *s)
{
	list_each (const struct node_conn, l, &s->node_conns, in_session)
		if (!list_empty(&l->held))
			return true;
	return false;
}

/* True if the part must wait for the reply to an older part: while keys of a slot move to
 * another node, or nodes disagree about the slot, a node may refuse one request and run the
 * next one. */
static bool waits_for_older(const struct cluster_part *p)
{
	const struct cluster_session *s = part_session(p);
	bool in_doubt;

	if (p->slot < 0)
		return false;
	in_doubt = p->redirected ||
	           slot_map_is_migrating(s->cluster->opts.map, (unsigned)p->slot);
	if (!in_doubt && !(s->several & session_bit((unsigned)p->slot)))
		return false;
	list_each (const struct cluster_entry, e, &s->entries, node) {
		if (e == p->entry)
			break;
		for (size_t i = 0; i < e->nparts; i++) {
			const struct cluster_part *q = &e->parts[i];
			bool is_due = q->state == PART_SENT || q->state == PART_HELD;
			if (is_due && q->slot == p->slot && (in_doubt || q->several))
				return true;
		}
	}
	return false;
}

/* True if a part is in flight at the home node that any other node could answer. */
static bool asks_default_node(const struct cluster_session *s)
{
	list_each (const struct cluster_entry, e, &s->entries, node)
		if (part_is_for_any(&e->only))
			return true;
	return false;
}

static bool is_stalled(const struct cluster_session *s)
{
	return !list_empty(&s->retries) || has_held(s) || asks_default_node(s);
}

/* True if a later part of the slot, which was sent before the node refused this one, has no
 * reply yet: the node may run it. Blocking commands do not count: they may wait for this
 * part. */
static bool waits_for_younger(const struct cluster_part *p)
{
	const struct list *entries = &part_session(p)->entries;

	if (!p->unserved)
		return false;
	list_each_after (const struct cluster_entry, e, p->entry, entries, node)
		for (size_t i = 0; i < e->nparts && !e->blocks; i++)
			if (e->parts[i].state == PART_SENT && e->parts[i].slot == p->slot)
				return true;
	return false;
}

static void send_retries(struct cluster_session *s, double now)
{
	while (s->flow != FLOW_CLOSED && !list_empty(&s->retries)) {
		struct cluster_part *p = container_of(s->retries.next, struct cluster_part,
		                                      node);
		if (p->retry_at > now || waits_for_older(p) || waits_for_younger(p))
			break;
		list_remove(&p->node);
		part_dispatch(p);
	}
}

bool dispatch_due(struct cluster_session *s, double now)
{
	if (!is_stalled(s))
		return false;
	if (s->default_node && slot_map_find(s->cluster->opts.map, s->default_node) &&
	    leave_default_node(s, true))
		dispatch_again(s);
	fail_those_late(s, now);
	send_retries(s, now);
	return s->flow != FLOW_CLOSED && is_stalled(s);
}

void dispatch_again(struct cluster_session *s)
{
	/* Keep the order of the requests: by the new map, several may be for one node. */
	list_each (struct cluster_entry, e, &s->entries, node) {
		for (size_t i = 0; i < e->nparts; i++) {
			struct cluster_part *p = &e->parts[i];
			if (!part_is_unsent(p))
				continue;
			part_set_state(p, PART_RETRY);
			p->node_conn = NULL;
			p->asked = NULL;
			/* A part with a hint waits until its node has confirmed the hint. */
			if (!p->hint)
				p->retry_at = 0;
			list_move(&s->retries, &p->node);
		}
	}
	send_retries(s, timers_now(s->cluster->opts.timers));
}
