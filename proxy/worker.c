/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker.h"

#include <ev.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "admission.h"
#include "base/clock.h"
#include "base/fatal.h"
#include "base/log.h"
#include "client/client.h"
#include "cluster/cluster.h"
#include "commands/learn.h"
#include "commands/unmet.h"
#include "config/config.h"
#include "lock/ack/replica_acks.h"
#include "lock/guard/check_commands.h"
#include "lock/hold/holds.h"
#include "lock/observe/observation.h"
#include "lock/queue/waiters.h"
#include "lock/scripts/script.h"
#include "lock/scripts/script_commands.h"
#include "lock/scripts/script_job.h"
#include "net/loop_timers.h"
#include "net/mailbox.h"
#include "net/resolve.h"
#include "net/stream.h"
#include "net/watch.h"
#include "policy/policy.h"
#include "resp/write.h"
#include "upstream/cluster_topology.h"
#include "upstream/topology.h"
#include "upstream/watcher.h"

/* Reading in pieces of 256 KB measured best for values of 16 KB and up in replies, and for
 * those of 1 MB in requests; a client reads less at once where requests are short. */
#define REPLY_SCRATCH ((size_t)256 * 1024)
#define REQUEST_SCRATCH ((size_t)256 * 1024)
#define SWEEP_SECONDS 1.0
/* Of memory_limit, so much more is for calls of hasp's own that wait for Redis: a quarter. */
#define JOBS_SHARE 4
/* While draining, clients at rest should not have to wait for a second. */
#define DRAIN_SWEEP_SECONDS 0.05
/* What is still to be said to Redis (releases) when the clients are gone. */
#define DRAIN_GRACE_SECONDS 1.0

struct worker {
	int number;
	struct worker_shared *shared;
	pthread_t thread;
	struct ev_loop *loop;
	struct loop_timers timers;
	struct mailbox mailbox;
	struct stream_flusher flusher;
	struct resolver *resolver;
	char name[32]; /* how the names of its own connections to Redis begin */
	char *scratch; /* replies are read into it */
	struct topology *topology;
	struct cluster *cluster; /* NULL: the topology is none */
	struct client_env clients;
	struct script_jobs *script_jobs;
	struct admission admission;
	struct ev_timer sweep;
	struct ev_check begin, check;
	double leave_at; /* clock_now(); 0: not draining */
	double drain_grace_at; /* clock_now() when the last client was gone; 0: not yet */
	struct buf unfit; /* what was last said of guards that cannot work; empty: nothing */
};

/* Something another thread wants of a worker. */
struct worker_cmd {
	struct message message;
	struct worker *worker;
	struct config *config; /* for a reload */
	void (*run)(struct worker *w, struct config *config);
};

static void worker_deliver(struct message *l)
{
	struct worker_cmd *o = container_of(l, struct worker_cmd, message);

	o->run(o->worker, o->config);
	free(o);
}

static void worker_send_cmd(struct worker *w, struct config *config,
                            void (*run)(struct worker *, struct config *))
{
	struct worker_cmd *o = xcalloc(1, sizeof(*o));

	o->message.deliver = worker_deliver;
	o->worker = w;
	o->config = config;
	o->run = run;
	mailbox_post(&w->mailbox, &o->message);
}

static void on_client_gone(void *arg)
{
	struct worker *w = arg;

	atomic_fetch_sub(&w->shared->clients, 1);
}

/* Before hasp served, Redis may not have answered, and it may be another one by now. All that
 * can still be done is to say so, once: a guard's other commands are guarded, and clients go
 * on. */
static void worker_check_guards(struct worker *w)
{
	struct buf faults = BUF_INIT;

	/* What one of them learns, all do. */
	if (w->number != 0)
		return;
	if (check_commands(w->clients.policy.config, w->clients.policy.commands, &faults) > 0 &&
	    !slice_eq(buf_slice(&faults), buf_slice(&w->unfit)))
		log_lines(LOG_SEV_ERROR, buf_slice(&faults));
	buf_release(&w->unfit);
	w->unfit = faults;
}

static size_t worker_on_commands(void *arg, struct node *n, const redisReply *reply)
{
	struct worker *w = arg;

	(void)n;
	return learn_commands(w->clients.policy.commands, reply);
}

