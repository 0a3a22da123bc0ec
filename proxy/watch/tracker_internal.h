/* SPDX-License-Identifier: BSD-3-Clause
 *
 * tracker_internal: the structs that the tracker, observe and discovery share.
 *
 *   client --holds----> hold    <----holds-- key --> group
 *          --reads-> reading <-reads--
 *
 * A hold begins when a client takes a lock, and ends in one of these states:
 *
 *   took --> HOLD_HELD --own DEL----------------------------------> released
 *             |  |`--a client knows the value--> HOLD_MAYBE --taken again--> released
 *             |  `--a DEL by another owner-----> HOLD_REMOVED
 *             `--its connection closed---------> HOLD_LEFT
 *
 * A DEL by another owner is a theft, or another connection of the owner's pool sent it. A
 * single hold does not show which of the two; lock_verdict() decides from all holds.
 */
#ifndef HASP_WATCH_TRACKER_INTERNAL_H
#define HASP_WATCH_TRACKER_INTERNAL_H

#include "base/list.h"
#include "base/log.h"
#include "base/map.h"
#include "watch/sampling.h"
#include "watch/tracker.h"

#define HOLDS_MAX 1024 /* most locks of a client */
#define READS_MAX 4096 /* most clients in a key's list of readers */
#define READS_PER_CLIENT 128 /* most keys in a client's list of reads */
#define LOOKS_KEPT 8 /* entries of tracker_client.looks */
/* Clients share the values if at least this many updates follow another client's update. */
#define IN_TURN_ENOUGH 2
#define KIN_SLOTS 256 /* number of lists in tracker.by_address, and in tracker.by_name */
#define PAIRS_KEPT 256 /* entries of tracker.pairs */
#define VALUES_KEPT 64 /* entries of lock_sums.values */

/* A histogram of durations: counts in buckets whose bounds grow by a factor of 1.3, from a
 * tenth of a millisecond to a day. */
#define DURATIONS_BUCKETS 80
struct durations {
	uint32_t n[DURATIONS_BUCKETS];
	uint32_t total;
	double longest; /* the longest duration, in seconds */
};
void durations_add(struct durations *d, double seconds);
void durations_merge(struct durations *to, const struct durations *from);
/* Returns the quantile `share` (0 to 1) of the durations, in seconds, rounded up to a bucket's
 * bound; 0: there are no durations. */
double durations_at(const struct durations *d, double share);

/* A client's name in the log, shared by the client and the records of what it did. */
struct client_label {
	unsigned refs;
	char text[];
};
/* Replaces the label at *at by `label`; each may be NULL. */
void client_label_set(struct client_label **at, struct client_label *label);

