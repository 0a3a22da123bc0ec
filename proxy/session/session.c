/* SPDX-License-Identifier: BSD-3-Clause */
#include "session/session.h"

#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"
#include "lock/observe/observation.h"

/* More keys than this are not remembered as watched: they are rewritten, as without
 * WATCH, which is safe. */
#define WATCHED_MAX_BYTES ((size_t)64 * 1024)

struct pending_request *pending_request_new(enum pending_kind kind)
{
	return pending_request_new_of(NULL, kind);
}

struct pending_request *pending_request_new_of(struct freelist *freelist,
                                               enum pending_kind kind)
{
	struct pending_request *r = freelist ? freelist_take(freelist) : xmalloc(sizeof(*r));

	*r = (struct pending_request){ .kind = kind, .freelist = freelist };
	list_init(&r->node);
	list_init(&r->queued);
	return r;
}

static void free_list(struct list *l)
{
	struct list *node;

	while ((node = list_shift(l)))
		pending_request_free(container_of(node, struct pending_request, node));
}

void pending_request_free(struct pending_request *r)
{
	list_remove(&r->node);
	free_list(&r->queued);
	pending_lock_free(r->pending_lock);
	guard_op_free(r->call);
	observation_free(r->observation);
	buf_release(&r->probe_keys);
	free(r->user);
	free(r->password);
	free(r->name);
	if (r->freelist)
		freelist_give(r->freelist, r);
	else
		free(r);
}

void pending_request_probe_key(struct pending_request *r, struct slice key)
{
	buf_append(&r->probe_keys, slice_of((const char *)&key.n, sizeof(key.n)));
	buf_append(&r->probe_keys, key);
}

void pending_request_each_probe_key(const struct pending_request *r,
                                    void (*fn)(void *arg, struct slice key), void *arg)
{
	struct slice rest = buf_slice(&r->probe_keys);
	struct list *at;

	while (rest.p && rest.n) {
		size_t n;
		memcpy(&n, rest.p, sizeof(n));
		fn(arg, slice_of(rest.p + sizeof(n), n));
		rest.p += sizeof(n) + n;
		rest.n -= sizeof(n) + n;
	}
	for (at = r->queued.next; at != &r->queued; at = at->next)
		pending_request_each_probe_key(container_of(at, struct pending_request, node),
		                               fn, arg);
}

void session_init(struct session *s)
{
	*s = (struct session){ .proto = 2 };
	list_init(&s->awaited);
	list_init(&s->queued);
}

void session_fini(struct session *s)
{
	free_list(&s->awaited);
	free_list(&s->queued);
	buf_release(&s->watched);
	buf_release(&s->block);
	free(s->user);
	free(s->password);
	free(s->name);
}

void session_track(struct session *s, struct pending_request *r)
{
	if (s->in_multi) {
		r->index = s->nqueued;
		list_append(&s->queued, &r->node);
	} else {
		list_append(&s->awaited, &r->node);
		s->nawaited += r->kind != PENDING_NOTICE;
	}
}

void session_complete(struct session *s, struct pending_request *r)
{
	s->nawaited -= r->kind != PENDING_NOTICE;
	pending_request_free(r);
}

bool session_may_be_blocked(const struct session *s)
{
	for (struct list *at = s->awaited.next; at != &s->awaited; at = at->next)
		if (container_of(at, struct pending_request, node)->blocks)
			return true;
	return false;
}

/* What is remembered of a transaction's commands. */
static void forget_block(struct session *s)
{
	buf_release(&s->block);
	s->nblock = 0;
	s->block_lost = false;
	s->guards = GUARDS_UNWATCHED;
}

void session_multi(struct session *s)
{
	if (s->in_multi)
		return;
	s->in_multi = true;
	s->nqueued = 0;
}

struct pending_request *session_exec(struct session *s)
{
	/* Redis refuses it, and goes on watching. */
	if (!s->in_multi)
		return NULL;
	if (!list_empty(&s->queued))
		return session_exec_awaited(s);
	session_discard(s);
	return NULL;
}

struct pending_request *session_exec_awaited(struct session *s)
{
	struct pending_request *exec = pending_request_new(PENDING_EXEC);
	struct list *node;

	s->in_multi = false;
	session_unwatch(s);
	forget_block(s);
	while ((node = list_shift(&s->queued)))
		list_append(&exec->queued, node);
	session_track(s, exec);
	return exec;
}

void session_discard(struct session *s)
{
	s->in_multi = false;
	session_unwatch(s);
	forget_block(s);
	free_list(&s->queued);
}

/* A watched key counts in the database in which it was watched. */
static void watch_key(const struct session *s, struct slice key, struct buf *out)
{
	size_t n = sizeof(s->db) + key.n;

	buf_append(out, slice_of(&n, sizeof(n)));
	buf_append(out, slice_of(&s->db, sizeof(s->db)));
	buf_append(out, key);
}

void session_watch(struct session *s, struct slice key)
{
	if (buf_len(&s->watched) + key.n < WATCHED_MAX_BYTES)
		watch_key(s, key, &s->watched);
}

