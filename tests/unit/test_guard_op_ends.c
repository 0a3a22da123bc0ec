/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of the end of an operation on guarded keys: how its answers change the read set, what
 * it releases, and how hasp undoes it if no answer comes.
 */

#define TEST_FIXTURE struct guard_fixture *f

#include "tests/unit/fake_jobs.h"
#include "tests/unit/guard_fixture.h"
#include "tests/unit/testing.h"
#include "tests/unit/wire.h"

FIXTURE(guard_set_up, guard_tear_down);

static struct guarded_key reading(const char *key)
{
	struct guarded_key k = guarded(key);

	k.acquires = true;
	return k;
}

static struct guarded_key writing(const char *key)
{
	struct guarded_key k = guarded(key);

	k.writes = k.releases = true;
	return k;
}

static void end(struct guard_op *op, enum guard_op_result result)
{
	guard_op_complete(op, result);
	guard_op_free(op);
}

/* --- how long guards are held -------------------------------------------------------- */

static struct guarded_key counted(struct guarded_key k, struct section_stats *stats)
{
	k.stats = stats;
	return k;
}

static void assert_guards_held(const struct section_stats *s, uint64_t n, uint64_t total_us)
{
	struct metrics_sums sums = { 0 };
	uint64_t all = 0;

	metrics_add_up(&sums, &s->held);
	for (size_t i = 0; i < METRICS_BUCKETS; i++)
		all += sums.n[i];
	assert_int_equal(all, n);
	assert_int_equal(sums.total_us, total_us);
}

TEST(a_guard_is_held_from_the_read_to_the_write)
{
	struct section_stats s = { .kind = STATS_GUARD };
	struct guard_op *op;

	end(guard_fixture_single(*state, GUARD_OP_SCRIPT, counted(reading("k"), &s)),
	    GUARD_OP_CARRIED_OUT);
	/* The client has the guard already. */
	end(guard_fixture_single(*state, GUARD_OP_SCRIPT, counted(reading("k"), &s)),
	    GUARD_OP_CARRIED_OUT);
	assert_guards_held(&s, 0, 0);
	op = guard_fixture_single(*state, GUARD_OP_SCRIPT, counted(writing("k"), &s));
	guard_op_sent(op, SLICE_LIT(GUARD_TICKET), GUARD_NOW + 2);
	end(op, GUARD_OP_CARRIED_OUT);
	assert_guards_held(&s, 1, 2000000);
	/* This write takes and releases the guard in one step. */
	end(guard_fixture_single(*state, GUARD_OP_SCRIPT, counted(writing("k"), &s)),
	    GUARD_OP_CARRIED_OUT);
	assert_guards_held(&s, 1, 2000000);
}

TEST(a_guard_is_held_until_its_connection_or_its_lease_ends)
{
	struct section_stats s = { .kind = STATS_GUARD };

	end(guard_fixture_single(f, GUARD_OP_SCRIPT, counted(reading("k"), &s)),
	    GUARD_OP_CARRIED_OUT);
	read_set_end(&f->set, GUARD_NOW + 1, true);
	assert_guards_held(&s, 1, 1000000);
	end(guard_fixture_single(f, GUARD_OP_SCRIPT, counted(reading("k"), &s)),
	    GUARD_OP_CARRIED_OUT);
	read_set_end(&f->set, GUARD_NOW + 60, true);
	assert_guards_held(&s, 2, 6000000);
}

TEST(a_read_that_was_refused_holds_nothing)
{
	struct section_stats s = { .kind = STATS_GUARD };

	end(guard_fixture_single(f, GUARD_OP_SCRIPT, counted(reading("k"), &s)),
	    GUARD_OP_FAILED);
	read_set_end(&f->set, GUARD_NOW + 1, true);
	assert_guards_held(&s, 0, 0);
}

/* --- the answers of an optimistic acquire -------------------------------------------- */

