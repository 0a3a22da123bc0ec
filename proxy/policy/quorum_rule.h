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

enum quorum_act {
	QUORUM_ACT_SETNX,
	QUORUM_ACT_SET, /* ... NX */
	QUORUM_ACT_DEL,
	QUORUM_ACT_EXPIRE,
	QUORUM_ACT_PERSIST,
	QUORUM_ACT_GET,
	QUORUM_ACT_EXISTS,
	QUORUM_ACT_TTL,
	QUORUM_ACT_PTTL,
	QUORUM_ACT_DESCRIBE, /* LOCK.INFO */
};

/* A command on such a key; the slices point into the request, or into env->token. */
struct quorum_command {
	enum quorum_act act;
	const struct rule *rule;
	struct slice key;
	struct slice owner; /* empty if owner = value */
	struct slice value; /* SETNX, SET */
	int64_t lease_ms; /* SETNX, SET: > 0. EXPIRE: 0 or less deletes the lock */
	bool leased; /* the application named the lease */
};

/* Decides about a command that names such a key. Returns false if it names none. */
bool quorum_rule_decide(struct context *x, struct decision *d);

/* Reads the request of a PENDING_QUORUM. Returns false if it concerns no such key. */
bool quorum_rule_read(struct context *x, struct quorum_command *q);

/* Decides about a verb, as lock_decide_verb() does, if a quorum has its locks. */
struct decision quorum_verb_decide(struct context *x);

/* Reads the request of a PENDING_QUORUM; sets only `key`, `owner`, `leased`, `lease_ms` and
 * `wait_ms` of the call. Returns false if the request is invalid. */
bool quorum_verb_read(struct context *x, struct lock_call *call);

#endif
