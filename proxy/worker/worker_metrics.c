/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A worker's answer is a struct told; after it, for each of its nodes, a struct told_node, the
 * node's name, and its quorum's.
 */
#include "worker/worker_metrics.h"

#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"
#include "lock/hold/holds.h"
#include "lock/queue/waiters.h"
#include "lock/scripts/script_job.h"
#include "quorum/quorum_servers.h"
#include "worker/worker_ask.h"
#include "worker/worker_internal.h"

/* --- counters ----------------------------------------------------------------------------- */

void workers_count(const struct worker_shared *shared, struct worker_counts *counts)
{
	*counts = (struct worker_counts){ .jobs_given_up = 0 };
	for (size_t i = 0; i < shared->nworkers; i++) {
		const struct worker *w = shared->workers[i];

		for (size_t k = 0; k < COMMAND_OUTCOMES; k++)
			counts->commands[k] += metrics_counted(
				&w->clients.counters.commands[k]);
		for (size_t k = 0; k < LIMITS; k++)
			counts->limits[k] += metrics_counted(&w->clients.counters.limits[k]);
		for (size_t k = 0; k < LINK_ENDS; k++)
			counts->link_ends[k] += metrics_counted(
				&w->clients.counters.link_ends[k]);
		counts->accept_failures += metrics_counted(
			&w->clients.counters.accept_failures);
		for (size_t k = 0; k < STREAM_KINDS; k++) {
			const struct stream_bytes *b = &w->flusher.bytes[k];

			counts->bytes[k].read += metrics_counted(&b->read);
			counts->bytes[k].written += metrics_counted(&b->written);
		}
		counts->jobs_given_up += script_jobs_given_up(w->script_jobs);
	}
}

/* --- a worker's answer -------------------------------------------------------------------- */

struct told {
	uint64_t memory[WORKER_MEMORIES];
	size_t nnodes;
};

struct told_node {
	enum worker_node_state state;
	uint64_t links[LINK_KINDS];
	struct metrics_sums latency;
	char evicts[EVICTION_POLICY_MAX];
	size_t name_len, quorum_len;
};

static void tell_node(const struct node *n, struct buf *out)
{
	struct told_node told = { .state = control_health(n->control) == CONTROL_WORKS
		                                   ? WORKER_NODE_UP
		                                   : WORKER_NODE_DOWN };

	for (size_t k = 0; k < LINK_KINDS; k++)
		told.links[k] = n->links.nopen[k];
	control_add_latency(n->control, &told.latency);
	memcpy(told.evicts, control_evicts(n->control), sizeof(told.evicts));
	told.name_len = strlen(n->links.name);
	buf_append(out, slice_of((const char *)&told, sizeof(told)));
	buf_append(out, slice_of(n->links.name, told.name_len));
}

static void tell_quorum_server(void *arg, const char *quorum, const char *address,
                               enum quorum_server_state state, unsigned nlinks)
{
	static const enum worker_node_state states[] = {
		[QUORUM_SERVER_DOWN] = WORKER_NODE_DOWN,
		[QUORUM_SERVER_UNCOUNTED] = WORKER_NODE_UNCOUNTED,
		[QUORUM_SERVER_UP] = WORKER_NODE_UP,
	};
	struct told_node told = { .state = states[state] };
	struct buf *out = arg;

	told.links[LINK_KIND_OWN] = nlinks;
	told.name_len = strlen(address);
	told.quorum_len = strlen(quorum);
	buf_append(out, slice_of((const char *)&told, sizeof(told)));
	buf_puts(out, address);
	buf_puts(out, quorum);
}

/* True if the node stands for a server, which has a name. */
static bool gauges_has_name(const struct node *n)
{
	return n->control && n->links.name;
}