static void worker_on_script_commands(void *arg, const redisReply *reply)
{
	struct buf missing = BUF_INIT;

	(void)arg;
	if (reply && script_commands_missing(reply, &missing) > 0)
		log_error("commands_missing names=\"%.*s\" effect=\"locks and guards that need "
		          "them answer by errors\" hint=\"rename-command must leave them "
		          "their names\"",
		          (int)buf_len(&missing), buf_head(&missing));
	buf_release(&missing);
}

/* What one worker is told, all are. */
static void worker_check_scripts(struct worker *w, struct node *n)
{
	const struct policy_env *policy = &w->clients.policy;
	struct buf out = BUF_INIT;
	int rc;

	if (w->number != 0 ||
	    !(policy->rules_enforce || policy->guards_enforce || policy->config->verbs.enabled))
		return;
	script_commands_ask(&out);
	rc = control_call(n->control, 0, buf_slice(&out), worker_on_script_commands, w);
	/* It is up, or this would not run. */
	HASP_ASSERT(rc == 0);
	buf_release(&out);
}

static void worker_on_unmet(void *arg, const redisReply *reply)
{
	struct worker *w = arg;
	struct policy_env *policy = &w->clients.policy;

	if (!reply)
		unmet_forget(policy->unmet);
	else if (unmet_learn(policy->unmet, policy->commands, reply) > 0)
		policy_use_commands(policy);
}

/* NULL: hasp's own connections are down. */
static const struct node *node_that_is_up(const struct topology *t)
{
	const struct node *n = topology_next(t, NULL);

	while (n && !control_is_up(n->control))
		n = topology_next(t, n);
	return n;
}

/* Asks Redis about names that clients have sent and nobody knows: until it answers, such
 * commands pass as they came. */
static void worker_ask_about_unmet(struct worker *w)
{
	struct policy_env *policy = &w->clients.policy;
	const struct node *n;
	struct buf out = BUF_INIT;
	int rc;

	if (!unmet_is_due(policy->unmet, policy->now) || !(n = node_that_is_up(w->topology)))
		return;
	unmet_ask(policy->unmet, &out, policy->now);
	rc = control_call(n->control, 0, buf_slice(&out), worker_on_unmet, w);
	HASP_ASSERT(rc == 0);
	buf_release(&out);
}

/* hasp's own connection is there: Redis shall know the scripts before they are called. */
static void worker_on_node_up(void *arg, struct node *n)
{
	struct worker *w = arg;

	script_jobs_set_naming(w->script_jobs, control_is_in_cluster(n->control)
	                                               ? KEY_NAMING_CLUSTER
	                                               : KEY_NAMING_SERVER);
	policy_use_commands(&w->clients.policy);
	worker_check_guards(w);
	worker_check_scripts(w, n);
	for (int i = 0; i < SCRIPT_COUNT; i++) {
		struct buf out = BUF_INIT;
		struct slice argv[] = { SLICE_LIT("SCRIPT"), SLICE_LIT("LOAD"),
			                script_get((enum script_id)i)->text };
		int rc;

		resp_write_request(&out, argv, 3);
		rc = control_call(n->control, 0, buf_slice(&out), NULL, NULL);
		/* It is up, or this would not run. */
		HASP_ASSERT(rc == 0);
		buf_release(&out);
	}
	script_jobs_resume(w->script_jobs, n);
}

static void worker_on_node_moved(void *arg, struct node *n)
{
	struct worker *w = arg;

	(void)n;
	if (!w->cluster)
		clients_follow(&w->clients);
}

static void worker_on_alarm(void *arg, struct node *n, enum link_alarm alarm)
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

/* Replication is asynchronous: the locks that were taken last may be lost. */
static void worker_on_node_changed(void *arg, struct node *n)
{
	struct worker *w = arg;
	struct served_by by = { w, n };

	renewal_mark_unknown(w->clients.policy.holds, is_served_by, &by);
}

static const struct node_ops worker_node_ops = {
	.on_commands = worker_on_commands,
	.on_up = worker_on_node_up,
	.on_moved = worker_on_node_moved,
	.on_alarm = worker_on_alarm,
	.on_changed = worker_on_node_changed,
};

/* --- the primary ------------------------------------------------------------------------- */

/* What the watcher tells a worker; the strings are its own. */
struct primary_message {
	struct message message;
	struct worker *worker;
	struct found_primary primary;
};

