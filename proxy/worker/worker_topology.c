/* SPDX-License-Identifier: BSD-3-Clause
 *
 * worker_topology: the Redis servers of a worker. This file makes the topology that the
 * configuration names, and in front of a cluster the one node that clients see instead. It
 * notifies waiters and sessions when slots have moved.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "base/fatal.h"
#include "config/config.h"
#include "lock/queue/waiters.h"
#include "upstream/cluster_topology.h"
#include "worker/encryption.h"
#include "worker/worker_internal.h"

static void worker_topology_on_node(void *arg, struct node *n)
{
	struct worker *w = arg;

	waiters_listen_at(w->clients.policy.waiters, n);
	worker_pause_node(w, n);
}

static void worker_topology_on_changed(void *arg)
{
	struct worker *w = arg;

	cluster_map_changed(w->cluster);
	waiters_rerouted(w->clients.policy.waiters);
}

static void worker_topology_on_gone(void *arg, struct node *n)
{
	struct worker *w = arg;

	cluster_forget_node(w->cluster, n, "it is not a primary of the cluster any more");
}

static void worker_topology_on_stop(void *arg, struct node *n)
{
	struct worker *w = arg;

	waiters_forget(w->clients.policy.waiters, n);
	script_jobs_forget(w->script_jobs, n);
}

static void worker_topology_on_answered(void *arg, const struct node *n, uint64_t question,
                                        bool was_down)
{
	struct worker *w = arg;

	cluster_node_answered(w->cluster, n, question, was_down);
}

static const struct cluster_topology_ops worker_cluster_ops = {
	.on_node = worker_topology_on_node,
	.on_changed = worker_topology_on_changed,
	.on_gone = worker_topology_on_gone,
	.on_stop = worker_topology_on_stop,
	.on_answered = worker_topology_on_answered,
};

static void worker_topology_on_refresh(void *arg)
{
	struct worker *w = arg;

	cluster_topology_refresh(w->topology);
}

static uint64_t worker_topology_on_verify(void *arg, const struct node *n)
{
	struct worker *w = arg;

	return cluster_topology_verify(w->topology, n);
}

void worker_topology_open(struct worker *w, const struct config *config)
{
	struct link_env links = {
		.flusher = &w->flusher,
		.dialer = { .loop = w->loop, .resolver = w->resolver },
		.clock = clock_now,
		.scratch = w->scratch = xmalloc(WORKER_SCRATCH),
		.scratch_size = WORKER_SCRATCH,
		.own_name = w->name,
		.errors = w->clients.counters.link_ends,
		.over_max = &w->clients.counters.limits[LIMIT_LINKS],
	};

	if (config->cluster.n == 0) {
		w->topology = topology_new(&links, &worker_node_ops, w);
		w->clients.node = topology_next(w->topology, NULL);
		return;
	}
	/* Clients see the whole cluster as one node. */
	w->topology = cluster_topology_new(&links, &worker_node_ops, &worker_cluster_ops, w);
	w->cluster = cluster_new(&(struct cluster_opts){
		.flusher = &w->flusher,
		.map = cluster_topology_map(w->topology),
		.commands = w->clients.policy.commands,
		.timers = &w->timers.timers,
		.health = node_health,
		.refresh = worker_topology_on_refresh,
		.verify = worker_topology_on_verify,
		.arg = w,
	});
	w->clients.node = cluster_front_new(w->cluster, &links);
}

void worker_topology_reap_cluster(struct worker *w)
{
	links_reap(&w->clients.node->links);
	cluster_reap(w->cluster);
}

bool worker_topology_is_asked(const struct worker *w)
{
	const struct topology *t = w->topology;

	for (struct node *n = topology_next(t, NULL); n; n = topology_next(t, n))
		if (control_inflight(n->control) > 0)
			return true;
	return false;
}

static struct node_settings node_settings(const struct config *config)
{
	return (struct node_settings){
		.connect_timeout_ms = config->connect_timeout_ms,
		.keepalive_ms = config->tcp_keepalive_ms,
		.user_timeout_ms = config->tcp_user_timeout_ms,
		.tls = encryption_of_servers(config),
		.dns_max_ttl_ms = config->dns_max_ttl_ms,
		.check_delay_ms = config->server_check_delay_ms,
		.failover_wait_ms = config_failover_wait_ms(config),
		.server_timeout_ms = config->server_timeout_ms,
		.links_per_login = config->links_per_worker,
		.is_alone = !config->master && config->cluster.n == 0,
		.links_max = config_links_of_worker(config),
	};
}

void worker_topology_use(struct worker *w, const struct config *config)
{
	if (w->cluster)
		cluster_set_limits(w->cluster, config_failover_wait_ms(config),
		                   (size_t)config->client_output_limit);
	topology_use(w->topology, &(struct topology_settings){
					  .address = config->address,
					  .master = config->master,
					  .cluster = (const char *const *)config->cluster.v,
					  .ncluster = config->cluster.n,
					  .user = config->upstream_user,
					  .password = config->upstream_password,
					  .keeps_login = config->renews,
					  .nodes = node_settings(config),
				  });
}

void worker_topology_stop(struct worker *w)
{
	if (w->cluster)
		cluster_front_stop(w->clients.node);
	topology_stop(w->topology);
}

void worker_topology_free(struct worker *w)
{
	if (w->cluster) {
		worker_topology_reap_cluster(w);
		topology_reap(w->topology);
		cluster_free(w->cluster);
		cluster_front_free(w->clients.node);
	}
	topology_free(w->topology);
	w->topology = NULL;
	free(w->scratch);
}
