/* SPDX-License-Identifier: BSD-3-Clause
 *
 * checked_read: a read of keys whose guards have strategy = check, until its reply ends. hasp
 * digests the values while the link forwards the reply, and then stores the digests in the
 * connection's read set. Pure.
 *
 *   GET page:7 -> "$5\r\nhello\r\n" --feed()--> SHA-1 --complete()--> read set: page:7 aaf4...
 *   SET page:7 --> check_write.lua: only while page:7 has that SHA-1
 *
 * If the read is freed before its reply ended, the application may not have seen the value: the
 * next write of the key is then refused.
 */
#ifndef HASP_LOCK_GUARD_CHECKED_READ_H
#define HASP_LOCK_GUARD_CHECKED_READ_H

#include <stdbool.h>
#include <stddef.h>

#include "base/slice.h"
#include "lock/guard/read_set.h"
#include "resp/reply.h"

/* A value of more bytes gets no digest, so the next write of its key is refused. Must equal the
 * limit in check_write.lua. */
#define CHECKED_VALUE_MAX 16777216

struct checked_read;

/* `db`: the database in which the read is sent. `table` and `r` must outlive the read. `each`:
 * the reply is an array with one value for each of the command's keys. `writes`: the command is
 * a write that a transaction queues: when Redis has run it, earlier reads of its keys end. */
struct checked_read *checked_read_new(struct read_sets *table, struct read_set *r, int db,
                                      bool each, bool writes);
/* Adds `key` (copied), which has index `i` among the command's keys. Each call needs a greater
 * `i`. */
void checked_read_add(struct checked_read *c, size_t i, struct slice key,
                      struct section_stats *stats);
/* Digests the next bytes of the reply. */
void checked_read_feed(struct checked_read *c, struct slice bytes);
/* The reply has ended, in database `db`. `frame`: the whole reply, or empty if all of the reply
 * was fed. */
void checked_read_complete(struct checked_read *c, int db, const struct resp_reply *reply,
                           struct slice frame);
/* Makes checked_read_free() change nothing: the client knows that it has not read the keys. */
void checked_read_forget(struct checked_read *c);
size_t checked_read_nbytes(const struct checked_read *c); /* returns its memory in bytes */
void checked_read_free(struct checked_read *c);

#endif
