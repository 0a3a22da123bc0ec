/* SPDX-License-Identifier: BSD-3-Clause */
#include "client/client_internal.h"

#include <stdlib.h>

#include "base/fatal.h"
#include "lock/observe/observation.h"
#include "net/dial.h"

/* How long a client that was told the end may take to hang up, and one that still has bytes to
 * fetch. */
#define HANGUP_SECONDS 5.0
#define FETCH_SECONDS 300.0
/* An activity this soon after the last one need not be noted. */
#define ACTIVE_SECONDS 0.01

static const struct stream_ops stream_ops = { client_on_readable, client_on_drained };

static const struct owner_identity *identity(void *arg)
{
	struct client *c = client_of(arg);

	if (!c->identity) {
		c->identity = xcalloc(1, sizeof(*c->identity));
		owner_identify(c->identity, c->stream.io.fd, c->env->worker);
	}
	return c->identity;
}

struct context client_context(struct client *c)
{
	return (struct context){
		.env = &c->env->policy,
		.session = &c->session,
		.holds = &c->holds,
		.read_set = &c->read_set,
		.observer = &c->observer,
		.listener = c->listener,
		/* (A command in front of its own could change what Redis makes of it: CLIENT
		 * CACHING speaks of the next one.) */
		.may_be_optimistic = !c->refused && !c->pinned,
		.identity = identity,
		.arg = c,
		.waiter = &c->waiter,
		.waiter_ops = &client_waiter_ops,
	};
}

void client_mark_active(struct client *c)
{
	double now = c->env->now;

	if (now - c->active_at < ACTIVE_SECONDS)
		return;
	c->active_at = now;
	list_remove(&c->node);
	list_append(&c->env->clients, &c->node);
}

void client_leave_link(struct client *c)
{
	struct link *l = c->user.link;

	link_leave(&c->user);
	if (l && !c->shared)
		link_close(l);
}

/* What it holds, or is about to, and whatever it waits for. */
static void give_up_locks(struct client *c)
{
	/* Who stands in line leaves it; a try that was sent and not answered is undone. */
	if (c->waiting != WAIT_TURN)
		session_undo(&c->session);
	waiter_end(c->waiter);
	c->waiter = NULL;
	hold_owner_end(&c->holds);
	read_set_end(&c->read_set);
	observer_free(c->observer);
	c->observer = NULL;
}

void client_close(struct client *c, const char *reason)
{
	if (client_is_dead(c))
		return;
	log_debug("client_closed fd=%d reason=\"%s\"", c->stream.io.fd, reason);
	/* Else it has given up everything already, and what is noted of it is gone. */
	if (!c->closing) {
		client_leave_link(c);
		give_up_locks(c);
	}
	stream_close(&c->stream);
	buf_release(&c->in);
	list_remove(&c->node);
	list_append(&c->env->dead, &c->node);
}

/* What the client still sends is read and dropped meanwhile: closing a socket with unread
 * bytes would reset it, and the client might never see its last ones. */
void client_finish(struct client *c, const char *reason)
{
	if (client_is_dead(c) || c->closing)
		return;
	if (c->eof && stream_pending(&c->stream) == 0) {
		client_close(c, reason);
		return;
	}
	log_debug("client_closing fd=%d reason=\"%s\"", c->stream.io.fd, reason);
	client_leave_link(c);
	give_up_locks(c);
	buf_release(&c->in);
	c->closing = true;
	c->intake = INTAKE_NOTHING;
	c->waiting = WAIT_NONE;
	c->active_at = c->env->now;
	list_remove(&c->node);
	list_append(&c->env->closing, &c->node);
	stream_shutdown(&c->stream);
	if (!c->eof)
		stream_resume(&c->stream);
}

static void client_free(struct client *c)
{
	struct client_env *env = c->env;

	list_remove(&c->node);
	session_fini(&c->session);
	free(c->identity);
	c->magic = 0;
	free(c);
	env->n--;
	env->on_gone(env->arg);
}

void client_new(struct client_env *env, int fd, const char *listener)
{
	struct client *c = xcalloc(1, sizeof(*c));

	c->magic = CLIENT_MAGIC;
	c->env = env;
	c->listener = listener;
	c->active_at = env->now;
	session_init(&c->session);
	hold_owner_init(&c->holds);
	read_set_init(&c->read_set);
	link_user_init(&c->user, &client_link_ops, c);
	stream_init(&c->stream, env->flusher, &stream_ops, c);
	list_append(&env->clients, &c->node);
	env->n++;
	dial_tune(fd, env->policy.config->tcp_keepalive_ms);
	stream_attach(&c->stream, fd);
}

void clients_reap(struct client_env *env)
{
	struct list *node;

	while ((node = list_shift(&env->dead)))
		client_free(container_of(node, struct client, node));
}

/* Nothing of the client is under way: closing it now loses nothing. */
static bool is_at_rest(const struct client *c)
{
	return buf_len(&c->in) == 0 && c->intake == INTAKE_REQUESTS && !c->session.in_multi &&
	       buf_len(&c->session.watched) == 0 && c->user.inflight == 0 &&
	       (!c->user.link || c->shared || link_pending(c->user.link) == 0) &&
	       stream_pending(&c->stream) == 0;
}

/* Quiet by nature: it waits for what others publish. */
static bool is_listener(const struct client *c)
{
	return c->session.opaque || c->intake == INTAKE_RAW ||
	       session_is_subscribed(&c->session);
}

static void sweep_closing(struct client_env *env, double now)
{
	struct list *at, *next;

	for (at = env->closing.next; at != &env->closing; at = next) {
		struct client *c = container_of(at, struct client, node);
		double limit = stream_pending(&c->stream) ? FETCH_SECONDS : HANGUP_SECONDS;
		next = at->next;
		if (now - c->active_at >= limit)
			client_close(c, "its last bytes were not fetched");
	}
}

void clients_sweep(struct client_env *env)
{
	double now = env->now;
	double idle = (double)env->policy.config->client_idle_timeout_ms / 1000;
	struct list *at, *next;

	sweep_closing(env, now);
	for (at = env->clients.next; at != &env->clients; at = next) {
		struct client *c = container_of(at, struct client, node);
		bool listener = is_listener(c);
		next = at->next;
		if (env->draining && !listener && is_at_rest(c))
			client_close(c, "draining");
		else if (!env->draining && idle <= 0)
			return;
		else if (!env->draining && now - c->active_at < idle)
			return;
		else if (!env->draining && !listener && is_at_rest(c))
			client_close(c, "idle for client_idle_timeout");
	}
}

void clients_close(struct client_env *env, const char *reason)
{
	while (!list_empty(&env->clients))
		client_close(container_of(env->clients.next, struct client, node), reason);
	while (!list_empty(&env->closing))
		client_close(container_of(env->closing.next, struct client, node), reason);
}
