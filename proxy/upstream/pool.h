/* SPDX-License-Identifier: BSD-3-Clause
 *
 * pool: a worker's shared links: `links_per_worker` for each login (database, protocol version,
 * user, password, name) that its clients have. The pool makes a link when a client needs one,
 * and closes it when it has had no user for a while. It closes a link with a name soon, because
 * CLIENT LIST shows that name, and applications take it for a living client.
 *
 * Clients choose their logins, so the pool has bounds: POOL_GROUPS_MAX logins have links, of
 * which POOL_NAMES_MAX have a name, and POOL_IDLE_MAX have no user at the moment. Beyond these,
 * a client with a name shares links without one, and a client with any other login gets a link
 * of its own.
 *
 * A client that needs a link of its own for one transaction puts it back as a *spare* link of
 * its login, private and without a user. Spare links are closed as shared ones without users
 * are, and before links_max refuses another link.
 *
 * If links lead to a peer in this process (link_env.connect), each client gets a link of its
 * own in place of a shared one, so that none waits for another's replies.
 *
 * Only the pool's links ask whether Redis accepts clients without a login: a script may have
 * written Redis' answer to a client.
 */
#ifndef HASP_UPSTREAM_POOL_H
#define HASP_UPSTREAM_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "upstream/link.h"

#define POOL_GROUPS_MAX 64
#define POOL_NAMES_MAX 32
#define POOL_IDLE_MAX 16

struct pool;

struct pool *pool_new(struct ev_loop *loop, struct link_env *env);
void pool_free(struct pool *p); /* closes the links */

/* Closes the links that had no user at the last sweep, and have had none since. The pool's
 * timer calls it; so may a test. */
void pool_sweep(struct pool *p);
/* As pool_sweep(), for links that have a name; call it more often. */
void pool_sweep_named(struct pool *p);

/* How many links each login may have from now on; >= 1. */
void pool_set_size(struct pool *p, int64_t links_per_login);

/* The environment's address is about to change: what Redis says about logins, another one says.
 * Links that are outdated then get no more users. */
void pool_follow_address(struct pool *p);

/* Embedded in the client that wants a shared link: in a list of the pool while it waits. */
struct pool_waiter {
	struct list node;
	double since; /* by env->clock, while it waits */
	double came; /* by env->clock, when the client came: without a login it needs a later
	              * check */
};

/* A waiter need wait no longer: ask again; or the link that it waited for could not be had.
 * Such a waiter may ask again only if it can do without. */
struct pool_ops {
	void (*on_ready)(struct pool_waiter *w);
	void (*on_failed)(struct pool_waiter *w, enum link_end end, const char *reason);
};
void pool_set_ops(struct pool *p, const struct pool_ops *ops);

void pool_waiter_init(struct pool_waiter *w, double came);
bool pool_waiter_waits(const struct pool_waiter *w);
/* Harmless when it does not wait. */
void pool_waiter_end(struct pool_waiter *w);

enum pool_answer {
	POOL_READY, /* pool_join() may be called now */
	POOL_LATER, /* the pool will notify `w` */
	POOL_NEVER, /* there are too many logins; or this one has just failed */
};

/* Wants a link with `login`. While there is none, one is made: for `eager` ones also if that
 * has just failed. With a password, Redis must have accepted the login for this user
 * already, on another connection: a link that is ready does not log in again. Without one, the
 * answer is POOL_READY only if Redis has taken such a connection since `w->came`. */
enum pool_answer pool_ask(struct pool *p, const struct link_login *login, bool eager,
                          struct pool_waiter *w) __attribute__((warn_unused_result));

/* After POOL_READY: puts `u` on the ready link with the fewest users. While there are fewer
 * links than pool_set_size() allows, one more is made. */
void pool_join(struct pool *p, const struct link_login *login, struct link_user *u);

/* `u` is on a link of the pool. If it is there alone, and the link is in the state that `login`
 * says, the link is its own from now on, and private. Returns whether that is so. */
bool pool_detach(struct pool *p, const struct link_login *login, struct link_user *u);

/* `u` is on a private link in the state that `login` says, and Redis keeps nothing else of it
 * there. If nothing is due on the link, it becomes a spare link, which another client may take,
 * and `u` is on no link. Returns whether that is so. */
bool pool_put_spare(struct pool *p, const struct link_login *login, struct link_user *u);

/* Wants a spare link with `login`. POOL_READY: *spare is one, which has no user and is not the
 * pool's any more; it must be joined, or closed. POOL_NEVER: there is none. */
enum pool_answer pool_take_spare(struct pool *p, const struct link_login *login,
                                 struct pool_waiter *w, struct link **spare)
	__attribute__((warn_unused_result));

/* A link is about to be made: if there are link_env.max, closes a spare one. */
void pool_make_way(struct pool *p);

/* Asks Redis whether it takes clients without a login, unless that was done a moment ago; the
 * answer is in link_env.login_required. */
void pool_check_login(struct pool *p);

#endif
