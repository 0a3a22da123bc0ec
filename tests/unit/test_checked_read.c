/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of reads of keys that a guard checks: the digests of the values in a reply, however its
 * bytes arrive, and a mark if there is no value.
 */
#define TEST_FIXTURE struct guard_fixture *f

#include <stdio.h>
#include <string.h>

#include "lock/guard/checked_read.h"
#include "tests/unit/fake_jobs.h"
#include "tests/unit/guard_fixture.h"
#include "tests/unit/testing.h"
#include "tests/unit/ways.h"

FIXTURE(guard_set_up, guard_tear_down);

#define DB 2
#define HELLO "aaf4c61ddcc5e8a2dabede0f3b482cd9aea9434d"
#define EMPTY "da39a3ee5e6b4b0d3255bfef95601890afd80709"
#define NONE "" /* the key has no value */
#define NO_STRING "*" /* MGET answered nil */
#define LOST "-"

/* A command with up to three keys a, b and c, of which some are checked. */
struct run {
	struct guard_fixture *f;
	const char *keys; /* a letter for each key that is checked; '.' for one that is not. */
	bool each;
	const char *expected[3]; /* the expected digest of each key; NULL: no entry */
	struct checked_read *read;
	size_t fed;
};

static const char *const names[] = { "a", "b", "c" };

static void begin(void *arg)
{
	struct run *r = arg;

	r->read = checked_read_new(r->f->table, &r->f->set, DB, r->each, false);
	r->fed = 0;
	for (size_t i = 0; i < strlen(r->keys); i++)
		if (r->keys[i] != '.')
			checked_read_add(r->read, i, slice_of(&r->keys[i], 1), NULL);
}

static void arrive(void *arg, struct slice stream, size_t upto)
{
	struct run *r = arg;

	checked_read_feed(r->read, slice_of(stream.p + r->fed, upto - r->fed));
	r->fed = upto;
}

static void assert_entries(const struct run *r, const char *how, size_t cut)
{
	for (size_t i = 0; i < 3; i++) {
		const struct read_set_entry *e = guard_fixture_entry(r->f, names[i]);
		const char *expected = r->expected[i];
		bool good = expected ? e && e->checked && e->read &&
		                               slice_eq(e->token, slice_str(expected)) &&
		                               e->lost == (strcmp(expected, LOST) == 0)
		                     : !e;
		if (!good)
			fail_msg("key %s, %s %zu", names[i], how, cut);
	}
}

static void forget(struct guard_fixture *f)
{
	while (f->set.n)
		read_set_entry_drop(
			container_of(f->set.entries.next, struct read_set_entry, node));
}

static void end(void *arg, struct slice stream, const char *how, size_t cut)
{
	struct run *r = arg;
	struct resp_reply reply = reply_of_type(stream.p[0]);

	checked_read_complete(r->read, DB, &reply, stream);
	checked_read_free(r->read);
	assert_entries(r, how, cut);
	forget(r->f);
}

static void assert_read(struct guard_fixture *f, const char *keys, struct slice reply,
                        const char *a, const char *b, const char *c)
{
	static const struct ways w = { begin, arrive, end };
	struct run r = { f, keys, strlen(keys) > 1, { a, b, c }, NULL, 0 };

	ways_try(&w, &r, reply);
	/* In a transaction, EXEC's reply contains this reply. */
	begin(&r);
	checked_read_complete(r.read, DB, &(struct resp_reply){ .type = reply.p[0] }, reply);
	checked_read_free(r.read);
	assert_entries(&r, "at once", 0);
	forget(f);
}

TEST(a_value_has_the_digest_that_scripts_compute)
{
	assert_read(*state, "a", SLICE_LIT("$5\r\nhello\r\n"), HELLO, NULL, NULL);
	assert_read(*state, "a", SLICE_LIT("$0\r\n\r\n"), EMPTY, NULL, NULL);
	assert_read(*state, "a", SLICE_LIT("$4\r\n\r\n$1\r\n"),
	            "f846fe93526b9dedbcc8e5177852325259e41950", NULL, NULL);
}

TEST(that_there_is_no_value_is_known_too)
{
	assert_read(*state, "a", SLICE_LIT("$-1\r\n"), NONE, NULL, NULL);
	assert_read(*state, "a", SLICE_LIT("_\r\n"), NONE, NULL, NULL);
}

TEST(of_several_values_those_of_checked_keys_are_digested)
{
	struct slice reply = SLICE_LIT("*3\r\n$5\r\nhello\r\n$-1\r\n$0\r\n\r\n");

	assert_read(*state, "abc", reply, HELLO, NO_STRING, EMPTY);
	assert_read(*state, "a..", reply, HELLO, NULL, NULL);
	assert_read(*state, ".b.", reply, NULL, NO_STRING, NULL);
	assert_read(*state, "..c", reply, NULL, NULL, EMPTY);
	/* A key that the command names twice has one value. */
	assert_read(*state, "aab", SLICE_LIT("*3\r\n$5\r\nhello\r\n$5\r\nhello\r\n_\r\n"),
	            HELLO, NO_STRING, NULL);
}

