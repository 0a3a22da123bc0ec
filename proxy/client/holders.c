/* SPDX-License-Identifier: BSD-3-Clause
 *
 * holders: LOCK.INFO and LOCK.LIST, and the holders in the log. Redis returns the token of a
 * lock's owner. If the owner is a client of this process, only that client's worker can name
 * it. So hasp asks each worker in turn, by a round (client/client.h):
 *
 *   LOCK.INFO --info.lua--> Redis: owner, holds, ttl, fence, waiters
 *                 nil <------'   `--PARKED_ROUND--> the same, and address, name, since, lease,
 *                                                   renewed
 *
 * LOCK.LIST shows only the locks of clients that are logged in as the same Redis user as the
 * asking client, because hasp does not ask Redis which keys the user may see.
 */
#include "client/client_internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/glob.h"
#include "config/match.h"
#include "lock/hold/holds.h"
#include "resp/write.h"

/* --- the fields --------------------------------------------------------------------------- */

void holder_nil(struct buf *out, bool resp3)
{
	buf_puts(out, resp3 ? "_\r\n" : "$-1\r\n");
}

void holder_number(struct buf *out, const char *name, bool known, int64_t n, bool resp3)
{
	resp_write_bulk_str(out, name);
	if (known)
		buf_printf(out, ":%" PRId64 "\r\n", n);
	else
		holder_nil(out, resp3);
}

void holder_text(struct buf *out, const char *name, struct slice text, bool resp3)
{
	resp_write_bulk_str(out, name);
	if (text.n)
		resp_write_bulk(out, text);
	else
		holder_nil(out, resp3);
}

static void holder_client(const struct client *c, struct buf *address, struct buf *name)
{
	char peer[128];

	client_print_peer(c, peer, sizeof(peer));
	buf_puts(address, peer);
	if (session_text(&c->session, TEXT_NAME))
		buf_puts(name, session_text(&c->session, TEXT_NAME));
}

/* --- the holder --------------------------------------------------------------------------- */

/* The workers' answer about the holder of a lock or guard. Times are as clock_now(). */
struct holder {
	double learnt_at; /* when the holder's worker learnt of the hold. The latest hold
	                   * counts. 0: no worker knows a holder */
	double since;
	int64_t lease_ms; /* the lease; 0: not known */
	bool renewed;
	struct buf address, name;
	struct buf described; /* address and name for the log: "127.0.0.1:4711 name" */
};

/* How many fields hasp adds to Redis' reply to LOCK.INFO. */
#define ADDED_FIELDS 5

/* Writes the ADDED_FIELDS fields. If no worker knows the holder, their values are nil. */
static void holder_write(struct buf *out, const struct holder *h, const struct policy_env *env,
                         bool resp3)
{
	bool known = h->learnt_at > 0;

	holder_text(out, "address", buf_slice(&h->address), resp3);
	holder_text(out, "name", buf_slice(&h->name), resp3);
	holder_number(out, "since", known, (int64_t)((env->date - env->now + h->since) * 1000),
	              resp3);
	holder_number(out, "lease", known && h->lease_ms, h->lease_ms, resp3);
	holder_number(out, "renewed", known, h->renewed, resp3);
}

/* A question to the workers: which client holds a lock or guard? */
struct holder_query {
	struct round round;
	bool of_guard; /* the question is about a guard, not a lock */
	bool other; /* the question: which owner other than `token` had the lock or guard at the
	             * time `at`? */
	double at;
	int db;
	struct buf key, token;
	int64_t fence; /* fencing token of the hold in question; 0: any hold */
	struct holder holder;
};

static void describe_holder(struct holder *h, struct client *c)
{
	buf_clear(&h->address);
	buf_clear(&h->name);
	buf_clear(&h->described);
	holder_client(c, &h->address, &h->name);
	client_describe(c, &h->described);
}

static void find_hold(struct holder_query *q, const struct client_env *env)
{
	struct held held;

	if (!held_find(env->policy.holds, q->db, buf_slice(&q->key), buf_slice(&q->token),
	               q->fence, q->other ? q->at : 0, &held) ||
	    held.learnt_at <= q->holder.learnt_at)
		return;
	q->holder.learnt_at = held.learnt_at;
	q->holder.since = held.since;
	q->holder.lease_ms = held.lease_ms;
	q->holder.renewed = held.renewed;
	describe_holder(&q->holder, client_of_holder(held.owner));
}

