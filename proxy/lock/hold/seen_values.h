/* SPDX-License-Identifier: BSD-3-Clause
 *
 * seen_values: the values of locks (under owner = value) that a connection has read last, by
 * key. By such a value, a connection of a pool can release a lock that another connection has
 * taken. Pure.
 *
 *   GET lock -> "a1b2" --seen_values_put()--> DEL lock: only while the lock is "a1b2"
 *
 * For other locks, hasp keeps only the times of the last reads, for the log.
 */
#ifndef HASP_LOCK_HOLD_SEEN_VALUES_H
#define HASP_LOCK_HOLD_SEEN_VALUES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/slice.h"

/* How many values hasp remembers for a connection, and how many bytes; it forgets the oldest
 * first. */
#define SEEN_VALUES_MAX 1024
#define SEEN_VALUES_BYTES ((size_t)256 * 1024)
/* hasp remembers no value that is longer than this, in bytes. */
#define SEEN_VALUE_MAX ((size_t)4096)

struct seen_values; /* the values of one connection; NULL: it has read none */

enum seen_value {
	SEEN_NOTHING,
	SEEN_VALUE,
	/* the connection owns the lock whatever its value: a count, or too long a value */
	SEEN_ANY,
};

/* Notes that the connection has read `value` at `key` in database `db`, or, if SEEN_ANY, taken
 * the lock. SEEN_NOTHING: forgets what it has noted of the key. Makes *all if needed. */
void seen_values_put(struct seen_values **all, int db, struct slice key, enum seen_value what,
                     struct slice value);
/* Returns what is noted of the key. SEEN_VALUE: writes the value, valid until the next
 * seen_values_put(). */
enum seen_value seen_values_find(const struct seen_values *all, int db, struct slice key,
                                 struct slice *value);
/* Calls `fn` for each noted key, the oldest first, with the arguments of seen_values_put(). */
typedef void seen_values_fn(void *arg, int db, struct slice key, enum seen_value what,
                            struct slice value);
void seen_values_each(const struct seen_values *all, seen_values_fn *fn, void *arg);
/* Notes that the connection has read the key at the time `at`, in seconds of any one clock.
 * Keeps the last few reads only. */
void seen_values_note_read(struct seen_values **all, int db, struct slice key, double at);
/* Returns when the connection last read the key; negative: not known. */
double seen_values_read_at(const struct seen_values *all, int db, struct slice key);
/* Returns the memory in bytes. NULL is allowed. */
size_t seen_values_nbytes(const struct seen_values *all);
void seen_values_free(struct seen_values *all); /* NULL is allowed */

/* A read of locks under owner = value, whose reply is due. */
struct value_read;
/* `each`: the reply is an array, of one value for each of the command's keys. */
struct value_read *value_read_new(bool each);
/* Adds `key` (copied), which is key number `i` of the command. */
void value_read_add(struct value_read *r, size_t i, struct slice key);
/* Notes the values in `frame`, the whole reply; empty: the reply is not known. */
void value_read_complete(const struct value_read *r, struct seen_values **all, int db,
                         struct slice frame);
size_t value_read_nbytes(const struct value_read *r); /* returns the memory in bytes */
void value_read_free(struct value_read *r); /* NULL is allowed */

#endif
