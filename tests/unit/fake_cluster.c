/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/unit/fake_cluster.h"

#include <stdlib.h>

static struct node *fake_node(const struct topology *t, struct slice key)
{
	struct fake_cluster *c = container_of(t, struct fake_cluster, topology);

	if (key.p[0] == 'a' || (c->moved && slice_eq(key, slice_str(c->moved))))
		return &c->a->node;
	return c->b_is_gone ? NULL : &c->b->node;
}

static struct node *fake_redirected(struct topology *t, struct node *asked, struct slice key,
                                    const char *error, bool *asking)
{
	struct fake_cluster *c = container_of(t, struct fake_cluster, topology);

	(void)key;
	*asking = error[0] == 'A';
	if (error[0] == 'T' || error[0] == 'C')
		return NULL;
	return asked == &c->a->node ? &c->b->node : &c->a->node;
}

static const struct topology_ops fake_ops = {
	.node = fake_node,
	.redirected = fake_redirected,
};

void fake_cluster_init(struct fake_cluster *c, struct fake_redis *a)
{
	*c = (struct fake_cluster){ .topology.ops = &fake_ops, .a = a };
	c->b = malloc(sizeof(*c->b));
	fake_redis_init(c->b);
	list_init(&c->topology.nodes);
	list_move(&c->topology.nodes, &a->node.in_topology);
	list_move(&c->topology.nodes, &c->b->node.in_topology);
	script_jobs_free(a->script_jobs);
	a->script_jobs = script_jobs_new(&a->timers, &c->topology, &fake_redis_secret);
}

void fake_cluster_fini(struct fake_cluster *c)
{
	script_jobs_stop(c->a->script_jobs);
	fake_redis_fini(c->b);
	free(c->b);
}
