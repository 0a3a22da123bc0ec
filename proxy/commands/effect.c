/* SPDX-License-Identifier: BSD-3-Clause */
#include "commands/effect.h"

#include "commands/args.h"
#include "commands/set_options.h"

/* From a number as an application gives it; 0 when it is none, for Redis to refuse. */
static int64_t to_ms(struct slice number, bool seconds, bool is_date, double at)
{
	int64_t n, ms;

	if (!args_integer(number, &n) || n <= 0 || !args_ms(n, seconds, &ms))
		return 0;
	return is_date ? ms - (int64_t)(at * 1000) : ms;
}

static void read_set(struct effect *m, const struct resp_view *req, double at)
{
	struct set_options o;

	/* Redis does nothing, and answers an error. */
	if (set_options_parse(req, &o) == PARSED_REFUSED)
		return;
	if (o.keepttl)
		m->lease_ms = -1;
	else if (o.timed)
		m->lease_ms = to_ms(o.time, o.seconds, o.absolute, at);
	if (o.nx)
		m->act = EFFECT_ACQUIRE;
	m->nil_is_done = o.get;
	m->nil_only = o.nx && o.get;
}

enum command_rule effect_rule(const struct command *c, const struct resp_view *req)
{
	enum command_rule rule = (enum command_rule)c->facts.rule;

	if (rule == RULE_INCR && req->argc > 2 && !slice_is(req->argv[2], "1"))
		return RULE_CHECK;
	return rule;
}

struct effect effect_of(const struct command *c, const struct resp_view *req, double at)
{
	struct effect m = {
		.act = (enum effect_act)c->facts.act,
		.zero_is_nothing = c->facts.noop == NOOP_ZERO,
		.nil_is_done = c->facts.noop == NOOP_NEVER,
	};

	if (c->facts.expiry == EXPIRY_OPTIONS)
		read_set(&m, req, at);
	else if (m.act == EFFECT_INCR && effect_rule(c, req) != RULE_INCR)
		m.act = EFFECT_CHANGE;
	else if (c->facts.expiry != EXPIRY_NONE && req->argc > 2)
		m.lease_ms = to_ms(req->argv[2], command_expiry_in_seconds(c),
		                   command_expiry_is_date(c), at);
	return m;
}

bool effect_happened(const struct effect *m, const struct resp_reply *reply)
{
	if (reply->nil)
		return m->nil_is_done;
	if (m->nil_only)
		return false;
	return !(m->zero_is_nothing && reply->type == ':' && reply->integer == 0);
}
