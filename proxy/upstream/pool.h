/* SPDX-License-Identifier: BSD-3-Clause
 *
 * pool: a worker's shared links: `links_per_worker` for each login (database, protocol version,
 * user, password) that its clients have. A link is made when a client needs one, and closed
 * when it has had no user for a while.
 */
#ifndef HASP_UPSTREAM_POOL_H
#define HASP_UPSTREAM_POOL_H

#include <stdint.h>

#include "upstream/link.h"

struct pool;

struct pool *pool_new(struct ev_loop *loop, struct link_env *env);
void pool_free(struct pool *p); /* closes the links */

/* Closes the links that had no user at the last sweep, and have had none since. The pool's
 * timer calls it; so may a test. */
void pool_sweep(struct pool *p);

/* How many links each login may have from now on; >= 1. */
void pool_set_size(struct pool *p, int64_t links_per_login);

/* The environment's address changed: link_set_outdated() for the links that lead elsewhere. */
void pool_follow_address(struct pool *p);

/* Puts `u` on a link with `login`, whose name does not count: on a new link while there are
 * fewer than pool_set_size() allows, else on the one with the fewest users. Redis must have
 * accepted the login for this user already, on another connection: a link that exists does not
 * log in again. */
void pool_join(struct pool *p, const struct link_login *login, struct link_user *u);

#endif
