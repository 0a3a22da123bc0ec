/* SPDX-License-Identifier: BSD-3-Clause
 *
 * server_find: finds the server that a configuration names, to ask it before hasp serves.
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
	const char *name; /* for messages: HOST:PORT, or the master's name if none was found */
	struct sentinel_answer answer; /* the sentinels' answer about `name` */
};

/* Asks the sentinels, if there are any, and blocks until they answer. Returns 0; -1 if none of
 * them names the primary: the last one's reason is appended to `why`. */
int server_find(struct server_place *s, const struct config *c, struct buf *why)
	__attribute__((warn_unused_result));

/* Returns the options of a query to a server, with the login of [upstream]; it takes at most
 * five seconds. Meanwhile, signals wait, and so does the parent of a starting hasp. */
struct ask server_ask(const struct config *c, struct address address);

/* Asks each sentinel: `primary` is the address that it named; NULL: `why` has the reason. */
void server_find_each(const struct config *c,
                      void (*fn)(void *arg, const char *sentinel, const char *primary,
                                 struct slice why),
                      void *arg);

#endif
