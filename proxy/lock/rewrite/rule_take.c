/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rule_take: the calls for commands that take a rule's lock: SET, SETNX, SETEX, GETSET, MSETNX
 * and INCR. See rule.c.
 */
#include <string.h>

#include "commands/args.h"
#include "commands/effect.h"
#include "lock/model/key_names.h"
#include "lock/rewrite/rewrite_internal.h"
#include "lock/scripts/script_call.h"
#include "resp/write.h"

/* The expiry of a lock, as an option of SET. */
struct expiry {
	const char *option; /* PX, EXAT, PXAT or KEEPTTL */
	int64_t number; /* the option's argument; unused for KEEPTTL */
	bool named; /* the application has named the expiry; else it is the rule's lease */
};

static struct expiry expiry_px(const struct rule *rule, int64_t ms, bool named)
{
	return (struct expiry){ "PX", rewrite_capped(rule, ms), named };
}

static struct expiry expiry_lease(const struct rule *rule)
{
	return expiry_px(rule, rule->lease_ms, false);
}

static void write_expiry(struct buf *out, const struct expiry *e)
{
	resp_write_bulk_str(out, e->option);
	if (strcmp(e->option, "KEEPTTL") == 0)
		resp_write_bulk(out, SLICE_LIT(""));
	else
		resp_write_bulk_int(out, e->number);
}

static void call_takes(struct lock_call *call, const struct rule *rule,
                       enum lock_success success, struct slice value, const struct expiry *e)
{
	call->kind = rewrite_rule_kind(rule);
	call->effect = LOCK_EFFECT_TAKES;
	call->success = success;
	call->value = value;
	call->leased = e->named;
	if (strcmp(e->option, "PX") == 0)
		call->lease_ms = e->number;
	else if (strcmp(e->option, "PXAT") == 0)
		call->until_ms = e->number;
	else if (strcmp(e->option, "EXAT") == 0)
		call->until_ms = e->number * 1000;
}

static void takes(const struct rewrite *rw, enum lock_success success, struct slice value,
                  const struct expiry *e)
{
	call_takes(rw->call, rw->keys[0].rule, success, value, e);
}

/* --- SET and its kin --- */

/* Parses the expiry that the application asks for, within the rule's limits. */
static enum parsed parse_expiry(const struct rule *rule, const struct set_options *a,
                                struct expiry *e)
{
	int64_t n, ms;

	if (a->keepttl && !a->nx) {
		*e = (struct expiry){ "KEEPTTL", 0, true };
		return PARSED_OK;
	}
	if (!a->timed) {
		*e = expiry_lease(rule);
		return PARSED_OK;
	}
	if (!args_integer(a->time, &n) || n <= 0)
		return PARSED_REFUSED;
	if (a->absolute) {
		if (a->seconds && n > INT64_MAX / 1000)
			return PARSED_REFUSED;
		*e = (struct expiry){ a->seconds ? "EXAT" : "PXAT", n, true };
		return PARSED_OK;
	}
	if (!args_ms(n, a->seconds, &ms))
		return PARSED_REFUSED;
	*e = expiry_px(rule, ms, true);
	return PARSED_OK;
}

/* Begins the call of a script that takes a lock. One of its arguments is the ticket. */
static void begin_take(const struct rewrite *rw, enum script_id id, size_t nargs)
{
	rewrite_begin_single(rw, id, 1, nargs);
	rw->call->ticket = rw->opts->ticket;
}

static void write_take(const struct rewrite *rw, const char *form, const struct expiry *e)
{
	const struct rule *rule = rw->keys[0].rule;
	bool refresh = rule->reentrant == REENTRANT_REFRESH;
	bool is_short = !refresh && strcmp(e->option, "PX") == 0;
	struct slice token = rw->keys[0].token, value = rw->req->argv[2],
		     name = slice_str(form), ticket = rw->opts->ticket;
	char *p = rewrite_open_single(rw, SCRIPT_TAKE, 1, is_short ? 5 : 9,
	                              4 * RESP_BULK_SPACE + RESP_BULK_INT_SPACE + token.n +
	                                      value.n + name.n + ticket.n);

	rw->call->ticket = ticket;
	p = resp_put_bulk(p, token);
	p = resp_put_bulk(p, value);
	p = resp_put_bulk_int(p, e->number);
	p = resp_put_bulk(p, name);
	buf_added_to(rw->out, resp_put_bulk(p, ticket));
	if (is_short)
		return;
	resp_write_bulk_str(rw->out, e->option);
	resp_write_bulk_str(rw->out, refresh ? "refresh" : "no");
	resp_write_bulk_int(rw->out, rule->lease_ms);
	rewrite_write_max_lease(rw->out, rule);
}

