/* SPDX-License-Identifier: BSD-3-Clause
 *
 * tracker_internal: the structs that the files of the tracker, observe and discovery share.
 *
 *   client --holds----> hold    <----holds-- key --> group
 *          --reads-> reading <-reads--
 *
 * A hold begins when a client takes a lock, and ends in one of these states:
 *
 *   took --> HOLD_HELD --own DEL----------------------------------> released
 *             |  |`--one that knows the value--> HOLD_MAYBE --taken again--> released
 *             |  `--a DEL by another owner-----> HOLD_REMOVED
 *             `--its connection closed---------> HOLD_LEFT
 *
 * A DEL by another owner is a theft; or the owner is a connection pool, and another of its
 * connections releases the lock. One hold does not show which, but all of them together do:
 * lock_verdict() decides.
 */
#ifndef HASP_WATCH_TRACKER_INTERNAL_H
#define HASP_WATCH_TRACKER_INTERNAL_H

#include "base/list.h"
#include "base/log.h"
#include "base/map.h"
#include "watch/sampling.h"
#include "watch/tracker.h"

/* Limits: locks of a client; clients that have read a key; keys that a client has read. */
#define HOLDS_MAX 1024
#define READS_MAX 4096
#define READS_PER_CLIENT 128
#define KIN_SLOTS 256
/* Pairs of locks that are kept: a client had one when it asked for the other. */
#define PAIRS_KEPT 256
/* The latest values that are kept, to recognize one again. */
#define VALUES_KEPT 64

/* A histogram: counts in buckets whose bounds grow by a third, from a tenth of a millisecond to
 * a day. Single durations are not kept. */
#define DURATIONS_BUCKETS 80
struct durations {
	uint32_t n[DURATIONS_BUCKETS];
	uint32_t total;
	double longest; /* seconds */
};
void durations_add(struct durations *d, double seconds);
void durations_merge(struct durations *to, const struct durations *from);
/* Returns a duration, in seconds, that at least this share of the durations did not exceed,
 * rounded up to a bucket's bound; 0: there are none. */
double durations_at(const struct durations *d, double share);

/* A client's name for the log, shared by the client and the records of its acts. */
struct client_label {
	unsigned refs;
	char text[];
};
/* Replaces the label at *at by `label`; each may be NULL. */
void client_label_set(struct client_label **at, struct client_label *label);

enum seen {
	/* Events that observe logs. */
	SEEN_BARE, /* taken without an expiry, or the expiry was taken away */
	SEEN_DELETED, /* deleted by another owner, which probably is not in the holder's pool */
	SEEN_CHANGED, /* set, extended or written by another owner */
	SEEN_OUTLIVED, /* the holder still worked when the expiry had passed */
	SEEN_LOGGED,
	/* Refused tries. */
	SEEN_RETRIED = SEEN_LOGGED, /* soon after another refused try of the same client */
	SEEN_REFUSED_OWN, /* the owner itself had the lock */
	/* Releases. */
	SEEN_RELEASED, /* released by a DEL of the owner */
	SEEN_COMPARED, /* SEEN_RELEASED where the connection had read the value before */
	SEEN_CHECKED, /* released by a client that knew or watched the value */
	SEEN_FOREIGN, /* released by a DEL of another owner */
	SEEN_FOREIGN_ADDRESS, /* SEEN_FOREIGN from the address of the connection that took the
	                       * lock */
	SEEN_FOREIGN_NAME, /* SEEN_FOREIGN from a connection with the same name */
	SEEN_FOREIGN_VALUE, /* SEEN_FOREIGN from a connection that had read the value */
	SEEN_FOREIGN_LATE, /* released by a connection unlike the holder, for a lock that its
	                    * own pool had lost */
	SEEN_POOLED, /* SEEN_FOREIGN without SEEN_DELETED */
	SEEN_STOLEN, /* released by a DEL of an owner whose own hold had expired or was taken */
	SEEN_OUTLASTED, /* released when the connection that took it had closed */
	SEEN_BROKEN, /* released by a DEL of a client that was refused the lock, had read its
	              * value, and took it next */
	SEEN_NARROW, /* released (or extended) when little of the expiry was left */
	/* DELs without WATCH. */
	SEEN_DELETES,
	SEEN_VOIDS, /* SEEN_DELETES where there was no lock */
	SEEN_STRANGE, /* SEEN_DELETES of an owner that had no lock to release */
	/* Holds that ended otherwise. */
	SEEN_ABANDONED, /* their connection closed */
	SEEN_UNRELEASED, /* expired and never released, though their connection lived on */
	SEEN_LAPSED, /* SEEN_UNRELEASED where the owner read the lock or wrote its data after
	              * the expiry */
	SEEN_LOOKS, /* times that owners, or connections like theirs, looked at the value */
	SEEN_LOST, /* the holder read its lock before the expiry, and it was gone */
	SEEN_SEIZED, /* set to a new value by another client, which had read the value */
	SEEN_YIELDED, /* SEEN_SEIZED where the holder never sent a DEL, though its connection
	               * lived on */
	SEEN_EXPIRED, /* unreleased, when the next client took the lock */
	/* Work under the lock. */
	SEEN_WORKED, /* a value that was read under it was written after its expiry */
	SEEN_OVERWRITTEN, /* updates that were lost by holders */
	/* Values and expiries. */
	SEEN_BARE_STAYED, /* never given an expiry, and not released */
	SEEN_BARE_LEFT, /* SEEN_BARE_STAYED where the client disconnected */
	SEEN_EXPIRY_LATER, /* given an expiry by a later command */
	SEEN_REPEATED, /* another hold had the same value */
	SEEN_RETURNED, /* released by the integer that the script had returned */
	SEEN_EVENTS
};

