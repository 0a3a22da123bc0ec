/* SPDX-License-Identifier: BSD-3-Clause
 *
 * model_locks: clients that take one lock after the other, work, and release it: by rules, by
 * verbs, as semaphores and as read-write locks. What each promises is in the history.
 *
 *   idle --> asks --granted--> works --> releases --> idle
 *              |                 |'--> hangs up, oversleeps
 *              |                 '--> extends, asks again, takes the read side, too --> works
 *              '--refused, error, hangs up--> idle
 */
#include <stdio.h>
#include <string.h>

#include "tests/sim/app.h"
#include "base/fatal.h"
#include "tests/sim/history.h"
#include "tests/sim/models.h"

#define LOCKERS 8
#define THINK_MOST (400 * MS)
#define WORK_MOST (300 * MS)
/* In ms: so long that a missing release is noticed. */
#define LONG_LEASE 20000
/* The longest lease at a quorum: a server that has just begun counts after it. */
#define QUORUM_LEASE 3000

/* One way to lock a key. */
struct way {
	const char *key;
	const char *ask; /* %s: the key; then OPTIONS */
	const char *release;
	bool is_verb, shared, is_writer, is_fair, of_quorum, ends_with_connection;
	bool again; /* the owner may ask again */
	bool counts; /* the owner gives back each hold */
	bool in_multi; /* the command is in a transaction */
	int limit;
	int rule_wait_ms; /* the rule's `wait`; -1: the command names it */
	int lease_ms; /* the lease if the command names none: hasp then renews it */
};

/* clang-format off */
#define RULE(key_, how) .key = key_, .ask = how, .release = "DEL", .limit = 1, .lease_ms = 2000
#define VERB(key_, how) .key = key_, .ask = how, .release = "UNLOCK", .is_verb = true, \
	.rule_wait_ms = -1, .lease_ms = 2000
#define OF_QUORUM(key_) .key = key_, .ask = "", .release = "UNLOCK", .is_verb = true, .limit = 1, \
	.rule_wait_ms = -1, .lease_ms = QUORUM_LEASE, .of_quorum = true, \
	.ends_with_connection = true

static const struct way rules[] = {
	{ RULE("lock:waits:a", "SET"), .rule_wait_ms = 1500, .is_fair = true },
	{ RULE("lock:waits:b", "SETNX"), .rule_wait_ms = 1500, .is_fair = true },
	{ RULE("lock:plain:a", "SET") },
	{ RULE("lock:plain:b", "SETNX") },
	{ RULE("lock:value:a", "SET"), .rule_wait_ms = 600, .is_fair = true },
	{ RULE("lock:free:a", "SET"), .rule_wait_ms = 1500, .is_fair = true,
	  .ends_with_connection = true },
	{ .key = "lock:multi:a", .ask = "SET", .release = "DEL", .limit = 1, .lease_ms = 500,
	  .in_multi = true },
	{ .key = "lock:multi:b", .ask = "SET", .release = "DEL", .limit = 1, .lease_ms = 500,
	  .in_multi = true },
	{ .key = "lock:multi:c", .ask = "SET", .release = "DEL", .limit = 1, .lease_ms = 500,
	  .in_multi = true },
	{ .key = "lock:multi:d", .ask = "SET", .release = "DEL", .limit = 1, .lease_ms = 500,
	  .in_multi = true },
};
static const struct way verbs[] = {
	{ VERB("verb:a", ""), .limit = 1, .ends_with_connection = true },
	{ VERB("verb:b", ""), .limit = 1, .ends_with_connection = true },
	{ VERB("verb:c", ""), .limit = 1, .ends_with_connection = true },
};
static const struct way counted[] = {
	{ VERB("counted:a", ""), .limit = 1, .ends_with_connection = true, .again = true,
	  .counts = true },
	{ VERB("counted:b", ""), .limit = 1, .ends_with_connection = true, .again = true,
	  .counts = true },
};
static const struct way refreshed[] = {
	{ VERB("refreshed:a", ""), .limit = 1, .ends_with_connection = true, .again = true },
	{ VERB("refreshed:b", ""), .limit = 1, .ends_with_connection = true, .again = true },
};
static const struct way places[] = {
	{ VERB("places:a", " LIMIT 2"), .limit = 2, .again = true },
	{ VERB("places:b", " LIMIT 3"), .limit = 3, .again = true },
	{ VERB("places:c", " LIMIT 1"), .limit = 1, .again = true },
};
static const struct way quorums[] = {
	{ OF_QUORUM("quorum:a") },
	{ OF_QUORUM("quorum:b") },
};
static const struct way sides[] = {
	{ VERB("sides:a", " SHARED"), .limit = 1, .ends_with_connection = true, .again = true,
	  .counts = true, .shared = true },
	{ VERB("sides:a", " EXCLUSIVE"), .limit = 1, .ends_with_connection = true, .again = true,
	  .counts = true, .is_writer = true },
	{ VERB("sides:b", " SHARED"), .limit = 1, .ends_with_connection = true, .again = true,
	  .counts = true, .shared = true },
	{ VERB("sides:b", " EXCLUSIVE"), .limit = 1, .ends_with_connection = true, .again = true,
	  .counts = true, .is_writer = true },
};
/* clang-format on */

