/* SPDX-License-Identifier: BSD-3-Clause
 *
 * An open-addressed table of command names, lower case. It only grows: commands
 * do not go away while a server runs.
 */
#include "commands/command.h"

#include <ctype.h>
#include <stdlib.h>

#include "base/fatal.h"

#define NAME_SIZE sizeof(((struct command *)0)->name)

struct commands {
	struct command *slots; /* name[0] == '\0': empty */
	size_t nslots; /* a power of two, more than twice ncommands */
	size_t ncommands;
	bool learned;
};

#define W COMMAND_WRITE
#define WB (COMMAND_WRITE | COMMAND_BLOCKING)
#define WBN (COMMAND_WRITE | COMMAND_BLOCKING | COMMAND_NOSCRIPT)
#define H COMMAND_HIDDEN_KEYS

/* Every command of Redis 7.0 that writes a key, or reads one and may do so in a script, as its
 * COMMAND tells them. */
static const struct command builtin[] = {
	/* name, flags, keys, first, last, step, arity */
	{ "append", W, KEYS_RANGE, 1, 1, 1, 3 },
	{ "bitfield", W, KEYS_RANGE, 1, 1, 1, -2 },
	{ "bitop", W, KEYS_RANGE, 2, -1, 1, -4 },
	{ "blmove", WBN, KEYS_RANGE, 1, 2, 1, 6 },
	{ "blmpop", WB, KEYS_COUNTED, 2, 0, 0, -5 },
	{ "blpop", WBN, KEYS_RANGE, 1, -2, 1, -3 },
	{ "brpop", WBN, KEYS_RANGE, 1, -2, 1, -3 },
	{ "brpoplpush", WBN, KEYS_RANGE, 1, 2, 1, 4 },
	{ "bzmpop", WB, KEYS_COUNTED, 2, 0, 0, -5 },
	{ "bzpopmax", WBN, KEYS_RANGE, 1, -2, 1, -3 },
	{ "bzpopmin", WBN, KEYS_RANGE, 1, -2, 1, -3 },
	{ "copy", W, KEYS_RANGE, 1, 2, 1, -3 },
	{ "decr", W, KEYS_RANGE, 1, 1, 1, 2 },
	{ "decrby", W, KEYS_RANGE, 1, 1, 1, 3 },
	{ "del", W, KEYS_RANGE, 1, -1, 1, -2 },
	{ "eval", COMMAND_NOSCRIPT, KEYS_COUNTED, 2, 0, 0, -3 },
	{ "evalsha", COMMAND_NOSCRIPT, KEYS_COUNTED, 2, 0, 0, -3 },
	{ "expire", W, KEYS_RANGE, 1, 1, 1, -3 },
	{ "expireat", W, KEYS_RANGE, 1, 1, 1, -3 },
	{ "fcall", COMMAND_NOSCRIPT, KEYS_COUNTED, 2, 0, 0, -3 },
	{ "geoadd", W, KEYS_RANGE, 1, 1, 1, -5 },
	{ "georadius", W, KEYS_STORE, 1, 1, 1, -6 },
	{ "georadiusbymember", W, KEYS_STORE, 1, 1, 1, -5 },
	{ "geosearchstore", W, KEYS_RANGE, 1, 2, 1, -8 },
	{ "getdel", W, KEYS_RANGE, 1, 1, 1, 2 },
	{ "getex", W, KEYS_RANGE, 1, 1, 1, -2 },
	{ "getset", W, KEYS_RANGE, 1, 1, 1, 3 },
	{ "hdel", W, KEYS_RANGE, 1, 1, 1, -3 },
	{ "hincrby", W, KEYS_RANGE, 1, 1, 1, 4 },
	{ "hincrbyfloat", W, KEYS_RANGE, 1, 1, 1, 4 },
	{ "hmset", W, KEYS_RANGE, 1, 1, 1, -4 },
	{ "hset", W, KEYS_RANGE, 1, 1, 1, -4 },
	{ "hsetnx", W, KEYS_RANGE, 1, 1, 1, 4 },
	{ "incr", W, KEYS_RANGE, 1, 1, 1, 2 },
	{ "incrby", W, KEYS_RANGE, 1, 1, 1, 3 },
	{ "incrbyfloat", W, KEYS_RANGE, 1, 1, 1, 3 },
	{ "linsert", W, KEYS_RANGE, 1, 1, 1, 5 },
	{ "lmove", W, KEYS_RANGE, 1, 2, 1, 5 },
	{ "lmpop", W, KEYS_COUNTED, 1, 0, 0, -4 },
	{ "lpop", W, KEYS_RANGE, 1, 1, 1, -2 },
	{ "lpush", W, KEYS_RANGE, 1, 1, 1, -3 },
	{ "lpushx", W, KEYS_RANGE, 1, 1, 1, -3 },
	{ "lrem", W, KEYS_RANGE, 1, 1, 1, 4 },
	{ "lset", W, KEYS_RANGE, 1, 1, 1, 4 },
	{ "ltrim", W, KEYS_RANGE, 1, 1, 1, 4 },
	{ "migrate", W | H, KEYS_NONE, 0, 0, 0, -6 },
	{ "move", W, KEYS_RANGE, 1, 1, 1, 3 },
	{ "mset", W, KEYS_RANGE, 1, -1, 2, -3 },
	{ "msetnx", W, KEYS_RANGE, 1, -1, 2, -3 },
	{ "persist", W, KEYS_RANGE, 1, 1, 1, 2 },
	{ "pexpire", W, KEYS_RANGE, 1, 1, 1, -3 },
	{ "pexpireat", W, KEYS_RANGE, 1, 1, 1, -3 },
	{ "pfadd", W, KEYS_RANGE, 1, 1, 1, -2 },
	{ "pfdebug", W, KEYS_RANGE, 2, 2, 1, 3 },
	{ "pfmerge", W, KEYS_RANGE, 1, -1, 1, -2 },
	{ "psetex", W, KEYS_RANGE, 1, 1, 1, 4 },
	{ "rename", W, KEYS_RANGE, 1, 2, 1, 3 },
	{ "renamenx", W, KEYS_RANGE, 1, 2, 1, 3 },
	{ "restore", W, KEYS_RANGE, 1, 1, 1, -4 },
	{ "restore-asking", W, KEYS_RANGE, 1, 1, 1, -4 },
	{ "rpop", W, KEYS_RANGE, 1, 1, 1, -2 },
	{ "rpoplpush", W, KEYS_RANGE, 1, 2, 1, 3 },
	{ "rpush", W, KEYS_RANGE, 1, 1, 1, -3 },
	{ "rpushx", W, KEYS_RANGE, 1, 1, 1, -3 },
	{ "sadd", W, KEYS_RANGE, 1, 1, 1, -3 },
	{ "sdiffstore", W, KEYS_RANGE, 1, -1, 1, -3 },
	{ "set", W, KEYS_RANGE, 1, 1, 1, -3 },
	{ "setbit", W, KEYS_RANGE, 1, 1, 1, 4 },
	{ "setex", W, KEYS_RANGE, 1, 1, 1, 4 },
	{ "setnx", W, KEYS_RANGE, 1, 1, 1, 3 },
	{ "setrange", W, KEYS_RANGE, 1, 1, 1, 4 },
	{ "sinterstore", W, KEYS_RANGE, 1, -1, 1, -3 },
	{ "smove", W, KEYS_RANGE, 1, 2, 1, 4 },
	{ "sort", W, KEYS_STORE, 1, 1, 1, -2 },
	{ "spop", W, KEYS_RANGE, 1, 1, 1, -2 },
	{ "srem", W, KEYS_RANGE, 1, 1, 1, -3 },
	{ "sunionstore", W, KEYS_RANGE, 1, -1, 1, -3 },
	{ "unlink", W, KEYS_RANGE, 1, -1, 1, -2 },
	{ "xack", W, KEYS_RANGE, 1, 1, 1, -4 },
	{ "xadd", W, KEYS_RANGE, 1, 1, 1, -5 },
	{ "xautoclaim", W, KEYS_RANGE, 1, 1, 1, -6 },
	{ "xclaim", W, KEYS_RANGE, 1, 1, 1, -6 },
	{ "xdel", W, KEYS_RANGE, 1, 1, 1, -3 },
	{ "xreadgroup", WB | H, KEYS_NONE, 0, 0, 0, -7 },
	{ "xsetid", W, KEYS_RANGE, 1, 1, 1, -3 },
	{ "xtrim", W, KEYS_RANGE, 1, 1, 1, -4 },
	{ "zadd", W, KEYS_RANGE, 1, 1, 1, -4 },
	{ "zdiffstore", W, KEYS_DEST_COUNTED, 1, 1, 1, -4 },
	{ "zincrby", W, KEYS_RANGE, 1, 1, 1, 4 },
	{ "zinterstore", W, KEYS_DEST_COUNTED, 1, 1, 1, -4 },
	{ "zmpop", W, KEYS_COUNTED, 1, 0, 0, -4 },
	{ "zpopmax", W, KEYS_RANGE, 1, 1, 1, -2 },
	{ "zpopmin", W, KEYS_RANGE, 1, 1, 1, -2 },
	{ "zrangestore", W, KEYS_RANGE, 1, 2, 1, -5 },
	{ "zrem", W, KEYS_RANGE, 1, 1, 1, -3 },
	{ "zremrangebylex", W, KEYS_RANGE, 1, 1, 1, 4 },
	{ "zremrangebyrank", W, KEYS_RANGE, 1, 1, 1, 4 },
	{ "zremrangebyscore", W, KEYS_RANGE, 1, 1, 1, 4 },
	{ "zunionstore", W, KEYS_DEST_COUNTED, 1, 1, 1, -4 },

	{ "bitcount", 0, KEYS_RANGE, 1, 1, 1, -2 },
	{ "bitfield_ro", 0, KEYS_RANGE, 1, 1, 1, -2 },
	{ "bitpos", 0, KEYS_RANGE, 1, 1, 1, -3 },
	{ "dump", 0, KEYS_RANGE, 1, 1, 1, 2 },
	{ "exists", 0, KEYS_RANGE, 1, -1, 1, -2 },
	{ "expiretime", 0, KEYS_RANGE, 1, 1, 1, 2 },
	{ "geodist", 0, KEYS_RANGE, 1, 1, 1, -4 },
	{ "geohash", 0, KEYS_RANGE, 1, 1, 1, -2 },
	{ "geopos", 0, KEYS_RANGE, 1, 1, 1, -2 },
	{ "georadius_ro", 0, KEYS_RANGE, 1, 1, 1, -6 },
	{ "georadiusbymember_ro", 0, KEYS_RANGE, 1, 1, 1, -5 },
	{ "geosearch", 0, KEYS_RANGE, 1, 1, 1, -7 },
	{ "get", 0, KEYS_RANGE, 1, 1, 1, 2 },
	{ "getbit", 0, KEYS_RANGE, 1, 1, 1, 3 },
	{ "getrange", 0, KEYS_RANGE, 1, 1, 1, 4 },
	{ "hexists", 0, KEYS_RANGE, 1, 1, 1, 3 },
	{ "hget", 0, KEYS_RANGE, 1, 1, 1, 3 },
	{ "hgetall", 0, KEYS_RANGE, 1, 1, 1, 2 },
	{ "hkeys", 0, KEYS_RANGE, 1, 1, 1, 2 },
	{ "hlen", 0, KEYS_RANGE, 1, 1, 1, 2 },
	{ "hmget", 0, KEYS_RANGE, 1, 1, 1, -3 },
	{ "hrandfield", 0, KEYS_RANGE, 1, 1, 1, -2 },
	{ "hscan", 0, KEYS_RANGE, 1, 1, 1, -3 },
	{ "hstrlen", 0, KEYS_RANGE, 1, 1, 1, 3 },
	{ "hvals", 0, KEYS_RANGE, 1, 1, 1, 2 },
	{ "lcs", 0, KEYS_RANGE, 1, 2, 1, -3 },
	{ "lindex", 0, KEYS_RANGE, 1, 1, 1, 3 },
	{ "llen", 0, KEYS_RANGE, 1, 1, 1, 2 },
	{ "lpos", 0, KEYS_RANGE, 1, 1, 1, -3 },
	{ "lrange", 0, KEYS_RANGE, 1, 1, 1, 4 },
	{ "mget", 0, KEYS_RANGE, 1, -1, 1, -2 },
	{ "pexpiretime", 0, KEYS_RANGE, 1, 1, 1, 2 },
	{ "pfcount", 0, KEYS_RANGE, 1, -1, 1, -2 },
	{ "pttl", 0, KEYS_RANGE, 1, 1, 1, 2 },
	{ "scard", 0, KEYS_RANGE, 1, 1, 1, 2 },
	{ "sdiff", 0, KEYS_RANGE, 1, -1, 1, -2 },
	{ "sinter", 0, KEYS_RANGE, 1, -1, 1, -2 },
	{ "sintercard", 0, KEYS_COUNTED, 1, 0, 0, -3 },
	{ "sismember", 0, KEYS_RANGE, 1, 1, 1, 3 },
	{ "smembers", 0, KEYS_RANGE, 1, 1, 1, 2 },
	{ "smismember", 0, KEYS_RANGE, 1, 1, 1, -3 },
	{ "sort_ro", 0, KEYS_RANGE, 1, 1, 1, -2 },
	{ "srandmember", 0, KEYS_RANGE, 1, 1, 1, -2 },
	{ "sscan", 0, KEYS_RANGE, 1, 1, 1, -3 },
	{ "strlen", 0, KEYS_RANGE, 1, 1, 1, 2 },
	{ "substr", 0, KEYS_RANGE, 1, 1, 1, 4 },
	{ "sunion", 0, KEYS_RANGE, 1, -1, 1, -2 },
	{ "touch", 0, KEYS_RANGE, 1, -1, 1, -2 },
	{ "ttl", 0, KEYS_RANGE, 1, 1, 1, 2 },
	{ "type", 0, KEYS_RANGE, 1, 1, 1, 2 },
	{ "xlen", 0, KEYS_RANGE, 1, 1, 1, 2 },
	{ "xpending", 0, KEYS_RANGE, 1, 1, 1, -3 },
	{ "xrange", 0, KEYS_RANGE, 1, 1, 1, -4 },
	{ "xrevrange", 0, KEYS_RANGE, 1, 1, 1, -4 },
	{ "zcard", 0, KEYS_RANGE, 1, 1, 1, 2 },
	{ "zcount", 0, KEYS_RANGE, 1, 1, 1, 4 },
	{ "zdiff", 0, KEYS_COUNTED, 1, 0, 0, -3 },
	{ "zinter", 0, KEYS_COUNTED, 1, 0, 0, -3 },
	{ "zintercard", 0, KEYS_COUNTED, 1, 0, 0, -3 },
	{ "zlexcount", 0, KEYS_RANGE, 1, 1, 1, 4 },
	{ "zmscore", 0, KEYS_RANGE, 1, 1, 1, -3 },
	{ "zrandmember", 0, KEYS_RANGE, 1, 1, 1, -2 },
	{ "zrange", 0, KEYS_RANGE, 1, 1, 1, -4 },
	{ "zrangebylex", 0, KEYS_RANGE, 1, 1, 1, -4 },
	{ "zrangebyscore", 0, KEYS_RANGE, 1, 1, 1, -4 },
	{ "zrank", 0, KEYS_RANGE, 1, 1, 1, 3 },
	{ "zrevrange", 0, KEYS_RANGE, 1, 1, 1, -4 },
	{ "zrevrangebylex", 0, KEYS_RANGE, 1, 1, 1, -4 },
	{ "zrevrangebyscore", 0, KEYS_RANGE, 1, 1, 1, -4 },
	{ "zrevrank", 0, KEYS_RANGE, 1, 1, 1, 3 },
	{ "zscan", 0, KEYS_RANGE, 1, 1, 1, -3 },
	{ "zscore", 0, KEYS_RANGE, 1, 1, 1, 3 },
	{ "zunion", 0, KEYS_COUNTED, 1, 0, 0, -3 },
};