struct lock_sums {
	uint64_t taken[WAYS];
	uint64_t tries[WAYS]; /* refused tries */
	uint64_t n[SEEN_EVENTS];
	bool likes_left; /* in a finding: locks like these, of a name like theirs, were left to
	                  * expire */
	double least_left; /* least seconds of the expiry that were left at a release that was
	                    * not SEEN_NARROW; 0: none */
	double lapsed_longest; /* seconds from taking a lock to SEEN_LAPSED or SEEN_SEIZED */
	double expiry_later_longest; /* most seconds until SEEN_EXPIRY_LATER */
	int64_t lease_ms_min, lease_ms_max; /* as clients set it; 0: none did */
	struct durations held;
	struct durations waited; /* from the first refused try to the lock */
	uint64_t values[VALUES_KEPT];
};

struct guard_sums {
	uint64_t written_back; /* writes of a value that the same client had read before */
	uint64_t stale; /* of written_back, over another client's write and without a lock */
	int64_t lost; /* lost updates: observe.c */
	uint64_t under_lock; /* of written_back, under one lock of the client's since the
	                      * read */
	uint64_t stale_under_lock; /* of under_lock, over another client's write */
	uint64_t reread; /* of written_back, read several times before */
	uint64_t near_lock; /* of written_back, read under a lock of the client's that is
	                     * released, or of a connection of its address or name */
	uint64_t stale_near_lock; /* of near_lock, over another client's write */
	uint64_t in_turn; /* of written_back, outside any lock: another client had written the
	                   * value back that was read */
	uint64_t nested; /* of written_back: read before, and written after another key */
	uint64_t lasting; /* of written_back, without an expiry */
	uint64_t had_ttl; /* of written_back: the value that was read had an expiry, set at a
	                   * known time */
	uint64_t late; /* of had_ttl, when most of the expiry had passed */
	double life_max; /* longest expiry, in seconds, that a client set when it wrote back */
	unsigned how; /* enum read_opts of the reads that were written back */
	uint32_t max_readers; /* the most clients that had read one key and not written it */
	struct durations between; /* from read to write */
};

/* The keys of a rule or of a pattern, and the sums of their events. */
struct key_group {
	struct map_node node; /* key: the pattern */
	struct observed_rule *rule; /* NULL: the group is a pattern */
	struct list keys;
	size_t nkeys; /* keys followed now */
	unsigned shift; /* one of 2^shift keys is followed */
	bool covered; /* in a snapshot: a section in force has its keys */
	bool varies; /* the pattern is one even if there is only one key */
	bool many; /* there were several keys */
	size_t nsample;
	char sample[TRACKER_KEY_MAX]; /* one of its keys */
	uint64_t nlocks; /* keys that were taken and released, or refused, like locks */
	uint64_t nothers; /* keys that were never taken, and used otherwise */
	uint64_t filled; /* times that a client found no key and then set it */
	uint64_t met; /* of filled: while another such client had it */
	uint64_t looked; /* of filled: the same client deleted it later */
	uint64_t reread; /* reads by a client that had filled it, until it deleted it */
	uint64_t prolonged; /* expiries that holders set again */
	uint64_t nscripted; /* commands by scripts on keys that were never taken */
	uint64_t nread, nwritten; /* values read, values written */
	uint64_t nmissed; /* reads that found no value */
	uint64_t hopped; /* written by a client that had not read it, when one of its address
	                  * or name had */
	uint64_t raced; /* set by several clients that had all found no key before */
	uint64_t refilled; /* lists that a client read, deleted and filled again */
	uint64_t refilled_stale; /* of those: another client had changed it since the read */
	uint64_t opposed; /* times that a client asked for a lock and had another one, while a
	                   * client before had them the other way round */
	uint64_t passed_over; /* acts on keys that the tracker does not follow */
	struct lock_sums *lock; /* NULL: no lock was taken */
	struct guard_sums *guard; /* NULL: no value was written back */
};

