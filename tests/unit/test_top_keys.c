/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of base/top_keys.c with an exact count of all keys beside it: a reported count is never
 * above the exact one, and, with the possible error added, never below it.
 */
#define TEST_FIXTURE struct top_keys *t

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/top_keys.h"
#include "tests/unit/testing.h"

#define KEYS 5000
#define ADDITIONS 100000

static const char of_one, of_other;

/* Numbered keys whose frequency is about 1/x, as with cities, words and locks. */
struct counted {
	uint64_t n[KEYS][TOP_KEYS_KINDS];
	uint64_t told[KEYS][TOP_KEYS_KINDS], missed[KEYS];
	bool is_there[KEYS];
	size_t ntold;
};

static int set_up(void **state)
{
	*state = top_keys_new();
	return 0;
}

static int tear_down(void **state)
{
	top_keys_free(*state);
	return 0;
}

FIXTURE(set_up, tear_down);

static uint64_t next_random(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed;
}

/* Returns a key's number, n with a probability of about 1 / (n + 1). */
static size_t some_key(uint64_t *seed)
{
	uint64_t most = 1 + next_random(seed) % KEYS;

	return (size_t)(next_random(seed) % most);
}

static void add(struct top_keys *t, struct counted *c, size_t key, unsigned kind, double now)
{
	char text[32];

	snprintf(text, sizeof(text), "key:%zu", key);
	top_keys_add(t, &of_one, 0, slice_str(text), kind, now);
	c->n[key][kind]++;
}

static void on_key(void *arg, const struct top_key *key, const struct top_key_counts *counts)
{
	struct counted *c = arg;
	size_t i = strtoul(key->head + 4, NULL, 10);

	assert_ptr_equal(key->of, &of_one);
	assert_false(c->is_there[i]);
	c->is_there[i] = true;
	c->told[i][0] = counts->n[0];
	c->told[i][1] = counts->n[1];
	c->missed[i] = counts->missed;
	c->ntold++;
}

/* Checks the reported counts against `c`. `all` is the number of additions to each table,
 * `tables` the number of tables. */
static void check(const struct counted *c, uint64_t all, size_t tables)
{
	for (size_t i = 0; i < KEYS; i++) {
		uint64_t exact = c->n[i][0] + c->n[i][1];

		if (exact > tables * all / TOP_KEYS)
			assert_true(c->is_there[i]);
		if (!c->is_there[i])
			continue;
		for (size_t kind = 0; kind < TOP_KEYS_KINDS; kind++)
			assert_true(c->told[i][kind] <= c->n[i][kind]);
		assert_true(c->told[i][0] + c->told[i][1] + c->missed[i] >= exact);
		assert_true(c->missed[i] <= tables * all / TOP_KEYS);
	}
}

TEST(what_is_told_agrees_with_an_exact_count)
{
	for (uint64_t run = 1; run <= 5; run++) {
		struct top_keys *keys = top_keys_new();
		struct counted *c = calloc(1, sizeof(*c));
		uint64_t seed = run * UINT64_C(0x9e3779b97f4a7c15);

		for (size_t i = 0; i < ADDITIONS; i++)
			add(keys, c, some_key(&seed), (unsigned)(next_random(&seed) & 1), 1);
		top_keys_each(keys, 1, on_key, c);
		assert_int_equal(c->ntold, TOP_KEYS);
		check(c, ADDITIONS, 1);
		free(c);
		top_keys_free(keys);
	}
}

TEST(both_tables_are_added_up)
{
	struct counted *c = calloc(1, sizeof(*c));
	uint64_t seed = 4711;

	for (size_t i = 0; i < 2 * (size_t)ADDITIONS; i++)
		add(t, c, some_key(&seed), (unsigned)(next_random(&seed) & 1),
		    i < ADDITIONS ? 1 : TOP_KEYS_SECONDS + 1);
	top_keys_each(t, TOP_KEYS_SECONDS + 1, on_key, c);
	check(c, ADDITIONS, 2);
	free(c);
}

/* The key is rare at first, and comes while all places are taken again and again. */
TEST(key_that_becomes_frequent_gets_in)
{
	struct counted *c = calloc(1, sizeof(*c));

	for (size_t i = 0; i < ADDITIONS; i++)
		add(t, c, i % 10 == 9 && i > ADDITIONS / 2 ? 7 : 100 + i % 4000, 0, 1);
	top_keys_each(t, 1, on_key, c);
	assert_true(c->is_there[7]);
	assert_true(c->told[7][0] >= ADDITIONS / 30);
	check(c, ADDITIONS, 1);
	free(c);
}