enum locker_state {
	LOCKER_IDLE,
	LOCKER_ASKS,
	LOCKER_WORKS,
	LOCKER_RELEASES,
	LOCKER_STEALS,
	LOCKER_CHANGES, /* extends, or asks again */
	LOCKER_READS /* a writer takes the read side, too */
};

static struct locker {
	struct app app;
	enum locker_state state;
	size_t number, serial;
	const struct way *way; /* the way of the present lock, or of the last one */
	struct try *try; /* NULL: none */
	struct try *below; /* a writer's try for the read side; or NULL */
	size_t holds; /* number of holds to give back */
	int lease_ms; /* the lease that a change sets */
	size_t nreplies; /* number of replies before the one with the result */
	bool names_owner; /* the command names the owner by AS */
	bool leaves; /* the client hangs up when it has thought */
} lockers[LOCKERS];

static struct simulation *simulation;
static const struct way *ways;
static size_t nways;
static bool crowded; /* all locks whose holds count are locks of a crowd */

/* --- asking ------------------------------------------------------------------------------- */

static void think(struct locker *l)
{
	l->state = LOCKER_IDLE;
	app_think(&l->app, chance_delay(0, THINK_MOST));
}

/* Tries to change a lock that the client does not have, which must fail. */
static void steal(struct locker *l)
{
	static const char *const by[] = {
		"DEL %s",     "PEXPIRE %s 9000", "SET %s thief XX PX 9000",
		"PERSIST %s", "GETDEL %s",       "RENAME %s gone"
	};
	const char *command = by[chance(l->way->is_verb ? 1 : sizeof(by) / sizeof(by[0]))];

	l->state = LOCKER_STEALS;
	if (l->way->is_verb)
		app_call(&l->app, "UNLOCK %s AS nobody", l->way->key);
	else
		app_call(&l->app, "%.*s%s%s", (int)(strstr(command, "%s") - command), command,
		         l->way->key, strstr(command, "%s") + 2);
}

static void ask_by_verb(struct locker *l, int lease_ms, int wait_ms)
{
	char lease[24] = "", wait[24] = "";

	if (lease_ms)
		snprintf(lease, sizeof(lease), " PX %d", lease_ms);
	if (wait_ms)
		snprintf(wait, sizeof(wait), " WAIT %d", wait_ms);
	app_call(&l->app, "LOCK %s%s%s%s%s%s", l->way->key, l->way->ask, lease, wait,
	         l->names_owner ? " AS " : "", l->names_owner ? l->try->who : "");
}

/* A late answer to a transaction is not checked again, but it is an error when the lease has
 * ended. The other key shows that it has, also if that was not just now. */
