/* SPDX-License-Identifier: BSD-3-Clause
 *
 * effect: what a command does to a lock, and which of its replies say that it did nothing. For
 * commands that pass as they came; lock/rewrite/ has the others. Pure.
 */
#ifndef HASP_COMMANDS_EFFECT_H
#define HASP_COMMANDS_EFFECT_H

#include <stdbool.h>
#include <stdint.h>

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

/* Of INCR and INCRBY: is it by 1? INCRBY by 1 is how some client libraries send INCR. */
bool effect_counts_one(const struct resp_view *req);

/* Of a request of the command `c` that is whole. `at`: seconds since 1970, for expiries that
 * are dates. */
struct effect effect_of(const struct command *c, const struct resp_view *req, double at);

/* Does this reply, which is no error, say that something was done? */
bool effect_happened(const struct effect *m, const struct resp_reply *reply);

#endif