static void worker_on_primary(struct message *l)
{
	struct primary_message *m = container_of(l, struct primary_message, message);

	topology_found(m->worker->topology, &m->primary);
	free((char *)m->primary.master);
	free((char *)m->primary.address);
	free((char *)m->primary.why);
	free(m);
}

static char *copy_string(const char *s)
{
	return s ? xstrdup(s) : NULL;
}

/* On the watcher's thread. */
static void workers_on_primary(void *arg, const struct found_primary *p)
{
	struct worker_shared *shared = arg;

	for (size_t i = 0; i < shared->nworkers; i++) {
		struct primary_message *m = xcalloc(1, sizeof(*m));
		m->message.deliver = worker_on_primary;
		m->worker = shared->workers[i];
		m->primary.master = copy_string(p->master);
		m->primary.address = copy_string(p->address);
		m->primary.why = copy_string(p->why);
		m->primary.anew = p->anew;
		mailbox_post(&m->worker->mailbox, &m->message);
	}
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
					     .timeout_ms = c->connect_timeout_ms,
				     });
}

/* --- a cluster --------------------------------------------------------------------------- */

static void worker_on_cluster_node(void *arg, struct node *n)
{
	struct worker *w = arg;

	waiters_listen_at(w->clients.policy.waiters, n);
}

static void worker_on_cluster_changed(void *arg)
{
	struct worker *w = arg;

	cluster_map_changed(w->cluster);
	waiters_rerouted(w->clients.policy.waiters);
}

static void worker_on_cluster_gone(void *arg, struct node *n)
{
	struct worker *w = arg;

	cluster_forget_node(w->cluster, n, "it is no primary of the cluster any more");
}

static const struct cluster_topology_ops worker_cluster_ops = {
	.on_node = worker_on_cluster_node,
	.on_changed = worker_on_cluster_changed,
	.on_gone = worker_on_cluster_gone,
};

static void worker_on_cluster_refresh(void *arg)
{
	struct worker *w = arg;

	cluster_topology_refresh(w->topology);
}

/* What clients see is no node, but the whole cluster. */
static void open_topology(struct worker *w, const struct config *config)
{
	struct link_env links = {
		.flusher = &w->flusher,
		.dialer = { .loop = w->loop, .resolver = w->resolver },
		.clock = clock_now,
		.scratch = w->scratch,
		.scratch_size = REPLY_SCRATCH,
		.own_name = w->name,
	};

	if (config->cluster.n == 0) {
		w->topology = topology_new(&links, &worker_node_ops, w);
		w->clients.node = topology_next(w->topology, NULL);
		return;
	}
	w->topology = cluster_topology_new(&links, &worker_node_ops, &worker_cluster_ops, w);
	w->cluster = cluster_new(&(struct cluster_how){
		.flusher = &w->flusher,
		.map = cluster_topology_map(w->topology),
		.commands = w->clients.policy.commands,
		.timers = &w->timers.timers,
		.refresh = worker_on_cluster_refresh,
		.arg = w,
	});
	w->clients.node = cluster_front_new(w->cluster, &links);
}

static void reap_links(struct worker *w)
{
	if (w->cluster) {
		links_reap(&w->clients.node->links);
		cluster_reap(w->cluster);
	}
	topology_reap(w->topology);
}

/* Does a node owe an answer to hasp itself? */
static bool is_answer_due(const struct topology *t)
{
	for (struct node *n = topology_next(t, NULL); n; n = topology_next(t, n))
		if (control_inflight(n->control) > 0)
			return true;
	return false;
}

/* A worker that drains leaves when its clients are gone and Redis has been told what they
 * leave behind. */
static bool may_leave(struct worker *w)
{
	double now = clock_now();

	if (now >= w->leave_at)
		clients_close(&w->clients, "drain_timeout");
	if (w->clients.n)
		return false;
	if (w->drain_grace_at <= 0)
		w->drain_grace_at = now;
	return (!is_answer_due(w->topology) && script_jobs_are_done(w->script_jobs)) ||
	       now >= w->drain_grace_at + DRAIN_GRACE_SECONDS;
}

static void worker_on_sweep(struct ev_loop *loop, struct ev_timer *t, int revents)
{
	struct worker *w = t->data;

	(void)revents;
	clients_sweep(&w->clients);
	clients_trim(&w->clients);
	clients_reap(&w->clients);
	if (w->leave_at > 0 && may_leave(w))
		ev_break(loop, EVBREAK_ALL);
}

/* Before all other callbacks of a turn. The loop's own time is the machine's date, which may
 * jump. */