/* Shows whether further replies follow each of these two. */
static void try(struct guard_op *op, struct resp_reply queue, struct resp_reply guard,
                bool expected)
{
	op->due = 2;
	assert_true(guard_op_tried(op, &queue));
	assert_int_equal(guard_op_tried(op, &guard), expected);
	assert_int_equal(op->due, 0);
}

TEST(a_try_is_good_when_nobody_waits_and_the_guard_was_free)
{
	struct guard_op *op = guard_fixture_single(*state, GUARD_OP_SCRIPT, reading("k"));

	try(op, reply_integer(0), reply_of_type('+'), true);
	assert_true(op->acquired);
	end(op, GUARD_OP_FAILED);
}

TEST(a_try_is_in_vain_when_another_owner_has_the_guard)
{
	struct guard_op *op = guard_fixture_single(*state, GUARD_OP_SCRIPT, reading("k"));

	try(op, reply_integer(0), (struct resp_reply){ .type = '$', .nil = true }, false);
	assert_false(op->acquired);
	end(op, GUARD_OP_FAILED);
}

/* hasp releases the guard then, because waiters in the queue come first. */
TEST(a_try_is_in_vain_when_somebody_waits)
{
	struct guard_op *op = guard_fixture_single(*state, GUARD_OP_SCRIPT, reading("k"));

	try(op, reply_integer(1), reply_of_type('+'), false);
	assert_true(op->acquired);
	end(op, GUARD_OP_FAILED);
}

TEST(a_try_is_in_vain_when_redis_refuses_to_tell)
{
	struct guard_op *op = guard_fixture_single(*state, GUARD_OP_SCRIPT, reading("k"));

	try(op, reply_of_type('-'), reply_of_type('+'), false);
	end(op, GUARD_OP_FAILED);
}

/* --- granted, refused, queued -------------------------------------------------------- */

TEST(a_script_granted_anew_has_lost_what_was_read_before)
{
	struct guard_op *op;
	struct read_set_entry *e = guard_fixture_read(*state, guarded("k"));

	op = guard_fixture_single(*state, GUARD_OP_SCRIPT, reading("k"));
	guard_op_granted(op, SLICE_LIT("+GRANTED\r\n"));
	assert_false(op->acquired);
	assert_false(e->lost);
	guard_op_granted(op, SLICE_LIT("+GRANTED anew\r\n"));
	assert_true(op->acquired);
	assert_true(e->lost);
	end(op, GUARD_OP_FAILED);
}

TEST(a_transaction_has_guards_only_from_what_it_acquired)
{
	struct guard_op *op = guard_fixture_single(*state, GUARD_OP_SINGLE, writing("k"));

	(void)guard_op_step(op, GUARD_EVENT_START);
	assert_int_equal(op->phase, GUARD_OP_CHECK);
	guard_op_granted(op, SLICE_LIT("+GRANTED anew\r\n"));
	assert_false(op->acquired);
	end(op, GUARD_OP_FAILED);
	op = guard_fixture_single(*state, GUARD_OP_SINGLE, reading("k"));
	(void)guard_op_step(op, GUARD_EVENT_START);
	guard_op_granted(op, SLICE_LIT("+GRANTED anew\r\n"));
	assert_true(op->acquired);
	end(op, GUARD_OP_FAILED);
}

#define LOST(key)                                                                              \
	SLICE_LIT("-LOCKLOST '" key "' was read under a guard that has ended: nothing was "    \
	          "written\r\n")

TEST(a_key_that_was_lost_counts_as_read_no_more)
{
	struct guarded_key keys[] = { writing("a"), writing("b") };
	struct read_set_entry *a = guard_fixture_read(*state, keys[0]);
	struct read_set_entry *b = guard_fixture_read(*state, keys[1]);
	struct guard_op *op = guard_fixture_op(*state, GUARD_OP_SCRIPT, keys, 2);

	guard_op_refused(op, SLICE_LIT("-LOCKED 'b' is guarded by another owner\r\n"));
	assert_true(a->read && b->read);
	guard_op_refused(op, LOST("b"));
	assert_true(a->read);
	assert_false(b->read);
	end(op, GUARD_OP_FAILED);
}

