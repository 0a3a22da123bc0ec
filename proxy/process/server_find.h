/* SPDX-License-Identifier: BSD-3-Clause
 *
 * server_find: finds the server that a configuration names, for the checks before hasp serves.
 */
#ifndef HASP_PROCESS_SERVER_FIND_H
#define HASP_PROCESS_SERVER_FIND_H

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

/* Asks each sentinel: `primary` is the address that it named; NULL: `why` has the reason. */
void server_find_each(const struct config *c,
                      void (*fn)(void *arg, const char *sentinel, const char *primary,
                                 struct slice why),
                      void *arg);

#endif
