/* SPDX-License-Identifier: BSD-3-Clause
 *
 * command_info: the facts that follow from a command's name alone, before its arguments are
 * read.
 */
#ifndef HASP_POLICY_COMMAND_INFO_H
#define HASP_POLICY_COMMAND_INFO_H

#include <stdbool.h>

#include "commands/command.h"
#include "lock/rewrite/rewrite.h"

/* The facts that hasp derives from a command's name. */
struct command_info {
	enum command_session session; /* SESSION_SELECT and above: policy/session_commands.c */
	const struct command *command; /* NULL: hasp does not know it */
	enum verb verb;
	bool is_verb;
	/* Nothing needs a decision, unless a rule concerns it or it could release a lock. */
	bool is_plain;
	bool is_unknown; /* the server may know the command now: ask it */
	bool may_be_slow; /* Redis may take long to answer it; then it is not plain */
	bool blocks; /* it may wait for data */
	bool is_stateless; /* it may be sent on a shared link */
	bool is_write; /* a rule could concern it; if plain, by its first argument */
	bool is_guarded; /* a guard could concern it; false: certainly not */
	bool acquires; /* the command takes a guard */
	bool may_be_quorums; /* a rule with a quorum could concern it; false: certainly not */
	bool is_observed; /* an observed rule or guard could; false: certainly not */
	bool is_discovered; /* discovery observes it; then it is plain only if */
	bool is_sampled; /* a sample of it is enough: policy/watched.h */
	bool is_matched; /* true if one of these four may be: the key decides which */
	bool reads_value; /* it may read a lock with owner = value; false: certainly not */
	bool may_release; /* it could end a lock that a client waits for */
	bool never_inspect; /* plain, and none of the three above for any arguments */
};

/* True if the command changes the session of the connection. */
static inline bool command_info_is_session(const struct command_info *what)
{
	return what->session >= SESSION_SELECT;
}

#endif
