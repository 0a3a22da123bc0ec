/* SPDX-License-Identifier: BSD-3-Clause
 *
 * link: one connection to Redis and the FIFO of requests in flight on it.
 *
 *   link_send() ---> stream ---> Redis
 *   link_expect() -> [pass x 3][tell][pass x 1]     what the replies will answer
 *                       ^ head
 *   Redis ---> stream ---> reply scan ---> on_bytes()   forwarded as it comes
 *                              |-------> on_reply()     told when it is whole
 *
 * Knows where a reply ends and which request it answers; what either means is the
 * owner's business. Replies are forwarded in pieces, as they come, unless the
 * entry says otherwise.
 */
#ifndef HASP_UPSTREAM_LINK_H
#define HASP_UPSTREAM_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"
#include "net/dial.h"
#include "net/stream.h"
#include "resp/reply.h"

/* How a reply is to be treated; flags of link_expect(). */
enum {
	LINK_PASS = 0, /* forward it and forget it */
	LINK_TELL = 1 << 0, /* call on_reply() when it is whole */
	LINK_ASK = 1 << 1, /* hold errors back and ask on_error() */
	LINK_KEEP = 1 << 2, /* also collect its bytes for on_reply() */
	LINK_QUIET = 1 << 3, /* don't forward it */
};

/* A reply that is to be kept and is longer than this is not. */
#define LINK_KEEP_MAX ((size_t)16 * 1024 * 1024)

struct link;

struct link_ops {
	/* Bytes of replies, in order. */
	void (*on_bytes)(void *owner, struct slice bytes);
	/* A reply for LINK_TELL ended. `kept`: its bytes, if LINK_KEEP asked for them and they were
	 * not too many. */
	void (*on_reply)(void *owner, void *tag, const struct resp_reply *r,
	                 struct slice kept);
	/* An error for LINK_ASK, whole. True: forward it and call on_reply(); false: drop it, the owner
	 * has sent something else. May be NULL when LINK_ASK is not used. */
	bool (*on_error)(void *owner, void *tag, struct slice line);
	/* Does the frame that just ended answer no request (a push, a published message)? Asked for RESP3
	 * pushes, and for every frame while link_watch() is on. NULL: never. */
	bool (*on_frame)(void *owner, const struct reply_scan *frame);
	/* What waited to be sent is sent. */
	void (*on_drained)(void *owner);
	/* The link is closed, for this reason. was_up: it had been connected. Not called by
	 * link_close(). */
	void (*on_down)(void *owner, const char *reason, bool was_up);
};

/* What all links of a worker share. */
struct link_env {
	struct stream_flusher *flusher;
	struct dialer dialer;
	struct address address;
	char *name; /* the address as configured, for messages */
	bool login_required; /* Redis refuses those who have not logged in */
	char *scratch; /* replies are read into it */
	size_t scratch_size;
};

/* Begins to connect; requests may be sent at once and wait for it. */
struct link *link_new(const struct link_env *env, const struct link_ops *ops,
                      void *owner);
/* Closes the connection. No callback runs any more. */
void link_close(struct link *l);
/* Closes it and gives back the memory: not inside one of its callbacks. NULL is
 * allowed. */
void link_free(struct link *l);

void link_send(struct link *l, struct slice bytes);
/* Half-closes when all is sent. */
void link_shutdown(struct link *l);
/* Bytes that wait to be sent. */
size_t link_pending(const struct link *l);

/* One more reply will come, to be treated as `flags` say; `tag` comes back with it. */
void link_expect(struct link *l, unsigned flags, void *tag);
/* Requests in flight: sent or waiting, not answered. */
size_t link_inflight(const struct link *l);
/* The tag of the oldest request in flight, NULL when it has none or there is no request. */
void *link_head(const struct link *l);
/* Takes the oldest request off, as if it were answered. */
void link_drop_head(struct link *l);

/* Ask on_frame() about every frame, or only about pushes. */
void link_watch(struct link *l, bool on);
/* From here on replies are not scanned: bytes are forwarded as they are, and requests in
 * flight are forgotten (their tags are not told). */
void link_make_opaque(struct link *l);

/* Stop and go on reading replies. */
void link_pause(struct link *l);
void link_resume(struct link *l);

#endif
