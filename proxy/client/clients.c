/* SPDX-License-Identifier: BSD-3-Clause
 *
 * clients: the clients of a worker: how a client comes and goes, the regular sweeps, the memory
 * of all clients together, and the events that concern all of them.
 */
#include "client/client_internal.h"

#include <malloc.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "net/dial.h"

/* Seconds that a finishing client has to close, and, before that, to read its last bytes. */
#define HANGUP_SECONDS 5.0
#define FETCH_SECONDS 300.0

/* Continues with the client's requests where hasp stopped. */
static void resume(struct client *c)
{
	if (c->state == CLIENT_PARKED_LINK || c->state == CLIENT_PARKED_QUEUE)
		exchange_resume(c);
	else if (!client_is_parked(c))
		requests_resume(c);
}

static void clients_run(struct client_env *env)
{
	list_shift_each (struct client, c, &env->runnable, turn)
		resume(c);
}

/* First resumes clients that became runnable earlier in this turn, because their requests came
 * before those that hasp can read from `s` now. */
static void on_readable(struct stream *s)
{
	struct client *c = client_of(container_of(s, struct client, stream));

	clients_run(c->env);
	if (!client_is_dead(c))
		requests_on_readable(s);
}

static const struct stream_ops client_stream_ops = { on_readable, replies_on_drained,
	                                             STREAM_CLIENT };

static void on_run(struct watch *w, int events)
{
	struct client_env *env = container_of(w, struct client_env, run);

	(void)events;
	clients_run(env);
	/* Flush the clients' requests: this may be the last watcher of the turn. */
	stream_flusher_run(env->flusher);
}

void clients_init(struct client_env *env)
{
	list_init(&env->clients);
	list_init(&env->handed);
	list_init(&env->finishing);
	list_init(&env->dead);
	list_init(&env->learning);
	list_init(&env->runnable);
	watch_init(&env->run, on_run);
	freelist_init(&env->inputs, BUF_FIRST_SIZE);
	freelist_init(&env->link_waits, sizeof(struct client_link_wait));
	memory_reserve();
	account_init(&env->account, SIZE_MAX);
	env->flusher->account = &env->account;
	pool_set_ops(env->node->pool, &replies_pool_ops);
}

struct client *client_new(struct client_env *env, int fd, const char *listener, struct tls *tls,
                          const struct sockaddr_storage *behind)
{
	struct client *c = xcalloc(1, sizeof(*c));
	struct sockaddr_storage peer = { 0 };
	socklen_t len = sizeof(peer);

	c->magic = CLIENT_MAGIC;
	c->env = env;
	c->listener = listener;
	if (behind || (tls && getpeername(fd, (struct sockaddr *)&peer, &len) == 0 &&
	               peer.ss_family != AF_UNIX)) {
		c->behind = xmalloc(sizeof(*c->behind));
		*c->behind = behind ? *behind : peer;
	}
	c->since = c->login_from = env->policy.now;
	c->active_at = c->since - 2 * ACTIVE_SECONDS; /* so that the first byte always counts
	                                               * as activity */
	list_init(&c->turn);
	session_init(&c->session);
	c->locks = context_locks_none();
	link_user_init(&c->user, &replies_link_ops, c);
	stream_init(&c->stream, env->flusher, &client_stream_ops);
	list_append(&env->clients, &c->node);
	env->n++;
	client_list_add(env, c);
	dial_tune(fd, env->policy.config->tcp_keepalive_ms);
	stream_attach(&c->stream, fd, tls);
	/* The first request may have arrived before requests that hasp serves in this turn of
	 * the loop, so read it in this turn. */
	stream_expect_input(&c->stream);
	return c;
}

void client_take_over(struct client_env *env, int fd, const char *listener,
                      const struct resp_view *record)
{
	struct client *c = client_new(env, fd, listener, NULL, NULL);

	client_record_apply(record, c);
	if (c->active_at >= c->since)
		client_set_active(c);
	client_notice_memory(c);
}

void client_describe_holder(const struct hold_owner *o, struct buf *out)
{
	client_describe(client_of_holder(o), out);
}

void client_describe_reader(const struct read_set *r, struct buf *out)
{
	client_describe(client_of_reader(r), out);
}

void client_lost_hold(struct hold_owner *o)
{
	client_finish(client_of_holder(o), "it has lost a lock, and on_lost = close");
}

