/* SPDX-License-Identifier: BSD-3-Clause */
#include "client/complete.h"

#include "lock/observe/observation.h"

static void on_done(void *arg, struct pending_request *r, int db,
                    const struct resp_reply *reply)
{
	struct client *c = arg;

	if (r->observation)
		observation_complete(r->observation, db, reply);
	if (r->pending_lock)
		hold_apply(c->env->policy.holds, &c->holds, r->pending_lock, db, reply);
	r->pending_lock = NULL;
}

void complete_request(struct client *c, struct pending_request *r,
                      const struct resp_reply *reply, struct slice captured)
{
	session_reply(&c->session, r, reply, captured, on_done, c);
}
