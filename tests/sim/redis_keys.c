/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/sim/redis_internal.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/glob.h"

/* --- items -------------------------------------------------------------------------------- */

void redis_bytes_set(struct slice *bytes, struct slice by)
{
	char *copy = xmemdup(by.n ? by.p : "", by.n);

	free((char *)(uintptr_t)bytes->p);
	*bytes = slice_of(copy, by.n);
}

int redis_bytes_compare(struct slice a, struct slice b)
{
	size_t n = a.n < b.n ? a.n : b.n;
	int order = n ? memcmp(a.p, b.p, n) : 0;

	return order ? order : (a.n > b.n) - (a.n < b.n);
}

static void item_clear(struct redis_item *item)
{
	free((char *)(uintptr_t)item->name.p);
	free((char *)(uintptr_t)item->value.p);
}

struct redis_item *redis_items_add(struct redis_items *items, size_t at, struct slice name)
{
	struct redis_item item = { .score = 0 };

	redis_bytes_set(&item.name, name);
	if (items->n == items->cap) {
		items->cap = items->cap ? 2 * items->cap : 1;
		items->v = xrealloc(items->v, items->cap * sizeof(*items->v));
	}
	memmove(items->v + at + 1, items->v + at, (items->n - at) * sizeof(*items->v));
	items->v[at] = item;
	items->n++;
	return &items->v[at];
}

void redis_items_remove(struct redis_items *items, size_t at)
{
	item_clear(&items->v[at]);
	items->n--;
	memmove(items->v + at, items->v + at + 1, (items->n - at) * sizeof(*items->v));
}

size_t redis_items_find(const struct redis_items *items, struct slice name)
{
	size_t i = 0;

	while (i < items->n && !slice_eq(items->v[i].name, name))
		i++;
	return i;
}

void redis_items_clear(struct redis_items *items)
{
	for (size_t i = 0; i < items->n; i++)
		item_clear(&items->v[i]);
	free(items->v);
	*items = (struct redis_items){ 0 };
}

static int compare_names(const void *a, const void *b)
{
	const struct redis_item *one = a, *other = b;

	return redis_bytes_compare(one->name, other->name);
}

void redis_items_sort(struct redis_items *items)
{
	if (items->n)
		qsort(items->v, items->n, sizeof(*items->v), compare_names);
}

static void items_copy(struct redis_items *to, const struct redis_items *from)
{
	for (size_t i = 0; i < from->n; i++) {
		struct redis_item *item = redis_items_add(to, i, from->v[i].name);
		if (from->v[i].value.p)
			redis_bytes_set(&item->value, from->v[i].value);
		item->score = from->v[i].score;
	}
}

/* --- keys --------------------------------------------------------------------------------- */

static struct redis_key *key_new(struct map *database, struct slice name, enum redis_type type)
{
	struct redis_key *key = xcalloc(1, sizeof(*key));

	redis_bytes_set(&key->node.key, name);
	key->type = type;
	map_put(database, &key->node);
	return key;
}

static void key_free(struct map *database, struct redis_key *key)
{
	map_remove(database, &key->node);
	free((char *)(uintptr_t)key->node.key.p);
	redis_items_clear(&key->items);
	free(key);
}

/* NULL: there is none, or it has just expired. */
static struct redis_key *key_live(struct sim_redis *s, int db, struct slice name)
{
	struct map_node *node = map_get(&s->databases[db], name);
	struct redis_key *key = node ? container_of(node, struct redis_key, node) : NULL;

	if (!key || !key->expires_at || key->expires_at >= s->now_ms)
		return key;
	key_free(&s->databases[db], key);
	redis_watch_touch(s, db, name);
	return NULL;
}

struct redis_key *redis_key_find(struct redis_call *x, struct slice name)
{
	return key_live(x->s, *x->db, name);
}

bool redis_key_typed(struct redis_call *x, struct slice name, enum redis_type type,
                     struct redis_key **key)
{
	*key = redis_key_find(x, name);
	if (!*key || (*key)->type == type)
		return true;
	redis_reply_wrong_type(x);
	return false;
}

struct redis_key *redis_key_add(struct redis_call *x, struct slice name, enum redis_type type)
{
	return key_new(&x->s->databases[*x->db], name, type);
}

struct redis_item *redis_key_item(struct redis_key *key, struct slice name)
{
	size_t i = key ? redis_items_find(&key->items, name) : 0;

