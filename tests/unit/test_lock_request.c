/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of the record of a lock's call until its reply, and of the undo if the reply never
 * comes.
 */
#define TEST_FIXTURE struct hold_fixture *f

#include <math.h>

#include "lock/hold/hold_internal.h"
#include "tests/unit/fake_jobs.h"
#include "tests/unit/hold_fixture.h"
#include "tests/unit/session_fixture.h"
#include "tests/unit/testing.h"

FIXTURE(hold_set_up, hold_tear_down);

/* --- what is kept -------------------------------------------------------------------- */

static struct lock_request *pending_of(struct hold_fixture *f, struct lock_call call,
                                       size_t nkeys)
{
	struct hold_terms terms = { .rule = &rule_by_connection, .token = SLICE_LIT("token") };
	struct slice key = SLICE_LIT("lock");

	return lock_request_new(f->holds, &call, &key, nkeys, &terms);
}

TEST(a_call_that_cannot_change_a_hold_is_not_kept)
{
	struct lock_call none = { .effect = LOCK_EFFECT_NONE };
	struct lock_call takes = { .effect = LOCK_EFFECT_TAKES };
	struct lock_call drops = { .effect = LOCK_EFFECT_DROPS };
	struct lock_call expires = { .effect = LOCK_EFFECT_EXPIRES };

	assert_null(pending_of(f, none, 1));
	assert_null(pending_of(f, takes, 0));
	assert_null(pending_of(f, drops, 1));
	assert_null(pending_of(f, expires, 1));
}

/* A release may follow the request that takes the lock, and be answered after it. */
TEST(a_release_is_kept_while_a_take_is_awaited_or_a_lock_is_held)
{
	struct lock_call drops = { .effect = LOCK_EFFECT_DROPS };
	struct pending_request *r = sent_take(f, &rule_by_connection, "worker-1");
	struct lock_request *p = pending_of(f, drops, 1);

	assert_non_null(p);
	lock_request_free(p);
	HOLD_ANSWER(f, r, "+OK\r\n");
	assert_int_equal(f->owner.n, 1);
	p = pending_of(f, drops, 1);
	assert_non_null(p);
	lock_request_free(p);
	hold_owner_end(&f->owner, true);
	assert_null(pending_of(f, drops, 1));
}

TEST(what_a_try_wants_is_kept)
{
	struct lock_request *p = pending_take(f, &rule_by_address, "worker-1");
	struct attempt t = lock_request_attempt(p);

	assert_int_equal(t.lease_ms, 30000);
	assert_int_equal(t.id.kind, LOCK_KIND_RULE);
	assert_true(slice_eq(t.id.key, SLICE_LIT("lock")));
	assert_true(slice_eq(t.id.token, SLICE_LIT("token")));
	assert_int_equal(t.value.n, 0);
	assert_true(slice_eq(t.ticket, SLICE_LIT("worker-1")));
	assert_int_equal(t.place, 0);
	assert_int_equal(p->success, LOCK_IF_OK);
	lock_request_free(p);
}

TEST(with_owner_value_the_value_is_the_token)
{
	struct lock_request *p = pending_take(f, &rule_by_value, "worker-1");

	assert_true(slice_eq(lock_request_attempt(p).id.token, SLICE_LIT("v")));
	assert_true(slice_eq(lock_request_attempt(p).value, SLICE_LIT("v")));
	lock_request_free(p);
}

/* Begins an MLOCK of three locks. */
static struct lock_request *pending_mlock(struct hold_fixture *f)
{
	struct lock_call call = { .script = SCRIPT_MLOCK,
		                  .effect = LOCK_EFFECT_TAKES,
		                  .success = LOCK_IF_POSITIVE,
		                  .kind = LOCK_KIND_COUNT,
		                  .lease_ms = 60000,
		                  .ticket = SLICE_LIT("worker-1") };
	struct slice keys[] = { SLICE_LIT("a"), SLICE_LIT("b"), SLICE_LIT("c") };
	struct verbs verbs = { .lease_ms = 30000 };
	struct hold_terms terms = { .verbs = &verbs, .token = SLICE_LIT("token") };

