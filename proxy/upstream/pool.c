/* SPDX-License-Identifier: BSD-3-Clause */
#include "upstream/pool_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"

/* A link is closed at the second sweep in a row that finds no user. */
#define POOL_SWEEP_SECONDS 30.0
/* As POOL_SWEEP_SECONDS, for links with a name. With a shorter time, clients that often
 * reconnect would find no link. */
#define NAMED_SWEEP_SECONDS 0.5
/* pool_check_login() asks Redis at most once in this many seconds. */
#define CHECK_SECONDS 1.0
/* For this many seconds after a link failed, pool_ask() makes no new link, unless the caller is
 * eager. */
#define FAILED_SECONDS 5.0
/* A waiter whose link could not connect gives up if it has fewer seconds than this left. */
#define PATIENCE_LEAST 0.05

static bool is_spare(const struct pool_link *l)
{
	return !list_empty(&l->spare);
}

/* Marks a spare link that has sent bytes as spoilt. No reply is due there, so hasp could take
 * later bytes for the reply to another request. */
static void pool_on_bytes(void *owner, struct slice bytes)
{
	struct pool_link *l = owner;

	(void)bytes;
	l->spoilt = is_spare(l);
}

/* --- the check whether clients need a login ------------------------------------------ */

static void pool_ask_login(struct pool *p);

/* True if a waiter whose link failed has time to ask for another link. */
static bool has_patience(const struct pool *p, const struct pool_waiter *w, enum link_end end)
{
	double wait = p->env->failover_wait;

	if (wait <= 0 || end == LINK_REFUSED)
		return false;
	return end == LINK_BROKEN || p->env->clock() - w->since < wait - PATIENCE_LEAST;
}

/* Notifies the waiters that a link is ready; or, with a `reason`, that their link failed. */
static void notify_waiters(struct pool *p, struct list *waiters, enum link_end end,
                           const char *reason)
{
	struct list notified;

	/* Use another list: on_ready() may put a client on `waiters` again. */
	list_take_all(&notified, waiters);
	list_shift_each (struct pool_waiter, w, &notified, node) {
		if (!reason || has_patience(p, w, end)) {
			p->ops->on_ready(w);
		} else {
			w->since = 0;
			p->ops->on_failed(w, end, reason);
		}
	}
}

/* Handles the check's answer that Redis accepts clients without a login. */
static void check_passed(struct pool_link *l)
{
	struct pool *p = l->pool;

	link_note_login(p->env, false, l->asked_at);
	l->asking = false;
	l->unused = false;
	if (p->env->connect || p->lacks_reset)
		pool_link_close(l);
	notify_waiters(p, &p->check_waiters, LINK_BROKEN, NULL);
}

static void pool_on_ready(void *owner)
{
	struct pool_link *l = owner;
	struct pool *p = l->pool;

	if (!l->group) {
		check_passed(l);
		return;
	}
	link_note_login(p->env, false, l->asked_at);
	l->group->failed_at = 0;
	notify_waiters(p, &l->group->waiters, LINK_BROKEN, NULL);
}

/* Forgets the link; the link itself notifies its users. */
static void pool_on_down(void *owner, enum link_end end, const char *reason, size_t inflight)
{
	struct pool_link *l = owner;
	struct pool *p = l->pool;
	struct list *waiters = l->group ? &l->group->waiters : &p->check_waiters;
	bool was_idle = !l->group && l->was_ready;

	(void)inflight;
	if (is_spare(l)) {
		pool_link_free(l);
		return;
	}
	if (end == LINK_REFUSED && strncmp(reason, "NOAUTH", 6) == 0)
		link_note_login(p->env, true, l->asked_at);
	if (l->group && end != LINK_BROKEN)
		l->group->failed_at = p->env->clock();
	pool_link_free(l);
	/* Try again: Redis may have closed the idle link just before the check used it
	 * again. */
	if (was_idle && !list_empty(waiters))
		pool_ask_login(p);
	else
		notify_waiters(p, waiters, end, reason);
}

/* Handles the replies to the check: to RESET, and to a command that may need a login. */
static void pool_on_reply(void *owner, void *tag, const struct resp_reply *reply,
                          struct slice captured)
{
	struct pool_link *l = owner;
	struct pool *p = l->pool;
	char error[128];

