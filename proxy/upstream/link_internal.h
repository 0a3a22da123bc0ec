/* SPDX-License-Identifier: BSD-3-Clause
 *
 * link_internal: struct link, shared by link.c (users, state, requests), link_open.c
 * (connecting), link_replies.c (replies) and liveness.c.
 */
#ifndef HASP_UPSTREAM_LINK_INTERNAL_H
#define HASP_UPSTREAM_LINK_INTERNAL_H

#include "base/fatal.h"
#include "net/loop_timers.h"
#include "upstream/link.h"

/* --- fifo --- */

/* The FIFO has the requests in flight on a link, oldest first. Successive plain requests of one
 * user share one entry, a run, so that a pipeline of any depth takes one entry. */

struct inflight {
	/* NULL: the user has left, or the link itself sent the request. */
	struct link_user *user;
	void *tag; /* argument of link_expect(); NULL if `count` > 1 */
	uint32_t count; /* number of requests in the run */
	uint16_t flags; /* argument of link_expect(); 0 if `count` > 1 */
};

/* A ring of runs. If all fields are 0, the ring is empty. */
struct fifo {
	struct inflight *runs;
	uint32_t cap; /* number of entries: a power of two, or 0 */
	uint32_t head;
	uint32_t nruns;
	uint32_t popped; /* how many runs were popped, so the oldest run's number; wraps */
};

static inline struct inflight *fifo_at(const struct fifo *f, uint32_t i)
{
	return &f->runs[(f->head + i) & (f->cap - 1)];
}

/* Returns the next run's number. Numbers are valid only while the ring has runs. */
static inline uint32_t fifo_next_number(const struct fifo *f)
{
	return f->popped + f->nruns;
}

/* Returns the index of the run with this number; 0 if the run was popped. */
static inline uint32_t fifo_index(const struct fifo *f, uint32_t number)
{
	uint32_t i = number - f->popped;

	return i < f->nruns ? i : 0;
}

/* Returns the oldest run; NULL: the ring is empty. */
static inline struct inflight *fifo_head(const struct fifo *f)
{
	return f->nruns ? fifo_at(f, 0) : NULL;
}

void fifo_push(struct fifo *f, struct link_user *user, uint16_t flags, void *tag);

/* Does the work of fifo_push_plain() if the ring is full. Not inline, so that fifo_push_plain()
 * saves no registers if the ring has space. */
void fifo_grow_push_plain(struct fifo *f, struct link_user *user, uint32_t n);

/* Adds `n` requests, at least one, without flags and tag. */
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

/* Empties the ring and frees its memory. */
void fifo_clear(struct fifo *f);

/* An empty ring frees its memory if it has more than this many entries. With 32, the link of
 * fifty busy clients freed and took memory in most turns of the loop. */
#define FIFO_CAP_KEPT 64

/* Removes `n` requests from the oldest run, which must have at least `n`. */
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
	LINK_NEW, /* a new link, inside link_new() */
	LINK_LOGGING_IN, /* queues its users' requests until Redis accepts the login */
	LINK_LOGGING_IN_OPAQUE, /* as LINK_LOGGING_IN, after link_make_opaque() */
	LINK_OPEN, /* sends users' requests, and scans replies */
	LINK_TURNING_OPAQUE, /* waits for the oldest replies, which it discards */
	LINK_OPAQUE, /* forwards bytes as they come */
	LINK_CLOSED, /* has no users and no connection; links_reap() frees it */
	LINK_NSTATES,
};

/* A further flag of link_expect(): the request belongs to the link's login, and its tag is an
 * element of login_script.steps. */
#define LINK_LOGIN (1u << 8)

#define LOGIN_STEPS_MAX 6

/* The requests of a login; for each, the prefixes of errors that do not end the login, up to a
 * NULL. */
struct login_script {
	struct buf bytes;
	const char *const *steps[LOGIN_STEPS_MAX];
	uint8_t n;
};

