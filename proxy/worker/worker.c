/* SPDX-License-Identifier: BSD-3-Clause
 *
 * worker: the beginning and end of a worker's thread; its work before and after the callbacks
 * of each loop iteration, and once a second; the commands of other threads: reload, drain,
 * stop.
 */

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/fatal.h"
#include "commands/learn.h"
#include "config/config.h"
#include "lock/ack/replica_acks.h"
#include "lock/deadlock/deadlock.h"
#include "lock/hold/holds.h"
#include "policy/policy_env.h"
#include "quorum/quorum.h"
#include "quorum/quorum_servers.h"
#include "worker/worker_internal.h"

/* --- rounds ------------------------------------------------------------------------------- */

/* Sends the round (client/client.h) to the next worker that still runs, counting from `at` + 1.
 * The worker that began the round is the last. */
static void worker_round_pass(const struct worker_cmd *cmd, size_t at)
{
	struct round *r = cmd->arg;
	struct worker_shared *shared = r->shared;
	bool sent;

	r->cursor = 0;
	pthread_mutex_lock(&shared->rounds);
	do {
		at = (at + 1) % shared->nworkers;
		sent = !shared->gone[at];
		if (sent)
			worker_send_cmd(shared->workers[at], *cmd);
	} while (!sent && at != r->home);
	pthread_mutex_unlock(&shared->rounds);
	if (!sent)
		r->end(r, false);
}

static void worker_round_run(struct worker *w, struct worker_cmd *cmd)
{
	struct round *r = cmd->arg;
	size_t at = (size_t)w->number;
	bool ended = atomic_load(&w->ended);

	if (!ended && !r->step(r, &w->clients))
		worker_send_cmd(w, *cmd);
	else if (at != r->home)
		worker_round_pass(cmd, at);
	else
		r->end(r, !ended);
}

/* As client_env.begin_round(); `arg`: the worker. */
static void worker_round_begin(void *arg, struct round *r)
{
	struct worker *w = arg;

	r->shared = w->shared;
	r->home = (size_t)w->number;
	worker_round_pass(
		&(struct worker_cmd){ .run = worker_round_run, .owns = true, .arg = r },
		r->home);
}

/* --- the worker --------------------------------------------------------------------------- */

#define SWEEP_SECONDS 1.0
/* hasp's own calls that wait for Redis may use another quarter of memory_limit. */
#define JOBS_SHARE 4
/* Seconds between two sweeps of a draining worker, so that it soon finds clients at rest. */
#define DRAIN_SWEEP_SECONDS 0.05
/* Seconds that a draining worker may take to send the last releases to Redis. */
#define DRAIN_GRACE_SECONDS 1.0
/* Seconds that a client that connected just before hasp drains has for its PROXY header. */
#define DRAIN_HEADER_SECONDS 5.0
/* Seconds that a draining worker has, at least, to hand its clients over to the next hasp. */
#define DRAIN_HANDOVER_SECONDS 1.0

/* True if a draining worker may end: its clients are gone, and Redis has all releases. */
static bool may_leave(struct worker *w)
{
	double now = clock_now();
	bool is_over = admission_is_over(&w->admission, now);

	if (now >= w->leave_at)
		clients_close(&w->clients, "drain_timeout");
	/* Wait for clients that arrive from the previous hasp, and must go to the next hasp. */
	if (!is_over || w->clients.n ||
	    (atomic_load(&w->shared->arriving) && now < w->leave_at))
		return false;
	if (w->drain_grace_at <= 0)
		w->drain_grace_at = now;
	return (!worker_topology_is_asked(w) && !worker_quorum_is_asked(w) &&
	        script_jobs_are_done(w->script_jobs)) ||
	       now >= w->drain_grace_at + DRAIN_GRACE_SECONDS;
}

static void worker_on_sweep(void *arg)
{
	struct worker *w = arg;

	worker_node_note_health(w);
	if (w->clients.quorum)
		quorum_tick(w->clients.quorum);
	clients_sweep(&w->clients);
	clients_trim(&w->clients);
	clients_reap(&w->clients);
	if (w->leave_at > 0 && may_leave(w))
		ev_break(w->loop, EVBREAK_ALL);
	else if (w->leave_at > 0)
		loop_timer_repeat(&w->sweep, DRAIN_SWEEP_SECONDS);
}

/* Runs before a turn's other callbacks. Unlike the clock, the date (ev_now()) may jump. */
static void on_begin(struct ev_loop *loop, struct ev_check *c, int revents)
{
	struct worker *w = c->data;

	(void)revents;
	w->clients.policy.now = clock_now();
	w->clients.policy.date = ev_now(loop);
}

/* Runs before sockets are served: frees what the last turn closed. */
static void on_check(struct ev_loop *loop, struct ev_check *c, int revents)
{
	struct worker *w = c->data;

	(void)loop;
	(void)revents;
	clients_shed(&w->clients);
	clients_reap(&w->clients);
	links_reap(&w->clients.node->links);
	if (w->cluster)
		worker_topology_reap_cluster(w);
	if (w->quorum_servers)
		quorum_servers_reap(w->quorum_servers);
}

