/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/top_keys.h"

#include <stdlib.h>

#include "base/fatal.h"
#include "base/list.h"
#include "base/map.h"

struct entry {
	struct map_node by_key;
	size_t at; /* index in table.heap */
	struct top_key key;
	struct top_key_counts counts;
};

/* The counts of a period of time. */
struct table {
	double began; /* when the period began */
	struct map by_key;
	struct entry *heap[TOP_KEYS]; /* all entries; once the table is full, the one with the
	                               * lowest count is first */
	size_t n;
	struct entry entries[TOP_KEYS];
};

struct top_keys {
	struct table *now, *before; /* NULL: nothing was counted in that period */
};

static uint64_t total(const struct top_key_counts *c)
{
	return c->n[0] + c->n[1] + c->missed;
}

/* --- the heap ----------------------------------------------------------------------------- */

static void top_put(struct table *t, size_t at, struct entry *e)
{
	t->heap[at] = e;
	e->at = at;
}

/* Moves an entry down after its count has risen. */
static void top_sink(struct table *t, struct entry *e)
{
	size_t at = e->at, child;

	while ((child = 2 * at + 1) < t->n) {
		if (child + 1 < t->n &&
		    total(&t->heap[child + 1]->counts) < total(&t->heap[child]->counts))
			child++;
		if (total(&t->heap[child]->counts) >= total(&e->counts))
			break;
		top_put(t, at, t->heap[child]);
		at = child;
	}
	top_put(t, at, e);
}

/* --- a table ------------------------------------------------------------------------------ */

static struct table *table_new(double now)
{
	struct table *t = xcalloc(1, sizeof(*t));

	t->began = now;
	map_init(&t->by_key);
	return t;
}

static void table_free(struct table *t)
{
	if (!t)
		return;
	map_fini(&t->by_key);
	free(t);
}

/* Returns the bytes that identify a key; unused ones are 0. */
static struct slice key_bytes(const struct top_key *k)
{
	return slice_of(k, sizeof(*k));
}

static struct top_key key_of(const void *of, int db, struct slice key)
{
	struct top_key k;

	memset(&k, 0, sizeof(k));
	k.of = of;
	k.db = db;
	k.len = key.n;
	if (key.n)
		memcpy(k.head, key.p, key.n < sizeof(k.head) ? key.n : sizeof(k.head));
	if (key.n > sizeof(k.head))
		memcpy(k.tail, key.p + key.n - sizeof(k.tail), sizeof(k.tail));
	return k;
}

static struct entry *table_look_up(const struct table *t, const struct top_key *k)
{
	struct map_node *node = t ? map_get(&t->by_key, key_bytes(k)) : NULL;

	return node ? container_of(node, struct entry, by_key) : NULL;
}

/* Returns how many events a key that is not in the table may have had. */
static uint64_t table_missed(const struct table *t)
{
	return t && t->n == TOP_KEYS ? total(&t->heap[0]->counts) : 0;
}

static struct entry *table_take(struct table *t, const struct top_key *k)
{
	uint64_t missed = table_missed(t);
	struct entry *e;

	if (t->n < TOP_KEYS) {
		e = &t->entries[t->n];
		top_put(t, t->n++, e);
		if (t->n == TOP_KEYS)
			for (size_t at = TOP_KEYS / 2; at-- > 0;)
				top_sink(t, t->heap[at]);
	} else {
		e = t->heap[0];
		map_remove(&t->by_key, &e->by_key);
	}
	e->key = *k;
	e->counts = (struct top_key_counts){ .missed = missed };
	e->by_key.key = key_bytes(&e->key);
	map_put(&t->by_key, &e->by_key);
	return e;
}

/* --- both tables -------------------------------------------------------------------------- */

struct top_keys *top_keys_new(void)
{
	return xcalloc(1, sizeof(struct top_keys));
}

void top_keys_free(struct top_keys *t)
{
	table_free(t->now);
	table_free(t->before);
	free(t);
}

/* When the table `now` has counted for TOP_KEYS_SECONDS, it becomes the table `before`. Drops
 * tables that are older. */
static void take_turns(struct top_keys *t, double now)
{
	while (t->now && now - t->now->began >= TOP_KEYS_SECONDS) {
		bool long_ago = now - t->now->began >= 2 * TOP_KEYS_SECONDS;

		table_free(t->before);
		t->before = long_ago ? NULL : t->now;
		if (long_ago)
			table_free(t->now);
		t->now = NULL;
	}
	if (t->before && now - t->before->began >= 2 * TOP_KEYS_SECONDS) {
		table_free(t->before);
		t->before = NULL;
	}
}

void top_keys_add(struct top_keys *t, const void *of, int db, struct slice key, unsigned kind,
                  double now)
{
	struct top_key k = key_of(of, db, key);
	struct entry *e;

	HASP_ASSERT(kind < TOP_KEYS_KINDS);
	take_turns(t, now);
	if (!t->now)
		t->now = table_new(now);
	e = table_look_up(t->now, &k);
	if (!e)
		e = table_take(t->now, &k);
	e->counts.n[kind]++;
	if (t->now->n == TOP_KEYS)
		top_sink(t->now, e);
}

static void add_up(struct top_key_counts *sum, const struct entry *e, const struct table *of)
{
	if (!e) {
		sum->missed += table_missed(of);
		return;
	}
	for (size_t i = 0; i < TOP_KEYS_KINDS; i++)
		sum->n[i] += e->counts.n[i];
	sum->missed += e->counts.missed;
}

void top_keys_each(struct top_keys *t, double now, top_keys_fn *fn, void *arg)
{
	take_turns(t, now);
	for (size_t i = 0; t->now && i < t->now->n; i++) {
		const struct entry *e = &t->now->entries[i];
		struct top_key_counts sum = e->counts;

		add_up(&sum, table_look_up(t->before, &e->key), t->before);
		fn(arg, &e->key, &sum);
	}
	for (size_t i = 0; t->before && i < t->before->n; i++) {
		const struct entry *e = &t->before->entries[i];
		struct top_key_counts sum = e->counts;

		if (table_look_up(t->now, &e->key))
			continue;
		add_up(&sum, NULL, t->now);
		fn(arg, &e->key, &sum);
	}
}
