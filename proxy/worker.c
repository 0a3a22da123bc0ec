/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker.h"

#include <errno.h>
#include <ev.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fatal.h"
#include "base/log.h"
#include "client/client.h"
#include "client/dispatch.h"
#include "client/observe.h"
#include "client/session.h"
#include "client/special.h"
#include "lock/errand.h"
#include "lock/fitness.h"
#include "lock/hold.h"
#include "lock/script.h"
#include "lock/wait.h"
#include "net/listen.h"
#include "net/mailbox.h"
#include "net/resolve.h"
#include "net/stream.h"
#include "resp/write.h"
#include "upstream/control.h"
#include "upstream/link.h"

/* Reading in pieces of 256 KB measured best for values of 16 KB and up in replies, and for
 * those of 1 MB in requests; a client reads less at once where requests are short. */
#define REPLY_SCRATCH ((size_t)256 * 1024)
#define REQUEST_SCRATCH ((size_t)256 * 1024)
#define SWEEP_SECONDS 1.0
/* While draining, clients at rest should not have to wait for a second. */
#define DRAIN_SWEEP_SECONDS 0.05
/* What is still to be said to Redis (releases) when the clients are gone. */
#define FAREWELL_SECONDS 1.0

/* One of the sockets on which a worker listens. */
struct door {
	struct worker *worker;
	struct acceptor *acceptor;
	const char *entry; /* of `listen` */
};

struct worker {
	int number;
	struct worker_shared *shared;
	pthread_t thread;
	struct ev_loop *loop;
	struct mailbox mailbox;
	struct stream_flusher flusher;
	struct resolver *resolver;
	struct link_env links;
	struct client_env clients;
	struct control *control;
	struct errands *errands;
	struct pool *pool;
	struct door *doors;
	size_t ndoors;
	struct ev_timer sweep;
	struct ev_check begin, check;
	double leave_at; /* clock_now(); 0: not draining */
	double farewell_at; /* clock_now() when the last client was gone; 0: not yet */
	struct log_limit limit;
	struct buf unfit; /* what was last said of guards that cannot work; empty: nothing */
};

/* Something another thread wants of a worker. */
struct order {
	struct letter letter;
	struct worker *worker;
	struct config *config; /* for a reload */
	void (*carry_out)(struct worker *w, struct config *config);
};

static void deliver(struct letter *l)
{
	struct order *o = container_of(l, struct order, letter);

	o->carry_out(o->worker, o->config);
	free(o);
}

static void give_order(struct worker *w, struct config *config,
                       void (*carry_out)(struct worker *, struct config *))
{
	struct order *o = xcalloc(1, sizeof(*o));

	o->letter.deliver = deliver;
	o->worker = w;
	o->config = config;
	o->carry_out = carry_out;
	mailbox_post(&w->mailbox, &o->letter);
}

static void on_accept(void *owner, int fd, const struct sockaddr *peer, socklen_t len)
{
	static const char full[] = "-ERR max number of clients reached\r\n";
	const struct door *d = owner;
	struct worker *w = d->worker;
	uint32_t dropped;

	(void)peer;
	(void)len;
	if (atomic_fetch_add(&w->shared->clients, 1) >= w->clients.config->max_clients) {
		atomic_fetch_sub(&w->shared->clients, 1);
		if (log_limit_pass(&w->limit, clock_now(), 1, &dropped))
			log_warning("max_clients reached=%lld suppressed=%u",
			            (long long)w->clients.config->max_clients, dropped);
		/* A courtesy; if it does not fit, the close says it. */
		if (send(fd, full, sizeof(full) - 1, MSG_NOSIGNAL) < 0)
			log_debug("max_clients unsaid=\"%s\"", strerror(errno));
		close(fd);
		return;
	}
	client_new(&w->clients, fd, d->entry);
}

static void on_exhausted(void *owner, int error)
{
	struct worker *w = ((const struct door *)owner)->worker;
	uint32_t dropped;

	if (log_limit_pass(&w->limit, clock_now(), 1, &dropped))
		log_error("accept_failed reason=\"%s\" clients=%ld suppressed=%u",
		          strerror(error), (long)w->shared->clients, dropped);
}

static const struct acceptor_ops acceptor_ops = { on_accept, on_exhausted };

static void on_client_gone(void *arg)
{
	struct worker *w = arg;

	atomic_fetch_sub(&w->shared->clients, 1);
}

/* Before hasp served, Redis may not have answered, and it may be another one by now. All that
 * can still be done is to say so, once: a guard's other commands are guarded, and clients go
 * on. */
