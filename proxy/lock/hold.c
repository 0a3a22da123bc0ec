/* SPDX-License-Identifier: BSD-3-Clause */
#include "lock/hold.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/fatal.h"
#include "base/log.h"
#include "base/map.h"

/* Under owner = value a connection remembers what it stored for as long as it lives, but not
 * more locks than this, and no longer values. */
#define REMEMBERED_MAX 1024
#define VALUE_MAX 4096

struct hold {
	struct list node; /* in its connection's list */
	struct map_node by_key; /* key: db and key */
	struct holds *books;
	struct hold_owner *owner;
	struct ev_timer timer; /* next renewal; when not renewed, the end of the lease */
	struct slice token; /* OWNER_VALUE: the value */
	int db;
	size_t db_len; /* bytes of by_key.key before the lock's own key */
	bool verb;
	bool by_value;
	bool release; /* at disconnect */
	bool renewed;
	bool renewing; /* a renewal is in flight */
	unsigned count; /* times LOCKed and not UNLOCKed, as far as seen here */
	enum renew_mode renew;
	int64_t lease_ms, default_lease_ms;
	double good_until; /* when the lease may be over; INFINITY: not known */
	double hold_until; /* after which nothing is renewed; 0: no limit */
};

struct holds {
	struct ev_loop *loop;
	struct control *control;
	struct map by_key;
	size_t nnotes; /* calls whose reply is awaited */
	struct log_limit limit;
};

struct hold_note {
	struct holds *books;
	struct lock_call call; /* its slices point to nothing */
	struct slice token;
	double sent_at;
	bool begins; /* a success begins a hold */
	bool counts; /* taken again, it must be given back as often */
	bool verb, by_value, release;
	enum renew_mode renew;
	int64_t default_lease_ms;
	int64_t max_hold_ms;
	size_t nkeys;
	struct slice keys[];
};

/* A renewal or release under way, sent as EVALSHA and, if the script is not there, as
 * EVAL. Does not point at its hold, which may end meanwhile. */
struct errand {
	struct holds *books;
	struct slice id; /* db and key */
	size_t db_len;
	struct slice token;
	int db;
	bool verb, by_value;
	int64_t lease_ms; /* 0: release */
	double sent_at;
	bool eval;
};

/* In seconds. Not the loop's time, which jumps when the machine's clock is set. */
static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

struct holds *holds_new(struct ev_loop *loop, struct control *control)
{
	struct holds *h = xcalloc(1, sizeof(*h));

	h->loop = loop;
	h->control = control;
	map_init(&h->by_key, (uint64_t)(uintptr_t)h);
	return h;
}

size_t holds_count(const struct holds *h)
{
	return h->by_key.n;
}

void hold_owner_init(struct hold_owner *o)
{
	list_init(&o->holds);
	o->n = 0;
}

static struct slice copy(struct slice s)
{
	return slice_of(xmemdup(s.p, s.n), s.n);
}

/* Names a lock in the books: its database's number, a colon, its key. */
static struct slice make_id(int db, struct slice key, size_t *db_len)
{
	char number[16];
	int n = snprintf(number, sizeof(number), "%d:", db);
	char *p = xmalloc((size_t)n + key.n + 1);

	memcpy(p, number, (size_t)n);
	if (key.n)
		memcpy(p + n, key.p, key.n);
	*db_len = (size_t)n;
	return slice_of(p, (size_t)n + key.n);
}

static void hold_free(struct hold *hold)
{
	ev_timer_stop(hold->books->loop, &hold->timer);
	map_remove(&hold->books->by_key, &hold->by_key);
	list_remove(&hold->node);
	hold->owner->n--;
	free((char *)hold->by_key.key.p);
	free((char *)hold->token.p);
	free(hold);
}

static struct hold *hold_of(struct map_node *node)
{
	return node ? container_of(node, struct hold, by_key) : NULL;
}

void holds_free(struct holds *h)
{
	for (size_t i = 0; i < h->by_key.nbuckets; i++)
		while (h->by_key.buckets[i])
			hold_free(hold_of(h->by_key.buckets[i]));
	map_fini(&h->by_key);
	free(h);
}