	return lock_request_new(f->holds, &call, keys, 3, &terms);
}

static struct lock_request *request_of(struct hold_fixture *f, const struct lock_call *call,
                                       const struct hold_terms *terms)
{
	struct slice key = SLICE_LIT("lock");
	struct lock_request *p = lock_request_new(f->holds, call, &key, 1, terms);

	assert_non_null(p);
	return p;
}

TEST(a_verb_s_lock_is_of_the_verbs_kind_unless_the_call_names_one)
{
	static const struct {
		enum reentrant_mode reentrant;
		enum lock_kind of_call, kind;
	} rows[] = {
		{ REENTRANT_COUNT, 0, LOCK_KIND_COUNT },
		{ REENTRANT_NO, 0, LOCK_KIND_TOKEN },
		{ REENTRANT_COUNT, LOCK_KIND_LIMIT, LOCK_KIND_LIMIT },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct verbs verbs = { .reentrant = rows[i].reentrant, .lease_ms = 30000 };
		struct lock_call call = { .effect = LOCK_EFFECT_TAKES,
			                  .kind = rows[i].of_call,
			                  .limit = 7 };
		struct lock_request *p = request_of(f, &call,
		                                    &(struct hold_terms){ .verbs = &verbs });

		assert_int_equal(p->kind, rows[i].kind);
		assert_int_equal(lock_request_attempt(p).limit, 7);
		lock_request_free(p);
	}
}

TEST(the_application_s_expiry_ends_the_lock)
{
	static const struct {
		struct lock_call call;
		int64_t max_lease_ms, ends_ms;
		enum lock_effect effect;
	} rows[] = {
		{ { .lease_ms = 7000 }, 0, 0, LOCK_EFFECT_TAKES },
		{ { .leased = true, .lease_ms = 7000 }, 0, 7000, LOCK_EFFECT_TAKES },
		{ { .leased = true, .lease_ms = 1 }, 0, 1, LOCK_EFFECT_TAKES },
		{ { .leased = true, .lease_ms = 7000 }, 7000, 7000, LOCK_EFFECT_TAKES },
		{ { .leased = true, .lease_ms = 7000 }, 6999, 6999, LOCK_EFFECT_TAKES },
		{ { .leased = true, .until_ms = 1001 }, 0, 1, LOCK_EFFECT_TAKES },
		{ { .leased = true, .until_ms = 1000 }, 0, -1, LOCK_EFFECT_TAKES },
		{ { .leased = true, .until_ms = 999 }, 0, -1, LOCK_EFFECT_TAKES },
		{ { .leased = true, .until_ms = 9000 }, 600, 600, LOCK_EFFECT_TAKES },
		{ { .leased = true, .lease_ms = -1 }, 0, -1, LOCK_EFFECT_DROPS },
		{ { .leased = true, .until_ms = 1000 }, 0, -1, LOCK_EFFECT_DROPS },
		{ { .leased = true, .lease_ms = 0 }, 0, 0, LOCK_EFFECT_EXPIRES },
		{ { .leased = true, .lease_ms = 5 }, 0, 5, LOCK_EFFECT_EXPIRES },
	};
	struct pending_request *r = sent_take(f, &rule_by_connection, "worker-1");

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct rule rule = { .owner = OWNER_ADDRESS,
			             .max_lease_ms = rows[i].max_lease_ms };
		struct lock_call call = rows[i].call;
		struct lock_request *p;

		call.effect = rows[i].effect == LOCK_EFFECT_TAKES ? LOCK_EFFECT_TAKES
		                                                  : LOCK_EFFECT_EXPIRES;
		p = request_of(f, &call,
		               &(struct hold_terms){ .rule = &rule, .date_ms = 1000 });
		if (p->ends_ms != rows[i].ends_ms || p->effect != rows[i].effect)
			fail_msg("row %zu: %jd", i, (intmax_t)p->ends_ms);
		lock_request_free(p);
	}
	HOLD_ANSWER(f, r, "+OK\r\n");
}

