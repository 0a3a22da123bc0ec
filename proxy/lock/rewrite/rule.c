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
 * write.lua (rule_write.c) checks the owner, and runs a command without a script of its own as
 * it came: so the rule holds also for commands and options newer than hasp. Commands that take
 * a lock are in rule_take.c.
 */
#include "lock/rewrite/rewrite.h"

#include "commands/args.h"
#include "commands/effect.h"
#include "lock/scripts/script_call.h"
#include "lock/rewrite/rewrite_internal.h"
#include "lock/model/key_names.h"
#include "resp/write.h"

/* ---- EXPIRE and its kin, PERSIST ---- */

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
	if (!args_integer(req->argv[2], &n))
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
	const struct rule *rule = rw->keys[0].rule;
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
	/* The script cuts the expiry, because the key may be of another type. */
	cut = rule->max_lease_ms && (a.absolute || a.ms > rule->max_lease_ms);
	rewrite_begin_single(rw, SCRIPT_EXPIRE, 1, 6 + req->argc - 2);
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
	const struct rule *rule = rw->keys[0].rule;

	if (rw->req->argc != 2)
		return REWRITE_PASS;
	rewrite_begin_single(rw, SCRIPT_PERSIST, 1, 1);
	resp_write_bulk_int(rw->out, rewrite_capped(rule, rule->lease_ms));
	return REWRITE_CALL;
}

/* ---- DEL and UNLINK ---- */

/* Writes a call with fewer KEYS and ARGV; the script answers BUSY if that does not do. */
static void write_short_del_call(const struct rewrite *rw)
{
	const struct rule *rule = rw->keys[0].rule;
	struct slice name = rw->req->argv[0], token = rw->keys[0].token;
	char *p = rewrite_open_single(rw, SCRIPT_DEL, 1 + (rule->wait_ms > 0), 2,
	                              2 * RESP_BULK_SPACE + name.n + token.n);

	p = resp_put_bulk(p, name);
	buf_added_to(rw->out, resp_put_bulk(p, token));
}

/* True if hasp may send a short call: it knows the lock's token, and the command names no other
 * key. */
static bool del_is_short(const struct rewrite *rw)
{
	return rw->opts->may_be_short && rw->nkeys == 1 && rw->keys[0].token.n &&
	       !rw->keys[0].foreign;
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
		                     rw->req->argv[rewrite_first_lock(rw)->arg]);
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
	const struct lock_key *first = rewrite_first_lock(rw);

	if (del_is_short(rw))
		write_short_del_call(rw);
	else
		write_del_call(rw);
	rw->call->is_short = del_is_short(rw);
	rw->call->script = SCRIPT_DEL;
	rw->call->effect = LOCK_EFFECT_DROPS;
	rw->call->success = LOCK_IF_POSITIVE;
	rw->call->hand_off = true;
	rw->call->single_key = rw->nkeys == 1;
	rw->call->key = rw->req->argv[first->arg];
	rw->call->owner = first->token;
	return REWRITE_CALL;
}

enum rewrite_result rewrite_lock(struct buf *out, const struct command *c,
                                 const struct resp_view *req, const struct lock_key *keys,
                                 size_t nkeys, const struct rewrite_opts *opts,
                                 struct lock_call *call)
{
	struct rewrite rw = { out, c, req, keys, nkeys, opts, call };

	*call = (struct lock_call){ .effect = LOCK_EFFECT_NONE, .success = LOCK_IF_NO_ERROR };
	if (rewrite_count_locks(&rw) == 0)
		return REWRITE_PASS;
	switch (command_rule(c, req)) {
	case RULE_PASS:
		return REWRITE_PASS;
	case RULE_SET:
		return rewrite_set(&rw);
	case RULE_SETNX:
		return rewrite_setnx(&rw);
	case RULE_MSETNX:
		return rewrite_msetnx(&rw);
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
		/* (To SET NX GET nil means success.) */
		if (success != LOCK_IF_NIL)
			return resp3 ? "_" : "$-1";
		break;
	default:
		break;
	}
	return "-LOCKED the lease ended before the reply arrived";
}