/* Events of locks. */
enum seen {
	/* Events that mode OBSERVE logs: */
	SEEN_BARE, /* a client took the lock without an expiry, or removed the expiry */
	SEEN_DELETED, /* another owner, probably not in the holder's pool, deleted the lock */
	SEEN_CHANGED, /* another owner set, extended or wrote the lock */
	SEEN_OUTLIVED, /* the holder still worked after the expiry */
	SEEN_LOGGED,
	/* Refused tries: */
	SEEN_RETRIED = SEEN_LOGGED, /* a try soon after another refused try of the client */
	SEEN_MULTIPLEXED, /* a try soon after a refused one; since then, the client used another
	                   * key, or sent a command before it had the reply to an earlier one */
	SEEN_INSISTED, /* SEEN_RETRIED with the value of the try before */
	SEEN_CAME_BACK, /* a try soon after the client's own release of the lock */
	SEEN_CAME_ANEW, /* SEEN_CAME_BACK with another value than the client had released */
	SEEN_REFUSED_OWN, /* the owner that was refused already had the lock */
	/* Releases: */
	SEEN_RELEASED, /* a DEL of the owner */
	SEEN_COMPARED, /* SEEN_RELEASED, and the connection had read the value before */
	SEEN_CHECKED, /* a release by a client that knew or watched the value */
	SEEN_WATCHED, /* SEEN_CHECKED, by a transaction that watched the key */
	SEEN_FOREIGN, /* a DEL of another owner */
	SEEN_FOREIGN_ADDRESS, /* SEEN_FOREIGN from the holder's address */
	SEEN_FOREIGN_NAME, /* SEEN_FOREIGN from a connection with the holder's name */
	SEEN_FOREIGN_VALUE, /* SEEN_FOREIGN from a connection that had read the value */
	SEEN_FOREIGN_LATE, /* SEEN_FOREIGN of a client outside the holder's pool; its DEL was
	                    * meant for a hold that the client's own pool had lost */
	SEEN_POOLED, /* SEEN_FOREIGN from the holder's pool, so not SEEN_DELETED */
	SEEN_STOLEN, /* a late DEL of an owner, which removed the next owner's lock */
	SEEN_OUTLASTED, /* a release after the holder's connection had closed */
	SEEN_HANDED_ON, /* SEEN_OUTLASTED by a connection that was not refused the lock */
	SEEN_BROKEN, /* a DEL of a client that was refused the lock, had read its value, and
	              * took the lock next */
	SEEN_NARROW, /* a release or extension when little of the expiry was left */
	/* All DELs but those in a transaction after WATCH: */
	SEEN_DELETES,
	SEEN_VOIDS, /* SEEN_DELETES that found no lock */
	SEEN_STRANGE, /* SEEN_DELETES of an owner that had no lock to release */
	/* Holds that ended in other ways: */
	SEEN_ABANDONED, /* the holder's connection closed */
	SEEN_UNRELEASED, /* the lock expired while the holder's connection stayed open */
	SEEN_LAPSED, /* the lock expired, and after that its owner read the lock, or wrote a
	              * value that it had read under it; not counted as SEEN_UNRELEASED */
	SEEN_OVERLAPPED, /* the owner read, prolonged or set the lock after the expiry, while
	                  * another client had it; also counted as one of the other events */
	SEEN_LOOKS, /* an owner, or a connection with its address or name, read the value */
	SEEN_LOST, /* the holder read its lock before the expiry, and the lock was gone */
	SEEN_SEIZED, /* another client read the value and set a new one */
	SEEN_YIELDED, /* SEEN_SEIZED, and the holder never sent a DEL, although its connection
	               * stayed open */
	SEEN_EXPIRED, /* the lock had expired unreleased when the next client took it */
	/* Work under the lock: */
	SEEN_WORKED, /* a client read a value under the lock and wrote it after the expiry */
	SEEN_OVERWRITTEN, /* a holder overwrote another client's update that it had not read */
	/* Values and expiries: */
	SEEN_BARE_STAYED, /* a hold ended while it had no expiry */
	SEEN_BARE_LEFT, /* SEEN_BARE_STAYED, and the client disconnected without a release */
	SEEN_BARE_UNRELEASED, /* a lock without an expiry that no client has released so far */
	SEEN_PROLONGED, /* the expiry of a lock that had one was set again */
	SEEN_EXTENDED, /* another connection, not refused the lock, set the lock's expiry */
	SEEN_EXTENDED_ADDRESS, /* SEEN_EXTENDED from the holder's address */
	SEEN_EXTENDED_NAME, /* SEEN_EXTENDED from a connection with the holder's name */
	SEEN_EXTENDED_VALUE, /* SEEN_EXTENDED by a client that knew the value */
	SEEN_EXPIRY_LATER, /* a client took the lock without an expiry, and set one later */
	SEEN_REPEATED, /* another hold had the same value */
	SEEN_WRITTEN, /* a client changed a lock by a command that neither takes, sets nor
	               * releases locks */
	SEEN_RETURNED, /* a script was called with the integer that another script had returned
	                * when it took the lock */
	SEEN_EVENTS
};

struct lock_sums {
	uint64_t taken[WAYS];
	uint64_t tries[WAYS]; /* number of refused tries, by enum lock_way */
	uint64_t n[SEEN_EVENTS];
	bool likes_left; /* in a finding: clients also let locks with similar names expire */
	double least_left; /* least time, in seconds, that a lock had left at a release or
	                    * extension that was not SEEN_NARROW; 0: none */
	double lapsed_longest; /* most seconds from taking a lock to SEEN_LAPSED, SEEN_SEIZED */
	double expiry_later_longest; /* most seconds from taking a lock to SEEN_EXPIRY_LATER */
	/* The shortest and the longest expiry that clients set; 0: none. */
	int64_t lease_ms_min, lease_ms_max;
	struct durations held; /* from taking a lock to its release */
	struct durations waited; /* from the first refused try to taking the lock */
	uint64_t values[VALUES_KEPT]; /* the latest values, to notice repeated ones */
};