static void on_begin(struct ev_loop *loop, struct ev_check *c, int revents)
{
	struct worker *w = c->data;

	(void)revents;
	w->clients.policy.now = clock_now();
	w->clients.policy.date = ev_now(loop);
}

/* Behind the callbacks of each turn: what they closed can be freed. */
static void on_check(struct ev_loop *loop, struct ev_check *c, int revents)
{
	struct worker *w = c->data;

	(void)loop;
	(void)revents;
	worker_ask_about_unmet(w);
	clients_shed(&w->clients);
	clients_reap(&w->clients);
	reap_links(w);
}

static struct node_settings node_settings(const struct config *config)
{
	return (struct node_settings){
		.connect_timeout_ms = config->connect_timeout_ms,
		.keepalive_ms = config->tcp_keepalive_ms,
		.user_timeout_ms = config->tcp_user_timeout_ms,
		.dns_max_ttl_ms = config->dns_max_ttl_ms,
		.check_delay_ms = config->server_check_delay_ms,
		.failover_wait_ms = config_failover_wait_ms(config),
		.server_timeout_ms = config->server_timeout_ms,
		.links_per_login = config->links_per_worker,
		.is_alone = !config->master && config->cluster.n == 0,
		.links_max = (config->links_max + config->workers - 1) / config->workers,
	};
}

static void use_upstream(struct worker *w, const struct config *config)
{
	topology_use(w->topology, &(struct topology_settings){
					  .address = config->address,
					  .master = config->master,
					  .cluster = (const char *const *)config->cluster.v,
					  .ncluster = config->cluster.n,
					  .user = config->upstream_user,
					  .password = config->upstream_password,
					  .nodes = node_settings(config),
				  });
}

static void use_cluster_limits(struct cluster *c, const struct config *config)
{
	cluster_set_output_limit(c, (size_t)config->client_output_limit);
	cluster_set_failover_wait(c, config_failover_wait_ms(config));
}

static void use_config(struct worker *w, struct config *config)
{
	struct config *old = w->clients.policy.config;

	policy_use_config(&w->clients.policy, config);
	w->clients.account.limit = (size_t)(config->memory_limit / config->workers);
	script_jobs_set_max(w->script_jobs, w->clients.account.limit / JOBS_SHARE);
	if (w->cluster)
		use_cluster_limits(w->cluster, config);
	use_upstream(w, config);
	buf_release(&w->unfit);
	if (node_that_is_up(w->topology))
		worker_check_guards(w);
	config_unref(old);
}

static void drain(struct worker *w, struct config *unused)
{
	(void)unused;
	if (w->leave_at > 0)
		return;
	admission_close(&w->admission);
	clients_drain(&w->clients);
	w->leave_at = clock_now() + (double)w->clients.policy.config->drain_timeout_ms / 1000;
	ev_timer_stop(w->loop, &w->sweep);
	ev_timer_set(&w->sweep, 0, DRAIN_SWEEP_SECONDS);
	ev_timer_start(w->loop, &w->sweep);
}

static void stop(struct worker *w, struct config *unused)
{
	(void)unused;
	ev_break(w->loop, EVBREAK_ALL);
}

void workers_init(struct worker_shared *shared, const struct config *config)
{
	shared->observers = observers_new(clock_now);
	proof_secret_init(&shared->secret, config->shared_secret);
	shared->watcher = watcher_new(workers_on_primary, shared);
}

void workers_end_watch(struct worker_shared *shared)
{
	watcher_stop(shared->watcher);
}

void workers_fini(struct worker_shared *shared)
{
	watcher_free(shared->watcher);
	observers_free(shared->observers);
}

bool workers_report(struct worker_shared *shared)
{
	return observers_report(shared->observers);
}

/* What comes by itself, and what is done around the callbacks of each turn. */
static void start_watching(struct worker *w)
{
	ev_timer_init(&w->sweep, worker_on_sweep, SWEEP_SECONDS, SWEEP_SECONDS);
	w->sweep.data = w;
	ev_timer_start(w->loop, &w->sweep);
	ev_check_init(&w->begin, on_begin);
	ev_set_priority(&w->begin, EV_MAXPRI);
	w->begin.data = w;
	ev_check_start(w->loop, &w->begin);
	ev_check_init(&w->check, on_check);
	w->check.data = w;
	ev_check_start(w->loop, &w->check);
}

