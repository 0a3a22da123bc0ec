/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rule: rewrites a command on keys with a [lock] rule into the call of its script.
 *
 *   RULE in commands.def --> its arguments read as Redis reads them
 *                                  | Redis would refuse them             --> PASS
 *                                  | an option that is not known here    --> rewrite_write
 *                                  v
 *                              script_call_begin + keys + arguments      --> CALL
 *
 * For a command without a script of its own, write.lua (rule_write.c) checks the owner, and
 * runs the command as it came. So rules also cover commands and options that are newer than
 * hasp.
 */

#include <string.h>

#include "commands/effect.h"
#include "lock/rewrite/rewrite_internal.h"

/* --- EXPIRE and its kin, PERSIST --------------------------------------------------------- */

struct expire_args {
	bool seconds, absolute;
	int64_t ms;
};

/* Parses the arguments as expireGenericCommand() of Redis 7.0 does. */
static enum parsed parse_expire(const struct command *c, const struct resp_view *req,
                                struct expire_args *a)
{
	bool nx = false, xx = false, gt = false, lt = false;
	int64_t n;

	a->seconds = command_expiry_in_seconds(c);
	a->absolute = command_expiry_is_date(c);
	for (size_t i = 3; i < req->argc; i++) {
		if (args_option(req->argv[i], "NX"))
			nx = true;
		else if (args_option(req->argv[i], "XX"))
			xx = true;
		else if (args_option(req->argv[i], "GT"))
			gt = true;
		else if (args_option(req->argv[i], "LT"))
			lt = true;
		else
			return PARSED_UNKNOWN;
	}
	if ((nx && (xx || gt || lt)) || (gt && lt))
		return PARSED_REFUSED;
	if (!slice_integer(req->argv[2], &n))
		return PARSED_REFUSED;
	if (a->absolute) {
		a->ms = n;
		if (a->seconds && __builtin_mul_overflow(n, 1000, &a->ms))
			return PARSED_REFUSED;
		return PARSED_OK;
	}
	return args_ms(n, a->seconds, &a->ms) ? PARSED_OK : PARSED_REFUSED;
}

static enum rewrite_result rewrite_expire(const struct rewrite *rw)
{
	const struct resp_view *req = rw->req;
	const struct rule *rule = rw->first->rule;
	struct expire_args a;
	enum parsed parsed;
	bool cut;

	if (req->argc < 3)
		return REWRITE_PASS;
	parsed = parse_expire(rw->command, req, &a);
	if (parsed != PARSED_OK)
		return rewrite_unparsed(rw, parsed);
	if (req->argc > ARGS_UNPACK_MAX)
		return rewrite_too_long(rw);
	/* The script, not hasp, cuts the expiry, because the key may be of a type that is no
	 * lock. */
	cut = rule->max_lease_ms && (a.absolute || a.ms > rule->max_lease_ms);
	rewrite_begin_single(rw, SCRIPT_EXPIRE, 6 + req->argc - 2);
	resp_write_bulk(rw->out, rw->keys[0].token);
	resp_write_bulk_int(rw->out, rule->lease_ms);
	rewrite_write_max_lease(rw->out, rule);
	resp_write_bulk_if(rw->out, cut, "cut");
	resp_write_bulk_if(rw->out, rw->keys[0].foreign, "foreign");
	resp_write_bulk(rw->out, req->argv[0]);
	for (size_t i = 2; i < req->argc; i++)
		resp_write_bulk(rw->out, req->argv[i]);
	rw->call->success = LOCK_IF_ONE;
	rewrite_ends(rw->call, a.absolute, a.absolute ? a.ms : rewrite_capped(rule, a.ms));
	return REWRITE_CALL;
}

static enum rewrite_result rewrite_persist(const struct rewrite *rw)
{
	if (rw->req->argc != 2)
		return REWRITE_PASS;
	rewrite_begin_single(rw, SCRIPT_PERSIST, 1);
	resp_write_bulk_int(rw->out, rw->first->rule->lease_ms);
	return REWRITE_CALL;
}

