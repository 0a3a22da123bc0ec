/* SPDX-License-Identifier: BSD-3-Clause
 *
 * worker_handover: hands the clients of a draining worker over to the next hasp, and takes
 * clients from the previous hasp. Each worker of the old process has a channel to a worker of
 * the new process:
 *
 *   old worker                                      new worker
 *      <------------------------------------ GO ---    has the channel
 *      --- record and socket of a client --------->    understands the record?
 *      <---------------------- TAKEN or REFUSED ---    gives the client to any worker
 *
 * Answers come in the order of the clients. The new process answers before it reads from a
 * client. So if the new process ends, the old one can serve the clients that have no answer.
 *
 * If a process is itself upgraded while clients arrive, it hands them over to its successor.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fatal.h"
#include "net/descriptors.h"
#include "net/fd_channel.h"
#include "worker/worker_internal.h"

/* Clients that a worker takes in one loop iteration, at most. */
#define TAKE_MAX 16

_Static_assert(FD_CHANNEL_MESSAGE_MAX <= WORKER_SCRATCH,
               "a record fits into client_env.scratch");

enum handover_answer {
	ANSWER_GO = 'G',
	ANSWER_TAKEN = 'T',
	ANSWER_REFUSED = 'R',
};

/* A channel from the old process. */
struct predecessor {
	struct watch watch;
	struct worker *worker;
	struct list node; /* in worker->handover.predecessors */
};

/* --- the old process ---------------------------------------------------------------------- */

/* As client_env.hand_over(). */
static int send_client(void *arg, int fd, struct slice record)
{
	const struct worker *w = arg;

	if (record.n > FD_CHANNEL_MESSAGE_MAX)
		return EMSGSIZE;
	return fd_channel_send(watch_fd(&w->handover.successor), record, &fd, 1) == 0 ? 0
	                                                                              : errno;
}

static void close_watch(struct worker *w, struct watch *watch)
{
	int fd = watch_stop(w->loop, watch);

	if (fd >= 0)
		close(fd);
}

/* Handles an answer of the next hasp. Returns false if hasp awaits no such answer. */
static bool heed_answer(struct worker *w, char answer)
{
	struct client_env *env = &w->clients;

	switch (answer) {
	case ANSWER_GO:
		env->nhanded_max = DRAIN_HANDED_MAX;
		return true;
	case ANSWER_TAKEN:
		atomic_fetch_add(&w->shared->handed_over, 1);
		return drain_answered(env, true);
	case ANSWER_REFUSED:
		return drain_answered(env, false);
	default:
		return false;
	}
}

static void successor_on_ready(struct watch *watch, int events)
{
	struct worker *w = container_of(watch, struct worker, handover.successor);
	ssize_t n;
	size_t nfds;
	char answer = 0;

	(void)events;
	do
		n = fd_channel_receive(watch_fd(watch), &answer, 1, NULL, 0, &nfds);
	while (n == 1 && heed_answer(w, answer));
	if (n >= 0 || errno != EAGAIN) {
		drain_successor_gone(&w->clients);
		close_watch(w, watch);
	}
	/* Hand further clients over. */
	clients_sweep(&w->clients);
}

void worker_handover_give(struct worker *w, struct worker_cmd *cmd)
{
	if (w->leave_at > 0 || atomic_load(&w->ended)) {
		close(cmd->channel);
		return;
	}
	w->clients.hand_over = send_client;
	watch_start(w->loop, &w->handover.successor, cmd->channel, EV_READ);
}

/* --- the new process ---------------------------------------------------------------------- */

static void newcomer_arrive(struct worker *w, struct worker_cmd *cmd)
{
	struct resp_view record;
	struct slice listener;
	bool whole, good;

	atomic_fetch_sub(&w->shared->arriving, 1);
	/* A worker that has ended closes the client, like all its clients. */
	if (atomic_load(&w->ended)) {
		close(cmd->channel);
	} else {
		record = request_view(&w->clients.args, cmd->record.p, cmd->record.n, &whole);
		good = whole && client_record_check(&record, &listener);
		HASP_ASSERT(good);
		atomic_fetch_add(&w->shared->clients, 1);
		client_take_over(&w->clients, cmd->channel,
		                 admission_listener(&w->admission, listener), &record);
	}
	free((char *)cmd->record.p);
}

