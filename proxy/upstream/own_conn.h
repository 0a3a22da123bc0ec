/* SPDX-License-Identifier: BSD-3-Clause
 *
 * own_conn: a connection on which hasp itself asks a server. An own_conn is the only user of
 * its link. It decodes each reply, and gives the reply to its owner with the tag of the
 * request. It may connect again whenever the connection ends.
 *
 *   own_conn_open() --> own_conn_send(tag) --> on_reply(tag), in the order of the requests
 *      ^                                 '--> on_down()
 *      '-- connect() <-- after a delay ---------'
 *
 * If the connection had worked for a while, or Redis is known to be up again, there is no
 * delay. Otherwise the delay doubles with each failure, up to a limit.
 */
#ifndef HASP_UPSTREAM_OWN_CONN_H
#define HASP_UPSTREAM_OWN_CONN_H

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/loop_timers.h"
#include "upstream/link.h"

/* Callbacks, which may close the connection and open it again. `owner`: the argument of
 * own_conn_init(). */
struct own_conn_ops {
	/* Gets a reply; NULL: hiredis does not understand it. The reply is freed after the
	 * call, unless the callee sets `*reply` to NULL. */
	void (*on_reply)(void *owner, void *tag, redisReply **reply);
	/* Called when the connection broke, or could not be made; and by own_conn_fail(). */
	void (*on_down)(void *owner, enum link_end end, const char *reason);
	/* Calls own_conn_open(), and sends the first requests. */
	void (*connect)(void *owner);
	/* Gets the bytes that the server sends, if the owner has made the link opaque. */
	void (*on_bytes)(void *owner, struct slice bytes);
};

/* One connection of hasp's own; embedded in the struct that uses it. */
struct own_conn {
	struct link_user user; /* the user of the link; on no link while closed */
	struct link_env *env;
	const struct own_conn_ops *ops;
	void *owner;

	/* The schedule of connect(). */
	struct list node; /* in env->own_conns */
	struct loop_timer retry; /* runs until the next try */
	double min_seconds; /* the first delay; 0: the connection is not made again */
	double seconds; /* the next delay */
	double worked_at; /* env->clock() when the connection began to work; 0: not yet */
	bool unreachable; /* the last try could not reach the server */
};

/* `min_seconds`: the first delay before own_conn connects again; 0: it never does so, and needs
 * no connect(). */
void own_conn_init(struct own_conn *c, struct link_env *env, double min_seconds,
                   const struct own_conn_ops *ops, void *owner);

/* Connects to the address of `env`. If Redis refuses `login` (NULL: none), the link ends. */
void own_conn_open(struct own_conn *c, const struct link_login *login);
/* Closes the connection, if it is open, and does not connect again. Requests in flight get no
 * callback. */
void own_conn_close(struct own_conn *c);
/* Closes the connection, if it is open, as if it had ended like this. */
void own_conn_fail(struct own_conn *c, enum link_end end, const char *reason);
/* Calls connect() as soon as the loop runs, and resets the delay. If the connection is open,
 * first calls own_conn_fail() with `reason`. */
void own_conn_reconnect(struct own_conn *c, const char *reason);
/* Call this when the connection works: resets the delay. */
void own_conn_worked(struct own_conn *c);
/* Redis is reachable: the connections whose last try could not reach it connect as soon as the
 * loop runs. For those that Redis refused or closed, the delay continues. */
void own_conns_retry_now(struct link_env *env);

/* True if the connection, with its TLS handshake, has been made. */
bool own_conn_is_made(const struct own_conn *c);

/* Sends `n` requests; on_reply() gets `tag` with each reply. */
void own_conn_send(struct own_conn *c, struct slice requests, size_t n, void *tag);
/* As own_conn_send(), for one request made of those words that are not NULL. */
void own_conn_send_words(struct own_conn *c, const char *const *words, size_t n, void *tag);

/* --- queries --- */

/* A query sends commands to one server, over a separate connection, and closes the connection
 * when it has all replies, or the time is over.
 *
 *   query_start() --> connect --> [AUTH] commands --> all replies --> done(replies)
 *                        |           |
 *                        '-----------'--- broken, or too late -----> done(NULL, why) */

/* Runs one query at a time; embedded in the struct that uses it. */
struct query {
	struct own_conn conn; /* closed between queries */
	const struct link_login *login; /* for own_conn_open(); only query_start() uses it */
	struct loop_timer timer;
	size_t n; /* number of commands, without AUTH */
	size_t nreplies;
	redisReply **replies; /* of length `n`; NULL between queries */
	char refusal[256]; /* the server's error reply to AUTH; empty: none */
	const char *said; /* during done(): the last error that the server sent before the
	                   * connection broke; NULL: none, or it did not break */
	/* Gets the replies, valid during the call; some may be errors. NULL: the query failed;
	 * `why` is the reason in words. May start the next query. */
	void (*done)(void *arg, redisReply *const *replies, const char *why);
	void *arg;
};

/* `env`: settings of the query's link; each query_start() sets the address in it. */
void query_init(struct query *q, struct link_env *env,
                void (*done)(void *arg, redisReply *const *replies, const char *why),
                void *arg);

/* Sends `n` encoded commands to the server at `address`. `password`: NULL: no AUTH. If the
 * server refuses AUTH, its replies to the commands still count. */
void query_start(struct query *q, const struct address *address, const char *user,
                 const char *password, struct slice commands, size_t n, int64_t timeout_ms);
bool query_is_running(const struct query *q);
/* Cancels the query, if one runs: done() will not run. */
void query_cancel(struct query *q);

#endif