/* The hold with this name, of this connection (NULL: any) and with this token
 * (empty: any). */
static struct hold *find(const struct holds *h, struct slice id, const struct hold_owner *o,
                         struct slice token)
{
	struct map_node *node = map_get(&h->by_key, id);

	for (; node; node = map_next(node)) {
		struct hold *hold = hold_of(node);
		if ((!o || hold->owner == o) && (!token.n || slice_eq(hold->token, token)))
			return hold;
	}
	return NULL;
}

/* The hold that a connection's command on `key` is about: under owner = value its own, else
 * whichever connection's it is, for an owner may have several. */
static struct hold *find_for(const struct holds *h, const struct hold_owner *o, bool by_value,
                             int db, struct slice key)
{
	size_t db_len;
	struct slice id = make_id(db, key, &db_len);
	struct hold *hold = find(h, id, by_value ? o : NULL, SLICE_NONE);

	free((char *)id.p);
	return hold;
}

/* Its lease is over. What a value rule's connection stored stays known, for its DEL. */
static void run_out(struct hold *hold)
{
	ev_timer_stop(hold->books->loop, &hold->timer);
	if (!hold->by_value)
		hold_free(hold);
}

/* Not to be renewed: it can be released until its lease is over. */
static void let_run_out(struct hold *hold)
{
	double left = hold->good_until - now();

	ev_timer_stop(hold->books->loop, &hold->timer);
	hold->renewed = false;
	if (hold->by_value || isinf(left))
		return;
	ev_timer_set(&hold->timer, left > 0 ? left : 0, 0);
	ev_timer_start(hold->books->loop, &hold->timer);
}

/* --- errands ---------------------------------------------------------------- */

static void errand_free(struct errand *e)
{
	free((char *)e->id.p);
	free((char *)e->token.p);
	free(e);
}

static int errand_send(struct errand *e);

static void complain(struct holds *h, const struct errand *e, const char *what)
{
	uint32_t dropped;

	if (log_limit_pass(&h->limit, ev_now(h->loop), 10, &dropped))
		log_warning("%s db=%d key=\"%.*s\" suppressed=%u", what, e->db,
		            (int)(e->id.n - e->db_len > 128 ? 128 : e->id.n - e->db_len),
		            e->id.p + e->db_len, dropped);
}

/* The renewal has worked. */
static void prolong(struct hold *hold, const struct errand *e)
{
	hold->good_until = e->sent_at + (double)e->lease_ms / 1000;
	if (!hold->renewed)
		let_run_out(hold);
}

static void on_errand(void *arg, const redisReply *reply)
{
	struct errand *e = arg;
	struct holds *h = e->books;
	struct hold *hold = find(h, e->id, NULL, e->token);

	if (reply && reply->type == REDIS_REPLY_ERROR && !e->eval &&
	    strncmp(reply->str, "NOSCRIPT", 8) == 0) {
		e->eval = true;
		if (errand_send(e) == 0)
			return;
	}
	if (hold)
		hold->renewing = false;
	if (!reply || reply->type != REDIS_REPLY_INTEGER) {
		complain(h, e, e->lease_ms ? "renewal_failed" : "release_failed");
	} else if (e->lease_ms && hold) {
		if (reply->integer)
			prolong(hold, e);
		else
			hold_free(hold);
	}
	errand_free(e);
}

static int errand_send(struct errand *e)
{
	struct lock_ident id = {
		.verb = e->verb,
		.by_value = e->by_value,
		.key = slice_of(e->id.p + e->db_len, e->id.n - e->db_len),
		.token = e->token,
	};
	struct rewrite_how how = { .eval = e->eval };
	struct buf out = BUF_INIT;
	int rc;

	if (e->lease_ms)
		rewrite_renew(&out, &id, e->lease_ms, how);
	else
		rewrite_release(&out, &id, how);
	rc = control_call(e->books->control, e->db, buf_slice(&out), on_errand, e);
	buf_release(&out);
	return rc;
}

