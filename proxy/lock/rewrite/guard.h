/* SPDX-License-Identifier: BSD-3-Clause
 *
 * guard: turns a command on guarded keys into a call of the script that acquires their guards
 * and reads, or checks them and writes. Pure: no I/O, no clock.
 *
 *   GET stock:7   --> guard_read: take hasp:guard:{stock:7}, or wait for it; GET
 *   SET stock:7 v --> guard_finish: does the owner still have the guard? SET; hand it off
 *   any other write -> guard_write: does the owner have all guards, or are they free? ...
 *   (strategy = check) check_write: does the key still have the value that was read? SET
 *
 * A script's reply is the command's own, byte for byte. If Lua cannot represent a command's
 * reply, rewrite_guard_fits() returns false.
 */
#ifndef HASP_LOCK_REWRITE_GUARD_H
#define HASP_LOCK_REWRITE_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"
#include "commands/command.h"
#include "config/types.h"
#include "lock/rewrite/rewrite.h"

struct read_set_entry;
struct section_stats;

/* A guarded key of a command. A key that the command names twice is here once. */
struct guarded_key {
	struct slice key;
	struct slice token; /* the token of the client */
	struct section_stats *stats; /* counts the outcome; NULL: none */
	struct read_set_entry *entry; /* lock/guard sets this; like the last two fields, it is
	                               * not for the call */
	int64_t lease_ms;
	bool release; /* hasp releases the guard when the connection ends */
	bool held; /* the connection has read the key under the guard, and not yet written it */
	bool lost; /* another owner has had the guard since the read, so a write is refused */
	bool writes; /* the command may change the key */
	bool acquires; /* the last access to the key is a read, which acquires the guard */
	bool releases; /* the command releases the guard of the read */
	bool checked; /* strategy = check: the token is the digest of the value that this
	               * connection has read, as check_write.lua expects it */
	bool must_own; /* `held` at the decision: the owner must have the guard from then on */
	bool told; /* the client got -LOCKLOST for a write: earlier reads have ended */
};

/* A command on guarded keys. Either all of them are `checked`, or none is. */
struct guarded_command {
	const struct resp_view *req; /* NULL: there is no command, only its guards */
	bool apart; /* the script does not run the command; set if `req` is NULL */
	const struct guarded_key *keys; /* sorted by rewrite_guard_sort() */
	size_t n; /* at least one */
	struct command_keys all; /* the command's keys, guarded or not */
	int64_t wait_ms; /* how long the command may wait for its guards; 0: not at all */
	int64_t replicas, replicas_timeout_ms; /* replicas that must have the guards; 0: none */
};

/* Sorts the keys, and merges duplicates: the command `writes` or `releases` the merged key if
 * it does so with one of them. Returns how many keys remain. */
size_t rewrite_guard_sort(struct guarded_key *keys, size_t n);

/* True if the script can run the request of the command `c` with the same reply as outside of
 * scripts, in the client's version of RESP. `writes`: the request may write a guarded key. */
bool rewrite_guard_fits(const struct command *c, const struct resp_view *req, bool writes,
                        bool resp3);

/* Appends the call. Redis answers as the command does, or:
 *
 *   +QUEUED place now held i    the client is in the queue for key i, counted from 1
 *   -LOCKED ...                 another owner has a guard, and the client may not wait
 *   -LOCKLOST ...               the guard of a key to write was lost, or the key has changed:
 *                               see rewrite_guard_is_lost()
 *   +GRANTED                    (`apart`) the owner has the guards: send the command
 *   +GRANTED anew               as +GRANTED, but the owner has not read under all guards yet
 */
void rewrite_guard_read(struct buf *out, const struct guarded_command *g,
                        const struct rewrite_opts *opts);
/* A value of opts->place for a client that cannot wait: the script runs the command in RESP3.
 * Every real place in a queue is higher. (Lua keeps the types of RESP3, but not the order of a
 * map or a set.) */
#define GUARD_READ_IN_RESP3 3
void rewrite_guard_write(struct buf *out, const struct guarded_command *g,
                         const struct rewrite_opts *opts);
/* Writes three commands, which cost Redis less than a script, for a read of one guarded key
 * that the client has not read yet. If they acquire the guard, the replies are
 *
 *   :0               the queue is empty
 *   +OK              the guard was free
 *   the reply        of the command
 *
 * If one of the first two replies differs, hasp must discard the third. (A client that enters
 * the queue between the two commands came later than this client.) */
#define OPTIMISTIC_PREFIX 2
void rewrite_guard_optimistic(struct buf *out, const struct resp_view *req, struct slice key,
                              struct slice token, int64_t lease_ms, enum key_naming naming);

/* Appends hasp's own release of a guard. Returns the script. */
enum script_id rewrite_guard_release(struct buf *out, struct slice key, struct slice token,
                                     const struct rewrite_opts *opts);

/* Appends the whole error line for a key whose guard another owner has. */
void rewrite_guard_locked_error(struct buf *out, struct slice key);
/* True if the reply `line` is the error LOCKLOST for `key`. (Also true for another key that
 * errors show in the same way.) */
bool rewrite_guard_is_lost(struct slice line, struct slice key);

#endif
