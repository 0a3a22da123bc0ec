/* SPDX-License-Identifier: BSD-3-Clause
 *
 * client: a client's state and buffers, its memory, its end, and the context in which policy/
 * decides about its requests. The steps of a request are in exchange.c.
 */
#include "client/client_internal.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/quote.h"
#include "net/address.h"
#include "policy/classifier.h"
#include "watch/shared_tracker.h"

/* --- state ------------------------------------------------------------------------------ */

#define TO(state) (1u << CLIENT_##state)
#define ENDS (TO(FINISHING) | TO(DEAD))
static const unsigned allowed[CLIENT_STATES] = {
	[CLIENT_OPEN] = TO(OPEN) | TO(STREAMING) | TO(TUNNEL) | TO(REFUSED) | TO(PARKED_REPLY) |
	                TO(PARKED_DEFERRED) | TO(PARKED_LINK) | TO(PARKED_SPACE) |
	                TO(PARKED_COMMAND) | TO(PARKED_QUEUE) | TO(HANDED) | ENDS,
	[CLIENT_STREAMING] = TO(OPEN) | TO(REFUSED) | ENDS,
	[CLIENT_TUNNEL] = ENDS,
	[CLIENT_REFUSED] = ENDS,
	[CLIENT_PARKED_REPLY] = TO(OPEN) | TO(PARKED_REPLY) | TO(PARKED_QUEUE) |
	                        TO(PARKED_LINK) | TO(PARKED_TURN) | TO(PARKED_ACK) |
	                        TO(PARKED_ROUND) | ENDS,
	[CLIENT_PARKED_DEFERRED] = TO(OPEN) | ENDS,
	[CLIENT_PARKED_LINK] = TO(OPEN) | TO(PARKED_REPLY) | TO(PARKED_LINK) |
	                       TO(PARKED_QUEUE) | ENDS,
	[CLIENT_PARKED_SPACE] = TO(OPEN) | ENDS,
	[CLIENT_PARKED_COMMAND] = TO(OPEN) | ENDS,
	[CLIENT_PARKED_QUEUE] = TO(OPEN) | TO(PARKED_REPLY) | TO(PARKED_LINK) |
	                        TO(PARKED_QUEUE) | ENDS,
	[CLIENT_PARKED_TURN] = TO(OPEN) | TO(PARKED_REPLY) | TO(PARKED_LINK) |
	                       TO(PARKED_QUEUE) | ENDS,
	[CLIENT_PARKED_ACK] = TO(PARKED_REPLY) | ENDS,
	[CLIENT_PARKED_ROUND] = TO(OPEN) | ENDS,
	[CLIENT_HANDED] = TO(OPEN) | TO(DEAD),
	[CLIENT_FINISHING] = TO(DEAD),
	[CLIENT_DEAD] = 0,
};

bool client_may_become(enum client_state from, enum client_state to)
{
	return allowed[from] & (1u << to);
}

void client_set_state(struct client *c, enum client_state state)
{
	bool was_in_line = c->state == CLIENT_PARKED_TURN;

	HASP_ASSERT(client_may_become(c->state, state));
	c->state = state;
	list_remove(&c->turn);
	if (state == CLIENT_PARKED_COMMAND)
		list_append(&c->env->learning, &c->turn);
	if (was_in_line && c->deadlock) {
		deadlock_watch_end(c->deadlock);
		c->deadlock = NULL;
	}
}

void client_park(struct client *c, enum client_state why)
{
	client_set_state(c, why);
	HASP_ASSERT(client_is_parked(c));
	c->user.await_idle |= why == CLIENT_PARKED_LINK || c->env->phase != CLIENTS_SERVED;
}

void client_unpark(struct client *c)
{
	client_set_state(c, CLIENT_OPEN);
	client_resume(c);
}

void client_go_on(struct client *c)
{
	client_set_state(c, CLIENT_OPEN);
	if (buf_len(&c->in) || c->eof)
		client_resume(c);
	else
		client_read_on(c);
}

void client_resume(struct client *c)
{
	struct client_env *env = c->env;

	if (client_is_runnable(c))
		return;
	list_append(&env->runnable, &c->turn);
	watch_feed(env->loop, &env->run);
}

void client_end_wait(struct client *c)
{
	waiter_end(c->waiter);
	c->waiter = NULL;
}

bool client_is_decided(const struct client *c)
{
	return c->decided_in == c->env->policy.generation;
}

void client_decide_again(struct client *c)
{
	session_withdraw(&c->session, c->current);
	pending_free(c->current);
	c->current = NULL;
	c->scanned = 0;
	c->scan = (struct request_scan){ 0 };
	client_unpark(c);
}