static void write_set(const struct rewrite *rw, struct slice value, const char *form,
                      const struct expiry *e)
{
	const struct rule *rule = rw->keys[0].rule;

	begin_take(rw, SCRIPT_SET, 8);
	resp_write_bulk(rw->out, rw->keys[0].token);
	resp_write_bulk(rw->out, value);
	write_expiry(rw->out, e);
	resp_write_bulk_str(rw->out, form);
	resp_write_bulk_int(rw->out, rule->lease_ms);
	rewrite_write_max_lease(rw->out, rule);
	resp_write_bulk(rw->out, rw->opts->ticket);
}

/* As write_take(), under a rule with `wait`. */
static void write_take_wait(const struct rewrite *rw, const char *form, const struct expiry *e)
{
	const struct rule *rule = rw->keys[0].rule;
	bool relative = strcmp(e->option, "PX") == 0;
	int64_t until = strcmp(e->option, "EXAT") == 0 ? e->number * 1000 : e->number;
	int64_t wait = rule->wait_ms < rw->opts->wait_max_ms ? rule->wait_ms
	                                                     : rw->opts->wait_max_ms;
	bool refresh = rule->reentrant == REENTRANT_REFRESH;
	bool is_short = relative && !refresh && !rw->opts->place && !rw->opts->nown;

	script_call_begin(rw->out, SCRIPT_TAKE_WAIT, rw->opts, SCRIPT_CALL_QUEUE_KEYS,
	                  SCRIPT_CALL_SECRET_ARGS + (is_short ? 6 : 9 + rw->opts->nown));
	script_call_write_queue_keys(rw->out, rw->opts, rw->req->argv[1],
	                             rewrite_has_sidecar(rule));
	resp_write_bulk(rw->out, rw->keys[0].token);
	resp_write_bulk_int(rw->out, relative ? e->number : rewrite_max_lease(rule));
	resp_write_bulk(rw->out, rw->opts->ticket);
	resp_write_bulk_int(rw->out, wait);
	resp_write_bulk(rw->out, rw->req->argv[2]);
	resp_write_bulk_str(rw->out, form);
	if (!is_short) {
		script_call_write_place(rw->out, rw->opts);
		resp_write_bulk_int(rw->out, relative ? 0 : until);
		resp_write_bulk_str(rw->out, refresh ? "refresh" : "no");
		script_call_write_own(rw->out, rw->opts);
	}
	rw->call->script = SCRIPT_TAKE_WAIT;
	rw->call->key = rw->req->argv[1];
	rw->call->owner = rw->keys[0].token;
	rw->call->ticket = rw->opts->ticket;
	rw->call->wait_ms = wait;
}

static enum rewrite_result rewrite_set_nx(const struct rewrite *rw, const struct set_options *a,
                                          const struct expiry *e)
{
	const struct rule *rule = rw->keys[0].rule;

	/* GET asks for the present value, so it never waits. */
	if (rule->wait_ms && !a->get)
		write_take_wait(rw, "SET", e);
	else
		write_take(rw, a->get ? "GET" : "SET", e);
	takes(rw, a->get ? LOCK_IF_NIL : LOCK_IF_OK, rw->req->argv[2], e);
	rw->call->only_if_free = rule->reentrant == REENTRANT_NO;
	return REWRITE_CALL;
}

enum rewrite_result rewrite_set(const struct rewrite *rw)
{
	const struct resp_view *req = rw->req;
	struct set_options a;
	struct expiry e;
	enum parsed parsed;
	const char *form;

	if (req->argc < 3)
		return REWRITE_PASS;
	parsed = set_options_parse(req, &a);
	if (parsed != PARSED_OK)
		return rewrite_unparsed(rw, parsed);
	if (parse_expiry(rw->keys[0].rule, &a, &e) != PARSED_OK)
		return REWRITE_PASS;
	if (a.nx)
		return rewrite_set_nx(rw, &a, &e);
	if (a.get)
		form = a.xx ? "XXGET" : "GET";
	else
		form = a.xx ? "XX" : "SET";
	write_set(rw, req->argv[2], form, &e);
	if (a.get)
		takes(rw, a.xx ? LOCK_IF_VALUE : LOCK_IF_NO_ERROR, req->argv[2], &e);
	else
		takes(rw, LOCK_IF_OK, req->argv[2], &e);
	return REWRITE_CALL;
}

enum rewrite_result rewrite_setnx(const struct rewrite *rw)
{
	struct expiry e = expiry_lease(rw->keys[0].rule);

