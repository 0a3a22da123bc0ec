/* SPDX-License-Identifier: BSD-3-Clause
 *
 * complete: what an answered request means for the client's session, holds and observations.
 * EXEC's reply reports the locks of the transaction as acquired, so the client gets the reply
 * only while their leases last, as with any other lock.
 */
#include "client/client_internal.h"

#include "config/match.h"
#include "lock/guard/checked_read.h"
#include "lock/hold/holds.h"
#include "lock/queue/waiters.h"
#include "policy/policy_env.h"
#include "watch/command_sample.h"

struct carried_out {
	const struct client *client;
	int db;
};

/* Asks Redis about the lock `key`, because an answered request may have ended the lock. */
static void probe_lock(void *arg, struct slice key)
{
	const struct carried_out *in = arg;
	const struct policy_env *env = &in->client->env->policy;
	const struct rule *rule = match_rule(env->matcher, key);
	bool by_value = rule && rule->owner == OWNER_VALUE;

	if (in->db >= 0)
		waiters_probe(env->waiters, in->db, key,
		              by_value ? LOCK_KIND_VALUE : LOCK_KIND_RULE);
}

static void probe_locks(const struct client *c, int db, const struct pending_request *r)
{
	struct carried_out in = { c, db };

	pending_each_probe_key(r, probe_lock, &in);
}

void complete_watched(struct pending_request *r, int db, const struct resp_reply *reply)
{
	if (!r->command_sample)
		return;
	command_sample_complete(r->command_sample, db, reply);
	command_sample_free(r->command_sample);
	r->command_sample = NULL;
}

void complete_lock(struct client *c, struct pending_request *r, int db,
                   const struct resp_reply *reply)
{
	/* Do not probe after an error: the command has ended no lock, and hasp's own user may
	 * have access to keys that this client's user must not see. */
	if (buf_len(&r->probe_keys) && !resp_reply_is_error(reply) &&
	    !(r->lock_request && followed_script_failed(r->lock_request)))
		probe_locks(c, db, r);
	if (!r->lock_request)
		return;
	hold_apply(c->env->policy.holds, client_own_holds(c), r->lock_request, db, reply);
	r->lock_request = NULL;
	policy_note_reads(&c->env->policy);
}

static void on_done(void *arg, struct pending_request *r, int db,
                    const struct resp_reply *reply, struct slice frame)
{
	struct client *c = arg;

	complete_watched(r, db, reply);
	if (r->value_read)
		value_read_complete(r->value_read, &client_own_holds(c)->seen, db, frame);
	if (r->checked_read)
		checked_read_complete(r->checked_read, db, reply, frame);
	/* An error here was an element of EXEC's reply: on_line() has handled all others. */
	if (r->lock_request && slice_starts(frame, SLICE_LIT("-LOCKED ")))
		lock_request_locked(r->lock_request);
	complete_lock(c, r, db, reply);
}

void complete_request(struct client *c, struct pending_request *r,
                      const struct resp_reply *reply, struct slice captured)
{
	/* If EXEC's reply was too long to keep, hasp does not know its commands' replies. */
	if (r->kind == PENDING_EXEC && captured.n == 0 && !resp_reply_is_error(reply) &&
	    !reply->nil)
		probe_locks(c, c->session.db, r);
	session_reply(&c->session, r, reply, captured, on_done, c);
}

/* --- EXEC that comes late ----------------------------------------------------------------- */

static void undo_lock(void *arg, struct pending_request *r, int db)
{
	(void)arg;
	lock_request_undo(r->lock_request, db);
	r->lock_request = NULL;
}

void complete_exec_refuse(struct client *c, struct pending_request *exec)
{
	stream_send(&c->stream,
	            SLICE_LIT("-ERR hasp: Redis carried out the transaction, but its reply "
	                      "came after the lease of a lock that it took had ended\r\n"));
	session_each_queued(&c->session, exec, undo_lock, NULL);
}
