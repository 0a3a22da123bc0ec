/* SPDX-License-Identifier: BSD-3-Clause
 *
 * control: hasp's own connection to a Redis server, one per worker, for hasp's own requests
 * (scripts, renewals, releases). The control reconnects by itself, logs in as the user of
 * [upstream], and asks for facts about the server (HELLO, ROLE, INFO memory, COMMAND). From
 * then on it checks regularly that the server answers, and which role it has.
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
	/* Gets COMMAND's reply, which is no error, when the connection is up. Returns how many
	 * commands the reply describes. NULL: this is a second connection, for calls that would
	 * delay others; it does not send COMMAND, and logs nothing. */
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
 *   CONNECTING --------> WORKS <------> SILENT, BUSY
 *       |                  ^ |              |
 *       `-> AWAY <-> REFUSES |              |
 *             ^--------------'--------------'
 */
enum control_health {
	CONTROL_CONNECTING, /* hasp knows nothing of the server at this address yet */
	CONTROL_AWAY, /* the server cannot be reached, or has closed the connection */
	CONTROL_REFUSES, /* the server refuses hasp's login or commands */
	CONTROL_SILENT, /* the server has not answered a check for CONTROL_SILENT_SECONDS */
	CONTROL_BUSY, /* the server answers PING with LOADING, BUSY or MASTERDOWN */
	CONTROL_WORKS,
};
#define CONTROL_HEALTHS (CONTROL_WORKS + 1)
#define CONTROL_SILENT_SECONDS 2.0

/* Connects as soon as the loop runs, and again whenever the connection ends. */
struct control *control_new(const struct control_opts *opts);
/* Closes the connection and connects again, because the address or the login has changed;
 * `reason` is for the log. Calls in flight get NULL. */
void control_reconnect(struct control *c, const char *reason);
/* Closes and frees the control. Calls in flight get NULL. */
void control_free(struct control *c);

/* Sets the delay between checks by PING and ROLE, in ms; 0: no checks. A check waits for the
 * answers to the check before it. */
void control_set_check_delay(struct control *c, int64_t delay_ms);

/* Adds to `sums` how long the server at this address took to answer each PING. */
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
/* True if the server cannot be reached, or an answer has been due for a second or longer. */
bool control_is_silent(const struct control *c);
/* Returns the role that the server at this address reported last. */
enum server_role control_role(const struct control *c);
/* Returns the server's last known eviction policy; empty: none, or not reported. */
const char *control_evicts(const struct control *c);
/* Returns the number of calls in flight. */
size_t control_inflight(const struct control *c);

/* Gets the reply, valid during the call; NULL: the connection broke before the reply, and Redis
 * may have executed the request or not. */
typedef void control_fn(void *arg, const redisReply *reply);

/* Sends a request, made of those words that are not NULL, whose effect does not depend on the
 * selected database. Call it only while control_is_up(). */
void control_ask(struct control *c, const char *const *argv, size_t n, control_fn *fn,
                 void *arg);

/* Sends one request in database `db`. Returns 0; -1 if the connection is down: `fn` does not
 * run then. `fn` may be NULL. */
int control_call(struct control *c, int db, struct slice request, control_fn *fn, void *arg)
	__attribute__((warn_unused_result));

#endif
