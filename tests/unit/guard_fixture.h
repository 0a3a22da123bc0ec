/* SPDX-License-Identifier: BSD-3-Clause
 *
 * guard_fixture: a connection's read set, and operations on guarded keys. Jobs are fake_jobs.
 */
#ifndef HASP_TESTS_UNIT_GUARD_FIXTURE_H
#define HASP_TESTS_UNIT_GUARD_FIXTURE_H

#include "lock/guard/guard_op.h"

/* The time of all events. */
#define GUARD_NOW 100.0
#define GUARD_LEASE_MS 5000
#define GUARD_WAIT_MS 3000
#define GUARD_TICKET "worker-1"

/* The names of a key's guard, and of its queue. */
#define GUARD_OF(key) "hasp:guard:{" key "}"
#define QUEUE_OF(key) "hasp:queue:hasp:guard:{" key "}:"
/* The KEYS that a script has for a key. */
#define GUARD_KEYS(key) GUARD_OF(key) " " QUEUE_OF(key) " " key

struct guard_fixture {
	struct read_sets *table;
	struct read_set set;
	struct freelist freelist;
};

/* *state is a guard_fixture. */
int guard_set_up(void **state);
int guard_tear_down(void **state);

/* A key of a command by the owner "token". */
struct guarded_key guarded(const char *key);
/* Begins the operation of a command on `keys`, in this order, in database 2. */
struct guard_op *guard_fixture_op(struct guard_fixture *f, enum guard_op_kind kind,
                                  const struct guarded_key *keys, size_t n);
/* Begins an operation on one key. */
struct guard_op *guard_fixture_single(struct guard_fixture *f, enum guard_op_kind kind,
                                      struct guarded_key key);

/* Records that the connection has read `key` as the owner in `key`. */
struct read_set_entry *guard_fixture_read(struct guard_fixture *f, struct guarded_key key);
/* Returns the key's entry in the read set; NULL: there is none. */
struct read_set_entry *guard_fixture_entry(struct guard_fixture *f, const char *key);

struct resp_reply reply_of_type(char type);
struct resp_reply reply_integer(long long n);

#endif