struct guard_sums {
	uint64_t written_back; /* writes of a value that the same client had read before */
	/* Each of the next fields counts some of the `written_back` writes. A write is stale if
	 * it overwrites another client's write since the read. */
	uint64_t stale; /* stale writes outside any lock */
	uint64_t under_lock; /* writes by a client that held one lock from read to write */
	uint64_t stale_under_lock; /* stale writes among `under_lock` */
	uint64_t near_lock; /* writes by a client whose lock ended between read and write, or
	                     * whose address or name is that of a lock's holder */
	const struct key_group *near; /* the group of such a lock; NULL: none */
	uint64_t stale_near_lock; /* stale writes among `near_lock` */
	uint64_t reread; /* writes by a client that had read the value several times */
	uint64_t in_turn; /* writes outside any lock that are not stale, after another client
	                   * wrote back outside any lock */
	uint64_t nested; /* writes by a client that read another key after this one, and wrote
	                  * that key first */
	uint64_t lasting; /* writes without an expiry */
	uint64_t had_ttl; /* writes after reading a value whose expiry hasp knows */
	uint64_t late; /* writes among `had_ttl` after a late read; see LATE_SHARE */
	int64_t lost; /* lost updates; see observe.c */
	double life_max; /* longest expiry that a client set when it wrote back, in seconds */
	unsigned how; /* bits of enum read_opts: how clients read what they wrote back */
	/* Most clients at a time that had read a key and not written it. */
	uint32_t max_readers;
	struct durations between; /* from a read to the client's write */
};

/* Numbers that clients saw. NUMBER_UNKNOWN does not count. */
struct numbers {
	uint64_t n; /* how many */
	int64_t least, most;
};

/* The keys of a rule or of a pattern, and the sums of their events. */
struct key_group {
	struct map_node node; /* key: the pattern */
	struct observed_rule *rule; /* NULL: the group is a pattern */
	struct list keys;
	size_t nkeys; /* number of keys that the tracker follows now, fields included */
	size_t nfields; /* number of fields of hashes among them */
	unsigned shift; /* the tracker follows one of 2^shift keys */
	bool covered; /* in a snapshot: a section in force matches the keys */
	bool varies; /* part of the name certainly varies, even if hasp saw only one key */
	bool many; /* hasp saw several keys */
	bool is_widened; /* a `*` of the pattern stands for words that hasp does not keep */
	size_t nsample;
	char sample[TRACKER_KEY_MAX]; /* one of the keys */
	uint64_t nlocks; /* keys that clients used as locks */
	uint64_t nothers; /* keys that clients used, but not as locks */
	uint64_t filled; /* times that a client found no key and then set it */
	uint64_t looked; /* times that a client deleted a key that it had filled */
	uint64_t reread; /* reads by a client of the key that it had filled last */
	uint64_t nscripted; /* calls of scripts on keys that were not used as locks */
	uint64_t nread, nwritten; /* values read, values written */
	uint64_t nmissed; /* reads that found no value */
	uint64_t hopped; /* writes by a client that had not read the key, although another
	                  * client with the same address or name had read it */
	uint64_t raced; /* times that a client found no key and set it, although another client
	                 * had set it in between */
	uint64_t refilled; /* times that a client read a list, deleted it and filled it again */
	uint64_t refilled_stale; /* refills of a list that another client had changed since the
	                          * read */
	uint64_t acted; /* changes by a client that had looked at the key, outside any lock; see
	                 * tracker_acted() */
	uint64_t lowered; /* changes among `acted` by which a client lowered a counter */
	struct numbers acted_on; /* what clients saw at a look before a change of `acted` */
	uint64_t acted_since; /* how many of `acted_on` came when `left_at` had a number */
	struct numbers left_at; /* what clients saw at a look that no change followed, but
	                         * another look at the same key */
	uint64_t acted_late; /* changes among `acted` after another client's, since the look */
	uint64_t acted_in_turn; /* changes among `acted` after another client's of that kind */
	uint64_t opposed; /* times that a client with one lock asked for another one, after
	                   * another client had asked the other way round */
	uint64_t passed_over; /* acts on keys that the tracker does not follow */
	struct slice near; /* in a snapshot: the pattern of guard->near */
	struct lock_sums *lock; /* NULL: no client took a lock */
	struct guard_sums *guard; /* NULL: no client wrote a value back */
};

