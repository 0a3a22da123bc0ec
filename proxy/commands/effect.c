/* SPDX-License-Identifier: BSD-3-Clause */
#include "commands/effect.h"

#include "commands/args.h"

/* --- the options of SET ------------------------------------------------------------------ */

/* Reads EX, PX, EXAT or PXAT. If the same option is there twice, Redis uses the last one. */
static enum parsed parse_time(struct set_options *o, bool seconds, bool absolute,
                              struct slice next)
{
	if (o->keepttl || !next.p)
		return PARSED_REFUSED;
	if (o->timed && (o->seconds != seconds || o->absolute != absolute))
		return PARSED_REFUSED;
	o->timed = true;
	o->seconds = seconds;
	o->absolute = absolute;
	o->time = next;
	return PARSED_OK;
}

static const struct {
	const char *name;
	bool seconds, absolute;
} times[] = {
	{ "EX", true, false },
	{ "PX", false, false },
	{ "EXAT", true, true },
	{ "PXAT", false, true },
};

/* Parses the option at argv[*i], and moves *i to the option's last argument. */
static enum parsed parse_option(const struct resp_view *req, size_t *i, struct set_options *o)
{
	struct slice opt = req->argv[*i];
	struct slice next = *i + 1 < req->argc ? req->argv[*i + 1] : SLICE_NONE;

	for (size_t k = 0; k < sizeof(times) / sizeof(*times); k++)
		if (args_option(opt, times[k].name)) {
			++*i;
			return parse_time(o, times[k].seconds, times[k].absolute, next);
		}
	if (args_option(opt, "NX"))
		o->nx = true;
	else if (args_option(opt, "XX"))
		o->xx = true;
	else if (args_option(opt, "GET"))
		o->get = true;
	else if (args_option(opt, "KEEPTTL"))
		o->keepttl = true;
	else
		return PARSED_UNKNOWN;
	return PARSED_OK;
}

enum parsed set_options_parse(const struct resp_view *req, size_t first, struct set_options *o)
{
	enum parsed result = PARSED_OK;

	*o = (struct set_options){ 0 };
	/* Arguments after an unknown option may belong to the option: Redis will check them. */
	for (size_t i = first; i < req->argc && result != PARSED_REFUSED; i++) {
		enum parsed one = parse_option(req, &i, o);

		if (result == PARSED_OK)
			result = one;
	}
	if (result == PARSED_OK && ((o->nx && o->xx) || (o->keepttl && o->timed)))
		return PARSED_REFUSED;
	return result;
}

/* Converts a command's time to ms from `at`. Returns 0 for an invalid time. */
static int64_t to_ms(struct slice number, bool seconds, bool is_date, double at)
{
	int64_t n, ms;

	if (!slice_integer(number, &n) || n <= 0 || !args_ms(n, seconds, &ms))
		return 0;
	return is_date ? ms - (int64_t)(at * 1000) : ms;
}

/* Reads the options of SET, which begin at argv[first]. */
static void read_set(struct effect *m, const struct resp_view *req, size_t first, double at)
{
	struct set_options o;

	/* Redis refuses such options with an error, and changes nothing. */
	if (set_options_parse(req, first, &o) == PARSED_REFUSED)
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

struct effect effect_of(const struct command *c, const struct resp_view *req, double at)
{
	struct effect m = {
		.act = (enum effect_act)c->facts.act,
		.zero_is_nothing = c->facts.noop == NOOP_ZERO,
		.nil_is_done = c->facts.noop == NOOP_NEVER,
	};

	if (c->facts.expiry == EXPIRY_OPTIONS)
		read_set(&m, req, SET_OPTIONS, at);
	else if (c->facts.rule == RULE_MSETEX)
		read_set(&m, req, 2 + 2 * command_key_args(c, req, NULL, 0), at);
	else if (m.act == EFFECT_INCR && command_rule(c, req) != RULE_INCR)
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
