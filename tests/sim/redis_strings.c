/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/sim/redis_internal.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static void reply_string(struct redis_call *x, const struct redis_key *key)
{
	if (key)
		redis_reply_bulk(x, key->items.v[0].name);
	else
		redis_reply_nil(x);
}

/* --- SET ---------------------------------------------------------------------------------- */

enum { SET_NX = 1, SET_XX = 2, SET_GET = 4, SET_KEEPTTL = 8, SET_PERSIST = 16 };

struct set_options {
	int flags;
	int64_t expires_at; /* 0: never */
};

static const struct {
	const char *word;
	int unit;
	bool at;
} expiries[] = {
	{ "EX", 1000, false },
	{ "PX", 1, false },
	{ "EXAT", 1000, true },
	{ "PXAT", 1, true },
};

static int expiry_named(const struct redis_call *x, size_t i)
{
	for (int k = 0; k < 4; k++)
		if (redis_arg_is(x, i, expiries[k].word))
			return k;
	return -1;
}

static bool arg_relative_or_date(struct redis_call *x, size_t i, int unit, bool at,
                                 int64_t *out)
{
	long long n;

	if (!redis_arg_int(x, i, &n))
		return false;
	if (n <= 0) {
		redis_reply_error(x, "ERR invalid expire time in '%s' command",
		                  x->command->name);
		return false;
	}
	return redis_arg_expiry(x, i, unit, at, out);
}

/* `allowed`: the flags that the command knows. On false the reply is the error. */
static bool arg_set_options(struct redis_call *x, size_t i, int allowed,
                            struct set_options *options)
{
	static const struct {
		const char *word;
		int flag;
		int without;
	} words[] = {
		{ "NX", SET_NX, SET_XX },      { "XX", SET_XX, SET_NX },
		{ "GET", SET_GET, 0 },         { "KEEPTTL", SET_KEEPTTL, 0 },
		{ "PERSIST", SET_PERSIST, 0 },
	};
	size_t number = 0;
	int kind = 0;

	*options = (struct set_options){ 0 };
	for (; i < x->argc; i++) {
		const int ttl = SET_KEEPTTL | SET_PERSIST;
		size_t k = 0;
		while (k < 5 && !redis_arg_is(x, i, words[k].word))
			k++;
		if (k < 5 && (allowed & words[k].flag) &&
		    !(options->flags & words[k].without) && !(number && words[k].flag & ttl)) {
			options->flags |= words[k].flag;
		} else if (expiry_named(x, i) >= 0 && !number && i + 1 < x->argc &&
		           !(options->flags & ttl)) {
			kind = expiry_named(x, i);
			number = ++i;
		} else {
			redis_reply_syntax(x);
			return false;
		}
	}
	return !number || arg_relative_or_date(x, number, expiries[kind].unit,
	                                       expiries[kind].at, &options->expires_at);
}

static void redis_set(struct redis_call *x)
{
	struct set_options o;
	struct redis_key *key;
	int64_t kept;
	bool refused;

	if (!arg_set_options(x, 3, SET_NX | SET_XX | SET_GET | SET_KEEPTTL, &o))
		return;
	key = redis_key_find(x, x->argv[1]);
	if ((o.flags & SET_GET) && key && key->type != REDIS_STRING) {
		redis_reply_wrong_type(x);
		return;
	}
	refused = ((o.flags & SET_NX) && key) || ((o.flags & SET_XX) && !key);
	if (o.flags & SET_GET)
		reply_string(x, key);
	else if (refused)
		redis_reply_nil(x);
	if (refused)
		return;
	kept = key && (o.flags & SET_KEEPTTL) ? key->expires_at : 0;
	key = redis_key_set_string(x, x->argv[1], x->argv[2]);
	key->expires_at = o.expires_at ? o.expires_at : kept;
	if (!(o.flags & SET_GET))
		redis_reply_ok(x);
}

static void redis_setnx(struct redis_call *x)
{
	bool is_new = !redis_key_find(x, x->argv[1]);

	if (is_new)
		redis_key_set_string(x, x->argv[1], x->argv[2]);
	redis_reply_int(x, is_new);
}

/* The option is the unit in ms. */
static void redis_setex(struct redis_call *x)
{
	int64_t expires_at;

	if (!arg_relative_or_date(x, 2, x->command->option, false, &expires_at))
		return;
	redis_key_set_string(x, x->argv[1], x->argv[3])->expires_at = expires_at;
	redis_reply_ok(x);
}

/* --- GET ---------------------------------------------------------------------------------- */

static void redis_get(struct redis_call *x)
{
	struct redis_key *key;

	if (redis_key_typed(x, x->argv[1], REDIS_STRING, &key))
		reply_string(x, key);
}

static void redis_getset(struct redis_call *x)
{
	struct redis_key *key;

	if (!redis_key_typed(x, x->argv[1], REDIS_STRING, &key))
		return;
	reply_string(x, key);
	redis_key_set_string(x, x->argv[1], x->argv[2])->expires_at = 0;
}

