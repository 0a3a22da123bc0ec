/* SPDX-License-Identifier: BSD-3-Clause */
#include "upstream/topology.h"

#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"

struct topology *topology_new(const struct link_env *links, const struct node_ops *ops,
                              void *arg)
{
	struct topology *t = xcalloc(1, sizeof(*t));

	t->only = node_new(links, ops, arg);
	return t;
}

void topology_stop(struct topology *t)
{
	node_stop(t->only);
}

void topology_free(struct topology *t)
{
	node_free(t->only);
	free(t);
}

void topology_reap(struct topology *t)
{
	links_reap(&t->only->links);
}

static bool is_same(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

void topology_use(struct topology *t, const struct topology_settings *s)
{
	const struct topology_settings *old = &t->settings;
	struct node *n = t->only;
	bool moved = !is_same(old->address, s->address) || !is_same(old->user, s->user) ||
	             !is_same(old->password, s->password);

	node_use(n, &s->nodes);
	if (moved)
		node_move(n, s->address);
	n->links.user = s->user;
	n->links.password = s->password;
	t->settings = *s;
}
