/* SPDX-License-Identifier: BSD-3-Clause */
#include "client/links.h"

#include "client/conn.h"

/* The login that a link needs to serve the client. Points into its session. */
static struct link_login login_of(const struct client *c)
{
	const struct session *s = &c->session;

	return (struct link_login){
		.db = s->db,
		.proto = s->proto,
		.user = s->user,
		.password = s->password,
		.name = s->name,
	};
}

static void open_dedicated(struct client *c)
{
	struct link_login login = login_of(c);
	bool plain = login.db == 0 && login.proto == 2 && !login.password && !login.name;
	struct link *l = link_new(c->env->links, false, plain ? NULL : &login);

	link_join(l, &c->user);
	c->shared = false;
}

static void open_shared(struct client *c)
{
	struct link_login login = login_of(c);

	pool_join(c->env->pool, &login, &c->user);
	c->shared = c->uncounted = true;
}

static bool may_share(const struct client *c, enum route route)
{
	return route == ROUTE_SHARED && !c->pinned && !c->session.uncertain &&
	       c->env->policy.config->pooling == POOLING_SHARED;
}

enum route links_route(const struct client *c, const struct command_info *what,
                       const struct resp_view *req)
{
	enum route route = dispatch_route(&c->env->policy, what, req);

	/* Redis hangs up on some clients that have not logged in: not on others' link. */
	return route == ROUTE_SHARED && links_must_log_in(c) ? ROUTE_DEDICATED : route;
}

bool links_take(struct client *c, enum route route)
{
	bool shared = may_share(c, route);
	bool changes = c->shared != shared || links_is_outdated(c);

	if (c->user.link && changes && c->user.inflight) {
		if (c->shared)
			return false;
		/* A client goes back from a link of its own when there is nothing to wait
		 * for. */
		shared = false;
		changes = links_is_outdated(c);
	}
	if (c->user.link && changes)
		client_leave_link(c);
	if (!c->user.link && shared)
		open_shared(c);
	else if (!c->user.link)
		open_dedicated(c);
	if (route == ROUTE_PINNED)
		c->pinned = true;
	return true;
}

void links_send(struct client *c, struct slice bytes)
{
	if (bytes.n == 0)
		return;
	/* What several clients send in a turn of the loop leaves in one piece. */
	if (c->shared)
		link_queue(c->user.link, bytes);
	else
		link_send(c->user.link, bytes);
}

void links_send_call(struct client *c, struct slice call)
{
	if (c->shared) {
		link_queue_call(c->user.link, call);
		return;
	}
	/* A client that asked for a lock earlier, over a shared link, comes first in Redis. */
	stream_flush_all(c->env->flusher);
	link_send(c->user.link, call);
}