#define LOST_UPDATE SEEN_LOGGED /* an event of a guard, which is logged like those of locks */
#define LOGGED_EVENTS (LOST_UPDATE + 1)

struct observed_rule {
	struct list node; /* in tracker.rules */
	struct key_group group;
	enum observed_kind kind;
	char *name;
	bool by_value;
	struct log_limit limits[LOGGED_EVENTS];
};

/* The harm that was done to an observed key. */
struct key_harm {
	struct slice name;
	uint64_t n[LOGGED_EVENTS];
	int64_t lost;
	struct client_label *by,
		*of; /* the client of the last event, and the other one; may be NULL */
};

struct key {
	struct map_node node; /* key: `hash` */
	uint64_t hash; /* hash of the database and the key */
	struct key_group *group;
	struct sampled *sampled; /* what sampling counts for the key; NULL: it sees all
	                          * commands */
	struct key_harm *harm; /* NULL: no harm yet, or the key is not observed */
	struct list in_group;
	struct list holds; /* oldest first */
	struct list reads;
	uint32_t nreads;
	uint32_t version; /* writes of other values */
	uint64_t writes, depth; /* all writes; those that led to the stored value */
	struct client_label *last; /* label of the last writer; NULL: the key is not observed */
	uint64_t written; /* hash of the value */
	uint64_t writer; /* id of the last writer */
	uint64_t updater; /* the client that wrote it back last, outside any lock; 0: none */
	double written_at, life; /* time and expiry of the value, in seconds; life 0: no expiry,
	                          * or not known */
	uint64_t written_window; /* the window of that write */
	uint64_t lost_address, lost_name; /* address and name of a holder that lost the lock and
	                                   * took it again */
	bool is_lock, is_other;
	uint64_t looker; /* the client that found no key and then set it; 0: none */
	double looker_at; /* when it set the key */
	bool was_taken; /* taken by NX: then reads are not a use other than locking */
	uint64_t breaker; /* the client whose DEL may become SEEN_BROKEN; 0: none */
	bool is_written; /* written by a command that neither takes nor releases a lock */
};

enum held_state { HOLD_HELD, HOLD_MAYBE, HOLD_REMOVED, HOLD_LEFT };

/* How another client removed a lock: by a SET or GETSET, or by a DEL. */
enum theft { NOT_STOLEN, STOLEN_BY_SET, STOLEN_BY_DEL };

struct held_lock {
	struct list in_key, in_client;
	struct list in_address, in_name; /* in tracker.by_address, .by_name */
	uint64_t id; /* from 1 */
	struct key *key;
	struct tracker_client *client; /* NULL: LEFT */
	struct client_label *label; /* label of the client; NULL: the lock is not observed */
	uint64_t owner; /* see tracker_act.owner; or the client's id */
	enum held_state state;
	uint64_t address, name; /* the client's address and name when it took the lock */
	uint64_t value;
	double taken;
	double begun; /* when its expiry was set */
	double expires; /* at the latest; 0: not, or not known */
	double soonest; /* the earliest time at which it may expire; 0: not, or not known */
	double ended; /* MAYBE, REMOVED: the time of that */
	bool no_ttl; /* it had no expiry so far */
	bool compares; /* the client has read the key since it took the lock */
	bool outlived; /* counted as SEEN_OUTLIVED */
	bool expired; /* counted as SEEN_EXPIRED */
	bool lost; /* counted as SEEN_LOST */
	bool retaken; /* another call of the same script took it again after its expiry, which
	               * hasp does not know */
	double lapsed; /* when its client still used it after the expiry; 0: not seen */
	enum lock_way way;
	uint64_t script; /* the script that took the lock; 0: none did */
	uint64_t returned; /* hash of the integer that the script returned; 0: none */
	enum theft stolen; /* REMOVED: counted as SEEN_STOLEN */
	bool robbed; /* REMOVED: by a DEL that was SEEN_FOREIGN_LATE */
	bool explains; /* the lock was lost, and explains a late DEL */
};