/* The options are those of the rule; without a rule, those of [verbs]. */
TEST(the_section_s_options_are_kept)
{
	const struct rule lasting = { .owner = OWNER_ADDRESS,
		                      .on_disconnect = DISCONNECT_EXPIRE,
		                      .on_lost = LOST_LOG,
		                      .lease_ms = 1,
		                      .max_hold_ms = 2,
		                      .replicas_ack = 3,
		                      .replicas_ack_timeout_ms = 4 },
			  strict = { .owner = OWNER_CONNECTION,
		                     .on_disconnect = DISCONNECT_RELEASE,
		                     .on_lost = LOST_CLOSE,
		                     .lease_ms = 5,
		                     .max_hold_ms = 6,
		                     .replicas_ack = 7,
		                     .replicas_ack_timeout_ms = 8 };
	const struct verbs keeping = { .on_disconnect = DISCONNECT_EXPIRE,
		                       .on_lost = LOST_LOG,
		                       .lease_ms = 9,
		                       .max_hold_ms = 10,
		                       .replicas_ack = 11,
		                       .replicas_ack_timeout_ms = 12 },
			   closing = { .on_disconnect = DISCONNECT_RELEASE,
		                       .on_lost = LOST_CLOSE };
	const struct {
		struct hold_terms terms;
		bool shared_owner, ticket;
		bool exclusive, release, closes;
		int64_t lease_ms, max_hold_ms, replicas, timeout_ms;
	} rows[] = {
		{ { .rule = &lasting }, false, true, false, false, false, 1, 2, 3, 4 },
		{ { .rule = &strict }, true, true, true, true, true, 5, 6, 7, 8 },
		{ { .rule = &strict }, true, false, true, true, true, 5, 6, 0, 0 },
		{ { .verbs = &keeping }, true, true, false, false, false, 9, 10, 11, 12 },
		{ { .verbs = &closing }, false, true, true, true, true, 0, 0, 0, 0 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct lock_call call = { .effect = LOCK_EFFECT_TAKES,
			                  .shared_owner = rows[i].shared_owner,
			                  .ticket = rows[i].ticket ? SLICE_LIT("w")
			                                           : SLICE_NONE };
		struct lock_request *p = request_of(f, &call, &rows[i].terms);

		if (p->exclusive != rows[i].exclusive || p->release != rows[i].release ||
		    p->closes != rows[i].closes || p->default_lease_ms != rows[i].lease_ms ||
		    p->max_hold_ms != rows[i].max_hold_ms || p->replicas != rows[i].replicas ||
		    p->replicas_timeout_ms != rows[i].timeout_ms)
			fail_msg("row %zu", i);
		lock_request_free(p);
	}
}

/* hasp chooses a verb's lease; an application watches its own expiry, unless hasp renews
 * it. */
TEST(leases_that_hasp_answers_for_are_checked_if_late)
{
	static const struct {
		struct rule rule;
		enum lock_effect effect;
		bool leased, checked;
	} rows[] = {
		{ { .wait_ms = 0 }, LOCK_EFFECT_TAKES, false, true },
		{ { .wait_ms = 0 }, LOCK_EFFECT_TAKES, true, false },
		{ { .wait_ms = 5 }, LOCK_EFFECT_TAKES, true, true },
		{ { .renew = RENEW_YES }, LOCK_EFFECT_TAKES, true, true },
		{ { .renew = RENEW_NO }, LOCK_EFFECT_TAKES, true, false },
		{ { .renew = RENEW_UNLEASED }, LOCK_EFFECT_TAKES, true, false },
		{ { .wait_ms = 5 }, LOCK_EFFECT_EXPIRES, false, false },
		{ { .wait_ms = 5 }, LOCK_EFFECT_COUNTS, false, false },
		{ { .wait_ms = 5 }, LOCK_EFFECT_DROPS, false, false },
	};
	static const bool of_verbs[] = {
		[LOCK_EFFECT_TAKES] = true,
		[LOCK_EFFECT_COUNTS] = true,
		[LOCK_EFFECT_DROPS] = false,
		[LOCK_EFFECT_EXPIRES] = true,
	};
	struct pending_request *r = sent_take(f, &rule_by_connection, "worker-1");
	struct verbs verbs = { .lease_ms = 30000 };
	struct lock_request *p;

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct lock_call call = { .effect = rows[i].effect, .leased = rows[i].leased };

		p = request_of(f, &call, &(struct hold_terms){ .rule = &rows[i].rule });
		if (p->check_if_late != rows[i].checked)
			fail_msg("row %zu", i);
		lock_request_free(p);
		call.leased = true;
		p = request_of(f, &call, &(struct hold_terms){ .verbs = &verbs });
		assert_int_equal(p->check_if_late, of_verbs[rows[i].effect]);
		lock_request_free(p);
	}
	HOLD_ANSWER(f, r, "+OK\r\n");
}

