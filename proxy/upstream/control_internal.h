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
	struct buf held; /* its bytes, until they are sent */
	struct list node; /* in `requests` or `held` */
};

struct control {
	struct control_opts opts;
	struct own_conn conn; /* closed between two tries */
	struct retry retry;
	struct list requests; /* in flight, oldest first */
	struct list
		held; /* the first of them waits for its database, the others for the first */
	bool selecting; /* SELECT for the first of `held` is in flight */
	int db; /* the database that Redis has selected */
	char *address; /* of the last try; the configured address may have changed since */
	struct loop_timer check; /* runs while there is a delay between checks */
	struct loop_timer silence; /* runs while an answer is due: that makes it SILENT */
	enum control_health health; /* written by control_set_health() only */
	enum server_role role;
	bool checking; /* a check is in flight */
	double asked_at; /* clock, when that, or the try to connect, began */
	struct metrics_histogram latency; /* of the server at `address` */
	char *error; /* the first since it was connected; NULL: none that matters */
	bool login_failed; /* it is AUTH's */
	bool busy; /* the last PING was answered by LOADING, BUSY or MASTERDOWN */
	bool introduced; /* control_introduce() was called for this link */
	bool up; /* logged in, and Redis has answered COMMAND */
	double eviction_asked_at; /* clock, when INFO memory was sent last */
	char evicts[EVICTION_POLICY_MAX]; /* the policy; empty: it evicts nothing */
	bool too_old; /* hasp does not support the server's version */
	bool in_cluster; /* the server is a node of a cluster */
};

/* The request is answered; NULL: it will not be. It is freed. */
void control_calls_end(struct control_request *req, const redisReply *reply);
/* The connection is gone: all that are in flight, or held, get NULL. */
void control_calls_fail(struct control *c);

#endif