#undef W
#undef WB
#undef WBN
#undef H

/* FNV-1a over the lower-case name. */
static size_t hash_name(struct slice name)
{
	uint32_t h = 2166136261u;

	for (size_t i = 0; i < name.n; i++) {
		h ^= (uint32_t)tolower((unsigned char)name.p[i]);
		h *= 16777619u;
	}
	return h;
}

/* The slot that holds `name`, or the empty one where it belongs. */
static struct command *find_slot(const struct commands *t, struct slice name)
{
	size_t i = hash_name(name) & (t->nslots - 1);

	while (t->slots[i].name[0] && !slice_is(name, t->slots[i].name))
		i = (i + 1) & (t->nslots - 1);
	return &t->slots[i];
}

static void commands_resize(struct commands *t, size_t nslots)
{
	struct command *old = t->slots;
	size_t nold = t->nslots;

	t->slots = xcalloc(nslots, sizeof(*t->slots));
	t->nslots = nslots;
	for (size_t i = 0; i < nold; i++)
		if (old[i].name[0])
			*find_slot(t, slice_str(old[i].name)) = old[i];
	free(old);
}

struct commands *commands_new(void)
{
	struct commands *t = xcalloc(1, sizeof(*t));

	commands_resize(t, 512);
	for (size_t i = 0; i < sizeof(builtin) / sizeof(builtin[0]); i++)
		commands_put(t, &builtin[i]);
	return t;
}