TEST(a_request_and_its_hold_share_the_connection_s_token)
{
	struct token *token = token_new(SLICE_LIT("token"));
	struct lock_call call = { .effect = LOCK_EFFECT_TAKES, .success = LOCK_IF_OK };
	struct hold_terms terms = { .rule = &rule_by_connection,
		                    .token = token_slice(token),
		                    .shared = token };
	struct lock_request *p = request_of(f, &call, &terms);

	assert_int_equal(token->refs, 2);
	hold_apply(f->holds, &f->owner, p, 0, &(struct resp_reply){ .type = '+' });
	assert_int_equal(f->owner.n, 1);
	assert_int_equal(token->refs, 2);
	hold_owner_end(&f->owner, false);
	assert_int_equal(token->refs, 1);
	token_release(token);
}

TEST(its_memory_is_counted)
{
	struct lock_request *p = pending_take(f, &rule_by_address, "worker-1"), *mlock;
	/* Bytes of "lock", "token" and "worker-1". */
	size_t one = sizeof(*p) + sizeof(*p->keys) + 4 + 5 + 8;

	assert_int_equal(lock_request_nbytes(NULL), 0);
	assert_int_equal(lock_request_nbytes(p), one);
	p = lock_request_join(pending_take(f, &rule_by_address, "worker-2"), p);
	assert_int_equal(lock_request_nbytes(p), 2 * one);
	lock_request_free(p);
	mlock = pending_mlock(f);
	assert_int_equal(lock_request_nbytes(mlock),
	                 sizeof(*p) + 3 * sizeof(*p->keys) + 3 + 5 + 8 + sizeof(*mlock->parts));
	lock_request_free(mlock);
}

/* --- its state ----------------------------------------------------------------------- */

/* Redis, or a client that publishes as Redis does, may send answers that no script of hasp
 * sends. */
TEST(an_answer_that_does_not_fit_the_state_is_not_understood)
{
	struct lock_request *p = pending_take(f, &rule_by_address, "worker-1");
	struct slice line = SLICE_LIT("+QUEUED 1 2 3\r\n");
	int64_t n;

	assert_true(lock_request_queued(p, 0, &line));
	assert_false(lock_request_queued(p, 0, &line));
	assert_false(lock_request_refused(p, SLICE_LIT("+REFUSED 0 1 -"), &n));
	lock_request_locked(p);
	assert_int_equal(p->state, LOCK_REQUEST_QUEUED);
	lock_request_free(p);
}

TEST(a_reply_is_kept_once_until_it_is_fetched)
{
	struct lock_request *p = pending_take(f, &rule_by_address, "worker-1");
	struct resp_reply one = { .type = ':', .integer = 1 }, r = { 0 };

	assert_int_equal(lock_request_kept(p, &r).n, 0);
	assert_int_equal(r.type, 0);
	lock_request_keep(p, &one, SLICE_LIT(":1\r\n"));
	/* The reply may be kept again, for another reason. */
	lock_request_keep(p, &one, lock_request_kept(p, &r));
	assert_true(slice_eq(lock_request_kept(p, &r), SLICE_LIT(":1\r\n")));
	assert_int_equal(r.integer, 1);
	lock_request_free(p);
}

