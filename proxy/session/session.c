/* SPDX-License-Identifier: BSD-3-Clause */
#include "session/session.h"

#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"

void session_init(struct session *s)
{
	*s = (struct session){ .proto = 2 };
	list_init(&s->awaited);
}

void session_fini(struct session *s)
{
	pending_free_list(&s->awaited);
	transaction_fini(&s->txn);
	for (size_t i = 0; s->texts && i < LOGIN_TEXTS; i++)
		free(s->texts[i]);
	free(s->texts);
}

/* --- when requests are sent ------------------------------------------------------- */

void session_await(struct session *s, struct pending_request *r)
{
	pending_charge(r, &s->pending_nbytes);
	list_append(&s->awaited, &r->node);
	s->nawaited += r->kind != PENDING_NOTICE;
	s->nsubscribing += r->kind == PENDING_SUBSCRIBE;
}

void session_track(struct session *s, struct pending_request *r)
{
	if (session_in_multi(s)) {
		pending_charge(r, &s->pending_nbytes);
		transaction_add_pending(&s->txn, r);
	} else {
		session_await(s, r);
	}
}

void session_withdraw(struct session *s, struct pending_request *r)
{
	if (list_empty(&r->node))
		return;
	list_remove(&r->node);
	s->nawaited -= r->kind != PENDING_NOTICE;
	s->nsubscribing -= r->kind == PENDING_SUBSCRIBE;
}

void session_complete(struct session *s, struct pending_request *r)
{
	session_withdraw(s, r);
	pending_free(r);
}

struct pending_request *session_exec(struct session *s)
{
	/* Redis refuses an EXEC without MULTI, and continues to watch the keys. */
	return session_in_multi(s) ? transaction_exec(&s->txn) : NULL;
}

struct pending_request *session_exec_pending(struct session *s)
{
	struct pending_request *exec;

	HASP_ASSERT(session_in_multi(s));
	exec = transaction_exec(&s->txn);
	return exec ? exec : pending_new(PENDING_EXEC);
}

bool session_may_be_blocked(const struct session *s)
{
	list_each (const struct pending_request, r, &s->awaited, node)
		if (r->blocks)
			return true;
	return false;
}

/* Calls `fn` for each request with its database. A SELECT among the requests changes *db. */
static void each_awaited(const struct list *requests, int *db,
                         void (*fn)(void *arg, struct pending_request *r, int db), void *arg)
{
	for (struct list *at = requests->next; at != requests; at = at->next) {
		struct pending_request *r = container_of(at, struct pending_request, node);
		if (r->kind == PENDING_SELECT)
			*db = r->db;
		fn(arg, r, *db);
		if (r->kind == PENDING_EXEC)
			each_awaited(&r->queued, db, fn, arg);
	}
}

void session_each_awaited(const struct session *s,
                          void (*fn)(void *arg, struct pending_request *r, int db), void *arg)
{
	int db = s->db;

	each_awaited(&s->awaited, &db, fn, arg);
}

void session_each_queued(const struct session *s, const struct pending_request *exec,
                         void (*fn)(void *arg, struct pending_request *r, int db), void *arg)
{
	int db = s->db;

	each_awaited(&exec->queued, &db, fn, arg);
}

/* --- when they are answered -------------------------------------------------------- */

/* Replaces a text of the session by `text`, which the session then owns; NULL: no text. */
static void replace_text(struct session *s, enum login_text which, char *text)
{
	if (!s->texts) {
		if (!text)
			return;
		s->texts = xcalloc(LOGIN_TEXTS, sizeof(*s->texts));
		s->login_nbytes = LOGIN_TEXTS * sizeof(*s->texts);
	}
	if (s->texts[which])
		s->login_nbytes -= (uint32_t)strlen(s->texts[which]) + 1;
	if (text)
		s->login_nbytes += (uint32_t)strlen(text) + 1;
	free(s->texts[which]);
	s->texts[which] = text;
}

void session_set_text(struct session *s, enum login_text which, struct slice text)
{
	replace_text(s, which, xmemdup(text.p, text.n));
}