void commands_free(struct commands *t)
{
	if (!t)
		return;
	free(t->slots);
	free(t);
}

void commands_set_learned(struct commands *t)
{
	t->learned = true;
}

bool commands_are_learned(const struct commands *t)
{
	return t->learned;
}

void commands_put(struct commands *t, const struct command *c)
{
	size_t n = strnlen(c->name, NAME_SIZE);
	struct command *slot, known;

	if (n == 0 || n == NAME_SIZE)
		return;
	slot = find_slot(t, slice_of(c->name, n));
	known = *slot;
	*slot = *c;
	for (size_t i = 0; i < n; i++)
		slot->name[i] = (char)tolower((unsigned char)slot->name[i]);
	if (known.name[0]) {
		if (slot->arity == 0)
			slot->arity = known.arity;
		return;
	}
	t->ncommands++;
	if (t->ncommands * 2 >= t->nslots)
		commands_resize(t, t->nslots * 2);
}

const struct command *commands_get(const struct commands *t, struct slice name)
{
	const struct command *slot;

	if (name.n == 0 || name.n >= NAME_SIZE)
		return NULL;
	slot = find_slot(t, name);
	return slot->name[0] ? slot : NULL;
}

/* ---- where the keys are ---- */

struct collect {
	size_t *out;
	size_t max;
	size_t n; /* found, written or not */
};

