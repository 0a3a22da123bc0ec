/* SPDX-License-Identifier: BSD-3-Clause
 *
 * connection: what the files of a client share: its life (client.c), its requests (intake.c;
 * those that have only to be passed, passing.c) and its replies (outlet.c).
 */
#ifndef HASP_CLIENT_CLIENT_INTERNAL_H
#define HASP_CLIENT_CLIENT_INTERNAL_H

#include "base/fatal.h"
#include "client/client.h"
#include "policy/dispatch.h"
#include "session/session.h"
#include "lock/model/owner.h"

#define CLIENT_MAGIC 0x68617370u

/* Why requests are not taken from a client. */
enum waiting {
	WAIT_NONE,
	WAIT_REPLY, /* for the reply to a rewritten request, at the head of `in` */
	WAIT_AWAITED, /* until nothing is awaited: the next one depends on it */
	WAIT_IDLE, /* until no reply is due: the next one needs another link */
	WAIT_TRY, /* until a try to take a lock can be sent; it is at the head of `in` */
	WAIT_TURN, /* in the line for a lock: the try is at the head of `in` */
};

enum intake {
	INTAKE_REQUESTS,
	INTAKE_STREAM, /* the rest of a request that is being passed on as it comes */
	INTAKE_RAW, /* a replica's byte stream */
	INTAKE_NOTHING, /* read and drop: a protocol error, or closing */
};

struct client {
	unsigned magic;
	enum waiting waiting;
	enum intake intake;
	bool eof; /* the client sends no more */
	bool closing; /* only `stream`'s last bytes are left */
	bool shared; /* the link is */
	bool pinned; /* it needs a private link for the rest of its life */
	bool refused; /* the guard that the request at the head of `in` needs was not free */
	struct list node; /* in env->clients, env->closing or env->dead */
	struct client_env *env;
	struct link_user user; /* on no link before the first request */
	struct owner_identity *identity; /* NULL until it is asked for */
	struct waiter *waiter; /* NULL: no try to take a lock is under way that may wait */
	struct buf in; /* bytes read and not sent on */
	struct request_scan scan;
	size_t scanned; /* how far in the first request */
	size_t decide_at; /* bytes of it at which to ask again if it may stream */
	double active_at; /* env->now */
	struct stream stream;
	struct session session;
	struct hold_owner holds;
	struct read_set read_set;
	struct observer *observer; /* NULL until it is observed */
	const char *listener; /* the entry of `listen` that it came by */
};

/* The client behind a callback's void pointer. */
static inline struct client *client_of(void *owner)
{
	struct client *c = owner;

	HASP_ASSERT(c->magic == CLIENT_MAGIC);
	return c;
}

static inline bool client_is_dead(const struct client *c)
{
	return !stream_is_open(&c->stream);
}

/* Who is on a link of others' moves with them when Redis does; hasp's own connection, which
 * renews and releases, has done so already. */
static inline bool client_is_outdated(const struct client *c)
{
	return c->user.outdated && c->shared;
}

static inline bool client_must_log_in(const struct client *c)
{
	return c->env->links->login_required && !c->session.logged_in;
}

/* What its commands are decided by; the request is still to be set. */
struct context client_context(struct client *c);

/* Something went to or fro: it is not idle. */
void client_mark_active(struct client *c);

/* A shared link goes on without the client; a private one is closed. */
void client_leave_link(struct client *c);

/* The end. Memory goes when clients_reap() runs. */
void client_close(struct client *c, const char *reason);

/* Closes when the client has taken its last bytes. */
void client_finish(struct client *c, const char *reason);

/* --- intake.c: requests --- */

/* The socket has something to read. */
void client_on_readable(struct stream *s);

/* Takes requests from `in`, where the reason to wait is gone. */
void client_go_on(struct client *c);

/* Stops reading what can't be passed on, and goes on when it can. */
void client_steer_reading(struct client *c);

/* Sends `bytes` over the link, which is there. */
void client_send_up(struct client *c, struct slice bytes);

/* Sends the request at the head of `in` once more, as decided anew. `eval`: its script is known
 * to be missing. */
void client_retry(struct client *c, bool eval);

/* The rewritten request at the head of `in` is answered: what is behind it goes on. */
void client_end_call(struct client *c);

/* Its try to take a lock was queued; `understood`: the answer that said so was. */
void client_queued(struct client *c, bool understood);

/* --- passing.c: requests about which nothing has to be decided --- */

/* Where a pass over the input stands. */
struct cursor {
	const char *p;
	size_t n;
	size_t from; /* first byte that was not sent on */
	size_t at; /* where the request that is looked at begins */
};

/* Moves the cursor over requests that are whole and have only to be passed, which most are.
 * Returns the length of the one that ended the run, if that is whole and env->args has its
 * arguments; else 0. */
size_t fast_path_take(struct client *c, struct cursor *k);

/* --- outlet.c: replies --- */

extern const struct link_ops client_link_ops;
extern const struct waiter_ops client_waiter_ops;

/* The socket has taken all that waited. */
void client_on_drained(struct stream *s);

#endif
