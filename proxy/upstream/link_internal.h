/* SPDX-License-Identifier: BSD-3-Clause
 *
 * link_internal: what the files of a link share: its users, its state and what it sends
 * (link.c), and what comes back (link_replies.c).
 */
#ifndef HASP_UPSTREAM_LINK_INTERNAL_H
#define HASP_UPSTREAM_LINK_INTERNAL_H

#include <stddef.h>
#include <stdint.h>

#include "base/fatal.h"
#include "net/loop_timers.h"
#include "upstream/link.h"

/* --- fifo --- */

/* The requests in flight on a link, oldest first. Successive plain requests of one user
 * are one entry, a run: so a pipeline of any depth takes one entry. */

struct link_user;

/* A run: requests of one user that have the same flags. */
struct inflight {
	struct link_user *user; /* NULL: it has left, or the link itself sent the request */
	void *tag; /* of link_expect(); NULL if `count` > 1 */
	uint32_t count;
	uint16_t flags; /* of link_expect(); 0 if `count` > 1 */
};

/* A ring. All zero: empty. */
struct fifo {
	struct inflight *runs;
	uint32_t cap; /* a power of two, or 0 */
	uint32_t head;
	uint32_t nruns;
	uint32_t popped; /* runs since it was empty at last, or more; may wrap around */
};

static inline struct inflight *fifo_at(const struct fifo *f, uint32_t i)
{
	return &f->runs[(f->head + i) & (f->cap - 1)];
}

/* The number of the run that is pushed next. Numbers count only while the ring has runs. */
static inline uint32_t fifo_next_number(const struct fifo *f)
{
	return f->popped + f->nruns;
}

/* Where the run of this number is, or the oldest one, if it was popped. */
static inline uint32_t fifo_index(const struct fifo *f, uint32_t number)
{
	uint32_t i = number - f->popped;

	return i < f->nruns ? i : 0;
}

/* NULL: empty. */
static inline struct inflight *fifo_head(const struct fifo *f)
{
	return f->nruns ? fifo_at(f, 0) : NULL;
}

void fifo_push(struct fifo *f, struct link_user *user, uint16_t flags, void *tag);

/* For fifo_push_plain() where the ring is full. Apart, so that the other way, which is taken
 * nearly always, needs no registers saved. */
void fifo_grow_push_plain(struct fifo *f, struct link_user *user, uint32_t n);

/* `n` requests, at least one, without flags and tag. */
static inline void fifo_push_plain(struct fifo *f, struct link_user *user, uint32_t n)
{
	struct inflight *last = f->nruns ? fifo_at(f, f->nruns - 1) : NULL;

	if (last && last->user == user && last->flags == 0 && last->count <= UINT32_MAX - n) {
		last->count += n;
		return;
	}
	if (f->nruns == f->cap)
		fifo_grow_push_plain(f, user, n);
	else
		*fifo_at(f, f->nruns++) = (struct inflight){ user, NULL, n, 0 };
}

/* Empties it and frees its memory. */
void fifo_clear(struct fifo *f);

/* A ring that has grown longer than this frees its memory when it is empty. With 32 the link of
 * fifty busy clients did so, and grew again, in most turns of the loop. */
#define FIFO_CAP_KEPT 64

/* Takes `n` requests off the head's run, which must have as many. */
static inline void fifo_pop(struct fifo *f, uint32_t n)
{
	struct inflight *head = &f->runs[f->head];

	HASP_ASSERT(head->count >= n);
	head->count -= n;
	if (head->count)
		return;
	f->head = (f->head + 1) & (f->cap - 1);
	f->popped++;
	if (--f->nruns == 0 && f->cap > FIFO_CAP_KEPT)
		fifo_clear(f);
}

/* The state of a link. link_set_state() is the only writer, and asserts these transitions:
 *
 *   NEW ---- no login ----> OPEN -- link_make_opaque() --> TURNING_OPAQUE
 *    |                       ^                              |       ^
 *    | login                 | accepted    replies that are |       | accepted
 *    v                       |            discarded are in  v       |
 *   LOGGING_IN --------------'                            OPAQUE    |
 *    |                                                              |
 *    '-- link_make_opaque() --> LOGGING_IN_OPAQUE ------------------'
 *
 *   From each of them but NEW to CLOSED: link_close(), the connection breaks or cannot be made,
 *   Redis refuses the login.
 *
 * Being connected is not a state: until dialling has ended, the stream keeps the sent bytes. */
enum link_state {
	LINK_NEW, /* inside link_new() */
	LINK_LOGGING_IN, /* holds back what users send until Redis accepts the login */
	LINK_LOGGING_IN_OPAQUE, /* as LINK_LOGGING_IN, after link_make_opaque() */
	LINK_OPEN, /* sends users' requests, and scans replies */
	LINK_TURNING_OPAQUE, /* waits for the replies that come first and are discarded */
	LINK_OPAQUE, /* forwards bytes as they come */
	LINK_CLOSED, /* no users, no connection; links_reap() frees it */
	LINK_NSTATES,
};

/* (a further flag) The answer to the link's own login; the tag is a struct login_step. */
#define LINK_LOGIN (1u << 8)

/* A command of the link's own login: prefixes of harmless errors, up to a NULL. */
struct login_step {
	const char *harmless[3];
};