static bool tell_gauges(const struct worker_view *w, void *arg, struct worker_answer *a)
{
	const struct policy_env *policy = &w->clients->policy;
	struct told told = { .nnodes = 0 };

	(void)arg;
	if (w->quorum_servers)
		told.nnodes = quorum_servers_n(w->quorum_servers);
	told.memory[WORKER_MEMORY_CLIENTS] = w->clients->account.total;
	told.memory[WORKER_MEMORY_HOLDS] = holds_nbytes(policy->holds);
	told.memory[WORKER_MEMORY_WAITERS] = waiters_nbytes(policy->waiters);
	told.memory[WORKER_MEMORY_JOBS] = script_jobs_nbytes(read_sets_jobs(policy->read_sets));
	for (struct node *n = topology_next(w->topology, NULL); n;
	     n = topology_next(w->topology, n))
		told.nnodes += gauges_has_name(n);
	buf_append(&a->out, slice_of((const char *)&told, sizeof(told)));
	for (struct node *n = topology_next(w->topology, NULL); n;
	     n = topology_next(w->topology, n))
		if (gauges_has_name(n))
			tell_node(n, &a->out);
	if (w->quorum_servers)
		quorum_servers_each(w->quorum_servers, tell_quorum_server, &a->out);
	return true;
}

/* --- the sum of all workers --------------------------------------------------------------- */

/* Returns the gauges of that node, which are new if no worker has named it yet. */
static struct worker_node_gauges *gauges_node(struct worker_gauges *g, struct slice name,
                                              struct slice quorum)
{
	struct worker_node_gauges *n;

	for (size_t i = 0; i < g->nnodes; i++)
		if (slice_eq(slice_str(g->nodes[i].name), name) &&
		    slice_eq(slice_str(g->nodes[i].quorum), quorum))
			return &g->nodes[i];
	g->nodes = xrealloc(g->nodes, (g->nnodes + 1) * sizeof(*g->nodes));
	n = &g->nodes[g->nnodes++];
	*n = (struct worker_node_gauges){ .name = xmemdup(name.p, name.n),
		                          .quorum = xmemdup(quorum.p, quorum.n),
		                          .state = WORKER_NODE_UP };
	return n;
}

static void gauges_add_node(struct worker_gauges *g, const struct told_node *told,
                            struct slice name, struct slice quorum)
{
	struct worker_node_gauges *n = gauges_node(g, name, quorum);

	if (told->state < n->state)
		n->state = told->state;
	for (size_t k = 0; k < LINK_KINDS; k++)
		n->links[k] += told->links[k];
	for (size_t k = 0; k < METRICS_BUCKETS; k++)
		n->latency.n[k] += told->latency.n[k];
	n->latency.total_us += told->latency.total_us;
	if (*told->evicts)
		memcpy(n->evicts, told->evicts, sizeof(n->evicts));
}

/* Copies, because nothing in the buffer is aligned. */
static void take_told(struct slice *from, void *to, size_t n)
{
	HASP_ASSERT(from->n >= n);
	memcpy(to, slice_take(from, n).p, n);
}

static void add_answer(struct worker_gauges *g, struct slice said)
{
	struct told told;

	take_told(&said, &told, sizeof(told));
	for (size_t k = 0; k < WORKER_MEMORIES; k++)
		g->memory[k] += told.memory[k];
	for (size_t i = 0; i < told.nnodes; i++) {
		struct told_node node;
		struct slice name;

		take_told(&said, &node, sizeof(node));
		name = slice_take(&said, node.name_len);
		gauges_add_node(g, &node, name, slice_take(&said, node.quorum_len));
	}
}

void worker_gauges_ask(struct worker_shared *shared, int64_t timeout_ms,
                       struct worker_gauges *g)
{
	struct worker_answers answers;

	*g = (struct worker_gauges){ .asked = shared->nworkers };
	g->answered = workers_ask(shared, tell_gauges, NULL, 0, timeout_ms, &answers);
	for (size_t i = 0; i < answers.n; i++)
		if (answers.v[i].whole)
			add_answer(g, buf_slice(&answers.v[i].out));
	worker_answers_fini(&answers);
}

void worker_gauges_fini(struct worker_gauges *g)
{
	for (size_t i = 0; i < g->nnodes; i++) {
		free(g->nodes[i].name);
		free(g->nodes[i].quorum);
	}
	free(g->nodes);
	*g = (struct worker_gauges){ .asked = 0 };
}