#define LOST_UPDATE SEEN_LOGGED /* the only event of guards, logged like events of locks */
#define LOGGED_EVENTS (LOST_UPDATE + 1)

struct observed_rule {
	struct list node; /* in tracker.rules */
	struct key_group group;
	enum observed_kind kind;
	char *name;
	bool by_value;
	struct log_limit limits[LOGGED_EVENTS];
};

/* The harmful events of an observed key. */
struct key_harm {
	struct slice name; /* the key */
	uint64_t n[LOGGED_EVENTS];
	int64_t lost; /* lost updates */
	struct client_label *by; /* the client that caused the last event */
	struct client_label *of; /* the client that the last event harmed; NULL: none */
};

struct key {
	struct map_node node; /* key: `hash` */
	uint64_t hash; /* hash of the database and the key */
	struct key_group *group;
	struct sampled *sampled; /* the key's place in sampling; NULL: an observed key, of which
	                          * the tracker sees all commands */
	struct key_harm *harm; /* NULL: no harm yet, or the key is not observed */
	struct list in_group;
	struct list holds; /* oldest first */
	struct list reads;
	uint32_t nreads; /* length of `reads` */
	uint32_t version; /* number of writes that changed the value */
	uint64_t writes; /* number of all writes */
	uint64_t depth; /* number of writes that led to the stored value; see observe.c */
	struct client_label *last; /* label of the last writer; NULL: the key is not observed */
	uint64_t written; /* hash of the value; 0: not known */
	uint64_t writer; /* id of the last writer */
	uint64_t updater; /* the last client that wrote back while it had no lock; 0: none */
	double written_at; /* time of the last write */
	double life; /* expiry that the last write set, in seconds; 0: none, or not known */
	uint64_t written_window; /* sampling window of the last write */
	uint64_t lost_address, lost_name; /* address and name of the last holder that lost the
	                                   * lock and then took it again */
	bool is_field; /* a field of a hash */
	bool is_lock, is_other; /* the key counts in group->nlocks, in group->nothers */
	int64_t number; /* the number of a counter; NUMBER_UNKNOWN */
	uint64_t actor; /* the client that changed the key last, after a look; 0: none */
	uint64_t looker; /* the client that found no key and then set it; 0: none */
	double looker_at; /* when the looker set the key */
	bool was_taken; /* a client took the key as a lock, not by INCR or a script */
	uint64_t breaker; /* the client whose DEL may become SEEN_BROKEN; 0: none */
	bool is_written; /* written by a command that neither takes nor releases a lock */
};

enum held_state { HOLD_HELD, HOLD_MAYBE, HOLD_REMOVED, HOLD_LEFT };

/* How another client took a lock away: it overwrote the key (SET, GETSET), or deleted it. */
enum theft { NOT_STOLEN, STOLEN_BY_SET, STOLEN_BY_DEL };

struct held_lock {
	struct list in_key, in_client;
	struct list in_address, in_name; /* in tracker.by_address, .by_name */
	uint64_t id; /* counted from 1 */
	struct key *key;
	struct tracker_client *client; /* the holder; NULL in HOLD_LEFT */
	struct client_label *label; /* label of the client; NULL: the lock is not observed */
	uint64_t owner; /* tracker_act.owner, or the client's id */
	enum held_state state;
	uint64_t address, name; /* the client's address and name when it took the lock */
	uint64_t value; /* hash of the lock's value; 0: not known */
	double taken; /* when the client took the lock */
	double begun; /* when the present expiry was set */
	double expires; /* latest time of the lock's expiry; 0: never, or not known */
	double soonest; /* earliest time of the lock's expiry; 0: never, or not known */
	double ended; /* when HOLD_MAYBE or HOLD_REMOVED began */
	bool no_ttl; /* the lock has no expiry */
	bool compares; /* the client has read the key since it took the lock */
	bool outlived; /* counted as SEEN_OUTLIVED */
	bool expired; /* counted as SEEN_EXPIRED */
	bool lost; /* counted as SEEN_LOST */
	bool overlapped; /* counted as SEEN_OVERLAPPED */
	uint64_t noverwritten; /* counts as SEEN_OVERWRITTEN when the hold ends; but not if the
	                        * lock expires and the client does not use the lock again: it
	                        * may have forgotten the lock */
	bool retaken; /* a script took the lock, and a later command took it, too: so this hold
	               * had expired */
	double lapsed; /* when the client first used the lock after its expiry; 0: not seen */
	enum lock_way way;
	uint64_t script; /* the script that took the lock; 0: none did */
	uint64_t returned; /* hash of the integer that the script returned; 0: none */
	enum theft stolen;
	bool robbed; /* a DEL that was SEEN_FOREIGN_LATE removed the lock */
	bool explains; /* the lock was lost, and already explains a late DEL */
	struct key_group *opposes; /* the group of a lock that this client and another one took
	                            * together with this one, in opposite order; NULL: none */
};

