/* SPDX-License-Identifier: BSD-3-Clause
 *
 * model_legacy: locks under rules, and clients that meddle with them by any other command: they
 * overwrite, count, delete and expire what another client holds. While a client surely has a
 * lock each of these commands must be refused, the lock must have the client's value, and an
 * expiry.
 *
 * A client surely has a lock from the answer that granted it until its lease is over, counted
 * from when it asked, or until it sends its release or loses its connection.
 */
#include "tests/sim/models.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/app.h"
#include "tests/sim/history.h"

#define CLIENTS 4
#define THINK_MOST (400 * MS)
#define LEASE_MS 3000

enum kind { BY_CONNECTION, BY_VALUE, COUNTERS };

static struct lock {
	const char *key;
	enum kind kind;
	struct legacy *holder; /* NULL: no client surely has the lock */
	int64_t sure_until;
	char value[64]; /* the holder's value */
	unsigned epoch; /* changes with the holder */
	int64_t murky_until; /* a DECR of an earlier epoch may still take away another one's
	                        part */
} locks[] = {
	{ .key = "legacy:a", .kind = BY_CONNECTION },
	{ .key = "legacy:value:b", .kind = BY_VALUE },
	{ .key = "legacy:count:c", .kind = COUNTERS },
};
#define LOCKS (sizeof(locks) / sizeof(*locks))

/* The command that a client has sent. */
enum act {
	NOTHING,
	TAKE,
	COUNT,
	REWRITE,
	ADD,
	EXTEND,
	LOOK,
	RELEASE,
	TAKE_BACK,
	MEDDLE,
	CLEAN
};

/* How a command that is not the holder's is refused. */
enum refusal { LOCKED, ZERO, NIL };

static const struct {
	const char *command, *rest; /* the parts before and after the key */
	enum refusal refusal;
	bool takes; /* the command takes a free lock */
} meddling[] = {
	{ "SET", " x", LOCKED, true },          { "SET", " x XX PX 900", NIL, false },
	{ "SET", " x KEEPTTL", LOCKED, true },  { "GETSET", " x", LOCKED, true },
	{ "SETEX", " 2 x", LOCKED, true },      { "DEL", "", ZERO, false },
	{ "UNLINK", "", ZERO, false },          { "EXPIRE", " 1", ZERO, false },
	{ "PEXPIRE", " 9000", ZERO, false },    { "PERSIST", "", ZERO, false },
	{ "APPEND", " x", LOCKED, true },       { "INCRBY", " 5", LOCKED, true },
	{ "DECRBY", " 1000", LOCKED, true },    { "GETDEL", "", LOCKED, false },
	{ "GETEX", " PERSIST", LOCKED, false }, { "MSET", " x", LOCKED, true },
	{ "MSETNX", " x", ZERO, true },         { "RENAME", " free", LOCKED, false },
};
#define MEDDLING (sizeof(meddling) / sizeof(*meddling))

static struct legacy {
	struct app client;
	enum act act; /* the command that is not answered yet */
	size_t how; /* index of meddling[] */
	struct lock *lock;
	unsigned epoch; /* the lock's epoch when the command was sent */
	int64_t sent;
	char value[64]; /* the value that the client sent */
	unsigned nvalues;
	bool added; /* the client has counted up a counter of `added_epoch` */
	unsigned added_epoch;
} clients[CLIENTS];

static struct simulation *simulation;

static bool is_sure(const struct lock *l)
{
	return l->holder && world_now() < l->sure_until;
}

/* True if the lock has been one client's from when the command was sent until now. */
static bool was_sure(const struct legacy *p)
{
	return is_sure(p->lock) && p->lock->epoch == p->epoch;
}

/* Longer than any request is under way. */
#define MURKY (20 * SECOND)

static void note_late_requests(struct lock *l)
{
	for (int i = 0; i < CLIENTS; i++)
		if (clients[i].lock == l && clients[i].act == TAKE_BACK)
			l->murky_until = world_now() + MURKY;
}

/* The application chose the lease, so hasp passes a late answer on: its client has nothing
 * then. */
static void hold(struct legacy *p)
{
	struct lock *l = p->lock;

	if (world_now() >= p->sent + LEASE_MS * MS)
		return;
	if (is_sure(l) && l->holder != p)
		history_fail("two holders: %s gets %s, which %s surely has",
		             p->client.machine.name, l->key, l->holder->client.machine.name);
	if (l->holder != p || world_now() >= l->sure_until) {
		l->epoch++;
		note_late_requests(l);
	}
	l->holder = p;
	l->sure_until = p->sent + LEASE_MS * MS;
	snprintf(l->value, sizeof(l->value), "%s", p->value);
}

static void let_go(struct legacy *p, struct lock *l)
{
	if (l->holder != p)
		return;
	l->holder = NULL;
	l->epoch++;
}