static void collect(struct collect *c, size_t arg)
{
	if (c->n < c->max)
		c->out[c->n] = arg;
	c->n++;
}

static void collect_range(struct collect *keys, const struct command *c, size_t argc)
{
	long last = c->last < 0 ? (long)argc + c->last : c->last;

	if (c->first <= 0 || c->step <= 0)
		return;
	for (long i = c->first; i <= last && i < (long)argc; i += c->step)
		collect(keys, (size_t)i);
}

/* argv[at] says how many keys follow. A number that Redis will refuse, or that
 * reaches past the end, names none. */
static void collect_counted(struct collect *keys, const struct resp_view *req, size_t at)
{
	size_t n = 0;

	if (at >= req->argc || req->argv[at].n == 0)
		return;
	for (size_t i = 0; i < req->argv[at].n; i++) {
		char digit = req->argv[at].p[i];

		if (digit < '0' || digit > '9' || n > req->argc)
			return;
		n = n * 10 + (size_t)(digit - '0');
	}
	if (n > req->argc - at - 1)
		return;
	for (size_t i = 0; i < n; i++)
		collect(keys, at + 1 + i);
}

/* Redis compares options as C strings: nothing behind a NUL counts. */
static bool option_is(struct slice opt, const char *name)
{
	if (opt.n)
		opt.n = strnlen(opt.p, opt.n);
	return slice_is(opt, name);
}