static void find_read(struct holder_query *q, const struct client_env *env)
{
	const struct read_set_entry *e = read_sets_holder(
		env->policy.read_sets, q->db, buf_slice(&q->key), buf_slice(&q->token),
		q->other, q->at);

	if (!e || e->since <= q->holder.learnt_at)
		return;
	q->holder.learnt_at = q->holder.since = e->since;
	q->holder.lease_ms = e->lease_ms;
	describe_holder(&q->holder, client_of_reader(e->read_set));
}

static bool holder_step(struct round *r, const struct client_env *env)
{
	struct holder_query *q = container_of(r, struct holder_query, round);

	if (q->of_guard)
		find_read(q, env);
	else
		find_hold(q, env);
	return true;
}

static void holder_query_init(struct holder_query *q, struct slice key, struct slice token,
                              void (*end)(struct round *r, bool home))
{
	q->round.step = holder_step;
	q->round.end = end;
	buf_append(&q->key, key);
	buf_append(&q->token, token);
}

static void holder_query_fini(struct holder_query *q)
{
	buf_release(&q->key);
	buf_release(&q->token);
	buf_release(&q->holder.address);
	buf_release(&q->holder.name);
	buf_release(&q->holder.described);
}

/* --- events ------------------------------------------------------------------------------- */

/* hasp asks all workers who owns the lock, and then logs the event. No client waits for it. */

/* A question has texts of at most this many bytes; if they are longer, hasp logs at once. */
#define EVENT_NBYTES_MAX ((size_t)64 * 1024)

struct event_ask {
	struct holder_query query;
	struct event_to_log event; /* without the key and `holder`, which `query` has */
};

static void event_end(struct round *r, bool home)
{
	struct event_ask *a = container_of(r, struct event_ask, query.round);
	struct holder_query *q = &a->query;

	(void)home;
	a->event.key = buf_slice(&q->key);
	a->event.holder = q->holder.described;
	q->holder.described = BUF_INIT;
	if (q->holder.learnt_at > 0)
		a->event.held = q->at - q->holder.since;
	event_log(&a->event);
	holder_query_fini(q);
	free(a);
}

void holders_log_event(void *arg, struct event_to_log *event, struct slice token)
{
	struct client_env *env = arg;
	struct event_ask *a;

	if (env->is_alone || event->key.n + buf_len(&event->by) + token.n > EVENT_NBYTES_MAX) {
		event_log(event);
		return;
	}
	a = xcalloc(1, sizeof(*a));
	holder_query_init(&a->query, event->key, token, event_end);
	a->query.of_guard = event->stats->kind == STATS_GUARD;
	a->query.other = true;
	a->query.at = event->at;
	a->query.db = event->db;
	a->query.holder.described = event->holder;
	a->event = *event;
	env->begin_round(env->arg, &a->query.round);
}

/* --- LOCK.INFO ---------------------------------------------------------------------------- */

/* How many fields Redis' reply to LOCK.INFO has: for most locks, and for a read-write lock. */
#define REDIS_FIELDS 5
#define REDIS_SIDE_FIELDS 7
/* A question has copies of the key, the owner and the answer, of at most this many bytes. */
#define ASK_NBYTES_MAX ((size_t)1024 * 1024)

/* A question to the workers, for LOCK.INFO. */
struct info_ask {
	struct holder_query query;
	struct client_asked asked; /* only the worker of the asking client may read this */
	struct buf answer; /* the fields of Redis' reply */
	size_t nfields; /* number of fields in `answer` */
};

/* --- the answer --------------------------------------------------------------------------- */

/* Sends the reply to LOCK.INFO. `fields`: the n fields of Redis' reply. `h`: the holder; all
 * zero if no worker knows the holder. */
static void send_info(struct client *c, struct slice fields, size_t n, const struct holder *h)
{
	bool resp3 = c->session.proto == 3;
	struct buf out = BUF_INIT;

	if (resp3)
		buf_printf(&out, "%%%zu\r\n", n + ADDED_FIELDS);
	else
		buf_printf(&out, "*%zu\r\n", 2 * (n + ADDED_FIELDS));
	buf_append(&out, fields);
	holder_write(&out, h, &c->env->policy, resp3);
	stream_send(&c->stream, buf_slice(&out));
	buf_release(&out);
}

static void info_end(struct round *r, bool home)
{
	struct info_ask *a = container_of(r, struct info_ask, query.round);
	struct client *c = home ? a->asked.client : NULL;

	if (c) {
		c->asked = NULL;
		send_info(c, buf_slice(&a->answer), a->nfields, &a->query.holder);
		client_complete_current(c);
	}
	buf_release(&a->answer);
	holder_query_fini(&a->query);
	free(a);
}

