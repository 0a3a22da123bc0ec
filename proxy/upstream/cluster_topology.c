/* SPDX-License-Identifier: BSD-3-Clause */
#include "upstream/cluster_topology.h"

#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"
#include "base/list.h"
#include "base/log.h"
#include "base/quote.h"
#include "upstream/own_conn.h"

/* Seconds between two routine searches for the map of slots. */
#define REFRESH_SECONDS 60.0
#define REFRESH_SECONDS_MIN 0.1 /* least time between any two searches */
/* Seconds between checks whether a node has stopped answering. */
#define LOOK_SECONDS 1.0
/* A node is away if hasp has not been connected to it for so many looks. */
#define AWAY_LOOKS 3
/* Time limit of a question, in milliseconds. */
#define ANSWER_MS 1000
/* Seconds that hasp waits for an answer before it also asks the next node. */
#define STEP_SECONDS 0.1
/* Limit of the nodes that hasp asks at the same time. */
#define STEP_MAX 64
/* Seconds for which a node's report that the cluster is down counts. */
#define DOWN_SECONDS 1.0

struct cluster_topology {
	struct topology base;
	const struct cluster_topology_ops *ops;
	const struct node_ops *node_ops;
	void *arg; /* argument of `ops` and `node_ops` */
	struct link_env links; /* settings of all nodes' links */
	struct slot_map map;
	struct list gone; /* nodes that have left the map, and are not stopped yet */
	struct list stopped; /* nodes that cluster_on_look() frees */
	uint32_t reported_version; /* version of the map at the last on_changed() */

	/* State of the search for a node with a valid map. */
	struct list questions; /* questions in flight */
	struct list ended; /* questions to free at the end of the loop's turn */
	uint64_t nquestions; /* number of the last question */
	bool searches; /* hasp searches for a node with a valid map */
	bool seeds_first; /* the configuration was read, and no node has answered since */
	size_t candidate; /* index of the next node to ask: see candidate_address() */
	double searched_at; /* clock at the start of the last search */
	double down_at; /* clock when a node last reported the cluster as down; 0: never */
	long long epoch; /* latest epoch that a node has reported; 0 after a search without a
	                  * valid answer */
	bool wanted; /* hasp must ask for the map again */
	char **failing; /* addresses of nodes whose last answer was missing or invalid */
	size_t nfailing;
	struct loop_timer look; /* calls cluster_on_look() regularly */
	struct loop_timer timer; /* starts the next search, or the next step of a search */
};

/* A question to one node. */
struct map_question {
	struct list node; /* in topology.questions or topology.ended */
	struct cluster_topology *topology;
	struct link_env links;
	struct query query;
	uint64_t number;
	size_t candidate; /* index of the asked node; unused if `verifies` */
	bool verifies; /* the question also asks the node which slots it gives away */
	bool is_down; /* the node has reported the cluster as down */
	long long epoch; /* the latest epoch that the node knows; 0: not reported */
};

static struct cluster_topology *cluster_of(struct topology *t)
{
	return container_of(t, struct cluster_topology, base);
}

/* --- nodes -------------------------------------------------------------------------------- */

static void use_settings(struct cluster_topology *c, struct node *n)
{
	const struct topology_settings *s = &c->base.settings;
	struct node_settings nodes = s->nodes;

	/* Links do not wait for a node: another node may take over its slots. */
	nodes.failover_wait_ms = 0;
	node_use(n, &nodes);
	n->links.user = s->user;
	n->links.password = s->password;
}

static struct node *cluster_on_node(void *arg, const char *address)
{
	struct cluster_topology *c = arg;
	struct node *n = node_new(&c->links, c->node_ops, c->arg);

	log_info("cluster_node_added address=%s", address);
	list_append(&c->base.nodes, &n->in_topology);
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
	list_move(&c->gone, &n->in_topology);
}

/* Stops the nodes that have left the map. */
static void stop_gone(struct cluster_topology *c)
{
	list_shift_each (struct node, n, &c->gone, in_topology) {
		c->ops->on_stop(c->arg, n);
		node_stop(n);
		list_append(&c->stopped, &n->in_topology);
	}
}

