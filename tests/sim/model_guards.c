/* SPDX-License-Identifier: BSD-3-Clause
 *
 * model_guards: clients that read guarded keys, compute and write, in several ways. A value is
 * its own history: the names of all updates that made it, in their order. A client that changes
 * it adds a name to what it has read. So of two values that were ever seen, one must be the
 * beginning of the other; else a client has overwritten what it had not read.
 *
 *   idle --> reads --value--> computes --> writes --> idle
 *              '--refused--> idle, or writes as if there had been nothing
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/fatal.h"
#include "tests/sim/app.h"
#include "tests/sim/history.h"
#include "tests/sim/models.h"

#define WRITERS 6
#define KEYS 6
#define THINK_MOST (500 * MS)
#define COMPUTE_MOST (200 * MS)
#define LEASE (600 * MS)
#define LENGTH_MOST 2000 /* a value of this many bytes is not changed any more */

static const char *const names[KEYS] = { "mine:a",    "mine:b",    "mine:c",
	                                 "checked:a", "checked:b", "mine:hash" };
#define FIRST_CHECKED 3
#define HASH 5 /* index of the key whose value is in the field of a hash */

enum outcome { OUTCOME_UNKNOWN, OUTCOME_WRITTEN, OUTCOME_REFUSED };

/* An update; its number is its name. */
struct update {
	int keys[2]; /* -1: none */
	enum outcome outcome;
	int writer;
};

enum how {
	WRITE_SET,
	WRITE_MULTI, /* reads in a transaction, too */
	WRITE_WATCHED,
	WRITE_APPEND,
	WRITE_SEVERAL,
	WRITE_BY_SCRIPT,
	WRITE_FIELD,
	WRITE_WAYS
};
enum writer_state { WRITER_IDLE, WRITER_READS, WRITER_COMPUTES, WRITER_WRITES };

static struct writer {
	struct app app;
	int number;
	enum writer_state state;
	enum how how;
	int keys[2];
	struct buf values[2]; /* the values as they were read */
	size_t update; /* number of the update, while the client writes */
	size_t nreplies; /* number of replies before the one with the result */
	bool is_new; /* the client has read nothing over this connection */
	bool is_first; /* this is the client's first read over the connection */
} writers[WRITERS];

static struct simulation *simulation;
static struct buf longest[KEYS]; /* the longest value of each key that any client has seen */
static struct update *updates;
static size_t nupdates;

/* --- what was seen ------------------------------------------------------------------------ */

static bool begins_with(struct slice value, struct slice head)
{
	return head.n == 0 || slice_starts(value, head);
}

static void saw(const struct writer *w, int key, struct slice value)
{
	struct slice known = buf_slice(&longest[key]);

	if (!begins_with(known, value) && !begins_with(value, known)) {
		history_fail("lost update: %s reads %.*s of %s, which was %.*s",
		             w->app.machine.name, (int)value.n, value.p, names[key],
		             (int)known.n, known.p);
		buf_clear(&longest[key]);
	}
	if (value.n > buf_len(&longest[key])) {
		buf_clear(&longest[key]);
		buf_append(&longest[key], value);
	}
}

static size_t times_in(const char *value, size_t update)
{
	char name[24];
	size_t n = 0;

	snprintf(name, sizeof(name), ".%zu.", update);
	for (const char *at = value; (at = strstr(at, name)); at++)
		n++;
	return n;
}

static void check_update(size_t number, int key, const char *final)
{
	const struct update *u = &updates[number];
	size_t n = times_in(final, number);

	if (n > 1)
		history_fail("twice: update %zu of %s", number, names[key]);
	if (n == 0 && u->outcome == OUTCOME_WRITTEN)
		history_fail("lost update: %zu of %s by client%d, which was acknowledged",
		             number, names[key], u->writer);
	if (n && u->outcome == OUTCOME_REFUSED)
		history_fail("refused: update %zu of %s by client%d is there", number,
		             names[key], u->writer);
}

static void check(struct simulation *s)
{
	for (int key = 0; key < KEYS; key++) {
		redisReply *r = server_ask(&s->redis, key == HASH ? "HGET %s f" : "GET %s",
		                           names[key]);
		const char *final = r->str ? r->str : "";
		if (!begins_with(slice_str(final), buf_slice(&longest[key])))
			history_fail("lost update: %s is %s, but was %.*s", names[key], final,
			             (int)buf_len(&longest[key]), buf_head(&longest[key]));
		for (size_t i = 0; i < nupdates; i++)
			if (updates[i].keys[0] == key || updates[i].keys[1] == key)
				check_update(i, key, final);
		freeReplyObject(r);
	}
}

/* --- a client ----------------------------------------------------------------------------- */

static void think(struct writer *w)
{
	w->state = WRITER_IDLE;
	app_think(&w->app, chance_delay(0, THINK_MOST));
}

