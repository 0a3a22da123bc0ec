/* SPDX-License-Identifier: BSD-3-Clause */
#include "lock/deadlock/deadlock.h"

#include <ctype.h>
#include <stdlib.h>

#include "base/fatal.h"
#include "base/list.h"
#include "lock/model/owner.h"

/* How many waits a search follows. A longer circle ends when one of its waits times out. */
#define SEARCH_MAX 32
/* How long hasp waits before it repeats a search that failed, because Redis did not answer or a
 * lock changed its owner; doubled after each failure. */
#define RETRY_SECONDS 0.01
#define RETRY_SECONDS_MAX 1.0
/* How often hasp checks whether an owner with several connections has got a lock over one
 * connection while it waits on another: that may close a circle. */
#define GENERATION_SECONDS 0.02
/* How many questions a worker's searches may ask Redis in a second, one for each lock. hasp
 * postpones further searches. */
#define QUESTIONS_PER_SECOND 1000.0
/* How often hasp checks whether it can start a postponed search. */
#define TURN_SECONDS 0.02
/* How many bytes of a key an error shows. */
#define KEY_SHOWN_MAX 128

struct deadlocks {
	struct timers *timers;
	struct script_jobs *jobs;
	struct wait_graph *graph;
	struct list shared; /* watches of owners that may have several connections */
	/* Checks the watches in `shared`; stopped while it is empty. */
	struct timer generations;
	unsigned generation; /* wait_graph_generation() at the last check */
	/* how many more questions hasp could ask at `counted_at`; < 0: too many were asked */
	double questions;
	double counted_at; /* when `questions` was counted, by the timers' clock */
	struct list put_off; /* watches whose searches are postponed, the oldest first */
	struct timer turn; /* starts postponed searches; stopped while there are none */
};

struct deadlock_watch {
	struct deadlocks *all;
	deadlock_fn *fn;
	void *arg;
	struct graph_wait *wait;
	struct search *search; /* NULL: no search is running */
	bool again; /* start another search after `search` */
	struct timer retry; /* starts a search after a failed one */
	double pause; /* seconds to wait after a failed search */
	struct list shared; /* node in deadlocks.shared, or in no list */
	struct list put_off; /* node in deadlocks.put_off, or in no list */
};

/* A wait that a search has found. */
struct search_step {
	struct graph_wait *wait;
	size_t from; /* index of the step whose lock belongs to the owner of this wait */
	struct buf holder; /* owner of the lock that `wait` waits for, by owner_write() */
};

struct search {
	struct deadlocks *all;
	struct deadlock_watch *watch; /* NULL: the watch has ended */
	struct search_step steps[SEARCH_MAX]; /* the first step is the watch's own wait */
	size_t n; /* number of steps */
	/* which lock hasp asks Redis about: index in `steps`, or in `circle` if ncircle > 0 */
	size_t at;
	size_t circle[SEARCH_MAX]; /* indexes of the circle's steps; the first is 0 */
	size_t ncircle; /* 0: no circle was found yet */
};

static void search_begin(struct deadlock_watch *w);

/* --- owners ------------------------------------------------------------------------------- */

/* Writes an owner's name for the graph: a value and a token of the same bytes get different
 * names. */
static void owner_write(struct buf *out, enum lock_kind kind, struct slice token)
{
	buf_puts(out, layout_of(kind)->by_value ? "v" : "t");
	buf_append(out, token);
}

/* True if the owner acts as one but may have several connections: a value, or a token that a
 * verb's AS names. */
static bool is_shared(enum lock_kind kind, struct slice token)
{
	const struct lock_layout *layout = layout_of(kind);
	enum owner_kind made;

	return layout->by_value || (layout->by_verb && !owner_is_made(token, &made));
}

/* Writes the kind of lock that hasp asks Redis about. Returns false if a waiter for this lock
 * cannot be part of a deadlock. */
static bool kind_to_ask(const struct attempt *wanted, char *kind)
{
	const struct lock_layout *layout = layout_of(wanted->id.kind);

	*kind = (char)layout->ask_as;
	/* A try with LIMIT 1 waits for every owner; for a greater limit, any owner may end the
	 * wait. */
	return layout->ask_as && (!layout->has_owners || wanted->limit == 1);
}

/* --- a search ----------------------------------------------------------------------------- */

static void search_free(struct search *s)
{
	for (size_t i = 0; i < s->n; i++) {
		graph_wait_release(s->steps[i].wait);
		buf_release(&s->steps[i].holder);
	}
	free(s);
}