/* Gives the client to the next worker in turn. */
static void give_to_worker(struct worker *w, int fd, struct slice record)
{
	struct worker_shared *shared = w->shared;
	size_t to;

	atomic_fetch_add(&shared->arriving, 1);
	pthread_mutex_lock(&shared->rounds);
	to = w->handover.next++ % shared->nworkers;
	worker_send_cmd(shared->gone[to] ? w : shared->workers[to],
	                (struct worker_cmd){
				.run = newcomer_arrive,
				.owns = true,
				.record = slice_dup(record),
				.channel = fd,
			});
	pthread_mutex_unlock(&shared->rounds);
}

static bool may_take(struct worker *w, struct slice bytes, int fd)
{
	struct slice listener;
	bool whole;
	struct resp_view record = request_view(&w->clients.args, bytes.p, bytes.n, &whole);

	return whole && client_record_check(&record, &listener) &&
	       admission_listener(&w->admission, listener) &&
	       !descriptor_is_kept(fd, DESCRIPTOR_CLIENT);
}

static void predecessor_end(struct predecessor *s)
{
	close_watch(s->worker, &s->watch);
	list_remove(&s->node);
	atomic_fetch_sub(&s->worker->shared->arriving, 1);
	free(s);
}

/* Answers the old process. Returns false if hasp could not send the answer: the old process
 * then keeps the client. */
static bool answer_predecessor(const struct predecessor *s, enum handover_answer what)
{
	char byte = (char)what;

	/* After any other error, the old process is gone, and only this one has the client. */
	return fd_channel_send(watch_fd(&s->watch), slice_of(&byte, 1), NULL, 0) == 0 ||
	       errno != EAGAIN;
}

/* Takes a client, or refuses it. Returns false if the channel must be closed. */
static bool take_client(struct predecessor *s, struct slice record, int fd)
{
	bool taken = fd >= 0 && may_take(s->worker, record, fd);
	bool answered = answer_predecessor(s, taken ? ANSWER_TAKEN : ANSWER_REFUSED);

	if (taken && answered)
		give_to_worker(s->worker, fd, record);
	else if (fd >= 0)
		close(fd);
	return answered;
}

static void predecessor_on_ready(struct watch *watch, int events)
{
	struct predecessor *s = container_of(watch, struct predecessor, watch);
	struct client_env *env = &s->worker->clients;

	(void)events;
	for (int i = 0; i < TAKE_MAX; i++) {
		int fd = -1;
		size_t nfds;
		ssize_t n = fd_channel_receive(watch_fd(watch), env->scratch,
		                               FD_CHANNEL_MESSAGE_MAX, &fd, 1, &nfds);

		if (n < 0 && errno == EAGAIN)
			return;
		if (n <= 0 || !take_client(s, slice_of(env->scratch, (size_t)n), fd)) {
			predecessor_end(s);
			return;
		}
	}
}

void worker_handover_take(struct worker *w, struct worker_cmd *cmd)
{
	struct predecessor *s = xcalloc(1, sizeof(*s));

	s->worker = w;
	list_append(&w->handover.predecessors, &s->node);
	watch_init(&s->watch, predecessor_on_ready);
	watch_start(w->loop, &s->watch, cmd->channel, EV_READ);
	if (atomic_load(&w->ended) || (w->leave_at > 0 && !w->clients.hand_over) ||
	    !answer_predecessor(s, ANSWER_GO))
		predecessor_end(s);
}

void worker_handover_refuse(struct worker *w)
{
	list_drain (struct predecessor, s, &w->handover.predecessors, node)
		predecessor_end(s);
}

/* --- both --------------------------------------------------------------------------------- */

void worker_handover_init(struct worker *w)
{
	watch_init(&w->handover.successor, successor_on_ready);
	list_init(&w->handover.predecessors);
	w->handover.next = (size_t)w->number;
}

void worker_handover_fini(struct worker *w)
{
	close_watch(w, &w->handover.successor);
	worker_handover_refuse(w);
}
