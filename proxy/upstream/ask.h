/* SPDX-License-Identifier: BSD-3-Clause
 *
 * ask: what a Redis' COMMAND says, for who has no loop to wait on: before hasp serves, and
 * when it is only to check its file.
 */
#ifndef HASP_UPSTREAM_ASK_H
#define HASP_UPSTREAM_ASK_H

#include <hiredis/hiredis.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "net/address.h"

struct ask {
	struct address address;
	const char *user, *password; /* NULL: none */
	int64_t timeout_ms; /* for all of it; > 0 */
	/* COMMAND's answer, which may be an error. Returns how many commands it tells of. */
	size_t (*on_commands)(void *arg, const redisReply *reply);
	void *arg;
};

/* Connects, logs in, asks, and hangs up; blocks meanwhile. Returns 0 when the answer told of
 * commands; -1 when it did not, with the reason in words appended to `why`. From any thread. */
int ask_commands(const struct ask *how, struct buf *why) __attribute__((warn_unused_result));

#endif