/* Applies RESET. Keeps the name and version of the client's library, as Redis does. */
static void session_reset(struct session *s)
{
	s->db = 0;
	s->proto = 2;
	s->certainty = SESSION_CERTAIN;
	s->login = LOGIN_UNKNOWN;
	for (enum login_text i = TEXT_USER; i <= TEXT_NAME; i++)
		replace_text(s, i, NULL);
	s->subscriptions = (struct subscriptions){ 0 };
	transaction_discard(&s->txn);
}

void session_set_admission(struct session *s, enum session_login admission)
{
	HASP_ASSERT(admission != LOGIN_DONE);
	if (s->login != LOGIN_DONE)
		s->login = admission;
}

void session_set_logged_in(struct session *s)
{
	s->login = LOGIN_DONE;
}

const char *session_user(const struct session *s)
{
	if (s->certainty == SESSION_USER_UNCERTAIN)
		return NULL;
	return session_text(s, TEXT_USER) ? s->texts[TEXT_USER] : "default";
}

static void log_in_as(struct session *s, struct pending_request *r)
{
	s->by_hello |= r->kind == PENDING_HELLO;
	if (r->login->proto)
		s->proto = r->login->proto;
	if (r->login->texts[TEXT_USER]) {
		if (r->login->user_unknown)
			s->certainty = SESSION_USER_UNCERTAIN;
		else if (s->certainty == SESSION_USER_UNCERTAIN)
			s->certainty = SESSION_UNCERTAIN;
		s->login = LOGIN_DONE;
	}
	for (enum login_text i = 0; i < LOGIN_TEXTS; i++) {
		char *text = r->login->texts[i];

		if (!text)
			continue;
		r->login->texts[i] = NULL;
		/* A user without a password logs in with an empty one, which hasp repeats on
		 * other links. */
		if (!*text && i != TEXT_PASSWORD) {
			free(text);
			text = NULL;
		}
		replace_text(s, i, text);
	}
}

/* Applies a request that Redis has carried out. */
static void apply_request(struct session *s, struct pending_request *r)
{
	switch (r->kind) {
	case PENDING_SELECT:
		s->db = r->db;
		break;
	case PENDING_RESET:
		session_reset(s);
		break;
	case PENDING_DISCARD:
		transaction_discard(&s->txn);
		break;
	case PENDING_HELLO:
	case PENDING_AUTH:
	case PENDING_NAME:
	case PENDING_SETINFO:
		log_in_as(s, r);
		break;
	default:
		break;
	}
}

/* Marks the changes of the request as unknown, because Redis may or may not have run it. */
static void mark_unknown(struct session *s, const struct pending_request *r)
{
	bool is_reset = r->kind == PENDING_RESET;

	if (s->certainty == SESSION_CERTAIN && r->kind <= PENDING_EXEC)
		s->certainty = SESSION_UNCERTAIN;
	if (pending_discards(r))
		transaction_discard(&s->txn);
	if (r->kind == PENDING_SELECT || is_reset)
		s->db = -1;
	if (pending_user(r) || is_reset)
		s->certainty = SESSION_USER_UNCERTAIN;
	if (pending_name(r) || is_reset)
		replace_text(s, TEXT_NAME, NULL);
}

/* Assumes that Redis changes the protocol as the request says: the form of the replies of
 * hasp's scripts depends on it. */
static void assume_protocol(struct session *s, const struct pending_request *r)
{
	if (r->kind == PENDING_RESET)
		s->proto = 2;
	else if (r->kind == PENDING_HELLO && r->login->proto)
		s->proto = r->login->proto;
}

static void mark_all_unknown(struct session *s, struct list *l)
{
	list_shift_each (struct pending_request, r, l, node) {
		if (r->kind == PENDING_EXEC)
			mark_all_unknown(s, &r->queued);
		assume_protocol(s, r);
		mark_unknown(s, r);
		pending_free(r);
	}
}

/* Drops `exec`, which may be NULL, and the requests of its transaction. Marks what these may
 * have changed as unknown. */
static void forget_queued(struct session *s, struct pending_request *exec)
{
	if (!exec)
		return;
	mark_all_unknown(s, &exec->queued);
	pending_free(exec);
}

