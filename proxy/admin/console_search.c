/* SPDX-License-Identifier: BSD-3-Clause
 *
 * console_search: scans the keys of one server, database by database, for the names of keys
 * that stand beside locks, and asks for the owners of these locks:
 *
 *   BEGIN --> SCAN, of some hundred keys --> OWNERS, of some locks at a time --.
 *             ^  ^                                |      ^                     |
 *             |  '--- none is left of the page <--'      '---------------------'
 *             '--- the next database
 *
 * Each step is a request, or some short ones. After it comes a pause several times as long as
 * the step took, so that Redis has most of its time for other clients, however busy it is.
 */
#include <hiredis/hiredis.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "admin/admin_internal.h"
#include "base/clock.h"
#include "base/fatal.h"
#include "commands/args.h"
#include "config/config.h"
#include "encryption.h"
#include "lock/rewrite/rewrite.h"
#include "lock/scripts/script.h"
#include "resp/write.h"
#include "upstream/ask.h"

/* Keys that Redis scans in one step, and locks whose owners it returns in one. */
#define SEARCH_KEYS 500
#define SEARCH_LOCKS 64
/* The pause after a step: a multiple of the step's time, and its bounds in seconds. */
#define SEARCH_PAUSE 4
#define SEARCH_PAUSE_MIN 0.001
#define SEARCH_PAUSE_MAX 0.02
/* A server that takes longer to answer is given up; in ms. */
#define SEARCH_ANSWER_MS 5000
/* The most owners that a search lists, in all and for one lock. */
#define SEARCH_OWNERS_MAX 10000
#define SEARCH_OWNERS_OF_ONE 1000
#define SEARCH_DATABASES_MAX 1024

enum lock_search_step { SEARCH_BEGIN, SEARCH_SCAN, SEARCH_OWNERS };

/* A lock that the scan found, followed by its key. */
struct search_trace {
	enum lock_trace by;
	size_t nkey;
};

struct lock_search {
	const struct search_terms *t;
	struct other_owners *found;
	const char *address;
	enum lock_search_step step;
	double asked_at; /* clock_now() when the step was asked for */
	int dbs[SEARCH_DATABASES_MAX]; /* that have keys */
	size_t ndbs, db; /* the one that is gone through */
	char cursor[24]; /* in it; "0": at its beginning */
	bool begun; /* it is not: at its end */
	struct buf
		traces; /* struct search_trace and key, of those that are not asked about yet */
	size_t asked; /* SEARCH_OWNERS: bytes of them that the step is about */
	struct slice about; /* what is left of these */
	size_t nrefused; /* locks whose owners the server did not return */
	char refusal[128]; /* the first error of these */
	bool ends; /* the search ends early, and `found` has the reason */
};

static void lock_search_end(struct lock_search *l, const char *why, size_t n)
{
	struct buf *missing = &l->found->missing;

	if (l->ends)
		return;
	l->ends = true;
	buf_printf(missing, "%s%s: %.*s", buf_len(missing) ? "; " : "", l->address, (int)n,
	           why);
}

static void lock_search_end_by(struct lock_search *l, const redisReply *error)
{
	lock_search_end(l, error->str, (size_t)error->len);
}

/* --- locks ------------------------------------------------------------------------------- */

static void add_trace(struct lock_search *l, enum lock_trace by, struct slice key)
{
	struct search_trace trace = { by, key.n };

	buf_append(&l->traces, slice_of(&trace, sizeof(trace)));
	buf_append(&l->traces, key);
}

static void on_key(struct lock_search *l, struct slice name)
{
	const struct rule *rule;
	struct slice key;

	if (key_names_read(l->t->naming, KEY_NAME_FENCE, name, &key)) {
		add_trace(l, LOCK_TRACE_RECORD, key);
	} else if (key_names_read(l->t->naming, KEY_NAME_OWNER, name, &key)) {
		add_trace(l, LOCK_TRACE_SIDECAR, key);
	} else if (l->t->matcher && !match_is_own(name)) {
		rule = match_rule(l->t->matcher, name);
		if (rule && rule->owner == OWNER_VALUE)
			add_trace(l, LOCK_TRACE_KEY, name);
	}
}

static struct slice text_of(const redisReply *r)
{
	return r->type == REDIS_REPLY_STRING ? slice_of(r->str, (size_t)r->len) : SLICE_NONE;
}

static int64_t integer_of(const redisReply *r)
{
	int64_t n = 0;

	if (r->type == REDIS_REPLY_INTEGER)
		return r->integer;
	return args_integer(text_of(r), &n) ? n : 0;
}

