/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of client/guard_steps.c: the action that follows from an answer to a command on guarded
 * keys, and the first request.
 */

#define TEST_FIXTURE struct guard_fixture *f

#include "client/op.h"
#include "tests/unit/guard_fixture.h"
#include "tests/unit/testing.h"
#include "upstream/link.h"

FIXTURE(guard_set_up, guard_tear_down);

/* Output of the last step. */
static struct op_out out;

static struct pending_request *request_of(struct guard_op *op)
{
	static struct pending_request r;

	r = (struct pending_request){ .kind = PENDING_GUARD, .guard_op = op };
	return &r;
}

static struct op_facts facts_about(struct guard_op *op)
{
	buf_release(&out.send.bytes);
	buf_release(&out.own);
	out = (struct op_out){ 0 };
	return (struct op_facts){ .request = request_of(op),
		                  .db = 2,
		                  .has_link = true,
		                  .now = GUARD_NOW,
		                  .bytes = SLICE_LIT("the command"),
		                  .out = &out };
}

static struct op_action step(struct guard_op *op, const struct op_event *e)
{
	struct op_facts f = facts_about(op);

	return guard_steps_step(&f, e);
}

static struct op_action step_line(struct guard_op *op, const char *line)
{
	return step(op, &(struct op_event){ .kind = OP_LINE, .line = slice_str(line) });
}

static enum op_act reply(struct guard_op *op, struct resp_reply r)
{
	return guard_steps_reply(op, &r, SLICE_NONE);
}

/* Begins a GET of a guarded key. */
static struct guard_op *reading(struct guard_fixture *f)
{
	struct guarded_key key = guarded("k");

	key.acquires = true;
	return guard_fixture_single(f, GUARD_OP_SCRIPT, key);
}

static void end(struct guard_op *op)
{
	struct op_facts f = facts_about(op);

	(void)f;
	guard_op_free(op);
}

static void send_optimistic(struct guard_op *op)
{
	struct slice argv[] = { SLICE_LIT("GET"), SLICE_LIT("k") };
	struct resp_view view = { 2, argv };
	struct rewrite_opts opts = { .ticket = SLICE_LIT(GUARD_TICKET) };
	struct buf call = BUF_INIT;
	struct op_request request = { .req = &view, .opts = &opts, .out = &call };
	struct op_facts f = facts_about(op);

	op->optimistic = true;
	guard_steps_send(&f, &request);
	assert_true(out.send.more.n > 0 && out.send.is_call);
	assert_int_equal(out.send.nunseen, 2);
	assert_int_equal(out.send.unseen, LINK_DISCARD | LINK_NOTIFY);
	assert_int_equal(out.send.flags, LINK_NOTIFY | LINK_INTERCEPT);
	buf_release(&call);
}

TEST(a_guard_that_is_free_is_read_by_three_commands)
{
	struct guard_op *op = reading(*state);

	send_optimistic(op);
	assert_int_equal(reply(op, reply_integer(0)), OP_AWAIT);
	assert_int_equal(reply(op, reply_of_type('+')), OP_AWAIT);
	assert_int_equal(reply(op, reply_of_type('$')), OP_DONE);
	assert_int_equal(op->phase, GUARD_OP_DONE);
	end(op);
}

TEST(if_the_guard_is_not_free_the_script_follows_and_the_reply_is_discarded)
{
	struct guard_op *op = reading(*state);
	struct op_action a;

	send_optimistic(op);
	assert_int_equal(reply(op, reply_integer(0)), OP_AWAIT);
	assert_int_equal(reply(op, reply_of_type('$')), OP_AGAIN);
	a = step(op, &(struct op_event){ .kind = OP_NOT_FREE });
	assert_int_equal(a.act, OP_AGAIN);
	assert_true(a.drops_head);
	assert_int_equal(out.send.ndiscards, 0);
	guard_op_complete(op, GUARD_OP_FAILED);
	end(op);
}

/* Other clients wait for the guard that hasp has acquired: hasp releases it first. */
TEST(a_guard_that_others_wait_for_is_released_before_the_script)
{
	struct guard_op *op = reading(*state);
	struct op_action a;

	send_optimistic(op);
	assert_int_equal(reply(op, reply_integer(1)), OP_AWAIT);
	assert_int_equal(reply(op, reply_of_type('+')), OP_AGAIN);
	a = step(op, &(struct op_event){ .kind = OP_NOT_FREE });
	assert_int_equal(a.act, OP_AGAIN);
	assert_int_equal(out.send.ndiscards, 1);
	assert_true(buf_len(&out.send.bytes) > 0);
	guard_op_complete(op, GUARD_OP_FAILED);
	end(op);
}