	(void)reply;
	if (tag == &p->lacks_reset) {
		if (!slice_starts(captured, SLICE_LIT("-")))
			return;
		p->lacks_reset = true;
		pool_link_close(l);
		pool_ask_login(p);
		return;
	}
	if (!slice_starts(captured, SLICE_LIT("-NOAUTH"))) {
		check_passed(l);
		return;
	}
	snprintf(error, sizeof(error), "%.*s", (int)(captured.n - 3), captured.p + 1);
	link_note_login(p->env, true, l->asked_at);
	pool_link_close(l);
	notify_waiters(p, &p->check_waiters, LINK_REFUSED, error);
}

static const struct link_ops pool_user_ops = {
	.on_bytes = pool_on_bytes,
	.on_ready = pool_on_ready,
	.on_reply = pool_on_reply,
	.on_down = pool_on_down,
};

static struct pool_link *pool_link_alloc(struct pool *p, struct pool_group *g)
{
	struct pool_link *l = xcalloc(1, sizeof(*l));

	l->pool = p;
	l->group = g;
	l->asked_at = -1;
	list_init(&l->node);
	list_init(&l->spare);
	link_user_init(&l->pool_user, &pool_user_ops, l);
	return l;
}

static struct pool_link *pool_link_new(struct pool *p, struct pool_group *g,
                                       const struct link_login *login)
{
	struct link_login proving = *login;
	struct pool_link *l = pool_link_alloc(p, g);

	if (g)
		pool_make_way(p);
	proving.probe_noauth = !login->password;
	if (proving.probe_noauth)
		l->asked_at = p->env->clock();
	l->link = link_new(p->env, g ? LINK_KIND_SHARED : LINK_KIND_OWN, &proving);
	link_join(l->link, &l->pool_user);
	if (g)
		list_append(&g->links, &l->node);
	if (!g || g->named)
		loop_timer_repeat(&p->sweep_named, NAMED_SWEEP_SECONDS);
	return l;
}

/* True if Redis has accepted a connection without a login since the client connected. An older
 * answer does not count, because Redis, too, decides this when a client connects. */
static bool is_let_in(const struct pool *p, const struct pool_waiter *w)
{
	const struct link_env *env = p->env;

	return env->login_checked_at > 0 && env->login_checked_at >= w->came;
}

/* Uses the check's link once more: after RESET, Redis treats the connection as a new one. */
static void ask_again(struct pool_link *l)
{
	struct pool *p = l->pool;

	l->asked_at = p->env->clock();
	l->was_ready = true;
	link_send(l->link, SLICE_LIT("RESET\r\nREPLCONF\r\n"));
	link_expect(&l->pool_user, LINK_NOTIFY | LINK_CAPTURE | LINK_DISCARD, &p->lacks_reset);
	link_expect(&l->pool_user, LINK_NOTIFY | LINK_CAPTURE | LINK_DISCARD, l);
}

/* Asks Redis whether it requires a login, unless such a question is in flight. */
static void pool_ask_login(struct pool *p)
{
	static const struct link_login plain = { .proto = 2 };
	struct pool_link *l = p->check;

	if (l && l->asking)
		return;
	if (l && link_is_outdated(l->link)) {
		pool_link_close(l);
		l = NULL;
	}
	if (l)
		ask_again(l);
	else
		p->check = l = pool_link_new(p, NULL, &plain);
	l->asking = true;
}

void pool_check_login(struct pool *p)
{
	const struct link_env *env = p->env;

	if (env->login_checked_at <= 0 || env->clock() - env->login_checked_at >= CHECK_SECONDS)
		pool_ask_login(p);
}

/* --- clients ------------------------------------------------------------------------- */

/* Returns the ready link with the fewest users; NULL: none is ready. */
static struct pool_link *least_used(const struct pool_group *g)
{
	struct pool_link *best = NULL;

	list_each (struct pool_link, l, &g->links, node) {
		if (link_is_ready(l->link) && !link_is_outdated(l->link) &&
		    (!best || link_users(l->link) < link_users(best->link)))
			best = l;
	}
	return best;
}

/* Returns how many links of the group are not outdated. */
static int64_t count_links(const struct pool_group *g)
{
	int64_t n = 0;

	list_each (struct pool_link, l, &g->links, node)
		n += !link_is_outdated(l->link);
	return n;
}

