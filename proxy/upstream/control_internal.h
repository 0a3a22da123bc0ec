/* SPDX-License-Identifier: BSD-3-Clause
 *
 * control_internal: a control, shared by its two files:
 *
 *   control.c        the connection: login, checks, its end
 *   control_calls.c  the requests on it, each in its database
 */
#ifndef HASP_UPSTREAM_CONTROL_INTERNAL_H
#define HASP_UPSTREAM_CONTROL_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/list.h"
#include "net/loop_timers.h"
#include "upstream/control.h"
#include "upstream/decode.h"
#include "upstream/own_conn.h"

/* A request in flight, or held until its database is selected. */
struct control_request {
	control_fn *fn; /* NULL: the reply does not matter */
	void *arg;
	int db;
	struct buf held; /* its bytes, until it is sent */
	struct list node; /* in `requests` or `held` */
};

struct control {
	struct control_opts opts;
	struct own_conn conn; /* closed between two tries */
	struct retry retry;
	struct list requests; /* in flight, oldest first */
	struct list held; /* the first waits for its database, the others for the first */
	bool selecting; /* SELECT for the first of `held` is in flight */
	int db; /* the database that Redis has selected */
	char *address; /* address of the last try; the configured one may have changed */
	struct loop_timer check; /* runs while there is a delay between checks */
	struct loop_timer silence; /* runs while an answer is due; then the server is SILENT */
	enum control_health health; /* only control_set_health() writes it */
	enum server_role role;
	bool checking; /* a check is in flight */
	double asked_at; /* clock when the check, or the try to connect, began */
	struct metrics_histogram latency; /* of the server at `address` */
	char *error; /* the first error of the connection; NULL: none that matters */
	bool login_failed; /* `error` is AUTH's */
	bool busy; /* Redis answered the last PING with LOADING, BUSY or MASTERDOWN */
	bool introduced; /* control_introduce() was called for this link */
	bool up; /* logged in, and Redis has answered COMMAND */
	double eviction_asked_at; /* clock when INFO memory was last sent */
	char evicts[EVICTION_POLICY_MAX]; /* the eviction policy; empty: none */
	bool too_old; /* hasp does not support the server's version */
	bool in_cluster; /* the server is a node of a cluster */
};

/* Answers the request, and frees it. NULL: there will be no reply. */
void control_calls_end(struct control_request *req, const redisReply *reply);
/* Fails all requests, in flight or held, with NULL, because the connection is gone. */
void control_calls_fail(struct control *c);

#endif