struct last_read {
	struct list in_key, in_client;
	struct key *key;
	struct tracker_client *client;
	uint32_t version; /* of the value that was read */
	uint64_t writes, depth; /* of the key at that time */
	uint64_t value; /* hash of the value; 0: hasp has not seen its write */
	enum read_opts how;
	double at;
	uint64_t window; /* the window of the read */
	bool again; /* the client had read it before, and not written it since */
	uint64_t hold; /* the lock over the read: tracker_hold_over(); 0: none */
	bool had_ttl, is_late; /* see guard_sums.had_ttl and guard_sums.late */
};

struct tracker_client {
	uint64_t id; /* from 1 */
	struct client_label *label; /* NULL: not needed yet */
	uint64_t round; /* the discovery's, when it was counted */
	uint64_t address, name;
	bool is_closing;
	uint64_t missed; /* the hash of the key that it found missing last; 0: none */
	double missed_at;
	uint64_t filled; /* the hash of the key that it set last after a miss; 0: none */
	struct {
		uint64_t key; /* hash of the list that it read last; 0: none */
		uint64_t window; /* the window of that read */
		uint32_t version; /* the key's version then */
		bool emptied, stale; /* the client has deleted it; another had changed it
		                      * before */
	} list;
	bool has_locked; /* took a lock by NX, or released one that it took by INCR */
	struct list holds, reads;
	uint32_t nholds, nreads;
	double wrote_at, wrote_read_at; /* when it last wrote back a value; when it had read
	                                 * that */
	uint64_t tried; /* the key whose lock was refused last */
	double tried_first, tried_last;
};

/* A client had one lock and asked for another one. */
struct lock_pair {
	uint64_t had, asked; /* hashes of the keys */
	uint64_t client; /* its id */
};

struct tracker {
	uint8_t secret[SIPHASH_SECRET_SIZE];
	size_t memory, used; /* bytes */
	double began;
	uint64_t nclients; /* clients ever seen */
	uint64_t round; /* rises with each tracker_clear() */
	uint64_t ncounted; /* clients counted since then */
	struct key_group covered; /* keys that a rule in force matches; not in `key_patterns` */
	struct list rules; /* observed rules */
	struct list by_address[KIN_SLOTS], by_name[KIN_SLOTS]; /* clients' locks */
	struct lock_pair pairs[PAIRS_KEPT];
	uint64_t nholds; /* holds ever seen */
	uint64_t passed_over; /* commands on keys that are not followed */
	struct map key_patterns, keys; /* groups that are patterns; keys of all groups */
	struct map places; /* discovery_parts.c */
	struct sampling *sampling;
};

struct discovery_snapshot {
	double now;
	double seconds; /* how long the discovery has run */
	uint64_t nclients;
	uint64_t passed_over; /* see struct tracker */
	uint64_t passed_by; /* commands that sampling has skipped */
	struct key_group *key_patterns; /* copies, without their keys */
	size_t n;
	uint8_t secret[SIPHASH_SECRET_SIZE]; /* for hash maps */
};

/* Returns the bytes of the heap that a block takes, with malloc()'s own. */
static inline size_t tracker_cost(size_t nbytes)
{
	return (nbytes + sizeof(void *) + 15) & ~(size_t)15;
}

/* Returns the key of the act; NULL: not followed. tracker_known_key() adds no key. */
struct key *tracker_key(const struct tracker_act *a);
struct key *tracker_known_key(const struct tracker_act *a);
uint64_t tracker_key_hash(const struct tracker_act *a);
void tracker_key_free(struct tracker *d, struct key *k);
/* Returns the window in which the tracker sees the key now; 0: it skips commands on it. */
uint64_t key_window(const struct key *k);
/* Notes that the client has written `value`; 0: not known. */
void key_note_write(struct key *k, const struct tracker_client *c, uint64_t value);
void tracker_hold_free(struct tracker *d, struct held_lock *h);
void tracker_last_read_free(struct tracker *d, struct last_read *r);
/* The client will not release the hold: sums it up and frees it. */
void tracker_hold_end(struct tracker *d, struct held_lock *h, double now);
/* The client of the hold closes its connection. */
void tracker_hold_leave(struct tracker *d, struct held_lock *h, double now);
struct lock_sums *tracker_lock_sums(struct tracker *d, struct key_group *s);
struct guard_sums *tracker_guard_sums(struct tracker *d, struct key_group *s);

