/* SPDX-License-Identifier: BSD-3-Clause
 *
 * pubsub: subscriptions of a cluster session. The nodes forward published messages to each
 * other, so a session subscribes to channels and patterns at its home node; to shard channels
 * at the node of their slot; to channels of keyspace notifications at every node. The request
 * after a subscription waits for the acknowledgement, because the subscription changes Redis'
 * answer.
 */
#include <stdlib.h>

#include "base/fatal.h"
#include "cluster/session_internal.h"
#include "commands/args.h"

/* Stores in `to` the nodes at which the session has shard channels; or, unless `shards`, the
 * nodes besides its home at which it has channels. Returns their number. */
static size_t find_subscribed(const struct cluster_session *s, bool shards, struct node **to)
{
	size_t n = 0;

	list_each (const struct node_conn, l, &s->node_conns, in_session)
		if (shards ? l->subscriptions.shards > 0
		           : l->node != s->default_node && node_conn_has_channels(l))
			to[n++] = l->node;
	return n;
}

/* Stores in `to` the primaries besides the session's home. Returns their number. */
static size_t find_primaries(const struct cluster_session *s, struct node **to)
{
	const struct primaries *primaries = &s->cluster->primaries;
	size_t n = 0;

	for (size_t i = 0; i < primaries->n; i++)
		if (primaries->v[i].node != s->default_node)
			to[n++] = slot_map_node(s->cluster->opts.map, primaries->v[i].slot);
	return n;
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

/* Sends a part to each of the `n` nodes `to`; NULL: to the home node, or the node of `slot`. */
static void start_parts(struct cluster_session *s, int slot, struct node *const *to, size_t n,
                        void (*merge)(struct cluster_entry *e, struct buf *out),
                        struct slice bytes, struct acks acks)
{
	struct cluster_entry *e = entry_begin(s, n);

	e->patient = e->pushes = true;
	e->merge = merge;
	for (size_t i = 0; i < n; i++) {
		entry_set_part(e, i, slot, to[i], bytes);
		e->parts[i].acks = acks;
		e->parts[i].is_copy = i > 0;
	}
	entry_start(e);
}

static enum take send_subscription(struct cluster_session *s, const struct resp_view *req,
                                   const struct plan *p, struct slice bytes, struct acks acks)
{
	const struct slot_map *map = s->cluster->opts.map;
	bool ends = acks.of == SESSION_UNSUBSCRIBE || acks.of == SESSION_PUNSUBSCRIBE;
	void (*merge)(struct cluster_entry * e, struct buf * out) = NULL;
	struct node **to;
	size_t n = 1;

	HASP_ASSERT(!s->shares);
	if (p->kind == PLAN_CROSSSLOT) {
		entry_answer_new(s, plan_crossslot);
		return TAKE_DONE;
	}
	primaries_update(&s->cluster->primaries, map);
	to = xcalloc(map->nnodes + 1, sizeof(struct node *));
	if (acks.of == SESSION_SUNSUBSCRIBE && p->kind == PLAN_HOME) {
		n = find_subscribed(s, true, to);
		n += n == 0;
		merge = pubsub_merge_left_shards;
	} else if (names_key_events(req, acks)) {
		if (!session_default_node(s) || s->cluster->primaries.n == 0) {
			free(to);
			return wide_await_primaries(s) ? TAKE_DONE : TAKE_LATER;
		}
		s->stalled_since = 0;
		n += find_primaries(s, to + 1);
		merge = pubsub_merge_subscribed;
		s->everywhere = s->subscribing = true;
	} else if (ends && s->everywhere) {
		/* Also unsubscribe where hasp has subscribed for keyspace notifications. */
		n += find_subscribed(s, false, to + 1);
		merge = pubsub_merge_unsubscribed;
	}
	HASP_ASSERT(n <= map->nnodes + 1);
	start_parts(s, p->kind == PLAN_SLOT ? p->slot : -1, to, n, merge, bytes, acks);
	free(to);
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
	struct node_conn *l = s->subscribed && s->proto == 2 ? pubsub_node_conn(s) : NULL;
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
			if (s->block_node_conn && s->block_node_conn->subscriptions.any)
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