static void ask_in_multi(struct locker *l)
{
	app_call(&l->app, "MULTI");
	app_call(&l->app, "SET %s %s NX", l->way->key, l->try->who);
	app_call(&l->app, "SET over:%s 1 PX %d", l->try->who, l->way->lease_ms + 300);
	app_call(&l->app, "EXEC");
	l->nreplies = 3;
}

static void ask(struct locker *l)
{
	const struct way *k = l->way = &ways[chance(nways)];
	const int leases_ms[] = { 400, 800, 1500, k->of_quorum ? QUORUM_LEASE : LONG_LEASE };
	static const int waits_ms[] = { 0, 200, 900, 3000 };
	int lease_ms = chance_one_in(2) ? leases_ms[chance(k->ends_with_connection ? 4 : 3)]
	                                : 0;
	int wait_ms = k->rule_wait_ms >= 0 ? k->rule_wait_ms : waits_ms[chance(4)];
	struct try t = { .key = k->key,
		         .client = &l->app.machine,
		         .hasp = &simulation_hasp(simulation, l->number)->machine,
		         .limit = k->limit,
		         .shared = k->shared,
		         .is_writer = k->is_writer,
		         .is_verb = k->is_verb,
		         .is_fair = k->is_fair || (k->is_verb && !k->of_quorum),
		         .of_quorum = k->of_quorum,
		         .ends_with_connection = k->ends_with_connection,
		         .wait_us = wait_ms * MS };

	if (chance_one_in(16)) {
		steal(l);
		return;
	}
	if (strcmp(k->ask, "SETNX") == 0 || k->in_multi)
		lease_ms = 0;
	t.is_renewed = !lease_ms && !k->in_multi;
	/* hasp does not recheck a grant whose expiry the application names, unless the rule has
	 * `wait`. */
	t.is_rechecked = k->is_verb || k->rule_wait_ms || (!lease_ms && !k->in_multi);
	t.is_marked = k->in_multi;
	t.lease_us = (lease_ms ? lease_ms : k->lease_ms) * MS;
	l->names_owner = k->is_verb &&
	                 (k->limit > 1 || k->shared || k->of_quorum || chance_one_in(2));
	/* The name ends with a dot, so that no name is the beginning of another one. */
	snprintf(t.who, sizeof(t.who), "c%zu.%zu.", l->number, ++l->serial);
	if (k->counts && (crowded || chance_one_in(3))) {
		/* One owner, of which each client has a hold: the history notices a hold that
		 * is not given back, or twice. A client that joins overtakes others. */
		snprintf(t.who, sizeof(t.who), "%s",
		         k->shared      ? "readers."
		         : k->is_writer ? "writers."
		                        : "crowd.");
		t.is_crowd = l->names_owner = true;
		t.is_fair = t.is_renewed = false;
		lease_ms = LONG_LEASE;
		t.lease_us = LONG_LEASE * MS;
	}
	t.is_named = !k->is_verb || l->names_owner;
	l->try = history_ask(&t);
	l->state = LOCKER_ASKS;
	if (k->is_verb)
		ask_by_verb(l, lease_ms, wait_ms);
	else if (k->in_multi)
		ask_in_multi(l);
	else if (strcmp(k->ask, "SETNX") == 0)
		app_call(&l->app, "SETNX %s %s", k->key, t.who);
	else if (lease_ms)
		app_call(&l->app, "SET %s %s NX PX %d", k->key, t.who, lease_ms);
	else
		app_call(&l->app, "SET %s %s NX", k->key, t.who);
	/* Some clients do not wait for the answer. */
	l->leaves = wait_ms && chance_one_in(12);
	if (l->leaves)
		app_think(&l->app, chance_between(0, wait_ms) * MS);
}

/* --- what it gets ------------------------------------------------------------------------- */

static bool is_refusal(const redisReply *r)
{
	if (r->type == REDIS_REPLY_ARRAY)
		return is_refusal(r->element[0]);
	return r->type == REDIS_REPLY_NIL ||
	       (r->type == REDIS_REPLY_INTEGER && r->integer == 0);
}

static void change(struct locker *l);