static bool is_ours(const struct lock_search *l, struct slice ticket)
{
	for (size_t i = 0; i < l->t->nworkers; i++)
		if (slice_starts(ticket, slice_str(l->t->workers[i])))
			return true;
	return false;
}

/* `v`: token, ms left, fencing token, ticket. */
static void add_owner(struct lock_search *l, struct slice key, int64_t waiters,
                      redisReply *const *v)
{
	struct slice token = text_of(v[0]);
	struct other_owners *o = l->found;
	struct other_owner *owner;

	if (o->n == SEARCH_OWNERS_MAX) {
		lock_search_end(l, "there are more", sizeof("there are more") - 1);
		return;
	}
	if ((o->n & (o->n - 1)) == 0) /* (a power of two is full) */
		o->v = xrealloc(o->v, (o->n ? 2 * o->n : 1) * sizeof(*o->v));
	owner = &o->v[o->n++];
	*owner = (struct other_owner){ .db = l->dbs[l->db],
		                       .ours = is_ours(l, text_of(v[3])),
		                       .left_ms = integer_of(v[1]),
		                       .waiters = waiters,
		                       .fence = integer_of(v[2]),
		                       .bytes = xmalloc(key.n + token.n + 1) };
	if (key.n)
		memcpy(owner->bytes, key.p, key.n);
	if (token.n)
		memcpy(owner->bytes + key.n, token.p, token.n);
	owner->key = slice_of(owner->bytes, key.n);
	owner->token = slice_of(owner->bytes + key.n, token.n);
}

static struct search_trace next_trace(struct slice *from, struct slice *key)
{
	struct search_trace trace;

	memcpy(&trace, from->p, sizeof(trace));
	*key = slice_of(from->p + sizeof(trace), trace.nkey);
	*from = slice_of(key->p + key->n, from->n - sizeof(trace) - key->n);
	return trace;
}

/* (Redis also refuses a lock whose slot is migrating.) */
static void on_owners(struct lock_search *l, const redisReply *r)
{
	struct slice key;

	(void)next_trace(&l->about, &key);
	if (r->type == REDIS_REPLY_ERROR && l->nrefused++ == 0)
		snprintf(l->refusal, sizeof(l->refusal), "%s", r->str);
	if (r->type != REDIS_REPLY_ARRAY || r->elements < 1)
		return;
	for (size_t i = 1; i + 4 <= r->elements; i += 4)
		add_owner(l, key, integer_of(r->element[0]), r->element + i);
}

/* --- answers ----------------------------------------------------------------------------- */

/* INFO keyspace has a line for each database, as `db0:keys=...`. */
static void on_databases(struct lock_search *l, const redisReply *r)
{
	struct slice text = text_of(r), line, name;
	int64_t db;

	while (slice_cut(&text, '\n', &line)) {
		if (!slice_starts(line, SLICE_LIT("db")) || !slice_cut(&line, ':', &name) ||
		    !args_integer(slice_of(name.p + 2, name.n - 2), &db) ||
		    l->ndbs == SEARCH_DATABASES_MAX)
			continue;
		l->dbs[l->ndbs++] = (int)db;
	}
}

static void on_page(struct lock_search *l, const redisReply *r)
{
	const redisReply *keys;

	if (r->type != REDIS_REPLY_ARRAY || r->elements != 2 ||
	    r->element[1]->type != REDIS_REPLY_ARRAY)
		return;
	snprintf(l->cursor, sizeof(l->cursor), "%.*s", (int)r->element[0]->len,
	         r->element[0]->str);
	l->begun = true;
	keys = r->element[1];
	for (size_t i = 0; i < keys->elements; i++)
		on_key(l, text_of(keys->element[i]));
}

/* Replies to SEARCH_BEGIN: 0: to CLIENT SETNAME, ignored; 1: the script; 2: the databases. */
static void lock_search_on_reply(void *arg, size_t i, const redisReply *r)
{
	struct lock_search *l = arg;

	if (l->step == SEARCH_OWNERS)
		on_owners(l, r);
	else if (r->type == REDIS_REPLY_ERROR && (i > 0 || l->step == SEARCH_SCAN))
		lock_search_end_by(l, r);
	else if (l->step == SEARCH_SCAN && i == 1)
		on_page(l, r);
	else if (l->step == SEARCH_BEGIN && i == 2)
		on_databases(l, r);
}

/* --- questions --------------------------------------------------------------------------- */

