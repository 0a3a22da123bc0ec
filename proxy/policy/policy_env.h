/* SPDX-License-Identifier: BSD-3-Clause
 *
 * policy_env: what the commands of all clients of a worker are decided by.
 */
#ifndef HASP_POLICY_POLICY_ENV_H
#define HASP_POLICY_POLICY_ENV_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/freelist.h"
#include "base/slice.h"

struct classifier;
struct commands;
struct config;
struct holds;
struct matcher;
struct observed_rules;
struct read_sets;
struct section_stats;
struct shared_tracker;
struct stats;
struct unknown_commands;
struct waiters;

/* A command whose connection has the lock by more tokens than this does not wait for it. */
#define OWN_TOKENS_MAX 64

/* The facts by which policy decides about the commands of a worker's clients; the worker owns
 * it. */
struct policy_env {
	struct config *config; /* in force */
	struct matcher *matcher; /* of `config` */
	struct commands *commands; /* what COMMAND says */
	struct unknown_commands *unknown_commands; /* names that are not among them */
	struct classifier *classifier;
	struct holds *holds;
	struct read_sets *read_sets;
	struct waiters *waiters;
	struct shared_tracker *tracker; /* all workers'; watch/shared_tracker.h */
	struct observed_rules *observed; /* those of `config` */
	struct stats *stats; /* all workers'; lock/events/stats.h */
	size_t worker; /* its number there */
	/* By the place in `config`; NULL: it is not enforced. */
	struct section_stats **rule_stats, **guard_stats;
	struct section_stats *verb_stats; /* NULL: there are no verbs */
	bool rules_wait; /* a rule of `config` has `wait` */
	bool values_matter; /* one in mode enforce has owner = value and foreign_del = refuse */
	bool reads_matter; /* an enforced rule notes the connections that read its locks */
	bool rules_enforce, guards_enforce; /* one of `config` has mode = enforce */
	bool quorum_is_there; /* the worker has connections to its servers */
	bool verbs_quorum; /* the verbs' locks are those of a quorum, */
	bool rules_quorum; /* as are those of a rule of `config` that is enforced */
	bool reserved_keys_protected; /* clients may not write hasp:* */
	uint64_t generation; /* changes with `config`, and with what COMMAND says */
	double now; /* clock_now(), and */
	double date; /* seconds since 1970, when this turn of the loop began */
	struct buf rewritten; /* a rewritten request is built in it */
	struct buf token; /* as is an owner's token */
	/* The tokens by which the client of the current call has locks itself. */
	struct slice own_tokens[OWN_TOKENS_MAX];
	struct freelist pending; /* of PENDING_SIZE */
	struct freelist guard_ops; /* of GUARD_OP_SINGLE_SIZE */
};

#endif
