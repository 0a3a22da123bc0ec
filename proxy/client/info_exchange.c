/* SPDX-License-Identifier: BSD-3-Clause */
#include "client/info_exchange.h"

#include <stdlib.h>

#include "base/fatal.h"
#include "client/conn.h"
#include "client/holder_fields.h"
#include "client/request_context.h"
#include "client/round.h"
#include "commands/args.h"
#include "lock/hold/held.h"
#include "policy/lock.h"
#include "resp/write.h"

/* The fields that Redis knows, of a read-write lock some more, and those that hasp adds. */
#define REDIS_FIELDS 5
#define REDIS_SIDE_FIELDS 7
#define ADDED_FIELDS 5
/* The key, the owner and the answer are kept in a question: longer ones are not asked about. */
#define ASK_NBYTES_MAX ((size_t)1024 * 1024)

/* The workers' answer about the holder. The times are clock_now()'s. */
struct holder {
	double learnt_at; /* of several connections, the one that heard last counts; 0: none has
	                   */
	double since;
	int64_t lease_ms; /* 0: not known */
	bool renewed;
	struct buf address, name;
};

/* A question to the workers. */
struct info_ask {
	struct round round;
	struct client_asked asked; /* for its client's worker only */
	bool of_guard; /* else of a lock */
	int db;
	struct buf key, owner;
	int64_t fence; /* 0: none is known */
	struct buf answer; /* Redis' fields, */
	size_t nfields; /* so many */
	struct holder holder;
};

/* --- the workers' answers ----------------------------------------------------------------- */

static void describe_holder(struct holder *h, const struct client *c)
{
	buf_clear(&h->address);
	buf_clear(&h->name);
	holder_client(c, &h->address, &h->name);
}

static void find_hold(struct info_ask *a, const struct client_env *env)
{
	struct held held;

	if (!held_find(env->policy.holds, a->db, buf_slice(&a->key), buf_slice(&a->owner),
	               a->fence, &held) ||
	    held.learnt_at <= a->holder.learnt_at)
		return;
	a->holder.learnt_at = held.learnt_at;
	a->holder.since = held.since;
	a->holder.lease_ms = held.lease_ms;
	a->holder.renewed = held.renewed;
	describe_holder(&a->holder, container_of(held.owner, struct client, holds));
}

static void find_read(struct info_ask *a, const struct client_env *env)
{
	const struct read_set_entry *e = read_sets_holder(
		env->policy.read_sets, a->db, buf_slice(&a->key), buf_slice(&a->owner), false,
		env->policy.now);

	if (!e || e->since <= a->holder.learnt_at)
		return;
	a->holder.learnt_at = a->holder.since = e->since;
	a->holder.lease_ms = e->lease_ms;
	describe_holder(&a->holder, container_of(e->read_set, struct client, read_set));
}

static bool info_step(struct round *r, const struct client_env *env)
{
	struct info_ask *a = container_of(r, struct info_ask, round);

	if (a->of_guard)
		find_read(a, env);
	else
		find_hold(a, env);
	return true;
}

/* --- the answer --------------------------------------------------------------------------- */

/* Sends the reply. `fields`: the n fields of Redis; `h`: the others; empty: no worker knows the
 * holder. */
static void send_info(struct client *c, struct slice fields, size_t n, const struct holder *h)
{
	bool resp3 = c->session.proto == 3, known = h->learnt_at > 0;
	struct buf out = BUF_INIT;

	if (resp3)
		buf_printf(&out, "%%%zu\r\n", n + ADDED_FIELDS);
	else
		buf_printf(&out, "*%zu\r\n", 2 * (n + ADDED_FIELDS));
	buf_append(&out, fields);
	holder_text(&out, "address", buf_slice(&h->address), resp3);
	holder_text(&out, "name", buf_slice(&h->name), resp3);
	holder_number(&out, "since", known, holder_date(&c->env->policy, h->since), resp3);
	holder_number(&out, "lease", known && h->lease_ms, h->lease_ms, resp3);
	holder_number(&out, "renewed", known, h->renewed, resp3);
	stream_send(&c->stream, buf_slice(&out));
	buf_release(&out);
}

static void info_free(struct info_ask *a)
{
	buf_release(&a->key);
	buf_release(&a->owner);
	buf_release(&a->answer);
	buf_release(&a->holder.address);
	buf_release(&a->holder.name);
	free(a);
}

