/* SPDX-License-Identifier: BSD-3-Clause */
#include "commands/effect.h"

#include "commands/args.h"

/* Of those that are not named here, no reply but an error and nil says that nothing was done.
 */
static const struct {
	const char *name;
	enum effect_act act;
	bool zero_is_nothing;
	bool nil_is_done;
} effects[] = {
	{ "SET", EFFECT_SET, false, false },
	{ "SETNX", EFFECT_ACQUIRE, true, false },
	{ "SETEX", EFFECT_SET, false, false },
	{ "PSETEX", EFFECT_SET, false, false },
	{ "GETSET", EFFECT_SET, false, true },
	{ "INCR", EFFECT_INCR, false, false },
	{ "DEL", EFFECT_DELETE, true, false },
	{ "UNLINK", EFFECT_DELETE, true, false },
	{ "GETDEL", EFFECT_DELETE, false, false },
	{ "EXPIRE", EFFECT_EXPIRE, true, false },
	{ "PEXPIRE", EFFECT_EXPIRE, true, false },
	{ "EXPIREAT", EFFECT_EXPIRE, true, false },
	{ "PEXPIREAT", EFFECT_EXPIRE, true, false },
	{ "PERSIST", EFFECT_PERSIST, true, false },
	{ "COPY", EFFECT_CHANGE, true, false },
	{ "HDEL", EFFECT_CHANGE, true, false },
	{ "HSETNX", EFFECT_CHANGE, true, false },
	{ "LPUSHX", EFFECT_CHANGE, true, false },
	{ "LREM", EFFECT_CHANGE, true, false },
	{ "MOVE", EFFECT_CHANGE, true, false },
	{ "MSETNX", EFFECT_CHANGE, true, false },
	{ "PFADD", EFFECT_CHANGE, true, false },
	{ "RENAMENX", EFFECT_CHANGE, true, false },
	{ "RPUSHX", EFFECT_CHANGE, true, false },
	{ "SADD", EFFECT_CHANGE, true, false },
	{ "SMOVE", EFFECT_CHANGE, true, false },
	{ "SREM", EFFECT_CHANGE, true, false },
	{ "XACK", EFFECT_CHANGE, true, false },
	{ "XDEL", EFFECT_CHANGE, true, false },
	{ "XTRIM", EFFECT_CHANGE, true, false },
	{ "ZREM", EFFECT_CHANGE, true, false },
	{ "ZREMRANGEBYLEX", EFFECT_CHANGE, true, false },
	{ "ZREMRANGEBYRANK", EFFECT_CHANGE, true, false },
	{ "ZREMRANGEBYSCORE", EFFECT_CHANGE, true, false },
};

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

struct effect effect_of(const struct resp_view *req, double at)
{
	struct slice name = req->argv[0], last = req->argv[req->argc - 1];
	struct effect m = { .act = EFFECT_CHANGE };

	for (size_t i = 0; i < sizeof(effects) / sizeof(*effects); i++) {
		if (!slice_is(name, effects[i].name))
			continue;
		m.act = effects[i].act;
		m.zero_is_nothing = effects[i].zero_is_nothing;
		m.nil_is_done = effects[i].nil_is_done;
	}
	if (slice_is(name, "SET"))
		read_set(&m, req, at);
	else if (slice_is(name, "SETEX") || slice_is(name, "PSETEX"))
		m.lease_ms = to_ms(req->argc > 2 ? req->argv[2] : last,
		                   *name.p != 'p' && *name.p != 'P', false, at);
	else if (m.act == EFFECT_EXPIRE)
		m.lease_ms = to_ms(req->argc > 2 ? req->argv[2] : last,
		                   slice_is(name, "EXPIRE") || slice_is(name, "EXPIREAT"),
		                   slice_is(name, "EXPIREAT") || slice_is(name, "PEXPIREAT"),
		                   at);
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
