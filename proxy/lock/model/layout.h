/* SPDX-License-Identifier: BSD-3-Clause
 *
 * layout: a table of the kinds of locks: how Redis stores a lock of each kind, and its other
 * properties. Code reads a property here instead of comparing kinds.
 */
#ifndef HASP_LOCK_MODEL_LAYOUT_H
#define HASP_LOCK_MODEL_LAYOUT_H

#include <stdbool.h>

#include "base/slice.h"

/* How Redis stores a lock; see scripts/includes/hand_off.lua. */
enum lock_kind {
	LOCK_KIND_COUNT = 'h', /* verbs: a hash {token: holds} */
	LOCK_KIND_TOKEN = 's', /* verbs: a string holding the token */
	LOCK_KIND_LIMIT = 'l', /* verbs: a semaphore, as a sorted set of owners */
	LOCK_KIND_SHARED = 'm', /* verbs: the read side of a read-write lock */
	LOCK_KIND_EXCLUSIVE = 'x', /* verbs: the write side of a read-write lock */
	LOCK_KIND_RULE = 'r', /* rules: the application's value, with a sidecar */
	LOCK_KIND_VALUE = 'v', /* rules: the application's value, which is the token */
	LOCK_KIND_QUORUM = 'q', /* a quorum's lock at its servers: quorum/quorum_values.h */
	LOCK_KIND_GUARD = 'g', /* a guard: guarded_key() in scripts/includes/guard.lua */
};

/* Where Redis shows that an owner has the lock, and by which try. */
enum lock_evidence {
	EVIDENCE_RECORD, /* the record names the try */
	EVIDENCE_RECORD_FIELD, /* the owner's field of the record names the try */
	EVIDENCE_FIELD, /* the lock has a field of the owner */
	EVIDENCE_WRITER, /* the lock has a field of the writer */
	EVIDENCE_GUARD, /* the guard names the owner */
};

/* How hasp gives a lock back when the connection of its owner ends. */
enum lock_release {
	RELEASE_NOT, /* lock/hold does not release it: lock/guard releases guards */
	RELEASE_EACH_TRY, /* dequeue.lua undoes each try that took the lock */
	RELEASE_LAST_TRY, /* unlock.lua, if the record has the ticket of the last try */
	RELEASE_VALUE, /* release.lua, for a lock that holds the application's value */
};

struct lock_layout {
	enum lock_evidence evidence;
	enum lock_release release;
	bool by_verb; /* LOCK or MLOCK takes the lock, which has a fencing token */
	struct slice type; /* by_verb: the lock's type in Redis, for the scripts; for a
	                    * read-write lock, the side */
	bool voted; /* the servers of a quorum have the lock */
	bool by_value; /* the application's value names the owner */
	bool side; /* a side of a read-write lock: an owner may have both sides */
	bool has_owners; /* the lock may have several owners at once */
	bool counts; /* an owner must release the lock as often as it has taken it */
	bool expiry_shows; /* the key's expiry shows when the lock becomes free */
	enum lock_kind ask_as; /* the kind by which info.lua names the lock's owner; 0: it does
	                        * not name all owners */
	/* Redisson publishes releases on a channel whose name is this prefix and the key; NULL:
	 * there is no such channel. */
	const char *channel;
};

#define REDISSON_PREFIX "redisson_lock__channel:"
#define REDISSON_RW_PREFIX "redisson_rwlock:"

/* Size of the table of layouts, which is indexed by the letter of the kind. Rows of other
 * letters, and of 0, are empty. */
#define LOCK_LAYOUTS (LOCK_KIND_EXCLUSIVE + 1)
extern const struct lock_layout lock_layouts[LOCK_LAYOUTS];

/* If more than this share of a lock's lease is over when hasp could report the lock, hasp first
 * asks Redis whether the owner still has the lock, and begins the lease again. */
#define LEASE_STALE_SHARE 0.1
/* hasp reports a lock whose lease it has begun again only if no more than this share of the
 * lease has passed. */
#define LEASE_CONFIRMED_SHARE 0.5
/* How often hasp may begin a lease again without reporting the lock, once the client has no
 * time left to wait. (If the way to Redis takes longer than the lease, every reply is too
 * late.) */
#define LEASE_LATE_MAX 3

static inline const struct lock_layout *layout_of(enum lock_kind kind)
{
	return &lock_layouts[kind];
}

#endif
