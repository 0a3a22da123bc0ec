/* SPDX-License-Identifier: BSD-3-Clause
 *
 * guard_op_step: the phases of a guarded operation: which may follow which, and what is to be
 * done next. guard_op.h has the diagrams. What is sent, and what an answer does to the keys, is
 * in guard_op.c.
 */
#include "base/fatal.h"
#include "lock/guard/guard_op_internal.h"

#define TO(phase) (1u << GUARD_OP_##phase)
static const unsigned allowed[GUARD_OP_PHASES] = {
	[GUARD_OP_NEW] = TO(TRY) | TO(SCRIPTED) | TO(ACQUIRE) | TO(CHECK) | TO(EXECUTE),
	[GUARD_OP_TRY] = TO(SCRIPTED) | TO(DONE),
	[GUARD_OP_SCRIPTED] = TO(SCRIPTED) | TO(QUEUED) | TO(EXECUTE) | TO(DONE),
	[GUARD_OP_ACQUIRE] = TO(ACQUIRE) | TO(CHECK) | TO(QUEUED) | TO(DONE),
	[GUARD_OP_CHECK] = TO(CHECK) | TO(QUEUED) | TO(EXECUTE) | TO(DONE),
	[GUARD_OP_QUEUED] = TO(SCRIPTED) | TO(ACQUIRE) | TO(CHECK) | TO(DONE),
	[GUARD_OP_EXECUTE] = TO(ACQUIRE) | TO(CHECK) | TO(HAND_OFF) | TO(DONE),
	[GUARD_OP_HAND_OFF] = TO(DONE),
	[GUARD_OP_DONE] = 0,
};

static enum guard_op_step enter(struct guard_op *op, enum guard_op_phase phase,
                                enum guard_op_step step)
{
	HASP_ASSERT(allowed[op->phase] & (1u << phase));
	op->phase = phase;
	return step;
}

static enum guard_op_step enter_next(struct guard_op *op)
{
	bool acquires = false;

	for (size_t i = 0; !op->acquired && i < op->n; i++)
		acquires |= guard_op_acquires_first(op, i);
	return enter(op, acquires ? GUARD_OP_ACQUIRE : GUARD_OP_CHECK, GUARD_STEP_SEND_NEXT);
}

static enum guard_op_step step_script(struct guard_op *op, enum guard_op_event event)
{
	switch (event) {
	case GUARD_EVENT_START:
		if (op->phase != GUARD_OP_NEW)
			return GUARD_STEP_NONE;
		return op->optimistic ? enter(op, GUARD_OP_TRY, GUARD_STEP_SEND_TRY)
		                      : enter(op, GUARD_OP_SCRIPTED, GUARD_STEP_SEND_SCRIPT);
	case GUARD_EVENT_NOT_FREE:
		if (op->phase != GUARD_OP_TRY)
			return GUARD_STEP_NONE;
		return enter(op, GUARD_OP_SCRIPTED, GUARD_STEP_SEND_SCRIPT);
	case GUARD_EVENT_NOSCRIPT:
		if (op->phase != GUARD_OP_SCRIPTED)
			return GUARD_STEP_NONE;
		return enter(op, GUARD_OP_SCRIPTED, GUARD_STEP_SEND_SCRIPT);
	case GUARD_EVENT_GRANTED:
		if (op->phase != GUARD_OP_SCRIPTED)
			return GUARD_STEP_NONE;
		return enter(op, GUARD_OP_EXECUTE, GUARD_STEP_SEND_COMMAND);
	case GUARD_EVENT_QUEUED:
		if (op->phase != GUARD_OP_SCRIPTED)
			return GUARD_STEP_NONE;
		return enter(op, GUARD_OP_QUEUED, GUARD_STEP_WAIT);
	case GUARD_EVENT_RESUMED:
		if (op->phase != GUARD_OP_QUEUED)
			return GUARD_STEP_NONE;
		return enter(op, GUARD_OP_SCRIPTED, GUARD_STEP_SEND_SCRIPT);
	case GUARD_EVENT_TIMED_OUT:
		if (op->phase != GUARD_OP_QUEUED)
			return GUARD_STEP_NONE;
		return enter(op, GUARD_OP_DONE, GUARD_STEP_TIME_OUT);
	case GUARD_EVENT_REPLY:
		if (op->phase != GUARD_OP_TRY && op->phase != GUARD_OP_SCRIPTED &&
		    op->phase != GUARD_OP_EXECUTE)
			return GUARD_STEP_NONE;
		return enter(op, GUARD_OP_DONE, GUARD_STEP_FINISH);
	case GUARD_EVENT_REFUSED:
	case GUARD_EVENT_CHANGED:
	case GUARD_EVENT_RELEASED:
		break;
	}
	return GUARD_STEP_NONE;
}

static bool is_checking(const struct guard_op *op)
{
	return op->phase == GUARD_OP_ACQUIRE || op->phase == GUARD_OP_CHECK;
}

