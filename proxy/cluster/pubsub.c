/* SPDX-License-Identifier: BSD-3-Clause
 *
 * pubsub: subscriptions of a session. Nodes tell each other what is published, so its channels
 * and patterns are subscribed at the home node; shard channels at the node of their slot. The
 * request behind a subscription waits until that is acknowledged, for what Redis takes depends
 * on it.
 */
#include "base/fatal.h"
#include "cluster/cluster_internal.h"
#include "commands/args.h"

/* The first lane behind `after`, from the beginning for NULL, that is subscribed to something,
 * or to shard channels. NULL: there is none. */
static struct lane *next_subscribed(struct cluster_session *s, const struct lane *after,
                                    bool shards)
{
	struct list *at = after ? after->in_session.next : s->lanes.next;

	for (; at != &s->lanes; at = at->next) {
		struct lane *l = container_of(at, struct lane, in_session);
		if (shards ? l->subscriptions.shards > 0 : subscriptions_any(&l->subscriptions))
			return l;
	}
	return NULL;
}

static void set_part(struct cluster_entry *e, size_t i, int slot, struct node *to,
                     struct slice bytes, struct acks acks)
{
	entry_set_part(e, i, slot, to, bytes);
	e->parts[i].acks = acks;
}

static void merge_acks(struct cluster_entry *e, struct buf *out)
{
	for (size_t i = 0; i < e->nparts; i++)
		buf_append(out, buf_slice(&e->parts[i].reply));
}

/* Ends all shard subscriptions, wherever they are. */
static void leave_shards(struct cluster_session *s, struct slice bytes, struct acks acks)
{
	struct cluster_entry *e;
	struct lane *l = NULL;
	size_t n = 0;

	while ((l = next_subscribed(s, l, true)))
		n++;
	e = entry_begin(s, n ? n : 1);
	e->patient = e->pushes = true;
	e->merge = merge_acks;
	for (size_t i = 0; i < e->nparts; i++) {
		l = next_subscribed(s, l, true);
		set_part(e, i, -1, l ? l->node : NULL, bytes, acks);
	}
	entry_start(e);
}

static void send_subscription(struct cluster_session *s, const struct plan *p,
                              struct slice bytes, struct acks acks)
{
	struct cluster_entry *e;

	HASP_ASSERT(!s->shares);
	if (p->kind == PLAN_CROSSSLOT) {
		entry_answer_new(s, plan_crossslot);
		return;
	}
	if (acks.of == SESSION_SUNSUBSCRIBE && p->kind == PLAN_HOME) {
		leave_shards(s, bytes, acks);
	} else {
		e = entry_begin(s, 1);
		e->patient = e->pushes = true;
		set_part(e, 0, p->kind == PLAN_SLOT ? p->slot : -1, NULL, bytes, acks);
		entry_start(e);
	}
	session_set_flow(s, FLOW_BARRIER);
}

/* In RESP2, Redis takes little else from a connection that is subscribed. */
static bool is_muted(const struct command *c)
{
	return c->facts.session != SESSION_QUIT && c->facts.session != SESSION_RESET;
}

static bool is_client_reply(const struct command *c, const struct resp_view *req)
{
	return c->facts.session == SESSION_CLIENT && req->argc == 3 &&
	       args_option(req->argv[1], "REPLY");
}

/* Is the error, or the answer, one that only the node knows? Errors of a name or of arguments
 * come first; PING is answered in another form, EXEC by another error, and of a command with
 * subcommands the whole name is told. It is not asked what could change the connection, had its
 * subscriptions ended meanwhile. */
static bool is_worded_by_redis(const struct command *c, const struct resp_view *req)
{
	if (!command_arity_ok(c, req->argc) || strcmp(c->name, "ping") == 0 ||
	    c->facts.session == SESSION_EXEC)
		return true;
	if (c->facts.session == SESSION_CLIENT)
		return !is_client_reply(c, req);
	return req->argc > 1 && c->keys == KEYS_NONE && c->facts.session == SESSION_AS_TOLD &&
	       (c->facts.cluster == CLUSTER_KEYS || c->facts.cluster == CLUSTER_SECOND);
}

bool pubsub_take(struct cluster_session *s, const struct command *c,
                 const struct resp_view *req, struct slice bytes)
{
	struct acks acks = acks_of(c, req->argc);
	struct lane *l = s->subscribed && s->proto == 2 ? next_subscribed(s, NULL, false)
	                                                : NULL;
	struct cluster_entry *e;
	struct plan p;
	struct buf *text = &s->cluster->text;

	if (acks.of) {
		p = plan_request(c, req);
		send_subscription(s, &p, bytes, acks);
		return true;
	}
	if (!l || !is_muted(c))
		return false;
	if (is_worded_by_redis(c, req)) {
		/* A refused EXEC ends what was watched for it, at another node perhaps. */
		if (c->facts.session == SESSION_EXEC)
			block_exchange_unwatch(s);
		e = entry_begin(s, 1);
		e->patient = true;
		entry_set_part(e, 0, -1, l->node, bytes);
		entry_start(e);
		return true;
	}
	buf_clear(text);
	buf_printf(text,
	           "-ERR Can't execute '%s': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / "
	           "QUIT / "
	           "RESET are allowed in this context\r\n",
	           is_client_reply(c, req) ? "client|reply" : c->name);
	entry_answer_new(s, buf_slice(text));
	return true;
}
