/* SPDX-License-Identifier: BSD-3-Clause
 *
 * owner: the token that names a lock's owner, by the rule's `owner` setting:
 *
 *   connection   connection:127.0.0.1:4711/0/5f0c...   (peer, worker, 128 random bits)
 *   address      address:127.0.0.1, address:uid:1000 for a unix socket
 *   name         name:NAME as set by CLIENT SETNAME; until then, as `connection`
 *   user         user:NAME as logged in by AUTH or HELLO
 *   value        no token: the value that the application stores
 *
 * No token contains a space, so that `<token> <value>` can be split again. (Redis allows no
 * space in the name of a connection or a user.)
 */
#ifndef HASP_LOCK_MODEL_OWNER_H
#define HASP_LOCK_MODEL_OWNER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "base/fatal.h"
#include "base/slice.h"
#include "config/types.h"

/* The bytes of a token, which the owner's connection, requests, waiters and holds share. */
struct token {
	uint32_t refs;
	uint32_t n : 31; /* number of `bytes` */
	bool counted : 1; /* a connection or a hold counts these bytes as its own memory */
	char bytes[];
};

/* As token_new(), with room for `nroom` more bytes after those of the token. */
static inline struct token *token_new_before(struct slice s, size_t nroom)
{
	struct token *t = xmalloc(sizeof(*t) + s.n + nroom);

	t->refs = 1;
	t->n = (uint32_t)s.n & INT32_MAX;
	t->counted = false;
	if (s.n)
		memcpy(t->bytes, s.p, s.n);
	return t;
}

/* Returns a copy of the bytes, with one reference. */
static inline struct token *token_new(struct slice s)
{
	return token_new_before(s, 0);
}

static inline struct token *token_ref(struct token *t)
{
	t->refs++;
	return t;
}

/* NULL is allowed. */
static inline void token_release(struct token *t)
{
	if (t && --t->refs == 0)
		free(t);
}

static inline struct slice token_slice(const struct token *t)
{
	return slice_of(t->bytes, t->n);
}

/* A connection's identity is its token `connection:...`. After the bytes of that token follows
 * the string `address:...`, the token of the connection's address. Neither ever changes. */

/* Makes the identity for the peer of the connected socket `fd`. If a load balancer's PROXY
 * header names the client's address, makes the identity for that address: `behind`, AF_INET or
 * AF_INET6; else NULL. */
struct token *owner_identify(int fd, const struct sockaddr_storage *behind, int worker);

/* As owner_identify(), from tokens that owner_identify() has made before. */
struct token *owner_identity_of(struct slice connection, struct slice address);

/* Returns the token of the address in a connection's identity. */
static inline struct slice owner_address(const struct token *id)
{
	return slice_str(id->bytes + id->n);
}

/* Returns the token of an owner of this `kind`. The token may be in `scratch`, and is valid as
 * long as `scratch`, `id` and the names are valid. `name`, `user`: NULL if there is none, or if
 * hasp is not certain of it. */
struct slice owner_token(struct buf *scratch, enum owner_kind kind, const struct token *id,
                         const char *name, const char *user);

/* Appends the name of a connection for the log: "127.0.0.1:4711", and, unless `name` is NULL, a
 * blank and `name`. */
void owner_describe(struct buf *out, const struct token *id, const char *name);
/* Appends the name of the owner with this token, for the log: for a connection its address,
 * without the random bits. Appends nothing for a token that hasp has not made: it may be a
 * secret of the application. */
void owner_describe_token(struct buf *out, struct slice token);

/* True if hasp, and not a client, has made the token. Then writes the kind of the owner. */
bool owner_is_made(struct slice token, enum owner_kind *kind);

#endif
