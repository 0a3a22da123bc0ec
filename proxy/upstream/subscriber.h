/* SPDX-License-Identifier: BSD-3-Clause
 *
 * subscriber: hasp's own connection for messages that Redis publishes, one per worker and
 * server, opened when it is first needed and then kept. The subscriber reconnects by itself,
 * logs in as the user of [upstream], and subscribes to a channel of its own: then it is up. It
 * uses RESP2.
 */
#ifndef HASP_UPSTREAM_SUBSCRIBER_H
#define HASP_UPSTREAM_SUBSCRIBER_H

#include <stdbool.h>

#include "base/slice.h"
#include "upstream/link.h"

struct subscriber;

struct subscriber_opts {
	struct link_env *env;
	const char *channel; /* the subscriber's own channel; must outlive the subscriber */
	/* Called when the subscriber's own channel is subscribed, and no other one yet. */
	void (*on_up)(void *arg);
	/* Called when hasp could not connect, or Redis refused the login or the channel (see
	 * subscriber_refusal()). The subscriber retries. May be NULL. */
	void (*on_failed)(void *arg);
	/* Called when a channel of subscriber_call() is subscribed. May be NULL. */
	void (*on_subscribed)(void *arg, struct slice channel);
	void (*on_message)(void *arg, struct slice channel, struct slice message);
	void *arg;
};

struct subscriber *subscriber_new(const struct subscriber_opts *opts);
void subscriber_free(struct subscriber *s);

/* Connects again, if the subscriber is open, because the address or the login has changed.
 * `reason`: for the log. */
void subscriber_reconnect(struct subscriber *s, const char *reason);

/* Makes the subscriber send a PING every `delay_ms` (0: never), and connect again if nothing
 * has come for `timeout_ms` (0: never), because a dead connection would lose messages. */
void subscriber_set_check(struct subscriber *s, int64_t delay_ms, int64_t timeout_ms);

/* Connects as soon as the loop runs, and again whenever the connection ends. Does nothing the
 * second time. */
void subscriber_open(struct subscriber *s);
bool subscriber_is_up(const struct subscriber *s);
/* Returns Redis' error if it last refused the login or the channel; else NULL. */
const char *subscriber_refusal(const struct subscriber *s);

/* Sends SUBSCRIBE or UNSUBSCRIBE for another channel, or SSUBSCRIBE or SUNSUBSCRIBE, if the
 * subscriber is up. These channels end with the connection, so on_up() must add them again. */
void subscriber_call(struct subscriber *s, const char *command, struct slice channel);

#endif
