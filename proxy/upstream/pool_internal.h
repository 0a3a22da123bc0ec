/* SPDX-License-Identifier: BSD-3-Clause
 *
 * pool_internal: shared by pool.c (links, and the clients that wait for them) and pool_groups.c
 * (which logins have links).
 */
#ifndef HASP_UPSTREAM_POOL_INTERNAL_H
#define HASP_UPSTREAM_POOL_INTERNAL_H

#include "base/map.h"
#include "net/loop_timers.h"
#include "upstream/pool.h"

/* The links of one login. */
struct pool_group {
	struct map_node node; /* in pool.groups; the key is the login */
	struct list order; /* in pool.groups_by_use */
	struct list links; /* of struct pool_link */
	struct list spares; /* of struct pool_link; the most recently used is last */
	struct list waiters; /* of struct pool_waiter */
	bool named; /* the login has a name */
	double failed_at; /* env->clock when a link last failed; 0: a later link was ready */
};

struct pool_link {
	struct pool *pool;
	struct list node; /* in its group's `links` or `spares` */
	struct list spare; /* in pool.spares if the link is a spare one; else empty */
	struct pool_group *group; /* NULL: the link is pool.check */
	struct link *link;
	struct link_user pool_user; /* the pool as a user of the link: gets on_down() */
	bool unused; /* the link had no user at the last sweep, and has had none since */
	bool spoilt; /* (spare) Redis has sent bytes without a request */
	double asked_at; /* env->clock when the link asked whether Redis accepts clients without
	                  * a login; -1: it did not ask */
	bool asking; /* (pool.check) the reply is due */
	bool was_ready; /* (pool.check) an earlier check has used the link */
};

struct pool {
	struct link_env *env;
	struct loop_timer sweep; /* calls pool_sweep() */
	struct loop_timer sweep_named; /* calls pool_sweep_named() while there are links with
	                                * a name */
	struct map groups;
	struct list groups_by_use; /* of struct pool_group; the most recently joined is last */
	struct list spares; /* of struct pool_link; the most recently used is last */
	struct list check_waiters; /* of struct pool_waiter: they wait for `check` */
	const struct pool_ops *ops; /* the waiters' callbacks; NULL: no client waits */
	struct pool_link *check; /* pool_check_login()'s link; NULL: there is none */
	bool lacks_reset; /* Redis has no RESET, so each check makes a link */
	double names_since; /* env->clock when the present second of NAMES_PER_SECOND began */
	unsigned names_made; /* number of groups with a name made in that second */
};

/* --- pool_groups.c ------------------------------------------------------------------------ */

/* Forgets the link, which must have no users. */
void pool_link_free(struct pool_link *l);
/* As pool_link_free(), and closes the link. */
void pool_link_close(struct pool_link *l);

/* Returns the group of the login; NULL: there is none. */
struct pool_group *pool_group_find(const struct pool *p, const struct link_login *login);

/* Returns the group for the login, and makes it if necessary. If the limit of names is reached,
 * removes the name from *login and returns the group of that login. NULL: the limit of groups
 * is reached, too. */
struct pool_group *pool_group_get(struct pool *p, struct link_login *login);

/* Closes the group's links. No client may wait for one. */
void pool_group_free(struct pool *p, struct pool_group *g);

#endif