TEST(states_follow_each_other_as_the_diagram_says)
{
	/* clang-format off */
	/* to:                  SENT QUEUED GRANTED RETRIED UNDONE KEPT LOCKED REFUSED ABANDONED */
	static const bool allowed[LOCK_REQUEST_STATES][LOCK_REQUEST_STATES] = {
		[LOCK_REQUEST_SENT]      = { 0, 1, 0, 1, 1, 1, 1, 1, 1 },
		[LOCK_REQUEST_QUEUED]    = { 0, 0, 1, 1, 1, 1, 0, 0, 1 },
		[LOCK_REQUEST_GRANTED]   = { 0, 1, 0, 1, 1, 1, 0, 0, 1 },
		[LOCK_REQUEST_RETRIED]   = { 0, 1, 0, 1, 1, 1, 0, 0, 1 },
		[LOCK_REQUEST_UNDONE]    = { 0, 0, 0, 0, 0, 1, 0, 0, 1 },
		[LOCK_REQUEST_KEPT]      = { 0, 0, 0, 1, 0, 1, 0, 0, 1 },
		[LOCK_REQUEST_LOCKED]    = { 0, 0, 0, 0, 0, 0, 0, 0, 0 },
		[LOCK_REQUEST_REFUSED]   = { 0, 0, 0, 0, 0, 0, 0, 0, 0 },
		[LOCK_REQUEST_ABANDONED] = { 0, 0, 0, 0, 0, 0, 0, 0, 0 },
	};
	/* clang-format on */

	for (int from = 0; from < LOCK_REQUEST_STATES; from++)
		for (int to = 0; to < LOCK_REQUEST_STATES; to++)
			assert_int_equal(lock_request_allows((enum lock_request_state)from,
			                                     (enum lock_request_state)to),
			                 allowed[from][to]);
}

TEST(a_refused_release_names_the_key_and_its_holder)
{
	static const struct {
		struct slice line;
		int64_t n;
		uint32_t key; /* which key is refused; 0: the line is malformed */
		const char *holder;
	} rows[] = {
		{ SLICE_LIT("+REFUSED 0 1 -"), 0, 1, "-" },
		{ SLICE_LIT("+REFUSED 2 3 a token\r\n"), 2, 3, "a token" },
		{ SLICE_LIT("+REFUSED 2 3\r\n"), 2, 3, "" },
		{ SLICE_LIT("+REFUSED 0 0 -"), 0, 0, NULL },
		{ SLICE_LIT("+REFUSED 0 4 -"), 0, 0, NULL },
		{ SLICE_LIT("+REFUSED 0 x -"), 0, 0, NULL },
		{ SLICE_LIT("+REFUSED x 1 -"), 0, 0, NULL },
		{ SLICE_LIT("+REFUSED 0"), 0, 0, NULL },
		{ SLICE_LIT("+REFUSED"), 0, 0, NULL },
	};
	int64_t n;

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct lock_request *p = pending_mlock(f);

		buf_append(&p->answer, SLICE_LIT("earlier"));
		assert_int_equal(lock_request_refused(p, rows[i].line, &n), rows[i].key > 0);
		if (rows[i].key) {
			assert_int_equal(n, rows[i].n);
			assert_int_equal(p->refused, rows[i].key);
			assert_true(slice_is(buf_slice(&p->answer), rows[i].holder));
			assert_int_equal(p->state, LOCK_REQUEST_REFUSED);
			/* A refusal counts once. */
			assert_false(lock_request_refused(p, rows[i].line, &n));
		} else {
			assert_int_equal(p->state, LOCK_REQUEST_SENT);
		}
		lock_request_free(p);
	}
}