static void redis_getdel(struct redis_call *x)
{
	struct redis_key *key;

	if (!redis_key_typed(x, x->argv[1], REDIS_STRING, &key))
		return;
	reply_string(x, key);
	if (key)
		redis_key_delete(x, key);
}

static void redis_getex(struct redis_call *x)
{
	struct set_options o;
	struct redis_key *key;

	if (!arg_set_options(x, 2, SET_PERSIST, &o) ||
	    !redis_key_typed(x, x->argv[1], REDIS_STRING, &key))
		return;
	reply_string(x, key);
	if (!key || (!o.expires_at && !((o.flags & SET_PERSIST) && key->expires_at)))
		return;
	key->expires_at = o.expires_at;
	if (o.expires_at && o.expires_at <= x->s->now_ms)
		redis_key_delete(x, key);
	else
		redis_key_changed(x, key);
}

static void redis_strlen(struct redis_call *x)
{
	struct redis_key *key;

	if (redis_key_typed(x, x->argv[1], REDIS_STRING, &key))
		redis_reply_int(x, key ? (long long)key->items.v[0].name.n : 0);
}

static void redis_getrange(struct redis_call *x)
{
	struct redis_key *key;
	long long first, last, n;

	if (!redis_arg_int(x, 2, &first) || !redis_arg_int(x, 3, &last) ||
	    !redis_key_typed(x, x->argv[1], REDIS_STRING, &key))
		return;
	n = key ? (long long)key->items.v[0].name.n : 0;
	if (first < 0 && last < 0 && first > last)
		n = 0;
	first = first < 0 ? (first + n < 0 ? 0 : first + n) : first;
	last = last < 0 ? (last + n < 0 ? 0 : last + n) : last;
	last = last >= n ? n - 1 : last;
	if (n == 0 || first > last)
		redis_reply_text(x, "");
	else
		redis_reply_bulk(x, slice_of(key->items.v[0].name.p + first,
		                             (size_t)(last - first + 1)));
}

/* --- changes ------------------------------------------------------------------------------ */

/* The expiry stays. */
static void change_string(struct redis_call *x, struct redis_key *key, struct slice value)
{
	if (key) {
		redis_bytes_set(&key->items.v[0].name, value);
		redis_key_changed(x, key);
	} else {
		redis_key_set_string(x, x->argv[1], value);
	}
}

static void redis_append(struct redis_call *x)
{
	struct redis_key *key;
	struct buf value = BUF_INIT;

	if (!redis_key_typed(x, x->argv[1], REDIS_STRING, &key))
		return;
	if (key)
		buf_append(&value, key->items.v[0].name);
	buf_append(&value, x->argv[2]);
	change_string(x, key, buf_slice(&value));
	redis_reply_int(x, (long long)buf_len(&value));
	buf_release(&value);
}

static void redis_setrange(struct redis_call *x)
{
	struct redis_key *key;
	struct buf value = BUF_INIT;
	long long at;

	if (!redis_arg_int(x, 2, &at))
		return;
	if (at < 0) {
		redis_reply_error(x, "ERR offset is out of range");
		return;
	}
	if (!redis_key_typed(x, x->argv[1], REDIS_STRING, &key))
		return;
	if (key)
		buf_append(&value, key->items.v[0].name);
	if (x->argv[3].n && at + (long long)x->argv[3].n > 512 * 1024 * 1024) {
		redis_reply_error(x, "ERR string exceeds maximum allowed size "
		                     "(proto-max-bulk-len)");
	} else if (x->argv[3].n == 0) {
		redis_reply_int(x, (long long)buf_len(&value));
	} else {
		while (buf_len(&value) < (size_t)at + x->argv[3].n)
			buf_append(&value, SLICE_LIT("\0"));
		memcpy(buf_head(&value) + at, x->argv[3].p, x->argv[3].n);
		change_string(x, key, buf_slice(&value));
		redis_reply_int(x, (long long)buf_len(&value));
	}
	buf_release(&value);
}

static void count(struct redis_call *x, long long by)
{
	struct redis_key *key;
	long long n = 0;
	char text[24];

	if (!redis_key_typed(x, x->argv[1], REDIS_STRING, &key))
		return;
	if (key && !redis_parse_int(key->items.v[0].name, &n)) {
		redis_reply_error(x, "ERR value is not an integer or out of range");
		return;
	}
	if (__builtin_add_overflow(n, by, &n)) {
		redis_reply_error(x, "ERR increment or decrement would overflow");
		return;
	}
	snprintf(text, sizeof(text), "%lld", n);
	change_string(x, key, slice_str(text));
	redis_reply_int(x, n);
}

/* The option is the number. */
static void redis_incr(struct redis_call *x)
{
	count(x, x->command->option);
}

static void redis_incrby(struct redis_call *x)
{
	long long by;

	if (redis_arg_int(x, 2, &by))
		count(x, by);
}