static void work(struct locker *l)
{
	int64_t us = chance_delay(0, WORK_MOST);

	if (l->way->is_verb && !l->try->is_crowd && chance_one_in(8)) {
		change(l);
		return;
	}
	l->state = LOCKER_WORKS;
	l->leaves = chance_one_in(20);
	/* Oversleeps; or has more to do than a lease takes, for which it is renewed. */
	if (chance_one_in(10))
		us += l->try->is_crowd ? 0 : l->try->lease_us * 3 / 2;
	app_think(&l->app, us);
}

/* --- what it does with the lock ----------------------------------------------------------- */

static const char *as(const struct locker *l)
{
	static char text[32];

	snprintf(text, sizeof(text), "%s%s", l->names_owner ? " AS " : "",
	         l->names_owner ? l->try->who : "");
	return text;
}

static void release(struct locker *l)
{
	l->state = LOCKER_RELEASES;
	history_release(l->try);
	/* Some clients do not wait for the answer: whether the release runs or hasp gives the
	 * hold back at the end of the connection, it is given back once. */
	l->leaves = l->try->is_crowd && chance_one_in(6);
	if (l->leaves)
		app_think(&l->app, chance_delay(0, WORK_MOST / 10));
	app_call(&l->app, "%s %s%s",
	         l->way->is_verb && !l->way->of_quorum && chance_one_in(4) ? "MUNLOCK 1"
	                                                                   : l->way->release,
	         l->way->key, as(l));
}

static void change(struct locker *l)
{
	bool again = l->way->again && chance_one_in(2);

	l->state = LOCKER_CHANGES;
	l->lease_ms = (int)chance_between(400, 1500);
	history_change(l->try);
	if (again)
		app_call(&l->app, "LOCK %s%s PX %d%s", l->way->key,
		         l->try->shared ? " SHARED" : l->way->ask, l->lease_ms, as(l));
	else
		app_call(&l->app, "LOCK.EXTEND %s PX %d%s", l->way->key, l->lease_ms, as(l));
	l->holds += again && l->way->counts;
}

static void on_changed(struct locker *l, const redisReply *r)
{
	if (r->type == REDIS_REPLY_ERROR || is_refusal(r)) {
		if (r->type == REDIS_REPLY_ERROR)
			history_fail_try(l->try, r->str);
		else
			history_change_refused(l->try);
		l->try = NULL;
		app_hang_up(&l->app);
		return;
	}
	history_changed(l->try, l->lease_ms * MS, r->integer > 1 ? r->integer : 0);
	work(l);
}

/* The writer becomes a reader, beside whom others may read. */
static void take_read_side(struct locker *l)
{
	struct try t = *l->try;

	t.shared = true;
	t.is_writer = t.is_fair = t.is_renewed = false;
	t.wait_us = 0;
	l->lease_ms = (int)chance_between(400, 1500);
	t.lease_us = l->lease_ms * MS;
	l->state = LOCKER_READS;
	l->below = history_ask(&t);
	app_call(&l->app, "LOCK %s SHARED PX %d%s", l->way->key, l->lease_ms, as(l));
}

static void on_read_side(struct locker *l, const redisReply *r)
{
	if (r->type == REDIS_REPLY_ERROR || is_refusal(r) ||
	    world_now() >= l->try->sure_until) {
		/* The lease of the write side may have ended. */
		history_give_up(l->below);
		history_give_up(l->try);
		l->try = l->below = NULL;
		app_hang_up(&l->app);
		return;
	}
	history_grant(l->below, r->integer);
	release(l);
}

static void on_asked(struct locker *l, const redisReply *r)
{
	if (r->type == REDIS_REPLY_ERROR) {
		history_fail_try(l->try, r->str);
		l->try = NULL;
		app_hang_up(&l->app);
	} else if (is_refusal(r)) {
		history_refuse(l->try);
		l->try = NULL;
		think(l);
	} else {
		l->try->answer_began = l->app.reply_began;
		history_grant(l->try, l->way->is_verb ? r->integer : 0);
		l->holds = 1;
		work(l);
	}
}

