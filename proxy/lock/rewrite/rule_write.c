/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rule_write: the call of write.lua, which checks the owners of the keys with a rule, and then
 * runs any write command as it came. Also the helpers that write the keys of locks for all
 * calls.
 */
#include "commands/effect.h"
#include "lock/rewrite/rewrite_internal.h"

int64_t rewrite_capped(const struct rule *rule, int64_t ms)
{
	if (rule->max_lease_ms && ms > rule->max_lease_ms)
		return rule->max_lease_ms;
	return ms;
}

/* Writes the KEYS of rewrite_lock_keys() to `p`, and returns the end of the bytes. They take at
 * most key_names_space() of 2 + nmore keys. */
static char *put_lock_keys(char *p, const struct rewrite *rw, const struct rule *rule,
                           struct slice key, size_t nmore)
{
	static const enum key_name names[] = { KEY_NAME_OWNER, KEY_NAME_FENCE, KEY_NAME_QUEUE };
	bool has_sidecar = rule->owner != OWNER_VALUE;

	p = resp_put_bulk(p, key);
	if (!has_sidecar)
		p = resp_put_bulk(p, key);
	return key_names_put_bulks(p, rw->opts->naming, key, names + !has_sidecar,
	                           nmore + has_sidecar);
}

void rewrite_lock_keys(const struct rewrite *rw, const struct rule *rule, struct slice key,
                       size_t nmore)
{
	char *p = buf_reserve(rw->out, key_names_space(key, 2 + nmore));

	buf_added_to(rw->out, put_lock_keys(p, rw, rule, key, nmore));
}

char *rewrite_open_single(const struct rewrite *rw, enum script_id id, size_t nmore,
                          size_t nargs, size_t space)
{
	struct slice key = rw->call->key;
	char *p = script_call_open(rw->out, id, rw->opts, 2 + nmore, nargs,
	                           key_names_space(key, 2 + nmore) + space);

	rw->call->script = id;
	return put_lock_keys(p, rw, rw->keys[0].rule, key, nmore);
}

void rewrite_begin_single(const struct rewrite *rw, enum script_id id, size_t nargs)
{
	buf_added_to(rw->out, rewrite_open_single(rw, id, 1, nargs, 0));
}

enum rewrite_result rewrite_too_long(const struct rewrite *rw)
{
	if (rw->command->facts.when_long == LONG_PASS)
		return REWRITE_PASS;
	script_call_begin(rw->out, SCRIPT_ERROR, rw->opts, 0, 1);
	resp_write_bulk(rw->out,
	                SLICE_LIT("ERR too many arguments for a key with a lock rule"));
	rw->call->script = SCRIPT_ERROR;
	return REWRITE_CALL;
}

size_t rewrite_count_locks(const struct rewrite *rw)
{
	size_t n = 0;

	for (size_t i = 0; i < rw->nkeys; i++)
		n += rw->keys[i].rule != NULL;
	return n;
}

void rewrite_unruled_keys(const struct rewrite *rw)
{
	for (size_t i = 0; i < rw->nkeys; i++)
		if (!rw->keys[i].rule)
			resp_write_bulk(rw->out, rw->req->argv[rw->keys[i].arg]);
}

void rewrite_shared(const struct rewrite *rw, const struct rule *rule)
{
	resp_write_bulk_if(rw->out, rule->owner != OWNER_CONNECTION, "shared");
}

void rewrite_begin_several(const struct rewrite *rw, enum script_id id, size_t nargs)
{
	size_t nlocks = rewrite_count_locks(rw);

	script_call_begin(rw->out, id, rw->opts, rw->nkeys + 2 * nlocks,
	                  2 + nargs * nlocks + rw->req->argc);
	for (size_t i = 0; i < rw->nkeys; i++)
		if (rw->keys[i].rule)
			rewrite_lock_keys(rw, rw->keys[i].rule, rw->req->argv[rw->keys[i].arg],
			                  1);
	rewrite_unruled_keys(rw);
	resp_write_bulk_int(rw->out, (long long)nlocks);
}

/* Writes the call as scripts/commands/write.lua reads it. */
static void write_write_call(const struct rewrite *rw, bool resp3)
{
	rewrite_begin_several(rw, SCRIPT_WRITE, 4);
	resp_write_bulk_str(rw->out, resp3 ? "3" : "2");
	for (size_t i = 0; i < rw->nkeys; i++) {
		const struct rule *rule = rw->keys[i].rule;

		if (!rule)
			continue;
		resp_write_bulk(rw->out, rw->keys[i].token);
		resp_write_bulk_int(rw->out, rule->lease_ms);
		rewrite_write_max_lease(rw->out, rule);
		if (rw->keys[i].foreign)
			resp_write_bulk_str(rw->out, "foreign");
		else
			rewrite_shared(rw, rule);
	}
	for (size_t i = 0; i < rw->req->argc; i++)
		resp_write_bulk(rw->out, rw->req->argv[i]);
}

void rewrite_ends(struct lock_call *call, bool absolute, int64_t ms)
{
	call->leased = true;
	if (ms <= 0) {
		/* The command deletes the key. */
		call->effect = LOCK_EFFECT_DROPS;
		call->single_key = true;
		return;
	}
	call->effect = LOCK_EFFECT_EXPIRES;
	if (absolute)
		call->until_ms = ms;
	else
		call->lease_ms = ms;
}

/* Records the effect of GETEX, which may set an expiry. */
static void note_getex(const struct rewrite *rw)
{
	const struct rule *rule = rw->keys[0].rule;
	struct set_options a;
	int64_t n, ms;

	if (set_options_parse(rw->req, 2, &a) != PARSED_OK || !a.timed)
		return;
	if (!slice_integer(a.time, &n) || n <= 0 || !args_ms(n, a.seconds, &ms))
		return;
	rw->call->success = LOCK_IF_VALUE;
	rewrite_ends(rw->call, a.absolute, a.absolute ? ms : rewrite_capped(rule, ms));
}

enum rewrite_result rewrite_write(const struct rewrite *rw)
{
	const struct resp_view *req = rw->req;
	const struct command_facts *facts = &rw->command->facts;
	bool resp3 = rw->opts->resp3 && facts->lua == LUA_RESP3;

	if (!command_writes(rw->command, rw->nkeys) || command_only_gets(rw->command, req))
		return REWRITE_PASS;
	if (req->argc > ARGS_UNPACK_MAX && facts->when_long != LONG_SPLIT)
		return rewrite_too_long(rw);
	write_write_call(rw, resp3);
	rw->call->script = SCRIPT_WRITE;
	rw->call->success = LOCK_IF_NO_ERROR;
	if (facts->act == EFFECT_DELETE) {
		rw->call->effect = LOCK_EFFECT_DROPS;
		if (facts->noop == NOOP_ZERO)
			rw->call->success = LOCK_IF_POSITIVE;
	}
	if (slice_is(slice_str(rw->command->name), "getex"))
		note_getex(rw);
	return REWRITE_CALL;
}

enum rewrite_result rewrite_unparsed(const struct rewrite *rw, enum parsed why)
{
	return why == PARSED_UNKNOWN ? rewrite_write(rw) : REWRITE_PASS;
}