/* Counts the event. If the key is observed, also logs it; `of`: the other client, or NULL.
 * Returns true if seen_event_end() has to end the line. */
bool seen_event(const struct tracker_act *a, struct key *k, unsigned event,
                struct client_label *of);
void seen_event_end(const struct tracker_act *a);
/* Writes the key as the log prints it. */
void seen_put_key(struct buf *out, struct slice key);
void key_harm_free(struct tracker *d, struct key_harm *harm); /* NULL is allowed */

/* Writes part number `i` of a shape, counted from 0. False: the shape has fewer. */
bool parts_part_of(struct slice key_pattern, size_t i, struct slice *part);
/* Writes the shape with a `*` as its part `i`. */
void parts_put_widened(struct buf *out, struct slice key_pattern, size_t i);
/* Puts a `*` into each place that has too many words already; false: no place has. */
bool parts_widen(const struct tracker *d, struct buf *key_pattern);
/* Counts the words of a new shape. */
void parts_count_words(struct tracker *d, struct slice key_pattern);
void parts_free_places(struct tracker *d);

/* A pattern of the result, and the sums of the keys that it matches. */
struct finding {
	struct buf pattern;
	uint64_t nkeys; /* keys that are followed */
	uint64_t nlocks, nothers, hopped, opposed; /* as in struct key_group */
	uint64_t nread; /* reads, also those that found no value */
	uint64_t unwritten; /* of those: the client did not write the key after them */
	struct lock_sums lock; /* FINDING_LOCK */
	struct guard_sums guard; /* FINDING_GUARD */
	const struct key_group *example; /* one of its groups */
	const struct key_group
		*caught; /* a group used otherwise that it also matches; NULL: none */
};

enum finding_kind { FINDING_LOCK, FINDING_GUARD };
/* Finds all shapes of the kind, and merges those that differ in a word and are used alike.
 * Returns an array of *n, in the order of their patterns, for discovery_findings_free(). */
struct finding *discovery_find(const struct discovery_snapshot *s, enum finding_kind kind,
                               size_t *n);
void discovery_findings_free(struct finding *f, size_t n);

/* Appends the report on the finding, and its section, called `name`. */
void discovery_put_lock(struct buf *out, const struct finding *f, const char *name);
void discovery_put_guard(struct buf *out, const struct finding *f, const char *name);
/* True if harm or risk was seen. */
bool discovery_lock_needs_rule(const struct lock_sums *l);
bool discovery_lock_is_proposed(const struct finding *f);
bool discovery_guard_is_proposed(const struct finding *f);
/* Appends why there is no section. */
void discovery_put_lock_left(struct buf *out, const struct finding *f);
void discovery_put_guard_left(struct buf *out, const struct finding *f);
/* "1,204", "1,204 keys" or "1 key", "4.1 s", valid to the end of the enclosing block. */
struct words {
	char text[48];
};
#define NUMBER(n) words_number(&(struct words){ "" }, n)
#define COUNT(n, what) words_count(&(struct words){ "" }, n, what)
#define TIME(seconds) words_time(&(struct words){ "" }, seconds)
const char *words_number(struct words *w, uint64_t n);
const char *words_count(struct words *w, uint64_t n, const char *what);
const char *words_time(struct words *w, double seconds);
/* Returns the first of `steps`, which end with 0, that is not less; or the last one. */
int words_round_up(const int *steps, double least);
/* The arguments of %.*s for the pattern. */
#define PATTERN(f) (int)buf_len(&(f)->pattern), buf_head(&(f)->pattern)
/* True if the pattern has any character besides `*` and `?`. */
bool finding_has_name(const struct finding *f);
/* Appends an example of the finding's keys, if it has one. */
void discovery_put_example(struct buf *out, const struct finding *f);

/* Fewer locks than this prove little. */
#define TAKEN_ENOUGH 20
/* If this many keys of a pattern were taken by NX and none was released, they are markers. */
#define MARKERS_ENOUGH 20
uint64_t lock_taken(const struct lock_sums *l);
uint64_t lock_tries(const struct lock_sums *l); /* refused ones */

