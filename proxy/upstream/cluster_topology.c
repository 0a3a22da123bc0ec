/* SPDX-License-Identifier: BSD-3-Clause */
#include "upstream/cluster_topology.h"

#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"
#include "base/log.h"
#include "upstream/decode.h"

/* The map is asked for so often without a reason, and at most so often with one. */
#define REFRESH_SECONDS 60.0
#define REFRESH_SECONDS_MIN 0.1
/* So often hasp looks whether a node has stopped answering. */
#define LOOK_SECONDS 1.0
/* After so long without an answer the next node is asked. */
#define ANSWER_SECONDS 1.0

struct cluster_topology {
	struct topology base;
	const struct cluster_topology_ops *ops;
	const struct node_ops *node_ops;
	void *arg; /* of both */
	struct link_env links; /* of all nodes */
	struct slot_map map;
	struct node **nodes; /* all that ever were, also those that are not in the map */
	size_t nnodes;
	uint32_t told_version; /* of the map, when on_changed() was called last */

	/* The question that is under way. */
	struct link_env asked_links;
	struct link *asked; /* NULL: none is */
	struct link_user user;
	size_t candidate; /* the number of who is asked, or is next to be */
	double asked_at; /* clock */
	long long answered_epoch; /* who is asked knows of this one; 0: it did not say */
	long long epoch; /* the latest that anybody has told since each was asked in vain */
	bool wanted; /* it is to be asked for again */
	struct ev_timer look;
	struct ev_timer timer; /* for the next question, or the end of this one */
};

static struct cluster_topology *cluster_of(struct topology *t)
{
	return container_of(t, struct cluster_topology, base);
}

/* --- nodes -------------------------------------------------------------------------------- */

static struct node *find_by_address(const struct cluster_topology *c, const char *address)
{
	for (size_t i = 0; i < c->nnodes; i++)
		if (strcmp(c->nodes[i]->links.name, address) == 0)
			return c->nodes[i];
	return NULL;
}

static void use_settings(struct cluster_topology *c, struct node *n)
{
	const struct topology_settings *s = &c->base.settings;
	struct node_settings nodes = s->nodes;

	/* Another node may serve its slots sooner than it comes back. */
	nodes.failover_wait_ms = 0;
	node_use(n, &nodes);
	n->links.user = s->user;
	n->links.password = s->password;
}

static struct node *cluster_on_node(void *arg, const char *address)
{
	struct cluster_topology *c = arg;
	struct node *n = find_by_address(c, address);

	log_info("cluster_node address=%s", address);
	if (n)
		return n;
	n = node_new(&c->links, c->node_ops, c->arg);
	c->nodes = xrealloc(c->nodes, (c->nnodes + 1) * sizeof(struct node *));
	c->nodes[c->nnodes++] = n;
	use_settings(c, n);
	node_move(n, address, NULL);
	c->ops->on_node(c->arg, n);
	return n;
}

static void cluster_on_gone(void *arg, struct node *n)
{
	struct cluster_topology *c = arg;

	log_info("cluster_node_gone address=%s", n->links.name);
	c->ops->on_gone(c->arg, n);
}

static const struct slot_map_ops cluster_map_ops = { cluster_on_node, cluster_on_gone };

static void tell_changes(struct cluster_topology *c)
{
	if (c->told_version == c->map.version)
		return;
	c->told_version = c->map.version;
	c->ops->on_changed(c->arg);
}

/* --- asking for the map ------------------------------------------------------------------- */

static void set_timer(struct cluster_topology *c, double seconds)
{
	ev_timer_stop(c->links.dialer.loop, &c->timer);
	ev_timer_set(&c->timer, seconds, 0);
	ev_timer_start(c->links.dialer.loop, &c->timer);
}

/* The nodes of the map, then those of the configuration. NULL: there are not so many. */
static const char *candidate_address(const struct cluster_topology *c, size_t i)
{
	const struct topology_settings *s = &c->base.settings;

	if (i < c->map.nnodes)
		return c->map.nodes[i].address;
	i -= c->map.nnodes;
	return i < s->ncluster ? s->cluster[i] : NULL;
}

/* The question has ended. The next one: soon if there is a reason, or when it is time. */
static void end_question(struct cluster_topology *c, bool answered)
{
	link_close(c->asked);
	c->asked = NULL;
	if (!answered) {
		c->candidate++;
		c->wanted = true;
	}
	set_timer(c, c->wanted ? REFRESH_SECONDS_MIN : REFRESH_SECONDS);
}