/* --- what a client does ------------------------------------------------------------------- */

static void new_value(struct legacy *p)
{
	snprintf(p->value, sizeof(p->value), "%s.%u", p->client.machine.name, ++p->nvalues);
}

static void act_as_holder(struct legacy *p)
{
	const char *key = p->lock->key;

	snprintf(p->value, sizeof(p->value), "%s", p->lock->value);
	p->act = simulation->closing ? RELEASE : (enum act)chance_between(REWRITE, RELEASE);
	/* (With owner = value, each client that has read the value is the owner.) */
	if ((p->lock->kind != BY_CONNECTION && (p->act == REWRITE || p->act == ADD)) ||
	    (p->lock->kind == BY_VALUE && p->act == LOOK))
		p->act = EXTEND;
	switch (p->act) {
	case REWRITE:
		new_value(p);
		if (chance_one_in(2))
			app_call(&p->client, "SET %s %s PX %d", key, p->value, LEASE_MS);
		else
			app_call(&p->client, "GETSET %s %s", key, p->value);
		break;
	case ADD:
		snprintf(p->value, sizeof(p->value), "%.60s+", p->lock->value);
		app_call(&p->client, "APPEND %s +", key);
		break;
	case EXTEND:
		app_call(&p->client, "PEXPIRE %s %d", key, LEASE_MS);
		break;
	case LOOK:
		app_call(&p->client, "GET %s", key);
		break;
	default:
		let_go(p, p->lock);
		app_call(&p->client, "DEL %s", key);
	}
}

static void act_as_other(struct legacy *p)
{
	const char *key = p->lock->key;
	bool counts = p->lock->kind == COUNTERS;

	if (counts && p->added && is_sure(p->lock) && p->added_epoch == p->epoch) {
		p->added = false;
		p->act = TAKE_BACK;
		app_call(&p->client, "DECR %s", key);
	} else if (chance_one_in(2)) {
		p->act = MEDDLE;
		p->how = chance(MEDDLING);
		app_call(&p->client, "%s %s%s", meddling[p->how].command, key,
		         meddling[p->how].rest);
	} else if (counts) {
		p->act = COUNT;
		app_call(&p->client, "INCR %s", key);
	} else {
		p->act = TAKE;
		new_value(p);
		if (chance_one_in(2))
			app_call(&p->client, "SETNX %s %s", key, p->value);
		else
			app_call(&p->client, "SET %s %s NX PX %d", key, p->value, LEASE_MS);
	}
}

static void act(struct legacy *p)
{
	struct lock *held = NULL;

	for (size_t i = 0; i < LOCKS; i++)
		if (locks[i].holder == p)
			held = &locks[i];
	if (!held && simulation->closing) {
		app_fini(&p->client);
		return;
	}
	p->lock = held ? held : &locks[chance(LOCKS)];
	p->epoch = p->lock->epoch;
	p->sent = world_now();
	if (held)
		act_as_holder(p);
	else
		act_as_other(p);
}

/* --- what the answers must be ------------------------------------------------------------- */

static bool is_locked(const redisReply *r)
{
	return r->type == REDIS_REPLY_ERROR && strncmp(r->str, "LOCKED", 6) == 0;
}

static bool is_refused(const redisReply *r, enum refusal how)
{
	return how == LOCKED ? is_locked(r)
	       : how == ZERO ? r->type == REDIS_REPLY_INTEGER && r->integer == 0
	                     : r->type == REDIS_REPLY_NIL;
}

/* True for errors for which hasp has a reason that is not the lock: Redis is away, or the value
 * is no number. */
static bool is_failure(const redisReply *r)
{
	return r->type == REDIS_REPLY_ERROR && !is_locked(r);
}

/* Checks the lock in Redis itself, at this moment. */
static void check_lock(struct legacy *p)
{
	struct lock *l = p->lock;
	redisReply *r;

	if (!server_is_up(&simulation->redis))
		return;
	r = server_ask(&simulation->redis, "PTTL %s", l->key);
	if (r->type == REDIS_REPLY_INTEGER && r->integer == -1)
		history_fail("for ever: %s has no expiry", l->key);
	freeReplyObject(r);
	if (!is_sure(l) || (l->holder != p && l->holder->act != NOTHING))
		return;
	r = server_ask(&simulation->redis, "GET %s", l->key);
	if (l->kind == COUNTERS
	            ? r->type != REDIS_REPLY_STRING || atoi(r->str) < 1
	            : r->type != REDIS_REPLY_STRING || strcmp(r->str, l->value) != 0)
		history_fail("stolen: %s is %s, but %s surely has it as %s", l->key,
		             r->type == REDIS_REPLY_STRING ? r->str : "gone",
		             l->holder->client.machine.name, l->value);
	freeReplyObject(r);
}

