/* SPDX-License-Identifier: BSD-3-Clause
 *
 * worker_metrics: adds up the numbers of all workers. A worker's answer is its memory, and then
 * the gauges of each of its nodes.
 */
#include "worker/worker_metrics.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"
#include "lock/hold/holds.h"
#include "lock/queue/waiters.h"
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

static void write_node(struct buf *out, struct worker_node_gauges *g, const char *quorum,
                       const char *name)
{
	snprintf(g->quorum, sizeof(g->quorum), "%s", quorum);
	snprintf(g->name, sizeof(g->name), "%s", name);
	buf_append(out, slice_of(g, sizeof(*g)));
}

static void write_quorum_server(void *arg, const char *quorum, const char *address,
                                enum quorum_server_state state, unsigned nlinks)
{
	static const enum worker_node_state states[] = {
		[QUORUM_SERVER_DOWN] = WORKER_NODE_DOWN,
		[QUORUM_SERVER_UNCOUNTED] = WORKER_NODE_UNCOUNTED,
		[QUORUM_SERVER_UP] = WORKER_NODE_UP,
	};
	struct worker_node_gauges g = { .state = states[state] };

	g.links[LINK_KIND_OWN] = nlinks;
	write_node(arg, &g, quorum, address);
}

static bool gauges_step(const struct worker_view *w, void *arg, struct worker_answer *a)
{
	const struct policy_env *policy = &w->clients->policy;
	const uint64_t memory[WORKER_MEMORIES] = {
		[WORKER_MEMORY_CLIENTS] = w->clients->account.total,
		[WORKER_MEMORY_HOLDS] = holds_nbytes(policy->holds),
		[WORKER_MEMORY_WAITERS] = waiters_nbytes(policy->waiters),
		[WORKER_MEMORY_JOBS] = script_jobs_nbytes(policy->script_jobs),
	};

	(void)arg;
	buf_append(&a->out, slice_of(memory, sizeof(memory)));
	for (struct node *n = topology_next(w->topology, NULL); n;
	     n = topology_next(w->topology, n)) {
		struct worker_node_gauges g = { .state = WORKER_NODE_DOWN };

		/* Skip a node that has no server. */
		if (!n->control || !n->links.name)
			continue;
		if (control_health(n->control) == CONTROL_WORKS)
			g.state = WORKER_NODE_UP;
		for (size_t k = 0; k < LINK_KINDS; k++)
			g.links[k] = n->links.nopen[k];
		control_add_latency(n->control, &g.latency);
		memcpy(g.evicts, control_evicts(n->control), sizeof(g.evicts));
		write_node(&a->out, &g, "", n->links.name);
	}
	if (w->quorum_servers)
		quorum_servers_each(w->quorum_servers, write_quorum_server, &a->out);
	return true;
}

/* --- the sum of all workers --------------------------------------------------------------- */

/* Returns the sum of the node's gauges. Adds a sum if no worker has named the node yet. */
static struct worker_node_gauges *gauges_node(struct worker_gauges *g,
                                              const struct worker_node_gauges *of)
{
	struct worker_node_gauges *n;

	for (size_t i = 0; i < g->nnodes; i++)
		if (strcmp(g->nodes[i].name, of->name) == 0 &&
		    strcmp(g->nodes[i].quorum, of->quorum) == 0)
			return &g->nodes[i];
	g->nodes = xrealloc(g->nodes, (g->nnodes + 1) * sizeof(*g->nodes));
	n = &g->nodes[g->nnodes++];
	*n = (struct worker_node_gauges){ .state = WORKER_NODE_UP };
	memcpy(n->name, of->name, sizeof(n->name));
	memcpy(n->quorum, of->quorum, sizeof(n->quorum));
	return n;
}

static void gauges_add_node(struct worker_gauges *g, const struct worker_node_gauges *of)
{
	struct worker_node_gauges *n = gauges_node(g, of);

	if (of->state < n->state)
		n->state = of->state;
	for (size_t k = 0; k < LINK_KINDS; k++)
		n->links[k] += of->links[k];
	for (size_t k = 0; k < METRICS_BUCKETS; k++)
		n->latency.n[k] += of->latency.n[k];
	n->latency.total_us += of->latency.total_us;
	if (*of->evicts)
		memcpy(n->evicts, of->evicts, sizeof(n->evicts));
}

/* Adds a worker's answer. Copies its structs, because they are not aligned in the buffer. */
static void add_answer(struct worker_gauges *g, struct slice said)
{
	uint64_t memory[WORKER_MEMORIES];
	struct worker_node_gauges node;

	HASP_ASSERT(said.n % sizeof(node) == sizeof(memory));
	memcpy(memory, slice_take(&said, sizeof(memory)).p, sizeof(memory));
	for (size_t k = 0; k < WORKER_MEMORIES; k++)
		g->memory[k] += memory[k];
	while (said.n) {
		memcpy(&node, slice_take(&said, sizeof(node)).p, sizeof(node));
		gauges_add_node(g, &node);
	}
}

void worker_gauges_ask(struct worker_shared *shared, int64_t timeout_ms,
                       struct worker_gauges *g)
{
	struct worker_answers answers;

	*g = (struct worker_gauges){ .asked = shared->nworkers };
	g->answered = workers_ask(shared, gauges_step, NULL, 0, timeout_ms, &answers);
	for (size_t i = 0; i < answers.n; i++)
		if (answers.v[i].whole)
			add_answer(g, buf_slice(&answers.v[i].out));
	worker_answers_fini(&answers);
}

void worker_gauges_fini(struct worker_gauges *g)
{
	free(g->nodes);
	*g = (struct worker_gauges){ .asked = 0 };
}
