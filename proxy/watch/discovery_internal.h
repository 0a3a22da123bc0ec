/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the files of discovery share.
 *
 *   client --holds----> hold    <----holds-- key --> shape
 *          --reads-> reading <-reads--
 *
 * A hold begins when a client takes a lock, and ends with what becomes of it:
 *
 *   took --> HOLD_HELD ---own DEL----------------------------------------> released
 *             |   `--one that knows the value------> HOLD_MAYBE --taken again--> released
 *             `--a DEL by another client-----------> HOLD_REMOVED
 *
 * Such a DEL is a theft, or a pool lets another of its connections release what one has taken.
 * One hold does not show which, but all of them together do: discovery_judge() decides.
 */
#ifndef HASP_WATCH_DISCOVERY_INTERNAL_H
#define HASP_WATCH_DISCOVERY_INTERNAL_H

#include "base/list.h"
#include "base/map.h"
#include "watch/discovery.h"
#include "watch/durations.h"
#include "watch/sampling.h"

/* Locks that a client has; clients that have read a key; keys that a client has read. */
#define HOLDS_MAX 1024
#define READS_MAX 4096
#define READS_PER_CLIENT 32
/* Values that were stored last, to see one again. */
#define VALUES_KEPT 64

struct lock_sums {
	uint64_t taken[DISCOVERY_WAYS];
	uint64_t tries[DISCOVERY_WAYS]; /* that were refused */
	uint64_t retries; /* of them, soon behind another of the same client */
	uint64_t refused_own; /* the client itself had it */
	uint64_t released; /* by DEL, on the connection that took it */
	uint64_t checked; /* by one that knew or watched the value */
	uint64_t foreign; /* by a connection that had not taken it, as far as is known */
	uint64_t foreign_address, foreign_name; /* of the same address; of the same name */
	uint64_t foreign_value; /* of `foreign`: the connection had read the lock's value */
	uint64_t deletes, voids; /* DELs without WATCH; of them, of a lock that was not there */
	uint64_t strange; /* DELs by a connection that had no lock of its own to release */
	uint64_t outlasted; /* released when the connection that took it had closed */
	uint64_t abandoned; /* held when their connection closed */
	uint64_t unreleased; /* expired and never released, though their connection lived on */
	uint64_t compared; /* of `released`: the connection had read the value before */
	uint64_t lapsed; /* expired; their connection went on, but sent no DEL */
	uint64_t worked; /* a value that was read under the lock was written after its expiry */
	double lapsed_longest; /* seconds from taking such a lock to that read, at most */
	uint64_t overwritten; /* lost updates by holders of the lock */
	uint64_t stolen; /* by one who outlived its own, or was robbed of it so */
	uint64_t outlived; /* released when the expiry had passed */
	uint64_t
		narrow; /* released by DEL, or begun anew, when little of the expiry was left */
	double least_left; /* of it then, in seconds; 0: it never was, or none was left */
	uint64_t bare; /* taken without an expiry */
	uint64_t bare_stayed; /* and never given one */
	uint64_t bare_left; /* of them, left behind by a client that went */
	uint64_t repeated; /* the value was that of another hold */
	int64_t lease_ms_min, lease_ms_max; /* as set; 0: none was */
	struct durations held;
	struct durations waited; /* from the first refused try to the lock */
	uint64_t values[VALUES_KEPT];
};

struct guard_sums {
	uint64_t written_back; /* a value that was read before by the same client */
	uint64_t stale; /* of them, over another's write, and without a lock */
	uint64_t under_lock; /* of written_back, while the client had a lock */
	uint64_t stale_under_lock; /* of those, over another's write */
	uint64_t nested; /* of written_back: read before, and written behind another key */
	uint64_t lasting; /* of written_back, without an expiry */
	uint64_t dated; /* of written_back: what was read had an expiry, and it is known since
	                   when */
	uint64_t late; /* of those: most of it had passed */
	double life_max; /* as set by those that wrote back, in seconds */
	unsigned how; /* reads that were written back: enum discovery_read */
	uint32_t crowd; /* clients that had read one key and not written it, at most */
	struct durations between; /* read and write */
};

struct shape {
	struct map_node node; /* key: the pattern */
	struct list keys;
	size_t nkeys; /* followed now */
	unsigned shift; /* of 2^shift keys one is followed */
	bool covered; /* in a snapshot: a section in force has its keys */
	bool varies; /* the pattern is one even if there is only one key */
	bool many; /* there were several keys */
	size_t nsample;
	char sample[DISCOVERY_KEY_MAX]; /* a key */
	uint64_t nlocks; /* keys that were taken and released, or refused, like locks */
	uint64_t nothers; /* keys that were never taken, and used otherwise */
	uint64_t looked, met; /* set by a client that had just found no key and deleted it
	                       * later; of those, set while another such client had it */
	uint64_t prolonged; /* expiries that holders set again */
	uint64_t nscripted; /* commands by scripts on keys that were never taken */
	uint64_t nread; /* values */
	struct lock_sums *lock; /* NULL: none was taken */
	struct guard_sums *guard; /* NULL: none was written back */
};

