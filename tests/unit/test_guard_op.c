/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of operations on guarded keys: they go through their phases as the diagrams in
 * lock/guard/guard_op.h show; an event that does not belong to the phase changes nothing.
 */
#define TEST_FIXTURE struct guard_fixture *f

#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"
#include "tests/unit/guard_fixture.h"
#include "tests/unit/testing.h"

FIXTURE(guard_set_up, guard_tear_down);

/* Events, as letters of a path. */
static enum guard_op_event event_of(char letter)
{
	static const char letters[] = "SNGQRFACUTX";
	const char *at = strchr(letters, letter);

	assert_non_null(at);
	return (enum guard_op_event)(at - letters);
}

TEST(letters_name_each_event)
{
	static const char order[] = "SNGQRFACUTX";

	assert_int_equal(sizeof(order) - 1, GUARD_OP_EVENTS);
	assert_int_equal(event_of('S'), GUARD_EVENT_START);
	assert_int_equal(event_of('N'), GUARD_EVENT_NOSCRIPT);
	assert_int_equal(event_of('G'), GUARD_EVENT_GRANTED);
	assert_int_equal(event_of('Q'), GUARD_EVENT_QUEUED);
	assert_int_equal(event_of('R'), GUARD_EVENT_REFUSED);
	assert_int_equal(event_of('F'), GUARD_EVENT_NOT_FREE);
	assert_int_equal(event_of('A'), GUARD_EVENT_REPLY);
	assert_int_equal(event_of('C'), GUARD_EVENT_CHANGED);
	assert_int_equal(event_of('U'), GUARD_EVENT_RESUMED);
	assert_int_equal(event_of('T'), GUARD_EVENT_TIMED_OUT);
	assert_int_equal(event_of('X'), GUARD_EVENT_UNACKED);
}

/* The state after a path of events, and the only events that may follow. */
struct stop {
	const char *path;
	enum guard_op_phase phase;
	struct {
		char event;
		enum guard_op_step step;
		enum guard_op_phase next;
	} may[5];
};

typedef struct guard_op *make_fn(struct guard_fixture *f);

/* Runs a step as the exchange does, which stores a grant first. */
static enum guard_op_step step(struct guard_op *op, char event)
{
	if (event == 'G')
		guard_op_granted(op, SLICE_LIT("+GRANTED"));
	return guard_op_step(op, event_of(event));
}

static void follow(struct guard_op *op, const char *path)
{
	for (; *path; path++)
		assert_int_not_equal(step(op, *path), GUARD_STEP_NONE);
}

static void end(struct guard_op *op)
{
	guard_op_complete(op, GUARD_OP_FAILED);
	guard_op_free(op);
}

static void assert_is_refused(struct guard_op *op, char event)
{
	size_t n = sizeof(*op) + op->n * sizeof(*op->keys);
	char *before = xmemdup((const char *)op, n);

	assert_int_equal(guard_op_step(op, event_of(event)), GUARD_STEP_NONE);
	assert_memory_equal(op, before, n);
	free(before);
}

static void try_each_event(struct guard_fixture *f, make_fn *make, const struct stop *at)
{
	for (const char *event = "SNGQRFACUTX"; *event; event++) {
		struct guard_op *op = make(f);
		size_t i = 0;
		follow(op, at->path);
		assert_int_equal(op->phase, at->phase);
		while (i < 5 && at->may[i].event && at->may[i].event != *event)
			i++;
		if (i < 5 && at->may[i].event) {
			assert_int_equal(step(op, *event), at->may[i].step);
			assert_int_equal(op->phase, at->may[i].next);
		} else {
			assert_is_refused(op, *event);
		}
		end(op);
	}
}

static void try_each_stop(struct guard_fixture *f, make_fn *make, const struct stop *stops,
                          size_t n)
{
	for (size_t i = 0; i < n; i++)
		try_each_event(f, make, &stops[i]);
}
#define TRY_EACH(f, make, stops) try_each_stop(f, make, stops, sizeof(stops) / sizeof(*(stops)))

