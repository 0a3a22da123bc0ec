/* SPDX-License-Identifier: BSD-3-Clause
 *
 * control_internal: struct control, hasp's own connection to a Redis server, and its two files:
 *
 *   control.c        the connection: login, checks, its end
 *   control_calls.c  the requests on it, each in its database
 */
#ifndef HASP_UPSTREAM_CONTROL_INTERNAL_H
#define HASP_UPSTREAM_CONTROL_INTERNAL_H

#include "base/buf.h"
#include "base/list.h"
#include "upstream/control.h"
#include "upstream/decode.h"
#include "upstream/own_conn.h"

/* A request in flight, or held until its database is selected. */
struct control_request {
	control_fn *fn; /* NULL: ignore the reply */
	void *arg;
	int db; /* the database for the request */
	struct buf held; /* the request's bytes, until hasp sends it */
	struct list node; /* in `requests` or `held` */
};

struct control {
	struct control_opts opts;
	struct own_conn conn; /* closed between two tries */
	struct retry retry;
	struct list requests; /* in flight, oldest first */
	struct list held; /* requests that wait, the first for its database to be selected */
	bool selecting; /* SELECT for the first of `held` is in flight */
	int db; /* the database that Redis has selected */
	char *address; /* address of the last try; the configured one may have changed */
	struct loop_timer check; /* starts the checks; stopped if the delay is 0 */
	/* Runs while an answer is due; at its end, health is SILENT. */
	struct loop_timer silence;
	enum control_health health; /* only control_set_health() writes it */
	enum server_role role;
	bool checking; /* a check is in flight */
	double asked_at; /* clock when the check, or the try to connect, began */
	struct metrics_histogram latency; /* response times of the server at `address` */
	char *error; /* the first error of the connection; NULL: none that matters */
	bool login_failed; /* `error` is the reply to AUTH */
	bool busy; /* Redis answered the last PING with LOADING, BUSY or MASTERDOWN */
	bool introduced; /* control_introduce() was called for this link */
	bool up; /* logged in, and Redis has answered COMMAND */
	double eviction_asked_at; /* clock when INFO memory was last sent */
	char evicts[EVICTION_POLICY_MAX]; /* the eviction policy; empty: none */
	bool too_old; /* hasp does not support the server's version */
	bool in_cluster; /* the server is a node of a cluster */
};

/* Calls the request's `fn` with the reply, and frees the request. NULL: no reply will come. */
void control_calls_end(struct control_request *req, const redisReply *reply);
/* Calls control_calls_end() with NULL for all requests, because the connection has ended. */
void control_calls_fail(struct control *c);

#endif