struct client_wait client_waits_for(void *owner)
{
	struct client *c = client_of(owner);
	const struct pending_request *r = c->current;
	struct client_wait w = { .client = c, .db = c->session.db };

	if (r->guard_op) {
		const struct read_set_entry *e =
			r->guard_op->keys[r->guard_op->queued_at].entry;
		w.stats = e->stats;
		w.db = read_set_entry_db(e);
		w.key = read_set_entry_key(e);
	} else if (r->lock_request) {
		w.stats = r->lock_request->stats;
		w.key = lock_request_key(r->lock_request);
	}
	return w;
}

static void client_free(struct client *c)
{
	struct client_env *env = c->env;

	client_list_remove(env, c);
	list_remove(&c->node);
	session_fini(&c->session);
	if (c->locks != context_locks_none())
		free(c->locks);
	token_release(c->identity);
	free(c->behind);
	c->magic = 0;
	free(c);
	env->n--;
	atomic_fetch_sub(env->nclients, 1);
}

void clients_reap(struct client_env *env)
{
	list_shift_each (struct client, c, &env->dead, node)
		client_free(c);
}

/* True if hasp awaits the client's next request, or the rest of one. */
static bool is_silent(const struct client *c)
{
	return !client_is_listener(c) && !client_waits_for_answer(c) &&
	       !session_in_transaction(&c->session);
}

static void sweep_finishing(struct client_env *env, double now)
{
	list_drain (struct client, c, &env->finishing, node) {
		double limit = stream_pending(&c->stream) ? FETCH_SECONDS : HANGUP_SECONDS;

		if (now - c->active_at >= limit)
			client_close(c, "it did not read its last replies");
	}
}

static void sweep_idle(struct client_env *env, double now)
{
	double idle = (double)env->policy.config->client_idle_timeout_ms / 1000;

	if (idle <= 0)
		return;
	list_drain (struct client, c, &env->clients, node) {
		if (now - c->active_at < idle)
			return;
		if (!is_silent(c))
			continue;
		metrics_count(&env->counters.limits[LIMIT_IDLE], 1);
		client_close(c, "idle for client_idle_timeout");
	}
}

/* True if the client has sent a part of its first request, which may become a login. */
static bool begins_with_login(const struct client *c)
{
	struct resp_view view;
	bool whole;

	if (c->user.link || buf_len(&c->in) == 0 || c->state != CLIENT_OPEN)
		return false;
	view = request_view(&c->env->args, buf_head(&c->in), buf_len(&c->in), &whole);
	return view.argc == 0 || slice_is(view.argv[0], "auth") ||
	       slice_is(view.argv[0], "hello");
}

static bool must_log_in(const struct client *c)
{
	if (c->session.login == LOGIN_DONE || c->session.opaque || client_is_ending(c))
		return false;
	return (client_must_log_in(c) && !c->saw_success) || begins_with_login(c);
}

static void sweep_logins(struct client_env *env, double now)
{
	static const char no_handshake[] = "no TLS handshake for client_login_timeout";
	double limit = (double)env->policy.config->client_login_timeout_ms / 1000;

	if (limit <= 0)
		return;
	list_drain (struct client, c, &env->clients, node) {
		if (now - c->login_from < limit)
			continue;
		if (!c->stream.shaking && !must_log_in(c))
			continue;
		metrics_count(&env->counters.limits[LIMIT_LOGIN], 1);
		if (c->stream.shaking)
			client_log_tls_failure(c, no_handshake);
		client_close(c, c->stream.shaking ? no_handshake
		                                  : "not logged in for client_login_timeout");
	}
}

/* Closes clients that hung up during a pause before their last due reply came. */
static void sweep_paused(struct client_env *env)
{
	if (env->node->held & NODE_PAUSED)
		list_drain (struct client, c, &env->clients, node)
			(void)client_close_if_gone_in_pause(c);
}

void clients_sweep(struct client_env *env)
{
	sweep_finishing(env, env->policy.now);
	sweep_paused(env);
	if (env->phase != CLIENTS_DRAINING)
		sweep_idle(env, env->policy.now);
	else
		list_drain (struct client, c, &env->clients, node)
			drain_client(c);
	sweep_logins(env, env->policy.now);
}

