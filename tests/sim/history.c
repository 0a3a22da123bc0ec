/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/sim/history.h"

#include <hiredis/hiredis.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/fatal.h"
#include "tests/sim/faults.h"
#include "tests/sim/world.h"

#define SHOWN_MAX 5
#define KEYS_MAX 16
/* A client that gets a lock surely has this share of the lease before it, in percent: hasp
 * checks a grant that comes later than a tenth of the lease. */
#define SURE_PERCENT 85
/* How late an answer may come if no fault was at work. */
#define GRACE (1 * SECOND)
/* hasp checks a lock that has waiters at least each second. */
#define IDLE_MOST (2500 * MS)
/* How soon a release gives the lock to the first waiter, or wakes it. */
#define RELEASED_MOST (500 * MS)
/* hasp asks the servers of a quorum twice, for 1 s at most each time, and counts a lease from
 * the first question. At the end of that lease it gives up a lock that it could not renew, even
 * if servers began the lease later. */
#define QUORUM_TAKES (2100 * MS)
/* Between two tries at a quorum: a waiter whose time ends before the next try is refused at
 * once. */
#define QUORUM_PAUSE (100 * MS)
/* A hasp counts a server that has just begun only after the longest lease, 3 s. For this long,
 * beyond FAULTS_RECOVERY, a restarted hasp may lack a quorum. */
#define QUORUM_RECOVERY (1500 * MS)
#define WATCH_US (250 * MS)
/* A lock that its client no longer has is free after this time, at the latest. */
#define KEPT_MOST (3 * SECOND)
/* How soon hasp releases a lock at a server of a quorum that comes back after a fault, while
 * the lease lasts. */
#define KEPT_BY_QUORUM (1500 * MS)
/* How long a hold lasts at least that no client releases. */
#define CROWD_LEAST (60 * SECOND)
/* How long hasp's answer takes to the client at most, if nothing delays it. */
#define ANSWER_MOST (25 * MS)
/* How far apart two answers that are sent at the same moment may arrive, in either order: as
 * long as a message takes. */
#define ON_THE_WAY (100 * MS)

static struct {
	struct simulation *world;
	struct server *redis; /* the world's Redis */
	struct list tries;
	unsigned ntries;
	size_t ngrants, nfailures;
	struct buf text;
	int64_t data_lost_at; /* -1: never */
	int64_t greatest_fence;
	struct event watch;
	const char *keys[KEYS_MAX];
	int64_t idle_since[KEYS_MAX]; /* -1: the lock is held, or no client waits */
	bool was_released[KEYS_MAX]; /* a release freed the lock; else its lease has ended */
	size_t nkeys;
} history;

static void on_watch(struct event *e);

void history_begin(struct simulation *s)
{
	memset(&history, 0, sizeof(history));
	history.world = s;
	history.redis = &s->redis;
	history.data_lost_at = -1;
	history.watch = (struct event){ .run = on_watch };
	list_init(&history.tries);
	world_schedule_in(&history.watch, WATCH_US);
}

void history_end(void)
{
	struct list *node;

	world_cancel(&history.watch);
	while ((node = list_shift(&history.tries)))
		free(container_of(node, struct try, node));
	buf_release(&history.text);
}

