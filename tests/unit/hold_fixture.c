/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/unit/hold_fixture.h"

#include <stdlib.h>

#include "tests/unit/fake_jobs.h"
#include "tests/unit/session_fixture.h"
#include "tests/unit/testing.h"

const struct rule rule_by_value = { .owner = OWNER_VALUE, .lease_ms = 30000 };
const struct rule rule_by_address = { .owner = OWNER_ADDRESS, .lease_ms = 30000 };
const struct rule rule_by_connection = { .owner = OWNER_CONNECTION,
	                                 .renew = RENEW_UNLEASED,
	                                 .lease_ms = 30000 };

static double stopped_clock(void *arg)
{
	(void)arg;
	return HOLD_NOW;
}

/* No test runs these timers. */
static struct timers timers;

struct holds *hold_table_new(void)
{
	timers = (struct timers){ .clock = stopped_clock };
	return holds_new(&timers, NULL);
}

void hold_table_free(struct holds *h)
{
	holds_free(h);
	assert_int_equal(timers.n, 0);
	timers_fini(&timers);
}

int hold_set_up(void **state)
{
	struct hold_fixture *f = calloc(1, sizeof(*f));

	f->holds = hold_table_new();
	hold_owner_init(&f->owner);
	session_init(&f->s);
	*state = f;
	return 0;
}

int hold_tear_down(void **state)
{
	struct hold_fixture *f = *state;

	hold_owner_end(&f->owner, false);
	session_fini(&f->s);
	hold_table_free(f->holds);
	fake_jobs_clear();
	free(f);
	return 0;
}

static void on_done(void *arg, struct pending_request *r, int db,
                    const struct resp_reply *reply, struct slice frame)
{
	struct hold_fixture *f = arg;

	(void)frame;
	if (r->lock_request)
		hold_apply(f->holds, &f->owner, r->lock_request, db, reply);
	r->lock_request = NULL;
}

void hold_answer(struct hold_fixture *f, struct pending_request *r, struct slice frame)
{
	struct reply_scan scan = scanned(frame);

	session_reply(&f->s, r, &scan.reply, frame, on_done, f);
}

static void undo(void *arg, struct pending_request *r, int db)
{
	(void)arg;
	lock_request_undo(r->lock_request, db);
	r->lock_request = NULL;
}

void hold_undo_awaited(struct hold_fixture *f)
{
	session_each_awaited(&f->s, undo, NULL);
}

static struct lock_request *pending_call(struct hold_fixture *f, const struct rule *rule,
                                         const struct lock_call *call)
{
	struct hold_terms terms = { .rule = rule, .token = SLICE_LIT("token") };

	return lock_request_new(f->holds, call, &call->key, 1, &terms);
}

struct lock_request *pending_take(struct hold_fixture *f, const struct rule *rule,
                                  const char *ticket)
{
	bool by_value = rule->owner == OWNER_VALUE;
	struct lock_call call = { .effect = LOCK_EFFECT_TAKES,
		                  .kind = by_value ? LOCK_KIND_VALUE : LOCK_KIND_RULE,
		                  .success = LOCK_IF_OK,
		                  .key = SLICE_LIT("lock"),
		                  .value = SLICE_LIT("v"),
		                  .lease_ms = 30000,
		                  .ticket = slice_str(ticket) };
	struct lock_request *p = pending_call(f, rule, &call);

	assert_non_null(p);
	return p;
}

static void free_rest(struct pending_request *r)
{
	lock_request_free(r->lock_request);
}

static size_t rest_nbytes(const struct pending_request *r)
{
	return r->lock_request ? lock_request_nbytes(r->lock_request) : 0;
}

static const struct pending_ops rest = { free_rest, rest_nbytes };

static struct pending_request *sent_lock(struct hold_fixture *f, struct lock_request *p)
{
	struct pending_request *r = pending_new(PENDING_LOCK);

	r->lock_request = p;
	r->rest = &rest;
	return sent(&f->s, r);
}

struct pending_request *sent_take(struct hold_fixture *f, const struct rule *rule,
                                  const char *ticket)
{
	return sent_lock(f, pending_take(f, rule, ticket));
}

struct pending_request *sent_call(struct hold_fixture *f, const struct rule *rule,
                                  const struct lock_call *call)
{
	return sent_lock(f, pending_call(f, rule, call));
}