static void deadlock_on_retry(struct timer *t, double now)
{
	(void)now;
	search_begin(container_of(t, struct deadlock_watch, retry));
}

static void search_later(struct deadlock_watch *w)
{
	struct timers *timers = w->all->timers;

	timer_start(timers, &w->retry, deadlock_on_retry, timers_now(timers) + w->pause, 0);
	w->pause = w->pause * 2 < RETRY_SECONDS_MAX ? w->pause * 2 : RETRY_SECONDS_MAX;
}

/* Ends a search that has found no circle. `failed`: there may still be a circle. */
static void search_end(struct search *s, bool failed)
{
	struct deadlock_watch *w = s->watch;

	w->search = NULL;
	search_free(s);
	if (failed || w->again)
		search_later(w);
	else
		w->pause = RETRY_SECONDS;
	w->again = false;
}

static bool is_own(const struct search *s, struct slice owner)
{
	const struct wait_facts *own = &s->steps[0].wait->facts;

	for (size_t i = 0; i < own->nowners; i++)
		if (slice_eq(own->owners[i], owner))
			return true;
	return false;
}

static bool is_known(const struct search *s, const struct graph_wait *wait)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->steps[i].wait == wait)
			return true;
	return false;
}

/* Adds the waits, if any, of the owner that has the lock of the step `from`. */
static void follow_holder(struct search *s, size_t from)
{
	struct graph_wait *waits[SEARCH_MAX];
	size_t n = wait_graph_of(s->all->graph, buf_slice(&s->steps[from].holder), waits,
	                         SEARCH_MAX);

	for (size_t i = 0; i < n; i++) {
		if (s->n == SEARCH_MAX || is_known(s, waits[i])) {
			graph_wait_release(waits[i]);
			continue;
		}
		s->steps[s->n++] = (struct search_step){ .wait = waits[i], .from = from };
	}
}

/* Stores the circle: the watch's own owner has the lock of the step `last`. */
static void close_circle(struct search *s, size_t last)
{
	size_t n = 1;

	for (size_t at = last; at != 0; at = s->steps[at].from)
		n++;
	s->ncircle = n;
	s->at = 0;
	for (size_t at = last; n > 0; at = s->steps[at].from)
		s->circle[--n] = at;
}

/* --- the error for the client ------------------------------------------------------------- */

static void write_key(struct buf *out, struct slice key)
{
	buf_puts(out, "'");
	for (size_t i = 0; i < key.n && i < KEY_SHOWN_MAX; i++) {
		char c = iscntrl((unsigned char)key.p[i]) ? '?' : key.p[i];
		buf_append(out, slice_of(&c, 1));
	}
	buf_puts(out, key.n > KEY_SHOWN_MAX ? "...'" : "'");
}

/* Writes the owner, unless it is a value or a token that AS names: both may be secrets. */
static void write_holder(struct buf *out, struct slice owner)
{
	size_t before = buf_len(out);

	if (slice_starts(owner, SLICE_LIT("t")))
		owner_describe_token(out, slice_of(owner.p + 1, owner.n - 1));
	if (buf_len(out) == before)
		buf_puts(out, "another owner");
}

/* True if the error may show the lock of step `l`: the client's Redis user must have access to
 * it. That is certain if the client, or another client of this user, waits for the lock, or if
 * the client's own connection has it. */
static bool may_see(const struct search *s, const struct search_step *l)
{
	const struct wait_facts *own = &s->steps[0].wait->facts;
	struct slice holder = buf_slice(&l->holder), user = l->wait->facts.user;

	return l == s->steps || (user.n && slice_eq(user, own->user)) ||
	       (is_own(s, holder) &&
	        !is_shared(LOCK_KIND_TOKEN, slice_of(holder.p + 1, holder.n - 1)));
}

static void write_error(const struct search *s, struct buf *out)
{
	buf_puts(out, "-DEADLOCK ");
	for (size_t i = 0; i < s->ncircle; i++) {
		const struct search_step *l = &s->steps[s->circle[i]];
		bool seen = may_see(s, l);
		if (i > 0)
			buf_puts(out, ", who waits for ");
		if (seen)
			write_key(out, l->wait->facts.shown);
		else
			buf_puts(out, "another key");
		if (i + 1 == s->ncircle)
			break;
		buf_puts(out, i > 0 ? ", held by " : " is held by ");
		if (seen)
			write_holder(out, buf_slice(&l->holder));
		else
			buf_puts(out, "another owner");
	}
	buf_puts(out, "\r\n");
}