/* Why the evidence does not show the owner of a lock. */
enum owner_open {
	OPEN_NONE,
	OPEN_UNLIKE, /* its holders and those that release it have no trait in common */
	OPEN_RARE, /* hardly any release came over another connection than its holder's */
	OPEN_LOSERS, /* a pool releases it, and so do clients that were refused the lock */
	OPEN_TAKEOVERS, /* a pool releases it, or clients end the locks of slow holders */
};

/* The conclusions from the sums of a lock. */
struct lock_verdict {
	const char *owner; /* value of `owner` for the rule */
	enum owner_open owner_open; /* not OPEN_NONE: `owner` is a guess */
	bool renew;
	bool is_left; /* too many locks are left to expire for renewal */
	bool renew_is_open; /* some holders outlived their lock, others let it expire */
	uint64_t own; /* releases by the connection that took the lock */
	uint64_t hopped; /* releases by another connection of the owner's pool */
	uint64_t stolen; /* releases that removed another owner's lock */
	uint64_t late; /* holders that outlived the expiry of their lock */
	uint64_t unreleased; /* locks that were left to expire while their connection lived */
	double longest; /* most seconds that a lock was held or worked under */
};
/* True if scripts set the lock: hasp follows them for owner = value only. */
bool verdict_is_scripted(const struct lock_sums *l);
/* True if each holder stores a value of its own. */
bool verdict_has_values(const struct lock_sums *l);
/* True if the clients that release the lock read its value first. */
bool verdict_compares(const struct lock_sums *l);
struct lock_verdict lock_verdict(const struct lock_sums *l);
/* True if harm was seen that a rule prevents. */
bool verdict_is_harmed(const struct lock_sums *l);
/* The client's record of the value that it read last; NULL: there is none. */
struct last_read *tracker_last_read(const struct key *k, const struct tracker_client *c);
/* The client has deleted the key, or (`fills`) has written to it. The key may be a list that
 * the client had read. */
void tracker_list_written(struct key *k, struct tracker_client *c, bool fills);
/* For locks that are taken by a read and a SET: the client has set the key. */
void tracker_looker_set(struct key *k, struct tracker_client *c, double now);
/* Adds the sums of the group's locks that are held now, some of which have expired. */
void tracker_add_open_holds(struct lock_sums *l, const struct key_group *group, double now);
/* True if the held key may be a lock; false if keys of its pattern look like markers (many were
 * taken, none was released) or like counters. */
bool tracker_may_be_lock(const struct held_lock *h);
/* The client has asked for the value of the key, if that is a lock of its own. */
void tracker_lock_read(const struct tracker_act *a, struct key *k, bool is_there);
/* The client, which holds locks, writes a value back that it read at `read_at`; `stale`: it
 * overwrites another client's. */
void tracker_lock_worked(const struct tracker_act *a, double read_at, bool stale);
/* Returns the lock under which the client acts now: its own, one of LOCK's (HOLD_OTHER), or
 * one of a connection of its name or address. 0: none. */
#define HOLD_OTHER UINT64_MAX
uint64_t tracker_hold_over(const struct tracker_act *a);
/* True if the client still holds this lock, which was its own. */
bool tracker_hold_lasts(const struct tracker_act *a, uint64_t hold);
/* The client has set the key. Returns true if it holds the lock, and so has set its expiry. */
bool tracker_lock_set_again(const struct tracker_act *a, struct key *k, uint64_t value,
                            int64_t lease_ms);
/* The client has set the key. Returns true if that took over the lock of another client, whose
 * value it had read. */
bool tracker_lock_seized(const struct tracker_act *a, struct key *k, uint64_t value,
                         int64_t lease_ms);
/* True if a word in these names means that they are locks. */
bool verdict_says_lock(struct slice pattern);
/* True if a client counted to 1 and closed its connection, and others have counted on: they
 * wait for a lock that no client will release, or they just count. */
bool verdict_was_left(const struct lock_sums *l);
/* True if the key is taken by INCR, and a connection that had counted to 1 counted on: a
 * counter that is deleted now and then, or the lock of a pool. */
bool verdict_may_count(const struct lock_sums *l);
/* True if the keys of the group were used like locks. */
bool verdict_is_lock(const struct key_group *s);
bool verdict_is_guard(const struct key_group *s);
/* True if the values are those of a cache that is refreshed in time: each is replaced late in
 * its life, by a value that expires, too. */
bool verdict_is_refresh(const struct guard_sums *g);

#endif
