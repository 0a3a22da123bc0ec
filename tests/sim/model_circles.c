/* SPDX-License-Identifier: BSD-3-Clause
 *
 * model_circles: clients that have one lock and ask for another, in any order, by verbs, by
 * rules and by guarded reads, so that they wait for each other in circles; and clients that
 * take two locks by MLOCK. One of each circle is told DEADLOCK, and no other; nobody waits to
 * the end, and nobody without a lock is told.
 *
 *   idle --> asks for the first --> asks for the second --> works --> releases --> idle
 *                  '-- both by MLOCK ------------------------^
 */
#include <stdio.h>
#include <string.h>

#include "base/fatal.h"
#include "tests/sim/app.h"
#include "tests/sim/history.h"
#include "tests/sim/models.h"

#define WALKERS 5
#define KEYS 7
#define THINK_MOST (300 * MS)
#define WORK_MOST (150 * MS)
#define WAIT_MS 20000
#define SHORT_WAIT_MS 300
/* No guard is renewed, so a guard's lease must not end a circle before a wait does. */
#define GUARD_LEASE (25 * SECOND)
/* hasp's answer may arrive after the circle that it reports has ended by itself. */
#define ON_THE_WAY (200 * MS)

/* For a guard, the name of its lock in Redis; the key that clients read is in the braces. */
static const char *const names[KEYS] = { "rule:a",
	                                 "rule:b",
	                                 "verb:a",
	                                 "verb:b",
	                                 "place:a",
	                                 "hasp:guard:{mine:a}",
	                                 "hasp:guard:{mine:b}" };
#define FIRST_VERB 2
#define PLACE 4 /* a semaphore of one place */
#define FIRST_GUARD 5

enum walker_state { WALKER_IDLE, WALKER_ASKS, WALKER_THINKS, WALKER_WORKS, WALKER_RELEASES };

static struct walker {
	struct app app;
	size_t number, serial;
	enum walker_state state;
	bool takes_both; /* the walker takes both locks by MLOCK */
	int keys[2];
	struct try *tries[2]; /* NULL: not asked for, or over */
	int64_t waited_at; /* when it last waited for a lock while it may have had another */
	unsigned circle; /* a bit for each key in the walker's last DEADLOCK, until its next
	                  * walk */
} walkers[WALKERS];

static struct simulation *simulation;

static bool is_verb(int key)
{
	return key >= FIRST_VERB && key < FIRST_GUARD;
}

static bool is_guard(int key)
{
	return key >= FIRST_GUARD;
}

/* The key that commands and hasp's errors name. */
static const char *shown(int key)
{
	static const char *const guarded[] = { "mine:a", "mine:b" };

	return is_guard(key) ? guarded[key - FIRST_GUARD] : names[key];
}

static void think(struct walker *w)
{
	w->state = WALKER_IDLE;
	app_think(&w->app, chance_delay(0, THINK_MOST));
}

/* --- asking ------------------------------------------------------------------------------- */

/* Records the try with its name in Redis: the value of a rule's lock, the owner of MLOCK's, or
 * the connection that has a guard. */
static void note_try(struct walker *w, int i, int wait_ms)
{
	struct try t = { .key = names[w->keys[i]],
		         .client = &w->app.machine,
		         .hasp = &simulation_hasp(simulation, w->number)->machine,
		         .limit = 1,
		         .is_verb = is_verb(w->keys[i]),
		         .is_named = w->takes_both || w->keys[i] < FIRST_VERB,
		         .is_renewed = !is_guard(w->keys[i]),
		         .ends_with_connection = true,
		         .is_rechecked = !is_guard(w->keys[i]),
		         .is_fair = !w->takes_both,
		         .wait_us = wait_ms * MS,
		         .lease_us = is_guard(w->keys[i]) ? GUARD_LEASE : 5 * SECOND };

	if (is_guard(w->keys[i]))
		snprintf(t.who, sizeof(t.who), ".%d:%d/", w->app.machine.number,
		         sock_port(w->app.sock));
	else
		snprintf(t.who, sizeof(t.who), "c%zu.%zu.", w->number, w->serial);
	w->tries[i] = history_ask(&t);
}

static void ask(struct walker *w, int i)
{
	const char *key = shown(w->keys[i]);

	w->state = WALKER_ASKS;
	note_try(w, i, WAIT_MS);
	if (is_verb(w->keys[i]))
		app_call(&w->app, "LOCK %s%s WAIT %d", key,
		         w->keys[i] == PLACE ? " LIMIT 1" : "", WAIT_MS);
	else if (is_guard(w->keys[i]))
		app_call(&w->app, "GET %s", key);
	else
		app_call(&w->app, "SET %s %s NX", key, w->tries[i]->who);
}

