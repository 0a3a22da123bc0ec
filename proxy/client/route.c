/* SPDX-License-Identifier: BSD-3-Clause
 *
 * route: chooses the link that serves a client.
 */
#include "client/client_internal.h"

/* How long a client keeps a link of its own after the last request that needed one. */
#define LINGER_SECONDS 5

/* Returns the login that a link needs to serve the client. The login points into the client's
 * session. */
static struct link_login login_of(const struct client *c)
{
	const struct session *s = &c->session;

	return (struct link_login){
		.db = s->db,
		.proto = s->proto,
		.user = session_text(s, TEXT_USER),
		.password = session_text(s, TEXT_PASSWORD),
		.name = session_text(s, TEXT_NAME),
		.by_hello = s->by_hello,
	};
}

/* As login_of(), for a link of the client's own: adds the name and version of its library. */
static struct link_login own_login_of(const struct client *c)
{
	struct link_login login = login_of(c);

	login.lib_name = session_text(&c->session, TEXT_LIB_NAME);
	login.lib_ver = session_text(&c->session, TEXT_LIB_VER);
	return login;
}

static void open_own(struct client *c, enum route route)
{
	struct link_env *env = &c->env->node->links;
	struct link_login login = own_login_of(c);
	bool plain = login.db == 0 && login.proto == 2 && !login.password && !login.name;
	bool bare = route == ROUTE_BARE && c->next_link == NEXT_BARE && !plain;

	pool_make_way(c->env->node->pool);
	if (bare)
		login = (struct link_login){ .proto = 2 };
	login.await_first_reply = env->failover_wait > 0 && !env->connect;
	link_join(link_new(env, LINK_KIND_PRIVATE, &login), &c->user);
	c->shared = false;
	session_set_admission(&c->session, LOGIN_UNKNOWN);
	c->bare = bare;
	c->altered = login.lib_name || login.lib_ver;
	c->next_link = route == ROUTE_BARE && !bare ? NEXT_MAY_BE_BARE : NEXT_NONE;
	/* With shared pooling, the pool's links make this check. */
	if (plain && c->env->policy.config->pooling == POOLING_SESSION)
		pool_check_login(c->env->node->pool);
}

static bool may_share(const struct client *c, enum route route)
{
	return route == ROUTE_SHARED && !c->pinned && !c->transacting &&
	       c->env->policy.now >= c->own_until && c->session.certainty == SESSION_CERTAIN &&
	       c->env->policy.config->pooling == POOLING_SHARED;
}

enum route route_for(const struct client *c, const struct context *x)
{
	enum route route = dispatch_route(x);

	if (route != ROUTE_SHARED || !client_must_log_in(c))
		return route;
	/* Check whether Redis still requires a login. Until the answer, the client gets a link
	 * of its own, because Redis may close the link of a client that has not logged in. */
	pool_check_login(c->env->node->pool);
	return ROUTE_DEDICATED;
}

/* Returns the struct by which the client waits for a link of the pool. */
static struct pool_waiter *link_waiter(struct client *c)
{
	struct client_link_wait *w = c->link_wait;

	if (!w) {
		w = c->link_wait = freelist_take(&c->env->link_waits);
		pool_waiter_init(&w->waiter, c->since);
		w->client = c;
	}
	return &w->waiter;
}

/* Ends the client's wait for a link of the pool, but keeps the struct for the next wait. */
static void stop_waiting(struct client *c)
{
	if (c->link_wait)
		pool_waiter_end(&c->link_wait->waiter);
}

/* Gives the client's own link to the pool for other clients, if the client has no state
 * there. */
static bool leave_spare(struct client *c, const struct link_login *login)
{
	/* hasp half-closes the link at the client's EOF, so no other client could use it. */
	if (!c->user.link || c->shared || c->bare || c->altered || c->transacting || c->eof ||
	    !pool_put_spare(c->env->node->pool, login, &c->user))
		return false;
	c->needs_wait_ping = true;
	return true;
}

/* Moves the client to a shared link, if one is ready. Until then, the client keeps a link of
 * its own, because Redis might now refuse to replay the client's state on a new link. */
