/* SPDX-License-Identifier: BSD-3-Clause
 *
 * pool_groups: decides which logins have shared links in a pool: a group for each login.
 */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/fatal.h"
#include "upstream/pool_internal.h"

/* Limit of new groups with a client name per second. */
#define NAMES_PER_SECOND 16

void pool_link_free(struct pool_link *l)
{
	list_remove(&l->node);
	list_remove(&l->spare);
	if (l->pool->check == l)
		l->pool->check = NULL;
	free(l);
}

void pool_link_close(struct pool_link *l)
{
	link_close(l->link);
	pool_link_free(l);
}

/* Writes a group's key: numbers, among them the strings' lengths, then the strings. Does not
 * use printf(), because each transaction needs the key. */
static void write_group_key(struct buf *out, const struct link_login *login)
{
	uint32_t head[] = { (uint32_t)login->db, login->proto,
		            login->user ? (uint32_t)strlen(login->user) : 0,
		            login->name ? (uint32_t)strlen(login->name) : 0 };

	buf_append(out, slice_of((const char *)head, sizeof(head)));
	buf_puts(out, login->user);
	buf_puts(out, login->name);
	buf_puts(out, login->password ? " " : "");
	buf_puts(out, login->password);
}

struct pool_group *pool_group_find(const struct pool *p, const struct link_login *login)
{
	struct buf key = BUF_INIT;
	struct map_node *at;

	write_group_key(&key, login);
	at = map_get(&p->groups, buf_slice(&key));
	buf_release(&key);
	return at ? container_of(at, struct pool_group, node) : NULL;
}

void pool_group_free(struct pool *p, struct pool_group *g)
{
	HASP_ASSERT(list_empty(&g->waiters));
	list_drain (struct pool_link, l, &g->links, node)
		pool_link_close(l);
	list_drain (struct pool_link, l, &g->spares, node)
		pool_link_close(l);
	map_remove(&p->groups, &g->node);
	list_remove(&g->order);
	free((char *)g->node.key.p);
	free(g);
}

/* True if only the pool uses the group's links. */
static bool is_group_idle(const struct pool_group *g)
{
	if (!list_empty(&g->waiters))
		return false;
	list_each (struct pool_link, l, &g->links, node)
		if (link_users(l->link) > 1)
			return false;
	return true;
}

/* Closes the group that has been idle for longest. Returns false if there is none. */
static bool drop_idle_group(struct pool *p, bool named)
{
	list_each (struct pool_group, g, &p->groups_by_use, order) {
		if ((g->named || !named) && is_group_idle(g)) {
			pool_group_free(p, g);
			return true;
		}
	}
	return false;
}

/* Makes space for one more group, with a name or without, by closing idle groups. Returns false
 * if there is no space. */
static bool pool_make_room(struct pool *p, bool named)
{
	double now = p->env->clock();
	size_t nidle = 0, nnamed = 0;

	if (named && now - p->names_since >= 1) {
		p->names_since = now;
		p->names_made = 0;
	}
	if (named && p->names_made >= NAMES_PER_SECOND)
		return false;
	list_each (struct pool_group, g, &p->groups_by_use, order)
		nidle += is_group_idle(g);
	if (nidle >= POOL_IDLE_MAX)
		(void)drop_idle_group(p, false);
	if (named) {
		list_each (struct pool_group, g, &p->groups_by_use, order)
			nnamed += g->named;
		if (nnamed >= POOL_NAMES_MAX && !drop_idle_group(p, true))
			return false;
	}
	return p->groups.n < POOL_GROUPS_MAX || drop_idle_group(p, false);
}

static struct pool_group *add_group(struct pool *p, const struct link_login *login)
{
	struct pool_group *g;
	struct buf key = BUF_INIT;

	if (!pool_make_room(p, login->name))
		return NULL;
	p->names_made += login->name != NULL;
	write_group_key(&key, login);
	g = xcalloc(1, sizeof(*g));
	list_init(&g->links);
	list_init(&g->spares);
	list_init(&g->waiters);
	g->named = login->name;
	g->node.key = slice_dup(buf_slice(&key));
	map_put(&p->groups, &g->node);
	list_append(&p->groups_by_use, &g->order);
	buf_release(&key);
	return g;
}

struct pool_group *pool_group_get(struct pool *p, struct link_login *login)
{
	struct pool_group *g = pool_group_find(p, login);

	if (!g)
		g = add_group(p, login);
	if (!g && login->name) {
		login->name = NULL;
		return pool_group_get(p, login);
	}
	return g;
}