static void begin_walk(struct walker *w)
{
	int wait_ms = chance_one_in(3) ? SHORT_WAIT_MS : WAIT_MS;

	w->serial++;
	w->circle = 0;
	w->takes_both = chance_one_in(3);
	w->keys[0] = (int)chance(KEYS);
	w->keys[1] = (w->keys[0] + 1 + (int)chance(KEYS - 1)) % KEYS;
	if (!w->takes_both) {
		ask(w, 0);
		return;
	}
	w->state = WALKER_ASKS;
	w->keys[0] = FIRST_VERB + (int)chance(2);
	w->keys[1] = FIRST_VERB + (w->keys[0] == FIRST_VERB);
	note_try(w, 0, wait_ms);
	note_try(w, 1, wait_ms);
	app_call(&w->app, "MLOCK 2 %s %s WAIT %d AS %s", names[w->keys[0]], names[w->keys[1]],
	         wait_ms, w->tries[0]->who);
	/* Some walkers do not wait for the answer. */
	if (chance_one_in(10))
		app_think(&w->app, chance_between(0, SHORT_WAIT_MS) * MS);
}

/* --- releasing ---------------------------------------------------------------------------- */

/* Releases first the lock that the walker got last. */
static void release(struct walker *w)
{
	int i = w->tries[1] ? 1 : 0;

	w->state = WALKER_RELEASES;
	if (!w->tries[i]) {
		think(w);
		return;
	}
	history_release(w->tries[i]);
	if (w->takes_both && w->tries[0] && i == 1) {
		history_release(w->tries[0]);
		app_call(&w->app, "MUNLOCK 2 %s %s AS %s", names[w->keys[0]], names[w->keys[1]],
		         w->tries[0]->who);
	} else if (is_guard(w->keys[i])) {
		app_call(&w->app, "SET %s x", shown(w->keys[i]));
	} else {
		app_call(&w->app, "%s %s", is_verb(w->keys[i]) ? "UNLOCK" : "DEL",
		         names[w->keys[i]]);
	}
}

static void over(struct walker *w, int i, void (*how)(struct try *t))
{
	if (w->tries[i])
		how(w->tries[i]);
	w->tries[i] = NULL;
}

static void on_released(struct walker *w, const redisReply *r)
{
	bool both = w->takes_both && w->tries[0] && w->tries[1];

	for (int i = both || !w->tries[1] ? 0 : 1; i < 2; i++) {
		if (!w->tries[i])
			continue;
		if (r->type == REDIS_REPLY_INTEGER)
			history_released(w->tries[i], r->integer == (both ? 2 : 1));
		else if (r->type == REDIS_REPLY_STATUS)
			history_released(w->tries[i], true);
		else
			history_fail_try(w->tries[i], r->str ? r->str : "nil");
		w->tries[i] = NULL;
	}
	release(w);
}

/* --- what it gets ------------------------------------------------------------------------- */

static void note_wait(struct walker *w)
{
	if (w->state == WALKER_ASKS && (w->tries[1] || w->takes_both))
		w->waited_at = world_now();
}

static bool others_wait(const struct walker *w)
{
	for (int i = 0; i < WALKERS; i++) {
		note_wait(&walkers[i]);
		if (&walkers[i] != w && walkers[i].waited_at &&
		    walkers[i].waited_at + ON_THE_WAY >= world_now())
			return true;
	}
	return false;
}

/* Another walker of the circle got DEADLOCK, and still has its lock: it did not wait for `w`
 * any more. */
static void check_told(struct walker *w, const char *error)
{
	for (int i = 0; i < KEYS; i++)
		if (strstr(error, shown(i)))
			w->circle |= 1u << i;
	for (int i = 0; i < WALKERS; i++) {
		const struct walker *o = &walkers[i];
		if (o != w && o->tries[0] && !o->takes_both && o->circle >> w->keys[0] & 1 &&
		    w->circle >> o->keys[0] & 1 && history_has(o->tries[0]))
			history_fail("two of a circle: %s is told %s, after %s",
			             w->app.machine.name, error, o->app.machine.name);
	}
}

/* The try that is asked for last has not got its lock. */
static void on_refused(struct walker *w, const redisReply *r)
{
	int last = w->tries[1] ? 1 : 0;
	bool deadlock = r->type == REDIS_REPLY_ERROR && strncmp(r->str, "DEADLOCK ", 9) == 0,
	     in_vain = r->type != REDIS_REPLY_ERROR || strncmp(r->str, "LOCKED ", 7) == 0;

	if (!in_vain && !deadlock) {
		for (int i = 0; i < 2; i++)
			if (w->tries[i])
				history_fail_try(w->tries[i], r->str);
		w->tries[0] = w->tries[1] = NULL;
		app_hang_up(&w->app);
		return;
	}
	if (deadlock && !(w->takes_both || (last == 1 && others_wait(w))))
		history_fail("no circle: %s is told %s", w->app.machine.name, r->str);
	if (deadlock && !w->takes_both)
		check_told(w, r->str);
	for (int i = w->takes_both ? 0 : last; i <= last; i++) {
		if (!deadlock && w->tries[i]->wait_us == WAIT_MS * MS)
			history_circle(w->tries[i], GUARD_LEASE);
		over(w, i, history_give_up);
	}
	release(w);
}