void client_end_current(struct client *c)
{
	c->current = NULL;
	client_end_wait(c);
	buf_consume(&c->in, c->scanned);
	c->scanned = 0;
	client_go_on(c);
}

void client_complete_current(struct client *c)
{
	session_complete(&c->session, c->current);
	client_end_current(c);
}

void client_print_peer(const struct client *c, char *out, size_t n)
{
	if (c->behind)
		address_print((const struct sockaddr *)c->behind, sizeof(*c->behind), out, n);
	else
		address_print_peer(stream_fd(&c->stream), out, n);
}

/* --- reading ---------------------------------------------------------------------------- */

void client_set_active(struct client *c)
{
	c->active_at = c->env->policy.now;
	list_move(&c->env->clients, &c->node);
}

void client_steer_reading(struct client *c)
{
	if (client_is_dead(c))
		return;
	if (c->eof || client_is_throttled(c))
		stream_pause(&c->stream);
	else
		stream_resume(&c->stream);
	/* While hasp does not read from the client, it cannot see whether the client sends, so
	 * the client's link must not stay paused. */
	if (c->stream.paused && client_may_pause_link(c))
		client_steer_link(c);
}

void client_read_on(struct client *c)
{
	if (buf_len(&c->in) == 0)
		buf_give(&c->in, &c->env->inputs);
	client_steer_reading(c);
	if (!client_is_dead(c))
		client_notice_memory(c);
}

/* True if the client may have bytes to send that hasp has not read. */
static bool may_be_writing(const struct client *c)
{
	return !c->eof && (c->stream.paused || stream_has_input(&c->stream));
}

void client_steer_link(struct client *c)
{
	if (stream_pending(&c->stream) >= STREAM_HIGH_WATER && !may_be_writing(c))
		link_pause(c->user.link);
	else
		link_resume(c->user.link);
}

/* --- memory ----------------------------------------------------------------------------- */

/* A client that reads fewer bytes than this between two checks counts as not reading. */
#define READ_BYTES ((size_t)64 * 1024)

void client_note_reading(struct client_share *s)
{
	const struct stream *stream = &s->client->stream;

	if (stream_pending(stream) && stream->taken - s->read_till < READ_BYTES)
		return;
	s->read_till = stream->taken;
	s->read_at = s->client->env->policy.now;
}

void client_uncount_memory(struct client *c)
{
	if (c->share)
		account_set(&c->env->account, &c->share->account, 0);
	free(c->share);
	c->share = NULL;
}

void client_count_memory(struct client *c)
{
	size_t nbytes = client_nbytes(c) + link_user_nbytes(&c->user);

	if (c->waiter)
		nbytes += waiter_nbytes(c->waiter);
	if (c->state == CLIENT_PARKED_ROUND && c->asked)
		nbytes += c->asked->nbytes;
	if (nbytes < ACCOUNT_LEAST) {
		client_uncount_memory(c);
		return;
	}
	if (!c->share) {
		c->share = xcalloc(1, sizeof(*c->share));
		account_share_init(&c->share->account);
		c->share->client = c;
		c->share->read_at = c->env->policy.now;
		c->share->read_till = c->stream.taken;
	}
	client_note_reading(c->share);
	account_set(&c->env->account, &c->share->account, nbytes);
}

/* --- the end ---------------------------------------------------------------------------- */

void client_end_link_wait(struct client *c)
{
	if (!c->link_wait)
		return;
	pool_waiter_end(&c->link_wait->waiter);
	freelist_give(&c->env->link_waits, c->link_wait);
	c->link_wait = NULL;
}

void client_leave_link(struct client *c)
{
	struct link *l = c->user.link;

	client_end_link_wait(c);
	link_leave(&c->user);
	c->needs_wait_ping |= l != NULL;
	if (l && !c->shared)
		link_close(l);
}

/* True if hasp ends and cuts its clients off: it must not release the client's locks. */
static bool is_cut_off(const struct client *c)
{
	return c->env->phase == CLIENTS_CUT_OFF;
}

/* Releases the locks of a request that Redis may have carried out. */
static void undo(void *arg, struct pending_request *r, int db)
{
	struct client *c = arg;

	if (!is_cut_off(c))
		hold_release_refreshed(&c->locks->holds, r->lock_request, db);
	lock_request_undo(r->lock_request, db);
	r->lock_request = NULL;
	if (r->guard_op)
		guard_op_undo(r->guard_op, is_cut_off(c));
}

