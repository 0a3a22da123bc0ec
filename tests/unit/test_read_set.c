/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of a connection's read set: a read counts until the key is written, even if the owner's
 * name changes, and the guards are released when the connection ends.
 */
#define TEST_FIXTURE struct guard_fixture *f

#include <stdio.h>
#include <string.h>

#include "tests/unit/fake_jobs.h"
#include "tests/unit/guard_fixture.h"
#include "tests/unit/testing.h"

FIXTURE(guard_set_up, guard_tear_down);

static struct read_set_entry *add(struct guard_fixture *f, int db, const char *key)
{
	struct guarded_key k = guarded(key);

	return read_set_add(f->table, &f->set, db, &k, GUARD_NOW + 5);
}

/* --- entries ------------------------------------------------------------------------- */

TEST(an_entry_is_a_database_s_key)
{
	struct read_set_entry *e = add(f, 1, "k");

	assert_ptr_equal(read_set_find(f->table, &f->set, 1, SLICE_LIT("k")), e);
	assert_null(read_set_find(f->table, &f->set, 0, SLICE_LIT("k")));
	assert_null(read_set_find(f->table, &f->set, 1, SLICE_LIT("l")));
	assert_int_equal(read_set_entry_db(e), 1);
	assert_true(slice_eq(read_set_entry_key(e), SLICE_LIT("k")));
	assert_false(e->read);
}

TEST(another_connection_s_entry_is_not_this_one_s)
{
	struct read_set other;
	struct guarded_key k = guarded("k");
	struct read_set_entry *e = add(f, 0, "k"), *theirs;

	read_set_init(&other);
	assert_null(read_set_find(f->table, &other, 0, k.key));
	theirs = read_set_add(f->table, &other, 0, &k, 0);
	assert_ptr_not_equal(theirs, e);
	assert_ptr_equal(read_set_find(f->table, &other, 0, k.key), theirs);
	assert_ptr_equal(read_set_find(f->table, &f->set, 0, k.key), e);
	read_set_end(&other, GUARD_NOW, false);
}

TEST(a_key_that_is_read_again_keeps_its_entry)
{
	struct read_set_entry *e = add(f, 0, "k");

	read_set_entry_read(e);
	assert_ptr_equal(add(f, 0, "k"), e);
	assert_true(e->read);
	assert_int_equal(f->set.n, 1);
}

TEST(a_written_key_has_no_entry)
{
	read_set_entry_over(add(f, 0, "k"));
	assert_null(read_set_find(f->table, &f->set, 0, SLICE_LIT("k")));
	assert_int_equal(f->set.n, 0);
}

TEST(a_read_makes_good_what_was_lost)
{
	struct read_set_entry *e = add(*state, 0, "k");

	e->lost = true;
	read_set_entry_read(e);
	assert_true(e->read);
	assert_false(e->lost);
}

TEST(long_keys_have_entries_too)
{
	char key[1000];

	memset(key, 'k', sizeof(key));
	key[sizeof(key) - 1] = '\0';
	read_set_entry_read(add(f, 0, key));
	assert_true(read_set_find(f->table, &f->set, 0, slice_str(key))->read);
	read_set_entry_over(read_set_find(f->table, &f->set, 0, slice_str(key)));
	assert_int_equal(f->set.n, 0);
}

/* --- too many ------------------------------------------------------------------------ */

static void fill(struct guard_fixture *f)
{
	char key[16];

	for (int i = 0; i < READ_SET_MAX; i++) {
		snprintf(key, sizeof(key), "key %d", i);
		read_set_entry_read(add(f, 0, key));
	}
}

TEST(the_oldest_makes_space)
{
	fill(f);
	assert_int_equal(f->set.n, READ_SET_MAX);
	assert_false(f->set.overflowed);
	add(f, 0, "one more");
	assert_true(f->set.overflowed);
	assert_int_equal(f->set.n, READ_SET_MAX);
	assert_null(read_set_find(f->table, &f->set, 0, SLICE_LIT("key 0")));
	assert_non_null(read_set_find(f->table, &f->set, 0, SLICE_LIT("key 1")));
}

TEST(one_that_is_read_again_or_kept_is_not_the_oldest)
{
	fill(f);
	add(f, 0, "key 0");
	read_set_keep(f->table, &f->set, 0, SLICE_LIT("key 1"));
	read_set_keep(f->table, &f->set, 0, SLICE_LIT("no such key"));
	add(f, 0, "one more");
	assert_non_null(read_set_find(f->table, &f->set, 0, SLICE_LIT("key 0")));
	assert_non_null(read_set_find(f->table, &f->set, 0, SLICE_LIT("key 1")));
	assert_null(read_set_find(f->table, &f->set, 0, SLICE_LIT("key 2")));
}