static void begin_question(struct cluster_topology *c)
{
	const struct topology_settings *s = &c->base.settings;
	struct link_login login = { .proto = 2, .user = s->user, .password = s->password };
	const char *address = candidate_address(c, c->candidate);

	if (!address) {
		/* The cluster may have been made anew. */
		c->epoch = 0;
		c->candidate = 0;
		address = candidate_address(c, 0);
	}
	if (!c->wanted)
		slot_map_forget_migrating(&c->map);
	c->wanted = false;
	c->asked_at = c->links.clock();
	c->asked_links.dialer.timeout_ms = s->nodes.connect_timeout_ms;
	c->asked_links.dialer.tls = s->nodes.tls;
	if (address_parse(&c->asked_links.address, address) < 0) {
		end_question(c, false);
		return;
	}
	free(c->asked_links.name);
	c->asked_links.name = xstrdup(address);
	c->asked = link_new_own(&c->asked_links, false, s->password ? &login : NULL);
	link_join(c->asked, &c->user);
	c->answered_epoch = 0;
	link_expect(&c->user, LINK_CAPTURE | LINK_DISCARD | LINK_NOTIFY, &c->answered_epoch);
	link_expect(&c->user, LINK_CAPTURE | LINK_DISCARD | LINK_NOTIFY, NULL);
	link_send(c->asked, SLICE_LIT("*2\r\n$7\r\nCLUSTER\r\n$4\r\nINFO\r\n"
	                              "*2\r\n$7\r\nCLUSTER\r\n$5\r\nSLOTS\r\n"));
	set_timer(c, ANSWER_SECONDS);
}

static void cluster_on_timer(struct ev_loop *loop, struct ev_timer *t, int revents)
{
	struct cluster_topology *c = t->data;

	(void)loop;
	(void)revents;
	if (c->asked)
		end_question(c, false);
	else
		begin_question(c);
}

void cluster_topology_refresh(struct topology *t)
{
	struct cluster_topology *c = cluster_of(t);
	double since = c->links.clock() - c->asked_at;

	if (c->wanted)
		return;
	c->wanted = true;
	if (!c->asked)
		set_timer(c, since >= REFRESH_SECONDS_MIN ? 0 : REFRESH_SECONDS_MIN - since);
}

/* A node that hangs breaks no link. Another one may serve its slots by now. */
static void cluster_on_look(struct ev_loop *loop, struct ev_timer *t, int revents)
{
	struct cluster_topology *c = t->data;

	(void)loop;
	(void)revents;
	for (size_t i = 0; i < c->map.nnodes; i++)
		if (!control_is_answering(c->map.nodes[i].node->control))
			cluster_topology_refresh(&c->base);
}

static void asked_on_bytes(void *owner, struct slice bytes)
{
	(void)owner;
	(void)bytes;
}

static void asked_on_drained(void *owner)
{
	(void)owner;
}

/* Each failover makes a new epoch. An ACL may forbid that it is asked for. */
static void read_epoch(struct cluster_topology *c, const redisReply *info)
{
	static const char name[] = "cluster_current_epoch:";
	const char *at = info && info->type == REDIS_REPLY_STRING ? strstr(info->str, name)
	                                                          : NULL;

	c->answered_epoch = at ? strtoll(at + strlen(name), NULL, 10) : 0;
}

/* Who has been away tells of the primaries of that time, itself among them perhaps. */
static bool is_behind(const struct cluster_topology *c)
{
	return c->answered_epoch > 0 && c->answered_epoch < c->epoch;
}

static void read_map(struct cluster_topology *c, const redisReply *reply)
{
	const char *reason = NULL;

	if (is_behind(c))
		reason = "it has not heard of the latest changes";
	else if (reply && reply->type == REDIS_REPLY_ERROR)
		reason = reply->str;
	else if (!reply || slot_map_read(&c->map, reply, c->asked_links.address.host) != 0)
		reason = "it tells of no slot that is served";
	if (reason)
		log_warning("cluster_map address=%s reason=\"%s\"", c->asked_links.name,
		            reason);
	else if (c->answered_epoch > c->epoch)
		c->epoch = c->answered_epoch;
	end_question(c, !reason);
	tell_changes(c);
}

static void asked_on_reply(void *owner, void *tag, const struct resp_reply *r,
                           struct slice captured)
{
	struct cluster_topology *c = owner;
	redisReply *reply = reply_decode(captured);

	(void)r;
	if (tag)
		read_epoch(c, reply);
	else
		read_map(c, reply);
	freeReplyObject(reply);
}

