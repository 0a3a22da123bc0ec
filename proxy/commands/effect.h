/* SPDX-License-Identifier: BSD-3-Clause
 *
 * effect: what a command does to a lock, and which of its replies say that it did nothing. For
 * commands that pass as they came; lock/rewrite/ has the others. Pure.
 */
#ifndef HASP_COMMANDS_EFFECT_H
#define HASP_COMMANDS_EFFECT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"
#include "commands/args.h"
#include "commands/command.h"
#include "resp/reply.h"
#include "resp/view.h"

struct effect {
	enum effect_act act;
	int64_t lease_ms; /* ACQUIRE, SET, EXPIRE: 0 or less is none; -1: (SET) as before */
	bool zero_is_nothing; /* the reply `:0` says that nothing was done */
	bool nil_is_done; /* nil does not say so */
	bool nil_only; /* every reply but nil does */
};

/* How a request of the command `c` on a lock is carried out: as the command is, but for INCRBY,
 * which is RULE_INCR by 1 only (so some client libraries send INCR), else RULE_CHECK. */
enum command_rule effect_rule(const struct command *c, const struct resp_view *req);

/* Returns the effect of a whole request of the command `c`. `at`: seconds since 1970, for
 * expiries that are dates. */
struct effect effect_of(const struct command *c, const struct resp_view *req, double at);

/* True if this reply, which is no error, shows that the command changed something. */
bool effect_happened(const struct effect *m, const struct resp_reply *reply);

/* The options of SET, as Redis 7.0 reads them. Pure.
 * Source: parseExtendedStringArgumentsOrReply() of Redis; https://redis.io/commands/set */

struct set_options {
	bool nx, xx, get, keepttl;
	bool timed; /* one of EX, PX, EXAT, PXAT */
	bool seconds, absolute; /* which of EX, PX, EXAT and PXAT */
	struct slice time; /* argument of the expiry option; may not be a number */
};

/* Reads the options of `SET key value [option ...]`. PARSED_UNKNOWN: those that are known have
 * been read; of PARSED_REFUSED nothing counts. */
enum parsed set_options_parse(const struct resp_view *req, struct set_options *o)
	__attribute__((warn_unused_result));
/* Like set_options_parse(), for another command whose options begin at argv[first]. */
enum parsed set_options_parse_from(const struct resp_view *req, size_t first,
                                   struct set_options *o) __attribute__((warn_unused_result));

#endif