/* How many arguments SORT's option takes that is not STORE. */
static size_t sort_option_args(struct slice opt)
{
	if (option_is(opt, "LIMIT"))
		return 2;
	return option_is(opt, "GET") || option_is(opt, "BY") ? 1 : 0;
}

/* SORT and GEORADIUS*: when STORE is given more than once the last one counts, as in
 * sortGetKeys() and georadiusGetKeys(). */
static void collect_store(struct collect *keys, const struct command *c,
                          const struct resp_view *req)
{
	bool sort = strcmp(c->name, "sort") == 0;
	size_t store = 0;

	collect_range(keys, c, req->argc);
	for (size_t i = sort ? 2 : 5; i + 1 < req->argc; i++) {
		struct slice opt = req->argv[i];

		if (option_is(opt, "STORE") || (!sort && option_is(opt, "STOREDIST")))
			store = ++i;
		else if (sort)
			i += sort_option_args(opt);
	}
	if (store)
		collect(keys, store);
}

size_t command_key_args(const struct command *c, const struct resp_view *req, size_t *out,
                        size_t max)
{
	struct collect keys = { out, max, 0 };

	switch ((enum command_keys)c->keys) {
	case KEYS_RANGE:
		collect_range(&keys, c, req->argc);
		break;
	case KEYS_STORE:
		collect_store(&keys, c, req);
		break;
	case KEYS_COUNTED:
		collect_counted(&keys, req, (size_t)c->first);
		break;
	case KEYS_DEST_COUNTED:
		collect_range(&keys, c, req->argc);
		collect_counted(&keys, req, 2);
		break;
	case KEYS_NONE:
		break;
	}
	return keys.n;
}

bool command_arity_ok(const struct command *c, size_t argc)
{
	if (c->arity >= 0)
		return c->arity == 0 || argc == (size_t)c->arity;
	return argc >= (size_t)-c->arity;
}

bool command_single_key(const struct command *c)
{
	return c->keys == KEYS_RANGE && c->first == 1 && c->last == 1;
}