/* --- a command that a script carries out --------------------------------------------- */

#define SCRIPTED                                                                               \
	GUARD_OP_SCRIPTED,                                                                     \
	{                                                                                      \
		{ 'N', GUARD_STEP_SEND_SCRIPT, GUARD_OP_SCRIPTED },                            \
			{ 'G', GUARD_STEP_SEND_COMMAND, GUARD_OP_EXECUTE },                    \
			{ 'Q', GUARD_STEP_WAIT, GUARD_OP_QUEUED },                             \
			{ 'A', GUARD_STEP_FINISH, GUARD_OP_DONE },                             \
			{ 'T', GUARD_STEP_TIME_OUT, GUARD_OP_DONE },                           \
	}

static struct guard_op *make_script(struct guard_fixture *f)
{
	return guard_fixture_single(f, GUARD_OP_SCRIPT, guarded("k"));
}

TEST(a_script_s_way)
{
	static const struct stop stops[] = {
		{ "", GUARD_OP_NEW, { { 'S', GUARD_STEP_SEND_SCRIPT, GUARD_OP_SCRIPTED } } },
		{ "S", SCRIPTED },
		{ "SNN", SCRIPTED },
		{ "SQ",
		  GUARD_OP_QUEUED,
		  { { 'U', GUARD_STEP_SEND_SCRIPT, GUARD_OP_SCRIPTED },
		    { 'T', GUARD_STEP_TIME_OUT, GUARD_OP_DONE } } },
		{ "SQU", SCRIPTED },
		{ "SG",
		  GUARD_OP_EXECUTE,
		  { { 'A', GUARD_STEP_FINISH, GUARD_OP_DONE },
		    { 'U', GUARD_STEP_SEND_SCRIPT, GUARD_OP_SCRIPTED },
		    { 'X', GUARD_STEP_ABORT, GUARD_OP_DONE } } },
		{ "SA", GUARD_OP_DONE, { { 0 } } },
		{ "SGA", GUARD_OP_DONE, { { 0 } } },
		{ "SQT", GUARD_OP_DONE, { { 0 } } },
	};

	TRY_EACH(*state, make_script, stops);
}

static struct guard_op *make_optimistic(struct guard_fixture *f)
{
	struct guard_op *op = make_script(f);

	op->optimistic = true;
	return op;
}

TEST(an_optimistic_acquire_comes_before_the_script)
{
	static const struct stop stops[] = {
		{ "", GUARD_OP_NEW, { { 'S', GUARD_STEP_SEND_TRY, GUARD_OP_TRY } } },
		{ "S",
		  GUARD_OP_TRY,
		  { { 'F', GUARD_STEP_SEND_SCRIPT, GUARD_OP_SCRIPTED },
		    { 'A', GUARD_STEP_FINISH, GUARD_OP_DONE } } },
		{ "SF", SCRIPTED },
		{ "SA", GUARD_OP_DONE, { { 0 } } },
	};

	TRY_EACH(*state, make_optimistic, stops);
}

/* --- transactions of hasp's own ------------------------------------------------------ */

#define ACQUIRE                                                                                \
	GUARD_OP_ACQUIRE,                                                                      \
	{                                                                                      \
		{ 'N', GUARD_STEP_SEND_NEXT, GUARD_OP_ACQUIRE },                               \
			{ 'G', GUARD_STEP_SEND_NEXT, GUARD_OP_CHECK },                         \
			{ 'Q', GUARD_STEP_WAIT, GUARD_OP_QUEUED },                             \
			{ 'R', GUARD_STEP_ABORT, GUARD_OP_DONE },                              \
	}
