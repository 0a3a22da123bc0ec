/* SPDX-License-Identifier: BSD-3-Clause
 *
 * pubsub: subscriptions of a cluster session. The nodes forward published messages to each
 * other, so a session subscribes to channels and patterns at its home node; to shard channels
 * at the node of their slot; to channels of keyspace notifications at every node. The request
 * after a subscription waits for the acknowledgement, because the subscription changes Redis'
 * answer.
 */
#include "base/fatal.h"
#include "cluster/session_internal.h"
#include "commands/args.h"

static void set_part(struct cluster_entry *e, size_t i, int slot, struct node *to,
                     struct slice bytes, struct acks acks)
{
	entry_set_part(e, i, slot, to, bytes);
	e->parts[i].acks = acks;
}

static struct cluster_entry *begin_entry(struct cluster_session *s, size_t nparts)
{
	struct cluster_entry *e = entry_begin(s, nparts);

	e->patient = e->pushes = true;
	return e;
}

/* Ends the shard subscriptions at all nodes. */
static void leave_shards(struct cluster_session *s, struct slice bytes, struct acks acks)
{
	struct cluster_entry *e;
	struct node_conn *l = NULL;
	size_t n = 0;

	while ((l = pubsub_next_node_conn(s, l, true)))
		n++;
	e = begin_entry(s, n ? n : 1);
	e->merge = pubsub_merge_left_shards;
	for (size_t i = 0; i < e->nparts; i++) {
		l = pubsub_next_node_conn(s, l, true);
		set_part(e, i, -1, l ? l->node : NULL, bytes, acks);
	}
	entry_start(e);
}

static enum take subscribe_everywhere(struct cluster_session *s, struct slice bytes,
                                      struct acks acks)
{
	struct primaries *primaries = &s->cluster->primaries;
	struct node *default_node = session_default_node(s);
	struct cluster_entry *e;
	size_t n = 1;

	primaries_update(primaries, s->cluster->opts.map);
	if (!default_node || primaries->n == 0)
		return wide_await_primaries(s);
	s->stalled_since = 0;
	for (size_t i = 0; i < primaries->n; i++)
		n += primaries->v[i].node != default_node;
	e = begin_entry(s, n);
	e->merge = pubsub_merge_subscribed;
	set_part(e, 0, -1, NULL, bytes, acks);
	n = 1;
	for (size_t i = 0; i < primaries->n; i++) {
		if (primaries->v[i].node == default_node)
			continue;
		set_part(e, n, -1, slot_map_node(s->cluster->opts.map, primaries->v[i].slot),
		         bytes, acks);
		e->parts[n++].is_copy = true;
	}
	s->everywhere = s->subscribing = true;
	entry_start(e);
	return TAKE_DONE;
}

/* Unsubscribes at the home node, and where hasp has subscribed for keyspace notifications. */
static void unsubscribe_everywhere(struct cluster_session *s, struct slice bytes,
                                   struct acks acks)
{
	struct cluster_entry *e;
	struct node_conn *l = NULL;
	size_t n = 1;

	while ((l = pubsub_next_node_conn(s, l, false)))
		n += l->node != s->default_node && node_conn_has_channels(l);
	e = begin_entry(s, n);
	e->merge = pubsub_merge_unsubscribed;
	set_part(e, 0, -1, NULL, bytes, acks);
	n = 1;
	while ((l = pubsub_next_node_conn(s, l, false))) {
		if (l->node == s->default_node || !node_conn_has_channels(l))
			continue;
		set_part(e, n, -1, l->node, bytes, acks);
		e->parts[n++].is_copy = true;
	}
	entry_start(e);
}

static bool names_key_events(const struct resp_view *req, struct acks acks)
{
	for (size_t i = 1; i < req->argc; i++)
		if (acks.of == SESSION_SUBSCRIBE    ? channel_has_key_events(req->argv[i])
		    : acks.of == SESSION_PSUBSCRIBE ? pattern_has_key_events(req->argv[i])
		                                    : false)
			return true;
	return false;
}

/* --- requests ----------------------------------------------------------------------------- */