static void redis_decrby(struct redis_call *x)
{
	long long by;

	if (!redis_arg_int(x, 2, &by))
		return;
	if (by == LLONG_MIN)
		redis_reply_error(x, "ERR decrement would overflow");
	else
		count(x, -by);
}

static bool parse_long_double(struct slice s, long double *out)
{
	char text[256];
	char *end;

	if (s.n == 0 || s.n >= sizeof(text) || strchr(" \t\n\v\f\r", *s.p))
		return false;
	memcpy(text, s.p, s.n);
	text[s.n] = '\0';
	*out = strtold(text, &end);
	return end == text + s.n && !isnan(*out);
}

static void redis_incrbyfloat(struct redis_call *x)
{
	struct redis_key *key;
	long double n = 0, by;
	char text[5200], *end;

	if (!redis_key_typed(x, x->argv[1], REDIS_STRING, &key))
		return;
	if ((key && !parse_long_double(key->items.v[0].name, &n)) ||
	    !parse_long_double(x->argv[2], &by)) {
		redis_reply_error(x, "ERR value is not a valid float");
		return;
	}
	n += by;
	if (isnan(n) || isinf(n)) {
		redis_reply_error(x, "ERR increment would produce NaN or Infinity");
		return;
	}
	snprintf(text, sizeof(text), "%.17Lf", n);
	for (end = text + strlen(text);
	     strchr(text, '.') && (end[-1] == '0' || end[-1] == '.');)
		*--end = '\0';
	if (strcmp(text, "-0") == 0)
		strcpy(text, "0");
	change_string(x, key, slice_str(text));
	redis_reply_text(x, text);
}

/* --- several keys ------------------------------------------------------------------------- */

static void redis_mget(struct redis_call *x)
{
	redis_reply_array(x, x->argc - 1);
	for (size_t i = 1; i < x->argc; i++) {
		struct redis_key *key = redis_key_find(x, x->argv[i]);
		reply_string(x, key && key->type == REDIS_STRING ? key : NULL);
	}
}

/* With an option: MSETNX. */
static void redis_mset(struct redis_call *x)
{
	const bool only_new = x->command->option;

	if (x->argc % 2 == 0) {
		redis_reply_arity(x);
		return;
	}
	for (size_t i = 1; only_new && i < x->argc; i += 2)
		if (redis_key_find(x, x->argv[i])) {
			redis_reply_int(x, 0);
			return;
		}
	for (size_t i = 1; i < x->argc; i += 2)
		redis_key_set_string(x, x->argv[i], x->argv[i + 1])->expires_at = 0;
	if (only_new)
		redis_reply_int(x, 1);
	else
		redis_reply_ok(x);
}

const struct redis_command redis_string_commands[] = {
	{ "set", -3, REDIS_WRITE, 1, 1, 1, redis_set, 0 },
	{ "setnx", 3, REDIS_WRITE, 1, 1, 1, redis_setnx, 0 },
	{ "setex", 4, REDIS_WRITE, 1, 1, 1, redis_setex, 1000 },
	{ "psetex", 4, REDIS_WRITE, 1, 1, 1, redis_setex, 1 },
	{ "get", 2, REDIS_READ, 1, 1, 1, redis_get, 0 },
	{ "getset", 3, REDIS_WRITE, 1, 1, 1, redis_getset, 0 },
	{ "getdel", 2, REDIS_WRITE, 1, 1, 1, redis_getdel, 0 },
	{ "getex", -2, REDIS_WRITE, 1, 1, 1, redis_getex, 0 },
	{ "strlen", 2, REDIS_READ, 1, 1, 1, redis_strlen, 0 },
	{ "getrange", 4, REDIS_READ, 1, 1, 1, redis_getrange, 0 },
	{ "substr", 4, REDIS_READ, 1, 1, 1, redis_getrange, 0 },
	{ "append", 3, REDIS_WRITE, 1, 1, 1, redis_append, 0 },
	{ "setrange", 4, REDIS_WRITE, 1, 1, 1, redis_setrange, 0 },
	{ "incr", 2, REDIS_WRITE, 1, 1, 1, redis_incr, 1 },
	{ "decr", 2, REDIS_WRITE, 1, 1, 1, redis_incr, -1 },
	{ "incrby", 3, REDIS_WRITE, 1, 1, 1, redis_incrby, 0 },
	{ "decrby", 3, REDIS_WRITE, 1, 1, 1, redis_decrby, 0 },
	{ "incrbyfloat", 3, REDIS_WRITE, 1, 1, 1, redis_incrbyfloat, 0 },
	{ "mget", -2, REDIS_READ, 1, -1, 1, redis_mget, 0 },
	{ "mset", -3, REDIS_WRITE, 1, -1, 2, redis_mset, 0 },
	{ "msetnx", -3, REDIS_WRITE, 1, -1, 2, redis_mset, true },
	{ 0 },
};