/* Both have the same text in the log line, so hasp does not know which one was lost. */
TEST(of_two_keys_that_look_alike_neither_is_forgotten)
{
	struct guarded_key keys[] = { writing("k\001"), writing("k\002") };
	struct read_set_entry *a = guard_fixture_read(*state, keys[0]);
	struct read_set_entry *b = guard_fixture_read(*state, keys[1]);
	struct guard_op *op = guard_fixture_op(*state, GUARD_OP_SCRIPT, keys, 2);

	guard_op_refused(op, LOST("k?"));
	assert_true(a->read && b->read);
	end(op, GUARD_OP_FAILED);
}

static void assert_queued(struct guard_op *op, struct slice line, const char *key,
                          const char *guard)
{
	struct buf name = BUF_INIT;
	struct attempt t;

	assert_true(guard_op_queue(op, line, &name, &t));
	assert_true(slice_eq(guard_op_queued_key(op), slice_str(key)));
	assert_int_equal(t.id.kind, LOCK_KIND_GUARD);
	assert_true(slice_eq(t.id.key, slice_str(guard)));
	assert_true(slice_eq(t.value, SLICE_LIT("token")));
	assert_true(slice_eq(t.ticket, SLICE_LIT(GUARD_TICKET)));
	assert_int_equal(t.place, -1);
	assert_int_equal(t.lease_ms, GUARD_LEASE_MS);
	buf_release(&name);
}

TEST(it_waits_for_the_key_that_redis_numbers)
{
	struct guarded_key keys[] = { reading("a"), reading("b") };
	struct guard_op *op = guard_fixture_op(*state, GUARD_OP_SCRIPT, keys, 2);

	guard_op_sent(op, SLICE_LIT(GUARD_TICKET), GUARD_NOW);
	assert_queued(op, SLICE_LIT("+QUEUED 4 9 1 2"), "b", GUARD_OF("b"));
	assert_true(guard_fixture_entry(*state, "b")->lost);
	assert_false(guard_fixture_entry(*state, "a")->lost);
	end(op, GUARD_OP_FAILED);
}

/* hasp sent only those keys. */
TEST(while_it_acquires_the_keys_that_it_acquires_are_numbered)
{
	struct guarded_key keys[] = { writing("a"), reading("b") };
	struct guard_op *op = guard_fixture_op(*state, GUARD_OP_SINGLE, keys, 2);

	guard_op_sent(op, SLICE_LIT(GUARD_TICKET), GUARD_NOW);
	(void)guard_op_step(op, GUARD_EVENT_START);
	assert_int_equal(op->phase, GUARD_OP_ACQUIRE);
	assert_queued(op, SLICE_LIT("+QUEUED 4 9 1 1"), "b", GUARD_OF("b"));
	end(op, GUARD_OP_FAILED);
}

TEST(a_key_that_there_is_not_cannot_be_waited_for)
{
	static const struct slice lines[] = { SLICE_LIT("+QUEUED 4 9 1 3"),
		                              SLICE_LIT("+QUEUED 4 9 1 0"),
		                              SLICE_LIT("+QUEUED") };
	struct guarded_key keys[] = { reading("a"), reading("b") };
	struct guard_op *op = guard_fixture_op(*state, GUARD_OP_SCRIPT, keys, 2);
	struct buf name = BUF_INIT;
	struct attempt t;

	for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++)
		assert_false(guard_op_queue(op, lines[i], &name, &t));
	buf_release(&name);
	end(op, GUARD_OP_FAILED);
}

/* --- what counts as read afterwards -------------------------------------------------- */

