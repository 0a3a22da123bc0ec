/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of base/map.c: a map finds exactly its entries, while it grows and after entries were
 * removed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/map.h"
#include "tests/unit/testing.h"

#define MANY 5000

TEST(nothing_is_found_in_an_empty_map)
{
	struct map m;

	map_init(&m);
	assert_null(map_get(&m, SLICE_LIT("a")));
	assert_null(map_get(&m, SLICE_NONE));
	map_fini(&m);
}

/* Lengths below, at and above the hash's word, with NULs; each key is a prefix of the next. */
TEST(keys_that_differ_in_length_only_are_different)
{
	static const char zeros[20];
	struct map_node nodes[20];
	struct map m;

	map_init(&m);
	for (size_t n = 0; n < 20; n++) {
		nodes[n].key = slice_of(zeros, n);
		assert_null(map_get(&m, nodes[n].key));
		map_put(&m, &nodes[n]);
	}
	for (size_t n = 0; n < 20; n++)
		assert_ptr_equal(map_get(&m, slice_of(zeros, n)), &nodes[n]);
	map_fini(&m);
}

TEST(keys_that_differ_in_one_byte_are_different)
{
	char bytes[17] = "0123456789abcdef", other[17];
	struct map_node node = { .key = slice_of(bytes, 16) };
	struct map m;

	map_init(&m);
	map_put(&m, &node);
	for (size_t i = 0; i < 16; i++) {
		memcpy(other, bytes, sizeof(other));
		assert_ptr_equal(map_get(&m, slice_of(other, 16)), &node);
		other[i] ^= 1;
		assert_null(map_get(&m, slice_of(other, 16)));
	}
	map_fini(&m);
}

struct entry {
	struct map_node node;
	char key[16];
	bool in;
};

static struct entry *put_many(struct map *m)
{
	struct entry *entries = calloc(MANY, sizeof(*entries));

	assert_non_null(entries);
	for (size_t i = 0; i < MANY; i++) {
		int n = snprintf(entries[i].key, sizeof(entries[i].key), "key:%zu", i);
		entries[i].node.key = slice_of(entries[i].key, (size_t)n);
		entries[i].in = true;
		map_put(m, &entries[i].node);
	}
	return entries;
}

static void assert_finds(const struct map *m, const struct entry *entries)
{
	size_t n = 0;

	for (size_t i = 0; i < MANY; i++) {
		const struct map_node *found = map_get(m, slice_str(entries[i].key));
		assert_ptr_equal(found, entries[i].in ? &entries[i].node : NULL);
		n += entries[i].in;
	}
	assert_int_equal(m->n, n);
}

TEST(entries_are_found_while_the_table_grows)
{
	struct map m;
	struct entry *entries;

	map_init(&m);
	entries = put_many(&m);
	assert_finds(&m, entries);
	map_fini(&m);
	free(entries);
}

TEST(what_was_removed_is_not_found_and_the_rest_is)
{
	struct map m;
	struct entry *entries;

	map_init(&m);
	entries = put_many(&m);
	for (size_t i = 0; i < MANY; i += 3) {
		map_remove(&m, &entries[i].node);
		entries[i].in = false;
	}
	assert_finds(&m, entries);
	for (size_t i = 0; i < MANY; i += 6) {
		map_put(&m, &entries[i].node);
		entries[i].in = true;
	}
	assert_finds(&m, entries);
	map_fini(&m);
	free(entries);
}

TEST(each_entry_is_gone_through_once)
{
	struct entry *entries;
	struct map m;
	size_t n = 0;

	map_init(&m);
	map_each (&m, node)
		fail_msg("an empty map has the entry %p", (void *)node);
	entries = put_many(&m);
	map_each (&m, node) {
		struct entry *e = container_of(node, struct entry, node);
		assert_true(e->in);
		e->in = false;
		n++;
	}
	assert_int_equal(n, MANY);
	map_drain (&m, node) {
		map_remove(&m, node);
		memset(node, 0xff,
		       sizeof(*node)); /* overwrites the entry as if it were freed */
		n--;
	}
	assert_int_equal(n, 0);
	assert_int_equal(m.n, 0);
	map_fini(&m);
	free(entries);
}

/* A step moves few entries, however many there are. */
TEST(a_large_table_grows_a_few_entries_at_a_time)
{
	struct entry *entries = calloc(MANY, sizeof(*entries));
	size_t moved = 0, nsteps = 0;
	struct map m;

	assert_non_null(entries);
	map_init(&m);
	for (size_t i = 0; i < MANY; i++) {
		int n = snprintf(entries[i].key, sizeof(entries[i].key), "key:%zu", i);
		entries[i].node.key = slice_of(entries[i].key, (size_t)n);
		entries[i].in = true;
		map_put(&m, &entries[i].node);
		assert_ptr_equal(map_get(&m, slice_str(entries[i / 2].key)),
		                 &entries[i / 2].node);
		if (m.old) {
			assert_in_range(m.moved, 0, moved + 2);
			nsteps++;
		}
		moved = m.old ? m.moved : 0;
	}
	/* Steps of a table with 1,024, 2,048 and part of 4,096 buckets. */
	assert_in_range(nsteps, 1500, MANY);
	(void)map_first(&m);
	assert_null(m.old);
	assert_finds(&m, entries);
	map_fini(&m);
	free(entries);
}

