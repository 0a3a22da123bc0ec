/* SPDX-License-Identifier: BSD-3-Clause
 *
 * hold_fixture: a table of holds whose scripts are fake_jobs, and a connection that takes locks
 * and has a session.
 */
#ifndef HASP_TESTS_UNIT_HOLD_FIXTURE_H
#define HASP_TESTS_UNIT_HOLD_FIXTURE_H

#include "lock/hold/holds.h"
#include "session/session.h"

/* The time of all events. */
#define HOLD_NOW 100.0

struct holds *hold_table_new(void);
void hold_table_free(struct holds *h);

struct hold_fixture {
	struct holds *holds;
	struct hold_owner owner;
	struct session s;
};

/* *state is a hold_fixture. */
int hold_set_up(void **state);
int hold_tear_down(void **state);

/* Redis answers: applies the reply to the holds, as client/complete.c does. */
void hold_answer(struct hold_fixture *f, struct pending_request *r, struct slice frame);
#define HOLD_ANSWER(f, r, literal) hold_answer(f, r, SLICE_LIT(literal))
/* The connection ends: undoes calls without a reply, as client/client.c does. */
void hold_undo_awaited(struct hold_fixture *f);

/* The rules of the tests. */
extern const struct rule rule_by_value, rule_by_address, rule_by_connection;

/* The request of a call that takes the lock "lock" under `rule` if the reply is +OK. */
struct lock_request *pending_take(struct hold_fixture *f, const struct rule *rule,
                                  const char *ticket);
/* As pending_take(), and sends the call. */
struct pending_request *sent_take(struct hold_fixture *f, const struct rule *rule,
                                  const char *ticket);
/* As sent_take(), for the call `call`. */
struct pending_request *sent_call(struct hold_fixture *f, const struct rule *rule,
                                  const struct lock_call *call);

#endif