/* --- DEL and UNLINK ---------------------------------------------------------------------- */

/* Writes a call with fewer KEYS and ARGV; the script answers BUSY if it needs a full call. */
static void write_short_del_call(const struct rewrite *rw)
{
	const struct rule *rule = rw->first->rule;
	struct slice name = rw->req->argv[0], token = rw->keys[0].token;
	char *p = rewrite_open_single(rw, SCRIPT_DEL, 1 + (rule->wait_ms > 0), 2,
	                              2 * RESP_BULK_SPACE + name.n + token.n);

	p = resp_put_bulk(p, name);
	buf_added_to(rw->out, resp_put_bulk(p, token));
}

/* Writes the call as scripts/commands/del.lua reads it: with the queues of locks whose rule has
 * `wait`. */
static void write_del_call(const struct rewrite *rw)
{
	size_t nlocks = rewrite_count_locks(rw), nwaiting = 0;

	for (size_t i = 0; i < rw->nkeys; i++)
		nwaiting += rw->keys[i].rule && rw->keys[i].rule->wait_ms;
	script_call_begin(rw->out, SCRIPT_DEL, rw->opts,
	                  rw->nkeys + 2 * nlocks + nwaiting + (nwaiting > 0),
	                  SCRIPT_CALL_SECRET_ARGS + 2 + 3 * nlocks + rw->opts->report_refusal);
	for (size_t i = 0; i < rw->nkeys; i++)
		if (rw->keys[i].rule)
			rewrite_lock_keys(rw, rw->keys[i].rule, rw->req->argv[rw->keys[i].arg],
			                  rw->keys[i].rule->wait_ms ? 2 : 1);
	if (nwaiting)
		key_names_write_bulk(rw->out, rw->opts->naming, KEY_NAME_COUNTER,
		                     rw->call->key);
	rewrite_unruled_keys(rw);

	resp_write_bulk(rw->out, rw->opts->secret);
	resp_write_bulk(rw->out, rw->req->argv[0]);
	resp_write_bulk_int(rw->out, (long long)nlocks);
	for (size_t i = 0; i < rw->nkeys; i++) {
		if (!rw->keys[i].rule)
			continue;
		resp_write_bulk(rw->out, rw->keys[i].token);
		resp_write_bulk_if(rw->out, rw->keys[i].rule->wait_ms, "wait");
		resp_write_bulk_if(rw->out, rw->keys[i].foreign, "foreign");
	}
	if (rw->opts->report_refusal)
		resp_write_bulk_str(rw->out, "tell");
}

static enum rewrite_result rewrite_del(const struct rewrite *rw)
{
	/* A short call needs the lock's token, and names no other key. */
	rw->call->is_short = rw->opts->may_be_short && rw->nkeys == 1 && rw->keys[0].token.n &&
	                     !rw->keys[0].foreign;
	if (rw->call->is_short)
		write_short_del_call(rw);
	else
		write_del_call(rw);
	rw->call->script = SCRIPT_DEL;
	rw->call->effect = LOCK_EFFECT_DROPS;
	rw->call->success = LOCK_IF_POSITIVE;
	rw->call->hand_off = true;
	rw->call->single_key = rw->nkeys == 1;
	return REWRITE_CALL;
}

/* --- SET, SETNX, SETEX, GETSET, MSETNX, INCR --------------------------------------------- */

/* The expiry of a lock, as an option of SET. */
struct expiry {
	const char *option; /* PX, EXAT, PXAT or KEEPTTL */
	int64_t number; /* the option's argument; unused for KEEPTTL */
	int64_t until_ms; /* EXAT, PXAT: the date, in ms since 1970; else 0 */
	bool named; /* the application has named the expiry; else it is the rule's lease */
};

static struct expiry expiry_lease(const struct rule *rule)
{
	return (struct expiry){ "PX", rule->lease_ms, 0, false };
}

