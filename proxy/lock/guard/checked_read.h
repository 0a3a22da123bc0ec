/* SPDX-License-Identifier: BSD-3-Clause
 *
 * checked_read: a read of keys whose guards have strategy = check, until its reply ends. It
 * digests the values while the link forwards the reply, and then enters the digests into the
 * connection's read set. Pure.
 *
 *   GET page:7 -> "$5\r\nhello\r\n" --feed()--> SHA-1 --complete()--> read set: page:7 aaf4...
 *   SET page:7 --> check_write.lua: only while page:7 has that SHA-1
 *
 * A read that is freed before it was completed has failed: the application may not have seen
 * the value, so its next write is refused.
 */
#ifndef HASP_LOCK_GUARD_CHECKED_READ_H
#define HASP_LOCK_GUARD_CHECKED_READ_H

#include <stdbool.h>
#include <stddef.h>

#include "base/slice.h"
#include "lock/guard/read_set.h"
#include "resp/reply.h"

/* In bytes: a longer value gets no digest, so the next write of its key is refused. Must equal
 * the limit in check_write.lua. */
#define CHECKED_VALUE_MAX 16777216

struct checked_read;

/* Makes a checked read, which is sent in database `db`; `table` and `r` must outlive it.
 * `each`: the reply is an array with one value for each of the command's keys. */
struct checked_read *checked_read_new(struct read_sets *table, struct read_set *r, int db,
                                      bool each);
/* Makes the same for a write that a transaction queues: once Redis has run the write, earlier
 * reads of its keys end. */
struct checked_read *checked_read_new_write(struct read_sets *table, struct read_set *r);
/* Adds `key` (copied), number `i` of the command's keys. Each call needs a higher `i`. */
void checked_read_add(struct checked_read *c, size_t i, struct slice key,
                      struct section_stats *stats);
/* Digests the next bytes of the reply. */
void checked_read_feed(struct checked_read *c, struct slice bytes);
/* The reply ended, in database `db`. `frame`: the whole reply. It may be empty if all of it was
 * fed; if it is not, nothing counts twice. */
void checked_read_complete(struct checked_read *c, int db, const struct resp_reply *reply,
                           struct slice frame);
/* Call this before checked_read_free() if the client has not read the keys, and knows it. */
void checked_read_forget(struct checked_read *c);
size_t checked_read_nbytes(const struct checked_read *c); /* of memory */
void checked_read_free(struct checked_read *c);

#endif