	if (rw->req->argc != 3)
		return REWRITE_PASS;
	if (rw->keys[0].rule->wait_ms)
		write_take_wait(rw, "SETNX", &e);
	else
		write_take(rw, "SETNX", &e);
	takes(rw, LOCK_IF_ONE, rw->req->argv[2], &e);
	rw->call->only_if_free = rw->keys[0].rule->reentrant == REENTRANT_NO;
	return REWRITE_CALL;
}

enum rewrite_result rewrite_setex(const struct rewrite *rw)
{
	const struct resp_view *req = rw->req;
	struct set_options a = { .timed = true };
	struct expiry e;

	if (req->argc != 4)
		return REWRITE_PASS;
	a.seconds = command_expiry_in_seconds(rw->command);
	a.time = req->argv[2];
	if (parse_expiry(rw->keys[0].rule, &a, &e) != PARSED_OK)
		return REWRITE_PASS;
	write_set(rw, req->argv[3], "SET", &e);
	takes(rw, LOCK_IF_OK, req->argv[3], &e);
	return REWRITE_CALL;
}

enum rewrite_result rewrite_getset(const struct rewrite *rw)
{
	struct expiry e = expiry_lease(rw->keys[0].rule);

	if (rw->req->argc != 3)
		return REWRITE_PASS;
	write_set(rw, rw->req->argv[2], "GETSET", &e);
	takes(rw, LOCK_IF_NO_ERROR, rw->req->argv[2], &e);
	return REWRITE_CALL;
}

/* --- MSETNX --- */

/* Writes the call as scripts/commands/msetnx.lua reads it. */
static void write_msetnx_call(const struct rewrite *rw)
{
	size_t nlocks = rewrite_count_locks(rw);

	script_call_begin(rw->out, SCRIPT_MSETNX, rw->opts, rw->nkeys + 2 * nlocks,
	                  2 + 2 * nlocks + rw->req->argc);
	for (size_t i = 0; i < rw->nkeys; i++)
		if (rw->keys[i].rule)
			rewrite_lock_keys(rw, rw->keys[i].rule, rw->req->argv[rw->keys[i].arg],
			                  1);
	rewrite_unruled_keys(rw);

	resp_write_bulk_int(rw->out, (long long)nlocks);
	resp_write_bulk(rw->out, rw->opts->ticket);
	for (size_t i = 0; i < rw->nkeys; i++) {
		if (!rw->keys[i].rule)
			continue;
		resp_write_bulk(rw->out, rw->keys[i].token);
		resp_write_bulk_int(rw->out, expiry_lease(rw->keys[i].rule).number);
	}
	for (size_t i = 0; i < rw->req->argc; i++)
		resp_write_bulk(rw->out, rw->req->argv[i]);
}

void rewrite_msetnx_lock(const struct lock_key *k, const struct resp_view *req,
                         struct lock_call *call)
{
	struct expiry e = expiry_lease(k->rule);

	call->key = req->argv[k->arg];
	call->owner = k->token;
	call_takes(call, k->rule, LOCK_IF_ONE, req->argv[k->arg + 1], &e);
}

enum rewrite_result rewrite_msetnx(const struct rewrite *rw)
{
	/* A value is missing. */
	if (rw->req->argc % 2 == 0)
		return REWRITE_PASS;
	write_msetnx_call(rw);
	rw->call->script = SCRIPT_MSETNX;
	rw->call->ticket = rw->opts->ticket;
	rw->call->only_if_free = true;
	rewrite_msetnx_lock(rewrite_first_lock(rw), rw->req, rw->call);
	return REWRITE_CALL;
}

/* --- INCR, and INCRBY by 1 --- */

enum rewrite_result rewrite_incr(const struct rewrite *rw)
{
	const struct rule *rule = rw->keys[0].rule;
	struct expiry e = expiry_lease(rule);

	if (!command_arity_ok(rw->command, rw->req->argc))
		return REWRITE_PASS;
	begin_take(rw, SCRIPT_INCR, 4 + rw->req->argc - 1);
	resp_write_bulk(rw->out, rw->keys[0].token);
	resp_write_bulk_int(rw->out, e.number);
	resp_write_bulk(rw->out, rw->opts->ticket);
	rewrite_shared(rw, rule);
	resp_write_bulk(rw->out, rw->req->argv[0]);
	for (size_t i = 2; i < rw->req->argc; i++)
		resp_write_bulk(rw->out, rw->req->argv[i]);
	takes(rw, LOCK_IF_ONE, SLICE_LIT("1"), &e);
	if (!rewrite_has_sidecar(rule)) /* all clients store the same 1 */
		rw->call->effect = LOCK_EFFECT_COUNTS;
	return REWRITE_CALL;
}