struct key {
	struct map_node node; /* key: `hash` */
	uint64_t hash; /* of the database and the key */
	struct shape *shape;
	struct sampled *sampled; /* what is seen of it */
	struct list in_shape;
	struct list holds; /* oldest first */
	struct list reads;
	uint32_t nreads;
	uint32_t version; /* writes of other values */
	uint64_t written; /* the value's hash */
	uint64_t writer; /* the client's id */
	double written_at, life; /* of the value, in seconds; life 0: no expiry, or not known */
	uint64_t written_window; /* in which it was */
	bool is_lock, is_other;
	uint64_t looker; /* the client that found no key and then set it; 0: none */
	bool was_taken; /* by NX: then reads are no other use */
	bool is_written; /* by a command that neither takes nor releases a lock */
};

enum held_state { HOLD_HELD, HOLD_MAYBE, HOLD_REMOVED };

struct held_lock {
	struct list in_key, in_client;
	struct key *key;
	struct discovery_client *client;
	enum held_state state;
	uint64_t address, name; /* of the client, then */
	uint64_t value;
	double taken;
	double begun; /* when its expiry was set */
	double expires; /* 0: not, or not known */
	double ended; /* MAYBE, REMOVED: when */
	bool bare; /* without an expiry until now */
	bool compares; /* its client has read the key since */
	double lapsed; /* when its client went on after the expiry; 0: it was not seen to */
	enum discovery_way way;
	bool stolen; /* REMOVED: it counts as that */
};

struct last_read {
	struct list in_key, in_client;
	struct key *key;
	struct discovery_client *client;
	uint32_t version; /* that was read, */
	uint64_t value; /* and its hash, as far as it was seen written; 0: it was not */
	enum discovery_read how;
	double at;
	uint64_t window; /* in which it was */
	bool under_lock;
	bool is_dated, is_late; /* as guard_sums.dated, late */
};

struct discovery_client {
	uint64_t id;
	uint64_t round; /* the discovery's, when it was counted */
	uint64_t address, name;
	bool is_closing;
	uint64_t missed; /* the hash of the key that it found missing last; 0: none */
	struct list holds, reads;
	uint32_t nholds, nreads;
	const struct shape *wrote; /* what it has written back last; NULL: nothing */
	double wrote_at, wrote_read_at; /* when; when it had read that */
	uint64_t tried; /* the key whose lock was refused last */
	double tried_first, tried_last;
};

struct discovery {
	uint8_t secret[SIPHASH_SECRET_SIZE];
	size_t memory, used; /* bytes */
	double began;
	uint64_t nclients; /* that were ever there */
	uint64_t round; /* rises with each discovery_clear() */
	uint64_t ncounted; /* clients, since */
	struct shape covered; /* of keys that a rule in force has; it is not in `shapes` */
	uint64_t passed_over; /* commands on keys that are not followed */
	struct map shapes, keys;
	struct map places; /* discovery_parts.c */
	struct sampling *sampling;
};

struct discovery_snapshot {
	double now;
	double seconds; /* that it has taken */
	uint64_t nclients;
	uint64_t passed_over; /* as of the discovery */
	uint64_t passed_by; /* commands, by sampling */
	struct shape *shapes; /* without their keys */
	size_t n;
	uint8_t secret[SIPHASH_SECRET_SIZE]; /* for maps */
};

/* What a block of so many bytes takes of the heap, with what malloc() adds to it. */
static inline size_t discovery_cost(size_t nbytes)
{
	return (nbytes + sizeof(void *) + 15) & ~(size_t)15;
}

/* The key of the act; NULL: it is not followed. The second finds it only if it is followed
 * already. */
struct key *discovery_key(const struct discovery_act *a);
struct key *discovery_known_key(const struct discovery_act *a);
uint64_t discovery_key_hash(const struct discovery_act *a);
void discovery_key_free(struct discovery *d, struct key *k);
/* The client has written it: that value, or (0) one that is not known. */
void discovery_note_write(struct key *k, const struct discovery_client *c, uint64_t value);
void discovery_hold_free(struct discovery *d, struct held_lock *h);
void discovery_last_read_free(struct discovery *d, struct last_read *r);
/* Its client will not release it: sums it up and frees it. */
void discovery_hold_end(struct discovery *d, struct held_lock *h, double now);
struct lock_sums *discovery_lock_sums(struct discovery *d, struct shape *s);

/* Part number `i` of a shape, counted from 0. False: it has not so many. */
bool discovery_part_of(struct slice shape, size_t i, struct slice *part);
/* The shape with a `*` as its part `i`. */
void discovery_put_widened(struct buf *out, struct slice shape, size_t i);
/* Puts a `*` where there are too many words already; false: nowhere. */
bool discovery_widen(const struct discovery *d, struct buf *shape);
/* A shape is new. */
void discovery_count_words(struct discovery *d, struct slice shape);
void discovery_free_places(struct discovery *d);

/* A pattern, and the bytes that its keys begin and end with: they rule out most keys at once.
 */
struct pattern_ends {
	struct slice pattern, head, tail;
};