static void forget_values(struct writer *w)
{
	buf_clear(&w->values[0]);
	buf_clear(&w->values[1]);
}

static void read_keys(struct writer *w)
{
	bool checked = chance_one_in(3), is_new = w->is_new;
	int first = checked ? FIRST_CHECKED : 0,
	    n = checked ? HASH - FIRST_CHECKED : FIRST_CHECKED;

	w->is_new = false;
	w->is_first = is_new;
	w->how = is_new && chance_one_in(2) ? WRITE_SEVERAL : (enum how)chance(WRITE_WAYS);
	w->keys[0] = first + (int)chance((uint64_t)n);
	w->keys[1] = -1;
	w->state = WRITER_READS;
	w->nreplies = 0;
	forget_values(w);
	if (w->how == WRITE_FIELD) {
		w->keys[0] = HASH;
		app_call(&w->app, "HGET %s f", names[HASH]);
	} else if (w->how == WRITE_MULTI) {
		w->nreplies = 2;
		app_call(&w->app, "MULTI");
		app_call(&w->app, "GET %s", names[w->keys[0]]);
		app_call(&w->app, "EXEC");
	} else if (w->how == WRITE_APPEND) {
		/* It need not read. */
		w->state = WRITER_COMPUTES;
		app_think(&w->app, 0);
	} else if (w->how == WRITE_SEVERAL) {
		w->keys[1] = first + (w->keys[0] - first + 1) % n;
		app_call(&w->app, "MGET %s %s", names[w->keys[0]], names[w->keys[1]]);
	} else if (w->how == WRITE_WATCHED) {
		w->nreplies = 1;
		app_call(&w->app, "WATCH %s", names[w->keys[0]]);
		app_call(&w->app, "GET %s", names[w->keys[0]]);
	} else if (checked && is_new) {
		/* The GETEX fails. (Later in a session, an earlier read would still count.) */
		app_call(&w->app, "GETEX %s PX -1", names[w->keys[0]]);
	} else {
		app_call(&w->app, "GET %s", names[w->keys[0]]);
	}
}

static struct slice new_value(struct writer *w, int i)
{
	if (buf_len(&w->values[i]) < LENGTH_MOST)
		buf_printf(&w->values[i], ".%zu.", w->update);
	return buf_slice(&w->values[i]);
}

static void write_keys(struct writer *w)
{
	const char *first = names[w->keys[0]], *other = w->keys[1] < 0 ? "" : names[w->keys[1]];
	struct slice value, value2;

	updates = xrealloc(updates, (nupdates + 1) * sizeof(*updates));
	updates[nupdates] =
		(struct update){ { w->keys[0], w->keys[1] }, OUTCOME_UNKNOWN, w->number };
	w->update = nupdates++;
	w->state = WRITER_WRITES;
	w->nreplies = 0;
	value = new_value(w, 0);
	switch (w->how) {
	case WRITE_MULTI:
	case WRITE_WATCHED:
		w->nreplies = 2;
		app_call(&w->app, "MULTI");
		app_call(&w->app, "SET %s %.*s", first, (int)value.n, value.p);
		app_call(&w->app, "EXEC");
		break;
	case WRITE_APPEND:
		app_call(&w->app, "APPEND %s .%zu.", first, w->update);
		break;
	case WRITE_SEVERAL:
		value2 = new_value(w, 1);
		app_call(&w->app, "MSET %s %.*s %s %.*s", first, (int)value.n, value.p, other,
		         (int)value2.n, value2.p);
		break;
	case WRITE_BY_SCRIPT:
		app_call(&w->app, "EVAL return(redis.call('SET',KEYS[1],ARGV[1])) 1 %s %.*s",
		         first, (int)value.n, value.p);
		break;
	case WRITE_FIELD:
		app_call(&w->app, "HSET %s f %.*s", first, (int)value.n, value.p);
		break;
	case WRITE_SET:
	case WRITE_WAYS:
		app_call(&w->app, "SET %s %.*s", first, (int)value.n, value.p);
		break;
	}
}

/* True for an error of a guard, or of a wrong GETEX, after which the command was not run. After
 * any other error, it is not known what has run. */
static bool is_refusal(const redisReply *r)
{
	return r->type == REDIS_REPLY_NIL ||
	       (r->type == REDIS_REPLY_ERROR &&
	        (strncmp(r->str, "LOCKED ", 7) == 0 || strncmp(r->str, "LOCKLOST ", 9) == 0 ||
	         strncmp(r->str, "DEADLOCK ", 9) == 0 ||
	         strncmp(r->str, "ERR invalid expire ", 19) == 0));
}