static void asked_on_down(void *owner, enum link_end end, const char *reason, size_t inflight)
{
	struct cluster_topology *c = owner;

	(void)end;
	(void)inflight;
	c->asked = NULL;
	log_warning("cluster_map address=%s reason=\"%s\"", c->asked_links.name, reason);
	end_question(c, false);
}

static const struct link_ops asked_ops = {
	.on_bytes = asked_on_bytes,
	.on_reply = asked_on_reply,
	.on_drained = asked_on_drained,
	.on_down = asked_on_down,
};

/* --- as a topology ------------------------------------------------------------------------ */

static struct node *cluster_node(const struct topology *t, struct slice key)
{
	const struct cluster_topology *c = container_of(t, const struct cluster_topology, base);

	return slot_map_node(&c->map, slot_of_key(key));
}

static struct node *cluster_next(const struct topology *t, const struct node *n)
{
	const struct cluster_topology *c = container_of(t, const struct cluster_topology, base);
	size_t i = 0;

	while (n && i < c->nnodes && c->nodes[i++] != n)
		;
	return i < c->nnodes ? c->nodes[i] : NULL;
}

static struct node *cluster_redirected(struct topology *t, struct node *asked, struct slice key,
                                       const char *error, bool *asking)
{
	struct cluster_topology *c = cluster_of(t);
	struct slice text = slice_str(error);
	struct node *n = slot_map_named(&c->map, asked, text);
	bool moved = slice_starts(text, SLICE_LIT("MOVED "));

	*asking = n && !moved;
	if (n && moved)
		slot_map_move(&c->map, slot_of_key(key), n);
	cluster_topology_refresh(t);
	tell_changes(c);
	return n;
}

static void cluster_use(struct topology *t, const struct topology_settings *s)
{
	struct cluster_topology *c = cluster_of(t);
	bool logs_in = !slice_same_str(t->settings.user, s->user) ||
	               !slice_same_str(t->settings.password, s->password);

	t->settings = *s;
	for (size_t i = 0; i < c->nnodes; i++) {
		use_settings(c, c->nodes[i]);
		if (logs_in)
			node_log_in(c->nodes[i]);
	}
	cluster_topology_refresh(t);
}

static void cluster_stop(struct topology *t)
{
	struct cluster_topology *c = cluster_of(t);

	ev_timer_stop(c->links.dialer.loop, &c->timer);
	ev_timer_stop(c->links.dialer.loop, &c->look);
	link_close(c->asked);
	c->asked = NULL;
	for (size_t i = 0; i < c->nnodes; i++)
		node_stop(c->nodes[i]);
}

static void cluster_topology_reap(struct topology *t)
{
	struct cluster_topology *c = cluster_of(t);

	links_reap(&c->asked_links);
	for (size_t i = 0; i < c->nnodes; i++)
		links_reap(&c->nodes[i]->links);
}

static void cluster_topology_free(struct topology *t)
{
	struct cluster_topology *c = cluster_of(t);

	slot_map_fini(&c->map);
	cluster_topology_reap(t);
	for (size_t i = 0; i < c->nnodes; i++)
		node_free(c->nodes[i]);
	free(c->nodes);
	free(c->asked_links.name);
	tls_resume_clear(&c->asked_links.tls_resume);
	free(c);
}

static const struct topology_ops cluster_ops = {
	.node = cluster_node,
	.next = cluster_next,
	.redirected = cluster_redirected,
	.use = cluster_use,
	.stop = cluster_stop,
	.reap = cluster_topology_reap,
	.free = cluster_topology_free,
};

struct slot_map *cluster_topology_map(struct topology *t)
{
	return &cluster_of(t)->map;
}

struct topology *cluster_topology_new(const struct link_env *links,
                                      const struct node_ops *nodes,
                                      const struct cluster_topology_ops *ops, void *arg)
{
	struct cluster_topology *c = xcalloc(1, sizeof(*c));

	c->base.ops = &cluster_ops;
	c->ops = ops;
	c->node_ops = nodes;
	c->arg = arg;
	c->links = c->asked_links = *links;
	links_init(&c->asked_links);
	slot_map_init(&c->map, &cluster_map_ops, c);
	link_user_init(&c->user, &asked_ops, c);
	ev_timer_init(&c->timer, cluster_on_timer, 0, 0);
	c->timer.data = c;
	ev_timer_init(&c->look, cluster_on_look, LOOK_SECONDS, LOOK_SECONDS);
	c->look.data = c;
	ev_timer_start(links->dialer.loop, &c->look);
	return &c->base;
}