/* Frees stopped nodes. Runs in a later loop iteration than stop_gone(), because callers may
 * still use a node in the iteration in which it was stopped. */
static void free_stopped(struct cluster_topology *c)
{
	list_shift_each (struct node, n, &c->stopped, in_topology)
		node_free(n);
}

static const struct slot_map_ops cluster_map_ops = { cluster_on_node, cluster_on_gone };

static void report_changes(struct cluster_topology *c)
{
	if (c->reported_version == c->map.version)
		return;
	c->reported_version = c->map.version;
	c->ops->on_changed(c->arg);
}

/* --- questions ---------------------------------------------------------------------------- */

static void map_question_end(struct map_question *q)
{
	query_cancel(&q->query);
	list_move(&q->topology->ended, &q->node);
}

static void map_question_free(struct map_question *q)
{
	links_reap(&q->links);
	list_remove(&q->node);
	free(q->links.name);
	tls_resume_clear(&q->links.tls_resume);
	free(q);
}

static void map_question_failed(struct map_question *q, const char *reason);
static void map_question_answered(struct map_question *q);

/* Reads the epoch, which each failover raises; 0 if an ACL forbids CLUSTER INFO. */
static void read_cluster_info(struct map_question *q, const redisReply *info)
{
	static const char name[] = "cluster_current_epoch:";
	const char *at;

	if (info->type != REDIS_REPLY_STRING)
		return;
	at = strstr(info->str, name);
	q->epoch = at ? strtoll(at + strlen(name), NULL, 10) : 0;
	q->is_down = strstr(info->str, "cluster_state:fail");
}

/* Handles the replies to the commands of map_question_send(). */
static void map_question_done(void *arg, redisReply *const *replies, const char *why)
{
	struct map_question *q = arg;
	struct slot_map *map = &q->topology->map;
	const char *asked = q->links.address.host;
	const redisReply *slots;

	if (!replies) {
		map_question_failed(q, why);
		return;
	}
	read_cluster_info(q, replies[0]);
	slots = replies[q->verifies ? 2 : 1];
	/* A node that was partitioned may report an outdated map, with itself as a primary. */
	if (q->epoch > 0 && q->epoch < q->topology->epoch) {
		map_question_failed(q, "its slot map is outdated");
	} else if (slots->type == REDIS_REPLY_ERROR) {
		map_question_failed(q, slots->str);
	} else if (slot_map_read(map, slots, asked) != 0) {
		map_question_failed(q, "its reply to CLUSTER SLOTS is no slot map");
	} else {
		if (q->verifies && replies[1]->type == REDIS_REPLY_STRING)
			slot_map_read_migrating(map, replies[1]->str, asked);
		map_question_answered(q);
	}
}

#define CLUSTER_INFO "*2\r\n$7\r\nCLUSTER\r\n$4\r\nINFO\r\n"
#define CLUSTER_NODES "*2\r\n$7\r\nCLUSTER\r\n$5\r\nNODES\r\n"
#define CLUSTER_SLOTS "*2\r\n$7\r\nCLUSTER\r\n$5\r\nSLOTS\r\n"

static void map_question_send(struct map_question *q, const struct address *address)
{
	const struct topology_settings *s = &q->topology->base.settings;
	struct link_login login = { .proto = 2, .user = s->user, .password = s->password };

	q->links.dialer.tls = s->nodes.tls;
	q->query.login = s->password ? &login : NULL;
	query_start(&q->query, address, NULL, NULL,
	            q->verifies ? SLICE_LIT(CLUSTER_INFO CLUSTER_NODES CLUSTER_SLOTS)
	                        : SLICE_LIT(CLUSTER_INFO CLUSTER_SLOTS),
	            q->verifies ? 3 : 2, ANSWER_MS);
}