static void on_read(struct writer *w, const redisReply *r)
{
	/* Some clients take an error for an empty value. */
	bool swallows = chance_one_in(3);

	if (r->type == REDIS_REPLY_ERROR && w->how == WRITE_WATCHED) {
		app_hang_up(&w->app);
		return;
	}
	if (r->type == REDIS_REPLY_ERROR && !(swallows && is_refusal(r))) {
		is_refusal(r) ? think(w) : app_hang_up(&w->app);
		return;
	}
	/* The client has waited in vain for one of the keys, and writes the other. (Later in a
	 * session it may still have the guard under which it read the other key before.) */
	if (r->type == REDIS_REPLY_ERROR && w->how == WRITE_SEVERAL && w->is_first) {
		w->how = WRITE_SET;
		w->keys[0] = w->keys[chance(2)];
		w->keys[1] = -1;
	}
	for (int i = 0; i < 2 && w->keys[i] >= 0 && r->type != REDIS_REPLY_ERROR; i++) {
		const redisReply *value = r->type == REDIS_REPLY_ARRAY ? r->element[i] : r;
		if (value->str)
			buf_append(&w->values[i], slice_of(value->str, value->len));
		saw(w, w->keys[i], buf_slice(&w->values[i]));
	}
	w->state = WRITER_COMPUTES;
	app_think(&w->app, chance_delay(0, COMPUTE_MOST) + (chance_one_in(8) ? 2 * LEASE : 0));
}

static void on_written(struct writer *w, const redisReply *r)
{
	enum outcome *outcome = &updates[w->update].outcome;

	if (is_refusal(r))
		*outcome = OUTCOME_REFUSED;
	else if (r->type != REDIS_REPLY_ERROR && buf_len(&w->values[0]) < LENGTH_MOST &&
	         buf_len(&w->values[1]) < LENGTH_MOST)
		*outcome = OUTCOME_WRITTEN;
	r->type == REDIS_REPLY_ERROR && !is_refusal(r) ? app_hang_up(&w->app) : think(w);
}

static void on_reply(struct app *c, const redisReply *r)
{
	struct writer *w = container_of(c, struct writer, app);

	if (w->nreplies) {
		w->nreplies--;
		return;
	}
	if (w->state == WRITER_READS)
		on_read(w, r);
	else if (w->state == WRITER_WRITES)
		on_written(w, r);
}

static void on_thought(struct app *c)
{
	struct writer *w = container_of(c, struct writer, app);

	if (w->state == WRITER_COMPUTES && !chance_one_in(16))
		write_keys(w);
	else if (simulation->closing)
		app_fini(c);
	else if (w->state == WRITER_COMPUTES)
		app_hang_up(c);
	else
		read_keys(w);
}

static void on_connected(struct app *c)
{
	struct writer *w = container_of(c, struct writer, app);

	w->is_new = true;
	simulation->closing ? app_fini(c) : think(w);
}

static void on_lost(struct app *c)
{
	struct writer *w = container_of(c, struct writer, app);

	w->state = WRITER_IDLE;
	if (simulation->closing)
		app_fini(c);
}

static const struct app_ops ops = { on_connected, on_reply, on_lost, on_thought };

static void begin(struct simulation *s)
{
	simulation = s;
	memset(writers, 0, sizeof(writers));
	memset(longest, 0, sizeof(longest));
	updates = NULL;
	nupdates = 0;
	for (size_t i = 0; i < WRITERS; i++) {
		writers[i].number = (int)i;
		app_start(&writers[i].app, i, simulation_port(s, i), &ops);
	}
}

static const char *who_hangs(void)
{
	for (int i = 0; i < WRITERS; i++)
		if (!writers[i].app.has_left)
			return writers[i].app.machine.name;
	return NULL;
}

static void end(void)
{
	for (int i = 0; i < WRITERS; i++) {
		app_fini(&writers[i].app);
		buf_release(&writers[i].values[0]);
		buf_release(&writers[i].values[1]);
	}
	for (int i = 0; i < KEYS; i++)
		buf_release(&longest[i]);
	free(updates);
}

static bool may_stay(struct slice key)
{
	return slice_starts(key, SLICE_LIT("mine:")) ||
	       slice_starts(key, SLICE_LIT("checked:")) ||
	       slice_eq(key, SLICE_LIT("hasp:fence"));
}

const struct model model_guards = {
	.name = "guards",
	.about = "clients that read guarded keys, compute and write",
	.ini = "[guard mine]\npattern = mine:*\nacquire_on = GET MGET HGET\nlease = 600ms\n"
	       "wait = 900ms\n"
	       "[guard checked]\npattern = checked:*\nacquire_on = GET MGET GETEX\n"
	       "strategy = check\n",
	.nhasps = 2,
	.nworkers = 2,
	.needs_data = true,
	.begin = begin,
	.who_hangs = who_hangs,
	.check = check,
	.may_stay = may_stay,
	.end = end,
};
