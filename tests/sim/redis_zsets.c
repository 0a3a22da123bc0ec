/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/sim/redis_internal.h"

#include <math.h>
#include <stdlib.h>

/* Options of commands. */
enum { REVERSE = 1, BY_SCORE = 2, WITH_OPTIONS = 4, REMOVES = 8 };

#define NO_FLOAT "ERR value is not a valid float"

static bool find_zset(struct redis_call *x, struct redis_key **key)
{
	return redis_key_typed(x, x->argv[1], REDIS_ZSET, key);
}

/* Where a member of this score and name is, or belongs. */
static size_t place_of(const struct redis_items *items, double score, struct slice name)
{
	size_t low = 0, high = items->n;

	while (low < high) {
		size_t mid = (low + high) / 2;
		const struct redis_item *item = &items->v[mid];
		if (item->score < score ||
		    (item->score == score && redis_bytes_compare(item->name, name) < 0))
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

/* --- ZADD --------------------------------------------------------------------------------- */

struct zadd {
	bool nx, xx, gt, lt, ch, incr;
	long long added, changed;
	double score; /* that the last member has now */
	bool done; /* it was written, or had that score */
};

/* False: the sum is not a number, and the reply is the error. */
static bool zadd_member(struct redis_call *x, struct redis_key *key, struct zadd *z,
                        double score, struct slice name)
{
	struct redis_item *old = redis_key_item(key, name);

	z->done = false;
	z->score = score;
	if (old && z->nx)
		return true;
	if (old && z->incr)
		z->score = old->score + score;
	if (isnan(z->score)) {
		redis_reply_error(x, "ERR resulting score is not a number (NaN)");
		return false;
	}
	if ((!old && z->xx) ||
	    (old && ((z->gt && z->score <= old->score) || (z->lt && z->score >= old->score))))
		return true;
	z->done = true;
	if (old && old->score == z->score)
		return true;
	if (old)
		redis_items_remove(&key->items, (size_t)(old - key->items.v));
	redis_items_add(&key->items, place_of(&key->items, z->score, name), name)->score =
		z->score;
	z->added += !old;
	z->changed++;
	return true;
}

static bool zadd_options(struct redis_call *x, struct zadd *z, size_t *at)
{
	const struct {
		const char *word;
		bool *option;
	} words[] = { { "NX", &z->nx }, { "XX", &z->xx }, { "GT", &z->gt },
		      { "LT", &z->lt }, { "CH", &z->ch }, { "INCR", &z->incr } };
	size_t k;

	for (*at = 2; *at < x->argc; ++*at) {
		for (k = 0; k < 6 && !redis_arg_is(x, *at, words[k].word); k++)
			;
		if (k == 6)
			break;
		*words[k].option = true;
	}
	if (*at == x->argc || (x->argc - *at) % 2)
		redis_reply_syntax(x);
	else if (z->nx && z->xx)
		redis_reply_error(x,
		                  "ERR XX and NX options at the same time are not compatible");
	else if ((z->gt && z->nx) || (z->lt && z->nx) || (z->gt && z->lt))
		redis_reply_error(x, "ERR GT, LT, and/or NX options at the same time are not "
		                     "compatible");
	else if (z->incr && x->argc - *at > 2)
		redis_reply_error(x,
		                  "ERR INCR option supports a single increment-element pair");
	else
		return true;
	return false;
}

static void zadd(struct redis_call *x, struct zadd *z, size_t at)
{
	struct redis_key *key;
	double score;

	for (size_t i = at; i < x->argc; i += 2)
		if (!redis_arg_double(x, i, &score, NO_FLOAT))
			return;
	if (!find_zset(x, &key))
		return;
	if (!key && z->xx) {
		if (z->incr)
			redis_reply_nil(x);
		else
			redis_reply_int(x, 0);
		return;
	}
	if (!key)
		key = redis_key_add(x, x->argv[1], REDIS_ZSET);
	for (size_t i = at; i < x->argc; i += 2) {
		redis_parse_double(x->argv[i], &score);
		if (!zadd_member(x, key, z, score, x->argv[i + 1]))
			break;
		if (i + 2 < x->argc)
			continue;
		if (z->incr && z->done)
			redis_reply_double(x, z->score);
		else if (z->incr)
			redis_reply_nil(x);
		else
			redis_reply_int(x, z->ch ? z->changed : z->added);
	}
	if (z->changed || key->items.n == 0)
		redis_key_changed(x, key);
}

static void redis_zadd(struct redis_call *x)
{
	struct zadd z = { 0 };
	size_t at;

	if (zadd_options(x, &z, &at))
		zadd(x, &z, at);
}

static void redis_zincrby(struct redis_call *x)
{
	zadd(x, &(struct zadd){ .incr = true }, 2);
}

/* --- one member --------------------------------------------------------------------------- */

static void redis_zscore(struct redis_call *x)
{
	struct redis_key *key;
	struct redis_item *member;

	if (!find_zset(x, &key))
		return;
	member = redis_key_item(key, x->argv[2]);
	if (member)
		redis_reply_double(x, member->score);
	else
		redis_reply_nil(x);
}

static void redis_zmscore(struct redis_call *x)
{
	struct redis_key *key;

	if (!find_zset(x, &key))
		return;
	redis_reply_array(x, x->argc - 2);
	for (size_t i = 2; i < x->argc; i++) {
		struct redis_item *member = redis_key_item(key, x->argv[i]);
		if (member)
			redis_reply_double(x, member->score);
		else
			redis_reply_nil(x);
	}
}

static void redis_zrank(struct redis_call *x)
{
	struct redis_key *key;
	struct redis_item *member;

	if (!find_zset(x, &key))
		return;
	member = redis_key_item(key, x->argv[2]);
	if (!member)
		redis_reply_nil(x);
	else
		redis_reply_int(x, x->command->option & REVERSE
		                           ? key->items.v + key->items.n - 1 - member
		                           : member - key->items.v);
}

/* --- ranges ------------------------------------------------------------------------------- */

struct zbound {
	double score;
	bool excluded;
};

/* As strtod() reads it: an empty bound is 0. */
static bool arg_bound(struct redis_call *x, size_t i, struct zbound *b)
{
	char *text = xmemdup(x->argv[i].p, x->argv[i].n), *end;
	bool is_number;

	b->excluded = *text == '(';
	b->score = strtod(text + b->excluded, &end);
	is_number = *end == '\0' && !isnan(b->score);
	free(text);
	if (!is_number)
		redis_reply_error(x, "ERR min or max is not a float");
	return is_number;
}

/* The indexes of a range: from `begin` up to, without, `end`. */
struct zrange {
	size_t begin, end;
	bool reverse;
};

static void range_by_score(const struct redis_key *key, const struct zbound *min,
                           const struct zbound *max, struct zrange *r)
{
	const struct redis_items *items = &key->items;

	r->begin = 0;
	while (r->begin < items->n && (min->excluded ? items->v[r->begin].score <= min->score
	                                             : items->v[r->begin].score < min->score))
		r->begin++;
	r->end = r->begin;
	while (r->end < items->n && (max->excluded ? items->v[r->end].score < max->score
	                                           : items->v[r->end].score <= max->score))
		r->end++;
}

static void range_by_rank(const struct redis_key *key, long long first, long long last,
                          struct zrange *r)
{
	long long n = (long long)key->items.n;

	if (!redis_range(n, &first, &last))
		return;
	r->begin = (size_t)(r->reverse ? n - 1 - last : first);
	r->end = (size_t)(r->reverse ? n - first : last + 1);
}

/* LIMIT counts from the end at which the range is read. */
static void range_limit(struct zrange *r, long long offset, long long limit)
{
	size_t n = r->end - r->begin;
	size_t skipped = offset < 0 || (size_t)offset > n ? n : (size_t)offset;

	if (r->reverse)
		r->end -= skipped;
	else
		r->begin += skipped;
	n -= skipped;
	if (limit < 0 || (size_t)limit >= n)
		return;
	if (r->reverse)
		r->begin = r->end - (size_t)limit;
	else
		r->end = r->begin + (size_t)limit;
}

static void reply_range(struct redis_call *x, const struct redis_key *key,
                        const struct zrange *r, bool with_scores)
{
	size_t n = r->end - r->begin;
	bool paired = with_scores && x->resp == 3;

	redis_reply_array(x, with_scores && !paired ? 2 * n : n);
	for (size_t k = 0; k < n; k++) {
		const struct redis_item *item =
			&key->items.v[r->reverse ? r->end - 1 - k : r->begin + k];
		if (paired)
			redis_reply_array(x, 2);
		redis_reply_bulk(x, item->name);
		if (with_scores)
			redis_reply_double(x, item->score);
	}
}

/* All commands that read a range; those of Redis before 6.2 say by their names what ZRANGE says
 * by options. */
static void redis_zrange(struct redis_call *x)
{
	bool by_score = x->command->option & BY_SCORE,
	     is_new = x->command->option & WITH_OPTIONS;
	struct redis_key *key;
	struct zrange r = { .reverse = x->command->option & REVERSE };
	struct zbound min, max;
	long long first = 0, last = 0, offset = 0, limit = -1;
	bool with_scores = false, limited = false;

	for (size_t i = 4; i < x->argc; i++) {
		if (redis_arg_is(x, i, "WITHSCORES")) {
			with_scores = true;
		} else if ((is_new || by_score) && redis_arg_is(x, i, "LIMIT") &&
		           i + 2 < x->argc) {
			if (!redis_arg_int(x, i + 1, &offset) ||
			    !redis_arg_int(x, i + 2, &limit))
				return;
			limited = true;
			i += 2;
		} else if (is_new && redis_arg_is(x, i, "BYSCORE")) {
			by_score = true;
		} else if (is_new && redis_arg_is(x, i, "REV")) {
			r.reverse = true;
		} else {
			redis_reply_syntax(x);
			return;
		}
	}
	if (limited && limit != -1 && !by_score) {
		redis_reply_error(x, "ERR syntax error, LIMIT is only supported in combination "
		                     "with either BYSCORE or BYLEX");
		return;
	}
	if (by_score ? !arg_bound(x, r.reverse ? 3 : 2, &min) ||
	                       !arg_bound(x, r.reverse ? 2 : 3, &max)
	             : !redis_arg_int(x, 2, &first) || !redis_arg_int(x, 3, &last))
		return;
	if (!find_zset(x, &key))
		return;
	if (key && by_score)
		range_by_score(key, &min, &max, &r);
	else if (key)
		range_by_rank(key, first, last, &r);
	if (limited)
		range_limit(&r, offset, limit);
	reply_range(x, key, &r, with_scores);
}

static void remove_range(struct redis_call *x, struct redis_key *key, const struct zrange *r)
{
	for (size_t i = r->end; i-- > r->begin;)
		redis_items_remove(&key->items, i);
	if (r->end > r->begin)
		redis_key_changed(x, key);
}

/* ZCOUNT and ZREMRANGEBYSCORE. */
static void redis_zcount(struct redis_call *x)
{
	struct redis_key *key;
	struct zrange r = { 0 };
	struct zbound min, max;

	if (!arg_bound(x, 2, &min) || !arg_bound(x, 3, &max) || !find_zset(x, &key))
		return;
	if (key)
		range_by_score(key, &min, &max, &r);
	redis_reply_int(x, (long long)(r.end - r.begin));
	if (x->command->option & REMOVES)
		remove_range(x, key, &r);
}

static void redis_zremrangebyrank(struct redis_call *x)
{
	struct redis_key *key;
	struct zrange r = { 0 };
	long long first, last;

	if (!redis_arg_int(x, 2, &first) || !redis_arg_int(x, 3, &last) || !find_zset(x, &key))
		return;
	if (key)
		range_by_rank(key, first, last, &r);
	redis_reply_int(x, (long long)(r.end - r.begin));
	remove_range(x, key, &r);
}

static void redis_zpop(struct redis_call *x)
{
	struct redis_key *key;
	struct zrange r = { .reverse = x->command->option & REVERSE };
	long long n = 1;

	if (x->argc > 3) {
		redis_reply_syntax(x);
		return;
	}
	if (x->argc == 3 && (!redis_parse_int(x->argv[2], &n) || n < 0)) {
		redis_reply_error(x, "ERR value is out of range, must be positive");
		return;
	}
	if (!find_zset(x, &key))
		return;
	r.end = key ? key->items.n : 0;
	range_limit(&r, 0, n);
	if (x->argc == 3 || x->resp == 2) {
		reply_range(x, key, &r, true);
	} else {
		redis_reply_array(x, r.end > r.begin ? 2 : 0);
		if (r.end > r.begin) {
			redis_reply_bulk(x, key->items.v[r.begin].name);
			redis_reply_double(x, key->items.v[r.begin].score);
		}
	}
	remove_range(x, key, &r);
}

const struct redis_command redis_zset_commands[] = {
	{ "zadd", -4, REDIS_WRITE, 1, 1, 1, redis_zadd, 0 },
	{ "zincrby", 4, REDIS_WRITE, 1, 1, 1, redis_zincrby, 0 },
	{ "zrem", -3, REDIS_WRITE, 1, 1, 1, redis_remove, REDIS_ZSET },
	{ "zscore", 3, REDIS_READ, 1, 1, 1, redis_zscore, 0 },
	{ "zmscore", -3, REDIS_READ, 1, 1, 1, redis_zmscore, 0 },
	{ "zrank", 3, REDIS_READ, 1, 1, 1, redis_zrank, 0 },
	{ "zrevrank", 3, REDIS_READ, 1, 1, 1, redis_zrank, REVERSE },
	{ "zcard", 2, REDIS_READ, 1, 1, 1, redis_length, REDIS_ZSET },
	{ "zrange", -4, REDIS_READ, 1, 1, 1, redis_zrange, WITH_OPTIONS },
	{ "zrevrange", -4, REDIS_READ, 1, 1, 1, redis_zrange, REVERSE },
	{ "zrangebyscore", -4, REDIS_READ, 1, 1, 1, redis_zrange, BY_SCORE },
	{ "zrevrangebyscore", -4, REDIS_READ, 1, 1, 1, redis_zrange, BY_SCORE | REVERSE },
	{ "zcount", 4, REDIS_READ, 1, 1, 1, redis_zcount, 0 },
	{ "zremrangebyscore", 4, REDIS_WRITE, 1, 1, 1, redis_zcount, REMOVES },
	{ "zremrangebyrank", 4, REDIS_WRITE, 1, 1, 1, redis_zremrangebyrank, 0 },
	{ "zpopmin", -2, REDIS_WRITE, 1, 1, 1, redis_zpop, 0 },
	{ "zpopmax", -2, REDIS_WRITE, 1, 1, 1, redis_zpop, REVERSE },
	{ "zscan", -3, REDIS_READ, 1, 1, 1, redis_scan_items, REDIS_ZSET },
	{ 0 },
};
