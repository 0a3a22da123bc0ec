/* SPDX-License-Identifier: BSD-3-Clause
 *
 * control: hasp's own connection to Redis, one per worker, for hasp's own requests (scripts,
 * renewals, releases). It connects again by itself, logs in as [upstream] user, and asks what
 * server that is (HELLO, ROLE, INFO memory) and for COMMAND. From then on it checks now and
 * then that the server answers, and in which role. Replies are decoded by hiredis' reader.
 */
#ifndef HASP_UPSTREAM_CONTROL_H
#define HASP_UPSTREAM_CONTROL_H

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/metrics.h"
#include "base/slice.h"
#include "upstream/decode.h"
#include "upstream/link.h"

struct control;

struct control_opts {
	struct link_env *env;
	/* Takes COMMAND's reply, which is no error, when the connection is up, and returns how
	 * many commands it describes. NULL: a second connection, for calls that would delay
	 * others. It does not send COMMAND, and the first connection logs the faults. */
	size_t (*on_commands)(void *arg, const redisReply *reply);
	/* Called when the connection is up and logged in, before any call. May be NULL. */
	void (*on_up)(void *arg);
	/* Called when the server reports its role for the first time, or another role. May run
	 * before on_up(). May be NULL. */
	void (*on_role)(void *arg, enum server_role role);
	void *arg;
};

/* Whether Redis can serve, as far as hasp's own connection shows. Each change is logged once.
 *
 *   CONNECTING --------> WORKS <------> SILENT, UNREADY
 *       |                  ^ |              |
 *       `-> AWAY <-> REFUSES |              |
 *             ^--------------'--------------'
 */
enum control_health {
	CONTROL_CONNECTING, /* hasp knows nothing of the server at this address yet */
	CONTROL_AWAY, /* hasp cannot reach it, or it has closed the connection */
	CONTROL_REFUSES, /* it refuses hasp's login or commands */
	CONTROL_SILENT, /* it has not answered a check for CONTROL_SILENT_SECONDS */
	CONTROL_BUSY, /* it answers PING with LOADING, BUSY or MASTERDOWN */
	CONTROL_WORKS,
};
#define CONTROL_HEALTHS (CONTROL_WORKS + 1)
#define CONTROL_SILENT_SECONDS 2.0

/* Connects as soon as the loop runs, and again whenever the connection ends. */
struct control *control_new(const struct control_opts *opts);
/* Connects again, because the address or the login has changed; `reason` is for the log. Calls
 * in flight get NULL. */
void control_reconnect(struct control *c, const char *reason);
/* Retries at once if Redis could not be reached, because it is reachable now. */
void control_retry_now(struct control *c);
/* Frees the connection. Calls in flight get NULL. */
void control_free(struct control *c);

/* Sets how often to send PING and ROLE, in ms; 0: never. Each awaits the last one's answer. */
void control_set_check_delay(struct control *c, int64_t delay_ms);

/* Adds the times that the server at this address took to answer these PINGs. */
void control_add_latency(const struct control *c, struct metrics_sums *sums);

/* Starts a check now, unless one is pending. */
void control_check(struct control *c);

/* True if calls can be made. */
bool control_is_up(const struct control *c);
enum control_health control_health(const struct control *c);
/* True if the present server, or the last one, is a node of a Redis Cluster. */
bool control_is_in_cluster(const struct control *c);
/* True if the connection is up and no health check is pending. */
bool control_is_answering(const struct control *c);
/* True if the server cannot be reached, or has owed an answer for a second or longer. */
bool control_is_silent(const struct control *c);
/* Returns the role that the server at this address reported last. */
enum server_role control_role(const struct control *c);
/* Returns the server's last known eviction policy; empty: none, or not reported. */
const char *control_evicts(const struct control *c);
/* Returns the number of calls in flight. */
size_t control_inflight(const struct control *c);

/* Gets the reply, valid during the call; NULL if the connection broke first: Redis may have
 * executed the request or not. */
typedef void control_fn(void *arg, const redisReply *reply);

/* Sends a request, made of words, for which the selected database does not matter. Call it only
 * while control_is_up(). */
void control_ask(struct control *c, const char *const *argv, size_t n, control_fn *fn,
                 void *arg);

/* Sends one request in database `db`. Returns 0; -1 if the connection is down: `fn` does not
 * run then. `fn` may be NULL. */
int control_call(struct control *c, int db, struct slice request, control_fn *fn, void *arg)
	__attribute__((warn_unused_result));

#endif
