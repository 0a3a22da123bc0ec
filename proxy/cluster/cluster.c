/* SPDX-License-Identifier: BSD-3-Clause */
#include "cluster/cluster.h"

#include <stdlib.h>

#include "base/fatal.h"
#include "cluster/session_internal.h"

/* Retries parts that no node takes. */
static void on_tick(struct timer *t, double now)
{
	struct cluster *c = container_of(t, struct cluster, tick);
	struct list looked_at;

	list_take_all(&looked_at, &c->stalled);
	list_shift_each (struct cluster_session, s, &looked_at, stalled) {
		bool stalled = s->stalled_since > 0;
		if (dispatch_due(s, now) || stalled)
			session_trouble(s);
		/* Let the session try its long request again. */
		if (stalled)
			session_wake(s);
	}
	if (!list_empty(&c->stalled))
		cluster_start_tick(c);
}

/* --- beginning and end -------------------------------------------------------------------- */

struct cluster *cluster_new(const struct cluster_opts *opts)
{
	struct cluster *c = xcalloc(1, sizeof(*c));

	c->opts = *opts;
	c->failover_wait = 10;
	c->output_limit = SIZE_MAX;
	c->on_tick = on_tick;
	list_init(&c->sessions);
	list_init(&c->dead);
	list_init(&c->stalled);
	freelist_init(&c->entries, sizeof(struct cluster_entry));
	freelist_init(&c->requests, BUF_FIRST_SIZE);
	return c;
}

void cluster_free(struct cluster *c)
{
	HASP_ASSERT(list_empty(&c->sessions) && list_empty(&c->dead));
	timer_stop(c->opts.timers, &c->tick);
	request_args_fini(&c->args);
	buf_release(&c->text);
	primaries_fini(&c->primaries);
	freelist_fini(&c->entries);
	freelist_fini(&c->requests);
	free(c);
}

void cluster_serve(struct cluster *c, struct link_env *env)
{
	env->connect = session_connect;
	env->inproc_peer = c;
}

struct node *cluster_front_new(struct cluster *c, const struct link_env *links)
{
	struct node *n = xcalloc(1, sizeof(*n));

	n->links = *links;
	links_init(&n->links);
	n->links.name = xstrdup("cluster");
	cluster_serve(c, &n->links);
	n->pool = pool_new(links->dialer.loop, &n->links);
	return n;
}

void cluster_front_stop(struct node *n)
{
	pool_free(n->pool);
	n->pool = NULL;
}

void cluster_front_free(struct node *n)
{
	links_reap(&n->links);
	free(n->links.name);
	free(n);
}

void cluster_set_limits(struct cluster *c, int64_t failover_wait_ms, size_t output_limit)
{
	c->failover_wait = (double)failover_wait_ms / 1000;
	c->output_limit = output_limit;
}

/* --- the map ------------------------------------------------------------------------------ */

/* Goes through the sessions. The body may close any of them; they stay in memory until
 * cluster_reap(). */
/* NOLINTBEGIN(bugprone-macro-parentheses): `c` is a name, and `s` is declared here */
#define each_session(c, s)                                                                     \
	for (struct list todo, *c##_todo = begin_round(c, &todo); c##_todo; c##_todo = NULL)   \
		for (struct cluster_session * s; (s = next_session(c, &todo));)
/* NOLINTEND(bugprone-macro-parentheses) */

static struct list *begin_round(struct cluster *c, struct list *todo)
{
	list_take_all(todo, &c->sessions);
	return todo;
}

static struct cluster_session *next_session(struct cluster *c, struct list *todo)
{
	struct list *node = list_shift(todo);

	if (!node)
		return NULL;
	list_append(&c->sessions, node);
	return container_of(node, struct cluster_session, node);
}

void cluster_map_changed(struct cluster *c)
{
	/* For SCAN, the primaries must keep their slots through each change. */
	primaries_update(&c->primaries, c->opts.map);
	each_session(c, s)
	{
		dispatch_again(s);
		pubsub_map_changed(s);
		session_command_map_changed(s);
		/* A request may wait for a node that the new map has. */
		if (s->starved)
			session_wake(s);
	}
}

void cluster_node_answered(struct cluster *c, const struct node *n, uint64_t question,
                           bool was_down)
{
	each_session(c, s) if (!list_empty(&s->retries))
		redirection_answered(s, n, question, was_down);
}

void cluster_renew_links(struct cluster *c)
{
	each_session(c, s) list_each (struct node_conn, l, &s->node_conns,
	                              in_session) if (s->flow != FLOW_CLOSED)
		node_conn_renew(l);
}

static void forget_in_parts(struct cluster_session *s, const struct node *n)
{
	list_each (struct cluster_entry, e, &s->entries, node) {
		for (size_t i = 0; i < e->nparts; i++) {
			if (e->parts[i].to == n)
				e->parts[i].to = NULL;
			redirection_forget(&e->parts[i], n);
		}
	}
}

void cluster_forget_node(struct cluster *c, struct node *n)
{
	each_session(c, s)
	{
		if (s->default_node == n)
			s->default_node = NULL;
		forget_in_parts(s, n);
		list_drain (struct node_conn, l, &s->node_conns, in_session)
			if (l->node == n)
				node_conn_forget(l);
	}
	/* Closed sessions have left the node's links, but still point to the node. */
	list_each (struct cluster_session, s, &c->dead, node)
		s->default_node = NULL;
}

void cluster_reap(struct cluster *c)
{
	list_shift_each (struct cluster_session, s, &c->dead, node)
		session_free(s);
}
