/* SPDX-License-Identifier: BSD-3-Clause
 *
 * home: the node for a session's requests that name no key. The home stays the same for as long
 * as possible, because clients expect INFO or CONFIG to describe one server, and their messages
 * to be published in order. If the home does not answer, the session gets another one, unless
 * it has requests in flight, subscriptions or a transaction there. Requests in flight that any
 * node may answer, as PING, are sent to the new one.
 */
#include "cluster/cluster_internal.h"

/* `moves`: what is in flight there, or held, is taken along if that can be. */
static bool has_something(const struct lane *l, bool moves)
{
	const struct cluster_session *s = l->session;

	if (s->stream_lane == l || s->block_lane == l || subscriptions_any(&l->subscriptions))
		return true;
	return moves ? !lane_can_be_recalled(l) : l->nsent || !list_empty(&l->held);
}

/* NULL: nothing was ever sent there. */
static struct lane *lane_of(struct cluster_session *s, const struct node *n)
{
	for (struct list *at = s->lanes.next; at != &s->lanes; at = at->next) {
		struct lane *l = container_of(at, struct lane, in_session);
		if (l->node == n)
			return l;
	}
	return NULL;
}

/* Picks the next of the best nodes in turn. *health: that of the node. NULL: none is known. */
static struct node *pick_home(struct cluster *c, enum node_health *health)
{
	struct node *best = NULL;
	size_t first = c->nhomes;

	for (size_t i = 0; i < c->how.map->nnodes; i++) {
		struct node *n = slot_map_any(c->how.map, first + i);
		enum node_health h = c->how.health(n);
		if (best && h >= *health)
			continue;
		best = n;
		*health = h;
		c->nhomes = first + i + 1;
	}
	return best;
}

static bool leave_home(struct cluster_session *s, bool moves)
{
	struct cluster *c = s->cluster;
	struct lane *l = lane_of(s, s->home);
	enum node_health health = NODE_SILENT;
	struct node *other;

	if (c->how.health(s->home) != NODE_SILENT || (l && has_something(l, moves)))
		return false;
	other = pick_home(c, &health);
	if (health != NODE_ANSWERS)
		return false;
	s->home = other;
	if (l)
		lane_recall(l);
	return true;
}

struct node *session_home(struct cluster_session *s)
{
	const struct slot_map *map = s->cluster->how.map;
	enum node_health health;

	if (!s->home || !slot_map_has(map, s->home))
		s->home = pick_home(s->cluster, &health);
	else
		(void)leave_home(s, false);
	return s->home;
}

bool session_leave_home(struct cluster_session *s)
{
	return s->home && slot_map_has(s->cluster->how.map, s->home) && leave_home(s, true);
}
