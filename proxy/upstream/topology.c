/* SPDX-License-Identifier: BSD-3-Clause */
#include "upstream/topology.h"

#include <stdlib.h>

#include "base/fatal.h"

struct topology *topology_new(const struct link_env *links, const struct node_ops *ops,
                              void *arg)
{
	struct topology *t = xcalloc(1, sizeof(*t));

	list_init(&t->nodes);
	t->only = node_new(links, ops, arg);
	list_append(&t->nodes, &t->only->in_topology);
	return t;
}

void topology_stop(struct topology *t)
{
	if (t->ops)
		t->ops->stop(t);
	list_each (struct node, n, &t->nodes, in_topology)
		node_stop(n);
}

void topology_free(struct topology *t)
{
	list_shift_each (struct node, n, &t->nodes, in_topology)
		node_free(n);
	if (t->ops)
		t->ops->free(t);
	else
		free(t);
}

bool topology_must_log_in(const struct topology_settings *old,
                          const struct topology_settings *s)
{
	return !s->keeps_login && (!slice_same_str(old->user, s->user) ||
	                           !slice_same_str(old->password, s->password));
}

void topology_use(struct topology *t, const struct topology_settings *s)
{
	const struct topology_settings *old = &t->settings;
	struct node *n = t->only;
	bool is_other = !slice_same_str(old->master, s->master) ||
	                (!s->master && !slice_same_str(old->address, s->address));
	bool logs_in = topology_must_log_in(old, s);

	if (!n) {
		t->ops->use(t, s);
		return;
	}
	node_use(n, &s->nodes);
	n->links.user = s->user;
	n->links.password = s->password;
	n->links.master = s->master;
	if (is_other && s->master)
		node_leave(n, "no sentinel was asked yet", NULL);
	else if (is_other)
		node_move(n, s->address, NULL);
	else if (logs_in)
		node_log_in(n);
	else
		node_look_up(n);
	t->settings = *s;
}

/* Handles the loss of the primary: ends all links at once, because no write may go there. */
static void topology_lose(struct node *n, const char *why)
{
	if (!n->links.no_server_reason) {
		node_leave(n, why, "it is not the primary any more");
	} else {
		free(n->links.no_server_reason);
		n->links.no_server_reason = xstrdup(why);
	}
}

void topology_found(struct topology *t, const struct found_primary *p)
{
	struct node *n = t->only;

	if (!n || !slice_same_str(p->master, t->settings.master))
		return;
	if (!p->master)
		node_move(n, n->links.name, NULL);
	else if (!p->address)
		topology_lose(n, p->why);
	else if (n->links.no_server_reason || strcmp(n->links.name, p->address) != 0)
		node_move(n, p->address, "there is another primary");
	else if (p->anew)
		node_move(n, p->address, NULL);
	node_freeze(n, NODE_LEAVING, p->address && p->leaving);
}
