/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of the keys beside a lock: their names, and that they are in the lock's slot.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/fatal.h"
#include "base/map.h"
#include "lock/model/key_names.h"
#include "tests/unit/testing.h"
#include "upstream/slot.h"

static const enum key_naming namings[] = { KEY_NAMING_SERVER, KEY_NAMING_CLUSTER };
static const enum key_name kinds[] = { KEY_NAME_OWNER, KEY_NAME_FENCE, KEY_NAME_QUEUE,
	                               KEY_NAME_GUARD };

#define COUNT(v) (sizeof(v) / sizeof(*(v)))

static void write_guard_queue(struct buf *out, enum key_naming naming, struct slice key)
{
	char *p = buf_reserve(out, key_names_space(key, 2));

	buf_added_to(out, key_names_put_guard_queue_bulk(p, naming, key));
}

static void assert_owner(enum key_naming naming, const char *key, const char *bulk)
{
	struct buf out = BUF_INIT;

	key_names_write_bulk(&out, naming, KEY_NAME_OWNER, slice_str(key));
	if (!slice_eq(buf_slice(&out), slice_str(bulk)))
		fail_msg("%s: %.*s", key, (int)buf_len(&out), buf_head(&out));
	buf_release(&out);
}

TEST(test_names_are_braced_or_have_the_tag_of_their_key)
{
	static const struct {
		const char *key, *bulk;
	} cases[] = {
		{ "a", "$14\r\nhasp:owner:{a}\r\n" },
		{ "{a}b", "$16\r\nhasp:owner:{a}b:\r\n" },
		{ "b{a}", "$16\r\nhasp:owner:b{a}:\r\n" },
		{ "a{b", "$16\r\nhasp:owner:{a{b}\r\n" },
		{ "}{a}", "$16\r\nhasp:owner:}{a}:\r\n" },
	};

	for (size_t i = 0; i < COUNT(cases); i++)
		for (size_t j = 0; j < COUNT(namings); j++)
			assert_owner(namings[j], cases[i].key, cases[i].bulk);
}

/* Without slots, the names have no tag. */
TEST(test_what_braces_do_not_tag_is_tagged_by_its_slot_in_a_cluster)
{
	static const struct {
		const char *key, *server, *cluster;
	} cases[] = {
		{ "a}b", "$16\r\nhasp:owner:{a}b}\r\n", "$20\r\nhasp:owner:{4w2}a}b!\r\n" },
		{ "{}a", "$16\r\nhasp:owner:{{}a}\r\n", "$20\r\nhasp:owner:{4LZ}{}a!\r\n" },
		{ "{}{a}", "$18\r\nhasp:owner:{{}{a}}\r\n",
		  "$22\r\nhasp:owner:{32U}{}{a}!\r\n" },
		{ "", "$13\r\nhasp:owner:{}\r\n", "$17\r\nhasp:owner:{06S}!\r\n" },
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		assert_owner(KEY_NAMING_SERVER, cases[i].key, cases[i].server);
		assert_owner(KEY_NAMING_CLUSTER, cases[i].key, cases[i].cluster);
	}
}

TEST(test_a_slot_has_a_counter_and_a_server_has_one)
{
	struct buf out = BUF_INIT;

	key_names_write_bulk(&out, KEY_NAMING_SERVER, KEY_NAME_COUNTER, SLICE_LIT("{a}b"));
	key_names_write_bulk(&out, KEY_NAMING_CLUSTER, KEY_NAME_COUNTER, SLICE_LIT("{a}b"));
	key_names_write_bulk(&out, KEY_NAMING_CLUSTER, KEY_NAME_COUNTER, SLICE_LIT("a"));
	*buf_reserve(&out, 1) = '\0';
	assert_string_equal(buf_head(&out), "$10\r\nhasp:fence\r\n"
	                                    "$15\r\nhasp:fence{062}\r\n"
	                                    "$15\r\nhasp:fence{062}\r\n");
	buf_release(&out);
}

/* --- of all short keys ------------------------------------------------------------- */

/* Iterates over all words of at most this many of the letters below. */
#define WORD_MAX 5
static const char letters[] = "a{}:!";

static bool next_word(char *word)
{
	size_t i = strlen(word);

	while (i && word[i - 1] == letters[sizeof(letters) - 2])
		word[--i] = letters[0];
	if (i) {
		word[i - 1] = *(strchr(letters, word[i - 1]) + 1);
		return true;
	}
	i = strlen(word);
	word[i] = letters[0];
	word[i + 1] = '\0';
	return i < WORD_MAX;
}