/* Releases the locks that the client holds or is about to acquire, and ends its wait. */
static void give_up_locks(struct client *c)
{
	/* Leave the queue first. The lines below undo requests that are not answered yet. */
	client_end_wait(c);
	if (c->current && (c->state == CLIENT_PARKED_TURN || list_empty(&c->current->node)) &&
	    parts_has(c->current->lock_request))
		lock_request_undo_now(c->current->lock_request, c->session.db);
	if (c->state != CLIENT_PARKED_TURN)
		session_each_awaited(&c->session, undo, c);
	if (c->state == CLIENT_PARKED_ACK) {
		replica_ask_cancel(c->ask);
		c->ask = NULL;
	} else if (c->state == CLIENT_PARKED_ROUND && c->asked) {
		c->asked->client = NULL;
		c->asked = NULL;
	}
	if (c->locks != context_locks_none()) {
		hold_owner_end(&c->locks->holds, !is_cut_off(c));
		read_set_end(&c->locks->read_set, clock_now(), is_cut_off(c));
	}
	if (c->quorum_op)
		quorum_op_cancel(c->quorum_op);
	c->quorum_op = NULL;
	shared_tracker_forget(c->env->policy.tracker, c->watched);
	c->watched = NULL;
	/* A request that hasp has not sent is in no list, so free it here. */
	if (c->current && list_empty(&c->current->node))
		pending_free(c->current);
	c->current = NULL;
}

void client_close(struct client *c, const char *reason)
{
	if (client_is_dead(c))
		return;
	log_debug("client_closed fd=%d reason=%s", stream_fd(&c->stream), QUOTE_STR(reason));
	/* A client that is finishing has already given up its link and its locks. */
	if (c->state != CLIENT_FINISHING) {
		client_leave_link(c);
		give_up_locks(c);
	}
	client_set_state(c, CLIENT_DEAD);
	client_uncount_memory(c);
	stream_close(&c->stream);
	buf_release(&c->in);
	list_move(&c->env->dead, &c->node);
}

bool client_is_listener(const struct client *c)
{
	return c->session.opaque || c->state == CLIENT_TUNNEL ||
	       session_is_subscribed(&c->session);
}

bool client_waits_for_answer(const struct client *c)
{
	return client_is_parked(c) || c->user.inflight > (c->state == CLIENT_STREAMING) ||
	       client_has_unsent(c) || stream_pending(&c->stream);
}

bool client_in_critical_section(const struct client *c)
{
	return session_in_transaction(&c->session) ||
	       (c->waiter && c->current && c->current->guard_op) ||
	       read_set_has_any(&c->locks->read_set, clock_now());
}

bool client_close_if_gone_in_pause(struct client *c)
{
	if (!c->eof || c->state != CLIENT_PARKED_LINK || c->user.inflight ||
	    !(c->env->node->held & NODE_PAUSED) || client_in_critical_section(c))
		return false;
	client_close(c, "hung up during a pause");
	return true;
}

/* Reads and drops further input of the client, because the kernel resets a connection that is
 * closed with unread bytes, and the client might never see its last replies. */
void client_finish(struct client *c, const char *reason)
{
	if (c->eof && stream_pending(&c->stream) == 0 && !client_is_ending(c))
		client_close(c, reason);
	else
		client_finish_with(c, SLICE_NONE, reason);
}

void client_finish_with(struct client *c, struct slice error, const char *reason)
{
	if (client_is_ending(c))
		return;
	log_debug("client_closing fd=%d reason=%s", stream_fd(&c->stream), QUOTE_STR(reason));
	client_leave_link(c);
	give_up_locks(c);
	if (error.n)
		stream_send(&c->stream, error);
	client_set_state(c, CLIENT_FINISHING);
	buf_release(&c->in);
	client_count_memory(c);
	c->active_at = c->env->policy.now;
	list_move(&c->env->finishing, &c->node);
	stream_shutdown(&c->stream);
	if (!c->eof)
		stream_resume(&c->stream);
	else if (stream_pending(&c->stream) == 0)
		client_close(c, reason);
}

/* --- limits ------------------------------------------------------------------------------- */

/* The most log lines about closed clients in ten seconds. */
#define WARNINGS_MAX 10

const char *const limit_words[LIMITS] = {
	[LIMIT_MAX_CLIENTS] = "max_clients",  [LIMIT_CLIENT_OUTPUT] = "client_output_limit",
	[LIMIT_MEMORY] = "memory_limit",      [LIMIT_NO_MEMORY] = "memory",
	[LIMIT_IDLE] = "client_idle_timeout", [LIMIT_LOGIN] = "client_login_timeout",
	[LIMIT_REQUEST] = "max_request",      [LIMIT_LINKS] = "links_max",
	[LIMIT_DESCRIPTORS] = "descriptors",
};