TEST(a_queued_mlock_waits_for_the_key_that_the_line_names)
{
	static const struct {
		struct slice line;
		size_t at; /* which key waits, from 1; 0: the line is malformed */
	} rows[] = {
		{ SLICE_LIT("+QUEUED 7 100 0 1\r\n"), 1 },
		{ SLICE_LIT("+QUEUED 7 100 0 3\r\n"), 3 },
		{ SLICE_LIT("+QUEUED 7 100 0 0\r\n"), 0 },
		{ SLICE_LIT("+QUEUED 7 100 0 4\r\n"), 0 },
		{ SLICE_LIT("+QUEUED 7 100 0 x\r\n"), 0 },
		{ SLICE_LIT("+QUEUED"), 0 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct lock_request *p = pending_mlock(f);
		struct slice line = rows[i].line;

		assert_int_equal(lock_request_queued(p, 0, &line), rows[i].at > 0);
		if (rows[i].at) {
			assert_true(slice_is(line, "+QUEUED 7 100 0"));
			assert_true(slice_eq(lock_request_key(p), p->keys[rows[i].at - 1]));
			assert_true(slice_eq(lock_request_attempt(p).id.key,
			                     p->keys[rows[i].at - 1]));
		}
		assert_int_equal(p->state,
		                 rows[i].at ? LOCK_REQUEST_QUEUED : LOCK_REQUEST_SENT);
		lock_request_free(p);
	}
}

TEST(a_queued_mlock_renews_the_locks_that_it_has)
{
	struct lock_request *p = pending_mlock(f);
	struct timers *timers = p->holds->timers;
	struct slice line = SLICE_LIT("+QUEUED 7 100 0 3\r\n");

	assert_true(lock_request_queued(p, 0, &line));
	assert_true(timers_first(timers) == HOLD_NOW + 20);
	timers_run(timers, HOLD_NOW + 20);
	assert_int_equal(fake_jobs_count("renew_verb"), 1);
	lock_request_free(p);
	assert_true(isinf(timers_first(timers)));
}

TEST(an_mlock_has_locks_once_it_has_one_or_may_have)
{
	static const bool has[LOCK_REQUEST_STATES] = {
		[LOCK_REQUEST_GRANTED] = true,
		[LOCK_REQUEST_RETRIED] = true,
		[LOCK_REQUEST_UNDONE] = true,
		[LOCK_REQUEST_KEPT] = true,
	};
	struct lock_request *p = pending_mlock(f),
			    *one = pending_take(f, &rule_by_address, "w");

	assert_false(parts_has(NULL));
	for (int i = 0; i < LOCK_REQUEST_STATES; i++) {
		p->state = one->state = (enum lock_request_state)i;
		assert_int_equal(parts_has(p), has[i]);
		assert_false(parts_has(one));
	}
	p->state = LOCK_REQUEST_SENT;
	p->parts->n = 1;
	assert_true(parts_has(p));
	p->parts->n = 0;
	assert_true(lock_request_is_multi(p));
	assert_false(lock_request_is_multi(one));
	assert_false(lock_request_is_multi(NULL));
	lock_request_free(p);
	lock_request_free(one);
}

TEST(a_retried_mlock_has_its_place_in_the_queue_once)
{
	static const struct {
		enum lock_request_state from, to;
		uint32_t place; /* which key has the place in the queue */
	} rows[] = {
		{ LOCK_REQUEST_SENT, LOCK_REQUEST_RETRIED, 2 },
		{ LOCK_REQUEST_QUEUED, LOCK_REQUEST_RETRIED, 2 },
		{ LOCK_REQUEST_KEPT, LOCK_REQUEST_RETRIED, 0 },
		{ LOCK_REQUEST_GRANTED, LOCK_REQUEST_GRANTED, 0 },
		{ LOCK_REQUEST_UNDONE, LOCK_REQUEST_UNDONE, 0 },
	};
	struct lock_request *p = pending_mlock(f);

	p->parts->at = 1;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		p->state = rows[i].from;
		assert_int_equal(parts_place_of(p, false), 0);
		assert_int_equal(p->state, rows[i].to);
		p->state = rows[i].from;
		assert_int_equal(parts_place_of(p, true), rows[i].place);
		assert_int_equal(p->state, rows[i].to);
	}
	p->state = LOCK_REQUEST_QUEUED;
	assert_int_not_equal(p->state, LOCK_REQUEST_UNDONE);
	parts_undo(p);
	assert_int_equal(p->state, LOCK_REQUEST_UNDONE);
	lock_request_free(p);
}

TEST(an_abandoned_call_releases_what_it_gets)
{
	struct lock_request *p = pending_take(f, &rule_by_address, "worker-1"),
			    *all = lock_request_join(pending_take(f, &rule_by_address, "w-2"),
	                                             p);

	p->release = all->release = false;
	lock_request_locked(p);
	lock_request_abandon(all);
	assert_true(p->release && all->release);
	assert_int_equal(p->state, LOCK_REQUEST_LOCKED);
	assert_int_equal(all->state, LOCK_REQUEST_ABANDONED);
	lock_request_free(all);
}

