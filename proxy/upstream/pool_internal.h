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
	struct map_node node; /* key: the login */
	struct list order; /* in pool.groups_by_use */
	struct list links; /* of pool_link */
	struct list spares; /* of pool_link; the one that was used last is the last */
	struct list waiters; /* of pool_waiter */
	bool named;
	double failed_at; /* by env->clock, since when no link was ready; 0: none has failed */
};

struct pool_link {
	struct pool *pool;
	struct list node; /* in its group: among its links, or its spares */
	struct list spare; /* in pool.spares; else empty */
	struct pool_group *group; /* NULL: it is pool.check */
	struct link *link;
	struct link_user pool_user; /* the pool, which hears of the link's end */
	bool unused; /* at the last sweep, and since */
	bool spoilt; /* (a spare) it said something without being asked */
	bool probe_noauth; /* ask whether Redis takes clients without a login */
	double asked_at; /* by env->clock, before Redis was asked for that */
	bool asking; /* (pool.check) its answer is due */
	bool was_ready; /* (pool.check) it has been asked before */
};

struct pool {
	struct link_env *env;
	struct loop_timer sweep; /* calls pool_sweep() */
	struct loop_timer
		sweep_named; /* pool_sweep_named(), while there are links with a name */
	struct map groups;
	struct list groups_by_use; /* the one that was joined last is the last */
	struct list spares; /* of pool_link; the one that was used last is the last */
	struct list check_waiters; /* of pool_waiter: they wait for `check` */
	const struct pool_ops *ops; /* NULL: no client waits */
	struct pool_link *check; /* see pool_check_login(); NULL: there is none */
	bool lacks_reset; /* Redis knows no RESET: each check has a link of its own */
	int64_t links_per_login; /* >= 1 */
	double names_since; /* when the current second began */
	unsigned names_made; /* groups with a name that were made in it */
};

/* --- pool_groups.c ------------------------------------------------------------------------ */

/* Forgets the link, which has no users any more. */
void pool_link_free(struct pool_link *l);
/* Closes the link, too. */
void pool_link_close(struct pool_link *l);

/* NULL: there is none for the login. */
struct pool_group *pool_group_find(const struct pool *p, const struct link_login *login);

/* Returns the group for the login, and makes it if necessary. If there is no room for its name,
 * returns the group of the same login without a name, and removes the name from *login. NULL:
 * there is no room for that either. */
struct pool_group *pool_group_get(struct pool *p, struct link_login *login);

/* Closes the group's links. No client may wait for one. */
void pool_group_free(struct pool *p, struct pool_group *g);

#endif