/* True if Redis accepts the bytes of `name` as a client's name. */
static bool is_valid_name(const char *name)
{
	for (; *name; name++)
		if (*name < '!' || *name > '~')
			return false;
	return true;
}

void session_assume(struct session *s, struct pending_request *r)
{
	assume_protocol(s, r);
	if (r->kind != PENDING_NAME)
		mark_unknown(s, r);
	else if (is_valid_name(r->login->texts[TEXT_NAME]))
		apply_request(s, r);
	pending_free(r);
}

/* Ends the transaction of `multi`, which Redis refused, if it is still open. */
static void reject_transaction(struct session *s, const struct pending_request *multi)
{
	/* If a later MULTI is awaited, that MULTI began the open transaction. */
	list_each_after (const struct pending_request, r, multi, &s->awaited, node)
		if (r->kind == PENDING_MULTI)
			return;
	forget_queued(s, transaction_reject(&s->txn));
}

/* True if Redis carried out the request. AUTH and HELLO each have one form of success. */
static bool is_accepted(const struct pending_request *r, const struct resp_reply *reply)
{
	if (r->kind == PENDING_AUTH)
		return reply->type == '+';
	if (r->kind == PENDING_HELLO)
		return reply->type == '*' || reply->type == '%';
	return !resp_reply_is_error(reply);
}

static void complete_one(struct session *s, struct pending_request *r,
                         const struct resp_reply *reply, struct slice frame,
                         session_done_fn *done, void *arg)
{
	if (done)
		done(arg, r, s->db, reply, frame);
	if (r->kind == PENDING_MULTI)
		transaction_begun(&s->txn);
	if (is_accepted(r, reply))
		apply_request(s, r);
	else if (r->kind == PENDING_HELLO || !resp_reply_is_error(reply))
		/* Redis has refused an option of HELLO, but applied those before it. */
		mark_unknown(s, r);
	else if (r->kind == PENDING_MULTI)
		reject_transaction(s, r);
	else if (pending_discards(r))
		/* Redis keeps the transaction open, and will refuse its EXEC. */
		transaction_abort(&s->txn);
}

/* As mark_unknown(), for a request whose reply hasp did not keep. If Redis may have changed the
 * protocol, the protocol, too, becomes unknown. */
static void mark_unknown_reply(struct session *s, const struct pending_request *r)
{
	if (r->kind == PENDING_HELLO && r->login->proto && r->login->proto != s->proto)
		s->proto = 0;
	mark_unknown(s, r);
}

/* Applies the replies in EXEC's reply to the requests of its transaction. */
static void complete_queued(struct session *s, struct pending_request *exec,
                            struct slice captured, session_done_fn *done, void *arg)
{
	struct slice elements = reply_elements(captured), at = elements;
	struct resp_reply reply = { 0 };
	size_t ntaken = 0;

	list_shift_each (struct pending_request, r, &exec->queued, node) {
		for (; ntaken <= r->index; ntaken++) {
			at = elements;
			if (!reply_next(&elements, &reply))
				break;
		}
		if (ntaken > r->index)
			complete_one(s, r, &reply, slice_of(at.p, at.n - elements.n), done,
			             arg);
		else
			mark_unknown_reply(s, r);
		pending_free(r);
	}
}

void session_reply(struct session *s, struct pending_request *r, const struct resp_reply *reply,
                   struct slice captured, session_done_fn *done, void *arg)
{
	if (r->kind != PENDING_EXEC)
		complete_one(s, r, reply, captured, done, arg);
	else if (!resp_reply_is_error(reply) && !reply->nil)
		complete_queued(s, r, captured, done, arg);
	session_complete(s, r);
}

bool session_frame(struct session *s, const struct reply_scan *frame,
                   struct pending_request *head, bool *ended)
{
	struct acks *acks = head && head->kind == PENDING_SUBSCRIBE ? &head->acks : NULL;

	return subscriptions_frame(&s->subscriptions, frame, acks, s->proto == 3, ended);
}

void session_make_opaque(struct session *s)
{
	struct pending_request *exec = s->txn.exec;

	s->txn.exec = NULL;
	s->opaque = true;
	s->nawaited = s->nsubscribing = 0;
	mark_all_unknown(s, &s->awaited);
	forget_queued(s, exec);
}