static void check_guards(struct worker *w)
{
	struct buf faults = BUF_INIT;

	/* What one of them learns, all do. */
	if (w->number != 0)
		return;
	if (fitness_check(w->clients.config, w->clients.commands, &faults) > 0 &&
	    !slice_eq(buf_slice(&faults), buf_slice(&w->unfit)))
		log_lines(LOG_SEV_ERROR, buf_slice(&faults));
	buf_release(&w->unfit);
	w->unfit = faults;
}

/* hasp's own connection is there: Redis shall know the scripts before they are called. */
static void on_control_up(void *arg)
{
	struct worker *w = arg;

	names_forget(w->clients.names);
	check_guards(w);
	for (int i = 0; i < SCRIPT_COUNT; i++) {
		struct buf out = BUF_INIT;
		struct slice argv[] = { SLICE_LIT("SCRIPT"), SLICE_LIT("LOAD"),
			                script_get((enum script_id)i)->text };
		resp_write_request(&out, argv, 3);
		/* It is up, or this would not run. */
		HASP_ASSERT(control_call(w->control, 0, buf_slice(&out), NULL, NULL) == 0);
		buf_release(&out);
	}
	errands_resume(w->errands);
}

/* A client's link may find Redis before hasp's own connections try again. */
static void on_connected(void *arg)
{
	struct worker *w = arg;

	control_hurry(w->control);
	subscriber_hurry(waits_subscriber(w->clients.waits));
}

static void close_listeners(struct worker *w)
{
	for (size_t i = 0; i < w->ndoors; i++)
		acceptor_free(w->doors[i].acceptor);
	w->ndoors = 0;
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
	if (w->farewell_at <= 0)
		w->farewell_at = now;
	return (control_inflight(w->control) == 0 && errands_are_done(w->errands)) ||
	       now >= w->farewell_at + FAREWELL_SECONDS;
}

static void on_sweep(struct ev_loop *loop, struct ev_timer *t, int revents)
{
	struct worker *w = t->data;

	(void)revents;
	clients_sweep(&w->clients);
	clients_reap(&w->clients);
	if (w->clients.draining && may_leave(w))
		ev_break(loop, EVBREAK_ALL);
}

/* Before all other callbacks of a turn. The loop's own time is the machine's date, which may
 * jump. */
static void on_begin(struct ev_loop *loop, struct ev_check *c, int revents)
{
	struct worker *w = c->data;

	(void)loop;
	(void)revents;
	w->clients.now = clock_now();
}

/* Behind the callbacks of each turn: what they closed can be freed. */
static void on_check(struct ev_loop *loop, struct ev_check *c, int revents)
{
	struct worker *w = c->data;

	(void)loop;
	(void)revents;
	clients_reap(&w->clients);
	links_reap(&w->links);
}

