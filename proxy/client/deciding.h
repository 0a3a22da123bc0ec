/* SPDX-License-Identifier: BSD-3-Clause
 *
 * deciding: what the files that decide about a request share: dispatch.c, and guarding.c for
 * guarded keys.
 */
#ifndef HASP_CLIENT_DECIDING_H
#define HASP_CLIENT_DECIDING_H

#include "client/dispatch.h"
#include "lock/rewrite.h"

/* A command has few keys; one that has more takes them from the heap. */
#define KEYS_ON_STACK 32

struct context {
	const struct dispatch_from *from;
	struct session *session;
	const struct resp_view *req;
	const struct resolved *what;
	bool eval;
};

/* Whoever asks, to a rule or guard with this kind of owner. `room` may hold the bytes. */
struct slice deciding_token(const struct context *x, enum owner_kind kind, struct buf *room);

/* How the call is to look; asks for a ticket. */
struct rewrite_how deciding_how(const struct context *x);

/* A call of hasp's own was written to env->call and is awaited: one who has not logged in gets
 * a shorter one, whose answer is NOSCRIPT. Returns whether. */
bool deciding_shorten(struct context *x);

/* An error of ours takes the place of the call. */
struct decision deciding_refuse(struct context *x, const char *error);

/* Whoever makes this call may have to wait. Returns false when it cannot be sent yet. When it
 * never can be, the error that says so takes its place. */
bool deciding_ready(struct context *x, struct lock_call *call);

/* In RESP2, a subscribed connection is refused everything that is not about
 * subscriptions: let Redis say so about the command that was sent. */
static inline bool deciding_is_muted(const struct session *s)
{
	return !s->opaque && s->proto == 2 && session_is_subscribed(s);
}

#endif