static struct map_question *map_question_new(struct cluster_topology *c, const char *address,
                                             bool verifies)
{
	struct map_question *q = xcalloc(1, sizeof(*q));

	q->topology = c;
	q->links = c->links;
	links_init(&q->links);
	q->links.name = xstrdup(address);
	query_init(&q->query, &q->links, map_question_done, q);
	q->number = ++c->nquestions;
	q->candidate = c->candidate;
	q->verifies = verifies;
	list_init(&q->node);
	list_append(&c->questions, &q->node);
	return q;
}

/* --- the search --------------------------------------------------------------------------- */

/* Returns the address of the i-th node to ask; NULL: there is none. The order is: the nodes of
 * the map, then the configured ones; with `seeds_first`, the reverse. */
static const char *candidate_address(const struct cluster_topology *c, size_t i)
{
	const struct topology_settings *s = &c->base.settings;
	size_t nfirst = c->seeds_first ? s->ncluster : c->map.nnodes;
	bool is_seed = c->seeds_first == (i < nfirst);

	if (i >= s->ncluster + c->map.nnodes)
		return NULL;
	if (i >= nfirst)
		i -= nfirst;
	return is_seed ? s->cluster[i] : c->map.nodes[i].address;
}

/* Returns the unverified node that was asked least recently; NULL: there is none. */
static struct slot_map_node *next_unverified(struct cluster_topology *c)
{
	struct slot_map_node *found = NULL;

	for (size_t i = 0; i < c->map.nnodes; i++) {
		struct slot_map_node *n = &c->map.nodes[i];
		if (n->unverified && (!found || n->asked < found->asked))
			found = n;
	}
	return found;
}

/* Asks the node at `address`. `n`: that node, to verify its redirection; or NULL. */
static void ask_node(struct cluster_topology *c, const char *address, struct slot_map_node *n)
{
	struct map_question *q = map_question_new(c, address, n);
	struct address parsed;

	if (n) {
		n->unverified = false;
		n->asked = q->number;
	} else {
		c->candidate++;
	}
	if (address_parse(&parsed, address) < 0)
		map_question_end(q);
	else
		map_question_send(q, &parsed);
}

/* Returns how many nodes hasp must ask in each step to ask all nodes within failover_wait. */
static size_t step_size(const struct cluster_topology *c)
{
	const struct topology_settings *s = &c->base.settings;
	double wait = (double)(s->nodes.failover_wait_ms - ANSWER_MS) / 1000;
	size_t steps = wait > STEP_SECONDS ? (size_t)(wait / STEP_SECONDS) : 1;
	size_t n = (c->map.nnodes + s->ncluster + steps - 1) / steps;

	return n < STEP_MAX ? n : STEP_MAX;
}

static void search_step(struct cluster_topology *c)
{
	size_t n = step_size(c);
	const char *address;

	loop_timer_start(&c->timer, STEP_SECONDS);
	if (!candidate_address(c, c->candidate) && list_empty(&c->questions)) {
		/* No node gave a valid answer. Accept any epoch now: a cluster that was set up
		 * again counts its epochs from the beginning. */
		c->epoch = 0;
		c->candidate = 0;
	}
	while (n-- && (address = candidate_address(c, c->candidate)))
		ask_node(c, address, NULL);
}

static void begin_search(struct cluster_topology *c)
{
	struct slot_map_node *unverified = c->seeds_first ? NULL : next_unverified(c);

	if (!c->wanted)
		slot_map_forget_migrating(&c->map);
	c->wanted = false;
	c->searches = true;
	c->searched_at = c->links.clock();
	if (unverified) {
		loop_timer_start(&c->timer, STEP_SECONDS);
		ask_node(c, unverified->address, unverified);
		return;
	}
	search_step(c);
}

static void cluster_on_timer(void *arg)
{
	struct cluster_topology *c = arg;

	if (c->searches)
		search_step(c);
	else
		begin_search(c);
}

void cluster_topology_refresh(struct topology *t)
{
	struct cluster_topology *c = cluster_of(t);
	double since = c->links.clock() - c->searched_at;

	if (c->wanted)
		return;
	c->wanted = true;
	if (!c->searches)
		loop_timer_start(&c->timer, since >= REFRESH_SECONDS_MIN
		                                    ? 0
		                                    : REFRESH_SECONDS_MIN - since);
}

