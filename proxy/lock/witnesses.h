/* SPDX-License-Identifier: BSD-3-Clause
 *
 * witnesses: what the files of the witness share: its keys and marks (witness.c), guards
 * (witness_guard.c), locks (witness_lock.c) and the report (witness_report.c).
 */
#ifndef HASP_LOCK_WITNESSES_H
#define HASP_LOCK_WITNESSES_H

#include "base/list.h"
#include "base/log.h"
#include "base/map.h"
#include "lock/witness.h"

/* Who a client is, as told in the log; kept by what it did. */
struct who {
	unsigned refs;
	char text[];
};
/* *at is `who` from now on; each may be NULL. */
void who_set(struct who **at, struct who *who);

struct witness_client {
	struct who *who;
	struct list marks; /* what it read or took last */
};

enum event {
	EVENT_LOST_UPDATE,
	EVENT_NO_EXPIRY,
	EVENT_DELETED,
	EVENT_CHANGED,
	EVENT_OUTLIVED,
};
#define EVENTS (EVENT_OUTLIVED + 1)

struct witness_rule {
	struct list node; /* in witness.rules */
	enum witness_kind kind;
	char *name;
	bool by_value;
	struct log_limit limits[EVENTS];
	uint64_t nkeys; /* followed now */
	uint64_t forgotten_keys, forgotten_marks; /* for want of room */
	uint64_t too_long; /* acts on keys that are not followed */
	/* guards */
	uint64_t reads, writes;
	uint64_t unread; /* writes without a read before them */
	uint64_t stale;
	int64_t lost;
	/* locks */
	uint64_t taken, refused;
	uint64_t events[EVENTS];
	uint64_t expiry_later; /* of EVENT_NO_EXPIRY, in a step of its own */
	double gap_max; /* seconds until that step, at most */
};

/* A key of one rule, in one database. */
struct seen {
	struct map_node by_id;
	struct list node; /* in witness.clean or .hurt, least recently used first */
	struct witness_rule *rule;
	struct list marks; /* clients' */
	uint64_t writes; /* the number of the last one */
	uint64_t depth; /* how many writes led to what is stored */
	uint64_t stale;
	int64_t lost;
	uint64_t events[EVENTS];
	struct who *last; /* who wrote last */
	struct who *by, *of; /* of what last happened to it that should not have */
	struct slice holder; /* the lock's owner's token; p is NULL: nobody's, as far as seen */
	struct who *holds;
	double since, until; /* until 0: without an expiry; negative: not known */
};

/* What one owner knows of one key. */
struct mark {
	struct map_node by_id; /* the key's address, and the owner's token */
	struct list recent; /* in witness.marks, least recently used first */
	struct list node; /* in its client's list */
	struct list of_key; /* in its key's list */
	struct witness *witness;
	struct seen *seen;
	uint64_t version, depth; /* the key's when it was read */
	double at; /* when it was read, or taken */
	double until; /* the lock's lease, as seen.until */
	bool outlived; /* that was told */
};

struct witness {
	struct witness_limits limits;
	struct list rules;
	struct map keys;
	struct list clean, hurt; /* keys without, and with, something to report */
	struct map marks_by_id;
	struct list marks;
};

/* The key; NULL: it is too long. Counts as used now. */
struct seen *witness_seen(const struct witness_act *a);
struct slice seen_key(const struct seen *s);
/* It is in the report from now on. */
void witness_hurt(const struct witness_act *a, struct seen *s, struct who *by, struct who *of);

/* Whoever acts, and the key: as there is one; as there is one from now on, as this client's. */
struct mark *witness_mark(const struct witness_act *a, struct seen *s);
struct mark *witness_mark_make(const struct witness_act *a, struct seen *s);
void witness_unmark(struct mark *m);

/* Begins a line about the event, if there is to be one: name, rule, key, and both clients,
 * where `of` is called `role`; witness_tell_end() ends it. */
bool witness_tell(const struct witness_act *a, enum event e, const struct seen *s,
                  const struct who *of);
void witness_tell_end(const struct witness_act *a);

/* In quotes, without what could end a line or them, and cut. */
void witness_print_key(struct buf *out, struct slice key);

#endif
