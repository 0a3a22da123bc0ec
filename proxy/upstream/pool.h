/* SPDX-License-Identifier: BSD-3-Clause
 *
 * pool: a worker's shared links to one server: `links_per_worker` for each login (database,
 * protocol version, user, password, name) that the worker's clients have. The pool makes a link
 * when a client needs one, and closes it when it has had no user for a while. It soon closes an
 * unused link with a name, because CLIENT LIST shows the name, and applications would take the
 * link for a living client.
 *
 * Clients choose their logins, so the pool has limits: at most POOL_GROUPS_MAX logins have
 * links. At most POOL_NAMES_MAX of these have a name, and at most POOL_IDLE_MAX have no user at
 * the moment. Beyond these limits, a client with a name shares links without a name, and a
 * client with any other login gets a link of its own.
 *
 * A client that needs a link of its own for one transaction puts it back as a *spare* link of
 * its login, private and without a user. The pool closes spare links like shared links without
 * users, and before links_max refuses another link.
 *
 * If links lead to a peer in this process (link_env.connect), each client gets a link of its
 * own in place of a shared one, so that no client waits for another's replies.
 *
 * The pool itself asks Redis whether it accepts clients without a login: an answer to a client
 * does not count, because a script may have written it.
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
void pool_free(struct pool *p); /* frees the pool and closes its links */

/* Closes the links that have had no user since the last sweep. For the pool's timer, and
 * tests. */
void pool_sweep(struct pool *p);
/* As pool_sweep(), for links that have a name; runs more often. */
void pool_sweep_named(struct pool *p);

/* Call this when the environment's address is about to change: forgets whether clients need a
 * login, because the new server decides that. */
void pool_follow_address(struct pool *p);

/* Embedded in a client that wants a shared link; in a list of the pool while it waits. */
struct pool_waiter {
	struct list node;
	double since; /* env->clock when the client began to wait; 0: it does not wait */
	double came; /* env->clock when the client connected; earlier answers whether Redis
	              * requires a login do not count for the client */
};

/* on_ready(): the waiter must call pool_ask() again. on_failed(): the link that it waited for
 * failed. */
struct pool_ops {
	void (*on_ready)(struct pool_waiter *w);
	void (*on_failed)(struct pool_waiter *w, enum link_end end, const char *reason);
};
void pool_set_ops(struct pool *p, const struct pool_ops *ops);

void pool_waiter_init(struct pool_waiter *w, double came);
bool pool_waiter_waits(const struct pool_waiter *w);
/* Ends the wait, if there is one. */
void pool_waiter_end(struct pool_waiter *w);

enum pool_answer {
	POOL_READY, /* call pool_join() now */
	POOL_LATER, /* the pool will notify `w` */
	POOL_NEVER, /* no link will come: too many logins, or this login has just failed */
};

/* Asks for a link with `login`, and makes one if there is none. If the previous link has just
 * failed, makes one only if `eager`. Call this with a password only if Redis has accepted it
 * from this client, because a link that is ready does not log in again. Without a password,
 * POOL_READY means that Redis has accepted a connection without a login since `w->came`. */
enum pool_answer pool_ask(struct pool *p, const struct link_login *login, bool eager,
                          struct pool_waiter *w) __attribute__((warn_unused_result));

/* Call this after POOL_READY: puts `u` on the ready link with the fewest users. Makes one more
 * link if the login has fewer than env->links_per_login. */
void pool_join(struct pool *p, const struct link_login *login, struct link_user *u);

/* Makes the shared link of `u` private, if `u` is its only user and the link is in the state
 * that `login` describes. Returns false if it stays shared. */
bool pool_detach(struct pool *p, const struct link_login *login, struct link_user *u);

/* Takes the private link of `u` as a spare link, which another client may then use. The link
 * must have the login that `login` describes, and no other state in Redis. Returns false if `u`
 * keeps the link, for example because a reply is due. */
bool pool_put_spare(struct pool *p, const struct link_login *login, struct link_user *u);

/* Asks for a spare link with `login`. POOL_READY: *spare is a link without a user, which the
 * caller must join or close. POOL_NEVER: there is none. */
enum pool_answer pool_take_spare(struct pool *p, const struct link_login *login,
                                 struct pool_waiter *w, struct link **spare)
	__attribute__((warn_unused_result));

/* Call this before making a link: closes a spare link if there are link_env.max links. */
void pool_make_way(struct pool *p);

/* Asks Redis whether it requires a login, unless the last answer is younger than a second. The
 * answer is stored in link_env.login_required. */
void pool_check_login(struct pool *p);

#endif