void clients_follow(struct client_env *env)
{
	list_drain (struct client, c, &env->clients, node)
		route_follow_node(c);
}

void clients_go_on(struct client_env *env)
{
	struct list waiting;

	/* A request of one client may close others, so walk a separate list. */
	list_take_all(&waiting, &env->clients);
	list_shift_each (struct client, c, &waiting, node) {
		list_append(&env->clients, &c->node);
		replies_go_on(c);
	}
}

void clients_know_commands(struct client_env *env)
{
	struct list waiting;

	/* A client's next request may put it on env->learning again: walk a separate list. */
	list_take_all(&waiting, &env->learning);
	while (!list_empty(&waiting))
		client_unpark(container_of(waiting.next, struct client, turn));
	/* Decide about the commands now: the caller forgets the answer when this returns. */
	clients_run(env);
}

static bool is_bound_to_end(const struct client *c)
{
	return client_is_listener(c) || session_may_be_blocked(&c->session);
}

/* True if the client has a request under way, waits for a link, or is in the middle of its
 * work. */
static bool is_under_way(const struct client *c)
{
	return c->user.inflight || c->user.waiting ||
	       (c->link_wait && pool_waiter_waits(&c->link_wait->waiter)) ||
	       c->state == CLIENT_STREAMING || c->state == CLIENT_PARKED_ACK ||
	       client_in_critical_section(c);
}

size_t clients_under_way(const struct client_env *env, size_t *nbound)
{
	size_t n = 0;

	*nbound = 0;
	list_each (const struct client, c, &env->clients, node) {
		if (is_bound_to_end(c))
			++*nbound;
		else
			n += is_under_way(c);
	}
	return n;
}

void clients_drain(struct client_env *env)
{
	env->phase = CLIENTS_DRAINING;
}

void clients_close(struct client_env *env, const char *reason)
{
	env->phase = CLIENTS_CUT_OFF;
	drain_successor_gone(env);
	while (!list_empty(&env->clients))
		client_close(container_of(env->clients.next, struct client, node), reason);
	while (!list_empty(&env->finishing))
		client_close(container_of(env->finishing.next, struct client, node), reason);
	(void)watch_stop(env->loop, &env->run);
}

/* --- memory ------------------------------------------------------------------------------- */

/* When the clients' memory has shrunk by this many bytes, hasp returns it to the kernel. */
#define TRIM_BYTES ((size_t)4 * 1024 * 1024)

/* Weighs a client's memory by the square of the seconds (at least 1) since the client last
 * read. A client that reads will soon free its memory; others will probably keep theirs. */
static double weigh(const struct account_share *s)
{
	struct client_share *share = container_of(s, struct client_share, account);
	double unread;

	client_note_reading(share);
	unread = share->client->env->policy.now - share->read_at;
	if (unread < 1)
		unread = 1;
	return (double)s->nbytes * unread * unread;
}

static struct client *heaviest(const struct client_env *env)
{
	struct account_share *s = account_heaviest(&env->account, weigh);

	return s ? container_of(s, struct client_share, account)->client : NULL;
}

/* Frees half of the clients' memory, because the machine has no memory left. */
static void shed_half(struct client_env *env)
{
	size_t enough = env->account.total / 2;
	struct client *c;

	env->shortages = memory_shortages();
	while (env->account.total > enough && (c = heaviest(env)))
		client_close_over(c, LIMIT_NO_MEMORY, c->share->account.nbytes);
}

void clients_shed(struct client_env *env)
{
	struct client *c;

	if (env->account.total > env->most)
		env->most = env->account.total;
	while (account_is_over(&env->account) && (c = heaviest(env)))
		client_close_over(c, LIMIT_MEMORY, c->share->account.nbytes);
	account_reset_wanted(&env->account);
	if (env->shortages != memory_shortages())
		shed_half(env);
	policy_env_trim(&env->policy);
	request_args_trim(&env->args);
}

/* Calls malloc_trim(), because the C library keeps small freed blocks for later use. */
void clients_trim(struct client_env *env)
{
	struct account *a = &env->account;

	memory_reserve();
	list_each (struct client_share, s, &a->shares, account.node)
		client_note_reading(s);
	if (env->most < env->account.total + TRIM_BYTES)
		return;
	env->most = env->account.total;
#ifdef __GLIBC__
	malloc_trim(0);
#endif
}
