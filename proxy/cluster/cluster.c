/* SPDX-License-Identifier: BSD-3-Clause */
#include "cluster/cluster.h"

#include <stdlib.h>

#include "base/fatal.h"
#include "cluster/cluster_internal.h"

/* --- parts that no node takes ------------------------------------------------------------- */

static void on_tick(struct timer *t, double now)
{
	struct cluster *c = container_of(t, struct cluster, tick);
	struct list looked_at;

	list_init(&looked_at);
	list_move_all(&looked_at, &c->stalled);
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
	if (!c)
		return;
	HASP_ASSERT(list_empty(&c->sessions) && list_empty(&c->dead));
	timer_stop(c->opts.timers, &c->tick);
	request_args_fini(&c->args);
	buf_release(&c->text);
	primaries_fini(&c->primaries);
	freelist_fini(&c->entries);
	freelist_fini(&c->requests);
	free(c);
}

static struct stream_peer *on_connect(struct link_env *env, struct link *l,
                                      const struct link_login *accepted)
{
	return session_connect(env->inproc_peer, l, accepted);
}

void cluster_serve(struct cluster *c, struct link_env *env)
{
	env->connect = on_connect;
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

/* `fn` may close sessions, which then stay in memory until cluster_reap(). */
static void each_session(struct cluster *c, void (*fn)(struct cluster_session *s, void *arg),
                         void *arg)
{
	struct list todo;

	list_init(&todo);
	list_move_all(&todo, &c->sessions);
	list_shift_each (struct cluster_session, s, &todo, node) {
		list_append(&c->sessions, &s->node);
		fn(s, arg);
	}
}

/* --- the map ------------------------------------------------------------------------------ */

static void use_map(struct cluster_session *s, void *arg)
{
	(void)arg;
	dispatch_again(s);
	pubsub_map_changed(s);
	/* A request may wait for a node that the new map has. */
	if (s->starved)
		session_wake(s);
}

void cluster_map_changed(struct cluster *c)
{
	each_session(c, use_map, NULL);
}

struct answer {
	const struct node *from;
	uint64_t question;
	bool was_down;
};

static void use_answer(struct cluster_session *s, void *arg)
{
	const struct answer *a = arg;

	if (!list_empty(&s->retries))
		redirection_answered(s, a->from, a->question, a->was_down);
}

void cluster_node_answered(struct cluster *c, const struct node *n, uint64_t question,
                           bool was_down)
{
	each_session(c, use_answer, &(struct answer){ n, question, was_down });
}

static void renew_links(struct cluster_session *s, void *arg)
{
	(void)arg;
	list_each (struct node_conn, l, &s->node_conns, in_session)
		if (s->flow != FLOW_CLOSED)
			node_conn_renew(l);
}

void cluster_renew_links(struct cluster *c)
{
	each_session(c, renew_links, NULL);
}

struct forgotten {
	const struct node *node;
	const char *why;
};

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

static void forget_node(struct cluster_session *s, void *arg)
{
	const struct forgotten *f = arg;

	if (s->default_node == f->node)
		s->default_node = NULL;
	forget_in_parts(s, f->node);
	list_drain (struct node_conn, l, &s->node_conns, in_session)
		if (l->node == f->node)
			node_conn_forget(l, f->why);
}

void cluster_forget_node(struct cluster *c, struct node *n, const char *why)
{
	each_session(c, forget_node, &(struct forgotten){ n, why });
	/* Closed sessions have left the node's links, but still point to the node. */
	list_each (struct cluster_session, s, &c->dead, node)
		s->default_node = NULL;
}

void cluster_reap(struct cluster *c)
{
	list_shift_each (struct cluster_session, s, &c->dead, node)
		session_free(s);
}
