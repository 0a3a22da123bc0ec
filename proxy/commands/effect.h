/* SPDX-License-Identifier: BSD-3-Clause
 *
 * effect: the effect of a command on a lock, and which replies show that the command did
 * nothing. Only for commands that hasp sends unchanged; lock/rewrite/ handles the others. Pure.
 */
#ifndef HASP_COMMANDS_EFFECT_H
#define HASP_COMMANDS_EFFECT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"
#include "commands/args.h"
#include "commands/command.h"
#include "resp/reply.h"
#include "resp/request.h"

struct effect {
	enum effect_act act;
	int64_t lease_ms; /* ACQUIRE, SET, EXPIRE: the lease; 0 or less: no lease. But -1 of a
	                   * SET keeps the old lease */
	bool zero_is_nothing; /* the reply `:0` means that the command did nothing */
	bool nil_is_done; /* the command may have changed something even if the reply is nil */
	bool nil_only; /* only the reply nil means that the command changed something */
};

/* Returns the effect of a whole request of the command `c`. `at`: seconds since 1970, for
 * expiries that are dates. */
struct effect effect_of(const struct command *c, const struct resp_view *req, double at);

/* True if `reply`, which is no error, shows that the command changed something. */
bool effect_happened(const struct effect *m, const struct resp_reply *reply);

/* The options of SET, as Redis 7.0 reads them. Pure.
 * Source: parseExtendedStringArgumentsOrReply() of Redis; https://redis.io/commands/set */

struct set_options {
	bool nx, xx, get, keepttl;
	bool timed; /* the command has one of EX, PX, EXAT, PXAT */
	bool seconds, absolute; /* seconds: `time` is in seconds, not ms; absolute: `time` is a
	                         * date */
	struct slice time; /* argument of the expiry option; need not be a number */
};

/* Reads the options from argv[first] on; those of `SET key value [option ...]` begin at
 * SET_OPTIONS. After PARSED_UNKNOWN, *o has the options that hasp knows; after PARSED_REFUSED,
 * *o has no meaning. */
#define SET_OPTIONS 3
enum parsed set_options_parse(const struct resp_view *req, size_t first, struct set_options *o)
	__attribute__((warn_unused_result));

#endif
