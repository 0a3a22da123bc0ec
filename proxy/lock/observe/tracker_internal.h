/* SPDX-License-Identifier: BSD-3-Clause
 *
 * witnesses: what the files of the witness share: its keys and marks (witness.c), guards
 * (witness_guard.c), locks (witness_lock.c) and the report (tracker_report.c).
 */
#ifndef HASP_LOCK_OBSERVE_TRACKER_INTERNAL_H
#define HASP_LOCK_OBSERVE_TRACKER_INTERNAL_H

#include "base/list.h"
#include "base/log.h"
#include "base/map.h"
#include "lock/observe/tracker.h"

/* Who a client is, as told in the log; kept by what it did. */
struct client_label {
	unsigned refs;
	char text[];
};
/* *at is `who` from now on; each may be NULL. */
void client_label_set(struct client_label **at, struct client_label *client_label);

struct tracker_client {
	struct client_label *client_label;
	struct list accesses; /* what it read or took last */
};

enum event {
	EVENT_LOST_UPDATE,
	EVENT_NO_EXPIRY,
	EVENT_DELETED,
	EVENT_CHANGED,
	EVENT_OUTLIVED,
};
#define EVENTS (EVENT_OUTLIVED + 1)

struct tracker_rule {
	struct list node; /* in witness.rules */
	enum tracker_kind kind;
	char *name;
	bool by_value;
	struct log_limit limits[EVENTS];
	uint64_t nkeys; /* followed now */
	uint64_t forgotten_keys, forgotten_accesses; /* for want of room */
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
struct tracked_key {
	struct map_node by_id;
	struct list node; /* in witness.clean or .hurt, least recently used first */
	struct tracker_rule *rule;
	struct list accesses; /* clients' */
	uint64_t writes; /* the number of the last one */
	uint64_t depth; /* how many writes led to what is stored */
	uint64_t stale;
	int64_t lost;
	uint64_t events[EVENTS];
	struct client_label *last; /* who wrote last */
	struct client_label *by, *of; /* of what last happened to it that should not have */
	struct slice holder; /* the lock's owner's token; p is NULL: nobody's, as far as seen */
	struct client_label *holds;
	double since, until; /* until 0: without an expiry; negative: not known */
};

/* What one owner knows of one key. */
struct access {
	struct map_node by_id; /* the key's address, and the owner's token */
	struct list recent; /* in witness.marks, least recently used first */
	struct list node; /* in its client's list */
	struct list of_key; /* in its key's list */
	struct tracker *tracker;
	struct tracked_key *tracked_key;
	uint64_t version, depth; /* the key's when it was read */
	double at; /* when it was read, or taken */
	double until; /* the lock's lease, as seen.until */
	bool outlived; /* that was told */
};

struct tracker {
	struct tracker_limits limits;
	struct list rules;
	struct map keys;
	struct list clean, harmed; /* keys without, and with, something to report */
	struct map accesses_by_id;
	struct list accesses;
};

/* The key; NULL: it is too long. Counts as used now. */
struct tracked_key *tracker_key(const struct tracker_act *a);
struct slice tracked_key_name(const struct tracked_key *s);
/* It is in the report from now on. */
void tracker_harmed(const struct tracker_act *a, struct tracked_key *s, struct client_label *by,
                    struct client_label *of);

/* Whoever acts, and the key: as there is one; as there is one from now on, as this client's. */
struct access *tracker_access(const struct tracker_act *a, struct tracked_key *s);
struct access *tracker_access_make(const struct tracker_act *a, struct tracked_key *s);
void tracker_access_free(struct access *m);

/* Begins a line about the event, if there is to be one: name, rule, key, and both clients,
 * where `of` is called `role`; tracker_event_end() ends it. */
bool tracker_event_begin(const struct tracker_act *a, enum event e, const struct tracked_key *s,
                         const struct client_label *of);
void tracker_event_end(const struct tracker_act *a);

/* In quotes, without what could end a line or them, and cut. */
void tracker_print_key(struct buf *out, struct slice key);

#endif
