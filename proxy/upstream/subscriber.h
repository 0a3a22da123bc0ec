/* SPDX-License-Identifier: BSD-3-Clause
 *
 * subscriber: hasp's own connection for what Redis publishes, one per worker, opened when it is
 * first needed and kept from then on. It connects again by itself and logs in as [upstream]
 * user. It has one channel of its own; while that is not subscribed, the subscriber is not up.
 * Always RESP2; messages are decoded by hiredis' reader.
 */
#ifndef HASP_UPSTREAM_SUBSCRIBER_H
#define HASP_UPSTREAM_SUBSCRIBER_H

#include <stdbool.h>

#include "base/slice.h"
#include "upstream/link.h"

struct subscriber;

struct subscriber_opts {
	struct link_env *env;
	const char *channel; /* its own; lives as long as the subscriber */
	/* Its channel is subscribed, and no other one. */
	void (*on_up)(void *arg);
	/* The subscriber could not connect, or Redis refuses it (see subscriber_refusal()). It
	 * goes on trying. May be NULL. */
	void (*on_failed)(void *arg);
	/* A channel of subscriber_add() is subscribed. May be NULL. */
	void (*on_subscribed)(void *arg, struct slice channel);
	void (*on_message)(void *arg, struct slice channel, struct slice message);
	void *arg;
};

struct subscriber *subscriber_new(const struct subscriber_opts *opts);
void subscriber_free(struct subscriber *s);

/* If open, connects again: the address or the login has changed. `reason`: for the log. */
void subscriber_reconnect(struct subscriber *s, const char *reason);

/* Redis is there: if Redis could not be reached, the next try is made now. */
void subscriber_retry_now(struct subscriber *s);

/* While the connection is up, sends a PING every `delay_ms`, and connects again when nothing
 * has come for `timeout_ms`: a dead connection would lose messages. Either is 0: never. */
void subscriber_set_check(struct subscriber *s, int64_t delay_ms, int64_t timeout_ms);

/* Connects as soon as the loop runs, and again when the connection ends. Harmless when open. */
void subscriber_open(struct subscriber *s);
bool subscriber_is_up(const struct subscriber *s);
/* Redis' error when it last refused the login or the channel; NULL: it did not. */
const char *subscriber_refusal(const struct subscriber *s);

/* Subscribes and unsubscribes another channel. Nothing happens while the subscriber is not up;
 * these channels are gone when the connection ends, so on_up() must add them again. */
void subscriber_add(struct subscriber *s, struct slice channel);
void subscriber_remove(struct subscriber *s, struct slice channel);
/* As subscriber_add(), for messages published to the channel's slot of a cluster. */
void subscriber_add_sharded(struct subscriber *s, struct slice channel);
void subscriber_remove_sharded(struct subscriber *s, struct slice channel);

#endif
