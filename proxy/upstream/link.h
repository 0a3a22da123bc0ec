/* SPDX-License-Identifier: BSD-3-Clause
 *
 * link: one connection to Redis, those who use it, and the FIFO of requests in flight
 * on it.
 *
 *   user A --\                                  [A pass x 3][B tell][A pass x 1]
 *   user B ---> send, queue -> stream -> Redis     ^ head: whose the next reply is
 *   user C --/                             |
 *                                          v
 *   A, B, C <---- on_bytes(), on_reply() <- reply scan
 *
 * Knows where a reply ends and whose request it answers; what either means is the users'
 * business. Replies are forwarded in pieces, as they come, unless the entry says otherwise.
 * A link that must log in sends nothing else before Redis has accepted that. A private link
 * has one user, who may take over its replies (link_watch(), link_make_opaque()); a shared one
 * any number, who come and go.
 */
#ifndef HASP_UPSTREAM_LINK_H
#define HASP_UPSTREAM_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/slice.h"
#include "net/dial.h"
#include "net/stream.h"
#include "resp/reply.h"

/* How a reply is to be treated; flags of link_expect(). */
enum {
	LINK_PASS = 0, /* forward it and forget it */
	LINK_NOTIFY = 1 << 0, /* call on_reply() when it is whole */
	LINK_INTERCEPT = 1 << 1, /* hold errors back and ask on_line() */
	LINK_INTERCEPT_STATUS = 1 << 5, /* (with LINK_INTERCEPT) simple strings, too */
	LINK_CAPTURE = 1 << 2, /* also collect its bytes for on_reply() */
	LINK_DISCARD = 1 << 3, /* don't forward it */
	LINK_NOTIFY_EARLY =
		1 << 4, /* (with LINK_NOTIFY) on_answered() before its end is forwarded */
};

/* A reply that is to be kept and is longer than this is not. */
#define LINK_CAPTURE_MAX ((size_t)16 * 1024 * 1024)

/* How a link ended. */
enum link_end {
	LINK_UNREACHABLE, /* it never was connected */
	LINK_REFUSED, /* Redis refused its login; the reason is Redis' error, without the dash
	               */
	LINK_BROKEN, /* it had been in use */
	LINK_CUT, /* the same, and the user has been given the beginning of a reply */
};

struct link;

struct link_ops {
	/* Bytes of replies, in order. */
	void (*on_bytes)(void *owner, struct slice bytes);
	/* A reply for LINK_NOTIFY ended; its bytes have been forwarded. `kept`: its bytes, if
	 * LINK_CAPTURE asked for them and they were not too many. */
	void (*on_reply)(void *owner, void *tag, const struct resp_reply *r,
	                 struct slice captured);
	/* A reply for LINK_NOTIFY_EARLY ended; on_reply() follows when its bytes have been
	 * forwarded. May do nothing to the link. May be NULL when LINK_NOTIFY_EARLY is not
	 * used. */
	void (*on_answered)(void *owner, void *tag, const struct resp_reply *r);
	/* An error, or a simple string, for LINK_INTERCEPT, whole. True: forward it and call
	 * on_reply(); false: drop it, the owner sees to the answer. May be NULL when
	 * LINK_INTERCEPT is not used. */
	bool (*on_line)(void *owner, void *tag, struct slice line);
	/* Private links: does the frame that just ended answer no request (a push, a published
	 * message)? Asked for RESP3 pushes, and for every frame while link_watch() is on. NULL:
	 * never. */
	bool (*on_frame)(void *owner, const struct reply_scan *frame);
	/* The link is connected, or somebody had found it full and it is so no more. */
	void (*on_drained)(void *owner);
	/* No reply is due any more, and the user had asked to be told. May be NULL. */
	void (*on_idle)(void *owner);
	/* The link is gone, and the user not on it any more; `inflight` of its requests are not
	 * answered. Not called by link_close(). */
	void (*on_down)(void *owner, enum link_end end, const char *reason, size_t inflight);
};