/* Sends a renewal (lease_ms > 0) or a release. */
static int run_errand(struct hold *hold, int64_t lease_ms)
{
	struct errand *e = xcalloc(1, sizeof(*e));

	e->books = hold->books;
	e->id = copy(hold->by_key.key);
	e->db_len = hold->db_len;
	e->token = copy(hold->token);
	e->db = hold->db;
	e->verb = hold->verb;
	e->by_value = hold->by_value;
	e->lease_ms = lease_ms;
	e->sent_at = now();
	if (errand_send(e) == 0)
		return 0;
	complain(hold->books, e, lease_ms ? "renewal_failed" : "release_failed");
	errand_free(e);
	return -1;
}

/* --- holds ------------------------------------------------------------------ */

static void on_timer(struct ev_loop *loop, struct ev_timer *w, int revents)
{
	struct hold *hold = w->data;
	double t = now();

	(void)loop;
	(void)revents;
	if (!hold->renewed || t >= hold->good_until)
		run_out(hold);
	else if (hold->hold_until > 0 && t >= hold->hold_until)
		let_run_out(hold);
	else if (!hold->renewing)
		hold->renewing = run_errand(hold, hold->lease_ms) == 0;
}

/* A lease of `lease_ms`, or when that is 0 an unknown one, began at `from`. */
static void begin_lease(struct hold *hold, int64_t lease_ms, bool leased, double from)
{
	double every, first = 0;

	/* An expiry that was not told (EXAT) may be near: begin to renew at once. */
	hold->good_until = INFINITY;
	hold->lease_ms = hold->default_lease_ms;
	if (lease_ms) {
		hold->lease_ms = lease_ms;
		hold->good_until = from + (double)lease_ms / 1000;
	}
	if (hold->renew != RENEW_YES && (leased || hold->renew != RENEW_UNLEASED)) {
		let_run_out(hold);
		return;
	}
	every = (double)hold->lease_ms / 3000;
	if (lease_ms)
		first = every;
	hold->renewed = true;
	ev_timer_stop(hold->books->loop, &hold->timer);
	ev_timer_set(&hold->timer, first, every);
	ev_timer_start(hold->books->loop, &hold->timer);
}

/* A connection that stores value after value forgets the oldest, but none that it
 * keeps alive. */
static void make_room(struct hold_owner *o)
{
	for (size_t left = o->n; left && o->n >= REMEMBERED_MAX; left--) {
		struct hold *hold = container_of(o->holds.next, struct hold, node);
		if (!hold->renewed) {
			hold_free(hold);
			return;
		}
		list_remove(&hold->node);
		list_append(&o->holds, &hold->node);
	}
}

static void take(struct holds *h, struct hold_owner *o, const struct hold_note *n, int db)
{
	struct hold *hold = find_for(h, o, n->by_value, db, n->keys[0]);
	unsigned count = 1;

	if (hold) {
		/* Who had it has it no more, or it is the same owner again. */
		if (n->counts && slice_eq(hold->token, n->token))
			count += hold->count;
		hold_free(hold);
	}
	if (!n->begins)
		return;
	if (n->by_value)
		make_room(o);
	hold = xcalloc(1, sizeof(*hold));
	hold->books = h;
	hold->owner = o;
	hold->db = db;
	hold->by_key.key = make_id(db, n->keys[0], &hold->db_len);
	hold->token = copy(n->token);
	hold->count = count;
	hold->verb = n->verb;
	hold->by_value = n->by_value;
	hold->release = n->release;
	hold->renew = n->renew;
	hold->default_lease_ms = n->default_lease_ms;
	if (n->max_hold_ms)
		hold->hold_until = n->sent_at + (double)n->max_hold_ms / 1000;
	ev_timer_init(&hold->timer, on_timer, 0, 0);
	hold->timer.data = hold;
	map_put(&h->by_key, &hold->by_key);
	list_append(&o->holds, &hold->node);
	o->n++;
	begin_lease(hold, n->call.lease_ms, n->call.leased, n->sent_at);
}