/* --- several locks by one call, and late answers -------------------------------------- */

TEST(of_joined_calls_the_shortest_lease_is_first)
{
	struct lock_request *all = NULL, *first, *added;
	static const struct {
		int64_t lease_ms, timeout_ms;
		int replicas;
		bool is_first;
	} rows[] = {
		{ 5000, 70, 0, true }, { 5000, 90, 2, true },  { 5001, 80, 1, false },
		{ 4999, 60, 3, true }, { 9000, 99, 4, false },
	};
	static const int most_replicas[] = { 0, 2, 2, 3, 4 };
	static const int64_t most_ms[] = { 70, 90, 90, 90, 99 };

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		added = pending_take(f, &rule_by_address, "worker-1");
		added->lease_ms = rows[i].lease_ms;
		added->replicas = rows[i].replicas;
		added->replicas_timeout_ms = rows[i].timeout_ms;
		first = all;
		all = lock_request_join(added, all);
		assert_ptr_equal(all, rows[i].is_first ? added : first);
		assert_int_equal(all->replicas, most_replicas[i]);
		assert_int_equal(all->replicas_timeout_ms, most_ms[i]);
		assert_int_equal(all->next != NULL, i > 0);
	}
	lock_request_free(all);
}

TEST(an_answer_is_late_after_a_tenth_of_the_lease)
{
	struct lock_request *p = pending_take(f, &rule_by_address, "worker-1");
	const struct resp_reply ok = { .type = '+' }, one = { .type = ':', .integer = 1 };

	p->check_if_late = true;
	p->sent_at = HOLD_NOW - 3;
	assert_false(lock_request_is_late(p));
	p->sent_at = HOLD_NOW - 3.01;
	assert_true(lock_request_is_late(p));
	p->sent_at = HOLD_NOW - 29.99;
	assert_false(lock_request_is_over(p));
	p->sent_at = HOLD_NOW - 30;
	assert_true(lock_request_is_over(p));
	assert_int_equal(lock_request_late(p, &one, false), LOCK_REQUEST_TELL);
	assert_int_equal(lock_request_late(p, &ok, false), LOCK_REQUEST_CONFIRM);
	p->effect = LOCK_EFFECT_EXPIRES;
	assert_int_equal(lock_request_late(p, &ok, false), LOCK_REQUEST_REPEAT);
	p->check_if_late = false;
	assert_false(lock_request_is_late(p));
	assert_false(lock_request_is_over(p));
	p->check_if_late = true;
	p->lease_ms = 0;
	assert_false(lock_request_is_over(p));
	lock_request_free(p);
	p = pending_mlock(f);
	p->sent_at = HOLD_NOW - 6;
	assert_int_equal(lock_request_late(p, &one, false), LOCK_REQUEST_TELL);
	p->replicas = 1;
	assert_int_equal(lock_request_late(p, &one, false), LOCK_REQUEST_CONFIRM);
	p->sent_at = HOLD_NOW - 6.1;
	assert_int_equal(lock_request_late(p, &one, false), LOCK_REQUEST_REPEAT);
	assert_int_equal(lock_request_late(p, &one, true), LOCK_REQUEST_CONFIRM);
	p->sent_at = HOLD_NOW - 30.1;
	assert_int_equal(lock_request_late(p, &one, true), LOCK_REQUEST_REPEAT);
	lock_request_free(p);
}

/* --- what is undone ------------------------------------------------------------------ */

TEST(a_try_that_was_not_answered_is_undone_by_its_ticket)
{
	HOLD_ANSWER(f, sent_select(&f->s, 3), "+OK\r\n");
	HOLD_ANSWER(f, sent_take(f, &rule_by_address, "worker-1"), "+OK\r\n");
	sent_take(f, &rule_by_address, "worker-2");
	hold_undo_awaited(f);
	assert_int_equal(fake_jobs_count("dequeue"), 1);
	assert_int_equal(fake_jobs_count("3 again dequeue "), 1);
	assert_int_equal(fake_jobs_count("worker-2"), 1);
	assert_int_equal(fake_jobs_count("undo"), 1);
	/* A second undo sends nothing. */
	hold_undo_awaited(f);
	assert_int_equal(fake_jobs_count("dequeue"), 1);
}