static void takes(const struct rewrite *rw, enum lock_success success, struct slice value,
                  const struct expiry *e)
{
	struct lock_call *call = rw->call;

	call->kind = rewrite_rule_kind(rw->first->rule);
	call->effect = LOCK_EFFECT_TAKES;
	call->ticket = rw->opts->ticket;
	call->success = success;
	call->value = value;
	call->leased = e->named;
	call->until_ms = e->until_ms;
	if (strcmp(e->option, "PX") == 0)
		call->lease_ms = e->number;
}

/* --- SET and its kin --- */

/* Parses the expiry that the application asks for, within the rule's limits. */
static enum parsed parse_expiry(const struct rule *rule, const struct set_options *a,
                                struct expiry *e)
{
	int64_t n, ms;

	if (a->keepttl && !a->nx) {
		*e = (struct expiry){ "KEEPTTL", 0, 0, true };
		return PARSED_OK;
	}
	if (!a->timed) {
		*e = expiry_lease(rule);
		return PARSED_OK;
	}
	if (!slice_integer(a->time, &n) || n <= 0)
		return PARSED_REFUSED;
	if (a->absolute) {
		if (a->seconds && n > INT64_MAX / 1000)
			return PARSED_REFUSED;
		ms = a->seconds ? n * 1000 : n;
		*e = (struct expiry){ a->seconds ? "EXAT" : "PXAT", n, ms, true };
		return PARSED_OK;
	}
	if (!args_ms(n, a->seconds, &ms))
		return PARSED_REFUSED;
	*e = (struct expiry){ "PX", rewrite_capped(rule, ms), 0, true };
	return PARSED_OK;
}