static enum pool_answer share(struct client *c)
{
	struct link_login login = login_of(c);
	enum pool_answer answer = POOL_NEVER;

	if (c->next_link != NEXT_OWN)
		answer = pool_ask(c->env->node->pool, &login, !c->user.link, link_waiter(c));
	c->next_link = NEXT_NONE;
	if (answer != POOL_READY)
		return answer;
	client_end_link_wait(c);
	if (!leave_spare(c, &login))
		client_leave_link(c);
	pool_join(c->env->node->pool, &login, &c->user);
	c->shared = true;
	c->bare = false;
	/* The link is ready, so Redis has accepted the login. */
	session_set_admission(&c->session, LOGIN_ADMITTED);
	return POOL_READY;
}

/* Repeats the client's SETINFO on its link, which served others until now. */
static void send_setinfo(struct client *c)
{
	struct link_login login = own_login_of(c);
	struct buf text = BUF_INIT;

	for (unsigned n = link_write_setinfo(&text, &login); n; n--) {
		link_expect(&c->user, LINK_DISCARD, NULL);
		c->altered = true;
	}
	send_bytes(c, buf_slice(&text));
	buf_release(&text);
}

/* If no other client uses the shared link, makes it the client's own. That saves a new link,
 * and a new login, which Redis might refuse by now. */
static bool take_over(struct client *c, enum route route)
{
	struct link_login login = login_of(c);
	bool is_useful = route >= ROUTE_TRANSACTION || route == ROUTE_LINGERING ||
	                 (route == ROUTE_DEDICATED && (c->session.login == LOGIN_DONE ||
	                                               c->env->node->links.login_required));

	if (!c->shared || !is_useful || !pool_detach(c->env->node->pool, &login, &c->user))
		return false;
	c->shared = c->altered = false;
	send_setinfo(c);
	return true;
}

/* Moves the client to a link that another client has put back. */
static enum pool_answer take_spare(struct client *c)
{
	struct link_login login = login_of(c);
	struct link *spare;
	enum pool_answer answer = pool_take_spare(c->env->node->pool, &login, link_waiter(c),
	                                          &spare);

	if (answer != POOL_READY)
		return answer;
	client_leave_link(c);
	link_join(spare, &c->user);
	c->shared = c->bare = c->altered = false;
	send_setinfo(c);
	c->next_link = NEXT_NONE;
	session_set_admission(&c->session, LOGIN_ADMITTED);
	return POOL_READY;
}

bool route_is_replayable(const struct client *c)
{
	const struct session *s = &c->session;

	return !c->link_sticky && !s->opaque && s->certainty == SESSION_CERTAIN &&
	       !s->quitting && !session_in_multi(s) && !s->txn.watching &&
	       !session_is_subscribed(s) && c->state != CLIENT_TUNNEL;
}

/* True if the client must leave its link. An outdated link leads to the old server, but hasp
 * already renews and releases locks at the new server, over its own connection. */
static bool must_leave(const struct client *c, bool shared)
{
	if (c->shared)
		return !shared || c->user.outdated;
	return c->bare || (c->user.outdated && route_is_replayable(c));
}

/* True if the client should leave its own link for a shared one. A client that awaits a reply
 * on its link stays there. */
static bool should_share(const struct client *c, bool shared)
{
	return shared && !(c->user.link && (c->shared || c->user.inflight || c->user.waiting));
}

static bool take_own(struct client *c, enum route route)
{
	if (!c->user.link)
		open_own(c, route);
	if (c->user.waiting)
		return false;
	if (route == ROUTE_TRANSACTION) {
		c->transacting = true;
		c->ntransacting++;
	} else if (route == ROUTE_LINGERING) {
		c->own_until = c->env->policy.now + LINGER_SECONDS;
	} else if (route != ROUTE_SHARED) {
		c->altered = true;
	}
	c->pinned |= route >= ROUTE_PINNED;
	c->link_sticky |= route == ROUTE_STICKY;
	return true;
}

/* True if the client must wait because its node is frozen. During a pause, a client in the
 * middle of its work goes on, because the operator stops Redis only after that. */
static bool is_held_back(const struct client *c)
{
	unsigned held = c->env->node->held;

	return held && ((held & NODE_LEAVING) || !client_in_critical_section(c));
}

