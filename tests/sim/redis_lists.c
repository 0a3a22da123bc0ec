/* SPDX-License-Identifier: BSD-3-Clause
 *
 * redis_lists: lists and sets.
 */
#include "tests/sim/redis_internal.h"

#include <stdlib.h>

/* --- lists -------------------------------------------------------------------------------- */

static bool find_list(struct redis_call *x, struct redis_key **key)
{
	return redis_key_typed(x, x->argv[1], REDIS_LIST, key);
}

/* Options of commands: at the head; only if there is a list. */
enum { LEFT = 1, ONLY_OLD = 2 };

static void redis_push(struct redis_call *x)
{
	struct redis_key *key;

	if (!find_list(x, &key))
		return;
	if (!key && (x->command->option & ONLY_OLD)) {
		redis_reply_int(x, 0);
		return;
	}
	if (!key)
		key = redis_key_add(x, x->argv[1], REDIS_LIST);
	for (size_t i = 2; i < x->argc; i++)
		redis_items_add(&key->items, x->command->option & LEFT ? 0 : key->items.n,
		                x->argv[i]);
	redis_key_changed(x, key);
	redis_reply_int(x, (long long)key->items.n);
}

static void redis_pop(struct redis_call *x)
{
	bool left = x->command->option & LEFT;
	struct redis_key *key;
	long long n = 1;

	if (x->argc > 3) {
		redis_reply_arity(x);
		return;
	}
	if (x->argc == 3 && (!redis_parse_int(x->argv[2], &n) || n < 0)) {
		redis_reply_error(x, "ERR value is out of range, must be positive");
		return;
	}
	if (!find_list(x, &key))
		return;
	if (!key) {
		if (x->argc == 3)
			redis_reply_nil_array(x);
		else
			redis_reply_nil(x);
		return;
	}
	if ((size_t)n > key->items.n)
		n = (long long)key->items.n;
	if (x->argc == 3)
		redis_reply_array(x, (size_t)n);
	for (long long i = 0; i < n; i++) {
		size_t at = left ? 0 : key->items.n - 1;
		redis_reply_bulk(x, key->items.v[at].name);
		redis_items_remove(&key->items, at);
	}
	if (n)
		redis_key_changed(x, key);
}

static void redis_lrange(struct redis_call *x)
{
	struct redis_key *key;
	long long first, last;

	if (!redis_arg_int(x, 2, &first) || !redis_arg_int(x, 3, &last) || !find_list(x, &key))
		return;
	if (!redis_range(key ? (long long)key->items.n : 0, &first, &last)) {
		redis_reply_array(x, 0);
		return;
	}
	redis_reply_array(x, (size_t)(last - first + 1));
	for (; first <= last; first++)
		redis_reply_bulk(x, key->items.v[first].name);
}

static void redis_ltrim(struct redis_call *x)
{
	struct redis_key *key;
	long long first, last;

	if (!redis_arg_int(x, 2, &first) || !redis_arg_int(x, 3, &last) || !find_list(x, &key))
		return;
	if (key) {
		if (!redis_range((long long)key->items.n, &first, &last))
			first = (long long)key->items.n, last = first - 1;
		for (size_t i = key->items.n; i-- > 0;)
			if ((long long)i < first || (long long)i > last)
				redis_items_remove(&key->items, i);
		redis_key_changed(x, key);
	}
	redis_reply_ok(x);
}

static void redis_lindex(struct redis_call *x)
{
	struct redis_key *key;
	long long at;

	if (!find_list(x, &key))
		return;
	if (!key) {
		redis_reply_nil(x);
		return;
	}
	if (!redis_arg_int(x, 2, &at))
		return;
	at = at < 0 ? at + (long long)key->items.n : at;
	if (at < 0 || at >= (long long)key->items.n)
		redis_reply_nil(x);
	else
		redis_reply_bulk(x, key->items.v[at].name);
}

static void redis_lrem(struct redis_call *x)
{
	struct redis_key *key;
	long long count, n = 0;
	size_t len;

	if (!redis_arg_int(x, 2, &count) || !find_list(x, &key))
		return;
	len = key ? key->items.n : 0;
	for (size_t k = 0; k < len && (count == 0 || n < llabs(count)); k++) {
		size_t at = count < 0 ? len - 1 - k : k - (size_t)n;
		if (slice_eq(key->items.v[at].name, x->argv[3])) {
			redis_items_remove(&key->items, at);
			n++;
		}
	}
	if (n)
		redis_key_changed(x, key);
	redis_reply_int(x, n);
}

