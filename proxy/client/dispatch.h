/* SPDX-License-Identifier: BSD-3-Clause
 *
 * dispatch: the one place that decides what becomes of a command.
 *
 *   verb            -> rewritten
 *   write on a key
 *   with a rule     -> rewritten, unless watched, or only observed: then its reply is
 *                      looked at
 *   session command -> passed, and remembered until its reply
 *   anything else   -> passed
 *
 * What could end a lock that somebody waits for is marked, so that the lock is looked at when
 * it is answered.
 */
#ifndef HASP_CLIENT_DISPATCH_H
#define HASP_CLIENT_DISPATCH_H

#include <stdbool.h>

#include "client/client.h"
#include "client/names.h"
#include "client/session.h"
#include "lock/owner.h"
#include "lock/rewrite.h"
#include "resp/view.h"

enum verdict {
	DISPATCH_PASS, /* send it as it came */
	DISPATCH_CALL, /* send env->call instead */
	DISPATCH_LATER, /* ask again when nothing is awaited: its meaning depends on it */
	DISPATCH_UNREADY, /* ask again when from->waiter is told that it is ready */
	DISPATCH_HOLD, /* (dispatch_early) not to be told before it is whole */
};

/* The link that a command needs. */
enum route {
	ROUTE_SHARED, /* any that has the client's login */
	ROUTE_OWN, /* a private one, while it lasts */
	ROUTE_PRIVATE, /* a private one from here on: it changes what cannot be replayed */
};

/* What happens to the connection behind the request. */
enum turn {
	TURN_NONE,
	TURN_OPAQUE, /* replies can't be followed from here on */
	TURN_RAW, /* nor requests: a replica's byte stream begins */
};

struct decision {
	enum verdict verdict;
	unsigned treat; /* flags for link_expect() */
	struct request *request; /* its tag; NULL: none */
	unsigned lead; /* answers that the client does not see, in front of its reply */
	unsigned treat_lead; /* flags for those, with LINK_QUIET */
	bool barrier; /* what is behind waits for its reply */
	enum turn turn;
};

/* Who asks. */
struct dispatch_from {
	struct client_env *env;
	struct session *session;
	struct hold_owner *holds;
	struct reader *reader;
	struct observer **observer; /* client/observe.h */
	const char *listener; /* the entry of `listen` */
	bool may_try; /* a guard's being free may be tried, before a script is sent */
	const struct owner_identity *(*identity)(void *arg);
	void *arg;
	struct waiter *
		*waiter; /* of a try that is sent again; else NULL, and made when needed */
	const struct waiter_ops *waiter_ops;
};

/* The link for a whole request. Changes nothing. */
enum route dispatch_route(const struct client_env *env, const struct resolved *what,
                          const struct resp_view *req);

/* Could the request, which is plain but for that, end a lock that somebody waits for? */
bool dispatch_may_release(const struct client_env *env, const struct session *session,
                          const struct resolved *what, const struct resp_view *req);

/* Decides about a whole request. `eval`: the script is known to be missing. Changes the session
 * as if the request were sent now, unless the verdict is LATER or UNREADY. */
struct decision dispatch(const struct dispatch_from *from, const struct resp_view *req,
                         const struct resolved *what, bool eval);

/* Decides about the beginning of a long request: PASS (session changed), or HOLD.
 * `is_name_long`: its first argument goes on, and is no command's name. */
struct decision dispatch_early(const struct dispatch_from *from,
                               const struct resp_view *beginning, bool is_name_long);

#endif