static void write_take(const struct rewrite *rw, const char *form, const struct expiry *e)
{
	const struct rule *rule = rw->first->rule;
	bool refresh = rule->reentrant == REENTRANT_REFRESH;
	bool is_short = !refresh && strcmp(e->option, "PX") == 0;
	struct slice token = rw->keys[0].token, value = rw->req->argv[2],
		     name = slice_str(form), ticket = rw->opts->ticket;
	char *p = rewrite_open_single(rw, SCRIPT_TAKE, 1, is_short ? 5 : 9,
	                              4 * RESP_BULK_SPACE + RESP_BULK_INT_SPACE + token.n +
	                                      value.n + name.n + ticket.n);

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

/* Rewrites a command that stores the value also if its client has the lock already. */
static enum rewrite_result rewrite_store(const struct rewrite *rw, const char *form,
                                         enum lock_success success, struct slice value,
                                         const struct expiry *e)
{
	const struct rule *rule = rw->first->rule;

	rewrite_begin_single(rw, SCRIPT_SET, 8);
	resp_write_bulk(rw->out, rw->keys[0].token);
	resp_write_bulk(rw->out, value);
	resp_write_bulk_str(rw->out, e->option);
	if (strcmp(e->option, "KEEPTTL") == 0)
		resp_write_bulk(rw->out, SLICE_LIT(""));
	else
		resp_write_bulk_int(rw->out, e->number);
	resp_write_bulk_str(rw->out, form);
	resp_write_bulk_int(rw->out, rule->lease_ms);
	rewrite_write_max_lease(rw->out, rule);
	resp_write_bulk(rw->out, rw->opts->ticket);
	takes(rw, success, value, e);
	return REWRITE_CALL;
}

/* As write_take(), under a rule with `wait`. */
static void write_take_wait(const struct rewrite *rw, const char *form, const struct expiry *e)
{
	const struct rule *rule = rw->first->rule;
	int64_t wait = rule->wait_ms < rw->opts->wait_max_ms ? rule->wait_ms
	                                                     : rw->opts->wait_max_ms;
	bool refresh = rule->reentrant == REENTRANT_REFRESH;
	bool is_short = !e->until_ms && !refresh && !rw->opts->place && !rw->opts->nown;

	script_call_begin(rw->out, SCRIPT_TAKE_WAIT, rw->opts, SCRIPT_CALL_QUEUE_KEYS,
	                  SCRIPT_CALL_SECRET_ARGS + (is_short ? 6 : 9 + rw->opts->nown));
	script_call_write_queue_keys(rw->out, rw->opts, rw->req->argv[1],
	                             rule->owner != OWNER_VALUE);
	resp_write_bulk(rw->out, rw->keys[0].token);
	if (e->until_ms)
		rewrite_write_max_lease(rw->out, rule);
	else
		resp_write_bulk_int(rw->out, e->number);
	resp_write_bulk(rw->out, rw->opts->ticket);
	resp_write_bulk_int(rw->out, wait);
	resp_write_bulk(rw->out, rw->req->argv[2]);
	resp_write_bulk_str(rw->out, form);
	if (!is_short) {
		script_call_write_place(rw->out, rw->opts);
		resp_write_bulk_int(rw->out, e->until_ms);
		resp_write_bulk_str(rw->out, refresh ? "refresh" : "no");
		script_call_write_own(rw->out, rw->opts);
	}
	rw->call->script = SCRIPT_TAKE_WAIT;
	rw->call->wait_ms = wait;
}

/* Rewrites a command that stores its value only if the lock is free. */
static enum rewrite_result rewrite_take(const struct rewrite *rw, const char *form,
                                        enum lock_success success, const struct expiry *e)
{
	const struct rule *rule = rw->first->rule;

	/* SET NX GET asks for the present value, so it never waits. */
	if (rule->wait_ms && success != LOCK_IF_NIL)
		write_take_wait(rw, form, e);
	else
		write_take(rw, form, e);
	takes(rw, success, rw->req->argv[2], e);
	rw->call->only_if_free = rule->reentrant == REENTRANT_NO;
	return REWRITE_CALL;
}

/* Rewrites a SET with an option that is not known here, such as IFEQ. With owner = value, the
 * new value is the owner. (With GET, the reply does not show whether Redis has stored the
 * value.) */
static enum rewrite_result rewrite_set_if(const struct rewrite *rw, enum parsed why,
                                          const struct set_options *a)
{
	const struct rule *rule = rw->first->rule;
	enum rewrite_result result = rewrite_unparsed(rw, why);
	struct expiry e;

	if (result != REWRITE_CALL || rule->owner != OWNER_VALUE || a->get ||
	    parse_expiry(rule, a, &e) != PARSED_OK)
		return result;
	takes(rw, LOCK_IF_OK, rw->req->argv[2], &e);
	rw->call->effect = LOCK_EFFECT_STORES;
	rw->call->ticket = SLICE_NONE;
	return result;
}

static enum rewrite_result rewrite_set(const struct rewrite *rw)
{
	const struct resp_view *req = rw->req;
	struct set_options a;
	struct expiry e;
	enum parsed parsed;

	if (req->argc < 3)
		return REWRITE_PASS;
	parsed = set_options_parse(req, SET_OPTIONS, &a);
	if (parsed != PARSED_OK)
		return rewrite_set_if(rw, parsed, &a);
	if (parse_expiry(rw->first->rule, &a, &e) != PARSED_OK)
		return REWRITE_PASS;
	if (a.nx && a.get)
		return rewrite_take(rw, "GET", LOCK_IF_NIL, &e);
	if (a.nx)
		return rewrite_take(rw, "SET", LOCK_IF_OK, &e);
	if (a.xx && a.get)
		return rewrite_store(rw, "XXGET", LOCK_IF_VALUE, req->argv[2], &e);
	if (a.get)
		return rewrite_store(rw, "GET", LOCK_IF_NO_ERROR, req->argv[2], &e);
	return rewrite_store(rw, a.xx ? "XX" : "SET", LOCK_IF_OK, req->argv[2], &e);
}

static enum rewrite_result rewrite_setnx(const struct rewrite *rw)
{
	struct expiry e = expiry_lease(rw->first->rule);

	if (rw->req->argc != 3)
		return REWRITE_PASS;
	return rewrite_take(rw, "SETNX", LOCK_IF_ONE, &e);
}

static enum rewrite_result rewrite_setex(const struct rewrite *rw)
{
	const struct resp_view *req = rw->req;
	struct set_options a = { .timed = true };
	struct expiry e;

	if (req->argc != 4)
		return REWRITE_PASS;
	a.seconds = command_expiry_in_seconds(rw->command);
	a.time = req->argv[2];
	if (parse_expiry(rw->first->rule, &a, &e) != PARSED_OK)
		return REWRITE_PASS;
	return rewrite_store(rw, "SET", LOCK_IF_OK, req->argv[3], &e);
}

static enum rewrite_result rewrite_getset(const struct rewrite *rw)
{
	struct expiry e = expiry_lease(rw->first->rule);

	if (rw->req->argc != 3)
		return REWRITE_PASS;
	return rewrite_store(rw, "GETSET", LOCK_IF_NO_ERROR, rw->req->argv[2], &e);
}

/* --- MSETNX, and MSETEX with NX --- */

/* Writes the call as scripts/commands/msetnx.lua reads it. */
static void write_msetnx_call(const struct rewrite *rw)
{
	rewrite_begin_several(rw, SCRIPT_MSETNX, 3);
	resp_write_bulk(rw->out, rw->opts->ticket);
	for (size_t i = 0; i < rw->nkeys; i++) {
		if (!rw->keys[i].rule)
			continue;
		resp_write_bulk(rw->out, rw->keys[i].token);
		resp_write_bulk_int(rw->out, rw->keys[i].rule->lease_ms);
		rewrite_write_max_lease(rw->out, rw->keys[i].rule);
	}
	for (size_t i = 0; i < rw->req->argc; i++)
		resp_write_bulk(rw->out, rw->req->argv[i]);
}

void rewrite_msetnx_lock(const struct lock_key *k, const struct resp_view *req,
                         struct lock_call *call)
{
	call->kind = rewrite_rule_kind(k->rule);
	call->key = req->argv[k->arg];
	call->owner = k->token;
	call->value = req->argv[k->arg + 1];
	call->lease_ms = call->leased ? rewrite_capped(k->rule, call->lease_ms)
	                              : k->rule->lease_ms;
}

/* `e`: the expiry of all keys; unless the command names it, each lock gets its rule's lease. */
static void take_all(const struct rewrite *rw, const struct expiry *e)
{
	write_msetnx_call(rw);
	rw->call->script = SCRIPT_MSETNX;
	rw->call->only_if_free = true;
	takes(rw, LOCK_IF_ONE, rw->req->argv[rw->first->arg + 1], e);
}

static enum rewrite_result rewrite_msetnx(const struct rewrite *rw)
{
	struct expiry e = expiry_lease(rw->first->rule);

	/* A value is missing. */
	if (rw->req->argc % 2 == 0)
		return REWRITE_PASS;
	take_all(rw, &e);
	return REWRITE_CALL;
}

static enum rewrite_result rewrite_msetex(const struct rewrite *rw)
{
	/* rewrite_msetnx_lock() limits each lock's expiry by the lock's own rule. */
	static const struct rule unlimited = { 0 };
	struct set_options a;
	struct expiry e;

	if (rw->req->argc > ARGS_UNPACK_MAX ||
	    set_options_parse(rw->req, 2 + 2 * rw->nkeys, &a) != PARSED_OK || !a.nx ||
	    parse_expiry(&unlimited, &a, &e) != PARSED_OK)
		return rewrite_write(rw);
	take_all(rw, &e);
	return REWRITE_CALL;
}

/* --- INCR, and INCRBY by 1 --- */

static enum rewrite_result rewrite_incr(const struct rewrite *rw)
{
	const struct rule *rule = rw->first->rule;
	struct expiry e = expiry_lease(rule);

	if (!command_arity_ok(rw->command, rw->req->argc))
		return REWRITE_PASS;
	rewrite_begin_single(rw, SCRIPT_INCR, 4 + rw->req->argc - 1);
	resp_write_bulk(rw->out, rw->keys[0].token);
	resp_write_bulk_int(rw->out, e.number);
	resp_write_bulk(rw->out, rw->opts->ticket);
	rewrite_shared(rw, rule);
	resp_write_bulk(rw->out, rw->req->argv[0]);
	for (size_t i = 2; i < rw->req->argc; i++)
		resp_write_bulk(rw->out, rw->req->argv[i]);
	takes(rw, LOCK_IF_ONE, SLICE_LIT("1"), &e);
	if (rule->owner == OWNER_VALUE) /* the value 1 names no owner */
		rw->call->effect = LOCK_EFFECT_COUNTS;
	return REWRITE_CALL;
}

/* --- all commands --------------------------------------------------------------------- */

enum lock_kind rewrite_rule_kind(const struct rule *rule)
{
	return rule->owner == OWNER_VALUE ? LOCK_KIND_VALUE : LOCK_KIND_RULE;
}

enum rewrite_result rewrite_lock(struct buf *out, const struct command *c,
                                 const struct resp_view *req, const struct lock_key *keys,
                                 size_t nkeys, const struct rewrite_opts *opts,
                                 struct lock_call *call)
{
	/* cppcheck-suppress ctuuninitvar; sets *call below */
	struct rewrite rw = { out, c, req, keys, nkeys, keys, opts, call };

	while (!rw.first->rule)
		rw.first++;
	*call = (struct lock_call){
		.effect = LOCK_EFFECT_NONE,
		.success = LOCK_IF_NO_ERROR,
		.key = req->argv[rw.first->arg],
		.owner = rw.first->token,
	};
	switch (command_rule(c, req)) {
	case RULE_PASS:
		return REWRITE_PASS;
	case RULE_SET:
		return rewrite_set(&rw);
	case RULE_SETNX:
		return rewrite_setnx(&rw);
	case RULE_MSETNX:
		return rewrite_msetnx(&rw);
	case RULE_MSETEX:
		return rewrite_msetex(&rw);
	case RULE_SETEX:
		return rewrite_setex(&rw);
	case RULE_GETSET:
		return rewrite_getset(&rw);
	case RULE_INCR:
		return rewrite_incr(&rw);
	case RULE_DEL:
		return rewrite_del(&rw);
	case RULE_EXPIRE:
		return rewrite_expire(&rw);
	case RULE_PERSIST:
		return rewrite_persist(&rw);
	case RULE_CHECK:
		break;
	}
	return rewrite_write(&rw);
}

bool rewrite_is_success(enum lock_success success, const struct resp_reply *r)
{
	if (resp_reply_is_error(r))
		return false;
	switch (success) {
	case LOCK_IF_OK:
		return r->type == '+';
	case LOCK_IF_ONE:
		return r->type == ':' && r->integer == 1;
	case LOCK_IF_POSITIVE:
		return r->type == ':' && r->integer > 0;
	case LOCK_IF_NIL:
		return r->nil;
	case LOCK_IF_VALUE:
		return !r->nil;
	case LOCK_IF_NO_ERROR:
		return true;
	}
	return false;
}

const char *rewrite_refusal(enum script_id script, enum lock_success success, bool resp3)
{
	switch (script) {
	case SCRIPT_TAKE:
	case SCRIPT_TAKE_WAIT:
	case SCRIPT_MSETNX:
	case SCRIPT_LOCK_COUNT:
	case SCRIPT_LOCK_TOKEN:
	case SCRIPT_LOCK_LIMIT:
	case SCRIPT_LOCK_RW:
	case SCRIPT_MLOCK:
		if (success == LOCK_IF_ONE)
			return ":0";
		/* (For SET NX GET, nil means success.) */
		if (success != LOCK_IF_NIL)
			return resp3 ? "_" : "$-1";
		break;
	default:
		break;
	}
	return "-LOCKED the lease ended before the reply arrived";
}
