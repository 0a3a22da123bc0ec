/* SPDX-License-Identifier: BSD-3-Clause
 *
 * server_check: finds the server that the configuration names, before hasp serves. For `hasp
 * -t`, checks the server: whether hasp can reach it, of which kind it is, and whether it allows
 * all commands that hasp needs. The check changes nothing at the server, except that it loads
 * hasp's scripts.
 */
#ifndef HASP_PROCESS_SERVER_CHECK_H
#define HASP_PROCESS_SERVER_CHECK_H

#include "base/buf.h"
#include "config/types.h"
#include "net/address.h"
#include "upstream/sentinels.h"
#include "upstream/sync_query.h"

struct server_place {
	struct address address;
	const char *name; /* name in messages: HOST:PORT, or the master's name while its address
	                     is unknown */
	struct sentinel_answer answer; /* a sentinel's answer; `name` may point into it */
};

/* If the configuration has sentinels, asks them until one names the primary. Returns 0; -1,
 * with the last sentinel's reason in `why`, if none does. */
int server_find(struct server_place *s, const struct config *c, struct buf *why)
	__attribute__((warn_unused_result));

/* Returns the options of a query to a server, with the login of [upstream]. Signals wait during
 * the query, so its time limit is at most five seconds. */
struct ask server_ask(const struct config *c, struct address address);

/* Checks the server, for some seconds at most. Appends a line to `good` for each check that
 * passed, and to `warnings` for each that failed. */
void server_check(const struct config *config, struct buf *good, struct buf *warnings);

#endif
