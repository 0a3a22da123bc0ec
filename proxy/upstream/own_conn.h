/* SPDX-License-Identifier: BSD-3-Clause
 *
 * own_conn: a connection on which hasp itself asks a server: one user of one link, which gets
 * each reply decoded, with the tag of its request. Its owner opens it again when it ends.
 *
 *   own_conn_open() --> own_conn_send(tag) --> on_reply(tag), in the order of the requests
 *                                        '--> on_down()
 */
#ifndef HASP_UPSTREAM_OWN_CONN_H
#define HASP_UPSTREAM_OWN_CONN_H

#include <hiredis/hiredis.h>
#include <stddef.h>

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

/* Connects to the address of `env`. `login`: the link's own, whose refusal ends it; NULL: none.
 */
void own_conn_open(struct own_conn *c, struct link_env *env, const struct link_login *login);
/* Harmless when closed. Requests in flight get no callback. */
void own_conn_close(struct own_conn *c);

/* Sends requests, `n` of them, whose replies all get this tag. */
void own_conn_send(struct own_conn *c, struct slice requests, size_t n, void *tag);
/* As own_conn_send(), for one request that is made of words. */
void own_conn_send_words(struct own_conn *c, const char *const *words, size_t n, void *tag);
/* Sends AUTH with the user, NULL: none, and the password. A refusal ends nothing. */
void own_conn_send_auth(struct own_conn *c, const char *user, const char *password, void *tag);

#endif
