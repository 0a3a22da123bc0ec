/* SPDX-License-Identifier: BSD-3-Clause
 *
 * command: an open-addressed table of command names, in lower case. It only grows: commands do
 * not go away while a server runs.
 */
#include "commands/command.h"

#include <ctype.h>
#include <stdlib.h>

#include "base/fatal.h"
#include "commands/args.h"

struct commands {
	struct command *slots; /* a slot with an empty name is free */
	size_t nslots; /* a power of two; more than 2 * ncommands */
	size_t ncommands;
	bool learned;
};

/* Abbreviations for the rows of commands.def. */
#define W COMMAND_WRITE
#define R COMMAND_READONLY
#define B COMMAND_BLOCKING
#define N COMMAND_NOSCRIPT
#define H COMMAND_HIDDEN_KEYS
#define U COMMAND_UNKNOWN

#define RANGE(first, last, step) KEYS_RANGE, first, last, step
#define SORT KEYS_SORT, 1, 1, 1
#define GEO KEYS_GEO, 1, 1, 1
#define COUNTED(i) KEYS_COUNTED, i, 0, 1
#define COUNTED_PAIRS(i) KEYS_COUNTED, i, 0, 2
#define DEST_COUNTED KEYS_DEST_COUNTED, 1, 1, 1
#define NONE KEYS_NONE, 0, 0, 0

#define WRITES(what) .writes = WRITES_##what,
#define LUA(what) .lua = LUA_##what,
#define LONG(what) .when_long = LONG_##what,
#define RULE(what) .rule = RULE_##what,
#define ACT(what) .act = EFFECT_##what,
#define NOOP(what) .noop = NOOP_##what,
#define EXPIRY(what) .expiry = EXPIRY_##what,
#define SESSION(what) .session = SESSION_##what,
#define VALUE(what) .value = VALUE_##what,
#define FIELD(what) .field = FIELD_##what,
#define CLUSTER(what) .cluster = CLUSTER_##what,
#define PACE(what) .pace = PACE_##what,
#define ERRORS(what) .errors = ERRORS_##what,

#define COMMAND(name, arity, flags, keys, ...) { name, flags, keys, arity, { __VA_ARGS__ } },

static const struct command builtin[] = {
#include "commands/commands.def"
};

#undef W
#undef R
#undef B
#undef N
#undef H
#undef U

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

/* Returns the slot that holds `name`, or the empty slot where it belongs. */
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

bool command_set_name(struct command *c, struct slice name)
{
	if (name.n == 0 || name.n >= sizeof(c->name) || memchr(name.p, '\0', name.n))
		return false;
	memset(c->name, 0, sizeof(c->name));
	for (size_t i = 0; i < name.n; i++)
		c->name[i] = (char)tolower((unsigned char)name.p[i]);
	return true;
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
	size_t n = strnlen(c->name, COMMAND_NAME_SIZE);
	struct command *slot, known;

	if (n == 0 || n == COMMAND_NAME_SIZE)
		return;
	slot = find_slot(t, slice_of(c->name, n));
	known = *slot;
	*slot = *c;
	for (size_t i = 0; i < n; i++)
		slot->name[i] = (char)tolower((unsigned char)slot->name[i]);
	if (known.name[0]) {
		slot->facts = known.facts;
		if (slot->arity == 0)
			slot->arity = known.arity;
		return;
	}
	t->ncommands++;
	if (t->ncommands * 2 >= t->nslots)
		commands_resize(t, t->nslots * 2);
}

const struct command *commands_find(const struct commands *t, struct slice name)
{
	const struct command *slot;

	if (name.n == 0 || name.n >= COMMAND_NAME_SIZE)
		return NULL;
	slot = find_slot(t, name);
	return slot->name[0] ? slot : NULL;
}

const struct command *commands_get(const struct commands *t, struct slice name)
{
	const struct command *c = commands_find(t, name);

	return c && !(c->flags & COMMAND_UNKNOWN) ? c : NULL;
}

/* ---- the keys' places ---- */