/* Returns a bulk string's text. */
static struct slice bulk_text(struct slice bulk)
{
	const char *p = memchr(bulk.p, '\n', bulk.n);

	return slice_of(p + 1, bulk.n - (size_t)(p + 1 - bulk.p) - 2);
}

static void assert_in_slot(struct buf *bulk, const char *key)
{
	struct slice name = bulk_text(buf_slice(bulk));

	if (slot_of_key(name) != slot_of_key(slice_str(key)))
		fail_msg("%.*s is not in the slot of %s", (int)name.n, name.p, key);
	buf_clear(bulk);
}

TEST(test_in_a_cluster_all_names_are_in_the_slot_of_their_key)
{
	char key[WORD_MAX + 2] = "";
	struct buf out = BUF_INIT;
	size_t n = 0;

	do {
		for (size_t i = 0; i < COUNT(kinds); i++) {
			key_names_write_bulk(&out, KEY_NAMING_CLUSTER, kinds[i],
			                     slice_str(key));
			assert_in_slot(&out, key);
		}
		write_guard_queue(&out, KEY_NAMING_CLUSTER, slice_str(key));
		assert_in_slot(&out, key);
		key_names_write_bulk(&out, KEY_NAMING_CLUSTER, KEY_NAME_COUNTER,
		                     slice_str(key));
		assert_in_slot(&out, key);
		n++;
	} while (next_word(key));
	assert_int_equal(n, 1 + 5 + 25 + 125 + 625 + 3125);
	buf_release(&out);
}

/* A name is copied from the previous one if the prefixes have equal lengths. */
TEST(test_two_names_at_once_are_each_name_by_itself)
{
	struct buf both = BUF_INIT, each = BUF_INIT;

	for (size_t i = 0; i < COUNT(namings); i++)
		for (size_t j = 0; j < COUNT(kinds) * COUNT(kinds); j++) {
			enum key_name pair[] = { kinds[j / COUNT(kinds)],
				                 kinds[j % COUNT(kinds)] };

			key_names_write_bulks(&both, namings[i], SLICE_LIT("a"), pair, 2);
			key_names_write_bulk(&each, namings[i], pair[0], SLICE_LIT("a"));
			key_names_write_bulk(&each, namings[i], pair[1], SLICE_LIT("a"));
			assert_true(slice_eq(buf_slice(&both), buf_slice(&each)));
		}
	buf_release(&both);
	buf_release(&each);
}

struct known_name {
	struct map_node node;
	char bytes[32];
};

TEST(test_no_two_keys_share_a_name)
{
	struct buf out = BUF_INIT;

	for (size_t i = 0; i < COUNT(namings); i++) {
		char key[WORD_MAX + 2] = "";
		struct map names;

		map_init(&names);
		do {
			struct known_name *k = xcalloc(1, sizeof(*k));
			buf_clear(&out);
			key_names_write(&out, namings[i], KEY_NAME_OWNER, slice_str(key));
			assert_true(buf_len(&out) <= sizeof(k->bytes));
			memcpy(k->bytes, buf_head(&out), buf_len(&out));
			k->node.key = slice_of(k->bytes, buf_len(&out));
			if (map_get(&names, k->node.key))
				fail_msg("%s has the name of another", key);
			map_put(&names, &k->node);
		} while (next_word(key));
		map_drain (&names, node)
			free((struct known_name *)node);
		map_fini(&names);
	}
	buf_release(&out);
}

/* The name of a guard's queue follows from the guard's name alone. */
TEST(test_the_queue_of_a_guard_is_a_sidecar_of_a_sidecar)
{
	struct buf name = BUF_INIT, expected = BUF_INIT;
	struct buf out = BUF_INIT;

	for (size_t i = 0; i < COUNT(namings); i++) {
		char key[WORD_MAX + 2] = "";

		do {
			buf_clear(&name);
			buf_clear(&expected);
			buf_clear(&out);
			key_names_write(&name, namings[i], KEY_NAME_GUARD, slice_str(key));
			key_names_write_bulk(&expected, namings[i], KEY_NAME_QUEUE,
			                     buf_slice(&name));
			write_guard_queue(&out, namings[i], slice_str(key));
			if (!slice_eq(buf_slice(&out), buf_slice(&expected)))
				fail_msg("%s: %.*s", key, (int)buf_len(&out), buf_head(&out));
		} while (next_word(key));
	}
	buf_release(&name);
	buf_release(&expected);
	buf_release(&out);
}