struct last_read {
	struct list in_key, in_client;
	struct key *key;
	struct tracker_client *client;
	uint32_t version; /* key.version at the time of the read */
	uint64_t writes, depth; /* key.writes and key.depth at the time of the read */
	uint64_t value; /* hash of the value; 0: hasp has not seen its write */
	enum read_opts how;
	double at; /* time of the read */
	uint64_t window; /* sampling window of the read */
	bool again; /* the client had read the key before, and not written it since */
	uint64_t hold; /* the lock that tracker_hold_over() returned at the read; 0: none */
	const struct key_group *hold_group; /* the group of that lock; NULL: none */
	bool had_ttl, is_late; /* see guard_sums.had_ttl and guard_sums.late */
};

struct tracker_client {
	uint64_t id; /* counted from 1 */
	struct client_label *label; /* the client's name in the log; NULL: not needed yet */
	uint64_t round; /* tracker.round when the client was counted */
	uint64_t address, name; /* hashes of the client's address and name; 0: none */
	bool is_closing; /* tracker_client_free() is running */
	uint64_t missed; /* hash of the last key that the client did not find; 0: none */
	double missed_at; /* when the client did not find the key `missed` */
	uint64_t filled; /* hash of the last key that the client set after a miss; 0: none */
	struct {
		uint64_t key; /* hash of the list that the client read last; 0: none */
		uint64_t window; /* sampling window when the client read the list */
		uint32_t version; /* key.version when the client read the list */
		bool emptied; /* the client has deleted the list since the read */
		bool stale; /* another client changed the list between the read and the DEL */
	} list;
	struct last_seen {
		uint64_t key; /* hash of a key that the client has looked at; 0: none */
		uint64_t window; /* sampling window of the look */
		uint32_t version; /* key.version when the client looked */
		int64_t number; /* what the look showed; NUMBER_UNKNOWN */
		bool is_string; /* the look showed the key's string */
		double at; /* time of the look */
	} looks[LOOKS_KEPT]; /* the latest looks, by their keys */
	bool has_locked; /* the client has taken a lock (not by INCR), or released one */
	struct list holds, reads;
	uint32_t nholds, nreads; /* lengths of `holds` and `reads` */
	double wrote_at; /* when the client last wrote a value back */
	double wrote_read_at; /* when the client had read the value that it last wrote back */
	uint64_t tried; /* hash of the key whose lock the client was refused last */
	uint32_t tried_npipelined; /* tracker_act.npipelined of the last try of `tried` */
	double tried_first, tried_last; /* times of the client's first and last try of the lock
	                                 * `tried` */
	uint64_t tried_value; /* tracker_act.tried of the last try of `tried` */
	bool strayed; /* the client has used another key since it was refused the lock `tried`
	               */
	uint64_t gave; /* hash of the key whose lock the client released last; 0: none */
	uint64_t gave_value; /* hash of the value of the lock `gave`; 0: not known */
	double gave_at; /* when the client released the lock `gave` */
};

/* A client had one lock and asked for another one. */
struct lock_pair {
	uint64_t had, asked; /* hashes of the keys */
	uint64_t client; /* the client's id */
};

struct tracker {
	uint8_t secret[SIPHASH_SECRET_SIZE]; /* key of the keyed hashes */
	size_t memory, used; /* limit and present use, in bytes */
	double began; /* time of the last tracker_clear() */
	uint64_t nclients; /* number of clients since the start; the last id */
	uint64_t round; /* rises with each tracker_clear() */
	uint64_t ncounted; /* clients counted in this round */
	struct key_group covered; /* keys that a rule in force matches; not in `key_patterns` */
	struct list rules; /* observed rules */
	struct list by_address[KIN_SLOTS],
		by_name[KIN_SLOTS]; /* holds, by the client's address or name */
	struct lock_pair pairs[PAIRS_KEPT]; /* the latest pairs of locks, by their keys */
	uint64_t nholds; /* number of holds since the start; the last id */
	uint64_t passed_over; /* commands on keys that the tracker does not follow */
	struct map key_patterns; /* groups that are patterns */
	struct map keys; /* keys of all groups */
	struct map places; /* see discovery_parts.c */
	struct sampling *sampling;
};