static bool same(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

/* Private links that are open stay where they are; shared ones are left as soon as no reply is
 * due, new ones, and hasp's own, go to the new address. */
static void use_upstream(struct worker *w, const struct config *old,
                         const struct config *config)
{
	w->links.dialer.timeout_ms = config->connect_timeout_ms;
	w->links.dialer.keepalive_ms = config->tcp_keepalive_ms;
	w->links.user = config->upstream_user;
	w->links.password = config->upstream_password;
	if (old && same(old->address, config->address) &&
	    same(old->upstream_user, config->upstream_user) &&
	    same(old->upstream_password, config->upstream_password))
		return;
	HASP_ASSERT(address_parse(&w->links.address, config->address) == 0);
	free(w->links.name);
	w->links.name = xstrdup(config->address);
	pool_follow_address(w->pool);
	control_reconnect(w->control);
	subscriber_reconnect(waits_subscriber(w->clients.waits));
}

static void use_config(struct worker *w, struct config *config)
{
	struct config *old = w->clients.config;

	w->clients.config = config;
	w->clients.rules_wait = w->clients.rules_enforce = w->clients.guards_enforce = false;
	for (size_t i = 0; i < config->nrules; i++) {
		w->clients.rules_wait |= config->rules[i]->wait_ms > 0;
		w->clients.rules_enforce |= config->rules[i]->mode == MODE_ENFORCE;
	}
	for (size_t i = 0; i < config->nguards; i++)
		w->clients.guards_enforce |= config->guards[i]->mode == MODE_ENFORCE;
	observe_use_config(&w->clients);
	names_forget(w->clients.names);
	pool_set_size(w->pool, config->links_per_worker);
	use_upstream(w, old, config);
	buf_release(&w->unfit);
	if (control_is_up(w->control))
		check_guards(w);
	config_unref(old);
}

static void drain(struct worker *w, struct config *unused)
{
	(void)unused;
	if (w->clients.draining)
		return;
	close_listeners(w);
	w->clients.draining = true;
	w->leave_at = clock_now() + (double)w->clients.config->drain_timeout_ms / 1000;
	ev_timer_stop(w->loop, &w->sweep);
	ev_timer_set(&w->sweep, 0, DRAIN_SWEEP_SECONDS);
	ev_timer_start(w->loop, &w->sweep);
}

static void stop(struct worker *w, struct config *unused)
{
	(void)unused;
	ev_break(w->loop, EVBREAK_ALL);
}

void workers_init(struct worker_shared *shared)
{
	shared->observers = observers_new();
}

void workers_fini(struct worker_shared *shared)
{
	observers_free(shared->observers);
}

bool workers_report(struct worker_shared *shared)
{
	return observers_report(shared->observers);
}

static void open_doors(struct worker *w, const int *fds, const char *const *entries,
                       size_t nfds)
{
	w->doors = xcalloc(nfds, sizeof(*w->doors));
	for (size_t i = 0; i < nfds; i++) {
		struct door *d = &w->doors[w->ndoors++];
		d->worker = w;
		d->entry = entries[i];
		d->acceptor = acceptor_new(w->loop, fds[i], &acceptor_ops, d);
	}
}

/* What comes by itself, and what is done around the callbacks of each turn. */
static void start_watching(struct worker *w)
{
	ev_timer_init(&w->sweep, on_sweep, SWEEP_SECONDS, SWEEP_SECONDS);
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

	special_self_check();
	w->number = number;
	w->shared = shared;
	w->loop = ev_loop_new(EVBACKEND_EPOLL | EVFLAG_NOENV);
	if (!w->loop)
		w->loop = ev_loop_new(EVFLAG_AUTO);
	HASP_ASSERT(w->loop);
	mailbox_init(&w->mailbox, w->loop);
	stream_flusher_init(&w->flusher, w->loop);
	w->resolver = resolver_new(&w->mailbox);
	w->links = (struct link_env){
		.flusher = &w->flusher,
		.dialer = { .loop = w->loop, .resolver = w->resolver },
		.scratch = xmalloc(REPLY_SCRATCH),
		.scratch_size = REPLY_SCRATCH,
		.on_connected = on_connected,
		.arg = w,
	};
	w->clients = (struct client_env){
		.loop = w->loop,
		.now = clock_now(),
		.flusher = &w->flusher,
		.links = &w->links,
		.commands = commands_new(),
		.names = names_new(),
		.observers = shared->observers,
		.worker = number,
		.scratch = xmalloc(REQUEST_SCRATCH),
		.scratch_size = REQUEST_SCRATCH,
		.on_gone = on_client_gone,
		.arg = w,
	};
	list_init(&w->links.dead);
	w->pool = w->clients.pool = pool_new(w->loop, &w->links);
	list_init(&w->clients.clients);
	list_init(&w->clients.closing);
	list_init(&w->clients.dead);
	w->control = control_new(&(struct control_how){
		.env = &w->links,
		.commands = w->clients.commands,
		.on_up = on_control_up,
		.arg = w,
	});
	w->errands = errands_new(w->loop, w->control);
	spares_init(&w->clients.requests, REQUEST_SIZE);
	w->clients.holds = holds_new(w->loop, w->errands);
	w->clients.readings = readings_new(w->errands);
	w->clients.waits = waits_new(w->loop, &w->links, w->errands, &shared->board);
	use_config(w, config_ref(config));
	open_doors(w, fds, entries, nfds);
	start_watching(w);
	return w;
}

static void worker_free(struct worker *w)
{
	close_listeners(w);
	clients_close(&w->clients, "hasp leaves");
	clients_reap(&w->clients);
	pool_free(w->pool);
	/* Its last answers go to the books. */
	errands_stop(w->errands);
	control_free(w->control);
	waits_free(w->clients.waits);
	holds_free(w->clients.holds);
	readings_free(w->clients.readings);
	errands_free(w->errands);
	links_reap(&w->links);
	commands_free(w->clients.commands);
	resolver_free(w->resolver);
	ev_timer_stop(w->loop, &w->sweep);
	ev_check_stop(w->loop, &w->begin);
	ev_check_stop(w->loop, &w->check);
	mailbox_fini(&w->mailbox);
	stream_flusher_fini(&w->flusher);
	ev_loop_destroy(w->loop);
	config_unref(w->clients.config);
	request_args_fini(&w->clients.args);
	buf_release(&w->clients.call);
	buf_release(&w->clients.token);
	spares_fini(&w->clients.requests);
	buf_release(&w->unfit);
	observe_fini(&w->clients);
	names_free(w->clients.names);
	free(w->clients.scratch);
	free(w->links.scratch);
	free(w->links.name);
	free(w->doors);
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
	give_order(w, config_ref(config), use_config);
}

void worker_drain(struct worker *w)
{
	give_order(w, NULL, drain);
}

void worker_stop(struct worker *w)
{
	give_order(w, NULL, stop);
}

void worker_join(struct worker *w)
{
	pthread_join(w->thread, NULL);
	worker_free(w);
}