static enum take send_subscription(struct cluster_session *s, const struct resp_view *req,
                                   const struct plan *p, struct slice bytes, struct acks acks)
{
	bool ends = acks.of == SESSION_UNSUBSCRIBE || acks.of == SESSION_PUNSUBSCRIBE;
	struct cluster_entry *e;

	HASP_ASSERT(!s->shares);
	if (p->kind == PLAN_CROSSSLOT) {
		entry_answer_new(s, plan_crossslot);
		return TAKE_DONE;
	}
	if (acks.of == SESSION_SUNSUBSCRIBE && p->kind == PLAN_HOME) {
		leave_shards(s, bytes, acks);
	} else if (names_key_events(req, acks)) {
		if (subscribe_everywhere(s, bytes, acks) == TAKE_LATER)
			return TAKE_LATER;
	} else if (ends && s->everywhere) {
		unsubscribe_everywhere(s, bytes, acks);
	} else {
		e = begin_entry(s, 1);
		set_part(e, 0, p->kind == PLAN_SLOT ? p->slot : -1, NULL, bytes, acks);
		entry_start(e);
	}
	session_set_flow(s, FLOW_BARRIER);
	return TAKE_DONE;
}

static bool is_client_reply(const struct command *c, const struct resp_view *req)
{
	return c->facts.session == SESSION_CLIENT && req->argc == 3 &&
	       args_option(req->argv[1], "REPLY");
}

/* True if hasp must send the command to the node, because only the node knows the wording of
 * the answer: to a wrong number of arguments, to PING and EXEC, and in errors that name the
 * subcommand. hasp does not send CLIENT REPLY: it would change the connection if the client's
 * subscriptions have ended when the node runs it. */
static bool is_worded_by_redis(const struct command *c, const struct resp_view *req)
{
	if (!command_arity_ok(c, req->argc) || strcmp(c->name, "ping") == 0 ||
	    c->facts.session == SESSION_EXEC)
		return true;
	if (c->facts.session == SESSION_CLIENT)
		return !is_client_reply(c, req);
	return req->argc > 1 && c->keys == KEYS_NONE && c->facts.session == SESSION_DEFAULT &&
	       (c->facts.cluster == CLUSTER_KEYS || c->facts.cluster == CLUSTER_SECOND ||
	        c->facts.cluster == CLUSTER_SUBCOMMAND);
}

enum take pubsub_take(struct cluster_session *s, const struct command *c,
                      const struct resp_view *req, struct slice bytes)
{
	struct acks acks = acks_of(c, req->argc);
	struct node_conn *l = s->subscribed && s->proto == 2
	                              ? pubsub_next_node_conn(s, NULL, false)
	                              : NULL;
	struct cluster_entry *e;
	struct plan p;
	struct buf *text = &s->cluster->text;

	if (acks.of) {
		p = plan_request(c, req);
		return send_subscription(s, req, &p, bytes, acks);
	}
	/* In RESP2, Redis accepts few other commands on a connection that is subscribed. */
	if (!l || c->facts.session == SESSION_QUIT || c->facts.session == SESSION_RESET)
		return TAKE_NOT;
	if (is_worded_by_redis(c, req)) {
		/* A refused EXEC also unwatches keys, which may be watched at another node.
		 * Redis accepts no UNWATCH of a subscriber: so send EXEC to a node that has
		 * both. */
		if (c->facts.session == SESSION_EXEC) {
			if (s->block_node_conn &&
			    subscriptions_any(&s->block_node_conn->subscriptions))
				l = s->block_node_conn;
			block_exchange_unwatch(s, l);
		}
		e = entry_begin_one(s, -1, l->node, bytes);
		e->patient = true;
		entry_start(e);
		return TAKE_DONE;
	}
	buf_clear(text);
	buf_printf(text,
	           "-ERR Can't execute '%s': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / "
	           "QUIT / RESET are allowed in this context\r\n",
	           is_client_reply(c, req) ? "client|reply" : c->name);
	entry_answer_new(s, buf_slice(text));
	return TAKE_DONE;
}