/* Reports the circle, if all of its waits are still in the graph. */
static void search_report(struct search *s)
{
	struct deadlock_watch *w = s->watch;
	struct graph_wait *waits[SEARCH_MAX];
	struct buf error = BUF_INIT;

	for (size_t i = 0; i < s->ncircle; i++)
		waits[i] = s->steps[s->circle[i]].wait;
	if (!wait_graph_break(s->all->graph, waits, s->ncircle)) {
		search_end(s, true);
		return;
	}
	write_error(s, &error);
	w->search = NULL;
	search_free(s);
	w->fn(w->arg, buf_slice(&error));
	buf_release(&error);
}

/* --- questions to Redis ------------------------------------------------------------------- */

static void search_on_answer(void *arg, const redisReply *reply);

static struct search_step *asked(struct search *s)
{
	return &s->steps[s->ncircle ? s->circle[s->at] : s->at];
}

static void search_ask(struct search *s)
{
	const struct wait_facts *about = &asked(s)->wait->facts;
	struct job_call call = script_jobs_call(s->all->jobs, about->db);
	struct lock_call unused;

	s->all->questions--;
	call.script = SCRIPT_INFO;
	rewrite_info(&call.bytes, (enum lock_kind)about->kind, about->key, &call.opts, &unused);
	script_job_run(&call, 0, search_on_answer, s);
}

/* Writes the lock's owner, from the reply of info.lua; empty: the lock is free, or its owner is
 * not known. Returns false if the reply is an error, or if there is none. */
static bool read_holder(const redisReply *reply, char kind, struct buf *holder)
{
	if (!reply || reply->type == REDIS_REPLY_ERROR)
		return false;
	if (reply->type == REDIS_REPLY_ARRAY && reply->elements >= 2 &&
	    reply->element[1]->type == REDIS_REPLY_STRING)
		owner_write(holder, kind,
		            slice_of(reply->element[1]->str, reply->element[1]->len));
	return true;
}

/* Stores the owner of the lock that hasp asked about. Returns true if hasp has more to ask. */
static bool search_follow(struct search *s, struct slice holder)
{
	size_t at = s->at++;

	buf_append(&s->steps[at].holder, holder);
	if (is_own(s, holder)) {
		/* (An owner that waits for its own lock is no circle of several owners.) */
		if (at > 0) {
			close_circle(s, at);
			return true;
		}
	} else if (holder.n) {
		follow_holder(s, at);
	}
	if (s->at < s->n)
		return true;
	search_end(s, false);
	return false;
}

/* Checks that a lock of the circle still has the same owner. Returns true if hasp has more to
 * ask. */
static bool search_confirm(struct search *s, struct slice holder)
{
	if (!slice_eq(holder, buf_slice(&asked(s)->holder))) {
		search_end(s, true);
		return false;
	}
	if (++s->at < s->ncircle)
		return true;
	search_report(s);
	return false;
}

static void search_on_answer(void *arg, const redisReply *reply)
{
	struct search *s = arg;
	struct buf holder = BUF_INIT;

	if (!s->watch)
		search_free(s);
	else if (!read_holder(reply, asked(s)->wait->facts.kind, &holder))
		search_end(s, true);
	else if ((s->ncircle ? search_confirm : search_follow)(s, buf_slice(&holder)))
		search_ask(s);
	buf_release(&holder);
}

static void search_start(struct deadlock_watch *w)
{
	struct search *s;

	if (!wait_graph_has_several(w->all->graph))
		return;
	s = xcalloc(1, sizeof(*s));
	s->all = w->all;
	s->watch = w;
	s->steps[s->n++].wait = graph_wait_hold(w->wait);
	w->search = s;
	search_ask(s);
}

static bool may_ask(struct deadlocks *all)
{
	double now = timers_now(all->timers);

	all->questions += (now - all->counted_at) * QUESTIONS_PER_SECOND;
	if (all->questions > QUESTIONS_PER_SECOND)
		all->questions = QUESTIONS_PER_SECOND;
	all->counted_at = now;
	return all->questions >= 1;
}

static void deadlocks_on_turn(struct timer *t, double now)
{
	struct deadlocks *all = container_of(t, struct deadlocks, turn);

	(void)now;
	while (!list_empty(&all->put_off) && may_ask(all))
		search_start(list_take(&all->put_off, struct deadlock_watch, put_off));
	if (list_empty(&all->put_off))
		timer_stop(all->timers, t);
}

