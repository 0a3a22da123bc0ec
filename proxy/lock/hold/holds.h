/* SPDX-License-Identifier: BSD-3-Clause
 *
 * hold: a worker's books of the locks that its connections took: which to renew until
 * when, which to release when the connection ends, and, for owner = value, what was
 * stored. The books decide nothing about who owns a lock (the scripts do); a book
 * that is wrong renews too little, never somebody else's lock.
 *
 *   lock_call --pending_lock_new()--> note --reply--> hold_apply() --> hold --timer--> renew
 *                                `--no reply--> undo         `--hold_owner_end()--> release
 *
 * The time a grant is good for counts from before its request was sent. A hold is renewed every
 * third of its lease, together with others whose time has come; when its lease is over before
 * that was answered, it is dropped: hasp never believes in a lock that may be gone.
 */
#ifndef HASP_LOCK_HOLD_HOLDS_H
#define HASP_LOCK_HOLD_HOLDS_H

#include <ev.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/list.h"
#include "config/types.h"
#include "lock/scripts/script_job.h"
#include "lock/rewrite/rewrite.h"

struct holds;

struct holds *holds_new(struct ev_loop *loop, struct script_jobs *script_jobs);
void holds_free(struct holds *h); /* forgets all of them */

/* What one connection holds. */
struct hold_owner {
	struct list holds;
	size_t n;
	double took_at; /* clock_now() when it last heard that it took a lock; 0: never */
};
void hold_owner_init(struct hold_owner *o);

/* What must be kept about a call until its reply is there. */
struct pending_lock;

/* Who keeps which promise about the lock of a call: a rule, or the verbs. */
struct hold_terms {
	const struct rule *rule; /* NULL: taken by a verb */
	const struct verbs *verbs; /* NULL: taken under a rule */
	struct slice token;
	double took_at; /* the connection's */
};

/* Copies what the books need of `call`, whose keys are `keys` (for DROPS: all that have a
 * rule). Returns NULL when the books have no use for its reply. */
struct pending_lock *pending_lock_new(struct holds *h, const struct lock_call *call,
                                      const struct slice *keys, size_t nkeys,
                                      const struct hold_terms *terms);
/* Who asked is gone and will not hear the answer: what the call takes shall be released. */
void pending_lock_abandon(struct pending_lock *n);
/* The answer will never come; the request may have been carried out or not, or may stand in
 * line. What it took is undone, by its ticket, or by a token that is this connection's alone.
 * Frees the note. NULL is allowed. */
void pending_lock_undo(struct pending_lock *n, int db);
/* For a try that has to wait: what it wants (points into the note), and its lease in ms; 0: the
 * application named its end. */
struct lock_try pending_lock_try(const struct pending_lock *n, int64_t *lease_ms);
/* Which reply means that the try succeeded. */
enum lock_success pending_lock_success(const struct pending_lock *n);
/* Its lease began at `since` (clock_now()), not when it was sent. */
void pending_lock_since(struct pending_lock *n, double since);
void pending_lock_free(struct pending_lock *n); /* NULL is allowed */

/* The reply to the call is there, given by database `db` (-1: not known). Frees the note. */
void hold_apply(struct holds *h, struct hold_owner *o, struct pending_lock *n, int db,
                const struct resp_reply *r);

/* The value that the connection last stored at `key` under a rule with owner = value; empty:
 * none that is known. Valid until the books change. */
struct slice hold_value(struct holds *h, const struct hold_owner *o, int db, struct slice key);

/* The connection ended: releases what is to be released at disconnect, forgets the rest. */
void hold_owner_end(struct hold_owner *o);

#endif