static void expire(struct holds *h, struct hold_owner *o, const struct hold_note *n, int db)
{
	struct hold *hold = find_for(h, o, n->by_value, db, n->keys[0]);

	if (hold)
		begin_lease(hold, n->call.lease_ms, true, n->sent_at);
}

/* Of several keys some may have stayed: they are renewed no more, and their lease
 * runs out. */
static void drop(struct holds *h, struct hold_owner *o, const struct hold_note *n, int db)
{
	for (size_t i = 0; i < n->nkeys; i++) {
		struct hold *hold = find_for(h, o, n->by_value, db, n->keys[i]);
		if (hold && --hold->count == 0)
			hold_free(hold);
	}
}

struct hold_note *hold_note(struct holds *h, const struct lock_call *call,
                            const struct slice *keys, size_t nkeys,
                            const struct hold_terms *terms)
{
	const struct rule *rule = terms->rule;
	const struct verbs *verbs = terms->verbs;
	bool by_value = rule && rule->owner == OWNER_VALUE;
	enum disconnect_mode end = rule ? rule->on_disconnect : verbs->on_disconnect;
	enum renew_mode renew = rule ? rule->renew : RENEW_UNLEASED;
	bool begins = call->effect == LOCK_EFFECT_TAKES &&
	              (by_value || end == DISCONNECT_RELEASE || renew == RENEW_YES ||
	               (renew == RENEW_UNLEASED && !call->leased)) &&
	              (!by_value || call->value.n <= VALUE_MAX);
	struct hold_note *n;

	if (call->effect == LOCK_EFFECT_NONE || nkeys == 0 ||
	    (!begins && h->by_key.n == 0 && h->nnotes == 0))
		return NULL;
	n = xcalloc(1, sizeof(*n) + nkeys * sizeof(*n->keys));
	n->books = h;
	h->nnotes++;
	n->call = *call;
	n->sent_at = now();
	n->token = copy(by_value ? call->value : terms->token);
	n->begins = begins;
	n->counts = verbs && verbs->reentrant == REENTRANT_COUNT;
	n->verb = !rule;
	n->by_value = by_value;
	n->release = end == DISCONNECT_RELEASE;
	n->renew = renew;
	n->default_lease_ms = rule ? rule->lease_ms : verbs->lease_ms;
	n->max_hold_ms = rule ? rule->max_hold_ms : verbs->max_hold_ms;
	n->nkeys = nkeys;
	for (size_t i = 0; i < nkeys; i++)
		n->keys[i] = copy(keys[i]);
	return n;
}

void hold_note_orphan(struct hold_note *n)
{
	n->release = true;
	n->begins = n->call.effect == LOCK_EFFECT_TAKES;
}

void hold_note_free(struct hold_note *n)
{
	if (!n)
		return;
	n->books->nnotes--;
	for (size_t i = 0; i < n->nkeys; i++)
		free((char *)n->keys[i].p);
	free((char *)n->token.p);
	free(n);
}

void hold_apply(struct holds *h, struct hold_owner *o, struct hold_note *n, int db,
                const struct resp_reply *r)
{
	if (db >= 0 && rewrite_succeeded(&n->call, r)) {
		switch (n->call.effect) {
		case LOCK_EFFECT_TAKES:
			take(h, o, n, db);
			break;
		case LOCK_EFFECT_EXPIRES:
			expire(h, o, n, db);
			break;
		case LOCK_EFFECT_DROPS:
			drop(h, o, n, db);
			break;
		case LOCK_EFFECT_NONE:
			break;
		}
	}
	hold_note_free(n);
}

struct slice hold_value(const struct holds *h, const struct hold_owner *o, int db,
                        struct slice key)
{
	struct hold *hold = o->n ? find_for(h, o, true, db, key) : NULL;

	return hold && hold->by_value ? hold->token : SLICE_NONE;
}

void hold_end(struct hold_owner *o)
{
	while (!list_empty(&o->holds)) {
		struct hold *hold = container_of(o->holds.next, struct hold, node);
		if (hold->release)
			(void)run_errand(hold, 0);
		hold_free(hold);
	}
}
