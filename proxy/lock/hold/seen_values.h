/* SPDX-License-Identifier: BSD-3-Clause
 *
 * seen_values: the values of locks (under owner = value) that a connection has read last, by
 * key. So a connection of a pool may release a lock that another one has taken. Pure.
 *
 *   GET lock -> "a1b2" --seen_values_put()--> DEL lock: only while the lock is "a1b2"
 *
 * For other locks, it notes when a connection has read them last, for the log.
 */
#ifndef HASP_LOCK_HOLD_SEEN_VALUES_H
#define HASP_LOCK_HOLD_SEEN_VALUES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/slice.h"

/* How many values a connection remembers, and their bytes; it forgets the oldest first. */
#define SEEN_VALUES_MAX 1024
#define SEEN_VALUES_BYTES ((size_t)256 * 1024)
/* Longer values are not remembered. */
#define SEEN_VALUE_MAX ((size_t)4096)

struct seen_values; /* a connection's; NULL: it has read none */

enum seen_value {
	SEEN_NOTHING,
	SEEN_VALUE,
	SEEN_ANY, /* the connection has the lock, whatever its value: a count, or a long value
	           */
};

/* Notes the value that the connection has read, or (SEEN_ANY) taken, at `key` in database `db`.
 * SEEN_NOTHING: there was no value, or a longer one, or the known value counts no more. Makes
 * *all if needed. */
void seen_values_put(struct seen_values **all, int db, struct slice key, enum seen_value what,
                     struct slice value);
/* Returns the noted state. SEEN_VALUE: writes the value, valid until the next
 * seen_values_put().
 */
enum seen_value seen_values_find(const struct seen_values *all, int db, struct slice key,
                                 struct slice *value);
/* Calls `fn` with each noted state, the oldest first, as seen_values_put() takes it. */
typedef void seen_values_fn(void *arg, int db, struct slice key, enum seen_value what,
                            struct slice value);
void seen_values_each(const struct seen_values *all, seen_values_fn *fn, void *arg);
/* Notes that the connection has read the key at `at`: seconds, of one clock. Keeps the last few
 * reads, which costs a hash. */
void seen_values_note_read(struct seen_values **all, int db, struct slice key, double at);
/* Returns when the connection last read the key; negative: not known. */
double seen_values_read_at(const struct seen_values *all, int db, struct slice key);
size_t seen_values_nbytes(const struct seen_values *all); /* of memory; NULL is allowed */
void seen_values_free(struct seen_values *all); /* NULL is allowed */

/* A read of locks under owner = value, whose reply is due. */
struct value_read;
/* `each`: the reply is an array, of one value for each of the command's keys. */
struct value_read *value_read_new(bool each);
/* Adds `key` (copied), which is key number `i` of the command. */
void value_read_add(struct value_read *r, size_t i, struct slice key);
/* Notes the values of `frame`, the whole reply. Empty: the reply is not known. */
void value_read_complete(const struct value_read *r, struct seen_values **all, int db,
                         struct slice frame);
size_t value_read_nbytes(const struct value_read *r); /* of memory */
void value_read_free(struct value_read *r); /* NULL is allowed */

#endif