TEST(a_read_that_was_carried_out_counts)
{
	end(guard_fixture_single(*state, GUARD_OP_SCRIPT, reading("k")), GUARD_OP_CARRIED_OUT);
	assert_true(guard_fixture_entry(*state, "k")->read);
}

/* An application that ignores the error would write a value that it has not seen. */
TEST(a_read_that_failed_counts_as_one_that_was_lost)
{
	struct read_set_entry *e;

	end(guard_fixture_single(*state, GUARD_OP_SCRIPT, reading("k")), GUARD_OP_FAILED);
	e = guard_fixture_entry(*state, "k");
	assert_true(e->read && e->lost);
}

TEST(a_read_that_redis_answered_with_wrongtype_leaves_nothing)
{
	struct guard_op *op = guard_fixture_single(*state, GUARD_OP_SCRIPT, reading("k"));

	guard_op_refused(op, SLICE_LIT("-WRONGTYPE Operation against a key ...\r\n"));
	end(op, GUARD_OP_FAILED);
	assert_null(guard_fixture_entry(*state, "k"));
}

TEST(a_refused_write_that_reads_as_well_leaves_nothing)
{
	struct guarded_key key = reading("k");
	struct guard_op *op;

	key.writes = true;
	guard_fixture_read(*state, key);
	op = guard_fixture_single(*state, GUARD_OP_SINGLE, key);
	guard_op_refused(op, LOST("k"));
	end(op, GUARD_OP_FAILED);
	assert_null(guard_fixture_entry(*state, "k"));
}

TEST(at_multi_a_key_that_was_lost_still_counts_as_read)
{
	struct read_set_entry *e = guard_fixture_read(*state, guarded("k"));
	struct guard_op *op = guard_fixture_single(*state, GUARD_OP_WATCH_MULTI, guarded("k"));

	guard_op_refused(op, LOST("k"));
	assert_true(e->read && e->lost);
	end(op, GUARD_OP_FAILED);
}

TEST(a_read_that_failed_takes_nothing_of_what_was_read_before)
{
	guard_fixture_read(*state, guarded("k"));
	end(guard_fixture_single(*state, GUARD_OP_SCRIPT, reading("k")), GUARD_OP_FAILED);
	assert_true(guard_fixture_entry(*state, "k")->read);
}

TEST(a_write_ends_what_was_read_only_when_all_of_it_was_carried_out)
{
	guard_fixture_read(*state, guarded("k"));
	end(guard_fixture_single(*state, GUARD_OP_SCRIPT, writing("k")), GUARD_OP_FAILED);
	assert_true(guard_fixture_entry(*state, "k")->read);
	end(guard_fixture_single(*state, GUARD_OP_SCRIPT, writing("k")), GUARD_OP_PARTLY);
	assert_true(guard_fixture_entry(*state, "k")->read);
	end(guard_fixture_single(*state, GUARD_OP_SCRIPT, writing("k")), GUARD_OP_CARRIED_OUT);
	assert_null(guard_fixture_entry(*state, "k"));
}

TEST(what_a_transaction_read_counts_though_it_was_carried_out_in_part)
{
	end(guard_fixture_single(*state, GUARD_OP_BLOCK, reading("k")), GUARD_OP_PARTLY);
	assert_true(guard_fixture_entry(*state, "k")->read);
}

TEST(when_nobody_sees_the_answer_reads_count_and_writes_end_them)
{
	struct guard_op *op;

	guard_op_assume(guard_fixture_single(*state, GUARD_OP_SCRIPT, reading("k")));
	assert_true(guard_fixture_entry(*state, "k")->read);
	op = guard_fixture_single(*state, GUARD_OP_SCRIPT, writing("k"));
	op->writes = true;
	guard_op_assume(op);
	assert_null(guard_fixture_entry(*state, "k"));
}

/* --- what is released ---------------------------------------------------------------- */

