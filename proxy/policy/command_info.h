/* SPDX-License-Identifier: BSD-3-Clause
 *
 * command_info: what a command's name alone says of it, its arguments not yet read.
 */
#ifndef HASP_POLICY_COMMAND_INFO_H
#define HASP_POLICY_COMMAND_INFO_H

#include <stdbool.h>

#include "commands/command.h"
#include "lock/rewrite/rewrite.h"

/* The facts that follow from a command's name. */
struct command_info {
	enum command_session session; /* SESSION_SELECT and above: policy/session_commands.c */
	const struct command *command; /* NULL: not known */
	enum verb verb;
	bool is_verb;
	/* There is nothing to decide, unless a rule concerns it or it could release a lock. */
	bool is_plain;
	bool is_unknown; /* the server may have it by now: it is to be asked */
	bool may_be_slow; /* Redis may be long in answering it; it is not plain */
	bool blocks; /* it may wait for data */
	bool is_stateless; /* may be sent on a shared link */
	bool is_write; /* a rule could concern it; if it is plain, by its first argument */
	bool is_guarded; /* a guard could; false: certainly not */
	bool acquires; /* the command takes a guard */
	bool may_be_quorums; /* a rule with a quorum could; false: certainly not */
	bool is_observed; /* a rule or guard in mode OBSERVE could; false: certainly not */
	bool is_discovered; /* its effect on its keys is observed; it is plain only if */
	bool is_sampled; /* a sample of it is enough: policy/watched.h */
	bool is_matched; /* any of these four: the key tells by what */
	bool reads_value; /* maybe of a lock whose value is its owner; false: certainly not */
	bool may_release; /* it could end a lock that a client waits for */
	bool never_inspect; /* plain, and none of the three above: whatever its arguments */
};

/* Does it change what the connection is? */
static inline bool command_info_is_session(const struct command_info *what)
{
	return what->session >= SESSION_SELECT;
}

#endif
