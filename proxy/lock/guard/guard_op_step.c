/* SPDX-License-Identifier: BSD-3-Clause
 *
 * guard_op_step: a state machine: the phases of a guarded operation, and its next steps.
 * guard_op.h has the diagrams; guard_op.c writes the requests.
 */
#include "lock/guard/guard_op.h"

/* The result of an event in a phase. All zero (GUARD_STEP_NONE): the phase does not allow the
 * event. */
struct transition {
	uint8_t to; /* enum guard_op_phase, or NEXT */
	uint8_t step; /* enum guard_op_step */
};

/* Stands for ACQUIRE if hasp must acquire guards before the check, else for CHECK. */
#define GUARD_OP_NEXT GUARD_OP_PHASES

#define ON(phase, event) [GUARD_OP_##phase][GUARD_EVENT_##event]
/* clang-format off */
#define DO(to, step) { GUARD_OP_##to, GUARD_STEP_##step }
/* clang-format on */

/* (Optimistic operations start with TRY.) */
static const struct transition by_script[GUARD_OP_PHASES][GUARD_OP_EVENTS] = {
	ON(NEW, START) = DO(SCRIPTED, SEND_SCRIPT),
	ON(TRY, NOT_FREE) = DO(SCRIPTED, SEND_SCRIPT),
	ON(TRY, REPLY) = DO(DONE, FINISH),
	ON(SCRIPTED, NOSCRIPT) = DO(SCRIPTED, SEND_SCRIPT),
	ON(SCRIPTED, QUEUED) = DO(QUEUED, WAIT),
	ON(SCRIPTED, GRANTED) = DO(EXECUTE, SEND_COMMAND),
	ON(SCRIPTED, REPLY) = DO(DONE, FINISH),
	ON(SCRIPTED, TIMED_OUT) = DO(DONE, TIME_OUT),
	ON(QUEUED, RESUMED) = DO(SCRIPTED, SEND_SCRIPT),
	ON(QUEUED, TIMED_OUT) = DO(DONE, TIME_OUT),
	ON(EXECUTE, REPLY) = DO(DONE, FINISH),
	ON(EXECUTE, RESUMED) = DO(SCRIPTED, SEND_SCRIPT),
	ON(EXECUTE, UNACKED) = DO(DONE, ABORT),
};

/* (A transaction that Redis has aborted ends when its guards are granted. hasp gives up a
 * transaction whose guards change too often.) */
static const struct transition by_transaction[GUARD_OP_PHASES][GUARD_OP_EVENTS] = {
	ON(NEW, START) = DO(NEXT, SEND_NEXT),
	ON(ACQUIRE, NOSCRIPT) = DO(ACQUIRE, SEND_NEXT),
	ON(ACQUIRE, QUEUED) = DO(QUEUED, WAIT),
	ON(ACQUIRE, GRANTED) = DO(NEXT, SEND_NEXT),
	ON(ACQUIRE, REFUSED) = DO(DONE, ABORT),
	ON(CHECK, NOSCRIPT) = DO(CHECK, SEND_NEXT),
	ON(CHECK, QUEUED) = DO(QUEUED, WAIT),
	ON(CHECK, GRANTED) = DO(EXECUTE, SEND_EXEC),
	ON(CHECK, REFUSED) = DO(DONE, ABORT),
	ON(CHECK, UNACKED) = DO(DONE, ABORT),
	ON(QUEUED, RESUMED) = DO(NEXT, SEND_NEXT),
	ON(QUEUED, TIMED_OUT) = DO(DONE, TIME_OUT),
	ON(EXECUTE, CHANGED) = DO(NEXT, SEND_NEXT),
	ON(EXECUTE, REPLY) = DO(DONE, FINISH),
};

/* hasp sends the application's MULTI after the check, whatever the result. */
static const struct transition by_watch_multi[GUARD_OP_PHASES][GUARD_OP_EVENTS] = {
	ON(NEW, START) = DO(CHECK, SEND_NEXT),      ON(CHECK, NOSCRIPT) = DO(CHECK, SEND_NEXT),
	ON(CHECK, QUEUED) = DO(DONE, BEGIN_MULTI),  ON(CHECK, GRANTED) = DO(DONE, BEGIN_MULTI),
	ON(CHECK, REFUSED) = DO(DONE, BEGIN_MULTI),
};

/* Redis has watched the guards since before MULTI: if one has changed, EXEC answers nil. */
static const struct transition by_watch_exec[GUARD_OP_PHASES][GUARD_OP_EVENTS] = {
	ON(NEW, START) = DO(EXECUTE, SEND_EXEC),
	ON(EXECUTE, REPLY) = DO(DONE, FINISH),
};

static const struct transition (*const tables[])[GUARD_OP_EVENTS] = {
	[GUARD_OP_SCRIPT] = by_script,         [GUARD_OP_SINGLE] = by_transaction,
	[GUARD_OP_BLOCK] = by_transaction,     [GUARD_OP_WATCH_MULTI] = by_watch_multi,
	[GUARD_OP_WATCH_EXEC] = by_watch_exec,
};

static bool begins_optimistically(const struct guard_op *op, enum guard_op_event event)
{
	return event == GUARD_EVENT_START && op->kind == GUARD_OP_SCRIPT && op->optimistic;
}

/* True if Redis has refused to queue a command of the application's transaction: hasp runs none
 * of it. */
static bool is_aborted(const struct guard_op *op, enum guard_op_event event)
{
	return event == GUARD_EVENT_GRANTED && op->kind == GUARD_OP_BLOCK && op->aborted;
}

/* Counts a change of the guards. Returns true if they have changed too often. */
static bool gives_up(struct guard_op *op, enum guard_op_event event)
{
	return event == GUARD_EVENT_CHANGED && ++op->attempts >= GUARD_OP_ATTEMPTS;
}

static enum guard_op_phase next_phase(const struct guard_op *op)
{
	for (size_t i = 0; !op->acquired && i < op->n; i++)
		if (guard_op_acquires_first(op, i))
			return GUARD_OP_ACQUIRE;
	return GUARD_OP_CHECK;
}

enum guard_op_step guard_op_step(struct guard_op *op, enum guard_op_event event)
{
	struct transition t = tables[op->kind][op->phase][event];

	if (t.step == GUARD_STEP_NONE)
		return GUARD_STEP_NONE;
	if (begins_optimistically(op, event))
		t = (struct transition)DO(TRY, SEND_TRY);
	else if (is_aborted(op, event))
		t = (struct transition)DO(DONE, ABORT);
	else if (gives_up(op, event))
		t = (struct transition)DO(DONE, GIVE_UP);
	op->phase = t.to == GUARD_OP_NEXT ? next_phase(op) : (enum guard_op_phase)t.to;
	return (enum guard_op_step)t.step;
}

enum guard_op_event guard_op_event_of(struct slice line)
{
	if (slice_starts(line, SLICE_LIT("+QUEUED ")))
		return GUARD_EVENT_QUEUED;
	if (slice_starts(line, SLICE_LIT("+GRANTED")))
		return GUARD_EVENT_GRANTED;
	if (slice_starts(line, SLICE_LIT("-NOSCRIPT")))
		return GUARD_EVENT_NOSCRIPT;
	return GUARD_EVENT_REFUSED;
}