/* Runs at the end of a turn, after all other callbacks and before queued requests are sent. */
static void on_turn_end(struct ev_loop *loop, struct ev_prepare *p, int revents)
{
	struct worker *w = p->data;

	(void)loop;
	(void)revents;
	if (w->clients.policy.unknown_commands->n)
		worker_node_query_unknown_commands(w);
}

static void use_config(struct worker *w, struct config *config)
{
	struct config *old = w->clients.policy.config;

	policy_use_config(&w->clients.policy, config);
	w->clients.account.limit = (size_t)(config->memory_limit / config->workers);
	script_jobs_set_max(w->script_jobs, w->clients.account.limit / JOBS_SHARE);
	worker_topology_use(w, config);
	worker_quorum_use(w, config);
	worker_node_recheck_guards(w);
	config_unref(old);
}

static void reload(struct worker *w, struct worker_cmd *cmd)
{
	if (atomic_load(&w->ended))
		config_unref(cmd->config);
	else
		use_config(w, cmd->config);
}

static void drain(struct worker *w, struct worker_cmd *unused)
{
	double seconds = (double)w->clients.policy.config->drain_timeout_ms / 1000, now;

	(void)unused;
	if (w->leave_at > 0)
		return;
	atomic_store(&w->shared->leaving, true);
	if (!w->clients.hand_over)
		worker_handover_refuse(w);
	else if (seconds < DRAIN_HANDOVER_SECONDS)
		seconds = DRAIN_HANDOVER_SECONDS;
	now = clock_now();
	w->leave_at = now + seconds;
	admission_leave(
		&w->admission,
		now + (seconds < DRAIN_HEADER_SECONDS ? seconds : DRAIN_HEADER_SECONDS));
	clients_drain(&w->clients);
	loop_timer_start(&w->sweep, 0);
}

static void stop(struct worker *w, struct worker_cmd *unused)
{
	(void)unused;
	ev_break(w->loop, EVBREAK_ALL);
}

static void turn(struct worker *w, struct worker_cmd *unused)
{
	(void)unused;
	atomic_store(&w->turn_due, false);
}

/* Starts the timers, and the watchers that run before and after the callbacks of each turn. */
static void start_watching(struct worker *w)
{
	loop_timer_init(&w->sweep, w->loop, worker_on_sweep, w);
	loop_timer_repeat(&w->sweep, SWEEP_SECONDS);
	worker_pause_init(w);
	worker_asks_init(w);
	worker_handover_init(w);
	ev_check_init(&w->begin, on_begin);
	ev_set_priority(&w->begin, EV_MAXPRI);
	w->begin.data = w;
	ev_check_start(w->loop, &w->begin);
	ev_check_init(&w->check, on_check);
	w->check.data = w;
	ev_check_start(w->loop, &w->check);
	ev_prepare_init(&w->end, on_turn_end);
	ev_set_priority(&w->end, EV_MAXPRI);
	w->end.data = w;
	ev_prepare_start(w->loop, &w->end);
}

/* holds_hooks.has_rule() */
static bool has_rule(void *arg, struct slice key)
{
	const struct client_env *env = arg;

	return match_enforced_rule(env->policy.matcher, key) != NULL;
}

struct worker *worker_new(int number, struct config *config,
                          const struct listen_socket *sockets, size_t nsockets,
                          struct worker_shared *shared)
{
	struct worker *w = xcalloc(1, sizeof(*w));

	w->number = number;
	w->shared = shared;
	HASP_ASSERT(shared->nworkers < WORKERS_MAX);
	w->loop = watch_loop_new(EVBACKEND_EPOLL | EVFLAG_NOENV);
	if (!w->loop)
		w->loop = watch_loop_new(EVFLAG_AUTO);
	HASP_ASSERT(w->loop);
	loop_timers_init(&w->timers, w->loop);
	mailbox_init(&w->mailbox, w->loop);
	stream_flusher_init(&w->flusher, w->loop);
	w->resolver = resolver_new(&w->mailbox);
	snprintf(w->name, sizeof(w->name), "hasp-%d", number);
	w->clients = (struct client_env){
		.loop = w->loop,
		.flusher = &w->flusher,
		.policy = {
			.tracker = shared->tracker,
			.stats = shared->stats,
			.worker = (size_t)number,
			.now = clock_now(),
			.date = ev_now(w->loop),
		},
		.worker = number,
		.scratch = xmalloc(WORKER_SCRATCH),
		.scratch_size = WORKER_SCRATCH,
		.nclients = &shared->clients,
		.is_alone = config->workers == 1,
		.begin_round = worker_round_begin,
		.arg = w,
	};
	policy_init(&w->clients.policy);
	worker_topology_open(w, config);
	w->script_jobs = script_jobs_new(&w->timers.timers, w->topology, &shared->secret);
	w->clients.policy.script_jobs = w->script_jobs;
	/* For a single server, worker_topology.c sets the key naming when the server is up. */
	if (w->cluster)
		script_jobs_set_naming(w->script_jobs, KEY_NAMING_CLUSTER);
	clients_init(&w->clients);
	w->clients.policy.holds = holds_new(&w->timers.timers, w->script_jobs);
	holds_set_hooks(w->clients.policy.holds,
	                &(struct holds_hooks){ client_describe_holder, client_lost_hold,
	                                       holders_log_event, has_rule, &w->clients });
	holds_set_releases(w->clients.policy.holds, &shared->releases);
	w->clients.replica_acks = replica_acks_new(&w->timers.timers, w->topology,
	                                           w->script_jobs);
	w->clients.policy.read_sets = read_sets_new(w->script_jobs, client_describe_reader);
	w->clients.policy.waiters = waiters_new(&w->timers.timers, w->topology, w->script_jobs,
	                                        &shared->board, &exchange_waiter_ops);
	w->clients.deadlocks = deadlocks_new(&w->timers.timers, w->script_jobs, shared->waits);
	worker_quorum_open(w, config);
	use_config(w, config_ref(config));
	admission_open(&w->admission, &w->clients, sockets, nsockets);
	start_watching(w);
	pthread_mutex_lock(&shared->rounds);
	shared->workers[shared->nworkers++] = w;
	pthread_mutex_unlock(&shared->rounds);
	return w;
}