	return key && i < key->items.n ? &key->items.v[i] : NULL;
}

void redis_key_delete(struct redis_call *x, struct redis_key *key)
{
	redis_watch_touch(x->s, *x->db, key->node.key);
	key_free(&x->s->databases[*x->db], key);
}

void redis_key_changed(struct redis_call *x, struct redis_key *key)
{
	if (key->items.n == 0)
		redis_key_delete(x, key);
	else
		redis_watch_touch(x->s, *x->db, key->node.key);
}

struct redis_key *redis_key_set_string(struct redis_call *x, struct slice name,
                                       struct slice value)
{
	struct redis_key *key = redis_key_find(x, name);

	if (!key)
		key = redis_key_add(x, name, REDIS_STRING);
	redis_items_clear(&key->items);
	key->type = REDIS_STRING;
	redis_items_add(&key->items, 0, value);
	redis_key_changed(x, key);
	return key;
}

/* --- databases ---------------------------------------------------------------------------- */

static void collect_name(void *arg, struct map_node *node)
{
	struct redis_items *names = arg;

	redis_items_add(names, names->n, node->key);
}

void redis_items_add_keys(struct redis_items *items, const struct map *map)
{
	uint64_t cursor = 0;

	do
		cursor = map_scan(map, cursor, collect_name, items);
	while (cursor);
	redis_items_sort(items);
}

void redis_database_names(struct sim_redis *s, int db, struct redis_items *names)
{
	redis_items_add_keys(names, &s->databases[db]);
	for (size_t i = names->n; i-- > 0;)
		if (!key_live(s, db, names->v[i].name))
			redis_items_remove(names, i);
}

void redis_database_clear(struct sim_redis *s, int db)
{
	struct redis_items names = { 0 };

	redis_items_add_keys(&names, &s->databases[db]);
	for (size_t i = 0; i < names.n; i++) {
		struct map_node *node = map_get(&s->databases[db], names.v[i].name);
		key_free(&s->databases[db], container_of(node, struct redis_key, node));
		redis_watch_touch(s, db, names.v[i].name);
	}
	redis_items_clear(&names);
}

static void copy_key(struct map *database, struct slice name, const struct redis_key *from)
{
	struct redis_key *key = key_new(database, name, from->type);

	key->expires_at = from->expires_at;
	items_copy(&key->items, &from->items);
}

void redis_database_copy(const struct sim_redis *from, struct sim_redis *to, int db)
{
	struct redis_items names = { 0 };

	redis_database_clear(to, db);
	redis_items_add_keys(&names, &from->databases[db]);
	for (size_t i = 0; i < names.n; i++) {
		struct map_node *node = map_get(&from->databases[db], names.v[i].name);
		copy_key(&to->databases[db], names.v[i].name,
		         container_of(node, struct redis_key, node));
	}
	redis_items_clear(&names);
}

void sim_redis_each(struct sim_redis *s,
                    void (*key)(void *arg, struct slice name, int64_t expires_at_ms), void *arg)
{
	struct redis_items names = { 0 };

	s->now_ms = s->now_us(s->arg) / 1000;
	redis_database_names(s, 0, &names);
	for (size_t i = 0; i < names.n; i++)
		key(arg, names.v[i].name, key_live(s, 0, names.v[i].name)->expires_at);
	redis_items_clear(&names);
}

/* --- commands about keys of any type ------------------------------------------------------ */

static void redis_del(struct redis_call *x)
{
	struct redis_key *key;
	long long n = 0;

	for (size_t i = 1; i < x->argc; i++)
		if ((key = redis_key_find(x, x->argv[i]))) {
			redis_key_delete(x, key);
			n++;
		}
	redis_reply_int(x, n);
}

static void redis_exists(struct redis_call *x)
{
	long long n = 0;

	for (size_t i = 1; i < x->argc; i++)
		n += redis_key_find(x, x->argv[i]) != NULL;
	redis_reply_int(x, n);
}

static const char *const type_names[] = { "string", "list", "set", "zset", "hash" };

static void redis_type(struct redis_call *x)
{
	struct redis_key *key = redis_key_find(x, x->argv[1]);

	redis_reply_status(x, key ? type_names[key->type] : "none");
}