struct discovery_snapshot {
	double now;
	double seconds; /* how long discovery has run */
	uint64_t nclients; /* copy of tracker.ncounted */
	uint64_t passed_over; /* copy of tracker.passed_over */
	uint64_t passed_by; /* commands that sampling has skipped */
	struct key_group *key_patterns; /* copies of the groups, without their keys */
	size_t n; /* length of `key_patterns` */
	uint8_t secret[SIPHASH_SECRET_SIZE]; /* key of the hash maps */
};

/* Returns how many bytes of the heap a block takes, with malloc()'s header. */
static inline size_t tracker_cost(size_t nbytes)
{
	return (nbytes + sizeof(void *) + 15) & ~(size_t)15;
}

/* True if the client had the reply of the time `at` when it sent the act. If not, as in a
 * pipeline, the act does not depend on that reply. */
static inline bool tracker_knew(const struct tracker_act *a, double at)
{
	return a->sent - a->queued >= at;
}

/* Returns the key of the act; NULL: the tracker does not follow it. tracker_known_key() adds no
 * new key. */
struct key *tracker_key(const struct tracker_act *a);
struct key *tracker_known_key(const struct tracker_act *a);
/* Returns the key of an act that changes it. The tracker follows a field of a hash only if a
 * client has read the field. */
struct key *tracker_written_key(const struct tracker_act *a);
uint64_t tracker_key_hash(const struct tracker_act *a);
void tracker_key_free(struct tracker *d, struct key *k);
/* Returns the key's sampling window that is open now; 0: the tracker skips commands on the
 * key. */
uint64_t key_window(const struct key *k);
/* Notes that the client has written a value with the hash `value`; 0: not known. */
void key_note_write(struct key *k, const struct tracker_client *c, uint64_t value);
void tracker_hold_free(struct tracker *d, struct held_lock *h);
void tracker_last_read_free(struct tracker *d, struct last_read *r);
/* Sums up and frees a hold that its client will not release any more. */
void tracker_hold_end(struct tracker *d, struct held_lock *h, double now);
/* Handles the end of the connection of the hold's client. */
void tracker_hold_leave(struct tracker *d, struct held_lock *h, double now);
struct lock_sums *tracker_lock_sums(struct tracker *d, struct key_group *s);
struct guard_sums *tracker_guard_sums(struct tracker *d, struct key_group *s);

/* Counts the event, and logs it if the key is observed. `of`: the client that the event harms;
 * NULL: none. `more`: the line's last fields, with a blank before each. */
void seen_event(const struct tracker_act *a, struct key *k, unsigned event,
                struct client_label *of, const char *more);
/* Writes the key as the log prints it. */
void seen_put_key(struct buf *out, struct slice key);
void key_harm_free(struct tracker *d, struct key_harm *harm); /* NULL is allowed */

/* Finds part number `i` of a shape, counted from 0. Returns false if the shape has fewer
 * parts. */
bool parts_part_of(struct slice key_pattern, size_t i, struct slice *part);
/* Writes the shape with a `*` in place of part `i` to `out`. Returns false if the shape has no
 * such part, or it may not become `*`: the first part may only if a name follows it. */
bool parts_put_widened(struct buf *out, struct slice key_pattern, size_t i);
/* Puts a `*` into each place with too many words. Returns false if there is no such place. */
bool parts_widen(const struct tracker *d, struct buf *key_pattern);
/* Counts the words of a key's shape at their places. Call it once for each shape. */
void parts_count_words(struct tracker *d, struct slice key_pattern);
/* True if a key may match both `pattern` and the shape, whose `*` is within one part. */
bool parts_may_match(struct slice pattern, struct slice key_pattern);
void parts_free_places(struct tracker *d);