#define CHECK                                                                                  \
	GUARD_OP_CHECK,                                                                        \
	{                                                                                      \
		{ 'N', GUARD_STEP_SEND_NEXT, GUARD_OP_CHECK },                                 \
			{ 'G', GUARD_STEP_SEND_EXEC, GUARD_OP_EXECUTE },                       \
			{ 'Q', GUARD_STEP_WAIT, GUARD_OP_QUEUED },                             \
			{ 'R', GUARD_STEP_ABORT, GUARD_OP_DONE },                              \
			{ 'X', GUARD_STEP_ABORT, GUARD_OP_DONE },                              \
	}
#define QUEUED_FOR(next)                                                                       \
	GUARD_OP_QUEUED,                                                                       \
	{                                                                                      \
		{ 'U', GUARD_STEP_SEND_NEXT, next },                                           \
			{ 'T', GUARD_STEP_TIME_OUT, GUARD_OP_DONE },                           \
	}
#define EXECUTE                                                                                \
	GUARD_OP_EXECUTE,                                                                      \
	{                                                                                      \
		{ 'C', GUARD_STEP_SEND_NEXT, GUARD_OP_CHECK },                                 \
			{ 'A', GUARD_STEP_FINISH, GUARD_OP_DONE },                             \
	}
#define DONE                                                                                   \
	GUARD_OP_DONE,                                                                         \
	{                                                                                      \
		{                                                                              \
			0                                                                      \
		}                                                                              \
	}

static const struct stop check_first[] = {
	{ "", GUARD_OP_NEW, { { 'S', GUARD_STEP_SEND_NEXT, GUARD_OP_CHECK } } },
	{ "S", CHECK },
	{ "SN", CHECK },
	{ "SQ", QUEUED_FOR(GUARD_OP_CHECK) },
	{ "SQU", CHECK },
	{ "SG", EXECUTE },
	{ "SGC", CHECK },
	{ "SGCG", EXECUTE },
	{ "SGA", DONE },
	{ "SR", DONE },
	{ "SQT", DONE },
};

static const struct stop acquire_first[] = {
	{ "", GUARD_OP_NEW, { { 'S', GUARD_STEP_SEND_NEXT, GUARD_OP_ACQUIRE } } },
	{ "S", ACQUIRE },
	{ "SN", ACQUIRE },
	{ "SQ", QUEUED_FOR(GUARD_OP_ACQUIRE) },
	{ "SQU", ACQUIRE },
	{ "SG", CHECK },
	{ "SGN", CHECK },
	{ "SGQ", QUEUED_FOR(GUARD_OP_CHECK) },
	{ "SGG", EXECUTE },
	{ "SGGC", CHECK },
	{ "SGGA", DONE },
	{ "SR", DONE },
	{ "SGR", DONE },
	{ "SQT", DONE },
};

static struct guard_op *make_single(struct guard_fixture *f)
{
	return guard_fixture_single(f, GUARD_OP_SINGLE, guarded("k"));
}

TEST(a_single_command_that_only_writes_is_checked_and_executed)
{
	TRY_EACH(*state, make_single, check_first);
}

static struct guard_op *make_acquiring_single(struct guard_fixture *f)
{
	struct guarded_key key = guarded("k");

	key.acquires = true;
	return guard_fixture_single(f, GUARD_OP_SINGLE, key);
}

TEST(a_single_command_that_reads_acquires_first)
{
	TRY_EACH(*state, make_acquiring_single, acquire_first);
}

static struct guard_op *make_block(struct guard_fixture *f)
{
	return guard_fixture_single(f, GUARD_OP_BLOCK, guarded("k"));
}

TEST(a_block_acquires_what_it_has_not_read)
{
	TRY_EACH(*state, make_block, acquire_first);
}

static struct guard_op *make_block_of_read(struct guard_fixture *f)
{
	guard_fixture_read(f, guarded("k"));
	return make_block(f);
}

TEST(a_block_checks_what_it_has_read)
{
	TRY_EACH(*state, make_block_of_read, check_first);
}

static struct guard_op *make_aborted(struct guard_fixture *f)
{
	struct guard_op *op = make_block_of_read(f);

	op->aborted = true;
	return op;
}

