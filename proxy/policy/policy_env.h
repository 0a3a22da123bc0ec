/* SPDX-License-Identifier: BSD-3-Clause
 *
 * policy_env: the facts by which hasp decides about the commands of a worker's clients.
 */
#ifndef HASP_POLICY_POLICY_ENV_H
#define HASP_POLICY_POLICY_ENV_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/freelist.h"
#include "base/slice.h"
#include "lock/rewrite/rewrite.h"

struct classifier;
struct commands;
struct config;
struct holds;
struct key_group;
struct matcher;
struct read_sets;
struct section_stats;
struct shared_tracker;
struct stats;
struct unknown_commands;
struct waiters;

/* If a connection holds a lock under more tokens than this, its commands do not wait for the
 * lock. */
#define OWN_TOKENS_MAX 64

/* The state that a worker's decisions depend on. The worker owns the struct. */
struct policy_env {
	struct config *config; /* the configuration in force */
	struct matcher *matcher; /* the patterns of `config` */
	struct commands *commands; /* the commands that COMMAND described */
	struct unknown_commands *unknown_commands; /* names that COMMAND did not describe */
	struct classifier *classifier;
	struct script_jobs *script_jobs;
	struct holds *holds;
	struct read_sets *read_sets;
	struct waiters *waiters;
	struct shared_tracker *tracker; /* the tracker, which all workers share */
	struct stats *stats; /* the sections' statistics, which all workers share */
	size_t worker; /* this worker's number in `stats` */
	/* Indexed by the section's index in `config`; NULL: the section is not enforced. */
	struct section_stats **rule_stats, **guard_stats;
	/* The tracker's groups, indexed in the same way; NULL: the section is enforced. */
	struct key_group **observed_rules, **observed_guards;
	struct section_stats *verb_stats; /* NULL: there are no verbs */
	bool rules_wait; /* a rule of `config` has `wait` */
	bool values_matter; /* an enforced rule has owner = value and foreign_del = refuse */
	bool reads_matter; /* hasp notes which connections read an enforced rule's locks */
	bool rules_enforce, guards_enforce; /* a rule, or a guard, is in mode ENFORCE */
	bool observes; /* a rule or a guard is in mode OBSERVE */
	bool quorum_is_there; /* the worker has connections to the quorum's servers */
	bool verbs_quorum; /* a quorum stores the locks of the verbs */
	bool rules_quorum; /* a quorum stores the locks of an enforced rule of `config` */
	bool reserved_keys_protected; /* clients may not write hasp:* */
	uint32_t generation; /* changes with `config`, and with COMMAND's reply */
	double now; /* clock_now() at the beginning of the loop's turn */
	double date; /* the date at the beginning of the loop's turn, in seconds since 1970 */
	struct buf rewritten; /* for building a rewritten request */
	struct buf tokens[OWNER_VALUE]; /* context_token(): tokens, by kind of owner */
	struct buf keys; /* the array of context.keys */
	struct buf section_keys; /* for an array of the same keys with their rules or guards */
	/* The tokens under which the present client already holds the locks that its call
	 * acquires. */
	struct slice own_tokens[OWN_TOKENS_MAX];
	struct buf scratch; /* for building the name of a guard, rewrite_opts.given_back, or a
	                     * list of locks */
	struct freelist pending; /* free blocks of PENDING_SIZE bytes */
	struct freelist guard_ops; /* free blocks of GUARD_OP_SINGLE_SIZE bytes */
};

/* Frees the memory that one long command took. */
static inline void policy_env_trim(struct policy_env *env)
{
	buf_trim(&env->rewritten);
	buf_trim(&env->keys);
	buf_trim(&env->section_keys);
	buf_trim(&env->scratch);
}

/* --- policy.c --- */

/* Initializes the fields that belong to policy; the worker sets the rest. */
void policy_init(struct policy_env *env);
/* Frees the fields that belong to policy, not `config`. All clients must be gone. */
void policy_fini(struct policy_env *env);

/* Call this after hold_apply(): begins to note the reads of locks if a section now needs that.
 */
void policy_note_reads(struct policy_env *env);

/* Puts `config` in force. The worker owns `config`. */
void policy_use_config(struct policy_env *env, struct config *config);

/* Puts in force what env->commands has learned from the server. */
void policy_use_commands(struct policy_env *env);

#endif
