/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/sim/redis_internal.h"

#include <stdio.h>

static bool find_hash(struct redis_call *x, struct redis_key **key)
{
	return redis_key_typed(x, x->argv[1], REDIS_HASH, key);
}

static struct redis_key *hash_of(struct redis_call *x, struct redis_key *key)
{
	return key ? key : redis_key_add(x, x->argv[1], REDIS_HASH);
}

/* Returns true if the field is new. */
static bool set_field(struct redis_key *key, struct slice name, struct slice value)
{
	struct redis_item *field = redis_key_item(key, name);
	bool is_new = !field;

	if (is_new)
		field = redis_items_add(&key->items, key->items.n, name);
	redis_bytes_set(&field->value, value);
	return is_new;
}

static void reply_field(struct redis_call *x, const struct redis_item *field)
{
	if (field)
		redis_reply_bulk(x, field->value);
	else
		redis_reply_nil(x);
}

/* With an option: HMSET, which does not count. */
static void redis_hset(struct redis_call *x)
{
	struct redis_key *key;
	long long n = 0;

	if (x->argc % 2) {
		redis_reply_arity(x);
		return;
	}
	if (!find_hash(x, &key))
		return;
	key = hash_of(x, key);
	for (size_t i = 2; i < x->argc; i += 2)
		n += set_field(key, x->argv[i], x->argv[i + 1]);
	redis_key_changed(x, key);
	if (x->command->option)
		redis_reply_ok(x);
	else
		redis_reply_int(x, n);
}

static void redis_hsetnx(struct redis_call *x)
{
	struct redis_key *key;
	bool is_new;

	if (!find_hash(x, &key))
		return;
	is_new = !redis_key_item(key, x->argv[2]);
	if (is_new) {
		key = hash_of(x, key);
		set_field(key, x->argv[2], x->argv[3]);
		redis_key_changed(x, key);
	}
	redis_reply_int(x, is_new);
}

static void redis_hget(struct redis_call *x)
{
	struct redis_key *key;

	if (find_hash(x, &key))
		reply_field(x, redis_key_item(key, x->argv[2]));
}

static void redis_hmget(struct redis_call *x)
{
	struct redis_key *key;

	if (!find_hash(x, &key))
		return;
	redis_reply_array(x, x->argc - 2);
	for (size_t i = 2; i < x->argc; i++)
		reply_field(x, redis_key_item(key, x->argv[i]));
}

/* Options of commands: what they reply with. */
enum { NAMES = 1, CONTENTS = 2 };

static void redis_hgetall(struct redis_call *x)
{
	bool names = x->command->option & NAMES, values = x->command->option & CONTENTS;
	struct redis_key *key;
	size_t n;

	if (!find_hash(x, &key))
		return;
	n = key ? key->items.n : 0;
	if (names && values)
		redis_reply_map(x, n);
	else
		redis_reply_array(x, n);
	for (size_t i = 0; i < n; i++) {
		if (names)
			redis_reply_bulk(x, key->items.v[i].name);
		if (values)
			redis_reply_bulk(x, key->items.v[i].value);
	}
}

static void redis_hexists(struct redis_call *x)
{
	struct redis_key *key;

	if (find_hash(x, &key))
		redis_reply_int(x, redis_key_item(key, x->argv[2]) != NULL);
}

static void redis_hstrlen(struct redis_call *x)
{
	struct redis_key *key;
	struct redis_item *field;

	if (!find_hash(x, &key))
		return;
	field = redis_key_item(key, x->argv[2]);
	redis_reply_int(x, field ? (long long)field->value.n : 0);
}

static void redis_hincrby(struct redis_call *x)
{
	struct redis_key *key;
	struct redis_item *field;
	long long n = 0, by;
	char text[24];

	if (!redis_arg_int(x, 3, &by) || !find_hash(x, &key))
		return;
	field = redis_key_item(key, x->argv[2]);
	if (field && !redis_parse_int(field->value, &n)) {
		redis_reply_error(x, "ERR hash value is not an integer");
		return;
	}
	if (__builtin_add_overflow(n, by, &n)) {
		redis_reply_error(x, "ERR increment or decrement would overflow");
		return;
	}
	snprintf(text, sizeof(text), "%lld", n);
	key = hash_of(x, key);
	set_field(key, x->argv[2], slice_str(text));
	redis_key_changed(x, key);
	redis_reply_int(x, n);
}

const struct redis_command redis_hash_commands[] = {
	{ "hset", -4, REDIS_WRITE, 1, 1, 1, redis_hset, 0 },
	{ "hmset", -4, REDIS_WRITE, 1, 1, 1, redis_hset, true },
	{ "hsetnx", 4, REDIS_WRITE, 1, 1, 1, redis_hsetnx, 0 },
	{ "hget", 3, REDIS_READ, 1, 1, 1, redis_hget, 0 },
	{ "hmget", -3, REDIS_READ, 1, 1, 1, redis_hmget, 0 },
	{ "hgetall", 2, REDIS_READ, 1, 1, 1, redis_hgetall, NAMES | CONTENTS },
	{ "hkeys", 2, REDIS_READ, 1, 1, 1, redis_hgetall, NAMES },
	{ "hvals", 2, REDIS_READ, 1, 1, 1, redis_hgetall, CONTENTS },
	{ "hdel", -3, REDIS_WRITE, 1, 1, 1, redis_remove, REDIS_HASH },
	{ "hlen", 2, REDIS_READ, 1, 1, 1, redis_length, REDIS_HASH },
	{ "hexists", 3, REDIS_READ, 1, 1, 1, redis_hexists, 0 },
	{ "hstrlen", 3, REDIS_READ, 1, 1, 1, redis_hstrlen, 0 },
	{ "hincrby", 4, REDIS_WRITE, 1, 1, 1, redis_hincrby, 0 },
	{ "hscan", -3, REDIS_READ, 1, 1, 1, redis_scan_items, REDIS_HASH },
	{ 0 },
};