void pool_set_ops(struct pool *p, const struct pool_ops *ops)
{
	p->ops = ops;
}

void pool_waiter_init(struct pool_waiter *w, double came)
{
	list_init(&w->node);
	w->came = came;
	w->since = 0;
}

bool pool_waiter_waits(const struct pool_waiter *w)
{
	return !list_empty(&w->node);
}

void pool_waiter_end(struct pool_waiter *w)
{
	list_remove(&w->node);
}

static enum pool_answer wait_in(struct list *waiters, struct pool_waiter *w)
{
	list_move(waiters, &w->node);
	return POOL_LATER;
}

/* Makes a link for a waiter. The link has as long to connect as the waiter has left. */
static void make_link(struct pool *p, struct pool_group *g, const struct link_login *login,
                      const struct pool_waiter *w)
{
	double waited = p->env->clock() - w->since;

	link_set_patience(pool_link_new(p, g, login)->link, p->env->failover_wait - waited);
}

enum pool_answer pool_ask(struct pool *p, const struct link_login *login, bool eager,
                          struct pool_waiter *w)
{
	struct link_login found = *login;
	struct pool_group *g = pool_group_get(p, &found);
	bool is_checked = login->password || is_let_in(p, w);
	bool has_failed;
	int64_t n;

	if (!g)
		return POOL_NEVER;
	if (is_checked && least_used(g)) {
		w->since = 0;
		return POOL_READY;
	}
	n = count_links(g);
	has_failed = g->failed_at > 0 && p->env->clock() - g->failed_at < FAILED_SECONDS;
	if (n == 0 && has_failed && !eager)
		return POOL_NEVER;
	if (w->since <= 0)
		w->since = p->env->clock();
	/* A new link also asks whether it needs a login. */
	if (n == 0 || (!is_checked && n < p->env->links_per_login && !links_are_at_max(p->env)))
		make_link(p, g, &found, w);
	else if (!is_checked && least_used(g)) {
		pool_ask_login(p);
		return wait_in(&p->check_waiters, w);
	}
	return wait_in(&g->waiters, w);
}

void pool_join(struct pool *p, const struct link_login *login, struct link_user *u)
{
	struct link_login found = *login;
	struct pool_group *g = pool_group_find(p, &found);
	struct pool_link *l;

	/* No group has this name: pool_ask() chose the group without a name. */
	if (!g) {
		found.name = NULL;
		g = pool_group_find(p, &found);
	}
	HASP_ASSERT(g);
	l = least_used(g);
	HASP_ASSERT(l);
	/* In front of a cluster, each client gets a link of its own; `l` only shows that Redis
	 * accepts the login. */
	if (p->env->connect) {
		l->unused = false;
		link_join(link_new_accepted(p->env, &found), u);
		return;
	}
	if (count_links(g) < p->env->links_per_login && !links_are_at_max(p->env))
		(void)pool_link_new(p, g, &found);
	l->unused = false;
	list_move(&p->groups_by_use, &g->order);
	link_join(l->link, u);
}

bool pool_detach(struct pool *p, const struct link_login *login, struct link_user *u)
{
	struct pool_group *g = pool_group_find(p, login);

	if (!g || link_users(u->link) != 2 || !link_is_idle(u->link) || u->outdated)
		return false;
	list_each (struct pool_link, l, &g->links, node) {
		if (l->link != u->link)
			continue;
		link_leave(&l->pool_user);
		pool_link_free(l);
		link_make_private(u->link);
		return true;
	}
	return false;
}

/* --- spare links ---------------------------------------------------------------------- */

bool pool_put_spare(struct pool *p, const struct link_login *login, struct link_user *u)
{
	struct link_login found = *login;
	struct link *link = u->link;
	struct pool_group *g;
	struct pool_link *l;

	if (p->env->connect || u->outdated || u->waiting || link_pending(link) ||
	    !link_is_idle(link))
		return false;
	g = pool_group_find(p, login);
	/* Make no group for a login with a name: it might displace a group that a client is
	 * about to join. */
	if (!g && !login->name)
		g = pool_group_get(p, &found);
	if (!g)
		return false;
	l = pool_link_alloc(p, g);
	l->link = link;
	link_leave(u);
	link_join(link, &l->pool_user);
	list_append(&g->spares, &l->node);
	list_append(&p->spares, &l->spare);
	if (g->named)
		loop_timer_repeat(&p->sweep_named, NAMED_SWEEP_SECONDS);
	return true;
}