static void end_current(struct client *c)
{
	session_complete(&c->session, c->current);
	client_end_current(c);
}

static void info_end(struct round *r, bool home)
{
	struct info_ask *a = container_of(r, struct info_ask, round);
	struct client *c = home ? a->asked.client : NULL;

	if (c) {
		c->asked = NULL;
		send_info(c, buf_slice(&a->answer), a->nfields, &a->holder);
		end_current(c);
	}
	info_free(a);
}

/* --- Redis' answer -------------------------------------------------------------------------
 */

/* Takes the next line from `rest`. */
static struct slice take_line(struct slice *rest)
{
	const char *end = rest->n ? memchr(rest->p, '\r', rest->n) : NULL;
	struct slice line = slice_of(rest->p, end ? (size_t)(end - rest->p) : rest->n);
	size_t used = end && line.n + 2 <= rest->n ? line.n + 2 : rest->n;

	*rest = slice_of(rest->p + used, rest->n - used);
	return line;
}

/* Takes the next value from `rest`, the fields of a reply. False: it is nil, or nothing that
 * was expected. */
static bool take_value(struct slice *rest, struct slice *value)
{
	struct slice line = take_line(rest);
	int64_t n;

	if (line.n < 2)
		return false;
	*value = slice_of(line.p + 1, line.n - 1);
	if (*line.p == ':')
		return true;
	if (*line.p != '$' || !args_integer(*value, &n) || n < 0 || rest->n < (size_t)n + 2)
		return false;
	*value = slice_of(rest->p, (size_t)n);
	*rest = slice_of(rest->p + n + 2, rest->n - (size_t)n - 2);
	return true;
}

/* Redis' answer: its fields, with the owner and the fencing token (empty: nil). */
struct redis_info {
	struct slice fields, owner, fence;
	size_t nfields;
};

static bool read_info(struct slice reply, struct redis_info *info)
{
	struct slice head = take_line(&reply), rest = reply, name, value;

	*info = (struct redis_info){ .fields = reply, .nfields = REDIS_FIELDS };
	if (slice_eq(head, SLICE_LIT("*14")))
		info->nfields = REDIS_SIDE_FIELDS;
	else if (!slice_eq(head, SLICE_LIT("*10")))
		return false;
	for (size_t i = 0; i < info->nfields; i++) {
		bool has_value;

		if (!take_value(&rest, &name))
			return false;
		has_value = take_value(&rest, &value);
		if (has_value && slice_eq(name, SLICE_LIT("owner")))
			info->owner = value;
		else if (has_value && slice_eq(name, SLICE_LIT("fence")))
			info->fence = value;
	}
	return true;
}

static void ask_workers(struct client *c, const struct redis_info *info)
{
	struct policy_env *env = &c->env->policy;
	struct info_ask *a = xcalloc(1, sizeof(*a));
	struct command_info what;
	struct resp_view view;
	struct slice key;

	(void)request_context_again(c, &view, &what);
	key = view.argv[1];
	a->round.step = info_step;
	a->round.end = info_end;
	a->asked.client = c;
	a->of_guard = lock_info_is_of_guard(env, key);
	a->db = c->session.db;
	if (!args_integer(info->fence, &a->fence))
		a->fence = 0;
	buf_append(&a->key, key);
	buf_append(&a->owner, info->owner);
	buf_append(&a->answer, info->fields);
	a->nfields = info->nfields;
	a->asked.nbytes = sizeof(*a) + buf_cap(&a->key) + buf_cap(&a->owner) +
	                  buf_cap(&a->answer);
	c->asked = &a->asked;
	client_park(c, CLIENT_PARKED_ROUND);
	client_count_memory(c);
	c->env->begin_round(c->env->arg, &a->round);
}

void info_exchange_on_reply(struct client *c, const struct resp_reply *reply,
                            struct slice captured)
{
	const struct holder nobody = { 0 };
	struct redis_info info;

	if (resp_reply_is_error(reply)) {
		/* The client got the error as it came. */
	} else if (reply->nil) {
		stream_send(&c->stream, captured);
	} else if (!read_info(captured, &info)) {
		client_close(c, "the answer to LOCK.INFO is not understood");
		return;
	} else if (info.owner.n && captured.n + c->scanned <= ASK_NBYTES_MAX) {
		ask_workers(c, &info);
		return;
	} else {
		send_info(c, info.fields, info.nfields, &nobody);
	}
	end_current(c);
}