static void on_granted(struct walker *w, const redisReply *r)
{
	int last = w->tries[1] ? 1 : 0;

	for (int i = w->takes_both ? 0 : last; i <= last; i++)
		history_grant(w->tries[i], is_verb(w->keys[i]) ? r->integer : 0);
	w->state = last ? WALKER_WORKS : WALKER_THINKS;
	app_think(&w->app, chance_delay(0, WORK_MOST));
}

static void on_reply(struct app *c, const redisReply *r)
{
	struct walker *w = container_of(c, struct walker, app);

	note_wait(w);
	if (w->state == WALKER_RELEASES)
		on_released(w, r);
	else if (w->state == WALKER_ASKS &&
	         (r->type == REDIS_REPLY_ERROR ||
	          (r->type == REDIS_REPLY_NIL && !is_guard(w->keys[w->tries[1] ? 1 : 0]))))
		on_refused(w, r);
	else if (w->state == WALKER_ASKS)
		on_granted(w, r);
}

static void on_thought(struct app *c)
{
	struct walker *w = container_of(c, struct walker, app);

	note_wait(w);
	if (w->state == WALKER_ASKS || (w->state == WALKER_WORKS && chance_one_in(16))) {
		over(w, 0, history_give_up);
		over(w, 1, history_give_up);
		app_hang_up(c);
	} else if (w->state == WALKER_WORKS) {
		release(w);
	} else if (w->state == WALKER_THINKS) {
		ask(w, 1);
	} else if (simulation->closing) {
		app_fini(c);
	} else {
		begin_walk(w);
	}
}

static void on_connected(struct app *c)
{
	struct walker *w = container_of(c, struct walker, app);

	simulation->closing ? app_fini(c) : think(w);
}

static void on_lost(struct app *c)
{
	struct walker *w = container_of(c, struct walker, app);

	note_wait(w);
	for (int i = 0; i < 2; i++)
		if (w->tries[i])
			history_fail_try(w->tries[i], "the connection is lost");
	w->tries[0] = w->tries[1] = NULL;
	w->state = WALKER_IDLE;
	if (simulation->closing)
		app_fini(c);
}

/* --- the model ---------------------------------------------------------------------------- */

static const struct app_ops ops = { on_connected, on_reply, on_lost, on_thought };

static void begin(struct simulation *s)
{
	simulation = s;
	memset(walkers, 0, sizeof(walkers));
	for (int i = 0; i < KEYS; i++)
		history_add_key(names[i]);
	for (size_t i = 0; i < WALKERS; i++) {
		walkers[i].number = i;
		app_start(&walkers[i].app, i, simulation_port(s, i), &ops);
	}
}

static const char *who_hangs(void)
{
	for (int i = 0; i < WALKERS; i++)
		if (!walkers[i].app.has_left)
			return walkers[i].app.machine.name;
	return NULL;
}

static void end(void)
{
	for (int i = 0; i < WALKERS; i++)
		app_fini(&walkers[i].app);
}

static bool may_stay(struct slice key)
{
	return slice_eq(key, SLICE_LIT("hasp:fence")) || slice_starts(key, SLICE_LIT("mine:"));
}

/* clang-format off */
#define MODEL(which, about_, reentrant) \
	const struct model model_##which = { \
		.name = #which, \
		.about = about_, \
		.ini = "[verbs]\nreentrant = " reentrant "\nlease = 5s\non_disconnect = release\n" \
		       "[lock rule]\npattern = rule:*\nlease = 5s\nwait = 20s\n" \
		       "renew = unleased\non_disconnect = release\n" \
		       "[guard mine]\npattern = mine:*\nacquire_on = GET\nlease = 25s\n" \
		       "wait = 20s\n", \
		/* A circle through several hasps ends when a wait does. */ \
		.nhasps = 1, \
		.nworkers = 2, \
		.begin = begin, \
		.who_hangs = who_hangs, \
		.may_stay = may_stay, \
		.end = end, \
	}
/* clang-format on */

MODEL(circles, "clients that have a lock and ask for another, and MLOCK", "no");
MODEL(tangles, "the same, with the layout count", "count");
