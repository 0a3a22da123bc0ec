/* SPDX-License-Identifier: BSD-3-Clause */
#include "upstream/pool.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/fatal.h"
#include "base/map.h"

/* A link without users is closed at the second sweep that finds it so. */
#define POOL_SWEEP_SECONDS 30.0

/* The links of one login at one address. */
struct pool_group {
	struct map_node node; /* key: write_group_key() */
	struct list links; /* of pool_link */
	size_t n;
};

struct pool_link {
	struct list node; /* in its group */
	struct pool_group *group;
	struct link *link;
	struct link_user pool_user; /* the pool, which hears of the link's end */
	bool unused; /* at the last sweep, and since */
};

struct pool {
	struct link_env *env;
	struct ev_loop *loop;
	struct ev_timer sweep; /* calls pool_sweep() */
	struct map groups;
	int64_t links_per_login; /* >= 1 */
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

static void pool_link_free(struct pool_link *l)
{
	list_remove(&l->node);
	l->group->n--;
	free(l);
}

static void pool_on_down(void *owner, enum link_end end, const char *reason, size_t inflight)
{
	(void)end;
	(void)reason;
	(void)inflight;
	pool_link_free(owner);
}

static const struct link_ops pool_user_ops = {
	.on_bytes = pool_on_bytes,
	.on_drained = pool_on_drained,
	.on_down = pool_on_down,
};

/* A group's key: the address, and the login without the name. With the address in it, a reload
 * that changes the address makes pool_join() use new links. The length of the user's name keeps
 * user and password apart. */
static void write_group_key(struct buf *out, const char *address,
                            const struct link_login *login)
{
	buf_printf(out, "%s %d %u %zu ", address, login->db, login->proto,
	           login->user ? strlen(login->user) : 0);
	buf_puts(out, login->user);
	buf_puts(out, login->password ? " " : "");
	buf_puts(out, login->password);
}

static struct pool_group *find_or_add_group(struct pool *p, const struct link_login *login)
{
	struct buf key = BUF_INIT;
	struct map_node *at;
	struct pool_group *g;

	write_group_key(&key, p->env->name, login);
	at = map_get(&p->groups, buf_slice(&key));
	if (at) {
		g = container_of(at, struct pool_group, node);
	} else {
		g = xcalloc(1, sizeof(*g));
		list_init(&g->links);
		g->node.key = slice_of(xmemdup(buf_head(&key), buf_len(&key)), buf_len(&key));
		map_put(&p->groups, &g->node);
	}
	buf_release(&key);
	return g;
}

static void pool_group_free(struct pool *p, struct pool_group *g)
{
	while (!list_empty(&g->links)) {
		struct pool_link *l = container_of(g->links.next, struct pool_link, node);
		link_close(l->link);
		pool_link_free(l);
	}
	map_remove(&p->groups, &g->node);
	free((char *)g->node.key.p);
	free(g);
}

static struct pool_link *add_link(struct pool *p, struct pool_group *g,
                                  const struct link_login *login)
{
	bool plain = login->db == 0 && login->proto == 2 && !login->password;
	struct pool_link *l = xcalloc(1, sizeof(*l));

	l->group = g;
	l->link = link_new(p->env, true, plain ? NULL : login);
	link_user_init(&l->pool_user, &pool_user_ops, l);
	link_join(l->link, &l->pool_user);
	list_append(&g->links, &l->node);
	g->n++;
	return l;
}

static struct pool_link *least_used(const struct pool_group *g)
{
	struct pool_link *best = NULL;
	struct list *at;

	for (at = g->links.next; at != &g->links; at = at->next) {
		struct pool_link *l = container_of(at, struct pool_link, node);
		if (!best || link_users(l->link) < link_users(best->link))
			best = l;
	}
	return best;
}

void pool_join(struct pool *p, const struct link_login *login, struct link_user *u)
{
	struct pool_group *g = find_or_add_group(p, login);
	struct link_login nameless = *login;
	struct pool_link *l;

	nameless.name = NULL;
	if ((int64_t)g->n < p->links_per_login)
		l = add_link(p, g, &nameless);
	else
		l = least_used(g);
	l->unused = false;
	link_join(l->link, u);
}

static void sweep_group(struct pool *p, struct pool_group *g)
{
	struct list *at, *next;

	for (at = g->links.next; at != &g->links; at = next) {
		struct pool_link *l = container_of(at, struct pool_link, node);
		next = at->next;
		/* One of the users is the pool. */
		if (link_users(l->link) > 1) {
			l->unused = false;
		} else if (!l->unused) {
			l->unused = true;
		} else {
			link_close(l->link);
			pool_link_free(l);
		}
	}
	if (g->n == 0)
		pool_group_free(p, g);
}

/* The key begins with the address. */
static bool leads_to(const struct pool_group *g, const char *address)
{
	size_t n = strlen(address);

	return slice_starts(g->node.key, slice_of(address, n)) && g->node.key.p[n] == ' ';
}

static void set_group_outdated(struct pool_group *g, bool outdated)
{
	struct list *at;

	for (at = g->links.next; at != &g->links; at = at->next)
		link_set_outdated(container_of(at, struct pool_link, node)->link, outdated);
}

void pool_follow_address(struct pool *p)
{
	for (size_t i = 0; i < p->groups.nbuckets; i++) {
		struct map_node *node;
		for (node = p->groups.buckets[i]; node; node = node->next) {
			struct pool_group *g = container_of(node, struct pool_group, node);
			set_group_outdated(g, !leads_to(g, p->env->name));
		}
	}
}

void pool_sweep(struct pool *p)
{
	for (size_t i = 0; i < p->groups.nbuckets; i++) {
		struct map_node *node = p->groups.buckets[i], *next;
		for (; node; node = next) {
			next = node->next;
			sweep_group(p, container_of(node, struct pool_group, node));
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
	ev_timer_init(&p->sweep, pool_on_sweep, POOL_SWEEP_SECONDS, POOL_SWEEP_SECONDS);
	p->sweep.data = p;
	ev_timer_start(loop, &p->sweep);
	return p;
}

void pool_free(struct pool *p)
{
	ev_timer_stop(p->loop, &p->sweep);
	for (size_t i = 0; i < p->groups.nbuckets; i++) {
		struct map_node *node;
		while ((node = p->groups.buckets[i]))
			pool_group_free(p, container_of(node, struct pool_group, node));
	}
	map_fini(&p->groups);
	free(p);
}

void pool_set_size(struct pool *p, int64_t links_per_login)
{
	p->links_per_login = links_per_login;
}