void history_fail(const char *fmt, ...)
{
	char line[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	trace("!!! %s", line);
	if (history.nfailures++ < SHOWN_MAX)
		buf_printf(&history.text, "  %.3f %s\n", world_seconds(), line);
}

size_t history_nfailures(void)
{
	return history.nfailures;
}

size_t history_ngrants(void)
{
	return history.ngrants;
}

const char *history_failures(void)
{
	buf_append(&history.text, slice_of("", 1));
	return buf_head(&history.text);
}

/* --- what can explain it ------------------------------------------------------------------ */

/* Returns until when a fault may keep the try's hasp from releasing the lock. */
static int64_t away_until(const struct try *t)
{
	int64_t until = history.redis->machine.disturbed_until;

	if (until < t->hasp->disturbed_until)
		until = t->hasp->disturbed_until;
	if (until < t->client->disturbed_until)
		until = t->client->disturbed_until;
	return until;
}

/* Returns until when a fault may have effects on the try. */
static int64_t disturbed_until(const struct try *t)
{
	int64_t until = away_until(t);

	return until < t->hasp->uncounted_until ? t->hasp->uncounted_until : until;
}

/* True if a fault that concerns the try has been at work since then. */
static bool is_disturbed(const struct try *t, int64_t since)
{
	return disturbed_until(t) >= since;
}

/* True if the release of the try may still be under way at that time, though its client has
 * hung up. */
static bool is_releasing_at(const struct try *t, int64_t at)
{
	return t->release_sent && (t->state == TRY_RELEASING ||
	                           (t->state == TRY_OVER && t->over_at + GRACE >= at));
}

void history_data_lost(void)
{
	history.data_lost_at = world_now();
	for (struct list *at = history.tries.next; at != &history.tries; at = at->next) {
		struct try *t = container_of(at, struct try, node);
		if (t->state == TRY_HELD || (t->is_crowd && is_releasing_at(t, world_now())))
			t->was_lost = true;
		t->sure_until = 0;
	}
	/* Without data, tokens follow Redis' clock, which may have been set back. */
	if (history.redis->machine.date_offset < 0)
		history.greatest_fence = 0;
}

/* --- Redis -------------------------------------------------------------------------------- */

static bool reply_has(const redisReply *r, const char *word)
{
	if (r->type == REDIS_REPLY_STRING)
		return strstr(r->str, word);
	for (size_t i = 0; r->type == REDIS_REPLY_ARRAY && i < r->elements; i++)
		if (reply_has(r->element[i], word))
			return true;
	return false;
}

static bool server_has(struct server *s, const char *word, const char *command, const char *key)
{
	redisReply *r = server_ask(s, command, key);
	bool has = reply_has(r, word);

	freeReplyObject(r);
	return has;
}

static bool redis_has(const char *word, const char *command, const char *key)
{
	return server_has(history.redis, word, command, key);
}

/* Returns how many servers of the quorum had the lock for the try `ago_us` before. (A lock that
 * has been released or taken by another client since then counts as gone.) */
static size_t votes(const struct try *t, int64_t ago_us)
{
	size_t n = 0;

	for (size_t i = 0; i < history.world->nquorum; i++) {
		struct server *s = &history.world->quorum[i];
		s->machine.date_offset -= ago_us;
		n += server_has(s, t->who, "GET %s", t->key);
		s->machine.date_offset += ago_us;
	}
	return n;
}

static bool has_majority(const struct try *t, int64_t ago_us)
{
	return votes(t, ago_us) > history.world->nquorum / 2;
}

/* True if a server of the quorum may have lost its vote for the try. */
static bool may_lack_vote(const struct try *t)
{
	for (size_t i = 0; i < history.world->nquorum; i++)
		if (history.world->quorum[i].data_lost_at >= t->sent)
			return true;
	return false;
}

static long long server_number(struct server *s, const char *command, const char *key)
{
	redisReply *r = server_ask(s, command, key);
	long long n = r->type == REDIS_REPLY_INTEGER ? r->integer : -1;

	freeReplyObject(r);
	return n;
}

static long long redis_number(const char *command, const char *key)
{
	return server_number(history.redis, command, key);
}

/* Returns for how long a majority of the servers will surely keep the lock for the try, in
 * us. */
static int64_t majority_keeps(const struct try *t)
{
	int64_t left[QUORUM_MAX] = { 0 };
	size_t n = history.world->nquorum;

	/* Sort the times, the longest first. */
	for (size_t i = 0; i < n; i++) {
		struct server *s = &history.world->quorum[i];
		int64_t us = server_has(s, t->who, "GET %s", t->key)
		                     ? server_number(s, "PTTL %s", t->key) * MS
		                     : 0;
		size_t at = i;
		for (; at > 0 && left[at - 1] < us; at--)
			left[at] = left[at - 1];
		left[at] = us;
	}
	return left[n / 2];
}

/* True if the try has the lock in Redis now. A rule's lock has the try's value; a verb's
 * fencing token is in the record. */
bool history_has(const struct try *t)
{
	char fence[32];

	if (t->of_quorum)
		return has_majority(t, 0);
	if (!t->is_verb)
		return redis_has(t->who, "GET %s", t->key);
	snprintf(fence, sizeof(fence), "%lld", (long long)t->fence);
	return redis_number("EXISTS %s", t->key) == 1 &&
	       (redis_has(fence, "GET hasp:fence:{%s}", t->key) ||
	        redis_has(fence, "HVALS hasp:fence:{%s}", t->key));
}

/* True if Redis has the lock for the try, even if the try was not answered. */
static bool is_kept(const struct try *t)
{
	char field[64];

	if (t->of_quorum)
		return votes(t, 0) > 0;
	if (!t->is_named)
		return t->fence && history_has(t);
	if (t->shared) {
		/* A reader whose lease is over stays in the hash until a client asks for the
		 * lock. */
		snprintf(field, sizeof(field), "EXISTS {%%s}:%s:rwlock_timeout:1", t->who);
		return redis_number(field, t->key) == 1;
	}
	if (t->is_writer) {
		/* The writer may stay as a reader. */
		snprintf(field, sizeof(field), "%s:write", t->who);
		return redis_has(field, "HKEYS %s", t->key);
	}
	return redis_has(t->who, "GET %s", t->key) || redis_has(t->who, "HKEYS %s", t->key) ||
	       redis_has(t->who, "ZRANGE %s 0 -1", t->key);
}

static bool is_queued(const struct try *t)
{
	return redis_has(t->who, "ZRANGE hasp:queue:{%s} 0 -1", t->key);
}

/* --- locks that nobody gets --------------------------------------------------------------- */

void history_add_key(const char *key)
{
	HASP_ASSERT(history.nkeys < KEYS_MAX);
	history.keys[history.nkeys] = key;
	history.idle_since[history.nkeys++] = -1;
}

/* True if the try has waited for the key since then, without a fault. */
static bool waits_since(const struct try *t, const char *key, int64_t since)
{
	return t->state == TRY_ASKED && strcmp(t->key, key) == 0 && t->sent <= since &&
	       world_now() < t->sent + t->wait_us && !is_disturbed(t, since);
}

static const struct try *idle_waiter(const char *key, int64_t since)
{
	for (struct list *at = history.tries.next; at != &history.tries; at = at->next) {
		const struct try *t = container_of(at, struct try, node);
		/* (A try that waits for several locks is in the queue of one.) */
		if (!t->of_quorum && waits_since(t, key, since) && (t->is_fair || is_queued(t)))
			return t;
	}
	return NULL;
}

static void watch_key(size_t i)
{
	const struct try *t;

	if (redis_number("EXISTS %s", history.keys[i]) != 0 ||
	    history.redis->machine.disturbed_until >= world_now()) {
		history.idle_since[i] = -1;
		return;
	}
	if (history.idle_since[i] < 0) {
		history.idle_since[i] = world_now();
		history.was_released[i] = false;
	}
	if (world_now() - history.idle_since[i] <
	    (history.was_released[i] ? RELEASED_MOST : IDLE_MOST))
		return;
	t = idle_waiter(history.keys[i], history.idle_since[i]);
	if (t)
		history_fail("idle: %s waits for %s, which is free", t->who, t->key);
	history.idle_since[i] = -1;
}

/* True if a client has the lock, whose lease may end soon. */
static bool is_had(const char *key)
{
	for (struct list *at = history.tries.next; at != &history.tries; at = at->next) {
		const struct try *t = container_of(at, struct try, node);
		if (strcmp(t->key, key) == 0 && t->state != TRY_ASKED && t->state != TRY_OVER)
			return true;
	}
	return false;
}

/* Notes that the lock has been released, or taken: another client may have it by now. */
static void note_change(const char *key, bool is_released)
{
	is_released = is_released && !is_had(key);
	for (size_t i = 0; i < history.nkeys; i++)
		if (strcmp(history.keys[i], key) == 0) {
			history.idle_since[i] = is_released ? world_now() : -1;
			history.was_released[i] = is_released;
		}
}

static bool is_partner(const struct try *t, const struct try *o)
{
	return o != t && t->is_crowd && strcmp(o->key, t->key) == 0 &&
	       strcmp(o->who, t->who) == 0;
}

/* True if another client has a hold of the same owner. */
static bool has_partner(const struct try *t)
{
	for (struct list *at = history.tries.next; at != &history.tries; at = at->next) {
		const struct try *o = container_of(at, struct try, node);
		if (is_partner(t, o) && o->state != TRY_OVER)
			return true;
	}
	return false;
}

/* True if another client had a hold of the same owner until later: the check of that hold sees
 * what is left. */
static bool has_later_partner(const struct try *t)
{
	for (struct list *at = history.tries.next; at != &history.tries; at = at->next) {
		const struct try *o = container_of(at, struct try, node);
		if (is_partner(t, o) && o->check_at > world_now())
			return true;
	}
	return false;
}

/* True if Redis may still have the lock: hasp releases no lock whose lease is over, but Redis'
 * date was set back, or another connection of the same owner has begun the lease again. */
static bool may_outlast_hasp(const struct try *t)
{
	return t->lease_ends <= world_now() && history.redis->machine.date_offset < 0;
}

/* True if a server was paused, or its network held up, and may have begun the lease when hasp
 * had given the try up. */
static bool may_vote_late(const struct try *t)
{
	for (size_t i = 0; i < history.world->nquorum; i++) {
		const struct machine *m = &history.world->quorum[i].machine;
		if (m->paused_until >= t->sent ||
		    m->disturbed_until - FAULTS_RECOVERY >= t->sent)
			return true;
	}
	return false;
}

/* True if a hasp may have been paused when a lease of `lease_us` ended, and so have forgotten
 * the hold: the lease had begun before, and each pause may follow another one at once. */
static bool was_paused_past(const struct machine *hasp, int64_t lease_us)
{
	return hasp->longest_pause >= lease_us / 2;
}

/* True if a hasp was killed, or paused past the end of a lease, and has not released the locks
 * of its clients. */
static bool may_be_left(const struct try *t)
{
	if (t->of_quorum && may_vote_late(t))
		return true;
	if (!t->is_crowd)
		return t->hasp->died_at >= t->sent || may_outlast_hasp(t);
	for (size_t i = 0; i < history.world->nhasps; i++) {
		const struct machine *m = &history.world->hasps[i].machine;
		/* A hold that hasp cannot release before its own lease ends lasts as long as
		 * other clients of the owner go on locking. */
		if (m->died_at >= t->sent - CROWD_LEAST || was_paused_past(m, t->lease_us) ||
		    m->longest_stall >= t->lease_us / 2)
			return true;
	}
	return history.redis->machine.date_offset < 0;
}

/* Checks that the try is gone from Redis that long after `at`. */
static void check_kept_after(struct try *t, int64_t at)
{
	t->over_at = at;
	t->check_at = at + (t->of_quorum ? KEPT_BY_QUORUM : KEPT_MOST);
}

static void check_kept(struct try *t)
{
	int64_t until = away_until(t) - (t->of_quorum ? FAULTS_RECOVERY : 0);

	if (until >= t->over_at) {
		check_kept_after(t, until + 1);
		return;
	}
	if (has_partner(t)) {
		check_kept_after(t, world_now());
		return;
	}
	t->check_at = 0;
	if (!has_later_partner(t) && !may_be_left(t) && is_kept(t))
		history_fail("kept: %s still has %s", t->who, t->key);
}

static void on_watch(struct event *e)
{
	for (struct list *at = history.tries.next; at != &history.tries; at = at->next) {
		struct try *t = container_of(at, struct try, node);
		if (t->check_at && t->check_at <= world_now())
			check_kept(t);
	}
	for (size_t i = 0; i < history.nkeys; i++)
		watch_key(i);
	world_schedule_in(e, WATCH_US);
}

/* --- tries -------------------------------------------------------------------------------- */

struct try *history_ask(const struct try *from)
{
	struct try *t = xcalloc(1, sizeof(*t));

	*t = *from;
	t->state = TRY_ASKED;
	t->sent = world_now();
	t->number = ++history.ntries;
	t->lease_ends = t->sent + t->wait_us + t->lease_us;
	for (struct list *at = history.tries.next; at != &history.tries && t->is_fair;
	     at = at->next) {
		const struct try *o = container_of(at, struct try, node);
		if (o->state == TRY_ASKED && strcmp(o->key, t->key) == 0 && !o->is_crowd &&
		    is_queued(o) && t->nahead < sizeof(t->ahead) / sizeof(t->ahead[0]))
			t->ahead[t->nahead++] = o->number;
	}
	list_append(&history.tries, &t->node);
	return t;
}

static void check_order(const struct try *t)
{
	for (struct list *at = history.tries.next; at != &history.tries; at = at->next) {
		const struct try *o = container_of(at, struct try, node);
		for (size_t i = 0; i < t->nahead; i++)
			if (t->ahead[i] == o->number && o->state == TRY_ASKED &&
			    world_now() < o->sent + o->wait_us - ON_THE_WAY &&
			    disturbed_until(o) - FAULTS_RECOVERY + 2 * ON_THE_WAY < o->sent &&
			    is_queued(o))
				history_fail("overtaken: %s gets %s before %s, which had been "
				             "in the queue",
				             t->who, t->key, o->who);
	}
}

static bool excludes(const struct try *a, const struct try *b)
{
	return a != b && strcmp(a->key, b->key) == 0 && !(a->shared && b->shared) &&
	       strcmp(a->who, b->who) != 0;
}

static bool believes(const struct try *t)
{
	return t->state == TRY_HELD && !t->was_lost;
}

static void check_holders(struct try *t)
{
	int nsure = 1;

	for (struct list *at = history.tries.next; at != &history.tries; at = at->next) {
		struct try *o = container_of(at, struct try, node);
		if (!excludes(t, o) || !believes(o))
			continue;
		/* hasp may know before the client that the connection is over. */
		if (o->ends_with_connection &&
		    (o->client->disturbed_until >= o->granted || simnet_is_ended(o->client)))
			continue;
		if (o->sure_until > world_now()) {
			nsure++;
			if (nsure > t->limit)
				history_fail("two holders: %s gets %s, which %s has", t->who,
				             t->key, o->who);
		} else if (o->limit == 1) {
			o->was_lost = true;
			if (o->is_renewed && !is_disturbed(o, o->granted))
				history_fail("lost: %s gets %s, which is renewed for %s",
				             t->who, t->key, o->who);
		}
	}
}

/* True if one connection got the same token twice because it had a further hold of the lock
 * throughout, from a try that a fault has kept hasp from undoing. */
static bool may_be_one_lock(const struct try *o, const struct try *t)
{
	return o->client == t->client && !o->is_named && !t->is_named && o->fence == t->fence &&
	       is_disturbed(t, o->sent);
}

static void check_fence(struct try *t)
{
	/* Tokens that were granted before this one was asked for are known. (But an owner that
	 * asks again may still have the lock that it gave up waiting for: then it gets the old
	 * token. And a further hold of a crowd of readers has the token of the first hold.) */
	if (t->is_crowd && t->shared)
		return;
	for (struct list *at = history.tries.next; at != &history.tries; at = at->next) {
		const struct try *o = container_of(at, struct try, node);
		if (may_be_one_lock(o, t))
			continue;
		if (o != t && o->fence && o->granted < t->sent && o->fence >= t->fence &&
		    ((t->is_named && !t->is_crowd) || strcmp(o->key, t->key) == 0) &&
		    strcmp(o->who, t->who) != 0 &&
		    !(history.data_lost_at >= o->fence_asked &&
		      history.redis->machine.date_offset < 0)) {
			history_fail("fence: %s gets %lld for %s, after %s got %lld", t->who,
			             (long long)t->fence, t->key, o->who, (long long)o->fence);
			return;
		}
	}
}

/* Returns until when the client surely has the lock, whose lease begins with this answer. */
static int64_t sure_until(const struct try *t)
{
	int64_t us = t->lease_us * SURE_PERCENT / 100, kept;

	if (t->of_quorum) {
		kept = majority_keeps(t);
		us = t->is_renewed && kept > t->lease_us - QUORUM_TAKES
		             ? t->lease_us - QUORUM_TAKES
		             : kept;
	}
	return world_now() + us;
}

/* True if, since `t` was sent, a client of the same owner has released a hold that Redis had
 * lost: Redis may have released the hold of `t` instead. */
static bool is_released_by_partner(const struct try *t)
{
	for (struct list *at = history.tries.next; at != &history.tries; at = at->next) {
		const struct try *o = container_of(at, struct try, node);
		if (is_partner(t, o) && o->was_lost && is_releasing_at(o, t->sent))
			return true;
	}
	return false;
}

void history_grant(struct try *t, int64_t fence)
{
	HASP_ASSERT(t->state == TRY_ASKED);
	t->state = TRY_HELD;
	t->granted = world_now();
	t->fence = fence;
	t->fence_asked = t->sent;
	history.ngrants++;
	note_change(t->key, false);
	if (t->is_verb)
		check_fence(t);
	if (!history_has(t)) {
		t->was_lost = true;
		/* hasp may have ended the connection already: the client is about to see
		 * that. */
		if (!(t->ends_with_connection && simnet_is_ended(t->client)) &&
		    !is_released_by_partner(t) && t->client->disturbed_until < t->sent &&
		    history.data_lost_at < t->sent &&
		    (t->of_quorum ? !may_lack_vote(t) && !has_majority(t, ANSWER_MOST)
		                  : t->is_rechecked || !is_disturbed(t, t->sent)))
			history_fail("not held: %s is told that it has %s", t->who, t->key);
		else if (t->is_marked && t->client->disturbed_until < t->sent &&
		         t->answer_began > t->sent + t->lease_us &&
		         history.data_lost_at < t->sent &&
		         redis_number("EXISTS over:%s", t->who) == 0)
			history_fail("over: %s is told that it has %s, long after its lease",
			             t->who, t->key);
		return;
	}
	t->lease_ends = t->sent + t->lease_us;
	t->sure_until = sure_until(t);
	if (!t->is_rechecked && is_disturbed(t, t->sent))
		t->sure_until = 0;
	if (t->client->disturbed_until >= t->sent || is_released_by_partner(t))
		t->sure_until = 0;
	check_holders(t);
	if (t->is_fair)
		check_order(t);
}

/* `is_gone`: the lock is soon gone in Redis, too. */
static void set_over(struct try *t, bool is_gone)
{
	t->state = TRY_OVER;
	if (t->is_renewed)
		t->lease_ends = world_now() + t->lease_us;
	if (is_gone)
		check_kept_after(t, world_now());
}

void history_change(struct try *t)
{
	t->release_sent = world_now();
	if (t->sure_until > world_now())
		t->sure_until = world_now();
	t->is_renewed = false;
}

void history_changed(struct try *t, int64_t lease_us, int64_t fence)
{
	t->lease_us = lease_us;
	t->lease_ends = t->release_sent + lease_us;
	if (fence && fence != t->fence) {
		/* The lease had ended, and this is another lock. */
		t->fence = fence;
		t->was_lost = false;
		t->sent = t->fence_asked = t->release_sent;
		t->granted = world_now();
	}
	if (history_has(t)) {
		/* A late vote of a quorum can replace one that a server has lost. */
		t->was_lost = t->was_lost && !t->of_quorum;
		if (t->client->disturbed_until < t->release_sent)
			t->sure_until = sure_until(t);
		check_holders(t);
	} else if (!is_disturbed(t, t->sent) && !t->was_lost) {
		history_fail("not held: %s is told that it still has %s", t->who, t->key);
	}
}

void history_change_refused(struct try *t)
{
	if (t->granted + t->lease_us * SURE_PERCENT / 100 > world_now() && !t->was_lost &&
	    !t->of_quorum && !is_disturbed(t, t->sent))
		history_fail("refused: %s may not extend %s, which it has", t->who, t->key);
	set_over(t, false);
}

/* Reports an answer that comes long after it was due. */
static void check_time(const struct try *t, const char *what)
{
	int64_t due = t->sent + t->wait_us;

	if (world_now() > due + GRACE && !is_disturbed(t, t->sent))
		history_fail("late: %s is told %lld ms after its time that it %s %s", t->who,
		             (long long)((world_now() - due) / MS), what, t->key);
}

void history_refuse(struct try *t)
{
	set_over(t, true);
	check_time(t, "does not get");
	/* (hasp counts what is left of a wait in whole ms.) */
	if (world_now() <= t->sent + t->wait_us - (t->of_quorum ? QUORUM_PAUSE : MS))
		history_fail("early: %s does not get %s, and had %lld ms more to wait", t->who,
		             t->key, (long long)((t->sent + t->wait_us - world_now()) / MS));
}

/* True if hasp could not renew the held lock, because its network was held up. Then hasp logs
 * that the lock is lost, and closes its client if it drains. */
static bool may_be_closed(const struct try *t)
{
	return t->state == TRY_RELEASING && t->hasp->stalled_until >= t->granted &&
	       t->hasp->longest_stall >= t->lease_us / 2;
}

void history_fail_try(struct try *t, const char *why)
{
	bool excused = may_be_closed(t);
	int64_t since = t->state == TRY_RELEASING ? t->release_sent
	                : t->state == TRY_HELD    ? t->granted
	                                          : t->sent;

	set_over(t, t->ends_with_connection);
	if (!excused && !is_disturbed(t, t->of_quorum ? since - QUORUM_RECOVERY : since))
		history_fail("failed: %s with %s: %s", t->who, t->key, why);
}

void history_circle(const struct try *t, int64_t lease_us)
{
	bool may_wait_for_dead = t->hasp->died_at >= 0 &&
	                         t->hasp->died_at + lease_us >= t->sent;

	if (!is_disturbed(t, t->sent) && !may_wait_for_dead)
		history_fail("circle: %s waited for %s to the end", t->who, t->key);
}

void history_give_up(struct try *t)
{
	set_over(t, t->ends_with_connection);
}

void history_release(struct try *t)
{
	/* If the try has lost the lock, its release may free the lock of a client of the same
	 * owner. */
	for (struct list *at = history.tries.next; at != &history.tries && t->was_lost;
	     at = at->next) {
		struct try *o = container_of(at, struct try, node);
		if (is_partner(t, o))
			o->sure_until = 0;
	}
	t->state = TRY_RELEASING;
	t->release_sent = world_now();
}

void history_keep(struct try *t)
{
	t->state = TRY_HELD;
}

void history_released(struct try *t, bool confirmed)
{
	bool sure = t->sure_until > t->release_sent + ON_THE_WAY ||
	            (t->is_renewed && !is_disturbed(t, t->granted)),
	     explained;

	/* A server of a quorum that was paused may begin a lease late, and alone. */
	set_over(t, confirmed || !t->of_quorum);
	note_change(t->key, confirmed);
	if (confirmed && t->was_lost && t->limit == 1 && history.data_lost_at < t->granted &&
	    t->sure_until)
		history_fail("stolen: %s has released %s, which was another's by then", t->who,
		             t->key);
	/* (No fault but a loss of data takes a hold whose owner has several clients.) */
	explained = t->is_crowd ? t->sure_until <= world_now() || is_released_by_partner(t)
	                        : is_disturbed(t, t->release_sent);
	if (!confirmed && sure && !t->was_lost && !explained)
		history_fail("refused: %s does not release %s, which it has", t->who, t->key);
}
