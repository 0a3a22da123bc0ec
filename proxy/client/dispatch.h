/* SPDX-License-Identifier: BSD-3-Clause
 *
 * dispatch: the one place that decides what becomes of a command.
 *
 *   verb            -> rewritten
 *   write on a key
 *   with a rule     -> rewritten, unless watched, or only observed
 *   session command -> passed, and remembered until its reply
 *   anything else   -> passed
 */
#ifndef HASP_CLIENT_DISPATCH_H
#define HASP_CLIENT_DISPATCH_H

#include <stdbool.h>

#include "client/client.h"
#include "client/session.h"
#include "lock/owner.h"
#include "resp/view.h"

enum verdict {
	DISPATCH_PASS, /* send it as it came */
	DISPATCH_CALL, /* send env->call instead */
	DISPATCH_LATER, /* ask again when nothing is awaited: its meaning depends on it */
	DISPATCH_HOLD, /* (dispatch_early) not to be told before it is whole */
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
	bool barrier; /* what is behind waits for its reply */
	enum turn turn;
};

/* Who asks. */
struct dispatch_from {
	struct client_env *env;
	struct session *session;
	struct hold_owner *holds;
	const struct owner_identity *(*identity)(void *arg);
	void *arg;
};

/* Decides about a whole request. `eval`: the script is known to be missing. Changes the session as if the
 * request were sent now, unless the verdict is LATER. */
struct decision dispatch(const struct dispatch_from *from, const struct resp_view *req,
                         bool eval);

/* Decides about the beginning of a long request: PASS (session changed), LATER or HOLD. */
struct decision dispatch_early(const struct dispatch_from *from,
                               const struct resp_view *beginning);

#endif
