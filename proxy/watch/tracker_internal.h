/* SPDX-License-Identifier: BSD-3-Clause
 *
 * tracker_internal: what the files of the tracker share: its keys and accesses (tracker.c),
 * guards (tracker_guards.c), locks (tracker_locks.c) and the report (tracker_report.c).
 */
#ifndef HASP_WATCH_TRACKER_INTERNAL_H
#define HASP_WATCH_TRACKER_INTERNAL_H

#include "base/list.h"
#include "base/log.h"
#include "base/map.h"
#include "watch/tracker.h"

/* A client's name for the log. Shared by the client and the keys that remember what it did. */
struct client_name {
	unsigned refs;
	char text[];
};
/* Sets *at, and gives up what it was; each may be NULL. */
void client_name_set(struct client_name **at, struct client_name *name);

struct tracker_client {
	struct client_name *name;
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

/* In what a connection that releases a lock may be like the one that took it: as a pool's are.
 */
enum kinship { KIN_ADDRESS, KIN_NAME, KIN_VALUE };
#define KINSHIPS (KIN_VALUE + 1)

struct tracker_rule {
	struct list node; /* in tracker.rules */
	enum tracker_kind kind;
	char *name;
	bool by_value;
	struct log_limit limits[EVENTS];
	uint64_t nkeys; /* followed now */
	uint64_t forgotten_keys, forgotten_accesses; /* because of the limits */
	uint64_t too_long; /* acts on keys that are too long to be followed */
	/* guards */
	uint64_t reads, writes;
	uint64_t unread; /* writes without a read before them */
	uint64_t stale;
	int64_t lost;
	/* locks */
	uint64_t taken, refused;
	uint64_t events[EVENTS];
	uint64_t expired; /* taken when the last holder's lock had expired unreleased */
	uint64_t expiry_later; /* of EVENT_NO_EXPIRY, in a step of its own */
	double gap_max; /* seconds until that step, at most */
	uint64_t pooled; /* releases, and expiries set, by another connection of the holder */
	uint64_t kin[KINSHIPS]; /* of those, such as had this in common */
	uint64_t maybe_pooled; /* likewise, by one that had tried to take it: of a pool, or an
	                        * application that deletes what it did not get */
	uint64_t deletes; /* tried */
};

/* A key of one rule, in one database. */
struct tracked_key {
	struct map_node by_id;
	struct list node; /* in tracker.clean or .harmed, least recently used first */
	struct tracker_rule *rule;
	struct list accesses; /* clients' */
	uint64_t writes; /* the number of the last one */
	uint64_t depth; /* how many writes led to what is stored */
	uint64_t stale;
	int64_t lost;
	uint64_t events[EVENTS];
	struct client_name *last; /* of the client that wrote last */
	struct client_name *by, *of; /* of the last harm: the one that did it, and the other */
	struct slice
		holder; /* token of the lock's owner; p is NULL: it is free, as far as seen */
	struct client_name *holds; /* of the client that took the lock */
	double since, until; /* until 0: without an expiry; negative: not known */
	uint64_t ntaken; /* how often the lock was taken */
};

/* What one owner knows of one key: what it read, or the lock that it took. */
struct access {
	struct map_node by_id; /* the key's address, and the owner's token */
	struct list recent; /* in tracker.accesses, least recently used first */
	struct list node; /* in its client's list */
	struct list of_key; /* in its key's list */
	struct tracker *tracker;
	struct tracked_key *tracked_key;
	uint64_t version, depth; /* the key's when it was read */
	double at; /* when it was read, or taken */
	double until; /* the lock's lease, as tracked_key.until */
	bool took; /* the lock; else it has only read it */
	bool outlived; /* that it outlived its lease was logged */
	uint64_t seen; /* the key's `ntaken` when its value was read; 0: it was not */
	uint64_t refused; /* and when it was last refused */
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
struct slice tracked_key_name(const struct tracked_key *k);
/* It is in the report from now on. */
void tracker_harmed(const struct tracker_act *a, struct tracked_key *k, struct client_name *by,
                    struct client_name *of);

/* The access of the act's owner to the key: NULL if there is none; or made if there is none,
 * and this client's from now on. */
struct access *tracker_access(const struct tracker_act *a, struct tracked_key *k);
struct access *tracker_access_get(const struct tracker_act *a, struct tracked_key *k);
void tracker_access_free(struct access *acc);

/* Begins a line about the event: name, rule, key, and both clients; tracker_event_end() ends
 * it. False: there have been enough of them for now. */
bool tracker_event_begin(const struct tracker_act *a, enum event e, const struct tracked_key *k,
                         const struct client_name *of);
void tracker_event_end(const struct tracker_act *a);

/* In quotes, cut, and without bytes that could end the quotes or the line. */
void tracker_print_key(struct buf *out, struct slice key);

#endif