static void check_meddling(struct legacy *p, const redisReply *r)
{
	if (is_failure(r))
		return;
	if (was_sure(p) && !is_refused(r, meddling[p->how].refusal))
		history_fail("meddled: %s runs %s on %s, which %s surely has",
		             p->client.machine.name, meddling[p->how].command, p->lock->key,
		             p->lock->holder->client.machine.name);
	/* If the client has taken a free lock by this command, it deletes the lock. */
	if (meddling[p->how].takes && !is_refused(r, meddling[p->how].refusal)) {
		p->act = CLEAN;
		p->epoch = p->lock->epoch;
		app_call(&p->client, "DEL %s", p->lock->key);
	}
}

static void refuse_falsely(const struct legacy *p, const char *what)
{
	history_fail("refused: %s may %s %s", p->client.machine.name, what, p->lock->key);
}

static void check_reply(struct legacy *p, const redisReply *r)
{
	struct lock *l = p->lock;
	bool got = r->type == REDIS_REPLY_STATUS ||
	           (r->type == REDIS_REPLY_INTEGER && r->integer == 1);

	switch (p->act) {
	case TAKE:
		if (got)
			hold(p);
		break;
	case COUNT:
		snprintf(p->value, sizeof(p->value), "a count");
		if (got)
			hold(p);
		p->added = r->type == REDIS_REPLY_INTEGER && r->integer > 1 && was_sure(p);
		p->added_epoch = l->epoch;
		break;
	case REWRITE:
	case ADD:
	case EXTEND:
		if (was_sure(p) && is_locked(r))
			refuse_falsely(p, "write");
		if (is_locked(r) || is_failure(r) || !was_sure(p))
			let_go(p, l);
		else if (p->act == ADD)
			memcpy(l->value, p->value, sizeof(l->value));
		else
			hold(p);
		break;
	case LOOK:
		if (world_now() >= l->sure_until)
			let_go(p, l);
		break;
	case TAKE_BACK:
		if (was_sure(p) && world_now() > l->murky_until && is_locked(r))
			refuse_falsely(p, "take back what it added to");
		break;
	case MEDDLE:
		check_meddling(p, r);
		return;
	default:
		break;
	}
}

static void on_reply(struct app *c, const redisReply *r)
{
	struct legacy *p = container_of(c, struct legacy, client);

	check_reply(p, r);
	if (c->unanswered) /* the client cleans up */
		return;
	p->act = NOTHING;
	check_lock(p);
	app_think(c, chance_delay(0, THINK_MOST));
}

/* --- the model ---------------------------------------------------------------------------- */

static void on_connected(struct app *c)
{
	act(container_of(c, struct legacy, client));
}

static void on_lost(struct app *c)
{
	struct legacy *p = container_of(c, struct legacy, client);

	for (size_t i = 0; i < LOCKS; i++)
		let_go(p, &locks[i]);
	if (p->act == TAKE_BACK)
		p->lock->murky_until = world_now() + MURKY;
	p->act = NOTHING;
	p->added = false;
	if (simulation->closing)
		app_fini(c);
}

static void on_thought(struct app *c)
{
	act(container_of(c, struct legacy, client));
}

static const struct app_ops ops = { on_connected, on_reply, on_lost, on_thought };

static void begin(struct simulation *s)
{
	simulation = s;
	memset(clients, 0, sizeof(clients));
	for (size_t i = 0; i < LOCKS; i++) {
		locks[i].holder = NULL;
		locks[i].epoch = 0;
		locks[i].murky_until = 0;
	}
	for (size_t i = 0; i < CLIENTS; i++)
		app_start(&clients[i].client, i, simulation_port(s, i), &ops);
}

static const char *who_hangs(void)
{
	for (int i = 0; i < CLIENTS; i++)
		if (!clients[i].client.has_left)
			return clients[i].client.machine.name;
	return NULL;
}

static bool may_stay(struct slice key)
{
	return slice_eq(key, SLICE_LIT("free"));
}

static void end(void)
{
	for (int i = 0; i < CLIENTS; i++)
		app_fini(&clients[i].client);
}

const struct model model_legacy = {
	.name = "legacy",
	.about = "locks under rules, with which other clients meddle",
	.ini = "[lock counts]\npattern = legacy:count:*\nlease = 3s\non_disconnect = expire\n"
	       "[lock values]\npattern = legacy:value:*\nowner = value\nlease = 3s\n"
	       "on_disconnect = expire\n"
	       "[lock legacy]\npattern = legacy:*\nlease = 3s\non_disconnect = expire\n",
	.nhasps = 2,
	.nworkers = 2,
	.needs_data = true,
	.begin = begin,
	.who_hangs = who_hangs,
	.may_stay = may_stay,
	.end = end,
};
