/* SPDX-License-Identifier: BSD-3-Clause
 *
 * quorum_rule: commands on keys whose [lock] rule names a quorum, which stores the key at its
 * own servers. The quorum carries out the verbs, and commands that take, free, prolong or read
 * a lock; hasp refuses all other commands that name such a key. Redis gets a PING in place of
 * the command, so that the command keeps its place among the client's commands, and Redis can
 * refuse a client that is not logged in. hasp asks the quorum after the PING's answer.
 */
#ifndef HASP_POLICY_QUORUM_RULE_H
#define HASP_POLICY_QUORUM_RULE_H

#include <stdbool.h>

#include "policy/context.h"

/* The effect of a command. All but QUORUM_ACT_TAKE also decide the form of the reply. */
enum quorum_act {
	QUORUM_ACT_NONE, /* the quorum cannot carry out the command */
	QUORUM_ACT_TAKE, /* LOCK, SETNX, or SET with NX */
	QUORUM_ACT_RELEASE, /* UNLOCK, DEL, or an EXPIRE that leaves no time */
	QUORUM_ACT_RELEASE_OWN, /* release of the client's own lock; the reply is a success even
	                         * if no majority has confirmed the release */
	QUORUM_ACT_REFUSE_RELEASE, /* a refused release: the client has not read the value */
	QUORUM_ACT_EXTEND, /* LOCK.EXTEND or EXPIRE */
	QUORUM_ACT_PERSIST,
	QUORUM_ACT_GET,
	QUORUM_ACT_EXISTS,
	QUORUM_ACT_TTL,
	QUORUM_ACT_PTTL,
	QUORUM_ACT_INFO, /* LOCK.INFO. struct client stores the act in 4 bits: at most 15 */
};

/* A command for a quorum; its slices point into the request, or into env->tokens. */
struct quorum_command {
	enum quorum_act act;
	struct lock_key key; /* key.rule: NULL for a verb, which sets nothing else of `key` */
	struct lock_call call; /* `owner` is empty if owner = value; of a command that only
	                        * reads the lock, only `key` and `owner` are set */
};

/* Decides about a command on keys whose rule names a quorum. Returns false if the command names
 * no such key. */
bool quorum_rule_decide(struct context *x, struct decision *d);

/* Decides about a verb, as lock_decide_verb() does, if a quorum stores the verbs' locks. */
struct decision quorum_verb_decide(struct context *x);

/* Reads the request of a PENDING_QUORUM. Returns false if the request does not concern a quorum
 * any more, because the configuration has changed. */
bool quorum_command_read(struct context *x, struct quorum_command *q);

#endif
