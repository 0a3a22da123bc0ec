/* SPDX-License-Identifier: BSD-3-Clause */
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "admin/admin_internal.h"
#include "base/clock.h"
#include "base/fatal.h"
#include "config/config.h"
#include "net/listen.h"

#define SWEEP_SECONDS 1.0

static void answer_reloads(struct admin *a, uint64_t reloads, struct slice answer)
{
	list_drain (struct console, c, &a->consoles, place.node) {
		if (c->state == CONSOLE_AWAITING && c->reload && c->reload <= reloads)
			console_answer(c, answer);
	}
}

static void answer_question(struct admin *a, uint64_t question, struct slice answer)
{
	list_drain (struct console, c, &a->consoles, place.node) {
		if (c->question == question && answer.n)
			console_answer(c, answer);
	}
}

static void admin_deliver(struct message *m)
{
	struct admin_cmd *cmd = container_of(m, struct admin_cmd, message);
	struct admin *a = cmd->admin;

	switch (cmd->event) {
	case ADMIN_RELOADED:
		if (cmd->config) {
			config_unref(a->config);
			a->config = cmd->config;
		}
		answer_reloads(a, cmd->reloads, buf_slice(&cmd->answer));
		break;
	case ADMIN_ANSWER:
		answer_question(a, cmd->question, buf_slice(&cmd->answer));
		if (cmd->job)
			console_job_end(cmd->job);
		break;
	case ADMIN_LEAVE:
		acceptors_free(&a->acceptors);
		break;
	case ADMIN_STOP:
		ev_break(a->loop, EVBREAK_ALL);
		break;
	}
	buf_release(&cmd->answer);
	free(cmd);
}

static void note_full(struct admin *a, const struct peer_place *closed)
{
	uint32_t dropped;

	atomic_fetch_add(&a->shared->console_full, 1);
	if (log_limit_pass(&a->full, clock_now(), 1, &dropped))
		log_warning("console_full limit=%d closed_client=\"%s\" suppressed=%u",
		            CONSOLES_MAX,
		            closed ? container_of(closed, struct console, place)->peer : "",
		            dropped);
}

/* Finds a client that has hung up before its answer came. Returns the place that the client
 * takes; NULL: no client has hung up. */
static struct peer_place *find_hung_up(struct admin *a)
{
	list_each (struct console, c, &a->consoles, place.node) {
		struct pollfd p = { .fd = stream_fd(&c->stream), .events = POLLRDHUP };

		if (poll(&p, 1, 0) > 0)
			return &c->place;
	}
	return NULL;
}

static void admin_on_accept(void *owner, int fd, const struct sockaddr *peer, socklen_t len)
{
	static const char full[] = "-ERR max number of clients reached\r\n";
	struct admin *a = owner;
	struct peer_place *weakest;

	(void)len;
	if (a->nconsoles < CONSOLES_MAX) {
		console_new(a, fd, peer);
		return;
	}
	weakest = places_weakest(&a->consoles);
	if (!weakest)
		weakest = find_hung_up(a);
	note_full(a, weakest);
	if (weakest) {
		console_close(container_of(weakest, struct console, place));
		console_new(a, fd, peer);
		return;
	}
	/* Try to send the reason; if it does not fit, the peer sees only the close. */
	(void)!send(fd, full, sizeof(full) - 1, MSG_NOSIGNAL);
	close(fd);
}

static void admin_on_exhausted(void *owner, int error)
{
	struct admin *a = owner;
	uint32_t dropped;

	if (log_limit_pass(&a->full, clock_now(), 1, &dropped))
		log_error("console_accept_failed reason=\"%s\" suppressed=%u", strerror(error),
		          dropped);
}

static void admin_on_sweep(void *arg)
{
	struct admin *a = arg;
	double now = clock_now();

	list_drain (struct console, c, &a->consoles, place.node) {
		if ((!c->logged_in || c->state == CONSOLE_ENDING) &&
		    now - c->since >= CONSOLE_PATIENCE_SECONDS)
			console_close(c);
		else if (c->state == CONSOLE_AWAITING && c->answer_at && now >= c->answer_at)
			console_answer(c, slice_of("", 0));
	}
}

