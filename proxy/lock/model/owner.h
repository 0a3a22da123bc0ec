/* SPDX-License-Identifier: BSD-3-Clause
 *
 * owner: the token that names a lock's owner, by the rule's `owner` setting:
 *
 *   connection   connection:127.0.0.1:4711/0/5f0c...   (peer, worker, 128 random bits)
 *   address      address:127.0.0.1, address:uid:1000 for a unix socket
 *   name         name:NAME as set by CLIENT SETNAME; as connection until one is set
 *   user         user:NAME as logged in by AUTH or HELLO
 *   value        no token: the value that the application stores
 *
 * No token contains a space (Redis allows none in the name of a connection or a user), so that
 * `<token> <value>` can be taken apart again.
 */
#ifndef HASP_LOCK_MODEL_OWNER_H
#define HASP_LOCK_MODEL_OWNER_H

#include <sys/socket.h>

#include "base/buf.h"
#include "base/slice.h"
#include "config/types.h"

/* How the tokens of owner = connection begin, and no others. */
#define OWNER_CONNECTION_PREFIX "connection:"

/* The tokens of a connection that do not change. Made once, when they are first needed. */
struct owner_identity {
	struct slice connection; /* the whole token */
	struct slice address; /* the whole token */
	char bytes[]; /* of both */
};

/* From the connected socket `fd`, or for `behind`, who is said to be behind it, AF_INET or
 * AF_INET6; NULL: nobody is. In one piece of memory, to be freed. */
struct owner_identity *owner_identify(int fd, const struct sockaddr_storage *behind,
                                      int worker);

/* The token for `kind`, which may be built in `scratch` and is valid as long as that, `id` and
 * the names are. `name` and `user`: NULL when there is none, or none that is known for sure. */
struct slice owner_token(struct buf *scratch, enum owner_kind kind,
                         const struct owner_identity *id, const char *name, const char *user);

/* Appends what the log calls a connection: "127.0.0.1:4711", and behind a blank its name, if it
 * is not NULL. */
void owner_describe(struct buf *out, const struct owner_identity *id, const char *name);
/* The same of an owner of which only the token is known: of a connection its address, and not
 * the rest, which is nobody's business. Nothing of a token that hasp has not made, for it may
 * be a secret of the application's. */
void owner_describe_token(struct buf *out, struct slice token);

/* Is the token one that hasp makes, and for which kind of owner? Any other is of a client's own
 * making. */
bool owner_is_made(struct slice token, enum owner_kind *kind);

#endif
