/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of the requests that an operation on guarded keys sends in its phases.
 */

#define TEST_FIXTURE struct guard_fixture *f

#include "tests/unit/guard_fixture.h"
#include "tests/unit/testing.h"
#include "tests/unit/wire.h"

FIXTURE(guard_set_up, guard_tear_down);

/* Names of the guards, and the KEYS that scripts get for a key. */
#define GUARD_A GUARD_OF("a")
#define GUARD_B GUARD_OF("b")
#define GUARD_K GUARD_OF("k")
#define KEYS_A GUARD_KEYS("a")
#define KEYS_B GUARD_KEYS("b")
#define KEYS_K GUARD_KEYS("k")

static const struct rewrite_opts opts = { .ticket = SLICE_LIT(GUARD_TICKET),
	                                  .wait_max_ms = INT64_MAX };

static void end(struct guard_op *op)
{
	guard_op_complete(op, GUARD_OP_FAILED);
	guard_op_free(op);
}

/* --- the optimistic acquire ---------------------------------------------------------- */

TEST(a_try_asks_for_the_queue_sets_the_guard_and_reads)
{
	struct slice argv[] = { SLICE_LIT("GET"), SLICE_LIT("k") };
	struct resp_view view = { 2, argv };
	struct guard_op *op = guard_fixture_single(*state, GUARD_OP_SCRIPT, guarded("k"));
	struct buf out = BUF_INIT;

	guard_op_write_try(op, &out, &view);
	assert_wire(buf_slice(&out),
	            "EXISTS " QUEUE_OF("k") "\n"
	                                    "SET " GUARD_K " token NX PX 5000\n"
	                                    "GET k\n");
	assert_int_equal(op->due, 2);
	buf_release(&out);
	end(op);
}

/* --- scripts ------------------------------------------------------------------------- */

/* Asserts the operation's script for the command, whose arguments after the first `nkeys`
 * words are keys. */
static void assert_script(struct guard_op *op, const struct resp_view *req, size_t nkeys,
                          struct rewrite_opts as, const char *expected)
{
	static const struct command_key keys[] = { { .arg = 1 }, { .arg = 2 }, { .arg = 3 } };
	struct buf out = BUF_INIT;

	guard_op_write_script(op, &out, req, (struct command_keys){ keys, nkeys }, &as);
	assert_wire(buf_slice(&out), expected);
	buf_release(&out);
}

static struct guarded_key reading(const char *name)
{
	struct guarded_key k = guarded(name);

	k.acquires = true;
	return k;
}

TEST(a_read_is_one_script)
{
	struct slice argv[] = { SLICE_LIT("GET"), SLICE_LIT("k") };
	struct resp_view view = { 2, argv };
	struct guard_op *op = guard_fixture_single(*state, GUARD_OP_SCRIPT, reading("k"));

	op->script = GUARD_OP_READ;
	assert_script(op, &view, 1, opts,
	              "guard_read 3 " KEYS_K " \"\" 1 worker-1 3000 \"\" token 5000 - GET k\n");
	end(op);
}

TEST(a_read_that_no_script_can_answer_only_acquires)
{
	struct slice argv[] = { SLICE_LIT("DUMP"), SLICE_LIT("k") };
	struct resp_view view = { 2, argv };
	struct guard_op *op = guard_fixture_single(*state, GUARD_OP_SCRIPT, reading("k"));

	op->script = GUARD_OP_READ_APART;
	assert_script(op, &view, 1, opts,
	              "guard_read 3 " KEYS_K " \"\" 1 worker-1 3000 \"\" token 5000 -\n");
	end(op);
}

TEST(the_write_that_ends_a_read_is_the_short_script)
{
	struct slice argv[] = { SLICE_LIT("SET"), SLICE_LIT("k"), SLICE_LIT("v") };
	struct resp_view view = { 3, argv };
	struct guarded_key key = guarded("k");
	struct guard_op *op;

	guard_fixture_read(*state, key);
	key.writes = key.releases = true;
	op = guard_fixture_single(*state, GUARD_OP_SCRIPT, key);
	op->script = GUARD_OP_WRITE;
	assert_script(op, &view, 1, opts,
	              "guard_finish 3 " GUARD_K
	              " " QUEUE_OF("k") " k \"\" token 5000 SET k v\n");
	end(op);
}

TEST(a_write_of_what_was_not_read_may_wait)
{
	struct slice argv[] = { SLICE_LIT("SET"), SLICE_LIT("k"), SLICE_LIT("v") };
	struct resp_view view = { 3, argv };
	struct guarded_key key = guarded("k");
	struct guard_op *op;

	key.writes = key.releases = true;
	op = guard_fixture_single(*state, GUARD_OP_SCRIPT, key);
	op->script = GUARD_OP_WRITE;
	assert_script(op, &view, 1, opts,
	              "guard_write 3 " KEYS_K
	              " \"\" 1 worker-1 3000 \"\" token 5000 - SET k v\n");
	end(op);
}

/* After a loss, the token is one that no client has, so that the write fails. */
TEST(a_write_of_what_was_lost_is_made_by_nobody)
{
	struct slice argv[] = { SLICE_LIT("APPEND"), SLICE_LIT("k"), SLICE_LIT("v") };
	struct resp_view view = { 3, argv };
	struct guarded_key key = guarded("k");
	struct guard_op *op;

	guard_fixture_read(*state, key)->lost = true;
	key.writes = true;
	op = guard_fixture_single(*state, GUARD_OP_SCRIPT, key);
	op->script = GUARD_OP_WRITE;
	assert_script(op, &view, 1, opts,
	              "guard_write 3 " KEYS_K
	              " \"\" 1 worker-1 3000 \"\" - 5000 mk APPEND k v\n");
	end(op);
}