bool redis_arg_expiry(struct redis_call *x, size_t i, int unit, bool at, int64_t *out)
{
	const long long begin = at ? 0 : x->s->now_ms;
	long long n;

	if (!redis_arg_int(x, i, &n))
		return false;
	if (n > LLONG_MAX / unit || n < LLONG_MIN / unit || n * unit > LLONG_MAX - begin) {
		redis_reply_error(x, "ERR invalid expire time in '%s' command",
		                  x->command->name);
		return false;
	}
	*out = n * unit + begin;
	return true;
}

/* Options of commands: a time is in seconds, not in ms; it is a date. */
enum { IN_SECONDS = 1, AS_DATE = 2 };

enum { NX = 1, XX = 2, GT = 4, LT = 8 };

static bool arg_expire_flags(struct redis_call *x, int *flags)
{
	static const char *const words[] = { "NX", "XX", "GT", "LT" };

	*flags = 0;
	for (size_t i = 3; i < x->argc; i++) {
		size_t k = 0;
		while (k < 4 && !slice_is(x->argv[i], words[k]))
			k++;
		if (k == 4) {
			redis_reply_error(x, "ERR Unsupported option %.*s", (int)x->argv[i].n,
			                  x->argv[i].p);
			return false;
		}
		*flags |= 1 << k;
	}
	if ((*flags & NX) && (*flags & (XX | GT | LT))) {
		redis_reply_error(x, "ERR NX and XX, GT or LT options at the same time are not "
		                     "compatible");
		return false;
	}
	if ((*flags & GT) && (*flags & LT)) {
		redis_reply_error(x,
		                  "ERR GT and LT options at the same time are not compatible");
		return false;
	}
	return true;
}

static void redis_expire(struct redis_call *x)
{
	struct redis_key *key;
	int64_t when;
	int flags;

	if (!arg_expire_flags(x, &flags) ||
	    !redis_arg_expiry(x, 2, (x->command->option & IN_SECONDS) ? 1000 : 1,
	                      x->command->option & AS_DATE, &when))
		return;
	key = redis_key_find(x, x->argv[1]);
	if (!key || ((flags & NX) && key->expires_at) || ((flags & XX) && !key->expires_at) ||
	    ((flags & GT) && (!key->expires_at || when <= key->expires_at)) ||
	    ((flags & LT) && key->expires_at && when >= key->expires_at)) {
		redis_reply_int(x, 0);
		return;
	}
	if (when <= x->s->now_ms) {
		redis_key_delete(x, key);
	} else {
		key->expires_at = when;
		redis_key_changed(x, key);
	}
	redis_reply_int(x, 1);
}

/* TTL and its kin: -2 without the key, -1 without an expiry. */
static void redis_ttl(struct redis_call *x)
{
	struct redis_key *key = redis_key_find(x, x->argv[1]);
	long long ms;

	if (!key || !key->expires_at) {
		redis_reply_int(x, key ? -1 : -2);
		return;
	}
	ms = x->command->option & AS_DATE ? key->expires_at : key->expires_at - x->s->now_ms;
	redis_reply_int(x, x->command->option & IN_SECONDS ? (ms + 500) / 1000 : ms);
}

static void redis_persist(struct redis_call *x)
{
	struct redis_key *key = redis_key_find(x, x->argv[1]);
	bool had = key && key->expires_at;

	if (had) {
		key->expires_at = 0;
		redis_key_changed(x, key);
	}
	redis_reply_int(x, had);
}

/* Options of commands: an old key goes; the copied one stays. */
enum { REPLACES = 1, KEEPS = 2 };

/* RENAME, RENAMENX and COPY. */
static void redis_duplicate(struct redis_call *x)
{
	bool keep = x->command->option & KEEPS;
	bool replace = (x->command->option & REPLACES) || (keep && x->argc > 3);
	struct redis_key *key = redis_key_find(x, x->argv[1]), *old;

	if (x->argc > 4 || (x->argc == 4 && !redis_arg_is(x, 3, "REPLACE"))) {
		redis_reply_syntax(x);
		return;
	}
	if (keep && slice_eq(x->argv[1], x->argv[2])) {
		redis_reply_error(x, "ERR source and destination objects are the same");
		return;
	}
	old = redis_key_find(x, x->argv[2]);
	if (old && old != key && replace && key)
		redis_key_delete(x, old);
	else if (old && key && !replace) {
		redis_reply_int(x, 0);
		return;
	}
	if (key && old != key) {
		copy_key(&x->s->databases[*x->db], x->argv[2], key);
		redis_watch_touch(x->s, *x->db, x->argv[2]);
		if (!keep)
			redis_key_delete(x, key);
	}
	if (!key && !keep)
		redis_reply_error(x, "ERR no such key");
	else if (!keep && replace)
		redis_reply_ok(x);
	else
		redis_reply_int(x, key != NULL);
}

