/* SPDX-License-Identifier: BSD-3-Clause
 *
 * pool: a worker's shared links, a few for each login (database, protocol version, user,
 * password) that its clients have. A link is made when the first client needs one, and closed
 * when it has had no user for a while.
 */
#ifndef HASP_UPSTREAM_POOL_H
#define HASP_UPSTREAM_POOL_H

#include <stdint.h>

#include "upstream/link.h"

struct pool;

struct pool *pool_new(struct ev_loop *loop, struct link_env *env);
void pool_free(struct pool *p); /* closes the links */

/* Closes the links that had no user at the last sweep, and have none now. The pool's timer does
 * it. */
void pool_sweep(struct pool *p);

/* How many links each login has from now on; >= 1. */
void pool_set_size(struct pool *p, int64_t links_per_login);

/* Tells the links that lead to another address than the environment's from those that don't. */
void pool_follow_address(struct pool *p);

/* Puts `u` on the link with the fewest users that `login` (whose name does not count) has.
 * Redis must have accepted the login for this user already: the link's own login happens
 * without it. */
void pool_join(struct pool *p, const struct link_login *login, struct link_user *u);

#endif
