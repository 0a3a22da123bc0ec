/* SPDX-License-Identifier: BSD-3-Clause */
#include "upstream/pool.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/fatal.h"
#include "base/map.h"

/* A link that nobody uses is kept for one to two of these. */
#define UNUSED_SECONDS 30.0

struct pooled {
	struct list node; /* in its group */
	struct link *link;
	struct link_user pool_user; /* the pool itself, to be told of the link's end */
	struct group *group;
	bool unused; /* was, when last looked at */
};

/* The links of one login. */
struct group {
	struct map_node by_login; /* key: the login, written out */
	struct list links;
	size_t n;
};

struct pool {
	struct link_env *env;
	struct ev_loop *loop;
	struct ev_timer sweep;
	struct map groups;
	int64_t links_per_login;
};

static void pool_on_bytes(void *owner, struct slice bytes)
{
	(void)owner;
	(void)bytes;
}

static void pool_on_drained(void *owner)
{
	(void)owner;
}

static void pooled_free(struct pooled *p)
{
	list_remove(&p->node);
	p->group->n--;
	free(p);
}

static void pool_on_down(void *owner, enum link_end end, const char *reason, size_t inflight)
{
	(void)end;
	(void)reason;
	(void)inflight;
	pooled_free(owner);
}

static const struct link_ops pool_user_ops = {
	.on_bytes = pool_on_bytes,
	.on_drained = pool_on_drained,
	.on_down = pool_on_down,
};

/* A login as bytes, so that logins can be compared. After a reload that changed the
 * address, the links to the old one are nobody's choice. */
static void write_login(struct buf *out, const char *address, const struct link_login *who)
{
	buf_printf(out, "%s %d %u %zu ", address, who->db, who->proto,
	           who->user ? strlen(who->user) : 0);
	buf_puts(out, who->user);
	buf_puts(out, who->password ? " " : "");
	buf_puts(out, who->password);
}

static struct group *find_group(struct pool *p, const struct link_login *who)
{
	struct buf key = BUF_INIT;
	struct map_node *node;
	struct group *g;

	write_login(&key, p->env->name, who);
	node = map_get(&p->groups, buf_slice(&key));
	if (node) {
		g = container_of(node, struct group, by_login);
	} else {
		g = xcalloc(1, sizeof(*g));
		list_init(&g->links);
		g->by_login.key = slice_of(xmemdup(buf_head(&key), buf_len(&key)),
		                           buf_len(&key));
		map_put(&p->groups, &g->by_login);
	}
	buf_release(&key);
	return g;
}

static void group_free(struct pool *p, struct group *g)
{
	while (!list_empty(&g->links)) {
		struct pooled *l = container_of(g->links.next, struct pooled, node);
		link_close(l->link);
		pooled_free(l);
	}
	map_remove(&p->groups, &g->by_login);
	free((char *)g->by_login.key.p);
	free(g);
}

static struct pooled *add_link(struct pool *p, struct group *g, const struct link_login *who)
{
	bool plain = who->db == 0 && who->proto == 2 && !who->password;
	struct pooled *l = xcalloc(1, sizeof(*l));

	l->group = g;
	l->link = link_new(p->env, true, plain ? NULL : who);
	link_user_init(&l->pool_user, &pool_user_ops, l);
	link_join(l->link, &l->pool_user);
	list_append(&g->links, &l->node);
	g->n++;
	return l;
}

static struct pooled *least_used(const struct group *g)
{
	struct pooled *best = NULL;
	struct list *at;

	for (at = g->links.next; at != &g->links; at = at->next) {
		struct pooled *l = container_of(at, struct pooled, node);
		if (!best || link_users(l->link) < link_users(best->link))
			best = l;
	}
	return best;
}

void pool_join(struct pool *p, const struct link_login *login, struct link_user *u)
{
	struct group *g = find_group(p, login);
	struct link_login nameless = *login;
	struct pooled *l;

	nameless.name = NULL;
	if ((int64_t)g->n < p->links_per_login)
		l = add_link(p, g, &nameless);
	else
		l = least_used(g);
	l->unused = false;
	link_join(l->link, u);
}

static void sweep_group(struct pool *p, struct group *g)
{
	struct list *at, *next;

	for (at = g->links.next; at != &g->links; at = next) {
		struct pooled *l = container_of(at, struct pooled, node);
		next = at->next;
		/* The keeper is a user, too. */
		if (link_users(l->link) > 1) {
			l->unused = false;
		} else if (!l->unused) {
			l->unused = true;
		} else {
			link_close(l->link);
			pooled_free(l);
		}
	}
	if (g->n == 0)
		group_free(p, g);
}

/* write_login() puts the address first. */
static bool is_at(const struct group *g, const char *address)
{
	size_t n = strlen(address);

	return slice_starts(g->by_login.key, slice_of(address, n)) &&
	       g->by_login.key.p[n] == ' ';
}

void pool_follow_address(struct pool *p)
{
	for (size_t i = 0; i < p->groups.nbuckets; i++) {
		struct map_node *node;
		for (node = p->groups.buckets[i]; node; node = node->next) {
			struct group *g = container_of(node, struct group, by_login);
			bool outdated = !is_at(g, p->env->name);
			struct list *at;
			for (at = g->links.next; at != &g->links; at = at->next)
				link_set_outdated(container_of(at, struct pooled, node)->link,
				                  outdated);
		}
	}
}

void pool_sweep(struct pool *p)
{
	for (size_t i = 0; i < p->groups.nbuckets; i++) {
		struct map_node *node = p->groups.buckets[i], *next;
		for (; node; node = next) {
			next = node->next;
			sweep_group(p, container_of(node, struct group, by_login));
		}
	}
}

static void pool_on_sweep(struct ev_loop *loop, struct ev_timer *t, int revents)
{
	(void)loop;
	(void)revents;
	pool_sweep(t->data);
}

struct pool *pool_new(struct ev_loop *loop, struct link_env *env)
{
	struct pool *p = xcalloc(1, sizeof(*p));

	p->env = env;
	p->loop = loop;
	p->links_per_login = 1;
	map_init(&p->groups, (uint64_t)(uintptr_t)p);
	ev_timer_init(&p->sweep, pool_on_sweep, UNUSED_SECONDS, UNUSED_SECONDS);
	p->sweep.data = p;
	ev_timer_start(loop, &p->sweep);
	return p;
}

void pool_free(struct pool *p)
{
	ev_timer_stop(p->loop, &p->sweep);
	for (size_t i = 0; i < p->groups.nbuckets; i++)
		while (p->groups.buckets[i])
			group_free(p,
			           container_of(p->groups.buckets[i], struct group, by_login));
	map_fini(&p->groups);
	free(p);
}

void pool_set_size(struct pool *p, int64_t links_per_login)
{
	p->links_per_login = links_per_login;
}
