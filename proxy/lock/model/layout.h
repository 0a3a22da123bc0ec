/* SPDX-License-Identifier: BSD-3-Clause
 *
 * layout: how Redis stores the locks of each kind, and what follows from it. Code asks the
 * table about a property instead of comparing kinds, so that a new kind is a new row.
 */
#ifndef HASP_LOCK_MODEL_LAYOUT_H
#define HASP_LOCK_MODEL_LAYOUT_H

#include <stdbool.h>

/* How Redis stores a lock; see scripts/includes/hand_off.lua. */
enum lock_kind {
	LOCK_KIND_COUNT = 'h', /* verbs: a hash {token: holds} */
	LOCK_KIND_TOKEN = 's', /* verbs: a string holding the token */
	LOCK_KIND_LIMIT = 'l', /* verbs: a semaphore, the owners that have a place */
	LOCK_KIND_SHARED = 'm', /* verbs: the read side of a read-write lock */
	LOCK_KIND_EXCLUSIVE = 'x', /* verbs: its write side */
	LOCK_KIND_RULE = 'r', /* the application's value, with a sidecar */
	LOCK_KIND_VALUE = 'v', /* the application's value, which is the token */
	LOCK_KIND_QUORUM = 'q', /* the servers of a quorum have it: quorum/quorum_values.h */
	LOCK_KIND_GUARD = 'g', /* see guarded_key() in scripts/includes/guard.lua */
};

/* Where Redis shows that an owner has the lock, and by which try. */
enum lock_evidence {
	EVIDENCE_RECORD, /* the record names the try */
	EVIDENCE_RECORD_FIELD, /* the owner's field of the record names the try */
	EVIDENCE_FIELD, /* the owner's field of the lock */
	EVIDENCE_WRITER, /* the writer's field of the lock */
	EVIDENCE_GUARD, /* the guard names the owner */
};

/* How hasp gives a lock back when the connection of its owner ends. */
enum lock_release {
	RELEASE_NOT, /* a guard: lock/guard releases it */
	RELEASE_EACH_TRY, /* dequeue.lua undoes each try that took it */
	RELEASE_LAST_TRY, /* unlock.lua, if the record has the ticket of the last try */
	RELEASE_VALUE, /* release.lua does the same for the lock of a rule */
};

struct lock_layout {
	enum lock_evidence evidence;
	enum lock_release release;
	bool by_verb; /* LOCK or MLOCK takes it, and it has a fencing token; else a rule or
	                 guard */
	bool voted; /* the servers of a quorum have it */
	bool by_value; /* the application's value names the owner */
	bool side; /* a side of a read-write lock: an owner may have both */
	bool has_owners; /* it may have several owners at once */
	bool counts; /* an owner releases it as often as it took it */
	bool expiry_shows; /* it stays taken until its key expires, or a command releases it */
	enum lock_kind ask_as; /* LOCK.INFO of this kind names its only owner; 0: it may have
	                          several */
	const char
		*channel; /* where Redisson publishes its release, before the key; NULL: nowhere
	                   */
};

#define REDISSON_PREFIX "redisson_lock__channel:"
#define REDISSON_RW_PREFIX "redisson_rwlock:"

/* The rows, by the letter of the kind; 0 and other letters have an empty row. */
#define LOCK_LAYOUTS (LOCK_KIND_EXCLUSIVE + 1)
extern const struct lock_layout lock_layouts[LOCK_LAYOUTS];

static inline const struct lock_layout *layout_of(enum lock_kind kind)
{
	return &lock_layouts[kind];
}

#endif
