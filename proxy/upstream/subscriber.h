/* SPDX-License-Identifier: BSD-3-Clause
 *
 * subscriber: hasp's own connection for the messages that Redis publishes, one per worker,
 * opened when it is first needed and kept from then on. It reconnects by itself and logs in as
 * [upstream] user. It has one channel of its own; while that is not subscribed, the subscriber
 * is not up. Always RESP2; hiredis' reader decodes the messages.
 */
#ifndef HASP_UPSTREAM_SUBSCRIBER_H
#define HASP_UPSTREAM_SUBSCRIBER_H

#include <stdbool.h>

#include "base/slice.h"
#include "upstream/link.h"

struct subscriber;

struct subscriber_opts {
	struct link_env *env;
	const char *channel; /* the subscriber's own channel; must live as long as it */
	/* Called when only the subscriber's own channel is subscribed. */
	void (*on_up)(void *arg);
	/* Called when hasp could not connect, or Redis refused it (see subscriber_refusal()).
	 * The subscriber retries. May be NULL. */
	void (*on_failed)(void *arg);
	/* Called when a channel of subscriber_add() is subscribed. May be NULL. */
	void (*on_subscribed)(void *arg, struct slice channel);
	void (*on_message)(void *arg, struct slice channel, struct slice message);
	void *arg;
};

struct subscriber *subscriber_new(const struct subscriber_opts *opts);
void subscriber_free(struct subscriber *s);

/* Connects again, if open, after a change of address or login. `reason`: for the log. */
void subscriber_reconnect(struct subscriber *s, const char *reason);

/* Redis is reachable now: retries at once if it was not. */
void subscriber_retry_now(struct subscriber *s);

/* While the connection is up, sends a PING every `delay_ms`, and connects again if nothing has
 * come for `timeout_ms`, because a dead connection would lose messages. 0: never. */
void subscriber_set_check(struct subscriber *s, int64_t delay_ms, int64_t timeout_ms);

/* Connects as soon as the loop runs, and again after each end. Does nothing if open. */
void subscriber_open(struct subscriber *s);
bool subscriber_is_up(const struct subscriber *s);
/* Returns Redis' error if it last refused the login or the channel; else NULL. */
const char *subscriber_refusal(const struct subscriber *s);

/* Subscribe and unsubscribe another channel, if the subscriber is up. These channels end with
 * the connection, so on_up() must add them again. */
void subscriber_add(struct subscriber *s, struct slice channel);
void subscriber_remove(struct subscriber *s, struct slice channel);
/* As subscriber_add(), for messages published to the channel's slot of a cluster. */
void subscriber_add_sharded(struct subscriber *s, struct slice channel);
void subscriber_remove_sharded(struct subscriber *s, struct slice channel);

#endif