static void answer_pauses(struct admin *a, enum worker_pause now, size_t nbound)
{
	list_drain (struct console, c, &a->consoles, place.node) {
		struct buf answer = BUF_INIT;

		if (c->state == CONSOLE_AWAITING &&
		    console_pause_answer(c, now, nbound, &answer))
			console_answer(c, buf_slice(&answer));
		buf_release(&answer);
	}
}

static void admin_on_pause(void *arg)
{
	struct admin *a = arg;
	size_t nbound;
	enum worker_pause now = workers_pause_state(a->shared, &nbound);
	bool is_there = now == WORKER_PAUSED || now == WORKER_SERVES;

	if (now == WORKER_PAUSED)
		log_info("paused clients_closed_if_redis_ends=%zu", nbound);
	else if (now == WORKER_SERVES)
		log_info("resumed");
	answer_pauses(a, now, nbound);
	/* Let the timer run if a console that got its answer has sent PAUSE or RESUME again. */
	if (is_there && workers_pause_state(a->shared, NULL) == now)
		loop_timer_stop(&a->pause);
}

/* Runs first in each loop iteration: frees the consoles that the last iteration closed. */
static void admin_on_check(struct ev_loop *loop, struct ev_check *check, int revents)
{
	struct admin *a = check->data;

	(void)loop;
	(void)revents;
	list_shift_each (struct console, c, &a->dead, place.node)
		console_free(c);
}

struct admin *admin_new(struct config *config, const struct listen_socket *sockets,
                        size_t nsockets, struct worker_shared *shared,
                        const struct admin_ops *ops, void *arg)
{
	static const struct acceptor_ops acceptor = { admin_on_accept, admin_on_exhausted };
	struct admin *a = xcalloc(1, sizeof(*a));

	a->loop = watch_loop_new(EVFLAG_AUTO | EVFLAG_NOENV);
	HASP_ASSERT(a->loop);
	mailbox_init(&a->mailbox, a->loop);
	a->deliver = admin_deliver;
	stream_flusher_init(&a->flusher, a->loop);
	list_init(&a->consoles);
	list_init(&a->dead);
	list_init(&a->jobs);
	a->config = config_ref(config);
	a->shared = shared;
	a->ops = ops;
	a->arg = arg;
	list_init(&a->acceptors);
	for (size_t i = 0; i < nsockets; i++)
		acceptors_add(&a->acceptors, a->loop, sockets[i].fd, &acceptor, a);
	loop_timer_init(&a->sweep, a->loop, admin_on_sweep, a);
	loop_timer_repeat(&a->sweep, SWEEP_SECONDS);
	loop_timer_init(&a->pause, a->loop, admin_on_pause, a);
	ev_check_init(&a->check, admin_on_check);
	a->check.data = a;
	ev_check_start(a->loop, &a->check);
	return a;
}

static void *admin_main(void *arg)
{
	struct admin *a = arg;

	ev_run(a->loop, 0);
	return NULL;
}

int admin_start(struct admin *a)
{
	return pthread_create(&a->thread, NULL, admin_main, a);
}

void admin_stop(struct admin *a)
{
	admin_post_stop(a);
	pthread_join(a->thread, NULL);
	console_jobs_stop(a);
	acceptors_free(&a->acceptors);
	while (!list_empty(&a->consoles))
		console_close(container_of(a->consoles.next, struct console, place.node));
	admin_on_check(a->loop, &a->check, 0);
}

void admin_free(struct admin *a)
{
	loop_timer_stop(&a->sweep);
	loop_timer_stop(&a->pause);
	ev_check_stop(a->loop, &a->check);
	mailbox_fini(&a->mailbox);
	stream_flusher_fini(&a->flusher);
	watch_loop_free(a->loop);
	request_args_fini(&a->args);
	config_unref(a->config);
	free(a);
}