TEST(several_keys_come_first_and_then_those_without_a_guard)
{
	struct slice argv[] = { SLICE_LIT("MGET"), SLICE_LIT("b"), SLICE_LIT("other"),
		                SLICE_LIT("a") };
	struct resp_view view = { 4, argv };
	struct guarded_key keys[] = { reading("a"), reading("b") };
	struct guard_op *op = guard_fixture_op(*state, GUARD_OP_SCRIPT, keys, 2);

	op->script = GUARD_OP_READ;
	assert_script(op, &view, 3, opts,
	              "guard_read 7 " KEYS_A " " KEYS_B " other \"\" 2 worker-1 3000 \"\" "
	              "token 5000 - token 5000 - MGET b other a\n");
	end(op);
}

TEST(a_script_that_redis_lost_is_sent_as_text)
{
	struct slice argv[] = { SLICE_LIT("GET"), SLICE_LIT("k") };
	struct resp_view view = { 2, argv };
	struct guard_op *op = guard_fixture_single(*state, GUARD_OP_SCRIPT, reading("k"));
	struct rewrite_opts as = opts;

	as.eval = true;
	assert_script(op, &view, 1, as,
	              "EVAL guard_read 3 " KEYS_K
	              " \"\" 1 worker-1 3000 \"\" token 5000 - GET k\n");
	end(op);
}

/* --- how long it waits --------------------------------------------------------------- */

TEST(it_waits_as_long_as_both_its_guard_and_its_client_may)
{
	struct slice argv[] = { SLICE_LIT("GET"), SLICE_LIT("k") };
	struct resp_view view = { 2, argv };
	struct guard_op *op = guard_fixture_single(*state, GUARD_OP_SCRIPT, reading("k"));
	struct rewrite_opts as = opts;

	as.wait_max_ms = 700;
	as.place = 17;
	assert_script(op, &view, 1, as,
	              "guard_read 3 " KEYS_K " \"\" 1 worker-1 700 17 token 5000 - GET k\n");
	end(op);
}

/* A place in the queue belongs to one key. */
TEST(of_several_keys_no_place_is_named)
{
	struct slice argv[] = { SLICE_LIT("MGET"), SLICE_LIT("a"), SLICE_LIT("b") };
	struct resp_view view = { 3, argv };
	struct guarded_key keys[] = { reading("a"), reading("b") };
	struct guard_op *op = guard_fixture_op(*state, GUARD_OP_SCRIPT, keys, 2);
	struct rewrite_opts as = opts;

	as.place = 17;
	assert_script(op, &view, 2, as,
	              "guard_read 6 " KEYS_A " " KEYS_B " \"\" 2 worker-1 3000 \"\" "
	              "token 5000 - token 5000 - MGET a b\n");
	end(op);
}

/* --- transactions -------------------------------------------------------------------- */

static void assert_next(struct guard_op *op, unsigned answers_before, const char *expected)
{
	struct buf out = BUF_INIT;

	assert_int_equal(guard_op_write_next(op, &out, &opts), answers_before);
	assert_wire(buf_slice(&out), expected);
	buf_release(&out);
}

TEST(a_transaction_acquires_what_it_reads_and_then_watches_and_checks_all)
{
	struct guarded_key keys[] = { guarded("a"), guarded("b") };
	struct guard_op *op;

	keys[0].writes = true;
	keys[1].acquires = true;
	op = guard_fixture_op(*state, GUARD_OP_SINGLE, keys, 2);
	assert_int_equal(guard_op_step(op, GUARD_EVENT_START), GUARD_STEP_SEND_NEXT);
	assert_next(op, 0, "guard_read 3 " KEYS_B " \"\" 1 worker-1 3000 \"\" token 5000 -\n");
	guard_op_granted(op, SLICE_LIT("+GRANTED"));
	assert_int_equal(guard_op_step(op, GUARD_EVENT_GRANTED), GUARD_STEP_SEND_NEXT);
	/* The transaction must still have the guards that it has acquired. */
	assert_next(op, 1,
	            "WATCH " GUARD_A " " GUARD_B "\n"
	            "guard_write 6 " KEYS_A " " KEYS_B
	            " \"\" 2 worker-1 3000 \"\" token 5000 mk token 5000 mk\n");
	end(op);
}

TEST(a_block_that_has_read_only_checks)
{
	struct guarded_key key = guarded("k");
	struct guard_op *op;

	guard_fixture_read(*state, key);
	key.writes = key.releases = true;
	op = guard_fixture_single(*state, GUARD_OP_BLOCK, key);
	assert_int_equal(guard_op_step(op, GUARD_EVENT_START), GUARD_STEP_SEND_NEXT);
	assert_next(op, 1,
	            "WATCH " GUARD_K "\n"
	            "guard_write 3 " KEYS_K " \"\" 1 worker-1 3000 \"\" token 5000 m\n");
	end(op);
}

/* --- the clock ----------------------------------------------------------------------- */

TEST(a_guard_is_good_from_when_it_was_asked_for)
{
	struct guard_op *op = guard_fixture_single(*state, GUARD_OP_SCRIPT, guarded("k"));

	assert_float_equal(guard_fixture_entry(*state, "k")->until, GUARD_NOW + 5, 0.001);
	guard_op_sent(op, SLICE_LIT("worker-2"), 200.0);
	assert_float_equal(guard_fixture_entry(*state, "k")->until, 205.0, 0.001);
	assert_string_equal(op->ticket, "worker-2");
	guard_op_sent(op, SLICE_NONE, 300.0);
	assert_string_equal(op->ticket, "");
	end(op);
}
