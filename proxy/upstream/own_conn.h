/* SPDX-License-Identifier: BSD-3-Clause
 *
 * own_conn: a connection on which hasp itself asks a server: one user of one link, which gets
 * each reply decoded, with the tag of its request. Its owner opens it again when it ends, as a
 * struct retry says.
 *
 *   own_conn_open() --> own_conn_send(tag) --> on_reply(tag), in the order of the requests
 *                                        '--> on_down()
 */
#ifndef HASP_UPSTREAM_OWN_CONN_H
#define HASP_UPSTREAM_OWN_CONN_H

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/loop_timers.h"
#include "upstream/link.h"

/* `owner`: of own_conn_init(). Each may close the connection, and open it again. */
struct own_conn_ops {
	/* `*reply`: freed after the call, unless the callee sets it to NULL to keep it; NULL:
	 * hiredis does not understand it. */
	void (*on_reply)(void *owner, void *tag, redisReply **reply);
	/* The connection broke, or could not be made. */
	void (*on_down)(void *owner, enum link_end end, const char *reason);
};

/* Embedded in its owner. */
struct own_conn {
	struct link_user user; /* on no link while the connection is closed */
	const struct own_conn_ops *ops;
	void *owner;
};

void own_conn_init(struct own_conn *c, const struct own_conn_ops *ops, void *owner);

/* Connects to the address of `env`. `login`: the link's, whose refusal ends it; NULL: none. */
void own_conn_open(struct own_conn *c, struct link_env *env, const struct link_login *login);
/* Harmless when closed. Requests in flight get no callback. */
void own_conn_close(struct own_conn *c);

/* Sends requests, `n` of them, whose replies all get this tag. */
void own_conn_send(struct own_conn *c, struct slice requests, size_t n, void *tag);
/* As own_conn_send(), for one request that is made of words. */
void own_conn_send_words(struct own_conn *c, const char *const *words, size_t n, void *tag);
/* Sends AUTH with the user, NULL: none, and the password. A refusal ends nothing. */
void own_conn_send_auth(struct own_conn *c, const char *user, const char *password, void *tag);

/* --- retry --- */

/* Decides when hasp opens one of its own connections again. If the connection had worked for a
 * while, or Redis is known to be up again, hasp opens it at once; otherwise after a delay that
 * doubles with each failure, up to a limit. The environment's clock gives the time. */

/* Embedded in its owner. */
struct retry {
	const struct link_env *env; /* its loop and its clock */
	struct loop_timer timer; /* runs while the connection is down and a try is due */
	double min_seconds; /* the first delay after it worked */
	double seconds; /* the next delay */
	double worked_at; /* env->clock() when it began to work; 0: it has not since it ended */
	bool unreachable; /* how the last try ended */
	void (*fn)(void *arg);
	void *arg;
};

/* `fn` makes a try; it runs on the loop, once for each retry_restart(), retry_later() and
 * retry_now(), unless another of them comes before. */
void retry_init(struct retry *r, const struct link_env *env, double min_seconds,
                void (*fn)(void *arg), void *arg);
void retry_stop(struct retry *r);

/* A try as soon as the loop runs; if it fails, the delays begin with the shortest. */
void retry_restart(struct retry *r);
/* The connection ended, or a try failed; `end`: how. */
void retry_later(struct retry *r, enum link_end end);
/* The connection works: the delays begin with the shortest. */
void retry_worked(struct retry *r);
/* Redis is there: a try that waits because it could not be reached is made as soon as the loop
 * runs. One that waits because Redis refused, or closed the connection, goes on waiting. */
void retry_now(struct retry *r);

/* --- queries --- */

/* Sends a few commands to one server, over a separate connection, which it closes when
 * all are answered, or the time is over.
 *
 *   query_start() --> connect --> [AUTH] commands --> all replies --> done(replies)
 *                        |           |
 *                        '-----------'--- it broke, too late ------> done(NULL, why) */

#define QUERY_MAX 4

/* Embedded in its owner; one question at a time. */
struct query {
	struct link_env *env;
	struct own_conn conn; /* closed while nothing is asked */
	const struct link_login *login; /* as of own_conn_open(); during query_start() */
	struct loop_timer timer;
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