static void verify(struct cluster_topology *c, struct slot_map_node *n)
{
	if (!n)
		return;
	n->unverified = true;
	cluster_topology_refresh(&c->base);
}

uint64_t cluster_topology_verify(struct topology *t, const struct node *n)
{
	struct cluster_topology *c = cluster_of(t);

	verify(c, slot_map_find(&c->map, n));
	return c->nquestions + 1;
}

/* Ends the search, but not questions that verify a redirection. */
static void end_search(struct cluster_topology *c)
{
	c->searches = c->seeds_first = false;
	list_drain (struct map_question, q, &c->questions, node)
		if (!q->verifies)
			map_question_end(q);
	c->wanted |= next_unverified(c) != NULL;
	loop_timer_start(&c->timer, c->wanted ? REFRESH_SECONDS_MIN : REFRESH_SECONDS);
}

/* Returns the index of `address` in c->failing; c->nfailing: it is not in the list. */
static size_t find_failing(const struct cluster_topology *c, const char *address)
{
	size_t i = 0;

	while (i < c->nfailing && strcmp(c->failing[i], address) != 0)
		i++;
	return i;
}

static void drop_failing(struct cluster_topology *c, size_t i)
{
	free(c->failing[i]);
	c->failing[i] = c->failing[--c->nfailing];
}

/* Forgets failing nodes that hasp no longer asks. */
static void prune_failing(struct cluster_topology *c)
{
	const char *address;
	size_t i = 0, k;

	while (i < c->nfailing) {
		for (k = 0; (address = candidate_address(c, k)); k++)
			if (strcmp(address, c->failing[i]) == 0)
				break;
		if (address)
			i++;
		else
			drop_failing(c, i);
	}
}

/* Logs a node's failure, unless the previous question to the node failed, too. */
static void note_failing(struct cluster_topology *c, const char *address, const char *reason)
{
	if (find_failing(c, address) < c->nfailing)
		return;
	log_warning("cluster_map_failed address=%s reason=%s", address, QUOTE_STR(reason));
	c->failing = xrealloc(c->failing, (c->nfailing + 1) * sizeof(char *));
	c->failing[c->nfailing++] = xstrdup(address);
}

static void note_answer(struct cluster_topology *c, const char *address)
{
	size_t i = find_failing(c, address);

	if (i == c->nfailing)
		return;
	log_info("cluster_map_recovered address=%s", address);
	drop_failing(c, i);
}

static void map_question_failed(struct map_question *q, const char *reason)
{
	struct cluster_topology *c = q->topology;

	note_failing(c, q->links.name, reason);
	map_question_end(q);
	if (q->verifies)
		verify(c, slot_map_find_address(&c->map, q->links.name));
}

static void map_question_answered(struct map_question *q)
{
	struct cluster_topology *c = q->topology;
	const struct slot_map_node *n = q->verifies
	                                        ? slot_map_find_address(&c->map, q->links.name)
	                                        : NULL;
	double now = c->links.clock();

	if (q->epoch > c->epoch)
		c->epoch = q->epoch;
	if (q->is_down)
		c->down_at = now;
	note_answer(c, q->links.name);
	if (!q->verifies)
		c->candidate = c->seeds_first ? 0 : q->candidate;
	map_question_end(q);
	if (c->searches)
		end_search(c);
	report_changes(c);
	prune_failing(c);
	if (n)
		c->ops->on_answered(c->arg, n->node, q->number,
		                    c->down_at > 0 && now - c->down_at < DOWN_SECONDS);
	stop_gone(c);
}

/* Asks for the map if a node has stopped answering, because another node may have its slots.
 * Nothing keeps a node in the map that was about to get slots and is away: it may have left the
 * cluster. */