static struct guard_op *scripted(struct guard_fixture *f)
{
	struct guard_op *op = reading(f);

	assert_int_equal(guard_op_step(op, GUARD_EVENT_START), GUARD_STEP_SEND_SCRIPT);
	guard_op_sent(op, SLICE_LIT(GUARD_TICKET), GUARD_NOW);
	return op;
}

TEST(a_command_that_redis_has_queued_waits_in_line)
{
	struct guard_op *op = scripted(*state);
	struct op_action a;

	assert_true(guard_steps_may_be_withdrawn(op));
	a = step_line(op, "+QUEUED 1 2 other 1\r\n");
	assert_int_equal(a.act, OP_WAIT);
	assert_false(guard_steps_may_be_withdrawn(op));
	assert_true(slice_eq(out.lock.ticket, SLICE_LIT(GUARD_TICKET)));
	assert_int_equal(out.lock.lease_ms, GUARD_LEASE_MS);
	assert_int_equal(out.wait_ms, GUARD_WAIT_MS);
	assert_true(out.sent_at == GUARD_NOW);
	assert_int_equal(op->phase, GUARD_OP_QUEUED);
	/* After the grant, the script runs again. */
	assert_int_equal(step(op, &(struct op_event){ .kind = OP_GRANTED }).act, OP_AGAIN);
	guard_op_complete(op, GUARD_OP_FAILED);
	end(op);
}

TEST(a_line_that_names_no_key_closes_the_client)
{
	struct guard_op *op = scripted(*state);

	assert_int_equal(step_line(op, "+QUEUED 1 2 other 7\r\n").act, OP_CLOSE);
	guard_op_complete(op, GUARD_OP_FAILED);
	end(op);
}

TEST(too_few_replicas_release_the_guard_and_are_an_error)
{
	struct guard_op *op = reading(*state);
	struct op_action a;

	op->script = GUARD_OP_READ_APART;
	op->replicas = 2;
	op->replicas_timeout_ms = 500;
	assert_int_equal(guard_op_step(op, GUARD_EVENT_START), GUARD_STEP_SEND_SCRIPT);
	a = step_line(op, "+GRANTED anew\r\n");
	assert_int_equal(a.act, OP_ASK_REPLICAS);
	assert_int_equal(out.terms.replicas, 2);
	assert_int_equal(out.terms.timeout_ms, 500);
	a = step(op, &(struct op_event){ .kind = OP_ACKED });
	assert_int_equal(a.act, OP_DONE);
	assert_true(slice_eq(a.answer, SLICE_LIT(OP_NOREPLICAS)));
	assert_int_equal(out.send.ndiscards, 1);
	end(op);
}

TEST(with_its_guards_the_command_goes_out_as_it_came)
{
	struct guard_op *op = reading(*state);
	struct op_action a;

	op->script = GUARD_OP_READ_APART;
	assert_int_equal(guard_op_step(op, GUARD_EVENT_START), GUARD_STEP_SEND_SCRIPT);
	a = step_line(op, "+GRANTED anew\r\n");
	assert_int_equal(a.act, OP_AWAIT);
	assert_true(slice_eq(out.send.more, SLICE_LIT("the command")));
	assert_false(out.send.is_call);
	assert_int_equal(reply(op, reply_of_type('$')), OP_DONE);
	end(op);
}

TEST(an_error_is_passed_and_the_guard_released)
{
	struct guard_op *op = scripted(*state);
	struct resp_reply error = reply_of_type('-');
	struct op_action a;

	assert_true(guard_steps_passes(op, SLICE_LIT("+OK\r\n")));
	assert_false(guard_steps_passes(op, SLICE_LIT("+QUEUED 1 2 other 1\r\n")));
	assert_false(guard_steps_passes(op, SLICE_LIT("-WRONGTYPE ...\r\n")));
	assert_int_equal(step_line(op, "-WRONGTYPE ...\r\n").act, OP_PASS);
	assert_int_equal(reply(op, error), OP_PASS);
	op->acquired = true;
	a = step(op, &(struct op_event){ .kind = OP_REPLY, .reply = &error });
	assert_int_equal(a.act, OP_DONE);
	assert_int_equal(a.answer.n, 0);
	assert_int_equal(out.send.ndiscards, 1);
	assert_int_equal(op->phase, GUARD_OP_DONE);
	end(op);
}