static void on_released(struct locker *l, const redisReply *r)
{
	if (r->type != REDIS_REPLY_ERROR && !is_refusal(r) && --l->holds) {
		history_keep(l->try);
		release(l);
		return;
	}
	if (r->type == REDIS_REPLY_ERROR)
		history_fail_try(l->try, r->str);
	else
		history_released(l->try, !is_refusal(r));
	l->try = l->below;
	l->below = NULL;
	l->holds = 1;
	l->try ? work(l) : think(l);
}

static void on_reply(struct app *c, const redisReply *r)
{
	struct locker *l = container_of(c, struct locker, app);

	if (l->nreplies) {
		l->nreplies--;
		return;
	}
	switch (l->state) {
	case LOCKER_CHANGES:
		on_changed(l, r);
		break;
	case LOCKER_READS:
		on_read_side(l, r);
		break;
	case LOCKER_ASKS:
		on_asked(l, r);
		break;
	case LOCKER_RELEASES:
		on_released(l, r);
		break;
	case LOCKER_STEALS:
		if ((r->type == REDIS_REPLY_INTEGER && r->integer) ||
		    r->type == REDIS_REPLY_STATUS || r->type == REDIS_REPLY_STRING)
			history_fail("stolen: %s has changed %s, which it never had",
			             c->machine.name, l->way->key);
		think(l);
		break;
	case LOCKER_IDLE:
	case LOCKER_WORKS:
		/* hasp says why it is going to close the connection. */
		break;
	}
}

static void hang_up(struct locker *l)
{
	history_give_up(l->try);
	l->try = NULL;
	if (chance_one_in(2)) {
		app_hang_up(&l->app);
	} else {
		app_half_close(&l->app);
		l->state = LOCKER_IDLE;
	}
}

static void on_thought(struct app *c)
{
	struct locker *l = container_of(c, struct locker, app);

	if (l->try && l->leaves)
		hang_up(l);
	else if (l->state == LOCKER_WORKS && l->way->is_writer && l->try->is_writer &&
	         !l->try->is_crowd && l->holds == 1 && chance_one_in(3))
		take_read_side(l);
	else if (l->state == LOCKER_WORKS)
		release(l);
	else if (simulation->closing)
		app_fini(c);
	else
		ask(l);
}

static void on_connected(struct app *c)
{
	struct locker *l = container_of(c, struct locker, app);

	if (simulation->closing)
		app_fini(c);
	else
		think(l);
}

static void on_lost(struct app *c)
{
	struct locker *l = container_of(c, struct locker, app);

	if (l->below)
		history_fail_try(l->below, "the connection is lost");
	if (l->try)
		history_fail_try(l->try, "the connection is lost");
	l->try = l->below = NULL;
	l->nreplies = 0;
	if (simulation->closing)
		app_fini(c);
}

/* --- the models --------------------------------------------------------------------------- */

static const struct app_ops ops = { on_connected, on_reply, on_lost, on_thought };

static void begin(struct simulation *s, const struct way *its_ways, size_t n)
{
	simulation = s;
	ways = its_ways;
	nways = n;
	crowded = ways[0].counts && chance_one_in(2);
	memset(lockers, 0, sizeof(lockers));
	for (size_t i = 0; i < n; i++)
		if (i == 0 || strcmp(ways[i].key, ways[i - 1].key) != 0)
			history_add_key(ways[i].key);
	for (size_t i = 0; i < LOCKERS; i++) {
		struct locker *l = &lockers[i];
		l->number = i;
		app_start(&l->app, i, simulation_port(s, i), &ops);
	}
}

/* clang-format off */
#define BEGIN(which) \
	static void begin_##which(struct simulation *s) \
	{ \
		begin(s, which, sizeof(which) / sizeof(which[0])); \
	}
/* clang-format on */

BEGIN(rules)
BEGIN(verbs)
BEGIN(counted)
BEGIN(refreshed)
BEGIN(places)
BEGIN(sides)
BEGIN(quorums)
#define begin_majorities begin_quorums