static void redis_rpoplpush(struct redis_call *x)
{
	struct redis_key *from, *to;
	struct slice moved = SLICE_NONE;

	if (!find_list(x, &from))
		return;
	if (!from) {
		redis_reply_nil(x);
		return;
	}
	if (!redis_key_typed(x, x->argv[2], REDIS_LIST, &to))
		return;
	redis_bytes_set(&moved, from->items.v[from->items.n - 1].name);
	redis_items_remove(&from->items, from->items.n - 1);
	if (!to)
		to = redis_key_add(x, x->argv[2], REDIS_LIST);
	redis_items_add(&to->items, 0, moved);
	redis_reply_bulk(x, moved);
	if (from != to)
		redis_key_changed(x, from);
	redis_key_changed(x, to);
	free((char *)(uintptr_t)moved.p);
}

/* --- sets --------------------------------------------------------------------------------- */

static bool find_set(struct redis_call *x, struct redis_key **key)
{
	return redis_key_typed(x, x->argv[1], REDIS_SET, key);
}

static void redis_sadd(struct redis_call *x)
{
	struct redis_key *key;
	long long n = 0;

	if (!find_set(x, &key))
		return;
	if (!key)
		key = redis_key_add(x, x->argv[1], REDIS_SET);
	for (size_t i = 2; i < x->argc; i++)
		if (!redis_key_item(key, x->argv[i])) {
			redis_items_add(&key->items, key->items.n, x->argv[i]);
			n++;
		}
	redis_items_sort(&key->items);
	if (n)
		redis_key_changed(x, key);
	redis_reply_int(x, n);
}

static void redis_sismember(struct redis_call *x)
{
	struct redis_key *key;

	if (find_set(x, &key))
		redis_reply_int(x, redis_key_item(key, x->argv[2]) != NULL);
}

static void redis_smembers(struct redis_call *x)
{
	struct redis_key *key;

	if (!find_set(x, &key))
		return;
	redis_reply_set(x, key ? key->items.n : 0);
	for (size_t i = 0; key && i < key->items.n; i++)
		redis_reply_bulk(x, key->items.v[i].name);
}

const struct redis_command redis_list_commands[] = {
	{ "lpush", -3, REDIS_WRITE, 1, 1, 1, redis_push, LEFT },
	{ "rpush", -3, REDIS_WRITE, 1, 1, 1, redis_push, 0 },
	{ "lpushx", -3, REDIS_WRITE, 1, 1, 1, redis_push, LEFT | ONLY_OLD },
	{ "rpushx", -3, REDIS_WRITE, 1, 1, 1, redis_push, ONLY_OLD },
	{ "lpop", -2, REDIS_WRITE, 1, 1, 1, redis_pop, LEFT },
	{ "rpop", -2, REDIS_WRITE, 1, 1, 1, redis_pop, 0 },
	{ "llen", 2, REDIS_READ, 1, 1, 1, redis_length, REDIS_LIST },
	{ "lrange", 4, REDIS_READ, 1, 1, 1, redis_lrange, 0 },
	{ "ltrim", 4, REDIS_WRITE, 1, 1, 1, redis_ltrim, 0 },
	{ "lindex", 3, REDIS_READ, 1, 1, 1, redis_lindex, 0 },
	{ "lrem", 4, REDIS_WRITE, 1, 1, 1, redis_lrem, 0 },
	{ "rpoplpush", 3, REDIS_WRITE, 1, 2, 1, redis_rpoplpush, 0 },
	{ "sadd", -3, REDIS_WRITE, 1, 1, 1, redis_sadd, 0 },
	{ "srem", -3, REDIS_WRITE, 1, 1, 1, redis_remove, REDIS_SET },
	{ "sismember", 3, REDIS_READ, 1, 1, 1, redis_sismember, 0 },
	{ "smembers", 2, REDIS_READ, 1, 1, 1, redis_smembers, 0 },
	{ "scard", 2, REDIS_READ, 1, 1, 1, redis_length, REDIS_SET },
	{ "sscan", -3, REDIS_READ, 1, 1, 1, redis_scan_items, REDIS_SET },
	{ 0 },
};