void session_unwatch(struct session *s)
{
	s->watching = false;
	buf_release(&s->watched);
}

/* Will the database be another one when the transaction is carried out? */
static bool selects_in_multi(const struct session *s)
{
	for (struct list *at = s->queued.next; at != &s->queued; at = at->next)
		if (container_of(at, struct pending_request, node)->kind == PENDING_SELECT)
			return true;
	return false;
}

bool session_watches(const struct session *s, struct slice key)
{
	struct slice rest = buf_slice(&s->watched);

	/* What is not known to be watched is checked. */
	if (rest.n == 0 || s->db < 0 || selects_in_multi(s))
		return false;
	while (rest.p && rest.n) {
		size_t n, head = sizeof(n) + sizeof(s->db);
		int db;
		memcpy(&n, rest.p, sizeof(n));
		memcpy(&db, rest.p + sizeof(n), sizeof(db));
		if (db == s->db && slice_eq(slice_of(rest.p + head, n - sizeof(db)), key))
			return true;
		rest.p += sizeof(n) + n;
		rest.n -= sizeof(n) + n;
	}
	return false;
}

/* Moves *with, if there is one, to *at; the empty string stands for nothing. */
static void replace(char **at, char **with)
{
	if (!*with)
		return;
	free(*at);
	*at = **with ? *with : NULL;
	if (!*at)
		free(*with);
	*with = NULL;
}

/* A user without a password logs in with an empty one, and must do so again elsewhere. */
static void replace_password(struct session *s, struct pending_request *r)
{
	if (!r->user)
		return;
	free(s->password);
	s->password = r->password;
	r->password = NULL;
}

static void clear_text(char **at)
{
	free(*at);
	*at = NULL;
}

static void reset(struct session *s)
{
	s->db = 0;
	s->proto = 2;
	s->user_unknown = false;
	s->uncertain = false;
	s->logged_in = false;
	clear_text(&s->user);
	clear_text(&s->password);
	clear_text(&s->name);
	memset(s->subscriptions, 0, sizeof(s->subscriptions));
}

const char *session_user(const struct session *s)
{
	if (s->user_unknown)
		return NULL;
	return s->user ? s->user : "default";
}

/* One request that Redis has carried out. */
static void apply(struct session *s, struct pending_request *r)
{
	switch (r->kind) {
	case PENDING_SELECT:
		s->db = r->db;
		break;
	case PENDING_RESET:
		reset(s);
		break;
	case PENDING_HELLO:
		if (r->proto)
			s->proto = r->proto;
		/* fall through */
	case PENDING_AUTH:
	case PENDING_NAME:
		s->user_unknown &= !r->user;
		s->logged_in |= r->user != NULL;
		replace_password(s, r);
		replace(&s->user, &r->user);
		replace(&s->name, &r->name);
		break;
	default:
		break;
	}
}

/* A request of which it is not known whether Redis has carried it out. */
static void mark_unknown(struct session *s, const struct pending_request *r)
{
	s->uncertain |= r->kind != PENDING_LOCK && r->kind != PENDING_PROBE &&
	                r->kind != PENDING_GUARD && r->kind != PENDING_NOTICE;
	if (r->kind == PENDING_SELECT || r->kind == PENDING_RESET)
		s->db = -1;
	if (r->user || r->kind == PENDING_RESET)
		s->user_unknown = true;
	if (r->name || r->kind == PENDING_RESET)
		clear_text(&s->name);
}

static void mark_all_unknown(struct session *s, struct list *l)
{
	struct list *node;

	while ((node = list_shift(l))) {
		struct pending_request *r = container_of(node, struct pending_request, node);
		mark_all_unknown(s, &r->queued);
		mark_unknown(s, r);
		pending_request_free(r);
	}
}

/* Redis takes no other bytes in a name. */
static bool is_name(const char *name)
{
	for (; *name; name++)
		if (*name < '!' || *name > '~')
			return false;
	return true;
}

void session_assume(struct session *s, struct pending_request *r)
{
	if (r->kind != PENDING_NAME)
		mark_unknown(s, r);
	else if (is_name(r->name))
		apply(s, r);
	pending_request_free(r);
}

/* MULTI was refused: what came behind it was not queued, but carried out. */
static void unqueue(struct session *s)
{
	struct list *node;

	s->in_multi = false;
	forget_block(s);
	while ((node = list_shift(&s->queued))) {
		struct pending_request *r = container_of(node, struct pending_request, node);
		mark_unknown(s, r);
		pending_request_free(r);
	}
}

static void complete_one(struct session *s, struct pending_request *r,
                         const struct resp_reply *reply, struct holds *holds,
                         struct hold_owner *owner)
{
	if (r->observation)
		observation_complete(r->observation, s->db, reply);
	if (r->pending_lock) {
		hold_apply(holds, owner, r->pending_lock, s->db, reply);
		r->pending_lock = NULL;
	}
	if (r->kind == PENDING_MULTI)
		s->block_refused = false;
	if (!resp_reply_is_error(reply))
		apply(s, r);
	else if (r->kind == PENDING_HELLO)
		/* What comes before the option that is wrong has been done. */
		mark_unknown(s, r);
	else if (r->kind == PENDING_MULTI)
		unqueue(s);
}

