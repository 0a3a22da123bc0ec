/* SPDX-License-Identifier: BSD-3-Clause
 *
 * ask: asks a Redis for COMMAND and waits for the reply, for callers without a loop: before
 * hasp serves, and for `hasp -t`.
 */
#ifndef HASP_UPSTREAM_ASK_H
#define HASP_UPSTREAM_ASK_H

#include <hiredis/hiredis.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"
#include "net/address.h"

struct ask {
	struct address address;
	const char *user, *password; /* NULL: none */
	int64_t timeout_ms; /* for all of it together; > 0 */
	struct slice request; /* as it is sent; empty: COMMAND */
	/* The reply to it, which may be an error. Returns how many commands it tells of.
	 */
	size_t (*on_commands)(void *arg, const redisReply *reply);
	void *arg;
};

/* Connects, logs in, asks, and closes the connection; blocks meanwhile. Returns 0 when the
 * reply told of commands; -1 when it did not, with the reason in words appended to `why`. From
 * any thread. */
int ask_commands(const struct ask *how, struct buf *why) __attribute__((warn_unused_result));

#endif