/* --- Redis' answer ------------------------------------------------------------------------ */

/* Takes the next text or number from `rest`, the fields of a reply; *value is empty for nil.
 * Returns false if there is none. */
static bool take_value(struct slice *rest, struct slice *value)
{
	struct slice bytes = *rest, line;
	struct resp_reply reply;

	if (!reply_next(rest, &reply))
		return false;
	bytes.n -= rest->n;
	*value = SLICE_NONE;
	if (!slice_cut(&bytes, '\n', &line))
		return false;
	if (reply.type == ':')
		*value = slice_of(line.p + 1, line.n - 2);
	else if (reply.type == '$' && !reply.nil)
		*value = slice_of(bytes.p, bytes.n - 2);
	return true;
}

/* Redis' reply: all its fields, and the values of `owner` and `fence`; empty: nil. */
struct redis_info {
	struct slice fields, owner, fence;
	size_t nfields;
};

static bool read_info(struct slice reply, struct redis_info *info)
{
	struct slice rest = reply_elements(reply), name, value;

	*info = (struct redis_info){ .fields = rest };
	for (; take_value(&rest, &name) && take_value(&rest, &value); info->nfields++) {
		if (slice_eq(name, SLICE_LIT("owner")))
			info->owner = value;
		else if (slice_eq(name, SLICE_LIT("fence")))
			info->fence = value;
	}
	return rest.n == 0 &&
	       (info->nfields == REDIS_FIELDS || info->nfields == REDIS_SIDE_FIELDS);
}

static void ask_workers(struct client *c, const struct redis_info *info)
{
	struct policy_env *env = &c->env->policy;
	struct info_ask *a = xcalloc(1, sizeof(*a));
	struct command_info what;
	struct resp_view view;
	struct slice key;

	(void)client_context_again(c, &view, &what);
	key = view.argv[1];
	holder_query_init(&a->query, key, info->owner, info_end);
	a->asked.client = c;
	a->query.of_guard = match_enforced_guard(env->matcher, key);
	a->query.at = clock_now();
	a->query.db = c->session.db;
	if (!slice_integer(info->fence, &a->query.fence))
		a->query.fence = 0;
	buf_append(&a->answer, info->fields);
	a->nfields = info->nfields;
	a->asked.nbytes = sizeof(*a) + buf_cap(&a->query.key) + buf_cap(&a->query.token) +
	                  buf_cap(&a->answer);
	c->asked = &a->asked;
	client_park(c, CLIENT_PARKED_ROUND);
	client_count_memory(c);
	c->env->begin_round(c->env->arg, &a->query.round);
}

void holders_info_on_reply(struct client *c, const struct resp_reply *reply,
                           struct slice captured)
{
	const struct holder nobody = { 0 };
	struct redis_info info;

	if (resp_reply_is_error(reply)) {
		/* The link has passed the error to the client. */
	} else if (reply->nil) {
		stream_send(&c->stream, captured);
	} else if (!read_info(captured, &info)) {
		client_close(c, "hasp does not understand the reply to LOCK.INFO");
		return;
	} else if (info.owner.n && captured.n + c->scanned <= ASK_NBYTES_MAX) {
		ask_workers(c, &info);
		return;
	} else {
		send_info(c, info.fields, info.nfields, &nobody);
	}
	client_complete_current(c);
}

/* --- LOCK.LIST ---------------------------------------------------------------------------- */

/* The most locks in a reply to LOCK.LIST, and the most bytes. */
#define LIST_MAX 1000
#define LIST_NBYTES_MAX ((size_t)512 * 1024)
/* How many buckets of a worker's table one step searches. */
#define BUCKETS_AT_ONCE 256
/* glob_match() may compare each byte of a key with each byte of a pattern. LOCK.LIST leaves out
 * a key that could take more than this many comparisons, and a step ends after this many. */
#define LIST_COMPARED_MAX ((size_t)1 << 20)
#define FIELDS (4 + ADDED_FIELDS)

/* A question to the workers, for LOCK.LIST, and the answers of the workers asked so far. */
struct list_ask {
	struct round round;
	struct client_asked asked; /* only the worker of the asking client may read this */
	int db;
	bool resp3;
	bool every; /* the client gave no pattern, so every lock counts */
	struct buf pattern, user;
	size_t n;
	struct buf rows;
	/* The rest is valid during a step. */
	const struct client_env *env; /* the worker at which the step runs */
	size_t ncompared; /* most comparisons that the step's matches can have taken */
	struct slice key; /* the bucket's key that was matched last */
	bool is_match; /* `key` matches the pattern */
};

