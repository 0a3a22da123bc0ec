/* SPDX-License-Identifier: BSD-3-Clause
 *
 * query: sends a few commands to one server, over a separate connection, which it closes when
 * all are answered, or the time is over.
 *
 *   query_start() --> connect --> [AUTH] commands --> all replies --> done(replies)
 *                        |           |
 *                        '-----------'--- it broke, too late ------> done(NULL, why)
 */
#ifndef HASP_UPSTREAM_QUERY_H
#define HASP_UPSTREAM_QUERY_H

#include <ev.h>
#include <hiredis/hiredis.h>
#include <stdint.h>

#include "upstream/link.h"

#define QUERY_MAX 4

/* Embedded in its owner; one question at a time. */
struct query {
	struct link_env *env;
	struct link_user user; /* on no link while nothing is asked */
	struct ev_timer timer;
	size_t n; /* commands, AUTH not among them */
	size_t nreplies;
	redisReply *replies[QUERY_MAX];
	/* The replies, valid during the call; some may be errors. NULL: `why` says in words
	 * what was wrong. The next query may be started then. */
	void (*done)(void *arg, redisReply *const *replies, const char *why);
	void *arg;
};

/* `env`: its loop, and whatever links need; its address is set by each query. */
void query_init(struct query *q, struct link_env *env,
                void (*done)(void *arg, redisReply *const *replies, const char *why),
                void *arg);

/* Asks `commands` (`n` of them, QUERY_MAX at most, as they are sent) of the server at
 * `address`. password NULL: there is no AUTH. That the server refuses AUTH does not matter:
 * what it then answers to the commands does. */
void query_start(struct query *q, const struct address *address, const char *user,
                 const char *password, struct slice commands, size_t n, int64_t timeout_ms);
bool query_is_running(const struct query *q);
/* done() will not run. Harmless when nothing is asked. */
void query_cancel(struct query *q);

#endif