static enum guard_op_step step_granted(struct guard_op *op)
{
	if (op->aborted)
		return enter(op, GUARD_OP_DONE, GUARD_STEP_ABORT);
	if (op->phase == GUARD_OP_ACQUIRE)
		return enter_next(op);
	return enter(op, GUARD_OP_EXECUTE, GUARD_STEP_SEND_EXEC);
}

/* EXEC was answered, by nil: a guard changed since it was checked. */
static enum guard_op_step step_changed(struct guard_op *op)
{
	if (++op->attempts < GUARD_OP_ATTEMPTS)
		return enter_next(op);
	return enter(op, GUARD_OP_DONE, GUARD_STEP_GIVE_UP);
}

static enum guard_op_step step_transaction(struct guard_op *op, enum guard_op_event event)
{
	switch (event) {
	case GUARD_EVENT_START:
		return op->phase == GUARD_OP_NEW ? enter_next(op) : GUARD_STEP_NONE;
	case GUARD_EVENT_NOSCRIPT:
		return is_checking(op) ? enter(op, op->phase, GUARD_STEP_SEND_NEXT)
		                       : GUARD_STEP_NONE;
	case GUARD_EVENT_GRANTED:
		return is_checking(op) ? step_granted(op) : GUARD_STEP_NONE;
	case GUARD_EVENT_QUEUED:
		return is_checking(op) ? enter(op, GUARD_OP_QUEUED, GUARD_STEP_WAIT)
		                       : GUARD_STEP_NONE;
	case GUARD_EVENT_REFUSED:
		return is_checking(op) ? enter(op, GUARD_OP_DONE, GUARD_STEP_ABORT)
		                       : GUARD_STEP_NONE;
	case GUARD_EVENT_RESUMED:
		return op->phase == GUARD_OP_QUEUED ? enter_next(op) : GUARD_STEP_NONE;
	case GUARD_EVENT_TIMED_OUT:
		return op->phase == GUARD_OP_QUEUED
		               ? enter(op, GUARD_OP_DONE, GUARD_STEP_TIME_OUT)
		               : GUARD_STEP_NONE;
	case GUARD_EVENT_CHANGED:
		return op->phase == GUARD_OP_EXECUTE ? step_changed(op) : GUARD_STEP_NONE;
	case GUARD_EVENT_REPLY:
		return op->phase == GUARD_OP_EXECUTE
		               ? enter(op, GUARD_OP_HAND_OFF, GUARD_STEP_FINISH)
		               : GUARD_STEP_NONE;
	case GUARD_EVENT_RELEASED:
		return op->phase == GUARD_OP_HAND_OFF
		               ? enter(op, GUARD_OP_DONE, GUARD_STEP_ANSWER)
		               : GUARD_STEP_NONE;
	case GUARD_EVENT_NOT_FREE:
		break;
	}
	return GUARD_STEP_NONE;
}

/* Whatever the check says, the application's MULTI is sent behind it. */
static enum guard_op_step step_watch_multi(struct guard_op *op, enum guard_op_event event)
{
	switch (event) {
	case GUARD_EVENT_START:
		return op->phase == GUARD_OP_NEW ? enter_next(op) : GUARD_STEP_NONE;
	case GUARD_EVENT_NOSCRIPT:
		return op->phase == GUARD_OP_CHECK
		               ? enter(op, GUARD_OP_CHECK, GUARD_STEP_SEND_NEXT)
		               : GUARD_STEP_NONE;
	case GUARD_EVENT_GRANTED:
	case GUARD_EVENT_QUEUED:
	case GUARD_EVENT_REFUSED:
		return op->phase == GUARD_OP_CHECK
		               ? enter(op, GUARD_OP_DONE, GUARD_STEP_BEGIN_MULTI)
		               : GUARD_STEP_NONE;
	default:
		return GUARD_STEP_NONE;
	}
}

/* The guards are watched since before MULTI: a nil is EXEC's answer. */
static enum guard_op_step step_watch_exec(struct guard_op *op, enum guard_op_event event)
{
	if (op->phase == GUARD_OP_NEW && event == GUARD_EVENT_START)
		return enter(op, GUARD_OP_EXECUTE, GUARD_STEP_SEND_EXEC);
	if (op->phase == GUARD_OP_EXECUTE && event == GUARD_EVENT_REPLY)
		return enter(op, GUARD_OP_HAND_OFF, GUARD_STEP_FINISH);
	if (op->phase == GUARD_OP_HAND_OFF && event == GUARD_EVENT_RELEASED)
		return enter(op, GUARD_OP_DONE, GUARD_STEP_ANSWER);
	return GUARD_STEP_NONE;
}

enum guard_op_step guard_op_step(struct guard_op *op, enum guard_op_event event)
{
	switch (op->kind) {
	case GUARD_OP_SCRIPT:
		return step_script(op, event);
	case GUARD_OP_SINGLE:
	case GUARD_OP_BLOCK:
		return step_transaction(op, event);
	case GUARD_OP_WATCH_MULTI:
		return step_watch_multi(op, event);
	case GUARD_OP_WATCH_EXEC:
		return step_watch_exec(op, event);
	}
	return GUARD_STEP_NONE;
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
