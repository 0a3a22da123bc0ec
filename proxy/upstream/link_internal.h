/* SPDX-License-Identifier: BSD-3-Clause
 *
 * link_parts: what the files of a link share: its users, its life and what is sent (link.c),
 * and what comes back (replies.c).
 */
#ifndef HASP_UPSTREAM_LINK_INTERNAL_H
#define HASP_UPSTREAM_LINK_INTERNAL_H

#include "upstream/fifo.h"
#include "upstream/link.h"

/* (beside the flags of link_expect()) The answer to our own login. */
#define LINK_LOGIN (1u << 7)

struct link {
	struct link_env *env;
	struct list node; /* in env->dead */
	struct list users;
	size_t nusers;
	struct dial *dial; /* NULL: connected, or closed */
	struct stream stream;
	struct reply_scan scan;
	struct reply_alike alike;
	struct fifo fifo;
	struct buf gated; /* what must wait until the login is accepted */
	struct buf captured;
	struct link_user *to; /* whose the reply being read is; NULL: nobody's */
	uint8_t reply_flags; /* flags for the reply being read */
	uint8_t logins; /* answers to our login that are still due */
	bool shared;
	bool closed;
	bool opaque; /* replies are not scanned */
	bool to_be_opaque; /* as soon as the oldest answers, which nobody is to see, are in */
	bool watched;
	bool overflowed; /* the reply being kept is too long */
	bool begun; /* the reply that is being scanned was handed on as far as it is there */
	bool was_full; /* somebody waits for it to drain */
	bool outdated; /* link_set_outdated() */
	bool shut; /* half-close behind what is gated */
};

/* The end. Its users are told. */
void link_go_down(struct link *l, enum link_end end, const char *reason);

/* The socket has something to read; has taken all that waited. */
void link_on_readable(struct stream *s);
void link_on_drained(struct stream *s);

/* It turns opaque (link_make_opaque()), unless answers to the link itself are still due. */
void link_try_opaque(struct link *l);

/* The only user of a private link. */
static inline struct link_user *link_sole_user(const struct link *l)
{
	if (l->shared || list_empty(&l->users))
		return NULL;
	return container_of(l->users.next, struct link_user, node);
}

/* The reply that is being read goes to somebody as it comes. */
static inline bool link_forwards(const struct link *l)
{
	return l->to && !(l->reply_flags & (LINK_DISCARD | LINK_INTERCEPT));
}

#endif