static size_t ask_page(struct lock_search *l, struct buf *out)
{
	struct slice select[] = { SLICE_LIT("SELECT"), SLICE_NONE };
	struct slice scan[] = {
		SLICE_LIT("SCAN"), slice_str(l->cursor), SLICE_LIT("COUNT"),
		SLICE_NONE,        SLICE_LIT("MATCH"),   SLICE_LIT("hasp:[fo]*")
	};
	char db[12], count[12];

	select[1] = slice_of(db, (size_t)snprintf(db, sizeof(db), "%d", l->dbs[l->db]));
	scan[3] = slice_of(count, (size_t)snprintf(count, sizeof(count), "%d", SEARCH_KEYS));
	resp_write_request(out, select, 2);
	/* If locks are found by their own names, scan without a pattern. */
	resp_write_request(out, scan, l->t->matcher ? 4 : 6);
	l->step = SEARCH_SCAN;
	return 2;
}

static size_t ask_owners(struct lock_search *l, struct buf *out)
{
	const struct rewrite_how how = { .naming = l->t->naming };
	struct slice left = buf_slice(&l->traces), key;
	size_t n = 0;

	l->about = left;
	while (left.n && n < SEARCH_LOCKS) {
		struct search_trace trace = next_trace(&left, &key);
		rewrite_owners(out, key, trace.by, SEARCH_OWNERS_OF_ONE, &how);
		n++;
	}
	l->asked = l->about.n - left.n;
	l->step = SEARCH_OWNERS;
	return n;
}

static bool lock_search_is_over(struct lock_search *l, double now)
{
	static const char ending[] = "hasp is ending", late[] = "it takes too long";

	if (atomic_load(l->t->ending))
		lock_search_end(l, ending, sizeof(ending) - 1);
	else if (now > l->t->until)
		lock_search_end(l, late, sizeof(late) - 1);
	return l->ends;
}

static size_t lock_search_next(void *arg, struct buf *out, double *pause)
{
	struct lock_search *l = arg;
	double now = clock_now(), took = now - l->asked_at;

	if (l->step == SEARCH_OWNERS)
		buf_consume(&l->traces, l->asked);
	*pause = took * SEARCH_PAUSE;
	if (*pause < SEARCH_PAUSE_MIN)
		*pause = SEARCH_PAUSE_MIN;
	if (*pause > SEARCH_PAUSE_MAX)
		*pause = SEARCH_PAUSE_MAX;
	l->asked_at = now + *pause;
	if (lock_search_is_over(l, now))
		return 0;
	if (buf_len(&l->traces))
		return ask_owners(l, out);
	if (l->begun && strcmp(l->cursor, "0") == 0) {
		l->db++;
		l->begun = false;
	}
	return l->db < l->ndbs ? ask_page(l, out) : 0;
}

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

void console_search(const struct search_terms *t, const char *address,
                    struct other_owners *found)
{
	const struct slice load[] = { SLICE_LIT("SCRIPT"), SLICE_LIT("LOAD"),
		                      script_get(SCRIPT_OWNERS)->text };
	struct slice requests[] = {
		SLICE_LIT("*3\r\n$6\r\nCLIENT\r\n$7\r\nSETNAME\r\n$12\r\nhasp-console\r\n"),
		SLICE_NONE, /* the script */
		SLICE_LIT("*2\r\n$4\r\nINFO\r\n$8\r\nkeyspace\r\n"),
	};
	struct lock_search *l = xcalloc(1, sizeof(*l));
	struct buf script = BUF_INIT, why = BUF_INIT;
	struct ask how = {
		.user = t->config->upstream_user,
		.password = t->config->upstream_password,
		.tls = encryption_of_servers(t->config),
		.timeout_ms = least(t->config->connect_timeout_ms, SEARCH_ANSWER_MS),
		.requests = requests,
		.nrequests = sizeof(requests) / sizeof(*requests),
		.on_reply = lock_search_on_reply,
		.next = lock_search_next,
		.arg = l,
	};

	*l = (struct lock_search){ .t = t,
		                   .found = found,
		                   .address = address,
		                   .asked_at = clock_now(),
		                   .cursor = "0",
		                   .traces = BUF_INIT };
	resp_write_request(&script, load, 3);
	requests[1] = buf_slice(&script);
	if (lock_search_is_over(l, clock_now()))
		;
	else if (address_parse(&how.address, address) < 0)
		lock_search_end(l, "no address", sizeof("no address") - 1);
	else if (ask_server(&how, &why) < 0)
		lock_search_end(l, buf_head(&why), buf_len(&why));
	if (l->nrefused && !l->ends) {
		buf_clear(&why);
		buf_printf(&why, "it did not tell who has %zu locks: %s", l->nrefused,
		           l->refusal);
		lock_search_end(l, buf_head(&why), buf_len(&why));
	}
	buf_release(&l->traces);
	buf_release(&script);
	buf_release(&why);
	free(l);
}