/* True if the client keeps a link of this route only for a short time. */
static bool is_passing(enum route route)
{
	return route == ROUTE_TRANSACTION || route == ROUTE_LINGERING;
}

/* True if the client's own link leads to a server that is no longer the node's. */
static bool is_at_old_server(const struct client *c)
{
	return c->user.link && !c->shared && c->user.outdated;
}

/* True if hasp will close the client when no reply is due: see route_follow_node(). */
static bool is_bound_to_close(const struct client *c)
{
	return is_at_old_server(c) && c->user.inflight && !route_is_replayable(c) &&
	       !session_in_transaction(&c->session);
}

bool route_take(struct client *c, enum route route)
{
	bool shared = may_share(c, route);

	/* Do not put such a link back for other clients: in front of a cluster, the link has
	 * node connections of its own; with guards, hasp watches keys over the link. */
	if (is_passing(route) && (c->env->node->links.connect || c->env->policy.guards_enforce))
		route = ROUTE_PINNED;
	if (is_held_back(c) || is_bound_to_close(c))
		return false;
	stop_waiting(c);
	if (is_passing(route) && !c->user.inflight && (!c->user.link || c->shared)) {
		enum pool_answer answer = take_spare(c);
		if (answer == POOL_LATER)
			return false;
	}
	if (c->user.link && must_leave(c, shared)) {
		if (c->user.inflight)
			return false;
		if (shared || !take_over(c, route))
			client_leave_link(c);
	}
	if (should_share(c, shared)) {
		enum pool_answer answer = share(c);
		if (answer != POOL_NEVER)
			return answer == POOL_READY;
	}
	return (c->user.link && c->shared) || take_own(c, route);
}

static bool is_paused(const struct client *c)
{
	return c->env->node->held & NODE_PAUSED;
}

void route_rejoin(struct client *c)
{
	session_set_admission(&c->session, LOGIN_UNKNOWN);
	/* During a pause, Redis closes links because it restarts, not because a user is
	 * deleted. */
	if (c->session.login == LOGIN_DONE && !is_paused(c))
		(void)share(c);
}

void route_return(struct client *c)
{
	if (!c->user.link || c->state != CLIENT_OPEN || client_is_runnable(c) || c->eof ||
	    is_held_back(c) || !may_share(c, ROUTE_SHARED) || !should_share(c, true))
		return;
	stop_waiting(c);
	(void)share(c);
}

void route_end_transaction(struct client *c)
{
	c->transacting = false;
	if (!may_share(c, ROUTE_SHARED))
		return;
	if (c->user.inflight)
		c->user.await_idle = true;
	else
		route_return(c);
}

void route_reset(struct client *c)
{
	/* A request after RESET is in flight and may need the link, so keep the link. */
	if (c->user.inflight)
		return;
	c->pinned = c->link_sticky = c->transacting = false;
	c->own_until = 0;
}

bool route_can_replace(const struct client *c)
{
	/* Only a part of the request has gone to Redis; hasp cannot send it again. */
	if (c->state == CLIENT_STREAMING || c->state == CLIENT_REFUSED)
		return false;
	return (c->env->node->links.failover_wait > 0 || is_paused(c)) &&
	       route_is_replayable(c);
}

void route_follow_node(struct client *c)
{
	bool is_blocked = session_may_be_blocked(&c->session);

	/* If hasp can replay the client's state, the next request moves the client to another
	 * link. */
	if (!is_at_old_server(c) || (!is_blocked && route_is_replayable(c)))
		return;
	if (!is_blocked && (c->user.inflight || session_in_transaction(&c->session)))
		c->user.await_idle = true;
	else
		client_close(c, "Redis is at another address");
}

bool route_has_another(struct client *c, enum link_end end)
{
	/* The client has a link of its own, and waited for a shared one, which failed. */
	if (c->user.link)
		c->next_link = NEXT_OWN;
	else if (end == LINK_REFUSED && c->next_link == NEXT_MAY_BE_BARE)
		c->next_link = NEXT_BARE;
	else
		/* A client without a login takes a link of its own. */
		return end == LINK_REFUSED && client_must_log_in(c);
	return true;
}
