/* SPDX-License-Identifier: BSD-3-Clause
 *
 * worker_topology: the Redis servers of a worker. This file makes the topology that the
 * configuration names and, in front of a cluster, the one node that clients see. It notifies
 * waiters and sessions when slots have moved. When a server comes up, moves or may have lost
 * data, this file asks the server for its commands, loads the scripts, and notifies clients and
 * holds.
 */
#include <stdatomic.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/fatal.h"
#include "commands/learn.h"
#include "config/config.h"
#include "lock/guard/check_commands.h"
#include "lock/hold/holds.h"
#include "lock/queue/waiters.h"
#include "lock/scripts/script_call.h"
#include "lock/scripts/script_commands.h"
#include "policy/policy_env.h"
#include "resp/write.h"
#include "upstream/cluster_topology.h"
#include "upstream/watcher.h"
#include "worker/encryption.h"
#include "worker/worker_internal.h"

/* --- one node ---------------------------------------------------------------------------- */

/* Returns a node to which hasp's own connection is up; NULL: there is none. */
static const struct node *node_that_is_up(const struct topology *t)
{
	const struct node *n = topology_next(t, NULL);

	while (n && !control_is_up(n->control))
		n = topology_next(t, n);
	return n;
}

void worker_node_note_health(struct worker *w)
{
	enum control_health best = CONTROL_CONNECTING;

	for (const struct node *n = topology_next(w->topology, NULL); n;
	     n = topology_next(w->topology, n))
		if (control_health(n->control) > best)
			best = control_health(n->control);
	atomic_store_explicit(&w->shared->upstream[w->number], best, memory_order_relaxed);
}

/* Logs, once, which guards cannot work with the commands of this Redis: hasp could not check
 * them at its start, or now uses another server. Such a guard still works for its other
 * commands. */
static void check_guards(struct worker *w)
{
	struct buf faults = BUF_INIT;

	/* All workers learn the same commands, so one of them logs the faults. */
	if (w->number != 0)
		return;
	if (check_commands(w->clients.policy.config, w->clients.policy.commands, &faults) > 0 &&
	    !slice_eq(buf_slice(&faults), buf_slice(&w->unfit)))
		log_lines(LOG_SEV_ERROR, buf_slice(&faults));
	buf_release(&w->unfit);
	w->unfit = faults;
}

void worker_node_recheck_guards(struct worker *w)
{
	buf_release(&w->unfit);
	if (node_that_is_up(w->topology))
		check_guards(w);
}

/* Sends `request` on hasp's own connection to the node, which is up, and frees the request. */
static void call_node(const struct node *n, struct buf *request, control_fn *fn, void *arg)
{
	int rc = control_call(n->control, 0, buf_slice(request), fn, arg);

	HASP_ASSERT(rc == 0);
	buf_release(request);
}

static size_t worker_node_on_commands(void *arg, struct node *n, const redisReply *reply)
{
	struct worker *w = arg;

	(void)n;
	/* Store the health before the log line "upstream_up", because an operator may read the
	 * line and ask /readyz at once. */
	worker_node_note_health(w);
	return learn_commands(w->clients.policy.commands, reply);
}

static void worker_node_on_script_commands(void *arg, const redisReply *reply)
{
	struct buf missing = BUF_INIT;

	(void)arg;
	if (reply && script_commands_missing(reply, &missing) > 0)
		log_error("commands_missing names=\"%.*s\" effect=\"clients get errors from "
		          "locks and guards that need these commands\" hint=\"remove these "
		          "commands from rename-command\"",
		          (int)buf_len(&missing), buf_head(&missing));
	buf_release(&missing);
}

/* Asks whether Redis has all commands that the scripts call. Only worker 0 asks; the answer
 * holds for all workers. */
static void check_scripts(struct worker *w, struct node *n)
{
	const struct policy_env *policy = &w->clients.policy;
	struct buf out = BUF_INIT;

	if (w->number != 0 ||
	    !(policy->rules_enforce || policy->guards_enforce || policy->config->verbs.enabled))
		return;
	script_commands_ask(&out);
	call_node(n, &out, worker_node_on_script_commands, w);
}