TEST(a_read_that_fails_leaves_a_mark)
{
	assert_read(*state, "a", SLICE_LIT("-NOPERM no\r\n"), LOST, NULL, NULL);
	assert_read(*state, "ab", SLICE_LIT("-LOADING its data, for longer than a line\r\n"),
	            LOST, LOST, NULL);
	assert_read(*state, "a", SLICE_LIT("!7\r\nERR err\r\n"), LOST, NULL, NULL);
}

TEST(another_type_leaves_none)
{
	assert_read(*state, "a", SLICE_LIT("-WRONGTYPE Operation against a key\r\n"), NULL,
	            NULL, NULL);
}

TEST(a_client_that_has_not_logged_in_leaves_none)
{
	assert_read(*state, "a", SLICE_LIT("-NOAUTH Authentication required.\r\n"), NULL, NULL,
	            NULL);
}

TEST(a_read_that_fails_does_not_end_an_earlier_one)
{
	struct run r = { f, "a", false, { HELLO, NULL, NULL }, NULL, 0 };

	assert_true(read_set_checked(f->table, &f->set, DB, SLICE_LIT("a"), NULL,
	                             SLICE_LIT(HELLO)));
	begin(&r);
	end(&r, SLICE_LIT("-NOPERM no\r\n"), "failed", 0);
}

TEST(a_read_that_has_no_reply_failed)
{
	struct run r = { *state, "a", false, { LOST, NULL, NULL }, NULL, 0 };

	begin(&r);
	checked_read_feed(r.read, SLICE_LIT("$5\r\nhel"));
	checked_read_free(r.read);
	assert_entries(&r, "freed", 0);
}

TEST(a_read_outlives_its_connection_s_end)
{
	struct run r = { f, "a", false, { NULL, NULL, NULL }, NULL, 0 };

	begin(&r);
	read_set_end(&f->set, GUARD_NOW, false);
	checked_read_free(r.read);
	assert_entries(&r, "freed", 0);
}

TEST(a_value_that_is_too_long_leaves_a_mark)
{
	static const char piece[65536] = "";
	struct run r = { *state, "ab", true, { LOST, HELLO, NULL }, NULL, 0 };
	char header[32];
	struct slice tail = SLICE_LIT("\r\n$5\r\nhello\r\n");

	begin(&r);
	snprintf(header, sizeof(header), "*2\r\n$%d\r\n", CHECKED_VALUE_MAX + 1);
	checked_read_feed(r.read, slice_str(header));
	for (size_t n = 0; n < CHECKED_VALUE_MAX; n += sizeof(piece))
		checked_read_feed(r.read, slice_of(piece, sizeof(piece)));
	checked_read_feed(r.read, slice_of(piece, 1));
	checked_read_feed(r.read, tail);
	end(&r, SLICE_LIT("*"), "long", 0);
}

TEST(a_write_in_a_transaction_ends_the_read)
{
	struct resp_reply ok = reply_of_type('+'), error = reply_of_type('-');

	for (int failed = 1; failed >= 0; failed--) {
		struct checked_read *write = checked_read_new(f->table, &f->set, DB, false,
		                                              true);
		checked_read_add(write, 0, SLICE_LIT("a"), NULL);
		(void)read_set_checked(f->table, &f->set, DB, SLICE_LIT("a"), NULL,
		                       SLICE_LIT(HELLO));
		checked_read_complete(write, DB, failed ? &error : &ok, SLICE_NONE);
		checked_read_free(write);
		assert_int_equal(guard_fixture_entry(f, "a") != NULL, failed);
	}
}

/* --- the read set -------------------------------------------------------------------- */

static void read_many(struct guard_fixture *f, int n)
{
	char name[16];

	for (int i = 0; i < n; i++) {
		snprintf(name, sizeof(name), "many:%d", i);
		(void)read_set_checked(f->table, &f->set, DB, slice_str(name), NULL,
		                       SLICE_LIT(HELLO));
	}
}

TEST(guards_that_were_acquired_outlive_many_checked_reads)
{
	(void)guard_fixture_read(f, guarded("lock"));
	read_many(f, READ_SET_MAX - 1);
	assert_false(f->set.unchecked);
	read_many(f, 2 * READ_SET_MAX);
	assert_int_equal(f->set.n, READ_SET_MAX);
	assert_non_null(guard_fixture_entry(f, "lock"));
	assert_true(f->set.unchecked);
	assert_false(f->set.overflowed);
}

TEST(the_value_that_was_read_last_counts)
{
	assert_true(read_set_checked(f->table, &f->set, DB, SLICE_LIT("a"), NULL,
	                             SLICE_LIT(HELLO)));
	assert_false(read_set_checked(f->table, &f->set, DB, SLICE_LIT("a"), NULL,
	                              SLICE_LIT(EMPTY)));
	assert_true(slice_eq(guard_fixture_entry(f, "a")->token, SLICE_LIT(EMPTY)));
	assert_int_equal(f->set.n, 1);
}