/* --- commands that several types have ----------------------------------------------------- */

static bool find_typed(struct redis_call *x, struct redis_key **key)
{
	return redis_key_typed(x, x->argv[1], (enum redis_type)x->command->option, key);
}

void redis_length(struct redis_call *x)
{
	struct redis_key *key;

	if (find_typed(x, &key))
		redis_reply_int(x, key ? (long long)key->items.n : 0);
}

void redis_remove(struct redis_call *x)
{
	struct redis_key *key;
	struct redis_item *item;
	long long n = 0;

	if (!find_typed(x, &key))
		return;
	for (size_t i = 2; i < x->argc; i++)
		if ((item = redis_key_item(key, x->argv[i]))) {
			redis_items_remove(&key->items, (size_t)(item - key->items.v));
			n++;
		}
	if (n)
		redis_key_changed(x, key);
	redis_reply_int(x, n);
}

/* --- SCAN --------------------------------------------------------------------------------- */

bool redis_arg_scan(struct redis_call *x, size_t cursor, struct redis_scan *scan)
{
	*scan = (struct redis_scan){ .count = 10 };
	if (!redis_arg_int_or(x, cursor, &scan->cursor, "ERR invalid cursor"))
		return false;
	for (size_t i = cursor + 1; i < x->argc; i += 2) {
		bool has_value = i + 1 < x->argc;
		if (has_value && redis_arg_is(x, i, "COUNT")) {
			if (!redis_arg_int(x, i + 1, &scan->count))
				return false;
			if (scan->count < 1) {
				redis_reply_syntax(x);
				return false;
			}
		} else if (has_value && redis_arg_is(x, i, "MATCH")) {
			scan->pattern = x->argv[i + 1];
		} else if (has_value && cursor == 1 && redis_arg_is(x, i, "TYPE")) {
			scan->type = x->argv[i + 1];
		} else {
			redis_reply_syntax(x);
			return false;
		}
	}
	return true;
}

static bool scan_wants(const struct redis_scan *scan, struct slice name)
{
	return !scan->pattern.p || glob_match(scan->pattern, name);
}

/* A value of at most so many items is returned whole, as Redis returns a listpack. */
#define SCAN_WHOLE_MAX 128

/* The cursor of a longer one is how many items are left. They are visited from the last one on:
 * what is removed or added meanwhile hides no other item. */
void redis_scan_items(struct redis_call *x)
{
	enum redis_type type = (enum redis_type)x->command->option;
	struct redis_scan scan;
	struct redis_key *key;
	struct buf found = BUF_INIT;
	struct redis_call inner = *x;
	size_t n, end = 0, begin = 0, nfound = 0;
	char cursor[24];

	if (!redis_arg_scan(x, 2, &scan) || !find_typed(x, &key))
		return;
	n = key ? key->items.n : 0;
	end = scan.cursor > 0 && (size_t)scan.cursor < n && n > SCAN_WHOLE_MAX
	              ? (size_t)scan.cursor
	              : n;
	if (n > SCAN_WHOLE_MAX && end > (size_t)scan.count)
		begin = end - (size_t)scan.count;
	inner.out = &found;
	for (size_t i = begin; i < end; i++) {
		if (!scan_wants(&scan, key->items.v[i].name))
			continue;
		nfound++;
		redis_reply_bulk(&inner, key->items.v[i].name);
		if (type == REDIS_HASH)
			redis_reply_bulk(&inner, key->items.v[i].value);
		inner.resp = 2;
		if (type == REDIS_ZSET)
			redis_reply_double(&inner, key->items.v[i].score);
	}
	redis_reply_array(x, 2);
	snprintf(cursor, sizeof(cursor), "%zu", begin);
	redis_reply_text(x, cursor);
	redis_reply_array(x, type == REDIS_SET ? nfound : 2 * nfound);
	buf_append(x->out, buf_slice(&found));
	buf_release(&found);
}