/* A pattern in the report, and the sums of the keys that it matches. */
struct finding {
	struct buf pattern;
	uint64_t nkeys; /* estimated number of keys */
	uint64_t nlocks, nothers, hopped, opposed; /* sums of those in struct key_group */
	uint64_t nread; /* reads, including those that found no value */
	uint64_t unwritten; /* reads after which the client did not write the key */
	struct lock_sums lock; /* for FINDING_LOCK only */
	struct guard_sums guard; /* for FINDING_GUARD only */
	struct slice near; /* the pattern of a lock that may protect the values; may be empty */
	const struct key_group *example; /* one of the merged groups; NULL: do not show one */
	const struct key_group *caught; /* a group that is used differently, but that the
	                                 * pattern also matches; NULL: none */
	const struct key_group *may_catch; /* a group that is used differently; the pattern may
	                                    * also match some of its keys, but not the sample;
	                                    * NULL: none */
};

enum finding_kind { FINDING_LOCK, FINDING_GUARD };
/* Finds all shapes of `kind`, and merges those that differ in one word and are used alike.
 * Returns an array of *n findings, the narrowest patterns first; discovery_findings_free()
 * frees it. */
struct finding *discovery_find(const struct discovery_snapshot *s, enum finding_kind kind,
                               size_t *n);
void discovery_findings_free(struct finding *f, size_t n);

/* Appends the report on the finding, and its section, called `name`. */
void discovery_put_lock(struct buf *out, const struct finding *f, const char *name);
void discovery_put_guard(struct buf *out, const struct finding *f, const char *name);
/* True if hasp saw harm or risk. */
bool discovery_lock_needs_rule(const struct lock_sums *l);
bool discovery_lock_is_proposed(const struct finding *f);
bool discovery_guard_is_proposed(const struct finding *f);
/* Append the report on a finding without a section, with the reason. */
void discovery_put_lock_left(struct buf *out, const struct finding *f);
void discovery_put_guard_left(struct buf *out, const struct finding *f);
/* Return a text such as "1,204", "1,204 keys" or "4.1 s", valid to the end of the enclosing
 * block. */
struct words {
	char text[48];
};
#define NUMBER(n) words_number(&(struct words){ "" }, n)
#define COUNT(n, what) words_count(&(struct words){ "" }, n, what)
#define TIME(seconds) words_time(&(struct words){ "" }, seconds)
const char *words_number(struct words *w, uint64_t n);
const char *words_count(struct words *w, uint64_t n, const char *what);
const char *words_time(struct words *w, double seconds);

/* If clients took fewer locks than this, there is little evidence. */
#define TAKEN_ENOUGH 20
/* If clients took this many locks of a pattern by NX and released none, the keys are
 * markers. */
#define MARKERS_ENOUGH 20
uint64_t lock_taken(const struct lock_sums *l); /* locks taken, all ways together */
uint64_t lock_tries(const struct lock_sums *l); /* refused tries, all ways together */

/* Why the evidence does not show the owner of a lock. */
enum owner_open {
	OPEN_NONE, /* the evidence shows the owner */
	OPEN_UNLIKE, /* takers and releasers have neither name, address nor value in common */
	OPEN_HANDED_ON, /* takers close their connections, and others release the locks */
	OPEN_RARE, /* hardly any release came over another connection than the holder's */
	OPEN_LOSERS, /* DELs come from a pool, or from clients that were refused the lock */
	OPEN_TAKEOVERS, /* DELs come from a pool, or from clients that end slow holds */
};

/* The conclusions from the sums of a lock. */
struct lock_verdict {
	const char *owner; /* value of `owner` for the rule */
	enum owner_open owner_open; /* if not OPEN_NONE, `owner` is a guess */
	bool renew; /* hasp should renew the lock */
	bool is_left; /* clients often leave locks to expire */
	bool extends_is_open; /* hasp would refuse some SEEN_EXTENDED if `owner` is the owner */
	bool renew_is_open; /* clients may let locks expire on purpose: hasp does not know */
	uint64_t own; /* releases by the connection that took the lock */
	uint64_t hopped; /* releases by another connection of the owner's pool */
	uint64_t stolen; /* releases that removed another owner's lock */
	uint64_t late; /* holders that outlived the expiry of their lock */
	/* Locks that expired while their holder's connection stayed open. */
	uint64_t unreleased;
	double longest; /* most seconds for which a client held a lock, or worked under it */
};
/* True if scripts set the lock, which needs owner = value. */
bool verdict_is_scripted(const struct lock_sums *l);
/* True if each holder stores a value of its own. */
bool verdict_has_values(const struct lock_sums *l);
/* True if the clients that release the lock read its value first. */
bool verdict_compares(const struct lock_sums *l);
struct lock_verdict lock_verdict(const struct lock_sums *l);
/* True if hasp saw harm that a rule prevents. */
bool verdict_is_harmed(const struct lock_sums *l);
/* Returns the record of the client's last read of the key; NULL: there is none. */
struct last_read *tracker_last_read(const struct key *k, const struct tracker_client *c);
/* Notices lists that clients refill. Call it when the client has deleted the key or, if
 * `fills`, written to it. */