static const char *who_hangs(void)
{
	static char line[96];

	for (size_t i = 0; i < LOCKERS; i++) {
		if (lockers[i].app.has_left)
			continue;
		snprintf(line, sizeof(line), "%s, in state %d", lockers[i].app.machine.name,
		         lockers[i].state);
		return line;
	}
	return NULL;
}

static void end(void)
{
	for (size_t i = 0; i < LOCKERS; i++)
		app_fini(&lockers[i].app);
}

static bool may_stay(struct slice key)
{
	return slice_eq(key, SLICE_LIT("hasp:fence"));
}

/* True for the keys that remember further holds of a lock, and last for a minute longer: see
 * add_hold() in verbs.lua. */
static bool may_stay_counted(struct slice key)
{
	return may_stay(key) || slice_starts(key, SLICE_LIT("hasp:owner:{"));
}

#define may_stay_rules may_stay
#define may_stay_verbs may_stay
#define may_stay_refreshed may_stay
#define may_stay_places may_stay
#define may_stay_sides may_stay_counted

/* clang-format off */
#define MODEL(which, about_, ini_) \
	const struct model model_##which = { \
		.name = #which, \
		.about = about_, \
		.ini = ini_, \
		.nhasps = 2, \
		.nworkers = 2, \
		.begin = begin_##which, \
		.who_hangs = who_hangs, \
		.may_stay = may_stay_##which, \
		.end = end, \
	}
/* clang-format on */

MODEL(rules, "locks under rules, with and without wait",
      "[lock waits]\npattern = lock:waits:*\nlease = 2s\nwait = 1500ms\nrenew = unleased\n"
      "[lock plain]\npattern = lock:plain:*\nlease = 2s\nrenew = unleased\n"
      "[lock multi]\npattern = lock:multi:*\nlease = 500ms\nrenew = unleased\n"
      "[lock value]\npattern = lock:value:*\nowner = value\nlease = 2s\nwait = 600ms\n"
      "renew = unleased\n"
      "[lock free]\npattern = lock:free:*\nlease = 2s\nwait = 1500ms\nrenew = unleased\n"
      "on_disconnect = release\n");
MODEL(verbs, "LOCK and UNLOCK, with and without WAIT",
      "[verbs]\nreentrant = no\nlease = 2s\non_disconnect = release\n");
MODEL(counted, "LOCK and UNLOCK, whose owners lock again and count their holds",
      "[verbs]\nreentrant = count\nlease = 2s\non_disconnect = release\n");
MODEL(refreshed, "the same, with holds that are not counted",
      "[verbs]\nreentrant = refresh\nlease = 2s\non_disconnect = release\n");
MODEL(places, "semaphores: LOCK with LIMIT", "[verbs]\nreentrant = count\nlease = 2s\n");
MODEL(sides, "read-write locks: LOCK with SHARED and EXCLUSIVE",
      "[verbs]\nreentrant = count\nlease = 2s\non_disconnect = release\n");
/* clang-format off */
#define OF_SERVERS(which, about_, nquorum_, quorum_ini) \
	const struct model model_##which = { \
		.name = #which, \
		.about = about_, \
		.ini = "[quorum q]\nservers = 10.0.0.1:6380 10.0.0.1:6381 10.0.0.1:6382" quorum_ini \
		       "\n[verbs]\nquorum = q\nreentrant = no\nlease = 3s\nmax_lease = 3s\n" \
		       "on_disconnect = release\n", \
		.nhasps = 2, \
		.nworkers = 2, \
		.nquorum = nquorum_, \
		.votes_late = nquorum_ == 5, \
		.needs_data = true, \
		.begin = begin_##which, \
		.who_hangs = who_hangs, \
		.may_stay = may_stay, \
		.end = end, \
	}
/* clang-format on */

OF_SERVERS(quorums, "LOCK and UNLOCK of a quorum of three servers", 3, "");
OF_SERVERS(majorities, "the same with five servers, whose votes may come after a short lease",
           5, " 10.0.0.1:6383 10.0.0.1:6384\ntimeout = 1s");