TEST(an_aborted_block_is_not_executed)
{
	static const struct stop stops[] = {
		{ "S",
		  GUARD_OP_CHECK,
		  { { 'N', GUARD_STEP_SEND_NEXT, GUARD_OP_CHECK },
		    { 'G', GUARD_STEP_ABORT, GUARD_OP_DONE },
		    { 'Q', GUARD_STEP_WAIT, GUARD_OP_QUEUED },
		    { 'R', GUARD_STEP_ABORT, GUARD_OP_DONE },
		    { 'X', GUARD_STEP_ABORT, GUARD_OP_DONE } } },
	};

	TRY_EACH(*state, make_aborted, stops);
}

TEST(a_guard_that_changes_again_and_again_is_given_up)
{
	struct guard_op *op = make_single(*state);

	follow(op, "SG");
	for (int i = 1; i < GUARD_OP_ATTEMPTS; i++) {
		assert_int_equal(step(op, 'C'), GUARD_STEP_SEND_NEXT);
		follow(op, "G");
	}
	assert_int_equal(step(op, 'C'), GUARD_STEP_GIVE_UP);
	assert_int_equal(op->phase, GUARD_OP_DONE);
	end(op);
}

/* --- around the application's own WATCH ---------------------------------------------- */

static struct guard_op *make_watch_multi(struct guard_fixture *f)
{
	return guard_fixture_single(f, GUARD_OP_WATCH_MULTI, guarded("k"));
}

TEST(multi_follows_whatever_the_check_says)
{
	static const struct stop stops[] = {
		{ "", GUARD_OP_NEW, { { 'S', GUARD_STEP_SEND_NEXT, GUARD_OP_CHECK } } },
		{ "S",
		  GUARD_OP_CHECK,
		  { { 'N', GUARD_STEP_SEND_NEXT, GUARD_OP_CHECK },
		    { 'G', GUARD_STEP_BEGIN_MULTI, GUARD_OP_DONE },
		    { 'Q', GUARD_STEP_BEGIN_MULTI, GUARD_OP_DONE },
		    { 'R', GUARD_STEP_BEGIN_MULTI, GUARD_OP_DONE } } },
		{ "SG", DONE },
		{ "SR", DONE },
	};

	TRY_EACH(*state, make_watch_multi, stops);
}

static struct guard_op *make_watch_exec(struct guard_fixture *f)
{
	return guard_fixture_single(f, GUARD_OP_WATCH_EXEC, guarded("k"));
}

TEST(the_application_s_exec_is_sent_once)
{
	static const struct stop stops[] = {
		{ "", GUARD_OP_NEW, { { 'S', GUARD_STEP_SEND_EXEC, GUARD_OP_EXECUTE } } },
		{ "S", GUARD_OP_EXECUTE, { { 'A', GUARD_STEP_FINISH, GUARD_OP_DONE } } },
		{ "SA", DONE },
	};

	TRY_EACH(*state, make_watch_exec, stops);
}

/* --- which event a line is ----------------------------------------------------------- */

TEST(a_line_of_the_scripts_is_an_event)
{
	assert_int_equal(guard_op_event_of(SLICE_LIT("+QUEUED 1 2 3\r\n")), GUARD_EVENT_QUEUED);
	assert_int_equal(guard_op_event_of(SLICE_LIT("+GRANTED\r\n")), GUARD_EVENT_GRANTED);
	assert_int_equal(guard_op_event_of(SLICE_LIT("+GRANTED anew\r\n")),
	                 GUARD_EVENT_GRANTED);
	assert_int_equal(guard_op_event_of(SLICE_LIT("-NOSCRIPT No matching script.\r\n")),
	                 GUARD_EVENT_NOSCRIPT);
	assert_int_equal(guard_op_event_of(SLICE_LIT("-LOCKED 'k' is guarded\r\n")),
	                 GUARD_EVENT_REFUSED);
	assert_int_equal(guard_op_event_of(SLICE_LIT("+OK\r\n")), GUARD_EVENT_REFUSED);
}
