/* SPDX-License-Identifier: BSD-3-Clause */
#include "commands/effect.h"

#include "commands/args.h"

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
	bool nx = false, get = false;

	for (size_t i = 3; i < req->argc; i++) {
		struct slice opt = req->argv[i];
		struct slice next = i + 1 < req->argc ? req->argv[i + 1] : SLICE_NONE;
		bool ex = args_option(opt, "EX"), exat = args_option(opt, "EXAT");

		nx |= args_option(opt, "NX");
		get |= args_option(opt, "GET");
		if (args_option(opt, "KEEPTTL"))
			m->lease_ms = -1;
		if (!ex && !exat && !args_option(opt, "PX") && !args_option(opt, "PXAT"))
			continue;
		m->lease_ms = to_ms(next, ex || exat, exat || args_option(opt, "PXAT"), at);
		i++;
	}
	if (nx)
		m->act = EFFECT_ACQUIRE;
	m->nil_is_done = get;
	m->nil_only = nx && get;
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