static bool is_full(const struct list_ask *a, size_t more)
{
	return a->n >= LIST_MAX || buf_len(&a->rows) + more > LIST_NBYTES_MAX;
}

static bool is_same_user(const struct list_ask *a, const struct client *c)
{
	const char *user = session_user(&c->session);

	return user && slice_eq(slice_str(user), buf_slice(&a->user));
}

static void tell_lock(struct list_ask *a, const struct held *held, const struct client *c)
{
	const struct policy_env *env = &a->env->policy;
	struct holder h = { held->learnt_at, held->since, held->lease_ms,
		            .renewed = held->renewed };
	struct buf *out = &a->rows;
	double left = held->good_until - env->now;

	holder_client(c, &h.address, &h.name);
	buf_printf(out, "%c%d\r\n", a->resp3 ? '%' : '*', a->resp3 ? FIELDS : 2 * FIELDS);
	resp_write_bulk_str(out, "key");
	resp_write_bulk(out, held->key);
	holder_text(out, "owner", held->token, a->resp3);
	holder_number(out, "ttl", !isinf(left), isinf(left) ? 0 : (int64_t)(left * 1000),
	              a->resp3);
	holder_number(out, "fence", held->fence, held->fence, a->resp3);
	holder_write(out, &h, env, a->resp3);
	a->n++;
	buf_release(&h.address);
	buf_release(&h.name);
}

/* True if the pattern matches the key. A bucket may have many holds of one key. */
static bool is_listed(struct list_ask *a, struct slice key)
{
	size_t n = key.n * buf_len(&a->pattern);
	bool fits = n <= LIST_COMPARED_MAX;

	if (a->every)
		return true;
	if (!a->key.p || !slice_eq(key, a->key)) {
		a->key = key;
		a->is_match = fits && glob_match(buf_slice(&a->pattern), key);
		a->ncompared += fits ? n : 0;
	}
	return a->is_match;
}

static void list_held(void *arg, const struct held *held)
{
	struct list_ask *a = arg;
	const struct client *c = client_of_holder(held->owner);

	if (held->db != a->db || held->good_until <= a->env->policy.now ||
	    is_full(a, held->key.n + held->token.n) || !is_same_user(a, c))
		return;
	if (is_listed(a, held->key))
		tell_lock(a, held, c);
}

static bool list_step(struct round *r, const struct client_env *env)
{
	struct list_ask *a = container_of(r, struct list_ask, round);

	a->env = env;
	a->ncompared = 0;
	for (size_t i = 0; i < BUCKETS_AT_ONCE && a->ncompared < LIST_COMPARED_MAX; i++) {
		a->key = SLICE_NONE;
		r->cursor = held_walk(env->policy.holds, r->cursor, list_held, a);
		if (r->cursor == 0 || is_full(a, 0))
			return true;
	}
	return false;
}

static void list_end(struct round *r, bool home)
{
	struct list_ask *a = container_of(r, struct list_ask, round);
	struct client *c = home ? a->asked.client : NULL;
	struct buf head = BUF_INIT;

	if (c) {
		c->asked = NULL;
		resp_write_array(&head, a->n);
		stream_send(&c->stream, buf_slice(&head));
		stream_send(&c->stream, buf_slice(&a->rows));
		client_complete_current(c);
	}
	buf_release(&head);
	buf_release(&a->pattern);
	buf_release(&a->user);
	buf_release(&a->rows);
	free(a);
}

void holders_list_on_reply(struct client *c, const struct resp_reply *reply)
{
	const char *user = session_user(&c->session);
	struct list_ask *a;
	struct command_info what;
	struct resp_view view;

	if (resp_reply_is_error(reply)) {
		client_complete_current(c);
		return;
	}
	(void)client_context_again(c, &view, &what);
	a = xcalloc(1, sizeof(*a));
	a->round.step = list_step;
	a->round.end = list_end;
	a->asked.client = c;
	a->asked.nbytes = sizeof(*a) + LIST_NBYTES_MAX;
	a->db = c->session.db;
	a->resp3 = c->session.proto == 3;
	a->every = view.argc == 1;
	if (!a->every)
		buf_append(&a->pattern, view.argv[1]);
	/* If hasp does not know the user, the name stays empty, and matches no client. */
	if (user)
		buf_puts(&a->user, user);
	c->asked = &a->asked;
	client_park(c, CLIENT_PARKED_ROUND);
	client_count_memory(c);
	c->env->begin_round(c->env->arg, &a->round);
}