/* Begins a search: at once, after the search that is running, or later if the worker has asked
 * too many questions. */
static void search_begin(struct deadlock_watch *w)
{
	struct deadlocks *all = w->all;

	if (w->search) {
		w->again = true;
	} else if (list_empty(&all->put_off) && may_ask(all)) {
		search_start(w);
	} else if (list_empty(&w->put_off)) {
		if (list_empty(&all->put_off))
			timer_start(all->timers, &all->turn, deadlocks_on_turn,
			            timers_now(all->timers) + TURN_SECONDS, TURN_SECONDS);
		list_append(&all->put_off, &w->put_off);
	}
}

/* --- watches ------------------------------------------------------------------------------ */

static void deadlocks_on_generation(struct timer *t, double now)
{
	struct deadlocks *all = container_of(t, struct deadlocks, generations);
	unsigned generation = wait_graph_generation(all->graph);

	(void)now;
	if (generation == all->generation)
		return;
	all->generation = generation;
	list_each (struct deadlock_watch, w, &all->shared, shared) {
		if (atomic_exchange(&w->wait->moved, false))
			search_begin(w);
	}
}

struct deadlocks *deadlocks_new(struct timers *timers, struct script_jobs *jobs,
                                struct wait_graph *graph)
{
	struct deadlocks *all = xcalloc(1, sizeof(*all));

	all->timers = timers;
	all->jobs = jobs;
	all->graph = graph;
	list_init(&all->shared);
	list_init(&all->put_off);
	all->questions = QUESTIONS_PER_SECOND;
	all->counted_at = timers_now(timers);
	return all;
}

void deadlocks_free(struct deadlocks *all)
{
	HASP_ASSERT(list_empty(&all->shared));
	timer_stop(all->timers, &all->generations);
	timer_stop(all->timers, &all->turn);
	free(all);
}

/* Adds the watch to those that hasp checks regularly: its owner may get a lock over one
 * connection while it waits on another. */
static void watch_shared(struct deadlock_watch *w)
{
	struct deadlocks *all = w->all;

	if (list_empty(&all->shared)) {
		all->generation = wait_graph_generation(all->graph);
		timer_start(all->timers, &all->generations, deadlocks_on_generation,
		            timers_now(all->timers) + GENERATION_SECONDS, GENERATION_SECONDS);
	}
	list_append(&all->shared, &w->shared);
}

struct deadlock_watch *deadlock_watch_new(struct deadlocks *all,
                                          const struct deadlock_terms *terms, deadlock_fn *fn,
                                          void *arg)
{
	const struct lock_ident *id = &terms->wanted->id;
	struct wait_facts facts = {
		.db = terms->db, .key = id->key, .shown = terms->shown, .user = terms->user
	};
	struct buf names[WAIT_OWNERS_MAX] = { BUF_INIT, BUF_INIT };
	bool shared = is_shared(id->kind, id->token);
	struct deadlock_watch *w = NULL;

	if (!kind_to_ask(terms->wanted, &facts.kind))
		return NULL;
	if (shared) {
		owner_write(&names[0], id->kind, id->token);
		facts.nowners++;
	}
	if (terms->connection.n)
		owner_write(&names[facts.nowners++], LOCK_KIND_TOKEN, terms->connection);
	for (size_t i = 0; i < facts.nowners; i++)
		facts.owners[i] = buf_slice(&names[i]);
	if (facts.nowners) {
		w = xcalloc(1, sizeof(*w));
		w->all = all;
		w->fn = fn;
		w->arg = arg;
		w->pause = RETRY_SECONDS;
		w->wait = wait_graph_add(all->graph, &facts);
		list_init(&w->shared);
		list_init(&w->put_off);
		if (shared)
			watch_shared(w);
		search_begin(w);
	}
	for (size_t i = 0; i < WAIT_OWNERS_MAX; i++)
		buf_release(&names[i]);
	return w;
}

void deadlock_watch_end(struct deadlock_watch *w)
{
	struct deadlocks *all = w->all;

	wait_graph_remove(all->graph, w->wait);
	graph_wait_release(w->wait);
	if (w->search)
		w->search->watch = NULL;
	timer_stop(all->timers, &w->retry);
	list_remove(&w->shared);
	list_remove(&w->put_off);
	if (list_empty(&all->shared))
		timer_stop(all->timers, &all->generations);
	free(w);
}