/* Embedded in its owner. */
struct link_user {
	const struct link_ops *ops;
	void *owner;
	struct link *link; /* NULL: on none */
	struct list node; /* among the link's users */
	size_t inflight; /* requests whose reply is due */
	size_t unheard; /* during on_down(): those among them of which nobody is told */
	bool await_idle; /* call on_idle() once, when inflight is 0 */
	bool outdated; /* the link is; see link_set_outdated() */
};

void link_user_init(struct link_user *u, const struct link_ops *ops, void *owner);

/* What all links of a worker share. */
struct link_env {
	struct stream_flusher *flusher;
	struct dialer dialer;
	struct address address;
	char *name; /* the address as configured, for messages */
	const char *user, *password; /* for hasp's own connections; NULL: none */
	bool login_required; /* Redis was seen to refuse somebody who had not logged in */
	char *scratch; /* replies are read into it */
	size_t scratch_size;
	struct list dead; /* closed, to be freed by links_reap() */
	/* A link was connected: Redis is there. NULL: nobody wants to know. */
	void (*on_connected)(void *arg);
	void *arg;
};

/* Who is at our end of a link, as far as Redis is concerned. */
struct link_login {
	int db;
	uint8_t proto; /* 2 or 3 */
	const char *user; /* NULL: the default user */
	const char *password; /* NULL: no login */
	const char *name; /* NULL: none */
};

/* Begins to connect; requests may be sent at once and wait for it. `login`: NULL for none. */
struct link *link_new(struct link_env *env, bool shared, const struct link_login *login);
/* Closes the connection; its users are on it no more, and not told. NULL is allowed. */
void link_close(struct link *l);
/* Frees what was closed since the last call. Once per turn of the loop. */
void links_reap(struct link_env *env);

void link_join(struct link *l, struct link_user *u);
/* Replies still due to the user are swallowed; their tags are not told. Harmless for one who is
 * on no link. */
void link_leave(struct link_user *u);

/* Sends now, or with what else is queued at the end of the loop's turn. */
void link_send(struct link *l, struct slice bytes);
void link_queue(struct link *l, struct slice bytes);
/* As link_queue(), of what keeps Redis busy, as calls of scripts do: a few of them do not wait
 * for the turn's end, but give it something to do meanwhile. */
void link_queue_call(struct link *l, struct slice bytes);
/* Sends a command that does nothing, and whose reply nobody sees. */
void link_ping(struct link *l);
/* Half-closes when all is sent. */
void link_shutdown(struct link *l);
/* Bytes that wait to be sent. */
size_t link_pending(const struct link *l);
/* More of them than there should be: send no more until on_drained(). */
bool link_is_full(struct link *l);
size_t link_users(const struct link *l);

/* It leads to where Redis was before the configuration changed: whoever can goes elsewhere. */
void link_set_outdated(struct link *l, bool outdated);

/* One more reply will come to the user, to be treated as `flags` say; `tag` comes back with it.
 */
void link_expect(struct link_user *u, unsigned flags, void *tag);
/* `n` more, all LINK_PASS. */
void link_expect_plain(struct link_user *u, uint32_t n);
/* The tag of the oldest request in flight, NULL when it has none or is not the user's. */
void *link_head(const struct link_user *u);
/* The oldest request in flight, which is the user's and whose reply has not begun, is answered
 * to nobody: its reply is swallowed, its tag not told. */
void link_discard_head(struct link_user *u);
/* Takes the oldest request off, as if it were answered. */
void link_drop_head(struct link *l);

/* Private links: ask on_frame() about every frame, or only about pushes. */
void link_watch(struct link *l, bool on);
/* Private links: from here on replies are not scanned: bytes are forwarded as they are, and
 * requests in flight are forgotten (their tags are not told). Those whose replies nobody is to
 * see (LINK_DISCARD) must be the oldest, and are waited for. */
void link_make_opaque(struct link *l);
/* Private links: stop and go on reading replies. */
void link_pause(struct link *l);
void link_resume(struct link *l);

#endif