/* Entries with one key are found after the table has grown, and with other keys between
 * them. */
static void assert_twins_are_found(void)
{
	struct map_node twins[3] = { { .key = SLICE_LIT("twin") },
		                     { .key = SLICE_LIT("twin") },
		                     { .key = SLICE_LIT("twin") } };
	struct map m;
	struct entry *entries;
	struct map_node *node;
	unsigned tracked_key = 0;

	map_init(&m);
	map_put(&m, &twins[0]);
	map_put(&m, &twins[1]);
	entries = put_many(&m);
	map_put(&m, &twins[2]);
	assert_ptr_equal(map_get(&m, SLICE_LIT("twin")), &twins[2]);
	for (node = map_get(&m, SLICE_LIT("twin")); node; node = map_next(node)) {
		assert_true(slice_eq(node->key, SLICE_LIT("twin")));
		tracked_key |= 1u << (node - twins);
	}
	assert_int_equal(tracked_key, 7);
	/* The latest entry comes first. */
	node = map_get(&m, SLICE_LIT("twin"));
	assert_ptr_equal(map_next(node), &twins[1]);
	assert_ptr_equal(map_next(&twins[1]), &twins[0]);
	map_remove(&m, &twins[1]);
	node = map_get(&m, SLICE_LIT("twin"));
	assert_non_null(map_next(node));
	assert_null(map_next(map_next(node)));
	map_fini(&m);
	free(entries);
}

TEST(entries_that_share_a_key_are_all_found)
{
	for (int i = 0; i < 20; i++)
		assert_twins_are_found();
}

TEST(each_map_has_a_secret_that_decides_where_keys_go)
{
	struct map a, b;
	struct map_node x = { .key = SLICE_LIT("key") }, y = x;

	map_init(&a);
	map_init(&b);
	map_put(&a, &x);
	map_put(&b, &y);
	assert_true(x.hash != y.hash);
	map_fini(&a);
	map_fini(&b);
}

/* Returns the length of the longest chain for keys of `n` bytes that differ only in the byte
 * at `place`. */
static size_t longest_chain(size_t n, size_t place)
{
	char bytes[UINT8_MAX + 1][24] = { 0 };
	struct map_node nodes[UINT8_MAX + 1];
	static const uint8_t secret[SIPHASH_SECRET_SIZE] = { 1 };
	size_t longest = 0;
	struct map m;

	map_init_with(&m, secret);
	for (size_t i = 0; i <= UINT8_MAX; i++) {
		bytes[i][place] = (char)i;
		nodes[i].key = slice_of(bytes[i], n);
		map_put(&m, &nodes[i]);
	}
	for (size_t i = 0; i < m.nbuckets; i++) {
		size_t length = 0;
		for (const struct map_node *node = m.buckets[i]; node; node = node->next)
			length++;
		longest = length > longest ? length : longest;
	}
	map_fini(&m);
	return longest;
}

/* Numbered locks have such keys. */
TEST(keys_that_differ_in_one_place_are_spread)
{
	for (size_t n = 1; n <= 24; n++)
		for (size_t place = 0; place < n; place++)
			assert_in_range(longest_chain(n, place), 1, 10);
}

/* --- scanning ----------------------------------------------------------------------------- */

struct scan {
	const struct map_node *first;
	unsigned char met[MANY];
};

static void meet(void *arg, struct map_node *node)
{
	struct scan *s = arg;

	s->met[node - s->first]++;
}

/* Scans while entries are added and removed, and the table grows from `nbefore` to MANY
 * entries. */
static void scan_while_it_grows(size_t nbefore, size_t puts_each)
{
	static struct map_node nodes[MANY];
	static char keys[MANY][8];
	struct scan s = { nodes, { 0 } };
	uint64_t cursor = 0;
	size_t n = nbefore;
	struct map m;

	map_init(&m);
	for (size_t i = 0; i < MANY; i++) {
		snprintf(keys[i], sizeof(keys[i]), "%zu", i);
		nodes[i].key = slice_str(keys[i]);
	}
	for (size_t i = 0; i < nbefore; i++)
		map_put(&m, &nodes[i]);
	do {
		cursor = map_scan(&m, cursor, meet, &s);
		for (size_t i = 0; i < puts_each && n < MANY; i++)
			map_put(&m, &nodes[n++]);
	} while (cursor);
	for (size_t i = 0; i < nbefore; i++)
		assert_int_equal(s.met[i], 1);
	for (size_t i = nbefore; i < MANY; i++)
		assert_in_range(s.met[i], 0, 1);
	map_fini(&m);
}

TEST(scan_meets_each_entry_once_though_the_table_grows)
{
	for (size_t nbefore = 1; nbefore < MANY / 2; nbefore += 97)
		for (size_t puts_each = 0; puts_each < 9; puts_each += 4)
			scan_while_it_grows(nbefore, puts_each);
}

TEST(scan_of_an_empty_map_is_over_at_once)
{
	struct map m;

	map_init(&m);
	assert_int_equal(map_scan(&m, 0, NULL, NULL), 0);
	map_fini(&m);
}