/* A link that is not connected and logged in yet, and may try again: link_open.c. */
struct link_opening {
	/* Tries at once to connect to the environment's present address. */
	void (*reopen)(struct link *l);
	/* Handles a connection that broke before its login. Returns true if the link tries
	 * again. */
	bool (*try_again)(struct link *l, const char *reason);
	struct loop_timer timer; /* runs until the next try, or until `until` */
	double until; /* env->clock() after which the link ends instead of trying again */
	char *reason; /* why the last try failed; NULL: none has failed */
	struct login_script login;
};

/* The reply that is being read. */
struct link_reply {
	struct link_user *to; /* gets the reply; NULL: the link discards the reply */
	struct buf captured; /* the reply's bytes so far, if the flags ask for them */
	uint16_t flags; /* argument of link_expect() */
	bool overflowed; /* the reply exceeds LINK_CAPTURE_MAX: `captured` was dropped */
	bool begun; /* an earlier read ended within the reply, and forwarded its first bytes */
};

struct link {
	struct link_env *env;
	struct list node; /* in env->open or env->dead */
	enum link_kind kind;
	enum link_state state;
	struct list users;
	size_t nusers;
	struct dial *dial; /* the try to connect; NULL: connected, closed, or between tries */
	struct link_opening *opening; /* set while the link may try again; else NULL */
	struct stream stream;
	struct reply_scan scan;
	struct reply_alike alike;
	struct link_reply reply;
	struct fifo fifo;
	bool outdated; /* leads to a former address: see link_set_outdated() */
	bool watched; /* on_frame() is called for every frame: see link_watch() */
	bool was_full; /* link_is_full() returned true: a user waits for on_drained() */

	/* State of the login. */
	struct buf held_back; /* requests that users sent while the link logs in */
	uint8_t logins_due; /* number of due replies to the link's own login */
	bool shutdown_due; /* link_shutdown() was called: send `held_back`, then half-close */

	uint8_t nreadonly; /* link_replies.c: bytes of the present error that match READONLY */
	uint32_t nreads; /* number of reads from the link */
	uint32_t nreads_seen; /* liveness.c: `nreads` at the last check */
	uint32_t nsilent; /* liveness.c: number of checks in a row with an overdue reply */
};

/* Sets the state. Asserts that the new state may follow the present one. */
void link_set_state(struct link *l, enum link_state state);

/* Ends the link; its users get on_down(). Does nothing if it is closed. */
void link_go_down(struct link *l, enum link_end end, const char *reason);

/* The stream's callbacks: the socket is readable; all queued bytes were written. */
void link_on_readable(struct stream *s);
void link_on_drained(struct stream *s);

/* Call this when the link is logged in, or closed. Does nothing the second time. */
void link_end_opening(struct link *l);

/* Notifies the users that Redis accepted the login. */
void link_notify_ready(struct link *l);

/* Notifies users that found the link full: the link has space again. */
void link_notify_drained(struct link *l);

/* Changes TURNING_OPAQUE to OPAQUE, unless the link must discard the next reply first. */
void link_try_opaque(struct link *l);
/* Changes TURNING_OPAQUE to OPAQUE, and forgets the requests in flight. */
void link_turn_opaque(struct link *l);

static inline bool link_is_shared(const struct link *l)
{
	return l->kind == LINK_KIND_SHARED;
}

/* True while the link queues its users' requests until Redis accepts the login. */
static inline bool link_is_logging_in(const struct link *l)
{
	return l->state == LINK_LOGGING_IN || l->state == LINK_LOGGING_IN_OPAQUE;
}

/* True if the link looks for the ends of replies, because it is neither opaque nor closed. */
static inline bool link_scans_replies(const struct link *l)
{
	return l->state != LINK_OPAQUE && l->state != LINK_CLOSED;
}

/* Returns the only user of a private link; NULL: the link is shared, or has no user. */
static inline struct link_user *link_sole_user(const struct link *l)
{
	if (link_is_shared(l) || list_empty(&l->users))
		return NULL;
	return container_of(l->users.next, struct link_user, node);
}

/* True if the link forwards the present reply in pieces, as its bytes come. */
static inline bool link_forwards(const struct link *l)
{
	return l->reply.to && !(l->reply.flags & (LINK_DISCARD | LINK_INTERCEPT));
}

#endif