/* Another client may have the same token, or store the same value. */
TEST(by_its_ticket_a_try_of_any_owner_is_undone)
{
	sent_take(f, &rule_by_connection, "worker-1");
	sent_take(f, &rule_by_value, "worker-2");
	sent_take(f, &rule_by_address, "worker-3");
	HOLD_ANSWER(f, sent_take(f, &rule_by_connection, "worker-4"), "+OK\r\n");
	sent_take(f, &rule_by_connection, "worker-5");
	hold_undo_awaited(f);
	assert_int_equal(fake_jobs_count("dequeue"), 4);
	assert_int_equal(fake_jobs_count("worker-4"), 0);
}

TEST(tries_in_a_transaction_that_was_not_answered_are_undone)
{
	transaction_begin(&f->s.txn);
	sent_take(f, &rule_by_address, "worker-1");
	sent_other(&f->s);
	sent_take(f, &rule_by_address, "worker-2");
	/* Redis forgets commands that are only queued. */
	hold_undo_awaited(f);
	assert_int_equal(fake_jobs_count("dequeue"), 0);
	assert_non_null(sent_exec(&f->s));
	hold_undo_awaited(f);
	assert_int_equal(fake_jobs_count("dequeue"), 2);
}

TEST(in_a_database_that_is_not_known_nothing_is_undone)
{
	sent_select(&f->s, 3);
	session_make_opaque(&f->s);
	f->s.opaque = false;
	sent_take(f, &rule_by_address, "worker-1");
	hold_undo_awaited(f);
	assert_jobs("");
}

TEST(what_takes_no_lock_is_not_undone)
{
	struct lock_request *p;

	HOLD_ANSWER(f, sent_take(f, &rule_by_connection, "worker-1"), "+OK\r\n");
	p = pending_of(f, (struct lock_call){ .effect = LOCK_EFFECT_DROPS }, 1);
	assert_non_null(p);
	lock_request_undo(p, 0);
	lock_request_undo(NULL, 0);
	assert_jobs("");
}

/* --- for how long -------------------------------------------------------------------- */

/* Returns until when hasp undoes an attempt that was sent at HOLD_NOW. */
static double undone_until(struct hold_fixture *f, int64_t lease_ms, int64_t wait_ms)
{
	struct lock_call call = { .effect = LOCK_EFFECT_TAKES,
		                  .kind = LOCK_KIND_RULE,
		                  .lease_ms = lease_ms,
		                  .wait_ms = wait_ms,
		                  .ticket = SLICE_LIT("worker-1") };
	struct lock_request *p = pending_of(f, call, 1);

	lock_request_undo(p, 0);
	assert_int_equal(fake_jobs_count("dequeue"), 1);
	fake_jobs_clear();
	return fake_jobs_until();
}

TEST(a_try_is_undone_as_long_as_what_it_took_may_last)
{
	assert_float_equal(undone_until(f, 8000, 0), HOLD_NOW + 8, 0.001);
	assert_float_equal(undone_until(f, 8000, 4000), HOLD_NOW + 12, 0.001);
	/* The application gave the expiry as a date, so the rule's lease counts instead. */
	assert_float_equal(undone_until(f, 0, 0), HOLD_NOW + 30, 0.001);
}

TEST(since_a_grant_it_lasts_from_there)
{
	struct lock_request *p = pending_take(f, &rule_by_address, "worker-1");

	p->sent_at = HOLD_NOW + 7;
	lock_request_undo(p, 0);
	assert_float_equal(fake_jobs_until(), HOLD_NOW + 37, 0.001);
}

TEST(but_no_longer_than_an_hour)
{
	assert_float_equal(undone_until(f, INT64_MAX / 4, 0), HOLD_NOW + 3600, 0.001);
}