TEST(a_checked_key_drops_the_oldest_checked_one_else_the_oldest)
{
	struct guarded_key a = guarded("a"), b = guarded("b");

	a.checked = b.checked = true;
	fill(f);
	guard_fixture_read(f, a);
	assert_null(read_set_find(f->table, &f->set, 0, SLICE_LIT("key 0")));
	add(f, 0, "key 1");
	guard_fixture_read(f, b);
	assert_null(guard_fixture_entry(f, "a"));
	assert_non_null(read_set_find(f->table, &f->set, 0, SLICE_LIT("key 2")));
}

TEST(the_keys_of_an_operation_do_not_drop_each_other)
{
	struct guarded_key keys[] = { guarded("a"), guarded("b") };
	struct guard_op *op;

	keys[0].checked = keys[1].checked = true;
	fill(f);
	guard_fixture_read(f, keys[0]);
	op = guard_fixture_op(f, GUARD_OP_SCRIPT, keys, 2);
	assert_ptr_equal(op->keys[0].entry, guard_fixture_entry(f, "a"));
	assert_ptr_equal(op->keys[1].entry, guard_fixture_entry(f, "b"));
	guard_op_free(op);
}

/* Sends a write whose keys have no entry. */
static struct guard_op *write_unknown(struct guard_fixture *f)
{
	struct guarded_key k = guarded("unknown");

	k.held = k.writes = k.releases = true;
	return guard_fixture_single(f, GUARD_OP_SCRIPT, k);
}

/* Else the next write would be run unchecked. */
TEST(after_that_a_write_that_was_not_carried_out_leaves_no_entry)
{
	struct guard_op *op;

	read_set_overflow(&f->set);
	op = write_unknown(f);
	guard_op_withdraw(op);
	guard_op_free(op);
	assert_null(guard_fixture_entry(f, "unknown"));
	op = write_unknown(f);
	guard_op_complete(op, GUARD_OP_FAILED);
	guard_op_free(op);
	assert_null(guard_fixture_entry(f, "unknown"));
}

TEST(unless_it_told_that_the_guard_was_lost)
{
	struct guard_op *op;

	read_set_overflow(&f->set);
	op = write_unknown(f);
	guard_op_refused(op,
	                 SLICE_LIT("-LOCKLOST 'unknown' was read under a guard that has ended: "
	                           "nothing was written\r\n"));
	guard_op_complete(op, GUARD_OP_FAILED);
	guard_op_free(op);
	assert_non_null(guard_fixture_entry(f, "unknown"));
	assert_false(guard_fixture_entry(f, "unknown")->read);
}

/* A key without an entry counts as read after such a write. */
TEST(after_that_a_written_key_keeps_its_entry)
{
	struct read_set_entry *e;

	fill(f);
	e = add(f, 0, "one more");
	e->read = e->lost = true;
	read_set_entry_over(e);
	assert_ptr_equal(read_set_find(f->table, &f->set, 0, SLICE_LIT("one more")), e);
	assert_false(e->read);
	assert_false(e->lost);
}

/* --- the end ------------------------------------------------------------------------ */

static void add_to_be_released(struct guard_fixture *f, int db, const char *key, double until)
{
	struct guarded_key k = guarded(key);

	k.release = true;
	read_set_add(f->table, &f->set, db, &k, until);
}

TEST(the_connection_s_end_releases_guards_that_it_may_still_have)
{
	add_to_be_released(f, 3, "k", 100.1);
	add_to_be_released(f, 3, "over", 100.0);
	add_to_be_released(f, -1, "unknown", 200.0);
	add(f, 3, "expires");
	read_set_end(&f->set, 100.0, false);
	assert_int_equal(f->set.n, 0);
	assert_jobs("3 guard_release 2 " GUARD_OF("k") " " QUEUE_OF("k") " secret token\n");
	assert_float_equal(fake_jobs_until(), 100.1, 0.001);
}

TEST(of_a_connection_that_is_cut_off_the_guards_of_what_it_read_are_kept)
{
	add_to_be_released(f, 3, "read", 200.0);
	read_set_entry_read(read_set_find(f->table, &f->set, 3, SLICE_LIT("read")));
	add_to_be_released(f, 3, "k", 200.0);
	read_set_end(&f->set, 100.0, true);
	assert_int_equal(f->set.n, 0);
	assert_jobs("3 guard_release 2 " GUARD_OF("k") " " QUEUE_OF("k") " secret token\n");
}

TEST(a_connection_is_between_read_and_write_until_the_lease_is_over)
{
	struct read_set_entry *e;

	add_to_be_released(f, 0, "k", 200.0);
	e = read_set_find(f->table, &f->set, 0, SLICE_LIT("k"));
	assert_false(read_set_has_any(&f->set, 100.0));
	read_set_entry_read(e);
	assert_true(read_set_has_any(&f->set, 199.9));
	assert_false(read_set_has_any(&f->set, 200.0));
	read_set_entry_over(e);
	assert_false(read_set_has_any(&f->set, 100.0));
}