/* Returns the spare link that was used last, and closes unusable ones; NULL: there is none. */
static struct pool_link *last_spare(struct pool_group *g)
{
	list_each_back (struct pool_link, l, &g->spares, node) {
		if (!l->spoilt && !link_is_outdated(l->link))
			return l;
		pool_link_close(l);
	}
	return NULL;
}

enum pool_answer pool_take_spare(struct pool *p, const struct link_login *login,
                                 struct pool_waiter *w, struct link **spare)
{
	struct pool_group *g = list_empty(&p->spares) ? NULL : pool_group_find(p, login);
	struct pool_link *l = g ? last_spare(g) : NULL;

	if (!l)
		return POOL_NEVER;
	if (!login->password && !is_let_in(p, w)) {
		if (p->env->login_required)
			return POOL_NEVER;
		if (w->since <= 0)
			w->since = p->env->clock();
		pool_ask_login(p);
		return wait_in(&p->check_waiters, w);
	}
	w->since = 0;
	*spare = l->link;
	link_leave(&l->pool_user);
	pool_link_free(l);
	return POOL_READY;
}

void pool_make_way(struct pool *p)
{
	if (!list_empty(&p->spares) && links_are_at_max(p->env))
		pool_link_close(container_of(p->spares.next, struct pool_link, spare));
}

static void sweep_group(struct pool *p, struct pool_group *g)
{
	list_drain (struct pool_link, l, &g->links, node) {
		/* Keep a link that has users besides the pool, or that waiting clients may
		 * join, or on which replies to former users are due. */
		if (link_users(l->link) > 1 || !list_empty(&g->waiters) ||
		    !link_is_idle(l->link)) {
			l->unused = false;
		} else if (!l->unused && !link_is_outdated(l->link)) {
			l->unused = true;
		} else {
			pool_link_close(l);
		}
	}
	list_drain (struct pool_link, l, &g->spares, node) {
		if (l->unused || l->spoilt || link_is_outdated(l->link))
			pool_link_close(l);
		else
			l->unused = true;
	}
	if (list_empty(&g->links) && list_empty(&g->spares) && list_empty(&g->waiters))
		pool_group_free(p, g);
}

void pool_follow_address(struct pool *p)
{
	p->env->login_checked_at = 0;
	if (p->check)
		p->check->asked_at = -1;
}

void pool_sweep(struct pool *p)
{
	map_drain (&p->groups, node)
		sweep_group(p, container_of(node, struct pool_group, node));
}

void pool_sweep_named(struct pool *p)
{
	struct pool_link *check = p->check;

	/* Close the check's link if no check has used it since the last sweep. */
	if (check && !check->asking && check->unused)
		pool_link_close(check);
	else if (check && !check->asking)
		check->unused = true;
	list_drain (struct pool_group, g, &p->groups_by_use, order)
		if (g->named)
			sweep_group(p, g);
}

static void pool_on_sweep(void *arg)
{
	pool_sweep(arg);
}

static void pool_on_sweep_named(void *arg)
{
	struct pool *p = arg;

	pool_sweep_named(p);
	list_each (struct pool_group, g, &p->groups_by_use, order)
		if (g->named)
			return;
	if (!p->check)
		loop_timer_stop(&p->sweep_named);
}

struct pool *pool_new(struct ev_loop *loop, struct link_env *env)
{
	struct pool *p = xcalloc(1, sizeof(*p));

	p->env = env;
	map_init(&p->groups);
	list_init(&p->groups_by_use);
	list_init(&p->spares);
	list_init(&p->check_waiters);
	loop_timer_init(&p->sweep, loop, pool_on_sweep, p);
	loop_timer_repeat(&p->sweep, POOL_SWEEP_SECONDS);
	loop_timer_init(&p->sweep_named, loop, pool_on_sweep_named, p);
	return p;
}

void pool_free(struct pool *p)
{
	struct pool_link *check = p->check;

	loop_timer_stop(&p->sweep);
	loop_timer_stop(&p->sweep_named);
	if (check)
		pool_link_close(check);
	map_drain (&p->groups, node)
		pool_group_free(p, container_of(node, struct pool_group, node));
	map_fini(&p->groups);
	free(p);
}