/* Asserts the releases when the operation has ended so; `expected` NULL: none. */
static void assert_release(const struct guard_op *op, enum guard_op_result result,
                           bool acquired, const char *expected)
{
	struct buf out = BUF_INIT;

	assert_int_equal(guard_op_write_release(op, result, acquired, &out), expected ? 1 : 0);
	assert_wire(buf_slice(&out), expected ? expected : "");
	buf_release(&out);
}

#define RELEASE "EVAL guard_release 2 " GUARD_OF("k") " " QUEUE_OF("k") " secret token\n"

TEST(a_write_that_was_carried_out_releases)
{
	struct guard_op *op = guard_fixture_single(*state, GUARD_OP_SINGLE, writing("k"));

	assert_release(op, GUARD_OP_CARRIED_OUT, false, RELEASE);
	assert_release(op, GUARD_OP_PARTLY, false, NULL);
	assert_release(op, GUARD_OP_FAILED, false, NULL);
	end(op, GUARD_OP_FAILED);
}

TEST(a_guard_that_was_acquired_in_vain_is_released)
{
	struct guard_op *op = guard_fixture_single(*state, GUARD_OP_SCRIPT, reading("k"));

	assert_release(op, GUARD_OP_FAILED, true, RELEASE);
	assert_release(op, GUARD_OP_FAILED, false, NULL);
	assert_release(op, GUARD_OP_CARRIED_OUT, true, NULL);
	end(op, GUARD_OP_FAILED);
}

TEST(but_not_under_what_was_read_before_unless_that_was_lost)
{
	struct read_set_entry *e = guard_fixture_read(*state, guarded("k"));
	struct guard_op *op = guard_fixture_single(*state, GUARD_OP_SCRIPT, reading("k"));

	assert_release(op, GUARD_OP_FAILED, true, NULL);
	e->lost = true;
	assert_release(op, GUARD_OP_FAILED, true, RELEASE);
	end(op, GUARD_OP_FAILED);
}

TEST(without_a_link_hasp_s_own_connection_releases)
{
	struct guard_op *op = guard_fixture_single(*state, GUARD_OP_SINGLE, writing("k"));

	guard_op_release(op, GUARD_OP_CARRIED_OUT, false);
	assert_jobs("2 guard_release 2 " GUARD_OF("k") " " QUEUE_OF("k") " secret token\n");
	guard_op_release(op, GUARD_OP_FAILED, false);
	assert_jobs("");
	end(op, GUARD_OP_FAILED);
}

/* --- what is undone ------------------------------------------------------------------ */

TEST(what_was_sent_and_not_answered_leaves_the_line_and_is_released)
{
	struct guard_op *op = guard_fixture_single(*state, GUARD_OP_SCRIPT, reading("k"));

	guard_op_sent(op, SLICE_LIT(GUARD_TICKET), GUARD_NOW);
	guard_op_undo(op, false);
	/* The operation was not sent yet. */
	assert_jobs("");
	(void)guard_op_step(op, GUARD_EVENT_START);
	guard_op_undo(op, false);
	/* The job lasts as long as the guard and the wait for it. */
	assert_float_equal(fake_jobs_until(), GUARD_NOW + 5 + 3, 0.001);
	assert_jobs("2 again dequeue 5 " GUARD_OF("k") " hasp:fence:" GUARD_OF(
		"k") ": " QUEUE_OF("k") " hasp:fence " GUARD_OF("k") " secret worker-1 \"\" g "
	                                                             "token token undo 97\n");
	end(op, GUARD_OP_FAILED);
}

TEST(each_key_of_what_was_not_answered_is_undone)
{
	struct guarded_key keys[] = { reading("a"), reading("b") };
	struct guard_op *op = guard_fixture_op(*state, GUARD_OP_SCRIPT, keys, 2);

	(void)guard_op_step(op, GUARD_EVENT_START);
	guard_op_undo(op, false);
	assert_int_equal(fake_jobs_count("again dequeue "), 2);
	end(op, GUARD_OP_FAILED);
}