static void worker_free(struct worker *w)
{
	admission_close(&w->admission);
	worker_handover_fini(w);
	clients_reap(&w->clients);
	/* Stop hasp's own calls and the links first: holds and waiters get the last replies. */
	script_jobs_stop(w->script_jobs);
	worker_quorum_close(w);
	worker_topology_stop(w);
	replica_acks_free(w->clients.replica_acks);
	deadlocks_free(w->clients.deadlocks);
	waiters_free(w->clients.policy.waiters);
	holds_free(w->clients.policy.holds);
	read_sets_free(w->clients.policy.read_sets);
	script_jobs_free(w->script_jobs);
	worker_topology_free(w);
	loop_timers_fini(&w->timers);
	resolver_free(w->resolver);
	loop_timer_stop(&w->sweep);
	loop_timer_stop(&w->pause.look);
	worker_asks_fini(w);
	ev_check_stop(w->loop, &w->begin);
	ev_check_stop(w->loop, &w->check);
	ev_prepare_stop(w->loop, &w->end);
	mailbox_fini(&w->mailbox);
	stream_flusher_fini(&w->flusher);
	watch_loop_free(w->loop);
	config_unref(w->clients.policy.config);
	request_args_fini(&w->clients.args);
	freelist_fini(&w->clients.inputs);
	freelist_fini(&w->clients.link_waits);
	client_list_fini(&w->clients);
	buf_release(&w->unfit);
	policy_fini(&w->clients.policy);
	free(w->clients.scratch);
	free(w);
}

static void *worker_main(void *arg)
{
	struct worker *w = arg;

	ev_run(w->loop, 0);
	/* Close clients before their rounds end, because clients point to their rounds. */
	clients_close(&w->clients, "hasp is shutting down");
	/* Rounds skip this worker from now on. Pass on the rounds in its mailbox, because
	 * clients of other workers wait for them. */
	pthread_mutex_lock(&w->shared->rounds);
	w->shared->gone[w->number] = true;
	pthread_mutex_unlock(&w->shared->rounds);
	atomic_store(&w->ended, true);
	mailbox_deliver(&w->mailbox);
	atomic_fetch_sub(&w->shared->running, 1);
	return NULL;
}

int worker_start(struct worker *w)
{
	int rc;

	atomic_fetch_add(&w->shared->running, 1);
	rc = pthread_create(&w->thread, NULL, worker_main, w);
	if (rc != 0)
		atomic_fetch_sub(&w->shared->running, 1);
	else
		(void)pthread_setname_np(w->thread, w->name);
	return rc;
}

void worker_reload(struct worker *w, struct config *config)
{
	worker_send_cmd(w, (struct worker_cmd){
				   .run = reload, .owns = true, .config = config_ref(config) });
}

void worker_take_over(struct worker *w, int channel)
{
	atomic_fetch_add(&w->shared->arriving, 1);
	worker_send_cmd(w, (struct worker_cmd){ .run = worker_handover_take,
	                                        .owns = true,
	                                        .channel = channel });
}

void worker_hand_over(struct worker *w, int channel)
{
	worker_send_cmd(w, (struct worker_cmd){ .run = worker_handover_give,
	                                        .owns = true,
	                                        .channel = channel });
}

void worker_drain(struct worker *w)
{
	worker_send_cmd(w, (struct worker_cmd){ .run = drain });
}

void worker_stop(struct worker *w)
{
	worker_send_cmd(w, (struct worker_cmd){ .run = stop });
}

bool worker_has_turned(struct worker *w)
{
	if (atomic_load(&w->ended))
		return true;
	if (atomic_load(&w->turn_due))
		return false;
	atomic_store(&w->turn_due, true);
	worker_send_cmd(w, (struct worker_cmd){ .run = turn });
	return true;
}

void worker_join(struct worker *w)
{
	pthread_join(w->thread, NULL);
	worker_free(w);
}