void tracker_list_written(struct key *k, struct tracker_client *c, bool fills);
/* Notices locks that clients take by a read and a SET. Call it when `c` has set the key. */
void tracker_looker_set(const struct tracker_act *a, struct key *k);
/* Adds the group's open holds to `l`, including those that have expired. */
void tracker_add_open_holds(struct lock_sums *l, const struct key_group *group, double now);
/* True if the key of the hold may be a lock. False if the keys of its pattern look like markers
 * (many were taken by NX, none was released) or like counters. */
bool tracker_may_be_lock(const struct held_lock *h);
/* Notices a client that reads the key. The key may be the client's own lock. */
void tracker_lock_read(const struct tracker_act *a, struct key *k, bool is_there);
/* Notices a client that holds locks and writes a value back that it read at `read_at`; `stale`:
 * the write overwrites another client's write. */
void tracker_lock_worked(const struct tracker_act *a, double read_at, bool stale);
/* Returns the id of the lock under which the client works now: its own lock, or a lock of a
 * connection with its name or address. HOLD_OTHER: a lock that the tracker does not follow; 0:
 * none. Sets *group to the group of the lock; NULL: there is none. */
#define HOLD_OTHER UINT64_MAX
uint64_t tracker_hold_over(const struct tracker_act *a, const struct key_group **group);
/* True if the client still has the lock with the id `hold`. */
bool tracker_hold_lasts(const struct tracker_act *a, uint64_t hold);
/* Handles a SET of the key by the holder of its lock, which sets the lock's expiry. Returns
 * false if the client does not hold the lock. */
bool tracker_lock_set_again(const struct tracker_act *a, struct key *k, uint64_t value,
                            int64_t lease_ms);
/* Handles a SET of a client that has read another client's lock, and now takes the lock over.
 * Returns false if the SET takes no lock over. */
bool tracker_lock_seized(const struct tracker_act *a, struct key *k, uint64_t value,
                         int64_t lease_ms);
/* True if the pattern has the word lock, locks or mutex. */
bool verdict_says_lock(struct slice pattern);
/* True if a client raised the counter to 1 and closed its connection, and others raised it
 * further. Either they wait for a lock that no client will release, or the key is a plain
 * counter. */
bool verdict_was_left(const struct lock_sums *l);
/* True if clients may leave locks without an expiry on purpose, as marks that something was
 * done: a rule would end such marks. False if clients mostly set the expiry after taking the
 * lock. */
bool verdict_may_mark(const struct lock_sums *l);
/* True if only INCR sets the key, and one of these happened: the connection that had raised the
 * key to 1 raised it again, or another connection deleted it. The key is then a counter that is
 * deleted now and then, or the lock of a pool. */
bool verdict_may_count(const struct lock_sums *l);
/* True if only INCR sets the keys, and clients delete few of them. */
bool verdict_is_seldom_deleted(const struct lock_sums *l);
/* True if verdict_may_count(), if clients count a key up that others set by NX, or if
 * verdict_was_left() and those that raise the counter further do not just wait. Also true
 * if only INCR sets the keys, the pattern does not say lock, and either no client counted
 * further than 1, or clients delete few keys. */
bool verdict_may_be_counter(const struct lock_sums *l, struct slice pattern);
/* True if the keys of the group were used like locks. */
bool verdict_is_lock(const struct key_group *s);
bool verdict_is_guard(const struct key_group *s);
/* True if each number that clients saw before they changed a key is greater than all numbers
 * after which they did not change it, or if each is less: the change seems to depend on the
 * look. False if clients never change a key again once one has left it unchanged: they may just
 * have ended their work. */
bool verdict_depends(const struct key_group *s);
/* True if the values look like a cache that is refreshed before it expires: clients replace
 * most values late in their life, and each new value has an expiry. */
bool verdict_is_refresh(const struct guard_sums *g);

#endif
