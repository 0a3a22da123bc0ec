/* SPDX-License-Identifier: BSD-3-Clause
 *
 * sync_query: asks a Redis server and waits for the answers, for callers without an event loop:
 * when hasp starts, and for `hasp -t`.
 */
#ifndef HASP_UPSTREAM_SYNC_QUERY_H
#define HASP_UPSTREAM_SYNC_QUERY_H

#include <hiredis/hiredis.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"
#include "net/address.h"
#include "net/dial.h"

struct ask {
	struct address address;
	const char *user, *password; /* login; NULL: none */
	struct dial_tls tls;
	int64_t timeout_ms; /* limit for the whole query; > 0 */
	const struct slice *requests; /* encoded requests, in the order of sending */
	size_t nrequests; /* number of `requests`; at least one */
	/* Gets the reply to request `i`, which may be an error. */
	void (*on_reply)(void *arg, size_t i, const redisReply *reply);
	void *arg;
	struct buf *refusal; /* gets Redis' error if it refuses the login; may be NULL */
};

/* Connects, logs in, sends the requests, and blocks until all replies have come. Returns 0; -1
 * on failure, with the reason appended to `why`. From any thread. */
int sync_query(const struct ask *opts, struct buf *why) __attribute__((warn_unused_result));

/* Gets COMMAND's reply, or an error. Returns how many commands it describes. */
typedef size_t ask_commands_fn(void *arg, const redisReply *reply);

/* Sends COMMAND; ignores the fields of `where` from `requests` on. Returns 0 if the reply
 * describes commands; -1 otherwise, with the reason appended to `why`. From any thread. */
int ask_commands(const struct ask *where, ask_commands_fn *fn, void *arg, struct buf *why)
	__attribute__((warn_unused_result));

#endif