void client_close_over(struct client *c, enum limit which, size_t nbytes)
{
	struct client_env *env = c->env;
	const char *limit = limit_words[which];
	char peer[128];
	uint32_t suppressed;

	env->nover++;
	metrics_count(&env->counters.limits[which], 1);
	if (log_limit_pass(&env->over_limit, env->policy.now, WARNINGS_MAX, &suppressed)) {
		client_print_peer(c, peer, sizeof(peer));
		log_warning("client_over_limit limit=%s client=%s listener=%s bytes=%zu "
		            "bytes_of_all=%zu closed_clients=%llu suppressed=%u",
		            limit, QUOTE_STR(peer), c->listener, nbytes, env->account.total,
		            (unsigned long long)env->nover, suppressed);
	}
	client_close(c, limit);
}

bool client_check_output(struct client *c)
{
	size_t unread = stream_pending(&c->stream);

	if (unread <= (size_t)c->env->policy.config->client_output_limit)
		return true;
	client_close_over(c, LIMIT_CLIENT_OUTPUT, unread);
	return false;
}

/* The most log lines about failed TLS connections in ten seconds. */
#define TLS_WARNINGS_MAX 10

void client_log_tls_failure(struct client *c, const char *reason)
{
	char peer[128];
	uint32_t suppressed;

	if (!log_limit_pass(&c->env->tls_failed, c->env->policy.now, TLS_WARNINGS_MAX,
	                    &suppressed))
		return;
	client_print_peer(c, peer, sizeof(peer));
	log_warning("tls_failed address=%s listener=%s reason=%s suppressed=%u",
	            QUOTE_STR(peer), c->listener, QUOTE_STR(reason), suppressed);
}

/* --- the context of a decision ------------------------------------------------------------ */

void client_rewrite_opts(const struct client *c, bool eval, struct rewrite_opts *opts)
{
	const struct session *s = &c->session;
	bool in_multi = session_in_multi(s);

	*opts = script_jobs_opts(c->env->policy.script_jobs, session_db(s));
	/* CLIENT CACHING applies to the next command only, even to a call that fails because
	 * Redis lacks its script. So send the script's text after CLIENT CACHING. */
	opts->eval = eval || in_multi || s->opaque || s->affects_next;
	opts->resp3 = s->proto == 3;
	opts->ticket = waiters_ticket(c->env->policy.waiters);
	/* Commands in a transaction never wait. Commands of an opaque client do not wait
	 * either, because hasp could not report a grant to it. */
	if (!in_multi && !s->opaque && s->db >= 0) {
		opts->wait_max_ms = c->waiter ? waiter_left_ms(c->waiter) : INT64_MAX;
		opts->place = c->waiter ? waiter_place(c->waiter) : 0;
		opts->report_refusal = true;
	}
}

static struct token *client_identity(void *arg)
{
	struct client *c = client_of(arg);

	if (!c->identity)
		c->identity = owner_identify(stream_fd(&c->stream), c->behind, c->env->worker);
	return c->identity;
}

struct client *client_of_holder(const struct hold_owner *o)
{
	return client_of(container_of(o, struct context_locks, holds)->client);
}

struct client *client_of_reader(const struct read_set *r)
{
	return client_of(container_of(r, struct context_locks, read_set)->client);
}

void client_describe(struct client *c, struct buf *out)
{
	owner_describe(out, client_identity(c), session_text(&c->session, TEXT_NAME));
}

static void make_opts(void *arg, struct rewrite_opts *opts)
{
	client_rewrite_opts(client_of(arg), false, opts);
}

void client_context(struct client *c, struct context *x)
{
	x->env = &c->env->policy;
	x->session = &c->session;
	x->locks = &c->locks;
	x->watched = &c->watched;
	x->npipelined = c->npipelined;
	x->listener = c->listener;
	/* In front of a cluster, the cluster session sends the write that must precede WAIT. */
	x->needs_wait_ping = c->needs_wait_ping && !c->env->node->links.connect;
	x->must_log_in = client_must_log_in(c);
	/* A pinned client may have sent CLIENT CACHING, or the like. It applies to the next
	 * command, which must not be one of hasp's own. */
	x->may_be_optimistic = !c->pinned && !c->transacting;
	x->identity = client_identity;
	x->make_opts = make_opts;
	x->arg = c;
}

struct context client_context_again(struct client *c, struct resp_view *view,
                                    struct command_info *what)
{
	struct context x;
	bool whole;

	*view = request_view(&c->env->args, buf_head(&c->in), c->scanned, &whole);
	HASP_ASSERT(whole && view->argc > 0);
	*what = classifier_find(&c->env->policy, view->argv[0]);
	context_set_command(&x, &c->env->policy, what, view, NULL);
	client_context(c, &x);
	return x;
}