static void worker_node_on_unknown_commands(void *arg, const redisReply *reply)
{
	struct worker *w = arg;
	struct policy_env *policy = &w->clients.policy;

	if (unknown_commands_learn(policy->unknown_commands, policy->commands, reply) > 0)
		policy_use_commands(policy);
	clients_know_commands(&w->clients);
	unknown_commands_forget(policy->unknown_commands);
}

void worker_node_query_unknown_commands(struct worker *w)
{
	struct policy_env *policy = &w->clients.policy;
	const struct node *n;
	struct buf out = BUF_INIT;

	if (!unknown_commands_query(policy->unknown_commands, &out, policy->now))
		return;
	n = node_that_is_up(w->topology);
	if (n) {
		call_node(n, &out, worker_node_on_unknown_commands, w);
	} else {
		buf_release(&out);
		worker_node_on_unknown_commands(w, NULL);
	}
}

/* Loads the scripts into Redis when hasp's own connection comes up, before their first call. */
static void worker_node_on_up(void *arg, struct node *n)
{
	struct worker *w = arg;

	/* If HELLO was renamed, only w->cluster shows that this is a cluster's node. */
	script_jobs_set_naming(w->script_jobs, w->cluster || control_is_in_cluster(n->control)
	                                               ? KEY_NAMING_CLUSTER
	                                               : KEY_NAMING_SERVER);
	policy_use_commands(&w->clients.policy);
	check_guards(w);
	check_scripts(w, n);
	for (int i = 0; i < SCRIPT_COUNT; i++) {
		struct buf out = BUF_INIT;
		struct slice argv[] = { SLICE_LIT("SCRIPT"), SLICE_LIT("LOAD"),
			                script_get((enum script_id)i)->text };

		resp_write_request(&out, argv, 3);
		call_node(n, &out, NULL, NULL);
	}
	script_jobs_resume(w->script_jobs, n);
}

static void worker_node_on_moved(void *arg, struct node *n)
{
	struct worker *w = arg;

	(void)n;
	if (!w->cluster)
		clients_follow(&w->clients);
}

static void worker_node_on_released(void *arg, struct node *n)
{
	struct worker *w = arg;

	clients_go_on(&w->clients);
	script_jobs_resume(w->script_jobs, n);
}

static void worker_node_on_alarm(void *arg, struct node *n, enum link_alarm alarm)
{
	struct worker *w = arg;

	(void)n;
	if (w->cluster)
		cluster_topology_refresh(w->topology);
	else
		watcher_ask(w->shared->watcher, alarm);
}

struct served_by {
	const struct worker *worker;
	const struct node *node;
};

static bool is_served_by(void *arg, struct slice key)
{
	const struct served_by *by = arg;

	return topology_node(by->worker->topology, key) == by->node;
}

/* Marks the node's holds as unknown: its primary has changed, and asynchronous replication may
 * have lost the latest locks. */
static void worker_node_on_changed(void *arg, struct node *n)
{
	struct worker *w = arg;
	struct served_by by = { w, n };

	renewal_mark_unknown(w->clients.policy.holds, is_served_by, &by);
}

static const struct node_ops worker_node_ops = {
	.on_commands = worker_node_on_commands,
	.on_up = worker_node_on_up,
	.on_moved = worker_node_on_moved,
	.on_released = worker_node_on_released,
	.on_alarm = worker_node_on_alarm,
	.on_changed = worker_node_on_changed,
};

/* --- the topology ------------------------------------------------------------------------ */

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

	cluster_forget_node(w->cluster, n);
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
	cluster_reap(w->cluster);
	cluster_topology_reap(w->topology);
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
		.failover_wait_ms = config->failover_wait_ms,
		.server_timeout_ms = config->server_timeout_ms,
		.links_per_login = config->links_per_worker,
		.is_alone = !config->master && config->cluster.n == 0,
		.links_max = config_links_of_worker(config),
	};
}

void worker_topology_use(struct worker *w, const struct config *config)
{
	if (w->cluster)
		cluster_set_limits(w->cluster, config->failover_wait_ms,
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
		links_reap(&w->clients.node->links);
		worker_topology_reap_cluster(w);
		cluster_free(w->cluster);
		cluster_front_free(w->clients.node);
	}
	topology_free(w->topology);
	w->topology = NULL;
	free(w->scratch);
}
