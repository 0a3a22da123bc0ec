/* SPDX-License-Identifier: BSD-3-Clause
 *
 * quorum_rule: commands on keys whose [lock] rule names a quorum: the key is at its servers,
 * not in [upstream]. Those that take, free, prolong or read a lock are carried out there, as
 * the verbs are; all others that name such a key are refused. Redis gets a PING in place of
 * such a command, so that the command keeps its place among the client's commands, and a client
 * that is not logged in is refused. hasp asks the quorum when Redis has answered the PING.
 */
#ifndef HASP_POLICY_QUORUM_RULE_H
#define HASP_POLICY_QUORUM_RULE_H

#include <stdbool.h>

#include "policy/context.h"

/* The effect of a command, and with it the form of the reply. */
enum quorum_act {
	QUORUM_ACT_LOCK, /* the fencing token, or nil */
	QUORUM_ACT_SETNX,
	QUORUM_ACT_SET, /* ... NX */
	QUORUM_ACT_RELEASE, /* UNLOCK, DEL, or an EXPIRE that leaves no time */
	QUORUM_ACT_RELEASE_OWN, /* of a lock that the client had: the lock is free, even if a
	                         * majority has not confirmed that */
	QUORUM_ACT_REFUSE_RELEASE, /* the client has not read the value, as it must */
	QUORUM_ACT_EXTEND, /* LOCK.EXTEND, EXPIRE */
	QUORUM_ACT_PERSIST,
	QUORUM_ACT_GET,
	QUORUM_ACT_EXISTS,
	QUORUM_ACT_TTL,
	QUORUM_ACT_PTTL,
	QUORUM_ACT_INFO, /* LOCK.INFO; at most 15: struct client has 4 bits for it */
};

/* A command for a quorum; its slices point into the request, or into env->token. */
struct quorum_command {
	enum quorum_act act;
	const struct rule *rule; /* NULL: a verb */
	struct lock_call call; /* its key, owner (empty if owner = value), value, leased,
	                        * lease_ms and wait_ms count */
};

/* Decides about a command that names such a key. Returns false if it names none. */
bool quorum_rule_decide(struct context *x, struct decision *d);

/* Decides about a verb, as lock_decide_verb() does, if a quorum has its locks. */
struct decision quorum_verb_decide(struct context *x);

/* Reads the request of a PENDING_QUORUM. Returns false if it is none for a quorum any more. */
bool quorum_command_read(struct context *x, struct quorum_command *q);

#endif
