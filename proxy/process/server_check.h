/* SPDX-License-Identifier: BSD-3-Clause
 *
 * server_check: finds the server that the configuration names, before hasp serves, and checks
 * it for `hasp -t`: whether hasp can reach it, of which kind it is, and whether it allows all
 * commands that hasp needs. The check changes nothing there, except that it loads hasp's
 * scripts.
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
	struct sentinel_answer answer; /* a sentinel's answer, to which `name` points */
};

/* Asks the sentinels, if there are any, until one names the primary. Returns 0; -1 if none
 * does, with the last one's reason in `why`. */
int server_find(struct server_place *s, const struct config *c, struct buf *why)
	__attribute__((warn_unused_result));

/* Returns the options of a query to a server, with the login of [upstream] and a time limit of
 * at most five seconds: signals wait during the query. */
struct ask server_ask(const struct config *c, struct address address);

/* Checks the server, for some seconds at most. Appends a line to `good` for each check that
 * passed, and to `warnings` for each that failed. */
void server_check(const struct config *config, struct buf *good, struct buf *warnings);

#endif