struct collect {
	size_t *out;
	size_t max;
	size_t n; /* number of keys found; may exceed `max` */
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

/* Collects the keys after argv[at], which is their number: every `step`-th argument. Collects
 * none if Redis will refuse the number, or if fewer arguments follow. */
static void collect_counted(struct collect *keys, const struct resp_view *req, size_t at,
                            size_t step)
{
	uint64_t n;

	if (at >= req->argc || !slice_number(req->argv[at], &n) ||
	    n > (req->argc - at - 1) / step)
		return;
	for (size_t i = 0; i < n; i++)
		collect(keys, at + 1 + i * step);
}

/* Returns how many arguments an option of SORT, other than STORE, takes. */
static size_t sort_option_args(struct slice opt)
{
	if (args_option(opt, "LIMIT"))
		return 2;
	return args_option(opt, "GET") || args_option(opt, "BY") ? 1 : 0;
}

/* Collects the argument after STORE of SORT or, as georadiusGetKeys() does, after STORE or
 * STOREDIST of GEORADIUS. If several are given, the last one counts, as in sortGetKeys(). */
static void collect_store(struct collect *keys, const struct resp_view *req, bool is_geo)
{
	size_t store = 0;

	for (size_t i = is_geo ? 5 : 2; i + 1 < req->argc; i++) {
		if (args_option(req->argv[i], "STORE") ||
		    (is_geo && args_option(req->argv[i], "STOREDIST")))
			store = ++i;
		else if (!is_geo)
			i += sort_option_args(req->argv[i]);
	}
	if (store)
		collect(keys, store);
}

size_t command_key_args(const struct command *c, const struct resp_view *req, size_t *out,
                        size_t max)
{
	struct collect keys = { out, max, 0 };

	/* The fast path: most commands have a single key. */
	if (command_single_key(c) && req->argc > 1 && max > 0) {
		out[0] = 1;
		return 1;
	}
	switch ((enum command_key_spec)c->keys) {
	case KEYS_RANGE:
		collect_range(&keys, c, req->argc);
		break;
	case KEYS_SORT:
	case KEYS_GEO:
		collect_range(&keys, c, req->argc);
		collect_store(&keys, req, c->keys == KEYS_GEO);
		break;
	case KEYS_COUNTED:
		collect_counted(&keys, req, (size_t)c->first, (size_t)c->step);
		break;
	case KEYS_DEST_COUNTED:
		collect_range(&keys, c, req->argc);
		collect_counted(&keys, req, 2, 1);
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

enum command_rule command_rule(const struct command *c, const struct resp_view *req)
{
	enum command_rule rule = (enum command_rule)c->facts.rule;

	if (rule == RULE_INCR && req->argc > 2 && !slice_is(req->argv[2], "1"))
		return RULE_CHECK;
	return rule;
}

bool command_only_gets(const struct command *c, const struct resp_view *req)
{
	size_t i = 2;

	if (c->facts.writes != WRITES_BITS)
		return false;
	while (i < req->argc && args_option(req->argv[i], "GET"))
		i += 3;
	return i == req->argc;
}

bool command_writes_key(const struct command *c, size_t i, size_t n)
{
	switch ((enum command_writes)c->facts.writes) {
	case WRITES_FIRST:
		return i == 0;
	case WRITES_LAST:
	case WRITES_COPY:
		return i == n - 1;
	default:
		return true;
	}
}

/* If DB is given several times, the last one counts, as in copyCommand(). */
static struct slice copy_db(const struct resp_view *req)
{
	struct slice db = SLICE_NONE;

	for (size_t i = 3; i + 1 < req->argc; i++)
		if (args_option(req->argv[i], "DB"))
			db = req->argv[++i];
	return db;
}

bool command_writes_other_db(const struct command *c, const struct resp_view *req, int db)
{
	struct slice named = SLICE_NONE;
	int64_t n;

	if (c->facts.writes == WRITES_COPY)
		named = copy_db(req);
	else if (c->facts.writes == WRITES_MOVE && req->argc > 2)
		named = req->argv[2];
	return named.p && slice_integer(named, &n) && n != db;
}

bool commands_lack(const struct commands *t, struct slice name)
{
	const struct command *c = commands_get(t, name);

	return commands_are_learned(t) && (!c || !(c->flags & COMMAND_FROM_SERVER));
}

void key_args_init(struct key_args *a, const struct command *c, const struct resp_view *req)
{
	a->v = a->inline_v;
	a->n = command_key_args(c, req, a->v, KEY_ARGS_INLINE);
	if (a->n <= KEY_ARGS_INLINE)
		return;
	a->v = xcalloc(a->n, sizeof(*a->v));
	a->n = command_key_args(c, req, a->v, a->n);
}

void key_args_fini(struct key_args *a)
{
	if (a->v != a->inline_v)
		free(a->v);
}