#define LOGIN_STEPS_MAX 6

/* How a link logs in. */
struct login_script {
	struct buf bytes;
	const struct login_step *steps[LOGIN_STEPS_MAX];
	uint8_t n;
};

/* A link that is not connected and logged in, and has time to try again: link_opening.c. */
struct link_opening_ops {
	void (*try)(struct link *l); /* connects, if there is a server */
	void (*go_down)(struct link *l, enum link_end end, const char *reason);
	/* The connection is closed; what logs in is to be sent once more on another. */
	void (*restart_login)(struct link *l);
};

struct link_opening {
	struct link *link;
	const struct link_opening_ops *ops;
	struct loop_timer timer; /* the next try, or the end of the time */
	double until; /* env->clock() */
	char *reason; /* why it was not there yet; NULL: no try has failed */
	struct login_script login;
};

/* The reply that is being read. */
struct link_reply {
	struct link_user *to; /* NULL: it is discarded */
	struct buf captured; /* its bytes so far, if they are to be captured */
	uint16_t flags; /* of link_expect() */
	bool overflowed; /* it is longer than LINK_CAPTURE_MAX: `captured` was given up */
	bool begun; /* an earlier read ended inside it; forwarded as far as it was there */
};

struct link {
	struct link_env *env;
	struct list node; /* in env->open or env->dead */
	enum link_state state;
	struct list users;
	size_t nusers;
	struct dial *dial; /* NULL: connected, or closed, or between two tries */
	struct link_opening *opening; /* while it may try again; NULL: it does not */
	struct stream stream;
	struct reply_scan scan;
	struct reply_alike alike;
	struct link_reply reply;
	struct fifo fifo;
	struct buf held_back; /* sent by users while the link logs in */
	uint8_t logins_due; /* answers to the link's own login that are still to come */
	uint32_t nreads; /* how often something was read from it */
	uint32_t nreads_seen; /* liveness.c: at the last check */
	uint32_t nsilent; /* liveness.c: checks in a row that found a reply overdue */
	bool own; /* one of hasp's own: links_max does not concern it */
	bool shared; /* any number of users; else one at most */
	bool watched; /* link_watch() */
	bool was_full; /* link_is_full() said so: a user waits for on_drained() */
	bool outdated; /* link_set_outdated() */
	uint8_t nreadonly; /* link_replies.c: how many bytes of an error match READONLY */
	bool shutdown_due; /* link_shutdown() was called: half-close after `held_back` */
};

/* Asserts that the state may follow the present one. */
void link_set_state(struct link *l, enum link_state state);

/* The link ends; its users get on_down(). Nothing happens if it is closed. */
void link_go_down(struct link *l, enum link_end end, const char *reason);

/* Callbacks of the stream: the socket has something to read; all that waited was written. */
void link_on_readable(struct stream *s);
void link_on_drained(struct stream *s);

/* Starts the tries, which may take this many seconds together. */
void link_begin_opening(struct link *l, double seconds, const struct link_opening_ops *ops);
/* Ends the tries: the link is connected and logged in, or closed. May be called twice. */
void link_end_opening(struct link *l);
/* How many seconds are left. */
double link_opening_left(const struct link_opening *o);
/* A try failed. */
void link_opening_note(struct link_opening *o, const char *reason);
/* The next try, if there is none under way then. */
#define OPENING_AGAIN_SECONDS 0.1
void link_opening_wait(struct link_opening *o, double seconds);
/* Tries again, at the environment's address, in the rest of its time. */
void link_reopen(struct link *l);
/* The connection broke before it was logged in: true if it tries again. */
bool link_tries_again(struct link *l, const char *reason);

/* Notifies the users that Redis accepted the login. */
void link_notify_ready(struct link *l);

/* Notifies users that found the link full that it has space again. */
void link_notify_drained(struct link *l);

/* From TURNING_OPAQUE to OPAQUE, unless the next reply is to be discarded: such replies come
 * before all that is for the user. */
void link_try_opaque(struct link *l);
/* From TURNING_OPAQUE to OPAQUE: nothing is in flight any more. */
void link_turn_opaque(struct link *l);

static inline enum link_kind link_kind(const struct link *l)
{
	if (l->own)
		return LINK_KIND_OWN;
	return l->shared ? LINK_KIND_SHARED : LINK_KIND_PRIVATE;
}

/* True while the link queues its users' requests until Redis accepts the login. */
static inline bool link_is_logging_in(const struct link *l)
{
	return l->state == LINK_LOGGING_IN || l->state == LINK_LOGGING_IN_OPAQUE;
}

/* Where a reply ends still matters. */
static inline bool link_scans_replies(const struct link *l)
{
	return l->state != LINK_OPAQUE && l->state != LINK_CLOSED;
}

/* The only user of a private link; NULL: it is shared, or has none. */
static inline struct link_user *link_sole_user(const struct link *l)
{
	if (l->shared || list_empty(&l->users))
		return NULL;
	return container_of(l->users.next, struct link_user, node);
}

/* The reply that is being read is forwarded to its user as it comes. */
static inline bool link_forwards(const struct link *l)
{
	return l->reply.to && !(l->reply.flags & (LINK_DISCARD | LINK_INTERCEPT));
}

#endif
