/* SPDX-License-Identifier: BSD-3-Clause */
#include "client/meaning.h"

#include "lock/args.h"

/* Of those that are not named here, no reply but an error and nil says that nothing was done.
 */
static const struct {
	const char *name;
	enum meaning_act act;
	bool zero_is_nothing;
	bool nil_is_done;
} meanings[] = {
	{ "SET", MEANING_SET, false, false },
	{ "SETNX", MEANING_TAKE, true, false },
	{ "SETEX", MEANING_SET, false, false },
	{ "PSETEX", MEANING_SET, false, false },
	{ "GETSET", MEANING_SET, false, true },
	{ "INCR", MEANING_COUNT, false, false },
	{ "DEL", MEANING_DROP, true, false },
	{ "UNLINK", MEANING_DROP, true, false },
	{ "GETDEL", MEANING_DROP, false, false },
	{ "EXPIRE", MEANING_EXPIRE, true, false },
	{ "PEXPIRE", MEANING_EXPIRE, true, false },
	{ "EXPIREAT", MEANING_EXPIRE, true, false },
	{ "PEXPIREAT", MEANING_EXPIRE, true, false },
	{ "PERSIST", MEANING_PERSIST, true, false },
	{ "COPY", MEANING_CHANGE, true, false },
	{ "HDEL", MEANING_CHANGE, true, false },
	{ "HSETNX", MEANING_CHANGE, true, false },
	{ "LPUSHX", MEANING_CHANGE, true, false },
	{ "LREM", MEANING_CHANGE, true, false },
	{ "MOVE", MEANING_CHANGE, true, false },
	{ "MSETNX", MEANING_CHANGE, true, false },
	{ "PFADD", MEANING_CHANGE, true, false },
	{ "RENAMENX", MEANING_CHANGE, true, false },
	{ "RPUSHX", MEANING_CHANGE, true, false },
	{ "SADD", MEANING_CHANGE, true, false },
	{ "SMOVE", MEANING_CHANGE, true, false },
	{ "SREM", MEANING_CHANGE, true, false },
	{ "XACK", MEANING_CHANGE, true, false },
	{ "XDEL", MEANING_CHANGE, true, false },
	{ "XTRIM", MEANING_CHANGE, true, false },
	{ "ZREM", MEANING_CHANGE, true, false },
	{ "ZREMRANGEBYLEX", MEANING_CHANGE, true, false },
	{ "ZREMRANGEBYRANK", MEANING_CHANGE, true, false },
	{ "ZREMRANGEBYSCORE", MEANING_CHANGE, true, false },
};

/* From a number as an application gives it; 0 when it is none, for Redis to refuse. */
static int64_t to_ms(struct slice number, bool seconds, bool is_date, double at)
{
	int64_t n, ms;

	if (!args_integer(number, &n) || n <= 0 || !args_ms(n, seconds, &ms))
		return 0;
	return is_date ? ms - (int64_t)(at * 1000) : ms;
}

static void read_set(struct meaning *m, const struct resp_view *req, double at)
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
		m->act = MEANING_TAKE;
	m->nil_is_done = get;
	m->nil_only = nx && get;
}

struct meaning meaning_of(const struct resp_view *req, double at)
{
	struct slice name = req->argv[0], last = req->argv[req->argc - 1];
	struct meaning m = { .act = MEANING_CHANGE };

	for (size_t i = 0; i < sizeof(meanings) / sizeof(*meanings); i++) {
		if (!slice_is(name, meanings[i].name))
			continue;
		m.act = meanings[i].act;
		m.zero_is_nothing = meanings[i].zero_is_nothing;
		m.nil_is_done = meanings[i].nil_is_done;
	}
	if (slice_is(name, "SET"))
		read_set(&m, req, at);
	else if (slice_is(name, "SETEX") || slice_is(name, "PSETEX"))
		m.lease_ms = to_ms(req->argc > 2 ? req->argv[2] : last,
		                   *name.p != 'p' && *name.p != 'P', false, at);
	else if (m.act == MEANING_EXPIRE)
		m.lease_ms = to_ms(req->argc > 2 ? req->argv[2] : last,
		                   slice_is(name, "EXPIRE") || slice_is(name, "EXPIREAT"),
		                   slice_is(name, "EXPIREAT") || slice_is(name, "PEXPIREAT"),
		                   at);
	return m;
}

bool meaning_is_done(const struct meaning *m, const struct resp_reply *reply)
{
	if (reply->nil)
		return m->nil_is_done;
	if (m->nil_only)
		return false;
	return !(m->zero_is_nothing && reply->type == ':' && reply->integer == 0);
}
