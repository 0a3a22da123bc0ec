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
 * timer calls it; a test may, too. */
void pool_sweep(struct pool *p);
/* As pool_sweep(), for links that have a name; call it more often. */
void pool_sweep_named(struct pool *p);

/* Sets how many links each login may have; >= 1. */
void pool_set_size(struct pool *p, int64_t links_per_login);

/* Call this when the environment's address is about to change: another server decides about
 * logins then. Links that are outdated then get no more users. */
void pool_follow_address(struct pool *p);

/* Embedded in a client that wants a shared link; in a list of the pool while it waits. */
struct pool_waiter {
	struct list node;
	double since; /* env->clock when it began to wait */
	double came; /* env->clock when the client connected: a check before that does not
	              * count for it */
};

/* on_ready(): the waiter must ask again. on_failed(): the link that it waited for failed; it
 * may ask again only if it can do without. */
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
	POOL_NEVER, /* there are too many logins, or this one has just failed */
};

/* Asks for a link with `login`, and makes one if there is none: if `eager`, even after one has
 * just failed. Redis must have accepted a login with a password for this user already, on
 * another connection, because a ready link does not log in again. Without a password, the
 * answer is POOL_READY only if Redis has accepted such a connection since `w->came`. */
enum pool_answer pool_ask(struct pool *p, const struct link_login *login, bool eager,
                          struct pool_waiter *w) __attribute__((warn_unused_result));

/* Call this after POOL_READY: puts `u` on the ready link with the fewest users. Makes one more
 * link if there are fewer than pool_set_size() allows. */
void pool_join(struct pool *p, const struct link_login *login, struct link_user *u);

/* Gives `u` its pool link as a private link, if no other user is there and the link is in the
 * state that `login` describes. Returns whether it did. */
bool pool_detach(struct pool *p, const struct link_login *login, struct link_user *u);

/* Makes a spare link of the private link of `u`, which must be in the state that `login`
 * describes and have no other state in Redis. If no reply is due, another client may take the
 * link, and `u` is on none. Returns whether it did. */
bool pool_put_spare(struct pool *p, const struct link_login *login, struct link_user *u);

/* Asks for a spare link with `login`. POOL_READY: *spare is one, without a user; the pool no
 * longer owns it, so join or close it. POOL_NEVER: there is none. */
enum pool_answer pool_take_spare(struct pool *p, const struct link_login *login,
                                 struct pool_waiter *w, struct link **spare)
	__attribute__((warn_unused_result));

/* Call this before making a link: closes a spare link if there are link_env.max links. */
void pool_make_way(struct pool *p);

/* Asks Redis whether it requires a login, unless it did a moment ago; the answer is in
 * link_env.login_required. */
void pool_check_login(struct pool *p);

#endif