/* A pattern of the result, and the sums of what it matches. */
struct finding {
	struct buf pattern;
	size_t nshapes;
	uint64_t nkeys; /* as far as they are followed */
	uint64_t nlocks, nothers, nread; /* as of a shape */
	struct lock_sums lock; /* FINDING_LOCK */
	struct guard_sums guard; /* FINDING_GUARD */
	struct pattern_ends ends; /* of `pattern` */
	const struct shape *example; /* one of them */
	const struct shape
		*caught; /* it matches this one, too, which is used otherwise; NULL */
};

enum finding_kind { FINDING_LOCK, FINDING_GUARD };
/* All shapes of the kind, those together that differ in a word and are used alike. Returns an
 * array of *n, in the order of their patterns, for discovery_findings_free(). */
struct finding *discovery_find(const struct discovery_snapshot *s, enum finding_kind kind,
                               size_t *n);
void discovery_findings_free(struct finding *f, size_t n);

/* Appends what is said of the finding, and its section. `name`: for the
 * section. */
void discovery_put_lock(struct buf *out, const struct finding *f, const char *name);
void discovery_put_guard(struct buf *out, const struct finding *f, const char *name);
/* Has harm or risk been seen? */
/* How a lock is used, as far as its section depends on it. */
struct lock_use {
	unsigned ways; /* bits of enum discovery_way */
	const char *owner;
	bool owner_is_open, renew_is_open;
	bool needs_rule; /* harm or risk was seen */
	int64_t lease_ms;
};
struct lock_use discovery_lock_use(const struct lock_sums *l);
/* Would a section for one be right for the other? */
bool discovery_locks_are_alike(const struct lock_use *a, const struct lock_use *b);
bool discovery_lock_is_proposed(const struct finding *f);
bool discovery_guard_is_proposed(const struct finding *f);
/* Appends why there is no section. */
void discovery_put_lock_left(struct buf *out, const struct finding *f);
void discovery_put_guard_left(struct buf *out, const struct finding *f);
/* "1,204", "4.1 s", "1,204 keys" or "1 key" */
void discovery_put_number(struct buf *out, uint64_t n);
void discovery_put_time(struct buf *out, double seconds);
void discovery_put_count(struct buf *out, uint64_t n, const char *what);
/* Nothing unless the finding has an example. */
void discovery_put_example(struct buf *out, const struct finding *f);

uint64_t discovery_taken(const struct lock_sums *l);

/* What the sums of a lock prove. */
struct lock_verdict {
	const char *owner; /* for the rule */
	bool owner_is_open; /* the evidence does not decide: `owner` is a guess */
	bool renew;
	bool renew_is_open; /* some holders outlived their lock, others let it expire */
	uint64_t own; /* releases by the connection that took the lock */
	uint64_t hopped; /* releases by another connection of the owner's pool */
	uint64_t stolen; /* releases that removed another owner's lock */
	uint64_t late; /* holders that outlived the expiry of their lock */
	uint64_t unreleased; /* locks that were left to expire while their connection lived */
	double longest; /* seconds that a lock was held or worked under, at most */
};
/* Do those who release the lock look at its value first? */
bool discovery_compares(const struct lock_sums *l);
struct lock_verdict discovery_judge(const struct lock_sums *l);
/* Was harm seen that a rule prevents? */
bool discovery_is_harmed(const struct lock_sums *l);
/* The client's record of the value that it read last; NULL: there is none. */
struct last_read *discovery_last_read(const struct key *k, const struct discovery_client *c);
/* Locks that are taken by a look and a SET: the client has set the key; it was deleted. */
void discovery_looker_set(struct key *k, struct discovery_client *c);
void discovery_looker_deleted(struct key *k, const struct discovery_client *c);
/* A hold ended, or is there at the end, that nobody released. */
void discovery_sum_up_unreleased(struct lock_sums *l, const struct held_lock *h, double now);
/* False: so many of its pattern were taken and none released that they are markers. */
bool discovery_may_be_lock(const struct held_lock *h);
/* The client has read the key, if it is a lock of its own. */
void discovery_lock_read(const struct discovery_act *a, struct key *k);
/* The client, which holds locks, writes a value back that it read at `read_at`; `stale`: it
 * overwrites another client's. */
void discovery_lock_worked(const struct discovery_act *a, double read_at, bool stale);
/* The client has set the key. Returns true if it holds the lock, whose expiry that is. */
bool discovery_lock_set_again(const struct discovery_act *a, struct key *k, uint64_t value,
                              int64_t lease_ms);
/* Does one of the words of these names say that they are locks? */
bool discovery_says_lock(struct slice pattern);
/* Counted to one by a client that went without a word, and counted on and on since: by those
 * who wait for a lock that nobody will release, or by those who just count. */
bool discovery_was_left(const struct lock_sums *l);
/* Were the keys of the shape used like locks? */
bool discovery_is_lock(const struct shape *s);
bool discovery_is_guard(const struct shape *s);
/* Values that are replaced when most of their life is over, always by others that expire: a
 * cache's, which is refreshed before it is empty. */
bool discovery_is_refresh(const struct guard_sums *g);

#endif