static void cluster_on_look(void *arg)
{
	struct cluster_topology *c = arg;

	for (size_t i = 0; i < c->map.nnodes; i++) {
		struct slot_map_node *n = &c->map.nodes[i];
		if (!control_is_answering(n->node->control))
			cluster_topology_refresh(&c->base);
		n->naway = control_is_up(n->node->control) ? 0 : n->naway + 1;
		if (n->naway >= AWAY_LOOKS)
			n->importing = false;
	}
	free_stopped(c);
}

/* --- as a topology ------------------------------------------------------------------------ */

static struct node *cluster_node(const struct topology *t, struct slice key)
{
	const struct cluster_topology *c = container_of(t, const struct cluster_topology, base);

	return slot_map_node(&c->map, slot_of_key(key));
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
	if (n)
		cluster_topology_refresh(t);
	else
		(void)cluster_topology_verify(t, asked);
	report_changes(c);
	return n;
}

/* Ends all questions, because their answers would not count any more. */
static void end_questions(struct cluster_topology *c)
{
	struct slot_map_node *n;

	list_drain (struct map_question, q, &c->questions, node) {
		n = q->verifies ? slot_map_find_address(&c->map, q->links.name) : NULL;
		if (n)
			n->unverified = true;
		map_question_end(q);
	}
}

static bool names_others(const struct topology_settings *a, const struct topology_settings *b)
{
	bool is_other = a->ncluster != b->ncluster;

	for (size_t i = 0; !is_other && i < a->ncluster; i++)
		is_other = strcmp(a->cluster[i], b->cluster[i]) != 0;
	return is_other;
}

static void cluster_use(struct topology *t, const struct topology_settings *s)
{
	struct cluster_topology *c = cluster_of(t);
	bool logs_in = topology_must_log_in(&t->settings, s);

	/* The settings name another cluster, which has its own epochs. */
	if (names_others(&t->settings, s))
		c->epoch = 0;
	end_questions(c);
	c->searches = c->wanted = false;
	c->seeds_first = true;
	c->candidate = 0;
	t->settings = *s;
	for (size_t i = 0; i < c->map.nnodes; i++) {
		use_settings(c, c->map.nodes[i].node);
		if (logs_in)
			node_log_in(c->map.nodes[i].node);
	}
	cluster_topology_refresh(t);
}

static void cluster_stop(struct topology *t)
{
	struct cluster_topology *c = cluster_of(t);

	loop_timer_stop(&c->timer);
	loop_timer_stop(&c->look);
	end_questions(c);
	list_shift_each (struct node, n, &c->gone, in_topology) {
		node_stop(n);
		list_append(&c->stopped, &n->in_topology);
	}
}

void cluster_topology_reap(struct topology *t)
{
	struct cluster_topology *c = cluster_of(t);

	list_drain (struct map_question, q, &c->ended, node)
		map_question_free(q);
	list_each (struct node, n, &t->nodes, in_topology)
		links_reap(&n->links);
	list_each (struct node, n, &c->gone, in_topology)
		links_reap(&n->links);
	list_each (struct node, n, &c->stopped, in_topology)
		links_reap(&n->links);
}

static void cluster_topology_free(struct topology *t)
{
	struct cluster_topology *c = cluster_of(t);

	cluster_topology_reap(t);
	slot_map_fini(&c->map);
	free_stopped(c);
	while (c->nfailing)
		drop_failing(c, c->nfailing - 1);
	free(c->failing);
	free(c);
}

static const struct topology_ops cluster_ops = {
	.node = cluster_node,
	.redirected = cluster_redirected,
	.use = cluster_use,
	.stop = cluster_stop,
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
	c->links = *links;
	list_init(&c->base.nodes);
	list_init(&c->gone);
	list_init(&c->stopped);
	list_init(&c->questions);
	list_init(&c->ended);
	slot_map_init(&c->map, &cluster_map_ops, c);
	loop_timer_init(&c->timer, links->dialer.loop, cluster_on_timer, c);
	loop_timer_init(&c->look, links->dialer.loop, cluster_on_look, c);
	loop_timer_repeat(&c->look, LOOK_SECONDS);
	return &c->base;
}