/* That table may have counted the key, and replaced it by another one. */
TEST(what_one_table_may_have_missed_is_told)
{
	struct counted *c = calloc(1, sizeof(*c));

	for (size_t i = 0; i < 10 * (size_t)TOP_KEYS; i++)
		add(t, c, 1000 + i % TOP_KEYS, 0, 1);
	add(t, c, 1, 0, TOP_KEYS_SECONDS + 1);
	top_keys_each(t, TOP_KEYS_SECONDS + 1, on_key, c);
	assert_int_equal(c->told[1][0], 1);
	assert_int_equal(c->missed[1], 10);
	assert_int_equal(c->missed[1000], 0);
	free(c);
}

TEST(what_an_earlier_table_has_missed_of_a_key_is_told)
{
	struct counted *c = calloc(1, sizeof(*c));

	for (size_t i = 0; i < 10 * (size_t)TOP_KEYS; i++)
		add(t, c, 1000 + i % TOP_KEYS, 0, 1);
	add(t, c, 1, 0, 1); /* replaces a key that was counted ten times */
	add(t, c, 1, 0, TOP_KEYS_SECONDS + 1);
	top_keys_each(t, TOP_KEYS_SECONDS + 1, on_key, c);
	assert_int_equal(c->told[1][0], 2);
	assert_int_equal(c->missed[1], 10);
	free(c);
}

static uint64_t n_of(struct top_keys *t, size_t key, double now)
{
	struct counted *c = calloc(1, sizeof(*c));
	uint64_t n;

	top_keys_each(t, now, on_key, c);
	n = c->told[key][0];
	free(c);
	return n;
}

TEST(what_was_long_ago_is_forgotten)
{
	struct counted *c = calloc(1, sizeof(*c));

	add(t, c, 1, 0, 0);
	assert_int_equal(n_of(t, 1, TOP_KEYS_SECONDS), 1);
	assert_int_equal(n_of(t, 1, 2 * TOP_KEYS_SECONDS - 1), 1);
	assert_int_equal(n_of(t, 1, 2 * TOP_KEYS_SECONDS), 0);
	add(t, c, 1, 0, 1000);
	add(t, c, 1, 0, 1000 + TOP_KEYS_SECONDS);
	assert_int_equal(n_of(t, 1, 1000 + TOP_KEYS_SECONDS), 2);
	assert_int_equal(n_of(t, 1, 1000 + 2 * TOP_KEYS_SECONDS), 1);
	assert_int_equal(n_of(t, 1, 10000), 0);
	free(c);
}

static void count(void *arg, const struct top_key *key, const struct top_key_counts *counts)
{
	(void)key;
	(void)counts;
	++*(size_t *)arg;
}

static size_t how_many(struct top_keys *t)
{
	size_t n = 0;

	top_keys_each(t, 1, count, &n);
	return n;
}

TEST(keys_differ_by_database_section_length_and_bytes)
{
	static const char key[] = "a\0b";

	for (int i = 0; i < 2; i++) {
		top_keys_add(t, &of_one, 0, slice_of(key, 3), 0, 1);
		top_keys_add(t, &of_other, 0, slice_of(key, 3), 0, 1);
		top_keys_add(t, &of_one, 1, slice_of(key, 3), 0, 1);
		top_keys_add(t, &of_one, 0, slice_of(key, 1), 0, 1);
		top_keys_add(t, &of_one, 0, slice_of("a\0c", 3), 0, 1);
		top_keys_add(t, &of_one, 0, SLICE_NONE, 0, 1);
		assert_int_equal(how_many(t), 6);
	}
}

TEST(long_keys_differ_by_length_beginning_and_end)
{
	char key[1000];

	memset(key, 'x', sizeof(key));
	top_keys_add(t, &of_one, 0, slice_of(key, 1000), 0, 1);
	top_keys_add(t, &of_one, 0, slice_of(key, 999), 0, 1);
	key[0] = 'y';
	top_keys_add(t, &of_one, 0, slice_of(key, 1000), 0, 1);
	key[0] = 'x';
	key[999] = 'y';
	top_keys_add(t, &of_one, 0, slice_of(key, 1000), 0, 1);
	key[999] = 'x';
	key[500] = 'y';
	top_keys_add(t, &of_one, 0, slice_of(key, 1000), 0, 1);
	assert_int_equal(how_many(t), 4);
}
