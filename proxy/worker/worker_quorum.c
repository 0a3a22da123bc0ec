/* SPDX-License-Identifier: BSD-3-Clause
 *
 * worker_quorum: the quorum that has the locks of verbs, or of rules, if the configuration
 * names one, and the worker's connections to its servers. A reload changes only the times and
 * the encryption of these connections; other changes to the quorum need a restart of hasp.
 */
#include "base/clock.h"
#include "config/config.h"
#include "lock/events/stats.h"
#include "quorum/quorum_servers.h"
#include "worker/encryption.h"
#include "worker/worker_internal.h"

static int64_t worker_quorum_unix_us(void *arg)
{
	struct timespec ts;

	(void)arg;
	clock_gettime(CLOCK_REALTIME, &ts);
	return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

static struct dialer quorum_dialer(const struct worker *w, const struct config *config,
                                   const struct quorum_settings *q)
{
	return (struct dialer){
		.loop = w->loop,
		.resolver = w->resolver,
		.timeout_ms = config->connect_timeout_ms,
		.keepalive_ms = config->tcp_keepalive_ms,
		.user_timeout_ms = config->tcp_user_timeout_ms,
		.tls = encryption_of_quorum(config, q),
	};
}

/* Connects to the servers of `q`, a section of `config`, which must outlive the quorum. */
static void open_quorum(struct worker *w, const struct config *config,
                        const struct quorum_settings *q)
{
	const struct policy_env *policy = &w->clients.policy;
	struct link_env links = {
		.flusher = &w->flusher,
		.dialer = quorum_dialer(w, config, q),
		.clock = clock_now,
		.scratch = w->scratch,
		.scratch_size = WORKER_SCRATCH,
	};

	w->quorum_servers = quorum_servers_new(q->user, q->password);
	w->clients.quorum = quorum_new(&(struct quorum_opts){
		.timers = &w->timers.timers,
		.name = q->section.name,
		.nservers = q->servers.n,
		.addresses = q->servers.v,
		.timeout_ms = q->timeout_ms,
		.restart_delay_ms = q->restart_delay_ms,
		.send = quorum_servers_send,
		.unix_us = worker_quorum_unix_us,
		.arg = w->quorum_servers,
		.stats = stats_section(policy->stats, STATS_QUORUM, q->section.name,
	                               policy->worker),
	});
	quorum_keep_holds(w->clients.quorum, policy->holds, q->on_lost == LOST_CLOSE);
	quorum_servers_start(w->quorum_servers, w->clients.quorum, &links);
}

void worker_quorum_open(struct worker *w, struct config *config)
{
	const struct quorum_settings *q = config_quorum(config);

	if (!q)
		return;
	w->quorum_config = config_ref(config);
	w->quorum_tls_config = config_ref(config);
	w->clients.policy.quorum_is_there = true;
	w->clients.policy.verbs_quorum = config->verbs.enabled && config->verbs.quorum;
	open_quorum(w, config, q);
}

void worker_quorum_use(struct worker *w, struct config *config)
{
	const struct quorum_settings *q = w->quorum_servers ? config_quorum(config) : NULL;
	struct config *old = w->quorum_tls_config;
	struct dialer dialer;

	/* If the file names no quorum now, keep the connections: clients may have locks. */
	if (!q || config == old)
		return;
	dialer = quorum_dialer(w, config, q);
	w->quorum_tls_config = config_ref(config);
	quorum_servers_use(w->quorum_servers, &dialer);
	config_unref(old);
}

bool worker_quorum_is_asked(const struct worker *w)
{
	return w->clients.quorum && quorum_is_asked(w->clients.quorum);
}

void worker_quorum_close(struct worker *w)
{
	if (!w->clients.quorum)
		return;
	quorum_servers_stop(w->quorum_servers);
	quorum_servers_free(w->quorum_servers);
	quorum_free(w->clients.quorum);
	config_unref(w->quorum_config);
	config_unref(w->quorum_tls_config);
}
