/* SPDX-License-Identifier: BSD-3-Clause */
#include "client/list_exchange.h"

#include <math.h>
#include <stdlib.h>

#include "base/fatal.h"
#include "base/glob.h"
#include "client/conn.h"
#include "client/holder_fields.h"
#include "client/request_context.h"
#include "client/round.h"
#include "lock/hold/held.h"
#include "resp/write.h"

/* The most locks in a reply, and bytes. */
#define LIST_MAX 1000
#define LIST_NBYTES_MAX ((size_t)512 * 1024)
/* How many buckets of a worker's table one step searches. */
#define BUCKETS_AT_ONCE 256
#define FIELDS 9

/* The question, and what was answered yet. */
struct list_ask {
	struct round round;
	struct client_asked asked; /* for its client's worker only */
	int db;
	bool resp3;
	bool every; /* there is no pattern */
	struct buf pattern, user;
	size_t n;
	struct buf rows;
	const struct client_env *env; /* of the worker that is asked, in a step */
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
	struct buf address = BUF_INIT, name = BUF_INIT, *out = &a->rows;
	double left = held->good_until - env->now;

	holder_client(c, &address, &name);
	buf_printf(out, "%c%d\r\n", a->resp3 ? '%' : '*', a->resp3 ? FIELDS : 2 * FIELDS);
	resp_write_bulk_str(out, "key");
	resp_write_bulk(out, held->key);
	holder_text(out, "owner", held->token, a->resp3);
	holder_number(out, "ttl", !isinf(left), isinf(left) ? 0 : (int64_t)(left * 1000),
	              a->resp3);
	holder_number(out, "fence", held->fence, held->fence, a->resp3);
	holder_text(out, "address", buf_slice(&address), a->resp3);
	holder_text(out, "name", buf_slice(&name), a->resp3);
	holder_number(out, "since", true, holder_date(env, held->since), a->resp3);
	holder_number(out, "lease", held->lease_ms, held->lease_ms, a->resp3);
	holder_number(out, "renewed", true, held->renewed, a->resp3);
	a->n++;
	buf_release(&address);
	buf_release(&name);
}

static void list_held(void *arg, const struct held *held)
{
	struct list_ask *a = arg;
	const struct client *c = container_of(held->owner, struct client, holds);

	if (held->db != a->db || held->good_until <= a->env->policy.now ||
	    is_full(a, held->key.n + held->token.n) || !is_same_user(a, c))
		return;
	if (a->every || glob_match(buf_slice(&a->pattern), held->key))
		tell_lock(a, held, c);
}

static bool list_step(struct round *r, const struct client_env *env)
{
	struct list_ask *a = container_of(r, struct list_ask, round);

	a->env = env;
	for (size_t i = 0; i < BUCKETS_AT_ONCE; i++) {
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
		session_complete(&c->session, c->current);
		client_end_current(c);
	}
	buf_release(&head);
	buf_release(&a->pattern);
	buf_release(&a->user);
	buf_release(&a->rows);
	free(a);
}

void list_exchange_on_reply(struct client *c, const struct resp_reply *reply)
{
	const char *user = session_user(&c->session);
	struct list_ask *a;
	struct command_info what;
	struct resp_view view;

	if (resp_reply_is_error(reply)) {
		session_complete(&c->session, c->current);
		client_end_current(c);
		return;
	}
	(void)request_context_again(c, &view, &what);
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
	/* (No user has an empty name that is not known.) */
	if (user)
		buf_puts(&a->user, user);
	c->asked = &a->asked;
	client_park(c, CLIENT_PARKED_ROUND);
	client_count_memory(c);
	c->env->begin_round(c->env->arg, &a->round);
}