struct worker *worker_new(int number, struct config *config, const int *fds,
                          const char *const *entries, size_t nfds, struct worker_shared *shared)
{
	struct worker *w = xcalloc(1, sizeof(*w));

	w->number = number;
	w->shared = shared;
	HASP_ASSERT(shared->nworkers < WORKERS_MAX);
	shared->workers[shared->nworkers++] = w;
	w->loop = watch_loop_new(EVBACKEND_EPOLL | EVFLAG_NOENV);
	if (!w->loop)
		w->loop = watch_loop_new(EVFLAG_AUTO);
	HASP_ASSERT(w->loop);
	loop_timers_init(&w->timers, w->loop);
	mailbox_init(&w->mailbox, w->loop);
	stream_flusher_init(&w->flusher, w->loop);
	w->resolver = resolver_new(&w->mailbox);
	w->scratch = xmalloc(REPLY_SCRATCH);
	snprintf(w->name, sizeof(w->name), "hasp-%d", number);
	w->clients = (struct client_env){
		.loop = w->loop,
		.flusher = &w->flusher,
		.policy = {
			.observers = shared->observers,
			.now = clock_now(),
			.date = ev_now(w->loop),
		},
		.worker = number,
		.scratch = xmalloc(REQUEST_SCRATCH),
		.scratch_size = REQUEST_SCRATCH,
		.on_gone = on_client_gone,
		.arg = w,
	};
	policy_init(&w->clients.policy);
	open_topology(w, config);
	w->script_jobs = script_jobs_new(&w->timers.timers, w->topology, &shared->secret);
	/* One server tells when hasp's own connection is up. */
	if (w->cluster)
		script_jobs_set_naming(w->script_jobs, KEY_NAMING_CLUSTER);
	clients_init(&w->clients);
	w->clients.policy.holds = holds_new(&w->timers.timers, w->script_jobs);
	w->clients.replica_acks = replica_acks_new(&w->timers.timers, w->topology,
	                                           w->script_jobs);
	w->clients.policy.read_sets = read_sets_new(w->script_jobs);
	w->clients.policy.waiters = waiters_new(&w->timers.timers, w->topology, w->script_jobs,
	                                        &shared->board);
	use_config(w, config_ref(config));
	admission_open(&w->admission, &w->clients, &shared->clients, fds, entries, nfds);
	start_watching(w);
	return w;
}

static void worker_free(struct worker *w)
{
	admission_close(&w->admission);
	clients_close(&w->clients, "hasp leaves");
	clients_reap(&w->clients);
	/* Its last answers still go to the holds and waiters. */
	script_jobs_stop(w->script_jobs);
	if (w->cluster)
		cluster_front_stop(w->clients.node);
	topology_stop(w->topology);
	replica_acks_free(w->clients.replica_acks);
	waiters_free(w->clients.policy.waiters);
	holds_free(w->clients.policy.holds);
	read_sets_free(w->clients.policy.read_sets);
	script_jobs_free(w->script_jobs);
	if (w->cluster) {
		reap_links(w);
		cluster_free(w->cluster);
		cluster_front_free(w->clients.node);
	}
	loop_timers_fini(&w->timers);
	topology_free(w->topology);
	resolver_free(w->resolver);
	ev_timer_stop(w->loop, &w->sweep);
	ev_check_stop(w->loop, &w->begin);
	ev_check_stop(w->loop, &w->check);
	mailbox_fini(&w->mailbox);
	stream_flusher_fini(&w->flusher);
	watch_loop_free(w->loop);
	config_unref(w->clients.policy.config);
	request_args_fini(&w->clients.args);
	freelist_fini(&w->clients.inputs);
	buf_release(&w->unfit);
	policy_fini(&w->clients.policy);
	free(w->clients.scratch);
	free(w->scratch);
	free(w);
}

static void *worker_main(void *arg)
{
	struct worker *w = arg;

	ev_run(w->loop, 0);
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
	return rc;
}

void worker_reload(struct worker *w, struct config *config)
{
	worker_send_cmd(w, config_ref(config), use_config);
}

void worker_drain(struct worker *w)
{
	worker_send_cmd(w, NULL, drain);
}

void worker_stop(struct worker *w)
{
	worker_send_cmd(w, NULL, stop);
}

void worker_join(struct worker *w)
{
	pthread_join(w->thread, NULL);
	worker_free(w);
}