/* A transaction was carried out: each of its requests has its own reply in there. */
static void settle_queued(struct session *s, struct pending_request *exec, struct slice kept,
                          struct holds *holds, struct hold_owner *owner)
{
	struct list *node;
	struct slice elements = reply_elements(kept);
	struct resp_reply reply = { 0 };
	size_t ntaken = 0;

	while ((node = list_shift(&exec->queued))) {
		struct pending_request *r = container_of(node, struct pending_request, node);
		while (ntaken <= r->index && reply_next(&elements, &reply))
			ntaken++;
		if (ntaken > r->index)
			complete_one(s, r, &reply, holds, owner);
		else
			mark_unknown(s, r);
		pending_request_free(r);
	}
}

void session_reply(struct session *s, struct pending_request *r, const struct resp_reply *reply,
                   struct slice kept, struct holds *holds, struct hold_owner *owner)
{
	if (r->kind != PENDING_EXEC)
		complete_one(s, r, reply, holds, owner);
	else if (!resp_reply_is_error(reply) && !reply->nil)
		settle_queued(s, r, kept, holds, owner);
	session_complete(s, r);
}

static const struct {
	const char *name;
	enum subscription subscription;
	bool unsubscribe;
} acks[] = {
	{ "subscribe", SUBSCRIBED_CHANNELS, false },
	{ "unsubscribe", SUBSCRIBED_CHANNELS, true },
	{ "psubscribe", SUBSCRIBED_PATTERNS, false },
	{ "punsubscribe", SUBSCRIBED_PATTERNS, true },
	{ "ssubscribe", SUBSCRIBED_SHARDS, false },
	{ "sunsubscribe", SUBSCRIBED_SHARDS, true },
};

/* An acknowledgement tells how many channels and patterns together are subscribed now
 * (or how many shard channels), so that one kind's number follows from the other's. */
static void count_subscriptions(struct session *s, enum subscription which, long long total)
{
	uint32_t *n = s->subscriptions;

	if (which == SUBSCRIBED_CHANNELS)
		total -= n[SUBSCRIBED_PATTERNS];
	else if (which == SUBSCRIBED_PATTERNS)
		total -= n[SUBSCRIBED_CHANNELS];
	n[which] = total > 0 ? (uint32_t)total : 0;
}

static bool is_message(const struct session *s, struct slice first)
{
	return session_is_subscribed(s) && (slice_eq(first, SLICE_LIT("message")) ||
	                                    slice_eq(first, SLICE_LIT("pmessage")) ||
	                                    slice_eq(first, SLICE_LIT("smessage")));
}

bool session_frame(struct session *s, const struct reply_scan *frame,
                   struct pending_request *head, bool *ended)
{
	struct slice first = reply_scan_first(frame);
	bool awaited = head && head->kind == PENDING_SUBSCRIBE;

	*ended = false;
	/* In RESP3 an array is always an answer, whatever it begins with. */
	if (frame->reply.type != '>' && (frame->reply.type != '*' || s->proto == 3))
		return false;
	for (size_t i = 0; i < sizeof(acks) / sizeof(*acks); i++) {
		if (!slice_eq(first, slice_str(acks[i].name)))
			continue;
		if (!awaited && !session_is_subscribed(s))
			break;
		if (awaited && head->subscription == acks[i].subscription &&
		    head->unsubscribe == acks[i].unsubscribe) {
			/* UNSUBSCRIBE alone: one for each, or one that says there
			 * was none. */
			if (head->acks == 0)
				head->acks = s->subscriptions[head->subscription];
			*ended = head->acks <= 1;
			if (!*ended)
				head->acks--;
		}
		count_subscriptions(s, acks[i].subscription, frame->reply.integer);
		return true;
	}
	return frame->reply.type == '>' || is_message(s, first);
}

struct link_login session_login(const struct session *s)
{
	return (struct link_login){
		.db = s->db,
		.proto = s->proto,
		.user = s->user,
		.password = s->password,
		.name = s->name,
	};
}

bool session_is_subscribed(const struct session *s)
{
	return s->subscriptions[0] || s->subscriptions[1] || s->subscriptions[2];
}

void session_make_opaque(struct session *s)
{
	s->opaque = true;
	s->nawaited = 0;
	mark_all_unknown(s, &s->awaited);
	mark_all_unknown(s, &s->queued);
}

/* In a transaction the database changes on the way. */
static void undo_all(struct list *requests, int *db)
{
	struct list *at;

	for (at = requests->next; at != requests; at = at->next) {
		struct pending_request *r = container_of(at, struct pending_request, node);
		if (r->kind == PENDING_SELECT)
			*db = r->db;
		pending_lock_undo(r->pending_lock, *db);
		r->pending_lock = NULL;
		if (r->call)
			guard_op_undo(r->call);
		undo_all(&r->queued, db);
	}
}

void session_undo(struct session *s)
{
	int db = s->db;

	undo_all(&s->awaited, &db);
}
