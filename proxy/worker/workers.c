/* SPDX-License-Identifier: BSD-3-Clause
 *
 * workers: the state that the workers of this process share. The watcher finds the primary for
 * all workers, on a thread of its own; each worker gets a copy of the result in its mailbox.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/fatal.h"
#include "lock/deadlock/wait_graph.h"
#include "lock/events/stats.h"
#include "upstream/watcher.h"
#include "watch/shared_tracker.h"
#include "worker/encryption.h"
#include "worker/worker_internal.h"

static void worker_deliver(struct message *m)
{
	struct worker_cmd *cmd = container_of(m, struct worker_cmd, message);

	if (cmd->owns || !atomic_load(&cmd->worker->ended))
		cmd->run(cmd->worker, cmd);
	free(cmd);
}

void worker_send_cmd(struct worker *w, struct worker_cmd cmd)
{
	struct worker_cmd *copy = xmalloc(sizeof(*copy));

	*copy = cmd;
	copy->message.deliver = worker_deliver;
	copy->worker = w;
	mailbox_post(&w->mailbox, &copy->message);
}

static void workers_use_primary(struct worker *w, struct worker_cmd *cmd)
{
	if (w->topology)
		topology_found(w->topology, &cmd->primary);
	free((char *)cmd->primary.master);
	free((char *)cmd->primary.address);
	free((char *)cmd->primary.why);
}

/* Runs on the watcher's thread. */
static void workers_on_primary(void *arg, const struct found_primary *p)
{
	struct worker_shared *shared = arg;

	for (size_t i = 0; i < shared->nworkers; i++) {
		struct worker_cmd cmd = { .run = workers_use_primary,
			                  .owns = true,
			                  .primary = *p };

		cmd.primary.master = xstrdup_or_null(p->master);
		cmd.primary.address = xstrdup_or_null(p->address);
		cmd.primary.why = xstrdup_or_null(p->why);
		worker_send_cmd(shared->workers[i], cmd);
	}
}

void workers_init(struct worker_shared *shared, const struct config *config)
{
	shared->started_at = (double)time(NULL);
	pthread_mutex_init(&shared->rounds, NULL);
	shared->tracker = shared_tracker_new(clock_now);
	shared->stats = stats_new((size_t)config->workers);
	shared->waits = wait_graph_new();
	proof_secret_init(&shared->secret);
	shared->watcher = watcher_new(workers_on_primary, shared);
}

int workers_watch(struct worker_shared *shared, const struct config *c)
{
	int rc = watcher_start(shared->watcher);

	if (rc == 0)
		workers_reload_watcher(shared, c);
	return rc;
}

void workers_reload_watcher(struct worker_shared *shared, const struct config *c)
{
	watcher_use(shared->watcher, &(struct watcher_settings){
					     .master = c->master,
					     .sentinels = c->sentinels.v,
					     .nsentinels = c->sentinels.n,
					     .address = c->address,
					     .user = c->upstream_user,
					     .password = c->upstream_password,
					     .sentinel_user = c->sentinel_user,
					     .sentinel_password = c->sentinel_password,
					     .tls = encryption_of_servers(c),
					     .timeout_ms = c->connect_timeout_ms,
					     .failover_wait_ms = c->failover_wait_ms,
				     });
}

void workers_end_watch(struct worker_shared *shared)
{
	watcher_stop(shared->watcher);
}

void workers_fini(struct worker_shared *shared)
{
	watcher_free(shared->watcher);
	shared_tracker_free(shared->tracker);
	stats_free(shared->stats);
	wait_graph_free(shared->waits);
	pthread_mutex_destroy(&shared->rounds);
}

bool workers_report(struct worker_shared *shared)
{
	struct buf totals = BUF_INIT;

	stats_report(shared->stats, &totals);
	log_lines(LOG_SEV_INFO, buf_slice(&totals));
	buf_release(&totals);
	return shared_tracker_log(shared->tracker);
}

void workers_each_observed(struct worker_shared *shared, workers_observed_fn *fn, void *arg)
{
	shared_tracker_each_observed(shared->tracker, fn, arg);
}

const char *workers_upstream_trouble(struct worker_shared *shared)
{
	static const char *const reasons[CONTROL_HEALTHS] = {
		[CONTROL_CONNECTING] = "Redis cannot be reached",
		[CONTROL_AWAY] = "Redis cannot be reached",
		[CONTROL_REFUSES] = "Redis refuses the login of [upstream]",
		[CONTROL_SILENT] = "Redis does not answer",
		[CONTROL_BUSY] = "Redis answers that it is not ready",
	};

	for (size_t i = 0; i < shared->nworkers; i++) {
		int health = atomic_load(&shared->upstream[i]);

		if (health != CONTROL_WORKS)
			return reasons[health];
	}
	return NULL;
}

bool workers_login_is_refused(const struct worker_shared *shared)
{
	for (size_t i = 0; i < shared->nworkers; i++)
		if (atomic_load(&shared->upstream[i]) == CONTROL_REFUSES)
			return true;
	return false;
}

const char *workers_not_ready(struct worker_shared *shared)
{
	if (atomic_load(&shared->leaving))
		return "hasp is shutting down";
	if (atomic_load(&shared->lame_duck))
		return "hasp will shut down soon";
	if (atomic_load(&shared->task) == WORKERS_PAUSE)
		return "hasp is paused";
	return workers_upstream_trouble(shared);
}