/* The names that a pattern, or a type, wants. */
static void reply_names(struct redis_call *x, const struct redis_scan *scan)
{
	struct redis_items names = { 0 };

	redis_database_names(x->s, *x->db, &names);
	for (size_t i = names.n; i-- > 0;) {
		const struct redis_key *key = redis_key_find(x, names.v[i].name);
		if (!scan_wants(scan, names.v[i].name) ||
		    (scan->type.p && !slice_is(scan->type, type_names[key->type])))
			redis_items_remove(&names, i);
	}
	redis_reply_array(x, names.n);
	for (size_t i = 0; i < names.n; i++)
		redis_reply_bulk(x, names.v[i].name);
	redis_items_clear(&names);
}

static void redis_keys(struct redis_call *x)
{
	reply_names(x, &(struct redis_scan){ .pattern = x->argv[1] });
}

/* All keys at once, whatever COUNT says. */
static void redis_scan(struct redis_call *x)
{
	struct redis_scan scan;

	if (!redis_arg_scan(x, 1, &scan))
		return;
	redis_reply_array(x, 2);
	redis_reply_text(x, "0");
	reply_names(x, &scan);
}

static void redis_dbsize(struct redis_call *x)
{
	struct redis_items names = { 0 };

	redis_database_names(x->s, *x->db, &names);
	redis_reply_int(x, (long long)names.n);
	redis_items_clear(&names);
}

/* With an option: all databases. */
static void redis_flush(struct redis_call *x)
{
	int first = x->command->option ? 0 : *x->db;
	int last = x->command->option ? REDIS_DATABASES - 1 : *x->db;

	if (x->argc > 2 ||
	    (x->argc == 2 && !redis_arg_is(x, 1, "ASYNC") && !redis_arg_is(x, 1, "SYNC"))) {
		redis_reply_syntax(x);
		return;
	}
	for (int db = first; db <= last; db++)
		redis_database_clear(x->s, db);
	redis_reply_ok(x);
}

const struct redis_command redis_key_commands[] = {
	{ "del", -2, REDIS_WRITE, 1, -1, 1, redis_del, 0 },
	{ "unlink", -2, REDIS_WRITE, 1, -1, 1, redis_del, 0 },
	{ "exists", -2, REDIS_READ, 1, -1, 1, redis_exists, 0 },
	{ "touch", -2, REDIS_READ, 1, -1, 1, redis_exists, 0 },
	{ "type", 2, REDIS_READ, 1, 1, 1, redis_type, 0 },
	{ "expire", -3, REDIS_WRITE, 1, 1, 1, redis_expire, IN_SECONDS },
	{ "pexpire", -3, REDIS_WRITE, 1, 1, 1, redis_expire, 0 },
	{ "expireat", -3, REDIS_WRITE, 1, 1, 1, redis_expire, IN_SECONDS | AS_DATE },
	{ "pexpireat", -3, REDIS_WRITE, 1, 1, 1, redis_expire, AS_DATE },
	{ "ttl", 2, REDIS_READ, 1, 1, 1, redis_ttl, IN_SECONDS },
	{ "pttl", 2, REDIS_READ, 1, 1, 1, redis_ttl, 0 },
	{ "expiretime", 2, REDIS_READ, 1, 1, 1, redis_ttl, IN_SECONDS | AS_DATE },
	{ "pexpiretime", 2, REDIS_READ, 1, 1, 1, redis_ttl, AS_DATE },
	{ "persist", 2, REDIS_WRITE, 1, 1, 1, redis_persist, 0 },
	{ "rename", 3, REDIS_WRITE, 1, 2, 1, redis_duplicate, REPLACES },
	{ "renamenx", 3, REDIS_WRITE, 1, 2, 1, redis_duplicate, 0 },
	{ "copy", -3, REDIS_WRITE, 1, 2, 1, redis_duplicate, KEEPS },
	{ "keys", 2, REDIS_READ, 0, 0, 0, redis_keys, 0 },
	{ "scan", -2, REDIS_READ, 0, 0, 0, redis_scan, 0 },
	{ "dbsize", 1, REDIS_READ, 0, 0, 0, redis_dbsize, 0 },
	{ "flushdb", -1, REDIS_WRITE, 0, 0, 0, redis_flush, 0 },
	{ "flushall", -1, REDIS_WRITE, 0, 0, 0, redis_flush, true },
	{ 0 },
};
